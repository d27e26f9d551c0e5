package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Limits on kernel modules.
const (
	MaxModule  = 16 << 20 // bytes of one module
	MaxModules = 256      // modules of an image, with all that they need
)

// Module is a kernel module, not compressed.
type Module struct {
	Name string // as the kernel names it, with underscores
	Data []byte
}

// GuestModules returns the names of the modules that an agent's guest wants: reports of both CPU TEEs, networks and disks
// of QEMU, Google and Amazon, and the files of QEMU's host. Azure's guests are measured by their paravisor, not so.
func GuestModules() []string {
	return []string{
		"configfs", "tsm", "sev_guest", "tdx_guest", // reports
		"tpm_tis", "tpm_crb", // TPM
		"virtio_pci", "virtio_net", "gve", "ena", // networks
		"virtio_blk", "virtio_scsi", "nvme", "sd_mod", // disks, read for the node's document alone
		"qemu_fw_cfg",
	}
}

// Modules returns the wanted modules with all that they depend on, each after what it needs: the order in which the
// kernel takes them. builtin is the kernel's modules.builtin; what it lists is left out. find returns a module by its
// name, false where the kernel has none; a wanted one that is nowhere is an error.
//
// Dependencies are those that a module itself names (`depends` in .modinfo). Soft dependencies are not followed: list
// what they name.
func Modules(wanted []string, builtin []byte, find func(name string) ([]byte, bool, error)) ([]Module, error) {
	s := selection{find: find, state: map[string]state{}}
	for line := range strings.Lines(string(builtin)) {
		if name := ModuleName(strings.TrimSuffix(line, "\n")); name != "" {
			s.state[name] = taken
		}
	}
	sorted := slices.Clone(wanted)
	slices.Sort(sorted)
	for _, name := range sorted {
		if err := s.take(ModuleName(name)); err != nil {
			return nil, fmt.Errorf("module %s: %w", name, err)
		}
	}
	return s.order, nil
}

type state int

const (
	open  state = iota + 1 // its dependencies are being taken
	taken                  // in order, or built in
)

type selection struct {
	find  func(string) ([]byte, bool, error)
	state map[string]state
	order []Module
}

func (s *selection) take(name string) error {
	switch s.state[name] {
	case taken:
		return nil
	case open:
		return fmt.Errorf("%s depends on itself", name)
	}
	s.state[name] = open
	data, ok, err := s.find(name)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s is neither built into this kernel nor among its modules (configfs-tsm came with Linux 6.7)", name)
	case len(data) > MaxModule:
		return fmt.Errorf("%s: %d bytes, at most %d", name, len(data), MaxModule)
	}
	needs, err := depends(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, need := range needs {
		if err := s.take(ModuleName(need)); err != nil {
			return err
		}
	}
	if len(s.order) == MaxModules {
		return fmt.Errorf("more than %d modules", MaxModules)
	}
	s.state[name] = taken
	s.order = append(s.order, Module{name, data})
	return nil
}

// ModuleName returns the name that the kernel gives to a module's file: the last element without its ending, dashes as
// underscores.
func ModuleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// depends reads the modules that a module names as its needs: `depends=a,b` among the NUL-ended texts of .modinfo.
func depends(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, errors.New("not an ELF object: modules must not be compressed")
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo: not a kernel module")
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf(".modinfo: %w", err)
	}
	for _, text := range bytes.Split(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(text, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(string(list), ","), nil
		}
	}
	return nil, nil
}
