package mint

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/assay-network/assay/attest/tdx"
)

// Enclave is what a quoting enclave's report says of it.
type Enclave struct {
	MiscSelect uint32
	Attributes [16]byte
	MREnclave  [32]byte
	MRSigner   [32]byte
	ProductID  uint16
	SVN        uint16
}

// Report encodes the enclave's report with report data. CPUSVN is left zero: nobody reads it.
func (e Enclave) Report(data [64]byte) (r tdx.EnclaveReport) {
	binary.LittleEndian.PutUint32(r[16:], e.MiscSelect)
	copy(r[48:], e.Attributes[:])
	copy(r[64:], e.MREnclave[:])
	copy(r[128:], e.MRSigner[:])
	binary.LittleEndian.PutUint16(r[256:], e.ProductID)
	binary.LittleEndian.PutUint16(r[258:], e.SVN)
	copy(r[320:], data[:])
	return r
}

// SoundQE is a quoting enclave as the minted QE identity describes it.
func SoundQE() Enclave {
	e := Enclave{MRSigner: QEMRSigner, ProductID: 2, SVN: 7}
	e.Attributes[0] = 0x15 // INIT, MODE64BIT, PROVISIONKEY
	e.Attributes[8] = 0xe7 // XFRM
	return e
}

// SoundQuote returns the fields of a sound quote: version 4, a production TD with SEPT_VE_DISABLE on TDX module TDX_01.
// The caller changes what it wants and fills in MRTD, RTMRs and REPORTDATA.
func SoundQuote() tdx.Quote {
	svn := tdx.SVN{6, 1, 3}
	return tdx.Quote{
		Version: 4, KeyType: tdx.KeyECDSAP256, TEEType: tdx.TEETDX, QEVendor: tdx.IntelQE, BodyType: tdx.BodyTD10,
		TEETCBSVN: svn, MRSEAM: [48]byte{0x5b}, TDAttributes: tdx.AttributeSEPTVEOff, XFAM: 0x600e7, QEAuth: make([]byte, 32),
	}
}

// SoundQuote15 returns the fields of a sound quote of version 5 with a TD report of TDX 1.5.
func SoundQuote15() tdx.Quote {
	q := SoundQuote()
	q.Version, q.BodyType, q.TEETCBSVN2 = 5, tdx.BodyTD15, q.TEETCBSVN
	return q
}

// Seal signs a quote on a platform: an attestation key, bound and vouched for by the enclave's report, which the PCK
// signs, with the chain of that. It replaces what it makes.
func (i *Intel) Seal(q tdx.Quote, qe Enclave, pck, ca Certificate) tdx.Quote {
	key := p256Key(i.keys, "attestation", string(pck.DER))
	point, err := key.PublicKey.Bytes()
	must(err)
	q.AttestationKey = [64]byte(point[1:])
	var data [64]byte
	bound := sha256.Sum256(slices.Concat(q.AttestationKey[:], q.QEAuth))
	copy(data[:], bound[:])
	q.QEReport = qe.Report(data)
	q.QESignature = SignEnclave(q.QEReport, pck)
	q.Signature = signRaw(key, q.SignedPart())
	q.Chain = slices.Concat(pck.PEM(), ca.PEM(), i.Root.PEM())
	return q
}

// SignEnclave signs the report of an enclave with a PCK.
func SignEnclave(r tdx.EnclaveReport, pck Certificate) [64]byte {
	return signRaw(pck.key.(*ecdsa.PrivateKey), r[:])
}

// TD is an imagined trust domain on an imagined platform: it makes quotes over any report data, as a device would.
type TD struct {
	Fields  tdx.Quote
	Enclave Enclave
	PCK, CA Certificate
	intel   *Intel
}

// TD returns a TD on a platform whose PCK the Platform CA certified.
func (i *Intel) TD(p IntelPlatform, fields tdx.Quote) *TD {
	return &TD{Fields: fields, Enclave: SoundQE(), PCK: i.PCK(p, PCKOptions{}), CA: i.PlatformCA, intel: i}
}

// Quote makes a quote over report data.
func (t *TD) Quote(reportData [64]byte) []byte {
	q := t.Fields
	q.ReportData = reportData
	return t.intel.Seal(q, t.Enclave, t.PCK, t.CA).Encode()
}
