package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Reason codes of this room, beside those of the claims.
const (
	noTime       = "no-time"       // the claim has no first instant, so that it has no age
	notAppraised = "not-appraised" // the appraisal says nothing of it
	otherIssuer  = "other-issuer"  // whoever says so is none of the policy's issuers
)

// Why a value that is proven is not good enough: the second half of a reason's code.
const (
	codeValue = "value" // it is another than the rule wants
	codeLeast = "least" // it is less than the rule wants, or lacks words of it
	codeFloor = "floor" // it is below the floor of its product line
	codeAge   = "age"   // it is too old, or of the future
)

const (
	minFloors        = "floors"
	referencesGround = "references:" // in a claim's basis, before the digest of the list that affirmed it
)

// always begins the label of what is refused whatever a policy says.
const always = "always "

// measuredClaims are those that a policy's references restrict.
var measuredClaims = []string{"guest.measured", "agent.measured"}

// op is the operator of a rule.
type op uint8

const (
	opAffirmed op = iota + 1
	opIn          // is, too
	opMin
	opFloors
	opMaxAge
)

// program is a policy made ready to decide.
type program struct {
	rules      []rule
	refuse     []refusal
	references []string // grounds of which a measured claim needs one; nil: any
	issuers    []string // grounds that claims of parties may name; nil: any
	floors     []floor
}

// rule is one entry of require.
type rule struct {
	label     string
	line      int // in the file that it was written in; 0: none has it
	claim     string
	of        Class
	count     int
	ifPresent bool
	anyRoom   bool    // *.structure: speaks of every component, also of a format that this build does not know
	checks    []check // one for each room whose claim the rule means

	op       op
	required string
	values   []Value // of opIn
	maxAge   Age     // of opMaxAge
}

// check is the rule for the claim of one room.
type check struct {
	room    string
	def     claim.Definition
	product string // of opFloors: the claim that names the product line
	number  int64  // of opMin, as the claim's kind wants it
	tcb     tcb
	words   []string
}

type refusal struct {
	label, pattern string
	line           int
}

type floor struct {
	product string
	min     tcb
	text    string
}

// Decide returns the verdict of the policy over the claims at a time: those of an appraisal, and beside them those of the
// party behind the machine. Without one claim of the party rules over it are left open, and the verdict is over evidence.
// Claims of one id and subject by several issuers must each satisfy a rule; of the party, each that counts.
func Decide(claims claim.Set, p *Policy, at canon.Time) Verdict {
	v := Verdict{
		Type: VerdictType, Rules: Rules, Policy: Named{p.document.Name, p.digest}, Scope: ScopeFull, AsOf: at, Reasons: []Reason{},
	}
	d := newDecision(claims, p, at)
	for i := range p.program.rules {
		r := &p.program.rules[i]
		if r.of == Party && !d.hasParty() {
			v.Scope, v.Open = ScopeEvidence, append(v.Open, r.label)
			continue
		}
		d.require(r)
	}
	d.refuse()
	v.Outcome, v.Reasons = d.conclude(v.Reasons)
	if len(p.program.rules) == 0 {
		v.Outcome = Undecided // a Policy that nobody loaded requires nothing, and so accepts nothing
	}
	return v
}

// component is one component of the evidence, known by its structure claim.
type component struct {
	subject string
	class   Class
	room    string
}

// decision is one run of Decide. It owns everything in it but the set.
type decision struct {
	policy     *Policy
	set        claim.Set // ordered by subject and id
	at         canon.Time
	bearings   []bearing // of the claims of set
	components []component
	findings   []finding
}

func newDecision(claims claim.Set, p *Policy, at canon.Time) *decision {
	d := &decision{policy: p, set: claims, at: at}
	if !slices.IsSortedFunc(claims, order) {
		d.set = slices.Clone(claims)
		slices.SortStableFunc(d.set, order)
	}
	d.parties()
	d.bearings = make([]bearing, len(d.set))
	d.components = make([]component, 0, 8)
	for i := range d.set {
		c := &d.set[i]
		if class := Class(claim.Class(c.Subject)); suffix(c.ID) == structure && !class.single() && class != Party {
			d.components = append(d.components, component{c.Subject, class, claim.Room(c.ID)})
		}
	}
	return d
}

func order(a, b claim.Claim) int {
	return cmp.Or(strings.Compare(a.Subject, b.Subject), strings.Compare(a.ID, b.ID), strings.Compare(a.Issuer, b.Issuer))
}

// find returns the indices of the claims of an id and subject: one for each issuer.
func (d *decision) find(id, subject string) (from, to int) {
	low, high := 0, len(d.set)
	for low < high {
		mid := int(uint(low+high) >> 1)
		c := &d.set[mid]
		if c.Subject < subject || c.Subject == subject && c.ID < id {
			low = mid + 1
		} else {
			high = mid
		}
	}
	for to = low; to < len(d.set) && d.set[to].ID == id && d.set[to].Subject == subject; to++ {
	}
	return low, to
}

