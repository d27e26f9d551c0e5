package vetting

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// CarriedType is the type of a part of what a log goes on with.
const CarriedType = "assay/carried/v1"

// Carried is a part of what stood at the end of a log, as the next one begins with it: the body of an entry of kind carried/v1.
// Histories stay where they are; of each life cycle there is its state, and which event was its last. Whoever has the next
// log alone goes on from there and takes the operator's word for it; whoever has both computes it anew ([Book.Leave]).
type Carried struct {
	Type  string        `json:"type"`
	Log   string        `json:"log"`            // origin of the log before
	Part  int64         `json:"part"`           // from 0
	Last  bool          `json:"last,omitzero"`  // no part follows
	Items []CarriedItem `json:"items,omitzero"` // in the order of [CarriedItem.compare]
}

// CarriedItem is one thing that stood. Exactly one member is there.
type CarriedItem struct {
	Word        *CarriedWord        `json:"word,omitzero"`
	Facts       *Facts              `json:"facts,omitzero"`
	Device      *CarriedDevice      `json:"device,omitzero"`
	Certificate *CarriedCertificate `json:"certificate,omitzero"`
	Appraised   *Appraised          `json:"appraised,omitzero"`
	Benchmark   *CarriedBenchmark   `json:"benchmark,omitzero"`
}

// CarriedWord is an entry of kind claim/v1 or rules/v1, of any log before. All of them are carried, in their order: whether a word
// counts depends on who might speak when it was said.
type CarriedWord struct {
	Kind string       `json:"kind"`
	Body canon.Digest `json:"body"`
	At   canon.Time   `json:"at"` // of the entry
}

// CarriedDevice is the identity of a device that somebody holds.
type CarriedDevice struct {
	Last  canon.Digest `json:"last"` // commitment of the entry of its last event
	State DeviceState  `json:"state"`
}

// CarriedCertificate is a certificate that has not ended, or the last one of its host.
type CarriedCertificate struct {
	Last  canon.Digest `json:"last"` // commitment of the entry of its last event
	State Certificate  `json:"state"`
}

// Appraised names the last appraisal of a node. One that was erased is left out.
type Appraised struct {
	Node      string       `json:"node"`
	Appraisal canon.Digest `json:"appraisal"` // body
}

// CarriedBenchmark names a benchmark of a node that still counts.
type CarriedBenchmark struct {
	Node      string       `json:"node"`
	Starts    int64        `json:"starts"`    // milliseconds since 1970, as the challenge has it
	Challenge canon.Digest `json:"challenge"` // bodies of the records
	Result    canon.Digest `json:"result"`
}

// Counts reports whether the benchmark may count at a time, or later.
func (b CarriedBenchmark) Counts(at canon.Time) bool {
	return canon.Time(b.Starts/1000)+claim.MeasuredTerm > at
}

// Stays reports whether a certificate is carried over: it has not ended, or is the one that was drafted last for its host,
// which says something of the party as long as there is no other.
func (c Certificate) Stays(lastOfHost bool) bool { return lastOfHost || !c.Ended() }

// rank and id order items; words keep the order of the log.
func (i CarriedItem) rank() (rank int, id string) {
	switch {
	case i.Word != nil:
		return 0, ""
	case i.Facts != nil:
		return 1, i.Facts.Provider
	case i.Device != nil:
		return 2, i.Device.State.Device
	case i.Certificate != nil:
		return 3, i.Certificate.State.ID
	case i.Appraised != nil:
		return 4, i.Appraised.Node
	}
	return 5, fmt.Sprintf("%s %016d %s", i.Benchmark.Node, i.Benchmark.Starts, i.Benchmark.Result)
}

func (i CarriedItem) compare(o CarriedItem) int {
	a, x := i.rank()
	b, y := o.rank()
	return cmp.Or(cmp.Compare(a, b), strings.Compare(x, y))
}

// Order puts items into the order in which they are carried; words stay in theirs.
func Order(items []CarriedItem) { slices.SortStableFunc(items, CarriedItem.compare) }

// Name says what an item is of, in words.
func (i CarriedItem) Name() string {
	_, id := i.rank()
	switch {
	case i.Word != nil:
		return i.Word.Kind + " " + i.Word.Body.Short()
	case i.Facts != nil:
		return "facts about " + id
	case i.Device != nil:
		return "device " + id
	case i.Certificate != nil:
		return "certificate " + id
	case i.Appraised != nil:
		return "the last appraisal of node " + id
	}
	return "benchmark " + i.Benchmark.Result.Short() + " of node " + i.Benchmark.Node
}

