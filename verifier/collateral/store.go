package collateral

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// Store is a folder of items; the package comment says its layout. Its methods may be called concurrently.
type Store struct{ dir string }

const (
	dataDir   = "data"
	recordDir = "record"
	recordExt = ".json"
	lockDir   = "lock"
)

// OpenStore opens a folder, and makes it if need be.
func OpenStore(dir string) (*Store, error) {
	for _, d := range []string{dataDir, recordDir, lockDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("collateral store: %w", err)
		}
	}
	return &Store{dir}, nil
}

// key names the folder of the items of one source.
func key(kind, source string) string {
	return canon.Hash("assay/collateral-key/v1", []byte(kind), []byte(source)).String()
}

// Put keeps an item, and returns it as the store has it: one that is there already keeps its newer record.
func (s *Store) Put(record ledger.Collateral, data []byte) (Item, error) {
	i, err := newItem(record, data)
	if err != nil {
		return i, fmt.Errorf("keep collateral: %w", err)
	}
	text, err := canon.Marshal(record)
	if err != nil {
		return i, fmt.Errorf("keep collateral: %w", err)
	}
	dir := filepath.Join(s.dir, recordDir, key(record.Kind, record.Source))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return i, fmt.Errorf("keep collateral: %w", err)
	}
	name := record.Data.String()
	if old, err := os.ReadFile(filepath.Join(dir, name+recordExt)); err == nil {
		if r, err := ledger.ParseCollateral(old); err == nil && r.Fetched >= record.Fetched {
			if i, err := s.read(r); err == nil {
				return i, nil
			}
		}
	}
	if err := files.Replace(filepath.Join(s.dir, dataDir, name), data); err != nil {
		return i, fmt.Errorf("keep collateral: %w", err)
	}
	if err := files.Replace(filepath.Join(dir, name+recordExt), text); err != nil {
		return i, fmt.Errorf("keep collateral: %w", err)
	}
	return i, nil
}

// Newest returns the item of a source that was issued last, among those that may speak at a moment and came last. An item
// whose bytes are damaged is as none.
func (s *Store) Newest(kind, source string, at canon.Time) (newest Item, ok bool, err error) {
	records, err := s.records(key(kind, source))
	if err != nil {
		return Item{}, false, err
	}
	slices.SortStableFunc(records, func(a, b ledger.Collateral) int { return cmp.Compare(b.Fetched, a.Fetched) })
	for _, r := range records[:min(len(records), maxLooked)] {
		i, err := s.read(r)
		if err == nil && r.Kind == kind && r.Source == source && i.ValidAt(at) && (!ok || i.Facts.Window.From > newest.Facts.Window.From) {
			newest, ok = i, true
		}
	}
	return newest, ok, nil
}

// records reads the records of one key; one that does not parse is passed over.
func (s *Store) records(key string) (records []ledger.Collateral, err error) {
	dir := filepath.Join(s.dir, recordDir, key)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("collateral store: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), recordExt) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("collateral store: %w", err)
		}
		if r, err := ledger.ParseCollateral(text); err == nil {
			records = append(records, r)
		}
	}
	return records, nil
}

func (s *Store) read(r ledger.Collateral) (Item, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, dataDir, r.Data.String()))
	if err != nil {
		return Item{}, fmt.Errorf("collateral store: %w", err)
	}
	i, err := newItem(r, data)
	if err != nil {
		return i, fmt.Errorf("collateral store: %s: %w", r.Data, err)
	}
	return i, nil
}

// List returns all items, ordered by kind, source and the moment at which they came. What cannot be read is named in the
// error beside the rest.
func (s *Store) List() (items []Item, err error) {
	dirs, err := os.ReadDir(filepath.Join(s.dir, recordDir))
	if err != nil {
		return nil, fmt.Errorf("collateral store: %w", err)
	}
	var faults []error
	for _, d := range dirs {
		records, err := s.records(d.Name())
		if err != nil {
			faults = append(faults, err)
		}
		for _, r := range records {
			i, err := s.read(r)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			items = append(items, i)
		}
	}
	slices.SortFunc(items, compareItems)
	return items, errors.Join(faults...)
}

func compareItems(a, b Item) int {
	return cmp.Or(cmp.Compare(a.Record.Kind, b.Record.Kind), cmp.Compare(a.Record.Source, b.Record.Source),
		cmp.Compare(a.Record.Fetched, b.Record.Fetched), slices.Compare(a.Record.Data[:], b.Record.Data[:]))
}

// Have returns what is at hand, and may speak at a moment, of what judging something wants. As for [Fetcher.Collect], wanted
// is asked again with what was found. It asks nobody.
func (s *Store) Have(wanted func(have []attest.Collateral) []attest.Need, at canon.Time) (items []Item, err error) {
	looked := map[string]bool{}
	for {
		found := false
		for _, n := range wanted(given(items)) {
			k := key(n.Kind, n.Source)
			if looked[k] || len(looked) == MaxNeeds {
				continue
			}
			looked[k] = true
			i, ok, err := s.Newest(n.Kind, n.Source, at)
			if err != nil {
				return nil, err
			}
			if ok && !slices.ContainsFunc(items, func(o Item) bool { return o.Record.Data == i.Record.Data }) {
				items, found = append(items, i), true
			}
		}
		if !found {
			return items, nil
		}
	}
}
