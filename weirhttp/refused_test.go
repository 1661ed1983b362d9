package weirhttp_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// unreachable is a limit of a fleet whose engine does not respond.
type unreachable struct{}

func (unreachable) Acquire(context.Context) (limit.Permit, error) {
	return limit.Permit{}, &quota.OutageError{Refusal: limit.Error{Reason: limit.RateExceeded, RetryAfter: time.Second}, Cause: fleet.ErrUnavailable}
}

// Each rejected request is counted in one field, by what has rejected it, with the status that its
// client received. A request that is too large for a budget is neither 503 nor 429.
func TestH34_RefusalsAreCountedByWhatRefuses(t *testing.T) {
	all := func(l ...limit.Limiter) limit.Limiter { return limit.All(l...) }
	paused := func() *weirhttp.StatedLimits {
		l := weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{MaxPause: time.Hour})
		l.Pause(time.Hour)
		return l
	}
	const small, large = `{"max_tokens":90}`, `{"max_tokens":101}`
	for _, row := range []struct {
		name, body string
		o          func(t *testing.T) weirhttp.Options
		status     int
		want       weirhttp.RefusedStats
	}{
		{"limit", small, func(*testing.T) weirhttp.Options { return weirhttp.Options{Limiter: &gate{shut: true}} }, 503, weirhttp.RefusedStats{Limit: 1}},
		{"unreachable", small, func(*testing.T) weirhttp.Options { return weirhttp.Options{Limiter: unreachable{}} }, 503, weirhttp.RefusedStats{Unreachable: 1}},
		{"paused, as a limit", small, func(*testing.T) weirhttp.Options { return weirhttp.Options{Limiter: all(paused(), &gate{})} }, 503, weirhttp.RefusedStats{Paused: 1}},
		{"paused, as a budget", small, func(t *testing.T) weirhttp.Options {
			return weirhttp.Options{Budget: all(paused(), budget(t)), Cost: completions}
		}, 503, weirhttp.RefusedStats{Paused: 1}},
		{"budget", small, func(t *testing.T) weirhttp.Options {
			return weirhttp.Options{Budget: all(weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{}), spent(budget(t))), Cost: completions}
		}, 503, weirhttp.RefusedStats{Budget: 1}},
		{"too large for the budget", large, func(t *testing.T) weirhttp.Options {
			return weirhttp.Options{Budget: budget(t), Cost: completions}
		}, 413, weirhttp.RefusedStats{TooLarge: 1}},
		{"client", small, func(t *testing.T) weirhttp.Options {
			l, err := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Key: weirhttp.ByHeader("X-User", nil)})
			if err != nil {
				t.Fatal(err)
			}
			return weirhttp.Options{ClientLimiter: l}
		}, 429, weirhttp.RefusedStats{Client: 1}},
		{"client budget", small, func(t *testing.T) weirhttp.Options {
			return weirhttp.Options{ClientBudget: clientBudget(t, weirhttp.ClientBudgetOptions{}), Cost: completions}
		}, 429, weirhttp.RefusedStats{ClientBudget: 1}},
		{"too large for the client's budget", large, func(t *testing.T) weirhttp.Options {
			return weirhttp.Options{ClientBudget: clientBudget(t, weirhttp.ClientBudgetOptions{}), Cost: completions}
		}, 413, weirhttp.RefusedStats{TooLarge: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, row.o(t), answering(0))
				r := s.promptAs("ada", row.body)
				if r.status == 200 { // the first request of a client is admitted
					r = s.promptAs("ada", row.body)
				}
				got := s.handler.Stats()
				if r.status != row.status || got.RefusedBy != row.want || got.RefusedBy.Total() != 1 || got.Ended() != got.Requests {
					t.Errorf("status %d, RefusedBy = %+v, %d of %d ended; want %d, %+v, all of them", r.status, got.RefusedBy, got.Ended(), got.Requests, row.status, row.want)
				}
				sums := map[int]uint64{503: got.Refused, 429: got.RefusedClient, 413: got.RefusedBy.TooLarge}
				for status, n := range sums {
					if want := map[bool]uint64{true: 1}[status == row.status]; n != want {
						t.Errorf("%d requests are counted as %d; want %d", n, status, want)
					}
				}
				names := map[string]uint64{}
				for name, n := range got.RefusedBy.All() {
					names[name] = n
				}
				if len(names) != 7 || sum(names) != 1 {
					t.Errorf("All yields %v; want 7 names, and 1 refusal", names)
				}
			})
		})
	}
}

func sum(all map[string]uint64) (n uint64) {
	for _, v := range all {
		n += v
	}
	return n
}

// spent takes all of a budget.
func spent(l *limit.RateLimiter) *limit.RateLimiter {
	_, _ = l.AcquireN(context.Background(), 100)
	return l
}
