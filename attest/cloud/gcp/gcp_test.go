package gcp_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	snpabi "github.com/google/go-sev-guest/abi"
	snppb "github.com/google/go-sev-guest/proto/sevsnp"
	tdxabi "github.com/google/go-tdx-guest/abi"
	tdxpb "github.com/google/go-tdx-guest/proto/tdx"
	"google.golang.org/protobuf/proto"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/gcp"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/alloc"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/verifier"
)

var (
	feb   = canon.At(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))
	nov   = canon.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	nonce = bytes.Repeat([]byte{0x5a}, 32)
)

func named(ak, nonce []byte) []byte {
	sum := sha512.Sum512(append(slices.Clone(ak), nonce...))
	return sum[:]
}

// appraise judges a recording as a user would have it judged, knowing the nonce.
func appraise(t testing.TB, data []byte, roots attest.Roots, at canon.Time, nonce []byte) claim.Set {
	t.Helper()
	o, err := verifier.Open(verifier.TypeGCP, data)
	if err != nil {
		t.Fatal(err)
	}
	c := attest.Case{Roots: roots, At: at}
	if nonce != nil {
		c.Expect = attest.Expect{Type: attest.ExpectType, QualifyingData: nonce}
	}
	return verifier.Appraise(o, c).Claims
}

func said(set claim.Set, id string) string {
	for _, c := range set {
		if c.ID == id {
			if c.Status == claim.Affirmed {
				return strings.TrimSpace("affirmed " + c.Value)
			}
			return c.Status.String() + " " + c.Reason.Code()
		}
	}
	return "absent"
}

func want(t *testing.T, set claim.Set, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		id, rest, _ := strings.Cut(w, " ")
		if got := said(set, id); got != rest {
			t.Errorf("%s is %s, want %s", id, got, rest)
		}
	}
}

