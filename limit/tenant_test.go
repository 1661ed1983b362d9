package limit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// by returns a context of the tenant of that name.
func by(t testing.TB, name string) context.Context {
	return limit.ContextWithTenant(t.Context(), limit.Tenant{Name: name})
}

// A camp is a tenant with more callers than a limiter has permits, twice: one of them
// waits even if all permits are released at the same instant.
type camp struct {
	tenant  limit.Tenant
	length  func() time.Duration // of the next call; under the lock of the test
	longest time.Duration
}

// crowds lets callers of all crowds use a limiter of n permits for d, and returns, for each
// pair of them, by how much the time that they started per weight differed at most, over
// any window, and in how many longest calls of both that is.
func crowds(t *testing.T, permits int, d time.Duration, all ...camp) (worst float64, pair string) {
	t.Helper()
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: permits, MaxWait: -1})
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	started := make([]float64, len(all))
	least, most := map[[2]int]float64{}, map[[2]int]float64{}
	began := false
	var group sync.WaitGroup
	for i, who := range all {
		ctx := limit.ContextWithTenant(ctx, who.tenant)
		for range 2*permits + 2 {
			group.Go(func() {
				for {
					p, err := c.Acquire(ctx)
					if err != nil {
						return
					}
					mu.Lock()
					took := who.length()
					if began {
						started[i] += took.Seconds() / float64(max(1, who.tenant.Weight))
						for j := range all {
							for _, at := range [][2]int{{i, j}, {j, i}} {
								diff := started[at[0]] - started[at[1]]
								least[at], most[at] = min(least[at], diff), max(most[at], diff)
							}
						}
					}
					mu.Unlock()
					time.Sleep(took)
					p.Release(limit.Success)
				}
			})
		}
		synctest.Wait()
	}
	mu.Lock()
	began = true
	mu.Unlock()
	time.Sleep(d)
	c.Check(t)
	if s := c.Stats(); s.InUse > permits || s.Tenants != len(all) {
		t.Errorf("%d permits are in use, and %d tenants wait; want at most %d, and %d", s.InUse, s.Tenants, permits, len(all))
	}
	cancel()
	group.Wait()
	for at, high := range most {
		if at[0] == at[1] {
			continue
		}
		sum := 0.0
		for _, i := range at {
			if started[i] == 0 {
				t.Errorf("tenant %s got no permit", all[i].tenant.Name)
			}
			sum += all[i].longest.Seconds() / float64(max(1, all[i].tenant.Weight))
		}
		if n := (high - least[at]) / sum; n > worst {
			worst, pair = n, all[at[0]].tenant.Name+" and "+all[at[1]].tenant.Name
		}
	}
	return worst, pair
}

// constant returns the length of calls that all take d.
func constant(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// B7: permits are divided by the time for which they are held, not by calls, and by weight,
// over any window.
func TestB7TimeIsDividedByWeight(t *testing.T) {
	for _, permits := range []int{1, 2, 4, 32} {
		for _, length := range []time.Duration{100 * time.Millisecond, 10 * time.Second} {
			for _, weight := range []int{1, 4} {
				name := fmt.Sprintf("%d permits, %v, weight %d", permits, length, weight)
				synctest.Test(t, func(t *testing.T) {
					worst, _ := crowds(t, permits, max(30*length, time.Minute), // longer than the bound for 32 permits
						camp{limit.Tenant{Name: "A"}, constant(length), length},
						camp{limit.Tenant{Name: "B", Weight: weight}, constant(100 * time.Millisecond), 100 * time.Millisecond})
					// one more for each permit of which the length was not known
					if most := float64(2*permits + 1); worst > most {
						t.Errorf("%s: the time differs by %.2f longest calls of both; want at most %v", name, worst, most)
					}
				})
			}
		}
	}
}

// B7: the bound holds for tenants with calls of any lengths, whatever their number.
func TestB7TimeIsDividedInRandomCrowds(t *testing.T) {
	for seed := range histories.Seeds(t, 25, 1000) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			permits := 1 + rng.IntN(8)
			var all []camp
			longest := time.Duration(0)
			for i := range 2 + rng.IntN(5) {
				base := time.Duration(1+rng.IntN(1000)) * time.Millisecond
				spread := rng.Float64()
				longest = max(longest, base)
				all = append(all, camp{
					limit.Tenant{Name: string(rune('A' + i)), Weight: 1 + rng.IntN(4)},
					func() time.Duration { return base - time.Duration(float64(base)*spread*rng.Float64()) }, base,
				})
			}
			worst, pair := crowds(t, permits, 100*longest, all...)
			if most := float64(2*permits + 1); worst > most {
				t.Errorf("seed %d, %d permits: the time of %s differs by %.2f longest calls of both; want at most %v", seed, permits, pair, worst, most)
			}
		})
	}
}

