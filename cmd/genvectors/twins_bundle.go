package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
)

func (s *shelf) bindingTwins() {
	for _, r := range []struct {
		name, about string
		change      func(*scene)
	}{
		{"bundle-tail", "A byte behind the envelope.", func(sc *scene) { sc.file = func(b []byte) []byte { return append(b, ' ') } }},
		{"bundle-cut", "The last byte is missing.", func(sc *scene) { sc.file = func(b []byte) []byte { return b[:len(b)-1] } }},
		{"bundle-spaced", "A spelling of the same document that is not canonical.", func(sc *scene) {
			sc.payload = func(b []byte) []byte { return bytes.Replace(b, []byte(`"type":`), []byte(`"type": `), 1) }
		}},
		{"bundle-unknown-key", "A member that the type does not have.", func(sc *scene) {
			sc.payload = func(b []byte) []byte { return append([]byte(`{"approved":true,`), b[1:]...) }
		}},
		{"bundle-type", "A type of tomorrow.", func(sc *scene) { sc.sealed = func(b *attest.Bundle) { b.Type = "assay/bundle/v9" } }},
		{"bundle-class", "A class of component that nobody knows.", func(sc *scene) { sc.sealed = func(b *attest.Bundle) { b.Components[0].Class = "quantum" } }},
		{"bundle-media-type", "A media type that this build does not read.", func(sc *scene) {
			sc.sealed = func(b *attest.Bundle) { b.Components[0].MediaType = "application/x-other" }
		}},
		{"bundle-same-label", "Two components of one label.", func(sc *scene) { sc.sealed = func(b *attest.Bundle) { b.Components[1].Label = b.Components[0].Label } }},
		{"bundle-no-statement", "No statement of the agent.", func(sc *scene) { sc.sealed = func(b *attest.Bundle) { b.Components = b.Components[:1] } }},
		{"bundle-two-statements", "Two statements of the agent.", func(sc *scene) {
			sc.sealed = func(b *attest.Bundle) {
				again := b.Components[1]
				again.Label = "agent2"
				b.Components = append(b.Components, again)
			}
		}},
		{"bundle-no-seal", "The seal names no component.", func(sc *scene) { sc.sealed = func(b *attest.Bundle) { b.Seal = "cpu9" } }},
		{"bundle-33-components", "One component more than a bundle holds.", func(sc *scene) {
			sc.sealed = func(b *attest.Bundle) {
				for i := len(b.Components); i <= attest.MaxComponents; i++ {
					b.Components = append(b.Components, attest.Component{
						Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: fmt.Sprint("cpu", i), Parts: []attest.Part{{Name: sevsnp.PartReport}},
					})
				}
			}
		}},
	} {
		s.twin(r.name, r.about, r.change, reject, reject, "bundle.structure contradicted malformed")
	}
	s.twin("statement-garbled", "The statement is no document.", func(sc *scene) { sc.statement = []byte("hello") }, reject, reject, "statement.structure contradicted malformed")

	s.twin("challenge-other", "The bundle answers another challenge.", func(sc *scene) { sc.challenge.Nonce = bytesOf("other nonce", attest.NonceSize) },
		reject, reject, "binding.challenge contradicted mismatch", "sevsnp.freshness contradicted mismatch")
	s.twin("challenge-other-audience", "The agent answered a challenge of another verifier.", func(sc *scene) { sc.challenge.Origin = "https://elsewhere.example" },
		reject, reject, "binding.challenge contradicted mismatch", "sevsnp.freshness contradicted mismatch")
	s.twin("challenge-other-node", "Another node answered.", func(sc *scene) { sc.challenge.Node = "node-8" },
		reject, reject, "binding.challenge contradicted mismatch", "sevsnp.freshness contradicted mismatch")
	s.twin("challenge-unasked", "The appraiser was told of no challenge: nothing is fresh.", func(sc *scene) {
		sc.expect.Challenge = nil
	}, accept, undecided, "binding.challenge unknown no-expectation", "sevsnp.freshness unknown no-expectation")

	unsealed := []string{"binding.seal contradicted mismatch", "sevsnp.freshness contradicted mismatch"}
	s.twin("seal-other-statement", "The statement was exchanged after REPORT_DATA was taken.", func(sc *scene) {
		sc.sealed = func(b *attest.Bundle) {
			b.Components[1].Parts = []attest.Part{{Name: attest.PartStatement, Data: restated()}}
		}
	}, reject, reject, unsealed...)
	s.twin("seal-other-keys", "A stranger sends the evidence with his own session keys.", func(sc *scene) {
		sc.session = sessionKey("stranger")
		sc.sealed = func(b *attest.Bundle) { b.Keys.Sign = sc.session.spki() }
	}, reject, reject, unsealed...)
	s.twin("seal-other-kem", "The key that secrets are released to was exchanged.", func(sc *scene) {
		sc.sealed = func(b *attest.Bundle) { b.Keys.KEM = bytesOf("stranger's kem", 32) }
	}, reject, reject, unsealed...)
	s.twin("seal-old-report", "The report is of an earlier challenge, the bundle names the new one.", func(sc *scene) {
		now := sc.challenge.Digest()
		sc.challenge.Nonce = bytesOf("earlier nonce", attest.NonceSize)
		sc.sealed = func(b *attest.Bundle) { b.Challenge = now }
	}, reject, reject, unsealed...)
	s.twin("possession", "Another key than the covered one signed the bundle.", func(sc *scene) { sc.session = sessionKey("stranger") },
		reject, reject, "binding.possession contradicted bad-signature")
}

