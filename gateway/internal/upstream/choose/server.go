package choose

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sampleWeight = 1. / 64         // of one sample, if they are frequent
	peakWeight   = 1. / 4          // of a slow sample after another
	steady       = 32              // draws after which it is known what is usual
	sure         = 3               // standard errors
	ageWeight    = 1. / 64         // of the oldest call without a head
	forget       = 2 * time.Second // the time after which a sample counts for a third
)

// A Server is what is known of one server. The zero Server is one of which nothing is known.
// It outlives the Books that it is in.
//
// Choices read the atomics, which do not have to be consistent with each other. They are
// written under mu.
type Server struct {
	Of any    // what the caller has of it
	ID uint64 // identifies it among others, for calls with a key; stable across restarts

	flying atomic.Int64 // calls without a head, and bodies that move
	parted atomic.Int64 // event streams and upgrades
	trial  atomic.Bool  // the one call of a server that is tried

	slow    atomic.Uint64 // a logarithm: its time to the head in relation to the others', at seen
	seen    atomic.Int64
	took    atomic.Uint64 // a logarithm: its time to the head
	usual   atomic.Uint64 // calls in flight, in the mean
	drawnAt atomic.Int64  // the latest draw
	draws   atomic.Uint32 // that usual is the mean of, at most 32
	failed  atomic.Uint64 // the share of failures among the latest calls
	oldest  atomic.Int64  // start of the oldest call without a head, 0 for none
	second  atomic.Int64  // start of the next one
	heard   atomic.Int64  // the latest head
	gap     atomic.Uint64 // nanoseconds between two heads, in the mean
	expect  atomic.Uint64 // the usual time, a logarithm, of the oldest call; 0 if unknown

	mu          sync.Mutex
	first, last *Call              // guarded by mu: calls without a head, by their start
	late        float64            // guarded by mu: as slow, before the doubt is taken off
	noise       float64            // guarded by mu: the variance of its samples
	samples     float64            // guarded by mu: in the last minute, at most 65
	before      float64            // guarded by mu: the previous sample
	routes      [MaxRoutes]*record // guarded by mu
	witnesses   [witnesses]witness // guarded by mu: see keys

	// Guarded by the Book's mu.
	condition Condition
	since     Instant // start of Starting or Trying
	until     Instant // end of Penalized
	penalty   time.Duration
	cause     Class
	ended     Instant // the latest penalty
	passed    int     // trials in a row
	barred    Instant
}

// InFlight returns how many calls s has, streams included.
func (s *Server) InFlight() int { return int(s.flying.Load() + s.parted.Load()) }

func loadFloat(a *atomic.Uint64) float64     { return math.Float64frombits(a.Load()) }
func storeFloat(a *atomic.Uint64, f float64) { a.Store(math.Float64bits(f)) }

// A Call is one call of a server. Its methods are called in this order: Head or not, Judge,
// and End, all but End at most once.
type Call struct {
	Server *Server
	Trial  bool // the call tries whether the server has recovered
	Moved  bool // the call has a key, and its first server had no room or was tried before

	book     *Book
	route    Route
	client   uint64
	key      uint64
	began    Instant
	headed   bool
	released bool
	stream   bool
	next     *Call // guarded by the server's mu
	earlier  *Call // guarded by the server's mu
}

// A Route is where calls are compared with each other.
type Route struct {
	Name string
	Slot uint8 // below MaxRoutes; routes may share one
}

// start counts a call of s.
func (s *Server) start(c *Call) {
	s.flying.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.earlier = s.last; c.earlier != nil {
		c.earlier.next = c
	} else {
		s.first = c
	}
	s.last = c
	s.lookLocked()
}

// drawn records how many calls s has whenever it is drawn, whether or not it is chosen then:
// choices alone would show too few. An update that another one overtakes is lost.
func (s *Server) drawn(now Instant) {
	passed := time.Duration(now - Instant(s.drawnAt.Swap(int64(now))))
	n := s.draws.Load()
	if n < steady {
		s.draws.Store(n + 1)
	}
	u := loadFloat(&s.usual)
	storeFloat(&s.usual, u+(float64(s.flying.Load())-u)*max(1/float64(n+1), fade(passed)))
}

// lookLocked publishes the oldest calls. s.mu must be held.
func (s *Server) lookLocked() {
	var oldest, second Instant
	var expect float64
	if c := s.first; c != nil {
		oldest = c.began
		if r := s.routes[c.route.Slot]; r != nil {
			expect = r.others
		}
		if c.next != nil {
			second = c.next.began
		}
	}
	s.oldest.Store(int64(oldest))
	s.second.Store(int64(second))
	storeFloat(&s.expect, expect)
}

