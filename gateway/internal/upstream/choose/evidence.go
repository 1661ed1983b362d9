package choose

import (
	"math"
	"slices"
	"time"
)

// A Class is what a response is, where servers are compared.
type Class uint8

// The classes. Unknown proves nothing: a client that has left, or a 429.
const (
	Unknown Class = iota
	Good
	Redirect
	Rejection // 4xx
	Error     // 5xx that are no Failure
	Failure   // no response, or a status that the route counts as a failure
	classes
)

// String returns what the class is called in logs.
func (c Class) String() string {
	return [...]string{"unknown", "success", "redirect (3xx)", "client error (4xx)", "server error (5xx)", "failure"}[c]
}

const (
	window     = 8 // responses that the latest share of a class covers
	enough     = 5 // failures for a penalty
	comparable = 4 // about so many of the latest responses of a server are needed
)

// A record is what is known of a server on one route.
type record struct {
	took   float64 // a logarithm: the time to the head of good responses; 0 if unknown
	tookAt Instant
	times  float64 // samples in the last minute, at most 65
	others float64 // what the others take in the median
	doubt  float64 // how much noise there is in that, in relation to the server's own

	calls  float64 // in the last minute
	at     Instant
	latest float64          // responses in the window
	share  [classes]float64 // of these
	// excess is a likelihood ratio, as a logarithm and never below 0 (Page's cumulative sum,
	// 1954): that the server gives this class more often than the others do.
	excess [classes]float64
	streak [classes]int // responses of the class since excess was 0
	began  [classes]Instant
	other  [classes]Instant // the latest start of a call with another class
}

// recordLocked returns the record of a route. s.mu must be held.
func (s *Server) recordLocked(r Route) *record {
	p := &s.routes[r.Slot%MaxRoutes]
	if *p == nil {
		*p = new(record)
	}
	return *p
}

func (r *record) tookLocked(now Instant, took float64) {
	if r.took == 0 {
		r.took = took
	}
	passed := time.Duration(now - r.tookAt)
	r.times = min(r.times*math.Exp(-float64(passed)/float64(time.Minute)), 1/sampleWeight) + 1
	r.took += (took - r.took) * max(weigh(passed), 1/r.times)
	r.tookAt = now
}

// refresh computes the usual times of a route, for each server from what the others take.
func (b *Book) refresh(now Instant, route Route) {
	slot := route.Slot % MaxRoutes
	last := b.refreshed[slot].Load()
	if last != 0 && now < Instant(last).add(refreshEvery) || !b.refreshed[slot].CompareAndSwap(last, int64(now)) {
		return
	}
	b.mu.Lock()
	members := b.members
	b.mu.Unlock()
	times := make([]float64, 0, len(members))
	doubt := 0.
	own := make([]float64, len(members))
	for i, m := range members {
		m.Server.mu.Lock()
		if r := m.Server.routes[slot]; r != nil && r.took != 0 {
			own[i] = r.took
			times = append(times, r.took)
			doubt += 1 / (sampleWeight * r.times)
		}
		m.Server.mu.Unlock()
	}
	slices.Sort(times)
	for i, m := range members {
		m.Server.mu.Lock()
		r := m.Server.recordLocked(route)
		r.others, r.doubt = medianWithout(times, own[i]), doubt/float64(len(times))/float64(max(len(times)-1, 1))
		m.Server.mu.Unlock()
	}
}

// medianWithout returns the median of sorted without one that equals x, 0 if there is none.
func medianWithout(sorted []float64, x float64) float64 {
	at := func(i int) float64 { return sorted[i] }
	n := len(sorted)
	if skip, ok := slices.BinarySearch(sorted, x); ok && x != 0 {
		n--
		at = func(i int) float64 {
			if i >= skip {
				i++
			}
			return sorted[i]
		}
	}
	if n == 0 {
		return 0
	}
	return (at((n-1)/2) + at(n/2)) / 2
}