// TestRecording: a sound recording, and twins that differ in one thing.
func TestRecording(t *testing.T) {
	m := newMachine("one")
	judged := func(r *recording) *recordedQuote { return &r.quotes[2] }
	flip := func(b []byte) []byte { b = slices.Clone(b); b[len(b)-1] ^= 1; return b }
	for _, row := range []struct {
		name   string
		twin   func(*recording)
		wanted []string
	}{
		{"sound", func(*recording) {}, []string{
			"bundle.structure affirmed", "tpm.signature affirmed ecdsa-sha256", "tpm.ak-bound affirmed certificate", "tpm.pcr-digest affirmed",
			"tpm.freshness affirmed " + hex.EncodeToString(nonce),
			"tpm.event-log affirmed pcr:0 pcr:1 pcr:14 pcr:2 pcr:3 pcr:4 pcr:5 pcr:6 pcr:7 pcr:8 pcr:9 secure-boot:on"}},
		{"stripped log", func(r *recording) { r.log = nil }, []string{"tpm.event-log unknown evidence-missing", "tpm.pcr-digest affirmed"}},
		{"no certificate", func(r *recording) { r.cert = nil }, []string{"tpm.ak-bound unknown no-expectation"}},
		{"certificate of another key", func(r *recording) { r.cert = m.cloud.TPM("two").AKCertificate(mint.TPMOptions{}).DER }, []string{"tpm.ak-bound contradicted mismatch"}},
		{"certificate of a stranger", func(r *recording) {
			r.cert = m.tpm.AKCertificate(mint.TPMOptions{Issuer: &mint.NewTPMImpostor().Root}).DER
		}, []string{"tpm.ak-bound contradicted untrusted"}},
		{"certificate without its issuer", func(r *recording) {
			r.cert = m.tpm.AKCertificate(mint.TPMOptions{Issuer: &m.cloud.CA}).DER
		}, []string{"tpm.ak-bound affirmed certificate"}},
		{"register of the judged bank", func(r *recording) { judged(r).pcrs[0].Value = flip(judged(r).pcrs[0].Value) }, []string{"tpm.pcr-digest contradicted mismatch"}},
		{"signature of the judged quote", func(r *recording) { judged(r).signature = flip(judged(r).signature) }, []string{"tpm.signature contradicted bad-signature"}},
		{"forged bank beside it", func(r *recording) { r.quotes[1].pcrs[0].Value = flip(r.quotes[1].pcrs[0].Value) }, []string{"tpm.signature affirmed ecdsa-sha256", "tpm.pcr-digest contradicted mismatch"}},
		{"forged SHA-1 bank beside it", func(r *recording) { r.quotes[0].pcrs[0].Value = flip(r.quotes[0].pcrs[0].Value) }, []string{"tpm.pcr-digest contradicted mismatch"}},
		{"unsigned bank beside it", func(r *recording) { r.quotes[1].signature = flip(r.quotes[1].signature) }, []string{"tpm.signature affirmed ecdsa-sha256", "tpm.pcr-digest contradicted mismatch"}},
		{"bank of another's quote beside it", func(r *recording) { r.quotes[0].message = r.quotes[1].message }, []string{"tpm.pcr-digest contradicted mismatch"}},
		{"register shown and not quoted beside it", func(r *recording) {
			r.quotes[1].pcrs = append(r.quotes[1].pcrs, m.tpm.PCRs(eventlog.SHA256, 15)...)
		}, []string{"tpm.pcr-digest contradicted mismatch"}},
		{"judged quote cut, and a forged bank beside it", func(r *recording) {
			judged(r).message = judged(r).message[:40]
			r.quotes[1].signature = flip(r.quotes[1].signature)
		}, []string{"tpm.structure contradicted malformed", "tpm.pcr-digest absent"}},
		{"no SHA-1 bank", func(r *recording) { r.quotes = r.quotes[1:] }, []string{"tpm.pcr-digest affirmed"}},
		{"SHA-1 alone", func(r *recording) { r.quotes = r.quotes[:1] }, []string{"bundle.structure contradicted malformed", "tpm.pcr-digest absent"}},
		{"bank that the log lacks", func(r *recording) {
			l := mint.NewEventLog(eventlog.SHA256)
			l.Add(0, eventlog.Separator, make([]byte, 4), make([]byte, 4))
			r.log = l.Bytes()
			r.quotes = []recordedQuote{r.quotes[2], r.quotes[1]} // the stronger stands first
		}, []string{"tpm.selection affirmed " + words(eventlog.SHA256), "tpm.event-log contradicted replay-mismatch"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := m.record(t, nonce, nil)
			row.twin(&r)
			want(t, appraise(t, r.bytes(), m.roots(t), feb, nonce), row.wanted...)
		})
	}
	t.Run("no nonce", func(t *testing.T) {
		want(t, appraise(t, m.record(t, nil, nil).bytes(), m.roots(t), feb, nonce), "tpm.freshness contradicted no-freshness")
	})
	t.Run("no expectation", func(t *testing.T) {
		want(t, appraise(t, m.record(t, nonce, nil).bytes(), m.roots(t), feb, nil), "tpm.freshness unknown no-expectation")
	})
}

func words(bank eventlog.Algorithm) string {
	w := []string{}
	for _, i := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "14"} {
		w = append(w, bank.String()+":"+i)
	}
	slices.Sort(w)
	return strings.Join(w, " ")
}

// TestTie: a CPU's evidence beside a vTPM says something of the same machine only where it names the vTPM's key.
func TestTie(t *testing.T) {
	m, other := newMachine("one"), newMachine("two")
	bare := make([]byte, 64)
	copy(bare, nonce)
	for _, row := range []struct {
		name       string
		reportData []byte
		twin       func(*recording)
		wanted     []string
	}{
		{"named", named(m.tpm.AK(), nonce), nil, []string{"tpm.ak-bound affirmed tee", "sevsnp.signature affirmed", "sevsnp.freshness affirmed " + hex.EncodeToString(named(m.tpm.AK(), nonce)), "set.device-unique affirmed"}},
		{"nonce alone", bare, nil, []string{"tpm.ak-bound affirmed certificate", "sevsnp.freshness affirmed " + hex.EncodeToString(bare)}},
		{"evidence of two VMs", named(other.tpm.AK(), nonce), nil, []string{"tpm.ak-bound affirmed certificate", "sevsnp.signature affirmed", "sevsnp.freshness contradicted mismatch"}},
		{"named with an older nonce", named(m.tpm.AK(), []byte("old")), nil, []string{"tpm.ak-bound affirmed certificate", "sevsnp.freshness contradicted mismatch"}},
		{"named and not signed", named(m.tpm.AK(), nonce), func(r *recording) { r.report[0x90] ^= 1 }, []string{"sevsnp.signature contradicted bad-signature", "tpm.ak-bound unknown rests-on"}},
		{"named, no certificate", named(m.tpm.AK(), nonce), func(r *recording) { r.cert = nil }, []string{"tpm.ak-bound affirmed tee"}},
		{"named, certificate of another key", named(m.tpm.AK(), nonce), func(r *recording) { r.cert = other.tpm.AKCertificate(mint.TPMOptions{}).DER }, []string{"tpm.ak-bound contradicted mismatch"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := m.record(t, nonce, row.reportData)
			if row.twin != nil {
				row.twin(&r)
			}
			want(t, appraise(t, r.bytes(), m.roots(t), feb, nonce), row.wanted...)
		})
	}
}

