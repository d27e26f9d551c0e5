package tpm_test

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

const subject = "tpm:0"

var (
	feb   = canon.At(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))
	nonce = bytes.Repeat([]byte{0x5a}, 32)
	boot  = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14}
)

// scene is a sound quote of a booted machine and all that an appraiser knows of it. A twin changes one thing.
type scene struct {
	maker *mint.TPMMaker
	tpm   *mint.TPM
	comp  attest.Component
	c     attest.Case
	asked attest.Asked
	ties  []tpm.Tie
}

func sound(t testing.TB) *scene { return of(t, mint.NewTPMMaker().TPM("one")) }

func of(t testing.TB, m *mint.TPM) *scene {
	t.Helper()
	s := &scene{maker: m.Maker, tpm: m}
	s.tpm.Boot("root=/dev/sda quiet")
	s.comp = s.tpm.Component(nonce, s.tpm.PCRs(eventlog.SHA256, boot...))
	roots, err := attest.NewRoots(s.maker.Roots()...)
	if err != nil {
		t.Fatal(err)
	}
	s.c = attest.Case{Roots: roots, At: feb, Expect: attest.Expect{Activations: []attest.Activation{s.tpm.Activation()}}}
	s.asked = attest.Asked{ReportData: nonce, Value: hex.EncodeToString(nonce), Why: "the qualifying data is not the expected"}
	return s
}

func (s *scene) appraise() (claim.Set, attest.Finding) {
	var set claim.Set
	f := tpm.AppraiseTied(s.comp, subject, &s.c, s.asked, s.ties, &set)
	set.Settle()
	return set, f
}

// nameBare shows the key without its public area, and names it by a tie; the tie may name another key.
func (s *scene) nameBare(t testing.TB, tie tpm.Tie) {
	t.Helper()
	key, err := s.tpm.Public.Key()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s.put(tpm.PartAK, der)
	s.c.Expect.Activations = nil
	if tie.AK.IsZero() {
		tie.AK = tpm.KeyDigest(key)
	}
	s.ties = []tpm.Tie{tie}
}

func (s *scene) part(name string) []byte { b, _ := s.comp.Part(name); return b }

// put sets a part, in its place, or removes it where data is nil.
func (s *scene) put(name string, data []byte) {
	order := []string{tpm.PartQuote, tpm.PartSignature, tpm.PartPCRs, tpm.PartAK, tpm.PartAKCertificate, tpm.PartEKCertificate, tpm.PartEK, tpm.PartEventLog, tpm.PartIMA, tpm.PartIMADigest}
	s.comp.Parts = slices.DeleteFunc(slices.Clone(s.comp.Parts), func(p attest.Part) bool { return p.Name == name })
	if data != nil {
		s.comp.Parts = append(s.comp.Parts, attest.Part{Name: name, Data: data})
	}
	slices.SortFunc(s.comp.Parts, func(a, b attest.Part) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
}

// quote signs another quote with the TPM's own key.
func (s *scene) quote(q tpm.Attest) {
	raw := q.Encode()
	s.put(tpm.PartQuote, raw)
	s.put(tpm.PartSignature, s.tpm.Sign(raw))
}

func (s *scene) retake(nonce []byte, pcrs []tpm.PCR) {
	s.quote(s.tpm.Quote(nonce, pcrs))
	s.put(tpm.PartPCRs, append([]byte{}, tpm.EncodePCRs(pcrs)...))
	s.put(tpm.PartEventLog, s.tpm.Log.Bytes())
	s.put(tpm.PartIMA, []byte(s.tpm.IMA))
}

func said(set claim.Set, id string) string {
	c := set.Find(id, subject)
	if c == nil {
		return "absent"
	}
	if c.Status == claim.Affirmed {
		return "affirmed " + c.Value
	}
	return c.Status.String() + " " + c.Reason.Code()
}

func want(t *testing.T, set claim.Set, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		id, rest, _ := strings.Cut(w, " ")
		if got := said(set, id); strings.TrimSpace(got) != rest {
			t.Errorf("%s is %s, want %s; all: %+v", id, got, rest, set)
		}
	}
}

var all = []string{
	"tpm.structure affirmed ecc-p256", "tpm.signature affirmed ecdsa-sha256", "tpm.ak-attributes affirmed", "tpm.quote affirmed",
	"tpm.ak-bound affirmed activation", `tpm.ek-chain affirmed "Mint TPM Root CA" "Mint TPM Manufacturing CA 001" -`, "tpm.ek-encoding affirmed strict",
	"tpm.selection affirmed sha256:0 sha256:1 sha256:10 sha256:14 sha256:2 sha256:3 sha256:4 sha256:5 sha256:6 sha256:7 sha256:8 sha256:9",
	"tpm.pcr-digest affirmed", "tpm.event-log affirmed pcr:0 pcr:1 pcr:14 pcr:2 pcr:3 pcr:4 pcr:5 pcr:6 pcr:7 pcr:8 pcr:9 secure-boot:on",
	"tpm.clock affirmed clock:90000 resets:7 restarts:0 safe", "tpm.firmware affirmed 0007005500112233",
	"tpm.freshness affirmed " + hex.EncodeToString(nonce), "tpm.ima affirmed clean",
}

func TestSound(t *testing.T) {
	set, f := sound(t).appraise()
	want(t, set, all...)
	if len(set) != len(all) {
		t.Errorf("%d claims, the list has %d", len(set), len(all))
	}
	if f.Masked || len(f.Identities) != 1 || !f.Identities[0].Equal(sound(t).tpm.Identity()) || !bytes.Equal(f.ReportData, nonce) || len(f.Needs) != 0 {
		t.Errorf("finding %+v", f)
	}
	if b := f.Boot; b.Bank != "sha256" || b.IMA != "tpm.ima" || len(b.Files) != 2 || b.Files[1].Path != "/usr/bin/assay-agent" || !slices.Contains(b.Facts, attest.BootFact{Register: 8, Name: "command-line", Value: "root=/dev/sda quiet"}) {
		t.Errorf("boot %+v", b)
	}
	for name, m := range map[string]*mint.TPM{
		"rsassa": mint.NewTPMMaker().RSATPM("two", tpm.AlgRSASSA), "rsapss": mint.NewTPMMaker().RSATPM("two", tpm.AlgRSAPSS),
	} {
		set, _ := of(t, m).appraise()
		want(t, set, "tpm.structure affirmed rsa-2048", "tpm.signature affirmed "+name+"-sha256", "tpm.freshness affirmed "+hex.EncodeToString(nonce))
	}
}

