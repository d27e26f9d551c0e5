package tdx_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	gtt "github.com/google/go-tdx-guest/testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

// TestKnownBugs holds the rows of public bug reports that are about TDX, each with its twin.
func TestKnownBugs(t *testing.T) {
	for name, row := range map[string]func(*testing.T){
		"P01 NUL behind the chain":                    nulBehindTheChain,
		"P02 bytes behind the quote":                  trailingBytes,
		"P03 certification data around the QE report": certificationData,
		"P04 type and size of the body":               bodyType,
		"P12 crafted lengths":                         craftedLengths,
		"V02 identity of the module":                  moduleIdentity,
		"V03 below the lowest level":                  belowLowestLevel,
		"V11 real quotes with real TCB info":          realPairs,
		"V12 TCB info of another family":              otherFamily,
		"T09 old TCB info":                            oldTCBInfo,
		"T10 two evaluations":                         twoEvaluations,
	} {
		t.Run(name, row)
	}
}

// changeChain rewrites the PCK chain of a quote with the sizes around it, and signs nothing anew: no signature covers it.
func changeChain(t *testing.T, raw []byte, change func(chain []byte) []byte) []byte {
	t.Helper()
	u, _, err := tdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Peek()
	q.Chain = change(bytes.Clone(q.Chain))
	return q.Encode()
}

// signatureData returns where the size of the signature data stands.
func signatureData(raw []byte) int {
	if binary.LittleEndian.Uint16(raw) == 5 {
		return 48 + 6 + int(binary.LittleEndian.Uint32(raw[50:]))
	}
	return 48 + 584
}

// nulBehindTheChain: exactly one NUL may end the chain's declared bytes.
func nulBehindTheChain(t *testing.T) {
	l := vendor(t, "2026-03-01T00:00:00Z")
	for name, size := range map[string]int{"gtg-quote_v5_sample.dat": 3678, "gtg-cos-113-tdx-quote.dat": 3677, "gtg-tdx_prod_quote_SPR_E4.dat": 3677} {
		raw := file(t, "cpu/tdx/"+name)
		u, _, err := tdx.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		chain := u.Peek().Chain
		if len(chain) != size {
			t.Errorf("%s: chain of %d bytes, want %d", name, len(chain), size)
		}
		bare := bytes.TrimRight(chain, "\x00")
		for tail, good := range map[string]bool{"": true, "\x00": true, "\x00\x00": false, "\n": false, "\x00\n": false, "\n\x00": false, " ": false, "x": false} {
			s, _ := l.judge(changeChain(t, raw, func([]byte) []byte { return append(bytes.Clone(bare), tail...) }))
			if good {
				want(t, s, "tdx.signature", claim.Affirmed)
			} else {
				want(t, s, "tdx.structure", claim.Contradicted, "malformed")
			}
		}
	}
}

// trailingBytes: what stands behind the signature data is no part of the quote.
func trailingBytes(t *testing.T) {
	for name, tail := range map[string]struct {
		size int
		text string // that names it; empty: zeros are not worth a word
	}{
		"tdx/trustee-tdx_quote_6.dat":       {70, ""},
		"azure/trustee-az-tdx-td-quote.bin": {70, ""},
		"tdx/gtg-cos-113-tdx-quote.dat":     {3065, ""},
		"tdx/gtg-tdx_prod_quote_SPR_E4.dat": {39, "trailing-bytes: 39 bytes behind the signature data"},
	} {
		raw := file(t, "cpu/"+name)
		_, size, err := tdx.Parse(raw)
		if err != nil || len(raw)-size != tail.size {
			t.Errorf("%s: tail of %d bytes, %v, want %d", name, len(raw)-size, err, tail.size)
		}
		l := vendor(t, "2026-03-01T00:00:00Z")
		whole, _ := l.judge(raw)
		trimmed, _ := l.judge(raw[:size])
		for i, c := range whole {
			if c.ID == "tdx.structure" {
				if c.Status != claim.Affirmed || trimmed[i].Reason != "" || (tail.text == "") != (c.Reason == "") || !strings.HasPrefix(string(c.Reason), tail.text) {
					t.Errorf("%s: the structure is %s, %q; of the trimmed file %q", name, c.Status, c.Reason, trimmed[i].Reason)
				}
				c.Reason = ""
			}
			if got := trimmed[i]; c.ID != got.ID || c.Status != got.Status || c.Value != got.Value || c.Reason != got.Reason {
				t.Errorf("%s: %s is %s %q, of the trimmed file %s %q", name, c.ID, c.Status, c.Value, got.Status, got.Value)
			}
		}
		if len(whole) != len(trimmed) || genuine(whole) != "accept" || genuine(trimmed) != "accept" {
			t.Errorf("%s: genuine says %s, of the trimmed file %s", name, genuine(whole), genuine(trimmed))
		}
	}
}

