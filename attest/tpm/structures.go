package tpm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"

	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/internal/canon"
)

var be = binary.BigEndian

// Algorithms and curves (TPM 2.0 Library part 2, sections 6.3 and 6.4).
const (
	AlgRSA    uint16 = 0x0001
	AlgNull   uint16 = 0x0010
	AlgRSASSA uint16 = 0x0014
	AlgRSAES  uint16 = 0x0015
	AlgRSAPSS uint16 = 0x0016
	AlgOAEP   uint16 = 0x0017
	AlgECDSA  uint16 = 0x0018
	AlgECC    uint16 = 0x0023
	CurveP256 uint16 = 0x0003
	CurveP384 uint16 = 0x0004
)

// Values of a TPMS_ATTEST that mean something here (part 2, sections 6.2 and 6.9).
const (
	Magic     uint32 = 0xFF544347 // TPM_GENERATED_VALUE
	TypeQuote uint16 = 0x8018     // TPM_ST_ATTEST_QUOTE
)

// Attest is a TPMS_ATTEST.
type Attest struct {
	Magic           uint32
	Type            uint16
	QualifiedSigner []byte
	ExtraData       []byte // the qualifying data
	Clock           uint64 // ms that the TPM was powered
	ResetCount      uint32
	RestartCount    uint32
	Safe            bool // no higher Clock was ever reported
	FirmwareVersion uint64
	Selections      []Selection // of a quote
	PCRDigest       []byte      // of a quote
}

// Selection is a TPMS_PCR_SELECTION.
type Selection struct {
	Bank eventlog.Algorithm
	PCRs []int // ascending
	Size int   // bytes of the bitmap; 0 when encoding: 3
}

// ParseAttest reads a TPMS_ATTEST to its last byte. One of another type than a quote is read up to what it attests.
func ParseAttest(raw []byte) (Attest, error) {
	r := &reader{data: raw, name: "TPMS_ATTEST"}
	if len(raw) > maxQuote {
		return Attest{}, fmt.Errorf("parse TPMS_ATTEST: %d bytes, at most %d", len(raw), maxQuote)
	}
	a := Attest{Magic: r.u32(), Type: r.u16(), QualifiedSigner: r.sized(), ExtraData: r.sized(), Clock: r.u64(), ResetCount: r.u32(), RestartCount: r.u32()}
	switch safe := r.u8(); safe {
	case 0, 1:
		a.Safe = safe == 1
	default:
		r.fail("safe is %d, want 0 or 1", safe)
	}
	a.FirmwareVersion = r.u64()
	if a.Type != TypeQuote {
		return a, r.err
	}
	n := r.u32()
	if r.err == nil && n > MaxSelections {
		r.fail("%d PCR selections, at most %d", n, MaxSelections)
	}
	for i := uint32(0); i < n && r.err == nil; i++ {
		s := Selection{Bank: eventlog.Algorithm(r.u16()), Size: int(r.u8())}
		if s.Size > maxSelect {
			r.fail("a PCR bitmap of %d bytes, at most %d", s.Size, maxSelect)
			break
		}
		for j, b := range r.take(s.Size) {
			for k := range 8 {
				if b>>k&1 != 0 {
					s.PCRs = append(s.PCRs, 8*j+k)
				}
			}
		}
		switch {
		case r.err != nil:
		case s.Bank.Size() == 0:
			r.fail("PCR bank %s is not known to this build", s.Bank)
		case slices.ContainsFunc(a.Selections, func(o Selection) bool { return o.Bank == s.Bank }):
			r.fail("PCR bank %s is selected twice", s.Bank)
		}
		a.Selections = append(a.Selections, s)
	}
	a.PCRDigest = r.sized()
	return a, r.end()
}

// Encode writes the structure as a TPM does.
func (a Attest) Encode() []byte {
	b := be.AppendUint32(nil, a.Magic)
	b = appendSized(appendSized(be.AppendUint16(b, a.Type), a.QualifiedSigner), a.ExtraData)
	b = be.AppendUint32(be.AppendUint32(be.AppendUint64(b, a.Clock), a.ResetCount), a.RestartCount)
	safe := byte(0)
	if a.Safe {
		safe = 1
	}
	b = be.AppendUint64(append(b, safe), a.FirmwareVersion)
	if a.Type != TypeQuote {
		return b
	}
	b = be.AppendUint32(b, uint32(len(a.Selections)))
	for _, s := range a.Selections {
		if s.Size == 0 {
			s.Size = 3
		}
		b = append(be.AppendUint16(b, uint16(s.Bank)), byte(s.Size))
		bitmap := make([]byte, s.Size)
		for _, i := range s.PCRs {
			bitmap[i/8] |= 1 << (i % 8)
		}
		b = append(b, bitmap...)
	}
	return appendSized(b, a.PCRDigest)
}

