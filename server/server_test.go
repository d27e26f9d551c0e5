package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// TestAccepted takes one machine from its token to a verdict that an auditor recomputes.
func TestAccepted(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		ch := n.challenge()
		if ch.Checkpoint == "" || canon.Sum([]byte(ch.Checkpoint)) != ch.Challenge.Checkpoint || ch.Challenge.Node != n.id || ch.Challenge.Origin != worldOrigin {
			t.Errorf("challenge %+v: not for node %s by the checkpoint that came with it", ch, n.id)
		}
		data := n.evidence(ch)
		s := n.submit(data)
		promise, err := l.server.Keyset().Of(ledger.UsePromise)[0].Public()
		must(t, err)
		p, err := ledger.OpenPromise(s.Promise, promise)
		must(t, err)
		if p.Stream != ledger.NodeStream(n.id) || p.Sequence != 0 || p.Received != canon.At(worldBegin) {
			t.Errorf("promise %+v: not the first of %s", p, n.id)
		}
		r, err := n.client().Result(t.Context(), s.Evidence)
		must(t, err)
		if r.State != client.StateReceived || r.Result != nil || len(r.Entries) != 1 || canon.Sum(r.Entries[0].Opening) != p.Commitment {
			t.Errorf("before the appraisal: %+v, want received and the promised entry", r)
		}
		l.advance()
		if d := n.decision(s.Evidence); d.Outcome != client.Accept || d.Policy != "confidential-cpu" {
			t.Fatalf("verdict %+v, want accept", d)
		}
		r, err = n.client().Result(t.Context(), s.Evidence)
		must(t, err)
		var a verifier.Appraisal
		must(t, canon.Unmarshal(r.Appraisal, &a))
		kinds := []string{}
		for _, e := range r.Entries {
			kinds = append(kinds, e.Kind)
		}
		if want := []string{ledger.KindEvidence, ledger.KindAppraisal, ledger.KindVerdict}; !slices.Equal(kinds, want) {
			t.Errorf("entries %q, want %q", kinds, want)
		}
		list, err := l.client(l.admin).Nodes(t.Context(), "")
		must(t, err)
		if len(list.Nodes) != 1 || list.Nodes[0].Verdict != client.Accept || len(list.Nodes[0].Devices) != 1 || list.Nodes[0].Evidence != s.Evidence {
			t.Errorf("nodes %+v, want the one with its device and verdict", list)
		}
		l.clock.advance(time.Minute)
		again, _ := n.prove()
		if again.Outcome != client.Accept {
			t.Errorf("second round: %+v, want accept", again)
		}
		l.audited(s)
	})
}

func TestSubmitAgain(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	data := n.evidence(n.challenge())
	first := n.submit(data)
	before := l.entries()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := n.client().Submit(t.Context(), data)
			if err != nil || !sameJSON(t, s, first) {
				t.Errorf("same bytes again: %+v %v, want the same promise", s, err)
			}
		})
	}
	all.Wait()
	l.advance()
	l.clock.advance(time.Hour) // long after the challenge expired
	if s := n.submit(data); !sameJSON(t, s, first) {
		t.Errorf("after the verdict: %+v, want the same promise", s)
	}
	l.advance()
	if got := l.entries(); got != before+2 {
		t.Errorf("%d entries, want %d: an appraisal and a verdict, once", got, before+2)
	}
	l.audited(first)
}

// TestManyAtOnce sends the same bytes, and other bytes for the same challenge, at one time.
func TestManyAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		ch := n.challenge()
		a, b := n.evidence(ch), n.evidence(ch)
		if bytes.Equal(a, b) {
			b = n.evidence(client.Challenged{Challenge: ch.Challenge}) // without the checkpoint in the statement
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		taken := map[canon.Digest]int{}
		for i := range 12 {
			all.Go(func() {
				data := [][]byte{a, b}[i%2]
				s, err := n.client().Submit(t.Context(), data)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					taken[s.Evidence]++
				} else if p := client.AsProblem(err); p == nil || p.Code != client.CodeChallengeUsed {
					t.Errorf("got %v, want a promise or %s", err, client.CodeChallengeUsed)
				}
			})
		}
		all.Wait()
		if len(taken) != 1 {
			t.Errorf("taken %v: want one of two, for one challenge", taken)
		}
		l.audited()
	})
}

