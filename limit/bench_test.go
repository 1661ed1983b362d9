package limit_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-go/weir/limit"
)

// A call that is admitted at once allocates nothing.
func TestUncontendedAcquireAllocatesNothing(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 10})
	a := newAdaptive(t, limit.AdaptiveOptions{})
	r := newRate(t, limit.RateOptions{PerSecond: 1e9, Burst: 1 << 20})
	all := limit.All(r, c)
	low := background(t)
	for _, tt := range []struct {
		name string
		run  func()
	}{
		{"Concurrency.Acquire", func() { p, _ := c.Acquire(t.Context()); p.Release(limit.Success) }},
		{"Concurrency.Acquire in the background", func() { p, _ := c.Acquire(low); p.Release(limit.Success) }},
		{"Concurrency.TryAcquire", func() { p, _ := c.TryAcquire(); p.Release(limit.Success) }},
		{"Adaptive.Acquire", func() { p, _ := a.Acquire(t.Context()); p.Release(limit.Success) }},
		{"Adaptive.Acquire in the background", func() { p, _ := a.Acquire(low); p.Release(limit.Success) }},
		{"Adaptive.TryAcquire", func() { p, _ := a.TryAcquire(); p.Release(limit.Success) }},
		{"RateLimiter.Acquire", func() { p, _ := r.Acquire(t.Context()); p.Release(limit.Success) }},
		{"RateLimiter.Acquire, given back", func() { p, _ := r.Acquire(t.Context()); p.Release(limit.Unused) }},
		{"RateLimiter.TryAcquire", func() { p, _ := r.TryAcquire(); p.Release(limit.Success) }},
		{"PriorityOf", func() { limit.PriorityOf(low) }},
	} {
		if n := testing.AllocsPerRun(1000, tt.run); n != 0 {
			t.Errorf("%s: %v allocations; want 0", tt.name, n)
		}
	}
	// With the race detector, a sync.Pool drops items at random.
	if n := testing.AllocsPerRun(1000, func() { p, _ := all.Acquire(t.Context()); p.Release(limit.Success) }); n > 1 {
		t.Errorf("All: %v allocations; want 1 at most", n)
	}
}

// B5: a rejection is cheap. BenchmarkRefusal measures the time.
func TestRefusalAllocatesOnlyItsError(t *testing.T) {
	for name, refuse := range refusals(t) {
		if n := testing.AllocsPerRun(1000, func() { refuse() }); n != 1 {
			t.Errorf("%s: %v allocations; want 1", name, n)
		}
	}
}

// refusals returns calls that are rejected, each for a different reason.
func refusals(t testing.TB) map[string]func() error {
	full := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	p, _ := full.TryAcquire()
	time.Sleep(time.Microsecond) // so that a holding time has been measured
	p.Release(limit.Success)
	full.TryAcquire()
	busy := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
	busy.TryAcquire()
	// Two limiters with a full queue, in which all callers have the newcomer's class.
	crowdedC := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, Queue: 1000, MaxWait: -1, OverloadAfter: -1})
	crowd(t, crowdedC, 1000)
	crowdedA := newAdaptive(t, limit.AdaptiveOptions{Initial: 1, Queue: 1000, MaxWait: -1, OverloadAfter: -1})
	crowd(t, crowdedA, 1000)
	empty := newRate(t, limit.RateOptions{PerSecond: 1e-6, Burst: 1})
	empty.TryAcquire()
	soon, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	long := newRate(t, limit.RateOptions{PerSecond: 1e-6, Burst: 1, MaxWait: -1})
	long.TryAcquire()
	low, lowly := background(t), limit.ContextWithPriority(soon, limit.Low)

	acquire := func(l limit.Limiter, ctx context.Context) func() error {
		return func() error { _, err := l.Acquire(ctx); return err }
	}
	return map[string]func() error{
		"Concurrency/QueueFull": acquire(full, soon),
		"Concurrency/NoSpare":   acquire(busy, low),
		"Concurrency/crowded":   acquire(crowdedC, lowly),
		"Adaptive/crowded":      acquire(crowdedA, lowly),
		"Adaptive/NoSpare":      acquire(crowdedA, low),
		"Adaptive/Try":          func() error { _, err := crowdedA.TryAcquire(); return err },
		"Concurrency/Try":       func() error { _, err := full.TryAcquire(); return err },
		"Rate/RateExceeded":     acquire(empty, soon),
		"Rate/WaitTooLong":      acquire(long, soon),
		"Rate/NoSpare":          acquire(empty, low),
		"Rate/Try":              func() error { _, err := empty.TryAcquire(); return err },
	}
}

