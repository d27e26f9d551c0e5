package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// Checkpoints of before stand in a folder of files, and in an export, as checkpoints/SIZE. A reader over HTTP cannot list a
// folder: so checkpoints/sizes/N says which sizes from N*SizesPerPage to before (N+1)*SizesPerPage are there.

// KeptPrefix begins the names of the checkpoints of before.
const KeptPrefix = "checkpoints/"

// KeptName returns the name of the kept checkpoint of a size.
func KeptName(size int64) string { return KeptPrefix + strconv.FormatInt(size, 10) }

// ParseKeptName reads the name of a kept checkpoint.
func ParseKeptName(name string) (size int64, ok bool) {
	text, ok := strings.CutPrefix(name, KeptPrefix)
	size, err := strconv.ParseInt(text, 10, 64)
	return size, ok && err == nil && size >= 0 && size <= canon.MaxInt && KeptName(size) == name
}

// SizesPage returns the name of the file that lists the kept checkpoints of a page: of size/SizesPerPage.
func SizesPage(page int64) string { return KeptPrefix + "sizes/" + strconv.FormatInt(page, 10) }

// FormatSizes writes a list of sizes, one a line.
func FormatSizes(sizes []int64) []byte {
	var out []byte
	for _, s := range sizes {
		out = append(strconv.AppendInt(out, s, 10), '\n')
	}
	return out
}

// ParseSizes reads the list of a page: ascending, each once, each of that page.
func ParseSizes(data []byte, page int64) (sizes []int64, err error) {
	if len(data) > MaxSizes {
		return nil, fmt.Errorf("%s: %d bytes, at most %d", SizesPage(page), len(data), MaxSizes)
	}
	for line := range bytes.Lines(data) {
		size, ok := ParseKeptName(KeptPrefix + strings.TrimSuffix(string(line), "\n"))
		if !ok || size/SizesPerPage != page || len(sizes) > 0 && size <= sizes[len(sizes)-1] {
			return nil, fmt.Errorf("%s: %.40q: want ascending sizes of this page, one a line", SizesPage(page), line)
		}
		sizes = append(sizes, size)
	}
	if again := FormatSizes(sizes); !bytes.Equal(again, data) {
		return nil, errors.New(SizesPage(page) + ": the last line is cut off")
	}
	return sizes, nil
}

// AroundSizes finds the places in ascending sizes on both sides of an index of the log: -1 and the length for none.
func AroundSizes(sizes []int64, index int64) (before, after int) {
	after, _ = slices.BinarySearch(sizes, index+1)
	return after - 1, after
}

// HasCosignature reports whether a note carries a signature of another name than the log's, and so, if it is true, a time.
// It checks none.
func HasCosignature(note []byte) bool {
	text, signatures, _ := bytes.Cut(note, []byte("\n\n"))
	origin, _, _ := bytes.Cut(text, []byte("\n"))
	for line := range bytes.Lines(signatures) {
		name, _, ok := bytes.Cut(bytes.TrimPrefix(line, []byte("— ")), []byte(" "))
		if ok && !bytes.Equal(name, origin) {
			return true
		}
	}
	return false
}
