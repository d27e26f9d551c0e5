package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
)

// noDevice is the word for leaving a device alone.
const noDevice = "none"

// nvidiaControl is there where NVIDIA's driver is loaded.
const nvidiaControl = "/dev/nvidiactl"

// gpuCommandName names the hidden command that asks the GPU driver, in a process of its own.
const gpuCommandName = "ask-gpus"

// deviceFlags say where the machine's devices are.
type deviceFlags struct {
	tsm string
	tpm device.TPMConfig // Device empty: the default, where there is no CPU TEE

	nvml     string // library; empty: the linker's, where a driver is loaded and this build has NVML
	switches string
}

func addDeviceFlags(c *cobra.Command) *deviceFlags {
	f := &deviceFlags{}
	c.Flags().StringVar(&f.tsm, "tsm", device.DefaultTSM, "root of configfs-tsm")
	c.Flags().StringVar(&f.tpm.Device, "tpm", "", "TPM: a device, `unix:SOCKET`, or none (default: "+device.DefaultTPM+" where there is no CPU TEE)")
	c.Flags().StringVar(&f.tpm.EventLog, "event-log", device.DefaultEventLog, "boot log of the TPM")
	c.Flags().StringVar(&f.tpm.IMA, "ima", device.DefaultIMA, "the kernel's list of files that it read")
	c.Flags().StringVar(&f.nvml, "nvml", "", "library of NVIDIA's driver: a `PATH`, or none (default: libnvidia-ml.so.1 where the driver is loaded and this build has NVML)")
	c.Flags().StringVar(&f.switches, "switches", "", "`COMMAND` that prints NVIDIA's evidence file of the switches; {nonce} in it is replaced")
	return f
}

// wantsGPUs reports whether GPUs are to be asked.
func (f *deviceFlags) wantsGPUs() bool {
	if f.nvml != "" {
		return f.nvml != noDevice
	}
	return device.HasNVML && f.driver()
}

// driver reports whether NVIDIA's driver is loaded.
func (f *deviceFlags) driver() bool {
	_, err := os.Stat(nvidiaControl)
	return err == nil
}

// openGPUs returns the GPUs that are to be asked, if any are.
func (f *deviceFlags) openGPUs() (*device.GPUs, bool) {
	if !f.wantsGPUs() {
		return nil, false
	}
	return device.OpenGPUs(device.GPUConfig{
		Command:  []string{device.DefaultExecutable, gpuCommandName, "--nvml=" + f.nvml, "--"},
		Switches: strings.Fields(f.switches),
	}), true
}

// gpus is openGPUs for an agent, which wants nil where there are none.
func (f *deviceFlags) gpus() agent.GPUs {
	if g, ok := f.openGPUs(); ok {
		return g
	}
	return nil
}

// gpuCommand is the process that [device.GPUs] starts.
func gpuCommand() *cobra.Command {
	c := &cobra.Command{Use: gpuCommandName, Hidden: true, Short: "Ask the GPU driver one question, for the agent"}
	path := c.Flags().String("nvml", "", "library")
	c.RunE = func(c *cobra.Command, args []string) error {
		err := device.AnswerGPU(device.OpenNVML(*path), args, c.OutOrStdout())
		if err != nil {
			fmt.Fprintln(c.ErrOrStderr(), err) // the agent that asked says the rest
			return failure{err, exitRejected, ""}
		}
		return nil
	}
	return c
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
	case config.Device == noDevice, config.Device == "" && f.tee():
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
