package files

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes a file whole or not at all, for its owner alone to read, and durably: a crash leaves the old file or the
// new one, and at worst a stray temporary beside it.
func Replace(name string, data []byte) error { return put(name, data, os.Rename) }

// Create is [Replace] for a file that is not there: one that is stays, and the error is fs.ErrExist.
func Create(name string, data []byte) error {
	return put(name, data, func(temporary, name string) error {
		// A link, unlike a rename, never replaces what somebody else made meanwhile.
		if err := os.Link(temporary, name); err != nil {
			return err
		}
		return os.Remove(temporary)
	})
}

func put(name string, data []byte, place func(temporary, name string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = place(f.Name(), name); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(name))
}
