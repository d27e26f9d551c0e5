package tdx_test

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-tdx-guest/abi"
	"github.com/google/go-tdx-guest/pcs"
	"github.com/google/go-tdx-guest/verify"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
)

// oracle answers a peer's questions to Intel's service from collateral.
type oracle map[string]oracleResponse

type oracleResponse struct {
	header map[string][]string
	body   []byte
}

func (o oracle) Get(u string) (map[string][]string, []byte, error) {
	r, ok := o[u]
	if !ok {
		return nil, nil, fmt.Errorf("offline: no %s", u)
	}
	return r.header, r.body, nil
}

func newOracle(t *testing.T, fmspc string, items []attest.Collateral, pckChain string) oracle {
	t.Helper()
	o := oracle{}
	for _, item := range items {
		switch item.Kind {
		case attest.KindIntelTCBInfo, attest.KindIntelQEIdentity:
			var s tdx.Signed
			if err := canon.Unmarshal(item.Data, &s); err != nil {
				t.Fatal(err)
			}
			at, header := pcs.TcbInfoURL(fmspc), pcs.TcbInfoIssuerChainPhrase
			if item.Kind == attest.KindIntelQEIdentity {
				at, header = pcs.QeIdentityURL(), pcs.SgxQeIdentityIssuerChainPhrase
			}
			o[at] = oracleResponse{map[string][]string{header: {url.QueryEscape(s.Chain)}}, s.Body}
		case attest.KindIntelPCKCRL:
			o[pcs.PckCrlURL("platform")] = oracleResponse{map[string][]string{pcs.SgxPckCrlIssuerChainPhrase: {url.QueryEscape(pckChain)}}, item.Data}
		case attest.KindIntelRootCRL:
			o["https://certificates.trustedservices.intel.com/IntelSGXRootCA.der"] = oracleResponse{nil, item.Data}
		}
	}
	return o
}

// peer judges with go-tdx-guest.
func peer(raw, root []byte, getter oracle, at time.Time) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	q, err := abi.QuoteToProto(raw)
	if err != nil {
		return err
	}
	o := &verify.Options{TrustedRoots: pool, Now: &verify.TimeSet{PckCertChain: at, TcbInfo: at, QeIdentity: at, PckCrl: at, RootCaCrl: at}}
	if getter != nil {
		o.GetCollateral, o.CheckRevocations, o.Getter = true, true, getter
	}
	return verify.TdxQuote(q, o)
}

// TestOracleReal: go-tdx-guest reads and believes the same real quotes.
func TestOracleReal(t *testing.T) {
	root := tdx.VendorRoots()[1].Data
	for _, c := range manifest(t) {
		t.Run(c.ID, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, c.AsOf)
			if err != nil {
				t.Fatal(err)
			}
			raw := file(t, c.Files.Evidence)
			s, _ := vendor(t, c.AsOf).judge(raw)
			ours := s.Find("tdx.signature", subject)
			theirs := peer(raw, root, nil, at)
			if (theirs == nil) != (ours != nil && ours.Status == claim.Affirmed) {
				t.Errorf("go-tdx-guest: %v; ours: %v", theirs, ours)
			}
		})
	}
	raw, items := file(t, "cpu/tdx/dcapqvl-tdx_quote.bin"), collateral(t, "cpu/tdx/dcapqvl-tdx_quote_collateral.json")
	u, _, err := tdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	_, chain := pem.Decode(u.Peek().Chain)
	at := time.Date(2025, 7, 1, 0, 0, 0, 0, time.UTC)
	if err := peer(raw, root, newOracle(t, "b0c06f000000", items, string(chain[:len(chain)-1])), at); err != nil {
		t.Errorf("with collateral: %v", err)
	}
}

