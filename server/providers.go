package server

import (
	"context"
	"database/sql"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
)

// Inputs and answers of the operations on providers.
type (
	providerInput struct {
		ID string `path:"id"`
	}
	matchInput struct {
		Body client.MatchQuestion
	}
	partyRefusalInput struct {
		ID   string `path:"id"`
		Body client.PartyQuestion
	}
	badgeInput struct {
		ID string `path:"id"`
	}
	factsInput struct {
		ID   string `path:"id"`
		Body client.ProviderFacts
	}
	providersInput struct {
		After string `query:"after" doc:"id of a provider: the page begins after it"`
	}
	providerList struct {
		Providers []providerRow `json:"providers"`
		After     string        `json:"after,omitzero"` // where the next page begins; absent: this was the last
	}
	providerRow struct {
		Provider     string `json:"provider"`
		Certificates int    `json:"certificates"`  // that stand
		Tier         string `json:"tier,omitzero"` // the highest of them; absent: none stands
	}
	providerAnswer struct {
		Provider     string                `json:"provider"`
		Stake        bool                  `json:"stake"`
		ContactHours int64                 `json:"contact_hours"`
		Certificates []vetting.Certificate `json:"certificates"`
		Devices      []vetting.DeviceState `json:"devices"` // that it holds
		Notices      []vetting.Notice      `json:"notices"` // the newest first
	}

	// badge is what a provider may show: a certificate as the published log has it.
	badge struct {
		Type        string       `json:"type"`
		Provider    string       `json:"provider"`
		Certificate string       `json:"certificate"`
		Tier        string       `json:"tier"`
		Status      string       `json:"status"`
		Expires     canon.Time   `json:"expires"`
		Log         string       `json:"log"`   // its origin
		Index       int64        `json:"index"` // of the entry that says so
		Entry       canon.Digest `json:"entry"` // its commitment
		Size        int64        `json:"size"`  // of the checkpoint that covers it
	}
)

const badgeType = "assay/badge/v1"

func (s *Server) providerOperations(api huma.API) {
	register(s, api, operation(http.MethodGet, "/v1/providers", "providers", "List providers", http.StatusOK, 0, schemeRenter, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *providersInput) (*answer[providerList], error) {
			return answered(s.providers(ctx, callerOf(ctx), in.After))
		})
	register(s, api, operation(http.MethodGet, "/v1/providers/{id}", "provider", "Ask what is known of a provider; a renter is told what its certificates say that stand or stood", http.StatusOK, 0, schemeRenter, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *providerInput) (*answer[providerAnswer], error) {
			return answered(s.provider(ctx, callerOf(ctx), in.ID))
		})
	register(s, api, operation(http.MethodPost, "/v1/providers/{id}/refusal", "partyRefusal", "Ask why a provider's certificates are not what a policy asks of the party; nothing is stored", http.StatusOK, MaxVettingJSON, schemeRenter, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *partyRefusalInput) (*answer[partyRefusal], error) {
			return answered(s.partyRefusal(ctx, callerOf(ctx), in.ID, in.Body))
		})
	register(s, api, operation(http.MethodPost, "/v1/match", "match", "Ask how many certified hosts a policy accepts, and which rule costs most; nothing is stored", http.StatusOK, MaxVettingJSON, schemeRenter, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *matchInput) (*answer[matched], error) {
			return answered(s.match(ctx, in.Body))
		})
	register(s, api, operation(http.MethodPut, "/v1/providers/{id}", "setProvider", "Record what the operator found out about a provider", http.StatusNoContent, MaxJSON, schemeAdmin),
		func(ctx context.Context, in *factsInput) (*empty, error) {
			return &empty{}, s.setProvider(ctx, in.ID, in.Body)
		})
	document := operation(http.MethodGet, "/v1/providers/{id}/badge.json", "badge", "Ask for a provider's badge, as the log has it", http.StatusOK, 0)
	register(s, api, document, func(ctx context.Context, in *badgeInput) (*answer[badge], error) {
		return answered(s.badge(ctx, in.ID))
	})
	svg := operation(http.MethodGet, "/v1/providers/{id}/badge.svg", "badgeImage", "Ask for a provider's badge as an image", http.StatusOK, 0)
	svg.Responses = responses(http.StatusOK, svgType, &huma.Schema{Type: huma.TypeString})
	register(s, api, svg, func(ctx context.Context, in *badgeInput) (*rawBody, error) {
		b, err := s.badge(ctx, in.ID)
		return &rawBody{ContentType: svgType, CacheControl: "no-cache", Body: b.svg()}, err
	})
}

const svgType = "image/svg+xml"

