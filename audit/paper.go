package audit

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// PaperType is the type of the working paper, and the payload type of its envelope.
const PaperType = "assay/paper/v1"

// Names of the files of a paper.
const (
	PaperJSON     = "paper.json"      // the paper, canonical: the payload of the envelope
	PaperHTML     = "paper.html"      // the same to read and to print; the paper holds its digest
	PaperEnvelope = "paper.dsse.json" // the paper, signed by the auditor (DSSE)
)

// Limits of what an auditor writes into a paper.
const (
	MaxPaperWord     = 200 // bytes of a title or name
	maxShownTrials   = 400 // trials that the page lists; the JSON has all
	maxShownVerdicts = 400 // drawn verdicts that the page lists; the JSON has all
)

// PaperOptions say what a paper is about and who makes it. All of it stands in the paper.
type PaperOptions struct {
	Title     string
	Auditor   string
	Dated     canon.Time   // the auditor's word; zero: not dated
	Seed      int64        // of the sample and of the challenge
	Size      int64        // verdicts of the sample
	By        string       // what the sample is parted by
	Challenge int64        // verdicts that are challenged
	Build     policy.Build // of this program
	Key       canon.Digest // of the auditor
}

// Paper is an auditor's working paper on one log: scope, what was done, what was found, what it does not show. The same
// log, trust file and options give the same bytes.
type Paper struct {
	Type       string          `json:"type"`
	Title      string          `json:"title"`
	Auditor    string          `json:"auditor"`
	Dated      canon.Time      `json:"dated,omitzero"`
	Key        canon.Digest    `json:"key"` // that signs the paper
	Outcome    Outcome         `json:"outcome"`
	Conclusion string          `json:"conclusion"`
	Checked    []string        `json:"checked"`
	NotChecked []string        `json:"not_checked"`
	Replay     Report          `json:"replay"`     // of the whole log
	Population Totals          `json:"population"` // of verdicts
	First      canon.Time      `json:"first,omitzero"`
	Last       canon.Time      `json:"last,omitzero"` // times of the first and the last verdict entry
	Engines    []EngineSeen    `json:"engines"`       // that made the verdicts
	Sample     Sample          `json:"sample"`        // replayed
	Challenge  ChallengeReport `json:"challenge"`
	Exceptions []Exception     `json:"exceptions"`
	Versions   Versions        `json:"versions"`
	HTML       canon.Digest    `json:"html"` // SHA-256 of the page
}

// Exception is one thing that is not as it should be.
type Exception struct {
	Where string   `json:"where"`
	What  string   `json:"what"`
	By    []string `json:"by"` // what found it: population, replay, sample, challenge
}

// EngineSeen counts the verdicts that one build made by one set of rules.
type EngineSeen struct {
	Rules    []verifier.RoomRules `json:"rules"`
	Build    canon.Digest         `json:"build"` // the signer's word
	Verdicts int64                `json:"verdicts"`
}

// Versions name what made the paper.
type Versions struct {
	Build policy.Build         `json:"build"`
	Rules []verifier.RoomRules `json:"rules"` // of this build
}

// Canonical returns the canonical bytes of the paper.
func (p Paper) Canonical() ([]byte, error) { return canon.Marshal(p) }

// checked and notChecked are the scope of a paper. They say what Replay, Sample and Challenge do.
var (
	checked = []string{
		"the checkpoint's signature, every tile, every leaf and every entry, and that no stream has a gap",
		"that every body and every input is there, with the digest that the log names",
		"that each challenge was issued once, and answered at most once, in time, by the node that it was made for",
		"every appraisal and every verdict: signature, inputs, and the result, computed again by the rules that made it, byte for byte",
		"that reference values and collateral stood in the log before they were used, and that no newer issue of that collateral stood there when they were",
		"of a log that continues another, that its first keys follow from those of the logs before it; that nothing follows an entry that closes the log",
		"that what each appraisal was told of who holds which device is what the enrolments and revocations before it say",
		"that the hourly heads entries commit to every stream as it stood, and that each erasure was allowed",
		"that every verdict entry of the tree is in the population, and that its totals are those of the replay",
		"the sample, drawn by the seed and computed again one by one",
		"the rules of this build, by altering one input at a time of verdicts that the seed drew",
	}
	notChecked = []string{
		"whether memory was probed physically, where a machine stands, and what it did between two appraisals",
		"whether the parties did what they say of themselves: people, contracts and places are other evidence",
		"instants against another clock than the log's own, where no witness cosigned",
		"whether newer collateral was to be had that the log does not hold, and what earlier quotes of a TPM's clock the server should have known",
		"of a log that continues another, or was closed: that other log, and that this one began with what stood there",
		"whether the vendors' root keys deserve the trust that everything here rests on",
		"the build that a verdict names beside its rules: that is the signer's word",
	}
)