// TestOracleMinted: what is minted is of the real format, since a peer accepts it, and refuses the twins as we do. Where
// it accepts what must not be accepted, the row says why.
func TestOracleMinted(t *testing.T) {
	for _, row := range []struct {
		name    string
		make    func(m *minted) ([]byte, []attest.Collateral)
		ours    string // what confidential-cpu would say
		accepts bool   // go-tdx-guest does
		why     string // it is wrong
	}{
		{"sound v4", func(m *minted) ([]byte, []attest.Collateral) { return m.seal(mint.SoundQuote()), m.items }, "accept", true, ""},
		{"sound v5", quoteTwin(func(*tdx.Quote) {}), "accept", true, ""},
		{"quote changed", sealedTwin(func(_ *minted, q *tdx.Quote) { q.MRTD[0] ^= 1 }), "reject", false, ""},
		{"QE report changed", sealedTwin(func(_ *minted, q *tdx.Quote) { q.QESignature[40] ^= 1 }), "reject", false, ""},
		{"another attestation key", sealedTwin(func(_ *minted, q *tdx.Quote) { q.QEAuth = make([]byte, 31) }), "reject", false, ""},
		{"QE by another signer", enclaveTwin(func(e *mint.Enclave) { e.MRSigner[0] ^= 1 }), "reject", false, ""},
		{"stranger's hierarchy", func(m *minted) ([]byte, []attest.Collateral) {
			other := mint.NewIntelImpostor()
			return other.Seal(mint.SoundQuote15(), mint.SoundQE(), other.PCK(m.p, mint.PCKOptions{}), other.PlatformCA).Encode(), m.items
		}, "reject", false, ""},
		{"PCK revoked", itemsTwin(func(m *minted) []attest.Collateral {
			return m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: m.intel.PCKCRL(m.intel.PlatformCA, now, now.AddDate(0, 0, 1), serial(m.pck))})
		}), "reject", false, ""},
		{"TCB info lapsed", infoTwin(func(i *mint.TCBInfo) { i.Next = now.Add(-time.Second) }), "undecided", false, ""},
		{"TCB info of another family", infoTwin(func(i *mint.TCBInfo) { i.FMSPC = "90C06F000000" }), "undecided", false, ""},
		{"module out of date", quoteTwin(func(q *tdx.Quote) { q.TEETCBSVN[0], q.TEETCBSVN2[0] = 4, 4 }), "reject", false, ""},
		{"QE out of date", identityTwin(func(q *mint.QEIdentity) { q.Levels[0].Status = "OutOfDate" }), "reject", false, ""},

		{"platform revoked, module up to date", infoTwin(func(i *mint.TCBInfo) { i.Levels[0].Status = "Revoked" }), "reject", true,
			"from module version 1 on it drops the platform's status"},
		{"platform out of date, module up to date", infoTwin(func(i *mint.TCBInfo) { i.Levels[0].Status = "OutOfDate" }), "reject", true,
			"from module version 1 on it drops the platform's status"},
		{"case variant beside what is signed", itemsTwin(func(m *minted) []attest.Collateral {
			old, lie := mint.SoundTCBInfo(m.p, now, 18), mint.SoundTCBInfo(m.p, now, 18)
			old.Modules[1].Levels[0].Status = "OutOfDate"
			body := mint.SignedBody("tcbInfo", old.JSON(), m.intel.TCBSigner)
			body = append(body[:len(body)-1], `,"TcbInfo":`+string(lie.JSON())+`}`...)
			return m.with(0, m.intel.Signed(attest.KindIntelTCBInfo, body, m.intel.TCBSigner))
		}), "undecided", true, "it verifies the signed bytes and judges by others"},
		{"TCB info of the future", infoTwin(func(i *mint.TCBInfo) { i.Issued = now.AddDate(0, 0, 1) }), "undecided", true, "it compares no issue date"},
		{"TCB info and QE identity of two evaluations", identityTwin(func(q *mint.QEIdentity) { q.Evaluation = 3 }), "undecided", true, "it compares no evaluation numbers"},
		{"older now than at launch", quoteTwin(func(q *tdx.Quote) { q.TEETCBSVN2[0] = 4 }), "reject", true, "it does not read TEE_TCB_SVN_2"},
		{"service TD bound", quoteTwin(func(q *tdx.Quote) { q.MRSERVICETD[0] = 1 }), "reject", true, "it does not read MRSERVICETD"},
		{"debug TD", quoteTwin(func(q *tdx.Quote) { q.TDAttributes |= 1 }), "reject", true, "debugging is left to another package, where it is off by default"},
		{"Processor CA", func(m *minted) ([]byte, []attest.Collateral) {
			pck := m.intel.PCK(m.p, mint.PCKOptions{Issuer: &m.intel.ProcessorCA})
			return m.intel.Seal(mint.SoundQuote(), mint.SoundQE(), pck, m.intel.ProcessorCA).Encode(),
				m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: m.intel.PCKCRL(m.intel.ProcessorCA, now, now.AddDate(0, 0, 1))})
		}, "accept", false, "it knows no other CA than the Platform CA"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMinted(t)
			raw, items := row.make(&m)
			s, _ := m.judge(raw, items...)
			if got := confidential(s); got != row.ours {
				t.Errorf("ours: %s, want %s", got, row.ours)
				dump(t, s)
			}
			getter := newOracle(t, "00806f050000", items, string(m.intel.PlatformCA.PEM())+string(m.intel.Root.PEM()))
			err := peer(raw, m.intel.Root.PEM(), getter, now)
			if (err == nil) != row.accepts {
				t.Errorf("go-tdx-guest: %v, accepts: %v", err, row.accepts)
			}
			if row.why == "" && (err == nil) != (row.ours == "accept") {
				t.Errorf("we differ and no reason is given: ours %s, go-tdx-guest %v", row.ours, err)
			}
		})
	}
}