// TestTwins: each row changes one thing of the sound scene and names the first claim that must move, with its reason.
func TestTwins(t *testing.T) {
	impostor := mint.NewTPMImpostor()
	other := mint.NewTPMMaker().TPM("other")
	day := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	ek := func(o mint.TPMOptions) func(*scene) {
		return func(s *scene) { s.put(tpm.PartEKCertificate, s.tpm.EKCertificate(o).DER) }
	}
	ak := func(f func(*scene) []byte) func(*scene) {
		return func(s *scene) { s.put(tpm.PartAKCertificate, f(s)) }
	}
	attributes := func(change func(*tpm.Public)) func(*scene) {
		return func(s *scene) {
			change(&s.tpm.Public)
			s.put(tpm.PartAK, s.tpm.AK())
			s.c.Expect.Activations = []attest.Activation{s.tpm.Activation()}
			s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, boot...))
		}
	}
	field := func(change func(*tpm.Attest)) func(*scene) {
		return func(s *scene) {
			q, err := tpm.ParseAttest(s.part(tpm.PartQuote))
			if err != nil {
				panic(err)
			}
			change(&q)
			s.quote(q)
		}
	}
	clock := func(resets, restarts, ms int64) func(*scene) {
		return func(s *scene) {
			s.c.Expect.Clocks = []attest.TPMClock{{AK: tpm.Name(s.tpm.AK()), ResetCount: resets, RestartCount: restarts, Clock: ms}}
		}
	}
	pcrs := func(change func(*scene, []tpm.PCR) []tpm.PCR) func(*scene) {
		return func(s *scene) {
			s.put(tpm.PartPCRs, tpm.EncodePCRs(change(s, s.tpm.PCRs(eventlog.SHA256, boot...))))
		}
	}
	after := func(change func(*mint.TPM)) func(*scene) {
		return func(s *scene) { change(s.tpm); s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, boot...)) }
	}
	for _, row := range []struct {
		name   string
		change func(*scene)
		want   string
	}{
		{"signature flipped", func(s *scene) { b := bytes.Clone(s.part(tpm.PartSignature)); b[20] ^= 1; s.put(tpm.PartSignature, b) }, "tpm.signature contradicted bad-signature"},
		{"quote flipped", func(s *scene) { b := bytes.Clone(s.part(tpm.PartQuote)); b[70] ^= 1; s.put(tpm.PartQuote, b) }, "tpm.signature contradicted bad-signature"},
		{"signed by another key", func(s *scene) { s.put(tpm.PartSignature, other.Sign(s.part(tpm.PartQuote))) }, "tpm.signature contradicted bad-signature"},
		{"SHA-1 signature", attributes(func(p *tpm.Public) { p.SchemeHash = eventlog.SHA1 }), "tpm.signature contradicted weak-hash"},
		{"magic", field(func(q *tpm.Attest) { q.Magic = 0x12345678 }), "tpm.quote contradicted not-a-quote"},
		{"type certify", field(func(q *tpm.Attest) { q.Type = 0x8017 }), "tpm.quote contradicted not-a-quote"},
		{"registers of what is no quote", field(func(q *tpm.Attest) { q.Type = 0x8017 }), "tpm.selection unknown rests-on"},
		{"digest of what is no quote", field(func(q *tpm.Attest) { q.Type = 0x8017 }), "tpm.pcr-digest unknown rests-on"},
		{"not restricted", attributes(func(p *tpm.Public) { p.Attributes &^= tpm.Restricted }), "tpm.ak-attributes contradicted bad-attributes"},
		{"not fixed to the TPM", attributes(func(p *tpm.Public) { p.Attributes &^= tpm.FixedTPM }), "tpm.ak-attributes contradicted bad-attributes"},
		{"not fixed to its parent", attributes(func(p *tpm.Public) { p.Attributes &^= tpm.FixedParent }), "tpm.ak-attributes contradicted bad-attributes"},
		{"made elsewhere", attributes(func(p *tpm.Public) { p.Attributes &^= tpm.SensitiveDataOrigin }), "tpm.ak-attributes contradicted bad-attributes"},
		{"no signing key", attributes(func(p *tpm.Public) { p.Attributes &^= tpm.Sign }), "tpm.ak-attributes contradicted bad-attributes"},
		{"decrypts too", attributes(func(p *tpm.Public) { p.Attributes |= tpm.Decrypt }), "tpm.ak-attributes contradicted bad-attributes"},
		{"no scheme of its own", func(s *scene) {
			p := s.tpm.Public
			p.Scheme, p.SchemeHash = tpm.AlgNull, 0
			s.put(tpm.PartAK, p.Encode())
		}, "tpm.ak-attributes contradicted bad-attributes"},
		{"no activation known", func(s *scene) { s.c.Expect.Activations = nil }, "tpm.ak-bound unknown no-expectation"},
		{"activation of another key", func(s *scene) { s.c.Expect.Activations = []attest.Activation{other.Activation()} }, "tpm.ak-bound unknown no-expectation"},
		{"activated by another TPM", func(s *scene) { s.c.Expect.Activations[0].EK = other.EKDigest() }, "tpm.ak-bound contradicted mismatch"},
		{"no EK certificate", func(s *scene) { s.put(tpm.PartEKCertificate, nil) }, "tpm.ek-chain unknown evidence-missing"},
		{"no EK certificate, and the key was activated", func(s *scene) { s.put(tpm.PartEKCertificate, nil) }, "tpm.ak-bound unknown evidence-missing"},
		{"EK certificate of another TPM", func(s *scene) { s.put(tpm.PartEKCertificate, other.EKCertificate(mint.TPMOptions{}).DER) }, "tpm.ak-bound contradicted mismatch"},
		{"EK certificate lapsed", ek(mint.TPMOptions{NotBefore: day(2020), NotAfter: day(2026)}), "tpm.ek-chain contradicted lapsed"},
		{"EK certificate not yet valid", ek(mint.TPMOptions{NotBefore: day(2027)}), "tpm.ek-chain contradicted not-yet-valid"},
		{"impostor's root", func(s *scene) {
			s.put(tpm.PartEKCertificate, slices.Concat(s.tpm.EKCertificate(mint.TPMOptions{Issuer: &impostor.Root}).DER, impostor.Root.DER))
		}, "tpm.ek-chain contradicted untrusted"},
		{"self-made EK certificate", func(s *scene) {
			s.put(tpm.PartEKCertificate, s.tpm.EKCertificate(mint.TPMOptions{Issuer: &impostor.Root}).DER)
		}, "tpm.ek-chain contradicted untrusted"},
		{"EK certificate of another usage", ek(mint.TPMOptions{Usage: asn1.ObjectIdentifier{2, 23, 133, 8, 3}}), "tpm.ek-chain contradicted untrusted"},
		{"EK certificate that signs others", ek(mint.TPMOptions{CA: true}), "tpm.ek-chain contradicted untrusted"},
		{"EK certificate with an unknown critical extension", ek(mint.TPMOptions{Extra: asn1.ObjectIdentifier{2, 5, 29, 17, 1}}), "tpm.ek-chain contradicted untrusted"},
		{"EK certificate that no name tells", ek(mint.TPMOptions{NoUsage: true, NoName: true}), "tpm.ek-chain contradicted untrusted"},
		{"EK certificate without usage, with a name", ek(mint.TPMOptions{NoUsage: true}), "tpm.ek-chain affirmed " + `"Mint TPM Root CA" "Mint TPM Manufacturing CA 001" -`},
		{"EK certificate sloppy", ek(mint.TPMOptions{Sloppy: true}), "tpm.ek-encoding affirmed sloppy"},
		{"EK part of another key", func(s *scene) { s.put(tpm.PartEK, other.AK()) }, "tpm.ek-chain contradicted mismatch"},
		{"EK certificate that does not parse", func(s *scene) {
			s.put(tpm.PartEKCertificate, []byte{0x30, 0})
			s.put(tpm.PartEK, endorsementKey(t, s.tpm))
		}, "tpm.ek-chain contradicted untrusted"},
		{"EK denied", func(s *scene) {
			s.c.Expect.DenyListKeys = [][]byte{mint.DenyListKey()}
			s.c.Collateral = []attest.Collateral{{Kind: attest.KindDenyList, Data: mint.DenyList(1, feb, feb+1000, attest.Denied{Identity: s.tpm.Identity(), Since: feb, Reason: "stolen"})}}
		}, "tpm.ek-chain contradicted revoked"},
		{"another EK denied", func(s *scene) {
			s.c.Expect.DenyListKeys = [][]byte{mint.DenyListKey()}
			s.c.Collateral = []attest.Collateral{{Kind: attest.KindDenyList, Data: mint.DenyList(1, feb, feb+1000, attest.Denied{Identity: other.Identity(), Since: feb, Reason: "stolen"})}}
		}, "tpm.ek-chain affirmed " + `"Mint TPM Root CA" "Mint TPM Manufacturing CA 001" -`},
		{"AK certificate", ak(func(s *scene) []byte { return s.tpm.AKCertificate(mint.TPMOptions{}).DER }), "tpm.ak-bound affirmed certificate"},
		{"AK certificate of another key", ak(func(*scene) []byte { return other.AKCertificate(mint.TPMOptions{}).DER }), "tpm.ak-bound contradicted mismatch"},
		{"AK certificate of an impostor", ak(func(s *scene) []byte {
			return slices.Concat(s.tpm.AKCertificate(mint.TPMOptions{Issuer: &impostor.Root}).DER, impostor.Root.DER)
		}), "tpm.ak-bound contradicted untrusted"},
		{"AK certificate lapsed", ak(func(s *scene) []byte {
			return s.tpm.AKCertificate(mint.TPMOptions{NotBefore: day(2020), NotAfter: day(2026)}).DER
		}), "tpm.ak-bound contradicted lapsed"},
		{"EK certificate as AK certificate", ak(func(s *scene) []byte { return s.tpm.EKCertificate(mint.TPMOptions{}).DER }), "tpm.ak-bound contradicted mismatch"},
		{"named by a TEE", func(s *scene) {
			s.c.Expect.Activations = nil
			d, _ := tpm.AK(s.comp)
			s.ties = []tpm.Tie{{AK: d, Value: "tee"}}
		}, "tpm.ak-bound affirmed tee"},
		{"another named by a TEE", func(s *scene) { s.ties = []tpm.Tie{{AK: canon.Digest{1}, Value: "tee"}} }, "tpm.ak-bound contradicted mismatch"},
		{"key alone, named by a TEE", func(s *scene) { s.nameBare(t, tpm.Tie{Value: "tee"}) }, "tpm.ak-attributes unknown evidence-missing"},
		{"key alone, named with its attributes", func(s *scene) { s.nameBare(t, tpm.Tie{Value: "paravisor", Attributes: true}) }, "tpm.ak-attributes affirmed"},
		{"another key named with its attributes", func(s *scene) { s.nameBare(t, tpm.Tie{AK: canon.Digest{1}, Value: "paravisor", Attributes: true}) }, "tpm.ak-bound contradicted mismatch"},
		{"named with its attributes by what is not affirmed", func(s *scene) {
			s.nameBare(t, tpm.Tie{Value: "paravisor", Attributes: true, Basis: []string{"azure.runtime-data@cpu:0"}})
		}, "tpm.ak-attributes unknown rests-on"},
		{"named by a TEE that is not affirmed", func(s *scene) {
			s.c.Expect.Activations = nil
			d, _ := tpm.AK(s.comp)
			s.ties = []tpm.Tie{{AK: d, Value: "tee", Basis: []string{"sevsnp.signature@cpu:0"}}}
		}, "tpm.ak-bound unknown rests-on"},
		{"register shown and not quoted", pcrs(func(s *scene, p []tpm.PCR) []tpm.PCR { return append(p, s.tpm.PCRs(eventlog.SHA256, 11)...) }), "tpm.selection contradicted unsigned"},
		{"forged bank beside a good one", pcrs(func(s *scene, p []tpm.PCR) []tpm.PCR {
			return append(p, tpm.PCR{Bank: eventlog.SHA384, Index: 7, Value: make([]byte, 48)})
		}), "tpm.selection contradicted unsigned"},
		{"register quoted and not shown", pcrs(func(_ *scene, p []tpm.PCR) []tpm.PCR { return p[1:] }), "tpm.selection contradicted mismatch"},
		{"digest of a register that is not shown", pcrs(func(_ *scene, p []tpm.PCR) []tpm.PCR { return p[1:] }), "tpm.pcr-digest unknown rests-on"},
		{"PCR 16 shown as PCR 10", func(s *scene) {
			s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, 16))
			s.put(tpm.PartPCRs, tpm.EncodePCRs([]tpm.PCR{{Bank: eventlog.SHA256, Index: 10, Value: s.tpm.PCRs(eventlog.SHA256, 16)[0].Value}}))
		}, "tpm.selection contradicted unsigned"},
		{"nothing quoted", func(s *scene) { s.retake(nonce, nil) }, "tpm.selection contradicted absent"},
		{"SHA-1 bank alone", func(s *scene) { s.retake(nonce, s.tpm.PCRs(eventlog.SHA1, boot...)) }, "tpm.selection contradicted weak-hash"},
		{"register changed", pcrs(func(_ *scene, p []tpm.PCR) []tpm.PCR { p[4].Value[0] ^= 1; return p }), "tpm.pcr-digest contradicted mismatch"},
		{"another digest signed", field(func(q *tpm.Attest) { q.PCRDigest[0] ^= 1 }), "tpm.pcr-digest contradicted mismatch"},
		{"weaker bank quoted too", func(s *scene) {
			s.retake(nonce, append(s.tpm.PCRs(eventlog.SHA1, 0, 7), s.tpm.PCRs(eventlog.SHA256, 0, 7)...))
		}, "tpm.event-log affirmed pcr:0 pcr:7 secure-boot:on"},
		{"no log", func(s *scene) { s.put(tpm.PartEventLog, nil) }, "tpm.event-log unknown evidence-missing"},
		{"empty log", func(s *scene) { s.put(tpm.PartEventLog, []byte{}) }, "tpm.event-log unknown evidence-missing"},
		{"log cut", func(s *scene) { b := s.part(tpm.PartEventLog); s.put(tpm.PartEventLog, b[:len(b)-1]) }, "tpm.event-log contradicted malformed"},
		{"log padded", func(s *scene) { s.tpm.Log.Pad(8000); s.put(tpm.PartEventLog, s.tpm.Log.Bytes()) }, "tpm.event-log contradicted malformed"},
		{"event added to the log", func(s *scene) {
			s.tpm.Log.Add(4, eventlog.BootApplication, []byte("x"), []byte("x"))
			s.put(tpm.PartEventLog, s.tpm.Log.Bytes())
		}, "tpm.event-log contradicted replay-mismatch"},
		{"extend left out of the log", after(func(m *mint.TPM) { m.Extend(4, []byte("x")) }), "tpm.event-log contradicted replay-mismatch"},
		{"register that the log does not know", after(func(m *mint.TPM) { m.Extend(14, []byte("x")) }), "tpm.event-log contradicted unlogged"},
		{"user space extended PCR 11", func(s *scene) {
			s.tpm.Extend(11, []byte("phase"))
			s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, 0, 7, 11, 17))
		}, "tpm.event-log affirmed pcr:0 pcr:17 pcr:7 secure-boot:on unlogged:11"},
		{"second separator", after(func(m *mint.TPM) { m.Measure(7, eventlog.Separator, make([]byte, 4), nil) }), "tpm.event-log contradicted unsound-log"},
		{"legacy log", func(s *scene) {
			l := mint.NewEventLog()
			l.Add(0, eventlog.Separator, make([]byte, 4), make([]byte, 4))
			s.put(tpm.PartEventLog, l.Bytes())
		}, "tpm.event-log unknown evidence-missing"},
		{"clock went on", clock(7, 0, 80_000), "tpm.clock affirmed clock:90000 resets:7 restarts:0 safe"},
		{"rebooted", clock(6, 3, 99_000), "tpm.clock affirmed clock:90000 rebooted resets:7 restarts:0 safe"},
		{"another key's clock", func(s *scene) {
			s.c.Expect.Clocks = []attest.TPMClock{{AK: tpm.Name(other.AK()), ResetCount: 99, RestartCount: 99, Clock: 1 << 40}}
		}, "tpm.clock affirmed clock:90000 resets:7 restarts:0 safe"},
		{"resetCount went back", clock(8, 0, 1), "tpm.clock contradicted went-back"},
		{"restartCount went back", clock(7, 1, 1), "tpm.clock contradicted went-back"},
		{"clock went back", clock(7, 0, 90_001), "tpm.clock contradicted went-back"},
		{"nothing asked", func(s *scene) { s.asked = attest.Asked{} }, "tpm.freshness unknown no-expectation"},
		{"another nonce", func(s *scene) { s.asked.ReportData = bytes.Repeat([]byte{1}, 32) }, "tpm.freshness contradicted mismatch"},
		{"nonce cut", func(s *scene) { s.asked.ReportData = nonce[:31] }, "tpm.freshness contradicted mismatch"},
		{"no nonce", func(s *scene) { s.retake(nil, s.tpm.PCRs(eventlog.SHA256, boot...)) }, "tpm.freshness contradicted no-freshness"},
		{"no nonce and nothing asked", func(s *scene) {
			s.retake(nil, s.tpm.PCRs(eventlog.SHA256, boot...))
			s.asked = attest.Asked{}
		}, "tpm.freshness contradicted no-freshness"},
		{"no IMA list", func(s *scene) { s.put(tpm.PartIMA, nil) }, "tpm.ima unknown evidence-missing"},
		{"IMA entry left out", func(s *scene) {
			lines := strings.SplitAfter(s.tpm.IMA, "\n")
			s.put(tpm.PartIMA, []byte(lines[0]))
		}, "tpm.ima contradicted replay-mismatch"},
		{"IMA entry after the quote", func(s *scene) { s.tpm.MeasureFile("/bin/late", nil); s.put(tpm.PartIMA, []byte(s.tpm.IMA)) }, "tpm.ima affirmed clean"},
		{"IMA violation", after(func(m *mint.TPM) { m.Violate("/var/log/x") }), "tpm.ima affirmed violations"},
		{"IMA list malformed", func(s *scene) { s.put(tpm.PartIMA, []byte("10 x")) }, "tpm.ima contradicted malformed"},
		{"PCR 10 not quoted", func(s *scene) { s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, 0, 7)) }, "tpm.ima unknown evidence-missing"},
		{"IMA off", func(s *scene) {
			m := s.maker.TPM("one")
			s.quote(m.Quote(nonce, m.PCRs(eventlog.SHA256, boot...)))
			s.put(tpm.PartPCRs, tpm.EncodePCRs(m.PCRs(eventlog.SHA256, boot...)))
		}, "tpm.ima contradicted absent"},
		{"IMA list by its digest", func(s *scene) {
			d := canon.Sum(s.part(tpm.PartIMA))
			s.c.Collateral = []attest.Collateral{{Kind: attest.KindIMAList, Data: s.part(tpm.PartIMA)}}
			s.put(tpm.PartIMA, nil)
			s.put(tpm.PartIMADigest, d[:])
		}, "tpm.ima affirmed clean"},
		{"IMA list by its digest, not at hand", func(s *scene) {
			d := canon.Sum(s.part(tpm.PartIMA))
			s.put(tpm.PartIMA, nil)
			s.put(tpm.PartIMADigest, d[:])
		}, "tpm.ima unknown evidence-missing"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := sound(t)
			row.change(s)
			set, _ := s.appraise()
			want(t, set, row.want)
		})
	}
}