// B7: a call is charged while it is held, so calls that turn out to be long do not take all
// permits before the first of them is over.
func TestB7CallsThatTurnLongTakeOnlyTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const permits = 4
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: permits, MaxWait: -1})
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		running, served, hangs := map[string]int{}, map[string]int{}, false
		var group sync.WaitGroup
		for _, name := range []string{"A", "B"} {
			for range 3 * permits {
				group.Go(func() {
					for {
						p, err := c.Acquire(limit.ContextWithTenant(ctx, limit.Tenant{Name: name}))
						if err != nil {
							return
						}
						mu.Lock()
						served[name]++
						running[name]++
						took := 10 * time.Millisecond
						if hangs && name == "A" {
							took = time.Hour
						}
						mu.Unlock()
						time.Sleep(took)
						mu.Lock()
						running[name]--
						mu.Unlock()
						p.Release(limit.Success)
					}
				})
			}
		}
		time.Sleep(10*time.Second + time.Millisecond)
		mu.Lock()
		hangs = true
		before := served["B"]
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		if n := running["A"]; n > permits/2+1 || served["B"]-before < 6000 {
			t.Errorf("A has %d of %d permits for an hour, and B had %d calls in a minute; want half, one more at most, and 6000", n, permits, served["B"]-before)
		}
		mu.Unlock()
		cancel()
		group.Wait()
	})
}

// B7: a tenant within its share waits for the calls that run, whatever another has queued.
func TestB7AFewCallersPassACrowd(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 4, MaxWait: time.Hour}, func(t *testing.T, l queued) {
		ctx, cancel := context.WithCancel(by(t, "A"))
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		for range 1000 {
			group.Go(func() {
				for {
					p, err := l.Acquire(ctx)
					if err != nil {
						return
					}
					time.Sleep(time.Second)
					p.Release(limit.Success)
				}
			})
		}
		time.Sleep(30500 * time.Millisecond)
		for range 20 {
			b := start(l, by(t, "B"))
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if !b.back.Load() || b.err != nil || b.took > time.Second {
				t.Fatalf("returned %t, error %v, after %v; want a permit after at most one call of A", b.back.Load(), b.err, b.took)
			}
			b.permit.Release(limit.Success)
		}
		l.Check(t)
	})
}

// B7: a thousand tenants with a caller each are served before the second caller of a crowd
// that came first.
func TestB7AThousandTenantsPassACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
		p := admitted(t, c, by(t, "A"))
		var mu sync.Mutex
		var order []string
		var group sync.WaitGroup
		queue := func(name string) {
			group.Go(func() {
				p := acquired(t, c, by(t, name))
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				p.Release(limit.Success)
			})
			synctest.Wait()
		}
		for range 1000 {
			queue("A")
		}
		for i := range 1000 {
			queue(fmt.Sprint(i))
		}
		p.Release(limit.Success)
		group.Wait()
		if i := slices.Index(order[slices.Index(order, "A")+1:], "A"); i < 900 {
			t.Errorf("the second caller of A came after %d others; want it after the others", i)
		}
		c.Check(t)
	})
}

// B7: a full queue refuses the tenant that has the most for its weight.
func TestB7AFullQueueRefusesTheCrowd(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, Queue: 4, MaxWait: time.Hour}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		var a []*call
		for range 4 {
			a = append(a, start(l, by(t, "A")))
		}
		b := start(l, by(t, "B"))
		a[3].lost(t, limit.ErrLimited, 0)
		refused(t, a[3].err, limit.Displaced)
		heavy := start(l, limit.ContextWithTenant(t.Context(), limit.Tenant{Name: "C", Weight: 4}))
		a[2].lost(t, limit.ErrLimited, 0)
		more := start(l, limit.ContextWithTenant(t.Context(), limit.Tenant{Name: "C", Weight: 4}))
		a[1].lost(t, limit.ErrLimited, 0)
		for _, name := range []string{"A", "B", "D"} { // each has one for its weight, or would have two
			last := start(l, by(t, name))
			last.lost(t, limit.ErrLimited, 0)
			refused(t, last.err, limit.QueueFull)
		}
		for _, c := range []*call{a[0], b, heavy, more} {
			c.waits(t)
			c.cancel(errGone)
		}
		synctest.Wait()
		p.Release(limit.Success)
	})
}

