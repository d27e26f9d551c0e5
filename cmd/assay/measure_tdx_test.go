package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/internal/vectors"
)

// TestMeasureTDXReplay: a real CCEL replays to the registers of the quote that was taken with it. One flipped byte of a
// digest does not, nor do two events of one register in the other order (G10).
func TestMeasureTDXReplay(t *testing.T) {
	quote := filepath.Join(vectors.Dir(t), "cpu/tdx/gtg-cos-113-tdx-quote.dat")
	log := vectors.Read(t, "cpu/eventlog/gtg-cos113-ccel_data.dat")
	l, err := eventlog.Parse(log, eventlog.RTMRs)
	if err != nil {
		t.Fatal(err)
	}
	// Two events behind one another of one register, and where they end.
	first := 0
	for l.Events[first].Register != 2 || l.Events[first+1].Register != 2 {
		first++
	}
	at := l.Events[first].Offset
	middle, end := l.Events[first+1].Offset, l.Events[first+2].Offset
	whole := string(log)
	digest := at + 4 + 4 + 4 + 2 // register, type, count, algorithm
	for _, row := range []struct {
		name, log, want string
	}{
		{"as it was", whole, ""},
		{"a flipped byte", whole[:digest] + string([]byte{whole[digest] ^ 1}) + whole[digest+1:], "RTMR1: the log replays to "},
		{"G10 swapped events", whole[:at] + whole[middle:end] + whole[at:middle] + whole[end:], "RTMR1: the log replays to "},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "ccel")
			if err := os.WriteFile(name, []byte(row.log), 0o600); err != nil {
				t.Fatal(err)
			}
			stdout, stderr, code := command(t, "measure", "tdx", "--quote", quote, "--event-log", name, "-o", "json")
			switch {
			case row.want == "":
				if code != exitAccept || !strings.Contains(stdout, `"assay/references/v1"`) {
					t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
				}
			case code != exitReject || !strings.Contains(stderr, row.want) || stdout != "":
				t.Errorf("exit code %d, want %d for %q\n%s%s", code, exitReject, row.want, stdout, stderr)
			}
		})
	}
}
