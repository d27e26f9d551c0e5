package agent

import (
	"bytes"
	"fmt"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

// MetricsType is the media type of [Status.Metrics].
const MetricsType = "text/plain; version=0.0.4; charset=utf-8"

// Metrics returns what the agent last learned in Prometheus' text exposition format, at a time of the machine's clock.
// What is not known yet is left out. It is written by hand, because a client library would make up a third of a program
// whose digest people have to trust; and it names no node, key, verifier or fault.
//
//	assay_agent_rounds_total                  rounds that ended since the agent began
//	assay_agent_round_failures_total          of them, without a verdict
//	assay_agent_log_faults_total              things that the log did and must not do, found since the agent began
//	assay_agent_verdict{verdict}              1 for the last verdict, 0 for the others: accept, reject, undecided
//	assay_agent_verdict_age_seconds           since the agent learned it
//	assay_agent_last_accept_age_seconds       since it last learned of an accept
//	assay_agent_key_age_seconds               since the session keys were made; absent while there are none
func (s Status) Metrics(now time.Time) []byte {
	var b bytes.Buffer
	metric := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	metric("assay_agent_rounds_total", "counter", "Rounds that ended since the agent began.")
	fmt.Fprintf(&b, "assay_agent_rounds_total %d\n", s.Rounds)
	metric("assay_agent_round_failures_total", "counter", "Rounds that ended without a verdict.")
	fmt.Fprintf(&b, "assay_agent_round_failures_total %d\n", s.Failures)
	metric("assay_agent_log_faults_total", "counter", "Things that the log did and must not do.")
	fmt.Fprintf(&b, "assay_agent_log_faults_total %d\n", s.LogFaults)
	if s.Decided != 0 {
		metric("assay_agent_verdict", "gauge", "1 for the last verdict, 0 for the others.")
		for _, outcome := range []string{client.Accept, client.Reject, client.Undecided} {
			is := 0
			if s.Decision.Outcome == outcome {
				is = 1
			}
			fmt.Fprintf(&b, "assay_agent_verdict{verdict=%q} %d\n", outcome, is)
		}
	}
	for _, age := range []struct {
		name, help string
		since      canon.Time
	}{
		{"assay_agent_verdict_age_seconds", "Seconds since the agent learned the last verdict.", s.Decided},
		{"assay_agent_last_accept_age_seconds", "Seconds since the agent last learned of an accept.", s.Accepted},
		{"assay_agent_key_age_seconds", "Seconds since the session keys were made.", s.KeysSince},
	} {
		if age.since != 0 {
			metric(age.name, "gauge", age.help)
			fmt.Fprintf(&b, "%s %d\n", age.name, max(0, int64(canon.At(now)-age.since)))
		}
	}
	return b.Bytes()
}
