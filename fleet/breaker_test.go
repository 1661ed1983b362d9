package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/internal/histories"
)

// heard records the calls of a Watcher.
type heard struct {
	mu    sync.Mutex
	calls []string
}

func (h *heard) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, fmt.Sprintf(format, args...))
}
func (h *heard) Changed(name string, fence uint64, removed bool) {
	h.add("changed %s %v", name, removed)
}
func (h *heard) Pushed(name string, e fleet.Entry, _ uint64) {
	h.add("pushed %s %s", name, e.Data)
}
func (h *heard) Released(name string)           { h.add("released %s", name) }
func (h *heard) Expired(tag string, seq uint64) { h.add("expired %s", tag) }
func (h *heard) Tagged(tag string, seq uint64)  { h.add("tagged %s", tag) }
func (h *heard) Lost()                          { h.add("lost") }
func (h *heard) Recovered()                     { h.add("recovered") }
func (h *heard) Reset()                         { h.add("reset") }

// want fails unless exactly these calls were made since its last use.
func (h *heard) want(t *testing.T, calls ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if fmt.Sprint(h.calls) != fmt.Sprint(calls) {
		t.Errorf("the Watcher got %q; want %q", h.calls, calls)
	}
	h.calls = nil
}

var testKey = fleet.Key{Namespace: "n", Name: "k"}

// broken returns a Breaker in front of a Memory with faults, and a Watcher of it.
func broken(t *testing.T, o fleet.BreakerOptions) (*fleet.Breaker, *fleettest.Faults, *fleet.Memory, *heard) {
	t.Helper()
	m := fleet.NewMemory(fleet.MemoryOptions{})
	f := fleettest.NewFaults(m)
	b := fleet.WithBreaker(f, o)
	h := &heard{}
	stop, err := b.Watch("n", h)
	if err != nil {
		t.Fatalf("Watch = %v; want nil", err)
	}
	t.Cleanup(func() {
		f.Unhang()
		stop()
		_ = b.Close(context.Background())
		_ = m.Close(context.Background())
	})
	return b, f, m, h
}

// ask acquires the key, and returns the error and how long it took.
func ask(b fleet.Tier) (time.Duration, error) {
	start := time.Now()
	_, err := b.Acquire(context.Background(), testKey, fleet.Ask{Lease: time.Second})
	return time.Since(start), err
}

// fails acquires the key, and wants a rejection after exactly this long.
func fails(t *testing.T, b fleet.Tier, after time.Duration) {
	t.Helper()
	if took, err := ask(b); !errors.Is(err, fleet.ErrUnavailable) || took != after {
		t.Errorf("Acquire = %v after %v; want ErrUnavailable after %v", err, took, after)
	}
}

func TestBreakerOpensAfterMissedDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _, h := broken(t, fleet.BreakerOptions{})
		f.Hang()
		fails(t, b, fleet.DefaultDeadline)
		fails(t, b, fleet.DefaultDeadline)
		if b.State().Open {
			t.Errorf("open after 2 failures; want after %d", fleet.DefaultFailures)
		}
		h.want(t)
		fails(t, b, fleet.DefaultDeadline)
		h.want(t, "lost")
		fails(t, b, 0)
		if s := b.State(); !s.Open || s.Opened != 1 || s.Refused != 1 {
			t.Errorf("State = %+v; want open once, 1 refused", s)
		}
		var e *fleet.UnavailableError
		if _, err := ask(b); !errors.As(err, &e) || e.Op != "breaker" {
			t.Errorf("Acquire = %v; want an UnavailableError of the breaker", err)
		}
	})
}

func TestBreakerProbeCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _, h := broken(t, fleet.BreakerOptions{})
		f.Cut()
		for range fleet.DefaultFailures {
			fails(t, b, 0)
		}
		h.want(t, "lost", "lost") // from the connection, and from the breaker
		start := time.Now()
		var probes []time.Duration
		f.Before(func(op string) {
			if op != "ping" {
				t.Errorf("%s was called while open; want ping", op)
			}
			probes = append(probes, time.Since(start))
			start = time.Now()
		})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		every := fleet.DefaultProbe
		for i, d := range probes {
			if d > every || d < every*3/4 {
				t.Errorf("probe %d came after %v; want %v, minus at most a quarter", i, d, every)
			}
			every = min(2*every, fleet.DefaultMaxProbe)
		}
		if len(probes) < 11 || len(probes) > 16 {
			t.Errorf("%d probes in 20 s; want 11 to 16", len(probes))
		}
		f.Before(nil)
		f.Mend()
		time.Sleep(fleet.DefaultMaxProbe)
		h.want(t, "reset", "reset")
		if _, err := ask(b); err != nil || b.State().Open {
			t.Errorf("Acquire = %v, open %v after a good probe; want nil, false", err, b.State().Open)
		}
	})
}

