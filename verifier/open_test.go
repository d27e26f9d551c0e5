package verifier_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/alloc"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
	"github.com/assay-network/assay/verifier"
)

func TestOpen(t *testing.T) {
	all, _ := minted(t)
	report, bundle := all["genoa-v5"].Evidence, all["bundle-genoa-v5"].Evidence
	digits := []byte(canon.Hex(report).String())
	for _, row := range []struct {
		name, typ string
		data      []byte
		fault     string // "": none
	}{
		{"report", "", report, ""},
		{"report by name", verifier.TypeSEVSNP, report, ""},
		{"report in hex", "", digits, ""},
		{"report in upper-case hex with an end of line", "", append(bytes.ToUpper(digits), '\n'), ""},
		{"extended report", "", all["milan-v3-table"].Evidence, ""},
		{"bundle", "", bundle, ""},
		{"bundle with an end of line", "", append(bytes.Clone(bundle), '\n'), ""},
		{"bundle with two ends of line", "", append(bytes.Clone(bundle), '\n', '\n'), "canonical"},
		{"bundle as a report", verifier.TypeSEVSNP, bundle, ""}, // its room says what is wrong
		{"report as a bundle", verifier.TypeBundle, report, "envelope"},
		{"nothing", "", nil, "no format that this build reads"},
		{"text", "", []byte("hello"), "no format that this build reads"},
		{"text that is no ASCII", "", []byte("h\u00e9llo\x00"), `"h\u00e9llo\x00"`},
		{"cut report", "", report[:1183], "no format that this build reads"},
		{"oversize", verifier.TypeSEVSNP, make([]byte, attest.MaxBundle+1), "at most"},
		{"oversize bundle", "", append([]byte{'{'}, make([]byte, attest.MaxBundle)...), "at most"},
	} {
		o, err := verifier.Open(row.typ, row.data)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if f := o.Fault(); row.fault == "" && f != nil || row.fault != "" && (f == nil || !strings.Contains(f.Error(), row.fault)) {
			t.Errorf("%s: fault %v, want %q", row.name, f, row.fault)
		}
		if o.Digest() != canon.Sum(row.data) {
			t.Errorf("%s: the digest is not of the file", row.name)
		}
		a := verifier.Appraise(o, attest.Case{Roots: verifier.VendorRoots()})
		if c := a.Claims.Find("bundle.structure", "node"); (c.Status == claim.Affirmed) != (row.fault == "") {
			t.Errorf("%s: bundle.structure %s", row.name, c.Status)
		}
	}
	if _, err := verifier.Open("sgx", report); err == nil || !strings.Contains(err.Error(), `"tdx"`) {
		t.Errorf("a type that does not exist: %v", err)
	}
}

// TestFailure: a room that panics is our fault. Nothing is held against the provider, and nothing is affirmed.
func TestFailure(t *testing.T) {
	all, _ := minted(t)
	verifier.TestingOnlyFailingRoom(t)
	for _, name := range []string{"genoa-v5", "bundle-genoa-v5"} {
		j := judge(t, all[name])
		if c := j.Appraisal.Claims.Find("sevsnp.structure", "cpu:0"); c.Status != claim.Unknown || c.Reason.Code() != claim.Internal {
			t.Errorf("%s: %s %s", name, c.Status, c.Reason)
		}
		for _, v := range j.Verdicts {
			if v.Outcome != policy.Undecided {
				t.Errorf("%s: %s by %s: %+v", name, v.Outcome, v.Policy.Name, v.Reasons)
			}
		}
		o, k, err := all[name].Open()
		if err != nil {
			t.Fatal(err)
		}
		if needs := o.Needs(k.Roots); needs != nil {
			t.Errorf("%s: needs %+v", name, needs)
		}
	}
}