// TestAKScheme: each fault of the key's own algorithms is found alone.
func TestAKScheme(t *testing.T) {
	for _, row := range []struct {
		change func(*tpm.Public)
		after  bool // after the quote was signed
		why    claim.Reason
	}{
		{func(p *tpm.Public) { p.SchemeHash = eventlog.SHA384 }, false, ""},
		{func(p *tpm.Public) { p.SchemeHash = eventlog.SHA384 }, true, "bad-attributes: its scheme is not that of the signature"},
		{func(p *tpm.Public) { p.SchemeHash = eventlog.SHA1 }, false, "bad-attributes: its scheme hashes with sha1"},
		{func(p *tpm.Public) { p.NameAlg = eventlog.SHA384 }, false, ""},
		{func(p *tpm.Public) { p.NameAlg = eventlog.SHA1 }, false, "bad-attributes: its name is a digest of sha1"},
	} {
		s := sound(t)
		if row.change(&s.tpm.Public); !row.after {
			s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, boot...))
		}
		s.put(tpm.PartAK, s.tpm.AK())
		s.c.Expect.Activations = []attest.Activation{s.tpm.Activation()}
		set, _ := s.appraise()
		if c := set.Find("tpm.ak-attributes", subject); c.Reason != row.why || (c.Status == claim.Affirmed) != (row.why == "") {
			t.Errorf("%s %q, want %q", c.Status, c.Reason, row.why)
		}
	}
}