// B7: the class of a tenant stands above all shares, and the priority in a context does not.
func TestB7ClassesOfTenantsStandAboveShares(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, Queue: 6, MaxWait: time.Hour}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		of := func(name string, class, own limit.Priority) *call {
			ctx := limit.ContextWithPriority(t.Context(), own)
			return start(l, limit.ContextWithTenant(ctx, limit.Tenant{Name: name, Class: class}))
		}
		lowest := of("A", limit.Low, limit.High)
		want := []*call{
			of("A", limit.High, limit.Normal), of("A", limit.High, limit.Normal),
			of("A", limit.Normal, limit.Normal), of("B", limit.Normal, limit.Low), of("A", limit.Normal, limit.High),
		}
		// the highest priority is first in the line of A
		want[2], want[4] = want[4], want[2]
		last := of("C", limit.Normal, limit.Low)
		lowest.lost(t, limit.ErrLimited, 0) // the queue was full
		refused(t, lowest.err, limit.Displaced)
		for _, c := range append(want[:4:4], last, want[4]) {
			c.waits(t)
			time.Sleep(time.Second)
			p.Release(limit.Success)
			synctest.Wait()
			if !c.back.Load() || c.err != nil {
				t.Fatalf("another caller was served: returned %t, error %v", c.back.Load(), c.err)
			}
			p = c.permit
		}
		p.Release(limit.Success)
	})
}

// B7: a group has the share of one tenant, and divides it among its own.
func TestB7AGroupIsOneTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 2, MaxWait: -1})
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		got := map[limit.Tenant]int{}
		var group sync.WaitGroup
		queue := func(who limit.Tenant, n int) {
			for range n {
				group.Go(func() {
					for {
						p, err := c.Acquire(limit.ContextWithTenant(ctx, who))
						if err != nil {
							return
						}
						mu.Lock()
						got[who]++
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						p.Release(limit.Success)
					}
				})
			}
		}
		one, many := limit.Tenant{Name: "1", Within: "net"}, limit.Tenant{Name: "2", Within: "net"}
		queue(one, 4)
		queue(many, 100)
		for i := range 100 {
			queue(limit.Tenant{Name: fmt.Sprint("x", i), Within: "net"}, 1)
		}
		alone := limit.Tenant{Name: "alone"}
		queue(alone, 4)
		time.Sleep(100 * time.Second)
		c.Check(t)
		cancel()
		group.Wait()
		total := 0
		for _, n := range got {
			total += n
		}
		if n := got[alone]; n < total*48/100 || n > total*52/100 {
			t.Errorf("the tenant alone had %d of %d permits; want half", n, total)
		}
		if a, b := got[one], got[many]; a < b*9/10 || b < a*9/10 {
			t.Errorf("two tenants of the group had %d and %d permits; want the same", a, b)
		}
	})
}

// B7: tenants that have been served and only owe are forgotten beyond a bound, while
// thousands of others wait.
func TestB7DebtorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
		p := admitted(t, c, t.Context())
		var group sync.WaitGroup
		for i := range 5000 {
			who := limit.Tenant{Name: fmt.Sprint(i)}
			if i%2 == 0 {
				who = limit.Tenant{Name: fmt.Sprint(i), Within: "net"}
			}
			group.Go(func() {
				if p, err := c.Acquire(limit.ContextWithTenant(t.Context(), who)); err == nil {
					time.Sleep(time.Millisecond)
					p.Release(limit.Success)
				}
			})
		}
		synctest.Wait()
		p.Release(limit.Success)
		for range 4 {
			time.Sleep(time.Second)
			synctest.Wait()
			c.Check(t)
			// all that wait, one that holds, the group, and its debtors
			if known, most := c.Known(), c.Stats().Queued+1024+1+1+16; known > most {
				t.Errorf("%d tenants are known; want at most %d", known, most)
			}
		}
		group.Wait()
	})
}

