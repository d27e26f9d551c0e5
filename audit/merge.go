package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Range says whose verdicts are recomputed: those on evidence whose entry is at least From and less than To. The zero
// Range is the whole log.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Check refuses a range of nothing.
func (g Range) Check() error {
	if g != (Range{}) && (g.From < 0 || g.To <= g.From) {
		return fmt.Errorf("range %d:%d: want FROM:TO, the first entry and the first that is not part of it", g.From, g.To)
	}
	return nil
}

func (g Range) has(index int64) bool { return g == (Range{}) || index >= g.From && index < g.To }

// rulesOf returns the rules of this build.
func rulesOf() []verifier.RoomRules {
	return append(verifier.Rooms(), verifier.RoomRules{Room: "policy", Rules: policy.Rules})
}

// present checks that what belongs to a piece of evidence is there, with its digests, and recomputes nothing.
func (j *job) present(ctx context.Context) error {
	need := func(digest canon.Digest, index int64, kind string) ([]byte, error) {
		data, err := j.blob(ctx, digest)
		return data, j.met(err, index, kind)
	}
	if _, err := need(j.ev.body, j.ev.index, ledger.KindEvidence); err != nil {
		return err
	}
	for _, a := range j.ev.appraisals {
		body, err := need(a.body, a.index, ledger.KindAppraisal)
		if err != nil {
			return err
		}
		if logged, err := verifier.ParseAppraisal(body); err == nil {
			for _, in := range logged.Inputs {
				if _, err := need(in.Digest, a.index, ledger.KindAppraisal); err != nil {
					return err
				}
			}
		}
		for _, v := range a.verdicts {
			if _, err := need(v.body, v.index, ledger.KindVerdict); err != nil {
				return err
			}
		}
	}
	return nil
}

// SealReport signs a report with the auditor's key.
func SealReport(r Report, key ledger.Signer) ([]byte, error) {
	data, err := r.Canonical()
	if err != nil {
		return nil, err
	}
	env, err := ledger.Seal(ReportType, data, key)
	if err != nil {
		return nil, err
	}
	return canon.Marshal(env)
}

// OpenReport reads a report that one of some keys signed, and says which. It does not check that the report is right: that
// is what its signer answers for.
func OpenReport(data []byte, keys []crypto.PublicKey) (r Report, by canon.Digest, err error) {
	env, err := ledger.ParseEnvelope(bytes.TrimSuffix(data, []byte("\n")))
	if err != nil {
		return r, by, fmt.Errorf("report: %w", err)
	}
	if env.PayloadType != ReportType {
		return r, by, fmt.Errorf("report: payload type %.80q is not known to this build, want %q", env.PayloadType, ReportType)
	}
	i := slices.IndexFunc(keys, env.SignedBy)
	if i < 0 {
		return r, by, errors.New("report: signed by none of the given keys")
	}
	if by, err = ledger.KeyID(keys[i]); err != nil {
		return r, by, err
	}
	if err := canon.Unmarshal(env.Payload, &r); err != nil {
		return r, by, fmt.Errorf("report: %w", err)
	}
	if r.Type != ReportType {
		return r, by, fmt.Errorf("report: type %.80q is not known to this build, want %q", r.Type, ReportType)
	}
	return r, by, nil
}

// PartialReport is a report on a range of a log, and its name for errors.
type PartialReport struct {
	Name   string
	Report Report
}

