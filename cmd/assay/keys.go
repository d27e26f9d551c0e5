package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/server/keyring"
)

const keysHelp = `Look after the private keys of a server.

A server has one key for each use: log (checkpoints, and who may change keys), result
(verdicts), promise (promises) and ear (attestation results). They are PKCS #8 files
of the folder keys in its data folder, for their owner alone, or are in a PKCS #11
token: assay serve --keys 'USE=pkcs11:token=LABEL?module-path=LIBRARY' makes new
keys of that use there (in a build with the tag pkcs11).

Passphrase and PIN are never on a command line, which every user of a machine can
read. The passphrase of the files is looked for in ASSAY_KEY_PASSPHRASE, in the file
that ASSAY_KEY_PASSPHRASE_FILE names, and in the systemd credential
assay-key-passphrase; where there is one, new files are encrypted under it. The PIN
of a token is in the file that pin-source of its URI names, in ASSAY_PKCS11_PIN,
ASSAY_PKCS11_PIN_FILE, or the credential assay-pkcs11-pin.

assay serve --renew log,result,promise,ear puts new keys in the place of the old ones,
by an entry of the log that the log key signs. The old key stands beside the new one
for a day, so that agents, tokens and other processes have time to follow, and then
its file goes. --renew USE:now ends the old key at once: for one that was lost to
somebody. Back up the folder: a log whose log key is lost ends there.`

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "keys",
		Short:   "List, encrypt and decrypt the private keys of a server",
		Long:    keysHelp,
		Example: "  assay keys list\n  ASSAY_KEY_PASSPHRASE_FILE=/run/phrase assay keys encrypt\n  assay serve --renew result",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var at keysArgs
	list := &cobra.Command{
		Use: "list", Short: "List the keys of the log and of the folder, with their times",
		Example: "  assay keys list --data /var/lib/assay", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.listKeys(c.Context(), at) },
	}
	list.Flags().StringVar(&at.database, "database", "", "`URL`: sqlite:PATH or postgres://... (default: a SQLite file in the data folder)")
	list.Flags().StringVarP(&at.output, "output", "o", "text", "text or jsonl")
	encrypt := &cobra.Command{
		Use: "encrypt [FILE...]", Short: "Encrypt key files, or change their passphrase",
		Long: `Encrypt key files, or change their passphrase.

Without FILE, all key files of the folder. The passphrase is looked for as assay serve
does, see assay keys. Where a new one is in ASSAY_KEY_NEW_PASSPHRASE, in the file that
ASSAY_KEY_NEW_PASSPHRASE_FILE names, or in the systemd credential
assay-key-new-passphrase, the files are written under that one. Whoever was
interrupted runs it again: either passphrase opens a file meanwhile.`,
		Example: "  ASSAY_KEY_PASSPHRASE_FILE=/run/phrase assay keys encrypt --data /var/lib/assay",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.rewriteKeys(at, args, "encrypted", keyring.Encrypt)
		},
	}
	decrypt := &cobra.Command{
		Use: "decrypt [FILE...]", Short: "Write encrypted key files plain",
		Example: "  ASSAY_KEY_PASSPHRASE_FILE=/run/phrase assay keys decrypt --data /var/lib/assay",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.rewriteKeys(at, args, "plain", keyring.Decrypt)
		},
	}
	for _, c := range []*cobra.Command{list, encrypt, decrypt} {
		c.Flags().StringVar(&at.data, "data", "", "data `FOLDER` of the server (default: assay in the user's data folder)")
		c.Flags().StringVar(&at.folder, "keys", "", "`FOLDER` of the key files (default: keys in the data folder)")
		cmd.AddCommand(c)
	}
	return cmd
}

type keysArgs struct{ data, database, folder, output string }

// keyFolder returns the folder of the key files.
func (a *app) keyFolder(at keysArgs) (string, error) {
	if at.folder != "" {
		return at.folder, nil
	}
	data, err := a.dataFolder(at.data, "assay")
	return server.KeysFolder(data), err
}

func (a *app) rewriteKeys(at keysArgs, paths []string, how string, rewrite func([]string, keyring.Secrets) ([]string, error)) error {
	if len(paths) == 0 {
		folder, err := a.keyFolder(at)
		if err != nil {
			return err
		}
		files, err := keyring.Files(folder)
		if err != nil {
			return err
		}
		for _, f := range files {
			paths = append(paths, f.Path)
		}
	}
	done, err := rewrite(paths, keyring.Secrets{Getenv: a.getenv})
	for _, path := range done {
		fmt.Fprintf(a.stdout, "%s  %s\n", how, path)
	}
	if err == nil && len(done) == 0 {
		a.say("nothing to do")
	}
	return err
}

// keyRow is one key of a listing.
type keyRow struct {
	Use   string       `json:"use"`
	ID    canon.Digest `json:"id"`
	From  canon.Time   `json:"from,omitzero"`  // absent: the log does not name it
	Until canon.Time   `json:"until,omitzero"` // absent: no end is fixed
	State string       `json:"state"`          // stands, ended, or not in the log
	Place string       `json:"place"`          // of the private half: plain file, encrypted file, not in the folder
}

func (a *app) listKeys(ctx context.Context, at keysArgs) error {
	if at.output != "text" && at.output != "jsonl" {
		return fmt.Errorf("output %q: want text or jsonl", at.output)
	}
	folder, err := a.keyFolder(at)
	if err != nil {
		return err
	}
	keys, err := a.loggedKeys(ctx, at)
	if err != nil {
		return err
	}
	files, err := keyring.Files(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var rows []keyRow
	for _, k := range keys {
		row := keyRow{Use: k.Use, ID: k.ID(), From: k.From, Until: k.Until, State: "stands", Place: "not in the folder"}
		if k.Ended(canon.At(a.now())) {
			row.State = "ended"
		}
		if i := slices.IndexFunc(files, func(f keyring.File) bool { return f.Use == k.Use && f.ID == row.ID }); i >= 0 {
			row.Place = placeOf(files[i])
			files = slices.Delete(files, i, i+1)
		}
		rows = append(rows, row)
	}
	for _, f := range files {
		rows = append(rows, keyRow{Use: f.Use, ID: f.ID, State: "not in the log", Place: placeOf(f)})
	}
	return a.printKeys(rows, at.output)
}

func placeOf(f keyring.File) string {
	if f.Encrypted {
		return "encrypted file"
	}
	return "plain file"
}

// loggedKeys returns the keys that the log of a server has had.
func (a *app) loggedKeys(ctx context.Context, at keysArgs) (keys []ledger.Key, err error) {
	database := at.database
	if database == "" {
		data, err := a.dataFolder(at.data, "assay")
		if err != nil {
			return nil, err
		}
		path := filepath.Join(data, "assay.db")
		if _, err := os.Stat(path); err != nil { // opening would make the file
			return nil, err
		}
		database = "sqlite:" + path
	}
	store, err := server.OpenStore(ctx, database, neverRandom{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	history, err := store.Keys(ctx)
	return history.Keys(), err
}

func (a *app) printKeys(rows []keyRow, output string) error {
	if output == "jsonl" {
		for _, row := range rows {
			b, err := canon.Marshal(row)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s\n", b)
		}
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "USE\tKEY\tFROM\tUNTIL\tSTATE\tPRIVATE HALF")
	for _, row := range rows {
		from, until := "", ""
		if row.From != 0 {
			from = row.From.String()
		}
		if row.Until != 0 {
			until = row.Until.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", row.Use, row.ID.Short(), from, until, row.State, row.Place)
	}
	return w.Flush()
}
