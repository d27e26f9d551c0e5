package azure_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
)

const (
	cpu  = "cpu:0"
	vtpm = "tpm:0"
)

var (
	june  = canon.At(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	nonce = bytes.Repeat([]byte{0x5a}, 32)
	boot  = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14}
)

// scene is a sound machine and all that an appraiser knows of it. A twin changes one thing.
type scene struct {
	vm     *mint.AzureVM
	report func(*azure.Report)      // changes the HCL report
	raw    func([]byte) []byte      // changes its bytes
	parts  func(*attest.Component)  // changes the component
	quote  func() *attest.Component // the quote; nil: of the machine's own TPM
	asked  attest.Asked
	c      attest.Case
}

var (
	amd   = mint.NewAMD(sevsnp.Milan)
	intel = mint.NewIntel()
)

func sound(t testing.TB, kind azure.Kind) *scene {
	t.Helper()
	m := mint.NewTPMMaker().RSATPM("one", tpm.AlgRSASSA)
	m.Boot("root=/dev/sda quiet")
	s := &scene{}
	if kind == azure.KindSNP {
		p := amd.Platform(amd.Chip("one"), sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}, [48]byte{7}, sevsnp.PolicyReservedOne|sevsnp.PolicySMT)
		p.Fields.IDKeyDigest = [48]byte{1}
		s.vm = mint.AzureSNP(p, m)
	} else {
		q := mint.SoundQuote()
		q.MRTD = [48]byte{7}
		s.vm = mint.AzureTDX(intel.TD(intel.IntelPlatform("one"), q), m)
	}
	copy(s.vm.UserData[:], bytes.Repeat([]byte{0xc5}, 64))
	s.asked = attest.Asked{ReportData: s.vm.UserData[:], Value: "aa", From: june - 60, Why: "it holds something else"}
	roots, err := attest.NewRoots(slices.Concat(amd.Roots(), intel.Roots(), m.Maker.Roots())...)
	if err != nil {
		t.Fatal(err)
	}
	s.c = attest.Case{Roots: roots, At: june}
	return s
}

// component returns the scene's HCL report as evidence.
func (s *scene) component() attest.Component {
	comp := s.vm.CPU()
	report, err := azure.ParseReport(comp.Parts[0].Data)
	if err != nil {
		panic(err)
	}
	if s.report != nil {
		s.report(&report)
		comp.Parts[0].Data = report.Encode()
	}
	if s.raw != nil {
		comp.Parts[0].Data = s.raw(bytes.Clone(comp.Parts[0].Data))
	}
	if s.parts != nil {
		s.parts(&comp)
	}
	return comp
}

func (s *scene) appraise() (claim.Set, attest.Finding) {
	comp := s.component()
	var set claim.Set
	f := azure.Appraise(comp, cpu, &s.c, s.asked, &set)
	quote := s.vm.Quote(nonce, s.vm.TPM.PCRs(eventlog.SHA256, boot...))
	if s.quote != nil {
		quote = *s.quote()
	}
	var ties []tpm.Tie
	if tie, ok := azure.TieOf(comp, cpu); ok {
		ties = append(ties, tie)
	}
	tpm.AppraiseTied(quote, vtpm, &s.c, attest.Asked{ReportData: nonce, Value: "5a", Why: "another nonce"}, ties, &set)
	set.Settle()
	return set, f
}

// word is what a row says of a claim: "ID STATUS VALUE" or "ID STATUS CODE".
func word(c claim.Claim) string {
	if c.Status == claim.Affirmed {
		return strings.TrimSpace(c.ID + " affirmed " + c.Value)
	}
	return c.ID + " " + c.Status.String() + " " + c.Reason.Code()
}

