package audit

import (
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
)

// ecdsaDER writes a signature of big-endian r and s as ECDSA-Sig-Value (RFC 3279, section 2.2.3).
func ecdsaDER(r, s []byte) []byte {
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1BigInt(new(big.Int).SetBytes(r))
		b.AddASN1BigInt(new(big.Int).SetBytes(s))
	})
	return b.BytesOrPanic()
}

// SubjectPublicKeyInfo of a point, up to the point's coordinates (RFC 5480), as a shell's printf takes it.
const (
	spkiP256 = `\060\131\060\023\006\007\052\206\110\316\075\002\001\006\010\052\206\110\316\075\003\001\007\003\102\000\004`
	spkiP384 = `\060\166\060\020\006\007\052\206\110\316\075\002\001\006\005\053\201\004\000\042\003\142\000\004`
)

// tdx redoes the signatures of a quote (Intel TDX DCAP Quoting Library API, appendix A.3): the attestation key over header
// and body, the PCK over the QE report, the QE report over the attestation key; and the PCK's chain.
func (s *byHand) tdx(subject string, c attest.Component) error {
	quote, _ := c.Part(tdx.PartQuote)
	u, _, err := tdx.Parse(quote)
	if err != nil {
		return errors.New("it is no quote")
	}
	list := fieldsOf(c)
	at := func(field string) (partField, error) {
		f, ok := find(list, field)
		if !ok {
			return f, fmt.Errorf("it has no field %s", field)
		}
		return f, nil
	}
	var fs [7]partField
	for i, field := range []string{"SIGNATURE_DATA_SIZE", "SIGNATURE", "ATTESTATION_KEY", "QE_REPORT", "QE_REPORT_SIGNATURE", "QE_AUTH_SIZE", "PCK_CHAIN"} {
		if fs[i], err = at(field); err != nil {
			return err
		}
	}
	name := fileName(subject)
	file := name + "-" + fileName(tdx.PartQuote)
	s.say("The attestation key at 0x%x signs header and body, bytes 0x000 to 0x%03x, with ECDSA P-256 and SHA-256.", fs[2].Offset, fs[0].Offset-1)
	s.run("head -c %d %s > %s-signed", fs[0].Offset, file, name)
	s.run("at %s 0x%x 64 > %s-attestation-key", file, fs[2].Offset, name)
	s.run("{ printf '%s'; cat %s-attestation-key; } > %s-attestation-key.der", spkiP256, name, name)
	s.run(`der "$(at %s 0x%x 32 | hex)" "$(at %s 0x%x 32 | hex)" %s-signature.der`, file, fs[1].Offset, file, fs[1].Offset+32, name)
	s.run("openssl dgst -sha256 -keyform DER -verify %s-attestation-key.der -signature %s-signature.der %s-signed", name, name, name)
	s.say("The QE report binds the attestation key: its REPORTDATA begins with SHA-256 of the key and the authentication data.")
	s.run(`same "$(at %s 0x%x 32 | hex)" "$({ cat %s-attestation-key; at %s 0x%x %d; } | sha256sum | head -c 64)" 'the QE report binds the attestation key'`,
		file, fs[3].Offset+320, name, file, fs[5].Offset+2, len(u.Peek().QEAuth))
	s.say("The PCK certificate's key signs the QE report.")
	s.run("at %s 0x%x %d > %s-qe-report", file, fs[3].Offset, fs[3].Size, name)
	s.run("at %s 0x%x %d | tr -d '\\000' > %s-pck-chain.pem", file, fs[6].Offset, fs[6].Size, name)
	s.run("openssl x509 -in %s-pck-chain.pem -out %s-pck.pem", name, name)
	s.run("openssl x509 -in %s-pck.pem -pubkey -noout > %s-pck.pub", name, name)
	s.run(`der "$(at %s 0x%x 32 | hex)" "$(at %s 0x%x 32 | hex)" %s-qe-signature.der`, file, fs[4].Offset, file, fs[4].Offset+32, name)
	s.run("openssl dgst -sha256 -verify %s-pck.pub -signature %s-qe-signature.der %s-qe-report", name, name, name)
	chain := certificates(u.Peek().Chain)
	if len(chain) == 0 {
		return errors.New("its certificate chain does not parse")
	}
	s.chain(name+"-pck.pem", name+"-pck-chain.pem", chain)
	return nil
}

