package server

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/verifier"
)

// TestingOnlyAppraise puts another function in the place of the rule rooms.
func (s *Server) TestingOnlyAppraise(f func(*verifier.Opened, attest.Case) verifier.Appraisal) {
	s.appraise = f
}

// TestingOnlyPublish publishes without looking first whose turn it is, as a process does between two looks.
func (s *Server) TestingOnlyPublish(ctx context.Context) error { return s.publish(ctx) }

// TestingOnlyStep has f told of each step after which a process may die.
func (s *Store) TestingOnlyStep(f func(string)) { s.testingOnlyStep = f }

// TestingOnlyStep has f told of each step after which the process may die.
func (s *Server) TestingOnlyStep(f func(string)) { s.store.TestingOnlyStep(f) }

// TestingOnlyForget deletes a blob's row as erasing and collecting do.
func (s *Store) TestingOnlyForget(t testing.TB, now canon.Time, digest canon.Digest) {
	t.Helper()
	if err := s.Tx(t.Context(), func(tx *Tx) error { return deleteBlob(t.Context(), tx.SQL, digest, now) }); err != nil {
		t.Fatal(err)
	}
}

// TestingOnlyFilter returns what the filter of a run says of digests when the run has those given.
func TestingOnlyFilter(digests []canon.Digest) (mayHave func(canon.Digest) bool) {
	f := make(runFilter, filterBytes)
	for _, d := range digests {
		f.add(d)
	}
	return f.mayHave
}

// Doors to how entries are found.
const RunEntries = runEntries

var (
	CommitmentsInRuns = byCommitment.inRuns
	BodiesInRuns      = byBody.inRuns
)

// Doors to how bundles are kept.
var (
	SplitBundle = splitBundle
	JoinBundle  = joinBundle
)

// TestingOnlyCertify gives n providers a certificate each, of the tier anonymous.
func (s *Server) TestingOnlyCertify(ctx context.Context, n int) error {
	const batch = 200
	for from := 0; from < n; from += batch {
		err := s.sit(ctx, func(v *sitting) error {
			for i := from; i < min(from+batch, n); i++ {
				provider, id := fmt.Sprintf("p%d", i), fmt.Sprintf("c-%d", i)
				place := vetting.Place{Provider: provider, Site: fmt.Sprintf("s%d", i)}
				if err := v.certificateEvent(ctx, provider, vetting.Facts{Type: vetting.FactsType, Provider: provider, Stake: true, ContactHours: 1}); err != nil {
					return err
				}
				for _, a := range []vetting.Act{
					{Act: vetting.ActDraft, By: "user:olga", Place: place, Tier: claim.TierAnonymous},
					{Act: vetting.ActSubmit, By: "user:olga"},
					{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"},
				} {
					if err := v.act(ctx, provider, id, a); err != nil {
						return err
					}
				}
				c, err := v.certificate(ctx, id)
				if err != nil {
					return err
				}
				if err := v.weigh(ctx, c, vetting.Act{Act: vetting.ActPass, By: "user:rita"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestingOnlyVet makes the events that are due.
func (s *Server) TestingOnlyVet(ctx context.Context) error { return s.vetDue(ctx) }

// TestingOnlySetRules sets the operator's parameters from now on.
func (s *Server) TestingOnlySetRules(ctx context.Context, p vetting.Parameters) error {
	_, err := s.setRules(ctx, p)
	return err
}

// IssuerKeys asks an issuer for its keys.
func IssuerKeys(ctx context.Context, url string) error {
	_, err := newIssuers(time.Now).keys(ctx, url)
	return err
}

// TestingOnlyFill puts hosts, and nodes with what they show and hold, into the tables of a tenant.
func (s *Server) TestingOnlyFill(ctx context.Context, tenant string, hosts []ledger.Host, nodes []enrol.Node) error {
	return s.store.Tx(ctx, func(tx *Tx) error {
		for _, h := range hosts {
			h.Tenant = tenant
			if err := putHost(ctx, tx.SQL, h); err != nil {
				return err
			}
		}
		for _, n := range nodes {
			if err := insertNode(ctx, tx.SQL, n.ID, tenant, n.Joined); err != nil {
				return err
			}
			if err := putPlacement(ctx, tx.SQL, n.ID, n.Site, n.Rack); err != nil {
				return err
			}
			if n.Verdict != "" {
				id := canon.Sum([]byte(n.ID))
				if _, err := tx.SQL.ExecContext(ctx, `INSERT INTO challenge(id, node, body, expires, log) VALUES ($1, $2, $1, 0, 1)`, id[:], n.ID); err != nil {
					return err
				}
				_, err := tx.SQL.ExecContext(ctx, `INSERT INTO submission(evidence, challenge, node, received, promise, state, appraisal, result, outcome, decided)
					VALUES ($1, $1, $2, $3, $1, 'decided', $1, $1, $4, $3)`, id[:], n.ID, int64(n.Decided), n.Verdict)
				if err != nil {
					return err
				}
			}
			var shown []ledger.Device
			for _, d := range n.Proven {
				if d.Kind == attest.IdentityTPMEK {
					if err := putActivation(ctx, tx.SQL, n.ID, []byte{1}, canon.Digest(d.Value), n.Joined); err != nil {
						return err
					}
					continue
				}
				shown = append(shown, d)
			}
			if err := putShown(ctx, tx.SQL, n.ID, shown); err != nil {
				return err
			}
			for _, d := range n.Holds {
				if err := insertDevice(ctx, tx.SQL, n.ID, attest.Identity{Kind: d.Kind, Value: d.Value}, n.Joined); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// TestingOnlyPlace says what the inventory says of a node, as the node is told.
func (s *Server) TestingOnlyPlace(ctx context.Context, node string) (client.Place, error) {
	return s.placeOf(ctx, node)
}

// TestingOnlyPlaceOfAll says the same by the whole fleet.
func (s *Server) TestingOnlyPlaceOfAll(ctx context.Context, tenant, node string) (client.Place, error) {
	f, err := s.fleet(ctx, tenant)
	return placeIn(f, node), err
}

// TestingOnlyRack says what became of the hosts of a rack, by the part of the fleet that concerns them and by the whole.
func (s *Server) TestingOnlyRack(ctx context.Context, tenant, site, rack string) (part, whole []client.HostRecord, err error) {
	err = s.store.db.Snapshot(ctx, func(tx *sql.Tx) error {
		part, err = hostsIn(ctx, tx, tenant, site, rack)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	f, err := s.fleet(ctx, tenant)
	for _, h := range enrol.Reconcile(f).Hosts {
		if h.Host.Site == site && h.Host.Rack == rack {
			whole = append(whole, h)
		}
	}
	return part, whole, err
}