// Judge records what the response was. retryAfter is the pause that a 503 requests.
func (c *Call) Judge(now Instant, class Class, retryAfter time.Duration) {
	defer c.release()
	if class == Unknown {
		return
	}
	b, s := c.book, c.Server
	if c.Trial {
		b.tried(now, c, class)
		return
	}
	proves := b.proves(now, c, class)
	s.mu.Lock()
	clean := class == Good && s.recordLocked(c.route).excess == [classes]float64{}
	s.mu.Unlock()
	var others comparison
	if !clean { // or nothing would be compared
		others = b.latest(s, c.route)
	}
	s.mu.Lock()
	r := s.recordLocked(c.route)
	r.addLocked(now, c.began, class)
	suspect := proves && r.proveLocked(now, class, others)
	since, share := r.began[class], r.shareOf(class)
	f := loadFloat(&s.failed)
	if class == Failure {
		f += (1 - f) / window
	} else {
		f -= f / window
	}
	storeFloat(&s.failed, f)
	s.mu.Unlock()
	if suspect {
		b.judged(now, s, c.route, since, Cause{Route: c.route.Name, Class: class, Share: share, Others: others.mean[class]})
	}
	if retryAfter > 0 {
		b.prolong(now, s, retryAfter)
	}
}

// judged penalizes s, unless none of the others answers otherwise.
func (b *Book) judged(now Instant, s *Server, route Route, since Instant, why Cause) {
	if b.elsewhere(s, route, why.Class, since) <= why.Share/3 {
		b.penalize(now, s, why)
	}
}

// proves reports whether the response to c is evidence about its server. That a request
// succeeds may be evidence about another one.
func (b *Book) proves(now Instant, c *Call, class Class) bool {
	if class != Good {
		proves := b.clients.failed(now, c.client, c.Server)
		if c.key != 0 {
			proves = b.table().failed(now, c, class) && proves
		}
		return proves
	}
	b.clients.good(c.client)
	if c.key == 0 {
		return true
	}
	if s, class := b.table().succeeded(now, c); s != nil {
		others := b.latest(s, c.route)
		s.mu.Lock()
		r := s.recordLocked(c.route)
		suspect := r.proveLocked(now, class, others)
		since, share := r.began[class], r.shareOf(class)
		s.mu.Unlock()
		if suspect {
			b.judged(now, s, c.route, since, Cause{Route: c.route.Name, Class: class, Share: share, Others: others.mean[class]})
		}
	}
	return true
}

// shareOf estimates how much of the latest responses is of the class.
func (r *record) shareOf(c Class) float64 { return (r.share[c] + 0.5) / (r.latest + 1) }

// A comparison is what the other servers answer now on a route.
type comparison struct {
	known bool
	mean  [classes]float64 // the share of each class, in the mean over the servers
}

// elsewhere returns the least share of class that another server has now. That server must
// have answered otherwise since then: what it did before an outage says nothing.
func (b *Book) elsewhere(s *Server, route Route, class Class, since Instant) float64 {
	least := 1.
	v := b.view.Load()
	for i := range v.open {
		o := v.open[i].Server
		if o == s {
			continue
		}
		o.mu.Lock()
		if r := o.routes[route.Slot%MaxRoutes]; r != nil && r.latest >= comparable && r.other[class] > since {
			least = min(least, r.share[class]/r.latest)
		}
		o.mu.Unlock()
	}
	return least
}

// latest compares s with at most 16 others.
func (b *Book) latest(s *Server, route Route) (o comparison) {
	v := b.view.Load()
	n := 0
	add := func(e *entry) {
		if e.Server == s || n >= 16 {
			return
		}
		e.Server.mu.Lock()
		defer e.Server.mu.Unlock()
		r := e.Server.routes[route.Slot%MaxRoutes]
		if r == nil || r.latest == 0 {
			return
		}
		n++
		for c := range o.mean {
			o.mean[c] += r.shareOf(Class(c)) //nolint:gosec // an index of an array of classes
		}
	}
	for i := range v.open {
		add(&v.open[i])
	}
	for c := range o.mean {
		o.mean[c] /= float64(max(n, 1))
	}
	o.known = n > 0
	return o
}