// TestDoor names each way to be turned away: the code, and that nothing was stored.
func TestDoor(t *testing.T) {
	l := newLab(t, "")
	n, other := l.join("one"), l.join("two")
	ch := n.challenge()
	good := n.evidence(ch)
	used := n.challenge()
	n.submit(n.evidence(used))
	l.advance()
	unsigned := func() []byte {
		var env ledger.Envelope
		must(t, canon.Unmarshal(good, &env))
		env.Signatures[0].Sig = bytes.Clone(env.Signatures[0].Sig)
		env.Signatures[0].Sig[0] ^= 1
		data, err := canon.Marshal(env)
		must(t, err)
		return data
	}
	for _, tc := range []struct {
		name   string
		data   []byte
		as     string
		status int
		code   string
	}{
		{"too large, no credential", bytes.Repeat([]byte(" "), attest.MaxBundle+1), "", 413, "too-large"},
		{"no credential", good, "", 401, "credential"},
		{"unknown credential", good, "node_0011223344556677_" + strings.Repeat("A", 43), 401, "credential"},
		{"half of a credential", good, n.credential[:len(n.credential)-1], 401, "credential"},
		{"admin token", good, l.admin, 403, "forbidden"},
		{"no bundle", []byte(`{"hello":"world"}`), n.credential, 400, "malformed"},
		{"not canonical", append([]byte(" "), good...), n.credential, 400, "malformed"},
		{"another node's challenge", good, other.credential, 410, client.CodeChallengeExpired},
		{"used challenge", n.evidence(client.Challenged{Challenge: used.Challenge}), n.credential, 409, client.CodeChallengeUsed},
		{"not signed by its key", unsigned(), n.credential, 422, "bad-signature"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := l.entries()
			_, err := l.client(tc.as).Submit(t.Context(), tc.data)
			refused(t, err, tc.status, tc.code)
			l.advance()
			if got := l.entries(); got != before {
				t.Errorf("%d entries, want %d: a refusal stores nothing", got, before)
			}
		})
	}
	t.Run("twin: the same bytes are taken", func(t *testing.T) {
		n.submit(good)
		l.audited()
	})
}

func TestExpiredChallenge(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration
		code  string
	}{
		{"last second", server.ChallengeLife - time.Second, ""},
		{"expired", server.ChallengeLife, client.CodeChallengeExpired},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, "")
			n := l.join("one")
			data := n.evidence(n.challenge())
			l.clock.advance(tc.after)
			_, err := n.client().Submit(t.Context(), data)
			if tc.code == "" {
				must(t, err)
				return
			}
			refused(t, err, http.StatusGone, tc.code)
		})
	}
}

func TestOpenChallenges(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	var last client.Challenged
	for range attest.MaxOpenChallenges {
		last = n.challenge()
	}
	_, err := n.client().Challenge(t.Context(), nil)
	if p := refused(t, err, 429, "too-many"); p.RetryAfter != server.ChallengeLife {
		t.Errorf("Retry-After %s, want %s", p.RetryAfter, server.ChallengeLife)
	}
	n.submit(n.evidence(last))
	n.challenge() // an answered one makes room
	_, err = n.client().Challenge(t.Context(), nil)
	refused(t, err, 429, "too-many")
	l.join("two").challenge() // another node has its own room
	l.clock.advance(server.ChallengeLife)
	n.challenge() // and so does time
}

