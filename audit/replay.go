package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/verifier"
)

// Options of a replay. The zero Options are good.
type Options struct {
	Workers  int            // goroutines that recompute, at most MaxWorkers; 0 means 1. The report does not depend on it
	Memory   *attest.Memory // of proved chains; nil: one of its own. The report does not depend on it
	Promises []GivenPromise // that submitters hold
	Engines  Engines        // runs engines of other builds; nil: what they decided is not reproducible
	Now      *Now           // judge everything once more, so; nil: do not
	Range    Range          // whose verdicts are recomputed; all else is checked whatever it is

	// Progress is called now and then, never by two goroutines at once; nil: not at all. Stages are "read" and "recompute".
	Progress func(stage string, done, total int64)
}

// Replay recomputes a log. It checks:
//
//   - the keysets: each signed for by a log key of the one before it; with trust, that the trusted one is among them
//   - the checkpoint's signature and origin, by log keys that had not ended before its newest entry; and that a quorum of
//     the trusted witnesses cosigned it, where the trust names some
//   - every tile and the root, from the leaves; every leaf by its opening; every entry for its form, its place in its
//     stream, and that what it rests on stands before it
//   - that heads entries commit to the streams as they stood, and that none was due and did not come
//   - that every body is there, with the digest and of the kind that the entry says
//   - that each challenge is unique, made under a result key of its time, and answered at most once, in time, by the node that it
//     was made for, with a bundle that its session key signed
//   - every appraisal, computed again from its inputs, that references and collateral were logged before, and that no newer
//     issue of that collateral stood in the log at the time of appraisal
//   - every verdict: its signature by a result key of its time, and what the policy says of the logged claims; one verdict for
//     evidence and policy
//   - that an engine that a result names was logged before, with the rules that the result bears
//   - of a log that continues another: that its first keyset follows from those of the logs before, which come with it, and
//     that what it carries over stands before its first challenge. That the log before ended so, and that what stood there was
//     carried over, [ReplayChain] checks
//   - that nothing follows an entry that closes the log
//   - every hold, release and erasure: that it was allowed. A body that is not there because it was erased, as it may be,
//     is no fault, and what rests on it is not recomputed
//   - every benchmark: that the draw follows the commitments, once, and what the room of benchmarks says of what was opened
//   - the given promises
//   - where the trust names witnesses: that the time of each appraisal lies between checkpoints that they cosigned (claim
//     time.bounds), and that the age of its evidence was counted from the first of them
//   - that an appraisal was told of who holds which device what the enrolments and revocations before it say
//   - that what a node is said to have shown is what the appraisal of that evidence lets be taken for its own
//   - that each checkpoint that a challenge names is one that this log had
//   - the life of every certificate and device: that each event fits the state that the ones before it make, that what must
//     follow it does, that a standing is what the claims and the observation before it give, that an observation is of the
//     host's last appraisal, and that a verdict was told of the party what the host's certificate said
//
// Appraisals and verdicts by the rules of this build are computed by it, others by the engine that their result names, and
// then it is said what this build would decide.
//
// What an observation counts, leases and days, and which witnesses it saw, is the operator's word. It does not check that the
// log continues one seen earlier, nor which clocks of a TPM the server should have known, nor the executable that a result
// names, nor that every submission has a verdict, and every benchmark a result: those without are counted; nor when the
// commitments of a benchmark came, which is the server's word.
// Without trusted witnesses, every time is the operator's word.
//
// trust may be nil: then the log is held against itself alone, and the outcome is never [Equal]. A fault of the log is part
// of the report; the error is for a source that could not tell, and for a cancelled context.
func Replay(ctx context.Context, src ledger.Source, trust *Trust, o Options) (Report, error) {
	r := newReplay(src, trust, o)
	report, err := r.run(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("replay: %w", err)
	}
	return report, nil
}

// run is [Replay].
func (r *replay) run(ctx context.Context) (Report, error) {
	whole, err := r.readLog(ctx)
	if err == nil && whole {
		err = r.finish(ctx)
	}
	if err != nil {
		return Report{}, err
	}
	return r.conclude(), nil
}

