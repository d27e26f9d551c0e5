package tdx_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
)

// serial returns the serial number of a certificate.
func serial(c mint.Certificate) *big.Int { return c.X509().SerialNumber }

// twin differs from the sound quote with sound collateral in one thing.
type twin struct {
	name   string
	id     string // the claim that this thing is the matter of
	status claim.Status
	words  string
	make   func(m *minted) (raw []byte, items []attest.Collateral)
	also   []string // further claims that the one thing concerns
}

// quoteTwin changes a field of the TD 1.5 quote.
func quoteTwin(change func(q *tdx.Quote)) func(m *minted) ([]byte, []attest.Collateral) {
	return func(m *minted) ([]byte, []attest.Collateral) {
		q := mint.SoundQuote15()
		change(&q)
		return m.seal(q), m.items
	}
}

// enclaveTwin changes the quoting enclave.
func enclaveTwin(change func(e *mint.Enclave)) func(m *minted) ([]byte, []attest.Collateral) {
	return func(m *minted) ([]byte, []attest.Collateral) {
		e := mint.SoundQE()
		change(&e)
		return m.intel.Seal(mint.SoundQuote15(), e, m.pck, m.intel.PlatformCA).Encode(), m.items
	}
}

// sealedTwin changes what the sound quote is sealed with.
func sealedTwin(change func(m *minted, q *tdx.Quote)) func(m *minted) ([]byte, []attest.Collateral) {
	return func(m *minted) ([]byte, []attest.Collateral) {
		q := m.intel.Seal(mint.SoundQuote15(), mint.SoundQE(), m.pck, m.intel.PlatformCA)
		change(m, &q)
		return q.Encode(), m.items
	}
}

// itemsTwin changes the collateral.
func itemsTwin(change func(m *minted) []attest.Collateral) func(m *minted) ([]byte, []attest.Collateral) {
	return func(m *minted) ([]byte, []attest.Collateral) { return m.seal(mint.SoundQuote15()), change(m) }
}

func rootCRLTwin(list func(m *minted) []byte) func(m *minted) ([]byte, []attest.Collateral) {
	return itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(3, attest.Collateral{Kind: attest.KindIntelRootCRL, Data: list(m)})
	})
}

func infoTwin(change func(*mint.TCBInfo)) func(m *minted) ([]byte, []attest.Collateral) {
	return itemsTwin(func(m *minted) []attest.Collateral { return m.tcbInfo(change) })
}

func identityTwin(change func(*mint.QEIdentity)) func(m *minted) ([]byte, []attest.Collateral) {
	return itemsTwin(func(m *minted) []attest.Collateral { return m.qeIdentity(change) })
}

// pckTwin makes the quote on another PCK.
func pckTwin(make func(m *minted) (pck, ca mint.Certificate)) func(m *minted) ([]byte, []attest.Collateral) {
	return func(m *minted) ([]byte, []attest.Collateral) {
		pck, ca := make(m)
		return m.intel.Seal(mint.SoundQuote15(), mint.SoundQE(), pck, ca).Encode(), m.items
	}
}

const affirmed, contradicted, unknown = claim.Affirmed, claim.Contradicted, claim.Unknown

var (
	onCollateral = []string{"tdx.qe-identity", "tdx.module-identity", "tdx.tcb-status", "tdx.advisories", "tdx.tcb-date"}
	onStatus     = []string{"tdx.advisories", "tdx.tcb-date"}
)

