package nvidia

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// ReadFiles makes a component of a report (raw or in hex) and the certificates that came with it (PEM; nil: none). What is
// wrong with their content, an appraisal says.
func ReadFiles(report, chain []byte) attest.Component {
	return component(fromHex(report), chain, "", 0)
}

// component makes a component of class gpu, or switch where the report has as many blocks as one.
func component(report, chain []byte, arch string, number int) attest.Component {
	c := attest.Component{Class: attest.ClassGPU, MediaType: MediaTypeGPU, Parts: []attest.Part{{Name: PartReport, Data: report}}}
	if len(report) > 41 && report[41] == blocksSwitch {
		c.Class, c.MediaType = attest.ClassSwitch, MediaTypeSwitch
	}
	if chain != nil {
		c.Parts = append(c.Parts, attest.Part{Name: PartChain, Data: chain})
	}
	if arch != "" {
		c.Parts = append(c.Parts, attest.Part{Name: PartArch, Data: []byte(arch)})
	}
	c.Label = fmt.Sprintf("%s%d", c.Class, number)
	return c
}

// Recognize reports whether data looks like a report, raw or in hex; one of SPDM 1.2 as well, so that it is refused by name.
func Recognize(data []byte) bool {
	raw := fromHex(data)
	if bytes.HasPrefix(raw, []byte{0x10, 0x84, 0, 0, 0x10, 0x04}) { // GET_VERSION and VERSION in front
		return true
	}
	return len(raw) >= blocksAt && raw[1] == 0xe0 && (raw[0] == 0x11 || raw[0] == 0x12) && raw[requestSize+1] == 0x60
}

// evidence is one device in NVIDIA's evidence file. Other members are passed over, and so is the nonce: what a report must
// answer only the appraiser knows, and versions stand in the report itself.
type evidence struct {
	Arch        string  `json:"arch"`
	Evidence    string  `json:"evidence"`    // base64 of the report
	Certificate *string `json:"certificate"` // base64 of the PEM text
}

// IsJSON reports whether data looks like NVIDIA's evidence file.
func IsJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && (data[0] == '[' || data[0] == '{') && bytes.Contains(data, []byte(`"evidence"`)) && bytes.Contains(data, []byte(`"arch"`))
}

// ReadJSON makes components of NVIDIA's evidence file: [{"arch", "nonce", "evidence", "certificate"}], one item a device, as
// nvattest writes it, bare or as the member evidences of an object.
func ReadJSON(data []byte) ([]attest.Component, error) {
	if len(data) > attest.MaxBundle {
		return nil, fmt.Errorf("NVIDIA evidence: %d bytes, at most %d", len(data), attest.MaxBundle)
	}
	var items []evidence
	var err error
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '{' {
		var file struct {
			Evidences []evidence `json:"evidences"`
		}
		err = json.Unmarshal(data, &file)
		items = file.Evidences
	} else {
		err = json.Unmarshal(data, &items)
	}
	switch {
	case err != nil:
		return nil, errors.New(`NVIDIA evidence: it is not a list of objects with "arch", "evidence" and "certificate", each once`)
	case len(items) == 0 || len(items) > maxDevices:
		return nil, fmt.Errorf("NVIDIA evidence: %d devices, want 1 to %d", len(items), maxDevices)
	}
	count := map[string]int{}
	var components []attest.Component
	for i, e := range items {
		report, err := base64.StdEncoding.DecodeString(e.Evidence)
		if err != nil || len(report) == 0 {
			return nil, fmt.Errorf(`NVIDIA evidence: device %d: "evidence" is not base64`, i)
		}
		var chain []byte
		if e.Certificate != nil {
			if chain, err = base64.StdEncoding.DecodeString(*e.Certificate); err != nil || len(chain) == 0 {
				return nil, fmt.Errorf(`NVIDIA evidence: device %d: "certificate" is not base64`, i)
			}
		}
		if e.Arch == "" || len(e.Arch) > attest.MaxName {
			return nil, fmt.Errorf(`NVIDIA evidence: device %d: "arch" wants 1 to %d bytes`, i, attest.MaxName)
		}
		c := component(report, chain, e.Arch, 0)
		c.Label = fmt.Sprintf("%s%d", c.Class, count[c.Class])
		count[c.Class]++
		components = append(components, c)
	}
	return components, nil
}

