package audit_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// renewed is a service that judges by the keys of its moment, and changed them: the result key after a day, the log key
// after eight and the promise key after nine. Between the changes it judges a host.
func renewed(t testing.TB) *service {
	s := newService(t, "honest")
	good := newHost("good", sevsnp.PolicySMT)
	s.serve(good)
	for _, change := range []struct {
		use   string
		after canon.Time
	}{{ledger.UseResult, day}, {ledger.UseLog, 7 * day}, {ledger.UsePromise, day}} {
		s.now += change.after
		s.renew(change.use, day)
		s.serve(good)
	}
	s.publish()
	return s
}

// TestKeysRenewed: verdicts and challenges of every time are judged by the key of then, and the trust file may be of any
// keyset of the log.
func TestKeysRenewed(t *testing.T) {
	s := renewed(t)
	export := s.export()
	for i, k := range s.keysets {
		r := replay(t, export, s.trustOf(k), audit.Options{})
		if r.Outcome != audit.Equal || r.Trust != audit.Anchored || len(r.Keys) != 6 {
			t.Errorf("by the trust file of keyset %d: %s", i, r.Text())
		}
	}
	if r := replay(t, export, nil, audit.Options{}); r.Outcome != audit.NotAnchored {
		t.Errorf("held against itself: %s", r.Text())
	}
	ended := s.keyOf(ledger.UseResult, 0)
	want := "key         " + canon.Sum(ended.spki()).String() + " result, from 2026-02-01T00:00:00Z to 2026-02-03T00:00:02Z"
	if r := replay(t, export, nil, audit.Options{}); !strings.Contains(r.Text(), want[:80]) {
		t.Errorf("want the line %q in\n%s", want, r.Text())
	}
}

// TestTrustOfAnotherHistory: keysets that the log does not have are not the trusted ones, and words say why.
func TestTrustOfAnotherHistory(t *testing.T) {
	s := renewed(t)
	export := s.export()
	s.now += day
	s.renew(ledger.UseResult, day)
	r := replay(t, export, s.trust(), audit.Options{})
	wantFault(t, r, "entry 0", "take a newer export")
	other := s.keysets[1]
	other.Made++
	r = replay(t, export, s.trustOf(other), audit.Options{})
	wantFault(t, r, "entry 0", "not the trusted keys")
	// A forger lists the honest keys in the place of his own first ones: the honest keyset names another one before it.
	f := newLog(t, "forger")
	k := s.keysets[0]
	previous, err := f.keyset().Digest()
	f.must(err)
	k.Previous = previous
	f.addKeyset(k, f.key(ledger.UseLog), s.keyOf(ledger.UseLog, 0), s.keyOf(ledger.UseResult, 0), s.keyOf(ledger.UsePromise, 0))
	f.publishBy(f.key(ledger.UseLog))
	if r := replay(t, f.export(), s.trustOf(s.keysets[0]), audit.Options{}); r.Outcome != audit.Faulty {
		t.Errorf("the honest keys in a forger's log pass: %s", r.Text())
	}
}

// TestT07VerdictOfRetiredKey: what a key signed in its time stays signed when its time is over; a second later it is not.
func TestT07VerdictOfRetiredKey(t *testing.T) {
	for _, row := range []struct {
		name  string
		after canon.Time // from the change of keys to the verdict by the old one
		want  string
	}{
		{"in the overlap", 0, ""},
		{"in the last second", day - 3, ""}, // challenge, evidence and verdict are a second apart
		{"a second later", day - 2, "stands from"},
		{"long after", 30 * day, "stands from"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			s.now += day
			s.renew(ledger.UseResult, day)
			s.now++
			s.now += row.after
			s.signResultBy = s.keyOf(ledger.UseResult, 0)
			s.serve(newHost("good", sevsnp.PolicySMT))
			s.signResultBy = key{}
			s.now += 30 * day
			s.append(ledger.KindPolicy, ledger.StreamServer, s.policy.Digest())
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if row.want == "" {
				if r.Outcome != audit.Equal {
					t.Errorf("%s", r.Text())
				}
				return
			}
			wantFault(t, r, verdictEntry(t, s, 0), row.want)
		})
	}
}

