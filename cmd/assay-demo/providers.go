package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha512"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/agent/image"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// agentExecutable stands for the agent's bytes: the demonstration runs the agent's code in its own process.
var agentExecutable = []byte("assay-agent of the demonstration")

// soundTCB is at the floor of Milan (AMD-SB-3019); oldTCB is one SNP firmware version below.
var (
	soundTCB = sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}
	oldTCB   = sevsnp.TCB{Bootloader: 4, SNP: 23, Microcode: 219}
)

// vendors are the makers of the machines.
type vendors struct {
	amd    *mint.AMD
	intel  *mint.Intel
	nvidia *mint.NVIDIA
}

// provider is one machine that joins, and what must come of that.
type provider struct {
	name    string
	story   string
	machine func(vendors) agent.Device
	verdict string
	claim   string // that the verdict names
}

var cast = []provider{
	{"honest", "a sound guest on current firmware", guest("chip-1"), client.Accept, ""},
	{"debugger", "the same, launched with debugging allowed", guest("chip-2", func(_ *mint.AMD, p *mint.Platform) { p.Fields.Policy |= sevsnp.PolicyDebug }), client.Reject, "sevsnp.debug-off"},
	{"tinkerer", "one byte of its initrd is another", guest("chip-3", func(_ *mint.AMD, p *mint.Platform) { p.Fields.Measurement = measure(true) }), client.Reject, "guest.measured"},
	{"laggard", "firmware before the fix of AMD-SB-3019", guest("chip-4", func(a *mint.AMD, p *mint.Platform) {
		p.Signer = a.VCEK(p.Fields.ChipID, oldTCB, mint.Options{})
		p.Table = a.VCEKTable(p.Signer)
		p.Fields.ReportedTCB = oldTCB.Encode(a.Line)
	}), client.Reject, "sevsnp.tcb"},
	{"stranger", "an AMD root of his own making", guest("chip-5", func(_ *mint.AMD, p *mint.Platform) {
		a := mint.NewImpostor(sevsnp.Milan)
		p.Signer = a.VCEK(p.Fields.ChipID, soundTCB, mint.Options{})
		p.Table = a.VCEKTable(p.Signer)
	}), client.Reject, "sevsnp.chain"},
	{"second self", "the chip of the honest provider, under another name", guest("chip-1"), client.Reject, "set.device-unique"},
	{"masked", "hides which chip it is", guest("chip-6", func(_ *mint.AMD, p *mint.Platform) { p.Fields.ChipID = [64]byte{} }), client.Undecided, "sevsnp.cert-chip-id"},
	{"domain", "a sound trust domain on Intel TDX", domain("one"), client.Accept, ""},
	{"other kernel", "a trust domain that booted another kernel (RTMR1)", domain("two", func(q *tdx.Quote) { q.RTMR[1][0] ^= 1 }), client.Reject, "guest.measured"},
}

// guest returns a machine of AMD's with a chip; change makes it another one.
func guest(chip string, change ...func(*mint.AMD, *mint.Platform)) func(vendors) agent.Device {
	return func(v vendors) agent.Device {
		p := v.amd.Platform(v.amd.Chip(chip), soundTCB, measure(false), sevsnp.PolicyReservedOne|sevsnp.PolicySMT)
		for _, f := range change {
			f(v.amd, p)
		}
		return device.NewTSM(faketsm.New(p).Client())
	}
}

// domain returns a machine of Intel's that runs a trust domain; change makes that another one.
func domain(platform string, change ...func(*tdx.Quote)) func(vendors) agent.Device {
	return func(v vendors) agent.Device {
		fields := mint.SoundQuote15()
		fields.MRTD = register("MRTD")
		for i := range fields.RTMR {
			fields.RTMR[i] = register(fmt.Sprintf("RTMR%d", i))
		}
		for _, f := range change {
			f(&fields)
		}
		p := faketsm.New(trustDomain{v.intel.TD(v.intel.IntelPlatform(platform), fields)})
		p.Name = device.ProviderTDX
		return device.NewTSM(p.Client())
	}
}

// register is what a register of the trust domain holds; `assay measure tdx` computes such values from a real image.
func register(name string) [48]byte { return sha512.Sum384([]byte("demo-domain " + name)) }

// trustDomain is a trust domain behind the kernel's interface.
type trustDomain struct{ *mint.TD }

