package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// count counts events until there are three, each within an hour of the last.
func count(n int, e ledger.Event) (ledger.Step[int], error) {
	if string(e.Body) == "bad" {
		return ledger.Step[int]{}, errors.New("does not fit")
	}
	s := ledger.Step[int]{State: n + 1, Status: "counting", Due: e.Entry.Time + 3600, Reason: "counted"}
	if s.State == 3 {
		s.Status, s.Due = "done", 0
	}
	return s, nil
}

func TestFold(t *testing.T) {
	at := func(times ...canon.Time) (events []ledger.Event) {
		for _, at := range times {
			events = append(events, ledger.Event{Entry: ledger.Entry{Time: at}})
		}
		return events
	}
	m := ledger.Machine[int](count)
	if s, err := m.Fold(0, at(1, 2)...); err != nil || s.State != 2 || s.Due != 3602 || s.Terminal() {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := m.Fold(0, at(1, 2, 3)...); err != nil || s.State != 3 || !s.Terminal() {
		t.Errorf("%+v, %v", s, err)
	}
	bad := at(1, 2)
	bad[1].Body = []byte("bad")
	if s, err := m.Fold(0, bad...); err == nil || !strings.HasPrefix(err.Error(), "event 1: does not fit") || s.State != 1 {
		t.Errorf("%+v, %v: an event that does not fit must change nothing", s, err)
	}
	for name, spoil := range map[string]func(*ledger.Step[int]){
		"no name":   func(s *ledger.Step[int]) { s.Status = "" },
		"no reason": func(s *ledger.Step[int]) { s.Reason = "" },
		"due now":   func(s *ledger.Step[int]) { s.Due = 1 },
	} {
		_, err := ledger.Machine[int](func(n int, e ledger.Event) (ledger.Step[int], error) {
			s, err := count(n, e)
			spoil(&s)
			return s, err
		}).Apply(0, at(1)[0])
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestStreamsOfParties(t *testing.T) {
	e := ledger.Entry{Type: ledger.EntryType, Time: 1, Body: canon.Sum(nil), Refs: []canon.Digest{}}
	for kind, right := range map[string]string{
		ledger.KindClaim: ledger.IssuerStream("tuv.example"), ledger.KindCertificate: ledger.ProviderStream("p1"), ledger.KindRules: ledger.StreamServer,
	} {
		for _, stream := range []string{ledger.IssuerStream("tuv.example"), ledger.ProviderStream("p1"), ledger.StreamServer, ledger.StreamVerifier,
			ledger.NodeStream("n1"), ledger.IssuerStream(""), ledger.ProviderStream("")} {
			e.Kind, e.Stream = kind, stream
			if err := e.Validate(); (err == nil) != (stream == right) {
				t.Errorf("%s in %s: %v", kind, stream, err)
			}
		}
	}
}
