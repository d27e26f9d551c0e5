package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/capacity"
	"github.com/assay-network/assay/market/vetting"
)

func (l *log) Keysets(context.Context) ([]byte, error) {
	if l.continued == 0 {
		return nil, fs.ErrNotExist
	}
	return canon.Marshal(ledger.Keysets{Type: ledger.KeysetsType, Keysets: l.envelopes[:l.continued]})
}

// changes are what is done otherwise where a log is closed and another goes on. The zero changes change nothing.
type changes struct {
	next  string              // that the closing entry names
	open  bool                // no entry closes the log
	late  bool                // an entry follows the one that closes it
	final func(*ledger.Final) // of the keyset that continues it
	by    *key                // signs that keyset
	drop  string              // kind of entry that is not carried over
	again func(*service)      // called behind what is carried over

	vetting func([]vetting.CarriedItem) []vetting.CarriedItem // of what is carried over of providers
	parts   func([][]byte) [][]byte                           // and its parts
	ahead   func(*service)                                    // called before the first part
	between func(*service)                                    // and before each other one
}

// leaves is what a log leaves of providers, made of its entries.
func (s *service) leaves() (items []vetting.CarriedItem) {
	var keys ledger.KeyHistory
	for _, env := range s.envelopes {
		_ = keys.Add(env) // one that does not follow is the audit's to find
	}
	book := vetting.NewBook(keys, vetting.Known{})
	benchmarks := map[canon.Digest]vetting.CarriedBenchmark{} // by challenge
	last := map[string]canon.Digest{}                         // appraisals, by node
	for n, commitment := range s.commitments {
		e := s.entryOf(commitment)
		body := s.blobs[e.Body]
		switch e.Kind {
		case ledger.KindCarried:
			c, err := vetting.ParseCarried(body)
			s.must(err)
			for _, i := range c.Items {
				if i.Appraised != nil {
					last[i.Appraised.Node] = i.Appraised.Appraisal
					continue
				}
				if i.Benchmark != nil {
					items = append(items, i)
				}
				word := []byte(nil)
				if i.Word != nil {
					word = s.blobs[i.Word.Body]
				}
				s.must(book.Resume(int64(n), i, word))
			}
		case ledger.KindClaim, ledger.KindCertificate, ledger.KindRules:
			s.must(book.Add(int64(n), commitment, ledger.Event{Entry: e, Body: body}))
		case ledger.KindBenchmark:
			r, err := capacity.ParseRecord(body)
			s.must(err)
			if r.Challenge != nil {
				benchmarks[e.Body] = vetting.CarriedBenchmark{Node: r.Challenge.Node, Starts: r.Challenge.Starts, Challenge: e.Body}
			} else if r.Result != nil {
				b := benchmarks[r.Result.Challenge]
				b.Result = e.Body
				items = append(items, vetting.CarriedItem{Benchmark: &b})
			}
		case ledger.KindAppraisal:
			for _, of := range s.commitments[:n] {
				if o := s.entryOf(of); o.Kind == ledger.KindEvidence && o.Body == e.Refs[0] {
					last[strings.TrimPrefix(o.Stream, ledger.NodeStream(""))] = e.Body
				}
			}
		}
	}
	items = append(items, book.Leave()...)
	for node, appraisal := range last {
		items = append(items, vetting.CarriedItem{Appraised: &vetting.Appraised{Node: node, Appraisal: appraisal}})
	}
	return items
}