// addLocked adds a response. The server's mu must be held.
func (r *record) addLocked(now, started Instant, class Class) {
	passed := time.Duration(now - r.at)
	r.at = now
	r.calls = r.calls*math.Exp(-float64(passed)/float64(time.Minute)) + 1
	r.latest = r.latest*(1-1./window) + 1
	for c := range r.share {
		r.share[c] *= 1 - 1./window
		if Class(c) != class { //nolint:gosec // an index of an array of classes
			r.other[c] = max(r.other[c], started)
		}
	}
	r.share[class]++
}

// proveLocked adds a response as evidence, and reports whether the server gives its class more
// often than chance explains. The server's mu must be held.
func (r *record) proveLocked(now Instant, class Class, others comparison) bool {
	if !others.known {
		return false
	}
	suspect := false
	for c := Redirect; c < classes; c++ {
		q := others.mean[c]
		p := 0.5 + q/2 // what the server is suspected of
		if c != class {
			if r.excess[c] += math.Log((1 - p) / (1 - q)); r.excess[c] <= 0 {
				r.excess[c], r.streak[c] = 0, 0
			}
			continue
		}
		if r.excess[c] == 0 {
			r.began[c] = now
		}
		r.excess[c] += math.Log(p / q)
		r.streak[c]++
		// One false penalty in a thousand minutes.
		suspect = r.streak[c] >= enough && r.excess[c] > math.Log(1000)+math.Log(1+r.calls/16)
	}
	return suspect
}

// penalize takes s out of the choice for a while, unless it is the last one.
func (b *Book) penalize(now Instant, s *Server, why Cause) {
	b.mu.Lock()
	v := b.view.Load()
	usable := slices.ContainsFunc(v.open, func(e entry) bool { return e.Server == s }) && len(v.open) > 1 && !v.desolate
	if !usable && !why.Relapse {
		b.mu.Unlock()
		return
	}
	s.penalty = min(max(2*s.penalty, penaltyFirst), penaltyMost)
	if !why.Relapse && now > s.ended.add(relapseWithin) {
		s.penalty = penaltyFirst
	}
	s.condition, s.until, s.cause = Penalized, now.add(s.penalty), why.Class
	s.ended = s.until
	s.mu.Lock()
	for _, r := range s.routes {
		if r != nil {
			r.excess, r.streak = [classes]float64{}, [classes]int{}
		}
	}
	s.mu.Unlock()
	change := Change{Server: s, Condition: Penalized, For: s.penalty, Cause: why}
	b.buildLocked(now)
	b.mu.Unlock()
	b.tell(change)
}

// tell reports a change. b.mu must not be held.
func (b *Book) tell(c Change) {
	if b.report != nil {
		b.report(c)
	}
}

// prolong makes a penalty last until the server wants calls again.
func (b *Book) prolong(now Instant, s *Server, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := now.add(min(d, retryAfterMost)); s.condition == Penalized && until > s.until {
		s.until, s.ended = until, until
		b.buildLocked(now)
	}
}

// tried records the outcome of a trial. Failures that the other servers share prove nothing.
func (b *Book) tried(now Instant, c *Call, class Class) {
	s := c.Server
	b.mu.Lock()
	if s.condition != Trying {
		b.mu.Unlock()
		return
	}
	bad := class == s.cause || class == Failure
	b.mu.Unlock()
	if o := b.latest(s, c.route); bad && (!o.known || o.mean[class] <= 0.3) {
		b.penalize(now, s, Cause{Route: c.route.Name, Class: class, Relapse: true})
		return
	}
	b.mu.Lock()
	s.passed++
	done := s.passed >= trialsToPass && s.condition == Trying
	if done {
		s.condition = Working
		s.beginLocked(now, b.slowStart)
		b.buildLocked(now)
	}
	condition := s.condition
	b.mu.Unlock()
	if done {
		b.tell(Change{Server: s, Condition: condition})
	}
}
