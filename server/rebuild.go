package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// folded are the tables that follow from the entries of the log and their blobs. All others hold what no log has: blobs,
// signed notes, secrets, what the operator set; those are carried over as they are.
var folded = []string{
	"arrival", "log", "entry", "run_filter", "stream", "tile", "heads", "stream_head",
	"node", "device", "challenge", "submission", "activation", "tpm_clock", "issue", "erased", "benchmark",
	"inventory", "inventory_device", "retired", "placement", "shown", "device_alias",
	"machine", "machine_end", "place_unit", "vetted", "appraised", "provider", "observed", "notice",
}

// leases belong to running processes.
const tableLease = "lease"

// Rebuilt says what a rebuilding found.
type Rebuilt struct {
	ledger.Tree          // of the newest log, with every entry in it
	Logs        int64    // that there are
	Entries     int64    // of all logs
	Carried     []string // tables that are copies
	Running     []string // roles that processes have of the old database: its log goes on there, so the new one is a copy to look at
}

// Rebuild folds the logs of one database into another, empty one, of either kind: the trees and every table of state are
// computed from the entries and their blobs alone, and what no log has is carried over. The new database is that of the
// same logs, entries and promises included. The old one is brought to this build's version, else nothing in it changes; no
// process may write to it meanwhile, since the log would go on in two places. A blob folder is the new one's from then on.
//
// It all happens in one transaction: a rebuilding that fails leaves the new database empty. It fails where the entries do
// not make the tree of a log's newest checkpoint, or where state that no log has, such as the signature of a promise, does not
// fit the entry. It recomputes no appraisal and checks no signature: that is what an audit does. What is not nil of
// progress is told of it.
func Rebuild(ctx context.Context, from, to string, random io.Reader, progress func(stage string, done, total int64)) (Rebuilt, error) {
	old, err := OpenStore(ctx, from, random)
	if err != nil {
		return Rebuilt{}, fmt.Errorf("rebuild from: %w", err)
	}
	defer old.Close()
	s, err := OpenStore(ctx, to, random)
	if err != nil {
		return Rebuilt{}, fmt.Errorf("rebuild to: %w", err)
	}
	var done Rebuilt
	err = old.db.Snapshot(ctx, func(src *sql.Tx) error {
		return s.db.Tx(ctx, func(dst *sql.Tx) error {
			b := rebuild{old: old, src: src, dst: dst, db: s.db, progress: progress}
			if err := b.run(ctx); err != nil {
				return err
			}
			done = b.done
			return nil
		})
	})
	if err := errors.Join(err, s.Close()); err != nil {
		return Rebuilt{}, fmt.Errorf("rebuild: %w", err)
	}
	return done, nil
}

// rebuild is a rebuilding under way.
type rebuild struct {
	old      *Store
	src, dst *sql.Tx
	db       *sqldb.DB // of dst
	done     Rebuilt
	progress func(stage string, done, total int64) // nil: nobody asks

	rules vetting.History // of all logs

	// Of the log that is folded.
	log    int64
	from   int64        // place of its first entry
	first  ledger.Entry // that
	tails  map[string]ledger.Tail
	edge   ledger.Edge
	heads  int64         // place of its newest heads entry
	closes ledger.Closes // what the newest entry says
}