// hostile are files that try to cost more than they weigh.
func hostile(t testing.TB) map[string][]byte {
	all, _ := minted(t)
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, attest.MaxBundle)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	table := make([]byte, attest.MaxCertTable)
	copy(table, random)
	report := all["milan-v3"].Evidence
	text := func(unit string, size int) []byte { return bytes.Repeat([]byte(unit), size/len(unit)) }
	envelope := func(payload []byte) []byte {
		b, err := canon.Marshal(ledger.Envelope{PayloadType: attest.BundleType, Payload: payload, Signatures: []ledger.Signature{{Sig: make([]byte, 64)}}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b, err := attest.ParseBundle(payloadOf(t, all["bundle-milan-v3"].Evidence))
	if err != nil {
		t.Fatal(err)
	}
	for i := range attest.MaxComponents - len(b.Components) {
		b.Components = append(b.Components, attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: string(rune('a' + i)), Parts: []attest.Part{
			{Name: sevsnp.PartReport, Data: report}, {Name: sevsnp.PartCertificates, Data: table}}})
	}
	large, err := canon.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"nothing": nil, "one byte": {0}, "random": random, "random after a brace": append([]byte{'{'}, random[1:]...),
		"random after a version": append([]byte{3, 0, 0, 0}, random[4:]...), "random table": append(bytes.Clone(report), table...),
		"zeros": make([]byte, attest.MaxBundle), "deep arrays": append([]byte(`{"payload":`), text("[", attest.MaxBundle-16)...), "deep objects": text(`{"a":`, attest.MaxBundle),
		"many members": append([]byte{'{'}, text(`"a":1,`, attest.MaxBundle-8)...), "long string": append([]byte(`{"payload":"`), text("A", attest.MaxBundle-16)...),
		"escapes": append([]byte(`{"payload":"`), text(`\u0041`, attest.MaxBundle-16)...), "long number": append([]byte(`{"payload":`), text("1", attest.MaxBundle-16)...),
		"components without end":     envelope(append([]byte(`{"challenge":"`+strings.Repeat("0", 64)+`","components":[`), text(`{},`, 2<<20)...)),
		"32 CPUs with random tables": envelope(large), "hex": text("0a", 2*sevsnp.ReportSize), "sound bundle": all["bundle-milan-v3-table"].Evidence, "sound report": report,
	}
	maps.Copy(files, hostileQuotes(t, all, random))
	return files
}

// hostileQuotes are quotes of TDX and of TPMs, and bundles of them, that try the same.
func hostileQuotes(t testing.TB, all map[string]testvectors.Case, random []byte) map[string][]byte {
	quote := all["tdx-v4"].Evidence
	head := quote[:48]
	full := func(b []byte) []byte { return append(bytes.Clone(b), make([]byte, tdx.MaxQuote-len(b))...) }
	files := map[string][]byte{
		"sound quote": quote, "quote with zeros behind": full(quote), "quote in hex": []byte(hex.EncodeToString(full(quote))), "quote in base64": []byte(base64.StdEncoding.EncodeToString(full(quote))),
		"random after a header of TDX": append(bytes.Clone(head), random[:tdx.MaxQuote-len(head)]...), "4 MiB after a header of TDX": append(bytes.Clone(head), random[len(head):]...),
		"hex without end": bytes.Repeat([]byte("04000200"), attest.MaxBundle/8), "sound TPM quote": all["tpm-ecc"].Evidence, "sound bundle of a TPM": all["bundle-tpm"].Evidence,
	}

	// Logs of the smallest events, lists of the shortest lines: what makes the most structures of the fewest bytes.
	log := func(size int) []byte {
		l := mint.NewEventLog(eventlog.SHA256)
		head := len(l.Bytes())
		l.AddDigests(0, eventlog.IPL, nil, map[eventlog.Algorithm][]byte{eventlog.SHA256: make([]byte, 32)})
		event := l.Bytes()[head:]
		return append(bytes.Clone(l.Bytes()), bytes.Repeat(event, min(size/len(event), eventlog.MaxEvents-1))...)
	}
	events := log(eventlog.MaxLog / 2)
	line := []byte("10 " + strings.Repeat("0", 40) + " ima-ng sha256:" + strings.Repeat("0", 64) + " x\n")
	list := bytes.Repeat(line, eventlog.MaxLog/2/len(line))
	for name, put := range map[string]func(map[string]any){
		"log of small events":    func(f map[string]any) { f["event_log"] = hex.EncodeToString(events) },
		"IMA list of violations": func(f map[string]any) { f["ima"] = hex.EncodeToString(list) },
		"log and list": func(f map[string]any) {
			f["event_log"], f["ima"] = hex.EncodeToString(events), hex.EncodeToString(list)
		},
		"random log": func(f map[string]any) {
			f["event_log"] = hex.EncodeToString(append(bytes.Clone(events[:64]), random[:1<<19]...))
		},
		"certificates of zeros": func(f map[string]any) { f["ek_certificate"] = strings.Repeat("3003020100", 1<<12) },
		"many registers": func(f map[string]any) {
			pcrs := map[string]string{}
			for i := range 1 << 14 {
				pcrs[strconv.Itoa(i)] = strings.Repeat("0", 64)
			}
			f["pcrs_sha256"] = pcrs
		},
	} {
		var file map[string]any
		if err := json.Unmarshal(all["tpm-ecc"].Evidence, &file); err != nil {
			t.Fatal(err)
		}
		put(file)
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		files["TPM quote: "+name] = text
	}

	// As many TPMs and TDs as a bundle holds, each with the most to judge.
	crowd := func(name, of string, change func(*attest.Component)) {
		b, err := attest.ParseBundle(payloadOf(t, all[of].Evidence))
		if err != nil {
			t.Fatal(err)
		}
		seal := b.Components[0]
		change(&seal)
		for i := len(b.Components); i < attest.MaxComponents; i++ {
			seal.Label = "x" + strconv.Itoa(i)
			b.Components = append(b.Components, seal)
		}
		payload, err := canon.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		file, err := canon.Marshal(ledger.Envelope{PayloadType: attest.BundleType, Payload: payload, Signatures: []ledger.Signature{{Sig: make([]byte, 64)}}})
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	crowd("31 TDs", "bundle-tdx-v5", func(*attest.Component) {})
	crowd("31 TPMs with long logs", "bundle-tpm", func(c *attest.Component) {
		for i, p := range c.Parts {
			switch p.Name {
			case tpm.PartEventLog:
				c.Parts[i].Data = log(32 << 10)
			case tpm.PartIMA:
				c.Parts[i].Data = list[:256*len(line)]
			}
		}
	})
	return files
}

func payloadOf(t testing.TB, file []byte) []byte {
	e, err := ledger.ParseEnvelope(file)
	if err != nil {
		t.Fatal(err)
	}
	return e.Payload
}

// TestAllocation: opening and judging a file allocates at most 16 times its size and 1 MiB. Reading the root set is the
// appraiser's own expense, once.
func TestAllocation(t *testing.T) {
	k := attest.Case{Roots: verifier.VendorRoots(), Memory: attest.NewMemory()}
	all, _ := minted(t)
	first, err := verifier.Open(verifier.TypeAny, all["genoa-v5"].Evidence)
	if err != nil {
		t.Fatal(err)
	}
	verifier.Appraise(first, k)
	most := 0.0
	defer func() { t.Logf("files above 1 MiB: at most %.1f bytes for each of theirs", most) }()
	for name, data := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			got := alloc.Within(t, len(data), func() {
				o, err := verifier.Open(verifier.TypeAny, data)
				if err != nil {
					t.Fatal(err)
				}
				verifier.Appraise(o, k)
			})
			if len(data) > 1<<20 {
				most = max(most, float64(got)/float64(len(data)))
			}
		})
	}
}

