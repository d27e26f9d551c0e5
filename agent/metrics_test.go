package agent_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/assay-network/assay/client"
)

// metrics reads the agent's metrics with Prometheus' own parser.
func (w *world) metrics() map[string]float64 {
	w.t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(w.agent.Status().Metrics(w.clock())))
	must(w.t, err)
	values := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			values[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func (w *world) wantMetrics(when string, want map[string]float64) {
	w.t.Helper()
	got := w.metrics()
	want["log_faults_total"] = 0
	for name, v := range want {
		if have, ok := got["assay_agent_"+name]; !ok || have != v {
			w.t.Errorf("%s: %s is %v (%v), want %v", when, name, have, ok, v)
		}
	}
	if len(got) != len(want) {
		w.t.Errorf("%s: %v, want no others than %v", when, got, want)
	}
}

func TestMetrics(t *testing.T) {
	w := start(t)
	w.wantMetrics("at the start", map[string]float64{"rounds_total": 0, "round_failures_total": 0})
	w.mustRound()
	since := w.agent.Status()
	w.advance(100 * time.Second)
	age := func(at int64) float64 { return float64(w.clock().Unix() - at) }
	w.wantMetrics("accepted", map[string]float64{
		"rounds_total": 1, "round_failures_total": 0, "verdict accept": 1, "verdict reject": 0, "verdict undecided": 0,
		"verdict_age_seconds": age(int64(since.Decided)), "last_accept_age_seconds": age(int64(since.Accepted)), "key_age_seconds": age(int64(since.KeysSince)),
	})
	w.server.Change(func() { w.server.Outcome = client.Reject })
	w.mustRound()
	rejected := w.agent.Status()
	w.advance(10 * time.Second)
	// A reject ends the session keys.
	want := map[string]float64{
		"rounds_total": 2, "round_failures_total": 0, "verdict accept": 0, "verdict reject": 1, "verdict undecided": 0,
		"verdict_age_seconds": age(int64(rejected.Decided)), "last_accept_age_seconds": age(int64(since.Accepted)),
	}
	w.wantMetrics("rejected", want)
	w.server.Change(func() {
		w.server.Refuse = func(string) *client.Problem { return &client.Problem{Status: http.StatusForbidden, Code: "forbidden"} }
	})
	if w.round() == nil {
		t.Fatal("a refused round ended well")
	}
	want["rounds_total"], want["round_failures_total"] = 3, 1
	want["key_age_seconds"] = age(int64(w.agent.Status().KeysSince))
	w.wantMetrics("failed", want)
}
