// Package sqldb opens the database that a server keeps everything in, SQLite or PostgreSQL, from one URL, so that the code
// above it is written once.
//
//	sqlite:PATH                          one file, nothing to install
//	postgres://USER@HOST/NAME?OPTIONS    any number of processes on one server
//
// One SQL text serves both: placeholders $1, $2; types BIGINT, TEXT, BYTEA; ON CONFLICT and RETURNING. What differs is
// here: [DB.ForUpdate], [DB.Now], the collation of a migration, and the errors, which [DB.Tx] maps to [ErrExists],
// [ErrCheck] and [ErrUnavailable]; of a query outside a transaction [Unavailable] tells the last.
// Avoid || on byte strings, which SQLite turns into text, and instants as anything but BIGINT.
//
// A committed transaction survives the death of the process and of the machine: SQLite runs in WAL mode with
// synchronous=FULL, PostgreSQL as its operator set it (synchronous_commit is on by default).
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrExists is returned for a row whose key is taken.
var ErrExists = errors.New("already exists")

// ErrCheck is returned for a row that a CHECK of its table refuses.
var ErrCheck = errors.New("refused by a check of the table")

// ErrUnavailable is returned where the database gives no answer, or has no room to write: it went away, is starting, has
// too many connections, or its disk is full. Nothing of the transaction was done, unless it is [ErrCommit] as well: who
// repeats it then has to find out.
var ErrUnavailable = errors.New("the database is not available")

// ErrCommit is returned for a transaction that failed in its commit: whether it was done, nobody knows.
var ErrCommit = errors.New("commit")

const (
	maxConnections = 16              // to PostgreSQL that write
	maxReading     = 16              // to PostgreSQL that read
	cacheKiB       = 64 << 10        // of the writing connection to a SQLite file
	walPages       = 8192            // 32 MiB of WAL before SQLite copies it into the file
	maxReaders     = 4               // of a SQLite file
	busyTimeout    = 5 * time.Second // wait for another process that writes the same SQLite file
	maxAttempts    = 8               // of one transaction
	maxIdle        = "20s"           // in a transaction, before PostgreSQL ends it: a process that was stopped holds no locks for ever
	firstPause     = 2 * time.Millisecond
)

// DB is an open database. Its methods may be called concurrently.
type DB struct {
	// write holds one connection for SQLite, so that writers of this process queue here and not on the file's lock.
	write, read *sql.DB
	postgres    bool
	dir         string // of the SQLite file
}

// Open opens a database and checks that it answers. It changes nothing but creates a SQLite file that is not there, for
// its owner alone to read.
func Open(ctx context.Context, databaseURL string) (*DB, error) {
	db, err := open(databaseURL)
	if err != nil {
		return nil, err
	}
	err = db.write.PingContext(ctx)
	if err == nil {
		err = db.read.PingContext(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", classify(oneLine{err})), db.Close())
	}
	return db, nil
}

func open(databaseURL string) (*DB, error) {
	path, isFile := strings.CutPrefix(databaseURL, "sqlite:")
	switch {
	case isFile && path != "":
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		path, err = filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) +
			")&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"
		// Digests are random keys: a batch touches as many index pages as it has rows. Pages that stay in memory are not
		// read again, and those that change often are copied from the WAL into the file once. What undoes a single statement
		// stays in memory as well: it dies with its transaction.
		write, err := sql.Open("sqlite", name+"&_txlock=immediate&_pragma=cache_size(-"+strconv.Itoa(cacheKiB)+
			")&_pragma=temp_store(MEMORY)&_pragma=wal_autocheckpoint("+strconv.Itoa(walPages)+")")
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		write.SetMaxOpenConns(1)
		read, err := sql.Open("sqlite", name+"&_pragma=query_only(1)")
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		read.SetMaxOpenConns(maxReaders)
		return &DB{write: write, read: read, dir: filepath.Dir(path)}, nil
	case strings.HasPrefix(databaseURL, "postgres://") || strings.HasPrefix(databaseURL, "postgresql://"):
		config, err := pgx.ParseConfig(databaseURL)
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		if name := "idle_in_transaction_session_timeout"; config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = maxIdle
		}
		// A transaction may read outside itself what is stored for good. If it took that connection from where it has its
		// own, as many transactions as there are connections would wait for each other.
		pool := func(n int) *sql.DB {
			p := sql.OpenDB(connector{stdlib.GetConnector(*config)})
			p.SetMaxOpenConns(n)
			p.SetMaxIdleConns(n)
			return p
		}
		return &DB{write: pool(maxConnections), read: pool(maxReading), postgres: true}, nil
	}
	// The URL may hold a password: only its scheme is shown.
	scheme, _, _ := strings.Cut(databaseURL, ":")
	return nil, fmt.Errorf("open database: scheme %.20q is not known, want sqlite:PATH or postgres://…", scheme)
}

// connector makes connections to PostgreSQL.
type connector struct{ driver.Connector }

// Connect says that the database is not available, and no more: a socket that is not there must not pass for a row that
// is not there, which io/fs.ErrNotExist is to those who read.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil || !Unavailable(err):
		return nil, oneLine{err}
	}
	return nil, fmt.Errorf("%w: %v", ErrUnavailable, oneLine{err})
}

// Dir returns the folder of a SQLite file, or nothing.
func (db *DB) Dir() string { return db.dir }

// Close closes all connections.
func (db *DB) Close() error {
	return errors.Join(db.read.Close(), db.write.Close())
}

// Reader returns the pool for queries outside a transaction. They see what is committed, and never wait for a writer. Who
// reads rows makes no other query before they are closed: as many as there are connections would wait for each other.
func (db *DB) Reader() *sql.DB { return db.read }