func TestSound(t *testing.T) {
	for _, row := range []struct {
		kind   azure.Kind
		format string
		want   []string
	}{
		{azure.KindSNP, "azure-snp", []string{"sevsnp.signature affirmed", "sevsnp.freshness affirmed aa", "sevsnp.vmpl affirmed 0"}},
		{azure.KindTDX, "azure-tdx", []string{"tdx.signature affirmed", "tdx.freshness affirmed aa"}},
	} {
		s := sound(t, row.kind)
		set, f := s.appraise()
		for _, want := range append(row.want,
			"azure.structure affirmed "+row.format, "azure.runtime-data affirmed console-enabled secure-boot tpm-enabled", "azure.report-fresh affirmed aa",
			"tpm.ak-attributes affirmed", "tpm.ak-bound affirmed paravisor", "tpm.signature affirmed rsassa-sha256", "tpm.quote affirmed", "tpm.pcr-digest affirmed", "tpm.freshness affirmed 5a") {
			if !slices.ContainsFunc(set, func(c claim.Claim) bool { return word(c) == want }) {
				t.Errorf("%s: no %q", row.format, want)
			}
		}
		if f.Format != row.format || f.Measurement[0] != 7 || len(f.Identities) == 0 || f.Signature == "" {
			t.Errorf("%s: finding %+v", row.format, f)
		}
		for _, id := range []string{"tpm.ak-attributes", "tpm.ak-bound"} {
			if c := set.Find(id, vtpm); !slices.Contains(c.Basis, "azure.runtime-data@cpu:0") || !slices.Contains(c.Basis, "paravisor") {
				t.Errorf("%s rests on %q", id, c.Basis)
			}
		}
		for _, c := range set {
			if c.Status == claim.Contradicted {
				t.Errorf("%s: %s: %s", row.format, c.ID, c.Reason)
			}
		}
		if c := set.Find("azure.report-fresh", cpu); c.From != june-60 {
			t.Errorf("%s: fresh from %s", row.format, c.From)
		}
		if c := set.Find(f.Signature[:strings.Index(f.Signature, ".")]+".freshness", cpu); c.From != june-60 {
			t.Errorf("%s: hardware fresh from %s", row.format, c.From)
		}
	}
}

// rewrite changes the runtime data before the paravisor has it signed.
func rewrite(old, replacement string) func(*scene) {
	return func(s *scene) {
		s.vm.Rewrite = func(text []byte) []byte {
			if !bytes.Contains(text, []byte(old)) {
				panic(old)
			}
			return bytes.Replace(text, []byte(old), []byte(replacement), 1)
		}
	}
}

// set32 changes a number of the HCL report.
func set32(offset int, v uint32) func(*scene) {
	return func(s *scene) {
		s.raw = func(b []byte) []byte { binary.LittleEndian.PutUint32(b[offset:], v); return b }
	}
}

func flip(offset int) func(*scene) {
	return func(s *scene) { s.raw = func(b []byte) []byte { b[offset] ^= 1; return b } }
}

// flipAt flips a bit of the first byte of a text in the report.
func flipAt(text string) func(*scene) {
	return func(s *scene) { s.raw = func(b []byte) []byte { b[bytes.Index(b, []byte(text))] ^= 1; return b } }
}

const request = 32 + 1184 // where the request begins

