// Package agent is what runs on a provider's machine: it answers the verifier's challenges with evidence of the hardware,
// again and again, and keeps nothing but a node credential, the keys that it believes, the last checkpoint it saw and what
// the log promised it.
//
// One round: ask for a challenge; refuse it unless it is for this node, from the pinned verifier, and names a checkpoint
// that continues the last one, also over the boundary to the log that goes on where that one's was closed; take the evidence, sealing component last; sign the bundle with the session key; submit;
// check the promise; wait for the verdict. Session keys are made in memory and covered by the evidence. They end with the
// process, after [MaxKeyLife], at a reject, an eviction, a reboot (another boot id, or another count of a TPM) and on
// request; the next keys are sealed by the next round's evidence. Where the machine has a TPM, the verifier activates its
// key first. Where it has confidential GPUs, they take no work before a verdict accepts the machine.
//
// Before each round it looks whether the log kept its promises, and once an hour at the head of its own stream. A fault of
// the log is said aloud and kept with its proof; the rounds go on.
//
// Clock, waiting and randomness are arguments. What the agent believes of a verdict is its signature; recomputing it is
// what audit does.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Config is all that an agent works with.
type Config struct {
	Node       Node                                 // who it is, whom it believes
	Store      Store                                // where the last checkpoint is kept
	Server     *client.Client                       // with the node's credential
	Devices    []Device                             // of this machine; one of them seals the bundles
	GPUs       GPUs                                 // of this machine; nil: none
	Executable canon.Digest                         // SHA-256 of the agent itself
	BootID     func() (string, error)               // read before every round
	Interval   time.Duration                        // longest time between two rounds; zero: DefaultInterval
	Random     io.Reader                            // keys and jitter
	Now        func() time.Time                     // the machine's clock
	After      func(time.Duration) <-chan time.Time // as time.After
	Logger     *slog.Logger
}

// Status is what an agent last learned.
type Status struct {
	Node      string
	Keys      canon.Digest // K
	KeysSince canon.Time   // when they were made
	Evidence  canon.Digest // last that was decided
	Decided   canon.Time   // when this agent learned it
	Decision  client.Decision
	Accepted  canon.Time // when it last learned of an accept; zero: never
	Rounds    int64      // that ended, since the agent began
	Failures  int64      // of them, without a verdict
	Fault     string     // of the last round; empty: it ended well
	Next      canon.Time // when the next round begins at the latest
	LogFaults int64      // that it found in the log, since it began; see [Stream]
}

// ErrRevoked is returned when the server no longer takes the node's credential: a person has to join the node anew.
var ErrRevoked = errors.New("the node credential is revoked")

// Agent runs rounds. One goroutine at a time calls Round or Run; Status may be called from any.
type Agent struct {
	c       Config
	tpm     TPM      // among the devices; nil: none
	session *Session // nil: the next round draws new keys
	why     string   // why it does
	counted string   // what the TPM counted when the session keys were drawn
	// activated is whether the verifier activated the TPM's key since the agent or the machine began.
	activated bool
	gated     bool                     // whether this agent closed or opened the GPUs yet
	ready     bool                     // whether they are open
	logs      map[string]ledger.Source // of the server, by origin

	mu     sync.Mutex // guards status
	status Status
}

// New returns an agent that has not done anything yet.
func New(c Config) (*Agent, error) {
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Interval < MinInterval || c.Interval > MaxInterval {
		return nil, fmt.Errorf("interval %s: want %s to %s", c.Interval, MinInterval, MaxInterval)
	}
	if c.Server.Origin() != c.Node.Origin {
		return nil, fmt.Errorf("server %s: the node joined %s", c.Server.Origin(), c.Node.Origin)
	}
	return &Agent{c: c, tpm: tpmOf(c.Devices), why: "start", logs: map[string]ledger.Source{}, status: Status{Node: c.Node.Node}}, nil
}

// Status returns what the agent last learned.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

func (a *Agent) note(change func(*Status)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.status)
}

