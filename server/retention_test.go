package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// erasing is a verifier that judged one node's evidence six years ago.
type erasing struct {
	*lab
	store                        *server.Store
	node                         string
	evidence, appraisal, verdict canon.Digest
	sent                         []byte
}

func newErasing(t *testing.T, url string) *erasing {
	x := &erasing{lab: newLab(t, url)}
	x.store = openStore(t, url)
	n := x.join("one")
	x.sent = n.evidence(n.challenge())
	x.evidence = n.submit(x.sent).Evidence
	x.advance()
	x.node = n.id
	for _, e := range x.all() {
		switch e.Kind {
		case ledger.KindAppraisal:
			x.appraisal = e.Body
		case ledger.KindVerdict:
			x.verdict = e.Body
		}
	}
	x.later(ledger.KeepJudgement * time.Second)
	return x
}

// later lets time pass in which the server commits to what there is, and nothing else comes.
func (x *erasing) later(d time.Duration) {
	x.clock.advance(time.Hour)
	x.advance()
	x.clock.advance(d - time.Hour)
}

func (x *erasing) all() []server.Record {
	x.t.Helper()
	found, err := x.store.Entries(x.t.Context(), 0, 1000)
	must(x.t, err)
	return found
}

func (x *erasing) now() canon.Time { return canon.At(x.clock.Now()) }

func sortedDigests(ds ...canon.Digest) []canon.Digest {
	slices.SortFunc(ds, func(a, b canon.Digest) int { return bytes.Compare(a[:], b[:]) })
	return ds
}

func (x *erasing) erase(class string, ds ...canon.Digest) (int64, error) {
	return x.store.Act(x.t.Context(), ledger.Erasure{
		Type: ledger.ErasureType, Act: ledger.ActErase, Class: class, Nodes: []string{}, Digests: sortedDigests(ds...), Reason: "asked for",
	}, x.now())
}

func (x *erasing) hold(name string, nodes []string, ds ...canon.Digest) {
	x.t.Helper()
	_, err := x.store.Act(x.t.Context(), ledger.Erasure{
		Type: ledger.ErasureType, Act: ledger.ActHold, Hold: name, Nodes: append([]string{}, nodes...), Digests: append([]canon.Digest{}, ds...), Reason: "a court asked",
	}, x.now())
	must(x.t, err)
}

func (x *erasing) release(name string) error {
	_, err := x.store.Act(x.t.Context(), ledger.Erasure{
		Type: ledger.ErasureType, Act: ledger.ActRelease, Hold: name, Nodes: []string{}, Digests: []canon.Digest{}, Reason: "it is over",
	}, x.now())
	return err
}

func (x *erasing) refused(err error, want string) {
	x.t.Helper()
	var r *server.RefusedError
	if !errors.As(err, &r) || !strings.Contains(err.Error(), want) {
		x.t.Errorf("%v, want a refusal: %s", err, want)
	}
}

// replayed exports the log and recomputes it.
func (x *erasing) replayed() audit.Report {
	x.t.Helper()
	x.advance()
	var file bytes.Buffer
	must(x.t, audit.Export(x.t.Context(), x.server.Source(), &file))
	report, err := audit.ReplayFile(x.t.Context(), bytes.NewReader(file.Bytes()), int64(file.Len()), &audit.Trust{Type: audit.TrustType, Keyset: x.server.Keyset()}, audit.Options{})
	must(x.t, err)
	return report
}

