package hotkeys

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/inspect"
)

// Max is the largest number of keys that a Sketch can report. For each of the
// requested keys it keeps at most Kept.
const (
	Max  = 10_000
	Kept = 2 * perKey
)

const (
	perKey   = 8           // counters per reportable key
	halfLife = time.Minute // the time in which a count halves
)

// Sampling parameters, see adaptLocked.
const (
	golden   = 0x9E3779B97F4A7C15 // 2^64 / golden ratio: spreads close numbers (Knuth, TAOCP 3, section 6.4)
	most     = 4096               // samples per second
	burst    = 1024               // samples after which the share is adjusted in any case
	interval = time.Second / 4    // time after which it is adjusted too: burst samples may take long to come
	maxStep  = 3                  // powers of two by which one adjustment lowers the share at most
	maxShift = 24
)

// A Sketch counts the calls and the load time of keys, to find the busiest.
//
// Calls are sampled. As long as they are few, all are counted. Of many, a few
// thousand per second are counted, each with a weight that stands for the others.
//
//	if w := s.Sample(now, turn); w > 0 {
//		s.Call(key, w, now)
//	}
//
// Times are nanoseconds on a monotonic clock of the owner, starting at zero or
// more. They can be out of order. A Sketch is safe for concurrent use. On a nil
// Sketch, which is one that is disabled, all methods do nothing. It keeps the
// keys with a counter alive, see New.
type Sketch[K comparable] struct {
	shift atomic.Uint32 // one of 1<<shift calls is sampled; on a separate cache line, because every call reads it
	_     [60]byte

	keys  int // number of reportable keys
	began int64

	mu    sync.Mutex
	calls counters[K] // guarded by mu; in calls
	loads counters[K] // guarded by mu; in seconds
	taken int         // guarded by mu: samples since the last adjustment
	since int64       // guarded by mu: time of the last adjustment
}

// New returns a Sketch that can report up to keys keys, from 1 to Max, by calls
// and by load time. It has eight counters of each kind per key. now is the
// current time.
func New[K comparable](keys int, now int64) *Sketch[K] {
	keys = min(max(keys, 1), Max)
	return &Sketch[K]{
		keys:  keys,
		began: now,
		calls: newCounters[K](perKey*keys, now),
		loads: newCounters[K](perKey*keys, now),
		since: now,
	}
}

// Sample decides whether a call is counted, and returns the number of calls that
// it stands for; 0 means that it is not counted. turn is any number that differs
// between calls, such as a count of them. It is combined with the time, which
// alone is too coarse on some machines. The key does not affect the decision.
func (s *Sketch[K]) Sample(now int64, turn uint64) uint64 {
	if s == nil {
		return 0
	}
	shift := s.shift.Load()
	if (uint64(now)+turn)*golden>>(64-shift) != 0 { // a shift by 64 yields 0
		return 0
	}
	return 1 << shift
}

// Call counts a call of key, selected by Sample, with its weight.
func (s *Sketch[K]) Call(key K, weight uint64, now int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.add(key, float64(weight), now)
	s.adaptLocked(now)
}

// Load counts a load of key and its duration. Loads are not sampled.
func (s *Sketch[K]) Load(key K, took time.Duration, now int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads.add(key, max(took, 0).Seconds(), now)
}

// adaptLocked counts a sample and, after an interval or burst samples, adjusts
// the share of sampled calls. The aim is at most most samples per second, and at
// least a quarter of that if there are enough calls. s.mu must be held.
//
// Each call is sampled with the share in effect when it arrives, and weighted
// accordingly, so the counts are right on average however the share changes.
func (s *Sketch[K]) adaptLocked(now int64) {
	s.taken++
	passed := time.Duration(now - s.since)
	if s.taken < burst && passed < interval {
		return
	}
	rate := float64(s.taken) / max(passed.Seconds(), 1e-9)
	shift := s.shift.Load()
	for step := 0; step < maxStep && rate > most && shift < maxShift; step++ {
		shift++
		rate /= 2
	}
	for shift > 0 && rate < most/4 {
		shift--
		rate *= 2
	}
	s.shift.Store(shift)
	s.taken, s.since = 0, now
}

// HotKeys returns the busiest keys, at most most of each kind. Sampled calls are
// blocked while it copies the counters.
func (s *Sketch[K]) HotKeys(most int, now int64) inspect.HotKeys {
	if s == nil {
		return inspect.HotKeys{}
	}
	s.mu.Lock()
	calls, loads := s.calls.copy(), s.loads.copy()
	s.mu.Unlock()

	most = min(max(most, 0), s.keys)
	window := s.window(now)
	h := inspect.HotKeys{Window: window}
	h.ByTraffic, h.Requests = calls.top(most, window, now)
	h.ByLoadTime, h.LoadTime = loads.top(most, window, now)
	return h
}

// window returns the divisor that turns faded counts into a rate per second. It
// is at least one second; otherwise a single call right after the start would
// count as thousands per second.
func (s *Sketch[K]) window(now int64) time.Duration {
	age := max(time.Duration(now-s.began), time.Second)
	w := float64(halfLife) / math.Ln2 * -math.Expm1(-math.Ln2*float64(age)/float64(halfLife))
	return max(time.Duration(w), time.Second)
}