// TestTwins: each fault contradicts its own claim, what rests on that falls, and nothing else is contradicted.
func TestTwins(t *testing.T) {
	modulus := func(s *scene) string {
		text := string(s.vm.Runtime())
		_, rest, _ := strings.Cut(text, `"n":"`)
		n, _, _ := strings.Cut(rest, `"`)
		return n
	}
	for _, row := range []struct {
		name   string
		kind   azure.Kind
		change func(*scene)
		want   string   // "ID STATUS WORD"
		falls  []string // claims that rest on it
	}{
		{"one byte of the runtime data", azure.KindSNP, flipAt("26F8BC30"),
			"azure.runtime-data contradicted mismatch", []string{"azure.report-fresh", "sevsnp.freshness", "tpm.ak-bound", "tpm.ak-attributes", "tpm.quote"}},
		{"one byte of the runtime data on TDX", azure.KindTDX, flipAt("26F8BC30"),
			"azure.runtime-data contradicted mismatch", []string{"azure.report-fresh", "tdx.freshness", "tpm.quote"}},
		{"white space in the runtime data", azure.KindSNP, func(s *scene) { s.report = func(r *azure.Report) { r.Runtime = append(bytes.Clone(r.Runtime), ' ') } },
			"azure.runtime-data contradicted mismatch", []string{"azure.report-fresh"}},
		{"second half of REPORT_DATA", azure.KindSNP, func(s *scene) {
			s.report = func(r *azure.Report) {
				r.Hardware = bytes.Clone(r.Hardware)
				r.Hardware[0x50+63] = 1
				r.Hardware = mint.SignReport(r.Hardware, s.vm.SNP.Signer)
			}
		}, "azure.runtime-data contradicted mismatch", []string{"azure.report-fresh", "sevsnp.freshness", "tpm.quote"}},
		{"quote of another TD", azure.KindTDX, func(s *scene) {
			s.parts = func(c *attest.Component) { c.Parts[1].Data = s.vm.TD.Quote([64]byte{1}) }
		}, "azure.runtime-data contradicted mismatch", []string{"azure.report-fresh", "tdx.freshness"}},
		{"TDREPORT of other data", azure.KindTDX, flip(32 + 128), "azure.runtime-data contradicted mismatch", []string{"azure.report-fresh"}},
		{"asked for by the guest", azure.KindSNP, func(s *scene) { s.vm.SNP.Fields.VMPL = 2 }, "azure.runtime-data contradicted guest-request", []string{"azure.report-fresh", "sevsnp.freshness", "tpm.ak-bound", "tpm.ak-attributes"}},
		{"no TDX quote", azure.KindTDX, func(s *scene) { s.parts = func(c *attest.Component) { c.Parts = c.Parts[:1] } },
			"azure.runtime-data unknown evidence-missing", []string{"azure.report-fresh", "tpm.ak-bound"}},
		{"report not signed by the chip", azure.KindSNP, flip(32 + 0x90), "sevsnp.signature contradicted bad-signature", []string{"azure.runtime-data", "azure.report-fresh", "tpm.ak-bound", "tpm.quote"}},

		{"other user data", azure.KindSNP, func(s *scene) { s.vm.UserData[63] ^= 1; s.asked.ReportData = bytes.Repeat([]byte{0xc5}, 64) },
			"azure.report-fresh contradicted mismatch", []string{"sevsnp.freshness"}},
		{"other user data on TDX", azure.KindTDX, func(s *scene) { s.vm.UserData[63] ^= 1; s.asked.ReportData = bytes.Repeat([]byte{0xc5}, 64) },
			"azure.report-fresh contradicted mismatch", []string{"tdx.freshness"}},
		{"user data of zeros", azure.KindSNP, func(s *scene) { s.asked.ReportData = bytes.Repeat([]byte{0xc5}, 64); s.vm.UserData = [64]byte{} },
			"azure.report-fresh contradicted no-freshness", []string{"sevsnp.freshness"}},
		{"no user data", azure.KindSNP, rewrite(`,"user-data":"`+strings.Repeat("C5", 64)+`"`, ""), "azure.report-fresh contradicted no-freshness", []string{"sevsnp.freshness"}},
		{"nothing asked", azure.KindSNP, func(s *scene) { s.asked = attest.Asked{} }, "azure.report-fresh unknown no-expectation", []string{"sevsnp.freshness"}},

		{"another key in the runtime data", azure.KindSNP, func(s *scene) {
			s.vm.Rewrite = func(text []byte) []byte { // the endorsement key takes the place of the attestation key
				text = bytes.Replace(text, []byte("HCLAkPub"), []byte("HCLxkPub"), 1)
				return bytes.Replace(text, []byte("HCLEkPub"), []byte("HCLAkPub"), 1)
			}
		}, "tpm.ak-bound contradicted mismatch", []string{"tpm.quote", "tpm.freshness"}},

		{"magic", azure.KindSNP, flip(0), "azure.structure contradicted malformed", nil},
		{"version", azure.KindSNP, set32(4, 3), "azure.structure contradicted malformed", nil},
		{"size in the header", azure.KindSNP, flip(8), "azure.structure contradicted malformed", nil},
		{"request type", azure.KindSNP, set32(12, 1), "azure.structure contradicted malformed", nil},
		{"status", azure.KindSNP, set32(16, 1), "azure.structure contradicted malformed", nil},
		{"reserved byte", azure.KindSNP, flip(31), "azure.structure contradicted malformed", nil},
		{"request size", azure.KindSNP, flip(request), "azure.structure contradicted malformed", nil},
		{"request version", azure.KindSNP, set32(request+4, 2), "azure.structure contradicted malformed", nil},
		{"report type", azure.KindSNP, set32(request+8, 3), "azure.structure contradicted malformed", nil},
		{"hash type", azure.KindSNP, set32(request+12, 2), "azure.structure contradicted malformed", nil},
		{"runtime size", azure.KindSNP, set32(request+16, 1<<31), "azure.structure contradicted malformed", nil},
		{"byte in the padding", azure.KindSNP, func(s *scene) { s.raw = func(b []byte) []byte { b[len(b)-1] = 1; return b } }, "azure.structure contradicted malformed", nil},
		{"byte behind the TDREPORT", azure.KindTDX, flip(32 + 1024), "azure.structure contradicted malformed", nil},
		{"cut", azure.KindSNP, func(s *scene) { s.raw = func(b []byte) []byte { return b[:request+19] } }, "azure.structure contradicted malformed", nil},
		{"oversize", azure.KindSNP, func(s *scene) { s.raw = func(b []byte) []byte { return append(b, make([]byte, 8<<10)...) } }, "azure.structure contradicted malformed", nil},
		{"quote beside SEV-SNP", azure.KindSNP, func(s *scene) { s.parts = func(c *attest.Component) { c.Parts[1].Name = azure.PartQuote } }, "azure.structure contradicted malformed", nil},
		{"a third part", azure.KindSNP, func(s *scene) { s.parts = func(c *attest.Component) { c.Parts = append(c.Parts, c.Parts[1]) } }, "azure.structure contradicted malformed", nil},
		{"no report", azure.KindSNP, func(s *scene) { s.parts = func(c *attest.Component) { c.Parts = c.Parts[1:] } }, "azure.structure contradicted malformed", nil},

		{"key list twice", azure.KindSNP, rewrite(`{"keys":`, `{"keys":[],"keys":`), "azure.structure contradicted malformed", nil},
		{"key list in two spellings", azure.KindSNP, rewrite(`{"keys":`, `{"Keys":[],"keys":`), "azure.structure contradicted malformed", nil},
		{"key list in another spelling", azure.KindSNP, rewrite(`{"keys":`, `{"Keys":`), "azure.structure contradicted malformed", nil},
		{"user data twice", azure.KindSNP, rewrite(`,"user-data":`, `,"user-data":"","user-data":`), "azure.structure contradicted malformed", nil},
		{"user data in another spelling", azure.KindSNP, rewrite(`"user-data":`, `"User-Data":`), "azure.structure contradicted malformed", nil},
		{"modulus twice", azure.KindSNP, rewrite(`"e":"AQAB"`, `"e":"AQAB","n":"AQAB"`), "azure.structure contradicted malformed", nil},
		{"modulus in two spellings", azure.KindSNP, rewrite(`"e":"AQAB"`, `"e":"AQAB","N":"AQAB"`), "azure.structure contradicted malformed", nil},
		{"two attestation keys", azure.KindSNP, rewrite("HCLEkPub", "HCLAkPub"), "azure.structure contradicted malformed", nil},
		{"attestation key in another spelling", azure.KindSNP, rewrite("HCLAkPub", "hclakpub"), "azure.structure contradicted malformed", nil},
		{"no attestation key", azure.KindSNP, rewrite("HCLAkPub", "other"), "azure.structure contradicted malformed", nil},
		{"exponent", azure.KindSNP, rewrite("AQAB", "Aw"), "azure.structure contradicted malformed", nil},
		{"key type", azure.KindSNP, rewrite(`"RSA"`, `"EC"`), "azure.structure contradicted malformed", nil},
		{"short modulus", azure.KindSNP, func(s *scene) { n := modulus(s); rewrite(n, n[:len(n)-4])(s) }, "azure.structure contradicted malformed", nil},
		{"even modulus", azure.KindSNP, func(s *scene) {
			n := modulus(s)
			rewrite(n, n[:len(n)-1]+map[byte]string{'Q': "A", 'w': "g"}[n[len(n)-1]])(s) // its last digit holds two bits
		}, "azure.structure contradicted malformed", nil},
		{"modulus with an end of line", azure.KindSNP, func(s *scene) { n := modulus(s); rewrite(n, n[:8]+`\n`+n[8:])(s) }, "azure.structure contradicted malformed", nil},
		{"modulus with a sign of padding", azure.KindSNP, func(s *scene) { n := modulus(s); rewrite(n, n+"==")(s) }, "azure.structure contradicted malformed", nil},
		{"short user data", azure.KindSNP, rewrite("C5C5", ""), "azure.structure contradicted malformed", nil},
		{"user data that is no hex", azure.KindSNP, rewrite("C5C5", "C5Cx"), "azure.structure contradicted malformed", nil},
		{"secure boot in words", azure.KindSNP, rewrite(`"secure-boot":true`, `"secure-boot":"true"`), "azure.structure contradicted malformed", nil},
		{"a second text behind it", azure.KindSNP, func(s *scene) { s.vm.Rewrite = func(b []byte) []byte { return append(b, "{}"...) } }, "azure.structure contradicted malformed", nil},

		{"secure boot off", azure.KindSNP, rewrite(`"secure-boot":true`, `"secure-boot":false`), "azure.runtime-data affirmed console-enabled tpm-enabled", nil},
		{"a new member", azure.KindSNP, rewrite(`{"keys":`, `{"paravisor":{"svn":[1,2]},"keys":`), "azure.runtime-data affirmed console-enabled secure-boot tpm-enabled", nil},
		{"header of version 1", azure.KindSNP, set32(4, 1), "azure.runtime-data affirmed console-enabled secure-boot tpm-enabled", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := sound(t, row.kind)
			row.change(s)
			set, _ := s.appraise()
			id, _, _ := strings.Cut(row.want, " ")
			i := slices.IndexFunc(set, func(c claim.Claim) bool { return c.ID == id })
			if i < 0 || word(set[i]) != row.want {
				t.Fatalf("%s: %+v", row.want, set[max(i, 0)])
			}
			for _, c := range set {
				switch {
				case c.ID == id:
				case slices.Contains(row.falls, c.ID) && (c.Status != claim.Unknown || c.Reason.Code() != claim.RestsOn):
					t.Errorf("%s: %s (%s), want unknown", c.ID, c.Status, c.Reason)
				case c.Status == claim.Contradicted && !(id == "sevsnp.signature" || strings.HasPrefix(row.want, "azure.structure c")):
					t.Errorf("%s contradicted too: %s", c.ID, c.Reason)
				}
			}
		})
	}
}

