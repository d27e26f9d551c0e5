package audit_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/verifier"
)

// provider makes the entries of one, and what has to follow them.
type provider struct {
	*service
	history vetting.History
	lives   map[string]vetting.Certificate
}

// provide makes facts, parameters and certificates.
func (s *provider) provide() {
	p := ledger.ProviderStream("p1")
	q := vetting.Defaults()
	q.Effective, q.EvidenceAge = s.now, 7200
	s.append(ledger.KindRules, ledger.StreamServer, s.put(q))
	s.append(ledger.KindCertificate, p, s.put(vetting.Facts{Type: vetting.FactsType, Provider: "p1", Stake: true, ContactHours: 4}))
	s.act(vetting.Act{Certificate: "c-1", Act: vetting.ActDraft, By: "user:olga", Place: vetting.Place{Provider: "p1", Host: "good"}, Tier: claim.TierAttested})
	s.act(vetting.Act{Certificate: "c-2", Act: vetting.ActDraft, By: "user:olga", Place: vetting.Place{Provider: "p1"}, Tier: claim.TierIdentified})
	s.act(vetting.Act{Certificate: "c-2", Act: vetting.ActEnd, By: "user:olga"}) // of no host, and ended: nobody misses it
}

func (s *provider) act(a vetting.Act, refs ...canon.Digest) {
	a.Type = vetting.ActType
	e := s.entryOf(s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(a), refs...))
	step, err := s.history.Certify(s.lives[a.Certificate], ledger.Event{Entry: e, Body: s.blobs[e.Body]})
	if err != nil {
		return // the audit says so
	}
	s.lives[a.Certificate] = step.State
	for _, d := range step.Drafts {
		s.append(d.Kind, d.Stream, s.putBytes(d.Body), d.Refs...)
	}
}

// see has the device of the last evidence seen on a host.
func (s *provider) see(h *host, evidence canon.Digest) {
	s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Sighting{Type: vetting.SightingType,
		Device: vetting.NewDevice(attest.IdentityAMDChip, h.platform.Fields.ChipID[:], nil).ID, Event: vetting.DeviceSeen, Provider: "p1", Host: h.node, Evidence: evidence}))
}

// evidenceOf returns the evidence that the last appraisal of a node is on, of whatever log.
func evidenceOf(s *service, node string) canon.Digest {
	for _, i := range s.leaves() {
		if i.Appraised != nil && i.Appraised.Node == node {
			return appraisalOf(s.t, s, i.Appraised.Appraisal).Inputs[0].Digest
		}
	}
	s.t.Fatal("no appraisal")
	return canon.Digest{}
}

