package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// scrape is what one scrape says, by name.
type scrape map[string]*dto.MetricFamily

func (l *lab) scrape() scrape {
	l.t.Helper()
	w := httptest.NewRecorder()
	l.server.Metrics().ServeHTTP(w, httptest.NewRequestWithContext(l.t.Context(), "GET", "/metrics", nil))
	return parseScrape(l.t, w.Body)
}

func parseScrape(t *testing.T, r io.Reader) scrape {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(r)
	must(t, err)
	return families
}

// value returns the value of a metric with these labels, as name=value; -1: it is not there.
func (s scrape) value(name string, labels ...string) float64 {
	for _, m := range s[name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(have, ",") == strings.Join(labels, ",") {
			switch {
			case m.Counter != nil:
				return m.GetCounter().GetValue()
			case m.Histogram != nil:
				return float64(m.GetHistogram().GetSampleCount())
			}
			return m.GetGauge().GetValue()
		}
	}
	return -1
}

func TestMetrics(t *testing.T) {
	l := newLab(t, "")
	n, bad := l.join("one"), l.join("two", func(p *mint.Platform) { p.Fields.Policy |= sevsnp.PolicyDebug })
	first := n.evidence(n.challenge())
	n.submit(first)
	before := l.scrape()
	for name, want := range map[string]float64{"assay_evidence_waiting": 1, "assay_log_entries": 8, "assay_log_pending_entries": 4, "assay_log_published_age_seconds": 0, "assay_alarms_total": 0} {
		if got := before.value(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	l.advance()
	bad.prove()
	// The door: one refusal of each kind, and what no route takes.
	must := func(method, path, credential, contentType string, body []byte, want int) {
		t.Helper()
		if resp, data := l.send(method, path, credential, contentType, body); resp.StatusCode != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, resp.StatusCode, data, want)
		}
	}
	const envelope = "application/vnd.dsse.envelope.v1+json"
	must("POST", "/v1/evidence", "", envelope, first, 401)
	must("POST", "/v1/evidence", n.credential, envelope, []byte("{}"), 400)
	must("POST", "/v1/evidence", n.credential, envelope, make([]byte, attest.MaxBundle+1), 413)
	must("POST", "/v1/evidence", n.credential, envelope, first, 202) // the same answer again
	must("GET", "/secrets/of/"+strings.Repeat("a", 99), "", "", nil, 404)
	must("BREW", "/v1/evidence", "", "", nil, 404)
	l.server.TestingOnlyAppraise(func(*verifier.Opened, attest.Case) verifier.Appraisal { panic("broken rule") })
	n.prove()
	l.clock.advance(time.Minute)
	after := l.scrape()
	for _, tc := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"assay_evidence_total", []string{"outcome=accept"}, 1},
		{"assay_evidence_total", []string{"outcome=reject"}, 1},
		{"assay_evidence_total", []string{"outcome=undecided"}, 1},
		{"assay_appraisal_seconds", nil, 3},
		{"assay_evidence_waiting", nil, 0},
		{"assay_log_pending_entries", nil, 0},
		{"assay_log_published_age_seconds", nil, 60},
		{"assay_alarms_total", nil, 1},
		{"assay_http_requests_total", []string{"code=202", "route=POST /v1/evidence"}, 4},
		{"assay_http_requests_total", []string{"code=201", "route=POST /v1/nodes"}, 2},
		{"assay_http_requests_total", []string{"code=404", "route=other"}, 2},
		{"assay_http_refusals_total", []string{"code=credential", "route=POST /v1/evidence"}, 1},
		{"assay_http_refusals_total", []string{"code=malformed", "route=POST /v1/evidence"}, 1},
		{"assay_http_refusals_total", []string{"code=too-large", "route=POST /v1/evidence"}, 1},
		{"assay_http_refusals_total", []string{"code=not-found", "route=other"}, 2},
	} {
		if got := after.value(tc.name, tc.labels...); got != tc.want {
			t.Errorf("%s %v is %v, want %v", tc.name, tc.labels, got, tc.want)
		}
	}
	if after["go_goroutines"] == nil {
		t.Error("no metrics of the process")
	}
	for name, family := range after {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if v := label.GetValue(); strings.Contains(v, n.id) || strings.Contains(v, "secrets") || strings.Contains(v, "BREW") {
					t.Errorf("%s: a caller's %q became a label", name, v)
				}
			}
		}
	}
}

// TestMetricsWithoutDatabase: what cannot be read is left out, and the rest is there.
func TestMetricsWithoutDatabase(t *testing.T) {
	l := newLab(t, "")
	must(t, l.server.Close())
	s := l.scrape()
	if s.value("assay_log_entries") != -1 || s.value("assay_alarms_total") != 0 {
		t.Errorf("log entries %v, alarms %v", s.value("assay_log_entries"), s.value("assay_alarms_total"))
	}
	if !strings.Contains(l.log.String(), "metrics are incomplete") {
		t.Errorf("log %q", l.log)
	}
}

// TestMetricsListen: metrics have an address of their own, and are not on the other one.
func TestMetricsListen(t *testing.T) {
	l := newLab(t, "", func(s *server.Settings) { s.MetricsListen = "127.0.0.1:0" })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.server.Run(ctx) }()
	resp, err := http.Get("http://" + l.server.MetricsAddr().String() + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	if s := parseScrape(t, resp.Body); resp.StatusCode != 200 || s.value("assay_log_entries") != 4 {
		t.Errorf("%d, log entries %v", resp.StatusCode, s.value("assay_log_entries"))
	}
	if resp, _ := l.send("GET", "/metrics", l.admin, "", nil); resp.StatusCode != 404 {
		t.Errorf("on the address of the interface: %d, want 404", resp.StatusCode)
	}
	cancel()
	must(t, <-ended)
}
