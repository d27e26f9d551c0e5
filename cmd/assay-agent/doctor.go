package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine could prove and what is missing",
		Long: `Looks at everything that the agent needs, one line each: ok or missing, and below what is missing how to fix it. Then it
names the hardware level in reach: H0 self-reported, H2 CPU TEE attested, H3 CPU and GPU attested; a TPM alone shows whose
hardware it is and what was booted, and keeps nobody out. The end says which tier of providers the hardware reaches, and
what the next one asks more. It takes evidence and throws it away. It exits 0 whatever it finds: finding out is its job.`,
		Example: "  assay-agent doctor",
		Args:    cobra.NoArgs,
	}
	state, devices := stateFlag(c), addDeviceFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d := doctor{c.OutOrStdout()}
		tee := d.tee(devices.tsm)
		d.tpm(devices)
		gpus := d.gpus(devices)
		d.host()
		d.joined(c.Context(), *state)
		level := "H0 self-reported"
		switch {
		case tee && gpus:
			level = "H3 CPU and GPU attested"
		case tee:
			level = "H2 CPU TEE attested"
		}
		return d.reach(level, tee)
	}
	return c
}

type doctor struct{ out io.Writer }

func (d doctor) ok(what, format string, args ...any) {
	fmt.Fprintf(d.out, "ok       %-14s %s\n", what, fmt.Sprintf(format, args...))
}

func (d doctor) missing(what string, why error, fix string) {
	fmt.Fprintf(d.out, "missing  %-14s %v\n", what, why)
	fmt.Fprintf(d.out, "         fix: %s\n", fix)
}

// reach says which tier of providers the hardware reaches, and what the next one asks more.
func (d doctor) reach(level string, tee bool) error {
	reached, next := agent.Reach(tee)
	things := "things are"
	if len(next.Asks) == 1 {
		things = "thing is"
	}
	fmt.Fprintf(d.out, "hardware level in reach: %s\n", level)
	for _, a := range next.Asks {
		fmt.Fprintf(d.out, "asked    %-14s %s\n", a.Criterion, a.Words)
	}
	_, err := fmt.Fprintf(d.out, "this host reaches `%s`; for `%s` %d %s missing\n", reached.Name, next.Name, len(next.Asks), things)
	return err
}

// tee looks for a CPU TEE that this build can speak for. The first thing missing hides what rests on it.
func (d doctor) tee(root string) bool {
	if _, err := os.Stat(root); err != nil {
		d.missing("configfs-tsm", err, "mount -t configfs none /sys/kernel/config, with Linux 6.7 or newer and CONFIG_TSM_REPORTS")
		return false
	}
	if _, err := os.Stat(filepath.Join(root, "report")); err != nil {
		d.missing("configfs-tsm", err, "load the driver of the guest: modprobe sev-guest, or tdx-guest")
		return false
	}
	d.ok("configfs-tsm", "%s", root)
	t := device.OpenTSM(root)
	s, err := t.Status()
	if err != nil {
		d.missing("provider", err, "start this machine as an SEV-SNP or TDX guest, load its driver, and run as root")
		return false
	}
	switch s.Provider {
	case device.ProviderSEV:
		d.ok("provider", "%s, VMPL %d", s.Provider, s.Floor)
	case device.ProviderTDX:
		d.ok("provider", "%s", s.Provider)
	default:
		d.missing("provider", fmt.Errorf("%q is not known to this build", s.Provider), "use an SEV-SNP or TDX guest, or a newer agent")
		return false
	}
	var data [attest.ReportDataSize]byte
	if _, err := rand.Read(data[:]); err != nil {
		d.missing("report", err, "the kernel gives no randomness")
		return false
	}
	c, err := t.Take(data[:])
	if err != nil {
		d.missing("report", err, "the firmware or the host refuses reports: look into the kernel's log for "+s.Provider)
		return false
	}
	if quote, ok := c.Part(tdx.PartQuote); ok {
		d.ok("quote", "%d bytes", len(quote))
		return true
	}
	report, _ := c.Part(sevsnp.PartReport)
	d.ok("report", "%d bytes", len(report))
	if table, ok := c.Part(sevsnp.PartCertificates); ok {
		d.ok("certificates", "table of %d bytes from the host", len(table))
	} else {
		d.ok("certificates", "none from the host: the verifier asks AMD")
	}
	return true
}

// tpm looks at the TPM that the agent would use, and at the logs that say what was measured into it.
func (d doctor) tpm(devices *deviceFlags) {
	t, ok := devices.openTPM()
	if !ok {
		why := "there is none at " + device.DefaultTPM
		if devices.tpm.Device == noDevice || devices.tee() {
			why = "left alone: name one with --tpm to show it too"
		}
		d.ok("TPM", "%s", why)
		return
	}
	epoch, err := t.Epoch()
	if err != nil {
		d.missing("TPM", err, "let this program read and write the TPM: run as root, or as a member of the group tss")
		return
	}
	d.ok("TPM", "%s", epoch)
	e, err := t.Endorsement()
	if err != nil {
		d.missing("TPM keys", err, "clear the passwords of the owner and endorsement hierarchies, or take the TPM's own keys away")
		return
	}
	if len(e.Certificate) == 0 {
		d.missing("EK certificate", errors.New("the maker put none into the TPM"), "use a TPM whose maker certifies its keys: a verifier cannot tell this one from a program")
	} else {
		d.ok("EK certificate", "%d bytes", len(e.Certificate))
	}
	c, err := t.Take(make([]byte, 32))
	if err != nil {
		d.missing("TPM quote", err, "have the TPM's bank of SHA-256 active: the firmware's setup chooses it")
		return
	}
	quote, _ := c.Part(tpm.PartQuote)
	d.ok("TPM quote", "%d bytes", len(quote))
	if log, ok := c.Part(tpm.PartEventLog); ok {
		d.ok("boot log", "%d bytes", len(log))
	} else {
		d.missing("boot log", errors.New("no such file, or empty"), "mount -t securityfs none /sys/kernel/security, or name the log with --event-log")
	}
	list, whole := c.Part(tpm.PartIMA)
	switch _, long := c.Part(tpm.PartIMADigest); {
	case whole:
		d.ok("file list", "%d bytes", len(list))
	case long:
		d.missing("file list", fmt.Errorf("more than %d bytes", device.MaxIMAInBundle), "measure fewer files, or restart this machine: a list beyond that is not sent")
	default:
		d.missing("file list", errors.New("no such file, or empty"), "boot with ima_policy=tcb, or name the list with --ima")
	}
}

