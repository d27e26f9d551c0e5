package audit_test

import (
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
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// TestToldOfTheParty: a verdict is recomputed with the claims about the party that it names, and they must be those of the
// host's certificate.
func TestToldOfTheParty(t *testing.T) {
	party, err := policy.Load("party.yaml", []byte("type: assay/policy/v1\nname: party\nrequire: [{claim: sevsnp.signature, of: cpu}, {claim: party.tier, of: party, is: attested}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	drafted := vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActDraft, By: "user:olga", Place: vetting.Place{Provider: "p1", Host: "good"}, Tier: claim.TierAttested}
	for _, tc := range []struct {
		name  string
		draft bool
		told  func(p *policy.PartyClaims) bool // whether the result names claims, changed
		blind bool                             // the verdict is made without them
		want  string
	}{
		{name: "without a certificate"},
		{name: "as it should be", draft: true, told: func(*policy.PartyClaims) bool { return true }},
		{name: "a certificate, and not told", draft: true, want: "by the certificate of host good they were"},
		{name: "told otherwise", draft: true, told: func(p *policy.PartyClaims) bool {
			p.Claims = slices.Clone(p.Claims)
			p.Claims[len(p.Claims)-1] = claim.Claim{ID: "party.tier", Subject: claim.SubjectParty, Status: claim.Affirmed, Value: claim.TierAttested}
			return true
		}, want: "by the certificate of host good they were"},
		{name: "told without a certificate", told: func(*policy.PartyClaims) bool { return true }, want: "host good had no certificate"},
		{name: "told, and judged without", draft: true, told: func(*policy.PartyClaims) bool { return true }, blind: true, want: "differs: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			s.policy = party
			s.append(ledger.KindPolicy, ledger.StreamServer, s.putBytes(party.Canonical()))
			var h vetting.History
			body := s.bytes(drafted)
			e := ledger.Event{Entry: ledger.Entry{Kind: ledger.KindCertificate, Stream: ledger.ProviderStream("p1"), Time: s.now}, Body: body}
			step, err := h.Certify(vetting.Certificate{}, e)
			s.must(err)
			if tc.draft {
				s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.putBytes(body))
			}
			s.changeResult = func(r *policy.Result) {
				p := step.State.Party()
				if tc.told == nil || !tc.told(&p) {
					return
				}
				r.Party = s.put(p)
				if tc.blind {
					return
				}
				a, err := verifier.ParseAppraisal(s.blobs[r.Appraisal])
				s.must(err)
				r.Verdict = policy.Decide(slices.Concat(a.Claims, p.Claims), party, r.Verdict.AsOf)
			}
			s.serve(newHost("good", 0))
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if tc.want == "" && r.Outcome != audit.Equal || tc.want != "" && (r.Outcome == audit.Equal || !contains(r, tc.want)) {
				t.Errorf("%s\nwant %q", r.Text(), tc.want)
			}
		})
	}
}

func contains(r audit.Report, what string) bool {
	return slices.ContainsFunc(r.Faults, func(f audit.Fault) bool { return strings.Contains(f.What, what) })
}

// TestHardwareOfAnObservation: what is observed of a host's hardware is read off its last appraisal.
func TestHardwareOfAnObservation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(h *vetting.Hardware, first canon.Digest)
		want   string
	}{
		{name: "as it should be", change: func(*vetting.Hardware, canon.Digest) {}},
		{name: "a better level", change: func(h *vetting.Hardware, _ canon.Digest) { h.Level = vetting.HardwareGPU }, want: "differs: hardware of host good logged as"},
		{name: "an earlier appraisal", change: func(h *vetting.Hardware, first canon.Digest) { h.Evidence = first }, want: "has a later one"},
		{name: "no appraisal", change: func(h *vetting.Hardware, _ canon.Digest) { *h = vetting.Hardware{} }, want: "has a later one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			var appraisals []canon.Digest
			s.changeResult = func(r *policy.Result) { appraisals = append(appraisals, r.Appraisal) }
			host := newHost("good", 0)
			s.serve(host)
			s.now += 120
			s.serve(host)
			s.now += 120
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActDraft, By: "user:olga",
				Place: vetting.Place{Provider: "p1", Host: "good"}, Tier: claim.TierAttested}))
			a, err := verifier.ParseAppraisal(s.blobs[appraisals[1]])
			s.must(err)
			h := vetting.Axis(a.Claims, a.AsOf, appraisals[1], vetting.Defaults())
			tc.change(&h, appraisals[0])
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: s.now,
				Observed: vetting.Observed{Hardware: h, Answered: s.heard()}}))
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if tc.want == "" && r.Outcome != audit.Equal || tc.want != "" && (r.Outcome == audit.Equal || !contains(r, tc.want)) {
				t.Errorf("%s\nwant %q", r.Text(), tc.want)
			}
		})
	}
}

