// Package oidctest is an OpenID Provider for tests, which works: discovery, keys, the authorization code flow with PKCE
// (RFC 6749, RFC 7636) and the device flow (RFC 8628). It signs under keys of its own, and lets in whoever it was told is
// sitting in front of it, without a password.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// ClientID is the client that the issuer knows, a public one.
const ClientID = "assay-cli"

// Issuer is an OpenID Provider on this machine. Its fields may be changed between two requests.
type Issuer struct {
	*httptest.Server
	Now func() time.Time

	mu      sync.Mutex
	person  map[string]any // claims of who sits in front of it; nil: nobody, and nobody is let in
	tokens  string         // its token endpoint, as discovery names it
	noNonce bool           // its device flow knows no nonce, as with most issuers
	key     *ecdsa.PrivateKey
	other   ed25519.PrivateKey // shown beside it; signs nothing by itself
	codes   map[string]attempt // by authorization code
	devices map[string]*device // by device code
	asked   map[string]int     // requests, by path
	before  map[string]func()  // what happens before the next answer, by path
	broken  string             // path at which there is no answer; empty: none
}

// attempt is an authorization code that was given out.
type attempt struct {
	challenge, redirect, nonce string
	claims                     map[string]any
}

type device struct {
	userCode, nonce string
	polled          time.Time      // last, by this machine's clock; zero: not yet
	claims          map[string]any // nil: nobody has said yes
	denied          bool
}

// New starts an issuer. Close ends it.
func New(now func() time.Time) *Issuer {
	i := &Issuer{Now: now, codes: map[string]attempt{}, devices: map[string]*device{}, asked: map[string]int{}, before: map[string]func(){}}
	i.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("POST /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/token", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("POST /device", i.deviceAuthorization)
	mux.HandleFunc("GET /activate", i.activate)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asked[r.URL.Path]++
		before := i.before[r.URL.Path]
		delete(i.before, r.URL.Path)
		broken := i.broken == r.URL.Path
		i.mu.Unlock()
		if broken {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		if before != nil {
			before()
		}
		mux.ServeHTTP(w, r)
	}))
	i.tokens = i.URL + "/token"
	return i
}

// SitDown says who sits in front of the issuer, by the claims of their ID tokens; nil is nobody.
func (i *Issuer) SitDown(claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.person = claims
}

// NameTokens has discovery name another token endpoint. That at /moved sends whoever comes on to the one at /token.
func (i *Issuer) NameTokens(url string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tokens = url
}

// ForgetNonces has the device flow give ID tokens without a nonce.
func (i *Issuer) ForgetNonces() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.noNonce = true
}

// Pending returns the codes of the device flow that nobody has typed yet.
func (i *Issuer) Pending() (codes []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, d := range i.devices {
		if d.claims == nil && !d.denied {
			codes = append(codes, d.userCode)
		}
	}
	return codes
}

// Rotate makes new keys, and forgets the old ones.
func (i *Issuer) Rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("oidctest: internal error: " + err.Error())
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic("oidctest: internal error: " + err.Error())
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.other = key, other
}

// Other returns the issuer's other key, of another algorithm (EdDSA).
func (i *Issuer) Other() crypto.PrivateKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.other
}

// Break has the issuer fail at a path; empty ends that.
func (i *Issuer) Break(path string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = path
}

// Before has something happen while whoever asks for a path next waits for the answer.
func (i *Issuer) Before(path string, do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.before[path] = do
}

// Asked returns how often a path was asked for.
func (i *Issuer) Asked(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

func keyID(key *ecdsa.PrivateKey) string {
	x, err := key.PublicKey.Bytes()
	if err != nil {
		panic("oidctest: internal error: " + err.Error())
	}
	d := sha256.Sum256(x)
	return hex.EncodeToString(d[:8])
}

// Sign returns the ID token of some claims. A nil key is the issuer's own.
func (i *Issuer) Sign(claims map[string]any, alg jose.SignatureAlgorithm, key crypto.PrivateKey) (string, error) {
	i.mu.Lock()
	own := i.key
	i.mu.Unlock()
	if key == nil {
		key = own
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", keyID(own)))
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	jws, err := signer.Sign(body)
	if err != nil {
		return "", err
	}
	return jws.CompactSerialize()
}

// Claims returns the claims of a good ID token of somebody.
func (i *Issuer) Claims(person map[string]any, nonce string) map[string]any {
	now := i.Now().Unix()
	claims := map[string]any{"iss": i.URL, "aud": ClientID, "iat": now, "exp": now + 300}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	maps.Copy(claims, person)
	return claims
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who does not read it has gone
}

// refuse is an error answer of RFC 6749 section 5.2.
func refuse(w http.ResponseWriter, code, about string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code, "error_description": about})
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.tokens, "jwks_uri": i.URL + "/keys",
		"device_authorization_endpoint": i.URL + "/device", "id_token_signing_alg_values_supported": []string{"ES256"},
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "code_challenge_methods_supported": []string{"S256"},
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: i.key.Public(), KeyID: keyID(i.key), Algorithm: "ES256", Use: "sig"}, {Key: i.other.Public(), KeyID: keyID(i.key), Algorithm: "EdDSA", Use: "sig"},
	}})
}

