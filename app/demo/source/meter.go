package source

import "sync"

// A Meter counts the work at a source: how often it ran, and how much of it
// at the same time. The zero Meter is ready to use, and safe for concurrent
// use.
type Meter struct {
	mu      sync.Mutex
	calls   int64 // guarded by mu
	running int   // guarded by mu
	most    int   // guarded by mu; the highest that running has been
}

// A Count is what a Meter has seen.
type Count struct {
	Calls   int64 // calls that began
	Running int   // calls that have begun and not ended
	Most    int   // most calls that ran at once
}

// Begin counts a call that starts. The caller calls the end function when the
// work is over, once.
func (m *Meter) Begin() (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.running++
	m.most = max(m.most, m.running)
	return m.end
}

func (m *Meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
}

// Count returns what m has seen so far.
func (m *Meter) Count() Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Count{Calls: m.calls, Running: m.running, Most: m.most}
}
