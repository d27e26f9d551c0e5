package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/image"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

// minted is the moment of all minted evidence here.
var minted = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)

// host is a machine with a confidential guest, and all that judges it. The zero changes make it sound.
type host struct {
	amd         *mint.AMD
	platform    *mint.Platform
	vcek        mint.Certificate
	agentExe    []byte
	measurement [48]byte
	crl         []byte
}

var soundTCB = sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}

// ovmfHash is the digest after the pages of the AmdSev firmware of which the vectors hold the last pages.
const ovmfHash = "086e2e9149ebf45abdc3445fba5b2da8270bdbb04094d7a2c37faaa4b24af3aa16aff8c374c2a55c467a50da6d466b74"

func standInKernel() []byte { return bytes.Repeat([]byte("a stand-in kernel "), 64) }

// standInAgent is an executable as small as the image takes it: an ELF header and one segment.
func standInAgent() []byte {
	b := make([]byte, 64+56)
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2)  // executable
	le.PutUint16(b[18:], 62) // x86-64
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], 64) // program headers
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	le.PutUint32(b[64:], 1) // loaded
	return b
}

func newHost(t testing.TB, measurement [48]byte, agentExe []byte) *host {
	t.Helper()
	a := mint.NewAMD(sevsnp.Milan)
	chip := a.Chip("host-1")
	h := &host{amd: a, measurement: measurement, agentExe: agentExe}
	h.vcek = a.VCEK(chip, soundTCB, mint.Options{})
	h.platform = a.Platform(chip, soundTCB, measurement, sevsnp.PolicyReservedOne|sevsnp.PolicySMT)
	h.crl = a.CRL(minted.AddDate(0, -1, 0), minted.AddDate(0, 1, 0))
	return h
}

// Class and Take make the host the agent's device.
func (h *host) Class() string { return attest.ClassCPU }

func (h *host) Take(reportData []byte) (attest.Component, error) {
	report, table, err := h.platform.Report([attest.ReportDataSize]byte(reportData), int(h.platform.Fields.VMPL))
	if err != nil {
		return attest.Component{}, err
	}
	return attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0", Parts: []attest.Part{
		{Name: sevsnp.PartReport, Data: report}, {Name: sevsnp.PartCertificates, Data: table},
	}}, nil
}

func testChallenge() attest.Challenge {
	return attest.Challenge{
		Type: attest.ChallengeType, Origin: "https://verifier.example", ResultKey: []byte("the result key of this test"),
		Node: "node-1", Nonce: bytes.Repeat([]byte{7}, attest.NonceSize),
		Issued: canon.At(minted.Add(-time.Minute)), Expires: canon.At(minted.Add(4 * time.Minute)),
	}
}

// files writes what `assay verify` takes into dir: bundle.json, expect.json, roots/, crl.der.
func (h *host) files(t testing.TB, dir string) {
	t.Helper()
	if err := h.writeFiles(dir); err != nil {
		t.Fatal(err)
	}
}

func (h *host) writeFiles(dir string) error {
	session, err := agent.NewSession(bytes.NewReader(bytes.Repeat([]byte{9}, 128)), "boot-1", minted)
	if err != nil {
		return err
	}
	challenge := testChallenge()
	b, err := agent.Collect([]agent.Device{h}, session.Keys(), challenge.Digest(), attest.Statement{
		Type: attest.StatementType, Agent: canon.Sum(h.agentExe), BootID: "boot-1",
	})
	if err != nil {
		return err
	}
	env, err := attest.SealBundle(b, session)
	if err != nil {
		return err
	}
	bundle, err := canon.Marshal(env)
	if err != nil {
		return err
	}
	expect, err := canon.Marshal(attest.Expect{Type: attest.ExpectType, Challenge: &challenge})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "roots"), 0o755); err != nil {
		return err
	}
	report, err := b.Components[1].Parts[0].Data, error(nil)
	files := map[string][]byte{
		"bundle.json": bundle, "expect.json": expect, "crl.der": h.crl, "report.bin": report,
		"vcek.der": h.platform.Signer.DER, "table.bin": h.platform.Table,
	}
	for _, f := range h.amd.Roots() {
		files[filepath.Join("roots", f.Name)] = f.Data
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return err
}

