package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Reading is a log that was read through: what [Replay] checks of the log itself was checked, and nothing was recomputed.
// It keeps of each verdict its place, not its words.
type Reading struct {
	*replay
	integrity Report
	whole     bool
	listed    []int64         // indexes of all verdict entries, in log order
	faultAt   map[int64]Fault // first fault of each entry that has one
}

// ReadLog reads a log through. trust may be nil, as with [Replay]. Of the options only Progress and Memory count.
func ReadLog(ctx context.Context, src ledger.Source, trust *Trust, o Options) (*Reading, error) {
	o.Promises = nil
	return readLog(ctx, src, trust, o)
}

func readLog(ctx context.Context, src ledger.Source, trust *Trust, o Options) (*Reading, error) {
	g := &Reading{replay: newReplay(src, trust, o), faultAt: map[int64]Fault{}}
	g.each = func(index int64, e ledger.Entry) {
		if e.Kind == ledger.KindVerdict {
			g.listed = append(g.listed, index)
		}
	}
	var err error
	if g.whole, err = g.readLog(ctx); err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	g.integrity = g.conclude()
	for _, f := range g.faults {
		if _, ok := g.faultAt[f.Index]; !ok {
			g.faultAt[f.Index] = f
		}
	}
	if !g.whole {
		g.listed = nil // entries of another tree than the checkpoint's
	}
	return g, nil
}

// replayAll goes on from reading to what [Replay] finds, and lets seen see the row of every verdict entry, in any order. What a
// row needs is at hand when its verdict was just recomputed.
func (g *Reading) replayAll(ctx context.Context, seen func(Row)) (Report, error) {
	if !g.whole {
		return g.integrity, nil
	}
	g.seen = seen
	g.rowsOf = func(ctx context.Context, ev *evidence) (rows []Row, err error) {
		for _, a := range ev.appraisals {
			for _, v := range a.verdicts {
				row, _, err := g.row(ctx, v.index)
				if err != nil {
					return nil, err
				}
				rows = append(rows, row)
			}
		}
		return rows, nil
	}
	if err := g.finish(ctx); err != nil {
		return Report{}, err
	}
	for _, index := range g.listed { // those that belong to no appraisal
		if _, ok := g.verdicts.search(index, (*verdictRow).at); ok {
			continue
		}
		row, _, err := g.row(ctx, index)
		if err != nil {
			return Report{}, err
		}
		seen(row)
	}
	return g.conclude(), nil
}

// Integrity says what reading found. Nothing was recomputed: its tallies count what is logged.
func (g *Reading) Integrity() Report { return g.integrity }

// Row is one verdict of the population that an auditor samples from. Every verdict entry has one, also one that is
// faulty. What a faulty one does not show is absent.
type Row struct {
	Index      int64                `json:"index"`            // of the entry
	Time       canon.Time           `json:"time,omitzero"`    // of the entry
	Verdict    canon.Digest         `json:"verdict,omitzero"` // body of the entry
	Node       string               `json:"node,omitzero"`
	Evidence   canon.Digest         `json:"evidence,omitzero"`
	Appraisal  canon.Digest         `json:"appraisal,omitzero"`
	Policy     canon.Digest         `json:"policy,omitzero"`
	PolicyName string               `json:"policy_name,omitzero"`
	AsOf       canon.Time           `json:"as_of,omitzero"`
	Outcome    string               `json:"outcome,omitzero"` // accept, reject, undecided; absent: nothing that counts was signed
	Reasons    []string             `json:"reasons"`          // CLAIM@SUBJECT CODE
	Rules      []verifier.RoomRules `json:"rules"`            // of the rooms that appraised, then of the policy room
	Build      canon.Digest         `json:"build,omitzero"`   // the signer's word
	Key        canon.Digest         `json:"key,omitzero"`     // that signed
	Fault      string               `json:"fault,omitzero"`
}

// Rows yields a row for each verdict entry, in log order. It reads the verdict, its appraisal and its evidence, and checks
// the signature and that they belong together; it recomputes nothing. An error is for a source that could not tell.
func (g *Reading) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for i, index := range g.listed {
			if i%ledger.TileWidth == 0 {
				g.o.Progress("verdicts", int64(i), int64(len(g.listed)))
			}
			row, _, err := g.row(ctx, index)
			if !yield(row, err) || err != nil {
				return
			}
		}
		g.o.Progress("verdicts", int64(len(g.listed)), int64(len(g.listed)))
	}
}

// opened is a verdict with what it follows from, as far as a row needs it.
type opened struct {
	*appraisal
	ev *evidence
	verdict
	result policy.Result
	logged verifier.Appraisal
	party  claim.Set // that it was told beside it
}

// row reads the verdict of an entry. A row without an outcome comes with no opened verdict.
func (g *Reading) row(ctx context.Context, index int64) (Row, *opened, error) {
	row := Row{Index: index, Reasons: []string{}, Rules: []verifier.RoomRules{}}
	if f, ok := g.faultAt[index]; ok {
		row.Fault = f.Error()
	}
	o, err := g.open(ctx, &row)
	var f *Fault
	switch {
	case err == nil:
		return row, o, nil
	case !errors.As(err, &f):
		return row, nil, err
	}
	if placed := placed(*f, index, ledger.KindVerdict); row.Fault == "" {
		row.Fault = placed.Error()
	}
	return row, nil, nil
}

