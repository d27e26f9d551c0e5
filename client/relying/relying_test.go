package relying_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/assay-network/assay/client/relying"
	"github.com/assay-network/assay/internal/canon"
)

// The tokens of these tests are made by another implementation of JWS than the one that reads them.

var (
	now    = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	nonce  = []byte("32 random bytes of the relying p")
	policy = canon.Sum([]byte("policy"))
)

const issuer = "https://assay.test"

// maker makes tokens.
type maker struct {
	t      testing.TB
	key    any
	alg    jose.SignatureAlgorithm
	kid    string
	typ    string
	extra  map[jose.HeaderKey]any
	claims map[string]any
	peer   ed25519.PublicKey
}

func newMaker(t testing.TB) *maker {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	peer, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	b64 := base64.RawURLEncoding.EncodeToString
	return &maker{t, key, jose.ES256, "key-1", "eat+jwt", nil, map[string]any{
		"eat_profile": relying.Profile, "iss": issuer, "sub": "node-1", "jti": "id-1",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Unix() + 900,
		"eat_nonce":  []string{b64(make([]byte, 32)), b64(nonce)},
		"cnf":        map[string]any{"jwk": map[string]any{"kty": "OKP", "crv": "Ed25519", "x": b64(peer)}},
		"ear.status": "affirming",
		"submods": map[string]any{"cpu:0": map[string]any{
			"ear.status": "affirming", "ear.trustworthiness-vector": map[string]any{"hardware": 2}, "ear.appraisal-policy-id": policy.String(),
		}},
		"assay.vendor-roots": true, "assay.verdict": "accept", "assay.policy": "confidential-cpu",
		"assay.evidence": canon.Sum(nil).String(), "assay.verdict-as-of": "2026-02-01T12:00:00Z",
	}, peer}
}

func (m *maker) token() string {
	m.t.Helper()
	payload, err := json.Marshal(m.claims)
	must(m.t, err)
	o := &jose.SignerOptions{ExtraHeaders: m.extra}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: m.alg, Key: jose.JSONWebKey{Key: m.key, KeyID: m.kid}}, o.WithType(jose.ContentType(m.typ)))
	must(m.t, err)
	signed, err := signer.Sign(payload)
	must(m.t, err)
	text, err := signed.CompactSerialize()
	must(m.t, err)
	return text
}

// jwks is the set with the maker's key, as it is now.
func (m *maker) jwks() []byte {
	m.t.Helper()
	data, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: m.key.(*ecdsa.PrivateKey).Public(), KeyID: m.kid, Algorithm: "ES256", Use: "sig"}}})
	must(m.t, err)
	return data
}

