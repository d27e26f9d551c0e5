package audit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// places remembers at which entries a digest was met, in 16 bytes a place and the room between them. It keeps 8 bytes of
// each digest, so what it finds are candidates: whoever asks reads the entry again and compares. The zero places is empty.
type places struct {
	slots []slot // open addressing, at most [fullest] of them taken
	n     int
}

type slot struct {
	tag   uint64
	index int64 // of the entry, and one; zero: free
}

// Shares of the slots.
const (
	fullest = 4 // fifths that may be taken
	growth  = 3 // halves of the old size, when more are
)

func tagOf(d canon.Digest) uint64 { return binary.BigEndian.Uint64(d[:8]) }

// tagOfIndex spreads an index over the tags (the multiplier is 2^64 over the golden ratio, rounded to an odd number).
func tagOfIndex(index int64) uint64 { return uint64(index) * 0x9e3779b97f4a7c15 }

func (p *places) add(tag uint64, index int64) {
	if 5*(p.n+1) > fullest*len(p.slots) {
		old := p.slots
		p.slots = make([]slot, max(64, growth*len(old)/2))
		for _, s := range old {
			if s.index != 0 {
				p.put(s)
			}
		}
	}
	p.put(slot{tag, index + 1})
	p.n++
}

func (p *places) put(s slot) {
	i := p.begin(s.tag)
	for p.slots[i].index != 0 {
		i = (i + 1) % len(p.slots)
	}
	p.slots[i] = s
}

// begin returns the slot where the search for a tag begins. It takes the low bits, which no order of digests favours.
func (p *places) begin(tag uint64) int { return int(tag % uint64(len(p.slots))) }

// of yields the entries at which a tag was met. The caller adds nothing meanwhile.
func (p *places) of(tag uint64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		if len(p.slots) == 0 {
			return
		}
		for i := p.begin(tag); p.slots[i].index != 0; i = (i + 1) % len(p.slots) {
			if s := p.slots[i]; s.tag == tag && !yield(s.index-1) {
				return
			}
		}
	}
}

// rows is a list that grows without copying what is in it.
type rows[T any] struct {
	chunks [][]T
	n      int
}

const chunkRows = 1 << 12

func (r *rows[T]) add(v T) {
	if r.n%chunkRows == 0 {
		r.chunks = append(r.chunks, make([]T, 0, chunkRows))
	}
	last := len(r.chunks) - 1
	r.chunks[last] = append(r.chunks[last], v)
	r.n++
}

func (r *rows[T]) at(i int) *T { return &r.chunks[i/chunkRows][i%chunkRows] }

