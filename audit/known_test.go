package audit_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// learn logs a newer item of collateral and lets the service judge by it.
func (s *service) learn(kind string, data []byte) {
	for i, c := range s.collateral {
		if c.Kind == kind {
			s.collateral[i].Data = data
		}
	}
	s.append(ledger.KindCollateral, ledger.StreamServer, s.put(ledger.Collateral{
		Type: ledger.CollateralType, Kind: kind, Data: s.putBytes(data), Source: "https://example.test/" + kind, Fetched: s.now}))
}

// TestKnownBugsT10: a verdict is shown as it was and as it is, and what changed between.
func TestKnownBugsT10(t *testing.T) {
	s := newService(t, "honest")
	good, stolen := newHost("good", sevsnp.PolicySMT), newHost("stolen", sevsnp.PolicySMT)
	for _, h := range []*host{good, stolen} {
		if v := s.serve(h); v.Outcome != policy.Accept {
			t.Fatalf("%s: %s %+v", h.node, v.Outcome, v.Reasons)
		}
	}
	s.now += 10
	before := s.now
	s.learn(attest.KindDenyList, mint.DenyList(2, s.now, s.now+30*day, attest.Denied{
		Identity: attest.Identity{Kind: attest.IdentityAMDChip, Value: stolen.platform.Fields.ChipID[:]}, Since: s.now, Reason: "stolen"}))
	s.now += 10
	s.publish()
	export := s.export()
	judge := func(n audit.Now) audit.Report {
		t.Helper()
		r := replay(t, export, s.trust(), audit.Options{Now: &n, Workers: 2})
		if r.Outcome != audit.Equal {
			t.Errorf("the log itself:\n%s", r.Text())
		}
		return r
	}
	find := func(r audit.Report, node string) audit.Change {
		t.Helper()
		i := slices.IndexFunc(r.Now.Changes, func(c audit.Change) bool { return c.Node == node })
		if i < 0 {
			return audit.Change{}
		}
		return r.Now.Changes[i]
	}

	// With what was known then, nothing changed; the twin, with the list that came later, taints one of the two.
	if r := judge(audit.Now{AsOf: s.now, Known: before - 1}); r.Now.Standing != 2 || r.Now.Tainted != 0 || r.ExitCode() != 0 {
		t.Errorf("then's collateral:\n%s", r.Text())
	}
	r := judge(audit.Now{AsOf: s.now, Known: s.now})
	c := find(r, "stolen")
	if r.Now.Standing != 1 || r.Now.Tainted != 1 || r.ExitCode() != 1 || c.State != audit.StateTainted || c.Then != "accept" || c.Now != "reject" {
		t.Fatalf("now's collateral:\n%s", r.Text())
	}
	if c.Since != before || len(c.Why) == 0 || len(c.Why[0].By) != 1 || c.Why[0].By[0].Kind != attest.KindDenyList || c.Why[0].By[0].Known != before {
		t.Errorf("tainted since %s, by %+v", c.Since, c.Why)
	}
	if text := r.Text(); !strings.Contains(text, "\ntainted     entry 12, stolen by confidential-cpu: then accept, now reject, since "+before.String()) || !strings.Contains(text, "by deny-list ") {
		t.Errorf("%s", text)
	}
	if d := find(r, "good"); d.State != "" {
		t.Errorf("good: %+v", d)
	}

	// The same list from elsewhere, where the log does not have it.
	item := audit.KnownItem{Data: s.collateral[1].Data, Record: ledger.Collateral{Type: ledger.CollateralType, Kind: attest.KindDenyList,
		Data: canon.Sum(s.collateral[1].Data), Source: "https://example.test/" + attest.KindDenyList, Fetched: before}}
	r = judge(audit.Now{AsOf: s.now, Known: before - 1, Items: []audit.KnownItem{item}})
	if r.Now.Tainted != 1 || find(r, "stolen").Since != before || !slices.Equal(r.Now.Items, []canon.Digest{item.Record.Data}) {
		t.Errorf("collateral from elsewhere:\n%s", r.Text())
	}
}

// TestLapsedCertificate: fourteen months later a chip's certificate has lapsed, and is named. Its twin, which is valid for
// longer, is not.
func TestLapsedCertificate(t *testing.T) {
	s := newService(t, "honest")
	p, err := policy.Load("p.yaml", []byte("type: assay/policy/v1\nname: chain\nrequire:\n  - {claim: sevsnp.chain, of: cpu}\n"))
	s.must(err)
	s.policy = p
	s.append(ledger.KindPolicy, ledger.StreamServer, s.putBytes(p.Canonical()))
	end := t0.Time().AddDate(0, 6, 0)
	short, long := newHost("short", sevsnp.PolicySMT), newHost("long", sevsnp.PolicySMT)
	short.platform.Table = amd().VCEKTable(amd().VCEK(amd().Chip("short"), goodTCB, mint.Options{NotAfter: end}))
	for _, h := range []*host{short, long} {
		if v := s.serve(h); v.Outcome != policy.Accept {
			t.Fatalf("%s: %s %+v", h.node, v.Outcome, v.Reasons)
		}
	}
	s.publish()
	later := canon.At(t0.Time().AddDate(1, 2, 0))
	r := replay(t, s.export(), s.trust(), audit.Options{Now: &audit.Now{AsOf: later}})
	if r.Outcome != audit.Equal || r.ExitCode() != 3 || r.Now.Lapsed != 1 || r.Now.Standing != 1 || len(r.Now.Changes) != 1 {
		t.Fatalf("%s", r.Text())
	}
	c := r.Now.Changes[0]
	if c.Node != "short" || len(c.Why) != 1 || c.Why[0].Rule != "require[0] sevsnp.chain" || c.Since != canon.At(end)+1 || !strings.Contains(c.Why[0].Observed, "was valid until "+canon.At(end).String()) {
		t.Errorf("%+v", c)
	}
}

