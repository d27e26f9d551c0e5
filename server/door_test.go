package server_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

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
	l.clock.advance(time.Hour - time.Minute) // long after the challenge expired
	if s := n.submit(data); !sameJSON(t, s, first) {
		t.Errorf("after the verdict: %+v, want the same promise", s)
	}
	l.advance()
	if got := l.entries(); got != before+3 {
		t.Errorf("%d entries, want %d: an appraisal, a verdict and whose device it is, once", got, before+3)
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
		{"credential of another server", good, "node_0011223344556677_" + strings.Repeat("A", 43), 401, client.CodeForeign},
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
		issued, err := l.client(l.admin).NewJoinToken(t.Context(), "")
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
		want  string
	}{
		{"used", once, "it was used up"},
		{"too old", late, "it expired at 2026-02-02T12:00:00Z"},
		{"of another server", client.Token{Secret: "join_0011223344556677_" + strings.Repeat("A", 43), Fingerprint: once.Fingerprint}, "none of this id was given out here"},
		{"damaged", client.Token{Secret: token().Secret[:30], Fingerprint: once.Fingerprint}, "its secret half is not the one"},
		{"admin token", admin, "a credential of another kind: admin"},
		{"of another verifier", client.Token{Secret: token().Secret, Fingerprint: canon.Sum(nil)}, "is no key of this one now"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := nobody.Join(t.Context(), tc.token)
			if p := refused(t, err, http.StatusForbidden, "token"); !strings.Contains(p.Detail, tc.want) {
				t.Errorf("%q, want %q", p.Detail, tc.want)
			}
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
		{"what has not the form", "node", 401, "credential"},
		{"one half", "node_" + strings.Split(n.credential, "_")[1], 401, "credential"},
		{"another secret half", n.credential[:len(n.credential)-4] + "AAAA", 401, "credential"},
		{"another use", "admin" + strings.TrimPrefix(n.credential, "node"), 401, "foreign"},
		{"what is too long", n.credential + strings.Repeat("A", 128), 401, "credential"},
		{"of another server", "node_0123456789abcdef_AAAA", 401, "foreign"},
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
