package nvidia_test

import (
	"bytes"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/alloc"
)

// FuzzReport: what parses is written back byte for byte; nothing panics, and no changed report is believed.
func FuzzReport(f *testing.F) {
	m := newMinted(f, "GH100")
	m.case_.Memory = attest.NewMemory()
	sound := map[string]bool{}
	for _, chip := range []string{"GH100", "GB100", "LS_10"} {
		raw := hierarchy().Device(chip, "one").Answer(nonce)
		f.Add(raw)
		f.Add(append(raw, 0))
		sound[string(raw)] = true
	}
	chain := m.device.PEM()
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		alloc.Within(t, len(raw), func() { nvidia.Parse(raw) })
		u, err := nvidia.Parse(raw)
		if err == nil {
			if again := u.Peek().Encode(); !bytes.Equal(again, raw) && !bytes.Equal(append(again, 0), raw) {
				t.Errorf("%x is written back as %x", raw, again)
			}
		}
		if fields, err2 := nvidia.Fields(raw); (err == nil) != (err2 == nil) || err == nil && len(fields) < 40 {
			t.Errorf("parse: %v; fields: %v", err, err2)
		}
		nvidia.Recognize(raw)
		c := nvidia.ReadFiles(raw, chain)
		set := m.judge([]attest.Component{c}, m.items...)
		if s := set.Find("nvidia.signature", c.Class+":0"); s != nil && s.Status == claim.Affirmed && !sound[string(bytes.TrimSuffix(raw, []byte{0}))] && !sound[string(raw)] {
			t.Errorf("a report that nobody signed is believed: %x", raw)
		}
	})
}

// FuzzXML: the canonical form of a document is one, reading it again changes nothing, and no altered manifest is believed.
func FuzzXML(f *testing.F) {
	nv := hierarchy()
	root := nv.Roots()[1].Data
	m := nv.Device("LS_10", "one").Manifests()[0]
	good := nv.Sign(m).Data
	canonical, err := nvidia.Canonical(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(m.XML()))
	f.Add([]byte(`<a xmlns="u" xmlns:p="v" b='&amp;' p:b="2"> <p:c/>&lt;` + "\r\n</a>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > nvidia.MaxRIM {
			return
		}
		alloc.Within(t, len(data), func() { nvidia.ReadRIM(data) })
		once, err := nvidia.Canonical(data)
		if err != nil {
			return
		}
		twice, err := nvidia.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("canonical form of %q is %q, of that %q, %v", data, once, twice, err)
		}
		if fault, _, _ := nvidia.ProveRIM(data, root); fault == "" && !bytes.Equal(once, canonical) {
			t.Errorf("an altered manifest is believed: %q", data)
		}
	})
}

// FuzzOCSP: no answer panics, allocates without bound, or is believed unless a responder signed it.
func FuzzOCSP(f *testing.F) {
	m := newMinted(f, "GH100")
	m.case_.Memory = attest.NewMemory()
	others := m.items[:len(m.items)-3] // all but those about the device
	answers := m.items[len(m.items)-3:]
	comp := m.device.Component("gpu0", nonce)
	f.Add(answers[0].Data)
	f.Add(m.nv.Answer(m.device.Chain[1], mint.OCSP{This: now.AddDate(0, 0, -1), Revoked: true, Reason: 6}).Data)
	f.Add(m.nv.Answer(m.device.Chain[1], mint.OCSP{This: now, Responder: "issuer"}).Data)
	f.Fuzz(func(t *testing.T, der []byte) {
		alloc.Within(t, len(der), func() { _, _ = nvidia.ReadCollateral(der) })
		item := attest.Collateral{Kind: attest.KindNVIDIAOCSP, Data: der}
		set := m.judge([]attest.Component{comp}, append(append(others[:len(others):len(others)], answers[1:]...), item)...)
		c := set.Find("nvidia.revocation", gpu0)
		if c.Status == claim.Affirmed && !bytes.Equal(der, answers[0].Data) && !bytes.Equal(der, m.nv.Answer(m.device.Chain[1], mint.OCSP{This: now, Responder: "issuer"}).Data) {
			// A signature of ECDSA has several forms; what it says must be what was signed.
			t.Logf("another form of a sound answer: %x", der)
		}
		if c.Status == claim.Contradicted && c.Reason.Code() != "certificate-hold" {
			t.Errorf("an answer that nobody gave revokes the device: %s", c.Reason)
		}
	})
}

// FuzzEvidence: no file of evidence or of certificates panics or allocates without bound.
func FuzzEvidence(f *testing.F) {
	m := newMinted(f, "GB100")
	m.case_.Memory = attest.NewMemory()
	raw := m.device.Answer(nonce)
	f.Add([]byte(`[{"arch":"HOPPER","evidence":"EeAB","certificate":"AA=="}]`))
	f.Add(m.device.PEM())
	f.Fuzz(func(t *testing.T, data []byte) {
		alloc.Within(t, len(data), func() { _, _ = nvidia.ReadJSON(data) })
		if cs, err := nvidia.ReadJSON(data); err == nil {
			m.judge(cs)
		}
		nvidia.IsJSON(data)
		m.judge([]attest.Component{nvidia.ReadFiles(raw, data)})
	})
}
