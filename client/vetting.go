package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// The answers of this file hold documents of the vetting room, which a provider's agent does not carry: the caller says
// into what they are read, and market/vetting has the types.

// CertificateRequest is the body of POST /v1/certificates: a certificate is drafted and submitted. The devices of the host are
// those that it is enrolled with.
type CertificateRequest struct {
	Provider   string           `json:"provider"`
	Site       string           `json:"site,omitzero"`
	Host       string           `json:"host,omitzero"` // id of a node
	Tier       string           `json:"tier"`
	Assertions []PartyAssertion `json:"assertions,omitzero"` // what the provider says of itself, ordered
}

// PartyAssertion is what a provider says of itself; market/vetting has the words.
type PartyAssertion struct {
	Subject   PartySubject `json:"subject"`
	Attribute string       `json:"attribute"`
	Value     string       `json:"value"`
}

// PartySubject is a device, host, site, provider, issuer or model.
type PartySubject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// CertificateAct is the body of POST /v1/certificates/{id}/acts: of the members those that the act wants. Who acts is whose
// token it is.
type CertificateAct struct {
	Act        string           `json:"act"`               // assign, pass, fail, assess, edit, renew, window, freeze, revoke, appeal, triage, rule, end
	Tier       string           `json:"tier,omitzero"`     // renew
	Reviewer   string           `json:"reviewer,omitzero"` // assign, triage: a principal, as `assay whoami` shows it
	Code       string           `json:"code,omitzero"`
	Evidence   canon.Digest     `json:"evidence,omitzero"`
	Since      canon.Time       `json:"since,omitzero"`
	Upheld     bool             `json:"upheld,omitzero"`
	Reason     string           `json:"reason,omitzero"`
	From       canon.Time       `json:"from,omitzero"` // window
	Until      canon.Time       `json:"until,omitzero"`
	Assertions []PartyAssertion `json:"assertions,omitzero"`
}

// Simulation is the body of POST /v1/certificates/simulate: what would become of the hosts if a vendor raised its level.
type Simulation struct {
	Date      canon.Time `json:"date"`
	Model     string     `json:"model"`
	Exploited bool       `json:"exploited,omitzero"`
	Policies  []string   `json:"policies,omitzero"` // names of built-in ones, or canonical documents
}

// IssuerRegistration is the body of POST /v1/issuers.
type IssuerRegistration struct {
	ID         string     `json:"id"`
	Key        []byte     `json:"key"`        // SubjectPublicKeyInfo (DER), Ed25519 or P-256
	Attributes []string   `json:"attributes"` // of which it may speak
	Countries  []string   `json:"countries,omitzero"`
	Sites      []string   `json:"sites,omitzero"`
	Until      canon.Time `json:"until"` // first instant at which it may speak no more
}

// UnitRevocation is the body of POST /v1/revocations: the operator takes a unit back.
type UnitRevocation struct {
	Kind     string       `json:"kind"` // claim, device, host, site, provider, issuer, model
	ID       string       `json:"id"`
	Reason   string       `json:"reason"`
	Since    canon.Time   `json:"since,omitzero"` // first instant that is tainted; absent: now
	Evidence canon.Digest `json:"evidence"`       // of what shows the reason
}

// ProviderFacts is the body of PUT /v1/providers/{id}: what the operator found out itself.
type ProviderFacts struct {
	Stake        bool  `json:"stake"`
	ContactHours int64 `json:"contact_hours"` // within which the incident contact answered; zero: there is none
}

// DeviceAct is the body of POST /v1/devices/{id}/acts.
type DeviceAct struct {
	Act      string       `json:"act"`               // settle: say whose it is; release: give it up
	Host     string       `json:"host"`              // whose it is, or was
	Evidence canon.Digest `json:"evidence,omitzero"` // settle: of what shows it
}

// PartyQuestion is the body of POST /v1/providers/{id}/refusal.
type PartyQuestion struct {
	Policy string `json:"policy"` // name of a built-in one, or the text of a policy
}

// Logged is the answer to what was logged: the body of its entry.
type Logged struct {
	Body canon.Digest `json:"body"`
}

// RequestCertificate drafts and submits a certificate; answer is a vetting.Certificate.
func (c *Client) RequestCertificate(ctx context.Context, r CertificateRequest, answer any) error {
	return c.post(ctx, "/v1/certificates", r, answer)
}

// Certificates lists certificates of a provider, or all of them; answer has a member certificates, and after, where the next
// page begins.
func (c *Client) Certificates(ctx context.Context, provider, after string, answer any) error {
	return c.get(ctx, "/v1/certificates?provider="+url.QueryEscape(provider)+"&after="+url.QueryEscape(after), answer)
}

// Certificate returns one certificate; answer is a vetting.Certificate.
func (c *Client) Certificate(ctx context.Context, id string, answer any) error {
	return c.get(ctx, "/v1/certificates/"+url.PathEscape(id), answer)
}