// TestQuoteOfAnotherMachine: with evidence of two machines, the quote of one beside the report of the other is refused,
// whether the key is that of the quote or that of the report.
func TestQuoteOfAnotherMachine(t *testing.T) {
	s := sound(t, azure.KindSNP)
	registers := s.vm.TPM.PCRs(eventlog.SHA256, boot...)
	stranger := mint.NewTPMMaker().TPM("stranger")
	stranger.Boot("root=/dev/sda quiet")
	quote := stranger.Component(nonce, registers)
	s.quote = func() *attest.Component { return &quote }
	set, _ := s.appraise()
	if c := set.Find("tpm.ak-bound", vtpm); c.Status != claim.Contradicted || c.Reason.Code() != claim.Mismatch {
		t.Errorf("another key: %s", word(*c))
	}
	own := s.vm.Quote(nonce, registers)
	own.Parts[1].Data = quote.Parts[1].Data // its signature
	s.quote = func() *attest.Component { return &own }
	set, _ = s.appraise()
	if c := set.Find("tpm.signature", vtpm); c.Status != claim.Contradicted {
		t.Errorf("another signature: %s", word(*c))
	}
}

// TestPublicArea: a key that is shown with its public area is judged by that too, and its attributes rest on the tie of
// the key alone.
func TestPublicArea(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*tpm.Public)
		want   string
	}{
		{"sound", func(*tpm.Public) {}, "tpm.ak-attributes affirmed"},
		{"not restricted", func(p *tpm.Public) { p.Attributes &^= tpm.Restricted }, "tpm.ak-attributes contradicted bad-attributes"},
	} {
		s := sound(t, azure.KindSNP)
		s.quote = func() *attest.Component {
			row.change(&s.vm.TPM.Public)
			c := s.vm.TPM.Component(nonce, s.vm.TPM.PCRs(eventlog.SHA256, boot...))
			return &c
		}
		set, _ := s.appraise()
		if c := set.Find("tpm.ak-attributes", vtpm); word(*c) != row.want {
			t.Errorf("%s: %s", row.name, word(*c))
		}
		if c := set.Find("tpm.ak-bound", vtpm); word(*c) != "tpm.ak-bound affirmed paravisor" {
			t.Errorf("%s: %s", row.name, word(*c))
		}
	}
}