// gpus looks at the GPUs that the agent would ask. On confidential ones it takes reports, under a nonce that nobody asked for,
// and reports whether there are some and all are NVIDIA's.
func (d doctor) gpus(devices *deviceFlags) bool {
	g, ok := devices.openGPUs()
	switch {
	case !ok && devices.nvml == noDevice:
		d.ok("GPU", "left alone")
		return false
	case !ok && !devices.driver():
		d.ok("GPU", "no driver of NVIDIA's is loaded")
		return false
	case !ok || !device.HasNVML:
		d.missing("GPU", device.ErrNoNVML, "CGO_ENABLED=1 go build -tags nvml ./cmd/assay-agent")
		return false
	}
	s, err := g.Status()
	if err != nil {
		d.missing("GPU", err, "install NVIDIA's driver, load it, and run as root: nvidia-smi must list the GPUs")
		return false
	}
	for i, gpu := range s.GPUs {
		d.ok(fmt.Sprintf("GPU %d", i), "%s, %s, driver %s", gpu.Name, gpu.UUID, gpu.Driver)
	}
	if s.NVML == nil || s.NVML.CCFeature == 0 && s.NVML.MultiGPUMode == 0 {
		d.missing("GPU reports", errors.New("CC off"), "start this machine with the GPUs in confidential mode: the host sets it with nvidia_gpu_tools.py --set-cc-mode=on")
		return false
	}
	n := s.NVML
	d.ok("GPU settings", "capable %d, environment %d, CC %d, DevTools %d, multi-GPU mode %d", n.Capable, n.Environment, n.CCFeature, n.DevToolsMode, n.MultiGPUMode)
	var nonce canon.Digest
	if _, err := rand.Read(nonce[:]); err != nil {
		d.missing("GPU reports", err, "the kernel gives no randomness")
		return false
	}
	e, err := g.Take(nonce)
	if err != nil {
		d.missing("GPU reports", err, "the driver refuses reports: look into the kernel's log for NVRM, and restart the machine")
		return false
	}
	roots, err := attest.NewRoots(nvidia.VendorRoots()...)
	if err != nil {
		d.missing("GPU reports", err, "use another build of the agent")
		return false
	}
	all := len(e.Components) > 0
	for _, c := range e.Components {
		var unused claim.Set
		f := nvidia.Appraise(c, c.Label, &attest.Case{Roots: roots, At: canon.At(time.Now())}, attest.Asked{ReportData: nonce[:]}, &unused)
		if len(f.Identities) == 0 {
			d.missing(c.Label, errors.New("its certificates are not NVIDIA's"), "a verifier will refuse it: assay verify says why")
			all = false
			continue
		}
		d.ok(c.Label, "%s", f.Identities[0])
	}
	return all
}

func (d doctor) host() {
	if boot, err := device.BootID(device.DefaultBootID); err != nil {
		d.missing("boot id", err, "mount -t proc none /proc")
	} else {
		d.ok("boot id", "%s", boot)
	}
	if self, err := device.Executable(device.DefaultExecutable); err != nil {
		d.missing("executable", err, "mount -t proc none /proc")
	} else {
		d.ok("executable", "SHA-256 %s", self)
	}
}

func (d doctor) joined(ctx context.Context, state string) {
	node, err := agent.OpenStore(state).Node()
	if err != nil {
		d.missing("node", err, "assay-agent join URL --token-file FILE")
		return
	}
	d.ok("node", "%s of %s", node.Node, node.Origin)
	d.stream(agent.OpenStore(state), node.Node)
	server, err := client.New(client.Config{URL: node.Origin})
	if err == nil {
		var h client.Health
		if h, err = server.Health(ctx); err == nil {
			d.ok("server", "%s, log of %d entries", h.Status, h.Size)
			return
		}
	}
	d.missing("server", err, "let this machine reach "+node.Origin)
}

// stream says whether the log has kept its word to this node, as far as its rounds have seen.
func (d doctor) stream(store agent.Store, node string) {
	s, err := store.Stream(node)
	switch {
	case err != nil:
		d.missing("log", err, "remove "+store.StreamPath()+": the node goes on without what it remembers")
	case len(s.Faults) > 0:
		last := s.Faults[len(s.Faults)-1]
		d.missing("log", fmt.Errorf("%d faults of the log, the last seen at %s: %s", len(s.Faults), last.At, last.What),
			"show "+store.StreamPath()+" to who audits this log: it holds the proof")
	default:
		d.ok("log", "%d promises kept, %d not seen kept yet, %d entries covered by heads", s.Kept, len(s.Held), s.Covered)
	}
}
