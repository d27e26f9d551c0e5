package files

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes a file whole or not at all, for its owner alone to read, and durably: a crash leaves the old file or the
// new one, and at worst a stray temporary beside it.
func Replace(name string, data []byte) (err error) {
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
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(name))
}
