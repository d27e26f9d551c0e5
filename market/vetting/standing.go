package vetting

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

const (
	codeSelfAsserted = claim.SelfAsserted
	codeLapsed       = claim.Lapsed
)

// Assertion is what a provider says of itself. It counts for nothing; it says which claims are wanted.
type Assertion struct {
	Subject   Subject `json:"subject"`
	Attribute string  `json:"attribute"`
	Value     string  `json:"value"`
}

// Validate checks an assertion alone.
func (a Assertion) Validate() error {
	if err := a.Subject.Validate(); err != nil {
		return err
	}
	return checkValue(a.Subject.Kind, a.Attribute, a.Value)
}

func (a Assertion) compare(o Assertion) int {
	if c := a.Subject.Compare(o.Subject); c != 0 {
		return c
	}
	return strings.Compare(a.Attribute, o.Attribute)
}

// Word is what one issuer says of an attribute.
type Word struct {
	Issuer string       `json:"issuer"`
	Value  string       `json:"value"`
	Code   string       `json:"code,omitzero"` // why it does not count; absent: it does
	Digest canon.Digest `json:"digest"`        // identity of the claim's envelope
	From   canon.Time   `json:"from"`
	Until  canon.Time   `json:"until"` // first instant at which it holds no more
}

// Attribute is one attribute of a certificate: what is said of one subject, by whom, and what counts of it.
type Attribute struct {
	Subject  Subject `json:"subject"`
	ID       string  `json:"id"`
	Asserted string  `json:"asserted,omitzero"` // what the provider says
	Status   string  `json:"status"`            // valid, or the code of what it lacks
	Value    string  `json:"value,omitzero"`    // what counts, where issuers agree on it
	Words    []Word  `json:"words,omitzero"`    // ordered by issuer
}

// StatusValid is the status of an attribute of which an issuer's word counts.
const StatusValid = "valid"

// Axes are the four axes of which a tier is drawn.
type Axes struct {
	Identity string `json:"identity"`
	Hardware string `json:"hardware"`
	Facility string `json:"facility"`
	Record   Record `json:"record,omitzero"`
}

// Standing is what counts for a place at a time.
type Standing struct {
	At         canon.Time  `json:"at"`
	Tier       string      `json:"tier,omitzero"` // that what counts carries, faults with a running clock left out; absent: none
	Axes       Axes        `json:"axes"`
	DataClass  string      `json:"data_class,omitzero"` // the most delicate data that the place may hold
	Attributes []Attribute `json:"attributes,omitzero"`
	Findings   []Finding   `json:"findings,omitzero"`    // ordered by code
	Missing    []string    `json:"missing,omitzero"`     // what the next tier wants
	Measured   int64       `json:"measured,omitzero"`    // score of the benchmark
	MeasuredAt canon.Time  `json:"measured_at,omitzero"` // of it
	Witnessed  bool        `json:"witnessed,omitzero"`   // a quorum cosigned the log
	Evidence   canon.Time  `json:"evidence,omitzero"`    // of the hardware's evidence
	Until      canon.Time  `json:"until"`                // first instant at which time alone may have changed it
}

// What a tier can lack.
const (
	LacksStake    = "stake"
	LacksIdentity = "identity"       // party.identity legal-entity, and party.legal-entity
	LacksContact  = "contact"        // an incident contact that answers in time
	LacksHardware = "hardware"       // for identified a benchmark, for attested fresh evidence that a confidential policy accepts
	LacksRecord   = "record"         // days, completion, uptime
	LacksFacility = "facility"       // party.facility bound or audited
	LacksAudit    = "facility-audit" // party.facility-audit: ISO 27001 or SOC 2 II, in date; and two auditors who speak of the site
	LacksWitness  = "witnesses"      // that cosign the log
)

