package limit_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// near is an upper bound for the distance of two instants that float64 rounding can
// order differently than the model. Histories avoid instants that close.
const near = time.Microsecond

// A rateModel models a RateLimiter in whole nanoseconds: the bucket holds time, and a
// token is interval of it.
type rateModel struct {
	interval, size, level time.Duration
	at                    time.Time
	o                     limit.RateOptions // with plain numbers
	callers               []*caller
	queue                 []*caller
	token                 map[*caller]int // number of the last token it took
	taken, spilt          int
	refused               limit.Refusals
	left, owed, forgiven  uint64
	lacks                 map[*caller]int
	stack                 []*stake // of tokens that have not come back
}

// A stake is a part of the bucket that was taken and has not come back. What comes back
// belongs to the first stake.
type stake struct {
	c    *caller // nil: it cannot be returned
	left time.Duration
}

// comeBack lets d of the stakes come back.
func (m *rateModel) comeBack(d time.Duration) {
	for d > 0 && len(m.stack) > 0 {
		s := m.stack[0]
		now := min(d, s.left)
		s.left -= now
		if d -= now; s.left == 0 {
			m.stack = m.stack[1:]
		}
	}
}

// pass is passTo now. It also removes callers whose deadlines come before their
// tokens, one after another. That can happen only after the rate was lowered.
func (m *rateModel) pass() {
	now := time.Now()
	for {
		var first *caller
		for _, c := range m.queue {
			if !c.deadline.IsZero() && !c.deadline.After(now) && (first == nil || c.deadline.Before(first.deadline)) {
				first = c
			}
		}
		if first == nil {
			m.passTo(now)
			return
		}
		m.passTo(first.deadline)
		if first.want == waiting {
			m.queue = slices.DeleteFunc(m.queue, func(q *caller) bool { return q == first })
			first.want = gone
			m.left++
		}
	}
}

// passTo fills the bucket up to now and admits the callers whose tokens are due.
func (m *rateModel) passTo(now time.Time) {
	for len(m.queue) > 0 && m.level+now.Sub(m.at) >= m.need(m.queue[0]) {
		c := m.queue[0]
		d := max(0, m.need(c)-m.level)
		m.comeBack(d)
		m.at = m.at.Add(d)
		m.level += d - m.need(c)
		m.admit(c)
		m.queue = m.queue[1:]
	}
	m.comeBack(now.Sub(m.at))
	m.level, m.at = min(m.level+now.Sub(m.at), m.size), now
}

// blurred reports whether something happens close to d from now.
func (m *rateModel) blurred(d time.Duration) bool {
	off := ((m.level+d+near)%m.interval + m.interval) % m.interval // the level may be negative
	return off <= 2*near
}

func (m *rateModel) admit(c *caller) {
	c.want = in
	m.taken += c.units
	m.token[c] = m.taken
	m.stack = append(m.stack, &stake{c, m.need(c)})
}

// need returns how much of the bucket the tokens of c take.
func (m *rateModel) need(c *caller) time.Duration { return m.interval * time.Duration(c.units) }

// work returns how much the queue needs.
func (m *rateModel) work() (d time.Duration) {
	for _, c := range m.queue {
		d += m.need(c)
	}
	return d
}

// update changes rate, size and queue of l and m.
func (m *rateModel) update(t *testing.T, l *limit.RateLimiter, s *script) {
	perSecond := perSeconds[s.next(len(perSeconds))]
	o := limit.RateOptions{
		PerSecond: float64(perSecond), Burst: 1 + s.next(4), Queue: 1 + s.next(5), MaxWait: time.Duration(1+s.next(3))*time.Second + 7*near,
	}
	if err := l.Update(o); err != nil {
		t.Fatalf("Update = %v", err)
	}
	interval := time.Second / time.Duration(perSecond)
	m.level = time.Duration(float64(m.level) / float64(m.interval) * float64(interval))
	m.o, m.interval, m.size = o, interval, interval*time.Duration(o.Burst)
	for _, c := range slices.Clone(m.queue) {
		if c.units > o.Burst {
			m.queue = slices.DeleteFunc(m.queue, func(q *caller) bool { return q == c })
			m.refuse(c, limit.TooMany)
		}
	}
	if m.level > m.size {
		m.level = m.size
	}
	m.stack = []*stake{{nil, m.size - m.level}}
	m.pass()
}