// TestOraclePanics: crafted quotes, on each of which the peer crashes, are refused here with their fault. None needs a
// key: a host can send them.
func TestOraclePanics(t *testing.T) {
	m := newMinted(t)
	v4, v5 := m.seal(mint.SoundQuote()), m.seal(mint.SoundQuote15())
	at := func(raw []byte, place int, value ...byte) []byte { // from the size of the signature data
		raw = bytes.Clone(raw)
		copy(raw[signatureData(raw)+place:], value)
		return raw
	}
	cut := func(raw []byte, n int) []byte { // to n bytes of signature data; the sizes around it agree
		data := signatureData(raw)
		raw = bytes.Clone(raw) // what is cut off stands behind the quote: a file that is shorter yet, the peer refuses
		binary.LittleEndian.PutUint32(raw[data:], uint32(n))
		if n >= 134 {
			binary.LittleEndian.PutUint32(raw[data+4+130:], uint32(n-134))
		}
		return raw
	}
	for name, row := range map[string]struct {
		raw   []byte
		words string
	}{
		"signature data of 0 bytes":             {at(v4, 0, 0, 0, 0, 0), "signature takes 64 bytes, 0 are left"},
		"signature data of 80000000, version 5": {at(v5, 0, 0, 0, 0, 0x80), "signature data takes 2147483648 bytes"},
		"cut behind the signature":              {cut(v4, 64), "attestation key takes 64 bytes, 0 are left"},
		"cut behind the attestation key":        {cut(v4, 128), "type and size of the QE report takes 6 bytes, 0 are left"},
		"cut in the head of certification data": {cut(v4, 132), "type and size of the QE report takes 6 bytes, 4 are left"},
		"cut in the QE report":                  {cut(v4, 134+200), "QE report takes 384 bytes, 200 are left"},
		"cut in the QE report's signature":      {cut(v4, 134+384+32), "signature of the QE report takes 64 bytes, 32 are left"},
		"cut before the authentication data":    {cut(v4, 134+448), "size of the QE authentication data takes 2 bytes, 0 are left"},
		"authentication data of FFFF bytes":     {at(v4, 4+134+448, 0xff, 0xff), "QE authentication data takes 65535 bytes"},
		"cut behind the authentication data":    {cut(v4, 134+450+32), "type and size of the PCK certificate chain takes 6 bytes, 0 are left"},
	} {
		t.Run(name, func(t *testing.T) {
			err := peer(row.raw, m.intel.Root.PEM(), nil, now)
			if err == nil || !strings.HasPrefix(err.Error(), "panic: ") {
				t.Errorf("the peer does not crash: %v", err)
			}
			s, _ := m.judge(row.raw)
			want(t, s, "tdx.structure", claim.Contradicted, "malformed", row.words)
		})
	}
	s, _ := m.judge(v4)
	want(t, s, "tdx.structure", claim.Affirmed, "v4")
	s, _ = m.judge(v5)
	want(t, s, "tdx.structure", claim.Affirmed, "v5-td1.5")
}
