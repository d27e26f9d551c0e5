package server

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
)

// Inputs and answers of the operations on certificates.
type (
	certificateList struct {
		Certificates []vetting.Certificate `json:"certificates"`
		After        string                `json:"after,omitzero"` // where the next page begins; absent: this was the last
	}
	certificatesInput struct {
		Provider string `query:"provider" doc:"absent: of all"`
		After    string `query:"after" doc:"id of a certificate: the page begins after it"`
	}
	certificateInput struct {
		ID string `path:"id"`
	}
	certificateRequestInput struct {
		Body client.CertificateRequest
	}
	certificateActInput struct {
		ID   string `path:"id"`
		Body client.CertificateAct
	}
	simulationInput struct {
		Body client.Simulation
	}
	simulated struct {
		Hosts int            `json:"hosts"` // that have a certificate which stands
		Falls []vetting.Fall `json:"falls"`
	}
	deviceActInput struct {
		ID   string `path:"id"`
		Body client.DeviceAct
	}
)

func (s *Server) certificateOperations(api huma.API) {
	register(s, api, operation(http.MethodPost, "/v1/certificates", "requestCertificate", "Draft and submit a certificate", http.StatusCreated, MaxVettingJSON, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *certificateRequestInput) (*answer[vetting.Certificate], error) {
			return answered(s.requestCertificate(ctx, callerOf(ctx), in.Body))
		})
	register(s, api, operation(http.MethodGet, "/v1/certificates", "certificates", "List certificates", http.StatusOK, 0, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *certificatesInput) (*answer[certificateList], error) {
			return answered(s.certificates(ctx, callerOf(ctx), in.Provider, in.After))
		})
	register(s, api, operation(http.MethodPost, "/v1/certificates/simulate", "simulate", "Ask what would become of hosts if a vendor raised its level; nothing is stored", http.StatusOK, MaxVettingJSON, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *simulationInput) (*answer[simulated], error) {
			return answered(s.simulate(ctx, callerOf(ctx), in.Body))
		})
	register(s, api, operation(http.MethodGet, "/v1/certificates/{id}", "certificate", "Ask how a certificate stands", http.StatusOK, 0, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *certificateInput) (*answer[vetting.Certificate], error) {
			return answered(s.certificate(ctx, callerOf(ctx), in.ID))
		})
	register(s, api, operation(http.MethodPost, "/v1/certificates/{id}/acts", "actOnCertificate", "Let something happen to a certificate", http.StatusCreated, MaxVettingJSON, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *certificateActInput) (*answer[vetting.Certificate], error) {
			return answered(s.actOnCertificate(ctx, callerOf(ctx), in.ID, in.Body))
		})
	register(s, api, operation(http.MethodPost, "/v1/devices/{id}/acts", "actOnDevice", "Say whose a contested device is, or give one up", http.StatusCreated, MaxVettingJSON, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *deviceActInput) (*answer[vetting.DeviceState], error) {
			return answered(s.actOnDevice(ctx, callerOf(ctx), in.ID, in.Body))
		})
}

// refused turns an event that does not fit into a refusal, and passes on any other error.
func refused(err error) error {
	var e *eventError
	if errors.As(err, &e) {
		return refuse(codeNotNow, "%v", e.error)
	}
	return err
}

func assertions(said []client.PartyAssertion) (list []vetting.Assertion, err error) {
	for _, x := range said {
		a := vetting.Assertion{Subject: vetting.Subject{ID: x.Subject.ID}, Attribute: x.Attribute, Value: x.Value}
		if err := a.Subject.Kind.UnmarshalText([]byte(x.Subject.Kind)); err != nil {
			return nil, refuse(codeMalformed, "assertion: %v", err)
		}
		list = append(list, a)
	}
	return list, nil
}