// TestIssuers: an issuer may come with the certificate, with the roots or with the collateral; one that is nowhere is
// wanted from where it is published, and one that does not descend from a root is refused.
func TestIssuers(t *testing.T) {
	s := sound(t)
	roots, err := attest.NewRoots(attest.RootFile{Name: "tpm-mint.pem", Data: s.maker.Root.PEM()})
	if err != nil {
		t.Fatal(err)
	}
	s.c.Roots = roots
	set, _ := s.appraise()
	want(t, set, "tpm.ek-chain contradicted untrusted")

	url := "https://pki.example/ca.crt"
	leaf := s.tpm.EKCertificate(mint.TPMOptions{IssuerURL: url}).DER
	s.put(tpm.PartEKCertificate, leaf)
	set, f := s.appraise()
	want(t, set, "tpm.ek-chain unknown collateral-missing", "tpm.ak-bound unknown rests-on", "tpm.freshness unknown rests-on")
	if len(f.Needs) != 1 || f.Needs[0].Kind != attest.KindTPMCertificate || f.Needs[0].Source != url {
		t.Errorf("needs %+v", f.Needs)
	}
	if n := tpm.Needs(s.comp, subject, roots); len(n) != 1 || n[0].Source != url {
		t.Errorf("needs %+v", n)
	}
	s.c.Collateral = []attest.Collateral{{Kind: attest.KindTPMCertificate, Data: s.maker.CA.DER}}
	set, _ = s.appraise()
	want(t, set, "tpm.ek-chain affirmed "+`"Mint TPM Root CA" "Mint TPM Manufacturing CA 001" -`)
	s.c.Collateral = nil
	s.put(tpm.PartEKCertificate, slices.Concat(leaf, s.maker.CA.DER))
	set, _ = s.appraise()
	want(t, set, "tpm.ek-chain affirmed "+`"Mint TPM Root CA" "Mint TPM Manufacturing CA 001" -`)
	s.put(tpm.PartEKCertificate, slices.Concat(leaf, mint.NewTPMImpostor().CA.DER))
	set, _ = s.appraise()
	want(t, set, "tpm.ek-chain contradicted untrusted")
	s.put(tpm.PartEKCertificate, bytes.Repeat(leaf, 5))
	set, _ = s.appraise()
	want(t, set, "tpm.structure contradicted malformed")
}

