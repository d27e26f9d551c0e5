package server

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// Inputs and answers of the operations on issuers and their claims.
type (
	claimInput struct {
		RawBody []byte `contentType:"application/vnd.dsse.envelope.v1+json"`
	}
	issuerList struct {
		Issuers []vetting.Issuer `json:"issuers"`
	}
	issuerInput struct {
		Body client.IssuerRegistration
	}
	revocationInput struct {
		Body client.UnitRevocation
	}
	keepsInput struct {
		Claim string `path:"claim" doc:"identity of the claim's envelope, lower-case hex"`
	}
	keeps struct {
		Hosts []string `json:"hosts"` // that would leave the tier in which they stand
		Of    int      `json:"of"`    // hosts that have a certificate which stands
	}
)

func (s *Server) issuerOperations(api huma.API) {
	register(s, api, operation(http.MethodPost, "/v1/claims", "claim", "Hand in what an issuer signed: a claim, or a revocation of one of its claims", http.StatusCreated, MaxVettingJSON, schemeAdmin),
		func(ctx context.Context, in *claimInput) (*answer[client.Logged], error) {
			return answered(s.takeClaim(ctx, bytes.Clone(in.RawBody)))
		})
	register(s, api, operation(http.MethodGet, "/v1/claims/{claim}/keeps", "keeps", "Ask which hosts stand in their tier by a claim", http.StatusOK, 0, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *keepsInput) (*answer[keeps], error) {
			digest, err := canon.ParseDigest(in.Claim)
			if err != nil {
				return nil, refuse(codeMalformed, "%v", err)
			}
			return answered(s.keeps(ctx, callerOf(ctx), digest))
		})
	register(s, api, operation(http.MethodGet, "/v1/issuers", "issuers", "List who may speak, of what, and until when", http.StatusOK, 0, schemeRenter, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, _ *empty) (*answer[issuerList], error) {
			list := issuerList{Issuers: []vetting.Issuer{}}
			err := s.view(ctx, func(r *vetting.Registry, _ *vetting.History, now canon.Time) error {
				list.Issuers = append(list.Issuers, r.Issuers(now)...)
				return nil
			})
			return answered(list, err)
		})
	register(s, api, operation(http.MethodPost, "/v1/issuers", "registerIssuer", "Let an issuer speak", http.StatusCreated, MaxJSON, schemeAdmin),
		func(ctx context.Context, in *issuerInput) (*answer[struct{}], error) {
			return answered(struct{}{}, s.registerIssuer(ctx, in.Body))
		})
	register(s, api, operation(http.MethodPost, "/v1/revocations", "revokeUnit", "Take a claim, device, host, site, provider, issuer or model back", http.StatusCreated, MaxJSON, schemeAdmin),
		func(ctx context.Context, in *revocationInput) (*answer[client.Logged], error) {
			return answered(s.revokeUnit(ctx, in.Body))
		})
}

// takeClaim logs what an issuer signed. What the registry refuses is not stored.
func (s *Server) takeClaim(ctx context.Context, data []byte) (l client.Logged, err error) {
	env, err := ledger.ParseEnvelope(data)
	if err != nil {
		return l, refuse(codeMalformed, "%v", err)
	}
	issuer, about, err := statementOf(env)
	if err != nil {
		return l, refuse(codeMalformed, "%v", err)
	}
	if issuer == vetting.Operator {
		return l, refuse(codeForbidden, "the operator's word is made by its server, not handed in")
	}
	err = s.sit(ctx, func(v *sitting) error {
		l, err = v.say(ctx, env, issuer, about)
		return err
	})
	return l, refused(err)
}

// statementOf returns who says something, and of what.
func statementOf(env ledger.Envelope) (issuer string, about vetting.Subject, err error) {
	switch env.PayloadType {
	case vetting.ClaimType:
		var c vetting.Claim
		if err = canon.Unmarshal(env.Payload, &c); err == nil {
			err = c.Validate()
		}
		return c.Issuer, c.Subject, err
	case vetting.RevocationType:
		var r vetting.Revocation
		if err = canon.Unmarshal(env.Payload, &r); err == nil {
			err = r.Validate()
		}
		return r.Issuer, r.Unit, err
	}
	return "", about, errors.New("payload type " + env.PayloadType + " is not known to this build")
}

