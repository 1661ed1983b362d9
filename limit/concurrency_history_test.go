package limit_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// A concurrencyModel models a Concurrency, or an Adaptive with a given limit, with
// lists.
type concurrencyModel struct {
	o        limit.ConcurrencyOptions // with defaults; MaxWait 0 means none
	tenth    bool                     // Reserve is a tenth of Limit
	most     int                      // units that may be requested; 0: Limit
	at       time.Time                // the current instant of the model
	callers  []*caller
	queue    []*caller // in order of arrival in their class
	patience struct {
		late float64       // the share of the last callers that waited too long
		age  time.Duration // of the last one that left without a deadline
	}
	inUse int
	held  float64
	count int
	moved time.Time
	want  limit.ConcurrencyStats // its counters
}

func (m *concurrencyModel) admit(c *caller) {
	c.want, c.granted, m.moved = in, m.at, m.at
	m.inUse += c.units
	m.want.Admitted++
}

// fits reports whether n units can be issued and leave spare.
func (m *concurrencyModel) fits(n, spare int) bool {
	return m.inUse+n+spare <= m.o.Limit || m.inUse == 0 && n > m.o.Limit
}

// letIn admits callers in turn, up to the first that does not fit.
func (m *concurrencyModel) letIn() {
	for len(m.queue) > 0 {
		late := m.lates()
		next := order(m.queue, late)[0]
		if !m.fits(next.units, 0) {
			return
		}
		m.drop(next)
		switch {
		case late[next.class]:
		case !next.deadline.IsZero():
			m.patient(float64(next.deadline.Sub(m.at)) < m.held)
		case m.at.Sub(next.arrived) > m.patience.age:
			m.patient(false)
		}
		m.admit(next)
		m.want.Waited++
	}
}

// ahead returns how many units in order are served before the last unit of c, or all
// of them if c is nil.
func ahead(order []*caller, c *caller) int {
	n := 0
	for _, o := range order {
		n += o.units
		if o == c {
			return n - 1
		}
	}
	return n
}

// late reports whether the newest of a class are served first.
func (m *concurrencyModel) late(class limit.Priority) bool {
	i := slices.IndexFunc(m.queue, func(c *caller) bool { return c.class == class })
	if i < 0 || m.o.OverloadAfter < 0 {
		return false
	}
	c, above := m.queue[i], 0
	for _, q := range m.queue {
		if q.class > class {
			above += q.units
		}
	}
	turn := m.at.Add(m.wait(above + c.units - 1))
	ended := turn.Add(time.Duration(math.Ceil(m.held)))
	return m.o.OverloadAfter > 0 && m.at.Sub(c.arrived) > m.o.OverloadAfter ||
		!c.until.IsZero() && turn.After(c.until) ||
		m.patience.late > 0.5 && (!c.deadline.IsZero() && ended.After(c.deadline) ||
			c.deadline.IsZero() && m.patience.age > 0 && ended.Sub(c.arrived) > m.patience.age)
}

// overloaded reports whether a class is late.
func (m *concurrencyModel) overloaded() bool {
	return slices.ContainsFunc(m.queue, func(c *caller) bool { return m.late(c.class) })
}

// patient counts a caller that waited too long, or did not.
func (m *concurrencyModel) patient(tooLong bool) {
	hit := 0.0
	if tooLong {
		hit = 1
	}
	m.patience.late += (hit - m.patience.late) / 8
}

// lates returns the classes whose newest are served first.
func (m *concurrencyModel) lates() map[limit.Priority]bool {
	late := map[limit.Priority]bool{}
	for _, c := range m.queue {
		late[c.class] = m.late(c.class)
	}
	return late
}

// order returns queue in the order of service.
func order(queue []*caller, late map[limit.Priority]bool) []*caller {
	var order []*caller
	for _, class := range []limit.Priority{limit.High, limit.Normal, limit.Low, limit.Background} {
		var of []*caller
		for _, c := range queue {
			if c.class == class {
				of = append(of, c)
			}
		}
		if late[class] {
			slices.Reverse(of)
		}
		order = append(order, of...)
	}
	return order
}

// wait returns the expected wait with that many units ahead, rounded up to whole
// nanoseconds.
func (m *concurrencyModel) wait(ahead int) time.Duration {
	ahead += max(0, m.inUse-m.o.Limit) // after the limit has shrunk
	interval := m.held / float64(m.o.Limit)
	quiet := float64(m.at.Sub(m.moved))
	first := max(0, interval-quiet)
	switch {
	case m.count == 0:
		return 0
	case quiet > 4*m.held:
		first = quiet
	}
	return time.Duration(math.Ceil(first + interval*float64(ahead)))
}

