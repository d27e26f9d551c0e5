package device

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-configfs-tsm/configfs/configfsi"

	"github.com/assay-network/assay/internal/files"
)

// tree is configfs-tsm under a root folder. go-configfs-tsm names every path below configfsi.TsmPrefix.
type tree string

func (t tree) at(name string) (string, error) {
	rest, ok := strings.CutPrefix(name, configfsi.TsmPrefix)
	if !ok {
		return "", fmt.Errorf("%q is not below %s", name, configfsi.TsmPrefix)
	}
	return filepath.Join(string(t), rest), nil
}

func (t tree) MkdirTemp(dir, pattern string) (string, error) {
	at, err := t.at(dir)
	if err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(at, pattern)
	if err != nil {
		return "", err
	}
	return configfsi.TsmPrefix + strings.TrimPrefix(made, filepath.Clean(string(t))), nil
}

func (t tree) ReadFile(name string) ([]byte, error) {
	at, err := t.at(name)
	if err != nil {
		return nil, err
	}
	return files.Bounded(at, MaxAttribute)
}

// WriteFile writes an attribute in one system call, as configfs wants it, and creates nothing.
func (t tree) WriteFile(name string, contents []byte) error {
	at, err := t.at(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(contents)
	if e := f.Close(); err == nil {
		err = e // a binary attribute is stored when its file is closed
	}
	return err
}

func (t tree) ReadDir(dirname string) ([]os.DirEntry, error) {
	at, err := t.at(dirname)
	if err != nil {
		return nil, err
	}
	return os.ReadDir(at)
}

// RemoveAll removes an entry. The kernel takes the attributes away with it and would not let them be removed first.
func (t tree) RemoveAll(path string) error {
	at, err := t.at(path)
	if err != nil {
		return err
	}
	return os.Remove(at)
}
