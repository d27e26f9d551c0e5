package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/server/keyring"
)

const paperPDF = "paper.pdf"

// chromiums are the names of the program that prints a page, the first that is there.
var chromiums = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// paperArgs are the flags of audit paper.
type paperArgs struct {
	trust, out, key, auditor, title, dated, by string
	promises                                   []string
	seed, size, challenge                      int64
	workers                                    int
}

func (a *app) auditPaperCommand() *cobra.Command {
	var p paperArgs
	cmd := &cobra.Command{
		Use:   "paper LOG",
		Short: "Make a signed working paper: replay, population, sample and challenge of a log",
		Long: `Make a signed working paper: replay, population, sample and challenge of a log.

It replays the whole log, ties out the population, draws a sample and computes it
again, challenges the rules, and writes into the folder of --out:

  paper.json       everything, in canonical JSON
  paper.html       the same to read and to print; it asks for nothing from elsewhere
  paper.dsse.json  paper.json, signed with the auditor's key (DSSE)
  paper.pdf        the page, where Chromium is installed

The key is the auditor's own, never one of the log's: PKCS #8 in PEM, Ed25519 or
P-256, plain or encrypted; its passphrase is looked for as assay keys says. The same log, trust file and flags give the same bytes, the PDF apart. Exit
codes: 0 without exception, 1 with exceptions, 2 usage or could not run, 3 undecided.`,
		Example: `  openssl genpkey -algorithm ed25519 -out auditor.pem && chmod 600 auditor.pem
  assay audit paper log.tar --trust trust.yaml --key auditor.pem --auditor 'A. Auditor' --seed 20260201 --out paper
  openssl pkey -in auditor.pem -pubout -out auditor.pub
  assay audit paper verify paper --key auditor.pub`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range []string{"out", "key", "auditor", "seed"} {
				if !c.Flags().Changed(name) {
					return fmt.Errorf("want --%s", name)
				}
			}
			return a.auditPaper(c.Context(), args[0], p)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&p.trust, "trust", "", "trust `FILE` of audit trust init")
	fl.StringVar(&p.out, "out", "", "`FOLDER` to write, empty or new")
	fl.StringVar(&p.key, "key", "", "`FILE` of the auditor's private key")
	fl.StringVar(&p.auditor, "auditor", "", "`NAME` of the auditor")
	fl.StringVar(&p.title, "title", "Working paper: recomputation of a verifier's log", "title of the paper")
	fl.StringVar(&p.dated, "dated", "", "`TIME` that the paper bears, such as 2026-02-01T00:00:00Z (default: none)")
	fl.Int64Var(&p.seed, "seed", 0, "`N` that sample and challenge are drawn by")
	fl.Int64Var(&p.size, "size", 25, "`K` verdicts to sample")
	fl.StringVar(&p.by, "by", audit.ByOutcome, "part the sample by "+strings.Join(audit.Strata, ", "))
	fl.Int64Var(&p.challenge, "challenge", 5, "`K` verdicts to challenge the rules with")
	fl.StringArrayVar(&p.promises, "promise", nil, "`FILE` of a promise that must have been kept; may be repeated")
	fl.IntVar(&p.workers, "workers", runtime.NumCPU(), "`N` appraisals at a time; the paper does not depend on it")
	cmd.AddCommand(a.auditPaperVerifyCommand())
	return cmd
}

func (a *app) auditPaper(ctx context.Context, name string, args paperArgs) (err error) {
	key, err := a.readPrivateKey(args.key)
	if err != nil {
		return err
	}
	o := audit.PaperOptions{Title: args.title, Auditor: args.auditor, Seed: args.seed, Size: args.size, By: args.by, Challenge: args.challenge}
	if o.Key, err = ledger.KeyID(key.Public()); err != nil {
		return err
	}
	if args.dated != "" {
		if o.Dated, err = canon.ParseTime(args.dated); err != nil {
			return fmt.Errorf("--dated: %w", err)
		}
	}
	if o.Build, err = server.ThisBuild(); err != nil {
		return err
	}
	promises, err := readPromises(args.promises)
	if err != nil {
		return err
	}
	trust, err := readTrust(args.trust)
	if err != nil {
		return err
	}
	log, err := a.openLog(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	paper, page, err := audit.MakePaper(ctx, log.Source, trust, audit.Options{Workers: args.workers, Promises: promises, Progress: a.progress(), Engines: log.engines}, o)
	if err != nil {
		return err
	}
	files, err := audit.SealPaper(paper, page, key)
	if err != nil {
		return err
	}
	if err := writeFolder(args.out, files); err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintf(a.stdout, "%s  %s\n", canon.Sum(f.Data), filepath.Join(args.out, f.Name))
	}
	if err := a.printPDF(ctx, args.out); err != nil {
		return err
	}
	a.say("%s", paper.Conclusion)
	return a.conclude(paper.Replay, paper.Outcome)
}