// Run does rounds until the context ends or the credential is revoked. A request asks for new keys and a round now.
func (a *Agent) Run(ctx context.Context, requests <-chan struct{}) error {
	failures := 0
	for {
		err := a.Round(ctx)
		var wait time.Duration
		var randomErr error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrRevoked):
			return err
		case err != nil:
			failures++
			var asked time.Duration
			if p := client.AsProblem(err); p != nil {
				asked = p.RetryAfter
			}
			wait, randomErr = BackOff(a.c.Random, failures, asked)
			a.c.Logger.Warn("round failed", "error", err, "failures", failures, "next", wait)
		default:
			failures = 0
			wait, randomErr = NextRound(a.c.Random, a.c.Interval)
		}
		if randomErr != nil {
			return randomErr
		}
		a.note(func(s *Status) { s.Next = canon.At(a.c.Now().Add(wait)) })
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-requests:
			a.drop("request")
		case <-a.c.After(wait):
		}
	}
}

// Round proves this machine once. An error says why no verdict was learned; a reject is no error.
func (a *Agent) Round(ctx context.Context) error {
	err := a.round(ctx)
	if p := client.AsProblem(err); p != nil {
		switch {
		case p.Code == client.CodeEvicted:
			a.drop("evicted")
		case p.Status == http.StatusUnauthorized:
			err = fmt.Errorf("%w: %w", ErrRevoked, err)
		}
	}
	a.note(func(s *Status) {
		s.Fault = ""
		s.Rounds++
		if err != nil {
			s.Fault = err.Error()
			s.Failures++
		}
	})
	return err
}

func (a *Agent) round(ctx context.Context) error {
	if err := a.renew(); err != nil {
		return err
	}
	if err := a.checkLog(ctx); errors.Is(err, ledger.ErrFork) || errors.Is(err, errStream) {
		return err
	} else if err != nil {
		a.c.Logger.Warn("the log was not checked", "error", err)
	}
	if err := a.activate(ctx); err != nil {
		return err
	}
	if !a.gated {
		if err := a.gate(false); err != nil {
			return err
		}
	}
	for n := 1; ; n++ {
		err := a.answer(ctx)
		// Another challenge helps where this one was burned by a submission whose answer was lost, or ran out.
		p := client.AsProblem(err)
		stale := p != nil && (p.Code == client.CodeChallengeUsed || p.Code == client.CodeChallengeExpired)
		if !stale || n == MaxChallenges {
			return err
		}
		a.c.Logger.Info("challenge is stale, asking for another", "error", err)
	}
}

// renew draws new keys where the old ones have ended, or would end before the next round could replace them.
func (a *Agent) renew() error {
	boot, err := a.c.BootID()
	if err != nil {
		return err
	}
	counted, err := a.epoch()
	if err != nil {
		return err
	}
	now := a.c.Now()
	if counted != a.counted {
		a.activated = false // the TPM may hold other keys, where it was cleared
	}
	switch s := a.session; {
	case s == nil:
	case s.boot != boot, counted != a.counted:
		a.drop("reboot")
	case !now.Add(max(a.c.Interval, MaxBackOff)).Before(s.born.Add(MaxKeyLife)):
		a.drop("age")
	}
	if a.session != nil {
		return nil
	}
	if a.session, err = NewSession(a.c.Random, boot, now); err != nil {
		return err
	}
	a.counted = counted
	k := a.session.keys.Digest()
	a.note(func(s *Status) { s.Keys, s.KeysSince = k, canon.At(now) })
	a.c.Logger.Info("new session keys", "keys", k.Short(), "reason", a.why)
	return nil
}

// drop ends the session keys.
func (a *Agent) drop(why string) {
	a.session, a.why = nil, why
	a.note(func(s *Status) { s.Keys, s.KeysSince = canon.Digest{}, 0 })
}