// chain verifies a certificate under the root set, with the certificates that came with it.
func (s *byHand) chain(leaf, untrusted string, presented []*x509.Certificate) {
	for _, c := range presented {
		root, ok := s.anchor(c.RawIssuer)
		if !ok {
			continue
		}
		s.say("A root of the root set certifies it, as of the appraisal, %s.", s.x.Appraised)
		s.run("openssl verify -no-CApath -no-CAstore -attime %d -CAfile %s -untrusted %s %s", int64(s.x.Appraised), root, untrusted, leaf)
		return
	}
	s.say("The chain is not redone: the root set holds no issuer of the chain.")
}

// nvidia redoes the signature of a report (DSP0274, section 10.11: ECDSA P-384 with SHA-384 over request and response).
func (s *byHand) nvidia(subject string, c attest.Component) error {
	sig, ok := find(fieldsOf(c), "SIGNATURE")
	chain, has := c.Part(nvidia.PartChain)
	certs := certificates(chain)
	if !ok || !has || len(certs) == 0 {
		return errors.New("there is no report with its certificates")
	}
	name := fileName(subject)
	file, half := name+"-"+fileName(nvidia.PartReport), sig.Size/2
	s.say("The device's key signs request and response, bytes 0x000 to 0x%03x, with ECDSA P-384 and SHA-384.", sig.Offset-1)
	s.run("head -c %d %s > %s-signed", sig.Offset, file, name)
	s.run("openssl x509 -in %s-%s -out %s-leaf.pem", name, fileName(nvidia.PartChain), name)
	s.run("openssl x509 -in %s-leaf.pem -pubkey -noout > %s-leaf.pub", name, name)
	s.run(`der "$(at %s 0x%x %d | hex)" "$(at %s 0x%x %d | hex)" %s-signature.der`, file, sig.Offset, half, file, sig.Offset+half, half, name)
	s.run("openssl dgst -sha384 -verify %s-leaf.pub -signature %s-signature.der %s-signed", name, name, name)
	s.chain(name+"-leaf.pem", name+"-"+fileName(nvidia.PartChain), certs)
	return nil
}

// tpm redoes the signature of a quote by its attestation key, and the digest over the registers (TPM 2.0 Library, part 2,
// sections 10.12 and 11.3).
func (s *byHand) tpm(subject string, c attest.Component) error {
	list := fieldsOf(c)
	number := func(field string) (int, bool) {
		f, ok := find(list, field)
		if !ok || f.Size != 2 {
			return 0, false
		}
		data, _ := c.Part(f.part)
		return int(binary.BigEndian.Uint16(data[f.Offset:])), true
	}
	scheme, ok1 := number("TPMT_SIGNATURE.sigAlg")
	alg, ok2 := number("TPMT_SIGNATURE.signature.hash")
	hash := map[int]string{0x000B: "sha256", 0x000C: "sha384", 0x000D: "sha512"}[alg]
	if !ok1 || !ok2 || hash == "" {
		return errors.New("its signature is of a kind that has no commands here")
	}
	name := fileName(subject)
	file := func(part string) string { return name + "-" + fileName(part) }
	key := name + "-ak.der"
	if err := s.attestationKey(name, list, number); err != nil {
		return err
	}
	s.say("The attestation key signs the quote, whole, with %s. Whose key it is, tpm.ak-bound says.", hash)
	switch uint16(scheme) {
	case tpm.AlgECDSA:
		r, ok1 := find(list, "TPMT_SIGNATURE.signature.signatureR")
		t, ok2 := find(list, "TPMT_SIGNATURE.signature.signatureS")
		if !ok1 || !ok2 {
			return errors.New("its signature is empty")
		}
		s.run(`der "$(at %s 0x%x %d | hex)" "$(at %s 0x%x %d | hex)" %s-signature.der`, file(tpm.PartSignature), r.Offset, r.Size, file(tpm.PartSignature), t.Offset, t.Size, name)
		s.run("openssl dgst -%s -keyform DER -verify %s -signature %s-signature.der %s", hash, key, name, file(tpm.PartQuote))
	case tpm.AlgRSASSA, tpm.AlgRSAPSS:
		sig, ok := find(list, "TPMT_SIGNATURE.signature.sig")
		if !ok {
			return errors.New("its signature is empty")
		}
		option := ""
		if uint16(scheme) == tpm.AlgRSAPSS {
			option = " -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:-2"
		}
		s.run("at %s 0x%x %d > %s-signature.bin", file(tpm.PartSignature), sig.Offset, sig.Size, name)
		s.run("openssl dgst -%s%s -keyform DER -verify %s -signature %s-signature.bin %s", hash, option, key, name, file(tpm.PartQuote))
	default:
		return errors.New("its signature is of a kind that has no commands here")
	}
	return s.registers(subject, hash, c, list)
}