// TestErase erases evidence, appraisal and verdict when their time has run out: they are gone for everybody, with what
// only they needed, and an audit says by which entry.
func TestErase(t *testing.T) {
	onAll(t, func(t *testing.T, url string) {
		x := newErasing(t, url)
		before := holdings(t, x.store)
		at, err := x.erase(ledger.ClassJudgement, x.evidence, x.appraisal, x.verdict)
		must(t, err)
		for _, d := range []canon.Digest{x.evidence, x.appraisal, x.verdict} {
			_, err := x.store.Blob(t.Context(), d)
			var e *server.ErasedError
			if !errors.As(err, &e) || e.Entry != at || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v, want erased by entry %d", d, err, at)
			}
		}
		resp, body := x.send("GET", "/v1/blobs/"+x.evidence.String(), x.admin, "", nil)
		if resp.StatusCode != http.StatusGone || !strings.Contains(string(body), fmt.Sprintf("by entry %d of assay.test/log", at)) {
			t.Errorf("the API says %d %s", resp.StatusCode, body)
		}
		if resp, body := x.send("GET", "/v1/results/"+x.evidence.String(), x.admin, "", nil); resp.StatusCode != http.StatusGone {
			t.Errorf("the result: %d %s", resp.StatusCode, body)
		}
		// Their entries stay, and what other entries need does.
		if n := len(x.all()); int64(n) != at+1 {
			t.Errorf("%d entries, want %d", n, at+1)
		}
		_, err = x.store.Collect(t.Context(), x.now()+1+canon.Time(server.GarbageAge/time.Second))
		must(t, err)
		if after := holdings(t, x.store); after.Blobs != before.Blobs-5+1 {
			t.Errorf("%d rows, there were %d: want evidence and its certificates, appraisal, its expectation and verdict gone, and the erasure there", after.Blobs, before.Blobs)
		}
		report := x.replayed()
		if report.Outcome != audit.Equal || report.ErasedCount != 3 || len(report.Erased) != 3 || report.Erased[0].By != at || report.Unanswered != 0 {
			t.Errorf("audit:\n%s", report.Text())
		}
		if want := fmt.Sprintf("erased      blob/%s: by entry %d\n", x.evidence, at); !strings.Contains(report.Text(), want) {
			t.Errorf("audit:\n%s\nwant %s", report.Text(), want)
		}
		if n, err := x.store.CheckBlobs(t.Context(), func(err error) { t.Error(err) }); n == 0 || err != nil {
			t.Errorf("%d blobs checked (%v)", n, err)
		}
		if _, err := x.erase(ledger.ClassJudgement, x.evidence); err != nil {
			t.Errorf("erased again: %v", err)
		}
		if report := x.replayed(); report.Outcome != audit.Equal || report.ErasedCount != 3 {
			t.Errorf("audit after it was erased again:\n%s", report.Text())
		}
	})
}