// A deaf engine ignores its context.
type deaf struct {
	fleet.Tier
	block chan struct{}
}

func (d deaf) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	<-d.block
	return d.Tier.Acquire(context.WithoutCancel(ctx), k, a)
}

func (d deaf) Tags(context.Context, string, []string) (fleet.TagState, error) {
	<-d.block
	return fleet.TagState{}, nil
}

func TestBreakerBoundsWhatAHungEngineHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		d := deaf{m, make(chan struct{})}
		b := fleet.WithBreaker(d, fleet.BreakerOptions{Failures: 8, MaxCalls: 5})
		defer b.Close(context.Background())
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { fails(t, b, fleet.DefaultDeadline) })
		}
		synctest.Wait()
		fails(t, b, 0) // the sixth fails at once
		wg.Wait()
		fails(t, b, 0)
		if s := b.State(); s.Open || s.Calls != 5 || s.Missed != 5 || s.Refused != 2 {
			t.Errorf("State = %+v; want closed, 5 calls hanging, 5 missed, 2 refused", s)
		}
		close(d.block)
		synctest.Wait()
		if s := b.State(); s.Calls != 0 {
			t.Errorf("%d calls hanging after the engine resumed; want 0", s.Calls)
		}
		if a := acquire(t, m, testKey, fleet.Ask{}); a.Grant != fleet.GrantLease {
			t.Errorf("Acquire = %v; want granted: leases granted too late are given back", a.Grant)
		}
	})
}

func TestBreakerProbesOfAHungEngineAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deaf{fleet.NewMemory(fleet.MemoryOptions{}), make(chan struct{})}
		b := fleet.WithBreaker(d, fleet.BreakerOptions{Failures: 1})
		defer b.Close(context.Background())
		fails(t, b, fleet.DefaultDeadline)
		time.Sleep(time.Hour)
		if s := b.State(); s.Calls != 5 || !s.Open {
			t.Errorf("State = %+v after an hour; want open, 1 call and 4 probes hanging", s)
		}
		close(d.block)
		time.Sleep(fleet.DefaultMaxProbe)
		if _, err := ask(b); err != nil {
			t.Errorf("Acquire = %v after the engine resumed; want nil", err)
		}
	})
}

// A gated engine responds when and how the test decides.
type gated struct {
	fleet.Tier
	asked chan chan error
}

func (g gated) Acquire(context.Context, fleet.Key, fleet.Ask) (fleet.Answer, error) {
	answer := make(chan error)
	g.asked <- answer
	return fleet.Answer{Grant: fleet.GrantHeld}, <-answer
}

// begin starts n operations that hang in the engine.
func (g gated) begin(b *fleet.Breaker, n int) (answers []chan error, results chan error) {
	results = make(chan error, n)
	for range n {
		go func() { _, err := ask(b); results <- err }()
		answers = append(answers, <-g.asked)
	}
	return answers, results
}

func TestBreakerLateSuccessDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated{fleet.NewMemory(fleet.MemoryOptions{}), make(chan chan error)}
		b := fleet.WithBreaker(g, fleet.BreakerOptions{Failures: 2, Deadline: time.Hour})
		defer b.Close(context.Background())
		answers, results := g.begin(b, 1)
		for range 2 { // one after another
			failing, failed := g.begin(b, 1)
			failing[0] <- fleet.ErrUnavailable
			<-failed
		}
		if !b.State().Open {
			t.Fatal("closed after 2 failures; want open")
		}
		answers[0] <- nil
		if err := <-results; err != nil {
			t.Errorf("Acquire = %v, begun before the opening and answered after it; want nil", err)
		}
		if !b.State().Open {
			t.Error("a late success closed the breaker; only a probe may")
		}
		time.Sleep(fleet.DefaultProbe)
		synctest.Wait()
		if b.State().Open {
			t.Error("open after a good probe; want closed")
		}
	})
}

