package verifier

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/cloud/gcp"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Evidence types, as a user names them. TypeAny is told from the bytes.
const (
	TypeAny    = ""
	TypeBundle = "bundle"
	TypeSEVSNP = "sev-snp"
	TypeTDX    = "tdx"
	TypeTPM    = "tpm"
	TypeGCP    = "gcp-vtpm"

	TypeAzureSNP = azure.FormatSNP
	TypeAzureTDX = azure.FormatTDX
)

// Types returns the evidence types that this build reads.
func Types() []string {
	return []string{TypeBundle, TypeSEVSNP, TypeTDX, TypeTPM, TypeGCP, TypeAzureSNP, TypeAzureTDX}
}

// Opened is evidence that was read but not judged.
type Opened struct {
	digest     canon.Digest // of the file as received
	bundle     *attest.Bundle
	signed     bool // by the session key that the bundle names
	components []component
	recording  *gcp.Recording // where the components are a recording's
	fault      error          // why the file is no evidence; components is then empty
}

type component struct {
	attest.Component
	subject string
}

// Open reads one file of evidence: an evidence bundle, or a vendor's raw file of the given type ([TypeAny]: told from its
// bytes). A file that is neither is not an error: it is evidence that will be rejected, with the reason. The error is for
// a caller who names a type that does not exist.
func Open(typ string, data []byte) (*Opened, error) {
	o := &Opened{digest: canon.Sum(data)}
	switch typ {
	case TypeAny:
		if typ = detect(data); typ == TypeAny {
			o.fault = fmt.Errorf("%d bytes that begin with %s are of no format that this build reads: want an evidence bundle, an SEV-SNP report (%d bytes, raw or hex), a TDX quote (raw, hex or base64), a TPM quote in JSON, a recording of a GCP vTPM, or an HCL report of Azure (raw, or in Trustee's evidence)",
				len(data), strconv.QuoteToASCII(string(data[:min(len(data), 16)])), sevsnp.ReportSize)
			return o, nil
		}
	case TypeBundle, TypeSEVSNP, TypeTDX, TypeTPM, TypeGCP, TypeAzureSNP, TypeAzureTDX:
	default:
		return nil, fmt.Errorf("evidence type %q is not known to this build: want %q", typ, Types())
	}
	if len(data) > attest.MaxBundle {
		o.fault = fmt.Errorf("%d bytes, at most %d", len(data), attest.MaxBundle)
		return o, nil
	}
	switch typ {
	case TypeBundle:
		o.openBundle(data)
	case TypeSEVSNP:
		o.openReport(data)
	case TypeTDX:
		raw, ok := tdx.Recognize(data)
		if !ok {
			raw = data // its room says what is wrong with it
		}
		o.openRaw(attest.Component{Class: attest.ClassCPU, MediaType: tdx.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: tdx.PartQuote, Data: raw}}})
	case TypeTPM:
		c, err := tpm.ReadJSON(data)
		if err != nil {
			o.fault = err
			return o, nil
		}
		o.openRaw(c)
	case TypeGCP:
		r, err := gcp.Read(data)
		if err != nil {
			o.fault = err
			return o, nil
		}
		o.recording = &r
		o.openRaw(r.TPM)
		if r.CPU != nil {
			o.openRaw(*r.CPU)
		}
	case TypeAzureSNP, TypeAzureTDX:
		o.openAzure(typ, data)
	}
	return o, nil
}

// openAzure reads evidence of a machine on Azure: its HCL report, and the quote of its virtual TPM where there is one.
func (o *Opened) openAzure(typ string, data []byte) {
	if is := azure.Recognize(data); is != "" && is != typ {
		o.fault = fmt.Errorf("the evidence is of type %s, not %s", is, typ)
		return
	}
	components, err := azure.Read(data)
	if err != nil {
		o.fault = err
		return
	}
	for _, c := range components {
		o.openRaw(c)
	}
}