// TestTieTDX: a TD's quote names the vTPM's key as a report of AMD's does.
func TestTieTDX(t *testing.T) {
	m, other, intel := newMachine("one"), newMachine("two"), mint.NewIntel()
	pck := intel.PCK(intel.IntelPlatform("one"), mint.PCKOptions{})
	roots, err := attest.NewRoots(append(m.roots(t).Files(), intel.Roots()...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name       string
		reportData []byte
		change     func(*tdx.Quote)
		wanted     []string
	}{
		{"named", named(m.tpm.AK(), nonce), nil, []string{"tpm.ak-bound affirmed tee", "tdx.signature affirmed", "tdx.freshness affirmed " + hex.EncodeToString(named(m.tpm.AK(), nonce))}},
		{"evidence of two VMs", named(other.tpm.AK(), nonce), nil, []string{"tpm.ak-bound affirmed certificate", "tdx.signature affirmed", "tdx.freshness contradicted mismatch"}},
		{"named and not signed", named(m.tpm.AK(), nonce), func(q *tdx.Quote) { q.MRTD[0] ^= 1 }, []string{"tpm.ak-bound unknown rests-on", "tdx.signature contradicted bad-signature"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := mint.SoundQuote()
			copy(q.ReportData[:], row.reportData)
			q = intel.Seal(q, mint.SoundQE(), pck, intel.PlatformCA)
			if row.change != nil {
				row.change(&q)
			}
			quote, err := tdxabi.QuoteToProto(q.Encode())
			if err != nil {
				t.Fatal(err)
			}
			b, err := proto.Marshal(quote.(*tdxpb.QuoteV4))
			if err != nil {
				t.Fatal(err)
			}
			r := m.record(t, nonce, nil)
			r.raw.put(9, b)
			want(t, appraise(t, r.bytes(), roots, feb, nonce), row.wanted...)
			both := r
			both.raw = append(slices.Clone(r.raw), 8<<3|2, 0)
			if _, err := gcp.Read(both.bytes()); err == nil || !strings.Contains(err.Error(), "want at most one") {
				t.Errorf("a report behind the quote: %v", err)
			}
			rec, err := gcp.Read(r.bytes())
			if err != nil {
				t.Fatal(err)
			}
			if f := rec.Appraise("tpm:0", "cpu:0", &attest.Case{Roots: roots, At: feb}, attest.Asked{}, new(claim.Set)); f.Boot.Root != attest.RootHostVTPM {
				t.Errorf("root %q, want %q", f.Boot.Root, attest.RootHostVTPM)
			}
		})
	}
}

// TestRoot: what a vTPM measures is its host's word, and no chip's, however the key is bound.
func TestRoot(t *testing.T) {
	m := newMachine("one")
	chips, err := attest.NewRoots(m.cloud.Roots()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name       string
		reportData []byte
		roots      attest.Roots
		cert       bool
		root       string
	}{
		{"a cloud's certificate", nil, m.roots(t), true, attest.RootHostVTPM},
		{"a chip maker's certificate", nil, chips, true, attest.RootTPM},
		{"named by a CPU", named(m.tpm.AK(), nonce), m.roots(t), false, attest.RootHostVTPM},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := m.record(t, nonce, row.reportData)
			if !row.cert {
				r.cert = nil
			}
			rec, err := gcp.Read(r.bytes())
			if err != nil {
				t.Fatal(err)
			}
			var set claim.Set
			f := rec.Appraise("tpm:0", "cpu:0", &attest.Case{Roots: row.roots, At: feb}, attest.Asked{}, &set)
			if f.Boot == nil || f.Boot.Root != row.root {
				t.Errorf("the root of what was measured is %+v, want %s", f.Boot, row.root)
			}
		})
	}
}

