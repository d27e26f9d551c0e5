package verifier

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/cloud/gcp"
	"github.com/assay-network/assay/attest/nvidia"
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

	TypeGPU    = "nvidia-gpu"
	TypeSwitch = "nvidia-switch"
	TypeSet    = "nvidia-set" // GPUs and switches of one machine, in several files
)

// Types returns the evidence types that this build reads.
func Types() []string {
	return []string{TypeBundle, TypeSEVSNP, TypeTDX, TypeTPM, TypeGCP, TypeAzureSNP, TypeAzureTDX, TypeGPU, TypeSwitch, TypeSet}
}

// Opened is evidence that was read but not judged.
type Opened struct {
	digests    []canon.Digest // of the files as received
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
	o := &Opened{digests: []canon.Digest{canon.Sum(data)}}
	switch typ {
	case TypeAny:
		if typ = detect(data); typ == TypeAny {
			o.fault = fmt.Errorf("%d bytes that begin with %s are of no format that this build reads: want an evidence bundle, an SEV-SNP report (%d bytes, raw or hex), a TDX quote (raw, hex or base64), a TPM quote in JSON, a recording of a GCP vTPM, an HCL report of Azure (raw, or in Trustee's evidence), or reports of NVIDIA GPUs and switches (NVIDIA's evidence file, raw or hex)",
				len(data), strconv.QuoteToASCII(string(data[:min(len(data), 16)])), sevsnp.ReportSize)
			return o, nil
		}
	case TypeBundle, TypeSEVSNP, TypeTDX, TypeTPM, TypeGCP, TypeAzureSNP, TypeAzureTDX, TypeGPU, TypeSwitch, TypeSet:
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
	case TypeGPU, TypeSwitch, TypeSet:
		o.openNVIDIA(typ, data)
	}
	return o, nil
}

// OpenSet reads the evidence of one machine that lies in several files: GPUs in one, switches in another.
func OpenSet(files ...[]byte) (*Opened, error) {
	set := &Opened{}
	for _, data := range files {
		o, err := Open(TypeSet, data)
		if err != nil {
			return nil, err
		}
		set.digests = append(set.digests, o.digests...)
		if set.fault == nil {
			set.fault = o.fault
		}
		for _, c := range o.components {
			set.openRaw(c.Component)
		}
	}
	if len(set.components) > attest.MaxComponents {
		set.fault = fmt.Errorf("%d components, at most %d", len(set.components), attest.MaxComponents)
	}
	if set.fault != nil {
		set.components = nil
	}
	return set, nil
}

// openNVIDIA reads reports of GPUs and switches: NVIDIA's evidence file, or one report, raw or in hex.
func (o *Opened) openNVIDIA(typ string, data []byte) {
	var components []attest.Component
	if text := bytes.TrimSpace(data); len(text) > 0 && (text[0] == '[' || text[0] == '{') { // a report begins with neither
		var err error
		if components, err = nvidia.ReadJSON(data); err != nil {
			o.fault = err
			return
		}
	} else {
		components = []attest.Component{nvidia.ReadFiles(data, nil)}
	}
	for _, c := range components {
		if typ == TypeGPU && c.Class != attest.ClassGPU || typ == TypeSwitch && c.Class != attest.ClassSwitch {
			o.fault, o.components = fmt.Errorf("component %+q is of class %s, and the type is %s", c.Label, c.Class, typ), nil
			return
		}
		o.openRaw(c)
	}
}

// WantsChain reports whether a device came without the certificates that only its host can give.
func (o *Opened) WantsChain() bool {
	return slices.ContainsFunc(o.components, func(c component) bool {
		_, has := c.Part(nvidia.PartChain)
		return rooms[c.MediaType].name == nvidia.Format && !has
	})
}

// AttachChain gives certificates (PEM, as the driver gives them) to a device that came without. They are evidence as the
// report is, and an input of the appraisal.
func (o *Opened) AttachChain(pem []byte) {
	o.digests = append(o.digests, canon.Sum(pem))
	for i, c := range o.components {
		report, ok := c.Part(nvidia.PartReport)
		if _, has := c.Part(nvidia.PartChain); ok && !has && rooms[c.MediaType].name == nvidia.Format {
			o.components[i].Component = nvidia.ReadFiles(report, pem)
			o.components[i].Label = c.Label
		}
	}
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
	case nvidia.IsJSON(data), nvidia.Recognize(data):
		return TypeSet
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

// openRaw takes a component of a vendor's file, numbered among those of its class.
func (o *Opened) openRaw(c attest.Component) {
	n := 0
	for _, other := range o.components {
		if other.Class == c.Class {
			n++
		}
	}
	o.components = append(o.components, component{c, c.Class + ":" + strconv.Itoa(n)})
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
func (o *Opened) Digest() canon.Digest { return o.digests[0] }

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

// Subjects returns the subjects of the components' claims, in the order of [Opened.Components].
func (o *Opened) Subjects() (subjects []string) {
	for _, c := range o.components {
		subjects = append(subjects, c.subject)
	}
	return subjects
}

// SignedBySession reports whether the session key that the bundle names signed it. That evidence covers this key, only an
// appraisal shows.
func (o *Opened) SignedBySession() bool { return o.signed }

// Fault says why the file is no evidence, or is nil.
func (o *Opened) Fault() error { return o.fault }