var twins = []twin{
	// structure
	{"bytes behind the quote", "tdx.structure", affirmed, "trailing-bytes", func(m *minted) ([]byte, []attest.Collateral) {
		return append(m.seal(mint.SoundQuote15()), "behind"...), m.items
	}, nil},
	// chain
	{"stranger's hierarchy", "tdx.chain", contradicted, "untrusted", func(m *minted) ([]byte, []attest.Collateral) {
		other := mint.NewIntelImpostor()
		return other.Seal(mint.SoundQuote15(), mint.SoundQE(), other.PCK(m.p, mint.PCKOptions{}), other.PlatformCA).Encode(), m.items
	}, []string{"tdx.collateral", "tdx.revocation"}},
	{"stranger's PCK under a trusted CA's name", "tdx.chain", contradicted, "not signed by the PCK CA", sealedTwin(func(m *minted, q *tdx.Quote) {
		other := mint.NewIntelImpostor()
		*q = other.Seal(mint.SoundQuote15(), mint.SoundQE(), other.PCK(m.p, mint.PCKOptions{}), m.intel.PlatformCA)
		q.Chain = slices.Concat(other.PCK(m.p, mint.PCKOptions{}).PEM(), m.intel.PlatformCA.PEM(), m.intel.Root.PEM())
	}), []string{"tdx.collateral", "tdx.revocation"}},
	{"chain ends in a stranger's root", "tdx.chain", contradicted, "another certificate than the root", sealedTwin(func(m *minted, q *tdx.Quote) {
		q.Chain = slices.Concat(m.pck.PEM(), m.intel.PlatformCA.PEM(), mint.NewIntelImpostor().Root.PEM())
	}), nil},
	{"TCB signer as PCK", "tdx.chain", contradicted, "want \"Intel SGX PCK Certificate\"", pckTwin(func(m *minted) (mint.Certificate, mint.Certificate) { return m.intel.TCBSigner, m.intel.PlatformCA }), nil},
	{"PCK without the SGX extension's TCB", "tdx.chain", contradicted, "want PPID, TCB, PCEID and FMSPC", pckTwin(func(m *minted) (mint.Certificate, mint.Certificate) {
		return m.intel.PCK(m.p, mint.PCKOptions{Extension: []byte{0x30, 0}}), m.intel.PlatformCA
	}), nil},
	{"PCK by another CA of the root's", "tdx.chain", contradicted, "want a PCK CA", pckTwin(func(m *minted) (mint.Certificate, mint.Certificate) {
		ca := m.intel.NewCA("Intel SGX Other CA", 9, &m.intel.Root)
		return m.intel.PCK(m.p, mint.PCKOptions{Issuer: &ca}), ca
	}), nil},
	{"PCK with a critical extension", "tdx.chain", contradicted, "critical extension", pckTwin(func(m *minted) (mint.Certificate, mint.Certificate) {
		return m.intel.PCK(m.p, mint.PCKOptions{Critical: true}), m.intel.PlatformCA
	}), nil},
	{"PCK not yet valid", "tdx.chain", contradicted, "not-yet-valid", pckTwin(func(m *minted) (mint.Certificate, mint.Certificate) {
		return m.intel.PCK(m.p, mint.PCKOptions{NotBefore: now.AddDate(0, 0, 1)}), m.intel.PlatformCA
	}), nil},
	{"PCK lapsed", "tdx.chain", contradicted, "lapsed", pckTwin(func(m *minted) (mint.Certificate, mint.Certificate) {
		return m.intel.PCK(m.p, mint.PCKOptions{NotAfter: now.AddDate(0, 0, -1)}), m.intel.PlatformCA
	}), nil},
	// quoting enclave
	{"QE report signed by a stranger", "tdx.qe-report", contradicted, "bad-signature", sealedTwin(func(_ *minted, q *tdx.Quote) { q.QESignature[40] ^= 1 }), nil},
	{"QE report of another attestation key", "tdx.qe-report", contradicted, "does not bind", sealedTwin(func(m *minted, q *tdx.Quote) {
		// Authentication data is hashed with the key and signed by nobody else.
		q.QEAuth = bytes.Repeat([]byte{7}, 32)
	}), nil},
	{"QE report with more report data", "tdx.qe-report", contradicted, "does not bind", sealedTwin(func(m *minted, q *tdx.Quote) {
		q.QEReport[383] = 1
		q.QESignature = mint.SignEnclave(q.QEReport, m.pck)
	}), nil},
	{"QE by another signer", "tdx.qe-signer", contradicted, "not-listed", enclaveTwin(func(e *mint.Enclave) { e.MRSigner[0] ^= 1 }), []string{"tdx.qe-identity"}},
	{"another product of the QE's signer", "tdx.qe-signer", contradicted, "product 1", enclaveTwin(func(e *mint.Enclave) { e.ProductID = 1 }), []string{"tdx.qe-identity"}},
	{"QE in debug mode", "tdx.qe-signer", contradicted, "debug mode", enclaveTwin(func(e *mint.Enclave) { e.Attributes[0] |= 2 }), []string{"tdx.qe-identity"}},
	{"root set names no QE signer", "tdx.qe-signer", unknown, "no-reference", func(m *minted) ([]byte, []attest.Collateral) {
		m.roots, _ = attest.NewRoots(m.intel.Roots()[0])
		return m.seal(mint.SoundQuote15()), m.items
	}, nil},
	{"root set's list of QE signers has a fault", "tdx.qe-signer", unknown, "line 1: want MRSIGNER", func(m *minted) ([]byte, []attest.Collateral) {
		m.roots, _ = attest.NewRoots(m.intel.Roots()[0], attest.RootFile{Name: tdx.QESignerFile, Data: []byte("dc9e 2\n")})
		return m.seal(mint.SoundQuote15()), m.items
	}, nil},
	{"QE identity of another signer", "tdx.qe-identity", contradicted, "MRSIGNER is", identityTwin(func(q *mint.QEIdentity) { q.Enclave.MRSigner[0] ^= 1 }), nil},
	{"QE identity of another product", "tdx.qe-identity", contradicted, "ISVPRODID is 2, want 3", identityTwin(func(q *mint.QEIdentity) { q.Enclave.ProductID = 3 }), nil},
	{"QE with other attributes", "tdx.qe-identity", contradicted, "ATTRIBUTES are", enclaveTwin(func(e *mint.Enclave) { e.Attributes[0] |= 8 }), nil},
	{"QE with other MISCSELECT", "tdx.qe-identity", contradicted, "MISCSELECT is 00000001", enclaveTwin(func(e *mint.Enclave) { e.MiscSelect = 1 }), nil},
	{"QE below its lowest level", "tdx.qe-identity", contradicted, "quoting enclave ISVSVN needs 2, has 1", enclaveTwin(func(e *mint.Enclave) { e.SVN = 1 }), append([]string{"tdx.tcb-status"}, onStatus...)},
	{"status of a QE below its lowest level", "tdx.tcb-status", contradicted, "below-levels: the quoting enclave is below the lowest level of evaluation 18: quoting enclave ISVSVN needs 2, has 1", enclaveTwin(func(e *mint.Enclave) { e.SVN = 1 }), append([]string{"tdx.qe-identity"}, onStatus...)},
	// signature
	{"quote changed", "tdx.signature", contradicted, "bad-signature", sealedTwin(func(_ *minted, q *tdx.Quote) { q.MRTD[0] ^= 1 }), []string{"tdx.measurement"}},
	{"signature changed", "tdx.signature", contradicted, "bad-signature", sealedTwin(func(_ *minted, q *tdx.Quote) { q.Signature[0] ^= 1 }), nil},
	{"no point of the curve", "tdx.signature", contradicted, "no point", sealedTwin(func(_ *minted, q *tdx.Quote) { q.AttestationKey[63] ^= 1 }), []string{"tdx.qe-report"}},
	// revocation
	{"PCK revoked", "tdx.revocation", contradicted, "revoked the PCK certificate", itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: m.intel.PCKCRL(m.intel.PlatformCA, now, now.AddDate(0, 0, 1), serial(m.pck))})
	}), nil},
	{"PCK CA revoked", "tdx.revocation", contradicted, "revoked the PCK CA", itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(3, attest.Collateral{Kind: attest.KindIntelRootCRL, Data: m.intel.RootCRL(now.AddDate(0, 0, -5), now.AddDate(0, 0, 30), serial(m.intel.PlatformCA))})
	}), nil},
	{"no PCK CRL", "tdx.revocation", unknown, "collateral-missing", itemsTwin(func(m *minted) []attest.Collateral { return slices.Delete(slices.Clone(m.items), 2, 3) }), nil},
	{"PCK CRL of the future", "tdx.revocation", unknown, "was issued at", itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: m.intel.PCKCRL(m.intel.PlatformCA, now.AddDate(0, 0, 1), now.AddDate(0, 0, 2))})
	}), nil},
	{"PCK CRL lapsed", "tdx.revocation", unknown, "it lapsed", itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: m.intel.PCKCRL(m.intel.PlatformCA, now.AddDate(0, 0, -2), now.AddDate(0, 0, -1))})
	}), nil},
	{"PCK CRL without an end", "tdx.revocation", unknown, "no nextUpdate", itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: m.intel.PCKCRL(m.intel.PlatformCA, now, time.Time{})})
	}), nil},
	{"PCK CRL of the other CA", "tdx.revocation", unknown, "its issuer is \"Intel SGX PCK Processor CA\"", itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: m.intel.PCKCRL(m.intel.ProcessorCA, now, now.AddDate(0, 0, 1))})
	}), nil},
	{"root CRL of the future", "tdx.revocation", unknown, "was issued at", rootCRLTwin(func(m *minted) []byte { return m.intel.RootCRL(now.AddDate(0, 0, 1), now.AddDate(0, 0, 2)) }), append([]string{"tdx.collateral"}, onCollateral...)},
	{"root CRL lapsed", "tdx.revocation", unknown, "it lapsed", rootCRLTwin(func(m *minted) []byte { return m.intel.RootCRL(now.AddDate(0, 0, -2), now.AddDate(0, 0, -1)) }), append([]string{"tdx.collateral"}, onCollateral...)},
	{"root CRL by a stranger", "tdx.revocation", unknown, "not signed by", rootCRLTwin(func(*minted) []byte {
		return mint.NewIntelImpostor().RootCRL(now.AddDate(0, 0, -5), now.AddDate(0, 0, 30))
	}), append([]string{"tdx.collateral"}, onCollateral...)},
	{"PCK CRL by a stranger", "tdx.revocation", unknown, "not signed by", itemsTwin(func(m *minted) []attest.Collateral {
		i := mint.NewIntelImpostor()
		return m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: i.PCKCRL(i.PlatformCA, now, now.AddDate(0, 0, 1))})
	}), nil},
	// collateral
	{"no TCB info", "tdx.collateral", unknown, "no TCB info; Intel publishes it at", itemsTwin(func(m *minted) []attest.Collateral { return m.items[1:] }), onCollateral},
	{"no QE identity", "tdx.collateral", unknown, "no QE identity", itemsTwin(func(m *minted) []attest.Collateral { return slices.Delete(slices.Clone(m.items), 1, 2) }), onCollateral},
	{"no root CRL", "tdx.collateral", unknown, "no revocation list of Intel SGX Root CA", itemsTwin(func(m *minted) []attest.Collateral { return m.items[:3] }), append([]string{"tdx.revocation"}, onCollateral...)},
	{"TCB info of another family", "tdx.collateral", unknown, "FMSPC mismatch", infoTwin(func(t *mint.TCBInfo) { t.FMSPC = "90C06F000000" }), onCollateral},
	{"TCB info of another PCE", "tdx.collateral", unknown, "PCEID mismatch", infoTwin(func(t *mint.TCBInfo) { t.PCEID = "0001" }), onCollateral},
	{"TCB info of SGX", "tdx.collateral", unknown, `TCB info of id "SGX"`, infoTwin(func(t *mint.TCBInfo) { t.ID = "SGX" }), onCollateral},
	{"TCB info of version 2", "tdx.collateral", unknown, "version 2", infoTwin(func(t *mint.TCBInfo) { t.Version = 2 }), onCollateral},
	{"TCB info of the future", "tdx.collateral", unknown, "the TCB info is not used: it begins at", infoTwin(func(t *mint.TCBInfo) { t.Issued = now.Add(time.Second) }), onCollateral},
	{"TCB info lapsed", "tdx.collateral", unknown, "lapsed at", infoTwin(func(t *mint.TCBInfo) { t.Next = now.Add(-time.Second) }), onCollateral},
	{"QE identity of the future", "tdx.collateral", unknown, "the QE identity is not used: it begins at", identityTwin(func(q *mint.QEIdentity) { q.Issued = now.Add(time.Second) }), onCollateral},
	{"QE identity lapsed", "tdx.collateral", unknown, "lapsed at", identityTwin(func(q *mint.QEIdentity) { q.Next = now.Add(-time.Second) }), onCollateral},
	{"QE identity of SGX", "tdx.collateral", unknown, `identity of id "QE"`, identityTwin(func(q *mint.QEIdentity) { q.ID = "QE" }), onCollateral},
	{"two evaluations", "tdx.collateral", unknown, "TCB info of evaluation 18, QE identity of 17", identityTwin(func(q *mint.QEIdentity) { q.Evaluation = 17 }), onCollateral},
	{"TCB info changed", "tdx.collateral", unknown, "not signed by", itemsTwin(func(m *minted) []attest.Collateral {
		body := mint.SignedBody("tcbInfo", mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -5), 18).JSON(), m.intel.TCBSigner)
		return m.with(0, m.intel.Signed(attest.KindIntelTCBInfo, bytes.Replace(body, []byte(`"OutOfDate"`), []byte(`"UpToDate"`), 1), m.intel.TCBSigner))
	}), onCollateral},
	{"TCB info by the PCK CA", "tdx.collateral", unknown, "not signed by", itemsTwin(func(m *minted) []attest.Collateral {
		body := mint.SignedBody("tcbInfo", mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -5), 18).JSON(), m.intel.PlatformCA)
		return m.with(0, m.intel.Signed(attest.KindIntelTCBInfo, body, m.intel.PlatformCA))
	}), onCollateral},
	{"TCB info by the PCK CA, whose certificate is beside it", "tdx.collateral", unknown, "not signed by", itemsTwin(func(m *minted) []attest.Collateral {
		body := mint.SignedBody("tcbInfo", mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -5), 18).JSON(), m.intel.PlatformCA)
		item, _ := tdx.NewSigned(attest.KindIntelTCBInfo, "", body)
		return append(m.with(0, item), attest.Collateral{Kind: attest.KindIntelCertificate, Data: m.intel.PlatformCA.DER})
	}), onCollateral},
	{"TCB info under another root of the set", "tdx.collateral", unknown, "another root", func(m *minted) ([]byte, []attest.Collateral) {
		other := mint.NewIntelImpostor()
		m.roots, _ = attest.NewRoots(append(m.intel.Roots(), attest.RootFile{Name: "other.pem", Data: other.Root.PEM()})...)
		return m.seal(mint.SoundQuote15()), m.with(0, other.TCBInfo(mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -5), 18)))
	}, onCollateral},
	{"TCB info by a stranger", "tdx.collateral", unknown, "not signed by", itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(0, mint.NewIntelImpostor().TCBInfo(mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -5), 18)))
	}), onCollateral},
	{"TCB signer revoked", "tdx.collateral", unknown, "revoked the certificate of its signer", itemsTwin(func(m *minted) []attest.Collateral {
		return m.with(3, attest.Collateral{Kind: attest.KindIntelRootCRL, Data: m.intel.RootCRL(now.AddDate(0, 0, -5), now.AddDate(0, 0, 30), serial(m.intel.TCBSigner))})
	}), onCollateral},
	{"TCB signer not yet valid", "tdx.collateral", unknown, `"Intel SGX TCB Signing" begins at`, itemsTwin(func(m *minted) []attest.Collateral {
		s := m.intel.NewTCBSigner(9, &m.intel.Root, now.AddDate(0, 0, 1))
		return m.with(0, m.intel.Signed(attest.KindIntelTCBInfo, mint.SignedBody("tcbInfo", mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -5), 18).JSON(), s), s))
	}), onCollateral},
	// TCB status
	{"PCESVN too low", "tdx.tcb-status", affirmed, "OutOfDate", infoTwin(func(t *mint.TCBInfo) { t.Levels[0].PCESVN = 14 }), onStatus},
	{"below the lowest level", "tdx.tcb-status", contradicted, "SGX component 1 needs 9, has 3", infoTwin(func(t *mint.TCBInfo) { t.Levels[0].SGX[0], t.Levels[1].SGX[0] = 9, 9 }), onStatus},
	{"revoked", "tdx.tcb-status", contradicted, "Revoked", infoTwin(func(t *mint.TCBInfo) { t.Levels[0].Status = "Revoked" }), onStatus},
	{"module below its lowest level", "tdx.tcb-status", contradicted, "TDX module TDX_01 ISVSVN needs 4, has 3", quoteTwin(func(q *tdx.Quote) { q.TEETCBSVN[0], q.TEETCBSVN2[0] = 3, 3 }), onStatus},
	{"advisories", "tdx.advisories", affirmed, "INTEL-SA-00001 INTEL-SA-00002", infoTwin(func(t *mint.TCBInfo) { t.Levels[0].Advisories = []string{"INTEL-SA-00002", "INTEL-SA-00001"} }), nil},
	{"older date", "tdx.tcb-date", affirmed, "20230101", infoTwin(func(t *mint.TCBInfo) { t.Modules[1].Levels[0].Date = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC) }), nil},
	// module
	{"unknown module", "tdx.module-identity", contradicted, "names no TDX module TDX_09", quoteTwin(func(q *tdx.Quote) { q.TEETCBSVN[1], q.TEETCBSVN2[1] = 9, 9 }), append([]string{"tdx.tcb-status"}, onStatus...)},
	{"unknown module at launch", "tdx.module-identity", contradicted, "names no TDX module TDX_09", quoteTwin(func(q *tdx.Quote) { q.TEETCBSVN[1] = 9 }), append([]string{"tdx.tcb-status"}, onStatus...)},
	{"unknown module now", "tdx.module-identity", contradicted, "names no TDX module TDX_09", quoteTwin(func(q *tdx.Quote) { q.TEETCBSVN2[1] = 9 }), append([]string{"tdx.tcb-status"}, onStatus...)},
	{"module of another signer", "tdx.module-identity", contradicted, "MRSIGNERSEAM is", infoTwin(func(t *mint.TCBInfo) { t.Modules[1].MRSigner[0] = 1 }), nil},
	{"module of other attributes", "tdx.module-identity", contradicted, "SEAMATTRIBUTES is", infoTwin(func(t *mint.TCBInfo) { t.Modules[1].Attributes = 1 }), nil},
	{"MRSIGNERSEAM set", "tdx.seam", contradicted, "MRSIGNERSEAM is not zero", quoteTwin(func(q *tdx.Quote) { q.MRSIGNERSEAM[47] = 1 }), []string{"tdx.module-identity"}},
	{"SEAMATTRIBUTES set", "tdx.seam", contradicted, "SEAMATTRIBUTES", quoteTwin(func(q *tdx.Quote) { q.SEAMAttributes = 1 << 63 }), []string{"tdx.module-identity"}},
	{"service TD bound", "tdx.servicetd", contradicted, "MRSERVICETD", quoteTwin(func(q *tdx.Quote) { q.MRSERVICETD[0] = 1 }), nil},
	// TD
	{"debug TD", "tdx.debug-off", contradicted, "DEBUG", quoteTwin(func(q *tdx.Quote) { q.TDAttributes |= tdx.AttributeDebug }), nil},
	{"reserved bit of the TUD byte", "tdx.debug-off", contradicted, "0x80", quoteTwin(func(q *tdx.Quote) { q.TDAttributes |= 0x80 }), nil},
	{"reserved attribute", "tdx.attributes", contradicted, "reserved-set", quoteTwin(func(q *tdx.Quote) { q.TDAttributes |= 1 << 40 }), nil},
	{"more attributes", "tdx.attributes", affirmed, "kl migratable perfmon sept-ve-disable", quoteTwin(func(q *tdx.Quote) {
		q.TDAttributes |= tdx.AttributeKL | tdx.AttributeMigratable | tdx.AttributePerfmon
	}), nil},
	{"reserved feature", "tdx.xfam", contradicted, "reserved-set", quoteTwin(func(q *tdx.Quote) { q.XFAM |= 1 << 62 }), nil},
	{"other configuration", "tdx.mr-config", affirmed, "owner:01" + strings.Repeat("0", 94), quoteTwin(func(q *tdx.Quote) { q.MROWNER[0] = 1 }), nil},
	{"every configuration", "tdx.mr-config", affirmed, "config-id:01" + strings.Repeat("0", 94) + " owner:02" + strings.Repeat("0", 94) + " owner-config:03" + strings.Repeat("0", 94), quoteTwin(func(q *tdx.Quote) {
		q.MRCONFIGID[0], q.MROWNER[0], q.MROWNERCONFIG[0] = 1, 2, 3
	}), nil},
	{"other register", "tdx.measurement", affirmed, "", quoteTwin(func(q *tdx.Quote) { q.RTMR[2][0] = 1 }), nil},
	{"stale", "tdx.freshness", contradicted, "mismatch", quoteTwin(func(q *tdx.Quote) { q.ReportData[0] = 1 }), nil},
}