// Kind says what kind of thing an item is: the kind of a word's entry, else what it is.
func (i CarriedItem) Kind() string {
	rank, _ := i.rank()
	if i.Word != nil {
		return i.Word.Kind
	}
	return [...]string{1: "facts", "device", "certificate", "appraisal", "benchmark"}[rank]
}

// Validate checks an item alone, so that a life cycle can go on from it.
func (i CarriedItem) Validate() error {
	members := 0
	for _, there := range []bool{i.Word != nil, i.Facts != nil, i.Device != nil, i.Certificate != nil, i.Appraised != nil, i.Benchmark != nil} {
		if there {
			members++
		}
	}
	if members != 1 {
		return fmt.Errorf("%d members, want one", members)
	}
	switch {
	case i.Word != nil:
		if w := i.Word; w.Kind != ledger.KindClaim && w.Kind != ledger.KindRules || w.Body.IsZero() || w.At <= 0 {
			return fmt.Errorf("a word of kind %.80q at %s", w.Kind, w.At)
		}
	case i.Facts != nil:
		return i.Facts.Validate()
	case i.Device != nil:
		return cmp.Or(i.Device.State.validate(), stands(i.Device.Last))
	case i.Certificate != nil:
		return cmp.Or(i.Certificate.State.validate(), stands(i.Certificate.Last))
	case i.Appraised != nil:
		if i.Appraised.Node == "" || i.Appraised.Appraisal.IsZero() {
			return errors.New("an appraisal without node or body")
		}
	case i.Benchmark.Node == "" || i.Benchmark.Starts <= 0 || i.Benchmark.Challenge.IsZero() || i.Benchmark.Result.IsZero():
		return errors.New("a benchmark without node, start or bodies")
	}
	return nil
}

func stands(last canon.Digest) error {
	if last.IsZero() {
		return errors.New("no last event")
	}
	return nil
}

// validate checks that a state is one that the life cycle could be in.
func (d DeviceState) validate() error {
	for _, h := range append(slices.Clone(d.Challengers), d.Holder) {
		if err := cmp.Or((Subject{UnitProvider, h.Provider}).Validate(), (Subject{UnitHost, h.Host}).Validate()); err != nil {
			return err
		}
	}
	switch {
	case d.Status != Held && d.Status != Contested || d.Reason == "" || d.Updated <= 0 || d.Deadline <= 0:
		return fmt.Errorf("device %.80q in the state %.80q, updated %s, due %s", d.Device, d.Status, d.Updated, d.Deadline)
	case (d.Status == Contested) != (len(d.Challengers) > 0) || len(d.Challengers) > MaxChallenger:
		return fmt.Errorf("device %.80q: %s by %d", d.Device, d.Status, len(d.Challengers))
	}
	return Subject{UnitDevice, d.Device}.Validate()
}

