package weirhttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// H34: what an origin states makes calls wait, for as long as it states and no longer than
// MaxPause.
func TestH34_StatedLimitsAreObeyed(t *testing.T) {
	for _, row := range []struct {
		name   string
		status int
		fields []string
		n      int
		wait   time.Duration
	}{
		{"nothing", 429, nil, 1, 0},
		{"Retry-After", 429, []string{"Retry-After", "7"}, 1, 7 * time.Second},
		{"Retry-After of a success", 200, []string{"Retry-After", "7"}, 1, 0},
		{"Retry-After as a date", 503, []string{"Retry-After", "Sat, 01 Jan 2000 00:00:05 GMT"}, 1, 5 * time.Second},
		{"Retry-After too long", 503, []string{"Retry-After", "3600"}, 1, 20 * time.Second},
		{"Retry-After beyond all bounds", 503, []string{"Retry-After", "99999999999999999999999"}, 1, 20 * time.Second},
		{"Retry-After malformed", 503, []string{"Retry-After", "-1"}, 1, 0},
		{"RateLimit", 200, []string{"RateLimit", `"default";r=0;t=9`}, 1, 9 * time.Second},
		{"RateLimit with some left", 200, []string{"RateLimit", `"default";r=2;t=9`}, 1, 0},
		{"RateLimit of two", 200, []string{"RateLimit", `"day";r=50;t=900, "second";r=0;t=1`}, 1, time.Second},
		{"RateLimit beyond all bounds", 200, []string{"RateLimit", `"default";r=0;t=99999999999999999999999`}, 1, 20 * time.Second},
		{"RateLimit with more left than an int", 200, []string{"RateLimit", `"day";r=99999999999999999999999;t=9, "second";r=0;t=1`}, 1, time.Second},
		{"RateLimit in quotes", 200, []string{"RateLimit", `r=0;;;t==1,,,"a;r=0;t=5"`}, 1, 0},
		{"RateLimit without t", 200, []string{"RateLimit", `"default";r=0`}, 1, 0},
		{"older fields", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "4"}, 1, 4 * time.Second},
		{"since 1970", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684806"}, 1, 6 * time.Second},
		{"older fields beyond all bounds", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1e300"}, 1, 20 * time.Second},
		{"requests", 200, []string{"X-RateLimit-Remaining-Requests", "0", "X-RateLimit-Reset-Requests", "1.5s"}, 1, 1500 * time.Millisecond},
		{"tokens", 200, []string{"X-RateLimit-Remaining-Tokens", "99", "X-RateLimit-Reset-Tokens", "6s"}, 100, 6 * time.Second},
		{"enough tokens", 200, []string{"X-RateLimit-Remaining-Tokens", "100", "X-RateLimit-Reset-Tokens", "6s"}, 100, 0},
		{"malformed", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "NaN", "RateLimit", `;;,=;r=;t=x`}, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{MaxPause: 20 * time.Second, MaxWait: -1})
			h := http.Header{}
			for i := 0; i < len(row.fields); i += 2 {
				h.Add(row.fields[i], row.fields[i+1])
			}
			l.Observe(row.status, h)
			began := time.Now()
			if _, err := l.AcquireN(t.Context(), row.n); err != nil || time.Since(began) != row.wait {
				t.Errorf("%s: AcquireN = %v after %v; want nil after %v", row.name, err, time.Since(began), row.wait)
			}
		})
	}
}

// H34: a call that cannot wait so long is refused at once, with the true time; one whose
// client leaves returns.
func TestH34_StatedLimitsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{Name: "model"})
		h := http.Header{"Retry-After": {"15"}}
		l.Observe(429, h)
		var refused *limit.Error
		if _, err := l.Acquire(t.Context()); !errors.As(err, &refused) || refused.Reason != limit.RateExceeded || refused.RetryAfter != 15*time.Second {
			t.Errorf("Acquire = %v; want a refusal for 15s", err)
		}
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx); !errors.As(err, &refused) || refused.Reason != limit.WaitTooLong || refused.RetryAfter != 5*time.Second {
			t.Errorf("Acquire with a deadline = %v; want a refusal for 5s", err)
		}
		ctx, leave := context.WithCancelCause(t.Context())
		go func() { time.Sleep(time.Second); leave(errors.New("left")) }()
		if _, err := l.Acquire(ctx); err == nil || err.Error() != "left" {
			t.Errorf("Acquire of a client that leaves = %v; want its cause", err)
		}
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Errorf("Acquire = %v; want nil after the wait", err)
		}
		if s := l.Stats(); s.Waited != 1 || s.Refused != 2 || s.Observed != 1 || s.Paused != 0 {
			t.Errorf("Stats = %+v; want 1 waited, 2 refused, 1 observed", s)
		}
	})
}

// H34: calls take what is left; the next response replaces the number.
func TestH34_StatedCallsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{MaxWait: time.Second})
		state := func(left string) {
			l.Observe(200, http.Header{"Ratelimit-Remaining": {left}, "Ratelimit-Reset": {"5"}})
		}
		state("2")
		for i := range 3 {
			if _, err := l.Acquire(t.Context()); (err != nil) != (i == 2) {
				t.Errorf("call %d: Acquire = %v; want a refusal of the third", i, err)
			}
		}
		state("1")
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Errorf("Acquire = %v; want nil after the next statement", err)
		}
		l.Update(weirhttp.StatedLimitsOptions{MaxPause: -1})
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Errorf("Acquire = %v; want nil if nothing is obeyed", err)
		}
	})
}

func FuzzStatedLimits(f *testing.F) {
	f.Add("7", `"a";r=0;t=1`, "0", "1s")
	f.Add("Sat, 01 Jan 2000 00:00:05 GMT", `;r=99999999999`, "-1", "1e300")
	f.Fuzz(func(t *testing.T, retry, list, left, reset string) {
		l := weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{MaxPause: time.Second})
		l.Observe(429, http.Header{
			"Retry-After": {retry}, "Ratelimit": {list},
			"X-Ratelimit-Remaining-Tokens": {left}, "X-Ratelimit-Reset-Tokens": {reset},
		})
		if s := l.Stats(); s.Paused < 0 || s.Paused > time.Second {
			t.Errorf("paused for %v; want at most MaxPause", s.Paused)
		}
	})
}
