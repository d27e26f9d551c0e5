package ledger

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// WitnessTerm is a witness policy and the time for which it holds: who reads a log of years has had several. What was
// cosigned in its time stays cosigned, also when the term has ended.
type WitnessTerm struct {
	From   canon.Time `json:"from"`           // first instant
	Until  canon.Time `json:"until,omitzero"` // last instant; absent: none is fixed
	Policy string     `json:"policy"`         // as C2SP tlog-policy writes it
}

// lastTime is the last instant that a cosignature can bear.
const lastTime canon.Time = 253402300799 // 9999-12-31T23:59:59Z

// Validate checks that a term has a start, an end that is not before it, and a policy. Without a start it would hold for
// what witnesses signed before anybody knew them.
func (t WitnessTerm) Validate() error {
	switch {
	case t.From <= 0:
		return errors.New("witnesses: no start of validity")
	case t.Until != 0 && t.Until < t.From:
		return fmt.Errorf("witnesses: validity ends %s, before it begins %s", t.Until, t.From)
	}
	_, err := ParseWitnessPolicy([]byte(t.Policy))
	return err
}

func (t WitnessTerm) period() Period {
	if t.Until == 0 {
		return Period{t.From, lastTime}
	}
	return Period{t.From, t.Until}
}

// OpenInTerms is [WitnessPolicy.Open] under the first term whose quorum cosigned in its time. now is the latest time that a
// cosignature may bear; zero: whatever the terms allow, for a reader without a clock. Where no term is satisfied, the error
// is that of the last one.
func OpenInTerms(terms []WitnessTerm, data []byte, logs []string, now canon.Time) (Cosigned, error) {
	err := errors.New("checkpoint: no witnesses to check it with")
	for _, t := range terms {
		if err := t.Validate(); err != nil {
			return Cosigned{}, err
		}
		p, parseErr := ParseWitnessPolicy([]byte(t.Policy))
		if parseErr != nil {
			return Cosigned{}, parseErr
		}
		within := t.period()
		if now != 0 {
			within.Until = min(within.Until, now)
		}
		c, openErr := p.Open(data, logs, within)
		if openErr == nil {
			return c, nil
		}
		err = openErr
	}
	return Cosigned{}, err
}