func (t trustDomain) Report(reportData [64]byte, _ int) (quote, table []byte, err error) {
	return t.Quote(reportData), nil, nil
}

// initrd is the guest's initial RAM disk, with the agent as its first program.
func initrd() []byte {
	b, err := image.Initrd([]image.File{{Path: "init", Executable: true, Data: agentExecutable}})
	if err != nil {
		panic("assay-demo: internal error: " + err.Error())
	}
	return b
}

// measure computes what the guest measures to, as `assay measure snp` does.
func measure(tampered bool) [48]byte {
	disk := initrd()
	if tampered {
		disk[len(disk)/2] ^= 1
	}
	d, err := sevsnp.LaunchDigest(sevsnp.Launch{
		OVMF: mint.DirectBootFirmware(), VCPUs: 4, VCPUType: "EPYC-Milan", Features: 1, VMM: sevsnp.QEMU,
		Boot: &sevsnp.DirectBoot{Kernel: []byte("a stand-in kernel"), Initrd: disk, Cmdline: "console=ttyS0"},
	})
	if err != nil {
		panic("assay-demo: internal error: " + err.Error())
	}
	return d
}

// evaluation is the number of Intel's TCB evaluation that the platforms are judged by.
const evaluation = 18

// Files that this chapter leaves in the demonstration's folder.
const (
	fileGuests = "guests.json" // reference values
	fileTrust  = "trust.yaml"
	fileExport = "log.tar"
	dirRoots   = "roots"
	dirVendor  = "collateral"
	dirServer  = "server"

	dirEvidence = "evidence" // NAME.json and NAME.expect.json of each provider
)

