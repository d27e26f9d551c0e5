package server

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server/keyring"
)

//go:embed witness_migrations/*.sql
var witnessMigrations embed.FS

// WitnessType is the type of a witness's document.
const WitnessType = "assay/witness/v1"

// Names in the data folder of a witness.
const (
	fileWitness    = "witness.yaml" // the document
	fileWitnessKey = "witness.pem"  // in the folder of keys
	fileWitnessDB  = "witness.db"
)

// WitnessDocument is what a witness's operator writes: what it is called, and whose logs it watches.
type WitnessDocument struct {
	Type string   `json:"type"`
	Name string   `json:"name"` // of its key, a URL without scheme by custom
	Logs []string `json:"logs"` // verifier keys; one origin may have several
}

// Witness cosigns the checkpoints of logs of others (C2SP tlog-witness): each that continues the one it cosigned last. It
// judges no entry and sees none. Its memory of what it cosigned is its whole worth: whoever sets its database back lets a
// log show it another history. Several processes may share the data folder.
type Witness struct {
	document WitnessDocument
	key      *keyring.Key
	vkey     string
	db       *sqldb.DB
	now      func() time.Time
	log      *slog.Logger
	listener net.Listener
}

// InitWitness makes the data folder, the key and the document of a new witness, and returns its verifier key. A folder
// that has a document or a key is left as it is.
func InitWitness(data, name string, logs []string, deps Deps) (vkey string, err error) {
	path := filepath.Join(data, fileWitness)
	keyPath := filepath.Join(KeysFolder(data), fileWitnessKey)
	for _, p := range []string{path, keyPath} {
		if _, err := os.Stat(p); err == nil {
			return "", fmt.Errorf("witness: %s is there already", p)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("witness: %w", err)
		}
	}
	public, private, err := ed25519.GenerateKey(deps.Random)
	if err != nil {
		return "", fmt.Errorf("witness: %w", err)
	}
	if vkey, err = ledger.WitnessVKey(name, public); err != nil {
		return "", err
	}
	text := "# A witness of transparency logs. Whoever asks for its cosignatures names it so:\n#   " + vkey +
		"\ntype: " + WitnessType + "\nname: " + strconv.Quote(name) + "\n# Verifier keys of the logs that it watches: origin+hash+key, as `assay serve` prints them.\nlogs:"
	for _, l := range logs {
		if _, _, err := ledger.ParseLogVKey(l); err != nil {
			return "", err
		}
		text += "\n  - " + strconv.Quote(l)
	}
	if len(logs) == 0 {
		text += " []"
	}
	if err := files.Folder(KeysFolder(data)); err != nil {
		return "", fmt.Errorf("witness: %w", err)
	}
	if err := keyring.NewFile(keyPath, private, keyring.Secrets{Getenv: deps.Getenv}); err != nil {
		return "", fmt.Errorf("witness: %w", err)
	}
	if err := files.Create(path, []byte(text+"\n")); err != nil {
		return "", fmt.Errorf("witness: %w", err)
	}
	return vkey, nil
}

// NewWitness opens the data folder of a witness and listens on an address; an empty one: the caller serves the handler.
// Close ends it.
func NewWitness(ctx context.Context, data, listen string, deps Deps) (_ *Witness, err error) {
	w := &Witness{now: deps.Now, log: deps.Log}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if w.document, err = readWitness(filepath.Join(data, fileWitness)); err != nil {
		return nil, err
	}
	if w.key, err = keyring.LoadFile(filepath.Join(KeysFolder(data), fileWitnessKey), keyring.Secrets{Getenv: deps.Getenv}); err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	public, ok := w.key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("witness: key is a %T, want Ed25519", w.key.Public())
	}
	if w.vkey, err = ledger.WitnessVKey(w.document.Name, public); err != nil {
		return nil, err
	}
	if w.db, err = sqldb.Open(ctx, "sqlite:"+filepath.Join(data, fileWitnessDB)); err != nil {
		return nil, err
	}
	sub, err := fs.Sub(witnessMigrations, "witness_migrations")
	if err != nil {
		panic("server: internal error: embedded migrations: " + err.Error())
	}
	if err := w.db.Migrate(ctx, sub); err != nil {
		return nil, err
	}
	if listen != "" {
		if w.listener, err = net.Listen("tcp", listen); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func readWitness(path string) (WitnessDocument, error) {
	var d WitnessDocument
	data, err := files.Bounded(path, doc.MaxSize)
	if err != nil {
		return d, fmt.Errorf("witness: %w", err)
	}
	at, err := doc.Decode(path, data, &d)
	if err != nil {
		return d, err
	}
	if d.Type != WitnessType {
		return d, at.Errorf("/type", "type %.80q is not known to this build, want %q", d.Type, WitnessType)
	}
	for i, l := range d.Logs {
		if _, _, err := ledger.ParseLogVKey(l); err != nil {
			return d, at.Errorf("/logs/"+strconv.Itoa(i), "%v", err)
		}
	}
	return d, nil
}

// VKey returns the verifier key of the witness.
func (w *Witness) VKey() string { return w.vkey }

// Logs returns how many keys of logs the witness knows.
func (w *Witness) Logs() int { return len(w.document.Logs) }

// Addr returns the address that is listened on, or nil.
func (w *Witness) Addr() net.Addr { return addr(w.listener) }

// Close closes the listener and the database.
func (w *Witness) Close() error {
	err := closeListeners(w.listener)
	if w.db != nil {
		err = errors.Join(err, w.db.Close())
	}
	return err
}

// Run answers logs until the context ends.
func (w *Witness) Run(ctx context.Context) error {
	return serveHTTP(ctx, w.log, w.listener, w.Handler(), nil)
}

// Handler returns the HTTP interface: POST /add-checkpoint, below whatever prefix the caller puts before it.
func (w *Witness) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", w.addCheckpoint)
	return mux
}

