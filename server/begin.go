package server

import (
	"context"
	"crypto/sha256"
	"io"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// begin makes what a first start makes and logs what changed since the last one: the keyset as the log's first entry,
// then policy, reference values, collateral and the module of the rules.
func (s *Server) begin(ctx context.Context) error {
	if err := s.headsFirst(ctx); err != nil {
		return err
	}
	name := s.settings.LogName
	if name == "" {
		_, host, _ := strings.Cut(s.origin, "://")
		name = host + "/log"
	}
	if err := s.beginKeys(ctx, name); err != nil {
		return err
	}
	if err := s.enterLog(ctx); err != nil {
		return err
	}
	if err := s.beginEAR(ctx); err != nil {
		return err
	}
	return s.beginAdmin(ctx)
}

// logged is one thing that the settings gave, as the log holds it.
type logged struct {
	kind   string
	digest canon.Digest // of the thing itself
	blobs  [][]byte     // the entry's body first
}

func (s *Server) toLog(at canon.Time) (out []logged, err error) {
	policy := s.given.policy.Canonical()
	out = append(out, logged{ledger.KindPolicy, canon.Sum(policy), [][]byte{policy}})
	for _, r := range s.given.references {
		data, err := canon.Marshal(r)
		if err != nil {
			return nil, err
		}
		out = append(out, logged{ledger.KindReference, canon.Sum(data), [][]byte{data}})
	}
	for i, item := range s.given.collateral {
		record, err := canon.Marshal(ledger.Collateral{
			Type: ledger.CollateralType, Kind: item.Kind, Data: item.Digest(), Source: s.given.sources[i], Fetched: at,
		})
		if err != nil {
			return nil, err
		}
		out = append(out, logged{ledger.KindCollateral, item.Digest(), [][]byte{record, item.Data}})
	}
	if m := s.engine; m != nil {
		record, err := canon.Marshal(m.about.Record(m.digest, s.origin))
		if err != nil {
			return nil, err
		}
		out = append(out, logged{ledger.KindEngine, m.digest, [][]byte{record, m.data}})
	}
	return out, nil
}

// logGiven logs whatever was not given at the last start. What is no longer given is
// forgotten, so that it is logged again when it comes back.
func (s *Server) logGiven(ctx context.Context) error {
	at := s.time()
	things, err := s.toLog(at)
	if err != nil {
		return err
	}
	return s.store.Tx(ctx, func(tx *Tx) error {
		if err := holdServer(ctx, tx.SQL); err != nil { // of several processes that start at once, one after another compares
			return err
		}
		for _, item := range s.given.collateral {
			if err := tx.noteIssue(ctx, item, at); err != nil {
				return err
			}
		}
		tx.PutBlob(s.given.roots.Marshal())
		before, err := readGiven(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.SQL.ExecContext(ctx, `DELETE FROM given`); err != nil {
			return err
		}
		now := map[string]bool{}
		for _, t := range things {
			id := givenID(t.kind, t.digest)
			if now[id] {
				continue
			}
			now[id] = true
			if _, err := tx.SQL.ExecContext(ctx, `INSERT INTO given(kind, digest) VALUES ($1, $2)`, t.kind, t.digest[:]); err != nil {
				return err
			}
			if before[id] {
				continue
			}
			for _, b := range t.blobs {
				tx.PutBlob(b)
			}
			d := Draft{Kind: t.kind, Stream: ledger.StreamServer, Time: at, Body: canon.Sum(t.blobs[0]), Refs: []canon.Digest{}}
			if _, _, err := tx.Append(ctx, d); err != nil {
				return err
			}
		}
		return nil
	})
}

// readGiven returns the kinds and digests that the last start was given.
func readGiven(ctx context.Context, tx *Tx) (map[string]bool, error) {
	rows, err := tx.SQL.QueryContext(ctx, `SELECT kind, digest FROM given`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	before := map[string]bool{}
	for rows.Next() {
		var kind string
		var digest []byte
		if err := rows.Scan(&kind, &digest); err != nil {
			return nil, err
		}
		before[givenID(kind, canon.Digest(digest))] = true
	}
	return before, rows.Err()
}

func givenID(kind string, digest canon.Digest) string { return kind + " " + digest.String() }

func digestOf(r io.Reader) (d canon.Digest, err error) {
	h := sha256.New()
	if _, err = io.Copy(h, r); err != nil {
		return d, err
	}
	return canon.Digest(h.Sum(nil)), nil
}