// search finds the row of an index among rows that are ordered by it.
func (r *rows[T]) search(index int64, of func(*T) int64) (int, bool) {
	low, high := 0, r.n
	for low < high {
		if mid := (low + high) / 2; of(r.at(mid)) < index {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < r.n && of(r.at(low)) == index
}

// submission is what is kept of a piece of evidence while the log is read: where it stands, what it answers, and what was
// made of it. The rest is read again when it is due.
type submission struct {
	index     int64 // of the evidence
	challenge int64 // index of what it answers, or NoIndex
	node      int32 // whose it is, see [vetted.node]
	first     int32 // appraisal of it, by row; noRow: none
	last      int32
}

type appraisalRow struct {
	index       int64
	submission  int32
	next        int32 // appraisal of the same evidence
	first, last int32 // verdict on it
}

type verdictRow struct {
	index int64
	next  int32 // verdict on the same appraisal
}

const noRow = -1

func (s *submission) at() int64   { return s.index }
func (a *appraisalRow) at() int64 { return a.index }
func (v *verdictRow) at() int64   { return v.index }

// reader reads entries of a log again that were read before. Entries that were read lately are at hand. Its methods may be
// called concurrently.
type reader struct {
	mu      sync.Mutex
	recent  map[int64]ledger.Entry
	bundles map[int64][]canon.Digest // commitments of the entry bundles that were read lately
	sums    []canon.Digest           // of every entry bundle as it was when the tree was checked
}

func (r *reader) keep(index int64, e ledger.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent == nil || len(r.recent) >= maxRecent {
		r.recent = make(map[int64]ledger.Entry, maxRecent)
	}
	r.recent[index] = e
}

// entry returns an entry that was read before.
func (r *replay) entry(ctx context.Context, index int64) (ledger.Entry, error) {
	r.again.mu.Lock()
	e, ok := r.again.recent[index]
	r.again.mu.Unlock()
	if ok {
		return e, nil
	}
	commitment, err := r.leaf(ctx, index)
	if err != nil {
		return e, err
	}
	opening, err := r.blob(ctx, commitment)
	if err != nil {
		return e, err
	}
	if _, e, err = ledger.ParseOpening(opening); err != nil {
		return e, wrong("%v", err)
	}
	r.again.keep(index, e)
	return e, nil
}

// leaf returns the commitment of an entry that was read before.
func (r *replay) leaf(ctx context.Context, index int64) (canon.Digest, error) {
	t := bundleOf(index, r.report.Size)
	r.again.mu.Lock()
	leaves, ok := r.again.bundles[t.Index]
	r.again.mu.Unlock()
	if !ok {
		data, err := r.src.Tile(ctx, t)
		if err != nil {
			return canon.Digest{}, fmt.Errorf("%s: %w", t.Path(), err)
		}
		if t.Index >= int64(len(r.again.sums)) || canon.Sum(data) != r.again.sums[t.Index] {
			return canon.Digest{}, fmt.Errorf("%s: the source has other bytes than a moment ago", t.Path())
		}
		if leaves, err = ledger.ParseEntryBundle(data); err != nil {
			return canon.Digest{}, err
		}
		r.again.mu.Lock()
		if r.again.bundles == nil || len(r.again.bundles) >= maxBundles {
			r.again.bundles = make(map[int64][]canon.Digest, maxBundles)
		}
		r.again.bundles[t.Index] = leaves
		r.again.mu.Unlock()
	}
	return leaves[index%ledger.TileWidth], nil
}

// find returns the first entry that has a body; a kind other than "" must be the entry's.
func (r *replay) find(ctx context.Context, kind string, body canon.Digest) (index int64, e ledger.Entry, ok bool, err error) {
	for _, at := range slices.Sorted(r.bodies.of(tagOf(body))) {
		e, err := r.entry(ctx, at)
		if err != nil {
			return 0, e, false, err
		}
		if e.Body == body && (kind == "" || e.Kind == kind) {
			return at, e, true, nil
		}
	}
	return 0, e, false, nil
}

// challengeAt reads the challenge of an entry, or nil where the entry holds none that stands.
func (r *replay) challengeAt(ctx context.Context, index int64, e ledger.Entry) (*challenge, error) {
	body, err := r.blob(ctx, e.Body)
	if f := new(Fault); errors.As(err, &f) { // which was met when its own entry was read
		return &challenge{absent: true, index: index, body: e.Body}, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := parseChallenge(body)
	if err != nil {
		return nil, nil
	}
	return &challenge{index: index, body: e.Body, digest: c.Digest(), node: c.Node, checkpoint: c.Checkpoint, issued: c.Issued, expires: c.Expires}, nil
}

// issued returns the index of the challenge entry that has an N, if there is one.
func (r *replay) issued(ctx context.Context, n canon.Digest) (int64, bool, error) {
	for _, at := range slices.Sorted(r.nonces.of(tagOf(n))) {
		e, err := r.entry(ctx, at)
		if err != nil {
			return 0, false, err
		}
		c, err := r.challengeAt(ctx, at, e)
		if err != nil {
			return 0, false, err
		}
		if c != nil && !c.absent && c.digest == n {
			return at, true, nil
		}
	}
	return 0, false, nil
}

// challengeOf returns the challenge that a body holds and that stands, or nil.
func (r *replay) challengeOf(ctx context.Context, body canon.Digest) (*challenge, error) {
	index, e, ok, err := r.find(ctx, ledger.KindChallenge, body)
	if err != nil || !ok {
		return nil, err
	}
	c, err := r.challengeAt(ctx, index, e)
	if err != nil || c == nil || c.absent {
		return c, err
	}
	if first, ok, err := r.issued(ctx, c.digest); err != nil || !ok || first != index {
		return nil, err
	}
	return c, nil
}

// submissionOf returns the row of the evidence with a body, or noRow.
func (r *replay) submissionOf(ctx context.Context, body canon.Digest) (int, error) {
	index, _, ok, err := r.find(ctx, ledger.KindEvidence, body)
	if err != nil || !ok {
		return noRow, err
	}
	if row, ok := r.submissions.search(index, (*submission).at); ok {
		return row, nil
	}
	return noRow, nil
}

// appraisalOf returns the row of the appraisal with a body, or noRow.
func (r *replay) appraisalOf(ctx context.Context, body canon.Digest) (int, error) {
	index, _, ok, err := r.find(ctx, ledger.KindAppraisal, body)
	if err != nil || !ok {
		return noRow, err
	}
	if row, ok := r.appraisals.search(index, (*appraisalRow).at); ok {
		return row, nil
	}
	return noRow, nil
}

// evidenceAt puts together what the log has of one submission.
func (r *replay) evidenceAt(ctx context.Context, row int) (*evidence, error) {
	s := r.submissions.at(row)
	e, err := r.entry(ctx, s.index)
	if err != nil {
		return nil, err
	}
	ev := &evidence{index: s.index, body: e.Body, time: e.Time}
	if s.challenge != NoIndex {
		asked, err := r.entry(ctx, s.challenge)
		if err != nil {
			return nil, err
		}
		if ev.challenge, err = r.challengeAt(ctx, s.challenge, asked); err != nil {
			return nil, err
		}
	}
	for i := s.first; i != noRow; i = r.appraisals.at(int(i)).next {
		row := r.appraisals.at(int(i))
		e, err := r.entry(ctx, row.index)
		if err != nil {
			return nil, err
		}
		a := &appraisal{index: row.index, body: e.Body, time: e.Time, evidence: ev.body}
		for k := row.first; k != noRow; k = r.verdicts.at(int(k)).next {
			v := r.verdicts.at(int(k))
			e, err := r.entry(ctx, v.index)
			if err != nil {
				return nil, err
			}
			a.verdicts = append(a.verdicts, verdict{v.index, e.Body, e.Time, e.Refs[1]})
		}
		ev.appraisals = append(ev.appraisals, a)
	}
	return ev, nil
}

// appraisalWith puts together what the log has of the appraisal with a body, and the evidence that it judges; nil: nothing.
func (r *replay) appraisalWith(ctx context.Context, body canon.Digest) (*appraisal, *evidence, error) {
	row, err := r.appraisalOf(ctx, body)
	if err != nil || row == noRow {
		return nil, nil, err
	}
	ev, err := r.evidenceAt(ctx, int(r.appraisals.at(row).submission))
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(ev.appraisals, func(a *appraisal) bool { return a.body == body })
	return ev.appraisals[i], ev, nil
}

func parseChallenge(body []byte) (attest.Challenge, error) {
	var c attest.Challenge
	if err := canon.Unmarshal(body, &c); err != nil {
		return c, fmt.Errorf("challenge: %w", err)
	}
	return c, (attest.Expect{Type: attest.ExpectType, Challenge: &c}).Check()
}
