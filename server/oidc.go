package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
)

// People log in with OpenID Connect: whoever has an ID token of an issuer that an admin named trades it, once, for a token
// of ours with the role and tenant that the admin gave to one of its claims. The flows that get an ID token, in a browser
// or on another device, are the client's; the server sees their result alone, and never a password or an access token.

// endLogins ends the tokens that logins with an issuer gave, but for one.
func endLogins(ctx context.Context, tx *Tx, issuer, but string, now canon.Time) (int64, error) {
	begin := userPrincipal(issuer, "") // slashes are in no issuer's name
	done, err := tx.SQL.ExecContext(ctx, `UPDATE secret SET ended = $1 WHERE ended = 0 AND substr(principal, 1, $2) = $3 AND id <> $4`,
		int64(now), utf8.RuneCountInString(begin), begin, but)
	if err != nil {
		return 0, fmt.Errorf("end logins: %w", err)
	}
	return done.RowsAffected()
}

// personPrefix begins the principal of a person, who logs in.
const personPrefix = "user:"

// userPrincipal names who logged in with an issuer.
func userPrincipal(issuer, name string) string { return personPrefix + issuer + "/" + name }

// access returns the access document. Before there is one, nobody may log in.
func (s *Server) access(ctx context.Context) (client.Access, error) {
	return accessOf(ctx, s.store.db.Reader())
}

func accessOf(ctx context.Context, q querier) (client.Access, error) {
	a := client.Access{Type: client.AccessType, Issuers: []client.Issuer{}}
	var body string
	err := q.QueryRowContext(ctx, `SELECT body FROM access`).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return a, nil
	}
	if err == nil {
		err = canon.Unmarshal([]byte(body), &a)
	}
	if err != nil {
		return a, fmt.Errorf("read who may log in: %w", err)
	}
	return a, nil
}

// setAccess replaces the access document. It counts at once: tokens that people have by a login with an issuer of which
// anything is other than before are ended, and they log in again. The caller's own stays, so that a slip can be mended.
func (s *Server) setAccess(ctx context.Context, who caller, a client.Access) error {
	if err := a.Check(); err != nil {
		return refuse(codeMalformed, "%v", err)
	}
	body, err := canon.Marshal(a)
	if err != nil {
		return err
	}
	var ended int64
	err = s.store.Tx(ctx, func(tx *Tx) error {
		ended = 0
		if err := holdServer(ctx, tx.SQL); err != nil { // a login at this moment is by the one document or by the other
			return err
		}
		old, err := accessOf(ctx, tx.SQL)
		if err != nil {
			return err
		}
		for _, issuer := range old.Issuers {
			if slices.ContainsFunc(a.Issuers, func(i client.Issuer) bool { return reflect.DeepEqual(i, issuer) }) {
				continue
			}
			n, err := endLogins(ctx, tx, issuer.Name, who.token.ID, s.time())
			if err != nil {
				return err
			}
			ended += n
		}
		_, err = tx.SQL.ExecContext(ctx, `INSERT INTO access(id, body) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET body = excluded.body`, string(body))
		return err
	})
	if err == nil {
		s.log.Info("who may log in was changed", "issuers", len(a.Issuers), "ended", ended, "by", who.token.Principal)
	}
	return err
}

// loginIssuers says with whom people may log in.
func (s *Server) loginIssuers(ctx context.Context) (client.LoginIssuers, error) {
	a, err := s.access(ctx)
	list := client.LoginIssuers{Issuers: []client.LoginIssuer{}}
	for _, i := range a.Issuers {
		list.Issuers = append(list.Issuers, client.LoginIssuer{Name: i.Name, Issuer: i.Issuer, Client: i.Client, Scopes: i.AskedScopes(), Device: i.Device})
	}
	return list, err
}