// certificationData: the QE report stands inside certification data of type 6, and the chain inside type 5.
func certificationData(t *testing.T) {
	m := newMinted(t)
	good := m.seal(mint.SoundQuote())
	at := signatureData(good) + 4 + 128
	s, _ := m.judge(good)
	want(t, s, "tdx.structure", claim.Affirmed)
	flat := slices.Concat(good[:at], good[at+6:])
	binary.LittleEndian.PutUint32(flat[signatureData(good):], uint32(len(flat)-signatureData(good)-4))
	s, _ = m.judge(flat)
	want(t, s, "tdx.structure", claim.Contradicted, "certification data of type")
	for typ := range uint16(8) {
		for where, right := range map[int]uint16{at: 6, at + 6 + 384 + 64 + 2 + 32: 5} {
			raw := bytes.Clone(good)
			binary.LittleEndian.PutUint16(raw[where:], typ)
			s, _ := m.judge(raw)
			if typ == right {
				want(t, s, "tdx.structure", claim.Affirmed)
			} else {
				want(t, s, "tdx.structure", claim.Contradicted, fmt.Sprintf("certification data of type %d, want %d", typ, right))
			}
		}
	}
}

// bodyType: type and size of a version 5 body must agree.
func bodyType(t *testing.T) {
	m := newMinted(t)
	old, new_ := mint.SoundQuote15(), mint.SoundQuote15()
	old.BodyType = tdx.BodyTD10
	for _, row := range []struct {
		q     tdx.Quote
		typ   uint16
		size  uint32
		words string // empty: good
	}{
		{old, 2, 584, ""}, {new_, 3, 648, ""},
		{new_, 2, 648, "body of 648 bytes, but type 2 has 584"}, {old, 3, 584, "body of 584 bytes, but type 3 has 648"},
		{new_, 1, 648, "SGX enclave report"}, {new_, 4, 648, "body type 4 is not known"}, {new_, 3, 0xffffffff, "4294967295"}, {new_, 0, 0, "body type 0"},
	} {
		raw := m.seal(row.q)
		binary.LittleEndian.PutUint16(raw[48:], row.typ)
		binary.LittleEndian.PutUint32(raw[50:], row.size)
		s, _ := m.judge(raw)
		if row.words == "" {
			want(t, s, "tdx.signature", claim.Affirmed)
		} else {
			want(t, s, "tdx.structure", claim.Contradicted, row.words)
		}
	}
	for _, name := range []string{"gtg-quote_v5_sample.dat", "trustee-tdx_quote_5.dat"} {
		s, _ := vendor(t, "2026-03-01T00:00:00Z").judge(file(t, "cpu/tdx/"+name))
		want(t, s, "tdx.structure", claim.Affirmed, "v5-td1.5")
	}
}

// TestHeader: every value of the header that this room does not judge by is refused by name.
func TestHeader(t *testing.T) {
	m := newMinted(t)
	for words, change := range map[string]func(raw []byte){
		"this is an SGX quote (version 3":       func(raw []byte) { raw[0] = 3 },
		"this is an SGX quote (version 4":       func(raw []byte) { raw[4] = 0 },
		"version 6 is not known":                func(raw []byte) { raw[0] = 6 },
		"TEE type 0x82":                         func(raw []byte) { raw[4] = 0x82 },
		"attestation key type 3, want 2":        func(raw []byte) { raw[2] = 3 },
		"want Intel's":                          func(raw []byte) { raw[12] ^= 1 },
		"signature data takes 2147483647 bytes": func(raw []byte) { binary.LittleEndian.PutUint32(raw[632:], 1<<31-1) },
		"signature data takes":                  func(raw []byte) { binary.LittleEndian.PutUint32(raw[632:], 1<<32-1) },
	} {
		raw := m.seal(mint.SoundQuote())
		change(raw)
		s, _ := m.judge(raw)
		want(t, s, "tdx.structure", claim.Contradicted, words)
	}
	s, _ := m.judge(make([]byte, tdx.MaxQuote+1))
	want(t, s, "tdx.structure", claim.Contradicted, "16385 bytes, at most 16384")
	var set claim.Set
	for _, parts := range [][]attest.Part{nil, {{Name: "other", Data: nil}}, {{Name: tdx.PartQuote, Data: nil}, {Name: "more", Data: nil}}} {
		set = nil
		tdx.Appraise(attest.Component{Parts: parts}, subject, &attest.Case{Roots: m.roots}, attest.Asked{}, &set)
		want(t, set, "tdx.structure", claim.Contradicted, `want the one part "quote"`)
	}
}