// Stand weighs everything that is said of a place at a time. What was observed must be valid; the past is asked as today is,
// with what the registry holds of it.
func (r *Registry) Stand(p Place, asserted []Assertion, o Observed, q Parameters, at canon.Time) Standing {
	s := Standing{At: at, Until: at + canon.Time(q.EvidenceAge), Witnessed: o.Quorum}
	s.Attributes = r.attributes(p, asserted, o, q, at, &s.Until)
	w := weighed{&s}
	s.Axes = Axes{
		Identity: w.level("party.identity", claim.Identities), Facility: w.level("party.facility", claim.Facilities),
		Hardware: HardwareNone, Record: o.Record,
	}
	if end := o.MeasuredAt + claim.MeasuredTerm; o.Measured > 0 && at < end {
		s.Measured, s.MeasuredAt = o.Measured, o.MeasuredAt
		s.Axes.Hardware = HardwareMeasured
		s.Until = min(s.Until, end)
	}
	if end := o.Answered + canon.Time(q.EvidenceAge); o.Answered != 0 && at > end {
		s.Findings = append(s.Findings, Finding{Code: FindingHeartbeat, Since: end})
	} else if o.Answered != 0 {
		s.Until = min(s.Until, end+1)
	}
	if f, found := p.replaced(o.Shown); found {
		s.Findings = append(s.Findings, f)
	}
	if f, found := w.elsewhere(); found {
		s.Findings = append(s.Findings, f)
	}
	s.Findings = append(s.Findings, o.Hardware.Findings...)
	if l := o.Hardware.Level; l == HardwareCPU || l == HardwareGPU {
		s.Evidence = o.Hardware.At
		s.Axes.Hardware = l
		end := o.Hardware.At + canon.Time(q.EvidenceAge)
		if at > end {
			s.Findings = append(s.Findings, Finding{Code: FindingStale, Since: end})
		} else {
			s.Until = min(s.Until, end+1)
		}
	}
	gone := Finding{Code: FindingUnitRevoked}
	for _, u := range p.within() {
		for _, v := range r.revoked[u] {
			switch {
			case v.Effective > at:
				s.Until = min(s.Until, v.Effective)
			case gone.Since == 0:
				gone.Since, gone.About = v.Since, u.String()+" "+v.Reason
			default:
				gone.Since, gone.About = min(gone.Since, v.Since), gone.About+parted+u.String()+" "+v.Reason
			}
		}
	}
	if gone.Since != 0 {
		s.Findings = append(s.Findings, gone)
	}
	if len(o.Contested) > 0 {
		s.Findings = append(s.Findings, Finding{Code: FindingContested, About: strings.Join(o.Contested, parted)})
	}
	audit := w.audited(at)
	if audit.Until != 0 && at >= audit.Until {
		s.Findings = append(s.Findings, Finding{Code: FindingAudit, Since: audit.Until, About: "party.facility-audit of " + audit.Issuer})
	}
	s.Tier, s.Missing = tier(s.Axes, w, o, q, audit)
	if s.Tier == "" {
		s.Findings = append(s.Findings, Finding{Code: FindingNoTier})
	}
	s.DataClass = r.dataClass(p, s.Tier, s.Axes.Facility, at, &s.Until)
	slices.SortStableFunc(s.Findings, func(a, b Finding) int { return strings.Compare(a.Code, b.Code) })
	s.Findings = slices.CompactFunc(s.Findings, func(a, b Finding) bool { return a.Code == b.Code })
	return s
}

// attributes weighs what is said of the parts of a place, the smallest part first, and lowers until to the first instant at
// which one of the words may count otherwise. Whose law counts comes first: a claim for some countries counts where the law is
// theirs, and one that does not count there voids no other.
func (r *Registry) attributes(p Place, asserted []Assertion, o Observed, q Parameters, at canon.Time, until *canon.Time) (out []Attribute) {
	var laws []Attribute
	for _, subject := range p.chain() {
		if a, ok := r.attribute(subject, "party.jurisdiction", "", p, asserted, o, q, at, until); ok {
			laws = append(laws, a)
		}
	}
	law := weighed{&Standing{Attributes: laws}}.text("party.jurisdiction")
	for _, subject := range p.chain() {
		for _, id := range vouched {
			if a, ok := r.attribute(subject, id, law, p, asserted, o, q, at, until); ok {
				out = append(out, a)
			}
		}
	}
	return out
}