// Merge makes one report of reports on ranges of one log: the same that one replay of the whole gives, byte for byte. It
// refuses reports that are not of one tree, made by the same rules, under the same keys, or whose ranges overlap or leave
// something out: then it says what is missing.
func Merge(parts []PartialReport) (Report, error) {
	if len(parts) < 2 || len(parts) > MaxPartial {
		return Report{}, fmt.Errorf("merge: %d reports, want 2 to %d", len(parts), MaxPartial)
	}
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b PartialReport) int { return cmp.Compare(a.Report.rangeOf().From, b.Report.rangeOf().From) })
	first := parts[0]
	next := int64(0)
	var missing []string
	for _, p := range parts {
		if p.Report.Range == nil {
			return Report{}, fmt.Errorf("merge: %s is of the whole log, not of a range", p.Name)
		}
		if err := alike(first, p); err != nil {
			return Report{}, fmt.Errorf("merge: %w", err)
		}
		if n := int64(len(p.Report.Faults)); n < p.Report.FaultCount {
			return Report{}, fmt.Errorf("merge: %s lists %d of its %d faults: they cannot be counted together", p.Name, n, p.Report.FaultCount)
		}
		g := *p.Report.Range
		switch {
		case g.From < next:
			return Report{}, fmt.Errorf("merge: %s is of %d:%d, and entries before %d are in another report: ranges overlap", p.Name, g.From, g.To, next)
		case g.From > next:
			missing = append(missing, fmt.Sprintf("%d:%d", next, g.From))
		}
		next = g.To
	}
	if next < first.Report.Size {
		missing = append(missing, fmt.Sprintf("%d:%d", next, first.Report.Size))
	}
	if len(missing) > 0 {
		return Report{}, fmt.Errorf("merge: together not whole, no report is of %s", strings.Join(missing, ", "))
	}
	out := first.Report
	out.Range, out.First = nil, nil
	out.Unanswered, out.Appraisals, out.Verdicts = 0, Tally{Logged: out.Appraisals.Logged}, Tally{Logged: out.Verdicts.Logged}
	out.Time, out.Faults, out.Roots = TimeBounds{}, nil, []SeenRoots{}
	out.Engines, out.Today = unused(out.Engines), Today{Changed: []Otherwise{}}
	if n := out.Now; n != nil {
		out.Now = &Rejudged{AsOf: n.AsOf, Known: n.Known, Items: n.Items, Changes: []Change{}}
	}
	outcomes, untimed, roots := counter{}, counter{}, map[canon.Digest]SeenRoots{}
	for _, p := range parts {
		r := p.Report
		out.Unanswered += r.Unanswered
		add(&out.Appraisals, r.Appraisals)
		add(&out.Verdicts, r.Verdicts)
		out.Engines = mergeEngines(out.Engines, r.Engines)
		out.Today.add(r.Today.Same, r.Today.ChangedCount, r.Today.Changed)
		out.Time.Affirmed += r.Time.Affirmed
		out.Time.Contradicted += r.Time.Contradicted
		for _, k := range r.Time.Unknown {
			untimed[k.Kind] += k.Count
		}
		for _, k := range r.Outcomes {
			outcomes[k.Kind] += k.Count
		}
		for _, s := range r.Roots {
			s.Appraisals += roots[s.Digest].Appraisals
			roots[s.Digest] = s
		}
		if r.Now != nil {
			out.Now.merge(*r.Now)
		}
		if r.First != nil && (out.First == nil || r.First.Index < out.First.Index) {
			out.First = r.First
		}
		out.Faults = append(out.Faults, r.Faults...)
	}
	for _, s := range roots {
		out.Roots = append(out.Roots, s)
	}
	slices.SortFunc(out.Roots, func(a, b SeenRoots) int { return slices.Compare(a.Digest[:], b.Digest[:]) })
	out.Outcomes, out.Time.Unknown = outcomes.list(), untimed.list()
	orderFaults(out.Faults)
	out.Faults = slices.Compact(out.Faults) // what is wrong with the log itself, each report says
	out.FaultCount = int64(len(out.Faults))
	out.Faults = append([]Fault{}, out.Faults[:min(len(out.Faults), MaxFaults)]...)
	out.Outcome = out.outcome()
	return out, nil
}

func (r Report) rangeOf() Range {
	if r.Range == nil {
		return Range{}
	}
	return *r.Range
}

// alike says in what two reports are not on one log, read in one way.
func alike(a, b PartialReport) error {
	x, y := a.Report, b.Report
	differ := func(what string, was, is any) error {
		return fmt.Errorf("%s and %s differ in the %s: %v and %v", a.Name, b.Name, what, was, is)
	}
	switch {
	case x.Origin != y.Origin:
		return differ("log", x.Origin, y.Origin)
	case x.Size != y.Size:
		return differ("size of the tree", x.Size, y.Size)
	case x.Root != y.Root:
		return differ("root of the tree", x.Root, y.Root)
	case !slices.Equal(x.Rules, y.Rules):
		return differ("rules", x.Rules, y.Rules)
	case x.Trust != y.Trust:
		return differ("trust", x.Trust, y.Trust)
	}
	for _, part := range []struct{ name, was, is string }{
		{"time and collateral of judging once more", x.askedNow(), y.askedNow()},
		{"scope", fmt.Sprint(x.scope()), fmt.Sprint(y.scope())},
		{"keys", fmt.Sprint(x.Keys), fmt.Sprint(y.Keys)},
		{"witnesses", fmt.Sprint(x.Witnesses), fmt.Sprint(y.Witnesses)},
		{"engines", fmt.Sprint(unused(x.Engines)), fmt.Sprint(unused(y.Engines))},
		{"entries", fmt.Sprint(x.Entries), fmt.Sprint(y.Entries)},
		{"promises", fmt.Sprint(x.Promises), fmt.Sprint(y.Promises)},
		{"erased blobs", fmt.Sprint(x.ErasedCount, x.Erased), fmt.Sprint(y.ErasedCount, y.Erased)},
		{"appraisals", fmt.Sprint(x.Appraisals.Logged), fmt.Sprint(y.Appraisals.Logged)},
		{"verdicts", fmt.Sprint(x.Verdicts.Logged), fmt.Sprint(y.Verdicts.Logged)},
	} {
		if part.was != part.is {
			return differ(part.name, part.was, part.is)
		}
	}
	return nil
}

// askedNow says what was asked of judging once more.
func (r Report) askedNow() string {
	if r.Now == nil {
		return "none"
	}
	return fmt.Sprint(r.Now.AsOf, r.Now.Known, r.Now.Items)
}

func (r Report) scope() Scoped {
	if r.Scope == nil {
		return Scoped{}
	}
	return *r.Scope
}