// sizeType is the media type of the size that a witness cosigned last.
const sizeType = "text/x.tlog.size"

// witnessStatus is the one place that maps a reason not to cosign to a status (C2SP tlog-witness, "add-checkpoint").
var witnessStatus = []struct {
	reason error
	status int
}{
	{ledger.ErrUnknownLog, http.StatusNotFound},
	{ledger.ErrLogSignature, http.StatusForbidden},
	{ledger.ErrOldSize, http.StatusBadRequest},
	{ledger.ErrOtherSize, http.StatusConflict},
	{ledger.ErrOtherRoot, http.StatusConflict},
	{ledger.ErrInconsistent, http.StatusUnprocessableEntity},
}

func (w *Witness) addCheckpoint(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), RequestTimeout)
	defer cancel()
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.Header().Set("Cache-Control", "no-store")
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, ledger.MaxAddCheckpoint))
	var req ledger.AddCheckpoint
	if err == nil {
		req, err = ledger.ParseAddCheckpoint(body)
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	line, last, err := w.cosign(ctx, req)
	if err == nil {
		rw.Header().Set("Content-Type", textType)
		io.WriteString(rw, line) // who does not read it asks again
		return
	}
	for _, s := range witnessStatus {
		if !errors.Is(err, s.reason) {
			continue
		}
		w.log.Warn("not cosigned", "reason", err)
		if s.reason == ledger.ErrOtherSize {
			rw.Header().Set("Content-Type", sizeType)
			rw.WriteHeader(s.status)
			fmt.Fprintf(rw, "%d\n", last.Size)
			return
		}
		http.Error(rw, s.reason.Error(), s.status)
		return
	}
	w.log.Error("a request failed", "error", err)
	http.Error(rw, "the fault is logged", http.StatusInternalServerError)
}

// cosign answers a request: the signature line, or the tree that was cosigned last and the reason. What is cosigned is on
// the disk before the line leaves, and the row is held from the comparison to there, so that of two requests at one time
// the second sees what the first left.
func (w *Witness) cosign(ctx context.Context, req ledger.AddCheckpoint) (line string, last ledger.Tree, err error) {
	c, err := req.OpenFor(w.document.Logs)
	if err != nil {
		return "", last, err
	}
	err = w.db.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO cosigned(origin, size, root, note, time) VALUES ($1, 0, $2, '', 0) ON CONFLICT (origin) DO NOTHING`, c.Origin, make([]byte, len(canon.Digest{}))); err != nil {
			return fmt.Errorf("begin a log: %w", err)
		}
		var root []byte
		var before int64
		err := tx.QueryRowContext(ctx, `SELECT size, root, time FROM cosigned WHERE origin = $1`+w.db.ForUpdate(), c.Origin).Scan(&last.Size, &root, &before)
		if err != nil {
			return fmt.Errorf("read what was cosigned last: %w", err)
		}
		if copy(last.Root[:], root) != len(last.Root) {
			return errors.New("damaged database: a root of another length")
		}
		if err := req.Continues(last, c); err != nil {
			return fmt.Errorf("log %q, size %d after %d: %w", c.Origin, c.Size, last.Size, err)
		}
		// A cosignature says that nothing larger was seen by its time, so times of one log never go back.
		now := canon.At(w.now())
		if now < canon.Time(before) {
			return fmt.Errorf("the clock says %s, the last cosignature was made at %s", now, canon.Time(before))
		}
		if line, err = ledger.Cosign(c, w.document.Name, w.key, now); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE cosigned SET size = $1, root = $2, note = $3, time = $4 WHERE origin = $5`, c.Size, c.Root[:], string(req.Note), int64(now), c.Origin); err != nil {
			return fmt.Errorf("store what is cosigned: %w", err)
		}
		return nil
	})
	if errors.Is(err, ledger.ErrOtherRoot) {
		w.log.Error("the log has two histories: its key signed two roots of one size", "alarm", true, "log", c.Origin, "size", c.Size, "refused", string(req.Note))
	}
	if err != nil {
		return "", last, err
	}
	w.log.Info("cosigned", "log", c.Origin, "size", c.Size, "after", last.Size)
	return line, last, nil
}
