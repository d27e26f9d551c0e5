package audit

import (
	"context"
	"fmt"
	"slices"

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
}

// measure is the result of a benchmark as the log has it.
type measure struct {
	moment
	capacity.Measure
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
	r.book = vetting.NewBook(operatorKeys{r}, vetting.Known{Appraised: r.checkHardware, Measured: r.checkMeasured})
	r.names, r.measured = map[string]int32{}, map[string][]measure{}
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
	all := append(v.appraised[node], judged{now, body})
	for len(all) > 1 && all[1].time+timeSlack <= now.time {
		all = all[1:]
	}
	v.appraised[node] = all
}

// learnVetting folds an entry of vetting. That the event before owes another one is a fault of its own.
func (r *replay) learnVetting(index int64, e ledger.Entry, body []byte) error {
	if !r.foldsVetting() {
		return nil
	}
	r.reading = moment{index, e.Time}
	if err := r.book.Add(index, ledger.Event{Entry: e, Body: body}); err != nil {
		return wrong("%v", err)
	}
	return nil
}

// foldsVetting reports whether the log has everything that a book is made of: in a scope entries are left out, and what began
// in a log before goes on in the ones that continue it.
func (r *replay) foldsVetting() bool { return r.scope == nil && len(r.before) == 0 }

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
// the certificates are of others, and what a log before says is not here.
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
