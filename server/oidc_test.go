package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/server/oidctest"
)

// loginLab is a lab with an issuer whose people may log in.
type loginLab struct {
	*lab
	issuer *oidctest.Issuer
	access client.Access
}

var loginSecret = []byte("thirty-two bytes of randomness.. ")

func newLoginLab(t *testing.T) *loginLab { return newLoginLabOn(t, "") }

func newLoginLabOn(t *testing.T, url string) *loginLab {
	l := &loginLab{lab: newLab(t, url)}
	l.issuer = oidctest.New(l.clock.Now)
	t.Cleanup(l.issuer.Close)
	l.access = client.Access{Type: client.AccessType, Issuers: []client.Issuer{{
		Name: "acme", Issuer: l.issuer.URL, Client: oidctest.ClientID, User: "email", Algorithms: []string{"ES256"}, Life: "2h",
		Grants: []client.ClaimGrant{
			{Has: "machine-room", Grant: client.Grant{Role: client.RoleOperator, Tenant: "dc-one"}},
			{Claim: "department", Has: "audit", Grant: client.Grant{Role: client.RoleAuditor, Tenant: "dc-one", Scope: client.Scope{Nodes: []string{"node-1"}}}},
			{Has: "everybody", Grant: client.Grant{Role: client.RoleRenter, Tenant: "acme"}},
		},
	}}}
	l.set()
	return l
}

func (l *loginLab) set() {
	l.t.Helper()
	must(l.t, l.client(l.admin).SetAccess(l.t.Context(), l.access))
}

// person are the claims of somebody.
func person(more map[string]any) map[string]any {
	claims := map[string]any{"sub": "0815", "email": "alice@acme.example", "email_verified": true, "groups": []string{"everybody", "machine-room"}}
	maps.Copy(claims, more)
	return claims
}

// idToken is a good ID token of Alice; change makes it another one. A claim with the value nil is left out.
func (l *loginLab) idToken(change map[string]any) string {
	l.t.Helper()
	claims := l.issuer.Claims(person(nil), client.LoginNonce(worldOrigin, loginSecret))
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	text, err := l.issuer.Sign(claims, jose.ES256, nil)
	must(l.t, err)
	return text
}

func (l *loginLab) login(idToken string) (client.NewToken, error) {
	return l.client("").Login(l.t.Context(), client.LoginRequest{Issuer: "acme", IDToken: idToken, Secret: loginSecret})
}

func TestLogin(t *testing.T) {
	l := newLoginLab(t)
	list, err := l.client("").LoginIssuers(t.Context())
	must(t, err)
	if !sameJSON(t, list, client.LoginIssuers{Issuers: []client.LoginIssuer{{Name: "acme", Issuer: l.issuer.URL, Client: oidctest.ClientID, Scopes: []string{"openid", "email", "profile"}}}}) {
		t.Errorf("issuers: %+v", list)
	}
	idToken := l.idToken(nil)
	got, err := l.login(idToken)
	must(t, err)
	want := client.Grant{Role: client.RoleOperator, Tenant: "dc-one"} // the first grant that fits
	if got.Record.Principal != "user:acme/alice@acme.example" || !sameJSON(t, got.Record.Grant, want) || got.Record.Expires != canon.At(l.clock.Now().Add(2*time.Hour)) {
		t.Errorf("got %+v", got.Record)
	}
	me, err := l.client(got.Token).Whoami(t.Context())
	must(t, err)
	if me.Principal != got.Record.Principal {
		t.Errorf("whoami: %+v", me)
	}
	_, err = l.client(got.Token).Nodes(t.Context(), "")
	must(t, err)
	_, err = l.login(idToken)
	refused(t, err, 401, client.CodeRevoked) // it is good once
	// However its signature is written: (r, n-s) is a signature as well.
	_, err = l.login(mirrored(t, idToken))
	refused(t, err, 401, client.CodeRevoked)
	l.clock.advance(2 * time.Hour)
	_, err = l.client(got.Token).Whoami(t.Context())
	refused(t, err, 401, client.CodeExpired)

	for _, tc := range []struct {
		name   string
		claims map[string]any
		want   client.Grant
	}{
		{"a claim that is one value", map[string]any{"groups": []string{}, "department": "audit"}, client.Grant{Role: client.RoleAuditor, Tenant: "dc-one", Scope: client.Scope{Nodes: []string{"node-1"}}}},
		{"a later grant", map[string]any{"groups": []string{"everybody"}}, client.Grant{Role: client.RoleRenter, Tenant: "acme"}},
		{"groups as one value", map[string]any{"groups": "everybody"}, client.Grant{Role: client.RoleRenter, Tenant: "acme"}},
		{"two audiences, for us", map[string]any{"aud": []string{"other", oidctest.ClientID}, "azp": oidctest.ClientID}, want},
	} {
		got, err := l.login(l.idToken(tc.claims))
		if err != nil || !sameJSON(t, got.Record.Grant, tc.want) {
			t.Errorf("%s: %+v %v", tc.name, got.Record, err)
		}
	}
}

