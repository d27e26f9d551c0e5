package tdx_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

const subject = "cpu:0"

var now = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)

// lab judges quotes under one root set, and remembers nothing unless told to.
type lab struct {
	roots attest.Roots
	at    time.Time
	case_ attest.Case // further parts of the case
}

func newLab(t testing.TB, at time.Time, files ...attest.RootFile) lab {
	t.Helper()
	roots, err := attest.NewRoots(files...)
	if err != nil {
		t.Fatal(err)
	}
	return lab{roots: roots, at: at}
}

func (l lab) judge(raw []byte, collateral ...attest.Collateral) (claim.Set, attest.Finding) {
	c := l.case_
	c.Roots, c.At, c.Collateral = l.roots, canon.At(l.at), collateral
	var asked attest.Asked
	if c.Expect.ReportData != nil {
		asked = attest.Asked{ReportData: c.Expect.ReportData, Value: c.Expect.ReportData.String(), Why: "it differs"}
	}
	var set claim.Set
	comp := attest.Component{Class: attest.ClassCPU, MediaType: tdx.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: tdx.PartQuote, Data: raw}}}
	f := tdx.Appraise(comp, subject, &c, asked, &set)
	set.Settle()
	return set, f
}

// vendor judges under Intel's own roots.
func vendor(t testing.TB, at string) lab {
	t.Helper()
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	return newLab(t, when, tdx.VendorRoots()...)
}

// want compares one claim: its status, and its value or the code and words of its reason.
func want(t testing.TB, s claim.Set, id string, status claim.Status, parts ...string) {
	t.Helper()
	c := s.Find(id, subject)
	if c == nil {
		t.Errorf("no claim %s", id)
		return
	}
	if c.Status != status {
		t.Errorf("%s is %s %q (%s), want %s", id, c.Status, c.Value, c.Reason, status)
		return
	}
	for _, p := range parts {
		if c.Value != p && !strings.Contains(string(c.Reason), p) {
			t.Errorf("%s has value %q and reason %q, want %q", id, c.Value, c.Reason, p)
		}
	}
}

// genuine decides as the built-in policy of that name does on the claims of this room.
func genuine(s claim.Set) string {
	outcome := "accept"
	for _, id := range []string{"tdx.structure", "tdx.chain", "tdx.qe-report", "tdx.qe-signer", "tdx.signature"} {
		switch c := s.Find(id, subject); {
		case c != nil && c.Status == claim.Contradicted:
			return "reject"
		case c == nil || c.Status == claim.Unknown:
			outcome = "undecided"
		}
	}
	for _, id := range []string{"tdx.freshness", "tdx.revocation", "tdx.tcb-status", "tdx.qe-identity"} {
		if c := s.Find(id, subject); c != nil && c.Status == claim.Contradicted {
			return "reject"
		}
	}
	return outcome
}

// confidential decides as confidential-cpu does on the claims of this room that need no expectation.
func confidential(s claim.Set) string {
	outcome := genuine(s)
	for _, id := range []string{"tdx.revocation", "tdx.debug-off", "tdx.collateral", "tdx.qe-identity", "tdx.seam", "tdx.module-identity", "tdx.servicetd", "tdx.attributes", "tdx.tcb-status"} {
		switch c := s.Find(id, subject); {
		case c != nil && c.Status == claim.Contradicted, c != nil && id == "tdx.tcb-status" && c.Status == claim.Affirmed && c.Value != "UpToDate":
			return "reject"
		case (c == nil || c.Status == claim.Unknown) && outcome == "accept":
			outcome = "undecided"
		}
	}
	return outcome
}

func dump(t testing.TB, s claim.Set) {
	for _, c := range s {
		t.Logf("%-22s %-12s %.120s | %s", c.ID, c.Status, c.Value, c.Reason)
	}
}

// file reads a quote of the vectors in whatever form it is.
func file(t testing.TB, name string) []byte {
	t.Helper()
	raw, ok := tdx.Recognize(vectors.Read(t, name))
	if !ok {
		t.Fatalf("%s holds no quote", name)
	}
	return raw
}

func collateral(t testing.TB, names ...string) []attest.Collateral {
	return vectors.Items(t, tdx.ReadCollateral, names...)
}

// minted is a sound platform with its collateral, for twins to differ from.
type minted struct {
	lab
	intel *mint.Intel
	p     mint.IntelPlatform
	pck   mint.Certificate
	items []attest.Collateral // TCB info, QE identity, PCK CRL, root CRL
}

func newMinted(t testing.TB) minted {
	i := mint.NewIntel()
	p := i.IntelPlatform("one")
	return minted{newLab(t, now, i.Roots()...), i, p, i.PCK(p, mint.PCKOptions{}), i.Collateral(p, now.AddDate(0, 0, -5), 18)}
}

func (m minted) seal(q tdx.Quote) []byte {
	return m.intel.Seal(q, mint.SoundQE(), m.pck, m.intel.PlatformCA).Encode()
}

// with returns the collateral with one item exchanged.
func (m minted) with(i int, item attest.Collateral) []attest.Collateral {
	items := slices.Clone(m.items)
	items[i] = item
	return items
}

func (m minted) tcbInfo(change func(*mint.TCBInfo)) []attest.Collateral {
	info := mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -5), 18)
	change(&info)
	return m.with(0, m.intel.TCBInfo(info))
}

func (m minted) qeIdentity(change func(*mint.QEIdentity)) []attest.Collateral {
	id := mint.SoundQEIdentity(now.AddDate(0, 0, -5), 18)
	change(&id)
	return m.with(1, m.intel.QEIdentity(id))
}

type manifestCase struct {
	ID, Policy, Verdict string
	AsOf                string `json:"as_of"`
	Files               struct {
		Evidence   string
		Collateral vectors.Names
	}
	Claims map[string]claim.Status
}

func manifest(t testing.TB) []manifestCase { return vectors.Cases[manifestCase](t, "tdx") }