// answer takes one challenge through to its verdict.
func (a *Agent) answer(ctx context.Context) error {
	ch, err := a.c.Server.Challenge(ctx, nil)
	if err != nil {
		return err
	}
	if err := a.withKeys(ctx, func() error { return a.believe(ctx, ch) }); err != nil {
		return err
	}
	bundle, err := Collect(a.c.Devices, a.session.keys, ch.Challenge.Digest(), attest.Statement{
		Type: attest.StatementType, Agent: a.c.Executable, BootID: a.session.boot, Checkpoint: ch.Checkpoint,
	}, a.gpus()...)
	if err != nil {
		return fmt.Errorf("collect evidence: %w", err)
	}
	env, err := attest.SealBundle(bundle, a.session)
	if err != nil {
		return err
	}
	data, err := canon.Marshal(env)
	if err != nil {
		return err
	}
	if err := a.sending(); err != nil {
		return err
	}
	sub, err := a.submit(ctx, data, ch.Challenge.Expires)
	if err != nil {
		return err
	}
	var promise ledger.Promise
	if err := a.withKeys(ctx, func() error { promise, err = a.promised(sub.Promise); return err }); err != nil {
		return err
	}
	if err := a.enter(ctx, promise.Origin); err != nil {
		return err
	}
	if err := a.hold(sub.Promise, promise, ch.Checkpoint); err != nil {
		return err
	}
	a.c.Logger.Info("evidence submitted", "evidence", sub.Evidence.Short(), "keys", a.session.keys.Digest().Short(),
		"stream", promise.Stream, "sequence", promise.Sequence, "publish_by", promise.PublishBy)
	return a.await(ctx, sub.Evidence, promise)
}

// withKeys does a check that rests on pinned keys. Where it meets one that is not among them, the verifier may have changed
// its keys: then it asks for the keysets that follow the pinned one, keeps the newest, and does the check once more.
func (a *Agent) withKeys(ctx context.Context, check func() error) error {
	err := check()
	if !errors.Is(err, ledger.ErrUnknownKey) {
		return err
	}
	keys, askErr := a.c.Server.Keys(ctx)
	if askErr != nil {
		return errors.Join(err, askErr)
	}
	n, askErr := a.c.Node.Follow(keys)
	if askErr == nil {
		_, askErr = n.Follower() // the operator's witness policy may not know the next log yet
	}
	if askErr != nil {
		return errors.Join(err, askErr)
	}
	if err := a.c.Store.SaveNode(n); err != nil {
		return err
	}
	a.c.Node = n
	a.c.Logger.Info("the verifier changed its keys", "made", n.Keyset.Made.String())
	return check()
}

// believe checks a challenge and remembers its checkpoint, before anything is made for it.
func (a *Agent) believe(ctx context.Context, ch client.Challenged) error {
	if err := a.c.Node.CheckChallenge(ch, a.c.Now()); err != nil {
		return err
	}
	_, err := a.follow(ctx, ch.Checkpoint)
	return err
}

// follow believes a checkpoint if it is the log's, continues the last one that was believed and has the quorum of witnesses
// that the node asks for, and remembers it.
func (a *Agent) follow(ctx context.Context, next string) (ledger.Checkpoint, error) {
	f, err := a.c.Node.Follower()
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	f.Chain = a.c.Server.Chain
	log, err := a.log(ctx, a.c.Node.Keyset.Origin)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	c, err := a.c.Store.Believed().Follow(ctx, f, log, []byte(next), canon.At(a.c.Now())+ledger.ClockSlack)
	if errors.Is(err, ledger.ErrFork) {
		a.c.Logger.Error("checkpoint refused, both notes are kept", "error", err)
	}
	return c.Checkpoint, err
}

// log returns one of the server's logs, whose tiles prove that checkpoints continue each other.
func (a *Agent) log(ctx context.Context, origin string) (ledger.Source, error) {
	if m, ok := a.logs[origin]; ok {
		return m, nil
	}
	m, err := a.c.Server.Log(ctx, origin)
	if err != nil {
		return nil, err
	}
	a.logs[origin] = m
	return m, nil
}

// submit hands in the same bytes until the server has answered or the challenge is over: a lost answer is found again.
func (a *Agent) submit(ctx context.Context, data []byte, expires canon.Time) (client.Submitted, error) {
	for failures := 1; ; failures++ {
		s, err := a.c.Server.Submit(ctx, data)
		if err == nil {
			return s, nil
		}
		p := client.AsProblem(err)
		if p != nil && !p.Temporary() || ctx.Err() != nil {
			return s, err
		}
		var asked time.Duration
		if p != nil {
			asked = p.RetryAfter
		}
		wait, randomErr := BackOff(a.c.Random, failures, asked)
		if randomErr != nil || canon.At(a.c.Now().Add(wait)) >= expires {
			return s, errors.Join(err, randomErr)
		}
		a.c.Logger.Warn("submission failed, sending it again", "error", err, "next", wait)
		if err := a.pause(ctx, wait); err != nil {
			return s, err
		}
	}
}

