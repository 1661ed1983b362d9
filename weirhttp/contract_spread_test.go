package weirhttp_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/spread"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// seeded makes Retry-After depend on a seed until the test ends.
func seeded(t *testing.T) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(4, 6))
	spread.Fix(func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	})
	t.Cleanup(func() { spread.Fix(func() float64 { return 0 }) })
}

// Two hundred clients that are rejected in one instant come back in different seconds.
func TestH46_RejectedClientsDoNotComeBackTogether(t *testing.T) {
	seeded(t)
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			l := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
			s := open(t, p, weirhttp.Options{Limiter: l, Gateway: true}, answering(4*time.Second))
			s.get("/warm") // 4 s are measured
			go s.get("/busy")
			time.Sleep(time.Second)
			in := map[int]int{}
			for i := range 200 {
				r := s.get("/" + strconv.Itoa(i))
				n, _ := strconv.Atoi(r.header.Get("Retry-After"))
				if r.status != 503 || n < 3 || n > 6 {
					t.Fatalf("got %d, Retry-After %q; want 503, and 3 to 6: the permit is free in 3 s", r.status, r.header.Get("Retry-After"))
				}
				in[n]++
			}
			for n := 4; n <= 6; n++ {
				if in[n] < 40 || in[n] > 95 {
					t.Errorf("%d of 200 clients come back after %d s; want about 66: %v", in[n], n, in)
				}
			}
			time.Sleep(time.Minute)
		})
	})
}

// The pause that a source has stated is a lower bound, also above 10 s.
func TestH46_AStatedPauseIsNotShortened(t *testing.T) {
	seeded(t)
	synctest.Test(t, func(t *testing.T) {
		l := weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{MaxWait: -1, MaxPause: time.Hour})
		l.Observe(503, http.Header{"Retry-After": {"30"}})
		ctx := limit.ContextWithPriority(t.Context(), limit.Background) // it does not wait
		seen := map[time.Duration]bool{}
		for range 100 {
			_, err := l.Acquire(ctx)
			var e *limit.Error
			if !errors.As(err, &e) || e.RetryAfter < 30*time.Second || e.RetryAfter > 40*time.Second {
				t.Fatalf("Acquire = %v; want a rejection for 30 s to 40 s", err)
			}
			seen[e.RetryAfter] = true
		}
		if len(seen) < 90 {
			t.Errorf("100 rejections have %d different times", len(seen))
		}
	})
}