// close closes a log and returns the one that goes on.
func (s *service) close(name string, c changes) *service {
	seed := sha256.Sum256([]byte("closing seed"))
	s.putBytes(seed[:])
	doc := ledger.NewHeadsTree(seed[:], s.streams).Document()
	doc.Closes.Next = name
	if c.next != "" {
		doc.Closes.Next = c.next
	}
	if c.open {
		doc.Closes.Next = ""
	}
	s.append(ledger.KindHeads, ledger.StreamServer, s.put(doc))
	if c.late {
		s.append(ledger.KindReference, ledger.StreamServer, s.put(s.references))
	}
	s.publish()
	l := *s.log
	l.origin, l.now, l.note, l.uncovered = name, s.now+1, nil, 0
	l.tiles, l.edge, l.commitments, l.streams = map[ledger.Tile][]byte{}, ledger.Edge{}, nil, map[string]ledger.Tail{}
	l.continued, l.notes, l.renewed = len(s.envelopes), map[int64][]byte{}, maps.Clone(s.renewed)
	k, err := s.keyset().NextLog(l.now, name, s.edge.Tree())
	s.must(err)
	if c.final != nil {
		c.final(&k.Continues)
	}
	by := s.key(ledger.UseLog)
	if c.by != nil {
		by = *c.by
	}
	l.addKeyset(k, by)
	if len(l.witnesses) > 0 {
		l.publish()
	}
	next := *s
	next.log = &l
	standing := map[string][]canon.Digest{} // by node
	holds := map[string]ledger.Entry{}
	for _, commitment := range s.commitments {
		switch e := s.entryOf(commitment); {
		case e.Kind == c.drop:
		case e.Kind == ledger.KindPolicy, e.Kind == ledger.KindReference, e.Kind == ledger.KindCollateral:
			l.append(e.Kind, e.Stream, e.Body)
		case e.Kind == ledger.KindErasure:
			act, err := ledger.ParseErasure(s.blobs[e.Body])
			s.must(err)
			holds[act.Hold] = e
			if act.Act != ledger.ActHold {
				delete(holds, act.Hold)
			}
		case e.Kind == ledger.KindEnrolment:
			n, err := ledger.ParseEnrolment(s.blobs[e.Body])
			s.must(err)
			standing[n.Node] = append(standing[n.Node], e.Body)
			if n.Basis == ledger.BasisRevoked {
				delete(standing, n.Node)
			}
		}
	}
	for _, e := range holds {
		l.append(e.Kind, e.Stream, e.Body)
	}
	for _, node := range slices.Sorted(maps.Keys(standing)) {
		for _, body := range standing[node] {
			l.append(ledger.KindEnrolment, ledger.StreamVerifier, body, l.keysetBody)
		}
	}
	items := s.leaves()
	if c.vetting != nil {
		items = c.vetting(items)
	}
	parts, err := vetting.Parts(s.origin, items)
	s.must(err)
	if c.parts != nil {
		parts = c.parts(parts)
	}
	if c.ahead != nil {
		c.ahead(&next)
	}
	for n, p := range parts {
		if n > 0 && c.between != nil {
			c.between(&next)
		}
		l.append(ledger.KindCarried, ledger.StreamServer, s.putBytes(p), l.keysetBody)
	}
	if c.again != nil {
		c.again(&next)
	}
	return &next
}

func (s *service) enrol(node, basis string, refs ...canon.Digest) {
	n := ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: basis, Verifier: "https://verifier.example"}
	s.append(ledger.KindEnrolment, ledger.StreamVerifier, s.put(n), refs...)
}

// chainOf is a chain of three logs, each with a verdict; c holds at the boundary between the first two.
func chainOf(t testing.TB, c changes) []*service {
	first := newService(t, "honest")
	first.enrol("good", ledger.BasisToken)
	first.enrol("gone", ledger.BasisToken)
	first.enrol("gone", ledger.BasisRevoked)
	first.serve(newHost("good", sevsnp.PolicySMT))
	second := first.close("log.example/two", c)
	second.serve(newHost("good", sevsnp.PolicySMT))
	second.renew(ledger.UseResult, 0)
	second.serve(newHost("good", sevsnp.PolicySMT))
	third := second.close("log.example/three", changes{})
	third.serve(newHost("good", sevsnp.PolicySMT))
	third.publish()
	return []*service{first, second, third}
}

