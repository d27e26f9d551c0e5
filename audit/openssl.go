package audit

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier"
)

// File is a file that goes beside a document or a script. Its name is plain: it holds no path.
type File struct {
	Name string
	Data []byte
}

// ScriptName is the file that [Reading.WithOpenSSL] puts its commands into.
const ScriptName = "recompute.sh"

// prelude defines the words of the script.
const prelude = `set -eu
at() { tail -c "+$(($2 + 1))" "$1" | head -c "$3"; }                    # FILE OFFSET SIZE: bytes of a file
hex() { od -An -v -tx1 | tr -d ' \n'; }                                 # bytes as hex
reversed() { od -An -v -tx1 | tr -s ' ' '\n' | tac | tr -d '\n'; }      # little-endian bytes as hex of the number
same() { test "$1" = "$2" || { echo "differs: $3: $1, want $2" >&2; exit 1; }; echo "ok: $3"; }
within() { grep -qF -e "$(base64 -w0 < "$1")" "$2" || { echo "differs: $1 is not in $2" >&2; exit 1; }; echo "ok: $1 is in $2"; }
has() { grep -qF -e "$1" "$2" || { echo "differs: $3" >&2; exit 1; }; echo "ok: $3"; }
der() { printf 'asn1=SEQUENCE:s\n[s]\nr=INTEGER:0x%s\ns=INTEGER:0x%s\n' "$1" "$2" > der.cnf; openssl asn1parse -genconf der.cnf -noout -out "$3"; }
`

// WithOpenSSL returns shell commands that redo by hand what a verdict rests on, with openssl and the usual tools (sh, GNU
// coreutils, sed, grep) and nothing of Assay, and the files that they work on; they run in the folder of the files and end
// with an error at the first thing that differs. What is redone: the digests of all inputs; the verdict's signature and
// what it names; for SEV-SNP, TDX, a TPM's quote and NVIDIA reports the signature, the certificate chain and the bytes
// that the claims' values were read from; what binds the components together. What is not, the commands say.
func (g *Reading) WithOpenSSL(ctx context.Context, index int64) (string, []File, error) {
	x, err := g.Explain(ctx, index)
	if err != nil {
		return "", nil, err
	}
	o, _, err := g.verdictAt(ctx, index)
	if err != nil {
		return "", nil, err
	}
	s := &byHand{Reading: g, ctx: ctx, x: x, o: o}
	for _, step := range []func() error{s.digests, s.signature, s.evidence, s.binding} {
		if err := step(); err != nil {
			return "", nil, err
		}
	}
	s.say("Not redone here: revocation lists and other collateral, reference values, the policy's rules, and the place in the log;")
	s.say("assay audit replay recomputes them all.")
	s.run("echo 'all of it agrees'")
	// Beside the files it finds them from wherever it is run.
	s.files = append(s.files, File{ScriptName, []byte("cd \"$(dirname \"$0\")\" || exit 2\n" + s.text.String())})
	return s.text.String(), s.files, nil
}

// byHand writes a script and its files.
type byHand struct {
	*Reading
	ctx   context.Context
	x     Explanation
	o     *opened
	text  strings.Builder
	files []File

	roots  attest.Roots
	expect attest.Expect
	bundle *attest.Bundle
	names  map[string]string // file of each part, by label and part
}

func (s *byHand) say(format string, args ...any) {
	fmt.Fprintf(&s.text, "# %s\n", Printable(fmt.Sprintf(format, args...)))
}

func (s *byHand) run(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

func (s *byHand) head(format string, args ...any) {
	s.text.WriteByte('\n')
	s.say(format, args...)
}

func (s *byHand) write(name string, data []byte) { s.files = append(s.files, File{name, data}) }

// fileName makes a plain name of a word that may come from the log.
func fileName(word string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(word[:min(len(word), 40)]))
	return strings.Trim(name, "-")
}