// Signature is a TPMT_SIGNATURE of a scheme that this build verifies.
type Signature struct {
	Scheme uint16 // AlgRSASSA, AlgRSAPSS or AlgECDSA
	Hash   eventlog.Algorithm
	RSA    []byte
	R, S   []byte
}

// ParseSignature reads a TPMT_SIGNATURE to its last byte.
func ParseSignature(raw []byte) (Signature, error) {
	r := &reader{data: raw, name: "TPMT_SIGNATURE"}
	if len(raw) > maxSignature {
		return Signature{}, fmt.Errorf("parse TPMT_SIGNATURE: %d bytes, at most %d", len(raw), maxSignature)
	}
	s := Signature{Scheme: r.u16(), Hash: eventlog.Algorithm(r.u16())}
	switch s.Scheme {
	case AlgRSASSA, AlgRSAPSS:
		s.RSA = r.sized()
	case AlgECDSA:
		s.R, s.S = r.sized(), r.sized()
	default:
		r.fail("scheme 0x%04x is not known to this build", s.Scheme)
	}
	if s.Hash.Hash() == 0 {
		r.fail("hash 0x%04x is not known to this build", uint16(s.Hash))
	}
	return s, r.end()
}

// Encode writes the structure as a TPM does.
func (s Signature) Encode() []byte {
	b := be.AppendUint16(be.AppendUint16(nil, s.Scheme), uint16(s.Hash))
	if s.Scheme == AlgECDSA {
		return appendSized(appendSized(b, s.R), s.S)
	}
	return appendSized(b, s.RSA)
}

// Attributes are the object attributes of a key (part 2, section 8.3).
type Attributes uint32

// Attributes that mean something here.
const (
	FixedTPM            Attributes = 1 << 1
	FixedParent         Attributes = 1 << 4
	SensitiveDataOrigin Attributes = 1 << 5
	UserWithAuth        Attributes = 1 << 6
	Restricted          Attributes = 1 << 16
	Decrypt             Attributes = 1 << 17
	Sign                Attributes = 1 << 18
)

// Public is a TPMT_PUBLIC of an RSA or ECC key.
type Public struct {
	Type          uint16
	NameAlg       eventlog.Algorithm
	Attributes    Attributes
	AuthPolicy    []byte
	Symmetric     uint16 // of a storage key; AlgNull: none
	SymmetricBits uint16
	SymmetricMode uint16
	Scheme        uint16 // AlgNull: whatever the caller asks for
	SchemeHash    eventlog.Algorithm
	Bits          uint16 // RSA
	Exponent      uint32 // RSA; 0 is 65537
	Curve         uint16 // ECC
	KDF           uint16 // ECC
	KDFHash       eventlog.Algorithm
	N             []byte // RSA
	X, Y          []byte // ECC
}

// ParsePublic reads a TPMT_PUBLIC, or one inside a TPM2B_PUBLIC, to its last byte. It returns the bytes of the
// TPMT_PUBLIC as well, over which the key's name is computed.
func ParsePublic(raw []byte) (Public, []byte, error) {
	if len(raw) > maxPublic {
		return Public{}, nil, fmt.Errorf("parse TPMT_PUBLIC: %d bytes, at most %d", len(raw), maxPublic)
	}
	if len(raw) > 2 && int(be.Uint16(raw)) == len(raw)-2 {
		raw = raw[2:]
	}
	r := &reader{data: raw, name: "TPMT_PUBLIC"}
	p := Public{Type: r.u16(), NameAlg: eventlog.Algorithm(r.u16()), Attributes: Attributes(r.u32()), AuthPolicy: r.sized()}
	if r.err == nil && p.NameAlg.Hash() == 0 {
		r.fail("name algorithm 0x%04x is not known to this build", uint16(p.NameAlg))
	}
	if p.Symmetric = r.u16(); p.Symmetric != AlgNull {
		p.SymmetricBits, p.SymmetricMode = r.u16(), r.u16()
	}
	switch p.Scheme = r.u16(); p.Scheme {
	case AlgNull, AlgRSAES:
	case AlgRSASSA, AlgRSAPSS, AlgOAEP, AlgECDSA:
		p.SchemeHash = eventlog.Algorithm(r.u16())
	default:
		r.fail("scheme 0x%04x is not known to this build", p.Scheme)
	}
	switch p.Type {
	case AlgRSA:
		p.Bits, p.Exponent, p.N = r.u16(), r.u32(), r.sized()
	case AlgECC:
		p.Curve = r.u16()
		if p.KDF = r.u16(); p.KDF != AlgNull {
			p.KDFHash = eventlog.Algorithm(r.u16())
		}
		p.X, p.Y = r.sized(), r.sized()
	default:
		r.fail("key type 0x%04x is not known to this build", p.Type)
	}
	return p, raw, r.end()
}

