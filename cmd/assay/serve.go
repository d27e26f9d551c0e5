package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
requests that it has begun.`,
		Example: `  assay serve
  assay serve --data /var/lib/assay --listen 0.0.0.0:8443 --origin https://assay.example \
    --tls-cert cert.pem --tls-key key.pem --reference guests.yaml --collateral amd/`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), s) },
	}
	fl := cmd.Flags()
	fl.StringVar(&s.Data, "data", "", "`FOLDER` of keys and database (default: assay in the user's data folder)")
	fl.StringVar(&s.Listen, "listen", "127.0.0.1:8080", "`HOST:PORT` to listen on")
	fl.StringVar(&s.Origin, "origin", "", "`URL` that agents use, as their evidence names it (default: that of --listen)")
	fl.StringVar(&s.Database, "database", "", "`URL`: sqlite:PATH or postgres://... (default: a SQLite file in the data folder)")
	fl.StringVar(&s.Policy, "policy", "confidential-cpu", "built-in policy or policy `FILE`")
	fl.StringVar(&s.Roots, "roots", "", "`FOLDER` of root files that replaces the vendors' pinned roots")
	fl.StringArrayVar(&s.References, "reference", nil, "`FILE` of reference values (assay/references/v1)")
	fl.StringVar(&s.Collateral, "collateral", "", "`FOLDER` of revocation lists, deny lists and certificates")
	fl.BoolVar(&s.FetchCollateral, "fetch-collateral", false, "ask vendors for what judging evidence lacks")
	fl.StringArrayVar(&s.CollateralURLs, "base-url", nil, "`SERVICE=URL` to ask instead of a vendor's service: "+serviceNames()+"; may be repeated")
	fl.StringArrayVar(&s.DenyListKeys, "deny-list-key", nil, "PEM `FILE` of a public key whose deny lists are believed")
	fl.StringVar(&s.LogName, "log-name", "", "`NAME` of the log, fixed at the first start (default: HOST[:PORT]/log)")
	fl.StringVar(&s.Witnesses, "witnesses", "", "witness policy `FILE` (C2SP tlog-policy): nothing is published without its quorum (default: no witnesses)")
	fl.DurationVar(&s.Interval, "interval", server.DefaultInterval, "time between two checkpoints")
	fl.StringVar(&s.TLSCertificate, "tls-cert", "", "PEM `FILE` of the certificate and its chain")
	fl.StringVar(&s.TLSKey, "tls-key", "", "PEM `FILE` of its key")
	fl.StringVar(&s.MetricsListen, "metrics", "", "`HOST:PORT` that serves Prometheus metrics to whoever can reach it (default: none)")
	fl.BoolVar(&s.RotateEARKey, "rotate-ear-key", false, "sign attestation results with a new key; the old one stays published while results of it are valid")
	fl.BoolVar(&s.RenewAdminToken, "renew-admin-token", false, "end all admin tokens and print another")
	return cmd
}

func (a *app) serve(ctx context.Context, settings server.Settings) (err error) {
	if err := refuseGODEBUG(a.getenv("GODEBUG")); err != nil {
		return err
	}
	if settings.Data, err = a.dataFolder(settings.Data, "assay"); err != nil {
		return err
	}
	s, err := server.New(ctx, settings, server.Deps{Now: a.now, Random: rand.Reader, Log: a.logger()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if !s.VendorRoots() {
		fmt.Fprintf(a.stdout, "NOT VENDOR ROOTS (%s)\n", settings.Roots)
	}
	fmt.Fprintf(a.stdout, "url          %s\n", s.Origin())
	fmt.Fprintf(a.stdout, "policy       %s (sha256 %s)\n", s.Policy().Name, s.Policy().Digest.Short())
	fmt.Fprintf(a.stdout, "log          %s\n", s.Keyset().Log)
	if names := s.Witnesses(); len(names) > 0 {
		fmt.Fprintf(a.stdout, "witnesses    %s\n", strings.Join(names, ", "))
	}
	if at := s.MetricsAddr(); at != nil {
		fmt.Fprintf(a.stdout, "metrics      http://%s/metrics\n", at)
	}
	if token := s.NewAdminToken(); token != "" {
		fmt.Fprintf(a.stdout, "admin token  %s\n", token)
		a.say("the admin token is shown this once and kept nowhere; give it to: assay login %s", s.Origin())
		a.say("then `assay nodes token` makes a token that a node joins with: assay-agent join %s --token TOKEN", s.Origin())
	}
	return s.Run(ctx)
}
