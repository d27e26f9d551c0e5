package ledger_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

var final = ledger.Tree{Size: 12, Root: canon.Digest{12}}

func nextLog(t testing.TB, k ledger.Keyset, made canon.Time, origin string) ledger.Keyset {
	t.Helper()
	out, err := k.NextLog(made, origin, final)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestChainOfLogs: the keys go on over a change of keys, a log that is closed, and a change in the next one.
func TestChainOfLogs(t *testing.T) {
	h := history(t)
	k := nextLog(t, h.Current(), start+8*day, "second/log")
	sealed := sealKeyset(t, k, edKey(1))
	check(t, "the next log", h.Add(sealed), "")
	check(t, "a change in it", h.Add(sealKeyset(t, next(t, k, start+9*day, day, keyOf(t, ledger.UseResult, ecKey(6))), edKey(5), ecKey(6))), "")
	again, err := ledger.ReadKeys(h.Envelopes())
	check(t, "again", err, "")
	if !again.Has(k) || !slices.Equal(again.Origins(), []string{origin, "second/log"}) || len(again.Keys()) != 6 {
		t.Errorf("%q, %d keys", again.Origins(), len(again.Keys()))
	}
	if first, ok := h.Newest(origin); !ok || first.Made != start+7*day {
		t.Errorf("newest keyset of the first log: %+v, %v", first, ok)
	}
	if second, ok := h.Newest("second/log"); !ok || second.Made != start+9*day {
		t.Errorf("newest keyset of the second log: %+v, %v", second, ok)
	}
	if _, ok := h.Newest("third/log"); ok {
		t.Error("a log that is not there has a keyset")
	}
	got, e, ok := h.After(origin)
	if !ok || got.Continues.Tree() != final || got.Continues.Origin != origin || e.Identity() != sealed.Identity() {
		t.Errorf("after the first log: %+v, %v", got.Continues, ok)
	}
	if _, _, ok := h.After("second/log"); ok {
		t.Error("a log comes after the newest one")
	}
	// One key, two names: who knows the first log's verifier key does not know the second's.
	key := edKey(5).Public().(ed25519.PublicKey)
	want, err := ledger.LogVKey("second/log", key)
	check(t, "vkey", err, "")
	if got := k.LogVKeys(start + 9*day); !slices.Equal(got, []string{want}) {
		t.Errorf("log keys of the second log %q, want %q", got, want)
	}
}

// TestChainRefuses: each row changes the keyset that opens the second log, or who signs it.
func TestChainRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*ledger.Keyset)
		signer ledger.Signer
		want   string
	}{
		{"good", func(*ledger.Keyset) {}, edKey(5), ""},
		{"by the other log key", func(*ledger.Keyset) {}, edKey(1), ""},
		{"not signed by a log key of the log before", func(*ledger.Keyset) {}, ecKey(4), "no log key of the keyset before it signed it"},
		{"by a stranger", func(*ledger.Keyset) {}, edKey(9), "no log key of the keyset before it signed it"},
		{"continues nothing", func(k *ledger.Keyset) { k.Continues = ledger.Final{} }, edKey(5), `of the log "second/log", the one before it of`},
		{"continues another log", func(k *ledger.Keyset) { k.Continues.Origin = "elsewhere/log" }, edKey(5), `continues the log "elsewhere/log", the one before it is of`},
		{"continues itself", func(k *ledger.Keyset) { k.Continues.Origin = k.Origin }, edKey(5), "under the same name"},
		{"of no name", func(k *ledger.Keyset) { k.Continues.Origin = "" }, edKey(5), "origin, size and root of a log are all needed"},
		{"of no size", func(k *ledger.Keyset) { k.Continues.Size = 0 }, edKey(5), "origin, size and root of a log are all needed"},
		{"of no root", func(k *ledger.Keyset) { k.Continues.Root = canon.Digest{} }, edKey(5), "origin, size and root of a log are all needed"},
		{"of no keyset", func(k *ledger.Keyset) { k.Previous = canon.Digest{} }, edKey(5), "but no keyset of it"},
		{"after another keyset", func(k *ledger.Keyset) { k.Previous[0] ^= 1 }, edKey(5), "the one before it is"},
		{"forgets a key", func(k *ledger.Keyset) { k.Keys = k.Keys[1:] }, edKey(5), "lacks the"},
	} {
		h := history(t)
		k := nextLog(t, h.Current(), start+8*day, "second/log")
		c.change(&k)
		check(t, c.name, h.Add(sealKeyset(t, k, c.signer)), c.want)
	}
}

// TestLogNeverComesBack: a chain has each name once.
func TestLogNeverComesBack(t *testing.T) {
	for name, want := range map[string]string{"third/log": "", origin: "which was closed before"} {
		h := history(t)
		second := nextLog(t, h.Current(), start+8*day, "second/log")
		check(t, "second", h.Add(sealKeyset(t, second, edKey(5))), "")
		check(t, name, h.Add(sealKeyset(t, nextLog(t, second, start+9*day, name), edKey(5))), want)
	}
}

