package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/client"
)

func TestServeMetrics(t *testing.T) {
	c, err := client.New(client.Config{URL: "https://assay.test"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{Node: agent.Node{Node: "node-1", Origin: c.Origin()}, Server: c})
	if err != nil {
		t.Fatal(err)
	}
	at, stop, err := serveMetrics("127.0.0.1:0", a)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/": http.StatusNotFound} {
		resp, err := http.Get("http://" + at.String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Errorf("%s: %d, %v, want %d", path, resp.StatusCode, err, want)
		}
		if want == http.StatusOK && (resp.Header.Get("Content-Type") != agent.MetricsType || !strings.Contains(string(body), "\nassay_agent_rounds_total 0\n")) {
			t.Errorf("%s: %q %q", path, resp.Header.Get("Content-Type"), body)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + at.String() + "/metrics"); err == nil {
		t.Error("still served after its end")
	}
}