// TestErasedInParts: an export of a part of the log, and reports on ranges of it, know what was erased.
func TestErasedInParts(t *testing.T) {
	x := newErasing(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	at, err := x.erase(ledger.ClassJudgement, x.verdict)
	must(t, err)
	x.advance()
	trust := &audit.Trust{Type: audit.TrustType, Keyset: x.server.Keyset()}
	var file bytes.Buffer
	scope, err := audit.ExportScope(t.Context(), x.server.Source(), audit.Criteria{Nodes: []string{x.node}}, &file)
	must(t, err)
	if !slices.Contains(scope.Entries, audit.Span{First: at, Last: at}) {
		t.Errorf("scope %+v: without entry %d, which says what was erased", scope.Entries, at)
	}
	report, err := audit.ReplayFile(t.Context(), bytes.NewReader(file.Bytes()), int64(file.Len()), trust, audit.Options{})
	must(t, err)
	if report.Outcome != audit.Equal || report.ErasedCount != 1 {
		t.Errorf("replay of the part:\n%s", report.Text())
	}
	whole := x.replayed()
	var parts []audit.PartialReport
	for i, g := range []audit.Range{{From: 0, To: 4}, {From: 4, To: whole.Size}} {
		r, err := audit.Replay(t.Context(), x.server.Source(), trust, audit.Options{Range: g})
		must(t, err)
		parts = append(parts, audit.PartialReport{Name: fmt.Sprint(i), Report: r})
	}
	merged, err := audit.Merge(parts)
	must(t, err)
	if merged.Text() != whole.Text() || merged.ErasedCount != 1 {
		t.Errorf("merged:\n%s\nwhole:\n%s", merged.Text(), whole.Text())
	}
}

// TestEraseRefuses: what is inside its time, on hold or of another class stays, and nothing is logged.
func TestEraseRefuses(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		x := newErasing(t, url)
		gone := canon.Sum([]byte("nothing"))
		n := len(x.all())
		_, err := x.erase(ledger.ClassChallenge, x.evidence)
		x.refused(err, "of class judgement, not challenge")
		_, err = x.erase(ledger.ClassJudgement, gone)
		x.refused(err, "no earlier entry has it")
		keyset := x.all()[0].Body
		_, err = x.erase(ledger.ClassJudgement, keyset)
		x.refused(err, "it is the body of keyset/v1, of class record")
		if _, err := x.erase(ledger.ClassRecord, keyset); err == nil || !strings.Contains(err.Error(), "never erased") {
			t.Errorf("a record: %v", err)
		}
		_, err = x.erase(ledger.ClassJudgement, x.evidence, gone) // all or nothing
		x.refused(err, "no earlier entry has it")
		if len(x.all()) != n {
			t.Errorf("%d entries, there were %d", len(x.all()), n)
		}

		x.hold("case 1", []string{x.node})
		_, err = x.erase(ledger.ClassJudgement, x.evidence)
		x.refused(err, `the hold "case 1" covers its node`)
		x.hold("case 2", nil, x.verdict)
		must(t, x.release("case 1"))
		_, err = x.erase(ledger.ClassJudgement, x.evidence)
		x.refused(err, `the hold "case 2" covers it`)
		x.refused(x.release("case 1"), `no hold "case 1" is in force`)
		x.clock.advance(-time.Second)
		must(t, x.release("case 2"))
		_, err = x.erase(ledger.ClassJudgement, x.evidence)
		x.refused(err, "is kept until")
		if got, err := x.store.Blob(t.Context(), x.evidence); err != nil || !bytes.Equal(got, x.sent) {
			t.Errorf("the evidence: %d bytes (%v)", len(got), err)
		}
		x.clock.advance(time.Second)
		if _, err = x.erase(ledger.ClassJudgement, x.evidence); err != nil {
			t.Errorf("a second later, nothing held: %v", err)
		}
		if report := x.replayed(); report.Outcome != audit.Equal || report.ErasedCount != 1 {
			t.Errorf("audit:\n%s", report.Text())
		}
	})
}

