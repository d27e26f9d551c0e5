package mint

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/tpm"
)

// AzureVM is a confidential virtual machine on Azure, seen by its guest: a virtual TPM that the paravisor runs, and the
// paravisor's own report of the hardware, SEV-SNP or TDX. Its fields may be changed between requests.
type AzureVM struct {
	TPM      *TPM
	SNP      *Platform // nil: TDX
	TD       *TD       // nil: SEV-SNP
	UserData [64]byte  // what the guest had written
	Rewrite  func(runtime []byte) []byte
}

// AzureSNP returns a machine on SEV-SNP.
func AzureSNP(p *Platform, t *TPM) *AzureVM { return &AzureVM{TPM: t, SNP: p} }

// AzureTDX returns a machine on TDX.
func AzureTDX(td *TD, t *TPM) *AzureVM { return &AzureVM{TPM: t, TD: td} }

// Runtime returns the runtime data, written as the paravisor writes it, or as Rewrite changes that.
func (v *AzureVM) Runtime() []byte {
	key := func(id, use string, k *rsa.PublicKey) string {
		return fmt.Sprintf(`{"kid":%q,"key_ops":[%q],"kty":"RSA","e":"AQAB","n":%q}`, id, use, base64.RawURLEncoding.EncodeToString(k.N.Bytes()))
	}
	text := fmt.Appendf(nil, `{"keys":[%s,%s],"vm-configuration":{"console-enabled":true,"secure-boot":true,"tpm-enabled":true,"vmUniqueId":"26F8BC30-774E-4290-8E7A-535F3B672AEE"},"user-data":"%X"}`,
		key("HCLAkPub", "sign", v.ak()), key("HCLEkPub", "encrypt", v.TPM.ek.Public().(*rsa.PublicKey)), v.UserData)
	if v.Rewrite != nil {
		text = v.Rewrite(text)
	}
	return text
}

// ak returns the attestation key, which on Azure is an RSA key of 2048 bits.
func (v *AzureVM) ak() *rsa.PublicKey {
	return &rsa.PublicKey{N: new(big.Int).SetBytes(v.TPM.Public.N), E: 65537}
}

// Report returns the HCL report and what stands beside it: the chip's certificate, or the quote of the TD.
func (v *AzureVM) Report() (report azure.Report, beside []byte) {
	report = azure.Report{Version: 2, Runtime: v.Runtime(), Padding: 64}
	var data [64]byte
	sum := sha256.Sum256(report.Runtime)
	copy(data[:], sum[:])
	if v.SNP != nil {
		raw, _, err := v.SNP.Report(data, int(v.SNP.Fields.VMPL))
		must(err)
		report.Kind, report.Hardware = azure.KindSNP, raw
		return report, v.SNP.Signer.DER
	}
	report.Kind, report.Hardware = azure.KindTDX, make([]byte, 1024)
	report.Hardware[0] = 0x81 // type of a TDREPORT
	copy(report.Hardware[128:], data[:])
	return report, v.TD.Quote(data)
}

// CPU returns the HCL report as evidence.
func (v *AzureVM) CPU() attest.Component {
	report, beside := v.Report()
	name := azure.PartVCEK
	if v.TD != nil {
		name = azure.PartQuote
	}
	return attest.Component{Class: attest.ClassCPU, MediaType: azure.MediaType, Label: "cpu0", Parts: []attest.Part{
		{Name: azure.PartReport, Data: report.Encode()}, {Name: name, Data: beside},
	}}
}

// Quote returns a quote of the virtual TPM over registers as evidence, with the key alone: the runtime data names it so.
func (v *AzureVM) Quote(qualifying []byte, pcrs []tpm.PCR) attest.Component {
	c := v.TPM.Component(qualifying, pcrs)
	der, err := x509.MarshalPKIXPublicKey(v.ak())
	must(err)
	var parts []attest.Part
	for _, p := range c.Parts {
		switch p.Name {
		case tpm.PartAK:
			p.Data = der
		case tpm.PartEKCertificate:
			continue
		}
		parts = append(parts, p)
	}
	c.Parts = parts
	return c
}

// Trustee writes evidence as the guest components of Confidential Containers do, in a version from 0 to 2, with a quote
// over the first 24 registers.
func (v *AzureVM) Trustee(version int, qualifying []byte) []byte {
	registers := make([]int, 24)
	for i := range registers {
		registers[i] = i
	}
	pcrs := v.TPM.PCRs(eventlog.SHA256, registers...)
	message := v.TPM.Quote(qualifying, pcrs).Encode()
	signature, err := tpm.ParseSignature(v.TPM.Sign(message))
	must(err)
	report, beside := v.Report()
	quoted, list := func(b []byte) any { return hex.EncodeToString(b) }, func(b []byte) any {
		numbers := make([]int, len(b))
		for i, x := range b {
			numbers[i] = int(x)
		}
		return numbers
	}
	rest := func(b []byte) any { return base64.URLEncoding.EncodeToString(b) }
	names := map[string]string{"quote": "tpm_quote", "report": "hcl_report"}
	file := map[string]any{"version": version}
	vcek := rest(beside)
	if version == 0 {
		quoted, rest = list, list
		delete(file, "version")
		if v.SNP != nil {
			names = map[string]string{"quote": "quote", "report": "report"}
			vcek = string(v.SNP.Signer.PEM())
		}
	}
	var values []any
	for _, p := range pcrs {
		values = append(values, quoted(p.Value))
	}
	file[names["quote"]] = map[string]any{"message": quoted(message), "signature": quoted(signature.RSA), "pcrs": values}
	file[names["report"]] = rest(report.Encode())
	if v.SNP != nil {
		file["vcek"] = vcek
	} else {
		file["td_quote"] = rest(beside)
	}
	b, err := json.Marshal(file)
	must(err)
	return b
}

// Paravisor returns what the appraiser lists of the machine's paravisor.
func (v *AzureVM) Paravisor() attest.Reference {
	if v.TD != nil {
		return attest.Reference{Format: azure.FormatTDX, Guest: "mint paravisor 1", Measurement: bytes.Clone(v.TD.Fields.MRTD[:])}
	}
	return attest.Reference{Format: azure.FormatSNP, Guest: "mint paravisor 1", Measurement: bytes.Clone(v.SNP.Fields.Measurement[:])}
}