func (b *rebuild) run(ctx context.Context) error {
	var entries int64
	if err := b.dst.QueryRowContext(ctx, `SELECT next FROM arrival`).Scan(&entries); err != nil {
		return err
	}
	if entries > 0 {
		return fmt.Errorf("the database to rebuild into has %d entries, want an empty one", entries)
	}
	if _, err := b.dst.ExecContext(ctx, `DELETE FROM log`); err != nil { // that a migration put in
		return err
	}
	if err := b.findRunning(ctx); err != nil {
		return err
	}
	var total int64
	if err := b.src.QueryRowContext(ctx, `SELECT next FROM arrival`).Scan(&total); err != nil {
		return err
	}
	if err := b.beginLog(ctx, 0); err != nil {
		return err
	}
	place := int64(0)
	for n := integrateBatch; n == integrateBatch; place += int64(n) {
		var err error
		if n, err = b.fold(ctx, place); err != nil {
			return err
		}
		if b.progress != nil && total > 0 {
			b.progress("rebuild", place+int64(n), total)
		}
	}
	if b.closes != (ledger.Closes{}) {
		return fmt.Errorf("the log %d is closed, and the next one has no entry", b.log)
	}
	if err := b.endLog(ctx); err != nil {
		return err
	}
	if _, err := b.dst.ExecContext(ctx, `UPDATE arrival SET next = $1, log = $2`, place, b.log); err != nil {
		return err
	}
	b.done.Entries = place
	// That the newest log is to be closed is the operator's wish, and in no log before it is done.
	var next sql.NullString
	if err := b.src.QueryRowContext(ctx, `SELECT next FROM log ORDER BY number DESC LIMIT 1`).Scan(&next); err != nil {
		return err
	}
	if _, err := b.dst.ExecContext(ctx, `UPDATE log SET next = $1 WHERE number = $2`, next, b.log); err != nil {
		return err
	}
	if err := b.carryAll(ctx); err != nil {
		return err
	}
	if b.old.folder != nil {
		if _, err := b.dst.ExecContext(ctx, `UPDATE blob_folder SET path = $1`, b.old.folder.Dir()); err != nil {
			return err
		}
	}
	return b.checkPublished(ctx)
}

