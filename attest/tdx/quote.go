package tdx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/assay-network/assay/attest"
)

// Quote is a decoded quote, fields as Intel names them. Fields that its version does not have are zero.
type Quote struct {
	Version  uint16
	KeyType  uint16 // attestation key type: 2 is ECDSA P-256
	TEEType  uint32 // 81h is TDX
	QESVN    uint16 // reserved in version 4
	PCESVN   uint16 // reserved in version 4
	QEVendor [16]byte
	UserData [20]byte
	BodyType BodyType // of the descriptor; in version 4, which has none, that of TDX 1.0

	TEETCBSVN      SVN // of the TDX module when the TD was launched, and of the SEAM loader
	MRSEAM         [48]byte
	MRSIGNERSEAM   [48]byte
	SEAMAttributes uint64
	TDAttributes   TDAttributes
	XFAM           XFAM
	MRTD           [48]byte
	MRCONFIGID     [48]byte
	MROWNER        [48]byte
	MROWNERCONFIG  [48]byte
	RTMR           [4][48]byte
	ReportData     [64]byte
	TEETCBSVN2     SVN      // now; TDX 1.5 on
	MRSERVICETD    [48]byte // TDX 1.5 on

	Signature      [signatureSize]byte // by the attestation key, over header and body
	AttestationKey [keySize]byte
	QEReport       EnclaveReport
	QESignature    [signatureSize]byte // by the PCK, over the QE report
	QEAuth         []byte
	Chain          []byte // PCK certificate chain, PEM as received, with its NUL where it has one
}

// SVN is a vector of security version numbers.
type SVN [components]uint8

// BodyType is the type of a TD report body.
type BodyType uint16

// Body types of version 5.
const (
	BodySGX  BodyType = 1
	BodyTD10 BodyType = 2
	BodyTD15 BodyType = 3
)

// size returns the bytes of a body, 0 for one that this build does not read.
func (t BodyType) size() int {
	switch t {
	case BodyTD10:
		return bodySize10
	case BodyTD15:
		return bodySize15
	}
	return 0
}

// Values of the header.
const (
	KeyECDSAP256 = 2
	TEETDX       = 0x81
	certPEM      = 5 // certification data: PCK certificate chain
	certQEReport = 6 // certification data: QE report with its own certification data
)

// IntelQE is the vendor id of Intel's quoting enclave.
var IntelQE = [16]byte{0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9, 0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07}

// EnclaveReport is an SGX report body (Intel SDM volume 3D, table 38-21), as received.
type EnclaveReport [reportSize]byte

// Fields of an enclave report.
func (r *EnclaveReport) MiscSelect() uint32     { return le.Uint32(r[16:]) }
func (r *EnclaveReport) Attributes() [16]byte   { return [16]byte(r[48:64]) }
func (r *EnclaveReport) MREnclave() [32]byte    { return [32]byte(r[64:96]) }
func (r *EnclaveReport) MRSigner() [32]byte     { return [32]byte(r[128:160]) }
func (r *EnclaveReport) ProductID() uint16      { return le.Uint16(r[256:]) }
func (r *EnclaveReport) SecurityNumber() uint16 { return le.Uint16(r[258:]) }
func (r *EnclaveReport) ReportData() [64]byte   { return [64]byte(r[320:384]) }

// enclaveDebug is ATTRIBUTES.DEBUG of an enclave (SDM volume 3D, section 34.7.1).
const enclaveDebug = 1 << 1

// field ties a name to its place. The table is written once and read three ways: parse, encode, inspect.
type field struct {
	name   string
	offset int // in the header, or in the body
	size   int
	at     func(*Quote) any
}

var headerLayout = []field{
	{"VERSION", 0, 2, func(q *Quote) any { return &q.Version }},
	{"ATTESTATION_KEY_TYPE", 2, 2, func(q *Quote) any { return &q.KeyType }},
	{"TEE_TYPE", 4, 4, func(q *Quote) any { return &q.TEEType }},
	{"QE_SVN", 8, 2, func(q *Quote) any { return &q.QESVN }},
	{"PCE_SVN", 10, 2, func(q *Quote) any { return &q.PCESVN }},
	{"QE_VENDOR_ID", 12, 16, func(q *Quote) any { return q.QEVendor[:] }},
	{"USER_DATA", 28, 20, func(q *Quote) any { return q.UserData[:] }},
}