// TestMalformed: what is no recording is refused with the place.
func TestMalformed(t *testing.T) {
	m := newMachine("one")
	report := named(m.tpm.AK(), nonce)
	field := func(number int, b []byte) (raw message) { raw.put(1, b); raw[0] = byte(number<<3 | 2); return raw }
	for _, row := range []struct {
		name, want string
		twin       func(*recording)
	}{
		{"second key", "a second ak_pub", func(r *recording) { r.raw = field(1, r.ak) }},
		{"second log", "a second event_log", func(r *recording) { r.raw = field(3, r.log) }},
		{"second certificate", "a second ak_cert", func(r *recording) { r.raw = field(6, r.cert) }},
		{"second report", "a second sev_snp_attestation", func(r *recording) { r.raw = field(8, nil) }},
		{"report and quote", "want at most one", func(r *recording) { r.report = nil; r.raw = append(field(8, nil), field(9, nil)...) }},
		{"second quote of a bank", "a second quote of bank sha384", func(r *recording) { r.quotes = append(r.quotes, r.quotes[2]) }},
		{"six quotes", "more than 5 quotes", func(r *recording) {
			for range 3 {
				q := r.quotes[0]
				q.bank++
				r.quotes = append(r.quotes, q)
			}
			r.quotes[3].bank, r.quotes[4].bank = eventlog.SHA512, eventlog.SM3
			r.quotes[3].pcrs, r.quotes[4].pcrs = nil, nil
		}},
		{"four issuers", "more than 3 intermediate_certs", func(r *recording) { r.issuers = [][]byte{{1}, {1}, {1}, {1}} }},
		{"bank not known", "bank 0x0077 is not known", func(r *recording) { r.quotes[0].bank = 0x77 }},
		{"bank that overflows", "hash is 65547, at most 65535", func(r *recording) { r.quotes[1].number = 1<<16 | uint64(eventlog.SHA256) }},
		{"second registers", "a second pcrs", func(r *recording) { r.quotes[0].raw = field(3, nil) }},
		{"register twice", "a second register 0", func(r *recording) { r.quotes[0].pcrs = append(r.quotes[0].pcrs, r.quotes[0].pcrs[0]) }},
		{"register 32", "register 32, at most 31", func(r *recording) { r.quotes[0].pcrs[0].Index = 32 }},
		{"short register", "register 0 of bank sha1 is of 19 bytes, want 20", func(r *recording) { r.quotes[0].pcrs[0].Value = make([]byte, 19) }},
		{"key as a number", "ak_pub is of another wire type", func(r *recording) { r.ak, r.raw = nil, message{1 << 3, 1} }},
		{"log as a fixed number", "event_log is of another wire type", func(r *recording) { r.log, r.raw = nil, message{3<<3 | 5, 1, 2, 3, 4} }},
		{"number cut off", "cut off in a number", func(r *recording) { r.raw = message{14 << 3, 0x80} }},
		{"number of eleven bytes", "cut off in a number", func(r *recording) { r.raw = append(message{14 << 3}, bytes.Repeat([]byte{0xff}, 11)...) }},
		{"fixed number cut off", "cut off in a number", func(r *recording) { r.raw = message{14<<3 | 1, 1, 2, 3} }},
		{"register that is no message", "PcrsEntry: offset 0: no field begins here", func(r *recording) {
			var pcrs message
			pcrs.number(1, uint64(eventlog.SHA512))
			pcrs.put(2, []byte{0})
			q := recordedQuote{message: r.quotes[0].message, signature: r.quotes[0].signature}
			var m message
			m.put(1, q.message)
			m.put(2, q.signature)
			m.put(3, pcrs)
			r.raw = field(2, m)
		}},
		{"certificate of a report beyond the limit", "a certificate of", func(r *recording) { r.vcek = make([]byte, attest.MaxCertificate+1) }},
		{"group", "wire type 3 is not read", func(r *recording) { r.raw = message{0x7b, 0x7c} }},
		{"cut off", "cut off", func(r *recording) { r.raw = message{0x7a, 5, 1} }},
		{"length of FFFFFFFF", "cut off", func(r *recording) { r.raw = message{0x7a, 0xff, 0xff, 0xff, 0xff, 0xf} }},
		{"field zero", "no field begins here", func(r *recording) { r.raw = message{0} }},
		{"no key", "no ak_pub", func(r *recording) { *r = recording{raw: field(3, []byte{1})} }},
		{"bytes behind a report's signature", "bytes behind R and S", func(r *recording) { r.report[sevsnp.ReportSize-1] = 1 }},
		{"report data of 63 bytes", "report_data is of 63 bytes, want 64", func(r *recording) {
			var snp message
			snp.put(1, field(11, make([]byte, 63)))
			r.report, r.raw = nil, field(8, snp)
		}},
		{"build of 256", "current_build is 256, at most 255", func(r *recording) {
			var snp, rep message
			rep.number(21, 256)
			snp.put(1, rep)
			r.report, r.raw = nil, field(8, snp)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := m.record(t, nonce, report)
			if _, err := gcp.Read(r.bytes()); err != nil {
				t.Fatal(err)
			}
			row.twin(&r)
			_, err := gcp.Read(r.bytes())
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want %q", err, row.want)
			}
		})
	}
	if _, err := gcp.Read(make([]byte, attest.MaxBundle+1)); err == nil || !strings.Contains(err.Error(), "bytes, at most") {
		t.Errorf("a recording beyond the limit: %v", err)
	}
	t.Run("no certificate of the report", func(t *testing.T) {
		r := m.record(t, nonce, report)
		r.vcek = nil
		rec, err := gcp.Read(r.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(rec.CPU.Parts) != 1 {
			t.Errorf("%d parts of the CPU's evidence, want the report alone", len(rec.CPU.Parts))
		}
	})
	t.Run("unknown fields are passed over", func(t *testing.T) {
		r := m.record(t, nonce, nil)
		r.raw = append(field(4, []byte("instance")), 14<<3|1, 1, 2, 3, 4, 5, 6, 7, 8, 13<<3, 1)
		if _, err := gcp.Read(r.bytes()); err != nil {
			t.Error(err)
		}
	})
}