// TestAKIssuer: the issuer of an attestation key's certificate is wanted as that of an endorsement key's is.
func TestAKIssuer(t *testing.T) {
	s := sound(t)
	roots, err := attest.NewRoots(attest.RootFile{Name: "tpm-mint.pem", Data: s.maker.Root.PEM()})
	if err != nil {
		t.Fatal(err)
	}
	s.c.Roots = roots
	url := "https://pki.example/ca.crt"
	s.put(tpm.PartEKCertificate, nil)
	s.put(tpm.PartAKCertificate, s.tpm.AKCertificate(mint.TPMOptions{IssuerURL: url}).DER)
	set, f := s.appraise()
	want(t, set, "tpm.ak-bound unknown collateral-missing")
	if len(f.Needs) != 1 || f.Needs[0].Kind != attest.KindTPMCertificate || f.Needs[0].Source != url {
		t.Errorf("needs %+v", f.Needs)
	}
	s.c.Collateral = []attest.Collateral{{Kind: attest.KindTPMCertificate, Data: s.maker.CA.DER}}
	set, f = s.appraise()
	want(t, set, "tpm.ak-bound affirmed certificate")
	if len(f.Needs) != 0 {
		t.Errorf("needs %+v", f.Needs)
	}
}

// TestIdentity: an endorsement key names the TPM only where the attestation key is bound by it. One that stands beside a
// key with a tie of its own may be any TPM's.
func TestIdentity(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*scene)
		named  bool
	}{
		"activated":      {func(*scene) {}, true},
		"AK certificate": {func(s *scene) { s.put(tpm.PartAKCertificate, s.tpm.AKCertificate(mint.TPMOptions{}).DER) }, false},
		"named by a TEE": {func(s *scene) {
			d, _ := tpm.AK(s.comp)
			s.ties = []tpm.Tie{{AK: d, Value: "tee"}}
		}, false},
		"no endorsement key": {func(s *scene) { s.put(tpm.PartEKCertificate, nil) }, false},
	} {
		s := sound(t)
		row.change(s)
		if _, f := s.appraise(); f.Masked == row.named || (len(f.Identities) == 1) != row.named {
			t.Errorf("%s: identities %v, masked %v", name, f.Identities, f.Masked)
		}
	}
}

// TestBoot: what is passed on of a boot is what was extended, and a list that is wanted is named.
func TestBoot(t *testing.T) {
	s := sound(t)
	_, f := s.appraise()
	n := len(f.Boot.Extended)
	s.tpm.Log.Add(4, eventlog.NoAction, []byte("said"), []byte("said"))
	s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, boot...))
	set, f := s.appraise()
	if c := set.Find("tpm.event-log", subject); c.Status != claim.Affirmed || len(f.Boot.Extended) != n {
		t.Errorf("an event that is extended nowhere: %s, %d events, want %d", c.Status, len(f.Boot.Extended), n)
	}
	d := canon.Sum(s.part(tpm.PartIMA))
	s.put(tpm.PartIMA, nil)
	s.put(tpm.PartIMADigest, d[:])
	s.c.Collateral = []attest.Collateral{{Kind: attest.KindIMAList, Data: []byte("another list")}}
	if _, f := s.appraise(); len(f.Needs) != 1 || f.Needs[0].Kind != attest.KindIMAList {
		t.Errorf("needs %+v", f.Needs)
	}
}

