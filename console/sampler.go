package console

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"
)

// MaxUnits is how many units, limits and stores a Console shows, by name. Units beyond
// it are one, Others, so that totals are of all.
const MaxUnits = 100

// A sampler samples a Source at an interval, and keeps the history.
type sampler struct {
	source   Source
	interval time.Duration
	most     int // points of a series
	logger   *slog.Logger

	mu      sync.Mutex
	seq     uint64           // guarded by mu; of the last sample
	now     Snapshot         // guarded by mu; its contents are never changed
	times   []float64        // guarded by mu; of the last samples, up to most
	total   ring             // guarded by mu
	units   map[string]*ring // guarded by mu; of the units in now
	limits  map[string]*ring // guarded by mu
	budgets map[string]*ring // guarded by mu
	found   []Incident       // guarded by mu; in now; its contents are never changed
	subs    map[*sub]bool    // guarded by mu
	closed  bool             // guarded by mu

	// Only the sampling goroutine uses these.
	last    time.Time // when the last sample was taken, with the monotonic clock
	failing bool      // the Source has panicked
}

// A sub is a subscriber to samples.
type sub struct {
	ticks chan []byte // events; a slow subscriber misses some
	after uint64      // the number of the sample in its history
}

// backlog is how many ticks are queued for a slow browser before it misses one.
const backlog = 4

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sample()
		}
	}
}

// sample takes a sample, and sends it to the subscribers.
func (s *sampler) sample() {
	now, ok := s.ask()
	if !ok {
		return
	}
	at := time.Now()
	s.mu.Lock()
	t := s.addLocked(now, at.Sub(s.last))
	heard := len(s.subs) > 0
	s.mu.Unlock()
	s.last = at
	if heard {
		s.tell(t)
	}
}

// ask samples the Source. If the Source panics, the last sample remains; on this
// goroutine the panic would end the program.
func (s *sampler) ask() (now Snapshot, ok bool) {
	defer func() {
		if ok {
			s.failing = false
			return
		}
		if v := recover(); v != nil && !s.failing {
			s.failing = true
			s.logger.Error("the console's source has panicked", "panic", fmt.Sprint(v))
		}
	}()
	now = s.source.Snapshot()
	return within(now), true
}

// within returns s as it is sent: with at most MaxUnits units, limits and stores, and
// without numbers that JSON does not have.
func within(s Snapshot) Snapshot {
	if s.At.IsZero() {
		s.At = time.Now()
	}
	s.Omitted = max(0, len(s.Limits)-MaxUnits) + max(0, len(s.Stores)-MaxUnits) + max(0, len(s.Budgets)-MaxUnits)
	if len(s.Units) > MaxUnits {
		rest := together(s.Units[MaxUnits-1:])
		s.Units = append(slices.Clone(s.Units[:MaxUnits-1]), rest)
	}
	s.Limits = slices.Clone(s.Limits[:min(len(s.Limits), MaxUnits)])
	s.Budgets = slices.Clip(s.Budgets[:min(len(s.Budgets), MaxUnits)])
	s.Stores = slices.Clip(s.Stores[:min(len(s.Stores), MaxUnits)])
	for i, l := range s.Limits {
		s.Limits[i] = finite(l)
	}
	if s.Units == nil {
		s.Units = []Unit{}
	}
	return s
}

// finite returns l with its Limit set to 0 if JSON cannot represent it.
func finite(l Limit) Limit {
	if math.IsNaN(l.Limit) || math.IsInf(l.Limit, 0) {
		l.Limit = 0
	}
	return l
}