// login trades an ID token for a token.
func (s *Server) login(ctx context.Context, r client.LoginRequest) (client.NewToken, error) {
	if n := len(r.Secret); n < client.MinSecret || n > client.MaxSecret {
		return client.NewToken{}, refuse(codeMalformed, "secret of %d bytes, want from %d to %d", n, client.MinSecret, client.MaxSecret)
	}
	if len(r.IDToken) > client.MaxIDToken {
		return client.NewToken{}, refuse(codeMalformed, "ID token of %d bytes, at most %d", len(r.IDToken), client.MaxIDToken)
	}
	a, err := s.access(ctx)
	if err != nil {
		return client.NewToken{}, err
	}
	at := slices.IndexFunc(a.Issuers, func(i client.Issuer) bool { return i.Name == r.Issuer })
	if at < 0 {
		return client.NewToken{}, refuse(codeNotFound, "nobody logs in here with an issuer %.80q: GET /v1/logins names those who may", r.Issuer)
	}
	select {
	case s.logins <- struct{}{}:
		defer func() { <-s.logins }()
	default:
		return client.NewToken{}, &problem{code: codeBusy, detail: fmt.Sprintf("%d logins are under way", MaxLoginsAtOnce), retry: time.Second}
	}
	issuer := a.Issuers[at]
	token, err := s.verifyIDToken(ctx, issuer, r)
	if err != nil {
		return client.NewToken{}, err
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return client.NewToken{}, refuse(codeCredential, "the ID token's claims are no JSON object")
	}
	name, err := personOf(issuer, claims)
	if err != nil {
		return client.NewToken{}, err
	}
	grant, ok := grantOf(issuer, claims)
	if !ok {
		return client.NewToken{}, refuse(codeNoRole, "%s is known to %s, and no grant of this server is for what it says of them: ask the admin", name, issuer.Name)
	}
	life, err := issuer.TokenLife()
	if err != nil {
		return client.NewToken{}, err
	}
	now := s.time()
	principal := userPrincipal(issuer.Name, name)
	var t client.NewToken
	err = s.store.Tx(ctx, func(tx *Tx) (err error) {
		if err := holdServer(ctx, tx.SQL); err != nil {
			return err
		}
		standing, err := accessOf(ctx, tx.SQL)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(standing.Issuers, func(i client.Issuer) bool { return reflect.DeepEqual(i, issuer) }) {
			return &problem{code: codeBusy, detail: "who may log in was changed meanwhile", retry: time.Second}
		}
		if err := burnIDToken(ctx, tx, r.IDToken, now, canon.At(token.Expiry)); err != nil {
			return err
		}
		t, err = s.insertToken(ctx, tx, grant, principal, principal, now, now+seconds(life))
		return err
	})
	if errors.Is(err, sqldb.ErrExists) {
		err = refuse(client.CodeRevoked, "the ID token was traded already, and is good once: log in again")
	}
	if err == nil {
		s.log.Info("logged in", "token", t.Record.ID, "principal", principal, "role", grant.Role, "tenant", grant.Tenant)
	}
	return t, err
}

// burnIDToken notes that an ID token was traded. A second time is [sqldb.ErrExists]. What counts is what its issuer signed:
// a signature may be written in several ways.
func burnIDToken(ctx context.Context, tx *Tx, text string, now, expires canon.Time) error {
	if _, err := tx.SQL.ExecContext(ctx, `DELETE FROM login WHERE expires < $1`, int64(now)); err != nil {
		return fmt.Errorf("forget old logins: %w", err)
	}
	signed := canon.Sum([]byte(text[:max(0, strings.LastIndexByte(text, '.'))]))
	if _, err := tx.SQL.ExecContext(ctx, `INSERT INTO login(id_token, expires) VALUES ($1, $2)`, signed[:], int64(expires)); err != nil {
		return fmt.Errorf("note a login: %w", err)
	}
	return nil
}