// providers lists the providers that a caller may know of, in the order of their ids: a renter knows of those that have a
// certificate which stands, or stood. The page ends with one that is listed: where the next begins names no other.
func (s *Server) providers(ctx context.Context, who caller, after string) (providerList, error) {
	list := providerList{Providers: []providerRow{}}
	for {
		names, err := s.providerNames(ctx, who, after)
		if err != nil {
			return list, fmt.Errorf("list providers: %w", err)
		}
		standing, err := s.standing(ctx, names)
		if err != nil {
			return list, err
		}
		for _, name := range names {
			row := providerRow{Provider: name}
			for _, c := range standing[name] {
				row.Certificates++
				row.Tier = vetting.Higher(row.Tier, c.Tier)
			}
			if row.Certificates == 0 && who.use == client.RoleRenter {
				all, err := s.certificatesOf(ctx, name)
				if err != nil {
					return list, err
				}
				if !slices.ContainsFunc(all, vetting.Certificate.Stood) {
					continue
				}
			}
			if list.Providers = append(list.Providers, row); len(list.Providers) == MaxPage {
				list.After = name
				return list, nil
			}
		}
		if len(names) < MaxPage {
			return list, nil
		}
		after = names[MaxPage-1]
	}
}

// providerNames returns at most MaxPage providers after one, of those that a caller may know; for a renter, of all.
func (s *Server) providerNames(ctx context.Context, who caller, after string) ([]string, error) {
	own := &filter{}
	own.and(`name > ?`, after)
	if tenant := who.token.Grant.Tenant; who.use != client.RoleRenter && tenant != "" {
		own.and(`name = ?`, tenant)
	}
	if who.use != client.RoleRenter && len(who.token.Grant.Scope.Nodes) != 0 { // a scope of nodes is none of their provider
		return nil, nil
	}
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT name FROM (SELECT tenant AS name FROM machine WHERE kind = 'certificate'
		UNION SELECT id FROM provider) AS known WHERE `+own.String()+fmt.Sprintf(` ORDER BY name LIMIT %d`, MaxPage), own.args...)
	if err != nil {
		return nil, err
	}
	return texts(rows)
}

func (s *Server) certificatesOf(ctx context.Context, provider string) ([]vetting.Certificate, error) {
	return machines[vetting.Certificate](ctx, s.store.db.Reader(), `kind = 'certificate' AND tenant = $1`, provider)
}

// provider says what is known of a provider to those who may know it all, and to a renter what its certificates say that stand or stood.
func (s *Server) provider(ctx context.Context, who caller, id string) (p providerAnswer, err error) {
	if who.use == client.RoleRenter {
		return s.shownToRenters(ctx, id)
	}
	if !who.mayKnow(id) {
		return p, refuse(codeNotFound, "no such provider")
	}
	p.Provider, p.Notices = id, []vetting.Notice{}
	known := true
	var stake int64
	switch err := s.store.db.Reader().QueryRowContext(ctx, `SELECT stake, contact_hours FROM provider WHERE id = $1`, id).Scan(&stake, &p.ContactHours); {
	case errors.Is(err, sql.ErrNoRows):
		known = false
	case err != nil:
		return p, fmt.Errorf("read provider %s: %w", id, err)
	}
	p.Stake = stake == 1
	certificates, err := s.certificatesOf(ctx, id)
	if err != nil {
		return p, err
	}
	if !known && len(certificates) == 0 {
		return p, refuse(codeNotFound, "no such provider")
	}
	devices, err := machines[vetting.DeviceState](ctx, s.store.db.Reader(), `kind = 'device' AND tenant = $1`, id)
	if err != nil {
		return p, err
	}
	p.Certificates, p.Devices = append([]vetting.Certificate{}, certificates...), []vetting.DeviceState{}
	for _, d := range devices {
		p.Devices = append(p.Devices, who.device(d))
	}
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT body FROM notice WHERE tenant = $1 ORDER BY at DESC, entry LIMIT $2`, id, MaxPage)
	if err != nil {
		return p, fmt.Errorf("read notices: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var body string
		var n vetting.Notice
		if err := rows.Scan(&body); err != nil {
			return p, fmt.Errorf("read notices: %w", err)
		}
		if err := canon.Unmarshal([]byte(body), &n); err != nil {
			return p, fmt.Errorf("damaged database: notice: %w", err)
		}
		p.Notices = append(p.Notices, n)
	}
	return p, rows.Err()
}