// TestUnlawfulErasure has an operator go past the rule: an audit names the entry, and what is missing.
func TestUnlawfulErasure(t *testing.T) {
	x := newErasing(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	x.hold("case 1", []string{x.node})
	at := int64(len(x.all()))
	must(t, x.store.Tx(t.Context(), func(tx *server.Tx) error {
		body, err := canon.Marshal(ledger.Erasure{
			Type: ledger.ErasureType, Act: ledger.ActErase, Class: ledger.ClassJudgement, Nodes: []string{}, Digests: []canon.Digest{x.evidence}, Reason: "none",
		})
		if err != nil {
			return err
		}
		_, _, err = tx.Append(t.Context(), server.Draft{Kind: ledger.KindErasure, Stream: ledger.StreamServer, Time: x.now(), Body: tx.PutBlob(body), Refs: []canon.Digest{}})
		return err
	}))
	x.store.TestingOnlyForget(t, x.now(), x.evidence)
	report := x.replayed()
	text := report.Text()
	if report.Outcome != audit.Faulty || report.ErasedCount != 0 ||
		!strings.Contains(text, fmt.Sprintf("entry %d, erasure/v1: not allowed: erases %s: the hold \"case 1\" covers its node", at, x.evidence)) ||
		!strings.Contains(text, fmt.Sprintf("blob/%s, evidence/v1: missing", x.evidence)) {
		t.Errorf("audit:\n%s", text)
	}
}

// TestMissingIsNoErasure: what is gone without a word is a fault, and an export is refused.
func TestMissingIsNoErasure(t *testing.T) {
	x := newErasing(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	_, err := x.erase(ledger.ClassJudgement, x.verdict)
	must(t, err)
	x.store.TestingOnlyForget(t, x.now(), x.evidence)
	x.advance()
	err = audit.Export(t.Context(), x.server.Source(), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("blob/%s: missing", x.evidence)) {
		t.Errorf("export: %v", err)
	}
	report, err := audit.Replay(t.Context(), x.server.Source(), &audit.Trust{Type: audit.TrustType, Keyset: x.server.Keyset()}, audit.Options{})
	must(t, err)
	if report.Outcome != audit.Faulty || report.ErasedCount != 1 || report.FaultCount == 0 || report.Faults[0].What != "missing" {
		t.Errorf("audit:\n%s", report.Text())
	}
}

// TestDamagedIsNoErasure: bytes that are there and are not those of the digest are a fault, though the blob was erased.
func TestDamagedIsNoErasure(t *testing.T) {
	x := newErasing(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	_, err := x.erase(ledger.ClassJudgement, x.verdict)
	must(t, err)
	x.advance()
	for _, data := range [][]byte{nil, []byte("other bytes")} {
		report, err := audit.Replay(t.Context(), altered{x.server.Source(), x.verdict, data}, &audit.Trust{Type: audit.TrustType, Keyset: x.server.Keyset()}, audit.Options{})
		must(t, err)
		if (report.Outcome == audit.Equal) != (data == nil) {
			t.Errorf("%q in its place:\n%s", data, report.Text())
		}
	}
}

// altered is a source that has other bytes for one blob, if it has any.
type altered struct {
	ledger.Source
	digest canon.Digest
	data   []byte
}

func (a altered) Blob(ctx context.Context, d canon.Digest) ([]byte, error) {
	if d == a.digest && a.data != nil {
		return a.data, nil
	}
	return a.Source.Blob(ctx, d)
}

// TestErasedPolicy erases the policy of old verdicts after a newer one took its place, and the challenge of old
// evidence: an audit goes on without them.
func TestErasedPolicy(t *testing.T) {
	x := newErasing(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	old := x.server.Policy().Digest
	x.clock.advance(-ledger.KeepJudgement*time.Second + time.Hour)
	x.settings.Policy = "genuine"
	x.restart()
	n := x.join("two")
	n.prove()
	x.later(ledger.KeepJudgement*time.Second - 30*time.Minute)
	_, err := x.erase(ledger.ClassJudgement, x.server.Policy().Digest)
	x.refused(err, "is kept until")
	_, err = x.erase(ledger.ClassJudgement, old)
	must(t, err)
	var challenge canon.Digest
	for _, e := range x.all() {
		if e.Body == x.evidence {
			challenge = e.Refs[0]
		}
	}
	_, err = x.erase(ledger.ClassChallenge, challenge)
	must(t, err)
	report := x.replayed()
	if report.Outcome != audit.Equal || report.ErasedCount != 2 || report.Verdicts.Replayed != 1 || report.Verdicts.Logged != 2 || report.Appraisals.Replayed != 2 {
		t.Errorf("audit:\n%s", report.Text())
	}
}

// TestErasedBytesAreGone looks for erased bytes in every file of a store: those of the bundle and of the chain that only it
// needed. They go from a SQLite file at once, or when the chain is collected, and from a segment when it is written anew.
func TestErasedBytesAreGone(t *testing.T) {
	for _, folder := range []bool{false, true} {
		t.Run(fmt.Sprint("folder ", folder), func(t *testing.T) {
			dir := t.TempDir()
			url := "sqlite:" + filepath.Join(dir, "assay.db")
			s := openStore(t, url)
			if folder {
				must(t, s.MoveBlobs(t.Context(), filepath.Join(dir, "blobs"), func(int64) {}))
			}
			report, chain, kept := random(7, 3000), random(6, 3000), random(8, 100_000)
			bundle := bundleOf(t, report, chain)
			at := canon.At(time.Now()) - ledger.KeepJudgement
			must(t, s.Tx(t.Context(), func(tx *server.Tx) error {
				tx.PutBlob(kept)
				_, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindEvidence, Stream: "node:n1", Time: at, Body: tx.PutBlob(bundle), Refs: []canon.Digest{}})
				return err
			}))
			found := func(secret []byte) (in []string) {
				must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() {
						return err
					}
					data, err := os.ReadFile(path)
					if bytes.Contains(data, secret[1000:1100]) {
						in = append(in, d.Name())
					}
					return err
				}))
				return in
			}
			if len(found(report)) == 0 || len(found(chain)) == 0 {
				t.Fatal("the bytes are nowhere before they are erased: this test shows nothing")
			}
			_, err := s.Act(t.Context(), ledger.Erasure{
				Type: ledger.ErasureType, Act: ledger.ActErase, Class: ledger.ClassJudgement, Nodes: []string{}, Digests: []canon.Digest{canon.Sum(bundle)}, Reason: "asked for",
			}, at+ledger.KeepJudgement)
			must(t, err)
			if in := found(report); len(in) > 0 != folder {
				t.Errorf("after the erasure the bundle's bytes are in %q", in)
			}
			if len(found(chain)) == 0 {
				t.Error("the chain went before its time")
			}
			collect := func(after time.Duration) server.Collected {
				t.Helper()
				c, err := s.Collect(t.Context(), canon.At(time.Now().Add(after)))
				must(t, err)
				return c
			}
			if c := collect(0); c.Segments != 0 { // lets go of the segment
				t.Errorf("%+v: a segment went that had not rested", c)
			}
			c := collect(server.GarbageAge + time.Second)
			if c.Blobs != 1 || folder && (c.Segments != 1 || c.Moved != 4) { // kept, the act, and a heads entry with its seed
				t.Errorf("%+v, want the chain gone, in a folder with its segment, and what else was there moved", c)
			}
			if in := append(found(report), found(chain)...); len(in) > 0 {
				t.Errorf("the erased bytes are in %q", in)
			}
			wantBlobs(t, s, kept)
		})
	}
}

