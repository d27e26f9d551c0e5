package server

import (
	"context"
	"errors"
	"time"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// openWitnesses takes the witness policy of the settings, now that the log's keys are known. A policy that names a key
// which the log has had is for this log.
func (s *Server) openWitnesses() (err error) {
	if s.given.witnesses == nil {
		return nil
	}
	history := s.keys.Load().history
	s.witnesses, err = NewWitnesses(*s.given.witnesses, history.LogVKeys(history.Current().Origin), s.now, s.operatorKeys()...)
	return err
}

// cosigned returns since when anybody can have had a checkpoint, by the clocks of a quorum of witnesses. Zero: none of the
// witnesses of now cosigned it, or nobody asks for any.
func (s *Server) cosigned(ctx context.Context, checkpoint canon.Digest, now canon.Time) (canon.Time, error) {
	if s.given.witnesses == nil || checkpoint.IsZero() {
		return 0, nil
	}
	note, err := s.store.Blob(ctx, checkpoint)
	if err != nil {
		return 0, err
	}
	c, err := s.given.witnesses.ReadCosigned(note, ledger.Period{Until: now + ledger.ClockSlack})
	if lacksQuorum(err) {
		return 0, nil
	}
	return c.From, err
}

// lacksQuorum reports whether publishing failed for lack of witnesses: then nothing is published, nothing is lost, and
// whoever publishes next asks again.
func lacksQuorum(err error) bool {
	var missing *ledger.QuorumError
	return errors.As(err, &missing)
}

// noteStall notes how publishing went. That a quorum lacks is an alarm once, not at each try; that a witness does is told
// once, too.
func (s *Server) noteStall(err error) {
	stall := lacksQuorum(err)
	was := s.stall.Swap(stall)
	switch {
	case stall && !was:
		s.alarm("nothing is published: no quorum of witnesses", "error", err)
	case stall:
		s.log.Debug("still no quorum of witnesses", "error", err)
	case was:
		s.log.Info("the quorum of witnesses is there again")
	}
	if s.witnesses == nil {
		return
	}
	s.witnesses.changed(func(name string, fault error, since time.Duration) {
		if fault == nil {
			s.log.Info("a witness cosigns again", "witness", name)
			return
		}
		s.log.Warn("a witness does not cosign", "witness", name, "for", since, "error", fault)
	})
}

// backlog is what no checkpoint covers yet.
type backlog struct {
	progress Progress
	waited   canon.Time // seconds for which the oldest entry has waited; 0 where none does
}

// late reports whether a promise is broken: an entry should be in a checkpoint and is not.
func (b backlog) late() bool { return b.waited > ledger.PublishWithin }

func (s *Server) backlog(ctx context.Context) (b backlog, err error) {
	if b.progress, err = s.store.Progress(ctx); err != nil || b.progress.Published == b.progress.Entries {
		return b, err
	}
	oldest, err := s.store.Entries(ctx, b.progress.Published, 1)
	if err != nil || len(oldest) == 0 {
		return b, err
	}
	b.waited = max(0, s.time()-oldest[0].Time)
	return b, nil
}

// mayStand refuses a verdict that witnesses have not seen: one that no checkpoint covers starts nothing, and one that a
// checkpoint covers stands for StallGrace while nothing new can be published. Without witnesses the server's word is all
// there is, and it refuses nothing.
func (s *Server) mayStand(ctx context.Context, verdict canon.Digest) error {
	if s.witnesses == nil {
		return nil
	}
	found, err := s.store.EntriesOf(ctx, verdict, 1)
	if err != nil {
		return err
	}
	b, err := s.backlog(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(found) == 0 || found[0].Place >= b.progress.Published:
		p := refuse(codeNotPublished, "no checkpoint that a quorum of witnesses cosigned holds the verdict yet")
		p.retry = s.settings.Interval
		return p
	case b.waited > seconds(StallGrace):
		p := refuse(codeStalled, "for %s no quorum of witnesses has cosigned: the log may be hiding what speaks against the node", time.Duration(b.waited)*time.Second)
		p.retry = time.Minute
		return p
	}
	return nil
}
