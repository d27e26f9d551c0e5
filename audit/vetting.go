package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/capacity"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// vetted is what the log says of providers, folded as it is read, and the last appraisals of each node: what the book is held
// against.
type vetted struct {
	book      *vetting.Book
	reading   moment           // entry that is folded
	names     map[string]int32 // of nodes
	appraised [][]judged       // by node, in log order: the last one that everybody must have seen, and what came since
	measured  map[string][]measure
	heard     map[string][]moment // by node, the last evidence in the same way
	lineups   map[string][]lineup // and the last devices
	resumed   resumed
	elsewhere []elsewhere
}

// resumed is what the log carries over from the one before it.
type resumed struct {
	parts int64
	whole bool                  // the last part was there
	told  bool                  // that it was not
	items []vetting.CarriedItem // kept where the log before is at hand
}

// measure is the result of a benchmark as the log has it.
type measure struct {
	moment
	capacity.Measure
	from vetting.CarriedBenchmark
}

// lineup is what a node showed.
type lineup struct {
	moment
	devices []ledger.Device
}

// judged is an appraisal as the log has it.
type judged struct {
	moment
	body canon.Digest
}

// operatorKeys are the result keys of the log, as far as it was read.
type operatorKeys struct{ r *replay }

func (k operatorKeys) SignerOf(e ledger.Envelope, use string, at canon.Time) (ledger.Key, error) {
	return k.r.keys.SignerOf(e, use, at)
}

func (r *replay) openBook() {
	r.book = vetting.NewBook(operatorKeys{r}, vetting.Known{Appraised: r.checkHardware, Measured: r.checkMeasured, Heard: r.checkHeard, Seen: r.checkSeen})
	r.names, r.measured = map[string]int32{}, map[string][]measure{}
	r.heard, r.lineups = map[string][]moment{}, map[string][]lineup{}
}

// node returns the number of a node.
func (v *vetted) node(name string) int32 {
	n, ok := v.names[name]
	if !ok {
		n = int32(len(v.names))
		v.names[name], v.appraised = n, append(v.appraised, nil)
	}
	return n
}

// noteAppraisal takes the last appraisal of a node into account.
func (v *vetted) noteAppraisal(node int32, now moment, body canon.Digest) {
	v.appraised[node] = recent(append(v.appraised[node], judged{now, body}))
}

// recent leaves out what nobody looks at any more: what is before the last one that everybody must have seen.
func recent[T interface{ when() canon.Time }](all []T) []T {
	for now := all[len(all)-1].when(); len(all) > 1 && all[1].when()+timeSlack <= now; {
		all = all[1:]
	}
	return all
}

// noteAnswer takes evidence of a node into account.
func (v *vetted) noteAnswer(node string, now moment) {
	v.heard[node] = recent(append(v.heard[node], now))
}

// noteShown takes what a node showed into account.
func (v *vetted) noteShown(now moment, n ledger.Enrolment) {
	if n.Basis == ledger.BasisShown || n.Basis == ledger.BasisEvidence {
		v.lineups[n.Node] = recent(append(v.lineups[n.Node], lineup{now, n.Devices}))
	}
}

// learnVetting folds an entry of vetting. That the event before owes another one is a fault of its own.
func (r *replay) learnVetting(index int64, commitment canon.Digest, e ledger.Entry, body []byte) error {
	if !r.foldsVetting() {
		return nil
	}
	r.reading = moment{index, e.Time}
	if err := r.book.Add(index, commitment, ledger.Event{Entry: e, Body: body}); err != nil {
		return wrong("%v", err)
	}
	return nil
}

// foldsVetting reports whether the log has everything that a book is made of: in a scope entries are left out. What began in a
// log before goes on from the state that was carried over, see [replay.learnCarried].
func (r *replay) foldsVetting() bool { return r.scope == nil }