func replayChain(t testing.TB, trust *audit.Trust, o audit.Options, exports ...[]byte) audit.ChainReport {
	t.Helper()
	var logs []audit.ChainLog
	for _, e := range exports {
		a, err := audit.Open(bytes.NewReader(e), int64(len(e)))
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, audit.ChainLog{Source: a})
	}
	r, err := audit.ReplayChain(t.Context(), logs, trust, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestChain: each log of a chain is replayed alone, by the keys of any keyset of the chain, and all of them together.
func TestChain(t *testing.T) {
	logs := chainOf(t, changes{})
	var exports [][]byte
	for i, s := range logs {
		exports = append(exports, s.export())
		for _, k := range logs[2].keysets {
			r := replay(t, exports[i], s.trustOf(k), audit.Options{})
			// Who trusts a later keyset than a log shows cannot know that it leads there.
			later := i < 2 && k.Made > s.keyset().Made
			if later != (r.Outcome == audit.Faulty) {
				t.Errorf("log %d by the keyset of %s, of %s:\n%s", i, k.Made, k.Origin, r.Text())
			}
		}
	}
	r := replay(t, exports[1], logs[0].trust(), audit.Options{})
	final := ledger.Final{Origin: origin, Size: logs[0].edge.Tree().Size, Root: logs[0].edge.Tree().Root}
	if r.Continues != final || r.Closed != "log.example/three" || r.Origin != "log.example/two" {
		t.Errorf("%+v, closed for %q", r.Continues, r.Closed)
	}
	for _, k := range r.Keys {
		if k.Use == ledger.UseLog && !strings.HasPrefix(k.VKey, "log.example/two+") {
			t.Errorf("log key %q", k.VKey)
		}
	}
	for _, want := range []string{fmt.Sprintf("\ncontinues   the log %s, which ended with size %d, root", origin, final.Size), "\nclosed      the log log.example/three goes on\n"} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("lacks %q:\n%s", want, r.Text())
		}
	}
	// In any order, also without the first or the last.
	all := replayChain(t, logs[1].trust(), audit.Options{}, exports[2], exports[0], exports[1])
	if all.Outcome != audit.Equal || all.ExitCode() != 0 || all.Logs[0].Origin != origin || all.Logs[2].Origin != "log.example/three" {
		t.Errorf("all:\n%s", all.Text())
	}
	for i, part := range [][][]byte{exports[:2], exports[1:]} {
		r := replayChain(t, logs[0].trust(), audit.Options{}, part...)
		if words := []string{"log.example/three, which goes on, is not here", "log log.example/one, which comes before, is not here"}[i]; r.Outcome != audit.Equal || !strings.Contains(r.Text(), words) {
			t.Errorf("lacks %q:\n%s", words, r.Text())
		}
	}
	if r := replayChain(t, nil, audit.Options{}, exports...); r.Outcome != audit.NotAnchored || r.ExitCode() != 3 {
		t.Errorf("without trust: %s, %d", r.Outcome, r.ExitCode())
	}
	data, err := all.Canonical()
	var again audit.ChainReport
	if err == nil {
		err = canon.Unmarshal(data, &again)
	}
	if err != nil {
		t.Errorf("the report is no canonical document: %v", err)
	}
}

