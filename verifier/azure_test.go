package verifier_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// azureScene is a sound machine on Azure whose agent answers a challenge, and what the appraiser knows. A twin changes one
// thing.
type azureScene struct {
	t          testing.TB
	vm         *mint.AzureVM
	n          canon.Digest
	cpu        attest.Component
	more       []attest.Component        // beside it, covered by the seal
	quoted     func(*attest.Component)   // changes the quote that seals
	qualifying func(canon.Digest) []byte // the quote's qualifying data; nil: as it must be
	seal       string                    // label of the seal; empty: the virtual TPM
	registers  []int                     // that are quoted
	k          attest.Case
}

var azureBoot = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14}

var azureSession = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))

type azureSigner struct{ ed25519.PrivateKey }

func (s azureSigner) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(s.PrivateKey, message), nil
}

func azureKeys(t testing.TB) attest.Keys {
	t.Helper()
	spki, err := x509.MarshalPKIXPublicKey(azureSession.Public())
	if err != nil {
		t.Fatal(err)
	}
	return attest.Keys{Sign: spki, KEM: make([]byte, 32)}
}

func soundAzure(t testing.TB, kind azure.Kind) *azureScene {
	t.Helper()
	const at = canon.Time(1780315200) // 2026-06-01T12:00:00Z
	amd, intel := mint.NewAMD(sevsnp.Milan), mint.NewIntel()
	m := mint.NewTPMMaker().RSATPM("one", tpm.AlgRSASSA)
	m.Boot("root=/dev/sda quiet")
	s := &azureScene{t: t, registers: azureBoot}
	if kind == azure.KindSNP {
		s.vm = mint.AzureSNP(amd.Platform(amd.Chip("one"), sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}, [48]byte{7}, sevsnp.PolicyReservedOne|sevsnp.PolicySMT), m)
	} else {
		q := mint.SoundQuote()
		q.MRTD = [48]byte{7}
		s.vm = mint.AzureTDX(intel.TD(intel.IntelPlatform("one"), q), m)
	}
	roots, err := attest.NewRoots(slices.Concat(amd.Roots(), intel.Roots(), m.Maker.Roots())...)
	if err != nil {
		t.Fatal(err)
	}
	challenge := attest.Challenge{
		Type: attest.ChallengeType, Origin: "https://assay.example", ResultKey: azureKeys(t).Sign, Node: "node-7",
		Nonce: bytes.Repeat([]byte{9}, attest.NonceSize), Issued: at - 60, Expires: at + 240,
	}
	s.n = challenge.Digest()
	s.vm.UserData = attest.AzureUserData(s.n, azureKeys(t).Digest())
	s.cpu = s.vm.CPU()
	agent := sha256.Sum256([]byte("agent"))
	machine := attest.Reference{Format: tpm.Format, Guest: "guest 1", Agent: agent}
	l, err := eventlog.Parse(m.Log.Bytes(), eventlog.PCRs)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range l.Events {
		machine.Digests = append(machine.Digests, e.Digest(eventlog.SHA256))
	}
	for _, content := range []string{"aggregate", "agent"} {
		d := sha256.Sum256([]byte(content))
		machine.Digests = append(machine.Digests, d[:])
	}
	s.k = attest.Case{
		Roots: roots, At: at, Expect: attest.Expect{Type: attest.ExpectType, Challenge: &challenge},
		References: []attest.References{{Type: attest.ReferencesType, Name: "guests", Source: "minted", Values: []attest.Reference{machine, s.vm.Paravisor()}}},
	}
	if kind == azure.KindSNP {
		s.k.Collateral = []attest.Collateral{{Kind: attest.KindAMDCRL, Data: amd.CRL(canon.Time(at-86400).Time(), canon.Time(at+86400).Time())}}
	}
	return s
}

