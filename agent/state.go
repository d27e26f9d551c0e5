package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// NodeType is the type of the document that a node keeps of itself.
const NodeType = "assay/node/v1"

// Node is what an agent keeps of its joining: who it is, and whom it believes. The credential is revocable and lets its
// bearer ask for challenges and submit as that node, nothing else; hardware is proved by evidence alone.
type Node struct {
	Type       string        `json:"type"`
	Node       string        `json:"node"`
	Credential string        `json:"credential"`
	Origin     string        `json:"origin"`             // of the server, pinned: evidence names it
	Keyset     ledger.Keyset `json:"keyset"`             // of the verifier and its log, pinned at joining; one that follows takes its place
	Witnesses  string        `json:"witnesses,omitzero"` // text of a witness policy (C2SP tlog-policy) that the operator chose; absent: none
}

// Names of the files of the store. The others are those of [client.Believed]; session keys are never written down.
const (
	fileNode   = "node.json"
	fileStream = "stream.json" // what the node remembers of its stream
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
	if err := n.Keyset.Validate(); err != nil {
		return n, err
	}
	_, err := n.Follower()
	return n, err
}

// SaveNode keeps the node's document.
func (s Store) SaveNode(n Node) error {
	data, err := canon.Marshal(n)
	if err != nil {
		return err
	}
	return s.write(fileNode, data)
}

// Believed returns where the last checkpoint that was believed is kept.
func (s Store) Believed() client.Believed { return client.OpenBelieved(s.dir) }

func (s Store) read(name string) ([]byte, error) {
	data, err := files.Bounded(filepath.Join(s.dir, name), MaxState)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return data, nil
}

func (s Store) write(name string, data []byte) error {
	if err := files.Replace(filepath.Join(s.dir, name), data); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}