// shownToRenters leaves out whose chips and hosts these are, what goes on between the provider and the operator, and what never
// stood. What stood once is shown for what it is now.
func (s *Server) shownToRenters(ctx context.Context, id string) (p providerAnswer, err error) {
	p = providerAnswer{Provider: id, Certificates: []vetting.Certificate{}, Devices: []vetting.DeviceState{}, Notices: []vetting.Notice{}}
	all, err := s.certificatesOf(ctx, id)
	if err != nil {
		return p, err
	}
	p.Stake, p.ContactHours, err = s.facts(ctx, s.store.db.Reader(), id)
	if err != nil {
		return p, err
	}
	for _, c := range all {
		if c.Stood() {
			p.Certificates = append(p.Certificates, c.Public(s.time()))
		}
	}
	if len(p.Certificates) == 0 {
		return p, refuse(codeNotFound, "no such provider")
	}
	return p, nil
}

// setProvider logs what the operator found out, and weighs the provider's certificates anew.
func (s *Server) setProvider(ctx context.Context, id string, f client.ProviderFacts) error {
	facts := vetting.Facts{Type: vetting.FactsType, Provider: id, Stake: f.Stake, ContactHours: f.ContactHours}
	if err := facts.Validate(); err != nil {
		return refuse(codeMalformed, "%v", err)
	}
	return refused(s.sit(ctx, func(v *sitting) error {
		if err := v.certificateEvent(ctx, id, facts); err != nil {
			return err
		}
		return v.reassessAbout(ctx, vetting.Subject{Kind: vetting.UnitProvider, ID: id}, v.now)
	}))
}

// certified is what lists and badges need of a certificate that stands.
type certified struct {
	ID      string     `json:"id"`
	Tier    string     `json:"tier"`
	Status  string     `json:"status"`
	Updated canon.Time `json:"updated"`
	Expires canon.Time `json:"expires"`
	entry   canon.Digest
}

// standing returns the certificates of providers that stand, by provider, in the order of their ids.
func (s *Server) standing(ctx context.Context, providers []string) (map[string][]certified, error) {
	out := map[string][]certified{}
	if len(providers) == 0 {
		return out, nil
	}
	var those filter
	those.and(`kind = 'certificate'`)
	those.among(`tenant`, providers)
	those.among(`status`, []string{vetting.Certified, vetting.Renewing, vetting.Suspended})
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT tenant, state, entry FROM machine WHERE `+those.String()+` ORDER BY id`, those.args...)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var provider, state string
		var c certified
		if err := rows.Scan(&provider, &state, &c.entry); err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
		if err := json.Unmarshal([]byte(state), &c); err != nil {
			return nil, fmt.Errorf("damaged database: certificate: %w", err)
		}
		out[provider] = append(out[provider], c)
	}
	return out, rows.Err()
}

// badge returns the badge of a provider: of the highest tier in which a certificate of it stands by an entry which a checkpoint
// covers, the one whose last entry is the oldest. Whatever was said elsewhere, a provider without one has no badge.
func (s *Server) badge(ctx context.Context, provider string) (badge, error) {
	standing, err := s.standing(ctx, []string{provider})
	if err != nil {
		return badge{}, err
	}
	now := s.time()
	best := map[string]certified{}
	for _, c := range standing[provider] {
		if old, ok := best[c.Tier]; c.Expires > now && (!ok || c.Updated < old.Updated) {
			best[c.Tier] = c
		}
	}
	for _, tier := range slices.Backward(claim.Tiers) {
		c, ok := best[tier]
		if !ok {
			continue
		}
		r, err := s.store.Entry(ctx, c.entry)
		if err != nil {
			return badge{}, err
		}
		of, err := s.store.numbered(ctx, r.Log)
		if err != nil {
			return badge{}, err
		}
		published, err := of.Published(ctx)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return badge{}, err
		}
		if err == nil && r.Index < published.Size {
			return badge{badgeType, provider, c.ID, c.Tier, c.Status, c.Expires, of.Origin, r.Index, c.entry, published.Size}, nil
		}
	}
	return badge{}, refuse(codeNotFound, "no certificate in log")
}

// svg draws the badge: two fields, the second one in the colour of the tier.
func (b badge) svg() []byte {
	colour := map[string]string{"anonymous": "#6b7280", "identified": "#1d4ed8", "attested": "#047857", "attested-facility": "#065f46"}[b.Tier]
	text := b.Tier
	if b.Status == vetting.Suspended {
		colour, text = "#b45309", text+" (suspended)"
	}
	width := 60 + 12 + 7*len(text)
	title := fmt.Sprintf("Assay: %s is %s by entry %d of %s", b.Provider, text, b.Index, b.Log)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s"><title>%s</title>`+
		`<rect width="%d" height="20" fill="#1f2937"/><rect x="60" width="%d" height="20" fill="%s"/>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle"><text x="30" y="14">assay</text><text x="%d" y="14">%s</text></g></svg>`+"\n",
		width, escaped(title), escaped(title), width, width-60, colour, 60+(width-60)/2, escaped(text))
}

func escaped(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic("server: internal error: " + err.Error())
	}
	return b.String()
}
