package limit_test

import (
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

	"github.com/weir-go/weir/limit"
)

// A concurrencyModel is what a Concurrency ought to do, as lists.
type concurrencyModel struct {
	o       limit.ConcurrencyOptions // with plain numbers; MaxWait 0 means none
	callers []*caller
	queue   []*caller
	inUse   int
	held    float64
	count   int
	moved   time.Time
	left    uint64
	refused limit.Refusals
}

func (m *concurrencyModel) admit(c *caller) {
	c.want, c.granted, m.moved = in, time.Now(), time.Now()
	m.inUse++
}

func (m *concurrencyModel) arrive(c *caller, class limit.Priority, try bool) {
	m.callers = append(m.callers, c)
	free := m.o.Limit - m.inUse
	interval := m.held / float64(m.o.Limit)
	quiet := float64(time.Since(m.moved))
	wait := max(0, interval-quiet) + interval*float64(len(m.queue))
	switch {
	case m.count == 0:
		wait = 0
	case quiet > 4*m.held:
		wait = quiet + interval*float64(len(m.queue))
	}
	wait = math.Ceil(wait) // an expectation in whole nanoseconds, rather too late than too early
	switch {
	case class == limit.Background && (len(m.queue) > 0 || free <= m.o.Reserve):
		m.refuse(c, limit.NoSpare)
	case len(m.queue) == 0 && free > 0:
		m.admit(c)
	case try || len(m.queue) >= m.o.Queue || m.o.MaxWait > 0 && wait > float64(m.o.MaxWait):
		m.refuse(c, limit.QueueFull)
	case !c.deadline.IsZero() && wait >= float64(c.deadline.Sub(c.arrived)):
		m.refuse(c, limit.WaitTooLong)
	default:
		m.queue = append(m.queue, c)
	}
}

func (m *concurrencyModel) refuse(c *caller, r limit.Reason) {
	c.want, c.reason = no, r
	m.refused[r]++
}

func (m *concurrencyModel) leave(c *caller) {
	m.queue = slices.DeleteFunc(m.queue, func(q *caller) bool { return q == c })
	c.want = gone
	m.left++
}

func (m *concurrencyModel) release(c *caller, o limit.Outcome) {
	c.want = out
	m.inUse--
	if o != limit.Unused {
		m.count = min(m.count+1, 16)
		m.held += (float64(time.Since(c.granted)) - m.held) / float64(m.count)
	}
	if len(m.queue) > 0 {
		m.admit(m.queue[0])
		m.queue = m.queue[1:]
	}
}

// pass lets those leave whose time is over.
func (m *concurrencyModel) pass() {
	now := time.Now()
	for _, c := range slices.Clone(m.queue) {
		timeout := c.arrived.Add(m.o.MaxWait)
		timesOut := m.o.MaxWait > 0 && !timeout.After(now)
		switch {
		case !c.deadline.IsZero() && !c.deadline.After(now) && !(timesOut && timeout.Before(c.deadline)):
			m.leave(c)
		case timesOut:
			m.queue = slices.DeleteFunc(m.queue, func(q *caller) bool { return q == c })
			m.refuse(c, limit.QueueTimeout)
		}
	}
}

// concurrencyHistory runs a Concurrency and its model side by side.
func concurrencyHistory(t *testing.T, s script) {
	m := concurrencyModel{o: limit.ConcurrencyOptions{
		Limit: 1 + s.next(4), Queue: 1 + s.next(4), MaxWait: time.Duration(s.next(3)) * time.Second,
	}}
	o := m.o
	if o.MaxWait == 0 {
		o.MaxWait = -1
	}
	if o.Limit > 1 {
		m.o.Reserve = 1
	}
	c := newConcurrency(t, o)
	m.moved = time.Now()
	for step := 0; len(s) > 0; step++ {
		concurrencyStep(t, c, &m, &s)
		compare(t, step, m.callers)
		c.Check(t)
		st := c.Stats()
		if st.InUse != m.inUse || st.Queued != len(m.queue) || st.Left != m.left || st.Refused != m.refused {
			t.Fatalf("step %d: Stats = %+v; want %d in use, %d queued, %d left, refused %v",
				step, st, m.inUse, len(m.queue), m.left, m.refused)
		}
	}
	for _, c := range m.callers {
		if c.want == waiting {
			c.call.cancel(errGone)
		}
	}
}

func concurrencyStep(t *testing.T, c *limit.Concurrency, m *concurrencyModel, s *script) {
	switch s.next(10) {
	case 0:
		m.arrive(join(t, c, t.Context(), 0), limit.Normal, false)
	case 1, 2:
		m.arrive(join(t, c, t.Context(), s.span()), limit.Normal, false)
	case 3:
		m.arrive(join(t, c, background(t), 0), limit.Background, false)
	case 4:
		m.arrive(tried(c.TryAcquire()), limit.Normal, true)
	case 5:
		if w := s.pick(m.callers, waiting); w != nil {
			w.call.cancel(errGone)
			m.leave(w)
		}
	case 6, 7:
		// Some of those at the head hang up at the instant of the release, and
		// may have the permit by the time they see that.
		p := s.pick(m.callers, in)
		if p == nil {
			return
		}
		o := limit.Outcome(s.next(4))
		for _, w := range slices.Clone(m.queue[:min(len(m.queue), s.next(3))]) {
			w.call.cancel(errGone)
			m.leave(w)
		}
		p.call.permit.Release(o)
		m.release(p, o)
	case 8:
		if p := s.pick(m.callers, out); p != nil {
			p.call.permit.Release(limit.Success) // once more
		}
	case 9:
		time.Sleep(s.span())
		m.pass()
	}
}

// B4: never more than Limit permits, in order of arrival, refused for the
// right reason, and nothing lost when callers leave.
func TestConcurrencyHistoryMatchesTheModel(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) { concurrencyHistory(t, randomScript(seed)) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzConcurrencyHistory(f *testing.F) {
	f.Add([]byte(randomScript(1)[:60]))
	f.Fuzz(func(t *testing.T, s []byte) {
		synctest.Test(t, func(t *testing.T) { concurrencyHistory(t, script(s[:min(len(s), 600)])) })
	})
}

// The same under the scheduler's and the race detector's eyes: callers on real
// threads, that hang up at random while permits are handed over.
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
						t.Errorf("%d inside; want at most %d", n, permits)
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
		t.Errorf("Stats = %+v; want nobody in, nobody queued, nobody refused", s)
	}
	for range permits {
		if _, err := c.TryAcquire(); err != nil {
			t.Errorf("TryAcquire = %v; want all %d permits back", err, permits)
		}
	}
}
