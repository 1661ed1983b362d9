package limit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

func TestB4AdaptiveShrinksWithoutLettingAnybodyIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdaptive(t, limit.AdaptiveOptions{Initial: 4})
		var out []limit.Permit
		for range 4 {
			out = append(out, admitted(t, a, t.Context()))
		}
		first, second := start(a, t.Context()), start(a, t.Context())
		a.SetLimit(2)
		for i, p := range out[:2] { // 3 in use, and 2
			p.Release(limit.Success)
			first.waits(t)
			if s := a.Stats(); s.Limit != 2 || s.InUse != 3-i || s.Queued != 2 {
				t.Errorf("Stats = %+v; want limit 2, %d in use, 2 queued", s, 3-i)
			}
			a.Check(t)
			_, err := a.TryAcquire()
			refused(t, err, limit.QueueFull)
			_, err = a.Acquire(background(t))
			refused(t, err, limit.NoSpare)
		}
		out[2].Release(limit.Success)
		p := first.got(t, 0)
		second.waits(t)
		out[3].Release(limit.Success)
		second.got(t, 0).Release(limit.Success)
		p.Release(limit.Success)
		if s := a.Stats(); s.InUse != 0 || s.Admitted != 6 || s.Waited != 2 {
			t.Errorf("Stats = %+v; want 0 in use, 6 admitted, 2 of them waited", s)
		}
	})
}

func TestB4AdaptiveGrowthLetsAllInThatItHasRoomFor(t *testing.T) {
	for _, o := range []limit.Outcome{limit.Success, limit.Dropped, limit.Ignored, limit.Unused} {
		synctest.Test(t, func(t *testing.T) {
			a := newAdaptive(t, limit.AdaptiveOptions{Initial: 1})
			p := admitted(t, a, t.Context())
			var calls []*call
			for range 5 {
				calls = append(calls, start(a, t.Context()))
			}
			a.SetLimit(3)
			p.Release(o)
			for _, c := range calls[:3] {
				c.got(t, 0)
			}
			calls[3].waits(t)
			a.Check(t)
		})
	}
}

// When the tuner grows or cuts the limit, no caller is stranded: callers wait only
// while the limit is reached.
func TestB4AdaptiveStrandsNobodyWhileItsLimitMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdaptive(t, limit.AdaptiveOptions{Initial: 1, Max: 50, MaxWait: -1})
		var bad, stop atomic.Bool
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for !stop.Load() {
					p, err := a.Acquire(t.Context())
					if err != nil {
						t.Errorf("Acquire = %v; want a permit", err)
						return
					}
					time.Sleep(10 * time.Millisecond)
					o := limit.Success
					if bad.Load() {
						o = limit.Dropped
					}
					p.Release(o)
				}
			})
		}
		limits := []int{1}
		for i := range 200 {
			bad.Store(i >= 100)
			time.Sleep(25 * time.Millisecond)
			a.Check(t)
			if n := a.Stats().Limit; n != limits[len(limits)-1] {
				limits = append(limits, n)
			}
		}
		stop.Store(true)
		wg.Wait()
		if s := a.Stats(); len(limits) < 6 || s.InUse != 0 || s.Queued != 0 {
			t.Errorf("limits %v, Stats = %+v; want limits that rise and fall, 0 in use, 0 queued", limits, s)
		}
	})
}

// taught returns an Adaptive with one permit that has seen calls that take d.
func taught(t *testing.T, o limit.AdaptiveOptions, d time.Duration) *limit.Adaptive {
	o.Max = 1
	a := newAdaptive(t, o)
	for range 30 {
		held(t, a, d)
	}
	return a
}

// B4: the time budget of the queue follows from the latency, and is 10 s until the
// latency is known.
func TestB4AdaptiveQueueBudgetIsAShareOfTheLatency(t *testing.T) {
	for _, tt := range []struct{ latency, want time.Duration }{
		{0, 10 * time.Second},
		{100 * time.Millisecond, 75 * time.Millisecond},
		{time.Millisecond, time.Millisecond}, // at least
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newAdaptive(t, limit.AdaptiveOptions{Max: 1})
			if tt.latency > 0 {
				a = taught(t, limit.AdaptiveOptions{}, tt.latency)
			}
			admitted(t, a, t.Context())
			if tt.latency > time.Millisecond {
				_, err := a.Acquire(t.Context()) // the running call has its whole time to go
				refused(t, err, limit.QueueFull)
			}
			time.Sleep(tt.latency / 2)
			w := start(a, t.Context())
			w.waits(t)
			time.Sleep(tt.want - 1)
			w.waits(t)
			time.Sleep(2 * time.Nanosecond) // the logarithm in the curve may cost a nanosecond
			synctest.Wait()
			refused(t, w.err, limit.QueueTimeout)
		})
	}
}

