package ledger

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// Event is one thing that happened: an entry, and the body that it names. Time, too, happens as an entry: whoever keeps the
// clock makes one when a state is due.
type Event struct {
	Entry Entry
	Body  []byte
}

// Step is what an event does to a state of a life cycle.
type Step[S any] struct {
	State  S
	Status string     // name of the state
	Due    canon.Time // when time alone moves it on; zero in a state that nothing moves any more, and only there
	Reason string     // why it is in this state: one code, lower-case words joined by hyphens
	Drafts []Draft    // entries to make in the same transaction, in order
}

// Draft is an entry to make: its place in the stream and its time are given to it when it is made.
type Draft struct {
	Kind   string
	Stream string
	Body   []byte
	Refs   []canon.Digest
}

// Terminal reports whether nothing moves the state any more.
func (s Step[S]) Terminal() bool { return s.Due == 0 }

// Machine is a life cycle: a pure function of a state and what happened, so that everybody who folds the same entries has the
// same states. The zero S is the state before the first event. An event that does not fit is an error and changes nothing.
type Machine[S any] func(S, Event) (Step[S], error)

// Fold applies events in order, beginning with a state. It fails on the first one that does not fit.
func (m Machine[S]) Fold(state S, events ...Event) (step Step[S], err error) {
	step.State = state
	for i, e := range events {
		if step, err = m.Apply(step.State, e); err != nil {
			return step, fmt.Errorf("event %d: %w", i, err)
		}
	}
	return step, nil
}

// Apply applies one event and holds the machine to the law of steps: each has a name and a reason, and a state that is not the
// end has a deadline after the event.
func (m Machine[S]) Apply(state S, e Event) (Step[S], error) {
	step, err := m(state, e)
	switch {
	case err != nil:
		return Step[S]{State: state}, err
	case step.Status == "" || step.Reason == "":
		return Step[S]{State: state}, errors.New("machine: internal error: a step without a name or a reason")
	case step.Due != 0 && step.Due <= e.Entry.Time:
		return Step[S]{State: state}, fmt.Errorf("machine: internal error: %s is due at %s, not after %s", step.Status, step.Due, e.Entry.Time)
	}
	return step, nil
}
