package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// StreamType is the type of the document in which a node remembers its stream.
const StreamType = "assay/stream/v1"

// Stream is what a node remembers of its own stream of the log, so that the log cannot lose, repeat or add an entry of it
// unseen. It is no secret, and without it the node goes on: it then believes the next promise for where the stream stands.
type Stream struct {
	Type      string       `json:"type"`
	Node      string       `json:"node"`
	Origin    string       `json:"origin,omitzero"`    // of the log that the numbers are of; promises say theirs
	Next      int64        `json:"next"`               // sequence after the last promised entry's; 0: none was promised
	Last      canon.Digest `json:"last,omitzero"`      // digest of the last promised entry; absent: its opening was not seen
	Sent      int64        `json:"sent"`               // bundles sent since then
	Held      []Held       `json:"held"`               // promises that were not seen kept yet
	Kept      int64        `json:"kept"`               // promises that were
	Uncovered canon.Time   `json:"uncovered,omitzero"` // receipt of the first entry that no head covers; absent: all are covered
	Covered   int64        `json:"covered"`            // next of the newest head that was seen
	Head      canon.Digest `json:"head,omitzero"`      // last of it
	Asked     canon.Time   `json:"asked,omitzero"`     // when a head was last asked for
	Faults    []LogFault   `json:"faults"`             // the first MaxFaults of them
}

// Held is a promise that was not seen kept yet.
type Held struct {
	Promise ledger.Envelope `json:"promise"`
	From    int64           `json:"from"` // the entry stands at this index of the log or behind it
}

// LogFault is something that the log did and must not do, with what proves it.
type LogFault struct {
	At         canon.Time       `json:"at"` // by the clock of this machine
	What       string           `json:"what"`
	Promise    *ledger.Envelope `json:"promise,omitzero"`
	Checkpoint string           `json:"checkpoint,omitzero"` // the note that contradicts it
}

// errStream is wrapped by a fault of the state, as opposed to one of the log or the way to it.
var errStream = errors.New("state of the stream")

// Stream reads what the node remembers of its stream. A node that remembers nothing gets an empty one.
func (s Store) Stream(node string) (Stream, error) {
	none := Stream{Type: StreamType, Node: node, Held: []Held{}, Faults: []LogFault{}}
	data, err := s.read(fileStream)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("%w: %w", errStream, err)
	}
	var r Stream
	if err := canon.Unmarshal(data, &r); err != nil {
		return none, fmt.Errorf("%w: %s: %w", errStream, fileStream, err)
	}
	if r.Type != StreamType {
		return none, fmt.Errorf("%w: %s: type %.80q is not known to this build, want %q", errStream, fileStream, r.Type, StreamType)
	}
	if r.Node != node { // of an earlier joining
		return none, nil
	}
	return r, nil
}

// SaveStream keeps what the node remembers of its stream.
func (s Store) SaveStream(r Stream) error {
	data, err := canon.Marshal(r)
	if err == nil {
		err = s.write(fileStream, data)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errStream, err)
	}
	return nil
}

// remember changes what the node remembers.
func (a *Agent) remember(change func(*Stream)) error {
	s, err := a.c.Store.Stream(a.c.Node.Node)
	if err != nil {
		return err
	}
	change(&s)
	return a.c.Store.SaveStream(s)
}

// accuse records a fault of the log, and says it aloud.
func (a *Agent) accuse(s *Stream, f LogFault) {
	f.At = canon.At(a.c.Now())
	a.c.Logger.Error("the log is at fault", "what", f.What)
	a.note(func(st *Status) { st.LogFaults++ })
	if len(s.Faults) < MaxLogFaults {
		s.Faults = append(s.Faults, f)
	}
}

// sending notes that a bundle is about to be sent: if its promise is lost, the stream may have its entry all the same.
func (a *Agent) sending() error { return a.remember(func(s *Stream) { s.Sent++ }) }

