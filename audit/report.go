package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier"
)

// ReportType is the type of the report document.
const ReportType = "assay/replay/v1"

// Outcome of a replay. The zero Outcome is invalid.
type Outcome uint8

const (
	Equal       Outcome = iota + 1 // all is there, all was recomputed to the same bytes, and the keys are the trusted ones
	Faulty                         // something is missing, false or came out otherwise
	NotAnchored                    // as Equal, but nobody vouches for the keys, or a promise is not due yet
)

var outcomeNames = canon.Names{Equal: "equal", Faulty: "fault", NotAnchored: "undecided"}

func (o Outcome) String() string { return outcomeNames.String("Outcome", uint8(o)) }

// MarshalText writes the outcome in words.
func (o Outcome) MarshalText() ([]byte, error) { return outcomeNames.Marshal("outcome", uint8(o)) }

// UnmarshalText reads the outcome in words.
func (o *Outcome) UnmarshalText(text []byte) error {
	v, err := outcomeNames.Parse("outcome", text)
	*o = Outcome(v)
	return err
}

// ExitCode returns the exit status of a command that ends with this outcome.
func (o Outcome) ExitCode() int {
	switch o {
	case Equal:
		return 0
	case NotAnchored:
		return 3
	}
	return 1
}

// Report is what a replay found. It depends on the log, the trust, the promises and the rules of this build alone: the
// same bytes come out whatever the number of workers, the machine and the day. Only where an engine of the log is stopped,
// because it takes too long or too much memory, another machine may come further.
type Report struct {
	Type        string               `json:"type"`
	Outcome     Outcome              `json:"outcome"`
	Trust       string               `json:"trust"` // [Anchored], [Unanchored] or [Refused]
	Origin      string               `json:"origin"`
	Size        int64                `json:"size"` // entries, as the checkpoint says
	Root        canon.Digest         `json:"root,omitzero"`
	Continues   ledger.Final         `json:"continues,omitzero"` // end of the log before, as entry 0 says; absent: this is the first
	Carried     *CarriedFrom         `json:"carried,omitzero"`   // with what of the log before it began; absent: it is the first, or a scope
	Closed      string               `json:"closed,omitzero"`    // log that goes on, as the last entry says; absent: this one is not closed
	Scope       *Scoped              `json:"scope,omitzero"`     // absent: the whole log
	Range       *Range               `json:"range,omitzero"`     // whose verdicts were recomputed; absent: all
	Rules       []verifier.RoomRules `json:"rules"`              // of this build, that it recomputed with
	Witnesses   Witnessing           `json:"witnesses"`          // of the checkpoint
	Keys        []SeenKey            `json:"keys"`               // that the log shows
	Roots       []SeenRoots          `json:"roots"`              // root sets that appraisals were made under
	Entries     []KindCount          `json:"entries"`            // that were read, by kind
	Unanswered  int64                `json:"unanswered"`         // evidence without a verdict
	Appraisals  Tally                `json:"appraisals"`
	Verdicts    Tally                `json:"verdicts"`
	Outcomes    []KindCount          `json:"outcomes"` // of the logged verdicts
	Benchmarks  *Benchmarks          `json:"benchmarks,omitzero"`
	Time        TimeBounds           `json:"time"`    // of appraisals
	Engines     []SeenEngine         `json:"engines"` // that the log holds
	Today       Today                `json:"today"`
	Promises    []Kept               `json:"promises"`
	ErasedCount int64                `json:"erased_count,omitzero"` // blobs that are not there because they were erased, as they may be
	Erased      []ErasedBlob         `json:"erased,omitzero"`       // the first MaxFaults of them, ordered by digest
	Now         *Rejudged            `json:"now,omitzero"`          // absent: nothing was judged once more
	First       *Fault               `json:"first,omitzero"`        // first appraisal or verdict that came out otherwise, in log order
	FaultCount  int64                `json:"fault_count"`
	Faults      []Fault              `json:"faults"` // the first MaxFaults of them, in log order
}