// TestHeldPart: a hold on a part keeps it when the last bundle that needs it goes; released, it goes.
func TestHeldPart(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		chain := random(1, 900)
		bundle := bundleOf(t, []byte("one"), chain)
		putBlobs(t, s, bundle)
		act := func(act string, ds ...canon.Digest) {
			t.Helper()
			_, err := s.Act(t.Context(), ledger.Erasure{Type: ledger.ErasureType, Act: act, Hold: "h", Nodes: []string{}, Digests: append([]canon.Digest{}, ds...), Reason: "r"}, start)
			must(t, err)
		}
		act(ledger.ActHold, canon.Sum(chain))
		s.TestingOnlyForget(t, start, canon.Sum(bundle))
		late := start + 2*canon.Time(server.GarbageAge/time.Second)
		c, err := s.Collect(t.Context(), late)
		if err != nil || c.Blobs != 0 {
			t.Errorf("%+v (%v), want nothing collected", c, err)
		}
		wantBlobs(t, s, chain)
		act(ledger.ActRelease)
		s.TestingOnlyStep(func(step string) { // a hold that comes while it is collected
			if step == "held" {
				s.TestingOnlyStep(func(string) {})
				act(ledger.ActHold, canon.Sum(chain))
			}
		})
		if c, err := s.Collect(t.Context(), late); err != nil || c.Blobs != 0 {
			t.Errorf("%+v (%v), want nothing collected", c, err)
		}
		wantBlobs(t, s, chain)
		act(ledger.ActRelease)
		if c, err := s.Collect(t.Context(), late); err != nil || c.Blobs != 1 {
			t.Errorf("%+v (%v), want the chain collected", c, err)
		}
	})
}