func (m *concurrencyModel) arrive(c *caller, class limit.Priority, try bool) {
	c.class = class
	m.callers = append(m.callers, c)
	if m.tenth {
		m.o.Reserve = max(1, m.o.Limit/10)
		if m.o.Limit == 1 {
			m.o.Reserve = 0
		}
	}
	most, spare := cmp.Or(m.most, m.o.Limit), 0
	if class == limit.Background {
		spare = m.o.Reserve
	}
	with := append(slices.Clone(m.queue), c)
	order := order(with, m.lates())
	last := order[len(order)-1]
	full := len(m.queue) >= m.o.Queue || m.o.MaxWait > 0 && m.wait(ahead(m.queue, nil)) > m.o.MaxWait
	switch {
	case c.units > most:
		m.refuse(c, limit.TooMany)
	case len(m.queue) == 0 && m.fits(c.units, spare):
		m.admit(c)
	case class == limit.Background:
		m.refuse(c, limit.NoSpare)
	case try || full && last == c:
		m.refuse(c, limit.QueueFull)
	case !c.deadline.IsZero() && m.wait(ahead(order, c)) >= c.deadline.Sub(c.arrived):
		m.refuse(c, limit.WaitTooLong)
	default:
		m.queue = with
		if m.o.MaxWait > 0 {
			c.until = c.arrived.Add(m.o.MaxWait)
		}
		if full {
			m.drop(last)
			m.refuse(last, limit.Displaced)
		}
		m.letIn()
	}
}

func (m *concurrencyModel) refuse(c *caller, r limit.Reason) {
	c.want, c.reason = no, r
	m.want.Refused[r]++
}

// drop removes c from the queue.
func (m *concurrencyModel) drop(c *caller) {
	m.queue = slices.DeleteFunc(m.queue, func(q *caller) bool { return q == c })
}

func (m *concurrencyModel) leave(c *caller) {
	if c.deadline.IsZero() {
		first := m.queue[slices.IndexFunc(m.queue, func(q *caller) bool { return q.class == c.class })]
		age, oldest := m.at.Sub(c.arrived), m.at.Sub(first.arrived)
		tooLong := age >= oldest-oldest/10
		if tooLong {
			m.patience.age = age
		}
		m.patient(tooLong)
	}
	m.drop(c)
	c.want = gone
	m.want.Left++
	m.letIn()
}

// joined models a caller of that class that joins c, which waits, with left until its
// deadline. It reports whether the caller is accepted.
func (m *concurrencyModel) joined(c *caller, left time.Duration, class limit.Priority) bool {
	up, late := class > c.class, m.lates()
	queue, was := slices.Clone(m.queue), c.class
	if up {
		queue = slices.DeleteFunc(queue, func(q *caller) bool { return q == c })
		queue, c.class = append(queue, c), class
	}
	if left > 0 && m.wait(ahead(order(queue, late), c)) >= left {
		c.class = was
		m.want.Refused[limit.WaitTooLong]++
		return false
	}
	m.queue = queue
	if up {
		m.letIn()
	}
	return true
}

func (m *concurrencyModel) release(c *caller, o limit.Outcome) {
	c.want = out
	m.inUse -= c.units
	if o != limit.Unused {
		m.count = min(m.count+1, max(16, 4*m.o.Limit))
		m.held += (float64(m.at.Sub(c.granted)) - m.held) / float64(m.count)
	}
	m.letIn()
}

// settle corrects the units of c to n.
func (m *concurrencyModel) settle(c *caller, n int) {
	n = min(n, max(c.units, cmp.Or(m.most, m.o.Limit)))
	m.inUse += n - c.units
	c.units = n
	m.letIn()
}

// end returns when c is out of the queue at the latest, and whether it then leaves or
// is rejected. Without a bound, that is far in the future.
func (c *caller) end() (at time.Time, leaves bool) {
	switch {
	case !c.deadline.IsZero() && (c.until.IsZero() || !c.until.Before(c.deadline)):
		return c.deadline, true
	case c.until.IsZero():
		return time.Now().AddDate(1, 0, 0), false
	}
	return c.until, false
}

// pass removes the callers whose time is over, one after another, because each that
// goes can let others in.
func (m *concurrencyModel) pass() {
	now := time.Now()
	for len(m.queue) > 0 {
		first := slices.MinFunc(m.queue, func(a, b *caller) int {
			x, _ := a.end()
			y, _ := b.end()
			return x.Compare(y)
		})
		at, leaves := first.end()
		if at.After(now) {
			break
		}
		m.at = at
		if leaves {
			m.leave(first)
		} else {
			m.drop(first)
			m.refuse(first, limit.QueueTimeout)
			m.letIn()
		}
	}
	m.at = now
}

