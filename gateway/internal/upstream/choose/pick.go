package choose

import (
	"math"
	"math/bits"
	"slices"
)

const (
	// How much worse than another draw the first must be to be given up: in its time alone, and
	// with its calls in flight.
	slower   = 1.05
	clearly  = 1.25
	leeway   = 4   // calls in flight that are no difference
	burdened = 1.1 // how much slower it is at least by then
	strain   = 1.5 // how much slower a server may become for others' calls beyond twice its own
)

var logSlower, logClearly, logBurdened = math.Log(slower), math.Log(clearly), math.Log(burdened)

// A Request is what a choice depends on.
type Request struct {
	Route Route
	// Client identifies the client, 0 if it is not known.
	Client uint64
	// Key keeps the request with others of the same key at one server (H39), 0 for none. That
	// has at most Bound times its share of the calls then; NoBound means any number.
	Key   uint64
	Bound float64
	// Prefer is the server of the request's session, nil for none. It gets the request unless it
	// is out of use, at its limit, or in Tried.
	Prefer *Server
	// Tried are the servers that the request was sent to before. Others are preferred; with
	// Other no server is returned rather than one of them.
	Tried []*Server
	Other bool
	// Used says that only a server in use will do, or one that is tried. Otherwise all are used
	// while none is.
	Used bool
	// Repeatable says that the request can be sent to another server if it fails.
	Repeatable bool
	// NoTrial says that the request has tried a server that has not recovered: it tries no other.
	NoTrial bool
	// Stream says that the request asks for an event stream or an upgrade. Those are spread by
	// their own number.
	Stream bool
	// Spare says that the request is already at one of Tried, and gets another call only at
	// another server that works, and only if more than half of the servers do (H41).
	Spare bool
}

// Pick chooses a server and counts the call as in flight. It returns nil if there is no other
// server, and if full is set because each is at its limit.
func (b *Book) Pick(now Instant, r Request) (c *Call, full bool) {
	v := b.current(now)
	if r.Spare {
		return b.spare(now, v, r), false
	}
	if !r.NoTrial && (r.Prefer == nil || v.preferred(&r) == nil) {
		if s := v.try(now, r); s != nil {
			return b.begin(now, r, s, true), false
		}
	}
	if r.Used && v.unused {
		return nil, false
	}
	if e := v.preferred(&r); e != nil {
		return b.begin(now, r, e.Server, false), false
	}
	s, moved := v.choose(now, &r, r.Tried)
	if s == nil && len(r.Tried) > 0 && !v.desolate {
		s = v.least(r.Tried)
	}
	if s == nil && r.Other {
		return nil, false
	}
	if s == nil && len(r.Tried) > 0 {
		s, moved = v.choose(now, &r, nil)
	}
	if s == nil {
		s = v.least(nil)
	}
	if s == nil {
		return nil, len(v.open) > 0
	}
	c = b.begin(now, r, s, false)
	c.Moved = moved
	return c, false
}

// spare chooses a server for another call.
func (b *Book) spare(now Instant, v *view, r Request) *Call {
	if v.desolate || 2*len(v.open) <= v.serving {
		return nil
	}
	s, moved := v.choose(now, &r, r.Tried)
	if s == nil {
		return nil
	}
	c := b.begin(now, r, s, false)
	c.Moved = moved
	return c
}

// preferred returns the server of r's session if it can be used.
func (v *view) preferred(r *Request) *entry {
	if r.Prefer == nil || v.desolate || slices.Contains(r.Tried, r.Prefer) {
		return nil
	}
	for i := range v.open {
		if e := &v.open[i]; e.Server == r.Prefer {
			if e.limit > 0 && e.flying.Load() >= e.limit {
				return nil
			}
			return e
		}
	}
	return nil
}

// choose returns a server that is not in tried, or nil, and whether it is another one than the
// first for the request's key.
func (v *view) choose(now Instant, r *Request, tried []*Server) (s *Server, moved bool) {
	if r.Key == 0 {
		return v.draw(now, tried, r.Stream), false
	}
	s, first := v.keep(now, r, tried)
	return s, !first
}

func (b *Book) begin(now Instant, r Request, s *Server, trial bool) *Call {
	key := r.Key
	if r.Prefer != nil {
		// Failures are evidence as those of a key, since the others do not see the session. The
		// server is a part of the key: two sessions of a client say nothing about each other.
		key = max(Mix(r.Client, r.Prefer.ID), 1)
	}
	c := &Call{Server: s, Trial: trial, book: b, route: r.Route, client: r.Client, key: key, began: now}
	s.start(c)
	return c
}

// try returns a server that is tried with this call, if one is due.
func (v *view) try(now Instant, r Request) *Server {
	for i := range v.trying {
		e := &v.trying[i]
		patient := e.outside || r.Repeatable && len(v.open) > 0 && (r.Key == 0 || v.owns(e, r.Key)) || now >= e.since.add(trialPatience)
		if !patient || slices.Contains(r.Tried, e.Server) || e.Server.trial.Load() {
			continue
		}
		if e.Server.trial.CompareAndSwap(false, true) {
			return e.Server
		}
	}
	return nil
}