// require looks for what a rule asks in every subject that it speaks of.
func (d *decision) require(r *rule) {
	if r.of.single() {
		for i := range r.checks {
			d.check(r, &r.checks[i], string(r.of))
		}
		if r.checks == nil { // of a party, in a policy of another release
			d.claimed(r, cause{r.claim, string(r.of), claim.Unknown, claim.Because(claim.Internal, "this build knows no such claim")})
		}
		return
	}
	present, last := 0, ""
	for _, c := range d.components {
		if !r.of.covers(c.class) {
			continue
		}
		i := 0
		for i < len(r.checks) && r.checks[i].room != c.room {
			i++
		}
		switch {
		case i < len(r.checks):
			d.check(r, &r.checks[i], c.subject)
		case r.anyRoom:
			d.foreign(r, c)
		default:
			continue
		}
		if c.subject != last {
			present, last = present+1, c.subject
		}
	}
	if present < r.count && !r.ifPresent {
		d.missing(r, present)
	}
}

// missing notes that the evidence lacks a component. Where the evidence could not be read, that is all there is to say.
func (d *decision) missing(r *rule, present int) {
	if causes := d.unread(string(Node), "bundle."+structure); causes != nil {
		d.findings = append(d.findings, finding{rule: r, causes: causes})
		return
	}
	key, want := fmt.Sprintf("%d %s", r.count, r.of), fmt.Sprintf("%d of class %s", r.count, r.of)
	if present > 0 || slices.ContainsFunc(d.components, func(c component) bool { return r.of.covers(c.class) }) {
		key, want = key+" "+claim.Room(r.claim), want+" that "+r.claim+" speaks of"
	}
	d.findings = append(d.findings, finding{rule: r, key: key, reason: Reason{
		Code: code(r.claim, claim.EvidenceMissing), Claim: r.claim, Subject: string(r.of), Status: claim.Unknown, Required: "at least " + want,
		Observed: string(claim.Because(claim.EvidenceMissing, "%d in the evidence", present)),
		Fix:      "send evidence of the component", Who: claim.Provider,
	}})
}

// foreign notes a component of a format that this build knows nothing about.
func (d *decision) foreign(r *rule, c component) {
	d.claimed(r, cause{c.room + "." + structure, c.subject, claim.Unknown,
		claim.Because(claim.Internal, "this build knows no format %s", c.room)})
}

// check judges the claim of one room and subject.
func (d *decision) check(r *rule, ch *check, subject string) {
	from, to := d.find(ch.def.ID, subject)
	if from == to && r.ifPresent && r.of == Set && !d.hasGPUs() {
		return // what speaks of GPUs and switches together is there where they are
	}
	if from == to {
		causes := d.absent(ch.def.ID, subject)
		if causes[0].id == ch.def.ID && causes[0].subject == subject {
			d.claimed(r, causes[0])
			return
		}
		d.findings = append(d.findings, finding{rule: r, causes: causes})
	}
	for i := from; i < to; i++ {
		d.judge(r, ch, i)
	}
}

// hasGPUs reports whether the evidence has a GPU or a switch.
func (d *decision) hasGPUs() bool {
	return slices.ContainsFunc(d.components, func(c component) bool { return c.class == GPU || c.class == Switch })
}

// judge judges one claim.
func (d *decision) judge(r *rule, ch *check, i int) {
	c := &d.set[i]
	switch {
	case c.Status == claim.Affirmed && d.inside(c, r.op == opMaxAge) && d.based(c):
		d.operate(r, ch, c)
	case c.Status == claim.Affirmed && d.inside(c, r.op == opMaxAge), c.Status == claim.Unknown && c.Reason.Code() == claim.RestsOn:
		d.findings = append(d.findings, finding{rule: r, causes: d.bottom(i)})
	default:
		d.claimed(r, d.itself(c))
	}
}

// claimed notes that a rule is not met for what the claim itself says.
func (d *decision) claimed(r *rule, c cause) {
	d.findings = append(d.findings, finding{rule: r, key: c.id + "@" + c.subject, reason: c.reason(r.required)})
}

// operate applies the rule's operator to a claim that counts.
func (d *decision) operate(r *rule, ch *check, c *claim.Claim) {
	if refs := d.policy.program.references; refs != nil && slices.Contains(measuredClaims, c.ID) &&
		!slices.ContainsFunc(c.Basis, func(b string) bool { return slices.Contains(refs, b) }) {
		d.unknown(r, c, claim.Because(claim.NoReference, "none of the policy's lists of reference values affirmed it"),
			claim.Relying, "appraise with the lists that the policy names")
		return
	}
	switch r.op {
	case opIn:
		if !slices.Contains(r.values, Value(c.Value)) {
			d.fails(c, r, codeValue, r.required, c.Value)
		}
	case opMin:
		if enough, err := ch.atMost(c.Value); err != nil {
			d.garbled(r, c)
		} else if !enough {
			d.fails(c, r, codeLeast, r.required, c.Value)
		}
	case opFloors:
		d.floor(r, ch, c)
	case opMaxAge:
		d.age(r, c)
	}
}