// Encode writes the structure as a TPM does.
func (p Public) Encode() []byte {
	b := be.AppendUint16(be.AppendUint16(nil, p.Type), uint16(p.NameAlg))
	b = appendSized(be.AppendUint32(b, uint32(p.Attributes)), p.AuthPolicy)
	b = be.AppendUint16(b, p.Symmetric)
	if p.Symmetric != AlgNull {
		b = be.AppendUint16(be.AppendUint16(b, p.SymmetricBits), p.SymmetricMode)
	}
	b = be.AppendUint16(b, p.Scheme)
	if p.Scheme != AlgNull && p.Scheme != AlgRSAES {
		b = be.AppendUint16(b, uint16(p.SchemeHash))
	}
	if p.Type == AlgRSA {
		return appendSized(be.AppendUint32(be.AppendUint16(b, p.Bits), p.Exponent), p.N)
	}
	b = be.AppendUint16(be.AppendUint16(b, p.Curve), p.KDF)
	if p.KDF != AlgNull {
		b = be.AppendUint16(b, uint16(p.KDFHash))
	}
	return appendSized(appendSized(b, p.X), p.Y)
}

// Key returns the public key, of a kind that this build verifies with.
func (p Public) Key() (crypto.PublicKey, error) {
	if p.Type == AlgRSA {
		n := new(big.Int).SetBytes(p.N)
		switch {
		case p.Exponent != 0 && p.Exponent != 65537:
			return nil, fmt.Errorf("RSA exponent %d, want 65537", p.Exponent)
		case n.BitLen() != int(p.Bits):
			return nil, fmt.Errorf("RSA modulus of %d bits, the key says %d", n.BitLen(), p.Bits)
		}
		return usable(&rsa.PublicKey{N: n, E: 65537})
	}
	curve, size := elliptic.P256(), 32
	switch p.Curve {
	case CurveP256:
	case CurveP384:
		curve, size = elliptic.P384(), 48
	default:
		return nil, fmt.Errorf("curve 0x%04x is not known to this build", p.Curve)
	}
	if len(p.X) > size || len(p.Y) > size {
		return nil, fmt.Errorf("a point of %d and %d bytes, at most %d", len(p.X), len(p.Y), size)
	}
	point := make([]byte, 1+2*size)
	point[0] = 4 // uncompressed
	copy(point[1+size-len(p.X):], p.X)
	copy(point[1+2*size-len(p.Y):], p.Y)
	key, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	if err != nil {
		return nil, fmt.Errorf("the point is not on the curve")
	}
	return key, nil
}

// usable bounds what verifying with a key can cost.
func usable(key crypto.PublicKey) (crypto.PublicKey, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits || bits%8 != 0 || k.N.Bit(0) == 0 || k.E != 65537 {
			return nil, fmt.Errorf("an RSA key of %d bits with exponent %d, want %d to %d with 65537", bits, k.E, minRSABits, maxRSABits)
		}
		return k, nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() {
			return k, nil
		}
	}
	return nil, fmt.Errorf("a key that is neither RSA nor on P-256 or P-384")
}

// Name returns the name of a key: the algorithm and digest of its TPMT_PUBLIC (part 1, section 16).
func Name(tpmtPublic []byte) []byte {
	if len(tpmtPublic) < 4 {
		return nil
	}
	alg := eventlog.Algorithm(be.Uint16(tpmtPublic[2:]))
	if alg.Hash() == 0 {
		return nil
	}
	h := alg.Hash().New()
	h.Write(tpmtPublic)
	return h.Sum(be.AppendUint16(nil, uint16(alg)))
}

// KeyDigest names a public key as activation records, ties and identities do: SHA-256 of its SubjectPublicKeyInfo.
func KeyDigest(key crypto.PublicKey) canon.Digest {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return canon.Digest{}
	}
	return sha256.Sum256(der)
}

// kindOf names a key: ecc-p256, rsa-2048.
func kindOf(key crypto.PublicKey) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("rsa-%d", k.N.BitLen())
	case *ecdsa.PublicKey:
		return fmt.Sprintf("ecc-p%d", k.Curve.Params().BitSize)
	}
	return ""
}

// reader takes big-endian fields. The first fault sticks.
type reader struct {
	data []byte
	at   int
	name string
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("parse "+r.name+": "+format, args...)
	}
}

func (r *reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.data)-r.at {
		r.fail("cut off at byte %d", r.at)
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at : r.at]
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return be.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return be.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return be.Uint64(b)
	}
	return 0
}

// sized takes a TPM2B: two bytes of length, then as many.
func (r *reader) sized() []byte { return r.take(int(r.u16())) }

func (r *reader) end() error {
	if r.err == nil && r.at != len(r.data) {
		r.fail("%d bytes behind its end", len(r.data)-r.at)
	}
	return r.err
}

func appendSized(b, x []byte) []byte {
	return append(be.AppendUint16(b, uint16(len(x))), x...)
}