// draw draws a server by weight, and keeps it unless another draw is clearly better. It
// returns nil if there is none that is not in tried and not full.
func (v *view) draw(now Instant, tried []*Server, stream bool) *Server {
	n := len(v.open)
	if n == 0 {
		return nil
	}
	one := v.usable(now, v.turn(), tried)
	if one < 0 {
		return nil
	}
	v.open[one].drawn(now)
	if n == 1 {
		return v.open[one].Server
	}
	two := one
	for range 8 {
		if two = v.turn(); two != one {
			break
		}
	}
	if two == one { // its weight is nearly all
		two = (one + 1 + v.random.below(n-1)) % n
	}
	a, b := &v.open[one], &v.open[two]
	if slices.Contains(tried, b.Server) || v.full(now, b) {
		return a.Server
	}
	if stream && a.streams() != b.streams() { //nolint:staticcheck // exactly
		if a.streams() > b.streams() {
			a = b
		}
		return a.Server
	}
	if v.worse(now, a, b) {
		return b.Server
	}
	return a.Server
}

// turn draws the index of a server by weight.
func (v *view) turn() int {
	w := v.wheel[v.random.below(len(v.wheel))]
	if w.share >= 1 || v.random.float() < w.share {
		return w.one
	}
	return w.twoish
}

// usable returns i, or the next server by index that is not in tried and not full, or -1.
func (v *view) usable(now Instant, i int, tried []*Server) int {
	for n := range v.open {
		j := (i + n) % len(v.open)
		if e := &v.open[j]; !slices.Contains(tried, e.Server) && !v.full(now, e) {
			return j
		}
	}
	return -1
}

// full reports whether e gets no more calls now: it is at its limit, or it starts slowly, or
// it has taken over as many calls of failing servers as it can.
func (v *view) full(now Instant, e *entry) bool {
	n := e.flying.Load()
	if e.limit > 0 && n >= e.limit {
		return true
	}
	if v.desolate {
		return false
	}
	if e.starting && len(v.open) > 1 {
		part := max(float64(now-e.since)/float64(v.slow), v.floor)
		if part < 1 && float64(n) >= 1+part*v.mean()*e.weight {
			return true
		}
	}
	if len(v.failing) == 0 || e.took == 0 || float64(n) < max(2*e.usual, 4) {
		return false
	}
	// The calls in flight leave one after another (Little's law). What a call has waited, or
	// the oldest one waits, would say too late that too many were sent.
	// A burst alone is harmless.
	return float64(n)*loadFloat(&e.gap) > strain*timeOf(e.took) && loadFloat(&e.Server.took) > e.took+logBurdened
}

// mean estimates the calls in flight of the working servers for each unit of weight.
func (v *view) mean() float64 {
	var n, w float64
	for range 8 {
		if e := &v.open[v.random.below(len(v.open))]; !e.starting {
			n += float64(e.flying.Load())
			w += e.weight
		}
	}
	if w == 0 {
		return 0
	}
	return n / w
}

// worse reports whether a call had better go to b than to a.
//
// That is so if a is slower. If a only has more calls than usual, the calls that
// move from a to b for that reason must be as many as those from b to a, or a light server
// would get more than its share: so the heavier one gives up fewer (Metropolis-Hastings).
func (v *view) worse(now Instant, a, b *entry) bool {
	x, y := a.lateness(now), b.lateness(now)
	crowding := comparedCrowding(a, b)
	if x > y+logSlower && x+crowding > y {
		return true
	}
	if a.weight == b.weight { //nolint:staticcheck // exactly
		return x+crowding > y
	}
	if x+crowding <= y+logClearly {
		return false
	}
	return a.weight < b.weight || v.random.float() < (v.weight-a.weight)/(v.weight-b.weight)
}

// streams returns the event streams and upgrades of e, with one more, for its weight.
func (e *entry) streams() float64 { return float64(e.parted.Load()+1) / e.weight }

// comparedCrowding returns how many calls a has in relation to b, a logarithm. Equals are
// compared as they are, others by what each usually has.
func comparedCrowding(a, b *entry) float64 {
	x, y := float64(a.flying.Load())+1+leeway, float64(b.flying.Load())+1+leeway
	if a.weight == b.weight { //nolint:staticcheck // exactly
		return math.Log(x / y)
	}
	if a.draws.Load() < steady || b.draws.Load() < steady {
		return 0
	}
	return math.Log(x / y * (loadFloat(&b.Server.usual) + 1 + leeway) / (loadFloat(&a.Server.usual) + 1 + leeway))
}

// least returns the penalized server that fails least and is below its limit.
func (v *view) least(tried []*Server) *Server {
	for i := range v.failing {
		e := &v.failing[i]
		if !slices.Contains(tried, e.Server) && (e.limit == 0 || e.flying.Load() < e.limit) {
			return e.Server
		}
	}
	return nil
}

// A random is a source of random numbers, safe for concurrent use.
type random func() uint64

// below returns a number from 0 to n-1.
func (r random) below(n int) int {
	high, _ := bits.Mul64(r(), uint64(n)) //nolint:gosec // n is a length
	return int(high)                      //nolint:gosec // it is below n
}

// float returns a number from 0 to 1, without 1.
func (r random) float() float64 { return float64(r()>>11) / (1 << 53) }
