package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
)

func (a *app) measureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "measure",
		Short: "Compute what a guest image will measure to, and write reference values",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.measureSNPCommand(), a.measureTDXCommand(), a.measureImageCommand())
	return cmd
}

type measureFlags struct {
	ovmf, ovmfHash, vcpuType, features, vmm, kernel, initrd, cmdline string
	agent, name, output                                              string
	vcpus                                                            int
}

func (a *app) measureSNPCommand() *cobra.Command {
	var f measureFlags
	cmd := &cobra.Command{
		Use:   "snp --ovmf FILE --vcpus N --vcpu-type TYPE",
		Short: "Compute the SEV-SNP launch digest (MEASUREMENT) of a guest",
		Long: `Compute the SEV-SNP launch digest (MEASUREMENT) of a guest.

The digest covers the firmware, the state of each virtual CPU, and, where the
firmware has a table for them, the kernel, initrd and command line. With -o json
the result is a list of reference values that ` + "`assay verify --expect`" + ` and policies take.`,
		Example: `  assay measure snp --ovmf OVMF.fd --vcpus 4 --vcpu-type EPYC-v4 --kernel vmlinuz --initrd initrd.img --append "console=ttyS0"
  assay measure snp --ovmf OVMF.fd --vcpus 1 --vcpu-type EPYC-Milan --kernel vmlinuz --initrd initrd.img --agent assay-agent -o json > guests.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.measureSNP(f, c.Flags().Changed("append")) },
	}
	f.machine(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.kernel, "kernel", "", "kernel `FILE` of a direct boot")
	fl.StringVar(&f.initrd, "initrd", "", "initrd `FILE` of a direct boot")
	fl.StringVar(&f.cmdline, "append", "", "kernel command line of a direct boot")
	fl.StringVar(&f.agent, "agent", "", "agent executable `FILE` inside the initrd, named in the reference value")
	fl.StringVarP(&f.output, "output", "o", "text", "text (the digest) or json (a list of reference values)")
	return cmd
}

// machine adds the flags that say how a VMM starts the guest.
func (f *measureFlags) machine(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.ovmf, "ovmf", "", "firmware image `FILE`")
	fl.StringVar(&f.ovmfHash, "ovmf-hash", "", "digest after the firmware's pages in `HEX`, where FILE is only its last pages")
	fl.IntVar(&f.vcpus, "vcpus", 1, "number of virtual CPUs")
	fl.StringVar(&f.vcpuType, "vcpu-type", "", "virtual CPU model: "+strings.Join(sevsnp.VCPUTypes(), ", "))
	fl.StringVar(&f.features, "features", "0x1", "SEV_FEATURES of the guest")
	fl.StringVar(&f.vmm, "vmm", string(sevsnp.QEMU), "hypervisor: qemu or ec2")
	fl.StringVar(&f.name, "name", "", "name of the guest in the reference value (default: the firmware's file name)")
}

func (a *app) measureSNP(f measureFlags, hasCmdline bool) error {
	var boot *sevsnp.DirectBoot
	if f.kernel != "" {
		boot = &sevsnp.DirectBoot{Cmdline: f.cmdline}
		var err error
		if boot.Kernel, err = files.Bounded(f.kernel, sevsnp.MaxKernel); err != nil {
			return err
		}
		if f.initrd != "" {
			if boot.Initrd, err = files.Bounded(f.initrd, sevsnp.MaxInitrd); err != nil {
				return err
			}
		}
	} else if f.initrd != "" || hasCmdline {
		return fmt.Errorf("--initrd and --append go with --kernel: without one the digest does not cover them")
	}
	digest, err := f.digest(boot)
	if err != nil {
		return err
	}
	switch f.output {
	case "text":
		fmt.Fprintf(a.stdout, "%x\n", digest)
		return nil
	case "json":
	default:
		return fmt.Errorf("output %q: want text or json", f.output)
	}
	var agent canon.Digest
	if f.agent != "" {
		exe, err := files.Bounded(f.agent, sevsnp.MaxInitrd)
		if err != nil {
			return err
		}
		agent = canon.Sum(exe)
	}
	b, err := f.references(digest, agent)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(b)
	return err
}

// digest computes MEASUREMENT of a guest with a kernel of its own, or without one.
func (f measureFlags) digest(boot *sevsnp.DirectBoot) ([48]byte, error) {
	var none [48]byte
	l := sevsnp.Launch{VCPUs: f.vcpus, VCPUType: f.vcpuType, VMM: sevsnp.VMM(f.vmm), Boot: boot}
	if f.ovmf == "" {
		return none, fmt.Errorf("--ovmf: want the firmware image")
	}
	var err error
	if l.OVMF, err = files.Bounded(f.ovmf, sevsnp.MaxOVMF); err != nil {
		return none, err
	}
	digits, ok := strings.CutPrefix(f.features, "0x")
	if l.Features, err = strconv.ParseUint(digits, 16, 64); err != nil || !ok {
		return none, fmt.Errorf("--features %q: want a number such as 0x1", f.features)
	}
	if f.ovmfHash != "" {
		b, err := hex.DecodeString(f.ovmfHash)
		if err != nil || len(b) != 48 {
			return none, fmt.Errorf("--ovmf-hash: want 96 hex digits")
		}
		l.OVMFHash = (*[48]byte)(b)
	}
	d, err := sevsnp.LaunchDigest(l)
	if errors.Is(err, sevsnp.ErrNoKernelHashes) {
		err = withHint(err, "build OVMF from OvmfPkg/AmdSev/AmdSevX64.dsc: it measures a table of kernel hashes and starts no other kernel")
	}
	return d, err
}

// references returns the list that holds one guest; a zero agent is left out.
func (f measureFlags) references(digest [48]byte, agent canon.Digest) ([]byte, error) {
	ref := attest.Reference{Format: sevsnp.Format, Guest: f.name, Measurement: digest[:], Agent: agent}
	if ref.Guest == "" {
		ref.Guest = filepath.Base(f.ovmf)
	}
	b, err := canon.Marshal(attest.References{
		Type: attest.ReferencesType, Name: ref.Guest, Values: []attest.Reference{ref},
		Source: fmt.Sprintf("assay measure snp: %d vcpus %s, features %s, vmm %s", f.vcpus, f.vcpuType, f.features, f.vmm),
	})
	if err != nil {
		return nil, err
	}
	return append(indent(b), '\n'), nil
}
