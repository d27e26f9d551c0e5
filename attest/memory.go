package attest

import (
	"container/list"
	"sync"

	"github.com/assay-network/assay/internal/canon"
)

// Memory keeps results of pure functions by a digest of everything they depend on, so that a certificate chain is
// proved once and not a thousand times. A result is the same with and without it: what is remembered never depends on
// the time of appraisal, only validity intervals, which are compared anew each time.
//
// A nil *Memory remembers nothing. A Memory may be used by several goroutines.
type Memory struct {
	mu    sync.Mutex
	items map[canon.Digest]*list.Element
	order *list.List // most recently used first
}

type remembered struct {
	key   canon.Digest
	value any
}

// NewMemory returns an empty Memory of at most [MaxRemembered] results.
func NewMemory() *Memory {
	return &Memory{items: map[canon.Digest]*list.Element{}, order: list.New()}
}

// Remember returns compute(), or what it returned before under the same key. The key must name the function and hold
// every input.
func Remember[T any](m *Memory, key canon.Digest, compute func() T) T {
	if m == nil {
		return compute()
	}
	m.mu.Lock()
	if e, ok := m.items[key]; ok {
		m.order.MoveToFront(e)
		v := e.Value.(remembered).value.(T)
		m.mu.Unlock()
		return v
	}
	m.mu.Unlock()
	v := compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.items[key]; !ok {
		m.items[key] = m.order.PushFront(remembered{key, v})
		if m.order.Len() > MaxRemembered {
			last := m.order.Back()
			delete(m.items, m.order.Remove(last).(remembered).key)
		}
	}
	return v
}