// TestMemory: a chain that was proved before gives the same claims, also when its dates have passed since.
func TestMemory(t *testing.T) {
	s := sound(t)
	plain, _ := s.appraise()
	s.c.Memory = attest.NewMemory()
	for range 2 {
		set, _ := s.appraise()
		a, _ := canon.Marshal(plain)
		b, _ := canon.Marshal(set)
		if !bytes.Equal(a, b) {
			t.Error("a remembered chain changes the claims")
		}
	}
	s.c.At = canon.At(time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC))
	set, _ := s.appraise()
	want(t, set, "tpm.ek-chain contradicted lapsed")
}

// TestKnownBugs holds the rows of public bug reports that are about TPMs, each with its twin.
func TestKnownBugs(t *testing.T) {
	t.Run("C03 the same quote in two sessions", func(t *testing.T) {
		s := sound(t)
		set, _ := s.appraise()
		want(t, set, "tpm.freshness affirmed "+hex.EncodeToString(nonce))
		s.asked = attest.Asked{ReportData: bytes.Repeat([]byte{7}, 32), Value: "07", Why: "another session"}
		set, _ = s.appraise()
		want(t, set, "tpm.freshness contradicted mismatch")
		if v := set.Find("tpm.freshness", subject).Value; v != hex.EncodeToString(nonce) {
			t.Errorf("the claim shows %q, want what the quote holds", v)
		}
	})
	t.Run("C04 empty nonce", func(t *testing.T) {
		for _, asked := range [][]byte{{}, nil, nonce} {
			s := sound(t)
			s.asked.ReportData = asked
			s.retake(nil, s.tpm.PCRs(eventlog.SHA256, boot...))
			set, _ := s.appraise()
			want(t, set, "tpm.freshness contradicted no-freshness")
		}
		s := sound(t)
		s.retake(nonce[:1], s.tpm.PCRs(eventlog.SHA256, boot...))
		s.asked = attest.Asked{ReportData: nonce[:1], Value: "5a"}
		set, _ := s.appraise()
		want(t, set, "tpm.freshness affirmed 5a")
	})
	t.Run("C06 one PCR digit changed", func(t *testing.T) {
		s := sound(t)
		p := s.tpm.PCRs(eventlog.SHA256, boot...)
		s.put(tpm.PartPCRs, tpm.EncodePCRs(p))
		set, _ := s.appraise()
		want(t, set, "tpm.pcr-digest affirmed")
		p[4].Value[31] ^= 1
		s.put(tpm.PartPCRs, tpm.EncodePCRs(p))
		set, _ = s.appraise()
		want(t, set, "tpm.pcr-digest contradicted mismatch")
		if why := set.Find("tpm.event-log", subject).Reason; !strings.Contains(string(why), "PCR 4") {
			t.Errorf("no claim names PCR 4: %s", why)
		}
	})
	t.Run("P13 legacy log", func(t *testing.T) {
		s := sound(t)
		l := mint.NewEventLog()
		l.Add(0, 8, []byte("firmware"), []byte("firmware"))
		s.put(tpm.PartEventLog, l.Bytes())
		set, _ := s.appraise()
		want(t, set, "tpm.event-log unknown evidence-missing")
		if why := string(set.Find("tpm.event-log", subject).Reason); !strings.Contains(why, "SHA-1 digests alone") {
			t.Errorf("reason %q", why)
		}
	})
	t.Run("P21 certificate in sloppy DER", func(t *testing.T) {
		s := sound(t)
		cert := s.tpm.EKCertificate(mint.TPMOptions{Sloppy: true}).DER
		s.put(tpm.PartEKCertificate, cert)
		set, _ := s.appraise()
		want(t, set, "tpm.ek-chain affirmed "+`"Mint TPM Root CA" "Mint TPM Manufacturing CA 001" -`, "tpm.ek-encoding affirmed sloppy", "tpm.ak-bound affirmed activation")
		flipped := bytes.Clone(cert)
		flipped[len(flipped)-1] ^= 1
		s.put(tpm.PartEKCertificate, flipped)
		set, _ = s.appraise()
		want(t, set, "tpm.ek-chain contradicted untrusted")
	})
	t.Run("T11 resetCount", func(t *testing.T) {
		for _, row := range []struct{ was, is uint32 }{{5, 4}, {5, 5}, {5, 6}} {
			s := sound(t)
			s.tpm.Fields.ResetCount = row.is
			s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, boot...))
			s.c.Expect.Clocks = []attest.TPMClock{{AK: tpm.Name(s.tpm.AK()), ResetCount: int64(row.was)}}
			set, _ := s.appraise()
			want(t, set, map[uint32]string{4: "tpm.clock contradicted went-back", 5: "tpm.clock affirmed clock:90000 resets:5 restarts:0 safe", 6: "tpm.clock affirmed clock:90000 rebooted resets:6 restarts:0 safe"}[row.is])
			// Counters of a quote that no key vouches for affirm nothing.
			b := bytes.Clone(s.part(tpm.PartSignature))
			b[20] ^= 1
			s.put(tpm.PartSignature, b)
			if set, _ = s.appraise(); set.Find("tpm.clock", subject).Status == claim.Affirmed {
				t.Error("a clock is affirmed whose signature is not")
			}
		}
	})
	t.Run("G10 two writers", func(t *testing.T) {
		for order, want_ := range map[string]string{"A B": "affirmed", "B A": "contradicted replay-mismatch"} {
			s := sound(t)
			for _, e := range strings.Fields(order) {
				s.tpm.Extend(9, []byte(e))
			}
			s.tpm.Log.Add(9, eventlog.IPL, []byte("A"), []byte("A"))
			s.tpm.Log.Add(9, eventlog.IPL, []byte("B"), []byte("B"))
			s.retake(nonce, s.tpm.PCRs(eventlog.SHA256, boot...))
			set, _ := s.appraise()
			if got := said(set, "tpm.event-log"); !strings.HasPrefix(got, want_) {
				t.Errorf("extended in the order %s: tpm.event-log is %s, want %s", order, got, want_)
			}
		}
	})
	t.Run("5000 PCR selections", func(t *testing.T) {
		for n, status := range map[int]string{5000: "tpm.structure contradicted malformed", 6: "tpm.structure contradicted malformed", 2: "tpm.structure contradicted malformed", 1: "tpm.structure affirmed ecc-p256"} {
			s := sound(t)
			q := s.tpm.Quote(nonce, nil)
			for range n {
				q.Selections = append(q.Selections, tpm.Selection{Bank: eventlog.SHA256, PCRs: []int{0}})
			}
			s.quote(q)
			set, _ := s.appraise()
			want(t, set, status)
			if n > 1 && (len(set) != 1) {
				t.Errorf("%d selections: %d claims; nothing but the structure may be looked at", n, len(set))
			}
		}
	})
}

