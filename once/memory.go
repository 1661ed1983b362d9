package once

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Memory is a Store that ends with its process: for tests, and for calls that may run again
// after a restart. Create it with NewMemory.
type Memory struct {
	mu      sync.Mutex
	version uint64            // guarded by mu
	table   table             // guarded by mu
	records map[Digest]Record // guarded by mu
}

var _ Store = (*Memory)(nil)

// NewMemory returns a Memory with at most so many bytes and keys. 0 means DefaultBytes and
// DefaultKeys.
func NewMemory(bytes int64, keys int) *Memory {
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	if keys <= 0 {
		keys = DefaultKeys
	}
	return &Memory{table: newTable(keys, bytes), records: map[Digest]Record{}}
}

// current returns the entry of id, nil if there is none or it has expired. m.mu must be held.
func (m *Memory) current(id Digest) *entry {
	e := m.table.entries[id]
	if e != nil && !time.Now().Before(e.expires) {
		m.drop(e)
		return nil
	}
	return e
}

func (m *Memory) drop(e *entry) {
	m.table.remove(e)
	delete(m.records, e.id)
}

// Get implements [Store].
func (m *Memory) Get(_ context.Context, id Digest) (Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.current(id)
	if e == nil {
		return Stored{ID: id}, nil
	}
	r := m.records[id]
	r.Header, r.Trailer, r.Body = r.Header.Clone(), r.Trailer.Clone(), slices.Clone(r.Body)
	return Stored{ID: id, Version: e.version, Record: r}, nil
}

// Put implements [Store].
func (m *Memory) Put(_ context.Context, id Digest, r Record, old uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.current(id)
	if was == nil && old != 0 || was != nil && was.version != old {
		return 0, ErrConflict
	}
	size := int64(len(r.Body))
	for _, h := range []map[string][]string{r.Header, r.Trailer} {
		for name, lines := range h {
			for _, line := range lines {
				size += int64(len(name) + len(line))
			}
		}
	}
	e := newEntry(id, m.version+1, &r, &position{size: size})
	if was != nil {
		m.drop(was)
	} else {
		for o := m.table.oldest(); o != nil && m.current(o.id) == nil; o = m.table.oldest() {
			continue // current has dropped it
		}
		if err := m.table.admits(e); err != nil {
			return 0, err
		}
	}
	m.version++
	m.table.add(e)
	r.Header, r.Trailer, r.Body = r.Header.Clone(), r.Trailer.Clone(), slices.Clone(r.Body)
	m.records[id] = r
	return m.version, nil
}

// Delete implements [Store].
func (m *Memory) Delete(_ context.Context, id Digest, old uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.current(id)
	if e == nil || e.version != old {
		return ErrConflict
	}
	m.drop(e)
	return nil
}

// List implements [Store].
func (m *Memory) List(_ context.Context, most int, states ...State) (all []Stored, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, e := range m.table.entries {
		if len(all) == most {
			break
		}
		if !slices.Contains(states, e.state) || !time.Now().Before(e.expires) {
			continue
		}
		r := m.records[id]
		r.Header, r.Trailer, r.Body = nil, nil, nil
		all = append(all, Stored{ID: id, Version: e.version, Record: r})
	}
	return all, nil
}

// Usage implements [Store].
func (m *Memory) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.usage()
}