// TestRoundTrip: what is read is written again to the same bytes.
func TestRoundTrip(t *testing.T) {
	for _, kind := range []azure.Kind{azure.KindSNP, azure.KindTDX} {
		raw := sound(t, kind).component().Parts[0].Data
		r, err := azure.ParseReport(raw)
		if err != nil || !bytes.Equal(r.Encode(), raw) {
			t.Errorf("%s: %v", kind.Format(), err)
		}
	}
}

// TestNeeds: what is missing has a name and a place.
func TestNeeds(t *testing.T) {
	s := sound(t, azure.KindSNP)
	comp := s.component()
	comp.Parts = comp.Parts[:1]
	needs := azure.Needs(comp, cpu, s.c.Roots)
	if !slices.ContainsFunc(needs, func(n attest.Need) bool { return n.Kind == attest.KindAMDCertificate && n.For == cpu }) {
		t.Errorf("needs %+v", needs)
	}
	if needs := azure.Needs(s.component(), cpu, s.c.Roots); slices.ContainsFunc(needs, func(n attest.Need) bool { return n.Kind == attest.KindAMDCertificate }) {
		t.Errorf("needs what stands beside it: %+v", needs)
	}
}

func TestTrusteeForms(t *testing.T) {
	for _, kind := range []azure.Kind{azure.KindSNP, azure.KindTDX} {
		for version := range 3 {
			s := sound(t, kind)
			file := s.vm.Trustee(version, nonce)
			if got := azure.Recognize(file); got != kind.Format() {
				t.Errorf("version %d: taken for %q", version, got)
			}
			comps, err := azure.Read(file)
			if err != nil || len(comps) != 2 {
				t.Fatalf("%s version %d: %v", kind.Format(), version, err)
			}
			var set claim.Set
			azure.Appraise(comps[1], cpu, &s.c, s.asked, &set)
			tie, _ := azure.TieOf(comps[1], cpu)
			tpm.AppraiseTied(comps[0], vtpm, &s.c, attest.Asked{ReportData: nonce}, []tpm.Tie{tie}, &set)
			set.Settle()
			for _, id := range []string{"azure.runtime-data@cpu:0", "azure.report-fresh@cpu:0", "tpm.quote@tpm:0", "tpm.pcr-digest@tpm:0", "tpm.freshness@tpm:0"} {
				id, subject, _ := strings.Cut(id, "@")
				if c := set.Find(id, subject); c == nil || c.Status != claim.Affirmed {
					t.Errorf("%s version %d: %s %+v", kind.Format(), version, id, c)
				}
			}
		}
	}
}