func appraisalOf(t testing.TB, s *service, body canon.Digest) verifier.Appraisal {
	t.Helper()
	a, err := verifier.ParseAppraisal(s.blobs[body])
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestCertificatesOverLogs: a later log is audited from the state that it carries over, and the chain computes that state anew.
// alone is what the later log shows by itself, chain what both together show.
func TestCertificatesOverLogs(t *testing.T) {
	certificate := func(change func(*vetting.CarriedCertificate)) func([]vetting.CarriedItem) []vetting.CarriedItem {
		return func(items []vetting.CarriedItem) []vetting.CarriedItem {
			for _, i := range items {
				if i.Certificate != nil {
					change(i.Certificate)
				}
			}
			return items
		}
	}
	without := func(is func(vetting.CarriedItem) bool) func([]vetting.CarriedItem) []vetting.CarriedItem {
		return func(items []vetting.CarriedItem) []vetting.CarriedItem { return slices.DeleteFunc(items, is) }
	}
	for _, row := range []struct {
		name   string
		change changes
		later  func(s *provider, hardware vetting.Hardware) // events of the later log
		alone  string
		chain  string

		stands     bool   // what was carried over, and the fault is in what came later
		chainAlone string // what only a replay of both shows of one of them
	}{
		{name: "good"},
		{name: "a deadline put off", change: changes{vetting: certificate(func(c *vetting.CarriedCertificate) { c.State.Deadline += 3600 })},
			chain: `carries over certificate c-1 otherwise than the log "log.example/one" leaves it: certificate.state.deadline is`},
		{name: "another history", change: changes{vetting: certificate(func(c *vetting.CarriedCertificate) { c.Last[0] ^= 1 })}, chain: "certificate.last is"},
		{name: "a state that no life has", change: changes{vetting: certificate(func(c *vetting.CarriedCertificate) { c.State.Status = "gold" })},
			alone: `in the state "gold"`, chain: "does not carry over"},
		{name: "no certificate", change: changes{vetting: without(func(i vetting.CarriedItem) bool { return i.Certificate != nil })},
			alone: "submit of what nobody has drafted", chain: "does not carry over certificate c-1"},
		{name: "no device", change: changes{vetting: without(func(i vetting.CarriedItem) bool { return i.Device != nil })}, chain: "does not carry over device amd-chip-id:"},
		{name: "no parameters", change: changes{vetting: without(func(i vetting.CarriedItem) bool { return i.Word != nil })}, chain: "does not carry over rules/v1"},
		{name: "no facts", change: changes{vetting: without(func(i vetting.CarriedItem) bool { return i.Facts != nil })},
			alone: "observed otherwise of the provider", chain: "does not carry over facts about p1"},
		{name: "no appraisal", change: changes{vetting: without(func(i vetting.CarriedItem) bool { return i.Appraised != nil })},
			alone: "which is none of the last ones of host good", chain: "does not carry over the last appraisal of node good"},
		{name: "an ended certificate, too", change: changes{vetting: func(items []vetting.CarriedItem) []vetting.CarriedItem {
			for _, i := range items {
				if i.Certificate != nil {
					c := *i.Certificate
					c.State.ID, c.State.Place.Host, c.State.Status, c.State.Deadline = "c-2", "", vetting.Lapsed, 0
					return append(items, vetting.CarriedItem{Certificate: &c})
				}
			}
			return items
		}}, chain: "carries over certificate c-2, which did not stand"},
		{name: "nothing", change: changes{parts: func([][]byte) [][]byte { return nil }}, alone: "what nobody has drafted", chain: "does not carry over rules/v1"},
		{name: "the last part is missing", change: changes{parts: func(parts [][]byte) [][]byte {
			c, err := vetting.ParseCarried(parts[0])
			if err != nil {
				panic(err)
			}
			c.Last = false
			data, err := canon.Marshal(c)
			if err != nil {
				panic(err)
			}
			return [][]byte{data}
		}}, alone: "1 parts of what is carried over, and the last is missing", chain: "carries over 1 parts, and the last is missing"},
		{name: "carried over twice", change: changes{parts: func(parts [][]byte) [][]byte { return append(parts, parts[0]) }}, alone: "part 0 of what is carried over, where part 1 is due, or none"},
		{name: "an event that does not follow", later: func(s *provider, _ vetting.Hardware) {
			s.act(vetting.Act{Certificate: "c-1", Act: vetting.ActFail, By: "user:rita", Code: "finding"})
		}, alone: "certificate c-1: fail: "},
		{name: "a second certificate of the host", later: func(s *provider, _ vetting.Hardware) {
			s.act(vetting.Act{Certificate: "c-9", Act: vetting.ActDraft, By: "user:olga", Place: vetting.Place{Provider: "p1", Host: "good"}, Tier: claim.TierAttested})
		}, alone: "has certificate c-1, which has not ended"},
		{name: "another observation of the hardware", later: func(s *provider, h vetting.Hardware) {
			h.Level = vetting.HardwareGPU
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: s.now,
				Observed: vetting.Observed{Hardware: h, Stake: true, ContactHours: 4}}))
		}, alone: "differs: hardware of host good logged as"},
		{name: "a device seen by evidence of the log before", later: func(s *provider, _ vetting.Hardware) {
			s.see(newHost("good", sevsnp.PolicySMT), evidenceOf(s.service, "good"))
		}},
		{name: "another device seen by evidence of the log before", later: func(s *provider, _ vetting.Hardware) {
			s.see(newHost("far", sevsnp.PolicySMT), evidenceOf(s.service, "good"))
		}, chainAlone: "is said to be seen on host far by evidence that does not show it"},
		{name: "a device seen by evidence of no log", later: func(s *provider, _ vetting.Hardware) {
			s.see(newHost("far", sevsnp.PolicySMT), canon.Sum([]byte("nothing")))
		}, chain: "which neither it has nor a log before it", stands: true},
		{name: "a new certificate", later: func(s *provider, _ vetting.Hardware) {
			s.act(vetting.Act{Certificate: "c-3", Act: vetting.ActDraft, By: "user:olga", Place: vetting.Place{Provider: "p1"}, Tier: claim.TierIdentified})
		}},
		{name: "a new certificate with the id of one that ended", later: func(s *provider, _ vetting.Hardware) {
			s.act(vetting.Act{Certificate: "c-2", Act: vetting.ActDraft, By: "user:olga", Place: vetting.Place{Provider: "p1"}, Tier: claim.TierIdentified})
		}, chain: `drafts certificate c-2, and the log "log.example/one" had one of that id`, stands: true},
		{name: "a device of a node that was revoked", later: func(s *provider, _ vetting.Hardware) {
			n := ledger.Enrolment{Type: ledger.EnrolmentType, Node: "gone", Basis: ledger.BasisEvidence, Verifier: "https://verifier.example",
				Devices: []ledger.Device{{Kind: attest.IdentityAMDChip, Value: canon.Hex{1}}}}
			s.append(ledger.KindEnrolment, ledger.StreamVerifier, s.put(n), s.keysetBody)
		}, chain: `enrols a device for the node "gone", which entry 5 of the log "log.example/one" revoked`},
		{name: "what is no appraisal", change: changes{vetting: func(items []vetting.CarriedItem) []vetting.CarriedItem {
			for _, i := range items {
				if i.Appraised != nil {
					i.Appraised.Appraisal = items[0].Word.Body
				}
			}
			return items
		}}, alone: "the last appraisal of node good: ", chain: "carries over the last appraisal of node good otherwise"},
		{name: "a challenge ahead of it", change: changes{ahead: func(s *service) { s.ask("good") }}, alone: "carried over from the log before, after the first challenge or event", chain: "does not carry over rules/v1"},
		{name: "a benchmark ahead of it", change: changes{ahead: func(s *service) { s.benchmark("good").challenged() }}, alone: "carried over from the log before, after the first challenge or event", chain: "does not carry over rules/v1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			first := &provider{service: newService(t, "one"), lives: map[string]vetting.Certificate{}}
			first.enrol("gone", ledger.BasisRevoked)
			host := newHost("good", sevsnp.PolicySMT)
			first.serve(host)
			first.now += 120
			first.provide()
			var evidence, appraisal canon.Digest
			for _, c := range first.commitments {
				switch e := first.entryOf(c); e.Kind {
				case ledger.KindEvidence:
					evidence = e.Body
				case ledger.KindAppraisal:
					appraisal = e.Body
				}
			}
			first.see(host, evidence)
			second := &provider{first.close("log.example/two", row.change), first.history, first.lives}
			second.now += 120
			a := appraisalOf(t, first.service, appraisal)
			q := vetting.Defaults()
			q.EvidenceAge = 7200
			hardware := vetting.Axis(a.Claims, a.AsOf, appraisal, q)
			second.act(vetting.Act{Certificate: "c-1", Act: vetting.ActSubmit, By: "user:olga"})
			second.append(ledger.KindCertificate, ledger.ProviderStream("p1"), second.put(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: second.now,
				Observed: vetting.Observed{Hardware: hardware, Stake: true, ContactHours: 4}}))
			if row.later != nil {
				row.later(second, hardware)
			}
			second.publish()
			exports := [][]byte{first.export(), second.export()}
			r := replay(t, exports[1], first.trust(), audit.Options{})
			if (row.alone != "") != (r.Outcome == audit.Faulty) || !strings.Contains(r.Text(), row.alone) {
				t.Errorf("alone, want %q:\n%s", row.alone, r.Text())
			}
			if words := "carried     begins with what the log log.example/one is said to leave, not recomputed: "; row.alone == "" && !strings.Contains(r.Text(), words) {
				t.Errorf("lacks %q:\n%s", words, r.Text())
			}
			all := replayChain(t, first.trust(), audit.Options{}, exports...)
			if (row.chain != "") != (all.FaultCount > 0) || !strings.Contains(all.Text(), row.chain) {
				t.Errorf("both, want %q:\n%s", row.chain, all.Text())
			}
			if words := "begins with what the log log.example/one leaves, recomputed: 1 appraisal, 1 certificate, 1 device, 1 facts, 1 rules/v1"; (row.chain == "" || row.stands) != strings.Contains(all.Text(), words) {
				t.Errorf("%q:\n%s", words, all.Text())
			}
			if !strings.Contains(all.Text(), row.chainAlone) {
				t.Errorf("both, want %q:\n%s", row.chainAlone, all.Text())
			}
			if (row.chain == "" && row.alone == "" && row.chainAlone == "") != (all.Outcome == audit.Equal) {
				t.Errorf("both: %s\n%s", all.Outcome, all.Text())
			}
		})
	}
}

