package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Settings is all that an operator chooses. What is not here is a named constant.
type Settings struct {
	Data          string        // folder of the keys and, by default, of the database; made if need be
	Database      string        // sqlite:PATH or postgres://…; empty: the SQLite file assay.db in Data
	Listen        string        // host:port to listen on, port 0 for any; empty: the caller serves the handler
	Origin        string        // scheme://host[:port] that agents use and evidence names; empty: that of Listen
	TLS           []string      // PEM files of the certificate with its chain, and of its key, or one file of both; empty: plain HTTP, which only this machine may use
	LogName       string        // name of the log in its checkpoints, fixed at the first start; empty: HOST[:PORT]/log
	Policy        string        // built-in policy, a file, or FILE,KEY: a signed one and the PEM file of whose signature it must bear; empty: confidential-cpu
	Roots         string        // folder of root files that replaces the vendors' pinned roots; empty: those
	References    []string      // files of reference values (assay/references/v1)
	Collateral    string        // folder of collateral files, told apart by content; empty: none
	Fetch         []string      // who is asked for what judging evidence lacks: "vendors", and SERVICE=URL (package collateral) for a service at another address; empty: nobody
	Engine        string        // file of the WASI module of this build's rules (scripts/engine), kept in the log; empty: results name none
	Witnesses     string        // witness policy file (C2SP tlog-policy): nothing is published without its quorum; empty: no witnesses
	DenyListKeys  []string      // PEM files of public keys whose deny lists are believed
	Interval      time.Duration // between two checkpoints; zero: DefaultInterval
	Keys          []string      // where private keys are: a folder (empty: keys in Data), and USE=pkcs11:URI for new keys of a use (package keyring)
	Renew         []string      // at this start: admin-token, ear (key of attestation results), log, result, promise; see KeyOverlap
	MetricsListen string        // host:port that serves metrics to anybody who can reach it; empty: none
	Roles         []string      // what this process does: "api", "publish", "clock"; empty: all
	Mirror        string        // folder that the public part of the log is written to as static files; empty: none
}

// given is what the settings name, read.
type given struct {
	policy       *policy.Policy
	policyFrom   string // built in, not signed, or signed by whom
	roots        attest.Roots
	references   []attest.References
	collateral   []attest.Collateral
	sources      []string // of collateral: the file's name
	denyListKeys [][]byte // SubjectPublicKeyInfo (DER)
	tls          []tls.Certificate
	witnesses    *ledger.WitnessPolicy // nil: none
}

func (s *Settings) complete() error {
	switch {
	case s.Data == "":
		return errors.New("settings: no data folder")
	case len(s.TLS) > 2:
		return fmt.Errorf("settings: TLS: %d files, want one of the certificate and one of its key, or one of both", len(s.TLS))
	case s.Listen == "" && s.Origin == "":
		return errors.New("settings: without an address to listen on, the origin must be named")
	}
	if _, err := s.renewals(); err != nil {
		return err
	}
	if s.Interval == 0 {
		s.Interval = DefaultInterval
	}
	if s.Interval < 0 || s.Interval > MaxInterval {
		return fmt.Errorf("settings: interval %s, want at most %s", s.Interval, MaxInterval)
	}
	if len(s.Roles) == 0 {
		s.Roles = Roles()
	}
	for i, role := range s.Roles {
		switch {
		case !slices.Contains(Roles(), role):
			return fmt.Errorf("settings: role %q is none of %q", role, Roles())
		case slices.Contains(s.Roles[:i], role):
			return fmt.Errorf("settings: role %q is named twice", role)
		}
	}
	if s.Policy == "" {
		s.Policy = "confidential-cpu"
	}
	if s.Database == "" {
		s.Database = "sqlite:" + filepath.Join(s.Data, "assay.db")
	}
	return nil
}

// origin returns the origin in its one spelling.
func (s *Settings) origin(listener net.Listener) (string, error) {
	text := s.Origin
	if text == "" {
		scheme := "http"
		if len(s.TLS) > 0 {
			scheme = "https"
		}
		text = scheme + "://" + listener.Addr().String()
	}
	origin, err := client.Origin(text)
	if err != nil {
		return "", fmt.Errorf("settings: origin: %w", err)
	}
	return origin, nil
}

// read loads the files that the settings name.
func (s *Settings) read() (given, error) {
	g := given{roots: verifier.VendorRoots()}
	var err error
	if g.policy, g.policyFrom, err = inputs.Policy(s.Policy); err != nil {
		return g, err
	}
	if s.Roots != "" {
		if g.roots, err = inputs.Roots(s.Roots); err != nil {
			return g, err
		}
	}
	for _, name := range s.References {
		r, err := inputs.References(name)
		if err != nil {
			return g, err
		}
		g.references = append(g.references, r)
	}
	if s.Collateral != "" {
		if err := g.readCollateral(s.Collateral); err != nil {
			return g, err
		}
	}
	if n := len(s.TLS); n > 0 {
		pair, err := tls.LoadX509KeyPair(s.TLS[0], s.TLS[n-1])
		if err != nil {
			return g, fmt.Errorf("TLS: %s, %s: %w", s.TLS[0], s.TLS[n-1], err)
		}
		g.tls = append(g.tls, pair)
	}
	if s.Witnesses != "" {
		if g.witnesses, err = inputs.WitnessPolicy(s.Witnesses); err != nil {
			return g, err
		}
	}
	for _, name := range s.DenyListKeys {
		_, key, err := inputs.PublicKey(name)
		if err != nil {
			return g, fmt.Errorf("deny list key: %w", err)
		}
		g.denyListKeys = append(g.denyListKeys, key)
	}
	return g, nil
}

func (g *given) readCollateral(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("collateral: %w", err)
	}
	seen := map[canon.Digest]bool{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		items, err := inputs.Collateral(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("collateral: %w", err)
		}
		for _, item := range items {
			if seen[item.Digest()] {
				continue
			}
			seen[item.Digest()] = true
			g.collateral, g.sources = append(g.collateral, item), append(g.sources, e.Name())
		}
	}
	if n := len(g.collateral); n > attest.MaxCollateral {
		return fmt.Errorf("collateral: %d items in %s, at most %d", n, dir, attest.MaxCollateral)
	}
	return nil
}