// TestEraseNeeded: a body that a bundle has as a part goes with that bundle or not at all.
func TestEraseNeeded(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		body := random(1, 900)
		bundle := bundleOf(t, []byte("one"), body)
		must(t, s.Tx(t.Context(), func(tx *server.Tx) error {
			for _, b := range [][]byte{body, bundle} {
				if _, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindPolicy, Stream: ledger.StreamServer, Time: start, Body: tx.PutBlob(b), Refs: []canon.Digest{}}); err != nil {
					return err
				}
			}
			return nil
		}))
		erase := func(ds ...canon.Digest) error {
			_, err := s.Act(t.Context(), ledger.Erasure{Type: ledger.ErasureType, Act: ledger.ActErase, Class: ledger.ClassJudgement, Nodes: []string{}, Digests: sortedDigests(ds...), Reason: "r"}, start+3*ledger.KeepJudgement)
			return err
		}
		var refused *server.RefusedError
		if err := erase(canon.Sum(body)); !errors.As(err, &refused) || !strings.Contains(err.Error(), canon.Sum(bundle).String()+", which stays, has it as a part") {
			t.Errorf("alone: %v", err)
		}
		wantBlobs(t, s, body, bundle)
		must(t, erase(canon.Sum(body), canon.Sum(bundle)))
		if h := holdings(t, s); h.Blobs != 3 { // a heads entry came due in those years
			t.Errorf("%d blobs are left, want the erasure, and heads with their seed", h.Blobs)
		}
	})
}

// TestTheLogMovesOn: an act that was judged by less than the whole log is not made.
func TestTheLogMovesOn(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s, other := openStore(t, url), openStore(t, url)
		hold := ledger.Erasure{Type: ledger.ErasureType, Act: ledger.ActHold, Hold: "h", Nodes: []string{"n1"}, Digests: []canon.Digest{}, Reason: "r"}
		again := hold
		again.Hold = "i"
		other.TestingOnlyStep(func(step string) {
			if step == "judged" {
				_, err := s.Act(t.Context(), hold, start)
				must(t, err)
			}
		})
		if _, err := other.Act(t.Context(), again, start); err == nil || !strings.Contains(err.Error(), "the log has moved on") {
			t.Errorf("%v, want it refused", err)
		}
		other.TestingOnlyStep(func(string) { appendSome(t, s, "n9", 1) }) // which bears upon nothing
		at, err := other.Act(t.Context(), again, start)
		if err != nil || at != 2 {
			t.Errorf("entry %d (%v), want 2", at, err)
		}
		policy := func(body, ref []byte) {
			must(t, s.Tx(t.Context(), func(tx *server.Tx) error {
				d := server.Draft{Kind: ledger.KindPolicy, Stream: ledger.StreamServer, Time: start, Body: tx.PutBlob(body), Refs: []canon.Digest{}}
				if ref != nil {
					d.Refs = append(d.Refs, canon.Sum(ref))
				}
				_, _, err := tx.Append(t.Context(), d)
				return err
			}))
		}
		mine, others := []byte("policy"), []byte("another policy")
		policy(mine, nil)
		erase := ledger.Erasure{Type: ledger.ErasureType, Act: ledger.ActErase, Class: ledger.ClassJudgement, Nodes: []string{}, Digests: []canon.Digest{canon.Sum(mine)}, Reason: "r"}
		for _, c := range []struct {
			name      string
			body, ref []byte
			moved     bool
		}{
			{"its body comes again", mine, nil, true},
			{"another entry comes to rest on it", others, mine, true},
			{"another entry comes", others, nil, false},
		} {
			other.TestingOnlyStep(func(step string) {
				if step == "judged" {
					policy(c.body, c.ref)
				}
			})
			_, err := other.Act(t.Context(), erase, start+3*ledger.KeepJudgement)
			if (err != nil) != c.moved || c.moved && !strings.Contains(err.Error(), "the log has moved on") {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}

// TestRebuildErased: a database of which much was erased is rebuilt, and its blob folder goes with it.
func TestRebuildErased(t *testing.T) {
	onAll(t, func(t *testing.T, url string) {
		x := newErasing(t, url)
		var challenge canon.Digest
		for _, e := range x.all() {
			if e.Body == x.evidence {
				challenge = e.Refs[0]
			}
		}
		_, err := x.erase(ledger.ClassJudgement, x.verdict)
		must(t, err)
		at, err := x.erase(ledger.ClassJudgement, x.verdict, x.appraisal, x.evidence)
		must(t, err)
		_, err = x.erase(ledger.ClassChallenge, challenge)
		must(t, err)
		x.advance()
		want := dump(t, url)
		for kind, to := range databases(t) {
			_, err := server.Rebuild(t.Context(), url, to, rand.Reader, nil)
			must(t, err)
			got := dump(t, to)
			delete(got, "blob_folder") // the path is relative no more
			for table, rows := range got {
				if !slices.Equal(rows, want[table]) {
					t.Errorf("into %s: %s: %q, want %q", kind, table, rows, want[table])
				}
			}
			s := openStore(t, to)
			_, err = s.Blob(t.Context(), x.appraisal)
			var e *server.ErasedError
			if !errors.As(err, &e) || e.Entry != at {
				t.Errorf("into %s: %v, want erased by entry %d", kind, err, at)
			}
			if n, err := s.CheckBlobs(t.Context(), func(err error) { t.Error(err) }); n == 0 || err != nil {
				t.Errorf("into %s: %d blobs (%v)", kind, n, err)
			}
		}
	})
}

// TestPutAgain: a body that was erased and comes back is there.
func TestPutAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		x := newErasing(t, url)
		_, err := x.erase(ledger.ClassJudgement, x.verdict)
		must(t, err)
		db, err := sqldb.Open(t.Context(), url)
		must(t, err)
		defer db.Close()
		var place int64
		must(t, db.Reader().QueryRow(`SELECT place FROM erased WHERE digest = $1`, x.verdict[:]).Scan(&place))
		if err := db.Reader().QueryRow(`SELECT place FROM erased WHERE digest = $1`, x.evidence[:]).Scan(&place); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("what was not erased: %v", err)
		}
		putBlobs(t, x.store, x.sent)
		wantBlobs(t, x.store, x.sent)
	})
}

