package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/image"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
)

// Limits on what an image is made of.
const (
	maxBuiltin = 1 << 20 // bytes of modules.builtin
	maxCA      = 4 << 20 // bytes of the roots of TLS
)

// guestCmdline: words on the serial line, and a panic ends the guest.
const guestCmdline = "console=ttyS0 panic=-1"

// Names of what an image is written as.
const (
	fileKernel  = "vmlinuz"
	fileInitrd  = "initrd"
	fileCmdline = "cmdline"
	filePins    = "pins.json"
	fileGuests  = "guests.json"
)

// imageFiles are all that a build may write, the list of reference values last: where it stands, the image is whole.
var imageFiles = []string{fileKernel, fileInitrd, fileCmdline, filePins, fileGuests}

type imageFlags struct {
	measureFlags
	modules, pins, ca, out string
	wanted                 []string
}

func (a *app) measureImageCommand() *cobra.Command {
	var f imageFlags
	cmd := &cobra.Command{
		Use:   "image --agent FILE --kernel FILE --modules DIR --out DIR",
		Short: "Build the image of a guest whose only program is the agent, and measure it",
		Long: `Build the image of a guest whose only program is the agent, and measure it.

Writes vmlinuz, initrd and cmdline into the folder of --out: the same inputs give
the same bytes. With --pins the image believes that verifier alone, and pins.json
is written beside it; the file is the node.json of any node of the verifier (its id
and credential are left out) or such a pins.json. Which node a guest is comes from
its host: -fw_cfg name=opt/assay-network/node,file=node.json, or a raw disk.

With --ovmf it prints the SEV-SNP launch digest and writes guests.json, a list of
reference values. What a TDX guest extends into RTMR1 and RTMR2 is printed as an
expectation: no TDX machine has shown it for this image.`,
		Example: "  assay measure image --agent assay-agent --kernel vmlinuz --modules /lib/modules/6.12.0 --ovmf OVMF.fd --vcpus 4 --vcpu-type EPYC-Milan --out guest",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.measureImage(f) },
	}
	f.machine(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "static agent executable `FILE` (required)")
	fl.StringVar(&f.kernel, "kernel", "", "kernel `FILE` with an EFI stub (required)")
	fl.StringVar(&f.modules, "modules", "", "folder of the kernel's modules, with modules.builtin (required)")
	fl.StringSliceVar(&f.wanted, "module", image.GuestModules(), "modules to take, with all that they need")
	fl.StringVar(&f.pins, "pins", "", "node.json or pins.json `FILE` of the verifier to believe (default: whom the host names)")
	fl.StringVar(&f.ca, "ca", "", "certificates `FILE` (PEM) that TLS rests on (default: none)")
	fl.StringVar(&f.cmdline, "append", guestCmdline, "kernel command line")
	fl.StringVar(&f.out, "out", "", "folder to write to (required)")
	for _, name := range []string{"agent", "kernel", "modules", "out"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic("assay: internal error: " + err.Error())
		}
	}
	return cmd
}