// TestCleared: evidence that was rejected for a certificate that had lapsed is an accept as of a day before. No rule that is
// no longer met says since when.
func TestCleared(t *testing.T) {
	s := newService(t, "honest")
	p, err := policy.Load("p.yaml", []byte("type: assay/policy/v1\nname: chain\nrequire:\n  - {claim: sevsnp.chain, of: cpu}\n"))
	s.must(err)
	s.policy = p
	s.append(ledger.KindPolicy, ledger.StreamServer, s.putBytes(p.Canonical()))
	h := newHost("late", sevsnp.PolicySMT)
	h.platform.Table = amd().VCEKTable(amd().VCEK(amd().Chip("late"), goodTCB, mint.Options{NotAfter: (s.now - 1).Time()}))
	if v := s.serve(h); v.Outcome == policy.Accept {
		t.Fatal("accepted after its time")
	}
	s.publish()
	r := replay(t, s.export(), s.trust(), audit.Options{Now: &audit.Now{AsOf: s.now - day}})
	if r.Outcome != audit.Equal || r.Now.Cleared != 1 || len(r.Now.Changes) != 1 || r.Now.Changes[0].Since != 0 {
		t.Fatalf("%s", r.Text())
	}
	if text := r.Text(); !strings.Contains(text, "late by chain: then reject, now accept\n") {
		t.Errorf("%s", text)
	}
}

// TestFourteenMonthsLater: the log replays as it did; as of later, it says what has lapsed, by time alone and since when.
func TestFourteenMonthsLater(t *testing.T) {
	s := newService(t, "honest")
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	export, later := s.export(), canon.At(t0.Time().AddDate(1, 2, 0))
	if r := replay(t, export, s.trust(), audit.Options{}); r.Outcome != audit.Equal || r.ExitCode() != 0 {
		t.Fatalf("then:\n%s", r.Text())
	}
	r := replay(t, export, s.trust(), audit.Options{Now: &audit.Now{AsOf: later, Known: later}})
	if r.Outcome != audit.Equal || r.ExitCode() != 3 || r.Now.Lapsed != 1 || r.Now.Tainted != 0 {
		t.Fatalf("later:\n%s", r.Text())
	}
	c := r.Now.Changes[0]
	i := slices.IndexFunc(c.Why, func(f audit.Flip) bool { return f.Claim == "sevsnp.revocation" })
	end := canon.At(t0.Time().AddDate(0, 0, -1).AddDate(0, 1, 0)) // of the revocation list
	if i < 0 || c.Why[i].Since != end+1 || len(c.Why[i].By) != 0 || c.Since > end+1 {
		t.Errorf("since %s: %+v", c.Since, c.Why)
	}
	t.Logf("\n%s", r.Text())

	// One that brings a new revocation list at that time stands on it, and it is no longer to blame.
	before := r
	this := later.Time().AddDate(0, 0, -1)
	crl := amd().CRL(this, this.AddDate(0, 1, 0))
	n := audit.Now{AsOf: later, Known: later, Items: []audit.KnownItem{{Data: crl, Record: ledger.Collateral{
		Type: ledger.CollateralType, Kind: attest.KindAMDCRL, Data: canon.Sum(crl), Source: "https://example.test/" + attest.KindAMDCRL, Fetched: later}}}}
	r = replay(t, export, s.trust(), audit.Options{Now: &n})
	blamed := func(r audit.Report) bool {
		return slices.ContainsFunc(r.Now.Changes[0].Why, func(f audit.Flip) bool { return strings.Contains(f.Observed, "the revocation list is not used") })
	}
	if !blamed(before) || blamed(r) {
		t.Errorf("with a new list:\n%s", r.Text())
	}

	// The report is the same whatever the number of workers, and in parts.
	want, err := r.Canonical()
	s.must(err)
	again, err := replay(t, export, s.trust(), audit.Options{Now: &n, Workers: 4}).Canonical()
	if err != nil || !bytes.Equal(again, want) {
		t.Errorf("with 4 workers: %v\n%s", err, again)
	}
	var parts []audit.PartialReport
	for _, g := range []audit.Range{{From: 0, To: 5}, {From: 5, To: 100}} {
		parts = append(parts, audit.PartialReport{Report: replay(t, export, s.trust(), audit.Options{Now: &n, Range: g})})
	}
	merged, err := audit.Merge(parts)
	s.must(err)
	if got, err := merged.Canonical(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("merged: %v\n%s", err, got)
	}
}