// elements takes a SEQUENCE apart, sequence puts one together.
func elements(der []byte) (list [][]byte) {
	var outer, e asn1.RawValue
	if _, err := asn1.Unmarshal(der, &outer); err != nil {
		panic(err)
	}
	for rest := outer.Bytes; len(rest) > 0; {
		var err error
		if rest, err = asn1.Unmarshal(rest, &e); err != nil {
			panic(err)
		}
		list = append(list, e.FullBytes)
	}
	return list
}

func sequence(list ...[]byte) []byte {
	der, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: bytes.Join(list, nil)})
	if err != nil {
		panic(err)
	}
	return der
}

// TestSGXExtension: every part of the PCK certificate's extension is there once, and of its size.
func TestSGXExtension(t *testing.T) {
	m := newMinted(t)
	all := elements(m.p.Extension())
	svns := elements(elements(all[1])[1])
	oid := func(pair []byte) []byte { return elements(pair)[0] }
	with := func(list [][]byte, i int, e []byte) [][]byte {
		list = slices.Clone(list)
		list[i] = e
		return list
	}
	tcb := func(svns [][]byte) []byte {
		return sequence(with(all, 1, sequence(oid(all[1]), sequence(svns...)))...)
	}
	for name, row := range map[string]struct {
		der   []byte
		words string // empty: good
	}{
		"as minted":          {sequence(all...), ""},
		"two families":       {sequence(append(slices.Clone(all), all[3])...), "1.2.840.113741.1.13.1.4 twice"},
		"no family":          {sequence(slices.Delete(slices.Clone(all), 3, 4)...), "want PPID, TCB, PCEID and FMSPC"},
		"family of 7 bytes":  {sequence(with(all, 3, sequence(oid(all[3]), []byte{4, 7, 1, 2, 3, 4, 5, 6, 7}))...), "want 6 bytes"},
		"family and more":    {sequence(with(all, 3, sequence(oid(all[3]), []byte{4, 6, 1, 2, 3, 4, 5, 6}, []byte{5, 0}))...), "want 6 bytes"},
		"another arc":        {sequence(with(all, 3, svns[0])...), "which is not one below it"},
		"one component less": {tcb(svns[1:]), "lacks a component"},
		"no PCESVN":          {tcb(slices.Delete(slices.Clone(svns), 16, 17)), "lacks a component"},
		"no CPUSVN":          {tcb(svns[:17]), ""},
		"a component twice":  {tcb(append(slices.Clone(svns), svns[0])), "2.1: unknown, or twice"},
		"component 19":       {tcb(append(slices.Clone(svns), sequence(append(oid(svns[0])[:len(oid(svns[0]))-1:len(oid(svns[0]))-1], 19), []byte{2, 1, 0}))), "2.19: unknown"},
		"component of 256":   {tcb(with(svns, 0, sequence(oid(svns[0]), []byte{2, 2, 1, 0}))), "want an INTEGER from 0 to 255"},
		"component of 255":   {tcb(with(svns, 0, sequence(oid(svns[0]), []byte{2, 2, 0, 255}))), ""},
		"negative component": {tcb(with(svns, 0, sequence(oid(svns[0]), []byte{2, 1, 255}))), "want an INTEGER from 0 to 255"},
		"PCESVN of 65536":    {tcb(with(svns, 16, sequence(oid(svns[16]), []byte{2, 3, 1, 0, 0}))), "want an INTEGER from 0 to 65535"},
		"something behind":   {append(sequence(all...), 5, 0), "want a SEQUENCE"},
		"nothing":            {[]byte{5, 0}, "want a SEQUENCE"},
	} {
		t.Run(name, func(t *testing.T) {
			pck := m.intel.PCK(m.p, mint.PCKOptions{Extension: row.der})
			s, _ := m.judge(m.intel.Seal(mint.SoundQuote(), mint.SoundQE(), pck, m.intel.PlatformCA).Encode(), m.items...)
			if row.words == "" {
				want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
			} else {
				want(t, s, "tdx.chain", claim.Contradicted, row.words)
			}
		})
	}
}