// craftedLengths: quotes cut at every byte, and with every length field at its ends, neither pass nor panic.
func craftedLengths(t *testing.T) {
	m := newMinted(t)
	for _, q := range []tdx.Quote{mint.SoundQuote(), mint.SoundQuote15()} {
		good := m.seal(q)
		for n := range good {
			if _, _, err := tdx.Parse(good[:n]); err == nil {
				t.Fatalf("a quote cut to %d of %d bytes is read", n, len(good))
			}
		}
		data := signatureData(good)
		inner := data + 4 + 128 + 6
		for _, f := range []struct{ at, size int }{{data, 4}, {data + 4 + 130, 4}, {inner + 448, 2}, {inner + 450 + 32 + 2, 4}} {
			for _, v := range []uint64{0, 1, 0x7f, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff} {
				raw := bytes.Clone(good)
				if f.size == 2 {
					binary.LittleEndian.PutUint16(raw[f.at:], uint16(v))
				} else {
					binary.LittleEndian.PutUint32(raw[f.at:], uint32(v))
				}
				s, _ := m.judge(raw, m.items...)
				if genuine(s) != "reject" {
					t.Errorf("length at 0x%x set to 0x%x: genuine says %s", f.at, v, genuine(s))
				}
			}
		}
	}
}

// googleCollateral returns Intel's bodies that go-tdx-guest carries, with the issuer chain that came with them.
func googleCollateral(t *testing.T, fmspc, rootCRL string) []attest.Collateral {
	t.Helper()
	get := func(kind, url, header string) attest.Collateral {
		r := gtt.TestGetter.Responses[url]
		item, err := tdx.NewSigned(kind, r.Header[header][0], r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return item
	}
	const base = "https://api.trustedservices.intel.com/tdx/certification/v4/"
	return append(collateral(t, rootCRL),
		get(attest.KindIntelTCBInfo, base+"tcb?fmspc="+fmspc, "Tcb-Info-Issuer-Chain"),
		get(attest.KindIntelQEIdentity, base+"qe/identity", "Sgx-Enclave-Identity-Issuer-Chain"))
}

// moduleIdentity: byte 1 of a TEE TCB SVN is the module's version, which has an identity of its own.
func moduleIdentity(t *testing.T) {
	s, _ := vendor(t, "2026-03-01T00:00:00Z").judge(file(t, "cpu/tdx/gtg-quote_v5_sample.dat"), collateral(t, "cpu/tdx/dcapqvl-tdx_quote_outdated_collateral.json")...)
	want(t, s, "tdx.module-identity", claim.Affirmed, "TDX_01")
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	m := newMinted(t)
	// With version 0 the first two TDX components count, with others they do not.
	q := mint.SoundQuote()
	q.TEETCBSVN = tdx.SVN{4, 0, 3}
	s, _ = m.judge(m.seal(q), m.items...)
	want(t, s, "tdx.tcb-status", claim.Contradicted, "TDX component 1 needs 5, has 4")
	q.TEETCBSVN = tdx.SVN{5, 0, 3}
	s, _ = m.judge(m.seal(q), m.items...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	want(t, s, "tdx.module-identity", claim.Affirmed, "TDX_00")
	q.TEETCBSVN = tdx.SVN{4, 1, 3}
	s, _ = m.judge(m.seal(q), m.items...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "OutOfDate")
}

// belowLowestLevel: a real platform below every level that Intel lists.
func belowLowestLevel(t *testing.T) {
	l := vendor(t, "2023-07-01T00:00:00Z")
	items := googleCollateral(t, "50806f000000", "cpu/tdx/gtg-rootcrl.der")
	s, _ := l.judge(file(t, "cpu/tdx/gtg-tdx_prod_quote_SPR_E4.dat"), items...)
	want(t, s, "tdx.collateral", claim.Affirmed, "15")
	want(t, s, "tdx.tcb-status", claim.Contradicted, "below the lowest level", "TDX component 3 needs 5, has 4", "SGX component 1 needs 5, has 3")
	// The chain may also come beside bodies that lack it.
	chain := collateral(t, "cpu/tdx/dcapqvl-tdx_quote_outdated_collateral.json")
	if got := len(chain); got != 4 {
		t.Fatalf("%d items", got)
	}
	items = append(collateral(t, "cpu/tdx/gtg-sample_tcbInfo_response", "cpu/tdx/gtg-sample_qeIdentity_response", "cpu/tdx/gtg-rootcrl.der"), items[1])
	s, _ = l.judge(file(t, "cpu/tdx/gtg-tdx_prod_quote_SPR_E4.dat"), items...)
	want(t, s, "tdx.tcb-status", claim.Contradicted, "below the lowest level")
	want(t, s, "tdx.collateral", claim.Affirmed, "15")
}

// realPairs: the status is the join of platform level and module identity.
func realPairs(t *testing.T) {
	chain := collateral(t, "cpu/tdx/dcapqvl-tdx_quote_outdated_collateral.json")
	for _, row := range []struct {
		name, quote, at string
		items           []attest.Collateral
		status          claim.Status
		words           string
	}{
		{"a: both up to date", "gtg-quote_v5_sample.dat", "2026-03-01T00:00:00Z", append(collateral(t, "cpu/tdx/gtg-sample_tcbinfo_response_v5"), chain...), claim.Affirmed, "UpToDate"},
		{"b: no platform level", "trustee-tdx_quote_5.dat", "2026-03-01T00:00:00Z", append(collateral(t, "cpu/tdx/gtg-sample_tcbinfo_response_v5"), chain...), claim.Contradicted, "platform is below the lowest level"},
		{"c: platform out of date, module up to date", "trustee-tdx_quote_6.dat", "2025-11-01T00:00:00Z", append(collateral(t, "cpu/tdx/trustee-tcbInfo.json", "cpu/tdx/trustee-enclaveIdentity.json"), chain...), claim.Affirmed, "OutOfDate"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, _ := vendor(t, row.at).judge(file(t, "cpu/tdx/"+row.quote), row.items...)
			want(t, s, "tdx.tcb-status", row.status, row.words)
			if row.status == claim.Affirmed {
				want(t, s, "tdx.collateral", claim.Affirmed)
			}
			if row.words == "OutOfDate" {
				want(t, s, "tdx.tcb-status", claim.Affirmed, "platform OutOfDate of 2018-01-04", "TDX module TDX_03 UpToDate", "PCESVN needs 13")
				want(t, s, "tdx.tcb-date", claim.Affirmed, "20180104")
			}
		})
	}
}

// otherFamily: TCB info of another platform family is not used; hex is compared by value.
func otherFamily(t *testing.T) {
	chain := collateral(t, "cpu/tdx/dcapqvl-tdx_quote_outdated_collateral.json")[1:]
	s, _ := vendor(t, "2025-11-01T00:00:00Z").judge(file(t, "cpu/tdx/gtg-quote_v5_sample.dat"), append(collateral(t, "cpu/tdx/trustee-tcbInfo.json"), chain...)...)
	want(t, s, "tdx.collateral", claim.Unknown, "FMSPC mismatch: it is for 00a06d080000, the platform is 90c06f000000")
	m := newMinted(t)
	for _, fmspc := range []string{"00806f050000", "00806F050000"} {
		s, _ := m.judge(m.seal(mint.SoundQuote()), m.tcbInfo(func(i *mint.TCBInfo) { i.FMSPC = fmspc })...)
		want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	}
}

// oldTCBInfo: signed but lapsed TCB info counts in its own window alone.
func oldTCBInfo(t *testing.T) {
	m := newMinted(t)
	q := m.seal(mint.SoundQuote())
	items := m.items[1:]
	lax := mint.SoundTCBInfo(m.p, now.AddDate(-2, 0, 0), 15)
	lax.Levels[0].SGX = tdx.SVN{1}
	items = append(slices.Clone(items), m.intel.TCBInfo(lax))
	s, _ := m.judge(q, items...)
	want(t, s, "tdx.collateral", claim.Unknown, "lapsed at")
	want(t, s, "tdx.tcb-status", claim.Unknown, "rests-on")
	// As of its own window it counts, with all else of that time.
	then := now.AddDate(-2, 0, 0)
	m.at = then.AddDate(0, 0, 10)
	signer := m.intel.NewTCBSigner(5, &m.intel.Root, then.AddDate(-1, 0, 0))
	pck := m.intel.PCK(m.p, mint.PCKOptions{NotBefore: then.AddDate(-1, 0, 0)})
	s, _ = m.judge(m.intel.Seal(mint.SoundQuote(), mint.SoundQE(), pck, m.intel.PlatformCA).Encode(),
		m.intel.Signed(attest.KindIntelTCBInfo, mint.SignedBody("tcbInfo", lax.JSON(), signer), signer),
		m.intel.Signed(attest.KindIntelQEIdentity, mint.SignedBody("enclaveIdentity", mint.SoundQEIdentity(then, 15).JSON(), signer), signer),
		attest.Collateral{Kind: attest.KindIntelRootCRL, Data: m.intel.RootCRL(then, then.AddDate(0, 0, 30))})
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	if c := s.Find("tdx.tcb-status", subject); c.Until != canon.At(then.AddDate(0, 0, 30)) {
		t.Errorf("the status holds until %s", c.Until)
	}
	// A real one, which lapsed in July 2023.
	real, items := file(t, "cpu/tdx/gtg-tdx_prod_quote_SPR_E4.dat"), googleCollateral(t, "50806f000000", "cpu/tdx/gtg-rootcrl.der")
	s, _ = vendor(t, "2023-07-01T00:00:00Z").judge(real, items...)
	want(t, s, "tdx.collateral", claim.Affirmed, "15")
	s, _ = vendor(t, "2024-01-01T00:00:00Z").judge(real, items...)
	want(t, s, "tdx.collateral", claim.Unknown, "collateral-refused", "lapsed at 2023-07-")
	want(t, s, "tdx.tcb-status", claim.Unknown, "rests-on")
}

// twoEvaluations: the higher evaluation number decides, the other's status stands in the reason; in any order.
func twoEvaluations(t *testing.T) {
	m := newMinted(t)
	raw := m.seal(mint.SoundQuote())
	newer := mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -3), 19)
	newer.Levels[0].SGX[0]++
	fresh := []attest.Collateral{m.intel.TCBInfo(newer), m.intel.QEIdentity(mint.SoundQEIdentity(now.AddDate(0, 0, -3), 19))}
	for _, items := range [][]attest.Collateral{append(slices.Clone(m.items), fresh...), append(slices.Clone(fresh), m.items...)} {
		s, _ := m.judge(raw, items...)
		want(t, s, "tdx.collateral", claim.Affirmed, "19")
		want(t, s, "tdx.tcb-status", claim.Affirmed, "OutOfDate", "platform OutOfDate of 2024-03-13 (INTEL-SA-00960, INTEL-SA-01036)", "by evaluation 18 it was UpToDate", "SGX component 1 needs 4, has 3")
	}
	s, _ := m.judge(raw, m.items...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	s, _ = m.judge(raw, append(slices.Clone(m.items), fresh[0])...)
	want(t, s, "tdx.collateral", claim.Unknown, "TCB info of evaluation 19, QE identity of 18")
	s, _ = m.judge(raw, append(slices.Clone(m.items), fresh[1])...)
	want(t, s, "tdx.collateral", claim.Unknown, "TCB info of evaluation 18, QE identity of 19")
	newer.Levels[0].SGX[0], newer.Levels[1].SGX[0] = 9, 9
	s, _ = m.judge(raw, append(slices.Clone(m.items), m.intel.TCBInfo(newer), fresh[1])...)
	want(t, s, "tdx.tcb-status", claim.Contradicted, "below the lowest level of evaluation 19", "by evaluation 18 it was UpToDate")
	older := mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -3), 17)
	older.Levels[0].SGX[0], older.Levels[1].SGX[0] = 9, 9
	s, _ = m.judge(raw, append(slices.Clone(m.items), m.intel.TCBInfo(older))...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate", "evaluation 18: ", "by evaluation 17 it was below the lowest level")
	// An older evaluation issued later is still the older.
	later := mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -1), 17)
	s, _ = m.judge(raw, append([]attest.Collateral{m.intel.TCBInfo(later), m.intel.QEIdentity(mint.SoundQEIdentity(now.AddDate(0, 0, -1), 17))}, m.items...)...)
	want(t, s, "tdx.collateral", claim.Affirmed, "18")
	// Of two issues of one evaluation, the newer decides.
	reissued := mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -1), 18)
	reissued.Levels[0].Status = "SWHardeningNeeded"
	s, _ = m.judge(raw, append(slices.Clone(m.items), m.intel.TCBInfo(reissued))...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "SWHardeningNeeded")
}