// ReadCollateral tells from its bytes what a file of NVIDIA's collateral holds. It returns nothing for a file that is none
// of NVIDIA's, and an error for one that is and cannot be read. It verifies none of it. Forms: a manifest (XML, also called
// swidtag), the answer of NVIDIA's service that holds one (JSON with "rim"), an OCSP response (DER), a revocation list of an
// authority of NVIDIA's (DER, PEM); each also in base64.
func ReadCollateral(data []byte) ([]attest.Collateral, error) {
	text := bytes.TrimSpace(data)
	switch {
	case len(data) > attest.MaxCRL || len(text) == 0:
		return nil, nil
	case text[0] == '<' && bytes.Contains(text, []byte("SoftwareIdentity")):
		return manifestItem(data)
	case text[0] == '{' && bytes.Contains(text, []byte(`"rim"`)):
		return readServiceAnswer(text)
	}
	if block, _ := pem.Decode(data); block != nil {
		if block.Type != "X509 CRL" {
			return nil, nil
		}
		return readDER(block.Bytes), nil
	}
	if items := readDER(data); items != nil {
		return items, nil
	}
	inner, err := base64.StdEncoding.DecodeString(string(text))
	switch {
	case err != nil || len(inner) == 0:
		return nil, nil
	case inner[0] == '<' && bytes.Contains(inner, []byte("SoftwareIdentity")):
		return manifestItem(inner)
	}
	return readDER(inner), nil
}

func manifestItem(data []byte) ([]attest.Collateral, error) {
	if len(data) > MaxRIM {
		return nil, fmt.Errorf("NVIDIA manifest: %d bytes, at most %d", len(data), MaxRIM)
	}
	return []attest.Collateral{{Kind: attest.KindNVIDIARIM, Data: data}}, nil
}

// readServiceAnswer reads the answer of NVIDIA's service. Its id is the service's word and is passed over; its digest is
// compared, so that a broken download is noticed.
func readServiceAnswer(text []byte) ([]attest.Collateral, error) {
	var answer struct {
		RIM    string `json:"rim"`
		SHA256 string `json:"sha256"`
		Format string `json:"rim_format"`
	}
	if json.Unmarshal(text, &answer) != nil {
		return nil, errors.New("NVIDIA manifest: it is not an answer of NVIDIA's service")
	}
	doc, err := base64.StdEncoding.DecodeString(answer.RIM)
	switch {
	case answer.Format != "" && answer.Format != "TCG":
		return nil, fmt.Errorf("NVIDIA manifest: format %+.20q is not known to this build, want TCG", answer.Format)
	case err != nil || len(doc) == 0:
		return nil, errors.New(`NVIDIA manifest: "rim" is not base64`)
	case answer.SHA256 != "" && !strings.EqualFold(answer.SHA256, canon.Sum(doc).String()):
		return nil, fmt.Errorf("NVIDIA manifest: its digest is %s, the answer says %+.80q", canon.Sum(doc), answer.SHA256)
	}
	return manifestItem(doc)
}

// readDER tells an OCSP response from a revocation list. Lists of others are left to others.
func readDER(der []byte) []attest.Collateral {
	if len(der) <= MaxOCSP {
		if o := readOCSP(der); o.fault == "" {
			return []attest.Collateral{{Kind: attest.KindNVIDIAOCSP, Data: der}}
		}
	}
	if list, err := x509.ParseRevocationList(der); err == nil && strings.HasPrefix(list.Issuer.CommonName, "NVIDIA ") {
		return []attest.Collateral{{Kind: attest.KindNVIDIACRL, Data: der}}
	}
	return nil
}