// bodyLayout covers 648 bytes without a gap; a TDX 1.0 body ends behind REPORTDATA.
var bodyLayout = []field{
	{"TEE_TCB_SVN", 0, 16, func(q *Quote) any { return q.TEETCBSVN[:] }},
	{"MRSEAM", 16, 48, func(q *Quote) any { return q.MRSEAM[:] }},
	{"MRSIGNERSEAM", 64, 48, func(q *Quote) any { return q.MRSIGNERSEAM[:] }},
	{"SEAMATTRIBUTES", 112, 8, func(q *Quote) any { return &q.SEAMAttributes }},
	{"TDATTRIBUTES", 120, 8, func(q *Quote) any { return (*uint64)(&q.TDAttributes) }},
	{"XFAM", 128, 8, func(q *Quote) any { return (*uint64)(&q.XFAM) }},
	{"MRTD", 136, 48, func(q *Quote) any { return q.MRTD[:] }},
	{"MRCONFIGID", 184, 48, func(q *Quote) any { return q.MRCONFIGID[:] }},
	{"MROWNER", 232, 48, func(q *Quote) any { return q.MROWNER[:] }},
	{"MROWNERCONFIG", 280, 48, func(q *Quote) any { return q.MROWNERCONFIG[:] }},
	{"RTMR0", 328, 48, func(q *Quote) any { return q.RTMR[0][:] }},
	{"RTMR1", 376, 48, func(q *Quote) any { return q.RTMR[1][:] }},
	{"RTMR2", 424, 48, func(q *Quote) any { return q.RTMR[2][:] }},
	{"RTMR3", 472, 48, func(q *Quote) any { return q.RTMR[3][:] }},
	{"REPORTDATA", 520, 64, func(q *Quote) any { return q.ReportData[:] }},
	{"TEE_TCB_SVN_2", 584, 16, func(q *Quote) any { return q.TEETCBSVN2[:] }},
	{"MRSERVICETD", 600, 48, func(q *Quote) any { return q.MRSERVICETD[:] }},
}

var le = binary.LittleEndian

// read copies the fields of a table from the bytes, write the other way. Fields beyond the bytes are left alone.
func read(q *Quote, layout []field, from []byte) {
	for _, f := range layout {
		if f.offset >= len(from) {
			return
		}
		if _, err := binary.Decode(from[f.offset:f.offset+f.size], le, f.at(q)); err != nil {
			panic("tdx: internal error: " + f.name + ": " + err.Error())
		}
	}
}

func write(q *Quote, layout []field, to []byte) {
	for _, f := range layout {
		if f.offset >= len(to) {
			return
		}
		if _, err := binary.Encode(to[f.offset:f.offset+f.size], le, f.at(q)); err != nil {
			panic("tdx: internal error: " + f.name + ": " + err.Error())
		}
	}
}

// cursor takes a quote apart from front to back.
type cursor struct {
	data []byte
	at   int
}

// take returns the next n bytes, which are called what.
func (c *cursor) take(n int, what string) ([]byte, error) {
	if n < 0 || n > len(c.data)-c.at {
		return nil, fmt.Errorf("parse TDX quote: offset 0x%03x: %s takes %d bytes, %d are left", c.at, what, n, len(c.data)-c.at)
	}
	c.at += n
	return c.data[c.at-n : c.at], nil
}

// Parse decodes a quote and returns its length: what stands behind is no part of it. It checks every length, the types of
// key, body and certification data, and the form of the PEM chain; it verifies nothing. The value refers to raw, which
// must not change.
func Parse(raw []byte) (u attest.Unverified[Quote], size int, err error) {
	return parse(raw, wellFormedPEM)
}

func wellFormedPEM(chain []byte) error {
	_, err := splitPEM(chain)
	return err
}