// crowd takes the only permit of l and fills its queue with n Low callers, which
// leave at the end of the test. It returns their places.
func crowd(t testing.TB, l queued, n int) []*limit.Place {
	l.TryAcquire()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	places := make([]*limit.Place, n)
	for i := range places {
		places[i] = new(limit.Place)
		at := limit.ContextWithPlace(limit.ContextWithPriority(ctx, limit.Low), places[i])
		wg.Go(func() { l.Acquire(at) })
		for statsOf(l).Queued <= i {
			runtime.Gosched()
		}
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return places
}

// B5: under a microsecond.
func BenchmarkRefusal(b *testing.B) {
	for name, refuse := range refusals(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if refuse() == nil {
					b.Fatal("not rejected")
				}
			}
		})
	}
}

func BenchmarkAcquire(b *testing.B) {
	c := newConcurrency(b, limit.ConcurrencyOptions{Limit: 1 << 10})
	a := newAdaptive(b, limit.AdaptiveOptions{Initial: 1 << 10, Min: 1 << 10, Max: 1 << 10})
	dry := newAdaptive(b, limit.AdaptiveOptions{DryRun: true})
	r := newRate(b, limit.RateOptions{PerSecond: 1e9, Burst: 1 << 20})
	x := rate.NewLimiter(1e9, 1<<20)
	all := limit.All(r, c)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, bb := range []struct {
		name string
		run  func()
	}{
		{"Concurrency", func() { p, _ := c.Acquire(ctx); p.Release(limit.Success) }},
		{"Adaptive", func() { p, _ := a.Acquire(ctx); p.Release(limit.Success) }},
		{"Adaptive/dry", func() { p, _ := dry.Acquire(ctx); p.Release(limit.Success) }},
		{"Rate", func() { p, _ := r.Acquire(ctx); p.Release(limit.Success) }},
		{"Rate/x-time-rate", func() { x.Wait(ctx) }}, // the rejected alternative
		{"All", func() { p, _ := all.Acquire(ctx); p.Release(limit.Success) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bb.run()
			}
		})
		b.Run(bb.name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bb.run()
				}
			})
		})
	}
}

// A newcomer takes a place in a full queue of 1,000. Each newcomer is a new
// goroutine, which accounts for most of the time.
func BenchmarkDisplace(b *testing.B) {
	const places = 1000
	c := newConcurrency(b, limit.ConcurrencyOptions{Limit: 1, Queue: places, MaxWait: -1, OverloadAfter: 1})
	crowd(b, c, places)
	gone := make(chan struct{}, places+1)
	run := func(ctx context.Context) {
		c.Acquire(ctx)
		gone <- struct{}{}
	}
	done, cancel := context.WithCancel(b.Context())
	cancel()
	b.Run("goroutine-alone", func(b *testing.B) { // to be subtracted
		b.ReportAllocs()
		for b.Loop() {
			go run(done)
			<-gone
		}
	})
	b.Run("Concurrency", func(b *testing.B) {
		for range places { // these displace the callers of crowd
			go run(b.Context())
		}
		for c.Stats().Refused[limit.Displaced] < places {
			runtime.Gosched()
		}
		b.ReportAllocs()
		for b.Loop() {
			go run(b.Context())
			<-gone
		}
	})
}

// Join and Wait count the callers ahead, here up to 999.
func BenchmarkPlace(b *testing.B) {
	c := newConcurrency(b, limit.ConcurrencyOptions{Limit: 1, Queue: 1000, MaxWait: -1, OverloadAfter: -1})
	places := crowd(b, c, 1000)
	deadline := time.Now().Add(time.Hour)
	for _, bb := range []struct {
		name string
		run  func()
	}{
		{"Join/first", func() { places[0].Join(deadline, limit.Low) }},
		{"Join/last", func() { places[999].Join(deadline, limit.Low) }},
		{"Wait/last", func() { places[999].Wait() }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bb.run()
			}
		})
	}
}

// Several callers hand a single permit to each other.
func BenchmarkHandOver(b *testing.B) {
	c := newConcurrency(b, limit.ConcurrencyOptions{Limit: 1})
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, err := c.Acquire(context.Background())
			if err != nil {
				b.Error(err)
				return
			}
			p.Release(limit.Success)
		}
	})
}

func BenchmarkPriorityOf(b *testing.B) {
	ctx := background(b)
	for range 10 {
		ctx = context.WithValue(ctx, new(int), 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		limit.PriorityOf(ctx)
	}
}
