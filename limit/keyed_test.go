package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

func keyed(t *testing.T, o limit.KeyedRateOptions) *limit.KeyedRateLimiter {
	t.Helper()
	l, err := limit.NewKeyedRateLimiter(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A key is rejected for its own calls only, and knows when it may try again.
func TestB4_EachKeyHasItsOwnRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := keyed(t, limit.KeyedRateOptions{Name: "tenants", Rate: 2, Per: time.Minute, Burst: 3})
		for i := range 3 {
			if err := l.Allow(t.Context(), "ada"); err != nil {
				t.Errorf("call %d of ada: %v", i, err)
			}
		}
		time.Sleep(10 * time.Second)
		var e *limit.Error
		err := l.Allow(t.Context(), "ada")
		if !errors.As(err, &e) || e.Limiter != "tenants" || e.Reason != limit.RateExceeded || e.RetryAfter != 20*time.Second {
			t.Errorf("call 4 of ada = %v; want RateExceeded of tenants, after 20s", err)
		}
		if err := l.Allow(t.Context(), "bob"); err != nil {
			t.Errorf("bob: %v; want nil, since only ada is over its rate", err)
		}
		time.Sleep(20*time.Second - 1)
		if err := l.Allow(t.Context(), "ada"); err == nil {
			t.Error("ada is admitted 1 ns before its token comes back")
		}
		time.Sleep(time.Nanosecond)
		if err := l.Allow(t.Context(), "ada"); err != nil {
			t.Errorf("ada after 20s: %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("gone"))
		if err := l.Allow(ctx, "cyd"); err == nil || err.Error() != "gone" {
			t.Errorf("a caller that has left: %v; want its cause", err)
		}
		if s, want := l.Stats(), (limit.KeyedRateStats{Keys: 2, Admitted: 5, Refused: 2}); s != want {
			t.Errorf("Stats = %+v; want %+v", s, want)
		}
	})
}

// Made-up keys take a bounded amount of memory, and neither they nor anybody else exceeds a
// rate by them.
func TestB4_MadeUpKeysChangeNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := keyed(t, limit.KeyedRateOptions{Rate: 1, Per: time.Hour, Keys: 10})
		if err := l.Allow(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		admitted := 0
		for i := range 5000 {
			if l.Allow(t.Context(), fmt.Sprint(i, strings.Repeat("x", 1000))) == nil {
				admitted++
			}
		}
		if admitted != 10 { // nine have a place, and the rest share one bucket
			t.Errorf("%d of 5000 made-up keys were admitted; want 10", admitted)
		}
		if err := l.Allow(t.Context(), "ada"); err == nil {
			t.Error("made-up keys made the limiter forget what ada has spent")
		}
		if s := l.Stats(); s.Keys != 10 || s.Shared != 4991 {
			t.Errorf("Stats = %+v; want 10 keys, and 4991 calls that shared a bucket", s)
		}
		time.Sleep(time.Hour)
		if err := l.Allow(t.Context(), "bob"); err != nil {
			t.Errorf("bob, once the flood is over: %v", err)
		}
	})
}

// Spent tokens stay spent when the options change.
func TestB4_TheRateOfKeysChangesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := keyed(t, limit.KeyedRateOptions{Rate: 1, Burst: 4, Keys: 10})
		for range 3 {
			_ = l.Allow(t.Context(), "ada")
		}
		if err := l.Update(limit.KeyedRateOptions{Rate: 10, Burst: 5, Keys: 1}); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			key  string
			want bool
		}{{"ada", true}, {"ada", true}, {"ada", false}, {"bob", true}, {"cyd", true}, {"dan", true}, {"eve", true}, {"fay", true}, {"gil", false}} {
			if err := l.Allow(t.Context(), step.key); (err == nil) != step.want {
				t.Errorf("%s: %v; want %v", step.key, err, step.want)
			}
		}
		if s := l.Stats(); s.Keys != 1 || s.Shared != 6 {
			t.Errorf("Stats = %+v; want 1 key and 6 calls that shared a bucket", s)
		}
		time.Sleep(100 * time.Millisecond)
		if err := l.Allow(t.Context(), "ada"); err != nil {
			t.Errorf("ada at the new rate: %v", err)
		}
	})
}

func TestM4_OptionsOfAKeyedRateAreChecked(t *testing.T) {
	_, err := limit.NewKeyedRateLimiter(limit.KeyedRateOptions{Per: -1, Burst: -1, Keys: -1})
	for _, field := range []string{"Rate", "Per", "Burst", "Keys"} {
		if err == nil || !strings.Contains(err.Error(), "KeyedRateOptions."+field) {
			t.Errorf("error %v; want one for %s", err, field)
		}
	}
	if _, err := limit.NewKeyedRateLimiter(limit.KeyedRateOptions{Rate: 1, Per: 366 * 24 * time.Hour, Burst: math.MaxInt32}); err == nil {
		t.Error("a Burst that does not fit is accepted")
	}
	l := keyed(t, limit.KeyedRateOptions{Name: "a", Rate: 1})
	if err := l.Update(limit.KeyedRateOptions{Name: "b", Rate: 1}); err == nil {
		t.Error("Update accepts another Name")
	}
}