// chromiumSocket is what Chromium makes below the folder for temporary files, and maxSocketPath how long the path of a socket
// may be (unix(7), sun_path with its zero).
const (
	chromiumSocket = "/org.chromium.Chromium.scoped_dir.XXXXXX/SingletonSocket"
	maxSocketPath  = 107
)

// printPDF prints the page with Chromium. Without one there is no PDF, which is said and is no failure.
func (a *app) printPDF(ctx context.Context, folder string) error {
	var program string
	for _, name := range chromiums {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		a.say("no PDF: none of %s is installed; any browser prints %s", strings.Join(chromiums, ", "), audit.PaperHTML)
		return nil
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	profile, err := os.MkdirTemp("", "assay-paper-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	args := []string{"--headless", "--disable-gpu", "--no-pdf-header-footer", "--user-data-dir=" + profile,
		"--print-to-pdf=" + filepath.Join(folder, paperPDF), filepath.Join(folder, audit.PaperHTML)}
	if os.Geteuid() == 0 { // Chromium's sandbox refuses root; the page has no script and loads nothing
		args = append([]string{"--no-sandbox"}, args...)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	if len(os.TempDir())+len(chromiumSocket) > maxSocketPath { // it would give up
		cmd.Env = append(cmd.Environ(), "TMPDIR=/tmp")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		a.say("no PDF: %s: %v: %.200s", program, err, audit.Printable(string(out)))
		return nil
	}
	a.say("printed %s", filepath.Join(folder, paperPDF))
	return nil
}

func (a *app) auditPaperVerifyCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "verify FOLDER",
		Short: "Check that a working paper is the one that an auditor signed",
		Long: `Check that a working paper is the one that an auditor signed.

It says nothing of whether the paper is right: only making it again shows that. Exit
codes: 0 signed by that key, 1 not, 2 usage or could not run.`,
		Example: `  assay audit paper verify paper --key auditor.pub`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if key == "" {
				return errors.New("want --key: the auditor's public key, from elsewhere than the paper")
			}
			return a.auditPaperVerify(args[0], key)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`FILE` of the auditor's public key (PEM)")
	return cmd
}

func (a *app) auditPaperVerify(folder, keyFile string) error {
	_, spki, err := inputs.PublicKey(keyFile)
	if err != nil {
		return err
	}
	var parts []audit.File
	for _, name := range []string{audit.PaperJSON, audit.PaperHTML, audit.PaperEnvelope} {
		data, err := files.Bounded(filepath.Join(folder, name), audit.MaxPaper)
		if err != nil {
			return err
		}
		parts = append(parts, audit.File{Name: name, Data: data})
	}
	p, err := audit.OpenPaper(parts, ledger.Key{SPKI: spki})
	if err != nil {
		return a.fault(err)
	}
	fmt.Fprintf(a.stdout, "signed by key %s: %s, by %s\n%s\n", p.Key, audit.Printable(p.Title), audit.Printable(p.Auditor), audit.Printable(p.Conclusion))
	return nil
}

// readPromises reads promises that submitters hold.
func readPromises(names []string) (out []audit.GivenPromise, err error) {
	for _, file := range names {
		data, err := files.Bounded(file, ledger.MaxEnvelope)
		if err != nil {
			return nil, err
		}
		out = append(out, audit.GivenPromise{Name: file, Data: data})
	}
	return out, nil
}

// privateKey signs with a key from a file, the same message to the same bytes.
type privateKey struct{ crypto.Signer }

// Sign signs as envelopes want it: Ed25519 over the message, ECDSA over its SHA-256 (deterministic, RFC 6979).
func (k privateKey) Sign(message []byte) ([]byte, error) {
	if _, ok := k.Signer.(ed25519.PrivateKey); ok {
		return k.Signer.Sign(nil, message, crypto.Hash(0))
	}
	sum := sha256.Sum256(message)
	return k.Signer.Sign(nil, sum[:], crypto.SHA256)
}

// readOwnKey reads the key of a flag. Without one: nil.
func (a *app) readOwnKey(name string) (ledger.Signer, error) {
	if name == "" {
		return nil, nil
	}
	return a.readPrivateKey(name)
}

// readPrivateKey reads a private key of one's own, Ed25519 or P-256, as [keyring.ReadFile] does.
func (a *app) readPrivateKey(name string) (privateKey, error) {
	key, err := keyring.ReadFile(name, keyring.Secrets{Getenv: a.getenv})
	if err != nil {
		return privateKey{}, err
	}
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return privateKey{k}, nil
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return privateKey{k}, nil
		}
	}
	return privateKey{}, fmt.Errorf("%s: a %T, want an Ed25519 or P-256 key", name, key)
}
