package server

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Witnesses are those whom a log asks to cosign its checkpoints (C2SP tlog-witness), and how many must. Its methods may be
// called concurrently.
type Witnesses struct {
	policy ledger.WitnessPolicy
	http   *http.Client
	now    func() time.Time

	mu    sync.Mutex
	last  map[watched]int64         // size that was cosigned last, as far as this process knows
	heard map[string]*witnessAnswer // by name: what became of asking
}

// witnessAnswer is what this process knows of one witness.
type witnessAnswer struct {
	cosigned canon.Time // when it cosigned last, or was first asked
	fault    error      // why it did not cosign since
	silent   bool       // it was told that the witness no longer cosigns
}

// watched is a log that a witness watches.
type watched struct{ witness, log string }

// NewWitnesses returns the witnesses of a policy for the log with the given verifier keys. Other keys of its operator are
// told so that none of them counts as a witness.
func NewWitnesses(policy ledger.WitnessPolicy, logs []string, now func() time.Time, operator ...ed25519.PublicKey) (*Witnesses, error) {
	if err := policy.Covers(logs, operator...); err != nil {
		return nil, err
	}
	for _, w := range policy.Witnesses() {
		if u, err := url.Parse(w.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return nil, fmt.Errorf("witness policy: witness %s: URL %.200q: want http://HOST[:PORT][/PREFIX] or https, to ask it", w.Name, w.URL)
		}
	}
	return &Witnesses{policy: policy, now: now, last: map[watched]int64{}, heard: map[string]*witnessAnswer{}, http: &http.Client{
		Transport:     client.NewTransport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close ends idle connections.
func (w *Witnesses) Close() { w.http.CloseIdleConnections() }

// Has reports whether a note of the log bears a quorum.
func (w *Witnesses) Has(note []byte) bool {
	_, err := w.policy.ReadCosigned(note, ledger.Period{Until: canon.At(w.now()) + ledger.ClockSlack})
	return err == nil
}

// Cosign asks all witnesses at once and returns the note with the cosignatures of a quorum, in the order of the policy.
// When there is a quorum, those that have not answered get WitnessLinger more. Cosignatures whose time is more than
// [ledger.ClockSlack] from this machine's clock do not count, so that a clock that is wrong, here or there, stops publishing
// instead of going into the log. Without a quorum: an error that wraps a *[ledger.QuorumError] and says what each of the
// others answered. src has the tiles of the checkpoint's tree.
func (w *Witnesses) Cosign(ctx context.Context, src ledger.Source, c ledger.Checkpoint, signed []byte) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, WitnessTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errors.New("it had not answered when the others had"))
	type answer struct {
		from int
		line string
		err  error
	}
	all := w.policy.Witnesses()
	answers := make(chan answer, len(all))
	for i, one := range all {
		go func() {
			line, err := w.ask(ctx, src, one, c, signed)
			w.note(one.Name, err)
			answers <- answer{i, line, err}
		}()
	}
	lines, faults := make([]string, len(all)), make([]error, len(all))
	cosigned := func() ([]byte, error) {
		note := []byte(string(signed) + strings.Join(lines, ""))
		now := canon.At(w.now())
		_, err := w.policy.ReadCosigned(note, ledger.Period{From: now - ledger.ClockSlack, Until: now + ledger.ClockSlack})
		return note, err
	}
	var enough <-chan time.Time
	for range all {
		select {
		case a := <-answers:
			lines[a.from], faults[a.from] = a.line, a.err
		case <-enough:
			return cosigned()
		}
		if enough == nil {
			if _, err := cosigned(); err == nil {
				enough = time.After(WitnessLinger)
			}
		}
	}
	note, err := cosigned()
	if err != nil {
		return nil, errors.Join(append([]error{err}, faults...)...)
	}
	return note, nil
}

// note notes how it went to ask a witness.
func (w *Witnesses) note(name string, fault error) {
	now := canon.At(w.now())
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.heard[name]
	if h == nil {
		h = &witnessAnswer{cosigned: now}
		w.heard[name] = h
	}
	if h.fault = fault; fault == nil {
		h.cosigned = now
	}
}

// changed calls f for each witness that no longer cosigns, with the reason of the last time, and for each that does so
// again, once. A quorum may well be there without it; the next one that fails may end it.
func (w *Witnesses) changed(f func(name string, fault error, since time.Duration)) {
	now := canon.At(w.now())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.policy.Witnesses() {
		h := w.heard[one.Name]
		if h == nil || h.silent == (h.fault != nil) {
			continue
		}
		if since := now - h.cosigned; h.silent || since > seconds(WitnessSilence) {
			h.silent = !h.silent
			f(one.Name, h.fault, time.Duration(since)*time.Second)
		}
	}
}

// ages calls f for each witness with the seconds since it cosigned last or, if it never did, was first asked.
func (w *Witnesses) ages(f func(name string, age int64)) {
	now := canon.At(w.now())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.policy.Witnesses() {
		if h := w.heard[one.Name]; h != nil {
			f(one.Name, max(0, int64(now-h.cosigned)))
		}
	}
}

// ask gets the cosignature of one witness. What the witness cosigned last is its to say: where it says another size than
// this process knew, the proof is made from that one.
func (w *Witnesses) ask(ctx context.Context, src ledger.Source, one ledger.Witness, c ledger.Checkpoint, signed []byte) (string, error) {
	w.mu.Lock()
	old := w.last[watched{one.Name, c.Origin}]
	w.mu.Unlock()
	fail := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("witness %s: "+format, append([]any{one.Name}, args...)...)
	}
	for range witnessTries {
		if old > c.Size {
			return fail("it cosigned size %d, this log has size %d: another history has this log's key, or this database is an old one", old, c.Size)
		}
		proof, err := ledger.ProveConsistency(ctx, src, old, c.Size)
		if err != nil {
			return fail("%w", err)
		}
		status, kind, answer, err := w.post(ctx, one, ledger.AddCheckpoint{Old: old, Proof: proof.Hashes, Note: signed})
		if err != nil {
			return fail("%w", err)
		}
		switch {
		case status == http.StatusOK:
			line, at, err := one.Answer(c, answer)
			if err != nil {
				return line, err
			}
			w.mu.Lock()
			w.last[watched{one.Name, c.Origin}] = c.Size
			w.mu.Unlock()
			if now := canon.At(w.now()); at < now-ledger.ClockSlack || at > now+ledger.ClockSlack {
				err = fmt.Errorf("witness %s: it cosigned at %s, at %s by this machine's clock: one of the two is wrong", one.Name, at, now)
			}
			return line, err
		case status == http.StatusConflict && kind == sizeType:
			text := strings.TrimSuffix(string(answer), "\n")
			size, err := strconv.ParseInt(text, 10, 64)
			if err != nil || size < 0 || size > canon.MaxInt || size == old {
				return fail("it says that it cosigned size %.40q last, asked from size %d", text, old)
			}
			old = size
		default:
			word, _, _ := strings.Cut(string(answer), "\n")
			return fail("it answered %d to size %d after %d%s: %.200q", status, c.Size, old, meaning(status), word)
		}
	}
	return fail("it says another size each time")
}

