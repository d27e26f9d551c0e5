package ledger_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

const start = canon.Time(1780000000) // 2026-05-28T20:26:40Z

// edKey and ecKey are fixed signing keys of the two kinds that envelopes know.
type edKey byte

func (k edKey) private() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(k)}, ed25519.SeedSize))
}
func (k edKey) Public() crypto.PublicKey            { return k.private().Public() }
func (k edKey) Sign(message []byte) ([]byte, error) { return ed25519.Sign(k.private(), message), nil }

type ecKey byte

func (k ecKey) private() *ecdsa.PrivateKey {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), big.NewInt(int64(k)).FillBytes(make([]byte, 32)))
	if err != nil {
		panic(err)
	}
	return key
}
func (k ecKey) Public() crypto.PublicKey { return k.private().Public() }
func (k ecKey) Sign(message []byte) ([]byte, error) {
	sum := sha256.Sum256(message)
	return k.private().Sign(nil, sum[:], crypto.SHA256)
}

// check compares an error with the text that it is to hold; "" wants none.
func check(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", name, err, want)
	}
}

// memory is a source that holds the tiles of one tree.
type memory struct {
	edge  ledger.Edge
	tiles map[[2]int64][]byte
}

func (m *memory) append(commitments ...canon.Digest) ledger.Tree {
	if m.tiles == nil {
		m.tiles = map[[2]int64][]byte{}
	}
	var dirty []ledger.TileData
	m.edge, dirty = ledger.Append(m.edge, commitments)
	for _, d := range dirty {
		m.tiles[[2]int64{int64(d.Level), d.Index}] = d.Data
	}
	return m.edge.Tree()
}

func (m *memory) Checkpoint(context.Context) ([]byte, error) { return nil, fs.ErrNotExist }

func (m *memory) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	data := m.tiles[[2]int64{int64(t.Level), t.Index}]
	if len(data) < t.Bytes() {
		return nil, fmt.Errorf("%s: %w", t.Path(), fs.ErrNotExist)
	}
	return data[:t.Bytes()], nil
}

func (m *memory) Blob(context.Context, canon.Digest) ([]byte, error) { return nil, fs.ErrNotExist }

// commitments returns n different commitments from a number on.
func commitments(from, n int) []canon.Digest {
	out := make([]canon.Digest, n)
	for i := range out {
		out[i] = canon.Sum([]byte(strconv.Itoa(from + i)))
	}
	return out
}

// TestImports holds the room to what it is: pure.
func TestImports(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			switch root, _, _ := strings.Cut(path, "/"); {
			case root == "net", root == "os", path == "database/sql", path == "time", strings.HasSuffix(path, "/rand"):
				t.Errorf("%s imports %s: the ledger is a pure function of its arguments, so that an audit repeats it", f.Name(), path)
			}
		}
	}
}