// verifyIDToken checks an ID token (OpenID Connect Core 1.0, section 3.1.3.7): signature by a key of the issuer and by an
// algorithm on the list, issuer, audience and authorized party, expiry, age, and the nonce that binds it to this server and
// to who asked for it. It does not check at_hash: no access token is used.
func (s *Server) verifyIDToken(ctx context.Context, issuer client.Issuer, r client.LoginRequest) (*oidc.IDToken, error) {
	remote, err := s.issuers.keys(ctx, issuer.Issuer)
	if err != nil {
		return nil, s.issuerFailed(issuer, err)
	}
	keys := &notedKeys{remote: remote}
	// The library checks signature, algorithm, exp and nbf. The rest is checked here, so that each fault has its words.
	verifier := oidc.NewVerifier(issuer.Issuer, keys, &oidc.Config{
		SkipClientIDCheck: true, SkipIssuerCheck: true, SupportedSigningAlgs: issuer.SigningAlgorithms(), Now: s.now,
	})
	t, err := verifier.Verify(ctx, r.IDToken)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.Is(keys.err, errIssuer):
		return nil, s.issuerFailed(issuer, keys.err)
	case errors.As(err, &expired):
		return nil, refuse(client.CodeExpired, "the ID token expired at %s: log in again", canon.At(expired.Expiry))
	case err != nil:
		return nil, refuse(codeCredential, "the ID token is not signed by a key of %s with one of %s, or is no ID token", issuer.Issuer, strings.Join(issuer.SigningAlgorithms(), ", "))
	}
	var azp struct {
		AZP string `json:"azp"`
	}
	if err := t.Claims(&azp); err != nil {
		return nil, refuse(codeCredential, "the ID token's azp is no text")
	}
	now, issued := s.time(), canon.At(t.IssuedAt)
	nonce := client.LoginNonce(s.origin, r.Secret)
	switch {
	case t.Issuer != issuer.Issuer:
		return nil, refuse(client.CodeForeign, "the ID token is of the issuer %.300q, want %q", t.Issuer, issuer.Issuer)
	case !slices.Contains(t.Audience, issuer.Client), azp.AZP != "" && azp.AZP != issuer.Client, len(t.Audience) > 1 && azp.AZP == "":
		return nil, refuse(client.CodeForeign, "the ID token is for the client %.300q, want %q alone", t.Audience, issuer.Client)
	case t.Nonce == "" && !issuer.Device:
		return nil, refuse(client.CodeForeign, "the ID token has no nonce: this server takes none from the device flow of %s", issuer.Name)
	case t.Nonce != "" && t.Nonce != nonce:
		return nil, refuse(client.CodeForeign, "the ID token was asked for by somebody else, or for another server: this one is %s", s.origin)
	case t.IssuedAt.Unix() <= 0 || issued > now+seconds(MaxBehind):
		return nil, refuse(codeCredential, "the ID token says no time of its issue, or one to come")
	case now-issued > seconds(MaxIDTokenAge):
		return nil, refuse(client.CodeExpired, "the ID token was issued at %s, more than %s ago: log in again", issued, MaxIDTokenAge)
	case t.Subject == "":
		return nil, refuse(codeCredential, "the ID token has no subject")
	}
	return t, nil
}

// personOf returns the name of the person that an ID token is about.
func personOf(issuer client.Issuer, claims map[string]any) (string, error) {
	claim := issuer.User
	if claim == "" {
		claim = "sub"
	}
	name, _ := claims[claim].(string)
	switch {
	case name == "" || len(name) > client.MaxClaim || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", refuse(codeNoRole, "the ID token names nobody: its claim %q is no text of at most %d printable bytes", claim, client.MaxClaim)
	case claim == "email" && claims["email_verified"] != true:
		return "", refuse(codeNoRole, "the address %s is not verified, says %s", name, issuer.Name)
	}
	return name, nil
}