// open reads a verdict, its appraisal and its evidence into the row of its index, as far as each is there.
func (g *Reading) open(ctx context.Context, row *Row) (*opened, error) {
	e, err := g.entry(ctx, row.Index)
	if err != nil {
		return nil, err
	}
	row.Time, row.Verdict = e.Time, e.Body
	if len(e.Refs) != 2 || !g.knowsPolicy(e.Refs[1]) {
		return nil, wrong("refs do not name the appraisal and the policy that it follows from")
	}
	if g.policies[e.Refs[1]] == nil {
		_, err := g.blob(ctx, e.Refs[1])
		return nil, err
	}
	a, ev, err := g.appraisalWith(ctx, e.Refs[0])
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, wrong("refs do not name the appraisal and the policy that it follows from")
	}
	o := &opened{appraisal: a, ev: ev, verdict: verdict{row.Index, e.Body, e.Time, e.Refs[1]}}
	row.Evidence, row.Appraisal = ev.body, o.appraisal.body
	row.Policy, row.PolicyName = o.policy, g.policies[o.policy].Name()
	if ev.challenge != nil {
		row.Node = ev.challenge.node
	}
	if _, err := g.blob(ctx, ev.body); err != nil {
		return nil, err
	}
	body, err := g.blob(ctx, o.appraisal.body)
	if err != nil {
		return nil, err
	}
	logged, err := verifier.ParseAppraisal(body)
	if err != nil {
		return nil, wrong("its appraisal: %v", err)
	}
	o.logged = logged
	row.Rules = append(row.Rules, logged.Rules...)
	if len(logged.Rules) == 0 {
		return nil, wrong("its appraisal was made by no rules: the verifier failed on the evidence")
	}
	if o.result, err = g.openResult(ctx, o.appraisal, o.verdict); err != nil {
		return nil, err
	}
	if err := timely(o.result, &o.logged, o.verdict); err != nil {
		return nil, err
	}
	if o.party, err = g.told(ctx, o.result); err != nil {
		return nil, err
	}
	data, err := g.blob(ctx, o.verdict.body)
	if err != nil {
		return nil, err
	}
	env, err := ledger.ParseEnvelope(data)
	if err != nil {
		return nil, wrong("%v", err)
	}
	v := o.result.Verdict
	row.Rules = append(row.Rules, verifier.RoomRules{Room: "policy", Rules: v.Rules})
	row.AsOf, row.Outcome, row.Build, row.Key = v.AsOf, v.Outcome.String(), o.result.Build.Digest, env.Signatures[0].KeyID
	for _, r := range v.Reasons {
		row.Reasons = append(row.Reasons, reasonCode(r))
	}
	return o, nil
}

// reasonCode names a reason of a verdict in one line: the claim, and the code of why it does not count, or that its value
// is not enough.
func reasonCode(r policy.Reason) string {
	code := "not-enough"
	if r.Status != claim.Affirmed {
		code = claim.Reason(r.Observed).Code()
	}
	return r.Claim + "@" + r.Subject + " " + code
}

// Find returns the verdict entry that a word names: an index, the digest of its body, or the identity of its envelope.
func (g *Reading) Find(ctx context.Context, word string) (int64, error) {
	digest, err := canon.ParseDigest(word)
	if err != nil {
		index, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("verdict %.80q: want the index of its entry, or its digest in hex", word)
		}
		if !g.has(index) {
			return 0, fmt.Errorf("entry %d: no verdict of this log, which has %s", index, counted(int64(len(g.listed)), "verdict"))
		}
		return index, nil
	}
	for _, index := range g.listed {
		e, err := g.entry(ctx, index)
		if err == nil && e.Body == digest {
			return index, nil
		}
		var data []byte
		if err == nil {
			data, err = g.blob(ctx, e.Body)
		}
		if f := new(Fault); err != nil && !errors.As(err, &f) {
			return 0, err
		}
		if env, err := ledger.ParseEnvelope(data); err == nil && env.Identity() == digest {
			return index, nil
		}
	}
	return 0, fmt.Errorf("verdict %s: not in the log", word)
}

// has reports whether an entry is a verdict.
func (g *Reading) has(index int64) bool {
	_, ok := slices.BinarySearch(g.listed, index)
	return ok
}

// verdictAt opens the verdict of an index. One that cannot be opened is a [*Fault].
func (g *Reading) verdictAt(ctx context.Context, index int64) (*opened, Row, error) {
	if !g.has(index) {
		return nil, Row{}, fmt.Errorf("entry %d: no verdict of this log", index)
	}
	row, o, err := g.row(ctx, index)
	if err != nil {
		return nil, row, err
	}
	if o == nil {
		return nil, row, &Fault{Part: fmt.Sprintf("entry %d", index), Index: index, Kind: ledger.KindVerdict, What: row.Fault}
	}
	return o, row, nil
}