// appraise lets the machine seal what it has, and judges it.
func (s *azureScene) appraise() claim.Set {
	s.t.Helper()
	statement, err := canon.Marshal(attest.Statement{Type: attest.StatementType, Agent: sha256.Sum256([]byte("agent")), BootID: "one"})
	if err != nil {
		s.t.Fatal(err)
	}
	b := attest.Bundle{Type: attest.BundleType, Keys: azureKeys(s.t), Challenge: s.n, Seal: "tpm0", Components: append([]attest.Component{
		{Class: attest.ClassTPM, MediaType: tpm.MediaType, Label: "tpm0"}, s.cpu,
		{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{{Name: attest.PartStatement, Data: statement}}},
	}, s.more...)}
	qualifying := attest.QualifyingData(b.Challenge, b.Keys.Digest(), b.Covered())
	data := qualifying[:]
	if s.qualifying != nil {
		data = s.qualifying(qualifying)
	}
	b.Components[0] = s.vm.Quote(data, s.vm.TPM.PCRs(eventlog.SHA256, s.registers...))
	if s.quoted != nil {
		s.quoted(&b.Components[0])
	}
	if s.seal != "" {
		b.Seal = s.seal
	}
	envelope, err := attest.SealBundle(b, azureSigner{azureSession})
	if err != nil {
		s.t.Fatal(err)
	}
	file, err := canon.Marshal(envelope)
	if err != nil {
		s.t.Fatal(err)
	}
	o, err := verifier.Open(verifier.TypeAny, file)
	if err != nil || o.Fault() != nil {
		s.t.Fatal(err, o.Fault())
	}
	return verifier.Appraise(o, s.k).Claims
}

// say is what a row says of a claim: ID@SUBJECT STATUS VALUE or CODE.
func say(s claim.Set, id, subject string) string {
	c := s.Find(id, subject)
	if c == nil {
		return id + "@" + subject + " is not there"
	}
	return strings.TrimSpace(id + "@" + subject + " " + c.Status.String() + " " + word(*c))
}

func TestAzureBundle(t *testing.T) {
	for kind, rest := range map[azure.Kind][]string{
		azure.KindSNP: {"sevsnp.freshness@cpu:0 affirmed N", "sevsnp.revocation@cpu:0 affirmed amd-crl"},
		azure.KindTDX: {"tdx.freshness@cpu:0 affirmed N"},
	} {
		s := soundAzure(t, kind)
		set := s.appraise()
		for _, want := range append(rest,
			"binding.seal@node affirmed tpm", "binding.possession@node affirmed", "binding.challenge@node affirmed N", "azure.report-fresh@cpu:0 affirmed N",
			"azure.runtime-data@cpu:0 affirmed console-enabled secure-boot tpm-enabled", "tpm.freshness@tpm:0 affirmed N", "tpm.ak-bound@tpm:0 affirmed paravisor",
			"tpm.ak-attributes@tpm:0 affirmed", "guest.measured@node affirmed paravisor", "agent.measured@node affirmed paravisor", "set.device-unique@set affirmed") {
			claimed, _, _ := strings.Cut(want, " ")
			id, subject, _ := strings.Cut(claimed, "@")
			if got := strings.ReplaceAll(say(set, id, subject), s.n.String(), "N"); got != want {
				t.Errorf("%s: %s, want %s (%s)", kind.Format(), got, want, set.Find(id, subject).Reason)
			}
		}
		measured := map[azure.Kind]string{azure.KindSNP: "sevsnp.measurement@cpu:0", azure.KindTDX: "tdx.measurement@cpu:0"}[kind]
		if c := set.Find("guest.measured", "node"); !slices.Contains(c.Basis, measured) || !slices.Contains(c.Basis, "tpm.event-log@tpm:0") {
			t.Errorf("%s: guest.measured rests on %q", kind.Format(), c.Basis)
		}
		if kind == azure.KindSNP {
			p, _ := policy.Builtin("confidential-cpu")
			if v := policy.Decide(set, p, s.k.At); v.Outcome != policy.Accept {
				t.Errorf("confidential-cpu: %s %+v", v.Outcome, v.Reasons)
			}
		}
	}
}

