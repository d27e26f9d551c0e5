package server_test

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier/engine"
	"github.com/assay-network/assay/verifier/engine/enginetest"
)

// writeEngine writes a module where settings can name it.
func writeEngine(t *testing.T, code []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "engine.wasm")
	must(t, os.WriteFile(name, code, 0o600))
	return name
}

// engines returns the engine documents of a log in order.
func (l *lab) engines() (all []ledger.Engine) {
	l.t.Helper()
	c := l.client(l.admin)
	for n := 0; ; {
		page, err := c.Entries(l.t.Context(), int64(n))
		must(l.t, err)
		if len(page.Entries) == 0 {
			return all
		}
		for _, opened := range page.Entries {
			_, e, err := ledger.ParseOpening(opened.Opening)
			must(l.t, err)
			if e.Kind == ledger.KindEngine {
				body, err := l.server.Source().Blob(l.t.Context(), e.Body)
				must(l.t, err)
				doc, err := ledger.ParseEngine(body)
				must(l.t, err)
				all = append(all, doc)
			}
		}
		n += len(page.Entries)
	}
}

// resultOf reads the result that a server signed.
func (n *node) resultOf(evidence canon.Digest) policy.Result {
	n.lab.t.Helper()
	r, err := n.client().Result(n.lab.t.Context(), evidence)
	must(n.lab.t, err)
	result, err := policy.ParseResult(r.Result.Payload)
	must(n.lab.t, err)
	return result
}

// TestEngine: where the operator gives the module of the rules, the log keeps it, once, and every result names it.
func TestEngine(t *testing.T) {
	code := enginetest.Build(t, enginetest.Today)
	l := newLab(t, "", func(s *server.Settings) { s.Engine = writeEngine(t, code) })
	n := l.join("one")
	d, evidence := n.prove()
	if d.Outcome != client.Accept {
		t.Fatalf("%+v", d)
	}
	if got := n.resultOf(evidence).Build.Engine; got != canon.Sum(code) {
		t.Errorf("the result names the engine %s, want %s", got, canon.Sum(code))
	}
	if !strings.Contains(l.log.String(), "compiling and trying the engine module") {
		t.Errorf("it takes seconds, and nothing is said of it: %s", l.log)
	}
	l.restart()
	_, again := n.prove()
	all := l.engines()
	if len(all) != 1 || all[0].Module != canon.Sum(code) || all[0].Verifier != worldOrigin || all[0].Version != "today" || n.resultOf(again).Build.Engine != canon.Sum(code) {
		t.Errorf("engines %+v", all)
	}
	blob, err := l.server.Source().Blob(t.Context(), canon.Sum(code))
	if err != nil || !bytes.Equal(blob, code) {
		t.Errorf("the module is not kept: %v", err)
	}
	l.audited()

	l.settings.Engine = ""
	l.restart()
	if _, evidence := n.prove(); !n.resultOf(evidence).Build.Engine.IsZero() {
		t.Error("without a module a result names one")
	}
	l.audited()
}

// TestEngineRefused: a module of another build, or none at all, ends the start with its reason.
func TestEngineRefused(t *testing.T) {
	// A module that says of itself what it likes, and has one answer to everything.
	says := func(change func(*engine.Description)) func() []byte {
		d := engine.Description{Version: "v", Go: runtime.Version(), Rules: engine.Rules()}
		change(&d)
		b, err := canon.Marshal(engine.Response{Type: engine.ResponseType, Engine: &d, Result: []byte("{}")})
		must(t, err)
		return func() []byte { return enginetest.Says(enginetest.Frame(b)) }
	}
	for _, row := range []struct {
		name, want string
		code       func() []byte
	}{
		{"another Go", "is compiled by go1.0, this server by go", says(func(d *engine.Description) { d.Go = "go1.0" })},
		{"other rules", "is of another build: its rules are", says(func(d *engine.Description) { d.Rules[0].Rules++ })},
		{"a name that no log takes", "versions of 81 and", says(func(d *engine.Description) { d.Version = strings.Repeat("v", 81) })},
		{"other judgement", "judges otherwise than this server", says(func(*engine.Description) {})},
		{"no module", "no WebAssembly", func() []byte { return []byte("no module") }},
		{"asks for files", "asks for files or the network: path_open", func() []byte { return enginetest.Reads }},
		{"says nothing", "ends without an answer", func() []byte { return enginetest.Returns }},
	} {
		t.Run(row.name, func(t *testing.T) {
			settings := writeWorld(t, t.TempDir())
			settings.Engine = writeEngine(t, row.code())
			_, err := server.New(t.Context(), settings, server.Deps{Now: (&clock{now: worldBegin}).Now, Random: rand.Reader, Log: quiet()})
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), "engine: ") {
				t.Errorf("got %v, want %s", err, row.want)
			}
		})
	}
}