// enter begins the node's stream in another log, in which the first promise came. Of the log before it looks once more at
// the head, which the entry that closed it has; its promises are looked for there.
func (a *Agent) enter(ctx context.Context, origin string) error {
	s, err := a.c.Store.Stream(a.c.Node.Node)
	if err != nil || s.Origin == origin {
		return err
	}
	if s.Origin != "" && s.Covered < s.Next {
		if err := a.checkHead(ctx, s.Origin, canon.At(a.c.Now())); errors.Is(err, errStream) {
			return err
		} else if err != nil {
			a.c.Logger.Warn("the log that was closed was not checked", "error", err)
		} else if err := a.remember(func(s *Stream) {
			if s.Covered < s.Next {
				a.accuse(s, LogFault{What: fmt.Sprintf("the log %q was closed, and no head of it covers entry %d of this node's stream and what follows", s.Origin, s.Covered)})
			}
		}); err != nil {
			return err
		}
	}
	return a.remember(func(s *Stream) {
		s.Origin = origin
		s.Next, s.Last, s.Sent, s.Uncovered, s.Covered, s.Head, s.Asked = 0, canon.Digest{}, 0, 0, 0, canon.Digest{}, 0
	})
}

// hold compares a promise with those before it, and keeps it until it is seen kept. from is a checkpoint that is older than
// the entry.
func (a *Agent) hold(env ledger.Envelope, p ledger.Promise, from string) error {
	held := Held{Promise: env}
	if from != "" {
		c, err := ledger.ReadCheckpoint([]byte(from))
		if err != nil {
			return err
		}
		held.From = c.Size
	}
	return a.remember(func(s *Stream) {
		fault := func(format string, args ...any) {
			a.accuse(s, LogFault{What: fmt.Sprintf(format, args...), Promise: &env})
		}
		switch skipped := p.Sequence - s.Next; {
		case s.Next == 0: // nothing to compare with
		case skipped < 0:
			fault("promised place %d of this node's stream, after place %d was promised", p.Sequence, s.Next-1)
		case skipped == 0 && !s.Last.IsZero() && p.Previous != s.Last:
			fault("promised place %d of this node's stream behind %s, its last entry was %s", p.Sequence, p.Previous, s.Last)
		case skipped >= s.Sent && skipped > 0:
			fault("promised place %d of this node's stream, after place %d: %d entries between are not this agent's, %d of its own had no answer; "+
				"somebody else may use the node's credential", p.Sequence, s.Next-1, skipped, s.Sent-1)
		}
		s.Next, s.Last, s.Sent = max(s.Next, p.Sequence+1), canon.Digest{}, 0
		if s.Uncovered == 0 {
			s.Uncovered = p.Received
		}
		if len(s.Held) < MaxHeld {
			s.Held = append(s.Held, held)
		}
	})
}

// opened notes the digest of an entry whose opening was checked against its promise.
func (a *Agent) opened(e ledger.Entry) error {
	data, err := e.Canonical()
	if err != nil {
		return err
	}
	return a.remember(func(s *Stream) {
		if s.Next == e.Sequence+1 {
			s.Last = canon.Sum(data)
		}
	})
}

// checkLog looks whether the log keeps its word: each promise whose time has come, and from time to time the head of this
// node's stream. What it finds is recorded and said; an error says that it could not look.
func (a *Agent) checkLog(ctx context.Context) error {
	s, err := a.c.Store.Stream(a.c.Node.Node)
	if err == nil && s.Origin == "" { // written before a log could be closed
		s.Origin = a.c.Node.Keyset.Origin
		err = a.remember(func(r *Stream) { r.Origin = s.Origin })
	}
	if err != nil {
		return err
	}
	now := canon.At(a.c.Now())
	due := map[string][]heldPromise{} // by log
	for _, h := range s.Held {
		p, err := ledger.ReadPromise(h.Promise)
		if err != nil {
			return fmt.Errorf("%w: %w", errStream, err)
		}
		if now > p.PublishBy+ledger.ClockSlack {
			due[p.Origin] = append(due[p.Origin], heldPromise{p, h.From})
		}
	}
	for _, origin := range slices.Sorted(maps.Keys(due)) {
		err = errors.Join(err, a.checkPromises(ctx, origin, due[origin]))
	}
	if s.Next > 0 && now >= s.Asked+ledger.HeadsWithin {
		err = errors.Join(err, a.checkHead(ctx, s.Origin, now))
	}
	return err
}

// heldPromise is a promise that was checked when it was taken.
type heldPromise struct {
	ledger.Promise
	from int64
}