// mirrored writes the ECDSA signature of a token in its other form.
func mirrored(t *testing.T, token string) string {
	t.Helper()
	at := strings.LastIndexByte(token, '.')
	sig, err := base64.RawURLEncoding.DecodeString(token[at+1:])
	must(t, err)
	n := elliptic.P256().Params().N.FillBytes(make([]byte, 32))
	s, borrow := make([]byte, 32), 0
	for i := 31; i >= 0; i-- {
		d := int(n[i]) - int(sig[32+i]) - borrow
		if borrow = 0; d < 0 {
			d, borrow = d+256, 1
		}
		s[i] = byte(d)
	}
	return token[:at+1] + base64.RawURLEncoding.EncodeToString(append(sig[:32], s...))
}

// TestLoginRefuses: each row is a good ID token but for one thing.
func TestLoginRefuses(t *testing.T) {
	l := newLoginLab(t)
	now := l.clock.Now().Unix()
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	sign := func(alg jose.SignatureAlgorithm, key any) string {
		text, err := l.issuer.Sign(l.issuer.Claims(person(nil), client.LoginNonce(worldOrigin, loginSecret)), alg, key)
		must(t, err)
		return text
	}
	good := l.idToken(nil)
	part := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for _, tc := range []struct {
		name, token string
		status      int
		code, want  string
	}{
		{"another key", sign(jose.ES256, stranger), 401, "credential", "not signed by a key of"},
		{"an algorithm that is not on the list", sign(jose.EdDSA, l.issuer.Other()), 401, "credential", "with one of ES256"},
		{"a symmetric algorithm", sign(jose.HS256, []byte("0123456789abcdef0123456789abcdef")), 401, "credential", "with one of ES256"},
		{"no signature", none + "." + part[1] + ".", 401, "credential", "not signed"},
		{"another body", part[0] + "." + strings.Split(l.idToken(map[string]any{"email": "root@acme.example"}), ".")[1] + "." + part[2], 401, "credential", "not signed"},
		{"rubbish", "rubbish", 401, "credential", "or is no ID token"},
		{"another issuer", l.idToken(map[string]any{"iss": "https://login.other.example"}), 401, client.CodeForeign, "of the issuer"},
		{"another client", l.idToken(map[string]any{"aud": "other-app"}), 401, client.CodeForeign, "for the client"},
		{"for two clients, ours not the one that asked", l.idToken(map[string]any{"aud": []string{"other-app", oidctest.ClientID}, "azp": "other-app"}), 401, client.CodeForeign, "for the client"},
		{"for two clients, and nobody says who asked", l.idToken(map[string]any{"aud": []string{"other-app", oidctest.ClientID}}), 401, client.CodeForeign, "for the client"},
		{"expired", l.idToken(map[string]any{"exp": now - 1, "iat": now - 300}), 401, client.CodeExpired, "expired at"},
		{"issued long ago", l.idToken(map[string]any{"iat": now - 601}), 401, client.CodeExpired, "more than 10m0s ago"},
		{"issued in the future", l.idToken(map[string]any{"iat": now + 61}), 401, "credential", "or one to come"},
		{"issued never", l.idToken(map[string]any{"iat": nil}), 401, "credential", "no time of its issue"},
		{"without a nonce", l.idToken(map[string]any{"nonce": nil}), 401, client.CodeForeign, "no nonce"},
		{"somebody else's nonce", l.idToken(map[string]any{"nonce": client.LoginNonce(worldOrigin, []byte("the secret of somebody else"))}), 401, client.CodeForeign, "asked for by somebody else"},
		{"asked for by another server", l.idToken(map[string]any{"nonce": client.LoginNonce("https://evil.example", loginSecret)}), 401, client.CodeForeign, "this one is https://assay.test"},
		{"no subject", l.idToken(map[string]any{"sub": nil}), 401, "credential", "no subject"},
		{"no name", l.idToken(map[string]any{"email": nil}), 403, "no-role", "names nobody"},
		{"a name with a line break", l.idToken(map[string]any{"email": "a\nb"}), 403, "no-role", "names nobody"},
		{"a name of too many bytes", l.idToken(map[string]any{"email": strings.Repeat("a", client.MaxClaim+1)}), 403, "no-role", "names nobody"},
		{"an address that is not verified", l.idToken(map[string]any{"email_verified": false}), 403, "no-role", "is not verified"},
		{"an address of which nothing is said", l.idToken(map[string]any{"email_verified": nil}), 403, "no-role", "is not verified"},
		{"no group", l.idToken(map[string]any{"groups": nil}), 403, "no-role", "no grant"},
		{"another group", l.idToken(map[string]any{"groups": []string{"machine-room-visitors"}}), 403, "no-role", "no grant"},
		{"too long", strings.Repeat("x", client.MaxIDToken+1), 400, "malformed", "at most"},
	} {
		_, err := l.login(tc.token)
		p := client.AsProblem(err)
		if p == nil || p.Status != tc.status || p.Code != tc.code || !strings.Contains(p.Detail, tc.want) {
			t.Errorf("%s: %v, want %d %s %q", tc.name, err, tc.status, tc.code, tc.want)
		}
		if err != nil && len(tc.token) > 20 && strings.Contains(err.Error(), tc.token[len(tc.token)-20:]) {
			t.Errorf("%s: the error has the token", tc.name)
		}
	}
	if strings.Contains(l.log.String(), part[2]) {
		t.Error("the server's log has an ID token")
	}
	if _, err := l.login(good); err != nil { // twin
		t.Errorf("the good one: %v", err)
	}
	eddsa := sign(jose.EdDSA, l.issuer.Other())
	l.access.Issuers[0].Algorithms = []string{"ES256", "EdDSA"}
	l.set()
	if _, err := l.login(eddsa); err != nil { // twin
		t.Errorf("an algorithm that is on the list now: %v", err)
	}
	_, err = l.client("").Login(t.Context(), client.LoginRequest{Issuer: "other", IDToken: good, Secret: loginSecret})
	refused(t, err, 404, "not-found")
	_, err = l.client("").Login(t.Context(), client.LoginRequest{Issuer: "acme", IDToken: good, Secret: loginSecret[:client.MinSecret-1]})
	refused(t, err, 400, "malformed")
	_, err = l.client("").Login(t.Context(), client.LoginRequest{Issuer: "acme", IDToken: good, Secret: make([]byte, client.MaxSecret+1)})
	refused(t, err, 400, "malformed")
	_, err = l.client("").Login(t.Context(), client.LoginRequest{Issuer: "acme", IDToken: l.idToken(nil), Secret: []byte("another secret, as long")})
	refused(t, err, 401, client.CodeForeign)
}