// TestChainTwins: each row changes one thing at the boundary between the first two logs. alone is what a replay of one of
// them finds, chain what only both together show.
func TestChainTwins(t *testing.T) {
	stranger := newKey("stranger")
	for _, row := range []struct {
		name   string
		change changes
		log    int    // whose replay alone finds it
		alone  string // "" nothing
		chain  string
	}{
		{name: "good"},
		{name: "wrong root", change: changes{final: func(f *ledger.Final) { f.Root[0] ^= 1 }}, chain: "has the root"},
		{name: "smaller", change: changes{final: func(f *ledger.Final) { f.Size-- }}, chain: "continues it at size"},
		{name: "larger", change: changes{final: func(f *ledger.Final) { f.Size++ }}, chain: "take an export that has all of it"},
		{name: "wrong next", change: changes{next: "log.example/other"}, chain: `was closed for the log "log.example/other", and the log "log.example/two" continues it`},
		{name: "never closed", change: changes{open: true}, chain: `no entry closes it, and the log "log.example/two" continues it`},
		{name: "an entry after the close", change: changes{late: true}, alone: "an entry after the one that closes the log, entry 12"},
		{name: "by a stranger", change: changes{by: &stranger}, log: 1, alone: "no log key of the keyset before it signed it", chain: "its keysets do not follow"},
		{name: "continues another", change: changes{final: func(f *ledger.Final) { f.Origin = "log.example/other" }}, log: 1,
			alone: `continues the log "log.example/other", the one before it is of "log.example/one"`, chain: "its keysets do not follow"},
		{name: "collateral is not carried over", change: changes{drop: ledger.KindCollateral, again: func(s *service) {
			s.ask("good")
			for _, c := range s.collateral {
				s.append(ledger.KindCollateral, ledger.StreamServer, s.put(ledger.Collateral{
					Type: ledger.CollateralType, Kind: c.Kind, Data: canon.Sum(c.Data), Source: "https://example.test/" + c.Kind, Fetched: t0}))
			}
		}}, chain: `lacks, before its first challenge, the amd-crl that entry 3 of the log "log.example/one" has, or a newer one`},
		{name: "newer collateral in its place", change: changes{drop: ledger.KindCollateral, again: func(s *service) { issue(s, 2) }}},
		{name: "older collateral in its place", change: changes{drop: ledger.KindCollateral, again: func(s *service) { issue(s, 0) }},
			chain: `lacks, before its first challenge, the amd-crl that entry 3`},
		{name: "an enrolment is not carried over", change: changes{drop: ledger.KindEnrolment}, chain: `of the node "good", which stood in the log`},
		{name: "an enrolment made up", change: changes{again: func(s *service) { s.enrol("ghost", ledger.BasisToken, s.keysetBody) }},
			chain: `of the node "ghost", which did not stand in the log`},
		{name: "an enrolment that was revoked", change: changes{again: func(s *service) { s.enrol("gone", ledger.BasisToken, s.keysetBody) }},
			chain: `of the node "gone", which did not stand in the log`},
		{name: "a new enrolment", change: changes{again: func(s *service) { s.enrol("ghost", ledger.BasisToken) }}},
		{name: "carried over late", change: changes{drop: ledger.KindEnrolment, again: func(s *service) {
			s.ask("good")
			s.enrol("good", ledger.BasisToken, s.keysetBody)
		}}, log: 1, alone: "carried over from the log before, after the first challenge"},
	} {
		t.Run(row.name, func(t *testing.T) {
			logs := chainOf(t, row.change)
			var exports [][]byte
			for i, s := range logs[:2] {
				exports = append(exports, s.export())
				r := replay(t, exports[i], logs[0].trust(), audit.Options{})
				faulty := row.alone != "" && i == row.log
				if faulty != (r.Outcome == audit.Faulty) || faulty && !strings.Contains(r.Text(), row.alone) {
					t.Errorf("log %d alone, want %q:\n%s", i, row.alone, r.Text())
				}
			}
			r := replayChain(t, logs[0].trust(), audit.Options{}, exports...)
			if (row.chain != "" || row.alone != "") != (r.Outcome == audit.Faulty) || !strings.Contains(r.Text(), row.chain) {
				t.Errorf("both, want %q:\n%s", row.chain, r.Text())
			}
			if row.chain == "" && r.FaultCount != 0 {
				t.Errorf("faults between them:\n%s", r.Text())
			}
		})
	}
}

// TestChainOfOthers: logs that do not belong together.
func TestChainOfOthers(t *testing.T) {
	logs := chainOf(t, changes{})
	one, three := logs[0].export(), logs[2].export()
	r := replayChain(t, logs[0].trust(), audit.Options{}, one, three)
	if r.Outcome != audit.Faulty || r.FaultCount != 1 || !strings.Contains(r.Text(), `the log "log.example/two" comes before it, and is not here`) {
		t.Errorf("the middle log dropped:\n%s", r.Text())
	}
	if r := replayChain(t, logs[0].trust(), audit.Options{}, one, one); r.Outcome != audit.Faulty || !strings.Contains(r.Text(), "given twice") {
		t.Errorf("twice the same:\n%s", r.Text())
	}
	other := chainOf(t, changes{final: func(f *ledger.Final) { f.Root[0] ^= 1 }})
	if r := replayChain(t, logs[0].trust(), audit.Options{}, one, other[2].export()); r.Outcome != audit.Faulty || !strings.Contains(r.Text(), "log log.example/one: has the root") {
		t.Errorf("another first log, two before:\n%s", r.Text())
	}
	stranger := newService(t, "stranger")
	stranger.close("log.example/two", changes{})
	if r := replayChain(t, logs[0].trust(), audit.Options{}, stranger.export(), logs[1].export()); r.Outcome != audit.Faulty || !strings.Contains(r.Text(), `log log.example/two: its keysets do not follow from those of the log "log.example/one"`) {
		t.Errorf("a first log of another's keys:\n%s", r.Text())
	}
	// A first log that is here as it was before it was closed.
	s := newService(t, "honest")
	s.serve(newHost("good", sevsnp.PolicySMT))
	early := s.publish().export()
	next := s.close("log.example/two", changes{})
	next.publish()
	if r := replayChain(t, s.trust(), audit.Options{}, early, next.export()); r.Outcome != audit.Faulty || !strings.Contains(r.Text(), "take an export that has all of it") {
		t.Errorf("an earlier state:\n%s", r.Text())
	}
	if r := replayChain(t, s.trust(), audit.Options{}, s.export(), next.export()); r.Outcome != audit.Equal {
		t.Errorf("the whole:\n%s", r.Text())
	}
}