// digests checks that every input has the digest that the log names.
func (s *byHand) digests() error {
	s.say("Verdict of entry %d of the log %s: %s by %s, decided %s", s.x.Index, s.x.Origin, s.x.Outcome, s.x.Policy.Name, s.x.Decided)
	s.say("Needs openssl, sh, GNU coreutils, sed and grep. Run it in the folder that holds the files; it stops where something differs.")
	s.text.WriteString(prelude)
	var sums strings.Builder
	take := func(name string, digest canon.Digest) ([]byte, error) {
		data, err := s.blob(s.ctx, digest)
		if err != nil {
			return nil, err
		}
		s.write(name, data)
		fmt.Fprintf(&sums, "%s  %s\n", digest, name)
		return data, nil
	}
	for _, b := range []struct {
		name   string
		digest canon.Digest
	}{{"verdict.json", s.o.verdict.body}, {"appraisal.json", s.o.appraisal.body}, {"policy.json", s.o.policy}} {
		if _, err := take(b.name, b.digest); err != nil {
			return err
		}
	}
	count := map[string]int{}
	for _, in := range s.x.Inputs {
		name := fileName(in.Kind)
		count[name]++
		if name = fmt.Sprintf("input-%s-%d", name, count[name]); in.Kind == verifier.InputEvidence {
			name = "evidence.json"
		}
		data, err := take(name, in.Digest)
		if err != nil {
			return err
		}
		switch in.Kind {
		case verifier.InputRoots:
			if s.roots, err = attest.ParseRoots(data); err != nil {
				return wrong("%v", err)
			}
		case verifier.InputExpect:
			if err := canon.Unmarshal(data, &s.expect); err != nil {
				return wrong("%v", err)
			}
		}
	}
	s.write("SHA256SUMS", []byte(sums.String()))
	s.head("The inputs have the digests that the log names.")
	s.run("sha256sum -c SHA256SUMS")
	return nil
}