// verdictEntry names a verdict entry of a published log by its number.
func verdictEntry(t testing.TB, s *service, number int) string {
	t.Helper()
	rows, _ := population(t, reading(t, s.log))
	return "entry " + itoa(rows[number].Index)
}

// TestT12UnknownKey: a verdict by no key of the log is a fault of that entry, and no panic.
func TestT12UnknownKey(t *testing.T) {
	s := newService(t, "honest")
	s.signResultBy = newKey("nobody")
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	wantFault(t, replay(t, s.export(), s.trust(), audit.Options{}), verdictEntry(t, s, 0), "not signed by a result key, but by")
}

// TestT13KeyOfTheFuture: what is signed by a key before its time, however good the signature, is not signed.
func TestT13KeyOfTheFuture(t *testing.T) {
	s := newService(t, "honest")
	s.signResultBy = s.keyOf(ledger.UseResult, 1)
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.signResultBy = key{}
	s.now += day
	s.renew(ledger.UseResult, day)
	s.serve(newHost("good", sevsnp.PolicySMT)) // by the same key, in its time
	s.publish()
	r := replay(t, s.export(), s.trust(), audit.Options{})
	wantFault(t, r, verdictEntry(t, s, 0), "stands from 2026-02-02")
	if r.FaultCount != 1 {
		t.Errorf("want one fault\n%s", r.Text())
	}
}

// TestChallengeOfRetiredKey: a challenge is for a result key that stood when it was issued.
func TestChallengeOfRetiredKey(t *testing.T) {
	for after, want := range map[canon.Time]string{day: "", day + 1: "stands from"} {
		s := newService(t, "honest")
		s.renew(ledger.UseResult, day)
		s.now += after
		s.renewed[ledger.UseResult]--
		c := s.ask("good")
		s.renewed[ledger.UseResult]++
		s.publish()
		r := replay(t, s.export(), s.trust(), audit.Options{})
		if want == "" && r.Outcome != audit.Equal {
			t.Errorf("issued %s: %s", c.Issued, r.Text())
		}
		if want != "" {
			wantFault(t, r, "entry "+itoa(s.indexOf(s.bytes(c))), want)
		}
	}
}

// TestKeysetEntries: each row enters a keyset that the log's own keys do not lead to.
func TestKeysetEntries(t *testing.T) {
	for _, row := range []struct {
		name  string
		enter func(*service, ledger.Keyset, key)
		want  string
	}{
		{"good", func(s *service, k ledger.Keyset, added key) { s.addKeyset(k, s.key(ledger.UseLog), added) }, ""},
		{"signed for by the new key alone", func(s *service, k ledger.Keyset, added key) { s.addKeyset(k, added) }, "no log key of the keyset before it signed it"},
		{"signed for by the old result key", func(s *service, k ledger.Keyset, added key) { s.addKeyset(k, s.key(ledger.UseResult), added) }, "no log key of the keyset before it signed it"},
		{"not signed by the new key", func(s *service, k ledger.Keyset, _ key) { s.addKeyset(k, s.key(ledger.UseLog)) }, "did not sign it"},
		{"a plain keyset", func(s *service, k ledger.Keyset, _ key) {
			s.append(ledger.KindKeyset, ledger.StreamServer, s.put(k), s.keysetBody)
		}, "envelope"},
		{"made at another time", func(s *service, k ledger.Keyset, added key) {
			s.now++
			s.addKeyset(k, s.key(ledger.UseLog), added)
		}, "its entry is of"},
		{"without its predecessor", func(s *service, k ledger.Keyset, added key) {
			s.keysetBody = canon.Digest{}
			s.addKeyset(k, s.key(ledger.UseLog), added)
		}, "refs do not name the keyset that it follows"},
		{"a promise key for results", func(s *service, k ledger.Keyset, _ key) {
			k.Keys[3].SPKI = s.key(ledger.UsePromise).spki()
			s.addKeyset(k, s.key(ledger.UseLog), s.key(ledger.UsePromise))
		}, "log, result and promise keys are never shared"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			trust := s.trust()
			s.now += day
			added := s.keyOf(ledger.UseResult, 1)
			k, err := s.keyset().NextKeyset(s.now, day, ledger.Key{Use: ledger.UseResult, SPKI: added.spki()})
			s.must(err)
			before := s.keysets
			row.enter(s, k, added)
			if row.want != "" {
				s.keysets = before
			}
			s.publish()
			r := replay(t, s.export(), trust, audit.Options{})
			if row.want == "" {
				if r.Outcome != audit.Equal {
					t.Errorf("%s", r.Text())
				}
				return
			}
			wantFault(t, r, "entry "+itoa(int64(len(s.commitments)-1)), row.want)
		})
	}
}