// learnCarried takes a part of what the log goes on with. Nobody says here that it was so: who has the log before as well
// compares the two, see [chain.holdVetting].
func (r *replay) learnCarried(ctx context.Context, index int64, e ledger.Entry, body []byte) error {
	if !r.foldsVetting() {
		return nil
	}
	c, err := vetting.ParseCarried(body)
	switch {
	case err != nil:
		return err
	case r.report.Continues == (ledger.Final{}):
		return wrong("carried over from a log before, and the log continues none")
	case c.Log != r.report.Continues.Origin || len(e.Refs) != 1 || e.Refs[0] != r.opens.Body:
		return wrong("carried over from the log %q, or not on the ground of entry 0; the log continues %q", c.Log, r.report.Continues.Origin)
	case r.asked != NoIndex || r.kinds[ledger.KindClaim]+r.kinds[ledger.KindCertificate]+r.kinds[ledger.KindRules]+r.kinds[ledger.KindBenchmark] > 0:
		return wrong("carried over from the log before, after the first challenge or event")
	case c.Part != r.resumed.parts || r.resumed.whole:
		return wrong("part %d of what is carried over, where part %d is due, or none", c.Part, r.resumed.parts)
	}
	r.resumed.parts, r.resumed.whole = c.Part+1, c.Last
	if r.links != nil {
		r.resumed.items = append(r.resumed.items, c.Items...)
	}
	for _, i := range c.Items {
		var word []byte
		var err error
		r.carries(i.Kind())
		switch {
		case i.Word != nil:
			word, err = r.blob(ctx, i.Word.Body)
		case i.Appraised != nil:
			r.noteAppraisal(r.node(i.Appraised.Node), moment{index, e.Time}, i.Appraised.Appraisal)
			err = r.resumeAppraisal(ctx, i)
		case i.Benchmark != nil:
			err = r.resumeBenchmark(ctx, moment{index, e.Time}, *i.Benchmark)
		}
		if err == nil {
			if err = r.book.Resume(index, i, word); err != nil {
				err = wrong("%s: %v", i.Name(), err)
			}
		}
		if err := r.record(err, index, e.Kind); err != nil {
			return err
		}
	}
	return nil
}

// noteMeasure takes the result of a benchmark into account.
func (v *vetted) noteMeasure(now moment, c capacity.Challenge, result capacity.Result, body canon.Digest) {
	v.measured[c.Node] = append(v.measured[c.Node], measure{now, capacity.Measure{Round: c.Round, Nodes: c.Nodes, Node: c.Node, Starts: c.Starts, Result: result},
		vetting.CarriedBenchmark{Node: c.Node, Starts: c.Starts, Challenge: result.Challenge, Result: body}})
}

// resumeAppraisal checks that an appraisal of a log before is one: observations of this log are held against what it says.
func (r *replay) resumeAppraisal(ctx context.Context, i vetting.CarriedItem) error {
	data, err := r.blob(ctx, i.Appraised.Appraisal)
	if err != nil {
		return err
	}
	if _, err := verifier.ParseAppraisal(data); err != nil {
		return wrong("%s: %v", i.Name(), err)
	}
	return nil
}

// carries counts a thing that was carried over.
func (r *replay) carries(kind string) {
	from := r.report.Carried
	if from == nil {
		return
	}
	i, found := slices.BinarySearchFunc(from.Items, kind, func(k KindCount, kind string) int { return strings.Compare(k.Kind, kind) })
	if !found {
		from.Items = slices.Insert(from.Items, i, KindCount{Kind: kind})
	}
	from.Items[i].Count++
}

// resumeBenchmark takes a benchmark of a log before into account.
func (r *replay) resumeBenchmark(ctx context.Context, now moment, b vetting.CarriedBenchmark) error {
	challenge, err := r.blob(ctx, b.Challenge)
	if err != nil {
		return err
	}
	result, err := r.blob(ctx, b.Result)
	if err != nil {
		return err
	}
	c, err1 := capacity.ParseRecord(challenge)
	m, err2 := capacity.ParseRecord(result)
	switch {
	case err1 != nil || err2 != nil:
		return wrong("%v", errors.Join(err1, err2))
	case c.Challenge == nil || m.Result == nil || m.Result.Challenge != b.Challenge || c.Challenge.Node != b.Node || c.Challenge.Starts != b.Starts:
		return wrong("the benchmark %s of node %.80q: its records say otherwise", b.Result.Short(), b.Node)
	}
	r.noteMeasure(now, *c.Challenge, *m.Result, b.Result)
	return nil
}