// validate checks that a state is one that the life cycle could be in: it would otherwise be applied to states that it never
// makes.
func (c Certificate) validate() error {
	states := []string{Draft, Submitted, InReview, Certified, Renewing, Suspended, Revoked, Lapsed, Rejected}
	tier := func(t string) bool { return slices.Contains(claim.Tiers, t) }
	pending := c.Status == Draft || c.Status == Submitted || c.Status == InReview
	granted := c.Live() || c.Status == Revoked
	switch {
	case !slices.Contains(states, c.Status) || c.Reason == "" || len(c.ID) > MaxID || !hostForm.MatchString(c.ID):
		return fmt.Errorf("certificate %.80q in the state %.80q", c.ID, c.Status)
	case c.Since <= 0 || c.Updated < c.Since || c.Expires < 0 || c.Deadline < 0 || c.Watched < 0 || c.Watched > c.Updated || c.Live() != (c.Expires != 0) || pending && c.Deadline == 0:
		return fmt.Errorf("certificate %s: since %s, updated %s, expires %s, due %s", c.ID, c.Since, c.Updated, c.Expires, c.Deadline)
	case !tier(c.Asked) || c.Granted != "" && !tier(c.Granted) || c.Tier != "" && !tier(c.Tier) || granted && c.Granted == "":
		return fmt.Errorf("certificate %s: tiers %.80q, %.80q, %.80q", c.ID, c.Asked, c.Granted, c.Tier)
	case c.Status == Suspended && c.Was != Certified && c.Was != Renewing:
		return fmt.Errorf("certificate %s: suspended, and was %.80q", c.ID, c.Was)
	case c.Proposed != (Proposal{}) && (!c.Live() || c.Proposed.By == "" || c.Proposed.Until <= c.Proposed.At):
		return fmt.Errorf("certificate %s: a freeze proposed by %.80q at %s, until %s", c.ID, c.Proposed.By, c.Proposed.At, c.Proposed.Until)
	case len(c.Assertions) > MaxAssertions || len(c.Windows) > MaxWindows || len(c.Standing.Findings) > MaxFindings:
		return fmt.Errorf("certificate %s: more of something than fits", c.ID)
	case c.Tier != "" && (!c.Live() || lower(c.Tier, lower(c.Standing.Tier, c.Granted)) != c.Tier):
		return fmt.Errorf("certificate %s: %s in tier %s, of %.80q that counts and %.80q that was granted", c.ID, c.Status, c.Tier, c.Standing.Tier, c.Granted)
	case c.Appeal != (Appeal{}) && (c.Appeal.Filed <= 0 || c.Appeal.By == "" || c.Appeal.Evidence.IsZero() || c.Status != Revoked && c.Status != Rejected):
		return fmt.Errorf("certificate %s: %s, with an appeal of %.80q at %s", c.ID, c.Status, c.Appeal.By, c.Appeal.Filed)
	}
	// What it says of the party comes from the standing, and nobody weighs that again before the next event.
	if s := c.Standing; s.At != 0 {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("certificate %s: %w", c.ID, err)
		}
	} else if granted || !reflect.ValueOf(s).IsZero() {
		return fmt.Errorf("certificate %s: %s, and never weighed", c.ID, c.Status)
	}
	for i, x := range c.Assertions {
		if err := x.Validate(); err != nil {
			return fmt.Errorf("certificate %s: assertion %d: %w", c.ID, i, err)
		}
		if i > 0 && c.Assertions[i-1].compare(x) >= 0 {
			return fmt.Errorf("certificate %s: assertion %d is not in order, each once", c.ID, i)
		}
	}
	for i, k := range c.Clocks {
		if effects[k.Code].grace == nil || k.Since <= 0 || k.Due < k.Since || !c.Live() || i > 0 && c.Clocks[i-1].Code >= k.Code {
			return fmt.Errorf("certificate %s: clock %.80q from %s to %s", c.ID, k.Code, k.Since, k.Due)
		}
	}
	for i, s := range c.Spent {
		if !effects[s.Code].mends() || s.Left < 0 || s.Until <= 0 || i > 0 && c.Spent[i-1].Code >= s.Code {
			return fmt.Errorf("certificate %s: %d s left of the grace %.80q, until %s", c.ID, s.Left, s.Code, s.Until)
		}
	}
	for i, w := range c.Windows {
		if w.From <= 0 || w.Until <= w.From || int64(w.Until-w.From) > MaxWindow || i > 0 && c.Windows[i-1].From > w.From {
			return fmt.Errorf("certificate %s: window from %s to %s", c.ID, w.From, w.Until)
		}
	}
	for _, f := range c.Overruled {
		if !effects[f.Code].automatic {
			return fmt.Errorf("certificate %s: overruled %.80q", c.ID, f.Code)
		}
	}
	return c.Place.Validate()
}

// ParseCarried reads the canonical bytes of a part.
func ParseCarried(data []byte) (Carried, error) {
	var c Carried
	if len(data) > MaxCarried {
		return c, fmt.Errorf("carried: %d bytes, at most %d", len(data), MaxCarried)
	}
	if err := canon.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("carried: %w", err)
	}
	if c.Type != CarriedType || c.Log == "" || len(c.Log) > ledger.MaxOrigin || c.Part < 0 || len(c.Items) == 0 {
		return c, fmt.Errorf("carried: part %d of type %.80q of the log %.80q with %d items, want type %q", c.Part, c.Type, c.Log, len(c.Items), CarriedType)
	}
	for n, i := range c.Items {
		if err := i.Validate(); err != nil {
			return c, fmt.Errorf("carried: item %d: %w", n, err)
		}
	}
	return c, nil
}