// TestCheckpointKeys: a checkpoint is signed by log keys that had not ended before its newest entry, and by no others.
func TestCheckpointKeys(t *testing.T) {
	for _, row := range []struct {
		name  string
		after canon.Time // from the change of log keys to the newest entry
		by    []int      // generations of log keys
		want  string
	}{
		{"both in the overlap", 0, []int{1, 0}, ""},
		{"the new one alone", 0, []int{1}, ""},
		{"the old one in its last second", day, []int{0}, ""},
		{"the old one a second later", day + 1, []int{0}, "log.example"},
		{"the old one beside the new a second later", day + 1, []int{1, 0}, "signed with a log key that had ended"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			s.now += day
			s.renew(ledger.UseLog, day)
			s.now += row.after
			s.append(ledger.KindPolicy, ledger.StreamServer, s.policy.Digest())
			var keys []key
			for _, generation := range row.by {
				keys = append(keys, s.keyOf(ledger.UseLog, generation))
			}
			s.publishBy(keys...)
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if row.want == "" {
				if r.Outcome != audit.Equal {
					t.Errorf("%s", r.Text())
				}
				return
			}
			wantFault(t, r, "checkpoint", row.want)
			if signed := slices.Contains(row.by, 1); (r.Trust == audit.Anchored) != signed {
				t.Errorf("signed by a standing key: %t, trust: %s", signed, r.Trust)
			}
		})
	}
}

// TestPromiseOfRetiredKey: a promise is one of the key that stood when the submission was received.
func TestPromiseOfRetiredKey(t *testing.T) {
	s := newService(t, "honest")
	c := s.ask("good")
	body, commitment := s.take(c, newHost("good", sevsnp.PolicySMT).answer(s.log, c.Digest()))
	s.decide(s.judge(c, body), body)
	s.now += day
	s.renew(ledger.UsePromise, day)
	s.now += 2 * day
	c = s.ask("good")
	late, lateCommitment := s.take(c, newHost("good", sevsnp.PolicySMT).answer(s.log, c.Digest()))
	s.decide(s.judge(c, late), late)
	s.publish()
	promise := func(commitment, evidence canon.Digest, sequence int64, by key) audit.GivenPromise {
		e := s.entryOf(commitment)
		if e.Body != evidence || e.Sequence != sequence {
			t.Fatalf("entry %+v", e)
		}
		env, err := ledger.SealPromise(ledger.NewPromise(origin, commitment, e), by)
		s.must(err)
		return audit.GivenPromise{Name: "p", Data: s.bytes(env)}
	}
	for _, row := range []struct {
		name    string
		promise audit.GivenPromise
		state   string
	}{
		{"then, by the key of then", promise(commitment, body, 0, s.keyOf(ledger.UsePromise, 0)), audit.PromiseKept},
		{"now, by the key of now", promise(lateCommitment, late, 1, s.keyOf(ledger.UsePromise, 1)), audit.PromiseKept},
		{"now, by the key of then", promise(lateCommitment, late, 1, s.keyOf(ledger.UsePromise, 0)), audit.PromiseRefused},
		{"then, by the key of now", promise(commitment, body, 0, s.keyOf(ledger.UsePromise, 1)), audit.PromiseRefused},
	} {
		r := replay(t, s.export(), s.trust(), audit.Options{Promises: []audit.GivenPromise{row.promise}})
		if r.Promises[0].State != row.state {
			t.Errorf("%s: %+v, want %s", row.name, r.Promises[0], row.state)
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