// TestDue: what may be erased is found behind as much that is held as one erasure takes, and is allowed.
func TestDue(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	now := start + ledger.KeepJudgement
	body := func(i int) []byte { return fmt.Appendf(nil, "evidence %d", i) }
	must(t, s.Tx(t.Context(), func(tx *server.Tx) error {
		for i := range ledger.MaxErased + 2 {
			at, node := start, "held"
			if i >= ledger.MaxErased {
				at, node = start+canon.Time(i-ledger.MaxErased), "free" // the last one is kept a second longer
			}
			if _, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindEvidence, Stream: ledger.NodeStream(node), Time: at, Body: tx.PutBlob(body(i)), Refs: []canon.Digest{}}); err != nil {
				return err
			}
		}
		return nil
	}))
	act := func(e ledger.Erasure) {
		t.Helper()
		e.Type, e.Reason = ledger.ErasureType, "test"
		e.Nodes, e.Digests = append([]string{}, e.Nodes...), append([]canon.Digest{}, sortedDigests(e.Digests...)...)
		_, err := s.Act(t.Context(), e, now)
		must(t, err)
	}
	act(ledger.Erasure{Act: ledger.ActHold, Hold: "case", Nodes: []string{"held"}})
	due, err := s.Due(t.Context(), ledger.ClassJudgement, now)
	if want := []canon.Digest{canon.Sum(body(ledger.MaxErased))}; err != nil || !slices.Equal(due, want) {
		t.Errorf("under a hold: %d due, %v, want that of the other node", len(due), err)
	}
	act(ledger.Erasure{Act: ledger.ActErase, Class: ledger.ClassJudgement, Digests: due})
	if due, err := s.Due(t.Context(), ledger.ClassJudgement, now); err != nil || len(due) != 0 {
		t.Errorf("when that is erased: %d due, %v, want none", len(due), err)
	}
	act(ledger.Erasure{Act: ledger.ActRelease, Hold: "case"})
	due, err = s.Due(t.Context(), ledger.ClassJudgement, now+1)
	if err != nil || len(due) != ledger.MaxErased {
		t.Errorf("after the hold: %d due, %v, want %d", len(due), err, ledger.MaxErased)
	}
	act(ledger.Erasure{Act: ledger.ActErase, Class: ledger.ClassJudgement, Digests: due})
	if due, err := s.Due(t.Context(), ledger.ClassJudgement, now+1); err != nil || len(due) != 1 {
		t.Errorf("at last: %d due, %v, want 1", len(due), err)
	}
}