// TestRejections18to24 holds rows of other verifiers' issues that are not held elsewhere.
func TestRejections18to24(t *testing.T) {
	m := newMinted(t)
	raw := m.seal(mint.SoundQuote15())
	t.Run("21 no module identities", func(t *testing.T) {
		s, _ := m.judge(raw, m.tcbInfo(func(i *mint.TCBInfo) { i.Modules = nil })...)
		want(t, s, "tdx.module-identity", claim.Contradicted, "names no TDX module TDX_01")
		want(t, s, "tdx.tcb-status", claim.Contradicted, "TDX module TDX_01 is below the lowest level")
	})
	t.Run("21 no TDX components", func(t *testing.T) {
		text := strings.ReplaceAll(string(mint.SoundTCBInfo(m.p, now, 18).JSON()), "tdxtcbcomponents", "others")
		s, _ := m.judge(raw, m.with(0, m.intel.Signed(attest.KindIntelTCBInfo, mint.SignedBody("tcbInfo", []byte(text), m.intel.TCBSigner), m.intel.TCBSigner))...)
		want(t, s, "tdx.collateral", claim.Unknown, `it lacks "tdxtcbcomponents"`)
	})
	t.Run("23 oldest of three dates", func(t *testing.T) {
		for _, row := range []func(*mint.TCBInfo, *mint.QEIdentity){
			func(i *mint.TCBInfo, _ *mint.QEIdentity) { i.Levels[0].Date = now.AddDate(-9, 0, 0) },
			func(i *mint.TCBInfo, _ *mint.QEIdentity) { i.Modules[1].Levels[0].Date = now.AddDate(-9, 0, 0) },
			func(_ *mint.TCBInfo, q *mint.QEIdentity) { q.Levels[0].Date = now.AddDate(-9, 0, 0) },
		} {
			info, id := mint.SoundTCBInfo(m.p, now, 18), mint.SoundQEIdentity(now, 18)
			row(&info, &id)
			s, _ := m.judge(raw, m.intel.TCBInfo(info), m.intel.QEIdentity(id), m.items[3])
			want(t, s, "tdx.tcb-date", claim.Affirmed, "20170201")
		}
	})
	t.Run("24 union of advisories", func(t *testing.T) {
		info, id := mint.SoundTCBInfo(m.p, now, 18), mint.SoundQEIdentity(now, 18)
		info.Levels[0].Advisories, info.Modules[1].Levels[0].Advisories, id.Levels[0].Advisories = []string{"A-2", "A-1"}, []string{"A-3"}, []string{"A-1"}
		s, _ := m.judge(raw, m.intel.TCBInfo(info), m.intel.QEIdentity(id), m.items[3])
		want(t, s, "tdx.advisories", claim.Affirmed, "A-1 A-2 A-3")
		want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	})
}

