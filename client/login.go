package client

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/internal/canon"
)

// AccessType is the type of the access document.
const AccessType = "assay/access/v1"

// Limits on who may log in.
const (
	MaxIssuers   = 16             // of an access document
	MaxGrants    = 256            // of one issuer
	MaxClaim     = 256            // bytes of a name, of a claim's name, of a value
	DefaultLogin = 8 * time.Hour  // for which a token that a login gave is good
	MaxLogin     = 24 * time.Hour // and at most
	MinSecret    = 16             // bytes of the secret behind a nonce
	MaxSecret    = 64             // bytes of it
	MaxIDToken   = 32 << 10       // bytes of an ID token
)

// Access says whose people may log in with OpenID Connect, and as what. An admin writes it (`assay access set`).
type Access struct {
	Type    string   `json:"type"`
	Issuers []Issuer `json:"issuers"`
}

// Issuer is an OpenID Provider whose ID tokens are believed.
type Issuer struct {
	Name       string       `json:"name"`                // what people say: assay login URL --issuer NAME
	Issuer     string       `json:"issuer"`              // its URL, byte for byte as in its ID tokens
	Client     string       `json:"client"`              // id of the public client that assay is there; the audience of its ID tokens
	Algorithms []string     `json:"algorithms,omitzero"` // of signatures: some of [Algorithms]; absent: RS256 and ES256
	Scopes     []string     `json:"scopes,omitzero"`     // that ID tokens are asked for with; absent: openid, email, profile
	User       string       `json:"user,omitzero"`       // claim that names a person; absent: sub. Of email, email_verified must be true
	Life       string       `json:"life,omitzero"`       // of the tokens that a login gives, such as 8h; absent: DefaultLogin
	Device     bool         `json:"device,omitzero"`     // ID tokens without a nonce are taken, as most issuers give them in the device flow
	Grants     []ClaimGrant `json:"grants"`              // the first that fits counts
}

// ClaimGrant is what people get whose ID token has a value in a claim, or in a claim's list.
type ClaimGrant struct {
	Claim string `json:"claim,omitzero"` // absent: groups
	Has   string `json:"has"`
	Grant Grant  `json:"grant"`
}

// Algorithms returns the signature algorithms (RFC 7518, RFC 8037) that an ID token may have.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// TokenLife returns how long a token that a login gave is good.
func (i Issuer) TokenLife() (time.Duration, error) {
	if i.Life == "" {
		return DefaultLogin, nil
	}
	d, err := time.ParseDuration(i.Life)
	if err != nil || d < time.Minute || d > MaxLogin {
		return 0, fmt.Errorf("life %.40q: want from 1m to %s, such as 8h", i.Life, MaxLogin)
	}
	return d, nil
}

// SigningAlgorithms returns the algorithms that are taken.
func (i Issuer) SigningAlgorithms() []string {
	if len(i.Algorithms) == 0 {
		return []string{"RS256", "ES256"}
	}
	return i.Algorithms
}

// AskedScopes returns the scopes that ID tokens are asked for with.
func (i Issuer) AskedScopes() []string {
	if len(i.Scopes) == 0 {
		return []string{"openid", "email", "profile"}
	}
	return i.Scopes
}

// Check says what is wrong with an access document.
func (a Access) Check() error {
	if a.Type != AccessType {
		return fmt.Errorf("access: type %.80q is not known to this build, want %q", a.Type, AccessType)
	}
	if len(a.Issuers) > MaxIssuers {
		return fmt.Errorf("access: %d issuers, at most %d", len(a.Issuers), MaxIssuers)
	}
	names := map[string]bool{}
	for n, i := range a.Issuers {
		err := i.check()
		if err == nil && names[i.Name] {
			err = errors.New("its name stands twice")
		}
		if err != nil {
			return fmt.Errorf("access: issuer %d, %.80q: %w", n+1, i.Name, err)
		}
		names[i.Name] = true
	}
	return nil
}