// requestCertificate drafts a certificate and submits it.
func (s *Server) requestCertificate(ctx context.Context, who caller, r client.CertificateRequest) (c vetting.Certificate, err error) {
	said, err := assertions(r.Assertions)
	if err != nil {
		return c, err
	}
	if r.Provider == vetting.Unaffiliated || r.Provider == vetting.Operator {
		return c, refuse(codeMalformed, "provider %q: the name is the server's", r.Provider)
	}
	place := vetting.Place{Provider: r.Provider, Site: r.Site, Host: r.Host}
	draw, err := s.draw(8)
	if err != nil {
		return c, err
	}
	id := "c-" + hex.EncodeToString(draw)
	by := who.token.Principal
	err = s.sit(ctx, func(v *sitting) error {
		if !who.mayKnow(r.Provider) {
			return refuse(codeNotFound, "no such provider")
		}
		if r.Host != "" {
			if place.Devices, err = v.devicesOf(ctx, who, r.Host); err != nil {
				return err
			}
			last, ok, err := s.certificateOf(ctx, v.sql, "", r.Host)
			if err != nil {
				return err
			}
			if ok && !last.Ended() && last.Place.Provider != r.Provider {
				return refuse(codeNotNow, "host %s has a certificate of another provider", r.Host)
			}
			if ok && !last.Ended() {
				return refuse(codeNotNow, "host %s has certificate %s, which is %s", r.Host, last.ID, last.Status)
			}
		}
		draft := vetting.Act{Type: vetting.ActType, Certificate: id, Act: vetting.ActDraft, By: by, Place: place, Tier: r.Tier, Assertions: said}
		if err := draft.Validate(); err != nil {
			return refuse(codeMalformed, "%v", err)
		}
		if err := v.act(ctx, r.Provider, id, draft); err != nil {
			return err
		}
		if err := v.act(ctx, r.Provider, id, vetting.Act{Act: vetting.ActSubmit, By: by}); err != nil {
			return err
		}
		c, err = v.certificate(ctx, id)
		return err
	})
	return c, refused(err)
}

// devicesOf returns the devices that a caller's node is enrolled with. It holds the node's row: no verdict on the node is made
// that knows of no certificate of it, until the one that is drafted is there.
func (v *sitting) devicesOf(ctx context.Context, who caller, node string) ([]vetting.Device, error) {
	var own filter
	own.and(`node.id = ?`, node)
	who.ownNodes(&own)
	var revoked int64
	if err := v.sql.QueryRowContext(ctx, `SELECT revoked FROM node WHERE `+own.String()+v.s.store.db.ForUpdate(), own.args...).Scan(&revoked); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("look up node %s: %w", node, err)
	} else if err != nil || revoked != 0 {
		return nil, refuse(codeNotFound, "no such node, or it was revoked: %.80q", node)
	}
	held, err := v.s.devices(ctx, `node = $1`, node)
	if err != nil {
		return nil, err
	}
	a, _, err := v.s.lastAppraisal(ctx, v.sql, node)
	if err != nil {
		return nil, err
	}
	var all []vetting.Device
	for _, h := range held {
		all = append(all, vetting.NewDevice(h.Identity.Kind, h.Identity.Value, a.Claims))
	}
	return vetting.Devices(all), nil
}

func (s *Server) certificate(ctx context.Context, who caller, id string) (c vetting.Certificate, err error) {
	own := &filter{}
	own.and(`kind = 'certificate' AND id = ?`, id)
	who.ownMachines(own)
	all, err := machines[vetting.Certificate](ctx, s.store.db.Reader(), own.String(), own.args...)
	if err == nil && len(all) == 0 {
		err = refuse(codeNotFound, "no such certificate")
	}
	if err != nil {
		return c, err
	}
	return all[0], nil
}