func (m *maker) keys() relying.Keys {
	m.t.Helper()
	k, err := relying.ParseKeys(m.jwks())
	must(m.t, err)
	return k
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func good() relying.Expect { return relying.Expect{Issuer: issuer, Nonce: nonce} }

func TestVerify(t *testing.T) {
	m := newMaker(t)
	want := good()
	want.Key, want.Policies = m.peer, []canon.Digest{policy}
	r, err := relying.Verify(m.token(), m.keys(), want, now)
	must(t, err)
	if r.Node != "node-1" || r.ID != "id-1" || r.Status != relying.Affirming || r.Policy != policy || r.PolicyName != "confidential-cpu" || !r.Expires.Equal(now.Add(15*time.Minute)) ||
		r.Submods["cpu:0"].Vector["hardware"] != 2 || !m.peer.Equal(r.Key) || len(r.Nonces) != 2 || r.Verdict != "accept" {
		t.Errorf("result %+v", r)
	}
}

// TestVerifyRefuses: each row changes one thing of TestVerify's token, of what is expected, or of the time.
func TestVerifyRefuses(t *testing.T) {
	otherKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	set := func(name string, v any) func(*maker, *relying.Expect, *time.Time) {
		return func(m *maker, _ *relying.Expect, _ *time.Time) { m.claims[name] = v }
	}
	submod := func(name string, v any) func(*maker, *relying.Expect, *time.Time) {
		return func(m *maker, _ *relying.Expect, _ *time.Time) {
			m.claims["submods"].(map[string]any)["cpu:0"].(map[string]any)[name] = v
		}
	}
	without := func(name string) func(*maker, *relying.Expect, *time.Time) {
		return func(m *maker, _ *relying.Expect, _ *time.Time) { delete(m.claims, name) }
	}
	at := func(d time.Duration) func(*maker, *relying.Expect, *time.Time) {
		return func(_ *maker, _ *relying.Expect, at *time.Time) { *at = at.Add(d) }
	}
	expect := func(f func(*relying.Expect)) func(*maker, *relying.Expect, *time.Time) {
		return func(_ *maker, e *relying.Expect, _ *time.Time) { f(e) }
	}
	for _, tc := range []struct {
		name   string
		change func(*maker, *relying.Expect, *time.Time)
		want   string
	}{
		{"other key under the id", func(m *maker, _ *relying.Expect, _ *time.Time) { m.key = otherKey }, "the signature is not good"},
		{"other algorithm", func(m *maker, _ *relying.Expect, _ *time.Time) { m.key, m.alg = p384, jose.ES384 }, "want ES256"},
		{"unknown key id", func(m *maker, _ *relying.Expect, _ *time.Time) { m.kid = "key-2" }, "not in the set"},
		{"no key id", func(m *maker, _ *relying.Expect, _ *time.Time) { m.kid = "" }, "not in the set"},
		{"other token type", func(m *maker, _ *relying.Expect, _ *time.Time) { m.typ = "JWT" }, "want eat+jwt"},
		{"critical header", func(m *maker, _ *relying.Expect, _ *time.Time) {
			m.extra = map[jose.HeaderKey]any{"crit": []string{"exp"}, "exp": 1}
		}, "header"},
		{"key in the token", func(m *maker, _ *relying.Expect, _ *time.Time) {
			m.extra = map[jose.HeaderKey]any{"jku": "https://attacker.test/keys"}
		}, "header"},
		{"other profile", set("eat_profile", "tag:ietf.org,2026:rats/ear#04"), "profile"},
		{"other issuer", set("iss", "https://other.test"), "issued by"},
		{"no issuer", without("iss"), "issued by"},
		{"expired", at(15 * time.Minute), "expired at"},
		{"not yet issued", at(-relying.Slack - time.Second), "valid from"},
		{"not yet valid", set("nbf", now.Unix()+61), "valid from"},
		{"no expiry", without("exp"), "want at most 15m0s"},
		{"long life", set("exp", now.Unix()+901), "want at most 15m0s"},
		{"fraction in a time", set("exp", float64(now.Unix())+0.5), "claims"},
		{"no id", without("jti"), "no jti"},
		{"other nonce", expect(func(e *relying.Expect) { e.Nonce = []byte("other nonce") }), "another nonce"},
		{"no nonce in the token", without("eat_nonce"), "another nonce"},
		{"short nonce", set("eat_nonce", "AAAA"), "eat_nonce"},
		{"other peer", expect(func(e *relying.Expect) { e.Key = ed25519.PublicKey(make([]byte, 32)) }), "another key than the peer's"},
		{"peer of another kind", expect(func(e *relying.Expect) { e.Key = otherKey.Public() }), "another key than the peer's"},
		{"garbled key", set("cnf", map[string]any{"jwk": map[string]any{"kty": "OKP", "crv": "X25519", "x": ""}}), "cnf"},
		{"warning", set("ear.status", "warning"), "status warning, want affirming"},
		{"none", set("ear.status", "none"), "status none"},
		{"contraindicated", set("ear.status", "contraindicated"), "status contraindicated"},
		{"unknown status", set("ear.status", "splendid"), "claims"},
		{"no status", without("ear.status"), "no status"},
		{"no submods", set("submods", map[string]any{}), "no submods"},
		{"submod without status", submod("ear.status", nil), "no status of"},
		{"no policy", submod("ear.appraisal-policy-id", strings.Repeat("0", 64)), "one policy"},
		{"other policy", expect(func(e *relying.Expect) { e.Policies = []canon.Digest{{1}} }), "none of those asked for"},
		{"other roots", set("assay.vendor-roots", false), "NOT VENDOR ROOTS"},
		{"roots not named", without("assay.vendor-roots"), "NOT VENDOR ROOTS"},
		{"nothing expected", expect(func(e *relying.Expect) { *e = relying.Expect{} }), "want a nonce"},
		{"nonce and any nonce", expect(func(e *relying.Expect) { e.AnyNonce = true }), "exclude each other"},
		{"floor none", expect(func(e *relying.Expect) { e.Floor = relying.Contraindicated }), "want affirming or warning"},
		{"plain http issuer", expect(func(e *relying.Expect) { e.Issuer = "http://assay.test" }), "plain http"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, want, when := newMaker(t), good(), now
			keys := m.keys()
			tc.change(m, &want, &when)
			if _, err := relying.Verify(m.token(), keys, want, when); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// TestVerifyRefusesForged: tokens that no honest library makes.
func TestVerifyRefusesForged(t *testing.T) {
	m := newMaker(t)
	keys, token := m.keys(), m.token()
	parts := strings.Split(token, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	must(t, err)
	hs := *m
	hs.key, hs.alg = m.jwks(), jose.HS256 // the public key as a secret, the old confusion
	for _, tc := range []struct{ name, token, want string }{
		{"alg none, no signature", b64([]byte(`{"alg":"none","kid":"key-1","typ":"eat+jwt"}`)) + "." + parts[1] + ".", "want ES256"},
		{"alg none, old signature", b64([]byte(`{"alg":"none","kid":"key-1","typ":"eat+jwt"}`)) + "." + parts[1] + "." + parts[2], "want ES256"},
		{"alg HS256 with the public key", hs.token(), "want ES256"},
		{"claims changed", parts[0] + "." + b64([]byte(strings.Replace(string(payload), "node-1", "node-2", 1))) + "." + parts[2], "not good"},
		{"signature cut", parts[0] + "." + parts[1] + "." + parts[2][:84], "not good"},
		{"signature zero", parts[0] + "." + parts[1] + "." + b64(make([]byte, 64)), "not good"},
		{"signature with trailing bits", parts[0] + "." + parts[1] + "." + parts[2][:85] + "_", "part 3"},
		{"padding", parts[0] + "." + parts[1] + "." + parts[2] + "==", "part 3"},
		{"algorithm twice", b64([]byte(`{"alg":"none","alg":"ES256","kid":"key-1","typ":"eat+jwt"}`)) + "." + parts[1] + "." + parts[2], "header"},
		{"two parts", parts[0] + "." + parts[1], "three parts"},
		{"JSON form", `{"payload":""}`, "three parts"},
		{"too large", strings.Repeat("a", 65<<10), "at most"},
		{"nothing", "", "three parts"},
	} {
		if tc.token == token {
			t.Fatalf("%s: the token is the good one", tc.name)
		}
		if _, err := relying.Verify(tc.token, keys, good(), now); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := relying.Verify(token, relying.Keys{}, good(), now); !errors.Is(err, relying.ErrUnknownKey) {
		t.Errorf("no keys: %v", err)
	}
	_, err = relying.Verify(token, keys, good(), now)
	must(t, err)
}

// TestVerifyAccepts: what a relying party may loosen, in so many words.
func TestVerifyAccepts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*maker, *relying.Expect)
	}{
		{"any nonce", func(m *maker, e *relying.Expect) { delete(m.claims, "eat_nonce"); e.Nonce, e.AnyNonce = nil, true }},
		{"warning", func(m *maker, e *relying.Expect) { m.claims["ear.status"] = "warning"; e.Floor = relying.Warning }},
		{"other roots", func(m *maker, e *relying.Expect) { m.claims["assay.vendor-roots"] = false; e.OtherRoots = true }},
		{"one nonce", func(m *maker, e *relying.Expect) {
			m.claims["eat_nonce"] = base64.RawURLEncoding.EncodeToString(nonce)
		}},
		{"no key asked for", func(m *maker, e *relying.Expect) { delete(m.claims, "cnf") }},
		{"claims of others", func(m *maker, e *relying.Expect) { m.claims["other"] = map[string]any{"a": 1.5} }},
		{"clock behind", func(m *maker, e *relying.Expect) { m.claims["nbf"] = now.Unix() + 60 }},
	} {
		m, want := newMaker(t), good()
		tc.change(m, &want)
		if _, err := relying.Verify(m.token(), m.keys(), want, now); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestParseKeys(t *testing.T) {
	m := newMaker(t)
	var set struct{ Keys []map[string]any }
	must(t, json.Unmarshal(m.jwks(), &set))
	for _, tc := range []struct {
		name   string
		change func(map[string]any)
		want   string
	}{
		{"good", func(map[string]any) {}, ""},
		{"encryption key", func(k map[string]any) { k["use"] = "enc" }, "no ES256 key"},
		{"other algorithm", func(k map[string]any) { k["alg"] = "ES256K" }, "no ES256 key"},
		{"symmetric", func(k map[string]any) { k["kty"] = "oct" }, "no ES256 key"},
		{"no id", func(k map[string]any) { delete(k, "kid") }, "no ES256 key"},
		{"not on the curve", func(k map[string]any) { k["y"] = k["x"] }, "key-1"},
		{"private", func(k map[string]any) { k["d"] = k["x"] }, "private key"},
	} {
		k := maps.Clone(set.Keys[0])
		tc.change(k)
		data, err := json.Marshal(map[string]any{"keys": []any{k}})
		must(t, err)
		if _, err := relying.ParseKeys(data); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	twice, err := json.Marshal(map[string]any{"keys": []any{set.Keys[0], set.Keys[0]}})
	must(t, err)
	if _, err := relying.ParseKeys(twice); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one id twice: %v", err)
	}
}

// origin is an issuer's web server that counts.
type origin struct {
	*httptest.Server
	fetches int
	set     []byte // nil: it fails
}

func newOrigin(t testing.TB) *origin {
	o := &origin{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.fetches++
		if r.URL.Path != "/.well-known/jwks.json" || o.set == nil {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		w.Write(o.set)
	}))
	t.Cleanup(o.Close)
	return o
}

// TestIssuer: keys are fetched once, again when they are old or a token names a new one, and not for every token that
// names one that does not exist.
func TestIssuer(t *testing.T) {
	m, o, clock := newMaker(t), newOrigin(t), now
	m.claims["iss"] = o.URL
	i, err := relying.NewIssuer(o.URL, nil, func() time.Time { return clock })
	must(t, err)
	verify := func(step string, fails string, fetches int) {
		t.Helper()
		m.claims["iat"], m.claims["nbf"], m.claims["exp"] = clock.Unix(), clock.Unix(), clock.Unix()+900
		before := o.fetches
		_, err := i.Verify(t.Context(), m.token(), relying.Expect{Nonce: nonce})
		if (err == nil) != (fails == "") || err != nil && !strings.Contains(err.Error(), fails) {
			t.Errorf("%s: %v, want %q", step, err, fails)
		}
		if got := o.fetches - before; got != fetches {
			t.Errorf("%s: %d fetches, want %d", step, got, fetches)
		}
	}
	verify("issuer down", "503", 1)
	o.set = m.jwks()
	verify("at once again", "503", 0)
	clock = clock.Add(relying.MinFetch)
	verify("first", "", 1)
	verify("second", "", 0)
	clock = clock.Add(relying.KeysFor)
	verify("old keys", "", 1)
	rotated := newMaker(t)
	m.key, m.kid = rotated.key, "key-2"
	verify("unknown key, too soon", "not in the set", 0)
	clock = clock.Add(relying.MinFetch)
	verify("unknown key, not published", "not in the set", 1)
	verify("and again", "not in the set", 0)
	o.set = m.jwks()
	clock = clock.Add(relying.MinFetch)
	verify("rotated", "", 1)
	if _, err := i.Verify(t.Context(), m.token(), relying.Expect{Issuer: "https://other.test", Nonce: nonce}); err == nil || !strings.Contains(err.Error(), "the keys are of") {
		t.Errorf("other issuer: %v", err)
	}
}

// TestIssuerKeepsKeys: keys at hand serve until they are old, whatever becomes of a fetch that a made-up token asks for.
func TestIssuerKeepsKeys(t *testing.T) {
	m, o, clock := newMaker(t), newOrigin(t), now
	m.claims["iss"] = o.URL
	stranger := newMaker(t)
	stranger.kid, stranger.claims["iss"] = "made up", o.URL
	i, err := relying.NewIssuer(o.URL, nil, func() time.Time { return clock })
	must(t, err)
	verify := func(step string, m *maker, fails string) {
		t.Helper()
		m.claims["iat"], m.claims["nbf"], m.claims["exp"] = clock.Unix(), clock.Unix(), clock.Unix()+900
		if _, err := i.Verify(t.Context(), m.token(), relying.Expect{Nonce: nonce}); (err == nil) != (fails == "") || err != nil && !strings.Contains(err.Error(), fails) {
			t.Errorf("%s: %v, want %q", step, err, fails)
		}
	}
	set := m.jwks()
	o.set = set
	verify("first", m, "")
	o.set = nil // the issuer is down
	clock = clock.Add(relying.MinFetch)
	verify("made up", stranger, `"made up"; the set was not fetched anew: `)
	verify("good, after a fetch that failed", m, "")
	clock = now.Add(relying.KeysFor - time.Second)
	verify("good, while the keys are young", m, "")
	clock = now.Add(relying.KeysFor)
	verify("good, the keys are old", m, "503")
	o.set = set
	clock = clock.Add(relying.MinFetch)
	verify("the issuer is back", m, "")
}

// TestIssuerOutlivesCaller: who leaves while keys are fetched is answered at once, and what he began serves all others.
func TestIssuerOutlivesCaller(t *testing.T) {
	m := newMaker(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{} // nobody receives a second one
		<-answer
		w.Write(m.jwks())
	}))
	defer server.Close()
	m.claims["iss"] = server.URL
	i, err := relying.NewIssuer(server.URL, nil, func() time.Time { return now })
	must(t, err)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := i.Verify(ctx, m.token(), relying.Expect{Nonce: nonce})
		left <- err
	}()
	<-asked
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v, want that he did", err)
	}
	close(answer)
	if _, err := i.Verify(t.Context(), m.token(), relying.Expect{Nonce: nonce}); err != nil {
		t.Errorf("who stayed: %v", err)
	}
}

// A relying party pins an issuer, draws a nonce, and looks at the token that the machine comes back with.
func ExampleIssuer() {
	t := &testing.T{}
	m, o := newMaker(t), newOrigin(t)
	defer o.Close()
	o.set, m.claims["iss"] = m.jwks(), o.URL
	token := m.token() // from the machine, after it has had the nonce built into its challenge

	issuer, err := relying.NewIssuer(o.URL, nil, func() time.Time { return now }) // time.Now
	if err != nil {
		panic(err)
	}
	result, err := issuer.Verify(context.Background(), token, relying.Expect{
		Nonce:    nonce,                    // drawn by us, for this session
		Key:      m.peer,                   // of the peer's TLS certificate
		Policies: []relying.Digest{policy}, // that we have read: relying.ParseDigest
	})
	if err != nil {
		fmt.Println("no trust:", err)
		return
	}
	fmt.Println(result.Node, result.Status, result.PolicyName)
	// Output: node-1 affirming confidential-cpu
}
