package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/assay-network/assay/agent"
)

// Bounds on a scrape and on the wait for one that is under way when the agent ends.
const (
	scrapeTimeout = 10 * time.Second
	stopTimeout   = time.Second
)

// serveMetrics serves the agent's metrics until the returned function is called. The address has to be this machine's
// own: who wants them from afar has a collector here that fetches them.
func serveMetrics(address string, a *agent.Agent) (net.Addr, func() error, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, fmt.Errorf("metrics: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, nil, hinted(fmt.Errorf("metrics: %s is not an address of this machine alone", address), "--metrics 127.0.0.1:9464")
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", agent.MetricsType)
		w.Write(a.Status().Metrics(time.Now())) // who does not read it has gone
	})
	h := &http.Server{Handler: mux, ReadTimeout: scrapeTimeout, WriteTimeout: scrapeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	return l.Addr(), func() error {
		last, stop := context.WithTimeout(context.Background(), stopTimeout)
		defer stop()
		if err := h.Shutdown(last); err != nil {
			return errors.Join(h.Close(), <-ended)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("metrics: %w", err)
		}
		return nil
	}, nil
}
