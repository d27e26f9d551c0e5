package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
)

// noTPM is the word for leaving the TPM alone.
const noTPM = "none"

// deviceFlags say where the machine's devices are.
type deviceFlags struct {
	tsm string
	tpm device.TPMConfig // Device empty: the default, where there is no CPU TEE
}

func addDeviceFlags(c *cobra.Command) *deviceFlags {
	f := &deviceFlags{}
	c.Flags().StringVar(&f.tsm, "tsm", device.DefaultTSM, "root of configfs-tsm")
	c.Flags().StringVar(&f.tpm.Device, "tpm", "", "TPM: a device, `unix:SOCKET`, or none (default: "+device.DefaultTPM+" where there is no CPU TEE)")
	c.Flags().StringVar(&f.tpm.EventLog, "event-log", device.DefaultEventLog, "boot log of the TPM")
	c.Flags().StringVar(&f.tpm.IMA, "ima", device.DefaultIMA, "the kernel's list of files that it read")
	return f
}

// tee reports whether the kernel gives out reports of a CPU TEE.
func (f *deviceFlags) tee() bool {
	_, err := os.Stat(filepath.Join(f.tsm, "report"))
	return err == nil
}

// openTPM returns the TPM that is to be used, if one is. A TPM beside a CPU TEE is used only where it was asked for: a
// verifier that does not know its maker could not accept the evidence.
func (f *deviceFlags) openTPM() (device.TPM, bool) {
	config := f.tpm
	switch {
	case config.Device == noTPM, config.Device == "" && f.tee():
		return device.TPM{}, false
	case config.Device == "":
		config.Device = device.DefaultTPM
		if _, err := os.Stat(config.Device); errors.Is(err, fs.ErrNotExist) {
			return device.TPM{}, false
		}
	}
	return device.OpenTPM(config), true
}

// open returns the devices that take evidence. Without any, it is the CPU TEE that says what is missing.
func (f *deviceFlags) open() (devices []agent.Device) {
	tpm, ok := f.openTPM()
	if f.tee() || !ok {
		devices = append(devices, device.OpenTSM(f.tsm))
	}
	if ok {
		devices = append(devices, tpm)
	}
	return devices
}
