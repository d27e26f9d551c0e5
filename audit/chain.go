package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// A log may be closed, and another go on; ledger/FORMAT.md has the rules. Each log of a chain is replayed alone. What one
// of them cannot show is checked where several are at hand: see [ReplayChain].

// keysetsBefore returns the document of the keysets of the logs before a source's; nil: there is none.
func keysetsBefore(ctx context.Context, src ledger.Source) ([]byte, error) {
	s, ok := src.(ledger.Continuing)
	if !ok {
		return nil, nil
	}
	data, err := s.Keysets(ctx)
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", partKeysets, err)
	}
	return data, nil
}

// KeysBefore reads the keysets of the logs before a source's, none where it continues none. Nothing vouches for them.
func KeysBefore(ctx context.Context, src ledger.Source) (ledger.KeyHistory, error) {
	data, err := keysetsBefore(ctx, src)
	if err != nil || data == nil {
		return ledger.KeyHistory{}, err
	}
	return ledger.ParseKeysets(data)
}

// readBefore learns the keys of the logs before.
func (r *replay) readBefore(ctx context.Context) error {
	data, err := keysetsBefore(ctx, r.src)
	if err != nil || data == nil {
		return err
	}
	keys, err := ledger.ParseKeysets(data)
	if err != nil {
		r.fault(Fault{Part: partKeysets, Index: NoIndex, What: err.Error()})
		return nil
	}
	r.keys, r.before = keys, keys.Envelopes()
	last, err := canon.Marshal(r.before[len(r.before)-1])
	r.keyset = canon.Sum(last)
	return err
}

// carried reports whether an enrolment was carried over from the log before.
func (r *replay) carried(e ledger.Entry) bool { return ledger.Carried(e, r.opens) }

// checkCarried checks that an enrolment that was carried over stands where such enrolments may.
func (r *replay) checkCarried(e ledger.Entry) error {
	switch {
	case !r.carried(e):
	case r.report.Continues == (ledger.Final{}):
		return wrong("carried over from a log before, and the log continues none")
	case r.asked != NoIndex:
		return wrong("carried over from the log before, after the first challenge")
	}
	return nil
}

// links is what a log shows that its neighbours are held against. The nil links note nothing.
type links struct {
	holds    map[string]canon.Digest           // in force at the end, by name: bodies
	begun    map[canon.Digest]bool             // bodies of holds before the first challenge
	standing map[string]map[canon.Digest]bool  // enrolments at the end, by node: bodies
	carried  map[canon.Digest]ledger.Enrolment // by body
	once     []canon.Digest                    // N of challenges, bodies of evidence, appraisals, verdicts and records of benchmarks
}

func newLinks() *links {
	return &links{holds: map[string]canon.Digest{}, begun: map[canon.Digest]bool{}, standing: map[string]map[canon.Digest]bool{}, carried: map[canon.Digest]ledger.Enrolment{}}
}

func (l *links) visit(e ledger.Entry) {
	if l == nil {
		return
	}
	switch e.Kind {
	case ledger.KindEvidence, ledger.KindAppraisal, ledger.KindVerdict, ledger.KindBenchmark:
		l.once = append(l.once, e.Body)
	}
}

func (l *links) nonce(n canon.Digest) {
	if l != nil {
		l.once = append(l.once, n)
	}
}

func (l *links) hold(act ledger.Erasure, body canon.Digest, opening bool) {
	switch {
	case l == nil:
	case act.Act == ledger.ActHold:
		l.holds[act.Hold] = body
		l.begun[body] = l.begun[body] || opening
	case act.Act == ledger.ActRelease:
		delete(l.holds, act.Hold)
	}
}

func (l *links) enrolment(n ledger.Enrolment, e ledger.Entry, carried bool) {
	if l == nil {
		return
	}
	if n.Basis == ledger.BasisRevoked {
		delete(l.standing, n.Node)
		return
	}
	if l.standing[n.Node] == nil {
		l.standing[n.Node] = map[canon.Digest]bool{}
	}
	l.standing[n.Node][e.Body] = true
	if carried {
		l.carried[e.Body] = n
	}
}