// attestationKey makes the DER of the attestation key from the TPM's own form of it.
func (s *byHand) attestationKey(name string, list []partField, number func(string) (int, bool)) error {
	file := name + "-" + fileName(tpm.PartAK)
	s.say("The attestation key, as SubjectPublicKeyInfo.")
	if _, ok := find(list, "SubjectPublicKeyInfo"); ok {
		s.run("cp %s %s-ak.der", file, name)
		return nil
	}
	if n, ok := find(list, "TPMT_PUBLIC.unique"); ok { // RSA; exponent 0 stands for 65537
		s.run(`printf 'asn1=SEQUENCE:k\n[k]\na=SEQUENCE:i\nb=BITWRAP,SEQUENCE:r\n[i]\no=OID:rsaEncryption\np=NULL\n[r]\nn=INTEGER:0x%%s\ne=INTEGER:65537\n' "$(at %s 0x%x %d | hex)" > %s-ak.cnf`, file, n.Offset, n.Size, name)
		s.run("openssl asn1parse -genconf %s-ak.cnf -noout -out %s-ak.der", name, name)
		return nil
	}
	x, ok1 := find(list, "TPMT_PUBLIC.unique.x")
	y, ok2 := find(list, "TPMT_PUBLIC.unique.y")
	curve, ok3 := number("TPMT_PUBLIC.parameters.curveID")
	size, prefix := 32, spkiP256
	if uint16(curve) == tpm.CurveP384 {
		size, prefix = 48, spkiP384
	}
	if !ok1 || !ok2 || !ok3 || x.Size > size || y.Size > size {
		return errors.New("its attestation key is of a kind that has no commands here")
	}
	zeros := func(n int) string { return strings.Repeat(`\000`, n) }
	s.run("{ printf '%s%s'; at %s 0x%x %d; printf '%s'; at %s 0x%x %d; } > %s-ak.der", prefix, zeros(size-x.Size), file, x.Offset, x.Size, zeros(size-y.Size), file, y.Offset, y.Size, name)
	return nil
}

// registers redoes the digest that the quote signs over the registers shown.
func (s *byHand) registers(subject, hash string, c attest.Component, list []partField) error {
	digest, ok := find(list, "TPMS_ATTEST.attested.quote.pcrDigest")
	quote, _ := c.Part(tpm.PartQuote)
	q, err := tpm.ParseAttest(quote)
	if !ok || err != nil || len(q.Selections) == 0 {
		return errors.New("its bytes are no quote of registers")
	}
	if !s.affirmed("tpm.pcr-digest", subject) {
		s.say("The digest over the registers is not redone: tpm.pcr-digest is not affirmed.")
		return nil
	}
	name := fileName(subject)
	var parts []string
	for _, sel := range q.Selections {
		for _, index := range sel.PCRs {
			f, ok := find(list, fmt.Sprintf("PCR.%s:%d", sel.Bank, index))
			if !ok {
				return fmt.Errorf("register %d is not shown", index)
			}
			parts = append(parts, fmt.Sprintf("at %s-%s 0x%x %d", name, fileName(tpm.PartPCRs), f.Offset, f.Size))
		}
	}
	s.say("The quote signs a digest over the registers, in the order of its selections.")
	s.run(`same "$({ %s; } | %ssum | head -c %d)" "$(at %s-%s 0x%x %d | hex)" 'the registers are those that were quoted'`,
		strings.Join(parts, "; "), hash, 2*digest.Size, name, fileName(tpm.PartQuote), digest.Offset, digest.Size)
	return nil
}