// B7: what is known of tenants is bounded, and gone once a permit is free.
func TestB7TheTableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 4, Queue: 100, MaxWait: -1})
		rng := rand.New(rand.NewPCG(1, 2))
		var group sync.WaitGroup
		most := 0
		for i := range 100_000 {
			who := limit.Tenant{Name: fmt.Sprint(i)}
			if i%2 == 0 {
				who.Within = fmt.Sprint(rng.IntN(3000))
			}
			took := time.Duration(rng.IntN(100)) * time.Millisecond
			group.Go(func() {
				if p, err := c.Acquire(limit.ContextWithTenant(context.Background(), who)); err == nil {
					time.Sleep(took)
					p.Release(limit.Success)
				}
			})
			if i%40 == 0 {
				time.Sleep(40 * time.Millisecond)
			}
			if i%1000 == 0 {
				most = max(most, c.Known())
				c.Check(t)
			}
		}
		group.Wait()
		// the debtors, 104 that wait or hold, and groups with their debtors
		if bound := (1024 + 104) * (1 + 16); most > bound || most == 0 {
			t.Errorf("%d tenants were known; want at most %d", most, bound)
		}
		if n := c.Known(); n != 0 {
			t.Errorf("%d tenants are known when no permit is in use; want none", n)
		}
	})
}

// B7: callers of many tenants come, leave, time out and are displaced at random, and no
// place is lost.
func TestB7RandomHistories(t *testing.T) {
	for seed := range histories.Seeds(t, 25, 1000) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 8))
			permits := 1 + rng.IntN(5)
			c := newConcurrency(t, limit.ConcurrencyOptions{Limit: permits, Queue: 1 + rng.IntN(20), MaxWait: time.Duration(1+rng.IntN(10)) * time.Second})
			var mu sync.Mutex
			running := 0
			var group sync.WaitGroup
			for range 400 {
				who := limit.Tenant{Name: fmt.Sprint(rng.IntN(6)), Weight: rng.IntN(3)}
				if rng.IntN(3) == 0 {
					who.Within = fmt.Sprint(rng.IntN(2))
				}
				who.Class = []limit.Priority{limit.Normal, limit.Low, limit.High}[rng.IntN(3)]
				ctx := limit.ContextWithPriority(t.Context(), []limit.Priority{limit.Low, limit.Normal, limit.High, limit.Background}[rng.IntN(4)])
				if rng.IntN(8) > 0 {
					ctx = limit.ContextWithTenant(ctx, who)
				}
				cancel := context.CancelFunc(func() {})
				if rng.IntN(2) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Millisecond)
				}
				took, units := time.Duration(rng.IntN(1000))*time.Millisecond, 1+rng.IntN(permits)
				outcome := []limit.Outcome{limit.Success, limit.Unused, limit.Ignored, limit.Dropped}[rng.IntN(4)]
				settle := rng.IntN(3)
				at := new(limit.Place)
				group.Go(func() {
					defer cancel()
					p, err := c.AcquireN(limit.ContextWithPlace(ctx, at), units)
					if err != nil {
						return
					}
					mu.Lock()
					if running += units; running > permits {
						t.Errorf("seed %d: %d units are in use; want at most %d", seed, running, permits)
					}
					mu.Unlock()
					time.Sleep(took)
					mu.Lock()
					running -= units
					mu.Unlock()
					if settle == 0 {
						p.Settle(units - 1)
					}
					p.Release(outcome)
				})
				synctest.Wait()
				switch rng.IntN(4) {
				case 0:
					_ = at.Join(time.Time{}, limit.High)
				case 1:
					at.Leave(limit.Low)
				}
				at.Wait()
				c.Check(t)
				time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
				c.Check(t)
			}
			group.Wait()
			if s := c.Stats(); s.InUse != 0 || s.Queued != 0 || c.Known() != 0 {
				t.Errorf("seed %d: at the end, %d units are in use, %d callers wait and %d tenants are known; want none", seed, s.InUse, s.Queued, c.Known())
			}
		})
	}
}

func TestTenantOf(t *testing.T) {
	want := limit.Tenant{Name: "a", Within: "b", Weight: 3}
	ctx := limit.ContextWithTenant(t.Context(), want)
	if got := limit.TenantOf(ctx); got != want {
		t.Errorf("TenantOf = %+v; want %+v", got, want)
	}
	if got := limit.TenantOf(t.Context()); got != (limit.Tenant{}) {
		t.Errorf("TenantOf = %+v; want the zero Tenant", got)
	}
}