// TestLoginNames: people are called by the claim that the admin named, by sub where none is; only addresses have to be
// verified.
func TestLoginNames(t *testing.T) {
	l := newLoginLab(t)
	for claim, want := range map[string]string{"": "user:acme/0815", "preferred_username": "user:acme/alice"} {
		l.access.Issuers[0].User = claim
		l.set()
		made, err := l.login(l.idToken(map[string]any{"preferred_username": "alice", "email_verified": nil, "jti": claim}))
		if err != nil || made.Record.Principal != want {
			t.Errorf("%q: %q, %v, want %q", claim, made.Record.Principal, err, want)
		}
	}
}

// TestLoginOfDevices: most issuers put no nonce into what the device flow gives; an admin says of which that is taken.
func TestLoginOfDevices(t *testing.T) {
	l := newLoginLab(t)
	l.access.Issuers[0].Device = true
	l.set()
	if _, err := l.login(l.idToken(map[string]any{"nonce": nil})); err != nil {
		t.Errorf("without a nonce: %v", err)
	}
	_, err := l.login(l.idToken(map[string]any{"nonce": client.LoginNonce("https://evil.example", loginSecret)}))
	refused(t, err, 401, client.CodeForeign) // one that is there counts
}

// TestIssuerKeys: a new key is believed once the issuer shows it; a stranger does not make us ask all the time; an issuer
// that does not answer is told to the operator.
func TestIssuerKeys(t *testing.T) {
	l := newLoginLab(t)
	_, err := l.login(l.idToken(nil))
	must(t, err)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	for i := range 20 {
		forged, err := l.issuer.Sign(map[string]any{"n": i}, jose.ES256, stranger)
		must(t, err)
		_, err = l.login(forged)
		refused(t, err, 401, "credential")
	}
	if n := l.issuer.Asked("/keys"); n != 1 {
		t.Errorf("keys were asked for %d times, want once", n)
	}
	l.issuer.Rotate()
	_, err = l.login(l.idToken(nil))
	refused(t, err, 401, "credential") // the old answer stands for a moment
	l.clock.advance(server.IssuerPause)
	_, err = l.login(l.idToken(nil))
	must(t, err)
	if n := l.issuer.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("discovered %d times, want once", n)
	}
	l.clock.advance(server.DiscoveryLife)
	idToken := l.idToken(nil)
	l.issuer.Close()
	_, err = l.login(idToken)
	if p := refused(t, err, http.StatusServiceUnavailable, "issuer"); p.RetryAfter != server.IssuerPause {
		t.Errorf("Retry-After %s", p.RetryAfter)
	}
	if !strings.Contains(l.log.String(), "an issuer of ID tokens does not answer") {
		t.Error("the operator is told nothing")
	}
}