// TestReal: recordings of a real VM, judged under the pinned roots.
func TestReal(t *testing.T) {
	data := vectors.Read(t, "cpu/gcp/gce-cos-85-nonce9009.pb")
	roots := verifier.VendorRoots()
	set := appraise(t, data, roots, nov, []byte{0x90, 0x09})
	want(t, set, "tpm.ak-bound affirmed certificate", "tpm.freshness affirmed 9009", "tpm.pcr-digest affirmed", "tpm.ak-attributes affirmed", "guest.measured unknown no-reference")
	if !strings.HasPrefix(said(set, "tpm.event-log"), "affirmed pcr:0 pcr:1 ") {
		t.Errorf("tpm.event-log is %s", said(set, "tpm.event-log"))
	}
	want(t, appraise(t, data, roots, nov, []byte{0x90, 0x10}), "tpm.freshness contradicted mismatch")
	want(t, appraise(t, vectors.Read(t, "cpu/gcp/gce-cos-85-no-nonce.pb"), roots, nov, nil), "tpm.freshness contradicted no-freshness")
	want(t, appraise(t, data, roots, canon.At(time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)), nil), "tpm.ak-bound contradicted not-yet-valid")
	if !gcp.Recognize(data) || gcp.Recognize(data[1:]) || gcp.Recognize(nil) {
		t.Error("a recording is told from other bytes")
	}
	rec, err := gcp.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	f := rec.Appraise("tpm:0", "cpu:0", &attest.Case{Roots: roots, At: nov}, attest.Asked{}, new(claim.Set))
	if f.Boot.Root != attest.RootHostVTPM {
		t.Errorf("root %q, want %q", f.Boot.Root, attest.RootHostVTPM)
	}
}

