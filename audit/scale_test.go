package audit_test

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
)

// spill is a log whose blobs lie in a file, so that the test itself holds no more of them than where each one is.
type spill struct {
	*log
	file *os.File
	end  int64
	at   map[canon.Digest][2]int64
}

// settle moves the log's blobs to the file.
func (s *spill) settle() {
	s.t.Helper()
	for d, data := range s.blobs {
		if _, ok := s.at[d]; !ok {
			_, err := s.file.WriteAt(data, s.end)
			s.must(err)
			s.at[d] = [2]int64{s.end, int64(len(data))}
			s.end += int64(len(data))
		}
		delete(s.blobs, d)
	}
}

func (s *spill) Blob(_ context.Context, d canon.Digest) ([]byte, error) {
	span, ok := s.at[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	data := make([]byte, span[1])
	_, err := s.file.ReadAt(data, span[0])
	return data, err
}

// bare makes evidence that costs next to nothing to make and to judge: an agent's statement alone.
func (h *host) bare(l *log, n canon.Digest) []byte {
	b := attest.Bundle{Type: attest.BundleType, Keys: h.keys(), Challenge: n, Seal: "agent", Components: []attest.Component{
		{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{
			{Name: attest.PartStatement, Data: l.bytes(attest.Statement{Type: attest.StatementType, Agent: h.agent, BootID: "boot"})}}},
	}}
	env, err := attest.SealBundle(b, h.session)
	l.must(err)
	return l.bytes(env)
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestReplayMemory replays a long log from its file, and bounds what a replay keeps: under ASSAY_LONG a million entries.
// What a log costs beyond its entries' 50 bytes each does not grow with it.
func TestReplayMemory(t *testing.T) {
	rounds := 500
	if os.Getenv("ASSAY_LONG") == "1" {
		rounds = 250_000 // of four entries
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := newService(t, "honest")
	p := &spill{log: s.log, file: file, at: map[canon.Digest][2]int64{}}
	hosts := make([]*host, 100)
	for i := range hosts {
		hosts[i] = &host{node: fmt.Sprintf("node %d", i), session: newKey(fmt.Sprintf("session %d", i)), agent: agentDigest}
	}
	for i := range rounds {
		h := hosts[i%len(hosts)]
		c := s.ask(h.node)
		body, _ := s.take(c, h.bare(s.log, c.Digest()))
		s.decide(s.judge(c, body), body)
		if i%512 == 0 {
			p.settle()
		}
	}
	s.publish()
	p.settle()
	exported, err := os.Create(filepath.Join(t.TempDir(), "log.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer exported.Close()
	w := bufio.NewWriterSize(exported, 1<<20)
	s.must(audit.Export(t.Context(), p, w))
	s.must(w.Flush())
	info, err := exported.Stat()
	s.must(err)
	size, trust := s.edge.Tree().Size, s.trust()
	p.at, p.blobs, s.tiles = nil, nil, nil

	before, most := liveHeap(), int64(0)
	r, err := audit.ReplayFile(t.Context(), exported, info.Size(), trust, audit.Options{Workers: 2, Progress: func(stage string, done, total int64) {
		if done == total || done%(total/4+1) < 256 && done%(1<<14) < 256 {
			most = max(most, liveHeap()-before)
		}
	}})
	if err != nil || r.Outcome != audit.Equal || r.Verdicts.Replayed != int64(rounds) {
		t.Fatalf("%v\n%s", err, r.Text())
	}
	const fixed, each = 24 << 20, 80 // bytes: what is kept at hand, and an entry, with room to grow into
	t.Logf("%d entries in %d MiB: at most %d KiB live, %d bytes an entry", size, info.Size()>>20, most>>10, most/size)
	if most > fixed+each*size {
		t.Errorf("%d entries: %d bytes live, want at most %d", size, most, fixed+each*size)
	}
}
