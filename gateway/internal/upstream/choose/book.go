// Package choose decides which server of a pool a call goes to (H35, H36, H38).
//
// All decisions are made from what the calls have shown: how many are in flight, how long a
// server takes in relation to the others, and what it answers where the others answer
// otherwise. Time is an argument everywhere, so the same code runs in the gateway and in a
// simulation.
package choose

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The rules' constants.
const (
	penaltyFirst  = 5 * time.Second
	penaltyMost   = 5 * time.Minute
	relapseWithin = 10 * time.Minute
	trialPatience = 30 * time.Second // then a call that cannot be repeated may be the trial
	trialsToPass  = 3
	refreshEvery  = 50 * time.Millisecond
)

// RetryAfterMost is the longest time for which a Retry-After keeps calls from a server.
const RetryAfterMost = 30 * time.Second

// MaxRoutes is the number of routes that are compared separately.
const MaxRoutes = 32

// An Instant is a time in nanoseconds since an arbitrary one.
type Instant int64

func (t Instant) add(d time.Duration) Instant { return t + Instant(d) }

// A Member is a server of a Book with its settings.
type Member struct {
	Server *Server
	Weight int // 0 drains it
	Limit  int // of calls in flight, 0 for none
}

// A Condition is why a server gets its calls, or none.
type Condition uint8

// The conditions of a server.
const (
	Working   Condition = iota
	Starting            // its share grows: it is new, or was penalized
	Penalized           // it fails where others do not
	Trying              // its penalty is over, and it gets one call at a time
)

// String returns the name of the condition.
func (c Condition) String() string {
	return [...]string{"working", "starting", "penalized", "trying"}[c]
}

// A Change is a new condition of a server.
type Change struct {
	Server    *Server
	Condition Condition
	For       time.Duration // of Penalized
	Cause     Cause         // of Penalized
}

// A Cause is the evidence for a penalty.
type Cause struct {
	Route         string
	Class         Class
	Share, Others float64 // how much of the latest responses on the route is of the class
	Relapse       bool    // it failed when it was tried
}

// A Book knows the servers of a pool. Create one with New. It is safe for concurrent use.
//
// A choice reads an immutable view and the atomics of two servers. The mutex serializes
// changes of the view, which are rare.
type Book struct {
	report func(Change) // called without mu, may be nil
	random random
	view   atomic.Pointer[view]

	clients clients
	keys    atomic.Pointer[keys] // nil until a call has a key

	refreshed [MaxRoutes]atomic.Int64 // when the usual times of a route were computed

	mu        sync.Mutex
	members   []Member      // guarded by mu
	slowStart time.Duration // guarded by mu
}

// New returns a Book without servers, to be filled with Set. report receives changes of
// conditions, from several goroutines; it may be nil. numbers are random ones; nil means those
// of package rand.
func New(report func(Change), numbers func() uint64) *Book {
	if numbers == nil {
		numbers = rand.Uint64
	}
	b := &Book{report: report, random: numbers}
	b.view.Store(&view{})
	return b
}

// Set replaces the servers and their settings. Servers that stay keep what is known of them.
func (b *Book) Set(now Instant, members []Member, slowStart time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := len(b.members) > 0
	before := b.members
	b.members, b.slowStart = slices.Clone(members), slowStart
	for _, m := range b.members {
		if known && !slices.ContainsFunc(before, func(old Member) bool { return old.Server == m.Server }) {
			m.Server.beginLocked(now, slowStart)
		}
	}
	b.buildLocked(now)
}

// A State is what the Book knows of a server.
type State struct {
	Condition Condition
	Head      time.Duration // the usual time to the head of good responses, 0 if unknown
	Failing   float64       // the share of failures among the latest calls
}

// State returns what is known of s.
func (b *Book) State(s *Server) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := State{Condition: s.condition, Failing: loadFloat(&s.failed)}
	if took := loadFloat(&s.took); took > 0 {
		st.Head = time.Duration(timeOf(took))
	}
	return st
}

// Unused reports whether the caller has barred each server.
func (b *Book) Unused(now Instant) bool { return b.current(now).unused }

// Bar tells the Book that a server gets no calls for a reason of the caller's: barred until
// then, and tried with one call after that. 0 ends it; Forever lasts until then.
func (b *Book) Bar(now Instant, s *Server, until Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.barred != 0 && until == 0 {
		s.beginLocked(now, b.slowStart)
	}
	s.barred = until
	b.buildLocked(now)
}

// Forever is the end of a bar that only the caller lifts.
const Forever = Instant(1<<63 - 1)

// beginLocked starts the slow start of s. The mu of the Book must be held.
func (s *Server) beginLocked(now Instant, d time.Duration) {
	if s.condition == Penalized || s.condition == Trying {
		return
	}
	s.condition, s.since = Starting, now
	if d <= 0 {
		s.condition = Working
	}
}

