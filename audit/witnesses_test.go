package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// watched is a log that witnesses watch.
type watched struct {
	*log
	policy string // 2 of 3
	alone  []byte // the checkpoint before anybody cosigned it
}

func witnessKey(i int) key { return newKey(fmt.Sprint("witness ", i)) }

func newWatched(t *testing.T) watched {
	s := newService(t, "honest")
	s.serve(newHost("good", sevsnp.PolicySMT))
	w := watched{log: s.publish(), alone: s.note}
	for i := range 3 {
		vkey, err := ledger.WitnessVKey("witness.example", witnessKey(i).Public().(ed25519.PublicKey))
		w.must(err)
		w.policy += fmt.Sprintf("witness w%d %s\n", i, vkey)
	}
	w.policy += "group g 2 w0 w1 w2\nquorum g\n"
	return w
}

// cosign lets witnesses sign at the given times; zero: not at all.
func (w watched) cosign(times ...canon.Time) watched {
	w.t.Helper()
	c := ledger.Checkpoint{Origin: origin, Tree: w.edge.Tree()}
	w.note = bytes.Clone(w.alone)
	for i, at := range times {
		if at != 0 {
			line, err := ledger.Cosign(c, "witness.example", witnessKey(i), at)
			w.must(err)
			w.note = append(w.note, line...)
		}
	}
	return w
}

// replay replays under trust in witnesses; none: trust in keys alone.
func (w watched) replay(terms ...ledger.WitnessTerm) audit.Report {
	w.t.Helper()
	trust := w.trust()
	trust.Witnesses = terms
	return replay(w.t, w.export(), trust, audit.Options{})
}

func (w watched) term(from, until canon.Time) ledger.WitnessTerm {
	return ledger.WitnessTerm{From: from, Until: until, Policy: w.policy}
}

func TestReplayWitnesses(t *testing.T) {
	w := newWatched(t)
	term := w.term(t0, 0)
	r := w.cosign(t0+10, 0, t0+20).replay(term)
	if want := (audit.Witnessing{By: []string{"w0", "w2"}, From: t0 + 10, Until: t0 + 20}); r.Outcome != audit.Equal || !reflect.DeepEqual(r.Witnesses, want) {
		t.Errorf("%+v\n%s", r.Witnesses, r.Text())
	}
	if !strings.Contains(r.Text(), "\nwitnesses   cosigned by w0, w2, from 2026-02-01T00:00:10Z until 2026-02-01T00:00:20Z\n") {
		t.Errorf("%s", r.Text())
	}
	lines := strings.SplitAfter(w.policy, "\n")
	two := ledger.WitnessTerm{From: t0, Policy: lines[0] + lines[1] + "group g all w0 w1\nquorum g\n"}
	if r := w.cosign(t0+10, t0+20, t0+30).replay(two); r.Outcome != audit.Equal || !strings.Contains(r.Text(), "until 2026-02-01T00:00:20Z; 1 signature not checked\n") {
		t.Errorf("%s", r.Text())
	}
	wantFault(t, w.cosign(t0+10).replay(term), "checkpoint", "no quorum of witnesses: cosigned by w0")
	r = w.cosign(t0+10, t0+10).replay()
	if r.Outcome != audit.Equal || r.Witnesses.Unchecked != 2 || !strings.Contains(r.Text(), "\nwitnesses   none asked for; 2 signatures not checked\n") {
		t.Errorf("%s", r.Text())
	}
	// Every bit of a checkpoint with a bare quorum counts.
	cosigned := w.cosign(t0+10, t0+10)
	good := bytes.Clone(cosigned.note)
	for at := range good {
		cosigned.note = bytes.Clone(good)
		cosigned.note[at] ^= 1 << (at % 8)
		trust := w.trust()
		trust.Witnesses = []ledger.WitnessTerm{term}
		r, err := audit.Replay(t.Context(), cosigned, trust, audit.Options{})
		if err != nil || r.Outcome != audit.Faulty {
			t.Errorf("byte %d (%q): %s %v", at, cosigned.note[at], r.Outcome, err)
		}
	}
	for name, note := range map[string]string{
		"a line twice":     string(good) + strings.SplitAfter(string(good), "\n")[5],
		"another spelling": strings.Replace(string(good), "— witness", "—  witness", 1),
		"no end":           strings.TrimSuffix(string(good), "\n"),
	} {
		cosigned.note = []byte(note)
		if r, err := audit.Replay(t.Context(), cosigned, w.trust(), audit.Options{}); err != nil || r.Outcome != audit.Faulty {
			t.Errorf("%s: %s %v", name, r.Outcome, err)
		}
	}
}