func TestAccess(t *testing.T) {
	l := newLoginLab(t)
	l.restart()
	got, err := l.client(l.admin).Access(t.Context())
	must(t, err)
	if !sameJSON(t, got, l.access) {
		t.Errorf("access: %+v", got)
	}
	for _, tc := range []struct {
		name   string
		change func(*client.Access)
		want   string
	}{
		{"other type", func(a *client.Access) { a.Type = "assay/access/v2" }, "is not known to this build"},
		{"no name", func(a *client.Access) { a.Issuers[0].Name = "" }, "name: want a word"},
		{"a name with a slash", func(a *client.Access) { a.Issuers[0].Name = "acme/alice" }, "name: want a word"},
		{"a name twice", func(a *client.Access) { a.Issuers = append(a.Issuers, a.Issuers[0]) }, "stands twice"},
		{"plain http", func(a *client.Access) { a.Issuers[0].Issuer = "http://login.acme.example" }, "want https"},
		{"no URL", func(a *client.Access) { a.Issuers[0].Issuer = "login.acme.example" }, "want https://host"},
		{"no client", func(a *client.Access) { a.Issuers[0].Client = "" }, "client: want"},
		{"scopes without openid", func(a *client.Access) { a.Issuers[0].Scopes = []string{"email"} }, "openid among them"},
		{"none", func(a *client.Access) { a.Issuers[0].Algorithms = []string{"none"} }, `algorithm "none"`},
		{"a symmetric algorithm", func(a *client.Access) { a.Issuers[0].Algorithms = []string{"HS256"} }, `algorithm "HS256"`},
		{"too long a life", func(a *client.Access) { a.Issuers[0].Life = "25h" }, "want from 1m to 24h"},
		{"no grants", func(a *client.Access) { a.Issuers[0].Grants = nil }, "nobody gets in"},
		{"a grant for nothing", func(a *client.Access) { a.Issuers[0].Grants[0].Has = "" }, "has: want the value"},
		{"a grant of no tenant", func(a *client.Access) { a.Issuers[0].Grants[0].Grant.Tenant = "" }, "grant 1: role operator: want a tenant"},
	} {
		a := l.access
		data, err := json.Marshal(a)
		must(t, err)
		var copied client.Access
		must(t, json.Unmarshal(data, &copied))
		tc.change(&copied)
		p := refused(t, l.client(l.admin).SetAccess(t.Context(), copied), 400, "malformed")
		if !strings.Contains(p.Detail, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, p.Detail, tc.want)
		}
	}
	if after, err := l.client(l.admin).Access(t.Context()); err != nil || !sameJSON(t, after, l.access) {
		t.Errorf("after refusals: %v %v", after, err)
	}
	l.access.Issuers = []client.Issuer{}
	l.set()
	_, err = l.login(l.idToken(nil))
	refused(t, err, 404, "not-found")
}

