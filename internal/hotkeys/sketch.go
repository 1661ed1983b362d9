package hotkeys

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/inspect"
)

// Max is the most keys that a Sketch can report. For each of the requested keys
// it keeps at most Kept.
const (
	Max  = 10_000
	Kept = 2 * perKey
)

const (
	perKey   = 8           // counters for each key that can be reported
	halfLife = time.Minute // in which a count fades to its half
)

// The sampling. See adaptLocked.
const (
	golden   = 0x9E3779B97F4A7C15 // 2^64 / golden ratio: spreads near numbers (Knuth, TAOCP 3, section 6.4)
	most     = 4096               // samples per second
	burst    = 1024               // samples after which the share is looked at in any case
	interval = time.Second / 4    // after which it is looked at too: burst samples are as many as there may be
	maxStep  = 3                  // powers of two by which a look makes samples rarer at most
	maxShift = 24
)

// A Sketch counts the calls and the load time of keys, for the busiest of them.
//
// Calls are sampled: all of them as long as they are few, and of many about so
// many that a few thousand per second are left, which count for the others.
//
//	if w := s.Sample(now, turn); w > 0 {
//		s.Call(key, w, now)
//	}
//
// Times are nanoseconds of one monotonic clock of the owner's, from zero or more
// on. They need not come in order. A Sketch is safe for concurrent use. All
// methods do nothing on a nil Sketch, which is one that is switched off. It keeps
// the keys that have a counter alive, see New.
type Sketch[K comparable] struct {
	shift atomic.Uint32 // one of 1<<shift calls is sampled; an atomic on a cache line of its own, since every call reads it
	_     [60]byte

	keys  int // that can be reported
	began int64

	mu    sync.Mutex
	calls counters[K] // guarded by mu; in calls
	loads counters[K] // guarded by mu; in seconds
	taken int         // guarded by mu: samples since the share was looked at
	since int64       // guarded by mu: when that was
}

// New returns a Sketch that can tell so many keys, from 1 to Max, by calls and by
// load time, with eight counters of both kinds for each. now is the present.
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

// Sample decides whether a call is counted, and for how many it stands then: 0
// means that it is not. turn is any number that differs from call to call, such
// as a count of them: with the time, which in itself is coarse on some machines,
// it decides. The decision does not look at the key.
func (s *Sketch[K]) Sample(now int64, turn uint64) uint64 {
	if s == nil {
		return 0
	}
	shift := s.shift.Load()
	if (uint64(now)+turn)*golden>>(64-shift) != 0 { // a shift by 64 leaves nothing
		return 0
	}
	return 1 << shift
}

// Call counts a call of key that Sample has chosen, for weight calls.
func (s *Sketch[K]) Call(key K, weight uint64, now int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.add(key, float64(weight), now)
	s.adaptLocked(now)
}

// Load counts a load of key that took so long. Loads are not sampled.
func (s *Sketch[K]) Load(key K, took time.Duration, now int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads.add(key, max(took, 0).Seconds(), now)
}

// adaptLocked notes a sample, and at every look at the share of calls that are
// sampled, which is after an interval or burst samples, makes sure that there are
// at most most a second, and at least a quarter of that where there are enough
// calls. s.mu must be held.
//
// Each call is sampled with the share that holds when it comes, and counts for as
// many calls as that share says, so the counts are right on average however the
// share moves.
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

// HotKeys returns the busiest keys, at most so many of each kind. It holds up
// calls that are sampled for as long as it takes to copy the counters.
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

// window returns the time by which a faded count is to be divided for its rate:
// the divisor that turns the faded counts into a rate per second. In the first second
// it is one, or a single call would be thousands per second.
func (s *Sketch[K]) window(now int64) time.Duration {
	age := max(time.Duration(now-s.began), time.Second)
	w := float64(halfLife) / math.Ln2 * -math.Expm1(-math.Ln2*float64(age)/float64(halfLife))
	return max(time.Duration(w), time.Second)
}