// A view is what a choice reads. It is not changed.
type view struct {
	open     []entry       // get calls, by weight
	wheel    []slot        // for draws by weight
	weight   float64       // of open
	failing  []entry       // penalized, the least failing first
	trying   []entry       // get one call at a time
	serving  int           // servers that have a weight
	desolate bool          // no server is usable, so open is all of them
	unused   bool          // and none is only penalized: the caller has barred each
	strained bool          // some servers are not open
	floor    float64       // the least part of its share that a starting server gets
	next     Instant       // when time ends a condition
	slow     time.Duration // of the slow start
	random   random
}

// An entry is a server in a view.
type entry struct {
	*Server
	weight   float64
	limit    int64
	starting bool
	outside  bool // the caller has barred it
	since    Instant
	usual    float64 // calls in flight before the pool was strained
	took     float64 // its time to the head then, a logarithm
}

// buildLocked makes the view for the present conditions. b.mu must be held.
func (b *Book) buildLocked(now Instant) {
	before := b.view.Load()
	v := &view{next: Forever, slow: b.slowStart, random: b.random}
	var old float64
	for _, m := range b.members {
		s := m.Server
		s.settleLocked(now, b.slowStart)
		if m.Weight == 0 {
			continue
		}
		v.serving++
		e := entry{Server: s, weight: float64(m.Weight), limit: int64(m.Limit), since: s.since}
		switch {
		case s.barred != 0 && now >= s.barred:
			e.outside = true
			v.trying = append(v.trying, e)
		case s.barred != 0:
			v.next = min(v.next, s.barred)
		case s.condition == Penalized:
			v.next = min(v.next, s.until)
			v.failing = append(v.failing, e)
		case s.condition == Trying:
			v.trying = append(v.trying, e)
			v.failing = append(v.failing, e)
		case s.condition == Starting:
			v.next = min(v.next, s.since.add(b.slowStart))
			e.starting = true
			v.open = append(v.open, e)
			v.weight += e.weight
		default:
			v.open = append(v.open, e)
			v.weight += e.weight
			old += e.weight
		}
	}
	// A rolling release replaces most servers within seconds: those that are left must not
	// get more than 1.5 times their share meanwhile.
	if old == 0 {
		v.floor = 1
	} else if share := old / v.weight; share < 2./3 {
		v.floor = (2./3 - share) / (1 - share)
	}
	v.strained = len(v.open) < v.serving
	if len(v.open) == 0 {
		v.desolateLocked(b.members)
	}
	for i := range v.open {
		e := &v.open[i]
		e.usual, e.took = loadFloat(&e.Server.usual), loadFloat(&e.Server.took)
		if j := slices.IndexFunc(before.open, func(o entry) bool { return o.Server == e.Server }); j >= 0 && before.strained {
			e.usual, e.took = before.open[j].usual, before.open[j].took
		}
	}
	slices.SortStableFunc(v.failing, func(x, y entry) int { return cmp.Compare(loadFloat(&x.failed), loadFloat(&y.failed)) })
	v.wheel = newWheel(v.open)
	b.view.Store(v)
}

// desolateLocked opens v for all servers: one of them may still respond, and giving up gains
// nothing. The penalized ones are at least reachable.
func (v *view) desolateLocked(members []Member) {
	v.desolate, v.floor = true, 1
	v.open = slices.Clone(v.failing)
	if len(v.open) == 0 {
		v.unused = true
		for _, m := range members {
			if m.Weight > 0 {
				v.open = append(v.open, entry{Server: m.Server, weight: float64(m.Weight), limit: int64(m.Limit)})
			}
		}
	}
	v.weight = 0
	for _, e := range v.open {
		v.weight += e.weight
	}
}

// settleLocked applies the changes that time alone makes. The mu of the Book must be held.
func (s *Server) settleLocked(now Instant, slowStart time.Duration) {
	switch {
	case s.condition == Penalized && now >= s.until:
		s.condition, s.since, s.passed = Trying, now, 0
	case s.condition == Starting && now >= s.since.add(slowStart):
		s.condition = Working
	}
}

// current returns the view for now.
func (b *Book) current(now Instant) *view {
	v := b.view.Load()
	if now < v.next || !b.mu.TryLock() {
		return v
	}
	defer b.mu.Unlock()
	b.buildLocked(now)
	return b.view.Load()
}

// A slot of the wheel is one half of it with probability share, else the other.
type slot struct {
	share       float64
	one, twoish int
}

// newWheel returns slots from which a server is drawn by weight in constant time: the alias
// method (Walker 1977, Vose 1991).
func newWheel(open []entry) []slot {
	n := len(open)
	var total float64
	for _, e := range open {
		total += e.weight
	}
	slots := make([]slot, n)
	rest := make([]float64, n)
	var small, large []int
	for i, e := range open {
		rest[i] = e.weight / total * float64(n)
		slots[i] = slot{1, i, i}
		if rest[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		slots[s] = slot{rest[s], s, l}
		if rest[l] -= 1 - rest[s]; rest[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return slots
}