// say logs a statement, and leaves work for the certificates that it may concern.
func (v *sitting) say(ctx context.Context, env ledger.Envelope, issuer string, about vetting.Subject) (l client.Logged, err error) {
	body, err := canon.Marshal(env)
	if err != nil {
		return l, err
	}
	l.Body = canon.Sum(body)
	if about.Kind == vetting.UnitClaim {
		digest, err := canon.ParseDigest(about.ID)
		if err != nil {
			return l, err
		}
		c, err := v.registry.Find(digest)
		if err != nil {
			return l, refuse(codeNotFound, "no such claim")
		}
		about = c.Subject
	}
	if err := v.happen(ctx, ledger.Draft{Kind: ledger.KindClaim, Stream: ledger.IssuerStream(issuer), Body: body}); err != nil {
		return l, err
	}
	return l, v.reassessAbout(ctx, about, v.now)
}

// sayOurselves signs a statement of the operator and logs it.
func (v *sitting) sayOurselves(ctx context.Context, seal func(ledger.Signer) (ledger.Envelope, error), about vetting.Subject) (l client.Logged, err error) {
	key, err := v.s.signer(ctx, ledger.UseResult, v.now)
	if err != nil {
		return l, err
	}
	env, err := seal(key)
	if err != nil {
		return l, refuse(codeMalformed, "%v", err)
	}
	if _, err := v.registry.Find(env.Identity()); err == nil {
		return l, nil // in the same second: it stands already
	}
	return v.say(ctx, env, vetting.Operator, about)
}

// registerIssuer says whose key an issuer's is, and of what and where it may speak.
func (s *Server) registerIssuer(ctx context.Context, r client.IssuerRegistration) error {
	pub, err := x509.ParsePKIXPublicKey(r.Key)
	if err != nil {
		return refuse(codeMalformed, "key: %v", err)
	}
	key, err := vetting.KeyValue(pub)
	if err != nil {
		return refuse(codeMalformed, "%v", err)
	}
	list := slices.Compact(slices.Sorted(slices.Values(r.Attributes)))
	about := vetting.Subject{Kind: vetting.UnitIssuer, ID: r.ID}
	return refused(s.sit(ctx, func(v *sitting) error {
		for _, c := range []vetting.Claim{
			{Attribute: vetting.AttributeKey, Value: key},
			{Attribute: vetting.AttributeScope, Value: strings.Join(list, " "), Scope: vetting.Scope{Countries: r.Countries, Sites: r.Sites}},
		} {
			c.Type, c.Issuer, c.Subject, c.Issued, c.Expires = vetting.ClaimType, vetting.Operator, about, v.now, r.Until
			if _, err := v.sayOurselves(ctx, c.Seal, about); err != nil {
				return err
			}
		}
		return nil
	}))
}

// revokeUnit takes a unit back, from now on.
func (s *Server) revokeUnit(ctx context.Context, r client.UnitRevocation) (l client.Logged, err error) {
	var kind vetting.Unit
	if err := kind.UnmarshalText([]byte(r.Kind)); err != nil {
		return l, refuse(codeMalformed, "%v", err)
	}
	about := vetting.Subject{Kind: kind, ID: r.ID}
	err = s.sit(ctx, func(v *sitting) error {
		since := r.Since
		if since == 0 {
			since = v.now
		}
		revocation := vetting.Revocation{
			Type: vetting.RevocationType, Issuer: vetting.Operator, Unit: about, Reason: r.Reason, Made: v.now, Effective: v.now, Since: since, Evidence: r.Evidence,
		}
		l, err = v.sayOurselves(ctx, revocation.Seal, about)
		return err
	})
	return l, refused(err)
}

// keeps says which of a caller's hosts would leave their tier if a claim were not renewed. An operator knows of the claims
// that its certificates have.
func (s *Server) keeps(ctx context.Context, who caller, claim canon.Digest) (keeps, error) {
	hosts, err := s.candidates(ctx, who, false)
	if err != nil {
		return keeps{}, err
	}
	k := keeps{Hosts: []string{}, Of: len(hosts)}
	return k, s.view(ctx, func(r *vetting.Registry, h *vetting.History, now canon.Time) error {
		if _, err := r.Find(claim); err != nil || !who.mayKnow("") && !slices.ContainsFunc(hosts, func(c vetting.Candidate) bool { return c.Certificate.Names(claim) }) {
			return refuse(codeNotFound, "no such claim")
		}
		for _, one := range hosts {
			tier := one.Certificate.Tier
			k.Hosts = append(k.Hosts, r.Keeps(claim, []vetting.Candidate{one}, h.At(now), now, func(st vetting.Standing) bool { return st.Carries(tier) })...)
		}
		return nil
	})
}