// atMost reports whether the check's minimum is at most the value.
func (ch *check) atMost(value string) (bool, error) {
	switch ch.def.Kind {
	case claim.TCB:
		t, err := parseTCB(value)
		return t.atLeast(ch.tcb), err
	case claim.Words:
		return hasWords(value, ch.words), nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n >= ch.number, err
}

// floor compares a TCB with the floor of the component's own product line.
func (d *decision) floor(r *rule, ch *check, c *claim.Claim) {
	t, err := parseTCB(c.Value)
	if err != nil {
		d.garbled(r, c)
		return
	}
	from, to := d.find(ch.product, c.Subject)
	if from == to {
		d.findings = append(d.findings, finding{rule: r, causes: d.absent(ch.product, c.Subject)})
	}
	for i := from; i < to; i++ {
		if !d.counts(i) {
			d.findings = append(d.findings, finding{rule: r, causes: d.bottom(i)})
			continue
		}
		line := d.set[i].Value
		f := slices.IndexFunc(d.policy.program.floors, func(f floor) bool { return f.product == line })
		if f < 0 {
			d.unknown(r, c, claim.Because(claim.NoReference, "no floor is known for product line %s", line),
				claim.Relying, "add a floor of the product line to the policy, with its source")
			continue
		}
		if least := &d.policy.program.floors[f]; !t.atLeast(least.min) {
			d.fails(c, r, codeFloor, "at least "+least.text+", the floor of "+line, c.Value)
		}
	}
}

// age compares the claim's first instant with the time of the verdict.
func (d *decision) age(r *rule, c *claim.Claim) {
	switch {
	case c.From == 0:
		d.unknown(r, c, claim.Because(noTime, "it does not say since when"), claim.Relying, "appraise with a challenge, whose time is known")
	case c.From > d.at+FutureSlack:
		d.fails(c, r, codeAge, r.required, "from "+c.From.String()+", in the future")
	case d.at-c.From > canon.Time(r.maxAge):
		d.fails(c, r, codeAge, r.required, Age(d.at-c.From).String()+" old, from "+c.From.String())
	}
}

// fails notes a value that does not satisfy its operator. Of words there may be none.
func (d *decision) fails(c *claim.Claim, r *rule, why, required, observed string) {
	def, _ := claim.Lookup(c.ID)
	fix := def.Fix
	if why == codeValue { // it is shown, and of another kind
		switch {
		case slices.Contains(measuredClaims, c.ID):
			fix = "let what the policy asks for measure the guest: tee is the CPU's TEE, paravisor one that a TEE measured"
		case c.ID == "party.jurisdiction":
			fix = "offer a machine under the law of a country that the policy names"
		}
	}
	d.findings = append(d.findings, finding{rule: r, reason: Reason{
		Code: code(c.ID, why), Claim: c.ID, Subject: c.Subject, Status: claim.Affirmed, Required: required, Observed: cmp.Or(observed, "nothing"), Fix: fix, Who: def.Who,
	}})
}

// unknown notes that an affirmed claim cannot be compared.
func (d *decision) unknown(r *rule, c *claim.Claim, why claim.Reason, who claim.Party, fix string) {
	d.findings = append(d.findings, finding{rule: r, reason: Reason{
		Code: code(c.ID, why.Code()), Claim: c.ID, Subject: c.Subject, Status: claim.Unknown, Required: r.required, Observed: string(why), Fix: fix, Who: who,
	}})
}

// garbled notes a value that is not of its claim's kind, which is the appraiser's fault.
func (d *decision) garbled(r *rule, c *claim.Claim) {
	d.claimed(r, cause{c.ID, c.Subject, claim.Unknown, claim.Because(claim.Internal, "value %+.80q is not of the claim's kind", c.Value)})
}

// refuse looks for contradicted claims that the policy refuses. A structure that is contradicted is always refused.
func (d *decision) refuse() {
	if !slices.ContainsFunc(d.set, func(c claim.Claim) bool { return c.Status == claim.Contradicted }) {
		return
	}
	for _, f := range d.policy.program.refuse {
		d.refused(f)
	}
	d.refused(refusal{label: always + "*." + structure, pattern: "*." + structure})
}

// refused looks for contradicted claims that one line refuses.
func (d *decision) refused(f refusal) {
	for i := range d.set {
		if c := &d.set[i]; c.Status == claim.Contradicted && matches(f.pattern, c.ID) {
			d.claimed(&rule{label: f.label, required: "not contradicted"}, d.itself(c))
		}
	}
}
