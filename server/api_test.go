package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

func TestVerify(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	ch := n.challenge()
	data := n.evidence(ch)
	before := l.entries()
	for _, tc := range []struct {
		name, query, body string
		status            int
		want              string
	}{
		{"bundle, challenge known", "?nonce=" + ch.Challenge.Digest().String(), string(data), 200, `"observed":"no-time`}, // when it was issued, a stranger's word cannot say
		{"bundle, challenge not known", "", string(data), 200, `"verdict":"undecided"`},
		{"bundle, other challenge", "?nonce=" + strings.Repeat("00", 32), string(data), 200, `"verdict":"reject"`},
		{"another policy", "?policy=genuine", string(data), 200, `"name":"genuine"`},
		{"rubbish", "", "rubbish", 200, `"verdict":"reject"`},
		{"unknown policy", "?policy=lenient", string(data), 400, `"code":"malformed"`},
		{"unknown type", "?type=quote", string(data), 400, `"code":"malformed"`},
		{"bad nonce", "?nonce=zz", string(data), 400, `"code":"malformed"`},
		{"nonce and report data", "?nonce=" + strings.Repeat("00", 32) + "&report_data=" + strings.Repeat("00", 64), string(data), 400, `"code":"malformed"`},
		{"too large", "", strings.Repeat(" ", attest.MaxBundle+1), 413, `"code":"too-large"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := l.send("POST", "/v1/verify"+tc.query, "", "application/octet-stream", []byte(tc.body))
			if resp.StatusCode != tc.status || !strings.Contains(string(body), tc.want) {
				t.Errorf("%d %.400s, want %d %s", resp.StatusCode, body, tc.status, tc.want)
			}
		})
	}
	if got := l.entries(); got != before {
		t.Errorf("%d entries, want %d: nothing is stored", got, before)
	}
}

func TestStrictJSON(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	for _, tc := range []struct {
		name, body, want string
	}{
		{"unknown key", `{"renters":"00"}`, "unknown key"},
		{"duplicate key", `{"renter":"","renter":""}`, "body.json:1:"},
		{"other case", `{"Renter":""}`, "unknown key"},
		{"other type", `{"renter":7}`, "want text"},
		{"second document", `{} {}`, "body.json:1:"},
		{"no document", ``, "body is required"},
		{"wrong length", `{"renter":"0011"}`, "2 bytes, want 32"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := l.send("POST", "/v1/challenges", n.credential, "application/json", []byte(tc.body))
			if resp.StatusCode/100 != 4 || !strings.Contains(string(body), `"code":"malformed"`) || !strings.Contains(string(body), tc.want) {
				t.Errorf("%d %s, want malformed: %s", resp.StatusCode, body, tc.want)
			}
		})
	}
	resp, body := l.send("POST", "/v1/challenges", n.credential, "application/json", []byte(`{"renter":"`+strings.Repeat("00", 32)+`"}`))
	if resp.StatusCode != 201 {
		t.Errorf("good: %d %s", resp.StatusCode, body)
	}
}

func TestLogRoutes(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	for range 90 { // three entries each: one complete tile
		n.prove()
	}
	mirror := l.client("").Mirror()
	note, err := mirror.Checkpoint(t.Context())
	must(t, err)
	c, err := ledger.ReadCheckpoint(note)
	must(t, err)
	if c.Size < ledger.TileWidth {
		t.Fatalf("log of size %d, want a complete tile", c.Size)
	}
	seen := int64(0)
	must(t, ledger.Walk(t.Context(), mirror, c.Tree, func(int64, canon.Digest) error { seen++; return nil }))
	if seen != c.Size {
		t.Errorf("walked %d leaves, want %d", seen, c.Size)
	}
	for _, tc := range []struct {
		path   string
		status int
		cache  string
	}{
		{"/log/checkpoint", 200, "no-cache"},
		{"/log/tile/0/000", 200, "public, max-age=31536000, immutable"},
		{"/log/tile/entries/000", 200, "public, max-age=31536000, immutable"},
		{"/log/tile/0/000.p/7", 200, "public, max-age=60"},
		{"/log/tile/0/009", 404, "no-store"},
		{"/log/tile/0/0", 404, "no-store"},
		{"/log/else", 404, "no-store"},
	} {
		resp, body := l.send("GET", tc.path, "", "", nil)
		if resp.StatusCode != tc.status || resp.Header.Get("Cache-Control") != tc.cache {
			t.Errorf("%s: %d %q %.100q, want %d %q", tc.path, resp.StatusCode, resp.Header.Get("Cache-Control"), body, tc.status, tc.cache)
		}
	}
}

func TestHealth(t *testing.T) {
	l := newLab(t, "")
	health := func() client.Health {
		h, err := l.client("").Health(t.Context())
		must(t, err)
		return h
	}
	if h := health(); !sameJSON(t, h, client.Health{Status: "ok", Size: 4, Roles: server.Roles(), Turns: []string{"publish", "clock"}}) {
		t.Errorf("at the start: %+v", h)
	}
	n := l.join("one")
	l.advance()
	l.clock.advance(50 * time.Minute)
	if h := health(); h.Status != "ok" || h.PublishedAge != 3000 {
		t.Errorf("nothing waits: %+v, want ok", h)
	}
	n.challenge()
	l.clock.advance(ledger.PublishWithin * time.Second)
	if h := health(); h.Status != "ok" || h.Waiting != 1 || h.WaitingAge != 60 {
		t.Errorf("an entry waits for as long as it may: %+v", h)
	}
	l.clock.advance(time.Second)
	if h := health(); h.Status != "1 entries wait to be published, the oldest for 61 s" || h.PublishedAge != 3061 {
		t.Errorf("an entry waits longer than promised: %+v", h)
	}
	l.advance()
	if h := health(); !sameJSON(t, h, client.Health{Status: "ok", Size: 6, Roles: server.Roles(), Turns: []string{"publish", "clock"}}) {
		t.Errorf("published: %+v", h)
	}
}

// TestOpenAPI: each route that is described answers.
func TestOpenAPI(t *testing.T) {
	l := newLab(t, "")
	l.closeLog("assay.test/2")
	resp, body := l.send("GET", "/openapi.json", "", "", nil)
	var api struct {
		OpenAPI string                                `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage `json:"paths"`
	}
	must(t, json.Unmarshal(body, &api))
	if resp.StatusCode != 200 || api.OpenAPI != "3.1.0" {
		t.Fatalf("%d, version %q", resp.StatusCode, api.OpenAPI)
	}
	var got []string
	for path, methods := range api.Paths {
		for method := range methods {
			got = append(got, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(got)
	for _, route := range got {
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{log}", "2", "{node}", "node-1", "{token}", "00", "{stream}", "server", "{tile}", "0/000.p/4", "{digest}", strings.Repeat("0", 64), "{evidence}", strings.Repeat("0", 64)).Replace(path)
		resp, body := l.send(method, path, "", "", nil)
		if resp.StatusCode == 404 && !strings.Contains(string(body), "no certificate in log") || resp.StatusCode >= 500 {
			t.Errorf("%s: %d %s", route, resp.StatusCode, body)
		}
		if resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: refused as %q, want a problem document", route, resp.Header.Get("Content-Type"))
		}
	}
	for _, word := range []string{"$schema", "ErrorModel"} {
		if bytes.Contains(body, []byte(word)) {
			t.Errorf("the description names %s", word)
		}
	}
}

// TestExportOverHTTP: whoever has the admin token exports the same log from afar; a node gets no blob.
func TestExportOverHTTP(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	n.prove()
	var here, there bytes.Buffer
	must(t, audit.Export(t.Context(), l.server.Source(), &here))
	must(t, audit.Export(t.Context(), l.client(l.admin).Mirror(), &there))
	if !bytes.Equal(here.Bytes(), there.Bytes()) {
		t.Errorf("export of %d bytes here, %d over HTTP: want the same", here.Len(), there.Len())
	}
	refused(t, audit.Export(t.Context(), n.client().Mirror(), &there), 403, "forbidden")
}

// TestRoutesAreWrittenDown: docs/api.md has each route with whose credential it wants, as the server describes itself.
func TestRoutesAreWrittenDown(t *testing.T) {
	page, err := os.ReadFile("../docs/api.md")
	must(t, err)
	const head = "| route | credential of | answer | what it is for |\n|---|---|---|---|\n"
	_, table, found := strings.Cut(string(page), head)
	if !found {
		t.Fatal("docs/api.md has no table of routes")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var want strings.Builder
	for _, d := range newLab(t, "").operations() {
		slices.Sort(d.success)
		who := "nobody"
		if len(d.schemes) > 0 {
			who = strings.Join(d.schemes, ", ")
		}
		fmt.Fprintf(&want, "| `%s %s` | %s | %s | %s |\n", d.method, d.path, who, strings.Join(d.success, ", "), d.summary)
	}
	if got := strings.TrimSpace(table) + "\n"; got != want.String() {
		t.Errorf("docs/api.md has\n%s\nand the server describes\n%s", got, want.String())
	}
}
