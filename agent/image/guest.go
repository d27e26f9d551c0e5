package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// Where the guest's agent finds what the image holds for it.
const (
	PinsPath    = "etc/assay/pins.json"               // whom it believes; absent: the host says
	ModulesPath = "etc/assay/modules"                 // kernel modules in the order of loading, a path from the root a line
	RootsPath   = "etc/ssl/certs/ca-certificates.crt" // roots of TLS, where Go looks for them on Linux
)

// Guest is all that an image of the agent holds beside the kernel. There is nothing else in it: no shell, no login, no
// second program that could ask for a report.
type Guest struct {
	Agent   []byte // static executable, the guest's init
	Pins    []byte // document of pins; nil: none
	Roots   []byte // certificates (PEM); nil: none, and the agent reaches no server over TLS
	Modules []Module
}

// Initrd returns the archive of the guest: a function of its fields.
func (g Guest) Initrd() ([]byte, error) {
	if err := static(g.Agent); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	files := []File{{Path: initPath, Executable: true, Data: g.Agent}}
	for _, dir := range []string{"dev/", "proc/", "sys/", "run/"} { // what the agent mounts upon
		files = append(files, File{Path: dir})
	}
	if g.Pins != nil {
		files = append(files, File{Path: PinsPath, Data: g.Pins})
	}
	if g.Roots != nil {
		files = append(files, File{Path: RootsPath, Data: g.Roots})
	}
	var order strings.Builder
	for _, m := range g.Modules {
		path := "lib/modules/" + m.Name + ".ko"
		fmt.Fprintln(&order, path)
		files = append(files, File{Path: path, Data: m.Data})
	}
	files = append(files, File{Path: ModulesPath, Data: []byte(order.String())})
	return Initrd(files)
}

// static refuses a program that needs an interpreter or libraries: the image has none, and the kernel would find no init.
func static(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return errors.New("not an ELF executable")
	}
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return fmt.Errorf("executable for %s, want x86-64", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("dynamically linked, and the image has no loader: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