// update changes the options of l and m.
func (m *concurrencyModel) update(t *testing.T, l queued, s *script) {
	o := m.o
	o.Limit, o.Queue, o.Reserve = 1+s.next(5), 1+s.next(4), 0
	o.MaxWait = time.Duration(s.next(3)) * time.Second
	o.OverloadAfter = []time.Duration{0, -1, 1, time.Second}[s.next(4)]
	m.o = o
	if o.MaxWait == 0 {
		o.MaxWait = -1
	}
	var err error
	switch l := l.(type) {
	case *limit.Concurrency:
		err = l.Update(o)
		if m.o.Limit > 1 {
			m.o.Reserve = 1
		}
	case *limit.Adaptive:
		m.most = 5 + s.next(10)
		err = l.Update(limit.AdaptiveOptions{Max: m.most, Queue: o.Queue, MaxWait: o.MaxWait, OverloadAfter: o.OverloadAfter})
		m.o.Limit = l.Limit()
	}
	if err != nil {
		t.Fatalf("Update = %v", err)
	}
	for _, c := range slices.Clone(m.queue) {
		if c.units > cmp.Or(m.most, m.o.Limit) {
			m.drop(c)
			m.refuse(c, limit.TooMany)
		}
	}
	m.letIn()
}

// check compares l with m: its counters, and the places of its callers.
func (m *concurrencyModel) check(t *testing.T, step int, l queued) {
	t.Helper()
	l.Check(t)
	want := m.want
	want.Limit, want.InUse, want.Queued, want.Overloaded = m.o.Limit, m.inUse, len(m.queue), m.overloaded()
	want.Held = time.Duration(math.Ceil(m.held))
	if m.inUse >= m.o.Limit {
		want.Wait = m.wait(ahead(m.queue, nil))
	}
	got := statsOf(l)
	want.Late = got.Late // which the model does not know
	if got != want {
		t.Fatalf("step %d: Stats = %+v; want %+v", step, got, want)
	}
	order := order(m.queue, m.lates())
	for i, c := range m.callers {
		waits := slices.Contains(order, c)
		wait := time.Duration(0)
		if waits {
			wait = m.wait(ahead(order, c))
		}
		if got, queued := c.place.Wait(); got != wait || queued != waits {
			t.Fatalf("step %d, caller %d: Wait = %v, %t; want %v, %t", step, i, got, queued, wait, waits)
		}
	}
}

// newHistory returns a limiter and its model.
func newHistory(t *testing.T, s *script) (queued, *concurrencyModel) {
	m := &concurrencyModel{moved: time.Now(), at: time.Now(), o: limit.ConcurrencyOptions{
		MinLimit: 100, // the model has no storms
		Limit:    1 + s.next(4), Queue: 1 + s.next(4), MaxWait: time.Duration(s.next(3)) * time.Second,
		OverloadAfter: []time.Duration{0, -1, 1, time.Second}[s.next(4)],
	}}
	o := m.o
	if o.MaxWait == 0 {
		o.MaxWait = -1
	}
	if s.next(2) == 0 {
		if o.Limit > 1 {
			m.o.Reserve = 1
		}
		return newConcurrency(t, o), m
	}
	m.tenth, m.most = true, 30
	return newAdaptive(t, limit.AdaptiveOptions{
		Initial: o.Limit, Max: 30, Queue: o.Queue, MaxWait: o.MaxWait, OverloadAfter: o.OverloadAfter,
	}), m
}

// concurrencyHistory runs a Concurrency or an Adaptive and its model side by
// side.
func concurrencyHistory(t *testing.T, s script) {
	l, m := newHistory(t, &s)
	for step := 0; len(s) > 0; step++ {
		concurrencyStep(t, l, m, &s)
		compare(t, step, m.callers)
		m.check(t, step, l)
	}
	for _, c := range m.callers {
		if c.want == waiting {
			c.call.cancel(errGone)
		}
	}
}

// unitsOf is weighted: most callers request one unit.
var unitsOf = []int{1, 1, 1, 2, 3, 4}

// classesOf is weighted: most callers are Normal.
var classesOf = []limit.Priority{limit.Normal, limit.Normal, limit.Low, limit.High, limit.Background}