// detect tells the type from the first bytes and the size; it returns TypeAny for what it does not know.
func detect(data []byte) string {
	_, isQuote := tdx.Recognize(data)
	onAzure := azure.Recognize(data)
	switch {
	case tpm.IsJSON(data):
		return TypeTPM
	case onAzure != "":
		return onAzure
	case len(data) > 0 && data[0] == '{':
		return TypeBundle
	case isQuote:
		return TypeTDX
	case gcp.Recognize(data):
		return TypeGCP
	case isHexReport(data), len(data) == sevsnp.ReportSize:
		return TypeSEVSNP
	case len(data) > sevsnp.ReportSize && binary.LittleEndian.Uint32(data) < 16:
		return TypeSEVSNP
	}
	return TypeAny
}

func isHexReport(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) == 2*sevsnp.ReportSize && len(bytes.Trim(data, "0123456789abcdefABCDEF")) == 0
}

// openReport reads an SNP report, raw or in hex, alone or with the host's certificate table behind it (an extended
// report). What is wrong with it, the format's own room says.
func (o *Opened) openReport(data []byte) {
	if isHexReport(data) {
		raw := make([]byte, sevsnp.ReportSize)
		if _, err := hex.Decode(raw, bytes.TrimSpace(data)); err != nil {
			o.fault = fmt.Errorf("hex digits do not decode")
			return
		}
		data = raw
	}
	c := attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0"}
	if len(data) > sevsnp.ReportSize {
		c.Parts = []attest.Part{{Name: sevsnp.PartReport, Data: data[:sevsnp.ReportSize]}, {Name: sevsnp.PartCertificates, Data: data[sevsnp.ReportSize:]}}
	} else {
		c.Parts = []attest.Part{{Name: sevsnp.PartReport, Data: data}}
	}
	o.openRaw(c)
}

// openRaw takes a component of a vendor's file, the one of its class.
func (o *Opened) openRaw(c attest.Component) {
	o.components = append(o.components, component{c, c.Class + ":0"})
}

func (o *Opened) openBundle(data []byte) {
	env, err := ledger.ParseEnvelope(bytes.TrimSuffix(data, []byte("\n")))
	if err != nil {
		o.fault = err
		return
	}
	b, signed, err := attest.OpenBundle(env)
	if err != nil {
		o.fault = err
		return
	}
	count := map[string]int{}
	var components []component
	for _, c := range b.Components {
		r, known := rooms[c.MediaType]
		switch {
		case c.Class == attest.ClassStatement && c.MediaType == attest.StatementMediaType:
		case !known:
			o.fault = fmt.Errorf("component %+q: media type %+q is not known to this build", c.Label, c.MediaType)
			return
		case c.Class != r.class:
			o.fault = fmt.Errorf("component %+q: class %q, want %q for %s", c.Label, c.Class, r.class, c.MediaType)
			return
		}
		components = append(components, component{c, c.Class + ":" + strconv.Itoa(count[c.Class])})
		count[c.Class]++
	}
	o.bundle, o.signed, o.components = &b, signed, components
}

// Needs returns the collateral that judging the evidence under a root set will want, were none at hand. It is the one
// list that a fetcher, a command line and the words of an undecided verdict share.
func (o *Opened) Needs(roots attest.Roots) (needs []attest.Need) {
	for _, c := range o.components {
		if r, ok := rooms[c.MediaType]; ok {
			needs = append(needs, r.needsOf(c, roots)...)
		}
	}
	return needs
}

// needsOf wants nothing for a component that the room fails on: its appraisal will say so.
func (r room) needsOf(c component, roots attest.Roots) (needs []attest.Need) {
	defer func() {
		if recover() != nil {
			needs = nil
		}
	}()
	return r.needs(c.Component, c.subject, roots)
}

// Digest returns the digest of the file as received.
func (o *Opened) Digest() canon.Digest { return o.digest }

// Bundle returns the evidence bundle, unverified, or nil for a vendor's raw file.
func (o *Opened) Bundle() *attest.Bundle { return o.bundle }

// Components returns the components in order, unverified.
func (o *Opened) Components() []attest.Component {
	var cs []attest.Component
	for _, c := range o.components {
		cs = append(cs, c.Component)
	}
	return cs
}

// SignedBySession reports whether the session key that the bundle names signed it. That evidence covers this key, only an
// appraisal shows.
func (o *Opened) SignedBySession() bool { return o.signed }

// Fault says why the file is no evidence, or is nil.
func (o *Opened) Fault() error { return o.fault }