// heard returns when the last evidence was logged.
func (s *service) heard() (at canon.Time) {
	for _, c := range s.commitments {
		if e := s.entryOf(c); e.Kind == ledger.KindEvidence {
			at = e.Time
		}
	}
	return at
}

// TestHeardOfAnObservation: when a host was heard last, and which devices it showed, is what the log says.
func TestHeardOfAnObservation(t *testing.T) {
	place := vetting.Place{Provider: "p1", Host: "good", Devices: []vetting.Device{{ID: "tpm-ek:00"}}}
	for _, tc := range []struct {
		name  string
		ago   canon.Time // since when another piece of evidence and what it showed are in the log
		heard func(first, last canon.Time) canon.Time
		shown func(first, last string) []string
		want  string
	}{
		{name: "as it should be", ago: 120},
		{name: "heard before", ago: 120, heard: func(first, _ canon.Time) canon.Time { return first }, want: "differs: host good logged as answering last at"},
		{name: "heard later", ago: 120, heard: func(_, last canon.Time) canon.Time { return last + 1 }, want: "differs: host good logged as answering last at"},
		{name: "never heard", ago: 120, heard: func(_, _ canon.Time) canon.Time { return 0 }, want: "differs: host good logged as answering last at"},
		{name: "heard before, and the last is of this moment", ago: 1, heard: func(first, _ canon.Time) canon.Time { return first }},
		{name: "never heard, and the last is of this moment", ago: 1, heard: func(_, _ canon.Time) canon.Time { return 0 }, want: "differs: host good logged as answering last at"},
		{name: "shown before", ago: 120, shown: func(first, _ string) []string { return []string{first} }, want: "differs: host good logged as showing"},
		{name: "nothing shown", ago: 120, shown: func(_, _ string) []string { return nil }, want: "differs: host good logged as showing"},
		{name: "more shown", ago: 120, shown: func(first, last string) []string { return slices.Sorted(slices.Values([]string{first, last})) }, want: "differs: host good logged as showing"},
		{name: "shown before, and the last is of this moment", ago: 1, shown: func(first, _ string) []string { return []string{first} }},
		{name: "nothing shown, and the last is of this moment", ago: 1, shown: func(_, _ string) []string { return nil }, want: "differs: host good logged as showing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			var appraisal canon.Digest
			s.changeResult = func(r *policy.Result) { appraisal = r.Appraisal }
			var times []canon.Time
			var ids []string
			for _, chip := range []string{"one", "two"} {
				host := newHost(chip, sevsnp.PolicySMT)
				host.node = "good"
				s.serve(host)
				times = append(times, s.heard())
				id := slices.Clone(host.platform.Fields.ChipID[:])
				ids = append(ids, vetting.NewDevice(attest.IdentityAMDChip, id, nil).ID)
				evidence := appraisalOf(t, s, appraisal).Inputs[0].Digest
				s.append(ledger.KindEnrolment, ledger.StreamVerifier, s.put(ledger.Enrolment{Type: ledger.EnrolmentType, Node: "good", Basis: ledger.BasisShown,
					Verifier: "https://verifier.example", Evidence: evidence, Devices: []ledger.Device{{Kind: attest.IdentityAMDChip, Value: id}}}), evidence)
				if chip == "one" {
					s.now += 120
				}
			}
			s.now += tc.ago
			a := appraisalOf(t, s, appraisal)
			o := vetting.Observed{Hardware: vetting.Axis(a.Claims, a.AsOf, appraisal, vetting.Defaults()), Answered: times[1], Shown: ids[1:]}
			if tc.heard != nil {
				o.Answered = tc.heard(times[0], times[1])
			}
			if tc.shown != nil {
				o.Shown = tc.shown(ids[0], ids[1])
			}
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActDraft, By: "user:olga", Place: place, Tier: claim.TierAttested}))
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: s.now, Observed: o}))
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if tc.want == "" && len(r.Faults) > 0 || tc.want != "" && !contains(r, tc.want) {
				t.Errorf("%s\nwant %q", r.Text(), tc.want)
			}
		})
	}
}