// TestRealCertificates: certificates of signing keys of real VMs, which came without their issuers, lead to a pinned root;
// those of other keys do not, and none does without the pinned intermediates. They are for other keys than the recording's.
func TestRealCertificates(t *testing.T) {
	m := newMachine("one")
	var bare []byte
	for block, rest := pem.Decode(gcp.VendorRoots()[0].Data); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && bytes.Equal(c.RawIssuer, c.RawSubject) {
			bare = append(bare, pem.EncodeToMemory(block)...)
		}
	}
	alone, err := attest.NewRoots(attest.RootFile{Name: gcp.VendorRoots()[0].Name, Data: bare})
	if err != nil {
		t.Fatal(err)
	}
	for name, usable := range map[string]bool{"uca_tpm_ecc_sign": true, "uca_tpm_rsa_sign": true, "pca_tpm_ecc_sign": true, "uca_tpm_ecc_enc": false, "pca_tpm_rsa_enc": false} {
		block, _ := pem.Decode(vectors.Read(t, "cpu/gcp/gtt-"+name+"_cert.pem"))
		r := m.record(t, nonce, nil)
		r.cert = block.Bytes
		for _, roots := range []attest.Roots{verifier.VendorRoots(), alone} {
			c := appraise(t, r.bytes(), roots, nov, nonce).Find("tpm.ak-bound", "tpm:0")
			if proven := c.Until != 0; proven != (usable && roots.Digest() != alone.Digest()) || c.Status != claim.Contradicted {
				t.Errorf("%s: %s, %q, proven until %s", name, c.Status, c.Reason, c.Until)
			}
		}
	}
}

// TestPinnedRoots: the pinned certificates are those that SOURCES.md names, and each leads to a root of the file.
func TestPinnedRoots(t *testing.T) {
	sources, err := os.ReadFile("roots/SOURCES.md")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	var all []*x509.Certificate
	for _, f := range gcp.VendorRoots() {
		for block, rest := pem.Decode(f.Data); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(c.Raw)
			if !strings.Contains(string(sources), hex.EncodeToString(sum[:])+" | "+c.NotAfter.Format(time.DateOnly)) {
				t.Errorf("%s is not in SOURCES.md with its digest and end", c.Subject.CommonName)
			}
			if all = append(all, c); bytes.Equal(c.RawIssuer, c.RawSubject) {
				roots.AddCert(c)
			}
		}
	}
	if len(all) != 5 {
		t.Errorf("%d certificates are pinned, want 5", len(all))
	}
	for _, c := range all {
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: %v", c.Subject.CommonName, err)
		}
	}
}