// parse is [Parse]; wellFormed refuses a chain that is not what [splitPEM] reads.
func parse(raw []byte, wellFormed func(chain []byte) error) (u attest.Unverified[Quote], size int, err error) {
	var q Quote
	if len(raw) > MaxQuote {
		return u, 0, fmt.Errorf("parse TDX quote: %d bytes, at most %d", len(raw), MaxQuote)
	}
	c := &cursor{data: raw}
	header, err := c.take(headerSize, "header")
	if err != nil {
		return u, 0, err
	}
	read(&q, headerLayout, header)
	if err := q.checkHeader(); err != nil {
		return u, 0, err
	}
	bodyLength := bodySize10
	q.BodyType = BodyTD10
	if q.Version == 5 {
		d, err := c.take(descriptorSize, "body type and size")
		if err != nil {
			return u, 0, err
		}
		q.BodyType = BodyType(le.Uint16(d))
		switch bodyLength = q.BodyType.size(); {
		case q.BodyType == BodySGX:
			return u, 0, errors.New("parse TDX quote: offset 0x030: body type 1 is an SGX enclave report, not a TD report")
		case bodyLength == 0:
			return u, 0, fmt.Errorf("parse TDX quote: offset 0x030: body type %d is not known to this build, which reads 2 (TDX 1.0) and 3 (TDX 1.5)", q.BodyType)
		case le.Uint32(d[2:]) != uint32(bodyLength):
			return u, 0, fmt.Errorf("parse TDX quote: offset 0x032: body of %d bytes, but type %d has %d", le.Uint32(d[2:]), q.BodyType, bodyLength)
		}
	}
	body, err := c.take(bodyLength, "TD report body")
	if err != nil {
		return u, 0, err
	}
	read(&q, bodyLayout, body)
	signed := raw[:c.at]
	length, err := c.take(4, "size of the signature data")
	if err != nil {
		return u, 0, err
	}
	n, left := uint64(le.Uint32(length)), uint64(len(raw)-c.at) // where an int has 32 bits, n may not fit
	if n > left {
		return u, 0, fmt.Errorf("parse TDX quote: offset 0x%03x: signature data takes %d bytes, %d are left", c.at, n, left)
	}
	size = c.at + int(n)
	if err = q.parseSignature(&cursor{data: raw[:size], at: len(signed) + 4}, wellFormed); err != nil {
		return u, 0, err
	}
	return attest.NewUnverified(q, signed, q.Signature[:]), size, nil
}

func (q *Quote) checkHeader() error {
	switch {
	case q.Version == 3 || q.TEEType == 0:
		return fmt.Errorf("parse TDX quote: this is an SGX quote (version %d, TEE type %d), not one of TDX", q.Version, q.TEEType)
	case q.Version != 4 && q.Version != 5:
		return fmt.Errorf("parse TDX quote: offset 0x000: version %d is not known to this build, which reads 4 and 5", q.Version)
	case q.TEEType != TEETDX:
		return fmt.Errorf("parse TDX quote: offset 0x004: TEE type 0x%x, want 0x%x (TDX)", q.TEEType, TEETDX)
	case q.KeyType != KeyECDSAP256:
		return fmt.Errorf("parse TDX quote: offset 0x002: attestation key type %d, want %d (ECDSA P-256)", q.KeyType, KeyECDSAP256)
	case q.QEVendor != IntelQE:
		return fmt.Errorf("parse TDX quote: offset 0x00c: QE vendor %x, want Intel's %x", q.QEVendor, IntelQE)
	}
	return nil
}

// parseSignature reads the signature data, which c holds to its last byte.
func (q *Quote) parseSignature(c *cursor, wellFormed func(chain []byte) error) error {
	for _, f := range []struct {
		what string
		into []byte
	}{{"signature", q.Signature[:]}, {"attestation key", q.AttestationKey[:]}} {
		b, err := c.take(len(f.into), f.what)
		if err != nil {
			return err
		}
		copy(f.into, b)
	}
	if err := c.certification(certQEReport, "the QE report"); err != nil {
		return err
	}
	for _, f := range []struct {
		what string
		into []byte
	}{{"QE report", q.QEReport[:]}, {"signature of the QE report", q.QESignature[:]}} {
		b, err := c.take(len(f.into), f.what)
		if err != nil {
			return err
		}
		copy(f.into, b)
	}
	n, err := c.take(2, "size of the QE authentication data")
	if err != nil {
		return err
	}
	if q.QEAuth, err = c.take(int(le.Uint16(n)), "QE authentication data"); err != nil {
		return err
	}
	if err = c.certification(certPEM, "the PCK certificate chain"); err != nil {
		return err
	}
	at := c.at
	q.Chain = c.data[at:]
	if err = wellFormed(q.Chain); err != nil {
		return fmt.Errorf("parse TDX quote: offset 0x%03x: PCK certificate chain: %w", at, err)
	}
	return nil
}