// Words for [Report.Trust].
const (
	Anchored   = "anchored"                        // its keys are those of the trust file, and signed the checkpoint
	Unanchored = "not anchored"                    // there is no trust file
	Refused    = "not shown to be the trusted log" // there is one, and its keys are not in this log or did not sign the checkpoint
)

// SeenKey is a key that the log shows.
type SeenKey struct {
	Use         string       `json:"use"`         // log, result or promise
	Fingerprint canon.Digest `json:"fingerprint"` // SHA-256 of the SubjectPublicKeyInfo
	From        canon.Time   `json:"from"`
	Until       canon.Time   `json:"until,omitzero"` // last instant; absent: no end is fixed
	VKey        string       `json:"vkey,omitzero"`  // of a log key: verifier key of the checkpoints, origin+hash+key
}

// SeenRoots is a root set that appraisals were made under.
type SeenRoots struct {
	Digest     canon.Digest `json:"digest"`
	Vendor     bool         `json:"vendor"` // it is the set that this build pins
	Appraisals int64        `json:"appraisals"`
}

// CarriedFrom says with what a log begins that it does not show itself: states of certificates and devices, facts about
// providers, words of issuers and parameters, the last appraisals, benchmarks, enrolments.
type CarriedFrom struct {
	Log        string      `json:"log"`                 // the one before
	Recomputed bool        `json:"recomputed,omitzero"` // that log was at hand and leaves that; else it is the operator's word
	Items      []KindCount `json:"items"`               // that it begins with, by kind; none: nothing
	Seen       int64       `json:"seen,omitzero"`       // sightings of devices by evidence that this log does not have
}

// text says what a log begins with.
func (c CarriedFrom) text() string {
	words := "begins with what the log " + Printable(c.Log)
	if c.Recomputed {
		words += " leaves, recomputed: "
	} else {
		words += " is said to leave, not recomputed: "
	}
	if len(c.Items) == 0 {
		words += "nothing"
	}
	for i, k := range c.Items {
		if i > 0 {
			words += ", "
		}
		words += fmt.Sprintf("%d %s", k.Count, k.Kind)
	}
	if c.Seen > 0 {
		words += fmt.Sprintf("; %s by evidence of logs before", counted(c.Seen, "sighting"))
	}
	return words
}

// KindCount counts things of one kind.
type KindCount struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
}

// Tally counts what was recomputed.
type Tally struct {
	Logged          int64 `json:"logged"`
	Replayed        int64 `json:"replayed"`         // recomputed, with whatever result
	Differ          int64 `json:"differ"`           // of those, came out otherwise
	NotReproducible int64 `json:"not_reproducible"` // made by rules that this build does not have, and the log shows no engine that does
	Failed          int64 `json:"failed"`           // the build, or the engine, did not do the job
}

// SeenEngine is an engine that the log holds.
type SeenEngine struct {
	Index      int64        `json:"index"`  // of its entry
	Module     canon.Digest `json:"module"` // digest
	Version    string       `json:"version"`
	Go         string       `json:"go"`
	Trusted    bool         `json:"trusted"`    // the trust file names it
	Appraisals int64        `json:"appraisals"` // that it recomputed
	Verdicts   int64        `json:"verdicts"`
}

// Today is what this build would decide where another engine did, by the same inputs as of the same time.
type Today struct {
	Same         int64       `json:"same"` // verdicts with the same outcome
	ChangedCount int64       `json:"changed_count"`
	Changed      []Otherwise `json:"changed"` // the first MaxFaults of them, in log order
}

// Otherwise is a verdict that this build would not give. It is no fault.
type Otherwise struct {
	Index  int64        `json:"index"`           // of its entry
	Engine canon.Digest `json:"engine,omitzero"` // that decided, as the result says
	Was    string       `json:"was"`             // outcome
	Today  string       `json:"today,omitzero"`  // absent: this build fails on it
	Why    string       `json:"why,omitzero"`    // first reason that is not among those of then; absent: the reasons are the same
}