// TestTwins: the sound quote with sound collateral has every claim affirmed; each twin changes the claim that it is the
// matter of, what rests on that falls with it, and nothing else moves.
func TestTwins(t *testing.T) {
	judge := func(m minted, raw []byte, items []attest.Collateral) claim.Set {
		m.case_.Expect.ReportData = make([]byte, attest.ReportDataSize)
		s, _ := m.judge(raw, items...)
		return s
	}
	m := newMinted(t)
	base := judge(m, m.seal(mint.SoundQuote15()), m.items)
	covered := map[string]bool{}
	for _, c := range base {
		if c.Status != claim.Affirmed || c.Reason != "" {
			t.Errorf("sound: %s is %s (%s)", c.ID, c.Status, c.Reason)
		}
		covered[c.ID] = false
	}
	for _, tw := range twins {
		covered[tw.id] = true
		t.Run(tw.name, func(t *testing.T) {
			m := newMinted(t)
			raw, items := tw.make(&m)
			s := judge(m, raw, items)
			want(t, s, tw.id, tw.status, tw.words)
			for _, c := range s {
				before := base.Find(c.ID, subject)
				same := c.Status == before.Status && c.Value == before.Value && c.Reason == before.Reason
				if c.ID == tw.id && same {
					t.Errorf("%s is as without the change", c.ID)
				}
				if !same && c.ID != tw.id && c.Reason.Code() != claim.RestsOn && !slices.Contains(tw.also, c.ID) {
					t.Errorf("%s moved: %s %q (%s)", c.ID, c.Status, c.Value, c.Reason)
				}
			}
		})
	}
	for id, done := range covered {
		if !done {
			t.Errorf("no twin of %s", id)
		}
	}
}

