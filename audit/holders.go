package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier"
)

// holders is what the log says of who holds which device: from an enrolment by evidence until its node is revoked.
type holders struct {
	all     []holding // in the order of the log
	by      map[device][]int32
	of      map[string][]int32         // by node
	revoked map[string]moment          // by node, the first time
	shown   map[canon.Digest][]showing // by the body of the evidence
}

// showing is an entry that says what a node's evidence showed.
type showing struct {
	index   int64
	node    string
	devices []ledger.Device
}

// device is an identity that can be looked up.
type device struct{ kind, value string }

func deviceOf(id attest.Identity) device { return device{id.Kind, string(id.Value)} }

type holding struct {
	attest.Holder
	since moment
}

// moment is an entry and its time.
type moment struct {
	index int64
	time  canon.Time
}

func (m moment) when() canon.Time { return m.time }

// seen reports whether who judged at a time, in an entry of an index, must have seen the entry. What was logged within the
// slack may not have been seen yet.
func (m moment) seen(index int64, at canon.Time) bool {
	return m.index < index && m.time+timeSlack <= at
}

func newHolders() holders {
	return holders{by: map[device][]int32{}, of: map[string][]int32{}, revoked: map[string]moment{}, shown: map[canon.Digest][]showing{}}
}

// learn takes an enrolment into account. A device stays with the node that holds it, and a node that was revoked is out
// for good: an enrolment that says otherwise is a fault and changes nothing.
func (h *holders) learn(now moment, e ledger.Enrolment) (fault error) {
	out, isOut := h.revoked[e.Node]
	if e.Basis == ledger.BasisRevoked && !isOut {
		h.revoked[e.Node] = now
	}
	if e.Basis != ledger.BasisEvidence {
		return nil // what was shown is held by nobody for that
	}
	for _, d := range e.Devices {
		n := holding{attest.Holder{Identity: attest.Identity{Kind: d.Kind, Value: d.Value}, Node: e.Node}, now}
		if isOut {
			return wrong("enrols %s for the node %q, which entry %d revoked", n.Identity, e.Node, out.index)
		}
		if old := h.holder(n.Identity); old != nil {
			fault = wrong("enrols %s for the node %q, which the node %q holds since entry %d", n.Identity, e.Node, old.Node, old.since.index)
			continue
		}
		this := int32(len(h.all))
		h.all = append(h.all, n)
		h.by[deviceOf(n.Identity)] = append(h.by[deviceOf(n.Identity)], this)
		h.of[e.Node] = append(h.of[e.Node], this)
	}
	return fault
}

// holder returns who holds a device at the end of what was read, or nil.
func (h *holders) holder(id attest.Identity) *holding {
	for _, i := range h.by[deviceOf(id)] {
		if _, out := h.revoked[h.all[i].Node]; !out {
			return &h.all[i]
		}
	}
	return nil
}

// entries returns the indexes of the entries that say that a node held a device, and that it no longer does.
func (h *holders) entries(told attest.Holder) (indexes []int64) {
	for _, i := range h.by[deviceOf(told.Identity)] {
		if h.all[i].Node != told.Node {
			continue
		}
		indexes = append(indexes, h.all[i].since.index)
		if out, ok := h.revoked[told.Node]; ok {
			indexes = append(indexes, out.index)
		}
	}
	return indexes
}

// check says why the log contradicts that a node held a device when an entry of an index judged, or nothing.
func (h *holders) check(told attest.Holder, index int64, at canon.Time) string {
	for _, i := range h.by[deviceOf(told.Identity)] {
		if h.all[i].Node != told.Node || h.all[i].since.index > index {
			continue
		}
		if out, ok := h.revoked[told.Node]; ok && out.seen(index, at) {
			return fmt.Sprintf("which entry %d revoked", out.index)
		}
		return ""
	}
	return "which no earlier entry enrols"
}

// mustKnow returns those of some holdings that an entry of an index must have known of when it judged.
func (h *holders) mustKnow(among []int32, index int64, at canon.Time) (out []holding) {
	for _, i := range among {
		n := h.all[i]
		if gone, ok := h.revoked[n.Node]; n.since.seen(index, at) && (!ok || gone.index > index) {
			out = append(out, n)
		}
	}
	return out
}