// checkResumed checks, where what is carried over ends, by another entry or with the log, that it is all there.
func (r *replay) checkResumed() error {
	if !r.resumed.lacks() || r.resumed.told {
		return nil
	}
	r.resumed.told = true // one fault
	return wrong("%d parts of what is carried over, and the last is missing", r.resumed.parts)
}

func (r resumed) lacks() bool { return r.parts > 0 && !r.whole }

// leaves returns what the next log, which begins at a time, has to carry over. An appraisal that the log has erased is not
// among it; one that a later log has erased is: it stood at the end of this one. Erasures were found.
func (r *replay) leaves(at canon.Time) []vetting.CarriedItem {
	items := r.book.Leave()
	for _, name := range slices.Sorted(maps.Keys(r.names)) {
		all := r.appraised[r.names[name]]
		if len(all) == 0 {
			continue
		}
		last := all[len(all)-1].body
		if by, ok := r.erased.gone[last]; ok && by.log == "" {
			continue
		}
		items = append(items, vetting.CarriedItem{Appraised: &vetting.Appraised{Node: name, Appraisal: last}})
	}
	var benchmarks []vetting.CarriedItem
	for _, of := range r.measured {
		for _, m := range of {
			if m.from.Counts(at) {
				benchmarks = append(benchmarks, vetting.CarriedItem{Benchmark: &m.from})
			}
		}
	}
	vetting.Order(benchmarks)
	return append(items, benchmarks...)
}

// holdVetting compares what a log carries over of providers with what the log before it leaves.
func (c *chain) holdVetting(a, b *replay) error {
	want, got := a.leaves(b.opens.Time), b.resumed.items
	if b.resumed.lacks() {
		c.fault(b, "carries over %d parts, and the last is missing", b.resumed.parts)
	}
	for len(want)+len(got) > 0 {
		switch {
		case len(got) > 0 && len(want) > 0 && got[0].Name() == want[0].Name():
			was, err1 := canon.Marshal(want[0])
			is, err2 := canon.Marshal(got[0])
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if string(was) != string(is) {
				c.fault(b, "carries over %s otherwise than the log %q leaves it: %s", want[0].Name(), a.report.Origin, differing(was, is))
				return nil // what follows may be out of step
			}
			want, got = want[1:], got[1:]
		case len(want) > 0 && (len(got) == 0 || !slices.ContainsFunc(got, func(i vetting.CarriedItem) bool { return i.Name() == want[0].Name() })):
			c.fault(b, "does not carry over %s, which stood in the log %q", want[0].Name(), a.report.Origin)
			return nil
		default:
			c.fault(b, "carries over %s, which did not stand in the log %q, or not there", got[0].Name(), a.report.Origin)
			return nil
		}
	}
	return nil
}

// differing names the first member in which two canonical documents differ.
func differing(was, is []byte) string {
	for path := ""; ; {
		var a, b map[string]jsontext.Value
		if json.Unmarshal(was, &a) != nil || json.Unmarshal(is, &b) != nil {
			return fmt.Sprintf("%s is %.200s, recomputed %.200s", path, is, was)
		}
		for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
			if string(a[name]) != string(b[name]) {
				was, is = a[name], b[name]
				path = strings.TrimPrefix(path+"."+name, ".")
				break
			}
		}
	}
}

