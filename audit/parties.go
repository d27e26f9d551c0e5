package audit

import (
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// keysSoFar are the log's keys up to where it was read.
type keysSoFar struct{ r *replay }

func (k keysSoFar) SignerOf(e ledger.Envelope, use string, at canon.Time) (ledger.Key, error) {
	return k.r.keys.SignerOf(e, use, at)
}

// learnParty folds what the log says of providers with the functions that the server ran: a claim that nobody entitled signed, and
// an event that does not follow from the state before it, are faults. In a scope entries are left out, so that nothing can be
// folded.
func (r *replay) learnParty(e ledger.Entry, body []byte) error {
	if r.scope != nil {
		return nil
	}
	if r.parties == nil {
		r.parties = vetting.NewBook(keysSoFar{r})
	}
	_, err := r.parties.Apply(ledger.Event{Entry: e, Body: body})
	return err
}

// endParties notes what the log owes providers when it has been read.
func (r *replay) endParties() {
	if r.parties == nil {
		return
	}
	if n := r.parties.Owed(); n > 0 {
		r.fault(Fault{Part: partCheckpoint, Index: NoIndex, Kind: ledger.KindCertificate, What: fmt.Sprintf("%d notices that events call for are not in the log", n)})
	}
}
