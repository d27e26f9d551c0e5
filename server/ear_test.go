package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/client/relying"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// expected is what a relying party of the tests demands of a node.
func (n *node) expected(nonce []byte) relying.Expect {
	return relying.Expect{Issuer: worldOrigin, Nonce: nonce, Key: n.session.Public(), OtherRoots: true}
}

// ear asks for an attestation result.
func (n *node) ear(evidence canon.Digest) string {
	n.lab.t.Helper()
	token, err := n.client().EAR(n.lab.t.Context(), evidence)
	must(n.lab.t, err)
	return token
}

// keys returns the published keys.
func (l *lab) keys() relying.Keys {
	l.t.Helper()
	data, err := l.client("").JWKS(l.t.Context())
	must(l.t, err)
	k, err := relying.ParseKeys(data)
	must(l.t, err)
	return k
}

// keyIDs returns the ids of the published keys, newest first.
func (l *lab) keyIDs() (ids []string) {
	l.t.Helper()
	data, err := l.client("").JWKS(l.t.Context())
	must(l.t, err)
	var set struct{ Keys []map[string]string }
	must(l.t, json.Unmarshal(data, &set))
	for _, k := range set.Keys {
		if k["d"] != "" || k["kid"] == "" || k["alg"] != "ES256" || k["use"] != "sig" {
			l.t.Errorf("published key %v", k)
		}
		ids = append(ids, k["kid"])
	}
	return ids
}

// TestEAR takes a renter's nonce through a machine's evidence to a token that the renter checks with the published keys.
func TestEAR(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		nonce := bytes.Repeat([]byte{7}, 32)
		ch, err := n.client().Challenge(t.Context(), nonce)
		must(t, err)
		s := n.submit(n.evidence(ch))
		_, err = n.client().EAR(t.Context(), s.Evidence)
		if p := refused(t, err, 409, "not-decided"); p.RetryAfter == 0 {
			t.Error("not decided: no word of when to ask again")
		}
		l.advance()
		l.clock.advance(time.Minute)
		token := n.ear(s.Evidence)
		want := n.expected(nonce)
		want.Policies = []canon.Digest{l.server.Policy().Digest}
		r, err := relying.Verify(token, l.keys(), want, l.clock.Now())
		must(t, err)
		if r.Status != relying.Affirming || r.Node != n.id || r.Evidence != s.Evidence || r.Verdict != client.Accept || r.AsOf != canon.At(worldBegin) ||
			!r.IssuedAt.Equal(l.clock.Now()) || r.Expires.Sub(r.IssuedAt) != 15*time.Minute || r.VendorRoots {
			t.Errorf("result %+v", r)
		}
		if digest := ch.Challenge.Digest(); len(r.Nonces) != 2 || !bytes.Equal(r.Nonces[0], digest[:]) {
			t.Errorf("nonces %x, want the challenge and the renter's", r.Nonces)
		}
		// The promise is of the entry whose body is the signed verdict.
		promise, err := ledger.OpenPromise(*r.Promise, l.server.Keyset())
		must(t, err)
		kept, err := n.client().Result(t.Context(), s.Evidence)
		must(t, err)
		if last := kept.Entries[len(kept.Entries)-1]; last.Kind != ledger.KindVerdict || canon.Sum(last.Opening) != promise.Commitment {
			t.Errorf("promise %+v: not of the verdict's entry", promise)
		}
		again, err := relying.Verify(n.ear(s.Evidence), l.keys(), want, l.clock.Now())
		must(t, err)
		if again.ID == r.ID {
			t.Error("two tokens of one id")
		}
		l.audited(s)
	})
}

// TestEARRefused: whom a result is not for, and what ends it.
func TestEARRefused(t *testing.T) {
	l := newLab(t, "")
	n, other := l.join("one"), l.join("two")
	_, evidence := n.prove()
	for _, tc := range []struct {
		name, credential string
		status           int
		code             string
	}{
		{"nobody", "", 401, "credential"},
		{"another node", other.credential, 404, "not-found"},
	} {
		_, err := l.client(tc.credential).EAR(t.Context(), evidence)
		refused(t, err, tc.status, tc.code)
	}
	_, err := n.client().EAR(t.Context(), canon.Digest{1})
	refused(t, err, 404, "not-found")
	resp, _ := l.send("GET", "/v1/results/"+evidence.String()+"/ear", l.admin, "", nil)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/eat+jwt" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("admin: %d %v", resp.StatusCode, resp.Header)
	}
	// Later evidence of the node is rejected: what was accepted before no longer speaks for it.
	good := n.device
	n.device = machine(l.amd, "another")
	d, rejected := n.prove()
	if d.Outcome != client.Reject {
		t.Fatalf("%+v, want reject", d)
	}
	_, err = n.client().EAR(t.Context(), evidence)
	refused(t, err, 410, "outdone")
	r, err := relying.Verify(n.ear(rejected), l.keys(), relying.Expect{Issuer: worldOrigin, AnyNonce: true, OtherRoots: true, Floor: relying.Warning}, l.clock.Now())
	if err == nil || !strings.Contains(err.Error(), "status contraindicated") || r.Verdict != client.Reject {
		t.Errorf("rejected evidence: %+v, %v", r, err)
	}
	l.clock.advance(time.Second)
	n.device = good
	if _, evidence = n.prove(); n.ear(evidence) == "" {
		t.Error("newer accepted evidence has no result")
	}
	must(t, l.client(l.admin).Revoke(t.Context(), n.id))
	_, err = l.client(l.admin).EAR(t.Context(), evidence)
	refused(t, err, 410, "outdone")
}