func TestCarried(t *testing.T) {
	first := ledger.Entry{Kind: ledger.KindKeyset, Body: canon.Digest{1}}
	for _, c := range []struct {
		name string
		e    ledger.Entry
		want bool
	}{
		{"carried", ledger.Entry{Kind: ledger.KindEnrolment, Refs: []canon.Digest{{1}}}, true},
		{"by evidence", ledger.Entry{Kind: ledger.KindEnrolment, Refs: []canon.Digest{{2}}}, false},
		{"by a token", ledger.Entry{Kind: ledger.KindEnrolment, Refs: []canon.Digest{}}, false},
		{"a keyset", ledger.Entry{Kind: ledger.KindKeyset, Refs: []canon.Digest{{1}}}, false},
	} {
		if got := ledger.Carried(c.e, first); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// logs is a chain of logs in memory, by name.
type logs map[string]*shown

type shown struct {
	memory
	note []byte
}

func (s *shown) Checkpoint(context.Context) ([]byte, error) { return s.note, nil }

// noteOf signs a checkpoint by log key 1.
func noteOf(t testing.TB, origin string, tree ledger.Tree) []byte {
	t.Helper()
	signer, err := ledger.LogSigner(origin, edKey(1).private())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: origin, Tree: tree}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// threeLogs are a chain of logs of 12, 3 and 7 leaves, and the trees that the first one was.
func threeLogs(t testing.TB) (logs, ledger.KeyHistory, []ledger.Tree) {
	t.Helper()
	all := logs{}
	var h ledger.KeyHistory
	k := firstKeyset(t)
	add := func(k ledger.Keyset, signers ...ledger.Signer) {
		if err := h.Add(sealKeyset(t, k, signers...)); err != nil {
			t.Fatal(err)
		}
	}
	add(k, edKey(1), ecKey(2), edKey(3))
	trees := []ledger.Tree{{}}
	for i, size := range []int{12, 3, 7} {
		name := []string{origin, "second/log", "third/log"}[i]
		if i > 0 {
			before := all[k.Origin]
			next, err := k.NextLog(start+canon.Time(i)*day, name, before.edge.Tree())
			if err != nil {
				t.Fatal(err)
			}
			add(next, edKey(1))
			k = next
		}
		s := &shown{}
		for n := range size {
			tree := s.append(commitments(100*i+n, 1)...)
			if i == 0 {
				trees = append(trees, tree)
			}
		}
		s.note, all[name] = noteOf(t, name, s.edge.Tree()), s
	}
	return all, h, trees
}

// TestFollowChain: who believed a checkpoint of one log goes on to a later log of its chain, and to no other.
func TestFollowChain(t *testing.T) {
	other, otherTrees := memory{}, []ledger.Tree{{}}
	for n := range 20 {
		otherTrees = append(otherTrees, other.append(commitments(5000+n, 1)...))
	}
	// witnessed has the reader ask for a witness, who cosigned the checkpoints of some logs.
	witnessed := func(cosigned ...string) func(logs, *ledger.Chain, *ledger.Follower) {
		return func(l logs, _ *ledger.Chain, f *ledger.Follower) {
			p, err := ledger.ParseWitnessPolicy([]byte("witness w " + witnessVKey(t, 60) + "\nquorum w\n"))
			check(t, "policy", err, "")
			f.Witnesses = &p
			for _, name := range cosigned {
				c, err := ledger.ReadCheckpoint(l[name].note)
				check(t, name, err, "")
				l[name].note = append(l[name].note, cosign(t, c, 60, start)...)
			}
		}
	}
	for _, c := range []struct {
		name   string
		last   func(trees []ledger.Tree) []byte
		change func(logs, *ledger.Chain, *ledger.Follower)
		next   string
		want   string
		fork   bool
	}{
		{name: "over two boundaries"},
		{name: "over one", next: "second/log"},
		{name: "from the final checkpoint, of a log that is not to be had", change: func(l logs, _ *ledger.Chain, _ *ledger.Follower) { delete(l, origin) }, last: func(trees []ledger.Tree) []byte { return noteOf(t, origin, trees[12]) }},
		{name: "without a chain", change: func(_ logs, _ *ledger.Chain, f *ledger.Follower) { f.Chain = nil }, want: `of the log "` + origin + `"`},
		{name: "another history at the end", last: func([]ledger.Tree) []byte { return noteOf(t, origin, otherTrees[12]) }, want: "the next log continues one of size 12", fork: true},
		{name: "another history before it", last: func([]ledger.Tree) []byte { return noteOf(t, origin, otherTrees[5]) }, want: "does not continue that of size 5", fork: true},
		{name: "beyond the close", last: func([]ledger.Tree) []byte { return noteOf(t, origin, otherTrees[13]) }, want: "a checkpoint of size 13", fork: true},
		{name: "signed by a stranger", last: func(trees []ledger.Tree) []byte {
			return []byte(strings.Replace(string(noteOf(t, origin, trees[5])), "\n— "+origin+" ", "\n— "+origin+" AAAA", 1))
		}, want: "keys of the log"},
		{name: "the closed log shows more", change: func(l logs, _ *ledger.Chain, _ *ledger.Follower) {
			l[origin].note = noteOf(t, origin, l[origin].append(commitments(12, 1)...))
		}, want: "its checkpoint is of size 13", fork: true},
		{name: "the closed log shows less", change: func(l logs, _ *ledger.Chain, _ *ledger.Follower) {
			s := &shown{}
			s.note = noteOf(t, "second/log", s.append(commitments(100, 2)...))
			l["second/log"] = s
		}, want: "its checkpoint is of size 2, and it ended with size 3"},
		{name: "the closed log shows another", change: func(l logs, _ *ledger.Chain, _ *ledger.Follower) {
			s := &shown{}
			s.note = noteOf(t, "second/log", s.append(commitments(700, 3)...))
			l["second/log"] = s
		}, want: "its checkpoint is of size 3", fork: true},
		{name: "the middle log is gone", change: func(l logs, _ *ledger.Chain, _ *ledger.Follower) { delete(l, "second/log") }, want: `the log "second/log", which was closed: file does not exist`},
		{name: "keys that do not lead there", change: func(_ logs, c *ledger.Chain, _ *ledger.Follower) {
			h, err := ledger.ReadKeys(c.Keys.Envelopes()[:2])
			check(t, "shorter", err, "")
			c.Keys = h
		}, want: `no keyset leads to the log "third/log"`},
		{name: "back", last: func([]ledger.Tree) []byte { return noteOf(t, "third/log", otherTrees[7]) }, next: origin, want: `the log "` + origin + `" comes before "third/log"`},
		{name: "witnessed", change: witnessed("third/log", "second/log", origin)},
		{name: "no quorum for a log between", change: witnessed("third/log", origin), want: `the log "second/log", which was closed: checkpoint of size 3 of "second/log": no quorum of witnesses`},
		{name: "no quorum for the closed log", change: witnessed("third/log", "second/log"), want: `the log "assay.example/log", which was closed: checkpoint of size 12`},
	} {
		l, h, trees := threeLogs(t)
		if c.next == "" {
			c.next = "third/log"
		}
		k, _ := h.Newest(c.next)
		chain := ledger.Chain{Keys: h, Log: func(_ context.Context, origin string) (ledger.Source, error) {
			if s, ok := l[origin]; ok {
				return s, nil
			}
			return nil, fs.ErrNotExist
		}}
		f := ledger.Follower{Logs: k.LogVKeys(k.Made), Chain: func(context.Context) (ledger.Chain, error) { return chain, nil }}
		if c.change != nil {
			c.change(l, &chain, &f)
		}
		last := noteOf(t, origin, trees[5])
		if c.last != nil {
			last = c.last(trees)
		}
		got, err := f.Follow(t.Context(), l[c.next], last, l[c.next].note, start+30*day)
		check(t, c.name, err, c.want)
		var fork *ledger.Fork
		if is := errors.As(err, &fork); is != c.fork || is && (len(fork.Believed) == 0 || len(fork.Refused) == 0) {
			t.Errorf("%s: a fork: %v, want %v: %v", c.name, is, c.fork, err)
		}
		if c.want == "" && got.Origin != c.next {
			t.Errorf("%s: believed %+v", c.name, got)
		}
	}
}

func TestKeysetsDocument(t *testing.T) {
	_, h, _ := threeLogs(t)
	for origin, n := range map[string]int{"second/log": 1, "third/log": 2} {
		data, err := ledger.KeysetsBefore(h, origin)
		check(t, origin, err, "")
		before, err := ledger.ParseKeysets(data)
		check(t, origin, err, "")
		if len(before.Envelopes()) != n {
			t.Errorf("%d keysets before %s", len(before.Envelopes()), origin)
		}
		_, err = ledger.ParseKeysets([]byte(strings.Replace(string(data), "/v1\"}", "/v2\"}", 1)))
		check(t, "another type", err, `type "assay/keysets/v2"`)
		_, err = ledger.ParseKeysets(append(data, '\n'))
		check(t, "another spelling", err, "canonical")
	}
	data, err := ledger.KeysetsBefore(h, origin)
	check(t, "of the first log", err, "")
	if data != nil {
		t.Errorf("of the first log: %s", data)
	}
	_, err = ledger.KeysetsBefore(h, "fourth/log")
	check(t, "of no log", err, `the log "fourth/log" has none`)
}
