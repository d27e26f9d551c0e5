package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/server"
)

// database is where commands that work on a server's own database find it.
type database struct{ data, url string }

// flags adds them to a command and those below it.
func (d *database) flags(cmd *cobra.Command) {
	fl := cmd.PersistentFlags()
	fl.StringVar(&d.data, "data", "", "data `FOLDER` of the server")
	fl.StringVar(&d.url, "database", "", "`URL`: sqlite:PATH or postgres://...")
}

// open opens a database that is there. random is nil for those who append nothing.
func (d *database) open(ctx context.Context, random io.Reader) (*server.Store, error) {
	url := d.url
	switch {
	case (d.data == "") == (url == ""):
		return nil, errors.New("want one of --data FOLDER and --database URL")
	case url == "":
		url = "sqlite:" + filepath.Join(d.data, "assay.db")
	}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok { // opening would make the file
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	if random == nil {
		random = neverRandom{}
	}
	return server.OpenStore(ctx, url, random)
}

// with runs f on the store and closes it.
func (d *database) with(ctx context.Context, random io.Reader, f func(*server.Store) error) error {
	s, err := d.open(ctx, random)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// neverRandom is the randomness of a store that writes no entries.
type neverRandom struct{}

func (neverRandom) Read([]byte) (int, error) {
	return 0, errors.New("a reader of the log appends nothing")
}