// ChainReportType is the type of the report on several logs.
const ChainReportType = "assay/chain-replay/v1"

// ChainReport is what a replay of several logs of a chain found: of each, and of what holds between them.
type ChainReport struct {
	Type       string   `json:"type"`
	Outcome    Outcome  `json:"outcome"` // the worst of all
	Logs       []Report `json:"logs"`    // the oldest first
	FaultCount int64    `json:"fault_count"`
	Faults     []Fault  `json:"faults"` // of what holds between them, the first MaxFaults; Part names the log
}

// Canonical returns the canonical bytes of the report.
func (c ChainReport) Canonical() ([]byte, error) { return canon.Marshal(c) }

// ExitCode returns the exit status of a replay with this report.
func (c ChainReport) ExitCode() int {
	codes := []int{c.Outcome.ExitCode()}
	for _, r := range c.Logs {
		codes = append(codes, r.ExitCode())
	}
	if slices.Contains(codes, 1) {
		return 1
	}
	return slices.Max(codes)
}

// Text renders the report for people.
func (c ChainReport) Text() string {
	var b strings.Builder
	for _, r := range c.Logs {
		fmt.Fprintf(&b, "%s\n", r.Text())
	}
	first, last := c.Logs[0], c.Logs[len(c.Logs)-1]
	fmt.Fprintf(&b, "%-12s%d logs, %s\n", "chain", len(c.Logs), c.Outcome)
	if from := first.Continues.Origin; from != "" {
		fmt.Fprintf(&b, "%-12sthe log %s, which comes before, is not here\n", "chain", Printable(from))
	}
	if last.Closed != "" {
		fmt.Fprintf(&b, "%-12sthe log %s, which goes on, is not here\n", "chain", Printable(last.Closed))
	}
	for _, f := range c.Faults {
		fmt.Fprintf(&b, "%-12s%s: %s\n", "fault", Printable(f.Part), Printable(f.What))
	}
	if more := c.FaultCount - int64(len(c.Faults)); more > 0 {
		fmt.Fprintf(&b, "%-12sand %d more\n", "fault", more)
	}
	return b.String()
}

// ChainLog is one log of a replay of several.
type ChainLog struct {
	Source  ledger.Source
	Refused *Fault // of an export that cannot be opened; then there is no source
}

// ReplayChain replays several logs of a chain, given in any order, each as [Replay] does, and checks what holds between
// them:
//
//   - that none is missing between two that are given, and that each was closed for the one that continues it
//   - that each continues the tree that the one before it has here, and its last keyset
//   - that it has from its beginning the newest issues of collateral that the log before had, the holds that were in force
//     and the enrolments that stood there, and no enrolment as carried over that did not
//   - that it goes on with the words of issuers and the parameters of the log before, and with its certificates, devices and
//     facts about providers in the state in which that leaves them, byte for byte: so their lives are folded over all logs
//   - that no challenge, evidence, appraisal, verdict or benchmark stands in two of them, that no id of a certificate is given twice, and
//     that no node that one of them revoked holds a device in a later one
//   - that evidence by which a device is said to be seen stands in the log or in one before it
//
// Erasures are judged as if all were one log. Whether a log before the first, or after the last, was as it is named here,
// nobody is asked; nor are policies and reference values held against those of the log before: who goes on chooses his own.
// A promise is looked for in the log that it names.
func ReplayChain(ctx context.Context, logs []ChainLog, trust *Trust, o Options) (ChainReport, error) {
	if o.Range != (Range{}) {
		return ChainReport{}, errors.New("replay: a range is of one log")
	}
	c := chain{report: ChainReport{Type: ChainReportType, Faults: []Fault{}}}
	for _, l := range logs {
		r := newReplay(l.Source, trust, o)
		r.links = newLinks()
		r.o.Promises = nil
		if l.Refused != nil {
			r.begun = true
			r.fault(*l.Refused)
		} else if _, err := r.begin(ctx); err != nil {
			return ChainReport{}, fmt.Errorf("replay: %w", err)
		}
		c.logs = append(c.logs, r)
	}
	// Each has as many logs before it as its keysets name.
	slices.SortStableFunc(c.logs, func(a, b *replay) int { return cmp.Compare(a.number(), b.number()) })
	c.share(o.Promises)
	var readable []*replay
	for _, r := range c.logs {
		if r.note != nil {
			readable = append(readable, r)
		}
	}
	if err := findErasures(ctx, readable); err != nil {
		return ChainReport{}, fmt.Errorf("replay: %w", err)
	}
	c.report.Logs = make([]Report, len(c.logs))
	var newest ledger.KeyHistory
	for i, r := range slices.Backward(c.logs) {
		r.later = newest
		for _, l := range c.logs[i+1:] {
			r.laterBooks = append(r.laterBooks, l.book)
		}
		switch report, err := r.run(ctx); {
		case err != nil:
			return ChainReport{}, fmt.Errorf("replay: %w", err)
		default:
			c.report.Logs[i] = report // which shares what it says of the state that was carried over
		}
		if len(newest.Envelopes()) == 0 && r.note != nil {
			newest = r.keys
		}
	}
	for i, r := range readable {
		if i > 0 {
			if err := c.hold(readable[i-1], r); err != nil {
				return ChainReport{}, fmt.Errorf("replay: %w", err)
			}
			if err := c.holdSeen(ctx, r, readable[:i]); err != nil {
				return ChainReport{}, fmt.Errorf("replay: %w", err)
			}
		}
		for _, before := range readable[:i] {
			c.twice(before, r)
		}
	}
	return c.conclude(), nil
}