func TestJoinToken(t *testing.T) {
	l := newLab(t, "")
	token := func() client.Token {
		issued, err := l.client(l.admin).NewJoinToken(t.Context())
		must(t, err)
		tok, err := client.ParseToken(issued.Token)
		must(t, err)
		return tok
	}
	nobody := l.client("")
	once := token()
	_, err := nobody.Join(t.Context(), once)
	must(t, err)
	late := token()
	l.clock.advance(server.JoinTokenLife)
	admin := client.Token{Secret: l.admin, Fingerprint: once.Fingerprint}
	for _, tc := range []struct {
		name  string
		token client.Token
	}{
		{"used", once},
		{"too old", late},
		{"never given", client.Token{Secret: "join_0011223344556677_" + strings.Repeat("A", 43), Fingerprint: once.Fingerprint}},
		{"admin token", admin},
		{"of another verifier", client.Token{Secret: token().Secret, Fingerprint: canon.Sum(nil)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := nobody.Join(t.Context(), tc.token)
			refused(t, err, http.StatusForbidden, "token")
		})
	}
	t.Run("good", func(t *testing.T) {
		_, err := nobody.Join(t.Context(), token())
		must(t, err)
	})
	t.Run("a join token opens nothing else", func(t *testing.T) {
		_, err := l.client(token().Secret).Nodes(t.Context(), "")
		refused(t, err, http.StatusUnauthorized, "credential")
	})
}

func TestRevoke(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Fatalf("verdict %+v, want accept", d)
	}
	ch := n.challenge()
	data := n.evidence(ch)
	_, err := n.client().Nodes(t.Context(), "")
	refused(t, err, http.StatusForbidden, "forbidden")
	must(t, l.client(l.admin).Revoke(t.Context(), n.id))
	must(t, l.client(l.admin).Revoke(t.Context(), n.id)) // again changes nothing
	refused(t, l.client(l.admin).Revoke(t.Context(), "node-unknown"), http.StatusNotFound, "not-found")
	_, err = n.client().Submit(t.Context(), data)
	refused(t, err, http.StatusUnauthorized, client.CodeRevoked)
	_, err = n.client().Challenge(t.Context(), nil)
	refused(t, err, http.StatusUnauthorized, client.CodeRevoked)
	if d, _ := l.join("one").prove(); d.Outcome != client.Accept {
		t.Errorf("the chip under a new node: %+v, want accept: revoking freed it", d)
	}
}

// TestTwoNodesOneChip: the enrolled holder keeps its standing, the newcomer is contested.
func TestTwoNodesOneChip(t *testing.T) {
	l := newLab(t, "")
	first, second := l.join("one"), l.join("one")
	if d, _ := first.prove(); d.Outcome != client.Accept {
		t.Fatalf("first: %+v, want accept", d)
	}
	d, _ := second.prove()
	if d.Outcome != client.Reject || len(d.Reasons) != 1 || d.Reasons[0].Claim != "set.device-unique" || !strings.HasPrefix(d.Reasons[0].Observed, "contested") {
		t.Errorf("second: %+v, want reject, set.device-unique contested alone", d)
	}
	if d, _ := first.prove(); d.Outcome != client.Accept {
		t.Errorf("first again: %+v, want accept", d)
	}
	// A node is enrolled with its first accepted evidence: another chip later is another machine.
	first.device = machine(l.amd, "another")
	if d, _ := first.prove(); d.Outcome != client.Reject || d.Reasons[0].Claim != "set.device-unique" {
		t.Errorf("first with another chip: %+v, want reject for set.device-unique", d)
	}
	l.audited()
}

func TestRejected(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one", func(p *mint.Platform) { p.Fields.Policy |= sevsnp.PolicyDebug })
	d, _ := n.prove()
	if d.Outcome != client.Reject || len(d.Reasons) != 1 || d.Reasons[0].Claim != "sevsnp.debug-off" {
		t.Errorf("verdict %+v, want reject for sevsnp.debug-off alone", d)
	}
	list, err := l.client(l.admin).Nodes(t.Context(), "")
	must(t, err)
	if len(list.Nodes[0].Devices) != 0 {
		t.Errorf("enrolled %v with rejected evidence", list.Nodes[0].Devices)
	}
	l.audited()
}