// FuzzOpen: no file makes the verifier panic or say two things; what is read is written again to the same bytes.
func FuzzOpen(f *testing.F) {
	all, _ := minted(f)
	for _, name := range []string{
		"bundle-genoa-v5", "bundle-milan-v3-table", "genoa-v5", "milan-v3-table", "bundle-33-components", "statement-garbled",
		"tdx-v4", "tdx-v5", "bundle-tdx-v5", "tdx-size-wraps", "second-tee-tdx", "tpm-ecc", "tpm-certified", "bundle-tpm", "bundle-genoa-tpm", "tpm-selections-endless",
	} {
		f.Add(all[name].Evidence)
	}
	for name, data := range hostile(f) {
		if len(data) < 1<<16 {
			f.Add(data)
		}
		_ = name
	}
	k := attest.Case{Roots: verifier.VendorRoots(), Memory: attest.NewMemory(), At: 1780315200}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := verifier.Open(verifier.TypeAny, data)
		if err != nil {
			t.Fatal(err)
		}
		if (o.Fault() == nil) != (len(o.Components()) > 0) {
			t.Errorf("fault %v with %d components", o.Fault(), len(o.Components()))
		}
		if b := o.Bundle(); b != nil {
			again, err := canon.Marshal(*b)
			if err != nil || !bytes.Equal(again, payloadOf(t, bytes.TrimSuffix(data, []byte("\n")))) {
				t.Errorf("the bundle does not survive: %v", err)
			}
		}
		o.Needs(k.Roots)
		first, err := verifier.Appraise(o, k).Canonical()
		if err != nil {
			t.Fatal(err)
		}
		without := k
		without.Memory = nil
		second, err := verifier.Appraise(o, without).Canonical()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("two appraisals differ: %v", err)
		}
	})
}