// number returns how many logs come before, as the keysets say that came with the log.
func (r *replay) number() int {
	var before ledger.KeyHistory
	for _, e := range r.before {
		_ = before.Add(e) // ParseKeysets has read them
	}
	return len(before.Origins())
}

// chain is a replay of several logs under way.
type chain struct {
	logs   []*replay // the oldest first
	report ChainReport
}

func (c *chain) fault(r *replay, format string, args ...any) {
	c.report.FaultCount++
	if len(c.report.Faults) < MaxFaults {
		c.report.Faults = append(c.report.Faults, Fault{Part: "log " + r.report.Origin, Index: NoIndex, What: fmt.Sprintf(format, args...)})
	}
}

// share gives each promise to the log that it names; the newest log refuses those that name none of them.
func (c *chain) share(promises []GivenPromise) {
	for _, p := range promises {
		to := c.logs[len(c.logs)-1]
		if env, err := p.envelope(); err == nil {
			if doc, err := ledger.ReadPromise(env); err == nil {
				for _, r := range c.logs {
					if r.report.Origin == doc.Origin {
						to = r
					}
				}
			}
		}
		to.o.Promises = append(to.o.Promises, p)
	}
	for _, r := range c.logs {
		for _, p := range r.o.Promises {
			if commitment, ok := p.commitment(); ok {
				r.wanted[commitment] = &found{}
			}
		}
	}
}

// hold holds a log against the one that was given before it.
func (c *chain) hold(a, b *replay) error {
	was, is, faults := a.report, b.report, c.report.FaultCount
	if was.Origin == is.Origin {
		c.fault(b, "given twice")
		return nil
	}
	next, _, continued := b.keys.After(was.Origin)
	last, _ := b.keys.Newest(was.Origin)
	if !continued || !sameKeyset(a.keys.Current(), last) {
		c.fault(b, "its keysets do not follow from those of the log %q", was.Origin)
		return nil
	}
	final := next.Continues
	switch {
	case was.Size < final.Size:
		c.fault(a, "is here at size %d; the log %q continues it at size %d: take an export that has all of it", was.Size, next.Origin, final.Size)
	case was.Size > final.Size:
		c.fault(a, "is here at size %d; the log %q continues it at size %d", was.Size, next.Origin, final.Size)
	case was.Root != final.Root:
		c.fault(a, "has the root %s; the log %q continues the root %s", was.Root, next.Origin, final.Root)
	case a.scope != nil: // its last entry may be none that can be opened
	case was.Closed == "":
		c.fault(a, "no entry closes it, and the log %q continues it", next.Origin)
	case was.Closed != next.Origin:
		c.fault(a, "was closed for the log %q, and the log %q continues it", was.Closed, next.Origin)
	}
	if next.Origin != is.Origin {
		c.fault(b, "the log %q comes before it, and is not here", is.Continues.Origin)
		return nil
	}
	if a.scope != nil || b.scope != nil {
		return nil
	}
	c.holdCarried(a, b)
	if was.Size != final.Size || was.Root != final.Root {
		return nil // what it leaves is not here
	}
	if err := c.holdVetting(a, b); err != nil {
		return err
	}
	if from := b.report.Carried; from != nil {
		from.Recomputed = c.report.FaultCount == faults
	}
	return nil
}

