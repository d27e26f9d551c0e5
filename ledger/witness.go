package ledger

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
)

// WitnessPolicy says whose cosignatures a reader of a log asks for (C2SP tlog-policy). The zero policy is satisfied by
// nothing.
type WitnessPolicy struct {
	logs      []string // verifier keys; none: any log
	witnesses []Witness
	quorum    *component
}

// component is a witness or a group.
type component struct {
	name    string
	witness int // index, or -1 for a group
	k       int // of members
	members []*component
	used    bool // is a member of a group
}

// holds reports whether the witnesses that count satisfy a component.
func (c *component) holds(counts func(witness int) bool) bool {
	if c.witness >= 0 {
		return counts(c.witness)
	}
	n := 0
	for _, m := range c.members {
		if m.holds(counts) {
			n++
		}
	}
	return n >= c.k
}

// splits reports whether two sets of witnesses with no member in common can both satisfy a component: then two histories
// could each have a quorum, and no witness would have told a lie. For a group of n witnesses it is 2k <= n.
func (c *component) splits() bool {
	if c.witness >= 0 {
		return false
	}
	both := 0 // members that can be satisfied on both sides at once
	for _, m := range c.members {
		if m.splits() {
			both++
		}
	}
	return 2*max(0, c.k-both) <= len(c.members)-both
}

// ParseWitnessPolicy reads a policy file. Two laws go beyond the format: a quorum is always asked for, and any two quorums
// share a witness (k > n/2), so that one log cannot show two histories with honest witnesses.
func ParseWitnessPolicy(text []byte) (WitnessPolicy, error) {
	if len(text) > MaxWitnessPolicy {
		return WitnessPolicy{}, fmt.Errorf("witness policy: %d bytes, at most %d", len(text), MaxWitnessPolicy)
	}
	r := policyReader{names: map[string]*component{}, keys: map[string]bool{}, ofLogs: map[string]bool{}}
	for i, line := range strings.Split(string(text), "\n") {
		if err := r.line(line); err != nil {
			return WitnessPolicy{}, fmt.Errorf("witness policy: line %d: %w", i+1, err)
		}
	}
	switch {
	case r.quorum == nil:
		return WitnessPolicy{}, errors.New("witness policy: no quorum")
	case r.quorum.splits():
		return WitnessPolicy{}, fmt.Errorf("witness policy: quorum %.80q: two quorums need not share a witness, so a log could show two histories; want more than half of a group", r.quorum.name)
	}
	return r.WitnessPolicy, nil
}

// policyReader is a policy as far as it was read.
type policyReader struct {
	WitnessPolicy
	names  map[string]*component
	groups int
	keys   map[string]bool // of logs and witnesses
	ofLogs map[string]bool
}

func (r *policyReader) line(line string) error {
	if strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }) {
		return errors.New("a control character")
	}
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	switch n := len(fields); {
	case n == 0 || fields[0][0] == '#':
		return nil
	case fields[0] == "log" && (n == 2 || n == 3):
		return r.log(fields[1])
	case fields[0] == "witness" && (n == 3 || n == 4):
		return r.witness(fields[1], fields[2], strings.Join(fields[3:], ""))
	case fields[0] == "group" && n >= 4:
		return r.group(fields[1], fields[2], fields[3:])
	case fields[0] == "quorum" && n == 2:
		return r.setQuorum(fields[1])
	}
	return fmt.Errorf("%.80q: want log VKEY [URL], witness NAME VKEY [URL], group NAME K NAME… or quorum NAME", line)
}

// define gives a component its name, which no other has.
func (r *policyReader) define(c *component) error {
	switch {
	case c.name == "none" || c.name == "any" || c.name == "all":
		return fmt.Errorf("%q cannot be a name", c.name)
	case r.names[c.name] != nil:
		return fmt.Errorf("%.80q is defined twice", c.name)
	}
	r.names[c.name] = c
	return nil
}

func (r *policyReader) log(vkey string) error {
	_, key, err := ParseLogVKey(vkey)
	if err != nil {
		return err
	}
	// One key may be that of several logs: of those of a chain.
	if r.keys[string(key)] && !r.ofLogs[string(key)] || slices.Contains(r.logs, vkey) {
		return errors.New("a key that stands on another line: a witness whose key is the log's counts for nothing")
	}
	r.keys[string(key)], r.ofLogs[string(key)] = true, true
	if r.logs = append(r.logs, vkey); len(r.logs) > MaxWitnesses {
		return fmt.Errorf("more than %d logs", MaxWitnesses)
	}
	return nil
}

