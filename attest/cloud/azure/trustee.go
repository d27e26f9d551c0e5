package azure

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/attest/vendorjson"
)

// maxVersion is the newest version of Trustee's evidence. Version 0 is without a number.
const maxVersion = 2

// Recognize tells the format of a file, or returns "": an HCL report as its NV index holds it, or Trustee's evidence.
func Recognize(data []byte) string {
	if bytes.HasPrefix(data, []byte(magic)) {
		if len(data) >= runtimeStart && Kind(le.Uint32(data[headerSize+hardwareSize+8:])) == KindTDX {
			return FormatTDX
		}
		return FormatSNP
	}
	if len(data) > maxJSON || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return ""
	}
	names := vendorjson.Names(data)
	has := func(name string) bool { return slices.Contains(names, name) }
	switch {
	case !has("hcl_report") && !has("report"), !has("tpm_quote") && !has("quote"):
		return ""
	case has("td_quote"):
		return FormatTDX
	}
	return FormatSNP
}

// Read makes components of a file that [Recognize] knows: the quote of the virtual TPM, where there is one, then the HCL
// report. What is wrong with their content, an appraisal says; the error is for a file that is not of its form.
func Read(data []byte) ([]attest.Component, error) {
	if bytes.HasPrefix(data, []byte(magic)) {
		return []attest.Component{component(data, "", nil)}, nil
	}
	e, err := readTrustee(data)
	if err != nil {
		return nil, fmt.Errorf("read Trustee's evidence: %w", err)
	}
	cpu := component(e.report, PartVCEK, e.vcek)
	if e.quote != nil {
		cpu = component(e.report, PartQuote, e.quote)
	}
	var a appraisal
	if a.read(cpu) != nil {
		return []attest.Component{cpu}, nil // without the key that the report names there is nothing to judge the quote by
	}
	ak, err := x509.MarshalPKIXPublicKey(a.runtime.AK)
	if err != nil {
		panic("azure: internal error: an RSA key that does not encode")
	}
	vtpm, err := tpm.ReadFiles(tpm.Files{
		Message: e.message, PCRs: e.pcrs, AK: ak,
		Signature: tpm.Signature{Scheme: tpm.AlgRSASSA, Hash: eventlog.SHA256, RSA: e.signature}.Encode(),
	})
	if err != nil {
		return nil, fmt.Errorf("read Trustee's evidence: %w", err)
	}
	return []attest.Component{vtpm, cpu}, nil
}

// UserData returns what a guest that follows Trustee has written of a nonce: the nonce, and zeros up to 64 bytes.
func UserData(nonce []byte) []byte {
	return append(bytes.Clone(nonce), make([]byte, max(0, userDataSize-len(nonce)))...)
}

// component makes a component of a report and what may stand beside it.
func component(report []byte, beside string, data []byte) attest.Component {
	c := attest.Component{Class: attest.ClassCPU, MediaType: MediaType, Label: "cpu0", Parts: []attest.Part{{Name: PartReport, Data: report}}}
	if data != nil {
		c.Parts = append(c.Parts, attest.Part{Name: beside, Data: data})
	}
	return c
}

// trustee is what Trustee's evidence holds.
type trustee struct {
	message, signature, pcrs []byte // of the virtual TPM's quote; the registers behind one another
	report, vcek, quote      []byte
}

// readTrustee reads the evidence of the guest components of Confidential Containers (attester az-snp-vtpm and
// az-tdx-vtpm) in versions 0, 1 and 2. Version 0 writes bytes as lists of numbers, and of SEV-SNP under names of its own;
// the others write the quote in hex and the rest in base64.
func readTrustee(data []byte) (e trustee, err error) {
	if len(data) > maxJSON {
		return e, fmt.Errorf("%d bytes, at most %d", len(data), maxJSON)
	}
	r := reader{vendorjson.NewReader(data)}
	var version int
	quotes, reports := 0, 0
	quote := func() error {
		quotes++
		_, err := r.Object(true,
			r.bytes("message", &e.message, maxQuote, hex.DecodeString), r.bytes("signature", &e.signature, maxQuote, hex.DecodeString),
			vendorjson.Required("pcrs", func() error {
				return r.List(maxPCRs, func() error {
					var value []byte
					err := r.read(&value, maxPCR, hex.DecodeString)
					e.pcrs = append(e.pcrs, value...)
					return err
				})
			}))
		return err
	}
	report := func() error {
		reports++
		return r.read(&e.report, maxReport, base64URL)
	}
	_, err = r.Object(true,
		vendorjson.Optional("version", func() error { return r.Number(&version, 1<<16) }),
		vendorjson.Optional("quote", quote), vendorjson.Optional("tpm_quote", quote),
		vendorjson.Optional("report", report), vendorjson.Optional("hcl_report", report),
		vendorjson.Optional("vcek", func() error { return r.read(&e.vcek, attest.MaxCertificate, certificate) }),
		vendorjson.Optional("td_quote", func() error { return r.read(&e.quote, tdx.MaxQuote, base64URL) }))
	if err == nil {
		err = r.End()
	}
	switch {
	case err != nil:
		return e, err
	case version > maxVersion:
		return e, fmt.Errorf("version %d is not known to this build", version)
	case quotes != 1 || reports != 1:
		return e, fmt.Errorf("%d quotes and %d reports, want one of each", quotes, reports)
	case e.vcek != nil && e.quote != nil:
		return e, errors.New("a VCEK and a TDX quote")
	}
	return e, nil
}

type reader struct{ *vendorjson.Reader }

func (r reader) bytes(name string, into *[]byte, limit int, decode func(string) ([]byte, error)) vendorjson.Member {
	return vendorjson.Required(name, func() error { return r.read(into, limit, decode) })
}

// read reads bytes: a list of numbers, or a text that decode reads.
func (r reader) read(into *[]byte, limit int, decode func(string) ([]byte, error)) (err error) {
	*into = []byte{}
	if r.IsList() {
		return r.List(limit, func() error {
			var n int
			err := r.Number(&n, 255)
			*into = append(*into, byte(n))
			return err
		})
	}
	var text string
	if err = r.Text(&text); err != nil {
		return err
	}
	if *into, err = decode(text); err != nil {
		return errors.New("want bytes")
	}
	if len(*into) > limit {
		return fmt.Errorf("%d bytes, at most %d", len(*into), limit)
	}
	return nil
}

func base64URL(text string) ([]byte, error) { return fromBase64(base64.URLEncoding, text) }

// certificate reads one certificate, as PEM or in base64.
func certificate(text string) ([]byte, error) {
	if block, rest := pem.Decode([]byte(text)); block != nil {
		if block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
			return nil, errors.New("want one certificate")
		}
		return block.Bytes, nil
	}
	return base64URL(text)
}