// TestEARByGenuine: no affirming result rests on looking at hardware.
func TestEARByGenuine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*mint.Platform)
		status relying.Tier
	}{
		{"good", func(*mint.Platform) {}, relying.Warning},
		{"debug interface open", func(p *mint.Platform) { p.Fields.Policy |= sevsnp.PolicyDebug }, relying.Contraindicated},
	} {
		l := newLab(t, "", func(s *server.Settings) { s.Policy = "genuine" })
		n := l.join("one", tc.change)
		d, evidence := n.prove()
		if d.Outcome != client.Accept {
			t.Fatalf("%s: %+v, want accept", tc.name, d)
		}
		r, err := relying.Verify(n.ear(evidence), l.keys(), relying.Expect{Issuer: worldOrigin, AnyNonce: true, OtherRoots: true}, l.clock.Now())
		if err == nil || r.Status != tc.status {
			t.Errorf("%s: status %s, %v, want %s and a refusal by who asks for affirming", tc.name, r.Status, err, tc.status)
		}
	}
}

// TestEARAges: a result of old evidence is of the server's clock of now, and says that it is old.
func TestEARAges(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	_, evidence := n.prove()
	want := n.expected(nil)
	want.AnyNonce = true
	l.clock.advance(24*time.Hour - time.Minute)
	r, err := relying.Verify(n.ear(evidence), l.keys(), want, l.clock.Now())
	must(t, err)
	if r.Expires.After(worldBegin.Add(24*time.Hour + time.Second)) {
		t.Errorf("it expires at %s, after its evidence is too old", r.Expires)
	}
	l.clock.advance(2 * time.Minute)
	if r, err = relying.Verify(n.ear(evidence), l.keys(), want, l.clock.Now()); err == nil || r.Status != relying.Contraindicated || r.Verdict != client.Accept {
		t.Errorf("a day later: %+v, %v, want contraindicated, for a verdict that was accept", r, err)
	}
}

// TestEARRotation: the old key stays published until its last result has expired, and signs nothing more.
func TestEARRotation(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		_, evidence := n.prove()
		want := n.expected(nil)
		want.AnyNonce = true
		old, first := n.ear(evidence), l.keyIDs()
		l.restart()
		if got := l.keyIDs(); !slices.Equal(got, first) || len(first) != 1 {
			t.Fatalf("after a restart keys %q, want %q", got, first)
		}
		l.clock.advance(time.Second)
		l.settings.Renew = []string{"ear"}
		l.restart()
		l.settings.Renew = nil
		ids := l.keyIDs()
		if len(ids) != 2 || ids[1] != first[0] {
			t.Fatalf("after a rotation keys %q, want a new one and %q", ids, first)
		}
		if _, err := os.Stat(filepath.Join(l.settings.Data, "keys", "ear-"+first[0]+".pem")); !os.IsNotExist(err) {
			t.Errorf("the retired key is still on the disk: %v", err)
		}
		token := n.ear(evidence)
		if kid := kidOf(t, token); kid != ids[0] {
			t.Errorf("signed with %s, want %s", kid, ids[0])
		}
		for _, token := range []string{old, token} {
			if _, err := relying.Verify(token, l.keys(), want, l.clock.Now()); err != nil {
				t.Error(err)
			}
		}
		l.clock.advance(15*time.Minute + server.EARSlack - time.Second)
		if got := l.keyIDs(); !slices.Equal(got, ids) {
			t.Errorf("while results of it may be valid: keys %q, want %q", got, ids)
		}
		l.clock.advance(time.Second)
		if got := l.keyIDs(); !slices.Equal(got, ids[:1]) {
			t.Errorf("afterwards: keys %q, want %q", got, ids[:1])
		}
	})
}

// TestEARKeyElsewhere: a process that lacks the key that signs says so, and signs with no other.
func TestEARKeyElsewhere(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	_, evidence := n.prove()
	path := filepath.Join(l.settings.Data, "keys", "ear-"+l.keyIDs()[0]+".pem")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v %v, want mode 600", info, err)
	}
	must(t, os.Remove(path))
	l.restart()
	_, err := n.client().EAR(t.Context(), evidence)
	refused(t, err, 500, "internal")
	if !strings.Contains(l.log.String(), "processes that share a database share their keys") {
		t.Errorf("log %q", l.log)
	}
}

func kidOf(t *testing.T, token string) string {
	t.Helper()
	part, _, _ := strings.Cut(token, ".")
	data, err := base64.RawURLEncoding.DecodeString(part)
	must(t, err)
	var h map[string]string
	must(t, json.Unmarshal(data, &h))
	if len(h) != 3 || h["typ"] != "eat+jwt" || h["alg"] != "ES256" {
		t.Errorf("header %v", h)
	}
	return h["kid"]
}