func (r *policyReader) witness(name, vkey, url string) error {
	id, key, err := ParseWitnessVKey(vkey)
	if err != nil {
		return err
	}
	if r.keys[string(key)] {
		return errors.New("a key that stands on another line: it counts once, and a witness whose key is the log's counts for nothing")
	}
	r.keys[string(key)] = true
	if err := r.define(&component{name: name, witness: len(r.witnesses)}); err != nil {
		return err
	}
	if r.witnesses = append(r.witnesses, Witness{Name: name, URL: url, Key: key, id: id}); len(r.witnesses) > MaxWitnesses {
		return fmt.Errorf("more than %d witnesses", MaxWitnesses)
	}
	return nil
}

func (r *policyReader) group(name, count string, members []string) error {
	g := &component{name: name, witness: -1}
	for _, name := range members {
		m := r.names[name]
		switch {
		case m == nil:
			return fmt.Errorf("group %.80q: %.80q is not defined above", g.name, name)
		case m.used:
			return fmt.Errorf("group %.80q: %.80q is a member of a group already", g.name, name)
		}
		m.used = true
		g.members = append(g.members, m)
	}
	switch k, err := strconv.Atoi(count); {
	case count == "any":
		g.k = 1
	case count == "all":
		g.k = len(g.members)
	case err != nil || strconv.Itoa(k) != count || k < 1 || k > len(g.members):
		return fmt.Errorf("group %.80q: %.80q of its %d members: want any, all or a number from 1 to %d", g.name, count, len(g.members), len(g.members))
	default:
		g.k = k
	}
	if err := r.define(g); err != nil {
		return err
	}
	if r.groups++; r.groups > MaxWitnesses {
		return fmt.Errorf("more than %d groups", MaxWitnesses)
	}
	return nil
}

func (r *policyReader) setQuorum(name string) error {
	switch {
	case r.quorum != nil:
		return errors.New("a second quorum")
	case name == "none":
		return errors.New("quorum none asks for no witness: want the name of a witness or a group")
	case r.names[name] == nil:
		return fmt.Errorf("quorum: %.80q is not defined above", name)
	}
	r.quorum = r.names[name]
	return nil
}

// Witnesses returns all witnesses, in the order of the file.
func (p WitnessPolicy) Witnesses() []Witness { return p.witnesses }

// Covers checks that a policy can speak for the log with the given verifier keys: it names no log, or one of them, and no
// witness of it has a key that the log's operator holds. Such a witness would count for nothing.
func (p WitnessPolicy) Covers(logs []string, operator ...ed25519.PublicKey) error {
	own := slices.Clone(operator)
	for _, l := range logs {
		_, key, err := ParseLogVKey(l)
		if err != nil {
			return err
		}
		own = append(own, key)
	}
	if !p.accepts(logs) {
		return fmt.Errorf("witness policy: not for the log with the key %.400s", strings.Join(logs, ", "))
	}
	for _, w := range p.witnesses {
		if slices.ContainsFunc(own, func(k ed25519.PublicKey) bool { return bytes.Equal(k, w.Key) }) {
			return fmt.Errorf("witness policy: witness %s has a key of the log's operator: it counts for nothing", w.Name)
		}
	}
	return nil
}

func (p WitnessPolicy) accepts(logs []string) bool {
	return len(p.logs) == 0 || slices.ContainsFunc(logs, func(l string) bool { return slices.Contains(p.logs, l) })
}

// Period is a span of time. Both bounds belong to it.
type Period struct{ From, Until canon.Time }

// Has reports whether an instant lies in the period.
func (p Period) Has(t canon.Time) bool { return p.From <= t && t <= p.Until }

// Cosignature is one witness's word.
type Cosignature struct {
	Witness string // its name in the policy
	Time    canon.Time
}

// Cosigned is a checkpoint with a quorum of cosignatures. It comes of [WitnessPolicy.Open].
type Cosigned struct {
	Checkpoint
	By []Cosignature // that count, in the order of the policy

	// From is the latest instant such that the cosignatures made at it or later are a quorum: nobody had the note earlier,
	// unless all witnesses of a quorum lie. Until is the earliest instant such that the cosignatures made at it or earlier
	// are a quorum: the tree stood by then. From is never after Until. So one witness with a wrong clock moves neither
	// bound past an honest one's time, where a quorum has two.
	From, Until canon.Time
}

// QuorumError says that a checkpoint is the log's and lacks a quorum: it is no trusted state and no trusted time.
type QuorumError struct {
	Origin string
	Size   int64
	By     []Cosignature // that count
	Out    []Cosignature // of witnesses of the policy, made outside the period that was asked about
	Period Period        // that was asked about
	Others []string      // names of keys that neither the policy knows nor the log has, as the note says them
}

