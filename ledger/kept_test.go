package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/ledger"
)

func TestSizes(t *testing.T) {
	for _, row := range []struct {
		text string
		page int64
		ok   bool
	}{
		{"", 0, true}, {"1\n7\n65535\n", 0, true}, {"65536\n", 1, true},
		{"7\n1\n", 0, false}, {"7\n7\n", 0, false}, {"65536\n", 0, false}, {"1\n7", 0, false}, {"01\n", 0, false}, {"-1\n", 0, false}, {"one\n", 0, false}, {"1\r\n", 0, false},
	} {
		sizes, err := ledger.ParseSizes([]byte(row.text), row.page)
		if (err == nil) != row.ok || err == nil && string(ledger.FormatSizes(sizes)) != row.text {
			t.Errorf("%q of page %d: %v %v", row.text, row.page, sizes, err)
		}
	}
	if _, err := ledger.ParseSizes([]byte(strings.Repeat("1\n", ledger.MaxSizes)), 0); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too long: %v", err)
	}
	full := make([]int64, ledger.SizesPerPage)
	for i := range full {
		full[i] = 1<<53 - 2*ledger.SizesPerPage + int64(i)
	}
	if got, err := ledger.ParseSizes(ledger.FormatSizes(full), full[0]/ledger.SizesPerPage); err != nil || !slices.Equal(got, full) {
		t.Errorf("a full page: %v", err)
	}
}

func TestHasCosignature(t *testing.T) {
	text := "log.example\n1\nAAAA\n\n"
	for signatures, want := range map[string]bool{
		"":                     false,
		"— log.example AAAA\n": false,
		"— log.example AAAA\n— log.example BBBB\n":   false, // two keys of the log, while one takes over from the other
		"— log.example AAAA\n— witness.example BB\n": true,
	} {
		if got := ledger.HasCosignature([]byte(text + signatures)); got != want {
			t.Errorf("%q: %v", signatures, got)
		}
	}
}