// findRunning looks for processes that have roles of the old database.
func (b *rebuild) findRunning(ctx context.Context) error {
	rows, err := b.src.QueryContext(ctx, `SELECT name FROM lease WHERE expires > `+b.old.db.Now()+` ORDER BY name`)
	if err != nil {
		return fmt.Errorf("look for running processes: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var role string
		if err := rows.Scan(&role); err != nil {
			return fmt.Errorf("look for running processes: %w", err)
		}
		b.done.Running = append(b.done.Running, role)
	}
	return rows.Err()
}

// beginLog begins a log with the entry at a place.
func (b *rebuild) beginLog(ctx context.Context, place int64) error {
	b.log++
	b.from, b.tails, b.edge, b.closes = place, map[string]ledger.Tail{}, ledger.Edge{}, ledger.Closes{}
	if err := b.src.QueryRowContext(ctx, `SELECT COALESCE(MAX(place), -1) FROM entry WHERE kind = $1 AND log = $2`, ledger.KindHeads, b.log).Scan(&b.heads); err != nil {
		return err
	}
	return insertLog(ctx, b.dst, b.log, strconv.FormatInt(place, 10))
}

// endLog stores the ends of a log's streams, its tree, and which log follows it.
func (b *rebuild) endLog(ctx context.Context) error {
	for name, tail := range b.tails {
		if _, err := b.dst.ExecContext(ctx, `INSERT INTO stream(log, name, next, last) VALUES ($1, $2, $3, $4)`, b.log, name, tail.Next, tail.Last[:]); err != nil {
			return err
		}
	}
	b.done.Tree, b.done.Logs = b.edge.Tree(), b.log
	next := sql.NullString{String: b.closes.Next, Valid: b.closes != ledger.Closes{}}
	_, err := b.dst.ExecContext(ctx, `UPDATE log SET size = $1, root = $2, next = $3 WHERE number = $4`, b.done.Size, b.done.Root.String(), next, b.log)
	return err
}

// fold takes the entries from a place on, integrateBatch at most and of one log, and returns how many there were.
func (b *rebuild) fold(ctx context.Context, from int64) (int, error) {
	openings, err := b.openings(ctx, from)
	if err != nil {
		return 0, err
	}
	done := 0
	for done < len(openings) {
		if b.closes != (ledger.Closes{}) { // the entry before was the last one of its log
			if err := b.endLog(ctx); err != nil {
				return 0, err
			}
			if err := b.beginLog(ctx, from+int64(done)); err != nil {
				return 0, err
			}
		}
		n, err := b.foldRun(ctx, from+int64(done), openings[done:])
		if err != nil {
			return 0, err
		}
		done += n
	}
	return done, nil
}

// foldRun takes the entries of the log up to one that closes it, and returns how many there were.
func (b *rebuild) foldRun(ctx context.Context, from int64, openings [][]byte) (n int, err error) {
	commitments, entries := make([]canon.Digest, len(openings)), make([]ledger.Entry, len(openings))
	for ; n < len(openings) && b.closes == (ledger.Closes{}); n++ {
		place := from + int64(n)
		commitments[n] = canon.Sum(openings[n])
		if _, entries[n], err = ledger.ParseOpening(openings[n]); err != nil {
			return 0, fmt.Errorf("entry %d: %w", place, err)
		}
		if err := b.foldEntry(ctx, place, commitments[n], entries[n]); err != nil {
			return 0, fmt.Errorf("entry %d, %s: %w", place, entries[n].Kind, err)
		}
	}
	err = insertRows(ctx, b.dst, `INSERT INTO entry(place, commitment, opening, kind, log, stream, sequence, body)`, ``, 8, n, func(i int, args []any) []any {
		e := &entries[i]
		return append(args, from+int64(i), commitments[i][:], openings[i], e.Kind, b.log, e.Stream, e.Sequence, e.Body[:])
	})
	if err != nil {
		return 0, err
	}
	var dirty []ledger.TileData
	b.edge, dirty = ledger.Append(b.edge, commitments[:n])
	return n, storeTiles(ctx, b.dst, b.log, dirty)
}

// openings returns the openings of the entries from a place on.
func (b *rebuild) openings(ctx context.Context, from int64) (out [][]byte, err error) {
	rows, err := b.src.QueryContext(ctx, `SELECT place, opening FROM entry WHERE place >= $1 ORDER BY place LIMIT $2`, from, integrateBatch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var place int64
		var opening []byte
		if err := rows.Scan(&place, &opening); err != nil {
			return nil, err
		}
		if want := from + int64(len(out)); place != want {
			return nil, fmt.Errorf("entry %d is missing", want)
		}
		out = append(out, opening)
	}
	return out, rows.Err()
}

// foldEntry does in the tables of state what the server did when it appended the entry.
func (b *rebuild) foldEntry(ctx context.Context, place int64, commitment canon.Digest, e ledger.Entry) (err error) {
	if place == b.from {
		b.first = e
	}
	if e.Kind == ledger.KindHeads {
		if err := b.foldHeads(ctx, place == b.heads, commitment, e); err != nil {
			return err
		}
	}
	if b.tails[e.Stream], err = b.tails[e.Stream].Extend(e); err != nil {
		return err
	}
	switch e.Kind {
	case ledger.KindEnrolment:
		if ledger.Carried(e, b.first) {
			return nil // it stood in the log before
		}
		return b.foldEnrolment(ctx, e)
	case ledger.KindCollateral:
		body, err := b.old.Blob(ctx, e.Body)
		if err != nil {
			return err
		}
		c, err := ledger.ParseCollateral(body)
		if err != nil {
			return err
		}
		data, err := b.old.Blob(ctx, c.Data)
		if err != nil {
			return err
		}
		return (&Tx{SQL: b.dst}).noteIssue(ctx, attest.Collateral{Kind: c.Kind, Data: data}, e.Time)
	case ledger.KindChallenge:
		body, err := b.old.Blob(ctx, e.Body)
		if wasErased(err) {
			return b.erasedChallenge(ctx, e.Body)
		}
		if err != nil {
			return err
		}
		var c attest.Challenge
		if err := canon.Unmarshal(body, &c); err != nil {
			return err
		}
		return insertChallenge(ctx, b.dst, b.log, c, e.Body)
	case ledger.KindEvidence:
		return b.foldEvidence(ctx, commitment, e)
	case ledger.KindVerdict:
		return b.foldVerdict(ctx, e)
	case ledger.KindErasure:
		return b.foldErasure(ctx, place, e)
	case ledger.KindBenchmark:
		return b.foldBenchmark(ctx, e)
	case ledger.KindRules, ledger.KindCertificate:
		return b.foldVetting(ctx, commitment, e)
	}
	return nil
}

// foldVetting lets happen to certificates and devices what the entry says. What follows of it are entries of their own.
func (b *rebuild) foldVetting(ctx context.Context, commitment canon.Digest, e ledger.Entry) error {
	body, err := b.old.Blob(ctx, e.Body)
	if err != nil {
		return err
	}
	event := ledger.Event{Entry: e, Body: body}
	if e.Kind == ledger.KindRules {
		return b.rules.Add(event)
	}
	_, err = foldVetting(ctx, b.dst, "", &b.rules, commitment, event)
	return err
}

func (b *rebuild) foldErasure(ctx context.Context, place int64, e ledger.Entry) error {
	body, err := b.old.Blob(ctx, e.Body)
	if err != nil {
		return err
	}
	act, err := ledger.ParseErasure(body)
	if err != nil || act.Act != ledger.ActErase {
		return err
	}
	for _, d := range act.Digests {
		if err := noteErased(ctx, b.dst, d, place); err != nil {
			return err
		}
	}
	return nil
}

// erasedChallenge keeps what the old database knows of a challenge whose document was erased.
func (b *rebuild) erasedChallenge(ctx context.Context, body canon.Digest) error {
	var id []byte
	var node string
	var expires int64
	if err := b.src.QueryRowContext(ctx, `SELECT id, node, expires FROM challenge WHERE body = $1`, body[:]).Scan(&id, &node, &expires); err != nil {
		return fmt.Errorf("look up what was erased: %w", err)
	}
	_, err := b.dst.ExecContext(ctx, `INSERT INTO challenge(id, node, body, expires, log) VALUES ($1, $2, $3, $4, $5)`, id, node, body[:], expires, b.log)
	return err
}

// foldHeads sees whether a heads entry closes its log. Of the newest one it keeps the ends of streams that it commits to:
// those before it.
func (b *rebuild) foldHeads(ctx context.Context, newest bool, commitment canon.Digest, e ledger.Entry) error {
	body, err := b.old.Blob(ctx, e.Body)
	if err != nil {
		return err
	}
	h, err := ledger.ParseHeads(body)
	if err != nil {
		return err
	}
	if b.closes = h.Closes; !newest {
		return nil
	}
	seed, err := b.old.Blob(ctx, h.Seed)
	if err != nil {
		return err
	}
	if _, err := b.dst.ExecContext(ctx, `INSERT INTO heads(log, place, commitment, seed) VALUES ($1, $2, $3, $4)`, b.log, b.heads, commitment[:], seed); err != nil {
		return err
	}
	for name, tail := range b.tails {
		if _, err := b.dst.ExecContext(ctx, `INSERT INTO stream_head(log, name, next, last) VALUES ($1, $2, $3, $4)`, b.log, name, tail.Next, tail.Last[:]); err != nil {
			return err
		}
	}
	return nil
}

func (b *rebuild) foldEnrolment(ctx context.Context, e ledger.Entry) error {
	body, err := b.old.Blob(ctx, e.Body)
	if err != nil {
		return err
	}
	n, err := ledger.ParseEnrolment(body)
	if err != nil {
		return err
	}
	switch n.Basis {
	case ledger.BasisToken:
		if err := insertNode(ctx, b.dst, n.Node, n.Tenant, e.Time); err != nil {
			return err
		}
		return putPlacement(ctx, b.dst, n.Node, n.Site, n.Rack)
	case ledger.BasisInventory:
		if err := dropHostDevices(ctx, b.dst, *n.Host); err != nil {
			return err
		}
		return putHost(ctx, b.dst, *n.Host)
	case ledger.BasisRetired:
		return putRetired(ctx, b.dst, *n.Host, body, e.Time)
	case ledger.BasisShown:
		return putShown(ctx, b.dst, n.Node, n.Devices)
	case ledger.BasisActivation:
		return putActivation(ctx, b.dst, n.Node, n.AK, n.EK, e.Time)
	case ledger.BasisEvidence:
		for _, d := range n.Devices {
			if err := insertDevice(ctx, b.dst, n.Node, attest.Identity{Kind: d.Kind, Value: d.Value}, e.Time); err != nil {
				return err
			}
		}
		return putShown(ctx, b.dst, n.Node, n.Devices)
	case ledger.BasisRevoked:
		return endNode(ctx, b.dst, n.Node, e.Time)
	}
	return nil
}

// foldEvidence makes the submission anew. The signature of its promise is in no log; what it promises must be the entry.
func (b *rebuild) foldEvidence(ctx context.Context, commitment canon.Digest, e ledger.Entry) error {
	var challenge []byte
	if len(e.Refs) != 1 {
		return errors.New("it names no challenge")
	}
	if err := b.dst.QueryRowContext(ctx, `SELECT id FROM challenge WHERE body = $1`, e.Refs[0][:]).Scan(&challenge); err != nil {
		return fmt.Errorf("look up its challenge: %w", err)
	}
	var text []byte
	if err := b.src.QueryRowContext(ctx, `SELECT promise FROM submission WHERE evidence = $1`, e.Body[:]).Scan(&text); err != nil {
		return fmt.Errorf("look up its promise: %w", err)
	}
	env, err := ledger.ParseEnvelope(text)
	if err != nil {
		return err
	}
	var p ledger.Promise
	if err := canon.Unmarshal(env.Payload, &p); err != nil {
		return err
	}
	if want, err := canon.Marshal(ledger.NewPromise(p.Origin, commitment, e)); err != nil || !bytes.Equal(want, env.Payload) {
		return errors.Join(err, fmt.Errorf("its promise is of another entry, %s", p.Commitment))
	}
	return insertSubmission(ctx, b.dst, e.Body, challenge, strings.TrimPrefix(e.Stream, ledger.NodeStream("")), e.Time, text)
}

// foldVerdict decides the submission that the result is on. Evidence that was erased says nothing of clocks any more, nor
// does that whose appraisal was.
func (b *rebuild) foldVerdict(ctx context.Context, e ledger.Entry) error {
	evidence, appraisal, outcome, err := b.decided(ctx, e.Body)
	if err != nil {
		return err
	}
	if _, err := decideSubmission(ctx, b.dst, evidence, appraisal, e.Body, outcome, e.Time); err != nil {
		return err
	}
	data, err1 := b.old.Blob(ctx, evidence)
	text, err2 := b.old.Blob(ctx, appraisal)
	if wasErased(err1) || wasErased(err2) {
		return nil
	}
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var a verifier.Appraisal
	if err := canon.Unmarshal(text, &a); err != nil {
		return err
	}
	var node string
	var received int64
	if err := b.dst.QueryRowContext(ctx, `SELECT node, received FROM submission WHERE evidence = $1`, evidence[:]).Scan(&node, &received); err != nil {
		return fmt.Errorf("look up the evidence: %w", err)
	}
	return putClocks(ctx, b.dst, node, clocksOf(data, a), canon.Time(received))
}

// decided returns what a result says of what, or what the old database knows of one that was erased.
func (b *rebuild) decided(ctx context.Context, result canon.Digest) (evidence, appraisal canon.Digest, outcome string, err error) {
	text, err := b.old.Blob(ctx, result)
	if wasErased(err) {
		if err := b.src.QueryRowContext(ctx, `SELECT evidence, appraisal, outcome FROM submission WHERE result = $1`, result[:]).Scan(&evidence, &appraisal, &outcome); err != nil {
			return evidence, appraisal, "", fmt.Errorf("look up what was erased: %w", err)
		}
		return evidence, appraisal, outcome, nil
	}
	if err != nil {
		return evidence, appraisal, "", err
	}
	env, err := ledger.ParseEnvelope(text)
	if err != nil {
		return evidence, appraisal, "", err
	}
	var r policy.Result
	err = canon.Unmarshal(env.Payload, &r)
	return r.Evidence, r.Appraisal, r.Verdict.Outcome.String(), err
}

// clocksOf returns what an appraisal says of clocks. Of evidence that a rule room fails on, nothing is known.
func clocksOf(evidence []byte, a verifier.Appraisal) (clocks []attest.TPMClock) {
	defer func() {
		if recover() != nil {
			clocks = nil
		}
	}()
	o, err := verifier.Open(verifier.TypeBundle, evidence)
	if err != nil {
		return nil
	}
	return verifier.Clocks(o, a)
}

// carryAll copies the tables that no log makes, in the order in which they may refer to each other.
func (b *rebuild) carryAll(ctx context.Context) error {
	tables, err := b.old.db.Tables(ctx)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if slices.Contains(folded, table) || table == tableLease {
			continue
		}
		if err := b.carry(ctx, table); err != nil {
			return fmt.Errorf("carry %s over: %w", table, err)
		}
		b.done.Carried = append(b.done.Carried, table)
	}
	return nil
}

