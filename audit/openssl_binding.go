package audit

import (
	"fmt"
	"strings"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
)

// hash runs H or H64 of the design (section 2.2): SHA-256 or SHA-512 over a tag and byte strings, each behind its length in
// four bytes, big-endian. The strings are files.
func (s *byHand) hash(algorithm, out, tag string, inputs ...sizedFile) {
	length := func(n int) string {
		return fmt.Sprintf(`\%03o\%03o\%03o\%03o`, n>>24&0xff, n>>16&0xff, n>>8&0xff, n&0xff)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{ printf '%s%s'", length(len(tag)), tag)
	for _, f := range inputs {
		fmt.Fprintf(&b, "; printf '%s'; cat %s", length(f.size), f.name)
	}
	s.run("%s; } | openssl dgst -%s -binary > %s", b.String(), algorithm, out)
}

// sizedFile is a file and how many bytes it will have.
type sizedFile struct {
	name string
	size int
}

// binding redoes what the seal covers: the challenge, the session keys and every other component.
func (s *byHand) binding() error {
	const digest = 32
	b := s.bundle
	if b == nil {
		return nil
	}
	s.head("What binds the bundle together (Assay design, section 2.2).")
	if !s.affirmed("binding.seal", "node") {
		s.say("It is not redone: binding.seal is not affirmed.")
		return nil
	}
	given := func(name string, data []byte) sizedFile {
		s.write(name, data)
		return sizedFile{name, len(data)}
	}
	s.say("K, the session keys.")
	s.hash("sha256", "k.bin", "assay/keys/v1", sizedFile{"session-key.der", len(b.Keys.Sign)}, given("kem-key.bin", b.Keys.KEM))
	if ch := s.expect.Challenge; ch != nil && s.affirmed("binding.challenge", "node") {
		s.say("A, whom it is for, and N, the challenge that was issued.")
		s.hash("sha256", "a.bin", "assay/audience/v1", given("audience-origin", []byte(ch.Origin)), given("audience-key.der", ch.ResultKey))
		s.hash("sha256", "n.bin", "assay/challenge/v1", sizedFile{"a.bin", digest}, given("challenge-checkpoint", ch.Checkpoint[:]),
			given("challenge-node", []byte(ch.Node)), given("challenge-nonce", ch.Nonce), given("challenge-renter", ch.Renter))
		s.run(`has "\"challenge\":\"$(hex < n.bin)\"" bundle.json 'the bundle answers the challenge that was issued'`)
	} else {
		s.say("N, the challenge that the bundle says it answers. That it was issued is not redone.")
		given("n.bin", b.Challenge[:])
	}
	s.say("E, all components but the seal, each by the digests of its parts.")
	var covered []sizedFile
	for i, c := range b.Components {
		if c.Label == b.Seal {
			continue
		}
		name := fmt.Sprintf("p%d", i)
		parts := []sizedFile{given(name+"-media-type", []byte(c.MediaType)), given(name+"-class", []byte(c.Class)), given(name+"-label", []byte(c.Label))}
		for k, p := range c.Parts {
			sum := fmt.Sprintf("%s-part%d.bin", name, k)
			s.run("openssl dgst -sha256 -binary < %s > %s", s.names[c.Label+"\x00"+p.Name], sum)
			parts = append(parts, sizedFile{sum, digest})
		}
		s.hash("sha256", name+".bin", "assay/component/v1", parts...)
		covered = append(covered, sizedFile{name + ".bin", digest})
	}
	s.hash("sha256", "e.bin", "assay/components/v1", covered...)
	all := []sizedFile{{"n.bin", digest}, {"k.bin", digest}, {"e.bin", digest}}
	for _, c := range b.Components {
		if c.Label != b.Seal {
			continue
		}
		field, algorithm, tag := "", "sha512", "assay/report-data/v1"
		switch c.MediaType {
		case sevsnp.MediaType:
			field = "REPORT_DATA"
		case tdx.MediaType:
			field = "REPORTDATA"
		case tpm.MediaType:
			field, algorithm, tag = "TPMS_ATTEST.extraData", "sha256", "assay/qualifying-data/v1"
		}
		f, ok := find(fieldsOf(c), field)
		if !ok {
			s.say("The seal is not redone: this build has no commands for its format.")
			return nil
		}
		s.say("What the seal must hold, and what it holds.")
		s.hash(algorithm, "sealed.bin", tag, all...)
		s.run(`same "$(hex < sealed.bin)" "$(at %s 0x%x %d | hex)" 'the seal covers challenge, keys and components'`, s.names[c.Label+"\x00"+f.part], f.Offset, f.Size)
	}
	return nil
}
