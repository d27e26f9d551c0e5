package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/ledger"
)

// chainLog is one log of a source.
type chainLog struct {
	origin string
	folder string // below that of the first one; empty: it is the first
	src    ledger.Source
}

// pullChain is what a source has: mostly one log.
type pullChain struct {
	logs  []chainLog // the oldest first
	keys  ledger.KeyHistory
	asked bool // the keys are what the source says of them when it is asked; else, of several logs, those that the newest brings
}

// pullChain finds out which logs a URL or a folder has.
func (a *app) pullChain(ctx context.Context, from string) (pullChain, error) {
	src, err := a.pullSource(from)
	if err != nil {
		return pullChain{}, err
	}
	switch src := src.(type) {
	case folder:
		return probe(ctx, src, func(below string) ledger.Source { return openFolder(filepath.Join(from, below)) })
	case client.Files:
		return probe(ctx, src, func(below string) ledger.Source { return src.Below(below) })
	}
	c, err := a.clientOf(from)
	if err != nil {
		return pullChain{}, err
	}
	chain := pullChain{asked: true}
	chain.keys, err = c.Keys(ctx)
	if p := client.AsProblem(err); p != nil && p.Status == http.StatusNotFound { // a mirror of the log alone
		chain.asked, err = false, nil
	}
	if err != nil {
		return pullChain{}, err
	}
	logs, err := c.Logs(ctx)
	if p := client.AsProblem(err); p != nil && p.Status == http.StatusNotFound { // a server of one log
		chain.logs = []chainLog{{chain.keys.Current().Origin, "", c.Mirror()}}
		return chain, nil
	}
	if err != nil {
		return pullChain{}, err
	}
	for i, l := range logs {
		src, err := c.Log(ctx, l.Origin)
		if err != nil {
			return pullChain{}, err
		}
		chain.logs = append(chain.logs, chainLog{l.Origin, folderOf(i), src})
	}
	return chain, nil
}

func folderOf(i int) string {
	if i == 0 {
		return ""
	}
	return strconv.Itoa(i + 1)
}

// probe finds the logs of a folder and of those below it. A first one that has nothing yet is for the pull to meet.
func probe(ctx context.Context, first ledger.Source, at func(folder string) ledger.Source) (pullChain, error) {
	var chain pullChain
	said := map[string][]byte{}
	if err := sayAll(ctx, first, said); err != nil {
		return chain, err
	}
	if data := said[client.SaidKeysets]; data != nil {
		var err error
		if chain.keys, err = client.ReadKeysets(data); err != nil {
			return chain, err
		}
		chain.asked = true
	}
	for i, src := 0, first; ; i++ {
		if i > 0 {
			src = at(folderOf(i))
		}
		origin, err := originOf(ctx, src)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return chain, fmt.Errorf("checkpoint: %w", err)
		}
		chain.logs = append(chain.logs, chainLog{origin, folderOf(i), src})
	}
	if newest := chain.logs[len(chain.logs)-1]; len(chain.logs) > 1 && !chain.asked {
		var err error
		if chain.keys, err = audit.FirstKeys(ctx, newest.src); err != nil { // a mirror without blobs does not show those of the newest
			if chain.keys, err = audit.KeysBefore(ctx, newest.src); err != nil {
				return chain, err
			}
		}
	}
	return chain, nil
}

// choose returns the log that is asked for: by its name, else that of an earlier pull, else the newest.
func (c pullChain) choose(ctx context.Context, name string, earlier func() (ledger.Source, func() error, error)) (chainLog, error) {
	newest := c.logs[len(c.logs)-1]
	if name == "" {
		src, end, err := earlier()
		if err != nil {
			return newest, err
		}
		name, err = originOf(ctx, src)
		if err := end(); err != nil {
			return newest, err
		}
		if err != nil || len(c.logs) == 1 { // what is wrong with it is for the pull to say
			return newest, nil
		}
	}
	return c.named(name)
}

// named returns the log of a name.
func (c pullChain) named(name string) (chainLog, error) {
	var names []string
	for _, l := range c.logs {
		if l.origin == name {
			return l, nil
		}
		names = append(names, l.origin)
	}
	return chainLog{}, fmt.Errorf("log %.80q: the source has %.1000q", name, names)
}

// forReader returns the chain for a reader who goes from one log to the next.
func (c pullChain) forReader(context.Context) (ledger.Chain, error) {
	return ledger.Chain{Keys: c.keys, Log: func(_ context.Context, origin string) (ledger.Source, error) {
		l, err := c.named(origin)
		return l.src, err
	}}, nil
}

// after returns the log that comes after one, empty for the newest.
func (c pullChain) after(l chainLog) string {
	i := slices.IndexFunc(c.logs, func(o chainLog) bool { return o.origin == l.origin })
	if i+1 < len(c.logs) {
		return c.logs[i+1].origin
	}
	return ""
}

// ended checks that a log that was closed is here as the next one says that it ended.
func (c pullChain) ended(is ledger.Checkpoint) error {
	next, _, ok := c.keys.After(is.Origin)
	if final := next.Continues; ok && is.Tree != final.Tree() {
		return fmt.Errorf("the log %q is here with size %d, root %s; the log %q continues it with size %d, root %s", is.Origin, is.Size, is.Root, next.Origin, final.Size, final.Root)
	}
	return nil
}

// pullAll pulls each log into a folder of its own.
func (a *app) pullAll(ctx context.Context, chain pullChain, args pullArgs) error {
	if strings.HasSuffix(args.out, ".tar") {
		return errors.New("--log all wants a folder: an export is of one log")
	}
	code := exitAccept
	for _, l := range chain.logs {
		own := args
		own.out = filepath.Join(args.out, l.folder)
		err := a.pullLog(ctx, chain, l, own)
		var o outcome
		switch {
		case errors.As(err, &o) && int(o) == exitUndecided: // something was withheld; the others may be whole
			code = exitUndecided
		case err != nil:
			return err
		}
	}
	if code != exitAccept {
		return outcome(code)
	}
	return nil
}