// TestServiceTD10: a TDX 1.0 body does not name service TDs.
func TestServiceTD10(t *testing.T) {
	m := newMinted(t)
	q := mint.SoundQuote()
	s, _ := m.judge(m.seal(q), m.items...)
	want(t, s, "tdx.servicetd", claim.Affirmed, "not-migratable")
	if got := confidential(s); got != "accept" {
		t.Errorf("confidential says %s", got)
	}
	q.TDAttributes |= tdx.AttributeMigratable
	s, _ = m.judge(m.seal(q), m.items...)
	want(t, s, "tdx.servicetd", claim.Unknown, "not-in-version")
}

// TestProcessorCA: platforms of one package have their PCK from the Processor CA, with no platform instance.
func TestProcessorCA(t *testing.T) {
	m := newMinted(t)
	m.p.PIID = [16]byte{}
	pck := m.intel.PCK(m.p, mint.PCKOptions{Issuer: &m.intel.ProcessorCA})
	raw := m.intel.Seal(mint.SoundQuote(), mint.SoundQE(), pck, m.intel.ProcessorCA).Encode()
	s, f := m.judge(raw, m.with(2, attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: m.intel.PCKCRL(m.intel.ProcessorCA, now, now.AddDate(0, 0, 1))})...)
	want(t, s, "tdx.chain", claim.Affirmed, "processor")
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	if got := confidential(s); got != "accept" {
		t.Errorf("confidential says %s", got)
		dump(t, s)
	}
	if len(f.Identities) != 1 || f.Identities[0].Kind != attest.IdentityIntelPPID {
		t.Errorf("identities %v", f.Identities)
	}
	if _, f := m.judge(raw); f.Needs[0].Source != "https://api.trustedservices.intel.com/sgx/certification/v4/pckcrl?encoding=der&ca=processor" {
		t.Errorf("needs %v", f.Needs)
	}
}