func random() string { return rand.Text() }

// authorize is the page that a browser is sent to. Whoever sits there is logged in, and sent back with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case q.Get("client_id") != ClientID || q.Get("response_type") != "code":
		http.Error(w, "client or response type not known", http.StatusBadRequest)
		return
	case err != nil || back.Scheme != "http" || net.ParseIP(back.Hostname()) == nil || !net.ParseIP(back.Hostname()).IsLoopback():
		http.Error(w, "redirect to the loopback address only (RFC 8252 section 7.3)", http.StatusBadRequest)
		return
	}
	out := url.Values{"state": {q.Get("state")}, "iss": {i.URL}}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		out.Set("error", "invalid_request")
		out.Set("error_description", "PKCE with S256 is wanted")
	case i.person == nil:
		out.Set("error", "access_denied")
	default:
		code := random()
		i.codes[code] = attempt{q.Get("code_challenge"), q.Get("redirect_uri"), q.Get("nonce"), i.person}
		out.Set("code", code)
	}
	back.RawQuery = out.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Form.Get("client_id") != ClientID {
		refuse(w, "invalid_client", "client not known")
		return
	}
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		i.codeToken(w, r.Form)
	case "urn:ietf:params:oauth:grant-type:device_code":
		i.deviceToken(w, r.Form)
	default:
		refuse(w, "unsupported_grant_type", "")
	}
}

func (i *Issuer) codeToken(w http.ResponseWriter, form url.Values) {
	i.mu.Lock()
	a, ok := i.codes[form.Get("code")]
	delete(i.codes, form.Get("code")) // it is good once
	i.mu.Unlock()
	verifier := sha256.Sum256([]byte(form.Get("code_verifier")))
	switch {
	case !ok || form.Get("redirect_uri") != a.redirect:
		refuse(w, "invalid_grant", "code not known, or of another redirection")
	case base64.RawURLEncoding.EncodeToString(verifier[:]) != a.challenge:
		refuse(w, "invalid_grant", "the verifier is not the one of the challenge")
	default:
		i.give(w, a.claims, a.nonce)
	}
}

func (i *Issuer) give(w http.ResponseWriter, claims map[string]any, nonce string) {
	token, err := i.Sign(i.Claims(claims, nonce), jose.ES256, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": random(), "token_type": "Bearer", "expires_in": 300, "id_token": token})
}

func (i *Issuer) deviceAuthorization(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Form.Get("client_id") != ClientID {
		refuse(w, "invalid_client", "client not known")
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	code, d := random(), &device{userCode: random()[:8], nonce: r.Form.Get("nonce")}
	if i.noNonce {
		d.nonce = ""
	}
	i.devices[code] = d
	page := i.URL + "/activate"
	answer(w, http.StatusOK, map[string]any{"device_code": code, "user_code": d.userCode, "verification_uri": page,
		"verification_uri_complete": page + "?user_code=" + d.userCode, "expires_in": 600, "interval": int(pollInterval / time.Second)})
}

// activate is the page on the other device. Whoever sits there says yes; where nobody sits, it is no.
func (i *Issuer) activate(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, d := range i.devices {
		if d.userCode == r.URL.Query().Get("user_code") {
			d.claims, d.denied = i.person, i.person == nil
			fmt.Fprintln(w, "thank you")
			return
		}
	}
	http.Error(w, "code not known", http.StatusNotFound)
}

// pollInterval is the time that a device waits between two questions (RFC 8628, section 3.2).
const pollInterval = time.Second

func (i *Issuer) deviceToken(w http.ResponseWriter, form url.Values) {
	i.mu.Lock()
	d := i.devices[form.Get("device_code")]
	var claims map[string]any
	first, hasty := false, false
	if d != nil {
		hasty = time.Since(d.polled) < pollInterval/2 // what the way took may differ by as much
		claims, first, d.polled = d.claims, d.polled.IsZero(), time.Now()
		if claims != nil && !first {
			delete(i.devices, form.Get("device_code")) // it is good once
		}
	}
	i.mu.Unlock()
	switch {
	case d == nil:
		refuse(w, "expired_token", "")
	case hasty:
		refuse(w, "invalid_request", "asked again before the interval was over")
	case d.denied:
		refuse(w, "access_denied", "")
	case claims == nil || first: // so that every client has to wait and come again
		refuse(w, "authorization_pending", "")
	default:
		i.give(w, claims, d.nonce)
	}
}