// ForUpdate returns the clause that locks the selected rows until the transaction ends. SQLite needs none: there a
// transaction of [DB.Tx] is the only one that writes.
func (db *DB) ForUpdate() string {
	if db.postgres {
		return " FOR UPDATE"
	}
	return ""
}

// Shared reports whether processes on several machines may use the database at once. A SQLite file is one process's.
func (db *DB) Shared() bool { return db.postgres }

// Now returns the expression for the database's own clock, in ms since 1970: the one clock that all its processes share.
// It runs on within a transaction.
func (db *DB) Now() string {
	if db.postgres {
		return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
	}
	return "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
}

// Tables returns the names of the tables that migrations made, in the order in which they did: a table comes after those
// that it refers to.
func (db *DB) Tables(ctx context.Context) ([]string, error) {
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> 'goose_db_version' ORDER BY rowid`
	if db.postgres {
		query = `SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = CAST(current_schema() AS regnamespace) AND relname <> 'goose_db_version' ORDER BY oid`
	}
	rows, err := db.read.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// Snapshot runs f in a transaction that reads, and sees all of the database as it was at one instant.
func (db *DB) Snapshot(ctx context.Context, f func(*sql.Tx) error) error {
	var options *sql.TxOptions // of SQLite, each transaction is one
	if db.postgres {
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	tx, err := db.read.BeginTx(ctx, options)
	if err != nil {
		return classify(fmt.Errorf("begin: %w", err))
	}
	defer tx.Rollback()
	return classify(f(tx))
}

// Tx runs f in one transaction and commits, or rolls back if f returns an error. If the database asks for it (deadlock,
// serialization failure, busy), f runs again from the start, a bounded number of times: it must do nothing that a
// rollback does not undo. The error of a taken key is [ErrExists], that of a failed CHECK [ErrCheck]; PostgreSQL refuses
// all further work in a transaction after either, so f returns them.
func (db *DB) Tx(ctx context.Context, f func(*sql.Tx) error) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := db.once(ctx, f)
		if err == nil || !again(err) || attempt == maxAttempts {
			return classify(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// Erase is [DB.Tx] for a transaction that deletes what is to be gone. SQLite overwrites it in the file, and takes it out of
// the write-ahead log, as soon as no reader is in the way. In PostgreSQL it goes when the table is vacuumed, and from its
// write-ahead log and backups when those go: that is for who runs it to see to.
func (db *DB) Erase(ctx context.Context, f func(*sql.Tx) error) error {
	if db.postgres {
		return db.Tx(ctx, f)
	}
	// There is one connection that writes, so the setting is of this transaction alone.
	if _, err := db.write.ExecContext(ctx, `PRAGMA secure_delete = ON`); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	err := db.Tx(ctx, f)
	// Both are to be done whatever became of the transaction and of who wanted it.
	after := context.WithoutCancel(ctx)
	_, err1 := db.write.ExecContext(after, `PRAGMA secure_delete = OFF`)
	_, err2 := db.write.ExecContext(after, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return errors.Join(err, err1, err2)
}

func (db *DB) once(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // after Commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrCommit, err)
	}
	return nil
}

// codes returns what the engine says of an error: a SQLite result code, or a PostgreSQL SQLSTATE.
func codes(err error) (lite int, state string) {
	var l *sqlite.Error
	if errors.As(err, &l) {
		return l.Code(), ""
	}
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return 0, p.Code
	}
	return 0, ""
}

// again reports whether the transaction lost a race and may simply run once more.
func again(err error) bool {
	lite, state := codes(err)
	return lite&0xff == sqlite3.SQLITE_BUSY || state == "40001" || state == "40P01" // serialization failure, deadlock
}

func classify(err error) error {
	lite, state := codes(err)
	switch {
	case errors.Is(err, ErrExists), errors.Is(err, ErrCheck), errors.Is(err, ErrUnavailable): // by a transaction within
	case lite == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || lite == sqlite3.SQLITE_CONSTRAINT_UNIQUE || state == "23505":
		return fmt.Errorf("%w: %w", ErrExists, err)
	case lite == sqlite3.SQLITE_CONSTRAINT_CHECK || state == "23514":
		return fmt.Errorf("%w: %w", ErrCheck, err)
	case Unavailable(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// oneLine is an error in one line. pgx tells of each address and each way that it tried on a line of its own, and of some
// twice.
type oneLine struct{ error }

func (o oneLine) Error() string {
	var lines []string
	for line := range strings.Lines(o.error.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (o oneLine) Unwrap() error { return o.error }

// Unavailable reports whether an error is of the connection or of the room to write, and not of what was asked: whether
// [DB.Tx] maps it to [ErrUnavailable]. It also tells so of an error of [DB.Reader], which nothing maps.
func Unavailable(err error) bool {
	if errors.Is(err, ErrUnavailable) {
		return true
	}
	lite, state := codes(err)
	switch lite & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return true
	}
	if state != "" {
		// Class 08: connection; 53: no disk, memory or connections left; 57P: shut down, crashed or starting; 58: the system;
		// 25P03: the transaction was idle for too long.
		class := state[:2]
		return class == "08" || class == "53" || class == "58" || strings.HasPrefix(state, "57P") || state == "25P03"
	}
	var refused *pgconn.ConnectError
	var network *net.OpError
	return errors.As(err, &refused) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err) || // a connection that was lost before the request was sent on it
		errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// Values returns the VALUES list of an insert of several rows: ($1,$2),($3,$4).
func Values(rows, columns int) string {
	var b strings.Builder
	for i := range rows * columns {
		switch {
		case i == 0:
			b.WriteByte('(')
		case i%columns == 0:
			b.WriteString("),(")
		default:
			b.WriteByte(',')
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i + 1))
	}
	b.WriteByte(')')
	return b.String()
}
