package ledger_test

import (
	"crypto/ed25519"
	"slices"
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
