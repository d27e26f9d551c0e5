package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrate brings the database to the newest version that this build knows. The migrations are the files NNNN_subject.sql
// of fsys: SQL text for both dialects, in which text that is ordered is declared TEXT COLLATE "C". Each runs in a
// transaction of its own, so a process that dies on the way leaves a whole version behind, and the next start goes on.
// There is no way back: a database newer than the build is refused.
func (db *DB) Migrate(ctx context.Context, fsys fs.FS) error {
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	var steps []*goose.Migration
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return fmt.Errorf("migrate: %s: %w", name, err)
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, db.text(string(text))); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}}, nil))
	}
	dialect := goose.DialectSQLite3
	options := []goose.ProviderOption{goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true)}
	if db.postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker() // of several processes that start at once, one migrates
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, db.write, nil, options...)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	current, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if current > newest {
		return fmt.Errorf("migrate: the database has version %d, this build knows versions up to %d: run a newer build", current, newest)
	}
	if current == newest {
		return nil
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate from version %d: %w", current, err)
	}
	return nil
}

// text fits a migration to the dialect. Both collations compare bytes; only the names differ.
func (db *DB) text(migration string) string {
	if db.postgres {
		return migration
	}
	return strings.ReplaceAll(migration, `COLLATE "C"`, "COLLATE BINARY")
}
