package verifier

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/ledger"
)

// ReadCollateral tells from its bytes what a file of collateral holds: what Intel and NVIDIA publish in the forms that
// packages tdx and nvidia read, certificates (DER, PEM, a certificate table), a revocation list (DER, PEM) or a signed deny list. It
// verifies none of it.
func ReadCollateral(data []byte) ([]attest.Collateral, error) {
	if len(data) > attest.MaxCRL {
		return nil, fmt.Errorf("collateral: %d bytes, at most %d", len(data), attest.MaxCRL)
	}
	for _, read := range []func([]byte) ([]attest.Collateral, error){tdx.ReadCollateral, nvidia.ReadCollateral} {
		if items, err := read(data); err != nil || items != nil {
			return items, err
		}
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return readDenyList(bytes.TrimSuffix(data, []byte("\n")))
	}
	if block, _ := pem.Decode(data); block != nil && block.Type == "X509 CRL" {
		return []attest.Collateral{{Kind: attest.KindAMDCRL, Data: block.Bytes}}, nil
	}
	if _, err := x509.ParseRevocationList(data); err == nil {
		return []attest.Collateral{{Kind: attest.KindAMDCRL, Data: data}}, nil
	}
	certs, err := sevsnp.ReadCertificates(data)
	if err != nil {
		return nil, errors.New("it is no collateral of a form that this build reads: want certificates (DER, PEM, certificate table), a revocation list, a deny list, what Intel signs with its issuer chain, or NVIDIA's manifests and OCSP answers")
	}
	var items []attest.Collateral
	for _, der := range certs {
		items = append(items, attest.Collateral{Kind: attest.KindAMDCertificate, Data: der})
	}
	return items, nil
}

// readDenyList reads JSON that is of no vendor's form. Only an envelope that holds a deny list is one: taken for a list
// that nobody signed, a file given by mistake would deny nothing and say nothing.
func readDenyList(data []byte) ([]attest.Collateral, error) {
	const none = "collateral: JSON of no form of Intel's or NVIDIA's, and no signed deny list"
	env, err := ledger.ParseEnvelope(data)
	if err != nil {
		return nil, fmt.Errorf(none+": %w", err)
	}
	if env.PayloadType != attest.DenyListType {
		return nil, fmt.Errorf(none+": the envelope holds %.80q, want %q", env.PayloadType, attest.DenyListType)
	}
	return []attest.Collateral{{Kind: attest.KindDenyList, Data: data}}, nil
}