// attribute weighs what is said of one attribute of a part of a place, and reports false where nothing is.
func (r *Registry) attribute(subject Subject, id, law string, p Place, asserted []Assertion, o Observed, q Parameters, at canon.Time, until *canon.Time) (a Attribute, ok bool) {
	if subject.Kind == UnitDevice && slices.Contains(o.Contested, subject.ID) {
		return a, false // what is said of the device is said of its holder
	}
	a = Attribute{Subject: subject, ID: id}
	i, wanted := slices.BinarySearchFunc(asserted, Assertion{Subject: subject, Attribute: id}, Assertion.compare)
	if wanted {
		a.Asserted = asserted[i].Value
	}
	var since []canon.Time
	for _, s := range r.said[subject] {
		if s.Attribute != id {
			continue
		}
		code, said := r.weigh(s, p, law, at)
		if !said {
			continue
		}
		a.Words = append(a.Words, Word{s.Issuer, s.Value, code, s.digest, s.Issued, s.Expires})
		since = append(since, s.since)
		if s.Expires > at {
			*until = min(*until, s.Expires)
		}
		if s.Issued > at {
			*until = min(*until, s.Issued)
		}
		for _, u := range []Subject{{UnitClaim, s.digest.String()}, {UnitIssuer, s.Issuer}} {
			for _, v := range r.revoked[u] {
				if v.Effective > at {
					*until = min(*until, v.Effective)
				}
			}
		}
	}
	if len(a.Words) == 0 && !wanted {
		return a, false
	}
	a.agree(since, q, at, until)
	return a, true
}

// agree finds out whether the words of several issuers go together. Two that are more than a level apart void each other for a
// time, after which the lower one counts: the time begins when both have said so, and who says it again begins no other.
func (a *Attribute) agree(since []canon.Time, q Parameters, at canon.Time, until *canon.Time) {
	levels := attributes[a.ID].levels
	if levels != nil {
		low, high := -1, -1
		for i, w := range a.Words {
			if w.Code != "" {
				continue
			}
			if low < 0 || slices.Index(levels, w.Value) < slices.Index(levels, a.Words[low].Value) {
				low = i
			}
			if high < 0 || slices.Index(levels, w.Value) > slices.Index(levels, a.Words[high].Value) {
				high = i
			}
		}
		if low >= 0 && slices.Index(levels, a.Words[high].Value)-slices.Index(levels, a.Words[low].Value) > 1 {
			end := max(since[low], since[high]) + canon.Time(q.Discrepancy)
			for i := range a.Words {
				w := &a.Words[i]
				if w.Code == "" && (at < end || w.Value != a.Words[low].Value) {
					w.Code = CodeDiscrepancy
				}
			}
			if at < end {
				*until = min(*until, end)
			}
		}
	}
	slices.SortStableFunc(a.Words, func(x, y Word) int { return strings.Compare(x.Issuer, y.Issuer) })
	a.conclude()
}

// conclude says what counts of an attribute.
func (a *Attribute) conclude() {
	levels := attributes[a.ID].levels
	a.Value, a.Status = "", ""
	for i := range a.Words {
		w := &a.Words[i]
		if w.Code == "" && levels == nil && a.Asserted != "" && w.Value != a.Asserted {
			w.Code = CodePending
		}
		if w.Code != "" {
			continue
		}
		switch {
		case a.Status == "":
			a.Status, a.Value = StatusValid, w.Value
		case levels != nil && slices.Index(levels, w.Value) < slices.Index(levels, a.Value):
			a.Value = w.Value // the lower of two neighbours
		case levels == nil && w.Value != a.Value:
			a.Status = CodeConflict
		}
	}
	switch {
	case a.Status == CodeConflict:
		a.Value = ""
	case a.Status == StatusValid && levels != nil && slices.Index(levels, a.Value) < slices.Index(levels, a.Asserted):
		a.Status = CodePending // what the provider is shown to be counts; what it says more does not
	case a.Status == "" && len(a.Words) == 0:
		a.Status = CodePending
	case a.Status == "":
		a.Status = a.Words[len(a.Words)-1].Code
		for _, w := range a.Words {
			if w.Code == CodePending || w.Code == CodeDiscrepancy {
				a.Status = w.Code
			}
		}
	}
}