// T9: overlapping operations see one stall, and count as one failure.
func TestT9_OverlappingMissesAreOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		f := fleettest.NewFaults(m)
		b := fleet.WithBreaker(f, fleet.BreakerOptions{})
		defer b.Close(context.Background())
		stall := func(d time.Duration, calls int) {
			f.Hang()
			var all sync.WaitGroup
			for i := range calls {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 10 * time.Millisecond) // all begin before the first one fails
					_, _ = ask(b)
				})
			}
			time.Sleep(d)
			f.Unhang()
			all.Wait()
		}
		stall(130*time.Millisecond, 6)
		if s := b.State(); s.Open || s.Missed < 4 {
			t.Errorf("after a stall of 130 ms with 6 misses: %+v; want closed", s)
		}
		f.Hang()
		for range fleet.DefaultFailures {
			_, _ = ask(b)
		}
		if !b.State().Open {
			t.Error("closed after three misses one after another; want open")
		}
		f.Unhang()
		time.Sleep(fleet.DefaultMaxProbe)
	})
}

func TestBreakerLateFailureDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated{fleet.NewMemory(fleet.MemoryOptions{}), make(chan chan error)}
		b := fleet.WithBreaker(g, fleet.BreakerOptions{Failures: 2, Deadline: time.Hour})
		defer b.Close(context.Background())
		fails := func() {
			answers, results := g.begin(b, 1)
			answers[0] <- fleet.ErrUnavailable
			<-results
		}
		answers, results := g.begin(b, 2)
		fails()
		fails()
		time.Sleep(fleet.DefaultProbe) // it has opened, and a probe closes it
		synctest.Wait()
		for _, answer := range answers {
			answer <- fleet.ErrUnavailable
			<-results
		}
		if s := b.State(); s.Open || s.Opened != 1 {
			t.Errorf("State = %+v; want closed: failures from before the opening do not count", s)
		}
		fails()
		fails()
		if s := b.State(); !s.Open || s.Opened != 2 {
			t.Errorf("State = %+v; want open again after 2 new failures", s)
		}
	})
}

// TestBreakerHistories runs operations, faults and probes concurrently, for the race
// detector, and checks what must hold in any order.
func TestBreakerHistories(t *testing.T) {
	for seed := range histories.Seeds(t, 5, 30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			b, f, _, h := broken(t, fleet.BreakerOptions{Failures: 2})
			faults := []func(){f.Hang, f.Unhang, f.Cut, f.Mend}
			var wg sync.WaitGroup
			for range 8 {
				pause := time.Duration(1 + rng.IntN(40))
				wg.Go(func() {
					for range 100 {
						if took, err := ask(b); took > fleet.DefaultDeadline || err != nil && !errors.Is(err, fleet.ErrUnavailable) {
							t.Errorf("seed %d: Acquire = %v after %v; want nil or ErrUnavailable within %v", seed, err, took, fleet.DefaultDeadline)
						}
						time.Sleep(pause * time.Millisecond)
					}
				})
			}
			for range 20 {
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
				faults[rng.IntN(len(faults))]()
			}
			wg.Wait()
			f.Unhang()
			f.Mend()
			time.Sleep(2 * fleet.DefaultMaxProbe)
			synctest.Wait()
			if _, err := ask(b); err != nil || b.State().Open || b.State().Calls != 0 {
				t.Errorf("seed %d: Acquire = %v, %+v after the faults; want nil, closed, no calls", seed, err, b.State())
			}
			if n := len(h.calls); b.State().Opened > 0 && h.calls[n-1] != "reset" {
				t.Errorf("seed %d: the last call of the Watcher was %q; want reset", seed, h.calls[n-1])
			}
		})
	}
}

func TestBreakerCallerWhoLeavesIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _, _ := broken(t, fleet.BreakerOptions{Failures: 1})
		f.Hang()
		cause := errors.New("the caller has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
		start := time.Now()
		_, err := b.Acquire(ctx, testKey, fleet.Ask{Lease: time.Second})
		if err != cause || time.Since(start) != 10*time.Millisecond {
			t.Errorf("Acquire = %v after %v; want the caller's cause after 10ms", err, time.Since(start))
		}
		if b.State().Open {
			t.Error("a caller that left opened the breaker")
		}
	})
}