// finish does what is left when the log was read and is whole.
func (r *replay) finish(ctx context.Context) error {
	if err := r.recompute(ctx); err != nil {
		return err
	}
	if err := r.recomputeBenchmarks(ctx); err != nil {
		return err
	}
	if err := r.findUnnamed(); err != nil {
		return err
	}
	return r.judgePromises(ctx)
}

// readLog checks the log itself: checkpoint, keys, every tile, leaf and entry. It reports whether the tree is that of the
// checkpoint; if not, nothing that was read is worth recomputing.
func (r *replay) readLog(ctx context.Context) (whole bool, err error) {
	if ok, err := r.begin(ctx); err != nil || !ok {
		return false, err
	}
	tree := ledger.Tree{Size: r.report.Size, Root: r.report.Root}
	if whole, err = r.read(ctx, tree); err != nil {
		return false, err
	}
	r.judgeKeys(r.note, whole)
	if whole {
		err = r.checkViews(ctx, tree)
	}
	if err == nil && whole {
		err = r.judgeErasures(ctx)
	}
	return whole, err
}

// begin reads what stands before the log: checkpoint, scope, the keysets of the logs before. It reports whether there is
// something to read. It does its work once.
func (r *replay) begin(ctx context.Context) (ok bool, err error) {
	if r.begun {
		return r.note != nil, nil
	}
	r.begun = true
	note, err := r.src.Checkpoint(ctx)
	switch {
	case isNotExist(err):
		r.fault(Fault{Part: partCheckpoint, Index: NoIndex, What: "missing"})
		return false, nil
	case err != nil:
		return false, fmt.Errorf("checkpoint: %w", err)
	}
	c, err := ledger.ReadCheckpoint(note)
	if err != nil {
		r.fault(Fault{Part: partCheckpoint, Index: NoIndex, What: err.Error()})
		return false, nil
	}
	r.note = note
	r.report.Origin, r.report.Size, r.report.Root = c.Origin, c.Size, c.Root
	if err := r.readScope(ctx); err != nil {
		return false, err
	}
	if err := r.readBefore(ctx); err != nil {
		return false, err
	}
	if c.Size == 0 {
		r.fault(Fault{Part: "entry 0", Index: 0, Kind: ledger.KindKeyset, What: "no keyset: the log is empty"})
	}
	return true, nil
}

// ReplayFile is [Open] and [Replay] in one: a file that Open refuses gives a report with that fault.
func ReplayFile(ctx context.Context, file io.ReaderAt, size int64, trust *Trust, o Options) (Report, error) {
	a, err := Open(file, size)
	var f *Fault
	switch {
	case errors.As(err, &f):
		r := newReplay(nil, trust, o)
		r.fault(*f)
		return r.conclude(), nil
	case err != nil:
		return Report{}, fmt.Errorf("open export: %w", err)
	}
	return Replay(ctx, a, trust, o)
}

// replay is one run of [Replay].
type replay struct {
	src       ledger.Source
	trust     *Trust
	o         Options
	report    Report
	faults    []Fault
	keys      ledger.KeyHistory                               // that signatures are checked with: those of the log, up to where it was read
	keyset    canon.Digest                                    // body of the newest keyset; zero: none yet
	keysetsAt []int64                                         // entries of the keysets
	scope     *Scope                                          // nil: the whole log
	latest    canon.Time                                      // of any entry
	each      func(index int64, e ledger.Entry)               // called for each entry that is one, in order; nil: not at all
	rowsOf    func(context.Context, *evidence) ([]Row, error) // of verdicts that were recomputed; nil: nobody asks
	seen      func(Row)                                       // takes them, one at a time

	begun      bool
	note       []byte            // checkpoint; nil: none
	before     []ledger.Envelope // keysets of the logs before; empty: the log continues none
	opens      ledger.Entry      // entry 0
	asked      int64             // index of the first challenge, or NoIndex
	closed     int64             // index of the entry that closes the log, or NoIndex
	links      *links            // nil: the log is looked at alone
	laterBooks []*vetting.Book   // of later logs of its chain that are at hand
	later      ledger.KeyHistory // of a later log of its chain that is at hand: who trusts that one trusts this one

	erased erasures

	kept    cache[*witnessed] // checkpoints of before
	knowing *knowing          // nil: nothing is judged once more

	history
	roots      cache[attest.Roots]
	references cache[attest.References]
	collateral cache[[]byte]
	lately     cache[[]byte] // blobs that were read, for who asks again soon

	noted *noted // the source, if it can say what nobody asked for
}