func TestTrusteeRefusals(t *testing.T) {
	file := string(sound(t, azure.KindSNP).vm.Trustee(2, nonce))
	replace := func(old, replacement string) string {
		if !strings.Contains(file, old) {
			t.Fatalf("no %s", old)
		}
		return strings.Replace(file, old, replacement, 1)
	}
	for _, row := range []struct{ name, file, want string }{
		{"version 3", replace(`"version":2`, `"version":3`), "version 3 is not known"},
		{"version as text", replace(`"version":2`, `"version":"2"`), "want a number"},
		{"unknown member", replace(`"version":2`, `"version":2,"x":1`), `member "x" is not known`},
		{"report twice", replace(`"version":2`, `"report":"","version":2`), "want one of each"},
		{"another spelling", replace(`"vcek"`, `"VCEK"`), "is spelt otherwise"},
		{"twice", replace(`"version":2`, `"version":2,"version":2`), "not strict JSON"},
		{"number above a byte", replace(`"signature":"`, `"x":"`), `"x" is not known`},
		{"something behind it", file + "{}", "something stands behind it"},
		{"base64 with an end of line", replace(`"hcl_report":"`, `"hcl_report":"\n`), "want bytes"},
		{"bytes above 255", `{"report":[256],"quote":{}}`, "want an integer from 0 to 255"},
		{"report in pieces", `{"report":{},"quote":{}}`, "want a text"},
		{"oversize", file + strings.Repeat(" ", 128<<10), "at most"},
		{"25 registers", replace(`"pcrs":[`, `"pcrs":["`+strings.Repeat("00", 32)+`",`), "more than 24 items"},
		{"23 registers", replace(`"pcrs":["`+file[strings.Index(file, `"pcrs":["`)+9:][:64]+`",`, `"pcrs":[`), "ends before register"},
		{"VCEK and TDX quote", replace(`"version":2`, `"td_quote":"AA==","version":2`), "a VCEK and a TDX quote"},
		{"a quote too long", replace(`"signature":"`, `"signature":"`+strings.Repeat("00", 1<<10)), "bytes, at most 1024"},
		{"two certificates", replace(`"vcek":"`, `"vcek":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`), "want bytes"},
	} {
		if _, err := azure.Read([]byte(row.file)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
	if got := azure.Recognize([]byte(`{"payload":"` + hex.EncodeToString(nonce) + `"}`)); got != "" {
		t.Errorf("an envelope is taken for %s", got)
	}
}