// carry copies one table, whatever its columns.
func (b *rebuild) carry(ctx context.Context, table string) error {
	if _, err := b.dst.ExecContext(ctx, `DELETE FROM `+table); err != nil { // what a migration put in
		return err
	}
	rows, err := b.src.QueryContext(ctx, `SELECT * FROM `+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var waiting [][]any
	flush := func() error {
		into := `INSERT INTO ` + table + `(` + strings.Join(columns, ", ") + `)`
		err := insertRows(ctx, b.dst, into, ``, len(columns), len(waiting), func(i int, args []any) []any { return append(args, waiting[i]...) })
		waiting = waiting[:0]
		return err
	}
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok && len(b) == 0 {
				row[i] = []byte{} // a driver reads no bytes as nil, and writes nil as NULL
			}
		}
		if waiting = append(waiting, row); len(waiting) == maxRowsPerInsert {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return flush()
}

// checkPublished compares the trees that the entries make with the newest checkpoints: each must continue its own.
func (b *rebuild) checkPublished(ctx context.Context) error {
	for log := int64(1); log <= b.log; log++ {
		var text string
		err := b.dst.QueryRowContext(ctx, `SELECT note FROM checkpoint WHERE log = $1 ORDER BY size DESC LIMIT 1`, log).Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		c, err := ledger.ReadCheckpoint([]byte(text))
		if err != nil {
			return err
		}
		head, err := readHead(b.dst.QueryRowContext(ctx, `SELECT size, root, first FROM log WHERE number = $1`, log))
		if err != nil {
			return err
		}
		if err := continues(ctx, inTx{b.dst, log}, c.Tree, head.Tree); err != nil {
			return fmt.Errorf("the entries do not make the tree of the newest checkpoint, of size %d: %w", c.Size, err)
		}
	}
	return nil
}

// inTx reads tiles of a log within a transaction. It is a source of nothing else.
type inTx struct {
	tx  *sql.Tx
	log int64
}

func (i inTx) Checkpoint(context.Context) ([]byte, error)         { return nil, fs.ErrNotExist }
func (i inTx) Blob(context.Context, canon.Digest) ([]byte, error) { return nil, fs.ErrNotExist }

func (i inTx) Tile(ctx context.Context, t ledger.Tile) ([]byte, error) {
	return readTile(ctx, i.tx, i.log, t)
}