func (s *Server) certificates(ctx context.Context, who caller, provider, after string) (certificateList, error) {
	own := &filter{}
	own.and(`kind = 'certificate' AND id > ?`, after)
	if provider != "" {
		own.and(`tenant = ?`, provider)
	}
	who.ownMachines(own)
	where := own.String()
	all, err := machines[vetting.Certificate](ctx, s.store.db.Reader(), where+fmt.Sprintf(` AND id <= COALESCE((SELECT MAX(id) FROM
		(SELECT id FROM machine WHERE %s ORDER BY id LIMIT %d) AS page), '')`, where, MaxPage), own.args...)
	list := certificateList{Certificates: append([]vetting.Certificate{}, all...)}
	if len(all) == MaxPage {
		list.After = all[MaxPage-1].ID
	}
	return list, err
}

// actsAsked are those that a request can ask for; the others are made by the server.
var actsAsked = map[string]bool{
	vetting.ActAssign: true, vetting.ActPass: true, vetting.ActFail: true, vetting.ActAssess: true, vetting.ActEdit: true, vetting.ActRenew: true,
	vetting.ActWindow: true, vetting.ActFreeze: true, vetting.ActRevoke: true, vetting.ActAppeal: true, vetting.ActTriage: true, vetting.ActRule: true, vetting.ActEnd: true,
}

// actsOfOperators are those of them that an operator can ask for, of its own certificates. All others are of who reviews and
// rules.
var actsOfOperators = map[string]bool{
	vetting.ActAssess: true, vetting.ActEdit: true, vetting.ActRenew: true, vetting.ActWindow: true, vetting.ActAppeal: true, vetting.ActEnd: true,
}

func (s *Server) actOnCertificate(ctx context.Context, who caller, id string, r client.CertificateAct) (c vetting.Certificate, err error) {
	said, err := assertions(r.Assertions)
	if err != nil {
		return c, err
	}
	if !actsAsked[r.Act] {
		return c, refuse(codeMalformed, "act %.80q: nothing that can be asked for", r.Act)
	}
	a := vetting.Act{
		Act: r.Act, By: who.token.Principal, Tier: r.Tier, Reviewer: r.Reviewer, Code: r.Code, Evidence: r.Evidence, Since: r.Since, Upheld: r.Upheld,
		Reason: r.Reason, Window: vetting.Window{From: r.From, Until: r.Until}, Assertions: said,
	}
	err = s.sit(ctx, func(v *sitting) error {
		if c, err = v.certificate(ctx, id); err != nil {
			return err
		}
		if !who.mayKnow(c.Place.Provider) {
			return refuse(codeNotFound, "no such certificate")
		}
		if who.use != client.RoleAdmin && !actsOfOperators[r.Act] {
			return refuse(codeForbidden, "act %s is of who reviews and rules: an admin", r.Act)
		}
		weighs := a.Act == vetting.ActPass || a.Act == vetting.ActAssess
		check := a
		check.Type, check.Certificate = vetting.ActType, id
		if weighs {
			check.Standing = vetting.Standing{At: v.now, Until: v.now + 1}
		}
		if err := check.Validate(); err != nil {
			return refuse(codeMalformed, "%v", err)
		}
		if err := v.twoHands(ctx, c, a); err != nil {
			return err
		}
		if weighs {
			err = v.weigh(ctx, c, a)
		} else {
			err = v.act(ctx, c.Place.Provider, id, a)
		}
		if err != nil {
			return err
		}
		if a.Act == vetting.ActEdit {
			if err := v.assess(ctx, id); err != nil {
				return err
			}
		}
		c, err = v.certificate(ctx, id)
		return err
	})
	return c, refused(err)
}

