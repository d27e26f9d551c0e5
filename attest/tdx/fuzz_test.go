package tdx_test

import (
	"bytes"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/alloc"
)

// FuzzQuote: what parses is written back byte for byte; nothing panics, and no changed quote is believed.
func FuzzQuote(f *testing.F) {
	m := newMinted(f)
	sound := map[string]bool{}
	for _, q := range []tdx.Quote{mint.SoundQuote(), mint.SoundQuote15()} {
		raw := m.seal(q)
		f.Add(raw)
		f.Add(append(raw, 0, 1))
		sound[string(raw[:signatureData(raw)])] = true
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		alloc.Within(t, len(raw), func() { tdx.Parse(raw) })
		u, size, err := tdx.Parse(raw)
		if err == nil {
			if again := u.Peek().Encode(); !bytes.Equal(again, raw[:size]) {
				t.Errorf("%x is written back as %x", raw[:size], again)
			}
		}
		if fields, err2 := tdx.Fields(raw); (err == nil) != (err2 == nil) || err == nil && len(fields) < 30 {
			t.Errorf("parse: %v; fields: %v", err, err2)
		}
		tdx.Recognize(raw)
		s, _ := m.judge(raw, m.items...)
		if c := s.Find("tdx.signature", subject); c != nil && c.Status == claim.Affirmed && !sound[string(raw[:signatureData(raw)])] {
			t.Errorf("a quote that nobody signed is believed: %x", raw)
		}
	})
}

// FuzzCollateral: no file of collateral panics, allocates without bound, or is believed unless Intel signed it.
func FuzzCollateral(f *testing.F) {
	m := newMinted(f)
	raw := m.seal(mint.SoundQuote())
	f.Add(mint.SignedBody("tcbInfo", mint.SoundTCBInfo(m.p, now, 18).JSON(), m.intel.TCBSigner))
	f.Add(mint.SignedBody("enclaveIdentity", mint.SoundQEIdentity(now, 18).JSON(), m.intel.TCBSigner))
	f.Add(m.items[2].Data)
	f.Add(m.intel.TCBSigner.PEM())
	f.Add([]byte(`{"tcb_info":"{}","pck_crl":"3000"}`))
	f.Add([]byte(`{"https://api.trustedservices.intel.com/x":{"header":null,"body_b64":"e30="}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		alloc.Within(t, len(data), func() { _, _ = tdx.ReadCollateral(data) })
		items, err := tdx.ReadCollateral(data)
		if err != nil && items != nil {
			t.Errorf("both %v and %v", items, err)
		}
		m.judge(raw, items...)
	})
}

// FuzzTCBInfo: the decoder of what Intel signs sees signed nonsense without a panic, and within its bound.
func FuzzTCBInfo(f *testing.F) {
	m := newMinted(f)
	raw := m.seal(mint.SoundQuote())
	f.Add(mint.SoundTCBInfo(m.p, now, 18).JSON(), true)
	f.Add(mint.SoundQEIdentity(now, 18).JSON(), false)
	f.Fuzz(func(t *testing.T, text []byte, info bool) {
		name, kind, at := "enclaveIdentity", attest.KindIntelQEIdentity, 1
		if info {
			name, kind, at = "tcbInfo", attest.KindIntelTCBInfo, 0
		}
		if len(text) > tdx.MaxBody/2 {
			return
		}
		item := m.intel.Signed(kind, mint.SignedBody(name, text, m.intel.TCBSigner), m.intel.TCBSigner)
		alloc.Within(t, 4*len(item.Data), func() { m.judge(raw, m.with(at, item)...) })
	})
}