func TestB4AdaptiveTellsWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := taught(t, limit.AdaptiveOptions{MaxWait: -1}, 100*time.Millisecond)
		p := admitted(t, a, t.Context())
		w := start(a, t.Context())
		gone := start(a, t.Context())
		gone.cancel(errGone)
		_, err := a.TryAcquire()
		refused(t, err, limit.QueueFull)
		time.Sleep(50 * time.Millisecond)

		s := a.Stats()
		if d := s.Baseline - 100*time.Millisecond; d < -1 || d > 1 || s.Latency != 100*time.Millisecond || s.Knee < 0.99 || s.Knee > 1.01 {
			t.Errorf("Baseline %v, Latency %v, Knee %v; want 100ms, 100ms, 1", s.Baseline, s.Latency, s.Knee)
		}
		want := limit.ConcurrencyStats{
			Limit: 1, InUse: 1, Queued: 1,
			Admitted: 31, Left: 1, Refused: limit.Refusals{limit.QueueFull: 1},
			Held: 100 * time.Millisecond, Wait: 150 * time.Millisecond,
		}
		if s.ConcurrencyStats != want || s.WouldWait != 0 || s.WouldRefuse.Total() != 0 {
			t.Errorf("Stats = %+v; want %+v, and no counts of a dry run", s, want)
		}
		time.Sleep(150*time.Millisecond + 1)
		want.Wait = 100 * time.Millisecond
		if s := a.Stats(); s.ConcurrencyStats != want {
			t.Errorf("Stats = %+v; want %+v", s, want)
		}
		p.Release(limit.Unused)
		w.got(t, 200*time.Millisecond+1)
		want.Overloaded, want.Queued, want.Admitted, want.Waited = false, 0, 32, 1
		if s := a.Stats(); s.ConcurrencyStats != want {
			t.Errorf("Stats = %+v; want %+v", s, want)
		}
	})
}

func TestB4DryRunLetsEverybodyInAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdaptive(t, limit.AdaptiveOptions{Initial: 2, Min: 2, Max: 2, Queue: 3, MaxWait: -1, DryRun: true})
		held(t, a, time.Second)
		var out []limit.Permit
		in := func(ctx context.Context, wouldWait uint64, would limit.Refusals) {
			t.Helper()
			out = append(out, admitted(t, a, ctx))
			s := a.Stats()
			if s.WouldWait != wouldWait || s.WouldRefuse != would || s.InUse != len(out) || s.Queued != 0 {
				t.Errorf("Stats = %+v; want %d in use, WouldWait %d, WouldRefuse %v", s, len(out), wouldWait, would)
			}
		}
		var would limit.Refusals
		in(t.Context(), 0, would)
		would[limit.NoSpare]++ // one of the two permits is reserved
		in(background(t), 0, would)

		would[limit.WaitTooLong]++ // the next permit is half a second away
		in(within(t, 500*time.Millisecond), 0, would)
		out[2].Release(limit.Unused)
		out = out[:2]
		in(within(t, 500*time.Millisecond+1), 1, would)
		would[limit.WaitTooLong]++ // one caller would be ahead of it
		in(within(t, time.Second), 1, would)
		in(of(t, limit.High), 2, would)
		would[limit.QueueFull]++
		in(of(t, limit.High), 2, would)

		p, err := a.TryAcquire()
		if would[limit.QueueFull]++; err != nil || a.Stats().WouldRefuse != would {
			t.Errorf("TryAcquire = %v, WouldRefuse = %v; want a permit, %v", err, a.Stats().WouldRefuse, would)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		if _, err := a.Acquire(ctx); err != errGone {
			t.Errorf("Acquire = %v; want %v", err, errGone)
		}
		a.Check(t)
		for _, p := range append(out, p) {
			p.Release(limit.Success)
		}
		if s := a.Stats(); s.InUse != 0 || s.Admitted != 9 || s.Waited != 0 || s.Left != 0 || s.Refused.Total() != 0 {
			t.Errorf("Stats = %+v; want 9 admitted, and none that waited, left or was rejected", s)
		}
	})
}

