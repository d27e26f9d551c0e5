package nvidia

import (
	"crypto/x509"
	"encoding/pem"

	"github.com/assay-network/assay/internal/canon"
)

// ProveRIM says why a manifest is not one that a root signed, or "", and when it may be used.
func ProveRIM(data, root []byte) (fault string, from, until canon.Time) {
	block, _ := pem.Decode(root)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		panic(err)
	}
	p := proveRIM(data, []*x509.Certificate{c})
	return p.fault, p.window.From, p.window.Until
}

// ReadPayload reads the measurements of a document that has little else.
func ReadPayload(data []byte) ([]Golden, error) {
	root, err := parseXML(data)
	if err != nil {
		return nil, err
	}
	els, err := root.elements()
	if err != nil {
		return nil, err
	}
	for _, e := range els {
		if e.local == "Payload" {
			return readPayload(e)
		}
	}
	return nil, nil
}

// Canonical returns the canonical form of a document.
func Canonical(data []byte) ([]byte, error) {
	root, err := parseXML(data)
	if err != nil {
		return nil, err
	}
	return root.canonical(nil), nil
}