func TestStranger(t *testing.T) {
	l := newLab(t, "")
	n, stranger := l.join("one"), l.join("two")
	_, evidence := n.prove()
	path := "/v1/results/" + evidence.String()
	for _, tc := range []struct {
		name, credential string
		status           int
		code             string
	}{
		{"owner", n.credential, 200, ""},
		{"operator", l.admin, 200, ""},
		{"stranger", stranger.credential, 404, "not-found"},
		{"nobody", "", 401, "credential"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := l.send("GET", path, tc.credential, "", nil)
			if resp.StatusCode != tc.status || tc.code != "" && !strings.Contains(string(body), `"code":"`+tc.code+`"`) {
				t.Errorf("status %d %s, want %d %s", resp.StatusCode, body, tc.status, tc.code)
			}
			if c := resp.Header.Get("Cache-Control"); c != "no-store" {
				t.Errorf("Cache-Control %q, want no-store", c)
			}
		})
	}
	for _, path := range []string{"/v1/blobs/" + evidence.String(), "/v1/entries?from=0", "/v1/nodes"} {
		if resp, body := l.send("GET", path, n.credential, "", nil); resp.StatusCode != 403 {
			t.Errorf("%s as a node: %d %s, want 403", path, resp.StatusCode, body)
		}
	}
}

// TestRestart ends the server between submission and appraisal: who starts next decides, once.
func TestRestart(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	data := n.evidence(n.challenge())
	s := n.submit(data)
	before := l.entries()
	l.restart()
	if got := n.submit(data); !sameJSON(t, got, s) {
		t.Errorf("after a restart: %+v, want the same promise", got)
	}
	if l.server.NewAdminToken() != "" {
		t.Error("a second start made another admin token")
	}
	l.advance()
	l.restart()
	l.advance()
	if d := n.decision(s.Evidence); d.Outcome != client.Accept {
		t.Errorf("verdict %+v, want accept", d)
	}
	if got := l.entries(); got != before+2 {
		t.Errorf("%d entries, want %d: nothing is logged twice", got, before+2)
	}
	l.audited(s)
}

func TestSettingsAreLogged(t *testing.T) {
	l := newLab(t, "")
	kinds := func() (all []string) {
		page, err := l.client(l.admin).Entries(t.Context(), 0)
		must(t, err)
		for _, e := range page.Entries {
			all = append(all, e.Kind)
		}
		return all
	}
	want := []string{ledger.KindKeyset, ledger.KindPolicy, ledger.KindReference, ledger.KindCollateral}
	if got := kinds(); !slices.Equal(got, want) {
		t.Fatalf("first start logged %q, want %q", got, want)
	}
	l.restart()
	if got := kinds(); !slices.Equal(got, want) {
		t.Errorf("unchanged settings: %q, want %q", got, want)
	}
	l.settings.Policy = "genuine"
	l.restart()
	l.settings.Policy = ""
	l.restart()
	want = append(want, ledger.KindPolicy, ledger.KindPolicy)
	if got := kinds(); !slices.Equal(got, want) {
		t.Errorf("another policy and back: %q, want %q", got, want)
	}
	l.settings.RenewAdminToken = true
	old := l.admin
	l.restart()
	_, err := l.client(old).Nodes(t.Context(), "")
	refused(t, err, http.StatusUnauthorized, client.CodeRevoked)
	_, err = l.client(l.admin).Nodes(t.Context(), "")
	must(t, err)
}