// meaning says what a refusal tells about the log.
func meaning(status int) string {
	switch status {
	case http.StatusConflict, http.StatusUnprocessableEntity:
		return " (it knows another history of this log)"
	case http.StatusNotFound:
		return " (it does not watch this log)"
	case http.StatusForbidden:
		return " (it knows another key of this log)"
	}
	return ""
}

// Know asks all witnesses whether they watch a log, of which empty is the signed checkpoint of the empty tree. It asks for
// what no witness grants, a checkpoint smaller than the one it is said to continue: a witness first says whether it knows
// the log and its key, and nothing is cosigned. Those that do not know it are an error; one that gives no answer, or
// another one, tells nothing.
func (w *Witnesses) Know(ctx context.Context, empty []byte) error {
	ctx, cancel := context.WithTimeout(ctx, WitnessTimeout)
	defer cancel()
	all := w.policy.Witnesses()
	faults := make([]error, len(all))
	var asked sync.WaitGroup
	for i, one := range all {
		asked.Go(func() {
			status, _, _, err := w.post(ctx, one, ledger.AddCheckpoint{Old: 1, Note: empty})
			if err == nil && (status == http.StatusNotFound || status == http.StatusForbidden) {
				faults[i] = fmt.Errorf("witness %s: it answered %d%s", one.Name, status, meaning(status))
			}
		})
	}
	asked.Wait()
	return errors.Join(faults...)
}

func (w *Witnesses) post(ctx context.Context, one ledger.Witness, what ledger.AddCheckpoint) (status int, kind string, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(one.URL, "/")+"/add-checkpoint", bytes.NewReader(what.Marshal()))
	if err != nil {
		return 0, "", nil, err
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, ledger.MaxCheckpoint+1))
	if err != nil {
		return 0, "", nil, fmt.Errorf("read its answer: %w", err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), answer, nil
}
