package scenario

import (
	"sync"
	"time"

	"github.com/weir-go/weir/lab/result"
)

// Interval is the resolution of series.
const Interval = 100 * time.Millisecond

// maxIntervals bounds a series: two hours.
const maxIntervals = int(2 * time.Hour / Interval)

// A Meter counts the calls to a source. The zero Meter is ready to use, and
// safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	start   time.Time     // guarded by mu; of the measurement
	calls   int64         // guarded by mu; that have begun
	ended   int64         // guarded by mu
	running int           // guarded by mu
	most    int           // guarded by mu; highest value of running
	longest time.Duration // guarded by mu
	total   time.Duration // guarded by mu; of the finished calls
	begun   []float64     // guarded by mu; started calls in each interval
}

// Begin counts the start of a call. The caller calls end once, when the call is over.
func (m *Meter) Begin() (end func()) {
	began := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.running++
	m.most = max(m.most, m.running)
	if i := int(began.Sub(m.start) / Interval); !m.start.IsZero() && i < maxIntervals {
		for len(m.begun) <= i {
			m.begun = append(m.begun, 0)
		}
		m.begun[i]++
	}
	since := m.start
	return func() { m.end(since, time.Since(began)) }
}

// end ends a call. A call that began before the measurement is not counted in it.
func (m *Meter) end(since time.Time, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	if !since.Equal(m.start) {
		return
	}
	m.ended++
	m.total += took
	m.longest = max(m.longest, took)
}

// Running returns the number of running calls.
func (m *Meter) Running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// reset begins a measurement. Running calls continue, and count as running.
func (m *Meter) reset(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start, m.calls, m.ended, m.most = now, 0, 0, m.running
	m.longest, m.total, m.begun = 0, 0, nil
}

// source returns m's counts of the measurement.
func (m *Meter) source() result.Source {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := result.Source{Calls: m.calls, Most: m.most, LongestMS: ms(m.longest)}
	if m.ended > 0 {
		s.MeanMS = ms(m.total) / float64(m.ended)
	}
	return s
}

// series returns the calls per second over time, up to now.
func (m *Meter) series(now time.Time) result.Series {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(int(now.Sub(m.start)/Interval)+1, maxIntervals)
	out := result.Series{Name: result.CallsAtSource, Unit: "calls/s", EveryMS: ms(Interval), Values: make([]float64, n)}
	for i := range min(n, len(m.begun)) {
		out.Values[i] = m.begun[i] / Interval.Seconds()
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