// An asked is a context that records whether it was done when Acquire first called
// Err. The limiter does not count such a caller.
type asked struct {
	context.Context
	times int
	early *atomic.Uint64
}

func (a *asked) Err() error {
	err := a.Context.Err()
	if a.times++; a.times == 1 && err != nil {
		a.early.Add(1)
	}
	return err
}

// Callers on real threads, of all classes and with every outcome, hang up at random
// while permits are handed over, waiters are displaced and the limit changes. Every
// caller is counted once, and every permit is returned.
func TestB4AdaptiveUnderFireLosesNobody(t *testing.T) {
	for _, o := range []limit.AdaptiveOptions{
		{Initial: 3, Max: 6, Queue: 4, OverloadAfter: time.Microsecond},
		{Initial: 1, Max: 50, Queue: 2, MaxWait: -1, OverloadAfter: -1},
		{Initial: 2, Max: 4, Queue: 50, MaxWait: 100 * time.Microsecond},
		{Initial: 2, Max: 4, Queue: 2, DryRun: true},
	} {
		f := fire{a: newAdaptive(t, o)}
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() { f.caller(t, rand.New(rand.NewPCG(uint64(i), 0)), 300) })
		}
		wg.Wait()
		f.a.Check(t)
		s := f.a.Stats()
		if s.InUse != 0 || s.Queued != 0 {
			t.Errorf("%+v: Stats = %+v; want 0 in use, 0 queued", o, s)
		}
		if s.Admitted != f.admitted.Load() || s.Left != f.ended.Load()-f.early.Load() {
			t.Errorf("%+v: Stats = %+v; want %d admitted, %d left", o, s, f.admitted.Load(), f.ended.Load()-f.early.Load())
		}
		for r := range s.Refused {
			if got, want := s.Refused[r], f.refused[r].Load(); got != want {
				t.Errorf("%+v: %d rejections with reason %q; want %d", o, got, limit.Reason(r), want)
			}
		}
		if s.Admitted+s.Left+s.Refused.Total()+f.early.Load() != f.arrived.Load()+f.joins.Load() {
			t.Errorf("%+v: Stats = %+v; want %d arrivals accounted for", o, s, f.arrived.Load())
		}
	}
}

// A fire counts the results that callers got from an Adaptive.
type fire struct {
	a                                      *limit.Adaptive
	arrived, admitted, ended, early, joins atomic.Uint64
	refused                                [len(limit.Refusals{})]atomic.Uint64
}

// caller acquires rounds times. In some rounds another caller joins its place.
func (f *fire) caller(t *testing.T, r *rand.Rand, rounds int) {
	classes := []limit.Priority{limit.Background, limit.Low, limit.Normal, limit.High}
	for range rounds {
		var at limit.Place
		inner, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		switch r.IntN(3) {
		case 0:
			wg.Go(func() { cancel(errGone) })
		case 1:
			wg.Go(func() { f.join(&at) })
		}
		ctx := limit.ContextWithPlace(&asked{Context: inner, early: &f.early}, &at)
		f.arrived.Add(1)
		p, err := f.a.Acquire(limit.ContextWithPriority(ctx, classes[r.IntN(4)]))
		var e *limit.Error
		switch {
		case err == nil:
			f.admitted.Add(1)
			runtime.Gosched()
			o := limit.Outcome(r.IntN(4))
			if r.IntN(4) == 0 {
				wg.Go(func() { p.Release(o) })
			}
			p.Release(o)
		case errors.As(err, &e):
			f.refused[e.Reason].Add(1)
		case err == errGone:
			f.ended.Add(1)
		default:
			t.Errorf("Acquire = %v; want a permit, a rejection or %v", err, errGone)
		}
		wg.Wait()
		cancel(nil)
	}
}

// join joins a place while its owner may be waiting.
func (f *fire) join(at *limit.Place) {
	for range 3 {
		at.Wait()
		if err := at.Join(time.Now(), limit.High); err != nil { // too late, if it is queued at all
			f.joins.Add(1)
			f.refused[limit.WaitTooLong].Add(1)
		}
		at.Join(time.Time{}, limit.High)
		f.a.Stats()
		runtime.Gosched()
	}
}