// twoHands refuses an act that asks for two people, where one token may be behind both: whoever makes a token has seen it, and
// can act by it. A reviewer is nobody who made the token of who asked, nor has a token made by them; of the tokens of two
// officers no maker is the same. Who logs in has a token that nobody else made.
func (v *sitting) twoHands(ctx context.Context, c vetting.Certificate, a vetting.Act) error {
	who, others := c.Apart(a, v.now)
	if who == "" {
		return nil
	}
	of, err := v.hands(ctx, who)
	if err != nil {
		return err
	}
	for _, other := range others {
		if other == "" || other == who { // the life cycle says what is wrong with that
			continue
		}
		theirs, err := v.hands(ctx, other)
		if err != nil {
			return err
		}
		if slices.Contains(theirs, who) || slices.Contains(of, other) {
			return refuse(codeForbidden, "%s and %s are one hand: the token of one was made by the other", who, other)
		}
		if a.Act == vetting.ActFreeze && slices.ContainsFunc(of, func(h string) bool { return slices.Contains(theirs, h) }) {
			return refuse(codeForbidden, "%s and %s are one hand: their tokens were made by one admin; a freeze needs two officers who log in (assay access)", who, other)
		}
	}
	return nil
}

// hands returns a principal, who made its token, who made that one's, and so on.
func (v *sitting) hands(ctx context.Context, principal string) (all []string, err error) {
	for principal != "" && !slices.Contains(all, principal) {
		all = append(all, principal)
		var maker string
		err := v.sql.QueryRowContext(ctx, `SELECT made_by FROM secret WHERE principal = $1 AND id = $2`, principal, strings.TrimPrefix(principal, tokenPrincipal(""))).Scan(&maker)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("look up who made the token of %s: %w", principal, err)
		}
		principal = maker
	}
	return all, nil
}

// actOnDevice lets the operator of a host that holds or shows a device give it up, and an admin say whose it is.
func (s *Server) actOnDevice(ctx context.Context, who caller, id string, r client.DeviceAct) (d vetting.DeviceState, err error) {
	if r.Act != vetting.DeviceSettle && r.Act != vetting.DeviceRelease {
		return d, refuse(codeMalformed, "act %.80q: want settle or release", r.Act)
	}
	err = s.sit(ctx, func(v *sitting) error {
		if d, err = loadMachine[vetting.DeviceState](ctx, v.sql, s.store.db.ForUpdate(), machineDevice, id); errors.Is(err, errNoMachine) {
			return refuse(codeNotFound, "no such device")
		} else if err != nil {
			return err
		}
		provider, own := d.Holder.Provider, who.mayKnow(d.Holder.Provider)
		gives := who.use == client.RoleAdmin || r.Host == d.Holder.Host
		for _, c := range d.Challengers {
			if c.Host != r.Host || r.Act != vetting.DeviceRelease {
				continue
			}
			if theirs, err := s.readerFor(who).ownsNode(ctx, c.Host); err != nil {
				return err
			} else if theirs { // who contests it gives that up
				provider, own, gives = c.Provider, true, true
			}
		}
		if !own {
			return refuse(codeNotFound, "no such device")
		}
		if who.use != client.RoleAdmin && r.Act != vetting.DeviceRelease {
			return refuse(codeForbidden, "act %s is of who reviews and rules: an admin", r.Act)
		}
		if r.Act == vetting.DeviceRelease && !gives { // who else shows it is nothing that its holder could find out by asking
			return refuse(codeNotNow, "device %s: host %.80q is not yours to give it up for", id, r.Host)
		}
		sighting := vetting.Sighting{Type: vetting.SightingType, Device: id, Event: r.Act, Provider: provider, Host: r.Host, By: who.token.Principal, Evidence: r.Evidence}
		if err := sighting.Validate(); err != nil {
			return refuse(codeMalformed, "%v", err)
		}
		if err := v.sighting(ctx, sighting); err != nil {
			return err
		}
		d, err = loadMachine[vetting.DeviceState](ctx, v.sql, "", machineDevice, id)
		return err
	})
	return who.device(d), refused(err)
}

