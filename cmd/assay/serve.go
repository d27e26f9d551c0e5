package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

func (a *app) serveCommand() *cobra.Command {
	var s server.Settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a verifier: challenges, evidence, verdicts, and the log that holds them",
		Long: `Run a verifier: challenges, evidence, verdicts, and the log that holds them.

Everything is embedded: the database is a file in the data folder, beside the keys.
The first start prints an admin token, once. It ends on an interrupt, after the
requests that it has begun.

Any number of processes may share one PostgreSQL database and one set of keys. Each
has the roles that --role names, by default all: api answers requests, publish signs
the log, clock appraises. Of the last two, one process at a time has its turn; when it
dies, another takes over.`,
		Example: `  assay serve
  assay serve --data /var/lib/assay --listen 0.0.0.0:8443 --origin https://assay.example \
    --tls cert.pem --tls key.pem --reference guests.yaml --collateral amd/
  assay serve --database postgres://assay@db/assay --role publish,clock --origin https://assay.example --mirror /srv/log`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), s) },
	}
	fl := cmd.Flags()
	fl.StringVar(&s.Data, "data", "", "`FOLDER` of keys and database (default: assay in the user's data folder)")
	fl.StringVar(&s.Listen, "listen", "127.0.0.1:8080", "`HOST:PORT` to listen on")
	fl.StringVar(&s.Origin, "origin", "", "`URL` that agents use, as their evidence names it (default: that of --listen)")
	fl.StringVar(&s.Database, "database", "", "`URL`: sqlite:PATH or postgres://... (default: a SQLite file in the data folder)")
	fl.StringVar(&s.Policy, "policy", "confidential-cpu", "built-in policy or policy `FILE`, FILE,KEY.pem for a signed one")
	fl.StringVar(&s.Roots, "roots", "", "`FOLDER` of root files that replaces the vendors' pinned roots")
	fl.StringArrayVar(&s.References, "reference", nil, "`FILE` of reference values (assay/references/v1)")
	fl.StringVar(&s.Collateral, "collateral", "", "`FOLDER` of revocation lists, deny lists and certificates")
	fl.StringArrayVar(&s.Fetch, "fetch", nil, "`WHERE` to ask for what judging evidence lacks: vendors, or SERVICE=URL for one service at another address ("+serviceNames()+"); may be repeated")
	fl.StringVar(&s.Engine, "engine", "", "`FILE` of the WASI module of this build's rules, which the log keeps and every result names")
	fl.StringArrayVar(&s.DenyListKeys, "deny-list-key", nil, "PEM `FILE` of a public key whose deny lists are believed")
	fl.StringVar(&s.LogName, "log-name", "", "`NAME` of the log, fixed at the first start (default: HOST[:PORT]/log)")
	fl.StringVar(&s.Witnesses, "witnesses", "", "witness policy `FILE` (C2SP tlog-policy): nothing is published without its quorum (default: no witnesses)")
	fl.DurationVar(&s.Interval, "interval", server.DefaultInterval, "time between two checkpoints")
	fl.StringArrayVar(&s.TLS, "tls", nil, "PEM `FILE` of the certificate and its chain, then again for its key; one file may hold both")
	fl.StringVar(&s.MetricsListen, "metrics", "", "`HOST:PORT` that serves Prometheus metrics to whoever can reach it (default: none)")
	fl.StringArrayVar(&s.Keys, "keys", nil, "`PLACE` of private keys: a folder (default: keys in the data folder), or USE=pkcs11:URI, where new keys of a use are made; may be repeated")
	fl.StringSliceVar(&s.Renew, "renew", nil, "`WHAT` to renew at this start: admin-token, ear, log, result, promise (help: assay keys)")
	fl.StringSliceVar(&s.Roles, "role", server.Roles(), "`ROLE` of this process, of those that share a database: api, publish, clock; may be repeated")
	fl.StringVar(&s.Mirror, "mirror", "", "`FOLDER` that checkpoints and tiles of the log are written to as static files; processes that share one take over from each other (default: none)")
	return cmd
}

func (a *app) serve(ctx context.Context, settings server.Settings) (err error) {
	if err := refuseGODEBUG(a.getenv("GODEBUG")); err != nil {
		return err
	}
	if settings.Data, err = a.dataFolder(settings.Data, "assay"); err != nil {
		return err
	}
	s, err := server.New(ctx, settings, server.Deps{Now: a.now, Random: rand.Reader, Getenv: a.getenv, Log: a.logger()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if !s.VendorRoots() {
		fmt.Fprintf(a.stdout, "NOT VENDOR ROOTS (%s)\n", settings.Roots)
	}
	fmt.Fprintf(a.stdout, "url          %s\n", s.Origin())
	fmt.Fprintf(a.stdout, "policy       %s (sha256 %s), %s\n", s.Policy().Name, s.Policy().Digest.Short(), s.PolicyFrom())
	keys := s.Keyset()
	for i, vkey := range keys.LogVKeys(canon.At(a.now())) {
		if i == 0 {
			fmt.Fprintf(a.stdout, "log          %s\n", vkey)
		} else {
			fmt.Fprintf(a.stdout, "log too      %s, until %s\n", vkey, keys.Standing(ledger.UseLog, canon.At(a.now()))[i].Until)
		}
	}
	if names := s.Witnesses(); len(names) > 0 {
		fmt.Fprintf(a.stdout, "witnesses    %s\n", strings.Join(names, ", "))
	}
	if at := s.MetricsAddr(); at != nil {
		fmt.Fprintf(a.stdout, "metrics      http://%s/metrics\n", at)
	}
	if token := s.NewAdminToken(); token != "" {
		fmt.Fprintf(a.stdout, "admin token  %s\n", token)
		a.say("the admin token is shown this once and kept nowhere; give it to: assay login %s", s.Origin())
		a.say("then `assay nodes token` makes a token that a node joins with: assay-agent join %s --token-file FILE", s.Origin())
	}
	return s.Run(ctx)
}