func newReplay(src ledger.Source, trust *Trust, o Options) *replay {
	o.Workers = min(max(o.Workers, 1), MaxWorkers)
	if o.Memory == nil {
		o.Memory = attest.NewMemory()
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	r := &replay{src: src, trust: trust, o: o, history: newHistory(o.Promises), asked: NoIndex, closed: NoIndex, lately: cache[[]byte]{limit: maxLately}}
	r.report = Report{
		Type: ReportType, Trust: Unanchored, Witnesses: Witnessing{By: []string{}}, Keys: []SeenKey{}, Roots: []SeenRoots{}, Entries: []KindCount{}, Outcomes: []KindCount{},
		Engines: []SeenEngine{}, Today: Today{Changed: []Otherwise{}},
		Time: TimeBounds{Unknown: []KindCount{}}, Promises: []Kept{}, Faults: []Fault{}, Rules: rulesOf(),
	}
	r.openBook()
	if o.Range != (Range{}) {
		r.report.Range = &o.Range
	}
	if o.Now != nil {
		r.knowing = newKnowing(*o.Now)
		r.report.Now = &Rejudged{AsOf: o.Now.AsOf, Known: o.Now.Known, Items: []canon.Digest{}, Changes: []Change{}}
		for _, item := range o.Now.Items {
			r.report.Now.Items = append(r.report.Now.Items, item.Record.Data)
		}
		r.report.Now.Items = slices.Compact(sorted(r.report.Now.Items))
	}
	if trust != nil {
		r.report.Trust = Refused // until its keys were judged
	}
	if a, ok := src.(*Archive); ok {
		r.noted = newNoted(a)
		r.src = r.noted
	}
	return r
}

// terms returns the trusted witnesses.
func (r *replay) terms() []ledger.WitnessTerm {
	if r.trust == nil {
		return nil
	}
	return r.trust.Witnesses
}

// fault keeps a fault. Of very many it counts all and keeps those that the report lists.
func (r *replay) fault(f Fault) {
	if r.isErased(f) {
		return
	}
	r.report.FaultCount++
	if r.faults = append(r.faults, f); len(r.faults) > maxFaultsKept {
		r.orderFaults()
		r.faults = slices.Clone(r.faults[:MaxFaults])
	}
}

func (r *replay) orderFaults() { orderFaults(r.faults) }

func orderFaults(faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Part, b.Part), cmp.Compare(a.What, b.What))
	})
}

// findUnnamed looks for blobs that nothing in the log names. After a fault they may be what could not be read.
func (r *replay) findUnnamed() error {
	if len(r.faults) > 0 || r.noted == nil {
		return nil
	}
	number := 0
	for name, err := range r.noted.blobNames() {
		if err != nil {
			return err
		}
		if !r.noted.wasRead(number) {
			r.fault(Fault{Part: name, Index: NoIndex, What: "nothing in the log names it"})
		}
		number++
	}
	return nil
}

// conclude orders what was found so far and names the outcome.
func (r *replay) conclude() Report {
	r.orderFaults()
	if r.report.FaultCount == int64(len(r.faults)) {
		r.faults = slices.Compact(r.faults) // two checks may meet the same thing
		r.report.FaultCount = int64(len(r.faults))
	}
	if r.report.Closed != "" {
		for i, f := range r.faults {
			if f.What == "missing" {
				r.faults[i].What = "missing; the log was closed, and a later one may say that it was erased: replay them together"
			}
		}
	}
	r.report.Faults = append([]Fault{}, r.faults[:min(len(r.faults), MaxFaults)]...)
	r.listErased()
	r.report.Entries = r.kinds.list()
	r.report.Outcome = r.report.outcome()
	return r.report
}

// counter counts things by kind.
type counter map[string]int64

func (c counter) list() []KindCount {
	out := []KindCount{}
	for k, n := range c {
		out = append(out, KindCount{k, n})
	}
	slices.SortFunc(out, func(a, b KindCount) int { return strings.Compare(a.Kind, b.Kind) })
	return out
}

// isVendor reports whether a root set is the one that this build pins.
func isVendor(d canon.Digest) bool { return d == verifier.VendorRoots().Digest() }
