package ledger_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

const day = canon.Time(86400)

func spkiOf(t testing.TB, k ledger.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func keyOf(t testing.TB, use string, k ledger.Signer) ledger.Key {
	return ledger.Key{Use: use, SPKI: spkiOf(t, k), From: start}
}

// firstKeyset is a keyset of log key 1, result key 2 and promise key 3.
func firstKeyset(t testing.TB) ledger.Keyset {
	return ledger.Keyset{Type: ledger.KeysetType, Origin: origin, Made: start, Keys: []ledger.Key{
		keyOf(t, ledger.UseLog, edKey(1)), keyOf(t, ledger.UseResult, ecKey(2)), keyOf(t, ledger.UsePromise, edKey(3)),
	}}
}

func TestKeyset(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := x509.MarshalPKIXPublicKey(p384.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*ledger.Keyset)
		want   string
	}{
		{"good", func(*ledger.Keyset) {}, ""},
		{"two result keys", func(k *ledger.Keyset) { k.Keys = append(k.Keys, keyOf(t, ledger.UseResult, ecKey(5))) }, ""},
		{"unknown type", func(k *ledger.Keyset) { k.Type = "assay/keyset/v2" }, "not known to this build"},
		{"no time", func(k *ledger.Keyset) { k.Made = 0 }, "no time at which it was made"},
		{"no origin", func(k *ledger.Keyset) { k.Origin = "" }, "key 0: log key"},
		{"no log key", func(k *ledger.Keyset) { k.Keys = k.Keys[1:] }, "want a log key, a result key and a promise key"},
		{"no promise key", func(k *ledger.Keyset) { k.Keys = k.Keys[:2] }, "want a log key, a result key and a promise key"},
		{"every result key ends", func(k *ledger.Keyset) { k.Keys[1].Until = start + day }, "that stand and have no end"},
		{"no result key stands yet", func(k *ledger.Keyset) { k.Keys[1].From = start + 1 }, "that stand and have no end"},
		{"unknown use", func(k *ledger.Keyset) { k.Keys[1].Use = "tls" }, `use "tls" is not known`},
		{"one key for two uses", func(k *ledger.Keyset) { k.Keys[2].SPKI = k.Keys[1].SPKI }, "key 2 is listed twice"},
		{"the log's key for results", func(k *ledger.Keyset) { k.Keys[1].SPKI = spkiOf(t, edKey(1)) }, "key 1 is listed twice"},
		{"not a key", func(k *ledger.Keyset) { k.Keys[1].SPKI = []byte("key") }, "key 1: parse result key"},
		{"bytes after a key", func(k *ledger.Keyset) { k.Keys[1].SPKI = append(k.Keys[1].SPKI, 0) }, "key 1: parse result key"},
		{"a log key that signs no notes", func(k *ledger.Keyset) { k.Keys[0].SPKI = spkiOf(t, ecKey(1)) }, "key 0: parse log key: a key of the wrong kind"},
		{"a curve that is not verified", func(k *ledger.Keyset) { k.Keys[1].SPKI = large }, "key 1: parse result key: a key of the wrong kind"},
		{"many keys", func(k *ledger.Keyset) { k.Keys = make([]ledger.Key, ledger.MaxKeys+1) }, "33 keys"},
		{"ends before it begins", func(k *ledger.Keyset) {
			k.Keys = append(k.Keys, keyOf(t, ledger.UseResult, ecKey(5)))
			k.Keys[3].Until = start - 1
		}, "key 3: ends"},
	} {
		k := firstKeyset(t)
		c.change(&k)
		got, err := ledger.ParseKeyset(marshal(t, k))
		check(t, c.name, err, c.want)
		if err != nil {
			continue
		}
		keys := got.Of(ledger.UsePromise)
		if pub, err := keys[0].Public(); err != nil || len(keys) != 1 || !edKey(3).Public().(ed25519.PublicKey).Equal(pub) {
			t.Errorf("%s: promise keys %+v (%v)", c.name, keys, err)
		}
	}
}

