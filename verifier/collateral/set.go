package collateral

import (
	"fmt"
	"io"
	"slices"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/tar"
	"github.com/assay-network/assay/ledger"
)

// SetType is the type of the list in an exported set.
const SetType = "assay/collateral-set/v1"

// A set is a tar file (package tar): the list first, then each item once, named by its digest and ordered by it. Equal
// records and bytes give equal files.
const (
	partList   = "set.json"
	partPrefix = "item/"
)

type setList struct {
	Type  string              `json:"type"` // assay/collateral-set/v1
	Items []ledger.Collateral `json:"items"`
}

// Export writes items into one file.
func Export(w io.Writer, items []Item) error {
	if len(items) > MaxSetItems {
		return fmt.Errorf("export collateral: %d items, at most %d", len(items), MaxSetItems)
	}
	items = slices.Clone(items)
	slices.SortFunc(items, compareItems)
	l := setList{Type: SetType, Items: []ledger.Collateral{}}
	for _, i := range items {
		l.Items = append(l.Items, i.Record)
	}
	text, err := canon.Marshal(l)
	if err != nil {
		return fmt.Errorf("export collateral: %w", err)
	}
	if err := tar.Write(w, partList, text); err != nil {
		return fmt.Errorf("export collateral: %w", err)
	}
	slices.SortFunc(items, func(a, b Item) int { return slices.Compare(a.Record.Data[:], b.Record.Data[:]) })
	for n, i := range items {
		if n > 0 && items[n-1].Record.Data == i.Record.Data {
			continue
		}
		if err := tar.Write(w, partPrefix+i.Record.Data.String(), i.Data); err != nil {
			return fmt.Errorf("export collateral: %w", err)
		}
	}
	return tar.End(w)
}

// Import reads a set of the given size in bytes and keeps its items; a set with any fault is refused whole. An item keeps
// the moment at which it was fetched, and its dates are read from its bytes. Whose items they are is not checked: an
// appraisal verifies them, and one that no vendor signed makes a claim unknown that another item might have affirmed.
func (s *Store) Import(r io.ReaderAt, size int64) ([]Item, error) {
	items, err := ReadSet(r, size)
	if err != nil {
		return nil, fmt.Errorf("import collateral: %w", err)
	}
	for n, i := range items {
		if items[n], err = s.Put(i.Record, i.Data); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// ReadSet reads the file that [Export] wrote.
func ReadSet(r io.ReaderAt, size int64) (items []Item, err error) {
	t := tar.NewReader(r, size)
	p, ok, err := t.Next()
	switch {
	case err != nil:
		return nil, err
	case !ok || p.Name != partList:
		return nil, fmt.Errorf("its first part is not %s: it is no set of collateral", partList)
	}
	text, err := t.Content(p)
	if err != nil {
		return nil, err
	}
	var l setList
	if err := canon.Unmarshal(text, &l); err != nil || l.Type != SetType {
		return nil, fmt.Errorf("%s: it is no document of type %s", partList, SetType)
	}
	if len(l.Items) > MaxSetItems {
		return nil, fmt.Errorf("%d items, at most %d", len(l.Items), MaxSetItems)
	}
	data := map[canon.Digest][]byte{}
	for {
		p, ok, err := t.Next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		content, err := t.Content(p)
		if err != nil {
			return nil, err
		}
		digest := canon.Sum(content)
		if p.Name != partPrefix+digest.String() {
			return nil, fmt.Errorf("%s: its bytes have the digest %s", p.Name, digest)
		}
		data[digest] = content
	}
	named := map[canon.Digest]bool{}
	for _, record := range l.Items {
		text, err := canon.Marshal(record)
		if err != nil {
			return nil, err
		}
		if _, err := ledger.ParseCollateral(text); err != nil {
			return nil, err
		}
		content, ok := data[record.Data]
		if !ok {
			return nil, fmt.Errorf("%s%s: missing", partPrefix, record.Data)
		}
		named[record.Data] = true
		i, err := newItem(record, content)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", partPrefix, record.Data, err)
		}
		items = append(items, i)
	}
	if len(named) != len(data) {
		return nil, fmt.Errorf("%d items that its list does not name", len(data)-len(named))
	}
	return items, nil
}