func TestStructureRefuses(t *testing.T) {
	s := sound(t)
	q, sig, ak := s.part(tpm.PartQuote), s.part(tpm.PartSignature), s.part(tpm.PartAK)
	change := func(b []byte, at int, with ...byte) []byte {
		b = bytes.Clone(b)
		copy(b[at:], with)
		return b
	}
	reversed := tpm.EncodePCRs(s.tpm.PCRs(eventlog.SHA256, 1))
	var none claim.Set
	tpm.Appraise(attest.Component{}, subject, &s.c, s.asked, &none)
	if why := none.Find("tpm.structure", subject).Reason; !strings.Contains(string(why), `no part "quote"`) {
		t.Errorf("a component of no parts: %q", why)
	}
	for name, row := range map[string]struct {
		part string
		data []byte
		want string
	}{
		"quote cut":               {tpm.PartQuote, q[:len(q)-1], "cut off"},
		"quote with a tail":       {tpm.PartQuote, append(bytes.Clone(q), 0), "1 bytes behind its end"},
		"quote of 64 KiB":         {tpm.PartQuote, make([]byte, 1<<16), "at most 1024"},
		"safe is 2":               {tpm.PartQuote, change(q, 4+2+2+34+2+32+16, 2), "safe is 2"},
		"FFFFFFFF selections":     {tpm.PartQuote, change(q, 4+2+2+34+2+32+17+8, 0xff, 0xff, 0xff, 0xff), "4294967295 PCR selections"},
		"bitmap of 255 bytes":     {tpm.PartQuote, change(q, 4+2+2+34+2+32+17+8+4+2, 255), "a PCR bitmap of 255 bytes"},
		"bank not known":          {tpm.PartQuote, change(q, 4+2+2+34+2+32+17+8+4, 0x77, 0x77), "PCR bank algorithm-7777"},
		"signature cut":           {tpm.PartSignature, sig[:9], "cut off"},
		"signature scheme HMAC":   {tpm.PartSignature, change(sig, 0, 0, 5), "scheme 0x0005"},
		"signature hash":          {tpm.PartSignature, change(sig, 2, 0, 0x12), "hash 0x0012"},
		"key cut":                 {tpm.PartAK, ak[:20], "cut off"},
		"key type":                {tpm.PartAK, change(ak, 1, 8), "key type 0x0008"},
		"key off the curve":       {tpm.PartAK, change(ak, len(ak)-1, ak[len(ak)-1]^1), "not on the curve"},
		"registers out of order":  {tpm.PartPCRs, append(reversed, reversed...), "out of order"},
		"registers cut":           {tpm.PartPCRs, reversed[:20], "cut off"},
		"register 32":             {tpm.PartPCRs, change(reversed, 2, 32), "register 32"},
		"no key":                  {tpm.PartAK, nil, "part 3 is"},
		"digest of an IMA list":   {tpm.PartIMADigest, make([]byte, 32), `and no part "ima"`},
		"certificate cut":         {tpm.PartEKCertificate, s.part(tpm.PartEKCertificate)[:80], "does not end where it does"},
		"AK certificate cut":      {tpm.PartAKCertificate, s.part(tpm.PartEKCertificate)[:80], "does not end where it does"},
		"endorsement key cut":     {tpm.PartEK, ak[:20], `part "ek": parse TPMT_PUBLIC: cut off`},
		"part that nobody knows":  {"x", []byte{1}, "part 0 is"},
		"certificate of a byte":   {tpm.PartEKCertificate, []byte{0x30}, "does not end where it does"},
		"certificate, endless":    {tpm.PartEKCertificate, []byte{0x30, 0x80, 0, 0}, "does not end where it does"},
		"certificate, long form":  {tpm.PartEKCertificate, []byte{0x30, 0x82, 1}, "does not end where it does"},
		"certificate, longer":     {tpm.PartEKCertificate, []byte{0x30, 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "does not end where it does"},
		"certificate, another":    {tpm.PartEKCertificate, []byte{0x31, 0}, "does not end where it does"},
		"certificate of FFFFFFFF": {tpm.PartEKCertificate, []byte{0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 1}, "does not end where it does"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sound(t)
			s.put(row.part, row.data)
			set, _ := s.appraise()
			want(t, set, "tpm.structure contradicted malformed")
			if why := string(set.Find("tpm.structure", subject).Reason); !strings.Contains(why, row.want) {
				t.Errorf("reason %q, want %q", why, row.want)
			}
		})
	}
}

