package weirhttp_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// distant is a Tier that answers after one second.
type distant struct{ fleet.Tier }

func (s distant) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	answer, err := s.Tier.Acquire(ctx, k, a)
	time.Sleep(time.Second)
	return answer, err
}

// A response that was purged while the Tier's reply was under way is not used.
func TestFleetPurgeOvertakesAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		e := openEnsemble(t, 2, func(i int, o *weirhttp.Options) {
			if i == 0 {
				o.Cache = cache
			} else {
				o.Fleet.Tier = distant{o.Fleet.Tier}
			}
		}, counting(0, "Cache-Control", "max-age=600"))
		has(t, e.sites[0].get("/x"), "X-Call", "1")
		synctest.Wait()
		done := make(chan reply, 1)
		go func() { done <- e.sites[1].get("/x") }()
		time.Sleep(500 * time.Millisecond)
		if _, err := cache.Invalidate(t.Context(), "http", "shop.example", "/x"); err != nil {
			t.Fatal(err)
		}
		has(t, <-done, "X-Call", "2")
		has(t, e.sites[1].get("/x"), "X-Call", "2")
	})
}

// full is a limiter that rejects all calls.
type full struct{}

func (full) Acquire(context.Context) (limit.Permit, error) {
	return limit.Permit{}, &limit.Error{Limiter: "full", Reason: limit.QueueFull}
}

// A call that our own limit rejects gives up its lease, and the key does not cool.
func TestFleetRefusedCallGivesItsLeaseUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, func(i int, o *weirhttp.Options) {
			if i == 0 {
				o.Limiter = full{}
			}
		}, answering(0, "Cache-Control", "max-age=600"))
		if r := e.sites[0].get("/x"); r.status != http.StatusServiceUnavailable {
			t.Errorf("status = %d; want 503", r.status)
		}
		synctest.Wait()
		r := e.sites[1].get("/x")
		r.want(t, 200, "/x")
		if r.took != 0 {
			t.Errorf("the other instance responded after %v; want 0s", r.took)
		}
		if n := e.tier.Len(); n != 1 {
			t.Errorf("the tier holds %d keys; want 1", n)
		}
		e.sites[0].get("/x").want(t, 200, "/x") // it gets the response from the Tier
	})
}