// addLocked adds a sample and returns its tick; between is the time since the last
// sample. s.mu must be held.
func (s *sampler) addLocked(now Snapshot, between time.Duration) Tick {
	t := Tick{Snapshot: now, Units: make(map[string]Point, len(now.Units)), Limits: make(map[string]Point, len(now.Limits))}
	at := float64(now.At.UnixMilli()) / 1000
	s.setBackLocked(at, between)
	if s.seq++; len(s.times) == s.most {
		s.times = append(s.times[:0], s.times[1:]...)
	}
	s.times = append(s.times, at)

	before := make(map[string]*Unit, len(s.now.Units))
	for i := range s.now.Units {
		before[s.now.Units[i].Name] = &s.now.Units[i]
	}
	all := newSum()
	if s.now.Unrouted != nil && now.Unrouted != nil {
		was, is := &Unit{Responses: s.now.Unrouted}, &Unit{Responses: now.Unrouted}
		r, took, known := unitRow(was, is, between)
		all.add(r, took, known)
	}
	kept := make(map[string]*ring, len(now.Units))
	for i := range now.Units {
		u := &now.Units[i]
		if kept[u.Name] != nil {
			continue // if two units have the same name, the first counts
		}
		r, took, known := unitRow(before[u.Name], u, between)
		all.add(r, took, known)
		t.Units[u.Name] = r.point(unitColumns[:], at)
		kept[u.Name] = s.keep(s.units[u.Name], r)
	}
	s.units = kept
	kept = make(map[string]*ring, len(now.Limits))
	for i := range now.Limits {
		l := &now.Limits[i]
		if kept[l.Name] != nil {
			continue
		}
		r := limitRow(l)
		t.Limits[l.Name] = r.point(limitColumns[:], at)
		kept[l.Name] = s.keep(s.limits[l.Name], r)
	}
	s.limits = kept
	s.keepBudgetsLocked(now.Budgets, between)
	r := all.total()
	t.Total = r.point(unitColumns[:], at)
	s.total.add(r, s.most)
	s.now = now
	v := view{now: &s.now, interval: s.interval, times: s.times, total: &s.total, units: s.units, limits: s.limits, budgets: s.budgets}
	s.found = v.incidents()
	t.Incidents = s.found
	return t
}

// keepBudgetsLocked adds a row to the series of each budget. s.mu must be held.
func (s *sampler) keepBudgetsLocked(all []Budget, between time.Duration) {
	kept := make(map[string]*ring, len(all))
	for i := range all {
		b, refused := &all[i], math.NaN()
		if kept[b.key()] != nil {
			continue
		}
		for k := range s.now.Budgets {
			if old := &s.now.Budgets[k]; old.key() == b.key() && old.Refused <= b.Refused && between > 0 {
				refused = eachSecond(b.Refused-old.Refused, between)
			}
		}
		kept[b.key()] = s.keep(s.budgets[b.key()], row{b.Left, float64(b.Queued), refused})
	}
	s.budgets = kept
}

// setBackLocked keeps times from running backwards when the clock is set back: it
// moves earlier times along, so that they stay equally long ago. Jumps ahead are
// kept, as after the machine has slept. s.mu must be held.
func (s *sampler) setBackLocked(at float64, between time.Duration) {
	if len(s.times) == 0 || at >= s.times[len(s.times)-1] {
		return
	}
	by := at - between.Seconds() - s.times[len(s.times)-1]
	for i := range s.times {
		s.times[i] += by
	}
}

// keep adds r to a series, a new one if g is nil.
func (s *sampler) keep(g *ring, r row) *ring {
	g = cmp.Or(g, &ring{})
	g.add(r, s.most)
	return g
}

// tell sends t to all subscribers. It is encoded once for all of them.
func (s *sampler) tell(t Tick) {
	b, err := event("tick", t)
	if err != nil {
		s.logger.Error("the console cannot encode its source's data", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.subs {
		if l.after == s.seq {
			continue // it subscribed later, and has this sample
		}
		select {
		case l.ticks <- b:
		default: // it is slow, and misses this one
		}
	}
}

// latest returns the last sample.
func (s *sampler) latest() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// historyLocked copies all series into h. s.mu must be held.
func (s *sampler) historyLocked(h *Hello) {
	h.Snapshot = s.now
	if h.Incidents = s.found; h.Incidents == nil {
		h.Incidents = []Incident{}
	}
	h.Units = make(map[string]Series, len(s.units))
	h.Limits = make(map[string]Series, len(s.limits))
	for name, g := range s.units {
		h.Units[name] = g.series(unitColumns[:], s.times)
	}
	for name, g := range s.limits {
		h.Limits[name] = g.series(limitColumns[:], s.times)
	}
	if h.Total = emptySeries(unitColumns[:]); s.seq > 0 {
		h.Total = s.total.series(unitColumns[:], s.times)
	}
}

// close ends all subscriptions, and prevents new ones.
func (s *sampler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	clear(s.subs)
}
