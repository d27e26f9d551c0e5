// Package device is where the agent touches the machine: the report interface of the kernel's Trusted Security Manager
// (configfs-tsm), the TPM with its logs, NVIDIA's driver, the boot id, its own executable.
//
// The root of configfs-tsm is a setting, so that a test's file system can stand in for the kernel; [NewTSM] also takes
// any configfsi.Client, so that a demonstration needs no file system at all. What is read is returned as received:
// judging it is the verifier's part, and a host that lies is found out there.
//
// The binding of NVIDIA's library takes cgo, and stands here alone, under the build tag nvml. Without it every question to
// GPUs is answered by [ErrNoNVML].
package device

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/go-configfs-tsm/configfs/configfsi"
	"github.com/google/go-configfs-tsm/report"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
)

// DefaultTSM is where Linux shows configfs-tsm (Documentation/ABI/testing/configfs-tsm-report).
const DefaultTSM = configfsi.TsmPrefix

// The kernel's names of its guest drivers.
const (
	// ProviderSEV is that for SEV-SNP: its outblob is an attestation report, its auxblob the certificate table of the GHCB
	// specification, section 4.1.8.1.
	ProviderSEV = "sev_guest"
	// ProviderTDX is that for TDX: its outblob is a quote.
	ProviderTDX = "tdx_guest"
)

// TSM asks the kernel for attestation reports. It is safe for concurrent use: every report has an entry of its own.
type TSM struct {
	client configfsi.Client
}

// OpenTSM returns the TSM under a root folder, [DefaultTSM] on a real machine. It touches nothing yet.
func OpenTSM(root string) TSM { return NewTSM(tree(root)) }

// NewTSM returns the TSM that a client speaks for.
func NewTSM(client configfsi.Client) TSM { return TSM{client} }

// Status is what the kernel says of its provider before any report is asked for.
type Status struct {
	Provider string // sev_guest, tdx_guest, ...
	Floor    uint   // lowest privilege level (VMPL) that it gives reports for
}

// Status makes an entry, reads it and removes it.
func (t TSM) Status() (s Status, err error) {
	r, err := report.CreateOpenReport(t.client)
	if err != nil {
		return s, fmt.Errorf("configfs-tsm: %w", err)
	}
	defer func() { err = errors.Join(err, r.Destroy()) }()
	return status(r)
}

func status(r *report.OpenReport) (s Status, err error) {
	provider, err := r.ReadOption("provider")
	if err != nil {
		return s, fmt.Errorf("configfs-tsm: %w", err)
	}
	s.Provider = strings.TrimSuffix(string(provider), "\n")
	if s.Provider != ProviderSEV {
		return s, nil // only the SEV-SNP driver has levels that matter here
	}
	if s.Floor, err = r.PrivilegeLevelFloor(); err != nil {
		return s, fmt.Errorf("configfs-tsm: %w", err)
	}
	return s, nil
}

// Class returns the class of its components.
func (TSM) Class() string { return attest.ClassCPU }

// Take takes the report of this machine over REPORT_DATA: a component of class cpu, which covers nothing that is not in
// the data. A report that raced with another writer of its entry is thrown away and taken anew.
func (t TSM) Take(reportData []byte) (attest.Component, error) {
	if len(reportData) != attest.ReportDataSize {
		return attest.Component{}, fmt.Errorf("configfs-tsm: REPORT_DATA of %d bytes, want %d", len(reportData), attest.ReportDataSize)
	}
	var err error
	// No pause between tries: the kernel itself waits on the lock of the interface and on a host that throttles.
	for range MaxTries {
		watch := &watched{Client: t.client}
		var c attest.Component
		if c, err = take(watch, reportData); err == nil {
			return c, nil
		}
		if !watch.busy && report.GetGenerationErr(err) == nil {
			return attest.Component{}, err
		}
	}
	return attest.Component{}, fmt.Errorf("%d tries: %w", MaxTries, err)
}

func take(client configfsi.Client, reportData []byte) (c attest.Component, err error) {
	r, err := report.CreateOpenReport(client)
	if err != nil {
		return c, fmt.Errorf("configfs-tsm: %w", err)
	}
	// An entry left behind holds kernel memory until the next boot, so a failure to remove it is a failure.
	defer func() { err = errors.Join(err, r.Destroy()) }()
	s, err := status(r)
	if err != nil {
		return c, err
	}
	switch s.Provider {
	case ProviderSEV:
		// The most privileged level that this guest may speak for: under a paravisor that is not 0.
		if err := r.WriteOption("privlevel", []byte(strconv.FormatUint(uint64(s.Floor), 10))); err != nil {
			return c, fmt.Errorf("configfs-tsm: %w", err)
		}
	case ProviderTDX:
	default:
		return c, fmt.Errorf("configfs-tsm: provider %.80q is not known to this build, want %q or %q", s.Provider, ProviderSEV, ProviderTDX)
	}
	if err := r.WriteOption("inblob", reportData); err != nil {
		return c, fmt.Errorf("configfs-tsm: %w", err)
	}
	out, err := r.ReadOption("outblob")
	if err != nil {
		return c, fmt.Errorf("configfs-tsm: %w", err)
	}
	if s.Provider == ProviderTDX {
		if len(out) > tdx.MaxQuote {
			return c, fmt.Errorf("configfs-tsm: quote of %d bytes, at most %d", len(out), tdx.MaxQuote)
		}
		return attest.Component{Class: attest.ClassCPU, MediaType: tdx.MediaType, Label: "cpu0",
			Parts: []attest.Part{{Name: tdx.PartQuote, Data: out}}}, nil
	}
	if len(out) != sevsnp.ReportSize {
		return c, fmt.Errorf("configfs-tsm: report of %d bytes, want %d", len(out), sevsnp.ReportSize)
	}
	table, err := r.ReadOption("auxblob")
	if err != nil {
		return c, fmt.Errorf("configfs-tsm: %w", err)
	}
	if len(table) > attest.MaxCertTable {
		return c, fmt.Errorf("configfs-tsm: certificate table of %d bytes, at most %d", len(table), attest.MaxCertTable)
	}
	c = attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0",
		Parts: []attest.Part{{Name: sevsnp.PartReport, Data: out}}}
	if len(table) > 0 {
		c.Parts = append(c.Parts, attest.Part{Name: sevsnp.PartCertificates, Data: table})
	}
	return c, nil
}

// watched remembers what go-configfs-tsm drops: its errors keep the words of the client's error, not the error.
type watched struct {
	configfsi.Client
	busy bool // some call failed because of another user of the interface
}

func (w *watched) ReadFile(name string) ([]byte, error) {
	data, err := w.Client.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(name, "/auxblob") {
		return nil, nil // drivers without supplemental data do not show the attribute
	}
	w.note(err)
	return data, err
}

func (w *watched) WriteFile(name string, contents []byte) error {
	err := w.Client.WriteFile(name, contents)
	w.note(err)
	return err
}

func (w *watched) note(err error) {
	w.busy = w.busy || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EAGAIN)
}