// signature checks the verdict's envelope (DSSE v1.0.2) and what the signed result names.
func (s *byHand) signature() error {
	body, err := s.blob(s.ctx, s.o.verdict.body)
	if err != nil {
		return err
	}
	env, err := ledger.ParseEnvelope(body)
	if err != nil {
		return wrong("%v", err)
	}
	i := slices.IndexFunc(s.keys.Of(ledger.UseResult), func(k ledger.Key) bool { return fingerprint(k.SPKI) == env.Signatures[0].KeyID })
	if i < 0 {
		return wrong("signed by a key that is not at hand")
	}
	key := s.keys.Of(ledger.UseResult)[i]
	pub, err := key.Public()
	if err != nil {
		return wrong("%v", err)
	}
	s.write("result-key.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: key.SPKI}))
	s.head("The verdict is signed over its DSSE encoding by the key %s. Whether that key is to be believed, a trust file says.", fingerprint(key.SPKI))
	s.run(`sed 's/.*"payload":"\([^"]*\)".*/\1/' verdict.json | base64 -d > result.json`)
	s.run(`sed 's/.*"sig":"\([^"]*\)".*/\1/' verdict.json | base64 -d > result.sig`)
	s.run(`same "$(openssl pkey -pubin -in result-key.pem -outform DER | sha256sum | head -c 64)" %s 'the key is the one that the envelope names'`, env.Signatures[0].KeyID)
	s.run(`{ printf 'DSSEv1 %d %s %%s ' "$(wc -c < result.json | tr -d ' ')"; cat result.json; } > result.pae`, len(env.PayloadType), env.PayloadType)
	switch pub.(type) {
	case ed25519.PublicKey:
		s.run("openssl pkeyutl -verify -pubin -inkey result-key.pem -rawin -in result.pae -sigfile result.sig")
	case *ecdsa.PublicKey:
		s.run("openssl dgst -sha256 -verify result-key.pem -signature result.sig result.pae")
	default:
		return wrong("signed by a key of a kind that this build does not know")
	}
	for _, n := range []struct {
		member string
		digest canon.Digest
	}{{"evidence", s.o.appraisal.evidence}, {"appraisal", s.o.appraisal.body}, {"policy", s.o.policy}} {
		s.run(`has '"%s":"%s"' result.json 'the signed result names this %s'`, n.member, n.digest, n.member)
	}
	s.run(`has '"verdict":"%s"' result.json 'the signed verdict is %s'`, s.x.Outcome, s.x.Outcome)
	for _, in := range s.x.Inputs {
		s.run(`has '{"kind":"%s","sha256":"%s"}' appraisal.json 'the appraisal names its input: %s'`, fieldWord(in.Kind), in.Digest, fieldWord(in.Kind))
	}
	return nil
}

// evidence redoes each component.
func (s *byHand) evidence() error {
	data, err := s.blob(s.ctx, s.o.appraisal.evidence)
	if err != nil {
		return err
	}
	env, err := ledger.ParseEnvelope(data)
	if err != nil {
		s.head("The evidence is not redone: it is no bundle.")
		return nil
	}
	b, _, err := attest.OpenBundle(env)
	if err != nil {
		s.head("The evidence is not redone: it is no bundle.")
		return nil
	}
	opened, err := verifier.Open(verifier.TypeBundle, data)
	if err != nil {
		return err
	}
	if opened.Fault() != nil {
		s.head("The evidence is not redone: its components cannot be read.")
		return nil
	}
	s.bundle, s.names = &b, map[string]string{}
	s.head("The bundle, signed by the session key that it names.")
	s.run(`sed 's/.*"payload":"\([^"]*\)".*/\1/' evidence.json | base64 -d > bundle.json`)
	s.run(`sed 's/.*"sig":"\([^"]*\)".*/\1/' evidence.json | base64 -d > bundle.sig`)
	s.run(`{ printf 'DSSEv1 %d %s %%s ' "$(wc -c < bundle.json | tr -d ' ')"; cat bundle.json; } > bundle.pae`, len(env.PayloadType), attest.BundleType)
	s.write("session-key.der", b.Keys.Sign)
	s.run("within session-key.der bundle.json")
	if pub, err := b.Keys.Verification(); err != nil || !opened.SignedBySession() {
		s.say("The session key's signature is not redone: this build finds that it does not hold.")
	} else if _, ok := pub.(ed25519.PublicKey); ok {
		s.run("openssl pkeyutl -verify -pubin -keyform DER -inkey session-key.der -rawin -in bundle.pae -sigfile bundle.sig")
	} else {
		s.run("openssl dgst -sha256 -keyform DER -verify session-key.der -signature bundle.sig bundle.pae")
	}
	subjects := opened.Subjects()
	for i, c := range b.Components {
		subject := subjects[i]
		s.head("%s: %s", subject, c.MediaType)
		for _, p := range c.Parts {
			name := fileName(subject) + "-" + fileName(p.Name)
			if slices.ContainsFunc(s.files, func(f File) bool { return f.Name == name }) {
				s.say("%s has two parts of one name; the second is left out.", subject)
				continue
			}
			s.names[c.Label+"\x00"+p.Name] = name
			s.write(name, p.Data)
			if len(p.Data) > maxWithin {
				s.say("%s is too large to be looked for in the bundle by a shell.", name)
			} else {
				s.run("within %s bundle.json", name)
			}
		}
		var done error
		switch c.MediaType {
		case sevsnp.MediaType:
			done = s.snp(subject, c)
		case tdx.MediaType:
			done = s.tdx(subject, c)
		case tpm.MediaType:
			done = s.tpm(subject, c)
		case nvidia.MediaTypeGPU, nvidia.MediaTypeSwitch:
			done = s.nvidia(subject, c)
		case attest.StatementMediaType:
			continue
		default:
			done = fmt.Errorf("this build has no commands for the format")
		}
		if done != nil {
			s.say("The signature of %s is not redone: %v.", subject, done)
		}
		s.values(subject, c)
	}
	return nil
}

// maxWithin is the largest part, in bytes, that a shell looks for in the bundle: one argument of a command holds 128 KiB.
const maxWithin = 90_000

func (s *byHand) affirmed(id, subject string) bool {
	return affirmed(s.o.logged.Claims, id+"@"+subject)
}

// values compares the bytes that each claim of a component was read from.
func (s *byHand) values(subject string, c attest.Component) {
	done := map[string]bool{}
	for _, check := range s.x.Checks {
		if check.Subject != subject {
			continue
		}
		for _, p := range check.Places {
			name := s.names[c.Label+"\x00"+p.Part]
			key := fmt.Sprintf("%s %d", name, p.Offset)
			if name == "" || p.Field == "" || done[key] {
				continue
			}
			done[key] = true
			if p.Size > MaxShown {
				data, _ := c.Part(p.Part)
				s.run("same \"$(at %s 0x%x %d | sha256sum | head -c 64)\" %s 'SHA-256 of %s at 0x%03x (%s)'", name, p.Offset, p.Size,
					canon.Sum(data[p.Offset:p.Offset+p.Size]), fieldWord(p.Field), p.Offset, check.Claim)
				continue
			}
			s.run("same \"$(at %s 0x%x %d | hex)\" %s '%s at 0x%03x (%s)'", name, p.Offset, p.Size, p.Hex, fieldWord(p.Field), p.Offset, check.Claim)
		}
	}
}

// fieldWord makes a field's name safe between quotes. Names come from this build's tables, and from numbers.
func fieldWord(name string) string { return strings.ReplaceAll(Printable(name), "'", "") }

// find returns a field of a component.
func find(list []partField, name string) (partField, bool) {
	i := slices.IndexFunc(list, func(f partField) bool { return f.Name == name })
	if i < 0 {
		return partField{}, false
	}
	return list[i], true
}

// certificates returns those of PEM text.
func certificates(text []byte) (certs []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return certs
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			certs = append(certs, c)
		}
	}
}