// An engine that fails as its caller leaves fails because the context ended, not
// through a fault.
type left struct {
	fleet.Tier
	leave func()
}

func (l *left) Acquire(context.Context, fleet.Key, fleet.Ask) (fleet.Answer, error) {
	l.leave()
	return fleet.Answer{}, fleet.ErrUnavailable
}

func TestBreakerFailureAfterTheCallerLeftIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &left{Tier: fleet.NewMemory(fleet.MemoryOptions{})}
		b := fleet.WithBreaker(l, fleet.BreakerOptions{Failures: 1})
		defer b.Close(context.Background())
		for range 100 { // the end and the failure come at the same time, in either order
			ctx, cancel := context.WithCancel(t.Context())
			l.leave = cancel
			if _, err := b.Acquire(ctx, testKey, fleet.Ask{Lease: time.Second}); err != context.Canceled {
				t.Fatalf("Acquire = %v; want the caller's context.Canceled", err)
			}
			synctest.Wait()
		}
		if b.State().Open {
			t.Error("a failure after the caller left opened the breaker")
		}
	})
}

func TestBreakerSuccessStartsCountingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _, _ := broken(t, fleet.BreakerOptions{})
		for range 5 {
			f.Cut()
			fails(t, b, 0)
			fails(t, b, 0)
			f.Mend()
			if _, err := ask(b); err != nil {
				t.Fatalf("Acquire = %v; want nil", err)
			}
		}
		if b.State().Open {
			t.Error("open after 2 failures in a row; want 3")
		}
		if _, err := b.Acquire(t.Context(), testKey, fleet.Ask{}); err == nil || errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Acquire without a lease = %v; want an error that is not ErrUnavailable", err)
		}
	})
}

func TestBreakerStartsWithoutItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		f := fleettest.NewFaults(m)
		f.Cut()
		b := fleet.WithBreaker(f, fleet.BreakerOptions{})
		defer b.Close(context.Background())
		h := &heard{}
		stop, err := b.Watch("n", h)
		if err != nil {
			t.Fatalf("Watch = %v; want nil", err)
		}
		defer stop()
		h.want(t, "lost")
		fails(t, b, 0)
		other := &heard{}
		stopOther, err := b.Watch("n", other) // while it is open
		if err != nil {
			t.Fatalf("Watch = %v; want nil", err)
		}
		other.want(t, "lost")
		f.Mend()
		time.Sleep(fleet.DefaultMaxProbe)
		h.want(t, "reset")
		other.want(t, "reset")
		stopOther()
		if _, err := m.Write(t.Context(), testKey, fleet.Write{}); err != nil {
			t.Fatalf("Write = %v", err)
		}
		h.want(t, "changed k true")
		other.want(t)
	})
}

func TestBreakerCloseEndsTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _, h := broken(t, fleet.BreakerOptions{Failures: 1})
		f.Cut()
		fails(t, b, 0)
		for range 2 {
			if err := b.Close(context.Background()); err != nil {
				t.Errorf("Close = %v; want nil", err)
			}
		}
		h.want(t, "lost", "lost")
		f.Mend()
		probes := b.State().Probes
		time.Sleep(time.Minute)
		if n := b.State().Probes; n != probes {
			t.Errorf("%d probes after Close; want none", n-probes)
		}
		fails(t, b, 0)
		if _, err := b.Watch("n", h); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Watch after Close = %v; want ErrUnavailable", err)
		}
	})
}

type panics struct{ modest }

func (panics) Acquire(context.Context, fleet.Key, fleet.Ask) (fleet.Answer, error) { panic("oh") }

func TestBreakerPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fleet.WithBreaker(panics{modest{wrapper: wrapper{fleet.NewMemory(fleet.MemoryOptions{})}}}, fleet.BreakerOptions{})
		defer b.Close(context.Background())
		fails(t, b, 0)
		if _, err := b.Take(t.Context(), testKey, fleet.Rate{Permits: 1, Per: time.Second, Burst: 1}, 1); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Take of no Meter = %v; want ErrUnsupported", err)
		}
	})
}
