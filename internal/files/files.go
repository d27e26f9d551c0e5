// Package files reads files whose size nobody vouches for: state, attributes of the kernel, what a host or a person
// hands in.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Bounded reads a file of at most limit bytes to its end, whatever size its directory entry has: pipes and files that the
// kernel makes up have none. A file that is not there is fs.ErrNotExist.
func Bounded(name string, limit int) ([]byte, error) {
	data, err := Prefix(name, limit+1)
	if err == nil && len(data) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return data, err
}

// Prefix reads the first bytes of a file, to its end where it is short.
func Prefix(name string, limit int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if err != nil {
		return nil, err // names the file
	}
	return data, nil
}

// Folder makes a folder, and those above it that are missing, for their owner alone and durably.
func Folder(name string) error {
	var made []string
	for at := filepath.Clean(name); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break // what else is wrong with it, making it says
		}
		made = append(made, at)
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return err
	}
	for _, at := range made {
		if err := SyncFolder(filepath.Dir(at)); err != nil {
			return err
		}
	}
	return nil
}

// SyncFolder returns when the disk has the names of a folder: what was made, renamed or removed in it.
func SyncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