// unlistLocked takes c off the calls without a head. The server's mu must be held.
func (s *Server) unlistLocked(c *Call) {
	if c.earlier != nil {
		c.earlier.next = c.next
	} else if s.first == c {
		s.first = c.next
	}
	if c.next != nil {
		c.next.earlier = c.earlier
	} else if s.last == c {
		s.last = c.earlier
	}
	c.next, c.earlier = nil, nil
	s.lookLocked()
}

// Head records the head of the response. Only the times of good ones are compared: a server
// without its files answers 404 within a millisecond. A stream is counted apart from now on.
func (c *Call) Head(now Instant, good, stream bool) {
	s := c.Server
	if c.stream = stream; stream {
		s.flying.Add(-1)
		s.parted.Add(1)
	}
	c.headed = true
	c.book.refresh(now, c.route)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlistLocked(c)
	gap := loadFloat(&s.gap)
	storeFloat(&s.gap, gap+(float64(int64(now)-s.heard.Load())-gap)*sampleWeight)
	s.heard.Store(int64(now))
	took := logOf(now - c.began)
	r := s.recordLocked(c.route)
	if good {
		r.tookLocked(now, took)
		t := loadFloat(&s.took)
		if t == 0 {
			t = took
		}
		storeFloat(&s.took, t+(took-t)*sampleWeight)
	}
	s.sampleLocked(now, r, took, good)
}

// End records the end of the call, including its body.
func (c *Call) End(now Instant) {
	s := c.Server
	if c.stream {
		s.parted.Add(-1)
	} else {
		s.flying.Add(-1)
	}
	if !c.headed {
		// It was given up, or has failed: it would have taken at least this long.
		s.mu.Lock()
		s.unlistLocked(c)
		s.sampleLocked(now, s.recordLocked(c.route), logOf(now-c.began), false)
		s.mu.Unlock()
	}
	c.release()
}

// release lets another call try the server.
func (c *Call) release() {
	if c.Trial && !c.released {
		c.released = true
		c.Server.trial.Store(false)
	}
}

// sampleLocked adds the logarithm of a time to what is known of s. Unless it is good, it only
// can make s slower. s.mu must be held.
func (s *Server) sampleLocked(now Instant, r *record, took float64, good bool) {
	if r.others == 0 {
		return // nothing to compare with
	}
	d := took - r.others
	if !good {
		d = max(d, 0)
	}
	passed := time.Duration(now - Instant(s.seen.Load()))
	s.samples = min(s.samples*math.Exp(-float64(passed)/float64(time.Minute)), 1/sampleWeight) + 1
	w := min(max(weigh(passed), 1/s.samples), 0.8)
	diff := d - s.late
	late := s.late + w*diff
	s.noise = (1 - w) * (s.noise + w*diff*diff)
	if peak := min(d, s.before); peak > s.late+math.Log(8) {
		late = max(late, s.late+peakWeight*(peak-s.late)) // two in a row
	}
	s.late, s.before = late, d
	doubt := (s.noise + 1/s.samples) * max(w/(1-w)/2, 1/s.samples) * (1 + r.doubt)
	storeFloat(&s.slow, max(late-sure*math.Sqrt(doubt), 0))
	s.seen.Store(int64(now))
}

// grain is a difference between times that means nothing: connections are opened, and the
// machine is busy.
const grain = 2 * time.Millisecond

// logOf returns the logarithm of a time for comparisons.
func logOf(d Instant) float64 { return math.Log(float64(max(d, 0)) + float64(grain)) }

// timeOf returns the time, in nanoseconds, of which logOf is x.
func timeOf(x float64) float64 { return math.Exp(x) - float64(grain) }

// fade returns how much of a sample is forgotten after d.
func fade(d time.Duration) float64 { return 1 - math.Exp(-float64(max(d, 0))/float64(forget)) }

// weigh returns the weight of a sample that comes d after the one before it.
func weigh(d time.Duration) float64 { return max(sampleWeight, fade(d)) }

// lateness returns by how much s is slower than the others, a logarithm and never negative: to
// be faster than others earns nothing. Without samples s counts as one like the others.
func (s *Server) lateness(now Instant) float64 {
	x := loadFloat(&s.slow) * (1 - fade(time.Duration(now-Instant(s.seen.Load()))))
	oldest, expect := s.oldest.Load(), loadFloat(&s.expect)
	if oldest == 0 || expect == 0 {
		return x
	}
	if age := logOf(now-Instant(oldest)) - expect; age > x {
		x += (age - x) * ageWeight
	}
	if second := s.second.Load(); second != 0 {
		// Nothing was heard since two calls have been waiting.
		silent := logOf(now-Instant(max(second, s.heard.Load()))) - expect
		if silent > math.Log(4) {
			x = max(x, silent)
		}
	}
	return x
}
