package verifier_test

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"testing"

	"github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	pb "github.com/google/go-sev-guest/proto/sevsnp"
	"github.com/google/go-sev-guest/verify"
	"github.com/google/go-sev-guest/verify/trust"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/testvectors"
)

// oracleRoots are the AMD roots of a root set in go-sev-guest's form.
func oracleRoots(t *testing.T, roots attest.Roots) map[string][]*trust.AMDRootCerts {
	found := map[string][]*trust.AMDRootCerts{}
	for _, line := range sevsnp.Lines() {
		certs := &trust.ProductCerts{}
		for _, f := range roots.Files() {
			for b, rest := pem.Decode(f.Data); b != nil; b, rest = pem.Decode(rest) {
				c, err := x509.ParseCertificate(b.Bytes)
				if err != nil {
					t.Fatal(err)
				}
				switch c.Subject.CommonName {
				case "ARK-" + string(line):
					certs.Ark = c
				case "SEV-" + string(line):
					certs.Ask = c
				case "SEV-VLEK-" + string(line):
					certs.Asvk = c
				}
			}
		}
		found[string(line)] = []*trust.AMDRootCerts{{ProductLine: string(line), ProductCerts: certs}}
	}
	return found
}

// oracle asks go-sev-guest whether a report is genuine: chain, dates, signature, and the certificate's TCB and chip.
func oracle(t *testing.T, report []byte, c attest.Case, certs [][]byte, line sevsnp.Line) error {
	r, err := abi.ReportToProto(report)
	if err != nil {
		return err
	}
	chain := &pb.CertificateChain{}
	for _, der := range certs {
		x, err := x509.ParseCertificate(der)
		if err != nil {
			continue
		}
		switch x.Subject.CommonName {
		case "SEV-VCEK":
			chain.VcekCert = der
		case "SEV-VLEK":
			chain.VlekCert = der
		}
	}
	o := &verify.Options{DisableCertFetching: true, Now: c.At.Time(), TrustedRoots: oracleRoots(t, c.Roots)}
	if r.Version < 3 {
		if o.Product, err = kds.ParseProductLine(string(line)); err != nil {
			t.Fatal(err)
		}
	}
	return verify.SnpAttestation(&pb.Attestation{Report: r, CertificateChain: chain}, o)
}

// oracleDiffers lists where go-sev-guest v0.15.0 says otherwise, and why it is wrong or asks something else.
var oracleDiffers = map[string]string{
	"turin-v5":        "it does not know the FMC extension of a Turin VCEK (its issue 165)",
	"turin-dense-v5":  "the same",
	"turin-vlek-v5":   "the same extension in a VLEK",
	"bundle-turin-v5": "the same",
	"siena-v3":        "it knows no product of family 19h model A0h (its pull request 184)",
	"bergamo-v5":      "the same, model AFh",
	"bundle-siena-v4": "the same",

	"certificate-tcb":         "it compares the certificate's TCB in another package, where asked",
	"certificate-chip":        "it compares the certificate's chip in another package, where asked",
	"certificate-denied-chip": "the same",
	"chip-id-masked":          "the same; we say that a masked chip was not compared",
	"denied-chip-masked":      "the same",
	"milan-v2-masked":         "the same",
	"reserved-byte":           "it refuses to read a report with reserved bits; we read it and contradict sevsnp.reserved-bits",
	"reserved-policy":         "the same",
	"reserved-policy-one":     "the same",
	"chip-key-masked-signed":  "it does not look at MASK_CHIP_KEY",
}

// TestOracle compares every case that holds a report with go-sev-guest v0.15.0, minted and real.
func TestOracle(t *testing.T) {
	all, names := minted(t)
	var cases []testvectors.Case
	for _, name := range names {
		cases = append(cases, all[name])
	}
	asked, differ := 0, map[string]bool{}
	for _, c := range append(cases, realCases(t)...) {
		o, k, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		if o.Fault() != nil {
			continue
		}
		comp := o.Components()[0]
		if len(o.Components()) > 2 {
			continue // a second CPU, whose certificate the oracle cannot tell from the first's
		}
		report, _ := comp.Part(sevsnp.PartReport)
		if _, err := sevsnp.Parse(report); err != nil {
			continue
		}
		var certs [][]byte
		if table, ok := comp.Part(sevsnp.PartCertificates); ok {
			if certs, err = sevsnp.ParseTable(table); err != nil {
				continue
			}
		}
		for _, i := range k.Collateral {
			if i.Kind == attest.KindAMDCertificate {
				certs = append(certs, i.Data)
			}
		}
		if len(certs) == 0 {
			continue // the oracle would fetch
		}
		claims := judge(t, c).Appraisal.Claims
		genuine := true
		for _, id := range []string{"sevsnp.structure", "sevsnp.chain", "sevsnp.signing-key", "sevsnp.signature", "sevsnp.cert-tcb", "sevsnp.cert-chip-id"} {
			cl := claims.Find(id, "cpu:0")
			genuine = genuine && cl != nil && cl.Status == claim.Affirmed
		}
		line := sevsnp.Milan // a version 2 report does not say it
		if p := claims.Find("sevsnp.product", "cpu:0"); p != nil && p.Value != "" {
			line = sevsnp.Line(p.Value)
		}
		asked++
		if theirs := oracle(t, report, k, certs, line); (theirs == nil) != genuine {
			differ[c.Name] = true
			if _, known := oracleDiffers[c.Name]; !known {
				t.Errorf("%s: genuine %v, oracle: %v; report %s...", c.Name, genuine, theirs, hex.EncodeToString(report[:16]))
			}
		}
	}
	if asked < 80 {
		t.Errorf("the oracle was asked %d times", asked)
	}
	for name, why := range oracleDiffers {
		if !differ[name] {
			t.Errorf("%s: the oracle agrees now (%s)", name, why)
		}
	}
}