func sameKeyset(a, b ledger.Keyset) bool {
	x, err1 := a.Digest()
	y, err2 := b.Digest()
	return err1 == nil && err2 == nil && x == y
}

// holdCarried checks that a log begins with what stood at the end of the one before it.
func (c *chain) holdCarried(a, b *replay) {
	var lacks []string
	opening := b.asked
	if opening == NoIndex {
		opening = b.report.Size
	}
	for _, s := range a.issues.subjects() {
		was, _ := a.issues.before(s, a.report.Size)
		if is, ok := b.issues.before(s, opening); !ok || was.Newer(is.Issue) {
			lacks = append(lacks, fmt.Sprintf("lacks, before its first challenge, the %s that entry %d of the log %q has, or a newer one", s.kind, was.index, a.report.Origin))
		}
	}
	for name, body := range a.links.holds {
		if !b.links.begun[body] {
			lacks = append(lacks, fmt.Sprintf("lacks, before its first challenge, the hold %q, which was in force in the log %q", name, a.report.Origin))
		}
	}
	for node, bodies := range a.links.standing {
		for body := range bodies {
			if _, ok := b.links.carried[body]; !ok {
				lacks = append(lacks, fmt.Sprintf("lacks the enrolment %s of the node %.80q, which stood in the log %q", body, node, a.report.Origin))
			}
		}
	}
	for body, n := range b.links.carried {
		if !a.links.standing[n.Node][body] {
			lacks = append(lacks, fmt.Sprintf("carries over the enrolment %s of the node %.80q, which did not stand in the log %q", body, n.Node, a.report.Origin))
		}
	}
	slices.Sort(lacks)
	for _, what := range lacks {
		c.fault(b, "%s", what)
	}
}

// twice checks that two logs share no statement of a kind that is made once, and that no later one begins anew what has ended for
// good: what is carried over does not say so.
func (c *chain) twice(a, b *replay) {
	had := map[canon.Digest]bool{}
	for _, d := range a.links.once {
		had[d] = true
	}
	var again []canon.Digest
	for _, d := range b.links.once {
		if had[d] {
			again = append(again, d)
		}
	}
	slices.SortFunc(again, func(a, b canon.Digest) int { return bytes.Compare(a[:], b[:]) })
	for _, d := range slices.Compact(again) {
		c.fault(b, "has the challenge, evidence, appraisal, verdict or benchmark %s, which the log %q has", d, a.report.Origin)
	}
	for _, id := range b.book.Drafted() {
		if _, had := a.book.Certificate(id); had {
			c.fault(b, "drafts certificate %s, and the log %q had one of that id", id, a.report.Origin)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(a.holders.revoked)) {
		if len(b.holders.of[node]) > 0 {
			c.fault(b, "enrols a device for the node %.80q, which entry %d of the log %q revoked", node, a.holders.revoked[node].index, a.report.Origin)
		}
	}
}

func (c *chain) conclude() ChainReport {
	c.report.Outcome = Equal
	for _, r := range c.report.Logs {
		switch {
		case r.Outcome == Faulty, c.report.FaultCount > 0:
			c.report.Outcome = Faulty
		case r.Outcome == NotAnchored && c.report.Outcome == Equal:
			c.report.Outcome = NotAnchored
		}
	}
	return c.report
}
