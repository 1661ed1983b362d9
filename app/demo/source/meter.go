package source

import "sync"

// A Meter counts the work at a source: how often it ran, and how much of it concurrently.
// The zero Meter is ready to use, and safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	calls   int64 // guarded by mu
	running int   // guarded by mu
	most    int   // guarded by mu; the highest that running has been
}

// A Count holds the counts of a Meter.
type Count struct {
	Calls   int64 // calls that began
	Running int   // calls that have begun and not ended
	Most    int   // most concurrent calls
}

// Begin counts a call that starts. The caller calls end once when the work is done.
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

// Count returns m's counts so far.
func (m *Meter) Count() Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Count{Calls: m.calls, Running: m.running, Most: m.most}
}