func (i Issuer) check() error {
	if !isWord(i.Name) {
		return fmt.Errorf("name: want a word of at most %d bytes, without spaces and slashes", MaxClaim)
	}
	if err := CheckIssuer(i.Issuer); err != nil {
		return err
	}
	if i.Client == "" || len(i.Client) > MaxClaim {
		return fmt.Errorf("client: want the id of the public client, at most %d bytes", MaxClaim)
	}
	for _, a := range i.Algorithms {
		if !slices.Contains(Algorithms(), a) {
			return fmt.Errorf("algorithm %.40q: want one of %s", a, strings.Join(Algorithms(), ", "))
		}
	}
	if scopes := i.AskedScopes(); !slices.Contains(scopes, "openid") || slices.ContainsFunc(scopes, func(s string) bool { return !isWord(strings.ReplaceAll(s, "/", "")) }) {
		return fmt.Errorf("scopes %.300q: want words, openid among them", scopes)
	}
	if _, err := i.TokenLife(); err != nil {
		return err
	}
	if len(i.User) > MaxClaim {
		return fmt.Errorf("user: the name of a claim of %d bytes, at most %d", len(i.User), MaxClaim)
	}
	if len(i.Grants) == 0 || len(i.Grants) > MaxGrants {
		return fmt.Errorf("%d grants, want from 1 to %d: without one, nobody gets in", len(i.Grants), MaxGrants)
	}
	for n, g := range i.Grants {
		if g.Has == "" || len(g.Has) > MaxClaim || len(g.Claim) > MaxClaim {
			return fmt.Errorf("grant %d: has: want the value that the claim must have, at most %d bytes", n+1, MaxClaim)
		}
		if err := g.Grant.Check(); err != nil {
			return fmt.Errorf("grant %d: %w", n+1, err)
		}
	}
	return nil
}

func isWord(s string) bool {
	return s != "" && len(s) <= MaxClaim && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f || r == 0xfffd })
}

// CheckIssuer says what is wrong with the URL of an issuer, or of what it names.
func CheckIssuer(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || len(text) > MaxClaim:
		return fmt.Errorf("issuer %.300q: want https://host[/path] of at most %d bytes", text, MaxClaim)
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(strings.ToLower(u.Hostname()))):
		return fmt.Errorf("issuer %q: want https; plain http is for this machine only", text)
	}
	return nil
}

// LoginIssuer is what somebody needs who logs in with an issuer.
type LoginIssuer struct {
	Name   string   `json:"name"`
	Issuer string   `json:"issuer"`
	Client string   `json:"client"`
	Scopes []string `json:"scopes"`
	Device bool     `json:"device,omitzero"` // ID tokens of its device flow are taken without a nonce
}

// LoginIssuers is the answer to GET /v1/logins.
type LoginIssuers struct {
	Issuers []LoginIssuer `json:"issuers"`
}

// LoginRequest is the body of POST /v1/logins: an ID token, and the secret behind its nonce.
type LoginRequest struct {
	Issuer  string    `json:"issuer"` // its name
	IDToken string    `json:"id_token"`
	Secret  canon.Hex `json:"secret"` // from MinSecret to MaxSecret bytes
}

// LoginNonce returns the nonce with which an ID token is asked for, to be shown to the server of an origin: nobody trades
// it there who does not know the secret, and nobody trades it at another server.
func LoginNonce(origin string, secret []byte) string {
	d := canon.Hash("assay/login/v1", []byte(origin), secret)
	return hex.EncodeToString(d[:])
}

// LoginIssuers asks with which issuers one may log in.
func (c *Client) LoginIssuers(ctx context.Context) (LoginIssuers, error) {
	var l LoginIssuers
	return l, c.get(ctx, "/v1/logins", &l)
}

// Login trades an ID token for a token of the server.
func (c *Client) Login(ctx context.Context, r LoginRequest) (NewToken, error) {
	var t NewToken
	return t, c.post(ctx, "/v1/logins", r, &t)
}

// Access asks for the access document (admin).
func (c *Client) Access(ctx context.Context) (Access, error) {
	var a Access
	return a, c.get(ctx, "/v1/access", &a)
}

// SetAccess replaces the access document (admin). Tokens that logins with an issuer gave end where anything of that issuer
// is other than before.
func (c *Client) SetAccess(ctx context.Context, a Access) error {
	data, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("access: %w", err)
	}
	_, err = c.do(ctx, http.MethodPut, "/v1/access", jsonType, data, http.StatusNoContent, MaxAnswer)
	return err
}
