package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// A bundle is kept as a manifest: its envelope without the base64 in base64, and without the parts that come again with
// the machine's next bundle, which are blobs of their own, once. What answers a challenge stays in the manifest, where
// equal measurements of equal devices compress to one. FORMAT.md has every byte.

const (
	manifestTag = "assay/manifest/v1"

	// minOwnPart is the least size in bytes of a part that becomes a blob of its own: below, a row costs more than it saves.
	minOwnPart = 256
)

// recurring names the parts that a machine sends again and again as they are: certificates and logs.
var recurring = map[string]bool{
	nvidia.PartChain: true, sevsnp.PartCertificates: true, azure.PartVCEK: true,
	tpm.PartAKCertificate: true, tpm.PartEKCertificate: true, tpm.PartEventLog: true, tpm.PartIMA: true,
}

// How a part is held in a manifest.
const (
	partHere  = 0 // lp(bytes) follows
	partNamed = 1 // its digest follows
)

// skeleton is what is left of a bundle's envelope without the bytes of its parts.
type skeleton struct {
	Bundle     attest.Bundle      `json:"bundle"` // every part empty
	Signatures []ledger.Signature `json:"signatures"`
}

var bundleMark = []byte(`"payloadType":"` + attest.BundleType + `"`)

// splitBundle returns the manifest of a bundle's envelope and the parts that it names. Bytes that are no bundle, or would
// not come back to the bit, give false: they are kept as they are.
func splitBundle(data []byte) (manifest []byte, parts map[canon.Digest][]byte, ok bool) {
	if !bytes.Contains(data[max(0, len(data)-4096):], bundleMark) {
		return nil, nil, false
	}
	env, err := ledger.ParseEnvelope(data)
	if err != nil || env.PayloadType != attest.BundleType {
		return nil, nil, false
	}
	b, err := attest.ParseBundle(env.Payload)
	if err != nil {
		return nil, nil, false
	}
	var held []byte
	parts = map[canon.Digest][]byte{}
	for i := range b.Components {
		for j := range b.Components[i].Parts {
			p := &b.Components[i].Parts[j]
			if recurring[p.Name] && len(p.Data) >= minOwnPart {
				d := canon.Sum(p.Data)
				parts[d] = p.Data
				held = append(append(held, partNamed), d[:]...)
			} else {
				held = canon.AppendLP(append(held, partHere), p.Data)
			}
			p.Data = []byte{}
		}
	}
	head, err := canon.Marshal(skeleton{b, env.Signatures})
	if err != nil {
		return nil, nil, false
	}
	manifest = append(canon.AppendLP(canon.AppendLP(nil, []byte(manifestTag)), head), held...)
	again, err := joinBundle(manifest, func(d canon.Digest) ([]byte, error) { return parts[d], nil })
	return manifest, parts, err == nil && bytes.Equal(again, data)
}

// joinBundle returns the envelope that a manifest is of. part returns the parts that it names.
func joinBundle(manifest []byte, part func(canon.Digest) ([]byte, error)) ([]byte, error) {
	tag, rest, ok := cutLP(manifest)
	if !ok || string(tag) != manifestTag {
		return nil, fmt.Errorf("manifest: tag %.80q is not known to this build, want %q", tag, manifestTag)
	}
	head, rest, ok := cutLP(rest)
	if !ok {
		return nil, errors.New("manifest: ends too early")
	}
	var s skeleton
	if err := canon.Unmarshal(head, &s); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	for i := range s.Bundle.Components {
		for j := range s.Bundle.Components[i].Parts {
			p := &s.Bundle.Components[i].Parts[j]
			switch {
			case len(rest) > 0 && rest[0] == partHere:
				if p.Data, rest, ok = cutLP(rest[1:]); !ok {
					return nil, errors.New("manifest: ends too early")
				}
			case len(rest) > len(canon.Digest{}) && rest[0] == partNamed:
				d := canon.Digest(rest[1 : 1+len(canon.Digest{})])
				data, err := part(d)
				if err != nil {
					return nil, fmt.Errorf("manifest: part %q of component %q: %w", p.Name, s.Bundle.Components[i].Label, err)
				}
				p.Data, rest = data, rest[1+len(d):]
			default:
				return nil, errors.New("manifest: ends too early, or holds a part in a way that is not known to this build")
			}
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("manifest: %d bytes too many", len(rest))
	}
	payload, err := canon.Marshal(s.Bundle)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return canon.Marshal(ledger.Envelope{PayloadType: attest.BundleType, Payload: payload, Signatures: s.Signatures})
}

// cutLP cuts a length and as many bytes off b.
func cutLP(b []byte) (x, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int64(binary.BigEndian.Uint32(b))
	if n > int64(len(b)-4) {
		return nil, nil, false
	}
	return slices.Clip(b[4 : 4+n]), b[4+n:], true
}