// TestT05KeyEndInclusive: a key's time is a closed interval.
func TestT05KeyEndInclusive(t *testing.T) {
	h := history(t)
	result := spkiOf(t, ecKey(2))
	for _, c := range []struct {
		name string
		at   canon.Time
		want string
	}{
		{"first instant", start, ""},
		{"one second before", start - 1, "stands from"},
		{"last instant", start + 2*day, ""},
		{"one second after", start + 2*day + 1, "stands from"},
	} {
		check(t, c.name, h.CheckKey(result, ledger.UseResult, c.at), c.want)
	}
}

// TestT06KeyWithoutStart: a key without a start of validity makes a malformed keyset, whether the member is missing or
// says nothing.
func TestT06KeyWithoutStart(t *testing.T) {
	k := firstKeyset(t)
	_, err := ledger.ParseKeyset(marshal(t, k))
	check(t, "with", err, "")
	k.Keys[1].From = 0
	_, err = ledger.ParseKeyset(marshal(t, k))
	check(t, "zero", err, "key 1: no start of validity")
	text := string(marshal(t, firstKeyset(t)))
	const from = `"from":"2026-05-28T20:26:40Z",`
	without := text[:index(t, text, from)] + text[index(t, text, from)+len(from):]
	_, err = ledger.ParseKeyset([]byte(without))
	check(t, "missing", err, "not canonical")
}

func index(t *testing.T, text, part string) int {
	t.Helper()
	for i := range text {
		if len(text)-i >= len(part) && text[i:i+len(part)] == part {
			return i
		}
	}
	t.Fatalf("no %q in %s", part, text)
	return 0
}