// TestVectors judges the real and self-made quotes of the vectors.
func TestVectors(t *testing.T) {
	roots, err := attest.NewRoots(tpm.VendorRoots()...)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(t *testing.T, comp attest.Component, c attest.Case, asked attest.Asked) claim.Set {
		t.Helper()
		c.At = canon.At(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
		if len(c.Roots.Files()) == 0 {
			c.Roots = roots
		}
		var set claim.Set
		tpm.Appraise(comp, subject, &c, asked, &set)
		set.Settle()
		return set
	}
	for name, wanted := range map[string][]string{
		"quote-ecc.json":                      {"tpm.structure affirmed ecc-p256", "tpm.signature affirmed ecdsa-sha256", "tpm.ak-attributes affirmed", "tpm.ak-bound unknown no-expectation", "tpm.quote unknown rests-on", "tpm.freshness unknown no-expectation"},
		"quote-rsa.json":                      {"tpm.structure affirmed rsa-2048", "tpm.signature affirmed rsassa-sha256", "tpm.ak-attributes affirmed", "tpm.ak-bound unknown no-expectation"},
		"BAD-unrestricted-key-quote-ecc.json": {"tpm.signature affirmed ecdsa-sha256", "tpm.ak-attributes contradicted bad-attributes", "tpm.quote unknown rests-on"},
		"BAD-unrestricted-key-quote-rsa.json": {"tpm.signature affirmed rsassa-sha256", "tpm.ak-attributes contradicted bad-attributes"},
	} {
		t.Run(name, func(t *testing.T) {
			data := vectors.Read(t, "cpu/selfmade/swtpm/"+name)
			if !tpm.IsJSON(data) {
				t.Error("it is not told from its bytes")
			}
			comp, err := tpm.ReadJSON(data)
			if err != nil {
				t.Fatal(err)
			}
			want(t, judge(t, comp, attest.Case{}, attest.Asked{}), wanted...)
		})
	}
	t.Run("swtpm, activated", func(t *testing.T) {
		data := vectors.Read(t, "cpu/selfmade/swtpm/quote-ecc.json")
		comp, err := tpm.ReadJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Nonce string }
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		nonce, _ := hex.DecodeString(file.Nonce)
		cert := vectors.Read(t, "cpu/selfmade/swtpm/ek-rsa2048.crt.der")
		comp.Parts = append(comp.Parts, attest.Part{Name: tpm.PartEKCertificate, Data: cert}, attest.Part{Name: tpm.PartEK, Data: vectors.Read(t, "cpu/selfmade/swtpm/ek.tpmt_public")})
		swtpm, err := attest.NewRoots(
			attest.RootFile{Name: "tpm-root.pem", Data: vectors.Read(t, "cpu/selfmade/swtpm/swtpm-localca-rootca-cert.pem")},
			attest.RootFile{Name: "tpm-ca.pem", Data: vectors.Read(t, "cpu/selfmade/swtpm/issuercert.pem")})
		if err != nil {
			t.Fatal(err)
		}
		public, raw, err := tpm.ParsePublic(vectors.Read(t, "cpu/selfmade/swtpm/ek.tpmt_public"))
		if err != nil {
			t.Fatal(err)
		}
		key, err := public.Key()
		if err != nil || !bytes.Equal(public.Encode(), raw) {
			t.Fatal(err)
		}
		ak, _ := comp.Part(tpm.PartAK)
		c := attest.Case{Roots: swtpm, Expect: attest.Expect{Activations: []attest.Activation{{EK: tpm.KeyDigest(key), AK: tpm.Name(ak)}}}}
		want(t, judge(t, comp, c, attest.Asked{ReportData: nonce, Value: file.Nonce}),
			"tpm.ek-chain affirmed swtpm-localca-rootca swtpm-localca unknown", "tpm.ak-bound affirmed activation", "tpm.quote affirmed", "tpm.pcr-digest affirmed", "tpm.freshness affirmed "+file.Nonce)
	})
	t.Run("keylime", func(t *testing.T) {
		files := tpm.Files{
			Message: vectors.Read(t, "cpu/tpm/keylime-quote.out"), Signature: vectors.Read(t, "cpu/tpm/keylime-quotesig.out"),
			PCRs: vectors.Read(t, "cpu/tpm/keylime-quotepcr.out"), AK: vectors.Read(t, "cpu/tpm/keylime-akpub.pem"),
		}
		comp, err := tpm.ReadFiles(files)
		if err != nil {
			t.Fatal(err)
		}
		set := judge(t, comp, attest.Case{}, attest.Asked{})
		want(t, set, "tpm.structure affirmed rsa-2048", "tpm.signature affirmed rsassa-sha256", "tpm.ak-attributes unknown evidence-missing")
		if got := set.Find("tpm.selection", subject); got.Value != "sha256:15 sha256:16 sha256:22" || got.Status == claim.Contradicted {
			t.Errorf("selection %+v", got)
		}
		if set.Find("tpm.pcr-digest", subject).Status == claim.Contradicted {
			t.Error("the registers do not have the digest that is signed")
		}
		files.PCRs = bytes.Clone(files.PCRs)
		files.PCRs[0xd0] ^= 1
		if comp, err = tpm.ReadFiles(files); err != nil {
			t.Fatal(err)
		}
		want(t, judge(t, comp, attest.Case{}, attest.Asked{}), "tpm.pcr-digest contradicted mismatch")
		name := vectors.Read(t, "cpu/tpm/keylime-ak.name")
		_, raw, err := tpm.ParsePublic(vectors.Read(t, "cpu/tpm/keylime-ak.pub"))
		if err != nil || !bytes.Equal(tpm.Name(raw), name) {
			t.Errorf("name %x, the TPM says %x; %v", tpm.Name(raw), name, err)
		}
	})
	t.Run("dstack", func(t *testing.T) {
		raw := vectors.Read(t, "cpu/tpm/dstack-tpm_quote_sample.bin")
		a, err := tpm.ParseAttest(raw)
		if err != nil || hex.EncodeToString(a.ExtraData) != "12345678" || !bytes.Equal(a.Encode(), raw) {
			t.Errorf("%+v, %v", a, err)
		}
	})
	t.Run("Google", func(t *testing.T) {
		// Real certificates of signing keys, under Google's roots, with intermediates as collateral or root files.
		read := func(name string) []byte {
			data := vectors.Read(t, "cpu/gcp/"+name)
			if b, _ := pem.Decode(data); b != nil {
				return b.Bytes
			}
			return data
		}
		asPEM := func(name string) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: read(name)})
		}
		google, err := attest.NewRoots(attest.RootFile{Name: "tpm-gce.pem", Data: slices.Concat(asPEM("tpm_ek_root_1.cer"), asPEM("gcp_ek_ak_ca_root.crt"), asPEM("tpm_ek_intermediate_3.crt"))})
		if err != nil {
			t.Fatal(err)
		}
		c := attest.Case{Roots: google, Collateral: []attest.Collateral{{Kind: attest.KindTPMCertificate, Data: read("gcp_ek_ak_ca_intermediate_v3.crt")}}}
		for name, usable := range map[string]bool{
			"gtt-uca_tpm_ecc_sign_cert.pem": true, "gtt-uca_tpm_rsa_sign_cert.pem": true, "gtt-pca_tpm_ecc_sign_cert.pem": true,
			"gtt-uca_tpm_ecc_enc_cert.pem": false, "gtt-pca_tpm_rsa_enc_cert.pem": false,
		} {
			s := sound(t)
			s.c = c
			s.put(tpm.PartAKCertificate, read(name))
			set := judge(t, s.comp, s.c, s.asked)
			// The certificate is another key's than this quote's: what is told of it is all that is looked at.
			why := string(set.Find("tpm.ak-bound", subject).Reason)
			if proven := strings.Contains(why, "is for another key"); !proven {
				t.Errorf("%s: %s", name, why)
			}
			if chain := tpm.ProveAK(read(name), &c); (chain == nil) != usable {
				t.Errorf("%s: %v, want usable %v", name, chain, usable)
			}
		}
	})
}

// TestRoots: every pinned certificate parses, and is a root or descends from one of its file.
func TestRoots(t *testing.T) {
	files := tpm.VendorRoots()
	if len(files) < 4 {
		t.Errorf("%d root files", len(files))
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name, "tpm-") {
			t.Errorf("%s would not be read", f.Name)
		}
	}
}