// NoIndex is the index of a fault that lies in no entry.
const NoIndex = -1

// Fault is one thing that is not as it should be. It is also the error of a reader that stops at the first.
type Fault struct {
	Part  string `json:"part"`          // of the export: checkpoint, tile/..., blob/..., or entry N, promise NAME, end of file
	Index int64  `json:"index"`         // of the entry, or NoIndex
	Kind  string `json:"kind,omitzero"` // of the entry
	What  string `json:"what"`
}

func (f *Fault) Error() string { return f.Part + ": " + f.What }

// Canonical returns the canonical bytes of the report.
func (r Report) Canonical() ([]byte, error) { return canon.Marshal(r) }

// Text renders the report for people. The last line says what was recomputed.
func (r Report) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s"+format+"\n", append([]any{name}, args...)...)
	}
	for _, s := range r.Roots {
		if !s.Vendor {
			fmt.Fprintf(&b, "NOT VENDOR ROOTS: %d appraisals under root set %s\n", s.Appraisals, s.Digest)
		}
	}
	switch r.Outcome {
	case Equal:
		if r.ErasedCount > 0 {
			line("replay", "equal%s: what was not erased, as it may be, follows from its logged inputs", r.within())
			break
		}
		line("replay", "equal%s: every appraisal and verdict follows from its logged inputs", r.within())
	case NotAnchored:
		line("replay", "equal%s, but undecided: %s", r.within(), r.undecided())
	default:
		line("replay", "fault: %s", counted(r.FaultCount, "fault"))
	}
	if r.Origin == "" {
		line("log", "none could be read")
	} else {
		line("log", "%s", Printable(r.Origin))
		line("checkpoint", "size %d, root %s", r.Size, r.Root)
	}
	if c := r.Continues; c != (ledger.Final{}) {
		line("continues", "the log %s, which ended with size %d, root %s", Printable(c.Origin), c.Size, c.Root)
	}
	if c := r.Carried; c != nil {
		line("carried", "%s", c.text())
	}
	if r.Closed != "" {
		line("closed", "the log %s goes on", Printable(r.Closed))
	}
	if s := r.Scope; s != nil {
		line("scope", "%s: %d of %d entries; the others are leaves that nobody opened, and whether more of them match, the log's owner alone can say", Printable(s.Criteria.String()), s.Entries, r.Size)
	}
	if g := r.Range; g != nil {
		line("range", "evidence of entries %d to before %d; the verdicts on other evidence were not recomputed", g.From, g.To)
	}
	line("trust", "%s", r.Trust)
	line("witnesses", "%s", r.Witnesses.text())
	for _, k := range r.Keys {
		if k.Until == 0 {
			line("key", "%s %s, from %s", k.Fingerprint, k.Use, k.From)
		} else {
			line("key", "%s %s, from %s to %s", k.Fingerprint, k.Use, k.From, k.Until)
		}
	}
	for _, e := range r.Entries {
		line("entries", "%d %s", e.Count, e.Kind)
	}
	for _, o := range r.Outcomes {
		line("verdicts", "%d %s", o.Count, o.Kind)
	}
	for _, e := range r.Engines {
		word := "not in the trust file"
		if e.Trusted {
			word = "trusted"
		}
		line("engine", "%s %s by %s, entry %d: recomputed %s and %s; %s", e.Module, Printable(e.Version), Printable(e.Go), e.Index,
			counted(e.Appraisals, "appraisal"), counted(e.Verdicts, "verdict"), word)
	}
	for _, c := range r.Today.Changed {
		today := "nothing"
		if c.Today != "" {
			today = c.Today
		}
		by := "an engine that it does not name"
		if !c.Engine.IsZero() {
			by = "engine " + c.Engine.Short()
		}
		if c.Why != "" {
			today += ": " + Printable(c.Why)
		}
		line("today", "entry %d: %s decided %s, this build would decide %s", c.Index, by, c.Was, today)
	}
	if t := r.Today; t.Same+t.ChangedCount > 0 {
		line("today", "of %s by other rules, this build would decide %d otherwise", counted(t.Same+t.ChangedCount, "verdict"), t.ChangedCount)
	}
	if r.Unanswered > 0 {
		line("unanswered", "%d submissions without a verdict", r.Unanswered)
	}
	if b := r.Benchmarks; b != nil {
		line("benchmarks", "%d challenges, %d results, %d recomputed, %d differ", b.Challenges, b.Results, b.Replayed, b.Differ)
	}
	if r.Appraisals.Logged > 0 {
		line("time", "%s", r.Time.text())
	}
	for _, b := range r.Erased {
		if b.Log != "" {
			line("erased", "%s: by entry %d of the log %s", b.Part, b.By, Printable(b.Log))
			continue
		}
		line("erased", "%s: by entry %d", b.Part, b.By)
	}
	if more := r.ErasedCount - int64(len(r.Erased)); more > 0 {
		line("erased", "and %d more", more)
	}
	for _, p := range r.Promises {
		line("promise", "%s: %s: %s", p.State, Printable(p.Name), p.What)
	}
	if r.Now != nil {
		r.Now.text(line)
	}
	if r.First != nil {
		line("differs", "first at %s, %s: %s", r.First.Part, r.First.Kind, Printable(r.First.What))
	}
	for _, f := range r.Faults {
		if f.Kind != "" {
			line("fault", "%s, %s: %s", Printable(f.Part), f.Kind, Printable(f.What))
		} else {
			line("fault", "%s: %s", Printable(f.Part), Printable(f.What))
		}
	}
	if more := r.FaultCount - int64(len(r.Faults)); more > 0 {
		line("fault", "and %d more", more)
	}
	if n := r.Appraisals.NotReproducible + r.Verdicts.NotReproducible; n > 0 {
		fmt.Fprintf(&b, "not reproducible with this build: %d\n", n)
	}
	if n := r.Appraisals.Failed + r.Verdicts.Failed; n > 0 {
		fmt.Fprintf(&b, "not recomputed, the engine failed: %d\n", n)
	}
	fmt.Fprintf(&b, "replayed %d of %d, %d differ\n", r.Appraisals.Replayed+r.Verdicts.Replayed,
		r.Appraisals.Logged+r.Verdicts.Logged, r.Appraisals.Differ+r.Verdicts.Differ)
	return b.String()
}

// outcome follows from what else the report says.
func (r Report) outcome() Outcome {
	open := slices.ContainsFunc(r.Promises, func(k Kept) bool { return k.State == PromiseOpen })
	switch {
	case r.FaultCount > 0:
		return Faulty
	case r.Trust != Anchored, open, r.unvouched() > 0:
		return NotAnchored
	}
	return Equal
}

// within says what an outcome holds for, where it is not the whole log.
func (r Report) within() string {
	words := ""
	if r.Scope != nil {
		words += " within a scope"
	}
	if r.Range != nil {
		words += " within a range"
	}
	return words
}

// undecided says why an equal replay does not pass.
func (r Report) undecided() string {
	var why []string
	if r.Trust != Anchored {
		why = append(why, "not anchored, nobody vouches for these keys")
	}
	open := int64(0)
	for _, p := range r.Promises {
		if p.State == PromiseOpen {
			open++
		}
	}
	if n := r.unvouched(); n > 0 && r.Trust == Anchored {
		why = append(why, counted(n, "result")+" by engines that the trust file does not name")
	}
	if open > 0 {
		why = append(why, counted(open, "promise")+" not due yet")
	}
	return strings.Join(why, "; ")
}

func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Printable keeps a stranger's text from moving the reader's cursor.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}