// writeMinted prepares the folder that test scripts run in.
func writeMinted(dir string) error {
	a := mint.NewAMD(sevsnp.Milan)
	chip := a.Chip("host-1")
	h := &host{amd: a, agentExe: []byte("agent"), platform: a.Platform(chip, soundTCB, [48]byte{1}, sevsnp.PolicyReservedOne|sevsnp.PolicySMT)}
	h.crl = a.CRL(minted.AddDate(0, -1, 0), minted.AddDate(0, 1, 0))
	if err := h.writeFiles(dir); err != nil {
		return err
	}
	refs := attest.References{Type: attest.ReferencesType, Name: "guests", Source: "a test", Values: []attest.Reference{
		{Format: sevsnp.Format, Guest: "guest-1", Measurement: h.platform.Fields.Measurement[:], Agent: canon.Sum(h.agentExe)},
	}}
	b, err := canon.Marshal(refs)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "guests.json"), b, 0o644)
}

// TestConfidentialGuest is the main job of one renter: a guest whose MEASUREMENT was computed from firmware, kernel and a
// reproducible initrd is accepted, and each thing that may be wrong with it is refused for that reason alone.
func TestConfidentialGuest(t *testing.T) {
	agentExe := standInAgent()
	work := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ovmf := write("ovmf.bin", vectors.Read(t, "cpu/measure/virtee-ovmf_AmdSev_suffix.bin"))
	kernel, agentFile := write("vmlinuz", standInKernel()), write("assay-agent", agentExe)
	if err := os.Mkdir(filepath.Join(work, "modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("modules/modules.builtin", []byte("kernel/"+strings.Join(image.GuestModules(), ".ko\nkernel/")+".ko\n"))
	pins, err := canon.Marshal(agent.Pins{Type: agent.PinsType, Origin: testChallenge().Origin, Keyset: testKeyset(t, "verifier")})
	if err != nil {
		t.Fatal(err)
	}
	build := func(out string) string {
		stdout, stderr, code := command(t, "measure", "image", "--ovmf", ovmf, "--ovmf-hash", ovmfHash, "--vcpus", "4", "--vcpu-type", "EPYC-v4",
			"--kernel", kernel, "--modules", filepath.Join(work, "modules"), "--agent", agentFile, "--pins", write("pins.json", pins), "--name", "guest-1",
			"--out", out)
		if code != 0 {
			t.Fatalf("measure: exit code %d\n%s", code, stderr)
		}
		return stdout
	}
	out := filepath.Join(work, "image")
	guests := filepath.Join(out, fileGuests)
	printed := build(out)
	initrd, err := os.ReadFile(filepath.Join(out, fileInitrd))
	if err != nil {
		t.Fatal(err)
	}
	if again := filepath.Join(work, "again"); build(again) != printed {
		t.Error("two builds print different digests")
	} else if other, err := os.ReadFile(filepath.Join(again, fileInitrd)); err != nil || !bytes.Equal(initrd, other) {
		t.Errorf("two builds give different bytes, %v", err)
	}
	measure := func(initrd []byte) [48]byte {
		sum, err := hex.DecodeString(ovmfHash)
		if err != nil {
			t.Fatal(err)
		}
		firmware, err := os.ReadFile(ovmf)
		if err != nil {
			t.Fatal(err)
		}
		d, err := sevsnp.LaunchDigest(sevsnp.Launch{
			OVMF: firmware, OVMFHash: (*[48]byte)(sum), VCPUs: 4, VCPUType: "EPYC-v4", Features: 1, VMM: sevsnp.QEMU,
			Boot: &sevsnp.DirectBoot{Kernel: standInKernel(), Initrd: initrd, Cmdline: guestCmdline},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	sound := measure(initrd)
	if !strings.Contains(printed, fmt.Sprintf("MEASUREMENT %x", sound)) || !strings.Contains(printed, "TDX       not computed: kernel: PE image") {
		t.Errorf("printed\n%s", printed)
	}
	changed := bytes.Clone(initrd)
	changed[len(changed)/2] ^= 1

	oldTCB := sevsnp.TCB{Bootloader: 4, SNP: 23, Microcode: 219}
	for _, row := range []struct {
		name    string
		change  func(*host)
		verdict string
		reasons string // every claim that the verdict names, with its status
	}{
		{"sound", nil, "accept", ""},
		{"one initrd byte", func(h *host) { h.platform.Fields.Measurement = measure(changed) }, "reject", "guest.measured contradicted"},
		{"debug", func(h *host) { h.platform.Fields.Policy |= sevsnp.PolicyDebug }, "reject", "sevsnp.debug-off contradicted"},
		{"vmpl 2", func(h *host) { h.platform.Fields.VMPL = 2 }, "reject", "sevsnp.vmpl affirmed"},
		{"old TCB", func(h *host) {
			chip := mint.ChipID(h.platform.Fields.ChipID)
			h.platform.Signer = h.amd.VCEK(chip, oldTCB, mint.Options{})
			h.platform.Table = h.amd.VCEKTable(h.platform.Signer)
			h.platform.Fields.ReportedTCB = oldTCB.Encode(sevsnp.Milan)
		}, "reject", "sevsnp.tcb affirmed"},
		{"launched at an old TCB", func(h *host) { h.platform.Fields.LaunchTCB = oldTCB.Encode(sevsnp.Milan) }, "reject", "sevsnp.launch-tcb affirmed"},
		{"committed to an old TCB", func(h *host) { h.platform.Fields.CommittedTCB = oldTCB.Encode(sevsnp.Milan) }, "reject", "sevsnp.committed-tcb affirmed"},
		{"foreign chip id", func(h *host) { h.platform.Fields.ChipID = h.amd.Chip("host-2") }, "reject", "sevsnp.cert-chip-id contradicted"},
		{"masked chip id", func(h *host) { h.platform.Fields.ChipID = [64]byte{} }, "undecided", "sevsnp.cert-chip-id unknown"},
		{"VLEK as VCEK", func(h *host) {
			h.platform.Signer = h.amd.VLEK("cloud-1", soundTCB, mint.Options{})
			h.platform.Table = mint.VLEKTable(h.platform.Signer)
		}, "reject", "sevsnp.signing-key contradicted"},
		{"VLEK as itself", func(h *host) {
			h.platform.Signer = h.amd.VLEK("cloud-1", soundTCB, mint.Options{})
			h.platform.Table = mint.VLEKTable(h.platform.Signer)
			h.platform.Fields.KeyInfo = h.platform.Fields.KeyInfo.WithSigningKey(sevsnp.SigningVLEK)
		}, "accept", ""},
		{"revoked ASK", func(h *host) {
			h.crl = h.amd.CRL(minted.AddDate(0, -1, 0), minted.AddDate(0, 1, 0), h.amd.ASK.X509().SerialNumber)
		}, "reject", "sevsnp.revocation contradicted"},
		{"something else revoked", func(h *host) {
			h.crl = h.amd.CRL(minted.AddDate(0, -1, 0), minted.AddDate(0, 1, 0), big.NewInt(4711))
		}, "accept", ""},
		{"another agent", func(h *host) { h.agentExe = []byte("another agent") }, "reject", "agent.measured contradicted"},
		{"no alias check", func(h *host) { h.platform.Fields.PlatformInfo &^= sevsnp.PlatformAliasCheck }, "reject", "sevsnp.platform-info affirmed"},
		{"migration agent", func(h *host) { h.platform.Fields.Policy |= sevsnp.PolicyMigrateMA }, "reject", "sevsnp.migration-off contradicted"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			h := newHost(t, sound, agentExe)
			if row.change != nil {
				row.change(h)
			}
			h.files(t, dir)
			at := func(name string) string { return filepath.Join(dir, name) }
			stdout, stderr, code := command(t, "verify", at("bundle.json"), "--expect", at("expect.json"), "--expect", guests,
				"--collateral", at("crl.der"), "--roots", at("roots"), "-o", "json")
			var got struct {
				Verdict string
				Policy  struct{ Name string }
				Reasons []struct{ Claim, Status, Observed string }
			}
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatalf("%v\n%s%s", err, stdout, stderr)
			}
			var reasons []string
			for _, r := range got.Reasons {
				reasons = append(reasons, r.Claim+" "+r.Status)
			}
			if got.Verdict != row.verdict || strings.Join(reasons, ", ") != row.reasons || got.Policy.Name != "confidential-cpu" {
				t.Errorf("%s by %s for %q, want %s by confidential-cpu for %q\n%s", got.Verdict, got.Policy.Name, reasons, row.verdict, row.reasons, stdout)
			}
			if want := map[string]int{"accept": 0, "reject": 1, "undecided": 3}[row.verdict]; code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}