func (m *rateModel) arrive(c *caller, class limit.Priority, try bool) {
	m.callers = append(m.callers, c)
	need := m.need(c)
	if class == limit.Background {
		need = max(need, min(need+m.interval, m.size))
	}
	wait := m.work() + need - m.level
	switch {
	case len(m.queue) == 0 && m.level >= need:
		if m.level == m.size {
			m.spilt = m.taken
		}
		m.level -= m.need(c)
		m.admit(c)
	case c.units > m.o.Burst:
		m.refuse(c, limit.TooMany)
	case class == limit.Background:
		m.refuse(c, limit.NoSpare)
	case try || len(m.queue) >= m.o.Queue || wait > m.o.MaxWait:
		m.refuse(c, limit.RateExceeded)
	case !c.deadline.IsZero() && wait >= c.deadline.Sub(c.arrived):
		m.refuse(c, limit.WaitTooLong)
	default:
		m.queue = append(m.queue, c)
	}
}

func (m *rateModel) refuse(c *caller, r limit.Reason) {
	c.want, c.reason = no, r
	m.refused[r]++
}

func (m *rateModel) leave(c *caller) {
	m.queue = slices.DeleteFunc(m.queue, func(q *caller) bool { return q == c })
	c.want = gone
	m.left++
	m.pass()
}

// unused returns the tokens of c.
func (m *rateModel) unused(c *caller) {
	c.want = out
	m.refund(c, c.units)
}

// refund returns n tokens of c, if they have not come back.
func (m *rateModel) refund(c *caller, n int) {
	if c.plain {
		if m.token[c] > m.spilt {
			m.comeBack(m.interval)
			m.level = min(m.level+m.interval, m.size)
		}
		m.pass()
		return
	}
	for _, s := range m.stack {
		if s.c == c {
			n = min(n, int(s.left/m.interval))
			s.left -= m.interval * time.Duration(n)
			c.units -= n
			m.level += m.interval * time.Duration(n)
		}
	}
	m.pass()
}

// settle corrects the cost of c to n.
func (m *rateModel) settle(c *caller, n int) {
	more := n - c.units
	defer func() {
		lacks := max(0, n-c.units)
		m.forgiven += uint64(lacks - m.lacks[c])
		m.lacks[c] = lacks
	}()
	if more <= 0 {
		m.refund(c, -more)
		return
	}
	if m.level == m.size {
		m.spilt = m.taken
	}
	most := int(math.Floor(float64(m.level)/float64(m.interval))) + cmp.Or(m.o.MaxDebt, m.o.Burst)
	took := max(0, min(more, most))
	m.owed += uint64(took)
	c.units += took
	m.taken += took
	m.level -= m.interval * time.Duration(took)
	m.stack = append(m.stack, &stake{nil, m.interval * time.Duration(took)})
}

var perSeconds = []int{1, 2, 4, 5, 10, 100}

// rateHistory runs a RateLimiter and its model side by side.
func rateHistory(t *testing.T, s script) {
	perSecond := perSeconds[s.next(len(perSeconds))]
	burst := 1 + s.next(4)
	o := limit.RateOptions{
		PerSecond: float64(perSecond), Burst: burst, Queue: 1 + s.next(5), MaxWait: time.Duration(1+s.next(3))*time.Second + 7*near,
	}
	l := newRate(t, o)
	m := &rateModel{interval: time.Second / time.Duration(perSecond), at: time.Now(), o: o, token: map[*caller]int{}, lacks: map[*caller]int{}}
	m.size = m.interval * time.Duration(burst)
	m.level = m.size
	for step := 0; len(s) > 0; step++ {
		if m.blurred(0) {
			time.Sleep(5 * near)
			m.pass()
		}
		rateStep(t, l, m, &s)
		compare(t, step, m.callers)
		l.Check(t)
		m.places(t, step)
		if st := l.Stats(); math.Abs(st.Tokens-float64(m.level)/float64(m.interval)) > 1e-3 {
			t.Fatalf("step %d: Stats = %+v; want %v tokens", step, st, float64(m.level)/float64(m.interval))
		}
		if st := l.Stats(); st.Owed != m.owed || st.Forgiven != m.forgiven {
			t.Fatalf("step %d: Stats = %+v; want %d owed, %d forgiven", step, st, m.owed, m.forgiven)
		}
		if st := l.Stats(); st.Queued != len(m.queue) || st.Refused != m.refused || st.Left != m.left {
			t.Fatalf("step %d: Stats = %+v; want %d queued, %d left, refused %v", step, st, len(m.queue), m.left, m.refused)
		}
	}
	for _, c := range m.callers {
		if c.want == waiting {
			c.call.cancel(errGone)
		}
	}
}