// TestMeasuredOfAnObservation: what an observation credits a host with is what the benchmarks of the log come to.
func TestMeasuredOfAnObservation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(o *vetting.Observed, now *canon.Time)
		want   string
	}{
		{name: "as it should be", change: func(*vetting.Observed, *canon.Time) {}},
		{name: "a better score", change: func(o *vetting.Observed, _ *canon.Time) { o.Measured++ }, want: "differs: host good logged as measured with score"},
		{name: "a later start", change: func(o *vetting.Observed, _ *canon.Time) { o.MeasuredAt++ }, want: "differs: host good logged as measured with score"},
		{name: "nothing", change: func(o *vetting.Observed, _ *canon.Time) { *o = vetting.Observed{} }, want: "differs: host good logged as measured with score 0"},
		{name: "nothing, and the result is of this moment", change: func(o *vetting.Observed, now *canon.Time) { *o, *now = vetting.Observed{}, *now-120 }},
		{name: "what has lapsed", change: func(_ *vetting.Observed, now *canon.Time) { *now += claim.MeasuredTerm }, want: "recomputed 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			b := s.benchmark("good")
			b.challenged()
			b.drawn()
			b.ended()
			s.now += 120
			o := vetting.Observed{Measured: b.result.Score, MeasuredAt: canon.Time(b.challenge.Starts / 1000)}
			tc.change(&o, &s.now)
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActDraft, By: "user:olga",
				Place: vetting.Place{Provider: "p1", Host: "good"}, Tier: claim.TierIdentified}))
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: s.now, Observed: o}))
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if tc.want == "" && len(r.Faults) > 0 || tc.want != "" && !contains(r, tc.want) {
				t.Errorf("%s\nwant %q", r.Text(), tc.want)
			}
		})
	}
}

// TestSightings: a device is seen on a host by evidence of that host which shows it.
func TestSightings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(s *vetting.Sighting)
		want   string
	}{
		{name: "as it should be", change: func(*vetting.Sighting) {}},
		{name: "another device", change: func(s *vetting.Sighting) { s.Device = "amd-chip-id:00" }, want: "by evidence that does not show it"},
		{name: "another host", change: func(s *vetting.Sighting) { s.Host = "other" }, want: "by evidence that does not show it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			host := newHost("good", 0)
			var evidence canon.Digest
			s.changeResult = func(r *policy.Result) { evidence = r.Evidence }
			s.serve(host)
			seen := vetting.Sighting{Type: vetting.SightingType, Device: vetting.NewDevice(attest.IdentityAMDChip, host.platform.Fields.ChipID[:], nil).ID, Event: vetting.DeviceSeen,
				Provider: "p1", Host: "good", Evidence: evidence}
			tc.change(&seen)
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(seen))
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if tc.want == "" && r.Outcome != audit.Equal || tc.want != "" && (r.Outcome == audit.Equal || !contains(r, tc.want)) {
				t.Errorf("%s\nwant %q", r.Text(), tc.want)
			}
		})
	}
}