// weighed reads the attributes of a standing for the place as a whole.
type weighed struct{ *Standing }

// level returns the highest level that counts of any part of the place: a site that was audited is audited whatever less is
// shown of one host in it.
func (w weighed) level(id string, levels []string) string {
	best := 0
	for _, a := range w.Attributes {
		if a.ID == id && a.Value != "" {
			best = max(best, slices.Index(levels, a.Value))
		}
	}
	return levels[best]
}

// text returns what counts of the smallest part of which something does.
func (w weighed) text(id string) string {
	for _, a := range w.Attributes {
		if a.ID == id && a.Value != "" {
			return a.Value
		}
	}
	return ""
}

// audited returns the word of an audit report that counts, or the one that lapsed last, of a report that nothing else is wrong
// with.
func (w weighed) audited(at canon.Time) (best Word) {
	for _, a := range w.Attributes {
		if a.ID != "party.facility-audit" {
			continue
		}
		for _, word := range a.Words {
			if (word.Code == "" || word.Code == codeLapsed) && word.Until > best.Until {
				best = word
			}
		}
	}
	return best
}

// elsewhere finds that issuers who may speak say of a host, or of its site, that it is in different countries: it is in one at
// most. What the provider says itself settles nothing. An issuer that says two things of a host and its site is heard of no
// other: it may be about to say the second one anew.
func (w weighed) elsewhere() (f Finding, found bool) {
	type word struct{ issuer, country string }
	var said []word
	for _, a := range w.Attributes {
		if a.ID != "party.jurisdiction" || a.Subject.Kind != UnitHost && a.Subject.Kind != UnitSite {
			continue
		}
		for _, x := range a.Words {
			if x.Code == "" || x.Code == CodePending {
				said = append(said, word{x.Issuer, x.Value})
			}
		}
	}
	var about []string
	for _, x := range said {
		if slices.ContainsFunc(said, func(o word) bool { return o.issuer != x.issuer && o.country != x.country }) {
			about = append(about, x.country+" by "+x.issuer)
		}
	}
	slices.Sort(about)
	return Finding{Code: FindingLocation, About: strings.Join(slices.Compact(about), parted)}, about != nil
}

// auditors counts who says of the site what the highest tier asks: that it is bound or audited, or that a report is in date.
func (w weighed) auditors(report Word) int64 {
	who := map[string]bool{}
	if report.Issuer != "" {
		who[report.Issuer] = true
	}
	for _, a := range w.Attributes {
		for _, word := range a.Words {
			bound := a.ID == "party.facility" && slices.Index(claim.Facilities, word.Value) >= slices.Index(claim.Facilities, claim.FacilityBound)
			if word.Code == "" && (bound || a.ID == "party.facility-audit") {
				who[word.Issuer] = true
			}
		}
	}
	return int64(len(who))
}