func (e *QuorumError) Error() string {
	s := fmt.Sprintf("checkpoint of size %d of %q: no quorum of witnesses: cosigned by %s", e.Size, e.Origin, names(e.By))
	for _, c := range e.Out {
		s += fmt.Sprintf("; %s cosigned at %s, which is not from %s to %s", c.Witness, c.Time, e.Period.From, e.Period.Until)
	}
	if len(e.Others) > 0 {
		s += fmt.Sprintf("; not known to the policy: %.200q", e.Others)
	}
	return s
}

func names(by []Cosignature) string {
	if len(by) == 0 {
		return "none of the policy"
	}
	out := make([]string, len(by))
	for i, c := range by {
		out[i] = c.Witness
	}
	return strings.Join(out, ", ")
}

// Open reads a checkpoint that is signed by a log, under one of its verifier keys, and cosigned by a quorum. Only
// cosignatures made within the period count. A checkpoint of the log without a quorum is a *[QuorumError]; a cosignature
// that claims to be a witness's and does not verify is an error however many others there are. It does not check that the
// checkpoint continues an earlier one: see [Follower].
func (p WitnessPolicy) Open(data []byte, logs []string, within Period) (Cosigned, error) {
	if _, err := openAny(data, logs); err != nil {
		return Cosigned{}, err
	}
	if err := p.Covers(logs); err != nil {
		return Cosigned{}, err
	}
	return p.ReadCosigned(data, within)
}

// openAny is [OpenCheckpoint] by verifier keys in text form.
func openAny(data []byte, logs []string) (Checkpoint, error) {
	var keys []note.Verifier
	for _, l := range logs {
		key, err := note.NewVerifier(l)
		if err != nil {
			return Checkpoint{}, fmt.Errorf("log key: %w", err)
		}
		keys = append(keys, key)
	}
	return OpenCheckpoint(data, keys...)
}

// ReadCosigned is [WitnessPolicy.Open] without a look at the log's signature: it is for the log itself.
func (p WitnessPolicy) ReadCosigned(data []byte, within Period) (Cosigned, error) {
	if len(data) > MaxCheckpoint {
		return Cosigned{}, fmt.Errorf("checkpoint: %d bytes, at most %d", len(data), MaxCheckpoint)
	}
	c, err := ReadCheckpoint(data)
	if err != nil {
		return Cosigned{}, err
	}
	var known []note.Verifier
	for _, w := range p.witnesses {
		known = append(known, cosignatureVerifier{w})
	}
	n, err := note.Open(data, note.VerifierList(known...))
	var invalid *note.InvalidSignatureError
	var nobody *note.UnverifiedNoteError
	switch {
	case errors.As(err, &nobody):
		n = nobody.Note
	case errors.As(err, &invalid):
		return Cosigned{}, fmt.Errorf("checkpoint of size %d of %q: the cosignature of %.80q does not verify", c.Size, c.Origin, invalid.Name)
	case err != nil:
		return Cosigned{}, fmt.Errorf("checkpoint of %q: %w", c.Origin, err)
	}
	times := make([]canon.Time, len(p.witnesses)) // zero: none that counts
	missing := &QuorumError{Origin: c.Origin, Size: c.Size, Period: within}
	for i, w := range p.witnesses {
		for _, s := range n.Sigs {
			if s.Name != w.id || s.Hash != cosignerHash(w.id, w.Key) {
				continue
			}
			_, at := timed(s)
			if !within.Has(at) {
				missing.Out = append(missing.Out, Cosignature{w.Name, at})
				continue
			}
			times[i] = at
			missing.By = append(missing.By, Cosignature{w.Name, at})
		}
	}
	for _, s := range n.UnverifiedSigs {
		if s.Name != c.Origin {
			missing.Others = append(missing.Others, s.Name)
		}
	}
	out := Cosigned{Checkpoint: c, By: missing.By}
	for _, by := range missing.By {
		late := func(i int) bool { return times[i] != 0 && times[i] >= by.Time }
		early := func(i int) bool { return times[i] != 0 && times[i] <= by.Time }
		if by.Time > out.From && p.quorum.holds(late) {
			out.From = by.Time
		}
		if (out.Until == 0 || by.Time < out.Until) && p.quorum.holds(early) {
			out.Until = by.Time
		}
	}
	if out.Until == 0 {
		return Cosigned{}, missing
	}
	return out, nil
}