// TestRecordedEvidence: what go-sev-guest and go-tdx-guest record field by field is put together to the bytes that it was.
func TestRecordedEvidence(t *testing.T) {
	base := newMachine("one").record(t, nonce, nil)
	read := func(t *testing.T, number int, m proto.Message) attest.Component {
		t.Helper()
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r := base
		r.raw.put(8, b)
		r.raw[0] = byte(number<<3 | 2)
		rec, err := gcp.Read(r.bytes())
		if err != nil {
			t.Fatal(err)
		}
		return *rec.CPU
	}
	for _, name := range []string{"gsg-milan", "trustee-milan", "fake-milan-v3"} {
		t.Run(name, func(t *testing.T) {
			raw := vectors.Read(t, "cpu/snp/"+name+"-report.bin")
			report, err := snpabi.ReportToProto(raw)
			if err != nil {
				t.Fatal(err)
			}
			vcek := []byte{0x30, 1, 2}
			c := read(t, 8, &snppb.Attestation{Report: report, CertificateChain: &snppb.CertificateChain{VcekCert: vcek}})
			got, _ := c.Part(sevsnp.PartReport)
			if !bytes.Equal(got, raw) {
				t.Errorf("the report is put together as %x, want %x", got, raw)
			}
			table, _ := c.Part(sevsnp.PartCertificates)
			if certs, err := sevsnp.ParseTable(table); err != nil || len(certs) != 1 || !bytes.Equal(certs[0], vcek) {
				t.Errorf("certificates %x, %v", certs, err)
			}
		})
	}
	for _, name := range []string{"gtg-tdx_prod_quote_SPR_E4.dat", "gtg-cos-113-tdx-quote.dat", "trustee-tdx_quote_6.dat"} {
		t.Run(name, func(t *testing.T) {
			raw := vectors.Read(t, "cpu/tdx/"+name)
			copy(raw[8:], []byte{1, 2, 3, 4}) // reserved in version 4, and signed all the same
			quote, err := tdxabi.QuoteToProto(raw)
			if err != nil {
				t.Fatal(err)
			}
			_, size, err := tdx.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			c := read(t, 9, quote.(*tdxpb.QuoteV4))
			if got, _ := c.Part(tdx.PartQuote); !bytes.Equal(got, raw[:size]) {
				t.Error("the quote is put together to other bytes")
			}
		})
	}
	for _, row := range []struct {
		name, want string
		twin       func(*tdxpb.QuoteV4)
	}{
		{"version 5", "version 5, want 4", func(q *tdxpb.QuoteV4) { q.Header.Version = 5 }},
		{"three registers", "3 rtmrs, want 4", func(q *tdxpb.QuoteV4) { q.TdQuoteBody.Rtmrs = q.TdQuoteBody.Rtmrs[:3] }},
		{"five registers", "rtmrs: want 4 of 48 bytes", func(q *tdxpb.QuoteV4) {
			q.TdQuoteBody.Rtmrs = append(q.TdQuoteBody.Rtmrs, q.TdQuoteBody.Rtmrs[0])
		}},
		{"another chain", "certification data of types 6 and 4", func(q *tdxpb.QuoteV4) {
			q.SignedData.CertificationData.QeReportCertificationData.PckCertificateChainData.CertificateDataType = 4
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			quote, err := tdxabi.QuoteToProto(vectors.Read(t, "cpu/tdx/trustee-tdx_quote_6.dat"))
			if err != nil {
				t.Fatal(err)
			}
			row.twin(quote.(*tdxpb.QuoteV4))
			b, err := proto.Marshal(quote.(*tdxpb.QuoteV4))
			if err != nil {
				t.Fatal(err)
			}
			r := base
			r.raw.put(9, b)
			if _, err := gcp.Read(r.bytes()); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want %q", err, row.want)
			}
		})
	}
}

// FuzzRead: any bytes are read or refused, within bounds of memory, and what is read is judged without a failure.
func FuzzRead(f *testing.F) {
	m := newMachine("one")
	f.Add(m.record(f, nonce, named(m.tpm.AK(), nonce)).bytes())
	f.Add(m.record(f, nil, nil).bytes())
	f.Add(vectors.Read(f, "cpu/gcp/gce-cos-85-nonce9009.pb"))
	quote, err := tdxabi.QuoteToProto(vectors.Read(f, "cpu/tdx/trustee-tdx_quote_6.dat"))
	if err != nil {
		f.Fatal(err)
	}
	b, err := proto.Marshal(quote.(*tdxpb.QuoteV4))
	if err != nil {
		f.Fatal(err)
	}
	r := m.record(f, nonce, nil)
	r.raw.put(9, b)
	f.Add(r.bytes())
	c := attest.Case{Roots: m.roots(f), At: feb, Memory: attest.NewMemory()}
	f.Fuzz(func(t *testing.T, data []byte) {
		var rec gcp.Recording
		var err error
		alloc.Within(t, len(data), func() { rec, err = gcp.Read(data) })
		if err != nil {
			return
		}
		var set claim.Set
		rec.Appraise("tpm:0", "cpu:0", &c, attest.Asked{}, &set)
		if set.Find("tpm.structure", "tpm:0") == nil {
			t.Error("no claim about the structure")
		}
		if raw, ok := rec.TPM.Part(tpm.PartQuote); !ok || !bytes.Contains(data, raw) {
			t.Error("the quote is not of the recording")
		}
	})
}