// MakePaper replays a log, lists its verdicts, draws and replays a sample, challenges the rules, and puts it into a paper
// with its page. It reads the log twice, and what was drawn once more. trust may be nil, and then the outcome is never [Equal]. A paper whose key signs for the log itself is
// refused: nobody audits himself. It signs nothing: [SealPaper] does.
func MakePaper(ctx context.Context, src ledger.Source, trust *Trust, o Options, p PaperOptions) (Paper, []byte, error) {
	for _, s := range []string{p.Title, p.Auditor} {
		if s == "" || len(s) > MaxPaperWord {
			return Paper{}, nil, fmt.Errorf("paper: title and auditor want 1 to %d bytes", MaxPaperWord)
		}
	}
	sample, err := newParting(p.Seed, p.Size, p.By)
	if err != nil {
		return Paper{}, nil, fmt.Errorf("paper: %w", err)
	}
	challenge, err := newParting(p.Seed, p.Challenge, ByOutcome)
	if err != nil {
		return Paper{}, nil, fmt.Errorf("paper: challenge: %w", err)
	}
	g, err := readLog(ctx, src, trust, o)
	if err != nil {
		return Paper{}, nil, fmt.Errorf("paper: %w", err)
	}
	for _, k := range g.integrity.Keys {
		if k.Fingerprint == p.Key {
			return Paper{}, nil, fmt.Errorf("paper: the key %s signs for the log as its %s key; an auditor signs with his own", k.Fingerprint, k.Use)
		}
	}
	x := Paper{
		Type: PaperType, Title: p.Title, Auditor: p.Auditor, Dated: p.Dated, Key: p.Key, Checked: checked, NotChecked: notChecked,
		Engines: []EngineSeen{}, Exceptions: []Exception{}, Versions: Versions{p.Build, append(verifier.Rooms(), verifier.RoomRules{Room: "policy", Rules: policy.Rules})},
	}
	all := newSurvey(g)
	x.Replay, err = g.replayAll(ctx, func(row Row) {
		all.add(row)
		sample.add(row)
		challenge.add(row)
	})
	if err != nil {
		return Paper{}, nil, fmt.Errorf("paper: %w", err)
	}
	all.conclude(&x)
	if x.Sample, err = g.draw(ctx, sample, true); err != nil {
		return Paper{}, nil, fmt.Errorf("paper: %w", err)
	}
	drawn, err := g.draw(ctx, challenge, false)
	if err != nil {
		return Paper{}, nil, fmt.Errorf("paper: %w", err)
	}
	if x.Challenge, err = g.challengeSample(ctx, drawn, thisBuild); err != nil {
		return Paper{}, nil, fmt.Errorf("paper: %w", err)
	}
	x.conclude()
	page, err := x.page()
	if err != nil {
		return Paper{}, nil, fmt.Errorf("paper: %w", err)
	}
	x.HTML = canon.Sum(page)
	return x, page, nil
}

// survey is what a paper says of the population. Rows may come in any order.
type survey struct {
	sums        *Tallying
	first, last canon.Time
	engines     map[string]*surveyed
	faulty      []Row // the first of the log, MaxFaults and some
}

// surveyed is an engine, and the entry of its first verdict.
type surveyed struct {
	EngineSeen
	index int64
}

func newSurvey(g *Reading) *survey {
	return &survey{sums: g.Tally(), engines: map[string]*surveyed{}}
}

func (s *survey) add(row Row) {
	s.sums.Add(row)
	if s.first == 0 {
		s.first = row.Time
	}
	s.first, s.last = min(s.first, row.Time), max(s.last, row.Time)
	if row.Fault != "" {
		if s.faulty = append(s.faulty, row); len(s.faulty) >= 2*MaxFaults {
			s.orderFaulty()
		}
	}
	if row.Outcome == "" {
		return
	}
	name := fmt.Sprint(row.Rules, row.Build)
	e, ok := s.engines[name]
	if !ok {
		e = &surveyed{EngineSeen{row.Rules, row.Build, 0}, row.Index}
		s.engines[name] = e
	}
	e.Verdicts++
	e.index = min(e.index, row.Index)
}