// TestCollateralHidesNothing: a fault of the collateral does not hide a revoked TCB, nor the other way round.
func TestCollateralHidesNothing(t *testing.T) {
	m := newMinted(t)
	items := m.tcbInfo(func(i *mint.TCBInfo) { i.Levels[0].Status = "Revoked" })
	for _, some := range [][]attest.Collateral{items[:1], items[:2], items} {
		s, _ := m.judge(m.seal(mint.SoundQuote()), some...)
		want(t, s, "tdx.tcb-status", claim.Contradicted, "Revoked")
		if len(some) < 4 {
			want(t, s, "tdx.collateral", claim.Unknown)
		}
	}
	qe := mint.SoundQE()
	qe.MRSigner[0] ^= 1
	s, _ := m.judge(m.intel.Seal(mint.SoundQuote(), qe, m.pck, m.intel.PlatformCA).Encode(), items...)
	want(t, s, "tdx.qe-identity", claim.Contradicted, "MRSIGNER")
	want(t, s, "tdx.tcb-status", claim.Contradicted, "Revoked")
}

// TestManySigners: however many signing certificates stand before it, a revoked one is seen, and a good one is used.
func TestManySigners(t *testing.T) {
	m := newMinted(t)
	raw := m.seal(mint.SoundQuote())
	var many []attest.Collateral
	for n := range int64(8) {
		many = append(many, attest.Collateral{Kind: attest.KindIntelCertificate, Data: m.intel.NewTCBSigner(n+1, &m.intel.Root, now.AddDate(-1, 0, 0)).DER})
	}
	s, _ := m.judge(raw, append(slices.Clone(many), m.items...)...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	items := m.with(3, attest.Collateral{Kind: attest.KindIntelRootCRL, Data: m.intel.RootCRL(now.AddDate(0, 0, -5), now.AddDate(0, 0, 30), serial(m.intel.TCBSigner))})
	s, _ = m.judge(raw, append(slices.Clone(many), items...)...)
	want(t, s, "tdx.collateral", claim.Unknown, "revoked the certificate of its signer")
}

// TestStrictJSON: no member twice, in two spellings or beside those that are signed; at any level.
func TestStrictJSON(t *testing.T) {
	m := newMinted(t)
	raw := m.seal(mint.SoundQuote15())
	good := string(mint.SoundTCBInfo(m.p, now, 18).JSON())
	sign := func(text string) []byte { return mint.SignedBody("tcbInfo", []byte(text), m.intel.TCBSigner) }
	judge := func(body []byte) claim.Set {
		s, _ := m.judge(raw, m.with(0, m.intel.Signed(attest.KindIntelTCBInfo, body, m.intel.TCBSigner))...)
		return s
	}
	want(t, judge(sign(good)), "tdx.tcb-status", claim.Affirmed, "UpToDate")
	want(t, judge(sign(strings.Replace(good, `"id":"TDX"`, `"added":{"x":[1,null,true]},"id":"TDX"`, 1))), "tdx.tcb-status", claim.Affirmed, "UpToDate")
	spaced := bytes.ReplaceAll(sign(good), []byte(`,"signature"`), []byte(" ,\n \"signature\" "))
	want(t, judge(append([]byte(" "), spaced...)), "tdx.tcb-status", claim.Affirmed, "UpToDate")
	in := func(old, new_ string) []byte { return sign(strings.Replace(good, old, new_, 1)) }
	for name, body := range map[string][]byte{
		"case variant outside":        append(bytes.TrimSuffix(sign(good), []byte("}")), `,"TcbInfo":`+good+`}`...),
		"case variant alone outside":  bytes.Replace(sign(good), []byte(`"tcbInfo"`), []byte(`"TcbInfo"`), 1),
		"duplicate outside":           append([]byte(`{"tcbInfo":`+good+`,`), sign(good)[1:]...),
		"another member outside":      append(bytes.TrimSuffix(sign(good), []byte("}")), `,"more":1}`...),
		"two signatures":              append(bytes.TrimSuffix(sign(good), []byte("}")), `,"Signature":"00"}`...),
		"something behind":            append(sign(good), '{', '}'),
		"garbage behind":              append(sign(good), 'x'),
		"duplicate inside":            in(`"id":"TDX"`, `"id":"TDX","id":"TDX"`),
		"case variant inside":         in(`"id":"TDX"`, `"id":"TDX","Id":"TDX"`),
		"case variant of optional":    in(`"tdxModuleIdentities"`, `"TdxModuleIdentities"`),
		"Kelvin sign":                 in(`"tcbLevels":[{"tcb":{"sgx`, `"ſgxtcbcomponents":1,"tcbLevels":[{"tcb":{"ſgxtcbcomponents":1,"sgx`),
		"duplicate in a level":        in(`"pcesvn":13`, `"pcesvn":13,"pcesvn":5`),
		"case variant in a level":     in(`"pcesvn":13`, `"pcesvn":13,"PCESVN":5`),
		"duplicate in what is unread": in(`"id":"TDX"`, `"added":{"x":1,"X":2},"id":"TDX"`),
		"number with a fraction":      in(`"version":3`, `"version":3.0`),
		"number with an exponent":     in(`"pcesvn":13`, `"pcesvn":1e1`),
		"negative zero":               in(`"tcbType":0`, `"tcbType":-0`),
		"negative number":             in(`"pcesvn":13`, `"pcesvn":-1`),
		"number as text":              in(`"pcesvn":13`, `"pcesvn":"13"`),
		"component of 256":            in(`{"svn":3}`, `{"svn":256}`),
		"15 components":               in(`[{"svn":3},`, `[`),
		"17 components":               in(`[{"svn":3},`, `[{"svn":3},{"svn":3},`),
		"unknown status":              in(`"UpToDate"`, `"Fine"`),
		"local time":                  in(`Z","nextUpdate"`, `","nextUpdate"`),
		"advisory of two words":       in(`"INTEL-SA-00960"`, `"INTEL SA"`),
		"no levels":                   in(`"tcbLevels":[{"tcb":{"sgx`, `"tcbLevels":[],"old":[{"tcb":{"sgx`),
		"TCB type 1":                  in(`"tcbType":0`, `"tcbType":1`),
		"deep":                        in(`"id":"TDX"`, `"added":`+strings.Repeat("[", 20)+strings.Repeat("]", 20)+`,"id":"TDX"`),
		"not UTF-8":                   in(`"id":"TDX"`, "\"added\":\"\xff\",\"id\":\"TDX\""),
		"not JSON":                    []byte(`{"tcbInfo":`),
		"nothing":                     nil,
		"a list":                      []byte(`[]`),
		"family of 5 bytes":           in(`"fmspc":"00`, `"fmspc":"`),
		"family of 7 bytes":           in(`"fmspc":"00`, `"fmspc":"0000`),
		"family not in hex":           in(`"fmspc":"00`, `"fmspc":"0x`),
		"signer of 47 bytes":          in(`"mrsigner":"00`, `"mrsigner":"`),
		"attributes of 9 bytes":       in(`"attributes":"00`, `"attributes":"0000`),
		"status as a number":          in(`"UpToDate"`, `1`),
		"SVN as text":                 in(`{"svn":3}`, `{"svn":"3"}`),
		"signature of 63 bytes":       append(bytes.TrimSuffix(sign(good), []byte(`00"}`))[:len(sign(good))-4], `"}`...),
	} {
		t.Run(name, func(t *testing.T) { want(t, judge(body), "tdx.collateral", claim.Unknown, "collateral-refused") })
	}
}

// TestReadCollateral reads every form, and says nothing of what is not Intel's.
func TestReadCollateral(t *testing.T) {
	m := newMinted(t)
	kinds := func(data []byte) string {
		t.Helper()
		items, err := tdx.ReadCollateral(data)
		if err != nil {
			return "error: " + err.Error()
		}
		var k []string
		for _, i := range items {
			k = append(k, i.Kind)
		}
		return strings.Join(k, " ")
	}
	body := mint.SignedBody("tcbInfo", mint.SoundTCBInfo(m.p, now, 18).JSON(), m.intel.TCBSigner)
	response := `{"https://api.trustedservices.intel.com/x":{"header":{"Tcb-Info-Issuer-Chain":["a%0A"]},"body_b64":"` + base64.StdEncoding.EncodeToString(body) + `"}}`
	for name, row := range map[string]struct {
		data []byte
		want string
	}{
		"TCB info":     {body, "intel-tcb-info"},
		"QE identity":  {mint.SignedBody("enclaveIdentity", mint.SoundQEIdentity(now, 18).JSON(), m.intel.TCBSigner), "intel-qe-identity"},
		"our document": {m.items[0].Data, "intel-tcb-info"},
		"our document of a QE identity, with a line's end": {append(m.items[1].Data, '\n'), "intel-qe-identity"},
		"PCK CRL":                     {m.items[2].Data, "intel-pck-crl"},
		"root CRL in hex":             {[]byte(hex.EncodeToString(m.items[3].Data) + "\n"), "intel-root-crl"},
		"chain":                       {append(m.intel.TCBSigner.PEM(), m.intel.Root.PEM()...), "intel-certificate"},
		"signer":                      {m.intel.TCBSigner.DER, "intel-certificate"},
		"dcap-qvl":                    {vectors.Read(t, "cpu/tdx/dcapqvl-tdx_quote_collateral.json"), "intel-tcb-info intel-qe-identity intel-pck-crl intel-root-crl"},
		"recorded":                    {vectors.Read(t, "cpu/selfmade/tdx/collateral-platform-UpToDate.json"), "intel-pck-crl intel-qe-identity intel-tcb-info intel-root-crl"},
		"recorded, one":               {[]byte(response), "intel-tcb-info"},
		"recorded, twice":             {[]byte(strings.TrimSuffix(response, "}") + "," + response[1:]), "error: recorded responses of Intel's service: it is not strict JSON"},
		"recorded, broken":            {[]byte(strings.Replace(response, "eyJ", "!!!", 1)), `error: recorded responses of Intel's service: "https://api.trustedservices.intel.com/x": body_b64 is not base64`},
		"dcap-qvl, broken":            {[]byte(`{"tcb_info":1}`), `error: collateral of dcap-qvl: "tcb_info": want a text`},
		"dcap-qvl, QE identity alone": {[]byte(`{"qe_identity":"{}"}`), "intel-qe-identity"},
		"dcap-qvl, body too long":     {[]byte(`{"tcb_info":"` + strings.Repeat("x", tdx.MaxBody) + `"}`), fmt.Sprintf("error: Intel collateral: body of %d bytes, chain of 0, at most %d and %d", tdx.MaxBody+27, tdx.MaxBody, tdx.MaxChain)},
		"recorded, another header":    {[]byte(strings.Replace(response, `["a%0A"]`, `"a"`, 1)), "error: recorded responses of Intel's service: \"https://api.trustedservices.intel.com/x\": \"header\": \"Tcb-Info-Issuer-Chain\": want a list"},
		"recorded, chain too long":    {[]byte(strings.Replace(response, "a%0A", strings.Repeat("a", tdx.MaxChain+1), 1)), fmt.Sprintf("error: recorded responses of Intel's service: \"https://api.trustedservices.intel.com/x\": Intel collateral: body of %d bytes, chain of %d, at most %d and %d", len(body), tdx.MaxChain+1, tdx.MaxBody, tdx.MaxChain)},
		"hex that is none":            {[]byte("30zz"), ""},
		"body, spaces behind":         {append(body, bytes.Repeat([]byte(" "), tdx.MaxBody)...), "intel-tcb-info"},
		"body too long":               {append([]byte(`{"tcbInfo":"`), bytes.Repeat([]byte("x"), tdx.MaxBody)...), fmt.Sprintf("error: Intel collateral: body of %d bytes, chain of 0, at most %d and %d", tdx.MaxBody+12, tdx.MaxBody, tdx.MaxChain)},
		"AMD's certificate":           {mint.NewAMD("Milan").ARK.DER, ""},
		"AMD's list":                  {mint.NewAMD("Milan").CRL(now, now.AddDate(1, 0, 0)), ""},
		"another document":            {[]byte(`{"payload":"","payloadType":"","signatures":[]}`), ""},
		"text":                        {[]byte("hello"), ""},
		"nothing":                     {nil, ""},
	} {
		if got := kinds(row.data); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
	// A signing certificate beside bodies without their chain does as well.
	bare := func(kind string, body []byte) attest.Collateral {
		item, err := tdx.NewSigned(kind, "", body)
		if err != nil {
			t.Fatal(err)
		}
		return item
	}
	items := []attest.Collateral{
		bare(attest.KindIntelTCBInfo, body),
		bare(attest.KindIntelQEIdentity, mint.SignedBody("enclaveIdentity", mint.SoundQEIdentity(now, 18).JSON(), m.intel.TCBSigner)), m.items[2], m.items[3],
	}
	s, _ := m.judge(m.seal(mint.SoundQuote()), items...)
	want(t, s, "tdx.collateral", claim.Unknown, "collateral-missing")
	s, _ = m.judge(m.seal(mint.SoundQuote()), append(items, attest.Collateral{Kind: attest.KindIntelCertificate, Data: m.intel.TCBSigner.DER})...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
}