func (a *Agent) pause(ctx context.Context, wait time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.c.After(wait):
		return nil
	}
}

// promised reads the promise for evidence of this node.
func (a *Agent) promised(e ledger.Envelope) (ledger.Promise, error) {
	p, err := ledger.OpenPromise(e, a.c.Node.Keyset)
	switch {
	case err != nil:
		return p, err
	case p.Origin != a.c.Node.Keyset.Origin:
		return p, fmt.Errorf("promise: of log %.80q, pinned is %q", p.Origin, a.c.Node.Keyset.Origin)
	case p.Stream != ledger.NodeStream(a.c.Node.Node):
		return p, fmt.Errorf("promise: for stream %.80q, this is node %q", p.Stream, a.c.Node.Node)
	}
	return p, nil
}

// await asks for the verdict on submitted evidence until there is one.
func (a *Agent) await(ctx context.Context, evidence canon.Digest, promise ledger.Promise) error {
	poll, end := MinPoll, a.c.Now().Add(Patience)
	for {
		r, err := a.c.Server.Result(ctx, evidence)
		if p := client.AsProblem(err); err != nil && p != nil && !p.Temporary() {
			return err
		}
		if err == nil && r.State == client.StateDecided {
			return a.learn(ctx, r, evidence, promise)
		}
		if a.c.Now().After(end) {
			return errors.Join(fmt.Errorf("no verdict on evidence %s within %s", evidence.Short(), Patience), err)
		}
		if err := a.pause(ctx, poll); err != nil {
			return err
		}
		poll = min(2*poll, MaxPoll)
	}
}

// learn checks a verdict and keeps it. A reject ends the session keys.
func (a *Agent) learn(ctx context.Context, r client.Result, evidence canon.Digest, promise ledger.Promise) error {
	var d client.Decision
	err := a.withKeys(ctx, func() (err error) { d, err = r.Decision(evidence, a.c.Node.Keyset); return err })
	if err != nil {
		return err
	}
	e, err := kept(r.Entries, evidence, promise)
	if err == nil {
		err = a.opened(e)
	}
	if err != nil {
		return err
	}
	a.note(func(s *Status) {
		s.Evidence, s.Decision, s.Decided = evidence, d, canon.At(a.c.Now())
		if d.Outcome == client.Accept {
			s.Accepted = s.Decided
		}
	})
	level := slog.LevelInfo
	if d.Outcome != client.Accept {
		level = slog.LevelWarn
	}
	a.c.Logger.Log(context.Background(), level, "verdict", "verdict", d.Outcome, "policy", d.Policy, "evidence", evidence.Short())
	for _, why := range d.Reasons {
		a.c.Logger.Log(context.Background(), level, "reason", "claim", why.Claim, "subject", why.Subject, "status", why.Status,
			"required", why.Required, "observed", why.Observed, "fix", why.Fix, "who", why.Who)
	}
	if d.Outcome == client.Reject {
		a.drop("reject")
	}
	return a.obey(d.Outcome)
}

// kept returns the promised entry, if it is the evidence: the promise itself names a salted commitment alone.
func kept(entries []client.LogEntry, evidence canon.Digest, promise ledger.Promise) (ledger.Entry, error) {
	for _, le := range entries {
		if canon.Sum(le.Opening) != promise.Commitment {
			continue
		}
		_, e, err := ledger.ParseOpening(le.Opening)
		if err != nil {
			return e, err
		}
		if e.Body != evidence || e.Stream != promise.Stream || e.Sequence != promise.Sequence {
			return e, errors.New("promise: the promised entry is not the submitted evidence")
		}
		return e, nil
	}
	return ledger.Entry{}, errors.New("promise: the result does not open the promised entry")
}
