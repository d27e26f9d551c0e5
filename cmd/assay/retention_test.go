package main

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// writeOldStore makes the database of a server that has an old challenge that nothing answered, old evidence of the node
// node-1, and young evidence. $CHALLENGE, $OLD and $YOUNG are their digests.
func writeOldStore(env *testscript.Env) error {
	data := filepath.Join(env.WorkDir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := server.OpenStore(ctx, "sqlite:"+filepath.Join(data, "assay.db"), rand.Reader)
	if err != nil {
		return err
	}
	defer s.Close()
	old := canon.At(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	return s.Tx(ctx, func(tx *server.Tx) error {
		for _, e := range []struct {
			name, kind, stream string
			at                 canon.Time
			body               []byte
		}{
			{"OLD", ledger.KindEvidence, ledger.NodeStream("node-1"), old, []byte("old evidence")},
			{"CHALLENGE", ledger.KindChallenge, ledger.StreamVerifier, old, []byte("old challenge")},
			{"YOUNG", ledger.KindEvidence, ledger.NodeStream("node-1"), canon.At(time.Now()), []byte("young evidence")},
		} {
			env.Setenv(e.name, canon.Sum(e.body).String())
			if _, _, err := tx.Append(ctx, server.Draft{Kind: e.kind, Stream: e.stream, Time: e.at, Body: tx.PutBlob(e.body), Refs: []canon.Digest{}}); err != nil {
				return err
			}
		}
		return nil
	})
}
