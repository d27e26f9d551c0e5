package tpm

import (
	"errors"

	"github.com/assay-network/assay/attest"
)

// ProveAK says why the certificate of an attestation key does not count, whatever key it is for, or nil.
func ProveAK(der []byte, c *attest.Case) error {
	if ch := prove([][]byte{der}, akLeaf, c); ch.fault != "" {
		return errors.New(ch.fault)
	}
	return nil
}
