package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// verdictLog writes logs of verdicts, as a server does.
type verdictLog struct {
	tx     *server.Tx
	ctx    context.Context
	at     canon.Time
	logged map[canon.Digest]bool
}

func (l *verdictLog) put(v any) (canon.Digest, error) {
	data, ok := v.([]byte)
	if !ok {
		var err error
		if data, err = canon.Marshal(v); err != nil {
			return canon.Digest{}, err
		}
	}
	return l.tx.PutBlob(data), nil
}

func (l *verdictLog) append(kind, stream string, body any, refs ...canon.Digest) (canon.Digest, error) {
	digest, err := l.put(body)
	if err != nil || l.logged[digest] {
		return digest, err
	}
	l.logged[digest] = true
	if refs == nil {
		refs = []canon.Digest{}
	}
	_, _, err = l.tx.Append(l.ctx, server.Draft{Kind: kind, Stream: stream, Time: l.at, Body: digest, Refs: refs})
	l.at++
	return digest, err
}

// verdict appraises a bundle and logs evidence, appraisal and the verdict of each policy.
func (l *verdictLog) verdict(bundle []byte, c attest.Case, policies ...string) error {
	for _, r := range c.References {
		if _, err := l.append(ledger.KindReference, ledger.StreamServer, r); err != nil {
			return err
		}
	}
	for _, i := range c.Collateral {
		data, err := l.put(i.Data)
		if err != nil {
			return err
		}
		if _, err := l.append(ledger.KindCollateral, ledger.StreamServer, ledger.Collateral{
			Type: ledger.CollateralType, Kind: i.Kind, Data: data, Source: "https://example.test/", Fetched: c.At}); err != nil {
			return err
		}
	}
	asked, err := l.append(ledger.KindChallenge, ledger.StreamVerifier, *c.Expect.Challenge)
	if err != nil {
		return err
	}
	evidence, err := l.append(ledger.KindEvidence, ledger.NodeStream(c.Expect.Challenge.Node), bundle, asked)
	if err != nil {
		return err
	}
	c.At = l.at
	o, err := verifier.Open(verifier.TypeBundle, bundle)
	if err != nil {
		return err
	}
	a := verifier.Appraise(o, c)
	_, err1 := l.put(c.Expect)
	_, err2 := l.put(c.Roots.Marshal())
	appraisal, err3 := l.append(ledger.KindAppraisal, ledger.StreamVerifier, a, evidence)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	for _, name := range policies {
		p, _ := policy.Builtin(name)
		if _, err := l.append(ledger.KindPolicy, ledger.StreamServer, p.Canonical()); err != nil {
			return err
		}
		payload, err := canon.Marshal(policy.Result{Type: policy.ResultType, Build: policy.Build{Digest: canon.Sum([]byte("build")), Go: "go", Platform: "linux/amd64"},
			Evidence: evidence, Appraisal: appraisal, Policy: p.Digest(), Verdict: policy.Decide(a.Claims, p, l.at)})
		if err != nil {
			return err
		}
		env, err := ledger.Seal(policy.ResultType, payload, newTestKey("honest "+ledger.UseResult))
		if err != nil {
			return err
		}
		if _, err := l.append(ledger.KindVerdict, ledger.StreamVerifier, env, appraisal, p.Digest()); err != nil {
			return err
		}
	}
	return nil
}

// writeVerdicts writes verdicts.tar and trust.yaml: two minted hosts, one of them in debug mode, each judged by two
// policies; and the real report of Milan of go-sev-guest, where the vectors are.
func writeVerdicts(ctx context.Context, dir, vectorsDir string) (err error) {
	data := filepath.Join(dir, "server")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	return writeVerdictsTo(ctx, "sqlite:"+filepath.Join(data, "assay.db"), dir, vectorsDir)
}

