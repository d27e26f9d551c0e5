package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what an operator watches, in Prometheus' text format on an address of their own (Settings.MetricsListen):
// they are for whoever can reach that address, so it belongs to this machine or a private network. Values of labels are
// of closed lists; nothing that a provider or a stranger sends becomes one.
//
//	assay_http_requests_total{route,code}    requests answered, by route and HTTP status; route "other": no such route
//	assay_http_refusals_total{route,code}    those refused, by the code of their problem document: the door's are
//	                                         those with route "POST /v1/evidence"
//	assay_evidence_total{outcome}            submissions decided: accept, reject, undecided
//	assay_appraisal_seconds                  histogram: one submission from its bytes to its verdict, storing apart
//	assay_alarms_total                       faults of ours that somebody has to look at
//	assay_evidence_waiting                   submissions that are promised and not decided
//	assay_log_entries                        entries of all logs, the waiting ones included
//	assay_log_pending_entries                entries that no checkpoint covers yet
//	assay_log_waiting_age_seconds            for which the oldest of them has waited: over 60, a promise is broken
//	assay_log_published_age_seconds          since the newest checkpoint; it grows while nothing is pending, too
//	assay_witness_age_seconds{witness}       since a witness of the policy cosigned last; of the process that publishes.
//	                                         A good one stays below the minute or so after which checkpoints are cosigned anew
//
// Counters and the histogram are of this process since its start, the rest is of the database at the moment of the scrape.
// The process and Go collectors of the client library stand beside them.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	evidence  *prometheus.CounterVec
	appraisal prometheus.Histogram
	alarms    prometheus.Counter
}

const (
	labelRoute   = "route"
	labelCode    = "code"
	labelOutcome = "outcome"
	labelWitness = "witness"
	routeOther   = "other"
)

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "assay_http_requests_total", Help: "Requests answered, by route and HTTP status."}, []string{labelRoute, labelCode}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "assay_http_refusals_total", Help: "Requests refused, by route and code of the problem document."}, []string{labelRoute, labelCode}),
		evidence: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "assay_evidence_total", Help: "Submissions decided, by outcome."}, []string{labelOutcome}),
		appraisal: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "assay_appraisal_seconds", Help: "One submission from its bytes to its verdict, storing apart.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}), // 0.5 ms to 4 s
		alarms: prometheus.NewCounter(prometheus.CounterOpts{Name: "assay_alarms_total", Help: "Faults of the server that somebody has to look at."}),
	}
	m.registry.MustRegister(m.requests, m.refusals, m.evidence, m.appraisal, m.alarms, stored{s},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Metrics returns the handler of a scrape. It asks for no credential.
func (s *Server) Metrics() http.Handler {
	return promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// stored collects what the database says. A value that cannot be read is left out of the scrape.
type stored struct{ s *Server }

var (
	descWaiting = prometheus.NewDesc("assay_evidence_waiting", "Submissions that are promised and not decided.", nil, nil)
	descEntries = prometheus.NewDesc("assay_log_entries", "Entries of all logs, the waiting ones included.", nil, nil)
	descPending = prometheus.NewDesc("assay_log_pending_entries", "Entries that no checkpoint covers yet.", nil, nil)
	descWaited  = prometheus.NewDesc("assay_log_waiting_age_seconds", "Seconds for which the oldest entry that no checkpoint covers has waited.", nil, nil)
	descAge     = prometheus.NewDesc("assay_log_published_age_seconds", "Seconds since the newest checkpoint.", nil, nil)
	descWitness = prometheus.NewDesc("assay_witness_age_seconds", "Seconds since the witness cosigned last.", []string{labelWitness}, nil)
)

func (c stored) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descWaiting, descEntries, descPending, descWaited, descAge, descWitness} {
		ch <- d
	}
}

func (c stored) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), ScrapeTimeout)
	defer cancel()
	if err := c.collect(ctx, ch); err != nil {
		c.s.log.Warn("metrics are incomplete", "error", err)
	}
}

func (c stored) collect(ctx context.Context, ch chan<- prometheus.Metric) error {
	gauge := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	b, err := c.s.backlog(ctx)
	if err == nil {
		gauge(descEntries, b.progress.Entries)
		gauge(descPending, b.progress.Entries-b.progress.Published)
		gauge(descWaited, int64(b.waited))
	}
	var published Published
	log, publishedErr := c.s.store.Newest(ctx)
	if publishedErr == nil {
		published, publishedErr = log.Published(ctx)
	}
	if publishedErr == nil {
		gauge(descAge, max(0, int64(c.s.time()-published.Time)))
	}
	if errors.Is(publishedErr, fs.ErrNotExist) {
		publishedErr = nil
	}
	if _, ours := c.s.turns.of(RolePublish); ours && c.s.witnesses != nil {
		c.s.witnesses.ages(func(name string, age int64) {
			ch <- prometheus.MustNewConstMetric(descWitness, prometheus.GaugeValue, float64(age), name)
		})
	}
	var waiting int64
	waitingErr := c.s.store.db.Reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM submission WHERE due IS NOT NULL`).Scan(&waiting)
	if waitingErr == nil {
		gauge(descWaiting, waiting)
	} else {
		waitingErr = fmt.Errorf("count submissions: %w", waitingErr)
	}
	return errors.Join(err, publishedErr, waitingErr)
}

// answerNotes is an answer under way, and what metrics note of it.
type answerNotes struct {
	http.ResponseWriter
	status int    // 0: nothing is written yet
	code   string // of a refusal
}

func (a *answerNotes) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answerNotes) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (a *answerNotes) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// noteRefusal notes the code of a refusal that is about to be written to w.
func noteRefusal(w http.ResponseWriter, code string) {
	if a, ok := w.(*answerNotes); ok {
		a.code = code
	}
}

// answered counts an answer. pattern is the route that took the request, as the multiplexer names it.
func (m *metrics) answered(pattern string, a *answerNotes) {
	if pattern == "" || pattern == patternOther {
		pattern = routeOther
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	m.requests.WithLabelValues(pattern, strconv.Itoa(a.status)).Inc()
	if a.code != "" {
		m.refusals.WithLabelValues(pattern, a.code).Inc()
	}
}

// decided counts a verdict.
func (m *metrics) decided(outcome string, took time.Duration) {
	m.evidence.WithLabelValues(outcome).Inc()
	m.appraisal.Observe(took.Seconds())
}