// TestAccessCountsAtOnce: who logged in with an issuer of which anything was changed logs in again; nobody else has to, and
// the admin who changed it can mend it.
func TestAccessCountsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLoginLabOn(t, url)
		other := l.access.Issuers[0]
		other.Name = "acme-2" // its people's principals begin like those of the first one's
		l.access.Issuers[0].Grants = append(l.access.Issuers[0].Grants, client.ClaimGrant{Has: "admins", Grant: client.Grant{Role: client.RoleAdmin}})
		l.access.Issuers = append(l.access.Issuers, other)
		l.set()
		person := func(issuer string, more map[string]any) string {
			t.Helper()
			made, err := l.client("").Login(t.Context(), client.LoginRequest{Issuer: issuer, IDToken: l.idToken(more), Secret: loginSecret})
			must(t, err)
			return made.Token
		}
		alice := person("acme", nil)
		bob := person("acme-2", map[string]any{"email": "bob@acme.example"})
		boss := person("acme", map[string]any{"email": "boss@acme.example", "groups": []string{"admins"}})
		carol := person("acme", map[string]any{"email": "carol@acme.example", "groups": []string{"admins"}})
		given := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-one"}).Token
		standing := func(token string) error {
			_, err := l.client(token).Whoami(t.Context())
			return err
		}
		l.set() // nothing is other than before
		for _, token := range []string{alice, bob, boss, carol, given} {
			must(t, standing(token))
		}
		l.access.Issuers[0].Grants[0].Grant.Tenant = "dc-two"
		must(t, l.client(boss).SetAccess(t.Context(), l.access))
		refused(t, standing(alice), 401, client.CodeRevoked)
		refused(t, standing(carol), 401, client.CodeRevoked)
		for _, token := range []string{bob, boss, given} {
			must(t, standing(token))
		}
		made, err := l.login(l.idToken(map[string]any{"jti": "again"}))
		must(t, err)
		if made.Record.Grant.Tenant != "dc-two" {
			t.Errorf("logged in again as %+v", made.Record.Grant)
		}
		l.access.Issuers = l.access.Issuers[:1] // an issuer that is gone
		l.set()
		refused(t, standing(bob), 401, client.CodeRevoked)
		must(t, standing(made.Token))
	})
}

// TestIssuerWithoutKeys: an issuer whose keys cannot be had is at fault, and not the ID token, which is good later.
func TestIssuerWithoutKeys(t *testing.T) {
	l := newLoginLab(t)
	l.issuer.Break("/keys")
	idToken := l.idToken(nil)
	_, err := l.login(idToken)
	refused(t, err, http.StatusServiceUnavailable, "issuer")
	l.issuer.Break("")
	_, err = l.login(idToken)
	refused(t, err, http.StatusServiceUnavailable, "issuer") // the answer stands for a moment
	l.clock.advance(server.IssuerPause)
	_, err = l.login(idToken)
	must(t, err)
}