func TestKeys(t *testing.T) {
	l := newLab(t, "")
	keys := l.server.Keyset()
	got, err := l.client("").Keys(t.Context())
	must(t, err)
	if !sameJSON(t, got, keys) || keys.Log[:len("assay.test/log+")] != "assay.test/log+" {
		t.Errorf("served keys %+v, want %+v", got, keys)
	}
	dir := filepath.Join(l.settings.Data, "keys")
	for _, name := range []string{"log.pem", "result.pem", "promise.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, info.Mode().Perm())
		}
	}
	reopen := func(t *testing.T, want string) {
		t.Helper()
		s, err := server.New(t.Context(), l.settings, server.Deps{Now: l.clock.Now, Random: newSource(9), Log: quiet()})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	swap := func(t *testing.T, name string, data []byte) {
		path := filepath.Join(dir, name)
		old, err := os.ReadFile(path)
		must(t, err)
		t.Cleanup(func() { must(t, os.WriteFile(path, old, 0o600)) })
		if data == nil {
			must(t, os.Remove(path))
			return
		}
		must(t, os.WriteFile(path, data, 0o600))
	}
	t.Run("lost", func(t *testing.T) {
		swap(t, "result.pem", nil)
		reopen(t, "result.pem")
	})
	t.Run("shared", func(t *testing.T) {
		promise, err := os.ReadFile(filepath.Join(dir, "promise.pem"))
		must(t, err)
		swap(t, "result.pem", promise)
		reopen(t, "never shared")
	})
	t.Run("of another log", func(t *testing.T) {
		other, err := os.ReadFile(filepath.Join(newLab(t, "").settings.Data, "keys", "promise.pem"))
		must(t, err)
		swap(t, "promise.pem", other)
		reopen(t, "not the keys of this log")
	})
	t.Run("another name", func(t *testing.T) {
		l.settings.LogName = "elsewhere/log"
		defer func() { l.settings.LogName = "" }()
		reopen(t, "is called")
	})
}

// TestFailure lets the rule rooms fail: the verdict is undecided, the fault is ours, and the next one is not affected.
func TestFailure(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	s := n.submit(n.evidence(n.challenge()))
	l.server.TestingOnlyAppraise(func(*verifier.Opened, attest.Case) verifier.Appraisal { panic("broken rule") })
	l.advance()
	d := n.decision(s.Evidence)
	if d.Outcome != client.Undecided || len(d.Reasons) != 1 || !strings.HasPrefix(d.Reasons[0].Observed, "internal") {
		t.Errorf("verdict %+v, want undecided for internal alone", d)
	}
	if text := l.log.String(); !strings.Contains(text, "alarm=true") || !strings.Contains(text, "broken rule") || !strings.Contains(text, s.Evidence.String()) {
		t.Errorf("log %q: want an alarm that names fault and evidence", text)
	}
	resp, body := l.send("GET", "/v1/blobs/"+s.Evidence.String(), l.admin, "", nil)
	if resp.StatusCode != 200 || canon.Sum(body) != s.Evidence {
		t.Errorf("the input is not kept: %d", resp.StatusCode)
	}
	resp, body = l.send("POST", "/v1/verify", "", "application/octet-stream", []byte("{}"))
	if resp.StatusCode != 200 || !strings.Contains(string(body), `"verdict":"undecided"`) {
		t.Errorf("verify: %d %s, want undecided", resp.StatusCode, body)
	}
	l.server.TestingOnlyAppraise(verifier.Appraise)
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("next verdict %+v, want accept", d)
	}
}

// TestPutOff damages the store: what cannot be appraised waits and raises an alarm, and holds nobody else up.
func TestPutOff(t *testing.T) {
	l := newLab(t, "")
	n, other := l.join("one"), l.join("two")
	s := n.submit(n.evidence(n.challenge()))
	db, err := sqldb.Open(t.Context(), "sqlite:"+filepath.Join(l.settings.Data, "assay.db"))
	must(t, err)
	defer db.Close()
	blob := func(query string, args ...any) {
		must(t, db.Tx(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec(query, args...); return err }))
	}
	data, err := l.server.Source().Blob(t.Context(), s.Evidence)
	must(t, err)
	blob(`DELETE FROM blob WHERE digest = $1`, s.Evidence[:])
	if d, _ := other.prove(); d.Outcome != client.Accept {
		t.Errorf("another node: %+v, want accept", d)
	}
	if text := l.log.String(); !strings.Contains(text, "appraisal put off") || !strings.Contains(text, s.Evidence.String()) {
		t.Errorf("log %q: want an alarm", text)
	}
	blob(`INSERT INTO blob(digest, data) VALUES ($1, $2)`, s.Evidence[:], data)
	state := func() string {
		l.advance()
		r, err := n.client().Result(t.Context(), s.Evidence)
		must(t, err)
		return r.State
	}
	if got := state(); got != client.StateReceived {
		t.Errorf("before its time: %s", got)
	}
	l.clock.advance(server.RetryAppraisal)
	if got := state(); got != client.StateDecided {
		t.Errorf("after the damage: %s, want decided", got)
	}
	l.audited(s)
}