// TestNothingTwiceInAChain: a verdict of one log, with all that it rests on, does not stand in another.
func TestNothingTwiceInAChain(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := newService(t, "honest")
		s.serve(newHost("good", sevsnp.PolicySMT))
		next := s.close("log.example/two", changes{again: func(n *service) {
			for _, c := range s.commitments {
				switch e := s.entryOf(c); e.Kind {
				case ledger.KindChallenge, ledger.KindEvidence, ledger.KindAppraisal, ledger.KindVerdict:
					if again {
						n.now = e.Time
						n.append(e.Kind, e.Stream, e.Body, e.Refs...)
					}
				}
			}
		}})
		next.publish()
		if r := replay(t, next.export(), s.trust(), audit.Options{}); r.Outcome != audit.Equal {
			t.Errorf("the second alone:\n%s", r.Text())
		}
		r := replayChain(t, s.trust(), audit.Options{}, s.export(), next.export())
		if want := map[bool]int64{false: 0, true: 4}[again]; r.FaultCount != want {
			t.Errorf("again %v: want %d faults:\n%s", again, want, r.Text())
		}
	}
}

// TestLaterLogWithoutItsKeysets: the keysets of the logs before belong to a later log, and to no other.
func TestLaterLogWithoutItsKeysets(t *testing.T) {
	logs := chainOf(t, changes{})
	trust := logs[0].trust()
	without := *logs[1].log
	without.continued = 0
	r := replay(t, without.export(), trust, audit.Options{})
	wantFault(t, r, "entry 0", `the log continues "log.example/one", and the keysets of the logs before it are not here`)
	first := *logs[0].log
	first.continued = 1
	wantFault(t, replay(t, first.export(), trust, audit.Options{}), "entry 0", "the log continues none, and keysets of logs before it are here")
	longer := *logs[2].log
	longer.continued--
	wantFault(t, replay(t, longer.export(), trust, audit.Options{}), "entry 0", "refs do not name the keyset that it follows")
	s := newService(t, "honest")
	s.enrol("good", ledger.BasisToken, s.keysetBody)
	wantFault(t, replay(t, s.publish().export(), s.trust(), audit.Options{}), "entry 5", "carried over from a log before, and the log continues none")
	if k, err := audit.FirstKeyset(t.Context(), logs[2]); err != nil || k.Origin != "log.example/three" {
		t.Errorf("first keyset of %q, %v", k.Origin, err)
	}
}

// TestPromiseOfAClosedLog: a promise is looked for in the log that it names.
func TestPromiseOfAClosedLog(t *testing.T) {
	s := newService(t, "honest")
	h := newHost("good", sevsnp.PolicySMT)
	c := s.ask(h.node)
	body, commitment := s.take(c, h.answer(s.log, c.Digest()))
	taken := s.entryOf(commitment)
	s.decide(s.judge(c, body), body)
	next := s.close("log.example/two", changes{})
	next.publish()
	promise := func(commitment canon.Digest, of string) audit.GivenPromise {
		env, err := ledger.SealPromise(ledger.NewPromise(of, commitment, taken), s.key(ledger.UsePromise))
		s.must(err)
		return audit.GivenPromise{Name: "promise.json", Data: s.bytes(env)}
	}
	for _, row := range []struct {
		name  string
		given audit.GivenPromise
		log   int
		state string
	}{
		{"kept", promise(commitment, origin), 0, audit.PromiseKept},
		{"another entry", promise(canon.Sum(nil), origin), 0, audit.PromiseOpen},
		{"of no log", promise(commitment, "log.example/other"), 1, audit.PromiseRefused},
	} {
		r := replayChain(t, s.trust(), audit.Options{Promises: []audit.GivenPromise{row.given}}, next.export(), s.export())
		if got := r.Logs[row.log].Promises; len(got) != 1 || got[0].State != row.state || len(r.Logs[1-row.log].Promises) != 0 {
			t.Errorf("%s: %+v", row.name, got)
		}
	}
}