// TestSeenByNothing: evidence by which a device is said to be seen is there.
func TestSeenByNothing(t *testing.T) {
	for _, nothing := range []bool{false, true} {
		s := &provider{service: newService(t, "one"), lives: map[string]vetting.Certificate{}}
		h := newHost("good", sevsnp.PolicySMT)
		s.serve(h)
		evidence := canon.Sum([]byte("nothing"))
		for _, c := range s.commitments {
			if e := s.entryOf(c); e.Kind == ledger.KindEvidence && !nothing {
				evidence = e.Body
			}
		}
		s.see(h, evidence)
		s.publish()
		r := replay(t, s.export(), s.trust(), audit.Options{})
		if nothing != (r.Outcome == audit.Faulty) || nothing != strings.Contains(r.Text(), "is said to be seen on host good by evidence "+evidence.Short()+", which no earlier entry has") {
			t.Errorf("by nothing %v:\n%s", nothing, r.Text())
		}
	}
}

// TestCarriedTogether: the parts of what is carried over stand one behind another, to the last.
func TestCarriedTogether(t *testing.T) {
	reference := func(s *service) { s.append(ledger.KindReference, ledger.StreamServer, s.put(s.references)) }
	for _, tc := range []struct {
		name   string
		change changes
		alone  string
	}{
		{name: "two parts", change: changes{again: reference}},
		{name: "something between them", change: changes{between: reference}, alone: "1 parts of what is carried over, and the last is missing"},
		{name: "no last part", change: changes{again: reference, parts: func(parts [][]byte) [][]byte { return parts[:1] }}, alone: "reference/v1: 1 parts of what is carried over, and the last is missing"},
		{name: "no last part, at the end of the log", change: changes{parts: func(parts [][]byte) [][]byte { return parts[:1] }}, alone: "carried/v1: 1 parts of what is carried over, and the last is missing"},
		{name: "on another ground", change: changes{parts: func(parts [][]byte) [][]byte { return nil }, again: func(s *service) {
			c := vetting.Carried{Type: vetting.CarriedType, Log: origin, Last: true, Items: []vetting.CarriedItem{{Facts: &vetting.Facts{Type: vetting.FactsType, Provider: "p1"}}}}
			s.append(ledger.KindCarried, ledger.StreamServer, s.put(c))
		}}, alone: "or not on the ground of entry 0"},
		{name: "of another log", change: changes{parts: func(parts [][]byte) [][]byte { return nil }, again: func(s *service) {
			c := vetting.Carried{Type: vetting.CarriedType, Log: "log.example/other", Last: true, Items: []vetting.CarriedItem{{Facts: &vetting.Facts{Type: vetting.FactsType, Provider: "p1"}}}}
			s.append(ledger.KindCarried, ledger.StreamServer, s.put(c), s.keysetBody)
		}}, alone: `carried over from the log "log.example/other"`},
		{name: "one behind the last", change: changes{parts: func(parts [][]byte) [][]byte {
			return [][]byte{bytes.Replace(parts[0], []byte(`"log":`), []byte(`"last":true,"log":`), 1), parts[1]}
		}}, alone: "part 1 of what is carried over, where part 1 is due, or none"},
		{name: "the second first", change: changes{parts: func(parts [][]byte) [][]byte { return [][]byte{parts[1], parts[0]} }}, alone: "part 1 of what is carried over, where part 0 is due"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &provider{service: newService(t, "one"), lives: map[string]vetting.Certificate{}}
			s.provide()
			parts := tc.change.parts
			tc.change.parts = func(one [][]byte) [][]byte {
				c, err := vetting.ParseCarried(one[0])
				s.must(err)
				first, second := c, c
				first.Items, first.Last = c.Items[:1], false
				second.Items, second.Part = c.Items[1:], 1
				two := [][]byte{s.bytes(first), s.bytes(second)}
				if parts != nil {
					return parts(two)
				}
				return two
			}
			next := s.close("log.example/two", tc.change)
			next.publish()
			r := replay(t, next.export(), s.trust(), audit.Options{})
			if (tc.alone != "") != (r.Outcome == audit.Faulty) || !strings.Contains(r.Text(), tc.alone) {
				t.Errorf("want %q:\n%s", tc.alone, r.Text())
			}
			if all := replayChain(t, s.trust(), audit.Options{}, s.export(), next.export()); (tc.alone == "") != (all.Outcome == audit.Equal) {
				t.Errorf("both:\n%s", all.Text())
			}
		})
	}
}

