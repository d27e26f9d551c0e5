package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/agent/image"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
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

// provider is one machine that joins: how it differs from a sound one, and what must come of that.
type provider struct {
	name    string
	story   string
	chip    string
	change  func(*mint.AMD, *mint.Platform)
	verdict string
	claim   string // that the verdict names
}

var cast = []provider{
	{"honest", "a sound guest on current firmware", "chip-1", nil, client.Accept, ""},
	{"debugger", "the same, launched with debugging allowed", "chip-2", func(_ *mint.AMD, p *mint.Platform) { p.Fields.Policy |= sevsnp.PolicyDebug }, client.Reject, "sevsnp.debug-off"},
	{"tinkerer", "one byte of its initrd is another", "chip-3", func(_ *mint.AMD, p *mint.Platform) { p.Fields.Measurement = measure(true) }, client.Reject, "guest.measured"},
	{"laggard", "firmware before the fix of AMD-SB-3019", "chip-4", func(a *mint.AMD, p *mint.Platform) {
		p.Signer = a.VCEK(p.Fields.ChipID, oldTCB, mint.Options{})
		p.Table = a.VCEKTable(p.Signer)
		p.Fields.ReportedTCB = oldTCB.Encode(a.Line)
	}, client.Reject, "sevsnp.tcb"},
	{"stranger", "an AMD root of his own making", "chip-5", func(_ *mint.AMD, p *mint.Platform) {
		a := mint.NewImpostor(sevsnp.Milan)
		p.Signer = a.VCEK(p.Fields.ChipID, soundTCB, mint.Options{})
		p.Table = a.VCEKTable(p.Signer)
	}, client.Reject, "sevsnp.chain"},
	{"second self", "the chip of the honest provider, under another name", "chip-1", nil, client.Reject, "set.device-unique"},
	{"masked", "hides which chip it is", "chip-6", func(_ *mint.AMD, p *mint.Platform) { p.Fields.ChipID = [64]byte{} }, client.Undecided, "sevsnp.cert-chip-id"},
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
	amd := mint.NewAMD(sevsnp.Milan)
	if err := d.writeWorld(amd); err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	s, err := server.New(ctx, server.Settings{
		Data: filepath.Join(d.dir, dirServer), Listen: "127.0.0.1:0", Roots: filepath.Join(d.dir, dirRoots),
		References: []string{filepath.Join(d.dir, fileGuests)}, Collateral: filepath.Join(d.dir, dirVendor),
	}, server.Deps{Now: d.now, Random: rand.Reader, Log: quiet})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	d.say("   verifier at %s, policy %s", s.Origin(), s.Policy().Name)
	d.say("   NOT VENDOR ROOTS: the hardware below signs under public test roots\n")
	for _, p := range cast {
		if err := d.join(ctx, s, amd, p); err != nil {
			return fmt.Errorf("provider %s: %w", p.name, err)
		}
	}
	return d.export(ctx, s)
}

// writeWorld writes what the verifier believes: roots, reference values, and the vendor's revocation list.
func (d *demo) writeWorld(amd *mint.AMD) error {
	sound := measure(false)
	guests, err := canon.Marshal(attest.References{
		Type: attest.ReferencesType, Name: "guests of the demonstration", Source: "computed from firmware, kernel and initrd",
		Values: []attest.Reference{{Format: sevsnp.Format, Guest: "demo-guest", Measurement: sound[:], Agent: canon.Sum(agentExecutable)}},
	})
	if err != nil {
		return err
	}
	files := map[string][]byte{
		fileGuests:                            guests,
		filepath.Join(dirVendor, "milan.crl"): amd.CRL(demoBegin.AddDate(0, 0, -7), demoBegin.AddDate(0, 1, 0)),
	}
	for _, f := range amd.Roots() {
		files[filepath.Join(dirRoots, f.Name)] = f.Data
	}
	for name, data := range files {
		path := filepath.Join(d.dir, name)
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
func (d *demo) join(ctx context.Context, s *server.Server, amd *mint.AMD, p provider) error {
	admin, err := client.New(client.Config{URL: s.Origin(), Credential: s.NewAdminToken()})
	if err != nil {
		return err
	}
	issued, err := admin.NewJoinToken(ctx)
	if err != nil {
		return err
	}
	token, err := client.ParseToken(issued.Token)
	if err != nil {
		return err
	}
	nobody, err := client.New(client.Config{URL: s.Origin()})
	if err != nil {
		return err
	}
	node, err := agent.Join(ctx, nobody, token)
	if err != nil {
		return err
	}
	member, err := client.New(client.Config{URL: s.Origin(), Credential: node.Credential})
	if err != nil {
		return err
	}
	store := agent.OpenStore(filepath.Join(d.dir, "nodes", node.Node))
	if err := store.Prepare(); err != nil {
		return err
	}
	platform := amd.Platform(amd.Chip(p.chip), soundTCB, measure(false), sevsnp.PolicyReservedOne|sevsnp.PolicySMT)
	if p.change != nil {
		p.change(amd, platform)
	}
	a, err := agent.New(agent.Config{
		Node: node, Store: store, Server: member, Log: member.Mirror(), Devices: []agent.Device{device.NewTSM(faketsm.New(platform).Client())},
		Executable: canon.Sum(agentExecutable), BootID: func() (string, error) { return "boot of " + p.name, nil },
		Random: rand.Reader, Now: d.now, After: time.After, Logger: slog.New(slog.DiscardHandler),
	})
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
	keys := s.Keyset()
	trust := audit.Trust{Type: audit.TrustType, Log: keys.Log, Keys: keys.Keys}
	return errors.Join(
		os.WriteFile(filepath.Join(d.dir, fileExport), file.Bytes(), 0o644),
		os.WriteFile(filepath.Join(d.dir, fileTrust), trust.Marshal(), 0o644),
	)
}
