package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
)

// NodeType is the type of the document that a node keeps of itself.
const NodeType = "assay/node/v1"

// Node is what an agent keeps of its joining: who it is, and whom it believes. The credential is revocable and lets its
// bearer ask for challenges and submit as that node, nothing else; hardware is proved by evidence alone.
type Node struct {
	Type        string   `json:"type"`
	Node        string   `json:"node"`
	Credential  string   `json:"credential"`
	Origin      string   `json:"origin"`       // of the server, pinned: evidence names it
	ResultKey   []byte   `json:"result_key"`   // SubjectPublicKeyInfo (DER), pinned by the join token
	LogKey      string   `json:"log_key"`      // verifier key of the log, pinned at joining
	PromiseKeys [][]byte `json:"promise_keys"` // SubjectPublicKeyInfo (DER), pinned at joining
}

// Names of the state files. There are no others: session keys are never written down.
const (
	fileNode       = "node.json"
	fileCheckpoint = "checkpoint"         // last checkpoint note that was believed
	fileStream     = "stream.json"        // what the node remembers of its stream
	fileRefused    = "checkpoint.refused" // note that the log signed and that contradicts the former: proof of a fork
)

// Store is the agent's state folder. Every file is replaced whole or not at all, is durable when a method returns, and
// can be read by its owner alone.
type Store struct{ dir string }

// OpenStore returns the store in a folder. It touches nothing yet.
func OpenStore(dir string) Store { return Store{dir} }

// Prepare makes the folder and writes to it once: a join token is good once, so find out before it is spent.
func (s Store) Prepare() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	f, err := os.CreateTemp(s.dir, "probe-*")
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Path returns where the node's document is kept.
func (s Store) Path() string { return filepath.Join(s.dir, fileNode) }

// StreamPath returns where it is kept what the node remembers of its stream.
func (s Store) StreamPath() string { return filepath.Join(s.dir, fileStream) }

// Node reads the node's document. An error that is fs.ErrNotExist says that the node never joined.
func (s Store) Node() (Node, error) {
	data, err := s.read(fileNode)
	if err != nil {
		return Node{}, err
	}
	n, err := ParseNode(data)
	if err != nil {
		return n, fmt.Errorf("state: %s: %w", s.Path(), err)
	}
	return n, nil
}

// ParseNode reads a node's document.
func ParseNode(data []byte) (Node, error) {
	var n Node
	if err := canon.Unmarshal(data, &n); err != nil {
		return n, err
	}
	if n.Type != NodeType {
		return n, fmt.Errorf("type %.80q is not known to this build, want %q", n.Type, NodeType)
	}
	return n, nil
}

// SaveNode keeps the node's document.
func (s Store) SaveNode(n Node) error {
	data, err := canon.Marshal(n)
	if err != nil {
		return err
	}
	return s.write(fileNode, data)
}

// Checkpoint returns the last checkpoint note that was believed, empty if there is none.
func (s Store) Checkpoint() (string, error) {
	data, err := s.read(fileCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

// SaveCheckpoint keeps a checkpoint note that is believed.
func (s Store) SaveCheckpoint(note string) error { return s.write(fileCheckpoint, []byte(note)) }

// SaveRefused keeps a checkpoint note that contradicts the one that is believed.
func (s Store) SaveRefused(note string) error { return s.write(fileRefused, []byte(note)) }

func (s Store) read(name string) ([]byte, error) {
	data, err := files.Bounded(filepath.Join(s.dir, name), MaxState)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return data, nil
}

// write replaces a file. A crash leaves the old file or the new one, and at worst a stray temporary beside it.
func (s Store) write(name string, data []byte) (err error) {
	f, err := os.CreateTemp(s.dir, name+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			err = fmt.Errorf("state: %w", err)
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), filepath.Join(s.dir, name)); err != nil {
		return err
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
