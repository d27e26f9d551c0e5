package tpm

import (
	"encoding/hex"
	"strconv"

	"github.com/assay-network/assay/attest"
)

// Fields lists what the first four parts of a component say, each field by its structure and name, with its place in its
// part; numbers are big-endian. The names of structures are those of the TPM 2.0 Library, part 2; PCR is one register of
// the part that [EncodePCRs] writes. Nothing is verified.
func Fields(comp attest.Component) ([]attest.Field, error) {
	var a appraisal
	if err := a.read(comp); err != nil {
		return nil, err
	}
	part := func(name string) []byte { b, _ := comp.Part(name); return b }
	var l lister
	l.begin("TPMS_ATTEST", part(PartQuote))
	l.attest(a.quote)
	l.begin("TPMT_SIGNATURE", part(PartSignature))
	l.signature(a.signature)
	l.begin("PCR", part(PartPCRs))
	for _, p := range a.pcrs {
		l.at += 3 // bank and index, which the name says
		l.take(p.word(), len(p.Value))
	}
	if a.ak.public == nil {
		l.begin("SubjectPublicKeyInfo", part(PartAK))
		l.take("", len(l.data))
		return l.fields, nil
	}
	l.begin("TPMT_PUBLIC", part(PartAK))
	l.public(*a.ak.public)
	return l.fields, nil
}

// lister names the fields of structures that were parsed before.
type lister struct {
	fields    []attest.Field
	structure string
	data      []byte
	at        int
}

func (l *lister) begin(structure string, data []byte) { l.structure, l.data, l.at = structure, data, 0 }

func (l *lister) take(name string, size int) {
	full := l.structure
	if name != "" {
		full += "." + name
	}
	l.fields = append(l.fields, attest.Field{Name: full, Offset: l.at, Size: size, Hex: hex.EncodeToString(l.data[l.at : l.at+size])})
	l.at += size
}

// sized lists a TPM2B.
func (l *lister) sized(name string, size int) {
	l.take(name+".size", 2)
	if size > 0 {
		l.take(name, size)
	}
}

func (l *lister) attest(q Attest) {
	l.take("magic", 4)
	l.take("type", 2)
	l.sized("qualifiedSigner", len(q.QualifiedSigner))
	l.sized("extraData", len(q.ExtraData))
	l.take("clockInfo.clock", 8)
	l.take("clockInfo.resetCount", 4)
	l.take("clockInfo.restartCount", 4)
	l.take("clockInfo.safe", 1)
	l.take("firmwareVersion", 8)
	if q.Type != TypeQuote {
		if rest := len(l.data) - l.at; rest > 0 {
			l.take("attested", rest)
		}
		return
	}
	l.take("attested.quote.pcrSelect.count", 4)
	for i, s := range q.Selections {
		name := "attested.quote.pcrSelect[" + strconv.Itoa(i) + "]."
		l.take(name+"hash", 2)
		l.take(name+"sizeofSelect", 1)
		if s.Size > 0 {
			l.take(name+"pcrSelect", s.Size)
		}
	}
	l.sized("attested.quote.pcrDigest", len(q.PCRDigest))
}

func (l *lister) signature(s Signature) {
	l.take("sigAlg", 2)
	l.take("signature.hash", 2)
	if s.Scheme == AlgECDSA {
		l.sized("signature.signatureR", len(s.R))
		l.sized("signature.signatureS", len(s.S))
		return
	}
	l.sized("signature.sig", len(s.RSA))
}

func (l *lister) public(p Public) {
	if len(l.data) > len(p.Encode()) {
		l.take("size", 2) // inside a TPM2B_PUBLIC
	}
	l.take("type", 2)
	l.take("nameAlg", 2)
	l.take("objectAttributes", 4)
	l.sized("authPolicy", len(p.AuthPolicy))
	l.take("parameters.symmetric.algorithm", 2)
	if p.Symmetric != AlgNull {
		l.take("parameters.symmetric.keyBits", 2)
		l.take("parameters.symmetric.mode", 2)
	}
	l.take("parameters.scheme.scheme", 2)
	if p.Scheme != AlgNull && p.Scheme != AlgRSAES {
		l.take("parameters.scheme.hashAlg", 2)
	}
	if p.Type == AlgRSA {
		l.take("parameters.keyBits", 2)
		l.take("parameters.exponent", 4)
		l.sized("unique", len(p.N))
		return
	}
	l.take("parameters.curveID", 2)
	l.take("parameters.kdf.scheme", 2)
	if p.KDF != AlgNull {
		l.take("parameters.kdf.hashAlg", 2)
	}
	l.sized("unique.x", len(p.X))
	l.sized("unique.y", len(p.Y))
}