// issue enters the collateral that a verifier judges by, issued so many days after the day before the log began.
func issue(s *service, days int) {
	at := t0.Time().AddDate(0, 0, days-2)
	s.now += day * 2 // so that it is not of the future
	s.collateral = []attest.Collateral{
		{Kind: attest.KindAMDCRL, Data: amd().CRL(at, at.AddDate(0, 1, 0))},
		{Kind: attest.KindDenyList, Data: mint.DenyList(int64(days), canon.At(at), canon.At(at.AddDate(0, 1, 0)))},
	}
	for _, c := range s.collateral {
		s.append(ledger.KindCollateral, ledger.StreamServer, s.put(ledger.Collateral{
			Type: ledger.CollateralType, Kind: c.Kind, Data: s.putBytes(c.Data), Source: "https://example.test/" + c.Kind, Fetched: s.now}))
	}
}

// erase enters an act.
func (s *service) erase(e ledger.Erasure) {
	e.Type, e.Reason = ledger.ErasureType, "the test"
	if e.Nodes == nil {
		e.Nodes = []string{}
	}
	if e.Digests == nil {
		e.Digests = []canon.Digest{}
	}
	s.append(ledger.KindErasure, ledger.StreamServer, s.put(e))
}

// TestErasureInALaterLog: what a later log erased of a closed one is missing there for whoever has that log alone, and is
// judged, holds and all, where both are at hand.
func TestErasureInALaterLog(t *testing.T) {
	for _, row := range []struct {
		name   string
		days   canon.Time // after which it is erased
		hold   bool       // in the log that was closed
		drop   bool       // and it is not carried over
		fault  string     // of the later log, where both are at hand
		erased int64      // in the closed log
	}{
		{"as it may be", 3000, false, false, "", 1},
		{"too soon", 1, false, false, "not allowed", 0},
		{"held", 3000, true, false, `the hold "case"`, 0},
		{"held, and the next log forgets it", 3000, true, true, `the hold "case"`, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			c := s.ask("good")
			if row.hold {
				s.erase(ledger.Erasure{Act: ledger.ActHold, Hold: "case", Digests: []canon.Digest{canon.Sum(s.bytes(c))}})
			}
			forget := changes{}
			if row.drop {
				forget.drop = ledger.KindErasure
			}
			next := s.close("log.example/two", forget)
			body := canon.Sum(s.bytes(c))
			next.now += row.days * day
			next.erase(ledger.Erasure{Act: ledger.ActErase, Class: ledger.ClassChallenge, Digests: []canon.Digest{body}})
			if row.hold && !row.drop {
				next.erase(ledger.Erasure{Act: ledger.ActRelease, Hold: "case"})
			}
			next.publish()
			gone := *s.log
			gone.blobs = maps.Clone(s.blobs)
			delete(gone.blobs, body)
			alone := replay(t, gone.export(), s.trust(), audit.Options{})
			wantFault(t, alone, "blob/"+body.String(), "missing; the log was closed, and a later one may say that it was erased")
			later := replay(t, next.export(), s.trust(), audit.Options{})
			for _, f := range later.Faults {
				if f.Kind == ledger.KindErasure {
					t.Errorf("the later log alone: %s: %s", f.Part, f.What)
				}
			}
			r := replayChain(t, s.trust(), audit.Options{}, gone.export(), next.export())
			if forgot := strings.Contains(r.Text(), `lacks, before its first challenge, the hold "case"`); forgot != row.drop {
				t.Errorf("the hold is forgotten: %v\n%s", forgot, r.Text())
			}
			if r.Logs[0].ErasedCount != row.erased || row.erased == 1 && r.Logs[0].Outcome != audit.Equal {
				t.Errorf("the closed log:\n%s", r.Logs[0].Text())
			}
			if row.erased == 1 && !strings.Contains(r.Logs[0].Text(), "of the log log.example/two") {
				t.Errorf("it is not said where it was erased:\n%s", r.Logs[0].Text())
			}
			found := slices.ContainsFunc(r.Logs[1].Faults, func(f audit.Fault) bool { return f.Kind == ledger.KindErasure && strings.Contains(f.What, row.fault) })
			if found != (row.fault != "") || strings.Contains(r.Text(), "already") {
				t.Errorf("want %q:\n%s", row.fault, r.Logs[1].Text())
			}
		})
	}
	// A first log that erases what it never had is at fault.
	s := newService(t, "honest")
	s.erase(ledger.Erasure{Act: ledger.ActErase, Class: ledger.ClassChallenge, Digests: []canon.Digest{{1}}})
	wantFault(t, replay(t, s.publish().export(), s.trust(), audit.Options{}), "entry 5", "no earlier entry has it as its body")
}