// anchor writes the root file that holds a self-signed certificate of a name, or of one that issued it, and returns its
// name.
func (s *byHand) anchor(issuer []byte) (string, bool) {
	for _, f := range s.roots.Files() {
		certs := certificates(f.Data)
		named := slices.ContainsFunc(certs, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, issuer) })
		if !named {
			continue
		}
		name := "root-" + fileName(strings.TrimSuffix(f.Name, ".pem")) + ".pem"
		if !slices.ContainsFunc(s.files, func(o File) bool { return o.Name == name }) {
			s.write(name, f.Data)
		}
		s.run("within %s input-roots-1", name)
		return name, true
	}
	return "", false
}

// snp redoes the signature of a report (56860, tables 23 and 139: ECDSA P-384 over bytes 0 to 29Fh, R and S little-endian)
// and the chain of the certificate.
func (s *byHand) snp(subject string, c attest.Component) error {
	name := fileName(subject)
	report, _ := c.Part(sevsnp.PartReport)
	if len(report) != sevsnp.ReportSize {
		return fmt.Errorf("it is no report")
	}
	var candidates [][]byte
	if table, ok := c.Part(sevsnp.PartCertificates); ok {
		candidates, _ = sevsnp.ParseTable(table)
	}
	inTable := len(candidates)
	for _, in := range s.x.Inputs {
		if in.Kind == attest.KindAMDCertificate {
			data, err := s.blob(s.ctx, in.Digest)
			if err != nil {
				return err
			}
			candidates = append(candidates, data)
		}
	}
	cert, at := signer(candidates, report)
	if cert == nil {
		return fmt.Errorf("there is no certificate of a chip at hand")
	}
	s.write(name+"-signer.der", cert.Raw)
	if at < inTable {
		table, _ := c.Part(sevsnp.PartCertificates)
		s.say("The certificate of the signing key, from the host's certificate table.")
		s.run(`same "$(at %s-%s 0x%x %d | sha256sum)" "$(sha256sum < %s-signer.der)" '%s-signer.der is in the table'`, name, sevsnp.PartCertificates,
			bytes.Index(table, cert.Raw), len(cert.Raw), name, name)
	} else {
		s.say("The certificate of the signing key: collateral.")
		s.run(`same "$(sha256sum < input-%s-%d)" "$(sha256sum < %s-signer.der)" '%s-signer.der is that collateral'`, fileName(attest.KindAMDCertificate), at-inTable+1, name, name)
	}
	s.run("openssl x509 -inform DER -in %s-signer.der -out %s-signer.pem", name, name)
	s.run("openssl x509 -in %s-signer.pem -pubkey -noout > %s-signer.pub", name, name)
	s.say("ECDSA P-384 with SHA-384 over bytes 0x000 to 0x29f; R at 0x2a0 and S at 0x2e8, little-endian.")
	s.run("head -c %d %s-report > %s-signed", sevsnp.SignedSize, name, name)
	s.run(`der "$(at %s-report 0x2a0 72 | reversed)" "$(at %s-report 0x2e8 72 | reversed)" %s-signature.der`, name, name, name)
	s.run("openssl dgst -sha384 -verify %s-signer.pub -signature %s-signature.der %s-signed", name, name, name)
	root, ok := s.anchor(cert.RawIssuer)
	if !ok {
		s.say("The chain is not redone: the root set does not hold the certificate's issuer.")
		return nil
	}
	s.say("ARK and ASK of the root set certify it, as of the appraisal, %s.", s.x.Appraised)
	s.run("openssl verify -no-CApath -no-CAstore -attime %d -CAfile %s %s-signer.pem", int64(s.x.Appraised), root, name)
	return nil
}

// signer returns the certificate whose key signed a report, else the first of a chip.
func signer(candidates [][]byte, report []byte) (found *x509.Certificate, at int) {
	raw := func(b []byte) []byte {
		b = bytes.Clone(b)
		slices.Reverse(b)
		return b
	}
	sig := ecdsaDER(raw(report[0x2A0:0x2A0+72]), raw(report[0x2E8:0x2E8+72]))
	for i, der := range candidates {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			continue
		}
		if key, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || c.IsCA || key.Params().BitSize != 384 {
			continue
		}
		if c.CheckSignature(x509.ECDSAWithSHA384, report[:sevsnp.SignedSize], sig) == nil {
			return c, i
		}
		if found == nil {
			found, at = c, i
		}
	}
	return found, at
}
