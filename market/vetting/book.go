package vetting

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Book is everything that the log says of providers, folded in its order: what issuers say, the operator's parameters, and the
// states of certificates and devices. Whoever folds the same entries has the same book: a server that is rebuilt, and an auditor.
type Book struct {
	*Registry
	*History
	Certificates map[string]Certificate // by id
	Devices      map[string]DeviceState // by identity
	owed         map[owed]int           // notices that events call for, and that the log does not have yet
}

type owed struct {
	stream string
	body   canon.Digest
}

// NewBook returns an empty book. The operator's keys are the result keys of the log.
func NewBook(operator ledger.Signers) *Book {
	return &Book{NewRegistry(operator), &History{}, map[string]Certificate{}, map[string]DeviceState{}, map[owed]int{}}
}

// Applied is what an entry did: to which life cycle, and what comes of it. Of a claim, of parameters or of a notice there is no
// life cycle.
type Applied struct {
	Certificate string // or
	Device      string
	Status      string
	Reason      string
	Due         canon.Time
	Drafts      []ledger.Draft
}

// Apply takes the next entry of the log of one of the kinds claim/v1, certificate/v1 and rules/v1. An entry that does not fit is
// an error and changes nothing. That the standing which an event carries is what the registry says, it does not check: what the
// operator observed stands in no entry; [Registry.Stand] of an auditor's own observations tells.
func (b *Book) Apply(e ledger.Event) (a Applied, err error) {
	switch e.Entry.Kind {
	case ledger.KindClaim:
		return a, b.Registry.Add(e)
	case ledger.KindRules:
		return a, b.History.Add(e)
	case ledger.KindCertificate:
	default:
		return a, fmt.Errorf("book: %s is not about providers", e.Entry.Kind)
	}
	switch typ := typeOf(e.Body); typ {
	case ActType:
		act, err := ParseAct(e.Body)
		if err != nil {
			return a, err
		}
		step, err := ledger.Machine[Certificate](b.Certify).Apply(b.Certificates[act.Certificate], e)
		if err != nil {
			return a, err
		}
		b.Certificates[act.Certificate] = step.State
		a = Applied{Certificate: act.Certificate, Status: step.Status, Reason: step.Reason, Due: step.Due, Drafts: step.Drafts}
	case SightingType:
		s, err := ParseSighting(e.Body)
		if err != nil {
			return a, err
		}
		state := b.Devices[s.Device]
		if state.Status == Released {
			state = DeviceState{}
		}
		step, err := ledger.Machine[DeviceState](b.Hold).Apply(state, e)
		if err != nil {
			return a, err
		}
		b.Devices[s.Device] = step.State
		a = Applied{Device: s.Device, Status: step.Status, Reason: step.Reason, Due: step.Due, Drafts: step.Drafts}
	case NoticeType:
		key := owed{e.Entry.Stream, canon.Sum(e.Body)}
		if b.owed[key] == 0 {
			return a, errors.New("notice: no event calls for it")
		}
		if b.owed[key]--; b.owed[key] == 0 {
			delete(b.owed, key)
		}
		return a, nil
	default:
		return a, fmt.Errorf("certificate: type %.80q is not known to this build", typ)
	}
	for _, d := range a.Drafts {
		b.owed[owed{d.Stream, canon.Sum(d.Body)}]++
	}
	return a, nil
}

// Owed returns how many notices events have called for that the log does not have: of a whole log, none.
func (b *Book) Owed() (n int) {
	for _, count := range b.owed {
		n += count
	}
	return n
}

// typeOf returns the type of a document that has not been read yet.
func typeOf(body []byte) string {
	var head struct {
		Type string `json:"type"`
	}
	if len(body) > MaxBody || json.Unmarshal(body, &head) != nil {
		return ""
	}
	return head.Type
}
