package audit

import (
	"strconv"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// PopulationType is the type of the totals of a population.
const PopulationType = "assay/population/v1"

// PopulationColumns are the columns of [Row.Record].
var PopulationColumns = []string{
	"index", "time", "node", "evidence", "policy", "policy_name", "outcome", "reasons", "rules", "key", "verdict", "appraisal", "as_of", "build", "fault",
}

// Record returns the row as fields of text, in the order of [PopulationColumns]. Control characters of a stranger's text
// are replaced; what a spreadsheet would take for a formula is for the writer to mark.
func (r Row) Record() []string {
	rules := make([]string, len(r.Rules))
	for i, room := range r.Rules {
		rules[i] = room.Room + "=" + strconv.Itoa(room.Rules)
	}
	instant := func(t canon.Time) string {
		if t == 0 {
			return ""
		}
		return t.String()
	}
	record := []string{
		strconv.FormatInt(r.Index, 10), instant(r.Time), r.Node, present(r.Evidence), present(r.Policy), r.PolicyName, r.Outcome, strings.Join(r.Reasons, "; "),
		strings.Join(rules, " "), present(r.Key), present(r.Verdict), present(r.Appraisal), instant(r.AsOf), present(r.Build), r.Fault,
	}
	for i := range record {
		record[i] = Printable(record[i])
	}
	return record
}

// present writes a digest, and nothing for none.
func present(d canon.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// Totals are the figures that a population ties out to. Verdicts is what the log's tree of that size holds; Rows what was
// listed; Outcomes counts what [Report.Outcomes] of a replay counts.
type Totals struct {
	Type     string       `json:"type"`
	Outcome  Outcome      `json:"outcome"` // of reading; a row with a fault is one
	Trust    string       `json:"trust"`
	Origin   string       `json:"origin"`
	Size     int64        `json:"size"`
	Root     canon.Digest `json:"root,omitzero"`
	Scope    *Scoped      `json:"scope,omitzero"` // absent: the whole log. Else no more verdicts than its own are counted
	Verdicts int64        `json:"verdicts"`       // entries
	Rows     int64        `json:"rows"`
	Outcomes []KindCount  `json:"outcomes"`
	Policies []KindCount  `json:"policies"` // by digest
	Months   []KindCount  `json:"months"`   // by the entry's time
	Faulty   int64        `json:"faulty"`   // rows with a fault
	Faults   []Fault      `json:"faults"`   // of the log itself, the first MaxFaults
}

// Canonical returns the canonical bytes of the totals.
func (t Totals) Canonical() ([]byte, error) { return canon.Marshal(t) }

// Tallying adds up a population, row by row.
type Tallying struct {
	integrity                  Report
	outcomes, policies, months counter
	rows, faulty               int64
}

// Tally returns what adds up the rows of a reading.
func (g *Reading) Tally() *Tallying {
	return &Tallying{integrity: g.integrity, outcomes: counter{}, policies: counter{}, months: counter{}}
}

// Add counts a row.
func (t *Tallying) Add(r Row) {
	t.rows++
	t.months[month(r.Time)]++
	if !r.Policy.IsZero() {
		t.policies[r.Policy.String()]++
	}
	if r.Outcome != "" {
		t.outcomes[r.Outcome]++
	}
	if r.Fault != "" {
		t.faulty++
	}
}

// Totals returns the sums. The population is complete where Rows equals Verdicts, which counts entries of the tree that
// the checkpoint signs.
func (t *Tallying) Totals() Totals {
	i := t.integrity
	totals := Totals{
		Type: PopulationType, Outcome: i.Outcome, Trust: i.Trust, Origin: i.Origin, Size: i.Size, Root: i.Root, Scope: i.Scope, Verdicts: i.Verdicts.Logged,
		Rows: t.rows, Outcomes: t.outcomes.list(), Policies: t.policies.list(), Months: t.months.list(), Faulty: t.faulty, Faults: i.Faults,
	}
	if t.faulty > 0 || t.rows != totals.Verdicts {
		totals.Outcome = Faulty
	}
	return totals
}

// month names the month of an instant: 2026-02.
func month(t canon.Time) string { return t.Time().Format("2006-01") }