// restated is a statement of the same agent after another boot.
func restated() []byte {
	b, err := canon.Marshal(attest.Statement{Type: attest.StatementType, Agent: canon.Sum([]byte(agentName)), BootID: "00000000-0000-4000-8000-000000000001"})
	must(err)
	return b
}

func (s *shelf) identityTwins() {
	// A second CPU is no seal, whatever it shows. Its twin shows the chip of the first.
	two := func(chip string) scene {
		sc := s.base()
		other := s.scene(sevsnp.Genoa, 5)
		other.fields.ChipID = other.amd.Chip(chip)
		other.signer = other.amd.VCEK(other.fields.ChipID, tcbOf(sevsnp.Genoa), mint.Options{})
		second := reportComponent("cpu1", other.report(bytesOf("second report data", 64)))
		sc.second = &second
		sc.expect.Enrolled = append(slices.Clone(sc.expect.Enrolled), other.amd.Identity(other.amd.Chip("three")))
		if chip != "one" {
			sc.collateral = append(sc.collateral, other.certificate(other.signer, "vcek-chip-"+chip))
		}
		return sc
	}
	s.add("two-cpus", "A second CPU TEE in one bundle.", baseName, two("three"), answers{reject, reject, []string{"binding.seal contradicted second-seal"}})
	s.add("same-chip-twice", "The second CPU is the first once more.", "two-cpus", two("one"), answers{reject, reject, []string{"set.device-unique contradicted duplicate"}})
	masked := two("three")
	masked.fields.ChipID = mint.ChipID{}
	s.add("two-cpus-one-masked", "One of two hides its identity: they may be one.", "two-cpus", masked, answers{reject, reject, []string{
		"sevsnp.cert-chip-id@cpu:0 unknown masked", "set.device-unique unknown masked",
	}})
	s.twin("contested", "The registry knows the chip under another node.", func(sc *scene) {
		sc.expect.Registry = []attest.Holder{{Identity: sc.amd.Identity(sc.fields.ChipID), Node: "node-9"}}
	}, reject, reject, "set.device-unique contradicted contested")
	s.twin("not-enrolled", "The node was enrolled with another chip.", func(sc *scene) {
		sc.expect.Enrolled = []attest.Identity{sc.amd.Identity(sc.amd.Chip("three"))}
	}, reject, reject, "set.device-unique contradicted not-listed")
}

func (s *shelf) measuredTwins() {
	s.twin("guest-other", "MEASUREMENT is of a guest that nobody lists.", func(sc *scene) {
		sc.fields.Measurement[47] ^= 1
	}, accept, reject, "guest.measured contradicted not-listed", "sevsnp.measurement affirmed")
	s.twin("guest-unlisted", "No reference value for any SEV-SNP guest.", func(sc *scene) { sc.references = nil },
		accept, undecided, "guest.measured unknown no-reference", "agent.measured unknown no-reference")
	s.twin("agent-other", "The statement is by another agent than the measured one.", func(sc *scene) { sc.statement = statement("assay-agent 0.9", nil) },
		accept, reject, "agent.measured contradicted mismatch")
	s.twin("agent-not-inside", "The listed guest contains no agent.", func(sc *scene) { sc.references = []attest.References{sc.listed(canon.Digest{})} },
		accept, undecided, "agent.measured unknown no-reference")
}