// ActOnCertificate lets something happen to a certificate; answer is a vetting.Certificate.
func (c *Client) ActOnCertificate(ctx context.Context, id string, a CertificateAct, answer any) error {
	return c.post(ctx, "/v1/certificates/"+url.PathEscape(id)+"/acts", a, answer)
}

// Preview asks how many hosts the renewal of a claim keeps in their tiers; answer has a member hosts.
func (c *Client) Preview(ctx context.Context, id canon.Digest, answer any) error {
	return c.get(ctx, "/v1/claims/"+id.String()+"/keeps", answer)
}

// Simulate asks what would become of the hosts if a vendor raised its level; answer has a member falls, of vetting.Fall.
func (c *Client) Simulate(ctx context.Context, s Simulation, answer any) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if data, err = c.do(ctx, http.MethodPost, "/v1/certificates/simulate", jsonType, data, http.StatusOK, MaxAnswer); err != nil {
		return err
	}
	return decode(data, answer)
}

// Providers lists providers in the order of their ids; answer has a member providers, and after, where the next page begins.
func (c *Client) Providers(ctx context.Context, after string, answer any) error {
	return c.get(ctx, "/v1/providers?after="+url.QueryEscape(after), answer)
}

// Provider returns what is known of a provider; see the server's description of the answer.
func (c *Client) Provider(ctx context.Context, id string, answer any) error {
	return c.get(ctx, "/v1/providers/"+url.PathEscape(id), answer)
}

// SetProvider records what the operator found out about a provider.
func (c *Client) SetProvider(ctx context.Context, id string, f ProviderFacts) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, http.MethodPut, "/v1/providers/"+url.PathEscape(id), jsonType, data, http.StatusNoContent, MaxAnswer)
	return err
}

// Badge returns a provider's badge as the log has it, an SVG image or its JSON.
func (c *Client) Badge(ctx context.Context, provider, format string) ([]byte, error) {
	return c.do(ctx, http.MethodGet, "/v1/providers/"+url.PathEscape(provider)+"/badge."+format, "", nil, http.StatusOK, MaxAnswer)
}

// SendClaim hands in what an issuer signed: a claim, or a revocation of one of its claims. The body of its entry is the
// envelope.
func (c *Client) SendClaim(ctx context.Context, env ledger.Envelope) (Logged, error) {
	var l Logged
	data, err := canon.Marshal(env)
	if err != nil {
		return l, err
	}
	if data, err = c.do(ctx, http.MethodPost, "/v1/claims", envelopeType, data, http.StatusCreated, MaxAnswer); err != nil {
		return l, err
	}
	return l, decode(data, &l)
}

// Issuers lists who may speak; answer has a member issuers, of vetting.Issuer.
func (c *Client) Issuers(ctx context.Context, answer any) error {
	return c.get(ctx, "/v1/issuers", answer)
}

// RegisterIssuer lets an issuer speak.
func (c *Client) RegisterIssuer(ctx context.Context, r IssuerRegistration) error {
	return c.post(ctx, "/v1/issuers", r, &struct{}{})
}

// RevokeUnit takes a unit back.
func (c *Client) RevokeUnit(ctx context.Context, r UnitRevocation) (Logged, error) {
	var l Logged
	return l, c.post(ctx, "/v1/revocations", r, &l)
}

// ActOnDevice settles whose a device is, or gives it up; answer is a vetting.DeviceState.
func (c *Client) ActOnDevice(ctx context.Context, id string, a DeviceAct, answer any) error {
	return c.post(ctx, "/v1/devices/"+url.PathEscape(id)+"/acts", a, answer)
}

// Rules returns the operator's parameters as they stand; answer is a vetting.Parameters.
func (c *Client) Rules(ctx context.Context, answer any) error { return c.get(ctx, "/v1/rules", answer) }

// SetRules sets the operator's parameters from an instant on. document is a vetting.Parameters.
func (c *Client) SetRules(ctx context.Context, document any) (Logged, error) {
	var l Logged
	return l, c.post(ctx, "/v1/rules", document, &l)
}

// MatchQuestion is the body of POST /v1/match.
type MatchQuestion struct {
	Policy string   `json:"policy"`         // name of a built-in one, or the text of a policy
	Relax  []string `json:"relax,omitzero"` // what to leave out of it, each by itself: a claim, what it is about, or require[7]
}

// Match asks how many certified hosts a policy accepts; see the server's description of the answer.
func (c *Client) Match(ctx context.Context, q MatchQuestion, answer any) error {
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if data, err = c.do(ctx, http.MethodPost, "/v1/match", jsonType, data, http.StatusOK, MaxAnswer); err != nil {
		return err
	}
	return decode(data, answer)
}

// PartyRefusal asks why a provider's certificates are not what a policy asks of the party; see the server's description of the
// answer.
func (c *Client) PartyRefusal(ctx context.Context, id string, q PartyQuestion, answer any) error {
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if data, err = c.do(ctx, http.MethodPost, "/v1/providers/"+url.PathEscape(id)+"/refusal", jsonType, data, http.StatusOK, MaxAnswer); err != nil {
		return err
	}
	return decode(data, answer)
}
