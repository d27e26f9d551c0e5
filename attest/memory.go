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
	if kept, ok := m.recall(key); ok {
		v, _ := kept.(T) // not a T only where T is an interface and the result was nil
		return v
	}
	v := compute()
	m.keep(key, v)
	return v
}

func (m *Memory) recall(key canon.Digest) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.items[key]
	if !ok {
		return nil, false
	}
	m.order.MoveToFront(e)
	return e.Value.(remembered).value, true
}

func (m *Memory) keep(key canon.Digest, v any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.items[key]; ok {
		return
	}
	m.items[key] = m.order.PushFront(remembered{key, v})
	if m.order.Len() > MaxRemembered {
		last := m.order.Back()
		delete(m.items, m.order.Remove(last).(remembered).key)
	}
}
