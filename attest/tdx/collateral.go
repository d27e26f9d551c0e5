package tdx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/vendorjson"
	"github.com/assay-network/assay/internal/canon"
)

// SignedType is the type of the document that carries what Intel signed.
const SignedType = "assay/intel-signed/v1"

// Signed is a response of Intel's Provisioning Certification Service as collateral of kind [attest.KindIntelTCBInfo] or
// [attest.KindIntelQEIdentity]: the body as received, and the issuer chain that came in a header of the response. Its data
// is the canonical form.
type Signed struct {
	Type  string `json:"type"`           // assay/intel-signed/v1
	Chain string `json:"chain,omitzero"` // PEM: TCB signing certificate, root; empty: it did not come along
	Body  []byte `json:"body"`           // {"tcbInfo":…,"signature":…} or {"enclaveIdentity":…,"signature":…}
}

// NewSigned makes an item of collateral from a response of Intel's service: its kind, the issuer chain (PEM, or as the
// header has it, URL-encoded; empty where there is none) and the body.
func NewSigned(kind, chain string, body []byte) (attest.Collateral, error) {
	if !strings.Contains(chain, "\n") {
		decoded, err := url.QueryUnescape(chain)
		if err != nil {
			return attest.Collateral{}, errors.New("Intel collateral: the issuer chain is neither PEM nor URL-encoded PEM")
		}
		chain = decoded
	}
	if len(body) > MaxBody || len(chain) > MaxChain {
		return attest.Collateral{}, fmt.Errorf("Intel collateral: body of %d bytes, chain of %d, at most %d and %d", len(body), len(chain), MaxBody, MaxChain)
	}
	data, err := canon.Marshal(Signed{SignedType, strings.Trim(chain, "\x00"), body})
	if err != nil {
		return attest.Collateral{}, fmt.Errorf("Intel collateral: %w", err)
	}
	return attest.Collateral{Kind: kind, Data: data}, nil
}

// openSigned reads an item of collateral.
func openSigned(data []byte) (s Signed, err error) {
	if len(data) > 2*(MaxBody+MaxChain) {
		return s, fmt.Errorf("%d bytes, at most %d", len(data), 2*(MaxBody+MaxChain))
	}
	if err := canon.Unmarshal(data, &s); err != nil {
		return s, errors.New("it is not a document of type " + SignedType)
	}
	if s.Type != SignedType || len(s.Body) > MaxBody || len(s.Chain) > MaxChain {
		return s, errors.New("it is not a document of type " + SignedType)
	}
	return s, nil
}

// signer is a certificate that may have signed TCB info and QE identities.
type signer struct {
	digest canon.Digest // of the certificate
	key    *ecdsa.PublicKey
	serial string // hex
	root   *x509.Certificate
	window attest.Window
}

// signerIn returns the TCB signing certificate of a PEM chain, if a root of the set signed it. It looks at the first that
// calls itself one, so that a chain costs one check.
func (as anchored) signerIn(chain []byte) *signer {
	for range maxChainCerts {
		var block *pem.Block
		if block, chain = pem.Decode(chain); block == nil {
			return nil
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.Subject.CommonName == nameTCBSigner {
			return as.signer(block.Bytes)
		}
	}
	return nil
}

// signer reads a TCB signing certificate that a root of the set signed directly. A PCK CA is none, although the same root
// signed it.
func (as anchored) signer(der []byte) *signer {
	c, err := x509.ParseCertificate(der)
	if err != nil || c.Subject.CommonName != nameTCBSigner || c.IsCA {
		return nil
	}
	s := signer{digest: canon.Sum(der), serial: c.SerialNumber.Text(16)}
	if s.key, err = p256Key(c); err != nil {
		return nil
	}
	if s.root = as.signedBy(c); s.root == nil {
		return nil
	}
	s.window = attest.CertificateWindow(s.root).And(attest.CertificateWindow(c))
	return &s
}

// verify reports whether signature, 64 bytes in hex, is the signer's over message.
func (s signer) verify(message []byte, signature string) bool {
	raw, err := hex.DecodeString(signature)
	return err == nil && len(raw) == signatureSize && verifyP256(s.key, message, [signatureSize]byte(raw))
}

// verifyP256 verifies R and S, big-endian.
func verifyP256(key *ecdsa.PublicKey, message []byte, signature [signatureSize]byte) bool {
	sum := sha256.Sum256(message)
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	return ecdsa.Verify(key, sum[:], r, s)
}

// ReadCollateral tells from its bytes what a file of Intel's collateral holds. It returns nothing for a file that is none
// of Intel's, and an error for one that is and cannot be read. It verifies none of it. Forms: a body of Intel's service
// (TCB info, QE identity); a document of ours; the collateral of dcap-qvl (JSON); recorded responses (JSON: by URL, header
// and body_b64); revocation lists (DER, PEM, hex); TCB signing certificates (DER, PEM).
func ReadCollateral(data []byte) ([]attest.Collateral, error) {
	text := bytes.TrimSpace(data)
	switch {
	case len(data) > attest.MaxCRL:
		return nil, nil
	case bytes.HasPrefix(text, []byte("{")):
		return readJSON(text)
	}
	if der := unhex(text); der != nil {
		return readDER(der), nil
	}
	if block, _ := pem.Decode(data); block == nil {
		return readDER(data), nil
	}
	var items []attest.Collateral
	for rest := data; len(items) < attest.MaxCollateral; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		items = append(items, readDER(block.Bytes)...)
	}
	return items, nil
}

