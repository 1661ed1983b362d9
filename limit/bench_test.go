package limit_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-go/weir/limit"
)

// The paths of a call that is let in at once allocate nothing.
func TestUncontendedAcquireAllocatesNothing(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 10})
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
		{"RateLimiter.Acquire", func() { p, _ := r.Acquire(t.Context()); p.Release(limit.Success) }},
		{"RateLimiter.Acquire, given back", func() { p, _ := r.Acquire(t.Context()); p.Release(limit.Unused) }},
		{"RateLimiter.TryAcquire", func() { p, _ := r.TryAcquire(); p.Release(limit.Success) }},
		{"PriorityOf", func() { limit.PriorityOf(low) }},
	} {
		if n := testing.AllocsPerRun(1000, tt.run); n != 0 {
			t.Errorf("%s: %v allocations; want 0", tt.name, n)
		}
	}
	// The race detector makes a sync.Pool forget at random.
	if n := testing.AllocsPerRun(1000, func() { p, _ := all.Acquire(t.Context()); p.Release(limit.Success) }); n > 1 {
		t.Errorf("All: %v allocations; want 1 at most", n)
	}
}

// B5: a refusal is cheap. The time is in BenchmarkRefusal.
func TestRefusalAllocatesOnlyItsError(t *testing.T) {
	for name, refuse := range refusals(t) {
		if n := testing.AllocsPerRun(1000, func() { refuse() }); n != 1 {
			t.Errorf("%s: %v allocations; want 1", name, n)
		}
	}
}

// refusals returns calls that are refused, each for another reason.
func refusals(t testing.TB) map[string]func() error {
	full := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	p, _ := full.TryAcquire()
	time.Sleep(time.Microsecond) // so that there is a wait to outlast
	p.Release(limit.Success)
	full.TryAcquire()
	busy := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
	busy.TryAcquire()
	empty := newRate(t, limit.RateOptions{PerSecond: 1e-6, Burst: 1})
	empty.TryAcquire()
	soon, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	long := newRate(t, limit.RateOptions{PerSecond: 1e-6, Burst: 1, MaxWait: -1})
	long.TryAcquire()
	low := background(t)

	acquire := func(l limit.Limiter, ctx context.Context) func() error {
		return func() error { _, err := l.Acquire(ctx); return err }
	}
	return map[string]func() error{
		"Concurrency/QueueFull": acquire(full, soon),
		"Concurrency/NoSpare":   acquire(busy, low),
		"Concurrency/Try":       func() error { _, err := full.TryAcquire(); return err },
		"Rate/RateExceeded":     acquire(empty, soon),
		"Rate/WaitTooLong":      acquire(long, soon),
		"Rate/NoSpare":          acquire(empty, low),
		"Rate/Try":              func() error { _, err := empty.TryAcquire(); return err },
	}
}

// B5: under a microsecond.
func BenchmarkRefusal(b *testing.B) {
	for name, refuse := range refusals(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if refuse() == nil {
					b.Fatal("not refused")
				}
			}
		})
	}
}

func BenchmarkAcquire(b *testing.B) {
	c := newConcurrency(b, limit.ConcurrencyOptions{Limit: 1 << 10})
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

// One permit, and two callers that hand it to each other.
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
