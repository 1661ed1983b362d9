package weirtest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/weirtest"
)

// docs/howto/test-code-that-uses-a-guard.md shows the tests below.

// A shop is an example of code that uses a Guard.
type shop struct {
	prices *weir.Guard[string, int]
}

func newShop(load func(context.Context, string) (int, error), watch weir.Observer) *shop {
	return &shop{weir.Must(weir.New(load, weir.Options{
		TTL:          time.Minute,
		StaleIfError: time.Hour,
		Observer:     watch,
	}))}
}

func (s *shop) label(ctx context.Context, item string) string {
	price, err := s.prices.Get(ctx, item)
	if err != nil {
		return item + ": ask us"
	}
	return fmt.Sprintf("%s: %d", item, price)
}

func TestShopInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var prices weirtest.Loader[string, int]
		var seen weirtest.Recorder
		prices.On("tea").Return(3).Fail(errDown)
		s := newShop(prices.Load, &seen)

		if got := s.label(t.Context(), "tea"); got != "tea: 3" {
			t.Errorf("at first: %q; want tea: 3", got)
		}
		time.Sleep(30 * time.Minute)
		if got := s.label(t.Context(), "tea"); got != "tea: 3" {
			t.Errorf("after half an hour: %q; want the stale tea: 3", got)
		}
		time.Sleep(time.Hour)
		if got := s.label(t.Context(), "tea"); got != "tea: ask us" {
			t.Errorf("after an hour and a half: %q; want tea: ask us", got)
		}

		synctest.Wait() // the end of a load is observed after its callers have it
		if n := len(seen.Events(weir.EventStaleOnError)); n != 1 {
			t.Errorf("%d stale answers; want 1", n)
		}
	})
}

func TestShopAsksOnceForACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var prices weirtest.Loader[string, int]
		prices.Block("tea")
		s := newShop(prices.Load, nil)

		var crowd sync.WaitGroup
		for range 100 {
			crowd.Go(func() { s.label(t.Context(), "tea") })
		}
		load := prices.Started(t, "tea")
		synctest.Wait() // all of them are waiting now
		load.Return(3)
		crowd.Wait()
		if n := prices.Total(); n != 1 {
			t.Errorf("%d loads; want 1", n)
		}
	})
}

func TestShopDoesNotWaitLongerThanItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var prices weirtest.Loader[string, int]
		prices.Block("tea")
		s := newShop(prices.Load, nil)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := s.label(ctx, "tea"); got != "tea: ask us" {
			t.Errorf("label = %q; want tea: ask us", got)
		}
		load := prices.Started(t, "tea")
		<-load.Done()
		if load.Cause() != weir.ErrAbandoned {
			t.Errorf("the load's context ended with %v; want ErrAbandoned", load.Cause())
		}
	})
}