func unhex(text []byte) []byte {
	if len(text) < 4 || text[0] != '3' || text[1] != '0' { // a SEQUENCE
		return nil
	}
	der := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(der, text); err != nil {
		return nil
	}
	return der
}

// readDER tells Intel's revocation lists and TCB signing certificates by their names. PCK certificates and CAs come in
// quotes, and roots from the root set.
func readDER(der []byte) []attest.Collateral {
	if list, err := x509.ParseRevocationList(der); err == nil {
		switch name := list.Issuer.CommonName; {
		case name == nameRoot:
			return []attest.Collateral{{Kind: attest.KindIntelRootCRL, Data: der}}
		case caOf[name] != "":
			return []attest.Collateral{{Kind: attest.KindIntelPCKCRL, Data: der}}
		}
		return nil
	}
	if c, err := x509.ParseCertificate(der); err == nil && c.Subject.CommonName == nameTCBSigner {
		return []attest.Collateral{{Kind: attest.KindIntelCertificate, Data: der}}
	}
	return nil
}

// readJSON tells the JSON forms apart by the names of their members.
func readJSON(text []byte) ([]attest.Collateral, error) {
	names := vendorjson.Names(text)
	has := func(want string) bool { return slices.Contains(names, want) }
	switch {
	case has("tcbInfo") || has("enclaveIdentity"):
		kind := attest.KindIntelTCBInfo
		if has("enclaveIdentity") {
			kind = attest.KindIntelQEIdentity
		}
		item, err := NewSigned(kind, "", text)
		return []attest.Collateral{item}, err
	case has("type") && has("body"):
		return readSigned(text)
	case has("tcb_info") || has("qe_identity"):
		return readQVL(text)
	case len(names) > 0 && strings.HasPrefix(names[0], "https://") && strings.Contains(names[0], ".trustedservices.intel.com/"):
		return readResponses(text)
	}
	return nil, nil
}

func readSigned(text []byte) ([]attest.Collateral, error) {
	s, err := openSigned(text)
	if err != nil {
		return nil, nil
	}
	kind := attest.KindIntelTCBInfo
	if bytes.HasPrefix(s.Body, []byte(`{"enclaveIdentity"`)) {
		kind = attest.KindIntelQEIdentity
	}
	return []attest.Collateral{{Kind: kind, Data: text}}, nil
}

// readQVL reads the collateral file of dcap-qvl, which holds what Intel signed as text.
func readQVL(text []byte) (items []attest.Collateral, err error) {
	var tcb, tcbSig, tcbChain, qe, qeSig, qeChain, crlChain, pckCRL, rootCRL string
	r := newReader(text)
	into := func(name string, s *string) vendorjson.Member {
		return vendorjson.Optional(name, func() error { return r.Text(s) })
	}
	if _, err = r.Object(false, into("tcb_info", &tcb), into("tcb_info_signature", &tcbSig), into("tcb_info_issuer_chain", &tcbChain),
		into("qe_identity", &qe), into("qe_identity_signature", &qeSig), into("qe_identity_issuer_chain", &qeChain),
		into("pck_crl_issuer_chain", &crlChain), into("pck_crl", &pckCRL), into("root_ca_crl", &rootCRL)); err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, fmt.Errorf("collateral of dcap-qvl: %w", err)
	}
	for _, s := range []struct{ kind, member, signed, signature, chain string }{
		{attest.KindIntelTCBInfo, "tcbInfo", tcb, tcbSig, tcbChain}, {attest.KindIntelQEIdentity, "enclaveIdentity", qe, qeSig, qeChain},
	} {
		if s.signed == "" {
			continue
		}
		item, err := NewSigned(s.kind, s.chain, []byte(`{"`+s.member+`":`+s.signed+`,"signature":"`+s.signature+`"}`))
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	for _, list := range []string{pckCRL, rootCRL} {
		items = append(items, readDER(unhex([]byte(list)))...)
	}
	return items, nil
}

// readResponses reads recorded responses of Intel's service: {URL: {"header": {NAME: [VALUE]}, "body_b64": BASE64}}.
func readResponses(text []byte) (items []attest.Collateral, err error) {
	r := newReader(text)
	var members []vendorjson.Member
	for _, name := range vendorjson.Names(text) {
		members = append(members, vendorjson.Required(name, func() error {
			got, err := r.response()
			items = append(items, got...)
			return err
		}))
	}
	if _, err = r.Object(true, members...); err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, fmt.Errorf("recorded responses of Intel's service: %w", err)
	}
	return items, nil
}

// response reads one recorded response. What it is, its body says.
func (r *reader) response() (items []attest.Collateral, err error) {
	var body, chain string
	header := func() error {
		if r.Null() {
			return nil
		}
		var members []vendorjson.Member
		for _, name := range []string{"Tcb-Info-Issuer-Chain", "Sgx-Enclave-Identity-Issuer-Chain", "Sgx-Tcb-Info-Issuer-Chain"} {
			members = append(members, vendorjson.Optional(name, func() error { return r.List(1, func() error { return r.Text(&chain) }) }))
		}
		_, err := r.Object(false, members...)
		return err
	}
	if _, err = r.Object(true, vendorjson.Optional("header", header), vendorjson.Required("body_b64", func() error { return r.Text(&body) })); err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, errors.New("body_b64 is not base64")
	}
	items, err = ReadCollateral(raw)
	for i, item := range items {
		if s, err := openSigned(item.Data); err == nil && chain != "" {
			if items[i], err = NewSigned(item.Kind, chain, s.Body); err != nil {
				return nil, err
			}
		}
	}
	return items, err
}