// history is of three keysets: at the start, a day later with result key 4 in place of 2 after another day, and a week
// later with log key 5.
func history(t testing.TB) ledger.KeyHistory {
	h, err := ledger.ReadKeys(chain(t))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func chain(t testing.TB) []ledger.Envelope {
	first := firstKeyset(t)
	second := next(t, first, start+day, day, keyOf(t, ledger.UseResult, ecKey(4)))
	third := next(t, second, start+7*day, day, keyOf(t, ledger.UseLog, edKey(5)))
	return []ledger.Envelope{
		sealKeyset(t, first, edKey(1), ecKey(2), edKey(3)), sealKeyset(t, second, edKey(1), ecKey(4)), sealKeyset(t, third, edKey(1), edKey(5)),
	}
}

func next(t testing.TB, k ledger.Keyset, made, overlap canon.Time, added ...ledger.Key) ledger.Keyset {
	t.Helper()
	out, err := k.NextKeyset(made, overlap, added...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sealKeyset(t testing.TB, k ledger.Keyset, signers ...ledger.Signer) ledger.Envelope {
	t.Helper()
	e, err := ledger.Seal(ledger.KeysetType, marshal(t, k), signers...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestKeyHistory(t *testing.T) {
	h := history(t)
	if got := len(h.Keys()); got != 5 {
		t.Errorf("%d keys, want 5", got)
	}
	if k := h.Current(); len(k.Keys) != 4 || k.Made != start+7*day {
		t.Errorf("current keyset %+v: want the ended result key gone", k)
	}
	if !h.Has(firstKeyset(t)) {
		t.Error("the first keyset is not in its history")
	}
	other := firstKeyset(t)
	other.Keys[2].SPKI = spkiOf(t, edKey(9))
	if h.Has(other) {
		t.Error("a keyset of another promise key is in the history")
	}
	vkey := func(k edKey) string {
		v, err := ledger.LogVKey(origin, k.Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		at   canon.Time
		want []string
	}{
		{start + 6*day, []string{vkey(1)}},
		{start + 8*day, []string{vkey(5), vkey(1)}},
		{start + 8*day + 1, []string{vkey(5)}},
	} {
		if got := h.Current().LogVKeys(c.at); !slices.Equal(got, c.want) {
			t.Errorf("log keys at %s: %q, want %q", c.at, got, c.want)
		}
	}
	if k, ok := h.Find(spkiOf(t, ecKey(2))); !ok || k.Until != start+2*day {
		t.Errorf("retired key %+v %v, want its end", k, ok)
	}
}

// TestKeyHistoryRefuses: each row changes the second keyset of a good chain, or who signs it.
func TestKeyHistoryRefuses(t *testing.T) {
	first := firstKeyset(t)
	for _, c := range []struct {
		name    string
		change  func(*ledger.Keyset)
		signers []ledger.Signer
		want    string
	}{
		{"good", nil, nil, ""},
		{"of another log", func(k *ledger.Keyset) { k.Origin = "elsewhere/log" }, nil, `of the log "elsewhere/log"`},
		{"after another keyset", func(k *ledger.Keyset) { k.Previous = canon.Digest{1} }, nil, "the one before it is"},
		{"forgets a key", func(k *ledger.Keyset) { k.Keys = slices.Delete(k.Keys, 1, 2) }, nil, "lacks the result key"},
		{"another start", func(k *ledger.Keyset) { k.Keys[1].From++ }, nil, "another use or start"},
		{"ends a key in the past", func(k *ledger.Keyset) { k.Keys[1].Until = k.Made - 1 }, nil, "moves the end"},
		{"ends a key now", func(k *ledger.Keyset) { k.Keys[1].Until = k.Made }, nil, ""},
		{"a new key in the past", func(k *ledger.Keyset) { k.Keys[3].From-- }, nil, "before the keyset was made"},
		{"signed by the new key alone", nil, []ledger.Signer{ecKey(4)}, "no log key of the keyset before it signed it"},
		{"signed for by the result key", nil, []ledger.Signer{ecKey(2), ecKey(4)}, "no log key of the keyset before it signed it"},
		{"signed for by a stranger", nil, []ledger.Signer{edKey(9), ecKey(4)}, "no log key of the keyset before it signed it"},
		{"the new key did not sign", nil, []ledger.Signer{edKey(1)}, "did not sign it"},
		{"a stranger signed too", nil, []ledger.Signer{edKey(1), ecKey(4), edKey(9)}, "3 signatures, of which 2"},
	} {
		k := next(t, first, start+day, day, keyOf(t, ledger.UseResult, ecKey(4)))
		if c.change != nil {
			c.change(&k)
		}
		if c.signers == nil {
			c.signers = []ledger.Signer{edKey(1), ecKey(4)}
		}
		_, err := ledger.ReadKeys([]ledger.Envelope{sealKeyset(t, first, edKey(1), ecKey(2), edKey(3)), sealKeyset(t, k, c.signers...)})
		check(t, c.name, err, c.want)
	}
}

// TestKeyNeverComesBack: a new key is none that the log has had, with whatever use, nor after its end.
func TestKeyNeverComesBack(t *testing.T) {
	h := history(t)
	for _, c := range []struct {
		name string
		use  string
		key  ledger.Signer
		want string
	}{
		{"a new one", ledger.UseResult, ecKey(6), ""},
		{"retired", ledger.UseResult, ecKey(2), "had its time before"},
		{"retired, for another use", ledger.UsePromise, ecKey(2), "had its time before"},
	} {
		h := h
		k := next(t, h.Current(), start+30*day, day, keyOf(t, c.use, c.key))
		check(t, c.name, h.Add(sealKeyset(t, k, edKey(5), c.key)), c.want)
	}
	_, err := h.Current().NextKeyset(start+30*day, day, keyOf(t, ledger.UseResult, edKey(3)))
	check(t, "a standing promise key for results", err, "is listed twice")
	k := next(t, h.Current(), start+30*day, day, keyOf(t, ledger.UseResult, ecKey(6)))
	check(t, "by a log key that has ended", h.Add(sealKeyset(t, k, edKey(1), ecKey(6))), "no log key of the keyset before it")
}

// TestKeysetsInOrder: a keyset is not made before the one that it follows.
func TestKeysetsInOrder(t *testing.T) {
	for made, want := range map[canon.Time]string{start + day: "", start + day - 1: "made 2026-05-29T20:26:39Z, the one before it"} {
		h, err := ledger.ReadKeys(chain(t)[:2])
		check(t, "chain", err, "")
		k := next(t, h.Current(), start+day, day, keyOf(t, ledger.UseResult, ecKey(6)))
		k.Made, k.Keys[len(k.Keys)-1].From = made, made
		check(t, made.String(), h.Add(sealKeyset(t, k, edKey(1), ecKey(6))), want)
	}
}

func TestFirstKeyset(t *testing.T) {
	first := firstKeyset(t)
	early := firstKeyset(t)
	for i := range early.Keys {
		early.Keys[i].From -= 3600
	}
	_, err := ledger.ReadKeys([]ledger.Envelope{sealKeyset(t, early, edKey(1), ecKey(2), edKey(3))})
	check(t, "keys that stood before it", err, "")
	_, err = ledger.ReadKeys(nil)
	check(t, "none", err, "no keyset")
	_, err = ledger.ReadKeys([]ledger.Envelope{sealKeyset(t, first, edKey(1), ecKey(2))})
	check(t, "a key that did not sign", err, "the new promise key")
	_, err = ledger.ReadKeys(chain(t)[1:])
	check(t, "without its beginning", err, "which is not here")
	e := sealKeyset(t, first, edKey(1), ecKey(2), edKey(3))
	e.PayloadType = ledger.PromiseType
	_, err = ledger.ReadKeys([]ledger.Envelope{e})
	check(t, "another payload type", err, `payload type "assay/promise/v1"`)
}

func TestSignerOf(t *testing.T) {
	h := history(t)
	sign := func(signers ...ledger.Signer) ledger.Envelope {
		e, err := ledger.Seal("assay/result/v1", []byte("{}"), signers...)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, c := range []struct {
		name string
		e    ledger.Envelope
		at   canon.Time
		want string
	}{
		{"in its time", sign(ecKey(2)), start + day, ""},
		{"in the overlap, by the old key", sign(ecKey(2)), start + 2*day, ""},
		{"in the overlap, by the new key", sign(ecKey(4)), start + day, ""},
		{"after its end", sign(ecKey(2)), start + 3*day, "not at 2026-05-31"},
		{"before its start", sign(ecKey(4)), start + day - 1, "not at 2026-05-29"},
		{"by another use", sign(edKey(3)), start, "not signed by a result key, but by"},
		{"by a stranger", sign(ecKey(9)), start, "not signed by a result key, but by"},
		{"by two", sign(ecKey(2), ecKey(4)), start + day, "2 signatures"},
	} {
		_, err := h.SignerOf(c.e, ledger.UseResult, c.at)
		check(t, c.name, err, c.want)
	}
}

// TestCheckpointOfTwoKeys: while one log key takes over from another, who knows either believes the note.
func TestCheckpointOfTwoKeys(t *testing.T) {
	c := ledger.Checkpoint{Origin: origin, Tree: (&memory{}).append(commitments(0, 3)...)}
	var signers []note.Signer
	var verifiers []note.Verifier
	for _, k := range []edKey{5, 1, 9} {
		s, err := ledger.LogSigner(origin, k.private())
		check(t, "signer", err, "")
		vkey, err := ledger.LogVKey(origin, k.Public().(ed25519.PublicKey))
		check(t, "vkey", err, "")
		v, err := note.NewVerifier(vkey)
		check(t, "verifier", err, "")
		signers, verifiers = append(signers, s), append(verifiers, v)
	}
	signed, err := ledger.SignCheckpoint(c, signers[:2]...)
	check(t, "sign", err, "")
	for i, want := range []string{"", "", "note has no verifiable signatures"} {
		_, err := ledger.OpenCheckpoint(signed, verifiers[i])
		check(t, "open", err, want)
	}
	_, err = ledger.SignCheckpoint(c)
	check(t, "no key", err, "no log key stands")
}