func (a *app) measureImage(f imageFlags) error {
	kernel, err := files.Bounded(f.kernel, sevsnp.MaxKernel)
	if err != nil {
		return err
	}
	g, believes, err := f.guest()
	if err != nil {
		return err
	}
	initrd, err := g.Initrd()
	if err != nil {
		return err
	}
	files := map[string][]byte{fileKernel: kernel, fileInitrd: initrd, fileCmdline: []byte(f.cmdline)}
	if g.Pins != nil {
		files[filePins] = g.Pins
	}
	var text bytes.Buffer
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&text, "%-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	agentDigest := canon.Sum(g.Agent)
	line("kernel", "SHA-256 %s, %d bytes", canon.Sum(kernel), len(kernel))
	line("initrd", "SHA-256 %s, %d bytes", canon.Sum(initrd), len(initrd))
	line("cmdline", "%q", f.cmdline)
	line("agent", "SHA-256 %s", agentDigest)
	line("modules", "%d", len(g.Modules))
	line("verifier", "%s", believes)
	if g.Roots == nil {
		line("TLS roots", "none: the agent reaches no server")
	} else {
		line("TLS roots", "SHA-256 %s", canon.Sum(g.Roots))
	}
	if f.ovmf != "" {
		d, err := f.digest(&sevsnp.DirectBoot{Kernel: kernel, Initrd: initrd, Cmdline: f.cmdline})
		if err != nil {
			return err
		}
		line("SEV-SNP", "MEASUREMENT %x (%d vCPUs %s, features %s, vmm %s)", d, f.vcpus, f.vcpuType, f.features, f.vmm)
		if files[fileGuests], err = f.references(d, agentDigest); err != nil {
			return err
		}
	}
	f.tdx(line, kernel, initrd)
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	// What an earlier build left and this one does not make would speak of another image.
	for _, name := range imageFiles {
		if err := os.Remove(filepath.Join(f.out, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, name := range imageFiles {
		data, ok := files[name]
		if !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(f.out, name), data, 0o644); err != nil {
			return err
		}
	}
	_, err = a.stdout.Write(text.Bytes())
	return err
}

// tdx prints what a TDX guest is expected to extend, and how far that is known.
func (f imageFlags) tdx(line func(what, format string, args ...any), kernel, initrd []byte) {
	boot := image.TDXBoot{Kernel: kernel, Initrd: initrd, Cmdline: f.cmdline, InitrdFirst: true}
	events, err := boot.Events()
	if err != nil {
		line("TDX", "not computed: %v", err)
		return
	}
	line("TDX", "expected, not compared with a TDX machine: QEMU 10 or newer, OVMF edk2-stable202505 or newer, direct boot")
	for _, e := range events {
		line(fmt.Sprintf("  RTMR%d", e.Register), "%x %s. %s", e.Digest, e.What, e.Rule)
	}
	line("TDX", "RTMR1 %x, RTMR2 %x if these events alone are extended", image.Replay(events, 1), image.Replay(events, 2))
	boot.InitrdFirst = false
	if events, err = boot.Events(); err == nil {
		line("TDX", "RTMR2 %x where OVMF names the initrd behind the command line", image.Replay(events, 2))
	}
	line("TDX", "MRTD and RTMR0 depend on firmware, VMM and devices: list what a machine that you trust reports")
}

// guest reads what the image holds, and says in words whom it believes.
func (f imageFlags) guest() (g image.Guest, believes string, err error) {
	believes = "none: the host names one (--pins binds the image to its verifier)"
	if g.Agent, err = files.Bounded(f.agent, sevsnp.MaxInitrd); err != nil {
		return g, "", err
	}
	if f.ca != "" {
		if g.Roots, err = files.Bounded(f.ca, maxCA); err != nil {
			return g, "", err
		}
	}
	if f.pins != "" {
		p, err := readPins(f.pins)
		if err != nil {
			return g, "", err
		}
		if g.Pins, err = canon.Marshal(p); err != nil {
			return g, "", err
		}
		believes = p.Origin
	}
	builtin, err := files.Bounded(filepath.Join(f.modules, "modules.builtin"), maxBuiltin)
	if err != nil {
		return g, "", err
	}
	byName := map[string]string{}
	err = filepath.WalkDir(f.modules, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.Contains(e.Name(), ".ko") {
			byName[image.ModuleName(e.Name())] = path
		}
		return err
	})
	if err != nil {
		return g, "", err
	}
	g.Modules, err = image.Modules(f.wanted, builtin, func(name string) ([]byte, bool, error) {
		path, ok := byName[name]
		if !ok {
			return nil, false, nil
		}
		data, err := readModule(path)
		return data, true, err
	})
	return g, believes, err
}

// readModule reads a module, also one that is compressed as distributions do, by the usual program.
func readModule(path string) ([]byte, error) {
	program, ok := map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}[filepath.Ext(path)]
	if !ok {
		return files.Bounded(path, image.MaxModule)
	}
	data, err := exec.Command(program, "--decompress", "--stdout", "--quiet", path).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", path, program, err)
	}
	return data, nil
}

// readPins takes the verifier from a document of pins, or from the node that it gave its credential to.
func readPins(name string) (agent.Pins, error) {
	data, err := files.Bounded(name, agent.MaxState)
	if err != nil {
		return agent.Pins{}, err
	}
	p, pinsErr := agent.ParsePins(data)
	if pinsErr == nil {
		return p, nil
	}
	n, err := agent.ParseNode(data)
	if err != nil {
		return p, fmt.Errorf("%s: neither pins nor a node: %w", name, errors.Join(pinsErr, err))
	}
	return n.Pins(), nil
}