// checkHolders holds what the appraisal was told of who holds which device against the enrolments of the log: it may have
// been told of none that the log does not hold, and must have been told of every one that matters.
//
// Of devices of other nodes that the evidence shows it looks only where the node has none of its own: with some, what the
// evidence shows is among them or contradicted, and no device has two holders.
func (j *job) checkHolders(o *verifier.Opened, c attest.Case, logged verifier.Appraisal, at *appraisal) {
	if len(j.holders.all)+len(c.Expect.Enrolled)+len(c.Expect.Registry) == 0 {
		return
	}
	node := c.Expect.Challenge.Node
	contradicted := func(format string, args ...any) {
		j.res.fault(placed(Fault{What: "enrolment contradicted: " + fmt.Sprintf(format, args...)}, at.index, ledger.KindAppraisal))
	}
	told := slices.Clone(c.Expect.Registry)
	for _, id := range c.Expect.Enrolled {
		told = append(told, attest.Holder{Identity: id, Node: node})
	}
	for _, t := range told {
		if why := j.holders.check(t, at.index, logged.AsOf); why != "" {
			contradicted("told that %s is of the node %q, %s", t.Identity, t.Node, why)
		}
	}
	must := j.holders.mustKnow(j.holders.of[node], at.index, logged.AsOf)
	unique := logged.Claims.Find("set.device-unique", "set")
	if len(c.Expect.Enrolled) == 0 && unique != nil && unique.Status != claim.Contradicted {
		shown, _ := attempt(func() []attest.Identity { return verifier.Identities(o, c) }) // where it fails, the appraisal is one too
		for _, id := range shown {
			must = append(must, j.holders.mustKnow(j.holders.by[deviceOf(id)], at.index, logged.AsOf)...)
		}
	}
	for _, n := range must {
		if !slices.ContainsFunc(told, func(t attest.Holder) bool { return t.Identity.Equal(n.Identity) && t.Node == n.Node }) {
			contradicted("not told that %s is of the node %q, which entry %d enrols", n.Identity, n.Node, n.since.index)
		}
	}
}

// learnShown takes what an entry says that a node's evidence showed. One that was carried over names no evidence of this log.
func (r *replay) learnShown(ctx context.Context, index int64, e ledger.Entry, n ledger.Enrolment) error {
	if n.Basis != ledger.BasisShown || r.carried(e) || r.scope != nil {
		return nil
	}
	row, err := r.submissionOf(ctx, n.Evidence)
	switch {
	case err != nil:
		return err
	case row == noRow || len(e.Refs) != 1 || e.Refs[0] != n.Evidence:
		return wrong("says what the evidence %s showed, and does not rest on it, or it is none", n.Evidence)
	}
	r.holders.shown[n.Evidence] = append(r.holders.shown[n.Evidence], showing{index, n.Node, n.Devices})
	return nil
}

// checkShown holds what entries say that the evidence showed against what the last appraisal before each lets be taken for the
// node's. That every change was logged, nobody asks: an entry too few moves nothing.
func (j *job) checkShown(o *verifier.Opened, c attest.Case, logged verifier.Appraisal, a *appraisal) {
	said := slices.DeleteFunc(slices.Clone(j.holders.shown[a.evidence]), func(s showing) bool {
		return s.index < a.index || slices.ContainsFunc(j.ev.appraisals, func(o *appraisal) bool { return a.index < o.index && o.index < s.index })
	})
	if len(said) == 0 || c.Expect.Challenge == nil {
		return
	}
	var is []ledger.Device
	if proven, ok := attempt(func() []attest.Identity { return verifier.Identities(o, c) }); ok {
		is = verifier.Shown(proven, logged.Claims)
	}
	same := func(a, b ledger.Device) bool { return a.Compare(b) == 0 && slices.Equal(a.Alias, b.Alias) }
	for _, s := range said {
		switch {
		case s.node != c.Expect.Challenge.Node:
			j.res.fault(placed(Fault{What: fmt.Sprintf("says what the node %q showed, by evidence of the node %q", s.node, c.Expect.Challenge.Node)}, s.index, ledger.KindEnrolment))
		case !slices.EqualFunc(s.devices, is, same):
			j.res.fault(placed(Fault{What: fmt.Sprintf("says that the node %q showed %s, by the appraisal of entry %d it showed %s", s.node, devicesOf(s.devices), a.index, devicesOf(is))}, s.index, ledger.KindEnrolment))
		}
	}
}

func devicesOf(all []ledger.Device) string {
	if len(all) == 0 {
		return "none"
	}
	var words []string
	for _, d := range all {
		word := d.Kind + " " + d.Value.String()
		if len(d.Alias) > 0 {
			word += " alias " + d.Alias.String()
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
