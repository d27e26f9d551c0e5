// Package inputs reads, from files, what a person hands to an appraisal: policies, root sets, reference values,
// expectations, collateral. Every file is bounded before it is read, and what it holds is told from its content. Nothing
// is verified here.
package inputs

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// maxKeyFile is how large a file with one key may be, in bytes.
const maxKeyFile = 16 << 10

// Policy takes a built-in policy by its name, else reads a policy file. FILE,KEY is a signed policy and the PEM file of the
// public key that must have signed it. It says in words whose the policy is: built in, not signed, or signed by a key.
func Policy(name string) (p *policy.Policy, from string, err error) {
	if p, ok := policy.Builtin(name); ok {
		return p, "built in", nil
	}
	file, keyFile := name, ""
	if i := strings.LastIndexByte(name, ','); i >= 0 {
		file, keyFile = name[:i], name[i+1:]
	}
	data, err := files.Bounded(file, ledger.MaxEnvelope)
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", fmt.Errorf("policy %q: no such file, and not built in (%s)", file, strings.Join(policy.Builtins(), ", "))
	}
	if err != nil {
		return nil, "", fmt.Errorf("policy: %w", err)
	}
	if from = "not signed"; keyFile != "" {
		if data, from, err = signedPolicy(file, data, keyFile); err != nil {
			return nil, "", err
		}
	} else if IsEnvelope(data) {
		return nil, "", fmt.Errorf("policy %s: it is signed: name the public key too, as %s,KEY.pem", file, file)
	}
	p, err = policy.Load(file, data)
	return p, from, err
}

// IsEnvelope reports whether a file looks like an envelope, which begins with its payload and is no document.
func IsEnvelope(data []byte) bool { return bytes.HasPrefix(data, []byte(`{"payload":`)) }

// signedPolicy returns the payload of an envelope that a key signed as a policy, and who signed in words.
func signedPolicy(file string, data []byte, keyFile string) ([]byte, string, error) {
	pub, spki, err := PublicKey(keyFile)
	if err != nil {
		return nil, "", fmt.Errorf("policy key: %w", err)
	}
	if !IsEnvelope(data) {
		return nil, "", fmt.Errorf("policy %s: it is not signed, and the key %s wants a signature", file, keyFile)
	}
	env, err := ledger.ParseEnvelope(bytes.TrimSuffix(data, []byte("\n")))
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("policy %s: %w", file, err)
	case env.PayloadType != policy.Type:
		return nil, "", fmt.Errorf("policy %s: what is signed is %.80q, want %q", file, env.PayloadType, policy.Type)
	case !env.SignedBy(pub):
		return nil, "", fmt.Errorf("policy %s: not signed by the key of %s", file, keyFile)
	}
	return env.Payload, "signed by key " + canon.Sum(spki).Short(), nil
}

// PublicKey reads a public key in PEM, and gives its SubjectPublicKeyInfo (DER) beside it.
func PublicKey(name string) (pub crypto.PublicKey, spki []byte, err error) {
	text, err := files.Bounded(name, maxKeyFile)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, nil, fmt.Errorf("%s: want a PEM block PUBLIC KEY, as openssl pkey -pubout writes it", name)
	}
	if pub, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return pub, block.Bytes, nil
}

// WitnessPolicy reads a witness policy file.
func WitnessPolicy(name string) (*ledger.WitnessPolicy, error) {
	data, err := files.Bounded(name, ledger.MaxWitnessPolicy)
	if err != nil {
		return nil, fmt.Errorf("witness policy: %w", err)
	}
	p, err := ledger.ParseWitnessPolicy(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &p, nil
}

// Roots reads a folder of root files: all that end in .pem (certificates) or .txt (such as the signers of quoting enclaves).
func Roots(dir string) (attest.Roots, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return attest.Roots{}, fmt.Errorf("root set: %w", err)
	}
	var set []attest.RootFile
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".pem" && ext != ".txt" {
			continue
		}
		data, err := files.Bounded(filepath.Join(dir, e.Name()), attest.MaxRootFile)
		if err != nil {
			return attest.Roots{}, fmt.Errorf("root set: %w", err)
		}
		set = append(set, attest.RootFile{Name: e.Name(), Data: data})
	}
	if len(set) == 0 {
		return attest.Roots{}, fmt.Errorf("root set: no .pem file in %s", dir)
	}
	return attest.NewRoots(set...)
}

// References reads a list of reference values.
func References(name string) (attest.References, error) {
	var r attest.References
	data, err := files.Bounded(name, doc.MaxSize)
	if err != nil {
		return r, fmt.Errorf("references: %w", err)
	}
	return r, decodeReferences(name, data, &r)
}

func decodeReferences(name string, data []byte, r *attest.References) error {
	if _, err := doc.Decode(name, data, r); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Expectation reads one file of what the appraiser itself knows into the case: expectations or reference values, told
// apart by their type. Expectations stand in one file.
func Expectation(name string, c *attest.Case) error {
	data, err := files.Bounded(name, doc.MaxSize)
	if err != nil {
		return err
	}
	typ, err := doc.TypeOf(name, data)
	if err != nil {
		return err
	}
	switch typ {
	case attest.ExpectType:
		if c.Expect.Type != "" {
			return fmt.Errorf("%s: a second %s", name, attest.ExpectType)
		}
		_, err := doc.Decode(name, data, &c.Expect)
		return err
	case attest.ReferencesType:
		var r attest.References
		if err := decodeReferences(name, data, &r); err != nil {
			return err
		}
		c.References = append(c.References, r)
		return nil
	}
	return fmt.Errorf("%s: type %q is no expectation: want %s or %s", name, typ, attest.ExpectType, attest.ReferencesType)
}

// Collateral reads a file of collateral: certificates, a revocation list, a deny list.
func Collateral(name string) ([]attest.Collateral, error) {
	data, err := files.Bounded(name, attest.MaxCRL)
	if err != nil {
		return nil, err
	}
	items, err := verifier.ReadCollateral(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return items, nil
}

// Certificates reads a file of certificates: DER, PEM, or a certificate table.
func Certificates(name string) ([]attest.Collateral, error) {
	data, err := files.Bounded(name, attest.MaxCertTable)
	if err != nil {
		return nil, err
	}
	certs, err := sevsnp.ReadCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var items []attest.Collateral
	for _, der := range certs {
		items = append(items, attest.Collateral{Kind: attest.KindAMDCertificate, Data: der})
	}
	return items, nil
}

// Evidence reads one file of evidence, or a folder that holds one report and certificates beside it, as snpguest leaves
// it. A file over the limit is read one byte further, so that the verifier refuses it as it would anywhere.
func Evidence(name string) (evidence []byte, beside []attest.Collateral, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		evidence, err = files.Prefix(name, attest.MaxBundle+1)
		return evidence, nil, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, nil, err
	}
	found := ""
	for _, e := range entries {
		path := filepath.Join(name, e.Name())
		data, err := files.Bounded(path, attest.MaxBundle)
		if err != nil {
			return nil, nil, err
		}
		if items, err := verifier.ReadCollateral(data); err == nil {
			beside = append(beside, items...)
			continue
		}
		if found != "" {
			return nil, nil, fmt.Errorf("%s: neither %s nor %s is a certificate: want one report", name, found, e.Name())
		}
		evidence, found = data, e.Name()
	}
	if found == "" {
		return nil, nil, fmt.Errorf("%s: no report in this folder", name)
	}
	return evidence, beside, nil
}