// TestAzureTwins: a TPM seals beside a CPU TEE on Azure alone, beside the one report that names its key, and the guest is
// measured by a listed paravisor alone.
func TestAzureTwins(t *testing.T) {
	plain := func(s *azureScene) attest.Component {
		raw, _, err := s.vm.SNP.Report([64]byte{1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu1", Parts: []attest.Part{{Name: sevsnp.PartReport, Data: raw}}}
	}
	for _, row := range []struct {
		name   string
		change func(*azureScene)
		want   []string
	}{
		{"CPU of another kind in its place", func(s *azureScene) { s.cpu = plain(s) }, []string{"binding.seal@node contradicted second-seal", "guest.measured@node unknown rests-on"}},
		{"CPU of another kind beside it", func(s *azureScene) { s.more = []attest.Component{plain(s)} }, []string{"binding.seal@node contradicted second-seal"}},
		{"two paravisors", func(s *azureScene) {
			second := s.vm.CPU()
			second.Label = "cpu1"
			s.more = []attest.Component{second}
		}, []string{"binding.seal@node contradicted second-seal"}},
		{"the report seals", func(s *azureScene) { s.seal = "cpu0" }, []string{"binding.seal@node contradicted mismatch", "binding.possession@node unknown rests-on"}},
		{"CPU of another kind seals", func(s *azureScene) { s.more, s.seal = []attest.Component{plain(s)}, "cpu1" }, []string{"binding.seal@node contradicted second-seal"}},
		{"report that cannot be read, beside a TPM that was enrolled", func(s *azureScene) {
			s.cpu.Parts[0].Data[0] ^= 1
			s.k.Expect.Activations = []attest.Activation{s.vm.TPM.Activation()}
			s.quoted = func(c *attest.Component) {
				quote, _ := c.Part(tpm.PartQuote)
				a, err := tpm.ParseAttest(quote)
				if err != nil {
					t.Fatal(err)
				}
				*c = s.vm.TPM.Component(a.ExtraData, s.vm.TPM.PCRs(eventlog.SHA256, azureBoot...))
			}
		}, []string{"azure.structure@cpu:0 contradicted malformed", "tpm.quote@tpm:0 affirmed", "binding.seal@node unknown rests-on"}},
		{"the statement seals", func(s *azureScene) { s.seal = "agent" }, []string{"binding.seal@node contradicted second-seal"}},
		{"report that cannot be read", func(s *azureScene) { s.cpu.Parts[0].Data[0] ^= 1 }, []string{"azure.structure@cpu:0 contradicted malformed", "binding.seal@node unknown rests-on", "tpm.ak-attributes@tpm:0 unknown evidence-missing"}},
		{"quote over another report", func(s *azureScene) {
			s.qualifying = func(canon.Digest) []byte { return bytes.Repeat([]byte{1}, 32) }
		}, []string{"binding.seal@node contradicted mismatch", "tpm.freshness@tpm:0 contradicted mismatch"}},
		{"quote of another machine", func(s *azureScene) {
			s.quoted = func(c *attest.Component) {
				other := mint.NewTPMMaker().TPM("other")
				other.Boot("root=/dev/sda quiet")
				quote, _ := c.Part(tpm.PartQuote)
				a, err := tpm.ParseAttest(quote)
				if err != nil {
					t.Fatal(err)
				}
				*c = other.Component(a.ExtraData, other.PCRs(eventlog.SHA256, azureBoot...))
			}
		}, []string{"tpm.ak-bound@tpm:0 contradicted mismatch", "binding.seal@node unknown rests-on", "guest.measured@node unknown rests-on"}},
		{"user data of another challenge", func(s *azureScene) {
			s.vm.UserData = attest.AzureUserData(canon.Digest{1}, azureKeys(t).Digest())
			s.cpu = s.vm.CPU()
		}, []string{"azure.report-fresh@cpu:0 contradicted mismatch", "sevsnp.freshness@cpu:0 unknown rests-on", "binding.seal@node affirmed tpm"}},
		{"user data of other keys", func(s *azureScene) {
			s.vm.UserData = attest.AzureUserData(s.n, canon.Digest{1})
			s.cpu = s.vm.CPU()
		}, []string{"azure.report-fresh@cpu:0 contradicted mismatch", "sevsnp.freshness@cpu:0 unknown rests-on"}},
		{"no user data", func(s *azureScene) { s.vm.UserData = [64]byte{}; s.cpu = s.vm.CPU() }, []string{"azure.report-fresh@cpu:0 contradicted no-freshness", "sevsnp.freshness@cpu:0 unknown rests-on"}},
		{"another challenge issued", func(s *azureScene) {
			c := *s.k.Expect.Challenge
			c.Node = "node-8"
			s.k.Expect.Challenge = &c
		}, []string{"binding.challenge@node contradicted mismatch", "azure.report-fresh@cpu:0 contradicted mismatch", "binding.seal@node affirmed tpm"}},
		{"nothing expected", func(s *azureScene) { s.k.Expect = attest.Expect{} }, []string{"azure.report-fresh@cpu:0 unknown no-expectation", "sevsnp.freshness@cpu:0 unknown rests-on"}},
		{"asked for by the guest", func(s *azureScene) { s.vm.SNP.Fields.VMPL = 2; s.cpu = s.vm.CPU() }, []string{"azure.runtime-data@cpu:0 contradicted guest-request", "binding.seal@node unknown rests-on", "guest.measured@node unknown rests-on"}},

		{"paravisor not listed", func(s *azureScene) {
			s.vm.SNP.Fields.Measurement[0] = 8
			s.cpu = s.vm.CPU()
		}, []string{"guest.measured@node contradicted not-listed", "agent.measured@node unknown rests-on", "binding.seal@node affirmed tpm"}},
		{"no paravisor listed", func(s *azureScene) { s.k.References[0].Values = s.k.References[0].Values[:1] }, []string{"guest.measured@node unknown no-reference"}},
		{"paravisor listed as a guest of its own", func(s *azureScene) { s.k.References[0].Values[1].Format = sevsnp.Format }, []string{"guest.measured@node unknown no-reference"}},
		{"paravisor listed by its registers alone", func(s *azureScene) {
			s.k.References[0].Values[1].Measurement, s.k.References[0].Values[1].Registers = nil, []attest.Register{{Index: 0, Value: make([]byte, 48)}}
		}, []string{"guest.measured@node contradicted not-listed"}},
		{"kernel not listed", func(s *azureScene) { s.k.References[0].Values[0].Digests = s.k.References[0].Values[0].Digests[:9] }, []string{"guest.measured@node contradicted not-listed"}},
		{"register not quoted", func(s *azureScene) { s.registers = azureBoot[1:] }, []string{"guest.measured@node unknown evidence-missing"}},
		{"agent not listed", func(s *azureScene) { s.k.References[0].Values[0].Agent = canon.Digest{1} }, []string{"guest.measured@node affirmed paravisor", "agent.measured@node unknown evidence-missing"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := soundAzure(t, azure.KindSNP)
			row.change(s)
			set := s.appraise()
			for _, want := range row.want {
				claimed, _, _ := strings.Cut(want, " ")
				id, subject, _ := strings.Cut(claimed, "@")
				if got := say(set, id, subject); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
			p, _ := policy.Builtin("confidential-cpu")
			if v := policy.Decide(set, p, s.k.At); v.Outcome == policy.Accept {
				t.Error("confidential-cpu accepts it")
			}
		})
	}
}

// A register of the TD that the list states must be equal as well.
func TestAzureRegisters(t *testing.T) {
	for value, want := range map[byte]string{0: "guest.measured@node affirmed paravisor", 1: "guest.measured@node contradicted not-listed"} {
		s := soundAzure(t, azure.KindTDX)
		s.k.References[0].Values[1].Registers = []attest.Register{{Index: 0, Value: bytes.Repeat([]byte{value}, 48)}}
		if got := say(s.appraise(), "guest.measured", "node"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A TD without its quote shows no measurement of the paravisor.
func TestAzureWithoutQuote(t *testing.T) {
	s := soundAzure(t, azure.KindTDX)
	s.cpu.Parts = s.cpu.Parts[:1]
	set := s.appraise()
	for _, want := range []string{"azure.runtime-data@cpu:0 unknown evidence-missing", "guest.measured@node unknown evidence-missing", "binding.seal@node unknown rests-on"} {
		claimed, _, _ := strings.Cut(want, " ")
		id, subject, _ := strings.Cut(claimed, "@")
		if got := say(set, id, subject); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What cannot seal is told why.
func TestAzureReportCannotSeal(t *testing.T) {
	s := soundAzure(t, azure.KindSNP)
	s.seal = "cpu0"
	if c := s.appraise().Find("binding.seal", "node"); !strings.Contains(string(c.Reason), "an HCL report cannot seal") {
		t.Error(c.Reason)
	}
}

func TestAzureFiles(t *testing.T) {
	s := soundAzure(t, azure.KindSNP)
	report := s.cpu.Parts[0].Data
	for _, row := range []struct {
		name, typ string
		data      []byte
		fault     string
	}{
		{"Trustee's evidence", "", s.vm.Trustee(1, []byte("nonce")), ""},
		{"Trustee's evidence by name", verifier.TypeAzureSNP, s.vm.Trustee(0, []byte("nonce")), ""},
		{"HCL report", "", report, ""},
		{"SEV-SNP as TDX", verifier.TypeAzureTDX, report, "of type azure-snp, not azure-tdx"},
		{"another file", verifier.TypeAzureSNP, []byte("{}"), "want one of each"},
	} {
		o, err := verifier.Open(row.typ, row.data)
		if err != nil {
			t.Fatal(err)
		}
		if f := o.Fault(); row.fault == "" && f != nil || row.fault != "" && (f == nil || !strings.Contains(f.Error(), row.fault)) {
			t.Errorf("%s: fault %v, want %q", row.name, f, row.fault)
		}
	}
	o, err := verifier.Open("", report)
	if err != nil {
		t.Fatal(err)
	}
	// A report alone measures the paravisor, even where that is listed.
	if got := say(verifier.Appraise(o, s.k).Claims, "guest.measured", "node"); got != "guest.measured@node unknown evidence-missing" {
		t.Error(got)
	}
}

// TestAzureNonce: the nonce of Trustee's evidence stands in the quote and, padded, in the user data. Evidence that has it
// in the quote alone has a report of any age, whatever version it calls itself.
func TestAzureNonce(t *testing.T) {
	for _, row := range []struct{ file, nonce, want string }{
		{"v2", "982f5c6e45df0ed3f10b6f60b02f0c8390e281300f3805e2279c16168cd6ae9aa398f647caa2338748cd0fd9f5f819ef", "azure.report-fresh@cpu:0 affirmed "},
		{"v1", hex.EncodeToString([]byte("challenge")), "azure.report-fresh@cpu:0 contradicted no-freshness"},
	} {
		o, err := verifier.Open("", vectors.Read(t, "cpu/azure/trustee-az-snp-evidence-"+row.file+".json"))
		if err != nil || o.Fault() != nil {
			t.Fatal(err, o.Fault())
		}
		k := attest.Case{Roots: verifier.VendorRoots(), At: 1748736000, Expect: attest.Expect{Type: attest.ExpectType}}
		if err := k.Expect.QualifyingData.UnmarshalText([]byte(row.nonce)); err != nil {
			t.Fatal(err)
		}
		set := verifier.Appraise(o, k).Claims
		if got := say(set, "azure.report-fresh", "cpu:0"); !strings.HasPrefix(got, row.want) {
			t.Errorf("%s: %s, want %s", row.file, got, row.want)
		}
		if got := say(set, "tpm.freshness", "tpm:0"); !strings.HasPrefix(got, "tpm.freshness@tpm:0 affirmed") {
			t.Errorf("%s: %s", row.file, got)
		}
	}
}
