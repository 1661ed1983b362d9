package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// A refusal says whether its caller had more than its share (H40: a fallback serves only
// callers within theirs).
func TestH40ARefusalSaysWhoHadMoreThanItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: 4, MaxWait: time.Minute}))
		as := func(name string) context.Context {
			return limit.ContextWithTenant(t.Context(), limit.Tenant{Name: name})
		}
		held, err := c.Acquire(as("a"))
		if err != nil {
			t.Fatal(err)
		}
		defer held.Release(limit.Success)
		refused := make(chan *limit.Error, 8)
		wait := func(name string) {
			go func() {
				_, err := c.Acquire(as(name))
				var e *limit.Error
				errors.As(err, &e)
				refused <- e
			}()
			synctest.Wait()
		}
		for range 4 {
			wait("a")
		}
		wait("a") // it fills the queue alone: all of it is its share
		if e := <-refused; e == nil || e.OverShare {
			t.Errorf("a, alone: %+v; want a refusal within its share", e)
		}
		time.Sleep(time.Second)
		wait("b") // displaces one of a's
		if e := <-refused; e == nil || e.Reason != limit.Displaced || !e.OverShare {
			t.Errorf("a, displaced by b: %+v; want one above its share", e)
		}
		wait("a")
		if e := <-refused; e == nil || e.Reason != limit.QueueFull || !e.OverShare {
			t.Errorf("a, with b: %+v; want one above its share", e)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		over := 0
		for range 4 { // three of a and one of b time out, in their order
			if e := <-refused; e == nil || e.Reason != limit.QueueTimeout {
				t.Errorf("after the wait: %+v; want QueueTimeout", e)
			} else if e.OverShare {
				over++
			}
		}
		if over != 2 { // a waits with 3, 2 and 1 next to one of b
			t.Errorf("%d of 4 time-outs above their share; want 2", over)
		}
	})
}