// TestPartsOfAChain: what else is made of a log knows a later one as well.
func TestPartsOfAChain(t *testing.T) {
	logs := chainOf(t, changes{})
	second := logs[1]
	trust := logs[0].trust()
	_, page, _ := paper(t, second, trust, audit.Options{})
	for _, want := range []string{"Without exception", "the log <code>log.example/one</code>, which ended with size 13", "the log <code>log.example/three</code> goes on"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	var part bytes.Buffer
	if _, err := audit.ExportScope(t.Context(), second, audit.Criteria{Nodes: []string{"good"}}, &part); err != nil {
		t.Fatal(err)
	}
	if r := replay(t, part.Bytes(), trust, audit.Options{}); r.Outcome != audit.Equal || r.Continues.Origin != origin {
		t.Errorf("a part:\n%s", r.Text())
	}
	if r := replayChain(t, trust, audit.Options{}, logs[0].export(), part.Bytes()); r.Outcome != audit.Equal {
		t.Errorf("a part, behind the log before:\n%s", r.Text())
	}
	export := second.export()
	for _, g := range regions(t, export) {
		if g.part != "keysets-before" {
			continue
		}
		for at := g.from; at < g.to; at += max(1, (g.to-g.from)/24) {
			changed := bytes.Clone(export)
			changed[at] ^= 1 << (at % 8)
			if r := replay(t, changed, trust, audit.Options{}); r.Outcome != audit.Faulty || !names(r, g) {
				t.Errorf("byte %d, %s of %s:\n%s", at, g.field, g.part, r.Text())
			}
		}
	}
}

// TestStateOverABoundary: a state of one log goes on in the next one from the final checkpoint, or with the closed log at
// hand; and in no log that does not continue it.
func TestStateOverABoundary(t *testing.T) {
	s := newService(t, "honest")
	s.serve(newHost("good", sevsnp.PolicySMT))
	early := bytes.Clone(s.publish().note)
	s.serve(newHost("good", sevsnp.PolicySMT))
	next := s.close("log.example/two", changes{})
	next.serve(newHost("good", sevsnp.PolicySMT))
	next.publish()
	trust := s.trust()
	none := func(context.Context, string) (ledger.Source, error) { return nil, fs.ErrNotExist }
	closed := func(_ context.Context, name string) (ledger.Source, error) {
		if name == origin {
			return s.log, nil
		}
		return nil, fs.ErrNotExist
	}
	stranger := newService(t, "honest")
	stranger.serve(newHost("other", sevsnp.PolicySMT))
	stranger.publish()
	for _, row := range []struct {
		name   string
		last   []byte
		before func(context.Context, string) (ledger.Source, error)
		want   string
	}{
		{"from the final checkpoint", s.note, none, ""},
		{"from an earlier one, with the closed log", early, closed, ""},
		{"from an earlier one, alone", early, none, `the log "log.example/one", which was closed: file does not exist`},
		{"from another history", stranger.note, closed, "does not continue that of size"},
	} {
		state := audit.State{Type: audit.StateType, Checkpoint: string(row.last), Trust: *trust}
		found := replay(t, next.export(), trust, audit.Options{})
		got, err := audit.Continue(t.Context(), state, *trust, found, next.log, row.before)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
		if err == nil && got.Checkpoint != string(next.note) {
			t.Errorf("%s: believes %q", row.name, got.Checkpoint)
		}
	}
}
