package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
)

// contextType is the type of the document that `assay login` leaves.
const contextType = "assay/context/v1"

// loginContext is the server that commands talk to, and the token that they show it.
type loginContext struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Token string `json:"token"`
}

func (a *app) loginCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "login URL",
		Short: "Remember a server and a token for it",
		Long: `Remember a server and a token for it.

The token is read from stdin, so that it stands in no shell history. Both are kept
in a file that its owner alone can read: $ASSAY_CONFIG, else assay/context.json in
the user's configuration folder.`,
		Example: `  assay login https://assay.example < token
  assay login http://127.0.0.1:8080`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.login(c.Context(), args[0]) },
	}
}

func (a *app) login(ctx context.Context, url string) error {
	origin, err := client.Origin(url)
	if err != nil {
		return err
	}
	a.say("token for %s:", origin)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	token := strings.TrimSpace(line)
	if token == "" {
		return errors.Join(errors.New("no token on stdin"), err)
	}
	c, err := client.New(client.Config{URL: origin, Credential: token})
	if err != nil {
		return err
	}
	if _, err := c.Nodes(ctx, ""); err != nil {
		return withHint(err, "`assay serve` prints its admin token at the first start, and another with --renew admin-token")
	}
	path, err := a.contextPath()
	if err != nil {
		return err
	}
	if err := saveContext(path, loginContext{contextType, origin, token}); err != nil {
		return err
	}
	a.say("logged in to %s (%s)", origin, path)
	return nil
}

// contextPath returns where the context is kept.
func (a *app) contextPath() (string, error) {
	if path := a.getenv("ASSAY_CONFIG"); path != "" {
		return path, nil
	}
	dir := a.getenv("XDG_CONFIG_HOME")
	if dir == "" {
		if a.getenv("HOME") == "" {
			return "", withHint(errors.New("no configuration folder"), "name a file in ASSAY_CONFIG")
		}
		dir = filepath.Join(a.getenv("HOME"), ".config")
	}
	return filepath.Join(dir, "assay", "context.json"), nil
}

// saveContext replaces the file whole, for its owner alone.
func saveContext(path string, c loginContext) error {
	data, err := canon.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.Replace(path, append(data, '\n'))
}

// session returns a client of the server that the user logged in to.
func (a *app) session() (*client.Client, error) {
	path, err := a.contextPath()
	if err != nil {
		return nil, err
	}
	data, err := files.Bounded(path, client.MaxProblem)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withHint(errors.New("not logged in"), "run: assay login URL")
	}
	if err != nil {
		return nil, err
	}
	var c loginContext
	if err := canon.Unmarshal([]byte(strings.TrimSuffix(string(data), "\n")), &c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.Type != contextType {
		return nil, fmt.Errorf("%s: type %.80q is not known to this build, want %q", path, c.Type, contextType)
	}
	return client.New(client.Config{URL: c.URL, Credential: c.Token})
}