// tier draws the tier, and what the one above it lacks.
func tier(x Axes, w weighed, o Observed, q Parameters, audit Word) (tier string, missing []string) {
	for _, t := range q.Tiers {
		var lacks []string
		want := func(ok bool, what string) {
			if !ok {
				lacks = append(lacks, what)
			}
		}
		switch t.Tier {
		case claim.TierAnonymous:
			want(o.Stake, LacksStake)
		case claim.TierIdentified, claim.TierAttested, claim.TierAttestedFacility:
			want(o.Stake, LacksStake)
			want(x.Identity == claim.IdentityLegalEntity && w.text("party.legal-entity") != "", LacksIdentity)
		}
		want(t.ContactHours == 0 || o.ContactHours > 0 && o.ContactHours <= t.ContactHours, LacksContact)
		level := slices.Index(HardwareLevels, x.Hardware)
		switch t.Tier {
		case claim.TierIdentified:
			want(level >= 1, LacksHardware)
		case claim.TierAttested, claim.TierAttestedFacility:
			want(level >= 2, LacksHardware)
		}
		want(o.Record.Days >= t.RecordDays && (o.Record.Leases < t.MinLeases || o.Record.Completion >= t.MinCompletion) && o.Record.Uptime >= t.MinUptime, LacksRecord)
		if t.Tier == claim.TierAttestedFacility {
			want(slices.Index(claim.Facilities, x.Facility) >= slices.Index(claim.Facilities, claim.FacilityBound), LacksFacility)
			want(audit.Issuer != "" && w.auditors(audit) >= t.Auditors, LacksAudit)
		}
		want(o.Witnesses >= t.Witnesses, LacksWitness)
		if lacks != nil {
			return tier, lacks
		}
		tier = t.Tier
	}
	return tier, nil
}

// dataClass returns the most delicate class of data that the tier may hold, lowered by notices about the hardware's
// generation. A notice revokes nobody; it does not bind where an auditor keeps watch over who comes near the machine.
func (r *Registry) dataClass(p Place, tier, facility string, at canon.Time, until *canon.Time) string {
	best := -1
	for i, c := range policy.DataClasses {
		if slices.Contains(c.Holders(), tier) {
			best = i
		}
	}
	for _, u := range p.within() {
		if u.Kind != UnitModel {
			continue
		}
		for _, s := range r.said[u] {
			if s.at <= at && s.Expires > at {
				*until = min(*until, s.Expires)
			}
			if s.Attribute == AttributeDataClass && r.stood(s, at) && facility != claim.FacilityAudited {
				best = min(best, slices.Index(policy.DataClasses, policy.DataClass(s.Value)))
			}
		}
	}
	if best < 0 {
		return ""
	}
	return string(policy.DataClasses[best])
}

// Holds reports whether the place may hold data of a class.
func (s Standing) Holds(class policy.DataClass) bool {
	may := slices.Index(policy.DataClasses, policy.DataClass(s.DataClass))
	return may >= 0 && slices.Index(policy.DataClasses, class) <= may && class != ""
}

// Validate checks the form of a standing that an event carries. Whether it is what the registry says is found out by computing
// it anew.
func (s Standing) Validate() error {
	switch {
	case s.At <= 0 || s.Until <= s.At:
		return fmt.Errorf("standing: of %s, until %s", s.At, s.Until)
	case s.Tier != "" && !slices.Contains(claim.Tiers, s.Tier):
		return fmt.Errorf("standing: tier %.80q: want one of %s, and no number", s.Tier, strings.Join(claim.Tiers, ", "))
	case len(s.Findings) > MaxFindings:
		return fmt.Errorf("standing: %d findings, at most %d", len(s.Findings), MaxFindings)
	}
	for i, f := range s.Findings {
		if !effects[f.Code].automatic {
			return fmt.Errorf("standing: finding %.80q is not known to this build", f.Code)
		}
		if i > 0 && s.Findings[i-1].Code >= f.Code {
			return fmt.Errorf("standing: finding %.80q is not in order, each once", f.Code)
		}
	}
	return nil
}