// certification reads the type and size of certification data, which must be of one type and reach to the end of the
// signature data.
func (c *cursor) certification(typ uint16, what string) error {
	at := c.at
	h, err := c.take(certHeaderSize, "type and size of "+what)
	if err != nil {
		return err
	}
	switch left := len(c.data) - c.at; {
	case le.Uint16(h) != typ:
		return fmt.Errorf("parse TDX quote: offset 0x%03x: certification data of type %d, want %d (%s)", at, le.Uint16(h), typ, what)
	case uint64(le.Uint32(h[2:])) != uint64(left):
		return fmt.Errorf("parse TDX quote: offset 0x%03x: %s of %d bytes, but the signature data has %d left", at, what, le.Uint32(h[2:]), left)
	}
	return nil
}

// splitPEM returns the certificates (DER) of a quote's chain. Between and behind them stands nothing but one NUL at the
// very end, which some platforms count into the declared size.
func splitPEM(chain []byte) (certs [][]byte, err error) {
	rest := bytes.TrimSuffix(chain, []byte{0})
	for len(rest) > 0 {
		block, behind := pem.Decode(rest)
		// The decoder skips what it cannot read, to the next block that it can.
		begins := bytes.Count(rest[:len(rest)-len(behind)], []byte("-----BEGIN"))
		switch {
		case block == nil || block.Type != "CERTIFICATE" || len(block.Headers) > 0 || begins != 1 || !bytes.HasPrefix(rest, []byte("-----BEGIN")):
			return nil, errors.New("want PEM certificates, then at most one NUL")
		case len(certs) == maxChainCerts:
			return nil, fmt.Errorf("more than %d certificates", maxChainCerts)
		}
		certs, rest = append(certs, block.Bytes), behind
	}
	if len(certs) < 2 {
		return nil, fmt.Errorf("%d certificates, want the PCK certificate, its CA and the root", len(certs))
	}
	return certs, nil
}

// Encode writes the quote as the platform does. What [Parse] read is written back byte for byte.
func (q Quote) Encode() []byte {
	signed := q.SignedPart()
	inner := le.AppendUint16(append(q.QEReport[:], q.QESignature[:]...), uint16(len(q.QEAuth)))
	inner = append(inner, q.QEAuth...)
	inner = append(le.AppendUint32(le.AppendUint16(inner, certPEM), uint32(len(q.Chain))), q.Chain...)
	data := append(q.Signature[:], q.AttestationKey[:]...)
	data = append(le.AppendUint32(le.AppendUint16(data, certQEReport), uint32(len(inner))), inner...)
	return append(le.AppendUint32(signed, uint32(len(data))), data...)
}

// SignedPart writes header and body, which the attestation key signs.
func (q Quote) SignedPart() []byte {
	out := make([]byte, headerSize)
	write(&q, headerLayout, out)
	n := bodySize10
	if q.Version == 5 {
		n = q.BodyType.size()
		out = le.AppendUint32(le.AppendUint16(out, uint16(q.BodyType)), uint32(n))
	}
	body := make([]byte, n)
	write(&q, bodyLayout, body)
	return append(out, body...)
}

// key returns the attestation key.
func (q *Quote) key() (*ecdsa.PublicKey, error) {
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, q.AttestationKey[:]...))
}

// Recognize takes a quote from any of the forms in which files hold one: raw, hex (with or without 0x) or base64. It looks
// at no more than the header, and knows SGX quotes as well, so that they are refused by name.
func Recognize(file []byte) (raw []byte, ok bool) {
	if isQuote(file) {
		return file, true
	}
	if len(file) > 4*MaxQuote {
		return nil, false
	}
	text := bytes.TrimSpace(file)
	digits := bytes.TrimPrefix(text, []byte("0x"))
	raw = make([]byte, hex.DecodedLen(len(digits)))
	if n, err := hex.Decode(raw, digits); err == nil && isQuote(raw[:n]) {
		return raw[:n], true
	}
	raw = make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	if n, err := base64.StdEncoding.Decode(raw, text); err == nil && isQuote(raw[:n]) {
		return raw[:n], true
	}
	return nil, false
}

func isQuote(b []byte) bool {
	return len(b) >= headerSize && le.Uint16(b) >= 3 && le.Uint16(b) <= 5 && [16]byte(b[12:28]) == IntelQE
}
