package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
)

// Types of the document that `assay login` leaves.
const (
	contextsType = "assay/contexts/v1"
	contextType  = "assay/context/v1" // one server without a name, as earlier builds wrote it: it is read, and written anew with the next change
)

// Limits of the document.
const (
	maxContexts    = 256
	maxContextName = 80
	maxContextFile = 1 << 20 // bytes
)

// contexts are the servers that the user logged in to.
type contexts struct {
	Type     string         `json:"type"`
	Current  string         `json:"current,omitzero"` // name of the one that commands talk to; absent: none was chosen
	Contexts []loginContext `json:"contexts"`
}

// loginContext is one server, and the token that commands show it.
type loginContext struct {
	Name      string     `json:"name"`
	URL       string     `json:"url"`
	Token     string     `json:"token"`
	Principal string     `json:"principal,omitzero"` // whose the token is, as the server said at the login
	Expires   canon.Time `json:"expires,omitzero"`
}

func (c *contexts) find(name string) int {
	return slices.IndexFunc(c.Contexts, func(one loginContext) bool { return one.Name == name })
}

func (c *contexts) names() string {
	var names []string
	for _, one := range c.Contexts {
		names = append(names, one.Name)
	}
	return strings.Join(names, ", ")
}

func (a *app) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "The servers that you logged in to: list them, choose one, forget one",
		Long: `The servers that you logged in to: list them, choose one, forget one.

Commands talk to the chosen one, or to the one that --context names. All are kept in a
file that its owner alone can read: $ASSAY_CONFIG, else assay/context.json in the user's
configuration folder.`,
		Example: "  assay context list\n  assay context use lab\n  assay nodes list --context lab\n  assay context remove lab",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List the servers, the chosen one with a star", Example: "  assay context list", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.listContexts() },
	}, &cobra.Command{
		Use: "use NAME", Short: "Choose the server that commands talk to", Example: "  assay context use lab", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.useContext(args[0]) },
	}, &cobra.Command{
		Use: "remove NAME", Short: "Forget a server and its token, which stays good: see assay logout", Example: "  assay context remove lab", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.removeContext(args[0]) },
	})
	return cmd
}