// writeVerdictsTo does that through the database of a URL. The hosts are the nodes sound and debugged, or those named.
func writeVerdictsTo(ctx context.Context, database, dir, vectorsDir string, nodes ...string) (err error) {
	if nodes == nil {
		nodes = []string{"sound", "debugged"}
	}
	store, err := server.OpenStore(ctx, database, bytes.NewReader(make([]byte, 1<<12)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	keyset, err := keysetOf("honest")
	if err != nil {
		return err
	}
	sealed, err := sealKeyset(keyset, "honest")
	if err != nil {
		return err
	}
	resultKey := keyset.Of(ledger.UseResult)[0].SPKI
	if err := store.Tx(ctx, func(tx *server.Tx) error {
		l := &verdictLog{tx: tx, ctx: ctx, at: canon.At(minted), logged: map[canon.Digest]bool{}}
		if _, err := l.append(ledger.KindKeyset, ledger.StreamServer, sealed); err != nil {
			return err
		}
		challenge := func(node string) attest.Challenge {
			return attest.Challenge{Type: attest.ChallengeType, Origin: "https://verifier.example", ResultKey: resultKey, Node: node,
				Nonce: bytes.Repeat([]byte{byte(len(node))}, attest.NonceSize), Issued: l.at, Expires: l.at + 300}
		}
		session, err := agent.NewSession(bytes.NewReader(bytes.Repeat([]byte{9}, 128)), "boot-1", minted)
		if err != nil {
			return err
		}
		statement := attest.Statement{Type: attest.StatementType, Agent: canon.Sum([]byte("agent")), BootID: "boot-1"}
		seal := func(b attest.Bundle) ([]byte, error) {
			env, err := attest.SealBundle(b, session)
			if err != nil {
				return nil, err
			}
			return canon.Marshal(env)
		}
		amd := mint.NewAMD(sevsnp.Milan)
		roots, err := attest.NewRoots(amd.Roots()...)
		if err != nil {
			return err
		}
		for i, guest := range []sevsnp.Policy{sevsnp.PolicySMT, sevsnp.PolicySMT | sevsnp.PolicyDebug} {
			h := &host{amd: amd, agentExe: []byte("agent"), platform: amd.Platform(amd.Chip("host-1"), soundTCB, [48]byte{1}, sevsnp.PolicyReservedOne|guest)}
			c := attest.Case{At: l.at, Roots: roots, Collateral: []attest.Collateral{{Kind: attest.KindAMDCRL, Data: amd.CRL(minted.AddDate(0, -1, 0), minted.AddDate(0, 1, 0))}},
				References: []attest.References{{Type: attest.ReferencesType, Name: "guests", Source: "a test", Values: []attest.Reference{
					{Format: sevsnp.Format, Guest: "guest-1", Measurement: h.platform.Fields.Measurement[:], Agent: statement.Agent}}}}}
			ch := challenge(nodes[i])
			c.Expect = attest.Expect{Type: attest.ExpectType, Challenge: &ch}
			b, err := agent.Collect([]agent.Device{h}, session.Keys(), ch.Digest(), statement)
			if err != nil {
				return err
			}
			bundle, err := seal(b)
			if err != nil {
				return err
			}
			if err := l.verdict(bundle, c, "confidential-cpu", "genuine"); err != nil {
				return err
			}
		}
		report, err := os.ReadFile(filepath.Join(vectorsDir, "cpu", "snp", "gsg-milan-report.bin"))
		if err != nil {
			return err
		}
		vcek, err := os.ReadFile(filepath.Join(vectorsDir, "cpu", "snp", "gsg-milan-vcek.der"))
		if err != nil {
			return err
		}
		ch := challenge("milan")
		said, err := canon.Marshal(statement)
		if err != nil {
			return err
		}
		bundle, err := seal(attest.Bundle{Type: attest.BundleType, Keys: session.Keys(), Challenge: ch.Digest(), Seal: "cpu0", Components: []attest.Component{
			{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{{Name: attest.PartStatement, Data: said}}},
			{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: sevsnp.PartReport, Data: report}}},
		}})
		if err != nil {
			return err
		}
		return l.verdict(bundle, attest.Case{At: l.at, Roots: verifier.VendorRoots(), Expect: attest.Expect{Type: attest.ExpectType, Challenge: &ch},
			Collateral: []attest.Collateral{{Kind: attest.KindAMDCertificate, Data: vcek}}}, "genuine")
	}); err != nil {
		return err
	}
	if _, err := store.Integrate(ctx, 1000); err != nil {
		return err
	}
	signer, err := ledger.LogSigner("log.example", newTestKey("honest log").PrivateKey)
	if err != nil {
		return err
	}
	log, err := store.Newest(ctx)
	if err != nil {
		return err
	}
	if _, err := log.Publish(ctx, signer, canon.At(minted.Add(time.Hour)), nil); err != nil {
		return err
	}
	var export bytes.Buffer
	if err := audit.Export(ctx, store.Source(), &export); err != nil {
		return err
	}
	trust, err := audit.TrustFrom(audit.Told{By: "one", Keyset: keyset}, audit.Told{By: "two", Keyset: keyset})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "verdicts.tar"), export.Bytes(), 0o644), os.WriteFile(filepath.Join(dir, "trust.yaml"), trust.Marshal(), 0o644))
}
