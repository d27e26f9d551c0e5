package client_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func TestOrigin(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"https", "https://assay.example", "https://assay.example"},
		{"slash", "https://assay.example/", "https://assay.example"},
		{"case and port", "https://Assay.Example:8443", "https://assay.example:8443"},
		{"implied port", "https://assay.example:443", "https://assay.example"},
		{"IPv6", "https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443"},
		{"this machine", "http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"this machine by name", "http://localhost:80", "http://localhost"},
		{"this machine, IPv6", "http://[::1]:8080", "http://[::1]:8080"},
		{"plain http", "http://assay.example", ""},
		{"a name that begins like this machine's", "http://localhost.example", ""},
		{"path", "https://assay.example/v1", ""},
		{"query", "https://assay.example?x=1", ""},
		{"user", "https://me@assay.example", ""},
		{"no scheme", "assay.example", ""},
		{"no host", "https://", ""},
		{"other scheme", "ftp://assay.example", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := client.Origin(tc.text)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(client.Config{URL: s.URL, Credential: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnswers(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"health", `{"status":"ok","published_age_seconds":3,"size":9,"roles":["api","clock"],"turns":["clock"]}`, ""},
		{"unknown member", `{"status":"ok","published_age_seconds":3,"size":9,"$schema":"x"}`, "unknown object member"},
		{"duplicate member", `{"status":"ok","status":"ok","published_age_seconds":3,"size":9}`, "duplicate"},
		{"other case", `{"Status":"ok","published_age_seconds":3,"size":9}`, "unknown object member"},
		{"second document", `{"status":"ok"} {}`, "parse answer"},
		{"cut off", `{"status":"ok"`, "parse answer"},
		{"too large", `{"status":"` + strings.Repeat("x", client.MaxAnswer) + `"}`, "more than 8388608 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(tc.body)) })
			h, err := c.Health(context.Background())
			if tc.want == "" {
				if err != nil || !reflect.DeepEqual(h, client.Health{Status: "ok", PublishedAge: 3, Size: 9, Roles: []string{"api", "clock"}, Turns: []string{"clock"}}) {
					t.Fatalf("%+v, %v", h, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		after  string
		body   string
		want   client.Problem
	}{
		{"named", 409, "", `{"type":"https://assay.example/problems/challenge-used","title":"used","status":409,"detail":"by other evidence","errors":[]}`,
			client.Problem{Status: 409, Code: "challenge-used", Title: "used", Detail: "by other evidence"}},
		{"urn", 429, "30", `{"type":"challenge-limit"}`, client.Problem{Status: 429, Code: "challenge-limit", RetryAfter: 30 * time.Second}},
		{"blank type", 500, "", `{"type":"about:blank","title":"Internal Server Error"}`, client.Problem{Status: 500, Title: "Internal Server Error"}},
		{"not a problem document", 502, "", `<html>`, client.Problem{Status: 502, Title: "Bad Gateway"}},
		{"absurd delay", 503, "999999999", `{}`, client.Problem{Status: 503, RetryAfter: client.MaxDelay}},
		{"delay that is no number", 503, "soon", `{}`, client.Problem{Status: 503}},
		{"wrong success", 200, "", `{"title":"fine"}`, client.Problem{Status: 200, Title: "fine"}},
		{"redirect", 307, "", `{}`, client.Problem{Status: 307}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Error("the credential followed a redirect")
				}
				w.Header().Set("Location", "/elsewhere")
				if tc.after != "" {
					w.Header().Set("Retry-After", tc.after)
				}
				w.WriteHeader(tc.status)
				w.Write([]byte(tc.body))
			})
			_, err := c.Challenge(context.Background(), nil)
			if p := client.AsProblem(err); p == nil || *p != tc.want {
				t.Errorf("problem %+v, want %+v", p, tc.want)
			}
		})
	}
	if client.AsProblem(errors.New("no route to host")) != nil {
		t.Error("a problem was made up")
	}
}

func TestRequests(t *testing.T) {
	for _, tc := range []struct {
		name               string
		ask                func(*client.Client) error
		method, path, body string
	}{
		{"challenge", func(c *client.Client) error { _, err := c.Challenge(context.Background(), nil); return err }, "POST", "/v1/challenges", `{}`},
		{"challenge with a renter", func(c *client.Client) error {
			_, err := c.Challenge(context.Background(), canon.Hex{1, 2})
			return err
		}, "POST", "/v1/challenges", `{"renter":"0102"}`},
		{"join", func(c *client.Client) error {
			_, err := c.Join(context.Background(), client.Token{Secret: "s"})
			return err
		}, "POST", "/v1/nodes", `{"token":"s.` + strings.Repeat("0", 64) + `"}`},
		{"submit", func(c *client.Client) error {
			_, err := c.Submit(context.Background(), []byte(`{"payload":1}`))
			return err
		}, "POST", "/v1/evidence", `{"payload":1}`},
		{"tile", func(c *client.Client) error {
			_, err := c.Mirror().Tile(context.Background(), ledger.Tile{Level: 0, Index: 1067, Width: 3})
			return err
		}, "GET", "/log/tile/0/x001/067.p/3", ""},
		{"checkpoint", func(c *client.Client) error { _, err := c.Mirror().Checkpoint(context.Background()); return err }, "GET", "/log/checkpoint", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body := make([]byte, 1024)
				n, _ := r.Body.Read(body)
				if r.Method != tc.method || r.URL.Path != tc.path || string(body[:n]) != tc.body || r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("%s %s %q %q", r.Method, r.URL.Path, body[:n], r.Header.Get("Authorization"))
				}
				w.WriteHeader(http.StatusTeapot)
			})
			if p := client.AsProblem(tc.ask(c)); p == nil || p.Status != http.StatusTeapot {
				t.Errorf("problem %v", p)
			}
		})
	}
}