// TestTwoProcesses lets two servers work on one database: each submission is decided once.
func TestTwoProcesses(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		second, err := server.New(t.Context(), l.settings, server.Deps{Now: l.clock.Now, Random: newSource(9), Log: quiet()})
		must(t, err)
		defer second.Close()
		var submitted []client.Submitted
		for _, chip := range []string{"one", "two", "three", "one"} {
			n := l.join(chip)
			submitted = append(submitted, n.submit(n.evidence(n.challenge())))
		}
		var all sync.WaitGroup
		for _, s := range []*server.Server{l.server, second} {
			all.Go(func() {
				if err := s.Advance(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		list, err := l.client(l.admin).Nodes(t.Context(), "")
		must(t, err)
		outcomes := map[string]int{}
		for _, n := range list.Nodes {
			outcomes[n.Verdict]++
		}
		if outcomes[client.Accept] != 3 || outcomes[client.Reject] != 1 {
			t.Errorf("verdicts %v, want 3 accepts and the second holder of a chip rejected", outcomes)
		}
		l.audited(submitted...)
	})
}

// TestTLS serves with a certificate of its own and ends when it is told.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	settings := writeWorld(t, dir)
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(cryptorand.Reader, template, template, key.Public(), key)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	settings.TLSCertificate, settings.TLSKey = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(settings.TLSCertificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(settings.TLSKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	settings.Origin, settings.Listen = "", "127.0.0.1:0"
	s, err := server.New(t.Context(), settings, server.Deps{Now: (&clock{now: worldBegin}).Now, Random: newSource(9), Log: quiet()})
	must(t, err)
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	c, err := client.New(client.Config{URL: s.Origin(), Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}})
	must(t, err)
	if h, err := c.Health(t.Context()); err != nil || h.Status != "ok" || !strings.HasPrefix(s.Origin(), "https://127.0.0.1:") {
		t.Errorf("health of %s: %+v %v", s.Origin(), h, err)
	}
	stop()
	must(t, <-ended)
}

func TestVerify(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	ch := n.challenge()
	data := n.evidence(ch)
	before := l.entries()
	for _, tc := range []struct {
		name, query, body string
		status            int
		want              string
	}{
		{"bundle, challenge known", "?nonce=" + ch.Challenge.Digest().String(), string(data), 200, `"observed":"no-time`}, // when it was issued, a stranger's word cannot say
		{"bundle, challenge not known", "", string(data), 200, `"verdict":"undecided"`},
		{"bundle, other challenge", "?nonce=" + strings.Repeat("00", 32), string(data), 200, `"verdict":"reject"`},
		{"another policy", "?policy=genuine", string(data), 200, `"name":"genuine"`},
		{"rubbish", "", "rubbish", 200, `"verdict":"reject"`},
		{"unknown policy", "?policy=lenient", string(data), 400, `"code":"malformed"`},
		{"unknown type", "?type=quote", string(data), 400, `"code":"malformed"`},
		{"bad nonce", "?nonce=zz", string(data), 400, `"code":"malformed"`},
		{"nonce and report data", "?nonce=" + strings.Repeat("00", 32) + "&report_data=" + strings.Repeat("00", 64), string(data), 400, `"code":"malformed"`},
		{"too large", "", strings.Repeat(" ", attest.MaxBundle+1), 413, `"code":"too-large"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := l.send("POST", "/v1/verify"+tc.query, "", "application/octet-stream", []byte(tc.body))
			if resp.StatusCode != tc.status || !strings.Contains(string(body), tc.want) {
				t.Errorf("%d %.400s, want %d %s", resp.StatusCode, body, tc.status, tc.want)
			}
		})
	}
	if got := l.entries(); got != before {
		t.Errorf("%d entries, want %d: nothing is stored", got, before)
	}
}

func TestStrictJSON(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	for _, tc := range []struct {
		name, body, want string
	}{
		{"unknown key", `{"renters":"00"}`, "unknown key"},
		{"duplicate key", `{"renter":"","renter":""}`, "body.json:1:"},
		{"other case", `{"Renter":""}`, "unknown key"},
		{"other type", `{"renter":7}`, "want text"},
		{"second document", `{} {}`, "body.json:1:"},
		{"no document", ``, "body is required"},
		{"wrong length", `{"renter":"0011"}`, "2 bytes, want 32"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := l.send("POST", "/v1/challenges", n.credential, "application/json", []byte(tc.body))
			if resp.StatusCode/100 != 4 || !strings.Contains(string(body), `"code":"malformed"`) || !strings.Contains(string(body), tc.want) {
				t.Errorf("%d %s, want malformed: %s", resp.StatusCode, body, tc.want)
			}
		})
	}
	resp, body := l.send("POST", "/v1/challenges", n.credential, "application/json", []byte(`{"renter":"`+strings.Repeat("00", 32)+`"}`))
	if resp.StatusCode != 201 {
		t.Errorf("good: %d %s", resp.StatusCode, body)
	}
}

func TestLogRoutes(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	for range 90 { // three entries each: one complete tile
		n.prove()
	}
	mirror := l.client("").Mirror()
	note, err := mirror.Checkpoint(t.Context())
	must(t, err)
	c, err := ledger.ReadCheckpoint(note)
	must(t, err)
	if c.Size < ledger.TileWidth {
		t.Fatalf("log of size %d, want a complete tile", c.Size)
	}
	seen := int64(0)
	must(t, ledger.Walk(t.Context(), mirror, c.Tree, func(int64, canon.Digest) error { seen++; return nil }))
	if seen != c.Size {
		t.Errorf("walked %d leaves, want %d", seen, c.Size)
	}
	for _, tc := range []struct {
		path   string
		status int
		cache  string
	}{
		{"/log/checkpoint", 200, "no-cache"},
		{"/log/tile/0/000", 200, "public, max-age=31536000, immutable"},
		{"/log/tile/entries/000", 200, "public, max-age=31536000, immutable"},
		{"/log/tile/0/000.p/7", 200, "public, max-age=60"},
		{"/log/tile/0/009", 404, "no-store"},
		{"/log/tile/0/0", 404, "no-store"},
		{"/log/else", 404, "no-store"},
	} {
		resp, body := l.send("GET", tc.path, "", "", nil)
		if resp.StatusCode != tc.status || resp.Header.Get("Cache-Control") != tc.cache {
			t.Errorf("%s: %d %q %.100q, want %d %q", tc.path, resp.StatusCode, resp.Header.Get("Cache-Control"), body, tc.status, tc.cache)
		}
	}
}

func TestHealth(t *testing.T) {
	l := newLab(t, "")
	health := func() client.Health {
		h, err := l.client("").Health(t.Context())
		must(t, err)
		return h
	}
	if h := health(); h != (client.Health{Status: "ok", Size: 4}) {
		t.Errorf("at the start: %+v", h)
	}
	n := l.join("one")
	l.clock.advance(time.Hour)
	if h := health(); h.Status != "ok" || h.PublishedAge != 3600 {
		t.Errorf("nothing waits: %+v, want ok", h)
	}
	n.challenge()
	if h := health(); h.Status == "ok" {
		t.Errorf("an entry waits behind an old checkpoint: %+v", h)
	}
	l.advance()
	if h := health(); h != (client.Health{Status: "ok", Size: 5}) {
		t.Errorf("published: %+v", h)
	}
}

// TestOpenAPI holds the description against the routes: each is there, and each that is there answers.
func TestOpenAPI(t *testing.T) {
	l := newLab(t, "")
	resp, body := l.send("GET", "/openapi.json", "", "", nil)
	var api struct {
		OpenAPI string                                `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage `json:"paths"`
	}
	must(t, json.Unmarshal(body, &api))
	if resp.StatusCode != 200 || api.OpenAPI != "3.1.0" {
		t.Fatalf("%d, version %q", resp.StatusCode, api.OpenAPI)
	}
	var got []string
	for path, methods := range api.Paths {
		for method := range methods {
			got = append(got, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(got)
	want := []string{
		"DELETE /v1/nodes/{node}", "GET /log/checkpoint", "GET /log/tile/{tile}", "GET /v1/blobs/{digest}", "GET /v1/entries", "GET /v1/health",
		"GET /v1/keys", "GET /v1/nodes", "GET /v1/results/{evidence}", "POST /v1/challenges", "POST /v1/evidence", "POST /v1/join-tokens",
		"POST /v1/nodes", "POST /v1/verify",
	}
	if !slices.Equal(got, want) {
		t.Errorf("described\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, route := range got {
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{node}", "node-1", "{tile}", "0/000.p/4", "{digest}", strings.Repeat("0", 64), "{evidence}", strings.Repeat("0", 64)).Replace(path)
		resp, body := l.send(method, path, "", "", nil)
		if resp.StatusCode == 404 || resp.StatusCode >= 500 {
			t.Errorf("%s: %d %s", route, resp.StatusCode, body)
		}
		if resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: refused as %q, want a problem document", route, resp.Header.Get("Content-Type"))
		}
	}
	for _, word := range []string{"$schema", "ErrorModel"} {
		if bytes.Contains(body, []byte(word)) {
			t.Errorf("the description names %s", word)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*server.Settings)
		want   string
	}{
		{"no data folder", func(s *server.Settings) { s.Data = "" }, "no data folder"},
		{"no origin", func(s *server.Settings) { s.Origin = "" }, "the origin must be named"},
		{"plain http elsewhere", func(s *server.Settings) { s.Origin = "http://assay.test" }, "plain http"},
		{"certificate without key", func(s *server.Settings) { s.TLSCertificate = "cert.pem" }, "go together"},
		{"interval", func(s *server.Settings) { s.Interval = time.Hour }, "interval"},
		{"policy", func(s *server.Settings) { s.Policy = "lenient" }, "lenient"},
		{"roots", func(s *server.Settings) { s.Roots = s.Collateral }, "no .pem file"},
		{"references", func(s *server.Settings) { s.References = []string{"missing"} }, "missing"},
		{"collateral", func(s *server.Settings) {
			s.Collateral = t.TempDir()
			must(t, os.WriteFile(filepath.Join(s.Collateral, "rubbish"), []byte("rubbish"), 0o600))
		}, "rubbish"},
		{"deny list key", func(s *server.Settings) { s.DenyListKeys = s.References }, "PUBLIC KEY"},
		{"database", func(s *server.Settings) { s.Database = "mysql:x" }, "mysql"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := writeWorld(t, t.TempDir())
			tc.change(&s)
			got, err := server.New(t.Context(), s, server.Deps{Now: (&clock{now: worldBegin}).Now, Random: newSource(9), Log: quiet()})
			if err == nil {
				err = errors.Join(got.Close(), errors.New("taken"))
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// sameJSON reports whether two answers read the same.
func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := canon.Marshal(a)
	must(t, err)
	y, err := canon.Marshal(b)
	must(t, err)
	return bytes.Equal(x, y)
}