// Parts returns the bodies that carry items over from a log, none where there are none. The items must be those of
// [Book.Leave], appraisals and benchmarks, in any order; words in that of the log.
func Parts(log string, items []CarriedItem) (bodies [][]byte, err error) {
	Order(items)
	for from := 0; from < len(items); {
		to := from
		for size := 0; to < len(items); to++ {
			data, err := canon.Marshal(items[to])
			if err != nil {
				return nil, err
			}
			if size += len(data) + 1; size > carriedPart && to > from {
				break
			}
		}
		body, err := canon.Marshal(Carried{Type: CarriedType, Log: log, Part: int64(len(bodies)), Last: to == len(items), Items: items[from:to]})
		if err != nil {
			return nil, err
		}
		if len(body) > MaxCarried {
			return nil, fmt.Errorf("carried: %s: a part of %d bytes, at most %d", items[from].Name(), len(body), MaxCarried)
		}
		bodies, from = append(bodies, body), to
	}
	return bodies, nil
}

// Resume takes an item that the log carries over, in an entry of an index; body is that of a word. Items come before every
// other entry, in their order, each once.
func (b *Book) Resume(index int64, i CarriedItem, body []byte) error {
	if b.resumed != nil {
		if c := b.resumed.compare(i); c > 0 || c == 0 && i.Word == nil {
			return fmt.Errorf("carried: %s is behind %s: out of order, or twice", i.Name(), b.resumed.Name())
		}
	}
	b.resumed = &i
	switch {
	case i.Word != nil:
		e := ledger.Event{Entry: ledger.Entry{Kind: i.Word.Kind, Stream: ledger.StreamServer, Time: i.Word.At, Body: i.Word.Body}, Body: body}
		if i.Word.Kind == ledger.KindRules {
			return b.word(e)
		}
		issuer, err := issuerOf(body)
		if err != nil {
			return err
		}
		e.Entry.Stream = ledger.IssuerStream(issuer)
		return b.word(e)
	case i.Facts != nil:
		b.facts[i.Facts.Provider] = *i.Facts
	case i.Device != nil:
		b.devices[i.Device.State.Device] = i.Device.State
		b.last[Subject{UnitDevice, i.Device.State.Device}] = i.Device.Last
	case i.Certificate != nil:
		c := i.Certificate.State
		party, err := c.Party().Canonical()
		if err != nil {
			return err
		}
		b.certificates[c.ID] = &folded{Certificate: c, last: i.Certificate.Last, said: []Said{{index, canon.Sum(party)}}}
		if c.Place.Host != "" {
			if of := b.hosts[c.Place.Host]; len(of) > 0 {
				return fmt.Errorf("carried: certificates %s and %s of host %s", of[0], c.ID, c.Place.Host)
			}
			b.hosts[c.Place.Host] = []string{c.ID}
		}
	}
	return nil
}

// issuerOf returns who signed a statement, as it says itself.
func issuerOf(body []byte) (string, error) {
	env, err := ledger.ParseEnvelope(body)
	if err != nil {
		return "", err
	}
	if env.PayloadType == RevocationType {
		var r Revocation
		err = canon.Unmarshal(env.Payload, &r)
		return r.Issuer, err
	}
	var c Claim
	err = canon.Unmarshal(env.Payload, &c)
	return c.Issuer, err
}

// Leave returns what the next log has to begin with, as far as it follows from the book, in order.
func (b *Book) Leave() (items []CarriedItem) {
	for _, w := range b.words {
		items = append(items, CarriedItem{Word: &w})
	}
	for _, f := range b.facts {
		items = append(items, CarriedItem{Facts: &f})
	}
	for id, d := range b.devices {
		if d.Status != Released {
			items = append(items, CarriedItem{Device: &CarriedDevice{b.last[Subject{UnitDevice, id}], d}})
		}
	}
	for id, f := range b.certificates {
		of := b.hosts[f.Place.Host]
		if f.Stays(len(of) > 0 && of[len(of)-1] == id) {
			items = append(items, CarriedItem{Certificate: &CarriedCertificate{f.last, f.Certificate}})
		}
	}
	Order(items)
	return items
}