func (a *app) listContexts() error {
	all, err := a.loadContexts()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tNAME\tURL\tPRINCIPAL\tEXPIRES")
	for _, c := range all.Contexts {
		star, expires := "", "never"
		if c.Name == all.Current {
			star = "*"
		}
		switch {
		case c.Principal == "": // written by an earlier build
			expires = ""
		case c.Expires != 0 && c.Expires <= canon.At(a.now()):
			expires = "expired " + c.Expires.String()
		case c.Expires != 0:
			expires = c.Expires.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", star, c.Name, c.URL, c.Principal, expires)
	}
	return w.Flush()
}

func (a *app) useContext(name string) error {
	all, err := a.loadContexts()
	if err != nil {
		return err
	}
	i := all.find(name)
	if i < 0 {
		return noContext(all, name)
	}
	all.Current = name
	a.say("commands talk to %s (%s)", name, all.Contexts[i].URL)
	return a.saveContexts(all)
}

func (a *app) removeContext(name string) error {
	all, err := a.loadContexts()
	if err != nil {
		return err
	}
	i := all.find(name)
	if i < 0 {
		return noContext(all, name)
	}
	a.say("%s (%s) is forgotten here", name, all.Contexts[i].URL)
	return a.forget(all, i)
}

// forget leaves a context out. Another one is not chosen instead: commands would talk to a server that nobody named.
func (a *app) forget(all contexts, i int) error {
	if all.Contexts[i].Name == all.Current {
		all.Current = ""
	}
	all.Contexts = slices.Delete(all.Contexts, i, i+1)
	return a.saveContexts(all)
}

func noContext(all contexts, name string) error {
	err := fmt.Errorf("no context %q", name)
	if len(all.Contexts) == 0 {
		return withHint(err, "run: assay login URL --name %s", name)
	}
	return withHint(err, "there are: %s", all.names())
}

// contextPath returns where the contexts are kept.
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

// loadContexts reads the contexts; there are none before the first login. A file that others can read is refused: the
// tokens in it are no longer its owner's alone.
func (a *app) loadContexts() (contexts, error) {
	none := contexts{Type: contextsType, Contexts: []loginContext{}}
	path, err := a.contextPath()
	if err != nil {
		return none, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return none, withHint(fmt.Errorf("%s: others can read the tokens in it, its mode is %o", path, info.Mode().Perm()),
			"chmod 600 %s, and revoke the tokens if somebody may have read them", path)
	}
	data, err := files.Bounded(path, maxContextFile)
	if err != nil {
		return none, err
	}
	all, err := parseContexts([]byte(strings.TrimSuffix(string(data), "\n")))
	if err != nil {
		return none, withHint(fmt.Errorf("%s: %w", path, err), "put it right, or move it away and log in again")
	}
	return all, nil
}

func parseContexts(data []byte) (contexts, error) {
	var old struct {
		Type  string `json:"type"`
		URL   string `json:"url"`
		Token string `json:"token"`
	}
	if err := canon.Unmarshal(data, &old); err == nil && old.Type == contextType {
		origin, err := client.Origin(old.URL)
		if err != nil {
			return contexts{}, err
		}
		name := contextNameOf(origin)
		return contexts{Type: contextsType, Current: name, Contexts: []loginContext{{Name: name, URL: origin, Token: old.Token}}}, nil
	}
	var all contexts
	if err := canon.Unmarshal(data, &all); err != nil {
		return all, err
	}
	if all.Type != contextsType {
		return all, fmt.Errorf("type %.80q is not known to this build, want %q", all.Type, contextsType)
	}
	if len(all.Contexts) > maxContexts {
		return all, fmt.Errorf("%d contexts, at most %d", len(all.Contexts), maxContexts)
	}
	for i, c := range all.Contexts {
		if err := checkContextName(c.Name); err != nil {
			return all, err
		}
		if all.find(c.Name) != i {
			return all, fmt.Errorf("the context %q stands twice", c.Name)
		}
	}
	return all, nil
}

// contextNameOf is what a server is called that nobody gave a name.
func contextNameOf(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	return host[:min(len(host), maxContextName)]
}

func checkContextName(name string) error {
	if name == "" || len(name) > maxContextName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }) {
		return fmt.Errorf("name of a context %.100q: want at most %d bytes, without spaces", name, maxContextName)
	}
	return nil
}

// saveContexts replaces the file whole, for its owner alone.
func (a *app) saveContexts(all contexts) error {
	path, err := a.contextPath()
	if err != nil {
		return err
	}
	data, err := canon.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.Replace(path, append(data, '\n'))
}

// chosen returns the contexts, and which one commands talk to: the one that --context names, else the chosen one.
func (a *app) chosen() (contexts, int, error) {
	all, err := a.loadContexts()
	if err != nil {
		return all, 0, err
	}
	name := a.context
	if name == "" {
		name = all.Current
	}
	switch i := all.find(name); {
	case i >= 0:
		return all, i, nil
	case name != "":
		return all, 0, noContext(all, name)
	case len(all.Contexts) == 0:
		return all, 0, withHint(errors.New("not logged in"), "run: assay login URL")
	}
	return all, 0, withHint(errors.New("no server is chosen"), "run: assay context use NAME; there are: %s", all.names())
}

// session returns a client of the server that commands talk to.
func (a *app) session() (*client.Client, error) {
	all, i, err := a.chosen()
	if err != nil {
		return nil, err
	}
	return all.Contexts[i].client()
}

func (c loginContext) client() (*client.Client, error) {
	return client.New(client.Config{URL: c.URL, Credential: c.Token})
}

// sessionAt returns a client of the server with an origin, or nil where there is no login to it. Of several, the chosen one
// comes first.
func (a *app) sessionAt(origin string) *client.Client {
	all, i, err := a.chosen()
	order := all.Contexts
	if err == nil {
		order = append([]loginContext{all.Contexts[i]}, order...)
	}
	for _, c := range order {
		if c.URL != origin {
			continue
		}
		if s, err := c.client(); err == nil {
			return s
		}
	}
	return nil
}