// TestCarriedFromNothing: a log that continues none has nothing to carry over.
func TestCarriedFromNothing(t *testing.T) {
	s := newService(t, "one")
	c := vetting.Carried{Type: vetting.CarriedType, Log: "log.example/none", Last: true, Items: []vetting.CarriedItem{{Facts: &vetting.Facts{Type: vetting.FactsType, Provider: "p1"}}}}
	s.append(ledger.KindCarried, ledger.StreamServer, s.put(c), s.keysetBody)
	wantFault(t, replay(t, s.publish().export(), s.trust(), audit.Options{}), "entry 5", "carried over from a log before, and the log continues none")
}

// TestErasedAppraisal: the last appraisal of a node is carried over, unless it was erased before, be its bytes there still or not; one that is erased
// afterwards stood, and nobody may leave it out.
func TestErasedAppraisal(t *testing.T) {
	for _, tc := range []struct {
		name         string
		before, drop bool // erased before the log was closed, else after; and not carried over
		chain        string
	}{
		{"erased before, and left out", true, true, ""},
		{"erased before, and carried over", true, false, "which did not stand"},
		{"erased after, and carried over", false, false, ""},
		{"erased after, and left out", false, true, "does not carry over the last appraisal of node good"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			s.serve(newHost("good", sevsnp.PolicySMT))
			var act ledger.Erasure
			for _, c := range s.commitments {
				if e := s.entryOf(c); e.Kind == ledger.KindVerdict || e.Kind == ledger.KindAppraisal {
					act.Digests = append(act.Digests, e.Body)
				}
			}
			slices.SortFunc(act.Digests, func(a, b canon.Digest) int { return slices.Compare(a[:], b[:]) })
			act.Act, act.Class = ledger.ActErase, ledger.ClassJudgement
			s.now += 3000 * day
			if tc.before {
				s.erase(act)
			}
			next := s.close("log.example/two", changes{vetting: func(items []vetting.CarriedItem) []vetting.CarriedItem {
				if tc.drop {
					return nil
				}
				return items
			}})
			if !tc.before {
				next.erase(act)
			}
			next.publish()
			all := replayChain(t, s.trust(), audit.Options{}, s.export(), next.export())
			if (tc.chain != "") != (all.FaultCount > 0) || !strings.Contains(all.Text(), tc.chain) {
				t.Errorf("want %q:\n%s", tc.chain, all.Text())
			}
		})
	}
}

