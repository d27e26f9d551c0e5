package mint_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	"github.com/google/go-sev-guest/verify"
	"github.com/google/go-sev-guest/verify/trust"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
)

// oracle verifies an extended report with another implementation, under the roots of a.
func oracle(t *testing.T, a *mint.AMD, report, table []byte) error {
	t.Helper()
	attestation, err := abi.ReportCertsToProto(append(bytes.Clone(report), table...))
	if err != nil {
		t.Fatal(err)
	}
	product, err := kds.ParseProductLine(string(a.Line)) // a version 2 report does not say it
	if err != nil {
		t.Fatal(err)
	}
	return verify.SnpAttestation(attestation, &verify.Options{
		DisableCertFetching: true, Now: now, Product: product,
		TrustedRoots: map[string][]*trust.AMDRootCerts{string(a.Line): {{
			ProductLine: string(a.Line), ProductCerts: &trust.ProductCerts{Ark: a.ARK.X509(), Ask: a.ASK.X509(), Asvk: a.ASVK.X509()},
		}}},
	})
}

func TestOracle(t *testing.T) {
	for _, line := range []sevsnp.Line{sevsnp.Milan, sevsnp.Genoa} { // go-sev-guest v0.15.0 cannot read a Turin VCEK
		a, impostor := mint.NewAMD(line), mint.NewImpostor(line)
		chip := a.Chip("one")
		vcek, vlek := a.VCEK(chip, tcb, mint.Options{}), a.VLEK("example-cloud", tcb, mint.Options{})
		for version := uint32(2); version <= 5; version++ {
			r := a.Fields(chip, tcb)
			r.Version, r.Measurement = version, [48]byte{1}
			byCloud := r
			byCloud.KeyInfo = r.KeyInfo.WithSigningKey(sevsnp.SigningVLEK)

			if err := oracle(t, a, mint.Report(r, vcek), a.VCEKTable(vcek)); err != nil {
				t.Errorf("%s v%d VCEK: %v", line, version, err)
			}
			if err := oracle(t, a, mint.Report(byCloud, vlek), mint.VLEKTable(vlek)); err != nil {
				t.Errorf("%s v%d VLEK: %v", line, version, err)
			}
			// Twins: one bit of the report; the impostor's certificate.
			raw := mint.Report(r, vcek)
			raw[0x90] ^= 1
			if err := oracle(t, a, raw, a.VCEKTable(vcek)); err == nil || !strings.Contains(err.Error(), "signature") {
				t.Errorf("%s v%d with a flipped bit: %v", line, version, err)
			}
			forged := impostor.VCEK(chip, tcb, mint.Options{})
			if err := oracle(t, a, mint.Report(r, forged), a.VCEKTable(forged)); err == nil {
				t.Errorf("%s v%d: the impostor's certificate is accepted", line, version)
			}
		}
	}
}
