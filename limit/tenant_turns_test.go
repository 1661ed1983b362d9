package limit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// B7: tenants that owe nothing are served in the order in which they began to wait, however
// many new ones come.
func TestB7TenantsThatOweNothingAreServedInOrder(t *testing.T) {
	for _, outcome := range []limit.Outcome{limit.Success, limit.Unused} {
		synctest.Test(t, func(t *testing.T) {
			c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
			p := admitted(t, c, t.Context())
			var line []*call
			for i := range 24 {
				line = append(line, start(c, by(t, fmt.Sprint(i))))
				if i < 4 {
					continue
				}
				time.Sleep(10 * time.Millisecond)
				p.Release(outcome)
				synctest.Wait()
				if !line[0].back.Load() {
					t.Fatalf("%v: after release %d, tenant %d of %d waits; want it served", outcome, i-4, i-4, len(line))
				}
				p, line = line[0].permit, line[1:]
			}
			p.Release(outcome)
			for _, w := range line {
				synctest.Wait()
				w.permit.Release(outcome)
			}
		})
	}
}

// B7: a tenant that owes is served although new tenants come without end: each of those
// that wait gets about what it has had.
func TestB7ATenantInDebtIsServedBesideNewOnes(t *testing.T) {
	for _, within := range []string{"", "net"} {
		synctest.Test(t, func(t *testing.T) {
			const others, debt, took = 4, time.Second, 10 * time.Millisecond
			who := func(name string) context.Context {
				return limit.ContextWithTenant(t.Context(), limit.Tenant{Name: name, Within: within})
			}
			c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
			p := admitted(t, c, t.Context())
			debtor := start(c, who("debtor"))
			var line []*call
			for i := range others {
				line = append(line, start(c, who(fmt.Sprint("first", i))))
			}
			p.Release(limit.Success)
			p = debtor.got(t, 0)
			time.Sleep(debt)
			debtor = start(c, who("debtor"))
			p.Release(limit.Success)
			began := time.Now()
			for i := 0; ; i++ {
				synctest.Wait()
				if debtor.back.Load() {
					break
				}
				if since := time.Since(began); since > (others+4)*debt {
					t.Errorf("within %q: a tenant that owes %v waits after %v, with %d others; want about one debt for each", within, debt, since, others)
					debtor.cancel(errGone)
					break
				}
				for n, w := range line {
					if w.back.Load() {
						line = append(line[:n:n], line[n+1:]...)
						line = append(line, start(c, who(fmt.Sprint(i))))
						time.Sleep(took)
						w.permit.Release(limit.Success)
						break
					}
				}
			}
			c.Check(t)
			for len(line) > 0 || !debtor.back.Load() {
				synctest.Wait()
				if debtor.back.Load() && debtor.err == nil {
					debtor.permit.Release(limit.Success)
				}
				for n, w := range line {
					if w.back.Load() {
						w.permit.Release(limit.Success)
						line = append(line[:n:n], line[n+1:]...)
						break
					}
				}
			}
		})
	}
}

// busy keeps callers of a tenant in l that hold each permit for took, until ctx ends. The
// function that it returns says how many permits they have had.
func busy(l limit.Limiter, ctx context.Context, group *sync.WaitGroup, callers int, took time.Duration) func() int {
	var mu sync.Mutex
	n := 0
	for range callers {
		group.Go(func() {
			for {
				p, err := l.Acquire(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				n++
				mu.Unlock()
				time.Sleep(took)
				p.Release(limit.Success)
			}
		})
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// B7: a unit that is returned to a tenant for a permit is no credit from before it began to wait.
func TestB7WhatIsPaidBackIsNoCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 2, MaxWait: -1})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		p := admitted(t, c, t.Context())
		q := admitted(t, c, t.Context())
		a := start(c, by(t, "A"))
		b := limit.ContextWithTenant(ctx, limit.Tenant{Name: "B"})
		got := busy(c, b, &group, 8, time.Second)
		synctest.Wait()
		p.Release(limit.Success)
		p = a.got(t, 0)
		q.Release(limit.Success)
		time.Sleep(time.Minute) // B has one permit, and A the other
		busy(c, limit.ContextWithTenant(ctx, limit.Tenant{Name: "A"}), &group, 8, time.Second)
		synctest.Wait()
		p.Release(limit.Unused)
		before := got()
		time.Sleep(10500 * time.Millisecond)
		if n := got() - before; n < 8 {
			t.Errorf("B had %d calls of 1 s in 10 s after A had been paid back a minute; want half of 20", n)
		}
	})
}

// B7: a permit is not charged for the time in which a permit was free and no caller waited.
func TestB7NoDebtFromATimeInWhichNoneWaited(t *testing.T) {
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 3, MaxWait: -1})
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			defer group.Wait()
			defer cancel()
			p := admitted(t, c, t.Context())
			q, third := admitted(t, c, t.Context()), admitted(t, c, t.Context())
			a := start(c, by(t, "A"))
			p.Release(limit.Success)
			p = a.got(t, 0)
			q.Release(limit.Success) // two permits are free
			third.Release(limit.Success)
			time.Sleep(time.Hour)
			busy(c, limit.ContextWithTenant(ctx, limit.Tenant{Name: "B"}), &group, 8, time.Second) // with two of three permits
			time.Sleep(500 * time.Millisecond)
			if ends {
				p.Release(limit.Success)
			}
			a = start(c, by(t, "A"))
			time.Sleep(4 * time.Second)
			synctest.Wait()
			if !a.back.Load() {
				t.Errorf("ended first %t: A waits 4 s after an hour in which no caller waited; want a turn after a call or two of B", ends)
				a.cancel(errGone)
			} else {
				a.permit.Release(limit.Success)
			}
			if !ends {
				p.Release(limit.Success)
			}
			c.Check(t)
		})
	}
}

// B7: a tenant is known while it has a permit, also one that was settled at no units.
func TestB7ATenantIsKnownWhileItHasAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
		p := admitted(t, c, t.Context())
		ctx := limit.ContextWithTenant(t.Context(), limit.Tenant{Name: "A", Within: "net"})
		got := make(chan limit.Permit, 1)
		group := sync.WaitGroup{}
		group.Go(func() {
			p, err := c.AcquireN(ctx, 1)
			if err != nil {
				t.Error(err)
			}
			got <- p
		})
		synctest.Wait()
		p.Release(limit.Success)
		a := <-got
		a.Settle(0)
		other := admitted(t, c, t.Context())
		more := start(c, ctx)
		more.cancel(errGone)
		more.lost(t, errGone, 0)
		if n := c.Known(); n != 2 {
			t.Errorf("%d tenants and groups are known while one has a permit; want it and its group", n)
		}
		c.Check(t)
		a.Release(limit.Success)
		other.Release(limit.Success)
		if n := c.Known(); n != 0 {
			t.Errorf("%d tenants are known when no permit is in use; want none", n)
		}
	})
}