func (s *survey) orderFaulty() {
	slices.SortFunc(s.faulty, func(a, b Row) int { return cmp.Compare(a.Index, b.Index) })
	s.faulty = s.faulty[:min(len(s.faulty), MaxFaults)]
}

// conclude writes the population into a paper.
func (s *survey) conclude(p *Paper) {
	p.Population, p.First, p.Last = s.sums.Totals(), s.first, s.last
	s.orderFaulty()
	for _, row := range s.faulty {
		p.except("population", fmt.Sprintf("entry %d", row.Index), row.Fault)
	}
	engines := slices.SortedFunc(maps.Values(s.engines), func(a, b *surveyed) int { return cmp.Compare(a.index, b.index) })
	for _, e := range engines {
		p.Engines = append(p.Engines, e.EngineSeen)
	}
}

// except lists an exception, once for all that find it.
func (p *Paper) except(by, where, what string) {
	what = strings.TrimPrefix(strings.TrimPrefix(what, notReplayed), where+": ")
	i := slices.IndexFunc(p.Exceptions, func(e Exception) bool { return e.Where == where && e.What == what })
	if i < 0 {
		p.Exceptions = append(p.Exceptions, Exception{where, what, []string{by}})
	} else if e := &p.Exceptions[i]; !slices.Contains(e.By, by) {
		e.By = append(e.By, by)
	}
}

// conclude lists the exceptions and says in a sentence what they come to.
func (p *Paper) conclude() {
	for _, f := range p.Replay.Faults {
		p.except("replay", f.Part, f.What)
	}
	if !slices.Equal(p.Population.Outcomes, p.Replay.Outcomes) || p.Population.Verdicts != p.Replay.Verdicts.Logged {
		p.except("population", "totals", "the totals are not those of the replay")
	}
	for _, d := range p.Sample.Drawn {
		if d.Replayed != replayedEqual && d.Replayed != replayedUnvouched {
			p.except("sample", fmt.Sprintf("entry %d", d.Row.Index), d.Replayed)
		}
	}
	for _, t := range p.Challenge.Trials {
		if t.Result == TrialAccepted || t.Result == TrialDiffers {
			p.except("challenge", fmt.Sprintf("entry %d, %s", t.Index, t.Alteration), t.What)
		}
	}
	outcomes := []Outcome{p.Replay.Outcome, p.Population.Outcome, p.Sample.Outcome, p.Challenge.Outcome}
	switch {
	case len(p.Exceptions) > 0 || slices.Contains(outcomes, Faulty):
		p.Outcome = Faulty
		p.Conclusion = fmt.Sprintf("%s found. What rests on them is not shown.", counted(int64(len(p.Exceptions)), "exception"))
		if more := p.Replay.FaultCount - int64(len(p.Replay.Faults)); more > 0 {
			p.Conclusion += fmt.Sprintf(" The replay found %d more faults than are listed.", more)
		}
	case slices.Contains(outcomes, NotAnchored):
		p.Outcome = NotAnchored
		var why []string
		if u := p.Replay.undecided(); u != "" {
			why = append(why, u)
		}
		if p.Challenge.Outcome == NotAnchored && p.Replay.Outcome == Equal {
			why = append(why, "there was nothing to challenge the rules with")
		}
		p.Conclusion = "No exception was found, and yet nothing is shown: " + strings.Join(why, "; ") + "."
	default:
		p.Outcome = Equal
		of := "of the log up to this checkpoint"
		if s := p.Replay.Scope; s != nil {
			of = fmt.Sprintf("within the scope %q, and of no other entry of the log,", Printable(s.Criteria.String()))
		}
		p.Conclusion = "Every appraisal and every verdict " + of + " follows from its logged inputs, byte for byte. The keys are those of the trust file. No exception was found."
	}
}

//go:embed paper.html
var pageText string

var pageTemplate = template.Must(template.New("paper").Funcs(template.FuncMap{
	"printable": Printable,
	"counted":   counted,
	"and":       and,
	"witnesses": Witnessing.text,
	"bounds":    TimeBounds.text,
	"rules": func(rules []verifier.RoomRules) string {
		var words []string
		for _, r := range rules {
			words = append(words, fmt.Sprintf("%s %d", r.Room, r.Rules))
		}
		return Printable(strings.Join(words, ", "))
	},
}).Parse(pageText))