// simulate says what would become of a caller's hosts. It changes nothing.
func (s *Server) simulate(ctx context.Context, who caller, r client.Simulation) (simulated, error) {
	if err := (vetting.Subject{Kind: vetting.UnitModel, ID: r.Model}).Validate(); err != nil {
		return simulated{}, refuse(codeMalformed, "%v", err)
	}
	if len(r.Policies) > MaxPolicies {
		return simulated{}, refuse(codeMalformed, "%d policies, at most %d", len(r.Policies), MaxPolicies)
	}
	var policies []*policy.Policy
	for _, name := range r.Policies {
		p, ok := policy.Builtin(name)
		if !ok && strings.HasPrefix(name, "{") {
			var err error
			if p, err = policy.ParseCanonical([]byte(name)); err != nil {
				return simulated{}, refuse(codeMalformed, "%v", err)
			}
		} else if !ok {
			return simulated{}, refuse(codeMalformed, "policy %.80q: none of the built-in ones", name)
		}
		policies = append(policies, p)
	}
	if len(policies) == 0 {
		policies = append(policies, s.given.policy)
	}
	var then vetting.Parameters
	var now canon.Time
	err := s.view(ctx, func(_ *vetting.Registry, h *vetting.History, at canon.Time) error {
		then, now = h.At(r.Date), at
		return nil
	})
	if err == nil && r.Date < now {
		err = refuse(codeMalformed, "date %s: it is past", r.Date)
	}
	if err != nil {
		return simulated{}, err
	}
	hosts, err := s.candidates(ctx, who, true)
	if err != nil {
		return simulated{}, err
	}
	falls := vetting.Recover(vetting.Recovery{Date: r.Date, Model: r.Model, Exploited: r.Exploited}, hosts, policies, then, now)
	return simulated{Hosts: len(hosts), Falls: append([]vetting.Fall{}, falls...)}, nil
}

type rulesInput struct {
	Body vetting.Parameters
}

func (s *Server) rulesOperations(api huma.API) {
	register(s, api, operation(http.MethodGet, "/v1/rules", "rules", "Ask for the operator's parameters as they stand", http.StatusOK, 0, schemeRenter, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, _ *empty) (*answer[vetting.Parameters], error) {
			var p vetting.Parameters
			err := s.view(ctx, func(_ *vetting.Registry, h *vetting.History, now canon.Time) error {
				p = h.At(now)
				return nil
			})
			return answered(p, err)
		})
	register(s, api, operation(http.MethodPost, "/v1/rules", "setRules", "Set the operator's parameters from an instant on", http.StatusCreated, MaxVettingJSON, schemeAdmin),
		func(ctx context.Context, in *rulesInput) (*answer[client.Logged], error) {
			return answered(s.setRules(ctx, in.Body))
		})
}

// setRules logs parameters. Without an effective time they stand from now on.
func (s *Server) setRules(ctx context.Context, p vetting.Parameters) (l client.Logged, err error) {
	err = s.sit(ctx, func(v *sitting) error {
		p := p
		if p.Effective == 0 {
			p.Effective = v.now
		}
		refs, err := v.rulesBefore(ctx)
		if err != nil {
			return err
		}
		p.Previous = canon.Digest{}
		if len(refs) > 0 {
			p.Previous = refs[0]
		}
		if err := p.Validate(); err != nil {
			return refuse(codeMalformed, "%v", err)
		}
		body, err := canon.Marshal(p)
		if err != nil {
			return err
		}
		l.Body = canon.Sum(body)
		if err := v.happen(ctx, ledger.Draft{Kind: ledger.KindRules, Stream: ledger.StreamServer, Body: body, Refs: refs}); err != nil {
			return err
		}
		return addWork(ctx, v.sql, workRules, "", l.Body.String(), p.Effective)
	})
	return l, refused(err)
}

// rulesBefore returns the body of the last parameters of the newest log, if there are some.
func (v *sitting) rulesBefore(ctx context.Context) ([]canon.Digest, error) {
	var body canon.Digest
	err := v.sql.QueryRowContext(ctx, `SELECT body FROM entry WHERE kind = 'rules/v1' AND log = (SELECT MAX(number) FROM log) ORDER BY place DESC LIMIT 1`).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the parameters before: %w", err)
	}
	return []canon.Digest{body}, nil
}