func TestDenyList(t *testing.T) {
	m := newMinted(t)
	m.case_.Expect.DenyListKeys = [][]byte{mint.DenyListKey()}
	raw := m.seal(mint.SoundQuote())
	list := func(entries ...attest.Denied) attest.Collateral {
		return attest.Collateral{Kind: attest.KindDenyList, Data: mint.DenyList(1, canon.At(now), canon.At(now.AddDate(0, 1, 0)), entries...)}
	}
	entry := func(kind string, value []byte) attest.Denied {
		return attest.Denied{Identity: attest.Identity{Kind: kind, Value: value}, Since: canon.At(now), Reason: "opened"}
	}
	s, f := m.judge(raw, m.items...)
	want(t, s, "tdx.revocation", claim.Unknown, "expects a deny list and has none")
	if len(f.Needs) != 1 || f.Needs[0].Kind != attest.KindDenyList {
		t.Errorf("needs %v", f.Needs)
	}
	s, _ = m.judge(raw, append(m.items, list(entry(attest.IdentityIntelPPID, make([]byte, 16))))...)
	want(t, s, "tdx.revocation", claim.Affirmed, "deny-list intel-pck-crl intel-root-crl")
	for kind, value := range map[string][]byte{attest.IdentityIntelPPID: m.p.PPID[:], attest.IdentityIntelPIID: m.p.PIID[:]} {
		s, _ = m.judge(raw, append(m.items, list(entry(kind, value)))...)
		want(t, s, "tdx.revocation", claim.Contradicted, "deny list names this device")
	}
	late := entry(attest.IdentityIntelPPID, m.p.PPID[:])
	late.Since++
	s, _ = m.judge(raw, append(m.items, list(late))...)
	want(t, s, "tdx.revocation", claim.Affirmed)
}