// TestAccessMeanwhile: a login that is under way while who may log in is changed gets nothing by what was before.
func TestAccessMeanwhile(t *testing.T) {
	l := newLoginLab(t)
	l.issuer.Before("/keys", func() {
		l.access.Issuers[0].Grants[0].Grant.Tenant = "dc-two"
		if err := l.client(l.admin).SetAccess(context.Background(), l.access); err != nil {
			t.Error(err)
		}
	})
	idToken := l.idToken(nil)
	_, err := l.login(idToken)
	refused(t, err, 503, "busy")
	made, err := l.login(idToken) // it was not traded
	must(t, err)
	if made.Record.Grant.Tenant != "dc-two" {
		t.Errorf("%+v", made.Record.Grant)
	}
}

// TestLastAdmin: nobody locks all admins out by accident.
func TestLastAdmin(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLoginLabOn(t, url)
		l.access.Issuers[0].Grants[0].Grant = client.Grant{Role: client.RoleAdmin}
		l.set()
		me, err := l.client(l.admin).Whoami(t.Context())
		must(t, err)
		for _, err := range []error{l.client(l.admin).RevokeToken(t.Context(), me.ID), l.client(l.admin).Logout(t.Context())} {
			if p := refused(t, err, 409, "conflict"); !strings.Contains(p.Detail, "the last token of an admin") {
				t.Errorf("%q", p.Detail)
			}
		}
		l.token(client.Grant{Role: client.RoleAuditor}) // no admin
		second := l.token(client.Grant{Role: client.RoleAdmin})
		l.clock.advance(time.Hour) // it expires
		refused(t, l.client(l.admin).RevokeToken(t.Context(), me.ID), 409, "conflict")
		second = l.token(client.Grant{Role: client.RoleAdmin})
		must(t, l.client(l.admin).RevokeToken(t.Context(), me.ID)) // twin
		must(t, l.client(second.Token).RevokeToken(t.Context(), me.ID))
		refused(t, l.client(second.Token).Logout(t.Context()), 409, "conflict")
		// A person's login is ended, though it is the last: who it is logs in again.
		person, err := l.login(l.idToken(nil))
		must(t, err)
		must(t, l.client(second.Token).Logout(t.Context()))
		must(t, l.client(person.Token).Logout(t.Context()))
		_, err = l.client(person.Token).Whoami(t.Context())
		refused(t, err, 401, client.CodeRevoked)
	})
}

// TestIssuerOutlivesCaller: who hangs up while an issuer is asked ends no login of others, for whom the answer stands too.
func TestIssuerOutlivesCaller(t *testing.T) {
	issuer := oidctest.New(time.Now)
	t.Cleanup(issuer.Close)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if err := server.IssuerKeys(gone, issuer.URL); err != nil {
		t.Errorf("a caller that is gone: %v", err)
	}
}

