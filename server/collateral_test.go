package server_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier/collateral/fake"
)

// fetching starts a verifier that was given no collateral and asks vendors for it.
func fetching(t *testing.T, change ...func(*server.Settings)) (*lab, *fake.Vendors) {
	var l *lab
	vendors := fake.New(func() time.Time { return l.clock.Now() })
	services := httptest.NewServer(vendors)
	t.Cleanup(services.Close)
	l = newLab(t, "", append([]func(*server.Settings){func(s *server.Settings) {
		s.Collateral, s.Fetch = "", []string{"vendors"}
		for service, origin := range fake.Origins(services.URL) {
			s.Fetch = append(s.Fetch, string(service)+"="+origin)
		}
	}}, change...)...)
	return l, vendors
}

// TestFetchedCollateral: what a node's evidence lacks is fetched once for all nodes, logged, and judged with.
func TestFetchedCollateral(t *testing.T) {
	l, vendors := fetching(t)
	vendors.Misbehave("/", fake.TooMany, 2)
	var submitted []client.Submitted
	nodes := []*node{l.join("one"), l.join("two"), l.join("three")}
	for _, n := range nodes {
		submitted = append(submitted, n.submit(n.evidence(n.challenge())))
	}
	l.advance()
	for i, n := range nodes {
		if d := n.decision(submitted[i].Evidence); d.Outcome != client.Accept {
			t.Errorf("node %d: %v: %+v", i, d.Outcome, d.Reasons)
		}
	}
	if got := vendors.Requests("/"); len(got) != 3 {
		t.Errorf("requests %q, want the one list, asked for until it came", got)
	}
	l.restart()
	if d, _ := nodes[0].prove(); d.Outcome != client.Accept {
		t.Errorf("after a restart: %v", d.Outcome)
	}
	if got := vendors.Requests("/"); len(got) != 3 {
		t.Errorf("requests %q: what was kept is fetched again", got)
	}
	l.audited(submitted...)
}

// oneGPU is a machine's only GPU.
type oneGPU struct{ *mint.NVIDIADevice }

func (g oneGPU) Take(nonce canon.Digest) (device.GPUEvidence, error) {
	return device.GPUEvidence{Components: []attest.Component{g.Component("gpu0", nonce)}}, nil
}

func (oneGPU) SetReady(bool) error { return nil }

// TestFetchedManifests: whether the signer of a manifest is revoked is asked when the manifest is there, for the same
// evidence.
func TestFetchedManifests(t *testing.T) {
	nv := mint.NewNVIDIA()
	l, vendors := fetching(t, func(s *server.Settings) {
		for _, f := range nv.Roots() {
			must(t, os.WriteFile(filepath.Join(s.Roots, f.Name), f.Data, 0o600))
		}
	})
	gpu := nv.Device("GH100", "one")
	vendors.AddDevice(gpu)
	n := l.join("one")
	n.gpus = []agent.GPUs{oneGPU{gpu}}
	_, evidence := n.prove()
	status := n.claims(evidence)
	for _, id := range []string{"nvidia.driver-rim", "nvidia.vbios-rim", "nvidia.measurements", "nvidia.revocation"} {
		if got := status(id, "gpu:0"); !strings.HasPrefix(got, "affirmed ") {
			t.Errorf("%s is %q", id, got)
		}
	}
	l.audited()
}

// TestFetchingIsOff unless the operator wants it: the same evidence is undecided, and nobody is asked.
func TestFetchingIsOff(t *testing.T) {
	l, vendors := fetching(t, func(s *server.Settings) { s.Fetch = nil })
	if d, _ := l.join("one").prove(); d.Outcome != client.Undecided {
		t.Errorf("%v, want undecided", d.Outcome)
	}
	if got := vendors.Requests("/"); len(got) != 0 {
		t.Errorf("requests %q", got)
	}
	l.audited()
}

// TestCollateralThatDoesNotCome: a submission waits while asking again may help, then is judged once, with what there is;
// the outage costs the provider nothing, and the next evidence is accepted when the vendor is back.
func TestCollateralThatDoesNotCome(t *testing.T) {
	l, vendors := fetching(t)
	vendors.Misbehave("/", fake.Unavailable, 1000)
	n := l.join("one")
	s := n.submit(n.evidence(n.challenge()))
	l.advance()
	if r, err := n.client().Result(t.Context(), s.Evidence); err != nil || r.State != client.StateReceived {
		t.Fatalf("state %q, %v: judged before the vendor had its time", r.State, err)
	}
	l.clock.advance(server.CollateralWait)
	l.advance()
	d := n.decision(s.Evidence)
	if d.Outcome != client.Undecided || !strings.Contains(d.Reasons[0].Observed, "collateral-missing") {
		t.Errorf("%v: %+v, want undecided for want of collateral", d.Outcome, d.Reasons)
	}
	vendors.Recover()
	l.clock.advance(time.Hour)
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("when the vendor is back: %v: %+v", d.Outcome, d.Reasons)
	}
	l.audited(s)
}

// TestRefusedByTheVendor: what a vendor says it does not have is not waited for.
func TestRefusedByTheVendor(t *testing.T) {
	l, vendors := fetching(t)
	vendors.Misbehave("/", fake.NotFound, 1)
	if d, _ := l.join("one").prove(); d.Outcome != client.Undecided {
		t.Errorf("%v, want undecided", d.Outcome)
	}
	l.audited()
}

// TestFetchOnlyThere: where the settings name services and not the vendors, no other service is asked.
func TestFetchOnlyThere(t *testing.T) {
	for only, want := range map[string]string{"amd-kds": client.Accept, "intel-pcs": client.Undecided} {
		l, vendors := fetching(t, func(s *server.Settings) {
			s.Fetch = slices.DeleteFunc(s.Fetch, func(w string) bool { return !strings.HasPrefix(w, only+"=") })
		})
		if d, _ := l.join("one").prove(); d.Outcome != want {
			t.Errorf("only %s is asked: %s, want %s", only, d.Outcome, want)
		}
		if got := vendors.Requests("/"); len(got) > 0 != (want == client.Accept) {
			t.Errorf("only %s is asked: requests %q", only, got)
		}
	}
}

// TestFetchSettings: settings that name no service are refused at the start.
func TestFetchSettings(t *testing.T) {
	for _, where := range []string{"kds=https://mirror.example", "vendor"} {
		settings := writeWorld(t, t.TempDir())
		settings.Fetch = []string{where}
		if s, err := server.New(t.Context(), settings, server.Deps{Now: (&clock{now: worldBegin}).Now, Random: newSource(9), Log: quiet()}); err == nil || !strings.Contains(err.Error(), "settings: fetch") {
			t.Errorf("%s: %v, %v", where, s, err)
		}
	}
}