// providers starts a verifier, lets the cast join it one by one, and holds each verdict against what it must be.
func (d *demo) providers(ctx context.Context) (err error) {
	v := vendors{amd: mint.NewAMD(sevsnp.Milan), intel: mint.NewIntel()}
	if err := d.writeWorld(v); err != nil {
		return err
	}
	s, stop, err := serve(ctx, d.now, server.Settings{
		Data: filepath.Join(d.dir, dirServer), Listen: "127.0.0.1:0", Roots: filepath.Join(d.dir, dirRoots),
		References: []string{filepath.Join(d.dir, fileGuests)}, Collateral: filepath.Join(d.dir, dirVendor),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	d.say("   verifier at %s, policy %s", s.Origin(), s.Policy().Name)
	d.say("   NOT VENDOR ROOTS: the hardware below signs under public test roots\n")
	for _, p := range cast {
		if err := d.join(ctx, s, v, p); err != nil {
			return fmt.Errorf("provider %s: %w", p.name, err)
		}
	}
	return d.export(ctx, s)
}

// serve runs a verifier until the returned function is called.
func serve(ctx context.Context, now func() time.Time, settings server.Settings) (*server.Server, func() error, error) {
	s, err := server.New(ctx, settings, server.Deps{Now: now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	return s, func() error {
		stop()
		return errors.Join(<-ended, s.Close())
	}, nil
}

// guests lists what sound guests measure to.
func guests() attest.References {
	sound, domain := measure(false), register("MRTD")
	registers := []attest.Register{}
	for i := range 3 {
		value := register(fmt.Sprintf("RTMR%d", i))
		registers = append(registers, attest.Register{Index: i, Value: value[:]})
	}
	return attest.References{
		Type: attest.ReferencesType, Name: "guests of the demonstration", Source: "computed from firmware, kernel and initrd",
		Values: []attest.Reference{
			{Format: sevsnp.Format, Guest: "demo-guest", Measurement: sound[:], Agent: canon.Sum(agentExecutable)},
			{Format: tdx.Format, Guest: "demo-domain", Measurement: domain[:], Registers: registers, Agent: canon.Sum(agentExecutable)},
		},
	}
}

// writeWorld writes what the verifier believes: roots, reference values, and what the vendors publish.
func (d *demo) writeWorld(v vendors) error {
	guests, err := canon.Marshal(guests())
	if err != nil {
		return err
	}
	issued := demoBegin.AddDate(0, 0, -7)
	files := map[string][]byte{
		fileGuests:                            guests,
		filepath.Join(dirVendor, "milan.crl"): v.amd.CRL(issued, demoBegin.AddDate(0, 1, 0)),
	}
	for _, item := range v.intel.Collateral(v.intel.IntelPlatform("one"), issued, evaluation) {
		files[filepath.Join(dirVendor, item.Kind)] = item.Data
	}
	for _, f := range slices.Concat(v.amd.Roots(), v.intel.Roots()) {
		files[filepath.Join(dirRoots, f.Name)] = f.Data
	}
	return writeFiles(d.dir, files)
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// join is a provider's first round: a one-time token, a node credential, a challenge, evidence, a verdict.
func (d *demo) join(ctx context.Context, s *server.Server, v vendors, p provider) error {
	a, member, err := d.enter(ctx, s, s.NewAdminToken(), d.now, p.name, nil, p.machine(v))
	if err != nil {
		return err
	}
	if err := a.Round(ctx); err != nil {
		return err
	}
	got := a.Status().Decision
	d.say("   %-12s %-52s %s", p.name, p.story, got.Outcome)
	named := ""
	for _, why := range got.Reasons {
		named = why.Claim
		d.say("   %-12s   %s: %s", "", why.Claim, shorten(why.Observed))
	}
	if got.Outcome != p.verdict || named != p.claim || len(got.Reasons) > 1 {
		return fmt.Errorf("%s for %d reasons (%s), want %s for %q alone", got.Outcome, len(got.Reasons), named, p.verdict, p.claim)
	}
	return d.keep(ctx, s, member, p, a.Status().Evidence)
}

// enter lets a machine join, by whoever's token lets machines join, and starts its agent.
func (d *demo) enter(ctx context.Context, s *server.Server, operator string, now func() time.Time, name string, gpus agent.GPUs, devices ...agent.Device) (*agent.Agent, *client.Client, error) {
	admin, err := client.New(client.Config{URL: s.Origin(), Credential: operator})
	if err != nil {
		return nil, nil, err
	}
	issued, err := admin.NewJoinToken(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	token, err := client.ParseToken(issued.Token)
	if err != nil {
		return nil, nil, err
	}
	nobody, err := client.New(client.Config{URL: s.Origin()})
	if err != nil {
		return nil, nil, err
	}
	node, err := agent.Join(ctx, nobody, token, "")
	if err != nil {
		return nil, nil, err
	}
	member, err := client.New(client.Config{URL: s.Origin(), Credential: node.Credential})
	if err != nil {
		return nil, nil, err
	}
	store := agent.OpenStore(filepath.Join(d.dir, "nodes", node.Node))
	if err := store.Prepare(); err != nil {
		return nil, nil, err
	}
	a, err := agent.New(agent.Config{
		Node: node, Store: store, Server: member, Devices: devices, GPUs: gpus,
		Executable: canon.Sum(agentExecutable), BootID: func() (string, error) { return "boot of " + name, nil },
		Random: rand.Reader, Now: now, After: time.After, Logger: slog.New(slog.DiscardHandler),
	})
	return a, member, err
}

// keep leaves a provider's evidence, and what the verifier expected of it, for `assay verify` to judge offline.
func (d *demo) keep(ctx context.Context, s *server.Server, member *client.Client, p provider, evidence canon.Digest) error {
	result, err := member.Result(ctx, evidence)
	if err != nil {
		return err
	}
	var a verifier.Appraisal
	if err := canon.Unmarshal(result.Appraisal, &a); err != nil {
		return err
	}
	base := filepath.Join(d.dir, dirEvidence, strings.ReplaceAll(p.name, " ", "-"))
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	for _, in := range a.Inputs {
		suffix, wanted := map[string]string{verifier.InputEvidence: ".json", verifier.InputExpect: ".expect.json"}[in.Kind]
		if !wanted {
			continue
		}
		data, err := s.Source().Blob(ctx, in.Digest)
		if err != nil {
			return err
		}
		if err := os.WriteFile(base+suffix, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func shorten(s string) string {
	if len(s) > 110 {
		return s[:107] + "..."
	}
	return s
}

// export leaves the log with all blobs, and what an auditor believes of its keys, in the demonstration's folder.
func (d *demo) export(ctx context.Context, s *server.Server) error {
	if err := s.Advance(ctx); err != nil {
		return err
	}
	var file bytes.Buffer
	if err := audit.Export(ctx, s.Source(), &file); err != nil {
		return err
	}
	trust := audit.Trust{Type: audit.TrustType, Keyset: s.Keyset()}
	return errors.Join(
		os.WriteFile(filepath.Join(d.dir, fileExport), file.Bytes(), 0o644),
		os.WriteFile(filepath.Join(d.dir, fileTrust), trust.Marshal(), 0o644),
	)
}
