package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
)

// nodeRefusal is why the policy of the server refuses a node as things stand, and which of the caller's nodes are nearest to it.
// It is no verdict: nothing is signed or logged.
type nodeRefusal struct {
	Node    string           `json:"node"`
	Verdict policy.Outcome   `json:"verdict"`
	Policy  policy.Named     `json:"policy"`
	Scope   string           `json:"scope"`
	AsOf    canon.Time       `json:"as_of"`
	Reasons []policy.Refusal `json:"reasons"`
	policy.Nearest
	LeftOut bool `json:"left_out,omitzero"` // the caller has more nodes than were looked at
}

// refusal decides a node's last appraisal by the clock of now, and looks among the nodes that the caller may know of.
func (s *Server) refusal(ctx context.Context, who caller, node string) (r nodeRefusal, err error) {
	now := s.time()
	asked, err := s.candidatesOf(ctx, ownAnd(who, `node.id = ?`, node), now)
	if err != nil {
		return r, err
	}
	if len(asked) == 0 {
		var own filter
		own.and(`id = ?`, node)
		who.ownNodes(&own)
		err := s.store.db.Reader().QueryRowContext(ctx, `SELECT id FROM node WHERE `+own.String(), own.args...).Scan(&node)
		if errors.Is(err, sql.ErrNoRows) {
			return r, errNothing
		}
		return r, errors.Join(err, refuse(codeNotDecided, "no appraisal of the node is kept, or it was revoked"))
	}
	others, err := s.candidatesOf(ctx, ownAnd(who, `node.id <> ?`, node), now)
	if err != nil {
		return r, err
	}
	p := s.given.policy
	v := policy.Decide(asked[0].Claims, p, now)
	r = nodeRefusal{Node: node, Verdict: v.Outcome, Policy: v.Policy, Scope: v.Scope, AsOf: now, Reasons: p.Refusals(v)}
	if r.LeftOut = len(others) > MaxCandidates; r.LeftOut {
		others = others[:MaxCandidates]
	}
	r.Nearest = p.Nearest(asked[0], others)
	return r, nil
}

// partyRefusal is why a policy refuses the party behind a provider's certificates, by what anybody may know of them. It is no
// verdict: what the policy asks of the hosts' evidence is left open.
type partyRefusal struct {
	Provider     string               `json:"provider"`
	Policy       policy.Named         `json:"policy"`
	AsOf         canon.Time           `json:"as_of"`
	Certificates []certificateRefusal `json:"certificates"`
	Open         []string             `json:"open"` // rules that only a host's evidence can answer
}

// certificateRefusal is why a policy refuses one certificate.
type certificateRefusal struct {
	Certificate string           `json:"certificate"`
	Status      string           `json:"status"`
	Tier        string           `json:"tier,omitzero"`
	Acceptable  bool             `json:"acceptable"` // nothing that is asked of the party speaks against it
	Reasons     []policy.Refusal `json:"reasons"`
}

// partyRefusal decides what a policy asks of the party on the public part of each certificate that stands or stood. Evidence is
// its host's: nothing of it is looked at, whoever asks.
func (s *Server) partyRefusal(ctx context.Context, who caller, id string, q client.PartyQuestion) (r partyRefusal, err error) {
	if who.use != client.RoleRenter && !who.mayKnow(id) {
		return r, refuse(codeNotFound, "no such provider")
	}
	p, err := policyAsked(q.Policy)
	if err != nil {
		return r, err
	}
	shown, err := s.shownToRenters(ctx, id)
	if err != nil {
		return r, err
	}
	r = partyRefusal{Provider: id, Policy: policy.Named{Name: p.Name(), Digest: p.Digest()}, AsOf: s.time(), Certificates: []certificateRefusal{}, Open: []string{}}
	for _, c := range shown.Certificates {
		one := certificateRefusal{Certificate: c.ID, Status: c.Status, Tier: c.Tier, Acceptable: true, Reasons: []policy.Refusal{}}
		for _, reason := range p.Refusals(policy.Decide(c.PartyClaims(), p, r.AsOf)) {
			if claim.Room(reason.Claim) == "party" {
				one.Reasons, one.Acceptable = append(one.Reasons, reason), false
			} else if !slices.Contains(r.Open, reason.Rule) {
				r.Open = append(r.Open, reason.Rule)
			}
		}
		r.Certificates = append(r.Certificates, one)
	}
	return r, nil
}