// partyClaims returns the claims of the party behind a place, in a tier: see [Certificate.PartyClaims].
func (s Standing) partyClaims(tier string, why claim.Reason, provider string, until canon.Time) claim.Set {
	var set claim.Set
	for _, id := range vouched {
		s.speak(&set, id, provider)
	}
	number := func(id string, n int64) {
		set.Add(claim.Claim{ID: id, Subject: claim.SubjectParty, Status: claim.Affirmed, Value: strconv.FormatInt(n, 10), From: s.At})
	}
	if s.Axes.Record.Days > 0 {
		number("party.record-uptime", s.Axes.Record.Uptime)
	}
	if s.Axes.Record.Leases > 0 {
		number("party.record-completion", s.Axes.Record.Completion)
	}
	if s.Measured > 0 {
		set.Add(claim.Measured(s.Measured, s.MeasuredAt))
	}
	if s.Witnessed {
		set.Affirm("party.witnessed", claim.SubjectParty, "")
	} else {
		set.Unknown("party.witnessed", claim.SubjectParty, claim.Because(claim.CollateralMissing, "no quorum of witnesses cosigned the log"))
	}
	if why == "" && tier == "" {
		why = claim.Because(FindingNoTier, "nothing counts that carries a tier")
	}
	if why != "" {
		set.Unknown("party.tier", claim.SubjectParty, why)
		return set
	}
	// The tier rests on the words that it is drawn from, so that who trusts only some issuers trusts no tier of others'.
	c := claim.Claim{ID: "party.tier", Subject: claim.SubjectParty, Status: claim.Affirmed, Value: tier, From: s.At, Until: until}
	if tier != claim.TierAnonymous {
		c.Basis = append(c.Basis, "party.identity", "party.legal-entity")
	}
	if tier == claim.TierAttestedFacility {
		c.Basis = append(c.Basis, "party.facility")
		if w := (weighed{&s}).audited(s.At); w.Code == "" {
			c.Basis = append(c.Basis, "party.facility-audit")
		} else { // in its grace
			c.Basis = append(c.Basis, claim.IssuerGround+w.Issuer)
		}
	}
	set.Add(c)
	return set
}

// speak adds what each issuer says of an attribute: of several subjects the highest level, or the smallest part, and what
// counts before what does not.
func (s Standing) speak(set *claim.Set, id, provider string) {
	levels := attributes[id].levels
	type best struct {
		Word
		subject Subject
	}
	var words []best
	asserted := ""
	for _, a := range s.Attributes {
		if a.ID != id {
			continue
		}
		if asserted == "" {
			asserted = a.Asserted
		}
		for _, w := range a.Words {
			i := slices.IndexFunc(words, func(b best) bool { return b.Issuer == w.Issuer })
			switch {
			case i < 0:
				words = append(words, best{w, a.Subject})
			case (w.Code == "") != (words[i].Code == ""):
				if w.Code == "" {
					words[i] = best{w, a.Subject}
				}
			case levels != nil && slices.Index(levels, w.Value) > slices.Index(levels, words[i].Value):
				words[i] = best{w, a.Subject}
			}
		}
	}
	// What is said of the smallest part is what holds there: a larger part's other law is not in conflict with it.
	if part := slices.IndexFunc(words, func(b best) bool { return b.Code == "" }); part >= 0 && levels == nil {
		smallest := words[part].subject
		for _, b := range words {
			if b.Code == "" && b.subject.Compare(smallest) < 0 {
				smallest = b.subject
			}
		}
		words = slices.DeleteFunc(words, func(b best) bool { return b.Code == "" && b.subject.Kind != smallest.Kind })
	}
	for _, b := range words {
		c := claim.Claim{ID: id, Subject: claim.SubjectParty, Issuer: b.Issuer, Value: b.Value, Status: claim.Affirmed, Basis: []string{claim.IssuerGround + b.Issuer}, From: b.From, Until: b.Until - 1}
		if b.Code != "" {
			c.Status, c.Reason = claim.Unknown, claim.Because(b.Code, "%s", Means(b.Code))
		}
		set.Add(c)
	}
	if asserted != "" && !slices.ContainsFunc(words, func(b best) bool { return b.Issuer == provider }) {
		set.Add(claim.Claim{ID: id, Subject: claim.SubjectParty, Issuer: provider, Value: asserted, Status: claim.Unknown, Basis: []string{claim.IssuerGround + provider},
			Reason: claim.Because(claim.SelfAsserted, "%s", Means(claim.SelfAsserted))})
	}
}