// grantOf returns the first grant that fits.
func grantOf(issuer client.Issuer, claims map[string]any) (client.Grant, bool) {
	for _, g := range issuer.Grants {
		claim := g.Claim
		if claim == "" {
			claim = "groups"
		}
		values, isList := claims[claim].([]any)
		if !isList {
			values = []any{claims[claim]}
		}
		if slices.Contains(values, any(g.Has)) {
			return g.Grant, true
		}
	}
	return client.Grant{}, false
}

// issuerFailed refuses because an issuer does not answer, and says so to the operator.
func (s *Server) issuerFailed(issuer client.Issuer, err error) error {
	s.alarm("an issuer of ID tokens does not answer as it should", "issuer", issuer.Issuer, "error", fmt.Sprintf("%.500s", err))
	return &problem{code: codeIssuer, detail: "its keys cannot be had from " + issuer.Issuer, retry: IssuerPause}
}

// errIssuer says that an issuer could not be asked, or gave no answer.
var errIssuer = errors.New("the issuer gives no answer")

// notedKeys are an issuer's keys, and why they could not be had in one verification: the library's own error has words
// alone.
type notedKeys struct {
	remote *oidc.RemoteKeySet
	err    error
}

func (k *notedKeys) VerifySignature(ctx context.Context, jwt string) (payload []byte, err error) {
	payload, k.err = k.remote.VerifySignature(ctx, jwt)
	return payload, k.err
}

// issuers are the issuers that this process has asked for their keys.
type issuers struct {
	http *http.Client
	now  func() time.Time
	mu   sync.Mutex
	met  map[string]metIssuer // by URL
}

type metIssuer struct {
	keys *oidc.RemoteKeySet
	at   time.Time // of discovery
}

func newIssuers(now func() time.Time) *issuers {
	return &issuers{now: now, met: map[string]metIssuer{}, http: &http.Client{
		Transport:     &issuerTransport{next: client.NewTransport(), now: now, kept: map[string]keptAnswer{}},
		Timeout:       IssuerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// keys returns the keys of an issuer, after its discovery document (OpenID Connect Discovery 1.0).
func (i *issuers) keys(ctx context.Context, url string) (*oidc.RemoteKeySet, error) {
	i.mu.Lock()
	known, ok := i.met[url]
	i.mu.Unlock()
	if ok && i.now().Before(known.at.Add(DiscoveryLife)) {
		return known.keys, nil
	}
	// Whoever hangs up while the issuer is asked ends no question whose answer stands for others too.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), i.http)
	provider, err := oidc.NewProvider(ctx, url)
	if err != nil {
		return nil, err
	}
	var more struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, err
	}
	if err := client.CheckIssuer(more.Keys); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	met := metIssuer{oidc.NewRemoteKeySet(ctx, more.Keys), i.now()}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.met[url] = met
	return met.keys, nil
}

// issuerTransport asks issuers. Each answer is bounded, and stands for a pause: a stranger who sends one ID token after
// another does not make us ask more often.
type issuerTransport struct {
	next http.RoundTripper
	now  func() time.Time
	mu   sync.Mutex
	kept map[string]keptAnswer // by URL: those of named issuers, two each
}

type keptAnswer struct {
	at   time.Time
	body []byte
	err  error
}

func (t *issuerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	url := r.URL.String()
	t.mu.Lock()
	a, ok := t.kept[url]
	t.mu.Unlock()
	if !ok || !t.now().Before(a.at.Add(IssuerPause)) {
		a = keptAnswer{at: t.now()}
		a.body, a.err = t.ask(r)
		t.mu.Lock()
		t.kept[url] = a
		t.mu.Unlock()
	}
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {jsonType}}, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}, nil
}

func (t *issuerTransport) ask(r *http.Request) ([]byte, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIssuer, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxIssuerAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errIssuer, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: %s: %s", errIssuer, r.URL, resp.Status)
	case len(body) > MaxIssuerAnswer:
		return nil, fmt.Errorf("%w: %s: more than %d bytes", errIssuer, r.URL, MaxIssuerAnswer)
	}
	return body, nil
}
