package limit_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/weir-go/weir/limit"
)

func TestZeroPermitIsValid(t *testing.T) {
	limit.Permit{}.Release(limit.Success)
	limit.NewPermit(nil).Release(limit.Success)
}

func TestPermitFirstReleaseCounts(t *testing.T) {
	var got []limit.Outcome
	p := limit.NewPermit(func(o limit.Outcome) { got = append(got, o) })
	copied := p
	p.Release(limit.Dropped)
	copied.Release(limit.Success)
	if fmt.Sprint(got) != "[dropped]" {
		t.Errorf("released with %v; want [dropped]", got)
	}
}

// A permit that several goroutines release at once is returned once.
func TestPermitReleasedByManyAtOnce(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 4, Queue: -1})
	r := newRate(t, limit.RateOptions{PerSecond: 1e-9, Burst: 1000})
	all := limit.All(c, r)
	for _, l := range []limit.Limiter{c, r, all} {
		acquired(t, l, t.Context()) // one stays in use
		for range 200 {
			p := acquired(t, l, t.Context())
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { p.Release(limit.Unused) })
			}
			wg.Wait()
		}
	}
	if s := c.Stats(); s.InUse != 2 {
		t.Errorf("%d permits in use; want 2", s.InUse)
	}
	if s := r.Stats(); s.Returned != 400 || s.Tokens < 997.9 || s.Tokens > 998.1 {
		t.Errorf("%d tokens returned, %v in the bucket; want 400, 998", s.Returned, s.Tokens)
	}
}

func TestOutcomeString(t *testing.T) {
	for o, want := range map[limit.Outcome]string{
		limit.Success: "success", limit.Dropped: "dropped", limit.Ignored: "ignored", limit.Unused: "unused", 99: "outcome(99)",
	} {
		if got := o.String(); got != want {
			t.Errorf("Outcome.String = %q; want %q", got, want)
		}
	}
}
