package ledger_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	fnote "github.com/transparency-dev/formats/note"
	fwitness "github.com/transparency-dev/formats/witness"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Keys of the witnesses of these tests; the log has key 1.
const (
	w0 edKey = 20 + iota
	w1
	w2
	stranger
)

func witnessName(k edKey) string { return fmt.Sprintf("witness.example/%d", k) }

func witnessVKey(t testing.TB, k edKey) string {
	t.Helper()
	vkey, err := ledger.WitnessVKey(witnessName(k), k.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return vkey
}

func logVKey(t testing.TB, k edKey) string {
	t.Helper()
	vkey, err := ledger.LogVKey(origin, k.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return vkey
}

// policyText is the policy of k of the three witnesses.
func policyText(t testing.TB, k string) string {
	return "# whom we ask\nlog " + logVKey(t, 1) + "\n\nwitness w0 " + witnessVKey(t, w0) + " http://w0.example\n" +
		"\twitness w1 " + witnessVKey(t, w1) + " http://w1.example/sub\nwitness  w2 \t" + witnessVKey(t, w2) + " http://w2.example\n" +
		"group g " + k + " w0 w1 w2\nquorum g\n"
}

func parsePolicy(t testing.TB, text string) ledger.WitnessPolicy {
	t.Helper()
	p, err := ledger.ParseWitnessPolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// signedBy is a checkpoint signed by the log.
func signedBy(t testing.TB, c ledger.Checkpoint, key edKey) []byte {
	t.Helper()
	signer, _ := logKey(t, c.Origin, key)
	signed, err := ledger.SignCheckpoint(c, signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func cosign(t testing.TB, c ledger.Checkpoint, k edKey, at canon.Time) string {
	t.Helper()
	line, err := ledger.Cosign(c, witnessName(k), k, at)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

var always = ledger.Period{Until: start + 1e9}

func TestWitnessPolicy(t *testing.T) {
	good := policyText(t, "2")
	p := parsePolicy(t, good)
	var urls []string
	for _, w := range p.Witnesses() {
		urls = append(urls, w.Name+" "+w.URL)
	}
	if want := []string{"w0 http://w0.example", "w1 http://w1.example/sub", "w2 http://w2.example"}; !slices.Equal(urls, want) {
		t.Errorf("witnesses %q, want %q", urls, want)
	}
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("policy lacks %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	ed, err := note.NewEd25519VerifierKey(witnessName(w0), w0.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	logsOwn := witnessVKey(t, 1)
	next, err := ledger.LogVKey("next/log", edKey(1).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	vkey := witnessVKey(t, w1)
	for name, c := range map[string]struct{ text, want string }{
		"good":                   {good, ""},
		"2 of 3 nested":          {replace("group g 2 w0 w1 w2", "group h all w0 w1\ngroup g all h w2"), ""},
		"one witness":            {replace("quorum g", "quorum w1"), ""},
		"all":                    {replace("g 2", "g all"), ""},
		"1 of 3":                 {replace("g 2", "g 1"), "need not share a witness"},
		"any":                    {replace("g 2", "g any"), "need not share a witness"},
		"2 of 4 by groups":       {replace("group g 2 w0 w1 w2", "group h any w0 w1\ngroup g all h w2"), ""},
		"any of 2 alone":         {replace("group g 2 w0 w1 w2", "group g any w0 w1"), "need not share a witness"},
		"halves below a group":   {replace("group g 2 w0 w1 w2", "group h any w0 w1\ngroup g all h"), "need not share a witness"},
		"0 of 3":                 {replace("g 2", "g 0"), "line 7: group \"g\": \"0\" of its 3 members"},
		"4 of 3":                 {replace("g 2", "g 4"), "line 7: group \"g\": \"4\" of its 3 members"},
		"02 of 3":                {replace("g 2", "g 02"), "line 7: group \"g\": \"02\" of its 3 members"},
		"quorum none":            {replace("quorum g", "quorum none"), "line 8: quorum none asks for no witness"},
		"no quorum":              {replace("quorum g", ""), "no quorum"},
		"two quorums":            {good + "quorum g\n", "line 9: a second quorum"},
		"quorum of nobody":       {replace("quorum g", "quorum x"), "line 8: quorum: \"x\" is not defined above"},
		"member of nobody":       {replace("w1 w2\n", "w1 x\n"), "line 7: group \"g\": \"x\" is not defined above"},
		"member twice":           {replace("w1 w2\n", "w1 w1\n"), "line 7: group \"g\": \"w1\" is a member of a group already"},
		"name twice":             {replace("witness  w2", "witness w1"), "line 6: \"w1\" is defined twice"},
		"reserved name":          {replace("witness w0", "witness none"), "line 4: \"none\" cannot be a name"},
		"key twice":              {replace(witnessVKey(t, w2), witnessVKey(t, w1)), "line 6: a key that stands on another line"},
		"the log's own key":      {replace(witnessVKey(t, w2), logsOwn), "line 6: a key that stands on another line: it counts once, and a witness whose key is the log's counts for nothing"},
		"the log's key below":    {strings.Replace(replace("log "+logVKey(t, 1)+"\n", ""), witnessVKey(t, w2), logsOwn, 1) + "log " + logVKey(t, 1) + "\n", "line 8: a key that stands on another line: a witness"},
		"two logs of one key":    {"log " + next + "\n" + good, ""},
		"a log twice":            {"log " + logVKey(t, 1) + "\n" + good, "a key that stands on another line"},
		"a log's kind of key":    {replace(witnessVKey(t, w0), ed), "line 4: witness key"},
		"another key hash":       {replace(vkey, witnessName(w1)+"+00000000+"+strings.SplitN(vkey, "+", 3)[2]), "line 5: witness key"},
		"trailing comment":       {replace("quorum g", "quorum g # ours"), "line 8: \"quorum g # ours\": want"},
		"unknown word":           {good + "witnesses x\n", "line 9: \"witnesses x\": want"},
		"carriage return":        {strings.ReplaceAll(good, "\n", "\r\n"), "line 1: a control character"},
		"too long":               {good + strings.Repeat("#\n", ledger.MaxWitnessPolicy/2), "at most 65536"},
		"empty":                  {"", "no quorum"},
		"group before witnesses": {"group g 1 w0\n" + good, "line 1: group \"g\": \"w0\" is not defined above"},
	} {
		_, err := ledger.ParseWitnessPolicy([]byte(c.text))
		check(t, name, err, c.want)
	}
	many := ""
	for i := range ledger.MaxWitnesses + 1 {
		many += fmt.Sprintf("witness w%d %s\n", i, witnessVKey(t, edKey(100+i)))
	}
	_, err = ledger.ParseWitnessPolicy([]byte(many))
	check(t, "too many witnesses", err, "line 33: more than 32 witnesses")
	check(t, "this log", p.Covers([]string{logVKey(t, 1)}), "")
	check(t, "another log", p.Covers([]string{logVKey(t, 2)}), "not for the log with the key")
	anyLog := parsePolicy(t, replace("log "+logVKey(t, 1), ""))
	check(t, "any log", anyLog.Covers([]string{logVKey(t, 2)}), "")
	check(t, "a witness of the operator", anyLog.Covers([]string{logVKey(t, 2)}, w2.Public().(ed25519.PublicKey)), "witness w2 has a key of the log's operator: it counts for nothing")
	check(t, "a witness with the log's key", anyLog.Covers([]string{logVKey(t, w1)}), "witness w1 has a key of the log's operator")
}

// Another implementation of policies and cosignatures agrees on what is satisfied.
func TestWitnessesAgreeWithFormats(t *testing.T) {
	_, trees := grown(5)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	for _, shape := range []string{"group g 2 w0 w1 w2\nquorum g\n", "group g all w0 w1 w2\nquorum g\n", "quorum w1\n", "group h any w0 w1\ngroup g all h w2\nquorum g\n"} {
		text := strings.Replace(policyText(t, "2"), "group g 2 w0 w1 w2\nquorum g\n", shape, 1)
		p := parsePolicy(t, text)
		theirs, err := fwitness.ParsePolicy([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for set := range 8 {
			data := string(signedBy(t, c, 1))
			for i, k := range []edKey{w0, w1, w2} {
				if set&(1<<i) != 0 {
					data += cosign(t, c, k, start+canon.Time(i))
				}
			}
			_, err := p.Open([]byte(data), []string{logVKey(t, 1)}, always)
			if want := theirs.Satisfied([]byte(data)); (err == nil) != want {
				t.Errorf("%q with witnesses %03b: %v, the other implementation says %t", shape, set, err, want)
			}
		}
	}
	// Their signer, our verifier.
	skey := "PRIVATE+KEY+" + strings.Join(strings.SplitN(witnessVKey(t, w0), "+", 3)[:2], "+") + "+" + base64.StdEncoding.EncodeToString(append([]byte{4}, w0.private().Seed()...))
	signer, err := fnote.NewSignerForCosignatureV1(skey)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := note.Sign(&note.Note{Text: c.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.SplitAfter(string(opened), "\n\n")[1]
	got, at, err := parsePolicy(t, policyText(t, "2")).Witnesses()[0].Answer(c, []byte(line))
	if err != nil || got != line {
		t.Fatalf("answer %q, %v; want %q", got, err, line)
	}
	if again := cosign(t, c, w0, at); again != line {
		t.Errorf("cosignature %q, theirs is %q", again, line)
	}
}

func TestOpenCosigned(t *testing.T) {
	p := parsePolicy(t, policyText(t, "2"))
	_, trees := grown(6)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	other := ledger.Checkpoint{Origin: origin, Tree: trees[6]}
	signed := string(signedBy(t, c, 1))
	a, b, d := cosign(t, c, w0, start), cosign(t, c, w1, start+10), cosign(t, c, w2, start+20)
	flipped := []byte(a)
	flipped[len(flipped)-8] ^= 1
	for name, x := range map[string]struct {
		note, want string
		from, by   canon.Time
	}{
		"two of three":             {signed + a + b, "", start, start + 10},
		"the other two":            {signed + b + d, "", start + 10, start + 20},
		"all three: the middle":    {signed + d + a + b, "", start + 10, start + 10},
		"before the log's own":     {strings.Replace(signed, "\n\n", "\n\n"+a+b, 1), "", start, start + 10},
		"one":                      {signed + a, "no quorum of witnesses: cosigned by w0", 0, 0},
		"none":                     {signed, "no quorum of witnesses: cosigned by none of the policy", 0, 0},
		"one twice":                {signed + a + cosign(t, c, w0, start+5), "no quorum of witnesses: cosigned by w0", 0, 0},
		"a stranger":               {signed + a + cosign(t, c, stranger, start), "cosigned by w0; not known to the policy: [\"witness.example/23\"]", 0, 0},
		"two and a stranger":       {signed + a + b + cosign(t, c, stranger, start), "", start, start + 10},
		"strangers alone":          {signed + cosign(t, c, stranger, start), "cosigned by none of the policy; not known", 0, 0},
		"of another checkpoint":    {signed + a + cosign(t, other, w1, start), "the cosignature of \"witness.example/21\" does not verify", 0, 0},
		"a flipped bit":            {signed + string(flipped) + b + d, "the cosignature of \"witness.example/20\" does not verify", 0, 0},
		"not signed by the log":    {c.Text() + "\n" + a + b, "checkpoint of \"assay.example/log\"", 0, 0},
		"signed by another log":    {string(signedBy(t, c, 2)) + a + b, "checkpoint of \"assay.example/log\"", 0, 0},
		"a log's signature as one": {signed + a + witnessLikeLog(t, c, w1), "cosigned by w0; not known to the policy", 0, 0},
	} {
		got, err := p.Open([]byte(x.note), []string{logVKey(t, 1)}, always)
		check(t, name, err, x.want)
		if got.From != x.from || got.Until != x.by {
			t.Errorf("%s: from %s until %s, want %s and %s", name, got.From, got.Until, x.from, x.by)
		}
		var missing *ledger.QuorumError
		if want := strings.Contains(x.want, "cosigned by"); errors.As(err, &missing) != want {
			t.Errorf("%s: error of type %T", name, err)
		}
	}
	_, err := ledger.WitnessPolicy{}.Open([]byte(signed+a+b), []string{logVKey(t, 1)}, always)
	check(t, "the zero policy", err, "cosigned by none of the policy")
	_, err = p.Open([]byte(string(signedBy(t, c, 2))+a+b), []string{logVKey(t, 2)}, always)
	check(t, "a log that the policy does not name", err, "witness policy: not for the log with the key")
	// A witness whose key is the log's counts for nothing, also where the policy names no log.
	own := parsePolicy(t, strings.Replace(strings.Replace(policyText(t, "2"), "log "+logVKey(t, 1), "", 1), witnessVKey(t, w1), witnessVKey(t, 1), 1))
	_, err = own.Open([]byte(signed+a+cosign(t, c, 1, start)), []string{logVKey(t, 1)}, always)
	check(t, "the log's own cosignature", err, "witness w1 has a key of the log's operator: it counts for nothing")
}

// witnessLikeLog signs as a log does, under a witness's name.
func witnessLikeLog(t *testing.T, c ledger.Checkpoint, k edKey) string {
	signer, _ := logKey(t, witnessName(k), k)
	signed, err := note.Sign(&note.Note{Text: c.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(string(signed), "\n\n")[1]
}

// A checkpoint without its cosignatures is no trusted time; with them it is.
func TestT03NoCosignaturesNoTime(t *testing.T) {
	p := parsePolicy(t, policyText(t, "2"))
	_, trees := grown(5)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	signed := string(signedBy(t, c, 1))
	full := signed + cosign(t, c, w0, start) + cosign(t, c, w1, start)
	got, err := p.Open([]byte(full), []string{logVKey(t, 1)}, always)
	if err != nil || got.Until != start {
		t.Errorf("cosigned: until %s, %v", got.Until, err)
	}
	got, err = p.Open([]byte(signed), []string{logVKey(t, 1)}, always)
	var missing *ledger.QuorumError
	if !errors.As(err, &missing) || got.Until != 0 {
		t.Errorf("stripped: until %s, %v, want a missing quorum and no time", got.Until, err)
	}
}

// Bounds of a period belong to it.
func TestT05BoundsAreInclusive(t *testing.T) {
	p := parsePolicy(t, policyText(t, "2"))
	_, trees := grown(5)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	data := []byte(string(signedBy(t, c, 1)) + cosign(t, c, w0, start) + cosign(t, c, w1, start+10))
	for name, x := range map[string]struct {
		ledger.Period
		want string
	}{
		"both on the bounds":     {ledger.Period{From: start, Until: start + 10}, ""},
		"a second after the end": {ledger.Period{From: start, Until: start + 9}, "w1 cosigned at 2026-05-28T20:26:50Z, which is not from 2026-05-28T20:26:40Z to 2026-05-28T20:26:49Z"},
		"a second too early":     {ledger.Period{From: start + 1, Until: start + 10}, "cosigned by w1; w0 cosigned at 2026-05-28T20:26:40Z, which is not from"},
	} {
		_, err := p.Open(data, []string{logVKey(t, 1)}, x.Period)
		check(t, name, err, x.want)
	}
}

// Cosignatures of nobody in the policy are a typed refusal.
func TestT12UnknownWitness(t *testing.T) {
	p := parsePolicy(t, policyText(t, "2"))
	_, trees := grown(5)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	signed := string(signedBy(t, c, 1))
	_, err := p.Open([]byte(signed+cosign(t, c, stranger, start)+cosign(t, c, 1, start)), []string{logVKey(t, 1)}, always)
	var missing *ledger.QuorumError
	if !errors.As(err, &missing) || len(missing.By) != 0 || !slices.Equal(missing.Others, []string{"witness.example/23", "witness.example/1"}) {
		t.Errorf("unknown witnesses: %#v, want a missing quorum that names both", err)
	}
	_, err = p.Open([]byte(signed+cosign(t, c, w2, start)+cosign(t, c, w1, start)), []string{logVKey(t, 1)}, always)
	check(t, "known ones", err, "")
}

// A cosignature from the future does not count; one at the reader's own second does.
func TestT13CosignatureFromTheFuture(t *testing.T) {
	_, trees := grown(5)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	p := parsePolicy(t, policyText(t, "2"))
	f := ledger.Follower{Logs: []string{logVKey(t, 1)}, Witnesses: &p}
	now := start
	at := func(first, second canon.Time) error {
		data := string(signedBy(t, c, 1)) + cosign(t, c, w0, first) + cosign(t, c, w1, second)
		_, err := f.Follow(context.Background(), &memory{}, nil, []byte(data), now)
		return err
	}
	check(t, "of now", at(now, now), "")
	check(t, "of the next second", at(now, now+1), "w1 cosigned at 2026-05-28T20:26:41Z, which is not from")
}

func TestFollow(t *testing.T) {
	p := parsePolicy(t, policyText(t, "2"))
	src, trees := grown(9)
	forged := &memory{}
	for i := range 9 {
		forged.append(canon.Sum([]byte{1, byte(i)}))
	}
	ctx := context.Background()
	cosigned := func(tree ledger.Tree) []byte {
		c := ledger.Checkpoint{Origin: origin, Tree: tree}
		return []byte(string(signedBy(t, c, 1)) + cosign(t, c, w0, start) + cosign(t, c, w1, start))
	}
	bare := func(tree ledger.Tree) []byte { return signedBy(t, ledger.Checkpoint{Origin: origin, Tree: tree}, 1) }
	asks, plain := ledger.Follower{Logs: []string{logVKey(t, 1)}, Witnesses: &p}, ledger.Follower{Logs: []string{logVKey(t, 1)}}
	wrongRoot := ledger.Tree{Size: 5, Root: trees[6].Root}
	for name, x := range map[string]struct {
		f          ledger.Follower
		src        ledger.Source
		last, next []byte
		want       string
		fork       bool
	}{
		"the first":                     {asks, src, nil, cosigned(trees[5]), "", false},
		"the same":                      {asks, src, cosigned(trees[5]), cosigned(trees[5]), "", false},
		"larger":                        {asks, src, cosigned(trees[5]), cosigned(trees[9]), "", false},
		"larger, nobody asked":          {plain, src, bare(trees[5]), bare(trees[9]), "", false},
		"larger without a quorum":       {asks, src, cosigned(trees[5]), bare(trees[9]), "no quorum of witnesses", false},
		"the same without a quorum":     {asks, src, bare(trees[5]), bare(trees[5]), "no quorum of witnesses", false},
		"smaller":                       {asks, src, cosigned(trees[9]), cosigned(trees[5]), "of size 5, a checkpoint of size 9 was seen before", false},
		"equal size, another root":      {asks, src, cosigned(trees[5]), cosigned(wrongRoot), "two checkpoints of size 5 have different roots", true},
		"a fork without a quorum":       {asks, src, cosigned(trees[5]), bare(wrongRoot), "two checkpoints of size 5 have different roots", true},
		"another history":               {asks, forged, cosigned(trees[5]), cosigned(forged.edge.Tree()), "checkpoint of size 9 does not continue that of size 5: consistency: the proof leads to another root", true},
		"another history, nobody asked": {plain, forged, bare(trees[5]), bare(forged.edge.Tree()), "does not continue", true},
		"no tiles":                      {asks, &memory{}, cosigned(trees[5]), cosigned(trees[9]), "no proof that it continues", false},
		"none":                          {asks, src, cosigned(trees[5]), nil, "none came", false},
		"of another log":                {asks, src, cosigned(trees[5]), signedBy(t, ledger.Checkpoint{Origin: origin, Tree: trees[9]}, 2), "checkpoint of", false},
		"last of another log":           {asks, src, signedBy(t, ledger.Checkpoint{Origin: "other.example/log", Tree: trees[5]}, 2), cosigned(trees[9]), "last checkpoint that was believed: of the log \"other.example/log\"", false},
		"none yet":                      {plain, src, nil, nil, "", false},
		"none yet, a quorum asked for":  {asks, src, nil, nil, "none came, and a quorum of witnesses is asked for", false},
	} {
		got, err := x.f.Follow(ctx, x.src, x.last, x.next, start)
		check(t, name, err, x.want)
		var fork *ledger.Fork
		if errors.As(err, &fork) != x.fork {
			t.Errorf("%s: error of type %T", name, err)
		}
		if x.fork && (!slices.Equal(fork.Believed, x.last) || !slices.Equal(fork.Refused, x.next)) {
			t.Errorf("%s: the fork holds other notes", name)
		}
		if err == nil && got.Size == 0 && x.next != nil || err != nil && got.Size != 0 {
			t.Errorf("%s: checkpoint of size %d", name, got.Size)
		}
	}
}

func TestAddCheckpoint(t *testing.T) {
	src, trees := grown(9)
	p, err := ledger.ProveConsistency(context.Background(), src, 5, 9)
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.AddCheckpoint{Old: 5, Proof: p.Hashes, Note: signedBy(t, ledger.Checkpoint{Origin: origin, Tree: trees[9]}, 1)}
	got, err := ledger.ParseAddCheckpoint(want.Marshal())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v %v", got, err)
	}
	if c, err := got.OpenFor([]string{logVKey(t, 2), logVKey(t, 1)}); err != nil || c.Size != 9 {
		t.Errorf("the second of two keys: %+v %v", c, err)
	}
	_, err = got.OpenFor([]string{logVKey(t, 2)})
	check(t, "another key", err, ledger.ErrLogSignature.Error())
	_, err = got.OpenFor(nil)
	check(t, "no key", err, ledger.ErrUnknownLog.Error())
	_, err = got.OpenFor([]string{"x"})
	check(t, "a key that is none", err, "log key")
}

func FuzzAddCheckpoint(f *testing.F) {
	_, trees := grown(9)
	f.Add(ledger.AddCheckpoint{Old: 5, Proof: []canon.Digest{{1}, {2}}, Note: signedBy(f, ledger.Checkpoint{Origin: origin, Tree: trees[9]}, 1)}.Marshal())
	f.Add([]byte("old 0\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := ledger.ParseAddCheckpoint(data); err == nil && string(a.Marshal()) != string(data) {
			t.Errorf("%q is read as %q", data, a.Marshal())
		}
	})
}

// FuzzCosigned: whatever is read as a policy and a note, a result has a quorum, and an interval that is one.
func FuzzCosigned(f *testing.F) {
	_, trees := grown(5)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	policy := policyText(f, "2")
	f.Add(policy, signedBy(f, c, 1))
	f.Add(policy, []byte(string(signedBy(f, c, 1))+cosign(f, c, w0, start)+cosign(f, c, w1, start+9)+cosign(f, c, w2, start+3)))
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		p, err := ledger.ParseWitnessPolicy([]byte(text))
		if err != nil {
			return
		}
		if got, err := p.ReadCosigned(data, always); err == nil && (len(got.By) == 0 || got.From == 0 || got.From > got.Until || got.Until > always.Until) {
			t.Errorf("%+v", got)
		}
	})
}

func TestWitnessTerms(t *testing.T) {
	_, trees := grown(5)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	data := []byte(string(signedBy(t, c, 1)) + cosign(t, c, w0, start+10) + cosign(t, c, w1, start+20))
	logs := []string{logVKey(t, 1)}
	text := policyText(t, "2")
	for name, x := range map[string]struct {
		terms []ledger.WitnessTerm
		now   canon.Time
		want  string
	}{
		"no end":                  {[]ledger.WitnessTerm{{From: start, Policy: text}}, 0, ""},
		"the second of two":       {[]ledger.WitnessTerm{{From: start, Until: start + 15, Policy: text}, {From: start + 1, Policy: text}}, 0, ""},
		"one in each":             {[]ledger.WitnessTerm{{From: start, Until: start + 15, Policy: text}, {From: start + 16, Policy: text}}, 0, "cosigned by w1; w0 cosigned at"},
		"by now":                  {[]ledger.WitnessTerm{{From: start, Policy: text}}, start + 20, ""},
		"a second in the future":  {[]ledger.WitnessTerm{{From: start, Policy: text}}, start + 19, "w1 cosigned at"},
		"none":                    {nil, 0, "no witnesses to check it with"},
		"no start":                {[]ledger.WitnessTerm{{Policy: text}}, 0, "no start of validity"},
		"ends before it begins":   {[]ledger.WitnessTerm{{From: start, Until: start - 1, Policy: text}}, 0, "before it begins"},
		"a policy that is no one": {[]ledger.WitnessTerm{{From: start, Policy: "x"}}, 0, "witness policy: line 1"},
	} {
		_, err := ledger.OpenInTerms(x.terms, data, logs, x.now)
		check(t, name, err, x.want)
	}
}
