package mint_test

import (
	"testing"

	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
)

// TestTPMSameBytes: a rerun gives the same quotes, logs and certificates, in this process and in all others.
func TestTPMSameBytes(t *testing.T) {
	m := mint.NewTPMMaker()
	for name, row := range map[string]struct {
		tpm  *mint.TPM
		want string
	}{
		"ecc":    {m.TPM("one"), "6fdc6957b7f5220fad8fba4ab488ee873547cf4b94382b435c6e5a1f4a37d23b"},
		"rsassa": {m.RSATPM("one", tpm.AlgRSASSA), "4042bf77e4051d08f67242949329bec6ff7244ff0684b8bc70fe988fd9bdc2ad"},
		"rsapss": {m.RSATPM("one", tpm.AlgRSAPSS), "024b1ce1a14506f4bd5be40550fc6726c38412a63588acbdc0f23274ec339b91"},
	} {
		row.tpm.Boot("quiet")
		c := row.tpm.Component([]byte("nonce"), row.tpm.PCRs(eventlog.SHA256, 0, 7, 10))
		ak, sloppy := row.tpm.AKCertificate(mint.TPMOptions{}).DER, row.tpm.EKCertificate(mint.TPMOptions{Sloppy: true}).DER
		p := c.Digest()
		if got := canon.Hash("test", p[:], ak, sloppy, m.Root.DER, m.CA.DER).String(); got != row.want {
			t.Errorf("%s: bytes have changed: digest of all is %s, was %s", name, got, row.want)
		}
	}
}