// TestConvergence holds Intel's join of platform, TDX module and quoting enclave, status by status.
func TestConvergence(t *testing.T) {
	m := newMinted(t)
	for _, row := range []struct {
		platform, module, qe string
		want                 string
	}{
		{"UpToDate", "UpToDate", "UpToDate", "UpToDate"},
		{"SWHardeningNeeded", "UpToDate", "UpToDate", "SWHardeningNeeded"},
		{"ConfigurationNeeded", "UpToDate", "UpToDate", "ConfigurationNeeded"},
		{"ConfigurationAndSWHardeningNeeded", "UpToDate", "UpToDate", "ConfigurationAndSWHardeningNeeded"},
		{"OutOfDate", "UpToDate", "UpToDate", "OutOfDate"},
		{"OutOfDateConfigurationNeeded", "UpToDate", "UpToDate", "OutOfDateConfigurationNeeded"},
		{"Revoked", "UpToDate", "UpToDate", "Revoked"},
		{"UpToDate", "OutOfDate", "UpToDate", "OutOfDate"},
		{"SWHardeningNeeded", "OutOfDate", "UpToDate", "OutOfDate"},
		{"ConfigurationNeeded", "OutOfDate", "UpToDate", "OutOfDateConfigurationNeeded"},
		{"ConfigurationAndSWHardeningNeeded", "OutOfDate", "UpToDate", "OutOfDateConfigurationNeeded"},
		{"OutOfDate", "OutOfDate", "UpToDate", "OutOfDate"},
		{"OutOfDateConfigurationNeeded", "OutOfDate", "OutOfDate", "OutOfDateConfigurationNeeded"},
		{"UpToDate", "UpToDate", "OutOfDate", "OutOfDate"},
		{"SWHardeningNeeded", "UpToDate", "OutOfDate", "OutOfDate"},
		{"ConfigurationNeeded", "UpToDate", "OutOfDate", "OutOfDateConfigurationNeeded"},
		{"ConfigurationAndSWHardeningNeeded", "UpToDate", "OutOfDate", "OutOfDateConfigurationNeeded"},
		{"OutOfDate", "Revoked", "UpToDate", "Revoked"},
		{"UpToDate", "Revoked", "UpToDate", "Revoked"},
		{"UpToDate", "UpToDate", "Revoked", "Revoked"},
		{"Revoked", "OutOfDate", "OutOfDate", "Revoked"},
	} {
		t.Run(row.platform+" "+row.module+" "+row.qe, func(t *testing.T) {
			items := m.tcbInfo(func(i *mint.TCBInfo) { i.Levels[0].Status, i.Modules[1].Levels[0].Status = row.platform, row.module })
			items[1] = m.qeIdentity(func(q *mint.QEIdentity) { q.Levels[0].Status = row.qe })[1]
			for _, q := range []tdx.Quote{mint.SoundQuote(), mint.SoundQuote15()} {
				s, _ := m.judge(m.seal(q), items...)
				status := claim.Affirmed
				if row.want == "Revoked" {
					status = claim.Contradicted
				}
				want(t, s, "tdx.tcb-status", status, row.want)
				if got := s.Find("tdx.tcb-status", subject).Value; got != row.want {
					t.Errorf("status %s, want %s", got, row.want)
				}
			}
		})
	}
}

