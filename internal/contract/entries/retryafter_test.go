package entries_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

// E4: while the source has stated that it must not be called, it is not called for the key,
// whatever the Options remember and serve meanwhile. Then it is called again.
func TestE4RetryAfterIsObeyed(t *testing.T) {
	for name, o := range map[string]weir.Options{
		"alone":           {},
		"with a TTL":      {TTL: sec},
		"stale on error":  {TTL: sec, StaleIfError: time.Hour},
		"revalidated":     {TTL: sec, StaleWhileRevalidate: time.Hour},
		"refreshed ahead": {TTL: time.Minute, RefreshAhead: 0.5},
		"with a memo":     {FailureMemo: weir.FailureMemo{Overload: weir.Backoff{Initial: sec}, Transient: weir.Backoff{Initial: sec}}},
		"classified":      {Classify: func(error) weir.Class { return weir.ClassPermanent }},
	} {
		rig.Play(t, o, func(s *rig.Scene) {
			if o.TTL > 0 {
				s.Prime("k")
			}
			s.Set(0, weir.RetryAfter(rig.ErrDown, 0)) // now
			s.Until(40 * sec)
			s.Set(0, weir.RetryAfter(rig.ErrDown, 30*sec))
			before := len(s.Loads())
			var last weir.Result[int]
			for range 299 {
				if last = s.Get("k"); last.Err != nil && !errors.Is(last.Err, rig.ErrDown) {
					s.Fatalf("%s: Get = %v; want the error of the load", name, last.Err)
				}
				synctest.Wait()
				time.Sleep(100 * ms)
			}
			s.WantLoads(before + 1)
			var stated *weir.RetryAfterError
			if last.Err != nil && (!errors.As(last.Err, &stated) || stated.After() > sec) {
				s.Errorf("%s: %v; want an error that states the time that is left", name, last.Err)
			}
			s.Set(0, nil)
			time.Sleep(sec)
			s.Get("k")
			s.WantLoads(before + 2)
			if t.Failed() {
				s.Fatal(name)
			}
		})
	}
}

// E4: the time that a source states is bounded, and may be ignored.
func TestE4RetryAfterIsBounded(t *testing.T) {
	for _, row := range []struct{ most, want time.Duration }{
		{0, weir.DefaultMaxRetryAfter}, {5 * sec, 5 * sec}, {-1, 0},
	} {
		rig.Play(t, weir.Options{MaxRetryAfter: row.most}, func(s *rig.Scene) {
			s.Set(0, weir.RetryAfter(rig.ErrDown, 1000*time.Hour))
			s.Get("k")
			if row.want > 0 {
				s.Until(row.want - 1)
				s.Get("k")
				s.WantLoads(1)
			}
			s.Until(row.want)
			s.Get("k")
			s.WantLoads(2)
		})
	}
	if err := weir.RetryAfter(nil, sec); err != nil {
		t.Errorf("RetryAfter(nil) = %v; want nil", err)
	}
	if d := weir.RetryAfter(rig.ErrDown, -sec).(*weir.RetryAfterError).After(); d != 0 { //nolint:errorlint // as it is
		t.Errorf("After = %v; want 0", d)
	}
	if d := (&weir.RetryAfterError{Err: rig.ErrDown, Until: time.Now().Add(1000 * time.Hour)}).After(); d > weir.MaxRetryAfter {
		t.Errorf("After = %v; want at most %v", d, weir.MaxRetryAfter)
	}
}

// E4: what is stated for one key of a bulk load is for that key, and a value, an expiry and
// a forced load end it.
func TestE4RetryAfterOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		src := weir.Source[string, int]{LoadMany: func(_ context.Context, keys []string) (map[string]int, error) {
			for _, key := range keys {
				calls[key]++
			}
			return nil, weir.KeyErrors[string]{"a": fmt.Errorf("in a query: %w", weir.RetryAfter(rig.ErrDown, 30*sec)), "b": rig.ErrDown}
		}}
		g := weir.Must(weir.NewFrom(src, weir.Options{}))
		defer g.Close(t.Context())
		for range 3 {
			g.GetMany(t.Context(), []string{"a", "b"})
		}
		if calls["a"] != 1 || calls["b"] != 3 {
			t.Errorf("calls = %v; want 1 for a, 3 for b", calls)
		}
		for i, end := range []func(){
			func() { _, _ = g.Refresh(t.Context(), "a") },
			func() { _ = g.Invalidate(t.Context(), "a"); g.GetResult(t.Context(), "a") },
		} {
			end()
			if calls["a"] != 2+i {
				t.Errorf("%d calls for a; want %d", calls["a"], 2+i)
			}
		}
	})
}

// E4, T4: the other instances do not call the source either, and their callers learn when
// it may be called again.
func TestE4RetryAfterHoldsForTheFleet(t *testing.T) {
	for _, cooling := range []time.Duration{0, -1} {
		rig.InFleet(t, func(s *rig.Site) {
			gs := s.Instances(3, func(o *weir.Options) { o.Fleet.Cooling = cooling })
			s.Fail(weir.RetryAfter(rig.ErrDown, 30*time.Second))
			for range 29 {
				for _, g := range gs {
					r := g.GetResult(s.Context(), "k")
					var stated *weir.RetryAfterError
					if !errors.As(r.Err, &stated) || stated.After() > 30*time.Second || g.Classify(r.Err) != weir.ClassOverload {
						s.Fatalf("%v; want an overload that states when to try again", r.Err)
					}
				}
				time.Sleep(time.Second)
			}
			s.Loaded(1)
			time.Sleep(2 * time.Second)
			s.Fail(nil)
			s.Loads.Store(0)
			s.Get(gs[2], "k", 0)
			s.Loaded(1)
		})
	}
}

// A turnstile is a Limiter that can be paused.
type turnstile struct {
	limit.Limiter
	pauses []time.Duration
}

func (g *turnstile) Pause(d time.Duration) { g.pauses = append(g.pauses, d) }

// B4: the limiters of the load, within All and PerCall, learn what the source states, before
// the permit is free.
func TestB4RetryAfterPausesTheLimiter(t *testing.T) {
	one := weir.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1}))
	p := &turnstile{Limiter: one}
	load := func(_ context.Context, key int) (int, error) {
		if key > 0 {
			return 0, weir.RetryAfter(rig.ErrDown, time.Hour)
		}
		return 0, rig.ErrDown
	}
	g := weir.Must(weir.New(load, weir.Options{Limiter: limit.All(limit.All(), limit.PerCall(p))}))
	defer g.Close(t.Context())
	for key := range 2 {
		_, _ = g.Get(t.Context(), key)
	}
	if len(p.pauses) != 1 || p.pauses[0] < 59*time.Second || p.pauses[0] > weir.DefaultMaxRetryAfter {
		t.Errorf("pauses of %v; want one of a minute", p.pauses)
	}
}