// believed is what this node believes of a checkpoint of one of the logs: of the newest that it knows as [Agent.follow]
// does, of one that was closed that it is the final one.
func (a *Agent) believed(ctx context.Context, origin, note string) (ledger.Checkpoint, error) {
	if origin == a.c.Node.Keyset.Origin {
		return a.follow(ctx, note)
	}
	keys, err := a.c.Server.Keys(ctx)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	next, _, ok := keys.After(origin)
	if !ok || !keys.Has(a.c.Node.Keyset) {
		return ledger.Checkpoint{}, fmt.Errorf("the log %q: no keyset leads from it to the log %q", origin, a.c.Node.Keyset.Origin)
	}
	before, _ := keys.Newest(origin)
	c, err := ledger.Follower{Logs: before.LogVKeys(next.Made)}.Follow(ctx, nil, nil, []byte(note), 0)
	if err == nil && c.Tree != next.Continues.Tree() {
		err = fmt.Errorf("the log %q: its checkpoint is of size %d, and it ended with size %d", origin, c.Size, next.Continues.Size)
	}
	return c.Checkpoint, err
}

// checkPromises looks for the entries of promises among the leaves of a log's newest checkpoint, all of which it reads from
// where the first of them may stand.
func (a *Agent) checkPromises(ctx context.Context, origin string, due []heldPromise) error {
	log, err := a.log(ctx, origin)
	if err != nil {
		return err
	}
	note, err := log.Checkpoint(ctx)
	if err != nil {
		return err
	}
	c, err := a.believed(ctx, origin, string(note))
	if err != nil {
		return err
	}
	from := c.Size
	var wanted []canon.Digest
	for _, h := range due {
		wanted, from = append(wanted, h.Commitment), min(from, h.from)
	}
	found, err := ledger.Find(ctx, log, from, c.Tree, wanted)
	if err != nil {
		return err
	}
	return a.remember(func(s *Stream) {
		s.Held = slices.DeleteFunc(s.Held, func(h Held) bool {
			p, err := ledger.ReadPromise(h.Promise)
			if err != nil || !slices.Contains(wanted, p.Commitment) {
				return false
			}
			if _, ok := found[p.Commitment]; ok {
				s.Kept++
				a.c.Logger.Info("promise kept", "sequence", p.Sequence, "received", p.Received)
				return true
			}
			a.accuse(s, LogFault{Promise: &h.Promise, Checkpoint: string(note), What: fmt.Sprintf(
				"withheld: entry %d of this node's stream was to be published by %s, and the newest checkpoint, of size %d, lacks it", p.Sequence, p.PublishBy, c.Size)})
			return true
		})
	})
}

// checkHead asks for the head of this node's stream in a log and compares it with what the node remembers. Entries that no head
// covers an hour after they were received, and then the slack that readers allow, are a fault.
func (a *Agent) checkHead(ctx context.Context, origin string, now canon.Time) error {
	stream := ledger.NodeStream(a.c.Node.Node)
	shown, err := a.c.Server.StreamHead(ctx, stream, origin)
	var head ledger.Head
	var by ledger.Entry
	there := err == nil
	switch p := client.AsProblem(err); {
	case p != nil && p.Status == http.StatusNotFound:
	case err != nil:
		return err
	default:
		c, err := a.believed(ctx, origin, shown.Checkpoint)
		if err != nil {
			return err
		}
		if head, by, err = shown.Open(stream, c.Tree); err != nil {
			return err
		}
	}
	return a.remember(func(s *Stream) {
		fault := func(format string, args ...any) {
			a.accuse(s, LogFault{What: fmt.Sprintf(format, args...), Checkpoint: shown.Checkpoint})
		}
		s.Asked = now
		switch {
		case !there:
		case head.Next < s.Covered:
			fault("the head of this node's stream goes back: %d entries, a head of %d was seen", head.Next, s.Covered)
			return
		case head.Next == s.Covered && head.Next > 0 && head.Last != s.Head, head.Next == s.Next && !s.Last.IsZero() && head.Last != s.Last:
			fault("the head of this node's stream, of %d entries, ends with %s, which is another entry than was seen", head.Next, head.Last)
		case head.Next > s.Next+s.Sent:
			fault("the head of this node's stream has %d entries, this agent knows of %d: somebody else may use the node's credential", head.Next, s.Next+s.Sent)
		}
		grown := there && head.Next > s.Covered
		if there {
			s.Covered, s.Head = head.Next, head.Last
		}
		switch {
		case there && head.Next >= s.Next:
			s.Uncovered = 0
		case grown:
			s.Uncovered = max(s.Uncovered, by.Time)
		case now > s.Uncovered+ledger.HeadsWithin+ledger.HeadsSlack+ledger.PublishWithin+ledger.ClockSlack:
			fault("no head covers entry %d of this node's stream and what follows, received %s", s.Covered, s.Uncovered)
			s.Uncovered = now
		}
	})
}