// TestNoID: what no id is asks for nothing else. A node named "." would be the list of all nodes.
func TestNoID(t *testing.T) {
	asked := 0
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusNoContent)
	})
	for _, id := range []string{"", ".", ".."} {
		if err := c.Revoke(t.Context(), id); err == nil || !strings.Contains(err.Error(), "is no id") || asked != 0 {
			t.Errorf("%q: %v, asked %d times", id, err, asked)
		}
	}
	if err := c.Revoke(t.Context(), "..."); err != nil || asked != 1 {
		t.Errorf("another: %v, asked %d times", err, asked)
	}
}

func TestMirror(t *testing.T) {
	blob := []byte("a blob")
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/blobs/" + canon.Sum(blob).String(), "/v1/blobs/" + canon.Sum([]byte("other")).String():
			w.Write(blob)
		case "/log/tile/0/000.p/2":
			w.Write(make([]byte, 63))
		default:
			http.NotFound(w, r)
		}
	})
	m, ctx := c.Mirror(), context.Background()
	if got, err := m.Blob(ctx, canon.Sum(blob)); err != nil || string(got) != "a blob" {
		t.Errorf("blob %q, %v", got, err)
	}
	if _, err := m.Blob(ctx, canon.Sum([]byte("other"))); err == nil || !strings.Contains(err.Error(), "other bytes") {
		t.Errorf("foreign bytes under a digest: %v", err)
	}
	if _, err := m.Blob(ctx, canon.Sum([]byte("absent"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent blob: %v", err)
	}
	if _, err := m.Tile(ctx, ledger.Tile{Level: 0, Index: 0, Width: 2}); err == nil || !strings.Contains(err.Error(), "63 bytes, want 64") {
		t.Errorf("short tile: %v", err)
	}
	if _, err := m.Checkpoint(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent checkpoint: %v", err)
	}
}

type key struct{ ed25519.PrivateKey }

func (k key) Sign(message []byte) ([]byte, error) { return ed25519.Sign(k.PrivateKey, message), nil }

func TestDecision(t *testing.T) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	keys := ledger.Keyset{Keys: []ledger.Key{{Use: ledger.UseResult, SPKI: spki, From: 1769904000}}} // 2026-02-01
	evidence := canon.Sum([]byte("evidence"))
	good := `{"type":"assay/result/v1","evidence":"` + evidence.String() + `","verdict":{"verdict":"reject","as_of":"2026-02-01T00:00:00Z",` +
		`"policy":{"name":"confidential-cpu","digest":"x"},"reasons":[{"claim":"sevsnp.tcb","status":"affirmed","later":"member"}]}}`
	for _, tc := range []struct {
		name, kind, payload, want string
		alter                     func(*ledger.Envelope)
	}{
		{name: "good", kind: "assay/result/v1", payload: good},
		{name: "other payload type", kind: "assay/promise/v1", payload: good, want: "payload type"},
		{name: "other type", kind: "assay/result/v1", payload: strings.Replace(good, "result/v1", "result/v9", 1), want: "not known to this build"},
		{name: "other evidence", kind: "assay/result/v1", payload: strings.Replace(good, evidence.String(), canon.Sum(nil).String(), 1), want: "a verdict on evidence"},
		{name: "unknown verdict", kind: "assay/result/v1", payload: strings.Replace(good, `"reject"`, `"maybe"`, 1), want: "not known to this build"},
		{name: "altered", kind: "assay/result/v1", payload: good, alter: func(e *ledger.Envelope) { e.Payload = []byte(strings.Replace(good, "reject", "accept", 1)) },
			want: "not signed by a result key"},
		{name: "before the key's time", kind: "assay/result/v1", payload: strings.Replace(good, "2026-02-01T", "2026-01-31T", 1), want: "stands from"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env, err := ledger.Seal(tc.kind, []byte(tc.payload), key{private})
			if err != nil {
				t.Fatal(err)
			}
			if tc.alter != nil {
				tc.alter(&env)
			}
			d, err := client.Result{State: client.StateDecided, Result: &env}.Decision(evidence, keys)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil || d.Outcome != client.Reject || d.Policy != "confidential-cpu" || len(d.Reasons) != 1 || d.Reasons[0].Claim != "sevsnp.tcb" {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	if _, err := (client.Result{State: client.StateReceived}).Decision(evidence, keys); err == nil {
		t.Error("a decision without a verdict")
	}
}

func TestToken(t *testing.T) {
	text := "s3cret." + canon.Sum([]byte("key")).String()
	if tok, err := client.ParseToken(text); err != nil || tok.String() != text {
		t.Errorf("%v, %v", tok, err)
	}
	for _, bad := range []string{"", "s3cret", "." + canon.Sum(nil).String(), "s3cret.abc", strings.ToUpper(text)} {
		if _, err := client.ParseToken(bad); err == nil {
			t.Errorf("token %q was taken", bad)
		}
	}
}

// A refusal whose code says what its title says is said once.
func TestProblemSaidOnce(t *testing.T) {
	for _, c := range []struct {
		p    client.Problem
		want string
	}{
		{client.Problem{Status: 404, Code: "not-found", Title: "not found", Detail: "no such provider"}, "server answered 404: not-found: no such provider"},
		{client.Problem{Status: 409, Code: "conflict", Title: "it cannot be done now", Detail: "x"}, "server answered 409: conflict: it cannot be done now: x"},
		{client.Problem{Status: 502, Title: "Bad Gateway"}, "server answered 502: Bad Gateway"},
	} {
		if got := c.p.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