// TestShown: what a node is said to have shown is what the appraisal of that evidence shows.
func TestShown(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(e *ledger.Enrolment)
		want   string
	}{
		{name: "as it should be", change: func(*ledger.Enrolment) {}},
		{name: "another device", change: func(e *ledger.Enrolment) { e.Devices[0].Value[0] ^= 1 }, want: `says that the node "good" showed amd-chip-id`},
		{name: "another alias", change: func(e *ledger.Enrolment) { e.Devices[0].Alias = canon.Hex{1} }, want: "alias 01, by the appraisal of entry"},
		{name: "one more", change: func(e *ledger.Enrolment) {
			e.Devices = append(e.Devices, ledger.Device{Kind: "nvidia-gh100", Value: canon.Hex{1}})
		}, want: "nvidia-gh100 01, by the appraisal of entry"},
		{name: "another node", change: func(e *ledger.Enrolment) { e.Node = "other" }, want: `says what the node "other" showed, by evidence of the node "good"`},
		{name: "no evidence", change: func(e *ledger.Enrolment) { e.Evidence = canon.Sum(nil) }, want: "and does not rest on it, or it is none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			host := newHost("good", sevsnp.PolicySMT)
			var evidence canon.Digest
			for range 2 { // of two appraisals of the node, the one of this evidence
				s.serve(host)
				s.now += 120
			}
			for _, c := range s.commitments {
				if e := s.entryOf(c); e.Kind == ledger.KindEvidence {
					evidence = e.Body
				}
			}
			e := ledger.Enrolment{Type: ledger.EnrolmentType, Node: "good", Basis: ledger.BasisShown, Verifier: "https://verifier.example", Evidence: evidence,
				Devices: []ledger.Device{{Kind: attest.IdentityAMDChip, Value: slices.Clone(host.platform.Fields.ChipID[:])}}}
			tc.change(&e)
			s.append(ledger.KindEnrolment, ledger.StreamVerifier, s.put(e), evidence)
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if (tc.want != "") != (r.Outcome == audit.Faulty) || !strings.Contains(r.Text(), tc.want) {
				t.Errorf("want %q:\n%s", tc.want, r.Text())
			}
		})
	}
}
