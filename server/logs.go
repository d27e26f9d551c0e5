package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Log is one of the logs of a store. The newest takes entries; each of those before it was closed by its last entry, and
// stays as it is. Entries have places that go on over all logs, and each log counts its own indices from its first one.
type Log struct {
	Number int64  // the first one has number 1
	Origin string // as the keyset of its first entry says; empty before there is one
	Closed bool   // another one goes on where it ended
	Next   string // origin of the log after it; in one that is not closed, of the log that is to come

	store      *Store
	first, end int64 // places of its first entry, and behind its last; math.MaxInt64 in one that is not closed
}

// Logs returns the logs of a store, the oldest first. There is always one.
func (s *Store) Logs(ctx context.Context) ([]Log, error) {
	rows, err := s.db.Reader().QueryContext(ctx, `SELECT number, first, COALESCE(next, '') FROM log ORDER BY number`)
	if err != nil {
		return nil, fmt.Errorf("read the logs: %w", err)
	}
	defer rows.Close()
	var all []Log
	for rows.Next() {
		l := Log{store: s, end: math.MaxInt64}
		if err := rows.Scan(&l.Number, &l.first, &l.Next); err != nil {
			return nil, fmt.Errorf("read the logs: %w", err)
		}
		if n := len(all); n > 0 {
			all[n-1].Closed, all[n-1].end = true, l.first
		}
		all = append(all, l)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, fmt.Errorf("read the logs: %w", err)
	}
	for i := range all {
		if all[i].Origin, err = s.originOf(ctx, all[i].Number, all[i].first); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// originOf returns what the first entry of a log says of its name.
func (s *Store) originOf(ctx context.Context, number, first int64) (string, error) {
	if known, ok := s.origins.Load(number); ok {
		return known.(string), nil
	}
	var body []byte
	err := s.db.Reader().QueryRowContext(ctx, `SELECT body FROM entry WHERE place = $1 AND kind = $2`, first, ledger.KindKeyset).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the first keyset of log %d: %w", number, err)
	}
	env, err := s.keysetEnvelope(ctx, canon.Digest(body))
	if err != nil {
		return "", err
	}
	set, err := ledger.ParseKeyset(env.Payload)
	if err != nil {
		return "", fmt.Errorf("damaged database: keyset %s: %w", canon.Digest(body), err)
	}
	s.origins.Store(number, set.Origin)
	return set.Origin, nil
}

// Newest returns the log that takes entries.
func (s *Store) Newest(ctx context.Context) (Log, error) {
	all, err := s.Logs(ctx)
	if err != nil {
		return Log{}, err
	}
	return all[len(all)-1], nil
}

// numbered returns the log with a number. Without: [fs.ErrNotExist].
func (s *Store) numbered(ctx context.Context, number int64) (Log, error) {
	all, err := s.Logs(ctx)
	if err != nil {
		return Log{}, err
	}
	if number < 1 || number > int64(len(all)) {
		return Log{}, fmt.Errorf("log %d: %w", number, fs.ErrNotExist)
	}
	return all[number-1], nil
}

// LogOf returns the log of an origin; the newest one for none. Without: [fs.ErrNotExist].
func (s *Store) LogOf(ctx context.Context, origin string) (Log, error) {
	if origin == "" {
		return s.Newest(ctx)
	}
	all, err := s.Logs(ctx)
	if err != nil {
		return Log{}, err
	}
	var names []string
	for _, l := range all {
		if l.Origin == origin {
			return l, nil
		}
		names = append(names, l.Origin)
	}
	return Log{}, fmt.Errorf("log %.80q: %w: there are %q", origin, fs.ErrNotExist, names)
}

// Sources returns all logs of a store as sources, the oldest first.
func (s *Store) Sources(ctx context.Context) ([]ledger.Source, error) {
	all, err := s.Logs(ctx)
	var out []ledger.Source
	for _, l := range all {
		out = append(out, l.Source())
	}
	return out, err
}

// isPublished reports whether the newest checkpoint covers the whole tree of a log.
func (l Log) isPublished(ctx context.Context) (bool, error) {
	var size, published int64
	err := l.store.db.Reader().QueryRowContext(ctx, `SELECT size, (SELECT COALESCE(MAX(size), 0) FROM checkpoint WHERE checkpoint.log = number) FROM log WHERE number = $1`, l.Number).Scan(&size, &published)
	if err != nil {
		return false, fmt.Errorf("read how far %s is published: %w", l.Origin, err)
	}
	return size == published, nil
}

// list says where the logs are found.
func (s *Server) list(ctx context.Context) (client.LogList, error) {
	logs, err := s.store.Logs(ctx)
	if err != nil {
		return client.LogList{}, err
	}
	var list client.LogList
	for _, l := range logs {
		p, err := l.Published(ctx)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return client.LogList{}, err
		}
		list.Logs = append(list.Logs, client.LogInfo{Origin: l.Origin, Path: "/log/" + l.folder(), Size: p.Size, Closed: l.Closed, Next: l.Next})
	}
	return list, nil
}

// folder returns the path of a log below that of the first one: nothing, or its number and a slash.
func (l Log) folder() string {
	if l.Number == 1 {
		return ""
	}
	return strconv.FormatInt(l.Number, 10) + "/"
}

// logOf returns the log that a caller names.
func (s *Server) logOf(ctx context.Context, origin string) (Log, error) {
	l, err := s.store.LogOf(ctx, origin)
	if errors.Is(err, fs.ErrNotExist) {
		err = refuse(codeNotFound, "%v", err)
	}
	return l, err
}

// logAt returns the log that a caller names beside an index. The files of the first one have no name in their path, and
// neither have indices in it.
func (s *Server) logAt(ctx context.Context, origin string) (Log, error) {
	if origin == "" {
		return s.store.numbered(ctx, 1)
	}
	return s.logOf(ctx, origin)
}
