package nvidia_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

const (
	gpu0                            = "gpu:0"
	affirmed, contradicted, unknown = claim.Affirmed, claim.Contradicted, claim.Unknown
)

// lab judges evidence under one root set, and remembers nothing unless told to.
type lab struct {
	roots attest.Roots
	at    time.Time
	nonce []byte      // that is asked for; nil: none
	case_ attest.Case // further parts of the case
}

func newLab(t testing.TB, at string, files ...attest.RootFile) lab {
	t.Helper()
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := attest.NewRoots(files...)
	if err != nil {
		t.Fatal(err)
	}
	return lab{roots: roots, at: when}
}

// vendor judges under NVIDIA's own roots.
func vendor(t testing.TB, at string) lab { return newLab(t, at, nvidia.VendorRoots()...) }

func (l lab) asked() attest.Asked {
	if l.nonce == nil {
		return attest.Asked{}
	}
	return attest.Asked{ReportData: l.nonce, Value: hex.EncodeToString(l.nonce), Why: "it is another nonce"}
}

func (l lab) caseOf(collateral []attest.Collateral) *attest.Case {
	c := l.case_
	c.Roots, c.At, c.Collateral = l.roots, canon.At(l.at), collateral
	return &c
}

// judge judges devices as one host's, with the claims about their set.
func (l lab) judge(components []attest.Component, collateral ...attest.Collateral) claim.Set {
	set, _ := l.find(components, collateral...)
	return set
}

func (l lab) find(components []attest.Component, collateral ...attest.Collateral) (set claim.Set, members []nvidia.Member) {
	count := map[string]int{}
	var ids []string
	unique := claim.Claim{ID: "set.device-unique", Subject: "set", Status: affirmed}
	for _, c := range components {
		subject := fmt.Sprintf("%s:%d", c.Class, count[c.Class])
		count[c.Class]++
		f := nvidia.Appraise(c, subject, l.caseOf(collateral), l.asked(), &set)
		members = append(members, nvidia.Member{Subject: subject, Finding: f})
		for _, id := range f.Identities {
			if slices.Contains(ids, id.String()) {
				unique.Status, unique.Reason = contradicted, "duplicate: in this test's own count"
			}
			ids = append(ids, id.String())
		}
	}
	set.Add(unique)
	for _, c := range nvidia.SetClaims(members) {
		set.Add(c)
	}
	set.Settle()
	return set, members
}

// want compares one claim: its status, and its value or words of its reason.
func want(t testing.TB, s claim.Set, id, subject string, status claim.Status, parts ...string) {
	t.Helper()
	c := s.Find(id, subject)
	if c == nil {
		t.Errorf("no claim %s of %s", id, subject)
		return
	}
	if c.Status != status {
		t.Errorf("%s of %s is %s %q (%s), want %s", id, subject, c.Status, c.Value, c.Reason, status)
		return
	}
	for _, p := range parts {
		if c.Value != p && !strings.Contains(string(c.Reason), p) {
			t.Errorf("%s of %s has value %q and reason %q, want %q", id, subject, c.Value, c.Reason, p)
		}
	}
}

// genuine decides as the built-in policy of that name does on the claims of this room.
func genuine(s claim.Set) string {
	outcome := "accept"
	for _, c := range s {
		required := slices.Contains([]string{"nvidia.structure", "nvidia.chain", "nvidia.signature", "nvidia.identity", "set.device-unique"}, c.ID)
		refused := claim.Room(c.ID) == "set" || c.ID == "nvidia.freshness" || c.ID == "nvidia.revocation"
		switch {
		case (required || refused) && c.Status == contradicted:
			return "reject"
		case required && c.Status == unknown:
			if c.Reason.Code() == claim.EvidenceMissing {
				return "reject"
			}
			outcome = "undecided"
		}
	}
	return outcome
}

func dump(t testing.TB, s claim.Set) {
	for _, c := range s {
		t.Logf("%-9s %-22s %-12s %.100s | %.300s", c.Subject, c.ID, c.Status, c.Value, c.Reason)
	}
}

// files reads evidence of the vectors: a report with the file of its certificates, or an evidence file.
func files(t testing.TB, names ...string) (components []attest.Component) {
	t.Helper()
	if len(names) == 2 && !strings.HasSuffix(names[0], ".json") {
		return []attest.Component{nvidia.ReadFiles(vectors.Read(t, names[0]), vectors.Read(t, names[1]))}
	}
	for _, name := range names {
		data := vectors.Read(t, name)
		if !nvidia.IsJSON(data) {
			t.Errorf("%s is not recognized", name)
		}
		cs, err := nvidia.ReadJSON(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		components = append(components, cs...)
	}
	return components
}

func collateral(t testing.TB, names ...string) []attest.Collateral {
	return vectors.Items(t, nvidia.ReadCollateral, names...)
}

type manifestCase struct {
	ID, Policy, Verdict string
	AsOf                string `json:"as_of"`
	Files               struct {
		Evidence, Collateral vectors.Names
		Cert                 string
	}
	Claims map[string]claim.Status
	Args   struct{ Nonce canon.Hex }
}

func manifest(t testing.TB) []manifestCase {
	return vectors.Cases[manifestCase](t, "nvidia-")
}