// matched is how many certified hosts a policy accepts, and what keeps the others out. It names none of them.
type matched struct {
	Policy policy.Named `json:"policy"`
	AsOf   canon.Time   `json:"as_of"`
	policy.Matching
	LeftOut bool `json:"left_out,omitzero"` // there are more hosts than were looked at
}

// match decides, by the clock of now, the last appraisals of the hosts with a certificate that stands, and what is known of the
// parties behind them. Whoever may list providers may ask for this: the hosts are counted, and not named. Where they are few,
// the counts tell what one of them is like.
func (s *Server) match(ctx context.Context, q client.MatchQuestion) (r matched, err error) {
	if len(q.Relax) > MaxRelax {
		return r, refuse(codeMalformed, "%d rules to leave out, at most %d", len(q.Relax), MaxRelax)
	}
	p, err := policyAsked(q.Policy)
	if err != nil {
		return r, err
	}
	r.Policy, r.AsOf = policy.Named{Name: p.Name(), Digest: p.Digest()}, s.time()
	var certified filter
	certified.and(`EXISTS (SELECT 1 FROM machine WHERE machine.kind = 'certificate' AND machine.host = node.id AND machine.status IN (?, ?, ?))`,
		vetting.Certified, vetting.Renewing, vetting.Suspended)
	hosts, err := s.candidatesOf(ctx, certified, r.AsOf)
	if err != nil {
		return r, err
	}
	if r.LeftOut = len(hosts) > MaxCandidates; r.LeftOut {
		hosts = hosts[:MaxCandidates]
	}
	no := (*policy.NoRuleError)(nil)
	if r.Matching, _, err = p.Match(hosts, q.Relax); errors.As(err, &no) {
		return r, refuse(codeMalformed, "relax %v", err)
	}
	return r, err
}

// policyAsked returns the policy that somebody asks about: a built-in one by its name, or the one of a text.
func policyAsked(text string) (*policy.Policy, error) {
	if p, ok := policy.Builtin(text); ok {
		return p, nil
	}
	p, err := policy.Load("policy.yaml", []byte(text))
	if err != nil {
		return nil, refuse(codeMalformed, "%v", err)
	}
	return p, nil
}

// ownAnd restricts a query to those of a caller's nodes that it is about.
func ownAnd(who caller, where string, args ...any) (f filter) {
	f.and(where, args...)
	who.ownNodes(&f)
	return f
}

// candidatesOf reads the last appraisals of nodes, with what is known of the parties behind them, in the order of their ids: one
// more than [MaxCandidates] at most. Nodes that were never appraised, or revoked, are none.
func (s *Server) candidatesOf(ctx context.Context, of filter, now canon.Time) (all []policy.Candidate, err error) {
	of.and(`revoked = 0`)
	var nodes []string
	err = s.store.db.Snapshot(ctx, func(tx *sql.Tx) error {
		return each(ctx, tx, `SELECT id FROM node JOIN appraised ON appraised.node = node.id WHERE `+of.String()+fmt.Sprintf(` ORDER BY id LIMIT %d`, MaxCandidates+1), of.args, func(scan func(...any) error) error {
			var node string
			err := scan(&node)
			nodes = append(nodes, node)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read what nodes were found to be: %w", err)
	}
	for _, node := range nodes {
		a, body, err := s.lastAppraisal(ctx, s.store.db.Reader(), node)
		if err != nil {
			return nil, err
		}
		if body.IsZero() {
			continue // erased
		}
		c, ok, err := s.certificateOf(ctx, s.store.db.Reader(), "", node)
		if err != nil {
			return nil, err
		}
		claims := a.Claims
		if ok {
			claims = slices.Concat(claims, c.PartyClaims())
		}
		all = append(all, policy.Candidate{Host: node, Claims: claims, AsOf: now})
	}
	return all, nil
}