// TestRelaunch: a TD of 1.5 has a TCB of its launch and one of now.
func TestRelaunch(t *testing.T) {
	m := newMinted(t)
	for _, row := range []struct {
		name        string
		launch, now tdx.SVN
		platform    string
		qe          string
		want        string
	}{
		{"module updated since", tdx.SVN{4, 1, 3}, tdx.SVN{6, 1, 3}, "UpToDate", "UpToDate", "TDRelaunchAdvised"},
		{"module updated to another version since", tdx.SVN{4, 1, 3}, tdx.SVN{3, 3, 3}, "UpToDate", "UpToDate", "TDRelaunchAdvised"},
		{"microcode updated since", tdx.SVN{6, 1, 2}, tdx.SVN{6, 1, 3}, "UpToDate", "UpToDate", "TDRelaunchAdvised"},
		{"and to be configured", tdx.SVN{4, 1, 3}, tdx.SVN{6, 1, 3}, "ConfigurationNeeded", "UpToDate", "TDRelaunchAdvisedConfigurationNeeded"},
		{"and to be hardened", tdx.SVN{4, 1, 3}, tdx.SVN{6, 1, 3}, "SWHardeningNeeded", "UpToDate", "TDRelaunchAdvised"},
		{"quoting enclave is old", tdx.SVN{4, 1, 3}, tdx.SVN{6, 1, 3}, "UpToDate", "OutOfDate", "OutOfDate"},
		{"quoting enclave is old and the platform to be configured", tdx.SVN{4, 1, 3}, tdx.SVN{6, 1, 3}, "ConfigurationNeeded", "OutOfDate", "OutOfDateConfigurationNeeded"},
		{"platform is old", tdx.SVN{4, 1, 3}, tdx.SVN{6, 1, 3}, "OutOfDate", "UpToDate", "OutOfDate"},
		{"still old", tdx.SVN{4, 1, 3}, tdx.SVN{5, 1, 3}, "UpToDate", "UpToDate", "OutOfDate"},
		{"older now than at launch", tdx.SVN{6, 1, 3}, tdx.SVN{4, 1, 3}, "UpToDate", "UpToDate", "OutOfDate"},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := mint.SoundQuote15()
			q.TEETCBSVN, q.TEETCBSVN2 = row.launch, row.now
			items := m.tcbInfo(func(i *mint.TCBInfo) { i.Levels[0].Status = row.platform })
			items[1] = m.qeIdentity(func(q *mint.QEIdentity) { q.Levels[0].Status = row.qe })[1]
			s, _ := m.judge(m.seal(q), items...)
			want(t, s, "tdx.tcb-status", claim.Affirmed, row.want)
			if got := s.Find("tdx.tcb-status", subject).Value; got != row.want {
				t.Errorf("status %s, want %s: %s", got, row.want, s.Find("tdx.tcb-status", subject).Reason)
			}
		})
	}
	// Of two TCBs that are not listed or revoked, the worse counts.
	for _, row := range []struct{ launch, now tdx.SVN }{{tdx.SVN{1, 1, 3}, tdx.SVN{6, 1, 3}}, {tdx.SVN{6, 1, 3}, tdx.SVN{1, 1, 3}}} {
		q := mint.SoundQuote15()
		q.TEETCBSVN, q.TEETCBSVN2 = row.launch, row.now
		s, _ := m.judge(m.seal(q), m.items...)
		want(t, s, "tdx.tcb-status", claim.Contradicted, "below-levels")
	}
	q := mint.SoundQuote15()
	q.TEETCBSVN[0] = 4
	s, _ := m.judge(m.seal(q), m.tcbInfo(func(i *mint.TCBInfo) { i.Modules[1].Levels[1].Status = "Revoked" })...)
	want(t, s, "tdx.tcb-status", claim.Contradicted, "Revoked")
}

// TestMemory: what is remembered changes no result, at any time.
func TestMemory(t *testing.T) {
	m := newMinted(t)
	raw := m.seal(mint.SoundQuote15())
	memory := attest.NewMemory()
	for _, at := range []time.Time{now, now.AddDate(0, 2, 0), now.AddDate(10, 0, 0), now.AddDate(-10, 0, 0), now} {
		for _, items := range [][]attest.Collateral{m.items, nil, m.items[1:], m.tcbInfo(func(i *mint.TCBInfo) { i.Levels[0].Status = "OutOfDate" })} {
			m.at, m.case_.Memory = at, nil
			cold, coldFinding := m.judge(raw, items...)
			m.case_.Memory = memory
			warm, warmFinding := m.judge(raw, items...)
			if a, b := canonical(t, cold), canonical(t, warm); a != b || len(coldFinding.Needs) != len(warmFinding.Needs) {
				t.Errorf("at %s: remembered\n%s\nanew\n%s", at, b, a)
			}
		}
	}
}

func canonical(t *testing.T, s claim.Set) string {
	t.Helper()
	b, err := canon.Marshal([]claim.Claim(s))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFields lists every byte of a quote once.
func TestFields(t *testing.T) {
	m := newMinted(t)
	for _, q := range []tdx.Quote{mint.SoundQuote(), mint.SoundQuote15()} {
		raw := append(m.seal(q), "tail"...)
		fields, err := tdx.Fields(raw)
		if err != nil {
			t.Fatal(err)
		}
		var again []byte
		for _, f := range fields {
			if f.Offset != len(again) || 2*f.Size != len(f.Hex) {
				t.Errorf("%s at %d of %d bytes, want it at %d", f.Name, f.Offset, f.Size, len(again))
			}
			b, _ := hex.DecodeString(f.Hex)
			again = append(again, b...)
		}
		if !bytes.Equal(again, raw) {
			t.Errorf("the fields make %x, want %x", sha256.Sum256(again), sha256.Sum256(raw))
		}
	}
	if _, err := tdx.Fields(nil); err == nil {
		t.Error("fields of nothing")
	}
}

func TestQESigners(t *testing.T) {
	good := strings.Repeat("ab", 32)
	got, err := tdx.ParseQESigners([]byte("# comment\r\n\n" + good + " 2\n" + good + " 65535"))
	if err != nil || len(got) != 2 || got[0].ProductID != 2 || got[1].MRSigner[31] != 0xab {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{good, good + " ", good + " 65536", good + "  2", strings.ToUpper(good) + " 2", good[2:] + " 2", good + " -1", " " + good + " 2", strings.Repeat(good+" 2\n", 17)} {
		if _, err := tdx.ParseQESigners([]byte(bad)); err == nil {
			t.Errorf("%.80q is read", bad)
		}
	}
	if got, err := tdx.ParseQESigners(tdx.VendorRoots()[0].Data); err != nil || len(got) != 1 || got[0].ProductID != 2 || hex.EncodeToString(got[0].MRSigner[:]) != "dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5" {
		t.Errorf("the pinned file: %v, %v", got, err)
	}
}