// T05: the last instant of a term belongs to it, a second later does not; so with the first.
func TestT05WitnessTermIsInclusive(t *testing.T) {
	w := newWatched(t)
	at := t0 + 100
	w = w.cosign(at, at)
	for name, c := range map[string]struct {
		term ledger.WitnessTerm
		want audit.Outcome
	}{
		"ends with it":       {w.term(t0, at), audit.Equal},
		"ends a second ago":  {w.term(t0, at-1), audit.Faulty},
		"begins with it":     {w.term(at, 0), audit.Equal},
		"begins in a second": {w.term(at+1, 0), audit.Faulty},
	} {
		if r := w.replay(c.term); r.Outcome != c.want {
			t.Errorf("%s: %s, want %s\n%s", name, r.Outcome, c.want, r.Text())
		}
	}
}

// T06: witnesses whose validity has no start make no trust file.
func TestT06WitnessTermWithoutStart(t *testing.T) {
	w := newWatched(t)
	trust := w.trust()
	trust.Witnesses = []ledger.WitnessTerm{w.term(t0, t0+day), w.term(t0+day+1, 0)}
	text := string(trust.Marshal())
	got, err := audit.ParseTrust("trust.yaml", []byte(text))
	if err != nil || !reflect.DeepEqual(got, *trust) {
		t.Fatalf("%v\n%s", err, text)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"no start":            {"from: 2026-02-01T00:00:00Z\n    ", "", "witnesses: no start of validity"},
		"ends before it":      {"until: 2026-02-02T00:00:00Z", "until: 2026-01-31T23:59:59Z", "validity ends 2026-01-31T23:59:59Z, before it begins"},
		"a policy of nobody":  {"quorum g", "quorum none", "quorum none asks for no witness"},
		"half is enough":      {"group g 2", "group g 1", "need not share a witness"},
		"a second of its own": {"from: 2026-02-01T00:00:00Z", "from: 2026-02-01T00:00:00.5Z", "want RFC 3339"},
	} {
		_, err := audit.ParseTrust("trust.yaml", []byte(strings.Replace(text, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "trust.yaml:") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// T07: witnesses whose term has ended since: what they cosigned in it stays cosigned.
func TestT07TermHasLapsedSince(t *testing.T) {
	w := newWatched(t)
	lapsed := w.term(t0, t0+day)
	later := ledger.WitnessTerm{From: t0 + day + 1, Policy: strings.NewReplacer("w0", "x0", "w1", "x1", "w2", "x2").Replace(newWatchedPolicy(t))}
	if r := w.cosign(t0+day, t0+day).replay(lapsed, later); r.Outcome != audit.Equal {
		t.Errorf("cosigned in its time: %s", r.Text())
	}
	r := w.cosign(t0+day+1, t0+day+1).replay(lapsed)
	wantFault(t, r, "checkpoint", "w0 cosigned at 2026-02-02T00:00:01Z, which is not from 2026-02-01T00:00:00Z to 2026-02-02T00:00:00Z")
}

// newWatchedPolicy is a policy of other witnesses.
func newWatchedPolicy(t *testing.T) string {
	text := ""
	for i := range 3 {
		vkey, err := ledger.WitnessVKey("other.example", witnessKey(10+i).Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("witness w%d %s\n", i, vkey)
	}
	return text + "group g 2 w0 w1 w2\nquorum g\n"
}

// T12: a checkpoint that only strangers cosigned is a fault that names them, and nothing falls over.
func TestT12StrangersCosigned(t *testing.T) {
	w := newWatched(t).cosign(t0, t0)
	wantFault(t, w.replay(ledger.WitnessTerm{From: t0, Policy: newWatchedPolicy(t)}), "checkpoint", `cosigned by none of the policy; not known to the policy: ["witness.example" "witness.example"]`)
	if r := w.replay(w.term(t0, 0)); r.Outcome != audit.Equal {
		t.Errorf("known ones: %s", r.Text())
	}
}