func union(a, b map[string]jsontext.Value) map[string]jsontext.Value {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// isVetting reports whether the book takes entries of a kind.
func isVetting(kind string) bool {
	return kind == ledger.KindClaim || kind == ledger.KindCertificate || kind == ledger.KindRules
}

// checkHardware holds what an observation says of a host's last appraisal against the log.
func (r *replay) checkHardware(h vetting.Hardware, host string, q vetting.Parameters) error {
	var all []judged
	if n, ok := r.names[host]; ok && host != "" {
		all = r.appraised[n]
	}
	at := slices.IndexFunc(all, func(j judged) bool { return j.body == h.Evidence })
	for i, j := range all {
		if i > at && j.seen(r.reading.index, r.reading.time) {
			return fmt.Errorf("observed the appraisal %s of host %s, and entry %d has a later one", h.Evidence.Short(), host, j.index)
		}
	}
	if h.Evidence.IsZero() {
		if h.Level != "" || len(h.Findings) > 0 {
			return fmt.Errorf("observed hardware of host %s, and names no appraisal", host)
		}
		return nil
	}
	if at < 0 {
		return fmt.Errorf("observed the appraisal %s, which is none of the last ones of host %s", h.Evidence.Short(), host)
	}
	data, err := r.blob(context.Background(), h.Evidence)
	if err != nil {
		return nil // a fault of the appraisal's entry, told there
	}
	a, err := verifier.ParseAppraisal(data)
	if err != nil {
		return nil
	}
	was, err1 := canon.Marshal(h)
	is, err2 := canon.Marshal(vetting.Axis(a.Claims, a.AsOf, h.Evidence, q))
	if err1 != nil || err2 != nil || string(was) != string(is) {
		return fmt.Errorf("differs: hardware of host %s logged as %s, recomputed %s", host, was, is)
	}
	return nil
}

// elsewhere is a device that is said to be seen by evidence that the log does not have.
type elsewhere struct {
	index    int64 // of the sighting's entry
	device   string
	evidence canon.Digest
}

// checkSeen holds a sighting against the evidence that it names, which stands before it: else anybody's device could be
// contested by nothing. What that evidence shows is found when it is judged. Evidence of a log before is counted, and looked for where that log is at hand.
func (r *replay) checkSeen(s vetting.Sighting) error {
	row, err := r.submissionOf(context.Background(), s.Evidence)
	switch {
	case err != nil:
		return nil // told where the entry stands that could not be read
	case row != noRow:
	case r.report.Carried == nil:
		return fmt.Errorf("device %s is said to be seen on host %s by evidence %s, which no earlier entry has", s.Device, s.Host, s.Evidence.Short())
	default:
		r.elsewhere = append(r.elsewhere, elsewhere{r.reading.index, s.Device, s.Evidence})
		r.report.Carried.Seen++
	}
	return nil
}

// holdSeen looks in the logs before for evidence that a log's sightings name. Where one of them is not here, or not all of it,
// that may be where it is.
func (c *chain) holdSeen(ctx context.Context, r *replay, before []*replay) error {
	if slices.ContainsFunc(before, func(b *replay) bool { return b.scope != nil }) || len(before) == 0 || before[0].report.Carried != nil {
		return nil
	}
	for _, s := range r.elsewhere {
		found := false
		for _, b := range before {
			row, err := b.submissionOf(ctx, s.evidence)
			if f := new(Fault); err != nil && !errors.As(err, &f) {
				return err
			}
			found = found || err != nil || row != noRow
		}
		if !found {
			c.fault(r, "entry %d: device %s is said to be seen by evidence %s, which neither it has nor a log before it", s.index, s.device, s.evidence.Short())
		}
	}
	return nil
}

// checkMeasured holds what an observation says of a host's benchmarks against those in the log. Of the results of the last
// moments it may have known some and not others.
func (r *replay) checkMeasured(o vetting.Observed, host string, at canon.Time) error {
	all := r.measured[host]
	results := make([]capacity.Measure, len(all))
	known := 0
	for i, m := range all {
		results[i] = m.Measure
		if m.seen(r.reading.index, r.reading.time) {
			known = i + 1
		}
	}
	var credited capacity.Measure
	for ; known <= len(all); known++ {
		var ok bool
		if credited, ok = capacity.Credit(results[:known], host, at); !ok {
			credited = capacity.Measure{}
		}
		if o.Measured == credited.Result.Score && o.MeasuredAt == canon.Time(credited.Starts/1000) {
			return nil
		}
	}
	return fmt.Errorf("differs: host %s logged as measured with score %d at %s, recomputed %d at %s", host, o.Measured, o.MeasuredAt,
		credited.Result.Score, canon.Time(credited.Starts/1000))
}

// checkHeard holds when a host is said to have sent its last evidence, and what it is said to have shown, against the log. Of the
// entries of the last moments the observer may have known some and not others. Where the log continues another one, evidence of
// before it is the operator's word.
func (r *replay) checkHeard(o vetting.Observed, p vetting.Place) error {
	now := r.reading
	must, fits := canon.Time(0), o.Answered == 0
	for _, m := range r.heard[p.Host] {
		if m.seen(now.index, now.time) {
			must, fits = m.time, o.Answered == m.time
		} else {
			fits = fits || o.Answered == m.time
		}
	}
	if before := r.report.Continues != (ledger.Final{}) && must == 0 && o.Answered <= r.opens.Time; !fits && !before {
		return fmt.Errorf("differs: host %s logged as answering last at %s, by its evidence it was at %s", p.Host, o.Answered, must)
	}
	named := func(all []ledger.Device) (ids []string) {
		for _, d := range all {
			ids = append(ids, vetting.NewDevice(d.Kind, d.Value, nil).ID)
		}
		slices.Sort(ids)
		return p.Others(ids)
	}
	var shown []string
	fits = len(o.Shown) == 0
	for _, s := range r.lineups[p.Host] {
		if is := named(s.devices); s.seen(now.index, now.time) {
			shown, fits = is, slices.Equal(o.Shown, is)
		} else {
			fits = fits || slices.Equal(o.Shown, is)
		}
	}
	if !fits {
		return fmt.Errorf("differs: host %s logged as showing %v, by the entries before it showed %v", p.Host, o.Shown, shown)
	}
	return nil
}

// told returns what a verdict was told of the party.
func (r *replay) told(ctx context.Context, res policy.Result) (claim.Set, error) {
	if res.Party.IsZero() {
		return nil, nil
	}
	data, err := r.blob(ctx, res.Party)
	if err != nil {
		return nil, err
	}
	p, err := policy.ParsePartyClaims(data)
	if err != nil {
		return nil, wrong("%v", err)
	}
	return p.Claims, nil
}

// checkParty holds what a verdict of an entry was told of the party against what the host's certificate said then. In a scope
// the certificates are of others.
func (j *job) checkParty(res policy.Result, v verdict) error {
	if !j.foldsVetting() || j.ev.challenge == nil || j.ev.challenge.absent {
		return nil
	}
	want, ok := j.book.PartyBefore(j.ev.challenge.node, v.index)
	switch {
	case !ok && !res.Party.IsZero():
		return wrong("names claims about the party, and host %s had no certificate", j.ev.challenge.node)
	case ok && res.Party != want:
		return wrong("names the claims about the party %s, by the certificate of host %s they were %s", res.Party, j.ev.challenge.node, want)
	}
	return nil
}

// checkSightings holds the devices that were seen in evidence against those that it proves.
func (j *job) checkSightings(opened *verifier.Opened, c attest.Case, a *appraisal) {
	sightings := j.book.Seen(a.evidence)
	for _, book := range j.laterBooks {
		sightings = append(slices.Clip(sightings), book.Seen(a.evidence)...)
	}
	if len(sightings) == 0 {
		return
	}
	var proven []string
	for _, id := range verifier.Identities(opened, c) {
		proven = append(proven, vetting.NewDevice(id.Kind, id.Value, nil).ID)
	}
	for _, s := range sightings {
		if c.Expect.Challenge == nil || s.Host != c.Expect.Challenge.Node || !slices.Contains(proven, s.Device) {
			j.res.fault(placed(Fault{What: fmt.Sprintf("device %s is said to be seen on host %s by evidence that does not show it", s.Device, s.Host)}, j.ev.index, ledger.KindEvidence))
		}
	}
}
