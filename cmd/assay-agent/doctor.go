package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine could prove and what is missing",
		Long: `Looks at everything that the agent needs, one line each: ok or missing, and below what is missing how to fix it. The
last line names the hardware tier in reach: H0 self-reported, H2 CPU TEE attested. It takes a report and throws it away.
It exits 0 whatever it finds: finding out is its job.`,
		Args: cobra.NoArgs,
	}
	state, tsm := stateFlag(c), tsmFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d := doctor{c.OutOrStdout()}
		tier := "H0 self-reported"
		if d.tee(*tsm) {
			tier = "H2 CPU TEE attested"
		}
		d.host()
		d.joined(c.Context(), *state)
		_, err := fmt.Fprintf(d.out, "hardware tier in reach: %s\n", tier)
		return err
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

// tee looks for a CPU TEE that this build can speak for. The first thing missing hides what rests on it.
func (d doctor) tee(root string) bool {
	if _, err := os.Stat(root); err != nil {
		d.missing("configfs-tsm", err, "mount -t configfs none /sys/kernel/config, with Linux 6.7 or newer and CONFIG_TSM_REPORTS")
		return false
	}
	if _, err := os.Stat(filepath.Join(root, "report")); err != nil {
		d.missing("configfs-tsm", err, "load the driver of the guest: modprobe sev-guest")
		return false
	}
	d.ok("configfs-tsm", "%s", root)
	t := device.OpenTSM(root)
	s, err := t.Status()
	if err != nil {
		d.missing("provider", err, "start this machine as a SEV-SNP guest, load sev-guest, and run as root")
		return false
	}
	if s.Provider != device.ProviderSEV {
		d.missing("provider", fmt.Errorf("%q is not known to this build", s.Provider), "use a SEV-SNP guest, or a newer agent")
		return false
	}
	d.ok("provider", "%s, VMPL %d", s.Provider, s.Floor)
	var data [attest.ReportDataSize]byte
	if _, err := rand.Read(data[:]); err != nil {
		d.missing("report", err, "the kernel gives no randomness")
		return false
	}
	c, err := t.Seal(data)
	if err != nil {
		d.missing("report", err, "the firmware or the host refuses reports: look into the kernel's log for sev-guest")
		return false
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
		d.missing("node", err, "assay-agent join URL --token SECRET.FINGERPRINT")
		return
	}
	d.ok("node", "%s of %s", node.Node, node.Origin)
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