// wait returns the time until the tokens of c, which is in the queue, are due.
func (m *rateModel) wait(c *caller) time.Duration {
	i := slices.Index(m.queue, c)
	var need time.Duration
	for _, q := range m.queue[:i+1] {
		need += m.need(q)
	}
	return need - m.level
}

// places compares the places of the callers with m.
func (m *rateModel) places(t *testing.T, step int) {
	t.Helper()
	for i, c := range m.callers {
		want := time.Duration(0)
		if c.want == waiting {
			want = m.wait(c)
		}
		if got, queued := c.place.Wait(); (got-want).Abs() > near || queued != (c.want == waiting) {
			t.Fatalf("step %d, caller %d: Wait = %v, %t; want %v, %t", step, i, got, queued, want, c.want == waiting)
		}
	}
}

func rateStep(t *testing.T, l *limit.RateLimiter, m *rateModel, s *script) {
	switch s.next(14) {
	case 12, 13:
		if p := s.pick(m.callers, in); p != nil && !p.plain {
			n := s.next(8)
			p.call.permit.Settle(n)
			m.settle(p, n)
		}
	case 11:
		m.update(t, l, s)
	case 0, 1:
		m.arrive(join(t, l, t.Context(), 0, 1+s.next(3)), limit.Normal, false)
	case 2, 3:
		d := s.span()
		for m.blurred(d) {
			d += 5 * near
		}
		m.arrive(join(t, l, t.Context(), d, 1+s.next(2)), limit.Normal, false)
	case 4:
		m.arrive(join(t, l, background(t), 0, 1+s.next(2)), limit.Background, false)
	case 5:
		m.arrive(tried(l.TryAcquire()), limit.Normal, true)
	case 6:
		if w := s.pick(m.callers, waiting); w != nil {
			w.call.cancel(errGone)
			m.leave(w)
		}
	case 7:
		if p := s.pick(m.callers, in); p != nil {
			p.call.permit.Release(limit.Unused)
			m.unused(p)
		}
	case 8:
		if p := s.pick(m.callers, out); p != nil {
			p.call.permit.Release(limit.Unused) // once more
		}
	case 9:
		d := s.span()
		for m.blurred(d) {
			d += 5 * near
		}
		time.Sleep(d)
		m.pass()
	case 10:
		w := s.pick(m.callers, waiting)
		if w == nil {
			return
		}
		left := s.span()
		if (left - m.wait(w)).Abs() <= 2*near {
			return
		}
		err := w.place.Join(time.Now().Add(left), limit.High)
		if (err != nil) != (m.wait(w) >= left) {
			t.Fatalf("Join(%v) = %v, with %v to wait", left, err, m.wait(w))
		}
		if err != nil {
			m.refused[limit.WaitTooLong]++
		}
	}
}

// B4: callers are admitted at the rate and in order of arrival. A caller that can meet
// its deadline is admitted before it, and all others are rejected at once.
func TestRateHistoryMatchesTheModel(t *testing.T) {
	for seed := range histories.Seeds(t, 10, 50) {
		synctest.Test(t, func(t *testing.T) { rateHistory(t, randomScript(seed)) })
	}
}

func FuzzRateHistory(f *testing.F) {
	f.Add([]byte(randomScript(1)[:60]))
	f.Fuzz(func(t *testing.T, s []byte) {
		synctest.Test(t, func(t *testing.T) { rateHistory(t, script(s[:min(len(s), 600)])) })
	})
}

// The same under the race detector: all tokens are returned, so at the end the bucket
// is full. There are too few calls for a token to become too old to return.
func TestRateUnderFireLosesNoToken(t *testing.T) {
	const burst, callers, rounds = 3, 16, 60
	l := newRate(t, limit.RateOptions{PerSecond: 1e-9, Burst: burst, MaxWait: -1})
	var wg sync.WaitGroup
	for i := range callers {
		r := rand.New(rand.NewPCG(uint64(i), 0))
		wg.Go(func() {
			for range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(2) == 0 {
					go cancel()
				}
				if p, err := l.Acquire(ctx); err == nil {
					runtime.Gosched()
					p.Release(limit.Unused)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if s := l.Stats(); s.Queued != 0 || s.Refused.Total() != 0 || s.Tokens < burst-1e-6 {
		t.Errorf("Stats = %+v; want 0 queued, 0 rejected, %d tokens", s, burst)
	}
}