func concurrencyStep(t *testing.T, l queued, m *concurrencyModel, s *script) {
	switch s.next(14) {
	case 12, 13:
		if p := s.pick(m.callers, in); p != nil && !p.plain {
			n := 1 + s.next(8)
			p.call.permit.Settle(n)
			m.settle(p, n)
		}
	case 0, 1, 2:
		time.Sleep(time.Nanosecond) // no two callers arrive, and so none leave, at the same instant
		m.pass()
		class := classesOf[s.next(len(classesOf))]
		d := time.Duration(0)
		if s.next(2) > 0 {
			d = s.span()
		}
		m.arrive(join(t, l, of(t, class), d, unitsOf[s.next(len(unitsOf))]), class, false)
	case 3:
		m.arrive(tried(l.TryAcquire()), limit.Normal, true)
	case 4:
		if w := s.pick(m.callers, waiting); w != nil {
			w.call.cancel(errGone)
			m.leave(w)
		}
	case 5, 6:
		concurrencyRelease(l, m, s)
	case 7:
		if p := s.pick(m.callers, out); p != nil {
			p.call.permit.Release(limit.Success) // once more
		}
	case 8:
		w := s.pick(m.callers, waiting)
		if w == nil {
			return
		}
		var deadline time.Time
		left := s.span() * time.Duration(s.next(2))
		if left > 0 {
			deadline = time.Now().Add(left)
		}
		class := classesOf[s.next(len(classesOf))]
		if err := w.place.Join(deadline, class); (err == nil) != m.joined(w, left, class) {
			t.Fatalf("Join(%v, %v) = %v; want the opposite", left, class, err)
		}
	case 9:
		time.Sleep(s.span())
		m.pass()
	case 11:
		m.update(t, l, s)
	case 10:
		if a, ok := l.(*limit.Adaptive); ok {
			a.SetLimit(1 + s.next(5))
			if p := s.pick(m.callers, in); p != nil {
				release(l, m, p, limit.Ignored)
			} else {
				a.SetLimit(m.o.Limit) // undo: no permit is in use whose release would apply it
			}
		}
	}
}

// concurrencyRelease releases a permit. Some of the callers that are next hang up at
// that instant, and may already have been granted the permit.
func concurrencyRelease(l queued, m *concurrencyModel, s *script) {
	p := s.pick(m.callers, in)
	if p == nil {
		return
	}
	o := limit.Outcome(s.next(4))
	order := order(m.queue, m.lates())
	// Keep one caller: if all left, the model could not know whether the permit was
	// issued to one of them for an instant, which shows in Wait when the limit shrinks.
	n := min(s.next(3), max(0, len(order)-1))
	if slices.ContainsFunc(order, func(w *caller) bool { return w.units > 1 }) {
		n = 0 // nor could it know to which caller
	}
	for _, w := range order[:n] {
		w.call.cancel(errGone)
		m.drop(w)
		w.want = gone
		m.want.Left++
	}
	release(l, m, p, o)
}

// release releases p, and updates the model's limit.
func release(l queued, m *concurrencyModel, p *caller, o limit.Outcome) {
	p.call.permit.Release(o)
	m.o.Limit = statsOf(l).Limit
	m.release(p, o)
}

// B4, F3: at most Limit permits are in use. Callers are served in order of class and
// arrival, newest first under overload, and rejected or displaced with the right
// reason. Places report the right wait, and no permit is lost when callers leave.
func TestConcurrencyHistoryMatchesTheModel(t *testing.T) {
	for seed := range histories.Seeds(t, 20, 100) {
		synctest.Test(t, func(t *testing.T) { concurrencyHistory(t, randomScript(seed)) })
	}
}

func FuzzConcurrencyHistory(f *testing.F) {
	f.Add([]byte(randomScript(1)[:60]))
	f.Fuzz(func(t *testing.T, s []byte) {
		synctest.Test(t, func(t *testing.T) { concurrencyHistory(t, script(s[:min(len(s), 600)])) })
	})
}

// The same with real threads and the race detector: callers hang up at random while
// permits are handed over.
func TestConcurrencyUnderFireLosesNoPermit(t *testing.T) {
	const permits, callers, rounds = 3, 16, 300
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: permits, Queue: callers, MaxWait: -1})
	var inside atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		r := rand.New(rand.NewPCG(uint64(i), 0))
		wg.Go(func() {
			for range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(2) == 0 {
					go cancel()
				}
				if p, err := c.Acquire(ctx); err == nil {
					if n := inside.Add(1); n > permits {
						t.Errorf("%d callers hold a permit; want at most %d", n, permits)
					}
					runtime.Gosched()
					inside.Add(-1)
					p.Release(limit.Outcome(r.IntN(4)))
				}
				cancel()
			}
		})
	}
	wg.Wait()
	s := c.Stats()
	if s.InUse != 0 || s.Queued != 0 || s.Refused.Total() != 0 {
		t.Errorf("Stats = %+v; want 0 in use, 0 queued, 0 rejected", s)
	}
	for range permits {
		if _, err := c.TryAcquire(); err != nil {
			t.Errorf("TryAcquire = %v; want all %d permits back", err, permits)
		}
	}
}