// page renders the paper: one page without scripts and without anything from elsewhere.
func (p Paper) page() ([]byte, error) {
	var b bytes.Buffer
	otherRoots := int64(0)
	for _, r := range p.Replay.Roots {
		if !r.Vendor {
			otherRoots += r.Appraisals
		}
	}
	err := pageTemplate.Execute(&b, struct {
		Paper
		OtherRoots int64
		Trials     []Trial
		Drawn      []Drawn
		Files      struct{ JSON, Envelope string }
	}{p, otherRoots, p.Challenge.Trials[:min(len(p.Challenge.Trials), maxShownTrials)], p.Sample.Drawn[:min(len(p.Sample.Drawn), maxShownVerdicts)],
		struct{ JSON, Envelope string }{PaperJSON, PaperEnvelope}})
	return b.Bytes(), err
}

// SealPaper signs a paper with the auditor's key, which must be the one that the paper names, and returns its files.
func SealPaper(p Paper, page []byte, auditor ledger.Signer) ([]File, error) {
	id, err := ledger.KeyID(auditor.Public())
	if err != nil {
		return nil, fmt.Errorf("seal paper: %w", err)
	}
	if id != p.Key || canon.Sum(page) != p.HTML {
		return nil, errors.New("seal paper: the paper names another key or another page")
	}
	payload, err := p.Canonical()
	if err != nil {
		return nil, fmt.Errorf("seal paper: %w", err)
	}
	env, err := ledger.Seal(PaperType, payload, auditor)
	if err != nil {
		return nil, fmt.Errorf("seal paper: %w", err)
	}
	sealed, err := canon.Marshal(env)
	if err != nil {
		return nil, fmt.Errorf("seal paper: %w", err)
	}
	return []File{{PaperJSON, payload}, {PaperHTML, page}, {PaperEnvelope, sealed}}, nil
}

// OpenPaper reads a paper's files and checks that the auditor's key signed it, and that paper and page are those that were
// signed. Whether what it says is so, only making it again shows.
func OpenPaper(files []File, auditor ledger.Key) (Paper, error) {
	file := func(name string) []byte {
		i := slices.IndexFunc(files, func(f File) bool { return f.Name == name })
		if i < 0 {
			return nil
		}
		return files[i].Data
	}
	var p Paper
	pub, err := auditor.Public()
	if err != nil {
		return p, fmt.Errorf("paper: %w", err)
	}
	env, err := parsePaperEnvelope(file(PaperEnvelope))
	switch {
	case err != nil:
		return p, &Fault{Part: PaperEnvelope, Index: NoIndex, What: err.Error()}
	case env.PayloadType != PaperType:
		return p, &Fault{Part: PaperEnvelope, Index: NoIndex, What: fmt.Sprintf("payload type %.80q is not known to this build, want %q", env.PayloadType, PaperType)}
	case len(env.Signatures) != 1 || !env.SignedBy(pub):
		return p, &Fault{Part: PaperEnvelope, Index: NoIndex, What: "not signed by the auditor's key, and by it alone"}
	case !bytes.Equal(env.Payload, file(PaperJSON)):
		return p, &Fault{Part: PaperJSON, Index: NoIndex, What: "not the paper that was signed"}
	}
	if err := canon.Unmarshal(env.Payload, &p); err != nil {
		return p, &Fault{Part: PaperJSON, Index: NoIndex, What: err.Error()}
	}
	if p.Type != PaperType {
		return p, &Fault{Part: PaperJSON, Index: NoIndex, What: fmt.Sprintf("type %.80q is not known to this build, want %q", p.Type, PaperType)}
	}
	if canon.Sum(file(PaperHTML)) != p.HTML {
		return p, &Fault{Part: PaperHTML, Index: NoIndex, What: "not the page that was signed"}
	}
	return p, nil
}

// parsePaperEnvelope reads the envelope of a paper, which is larger than others are.
func parsePaperEnvelope(data []byte) (ledger.Envelope, error) {
	var env ledger.Envelope
	if len(data) > MaxPaper {
		return env, fmt.Errorf("%d bytes, at most %d", len(data), MaxPaper)
	}
	err := canon.Unmarshal(data, &env)
	return env, err
}
