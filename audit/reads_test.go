package audit_test

import (
	"context"
	"sync"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// metered counts what is read of a source.
type metered struct {
	ledger.Source
	mu    sync.Mutex
	bytes int64
	times map[canon.Digest]int // that each blob was read
}

func (m *metered) Blob(ctx context.Context, d canon.Digest) ([]byte, error) {
	data, err := m.Source.Blob(ctx, d)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes += int64(len(data))
	m.times[d]++
	return data, err
}

func (m *metered) Tile(ctx context.Context, t ledger.Tile) ([]byte, error) {
	data, err := m.Source.Tile(ctx, t)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes += int64(len(data))
	return data, err
}

// TestPaperReads: a paper is made of two readings of the log, in the memory of a replay. What was drawn is read once more.
func TestPaperReads(t *testing.T) {
	const verdicts = 1200 // more entries than are kept at hand
	s := newService(t, "honest")
	good := newHost("good", sevsnp.PolicySMT)
	for i := range verdicts {
		if i%100 == 0 {
			s.serve(good)
			continue
		}
		c := s.ask("good")
		body, _ := s.take(c, good.bare(s.log, c.Digest()))
		s.decide(s.judge(c, body), body)
	}
	s.publish()
	whole := int64(0)
	for _, data := range s.blobs {
		whole += int64(len(data))
	}
	m := &metered{Source: s, times: map[canon.Digest]int{}}
	before, most := liveHeap(), int64(0)
	p, _, _ := paper(t, m, s.trust(), audit.Options{Workers: 2, Progress: func(stage string, done, total int64) {
		if done%(total/4+1) < 64 {
			most = max(most, liveHeap()-before)
		}
	}})
	if p.Outcome != audit.Equal || p.Population.Rows != verdicts {
		t.Fatal(p.Conclusion)
	}
	often := 0
	for _, n := range m.times {
		if n > 2 {
			often++
		}
	}
	t.Logf("%d entries of %d KiB: read %.2f times, %d blobs more than twice, at most %d KiB live", s.edge.Tree().Size, whole>>10, float64(m.bytes)/float64(whole), often, most>>10)
	// The drawn verdicts, their inputs and what all of them share.
	if most := int(10 * (p.Sample.Wanted + p.Challenge.Wanted)); often > most {
		t.Errorf("%d blobs were read more than twice, want at most %d", often, most)
	}
	if m.bytes > 2*whole {
		t.Errorf("%d bytes were read of %d", m.bytes, whole)
	}
}