// TestTwoHands: what two people have to say is refused to one, whatever tokens that one has made.
func TestTwoHands(t *testing.T) {
	l := newLoginLab(t)
	l.access.Issuers[0].Grants = append([]client.ClaimGrant{{Has: "officers", Grant: client.Grant{Role: client.RoleAdmin}}}, l.access.Issuers[0].Grants...)
	l.set()
	officer := func(name string) string {
		l.clock.advance(time.Second) // of the same second an ID token would be the same
		nt, err := l.login(l.idToken(map[string]any{"sub": name, "email": name + "@acme.example", "groups": []string{"officers"}}))
		must(t, err)
		return nt.Token
	}
	made := func(by string) client.NewToken {
		nt, err := l.client(by).CreateToken(t.Context(), client.TokenRequest{Grant: client.Grant{Role: client.RoleAdmin}, Expires: canon.At(l.clock.Now().Add(time.Hour))})
		must(t, err)
		return nt
	}
	must(t, l.client(l.admin).SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true}))
	try := func(token, id string, a client.CertificateAct) (c vetting.Certificate, err error) {
		err = l.client(token).ActOnCertificate(t.Context(), id, a, &c)
		return c, err
	}
	request := func(token string) (c vetting.Certificate) {
		must(t, l.client(token).RequestCertificate(t.Context(), client.CertificateRequest{Provider: "p1", Tier: claim.TierAnonymous}, &c))
		return c
	}
	assign := func(to string) client.CertificateAct {
		return client.CertificateAct{Act: vetting.ActAssign, Reviewer: to}
	}
	pass, freeze := client.CertificateAct{Act: vetting.ActPass}, client.CertificateAct{Act: vetting.ActFreeze}
	alice, bob := officer("alice"), officer("bob")
	const aliceID, bobID = "user:acme/alice@acme.example", "user:acme/bob@acme.example"

	// Nobody speaks for others, not even an admin: the body has no such member.
	if resp, answer := l.send("POST", "/v1/certificates", l.admin, "application/json", []byte(`{"provider":"p1","tier":"anonymous","as":"user:olga"}`)); resp.StatusCode != 422 && resp.StatusCode != 400 {
		t.Errorf("%d %s", resp.StatusCode, answer)
	}
	// Who asked by a token that a reviewer has made, or made the reviewer's, is that reviewer.
	olga := made(alice)
	c := request(olga.Token)
	for _, one := range []string{aliceID, made(olga.Token).Record.Principal} {
		_, err := try(l.admin, c.ID, assign(one))
		refused(t, err, 403, "forbidden")
	}
	_, err := try(l.admin, c.ID, assign(olga.Record.Principal))
	refused(t, err, 409, "not-now")
	_, err = try(l.admin, c.ID, assign("user:acme/nobody@acme.example"))
	must(t, err)
	_, err = try(l.admin, c.ID, assign(bobID)) // another one, of what is in review
	must(t, err)
	_, err = try(alice, c.ID, pass)
	refused(t, err, 403, "forbidden")
	_, err = try(l.admin, c.ID, pass)
	refused(t, err, 409, "not-now")
	c, err = try(bob, c.ID, pass)
	must(t, err)
	want(t, c, vetting.Certified, claim.TierAnonymous)

	// A freeze: of one officer a proposal, however many tokens that officer makes.
	for i := range 4 {
		alice, bob, olga = officer("alice"), officer("bob"), made(officer("alice"))
		one := [][2]string{{alice, alice}, {alice, made(alice).Token}, {l.admin, made(l.admin).Token}, {made(l.admin).Token, made(l.admin).Token}}[i]
		c := request(olga.Token)
		_, err := try(l.admin, c.ID, assign(bobID))
		must(t, err)
		_, err = try(bob, c.ID, pass)
		must(t, err)
		c, err = try(one[0], c.ID, freeze)
		must(t, err)
		if c.Status != vetting.Certified || c.Reason != vetting.ReasonProposed || c.Proposed.By == "" {
			t.Errorf("one officer: %s (%s) %+v", c.Status, c.Reason, c.Proposed)
		}
		_, err = try(one[1], c.ID, freeze)
		if p := client.AsProblem(err); p == nil || p.Code != "forbidden" && p.Code != "not-now" {
			t.Errorf("one hand freezes: %v", err)
		}
		l.rest(25 * time.Hour)
		l.advance()
		if c := l.certificate(c.ID); c.Status != vetting.Certified || c.Proposed.By != "" {
			t.Errorf("nobody confirmed it: %s (%s) %+v", c.Status, c.Reason, c.Proposed)
		}
	}
	alice, bob = officer("alice"), officer("bob")
	_, err = try(alice, c.ID, freeze)
	must(t, err)
	c, err = try(bob, c.ID, freeze)
	must(t, err)
	want(t, c, vetting.Suspended, claim.TierAnonymous)
	l.audited()
}
