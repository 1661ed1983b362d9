package weirhttp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// A random history of clients, each compared with a separate limit.RateLimiter: the same
// calls are admitted, with the same times to retry, and the same units go back and are
// owed. Between them, buckets come and go, and the structure of the table holds.
func TestH34_ClientBudgetsAreThoseOfTheLibrary(t *testing.T) {
	for seed := range histories.Seeds(t, 10, 60) {
		synctest.Test(t, func(t *testing.T) { clientHistory(t, seed) })
	}
}

func clientHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 34))
	burst, debt := 1+rng.IntN(20), rng.IntN(30)-1
	o := ClientBudgetOptions{Units: 1 + rng.IntN(8), Per: time.Second, Burst: burst, MaxDebt: debt, Keys: 1 + rng.IntN(12)}
	b, err := NewClientBudget(o)
	if err != nil {
		t.Fatal(err)
	}
	type client struct {
		model *limit.RateLimiter
		bills []*bill
		perms []limit.Permit
	}
	clients := map[string]*client{}
	for range 400 {
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		key := fmt.Sprint(rng.IntN(o.Keys)) // they all fit
		c := clients[key]
		if c == nil {
			c = &client{model: limit.Must(limit.NewRateLimiter(limit.RateOptions{
				PerSecond: float64(o.Units), Burst: burst, MaxDebt: o.withDefaults().MaxDebt - btoi(o.withDefaults().MaxDebt == 0), Queue: -1,
			}))}
			clients[key] = c
		}
		switch i := rng.IntN(len(c.bills) + 2); {
		case i >= len(c.bills):
			n := 1 + rng.IntN(burst+burst/8)
			p, err := b.pay(t.Context(), payer{key: key, address: "192.0.2.1"}, n)
			q, want := limit.AcquireN(context.Background(), c.model, n)
			var got, model *limit.Error
			if errors.As(err, &got) != errors.As(want, &model) {
				t.Fatalf("seed %d: pay = %v; want %v", seed, err, want)
			}
			if got != nil {
				if off := got.RetryAfter - model.RetryAfter; got.Reason != model.Reason || got.Reason != limit.TooMany && (off < -time.Microsecond || off > time.Millisecond) {
					t.Fatalf("seed %d: pay = %v; want %v", seed, err, want)
				}
				continue
			}
			c.bills, c.perms = append(c.bills, p), append(c.perms, q)
		case rng.IntN(3) == 0:
			c.bills[i].undo()
			c.perms[i].Settle(0)
			c.perms[i].Release(limit.Unused)
			c.bills, c.perms = append(c.bills[:i], c.bills[i+1:]...), append(c.perms[:i], c.perms[i+1:]...)
		case rng.IntN(2) == 0:
			n := rng.IntN(2 * burst)
			c.bills[i].settle(n)
			c.perms[i].Settle(n)
		default:
			n := rng.IntN(2 * burst)
			c.bills[i].end(n)
			c.perms[i].Settle(n)
			c.perms[i].Release(limit.Success)
			c.bills, c.perms = append(c.bills[:i], c.bills[i+1:]...), append(c.perms[:i], c.perms[i+1:]...)
		}
		var want ClientBudgetStats
		for _, c := range clients {
			s := c.model.Stats()
			want.Returned, want.Owed, want.Forgiven = want.Returned+s.Returned, want.Owed+s.Owed, want.Forgiven+s.Forgiven
			want.Refused += s.Refused.Total()
		}
		got := b.Stats()
		if want.Clients = got.Clients; got != want {
			t.Fatalf("seed %d: Stats = %+v; want %+v", seed, got, want)
		}
		if err := b.table.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, c := range clients {
		for _, p := range c.bills {
			p.undo()
		}
	}
	time.Sleep(24 * time.Hour)
	if err := b.table.Check(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	// Each new client makes the table forget two full buckets, if they have no bills.
	for i := range b.table.Len() {
		p, err := b.pay(t.Context(), payer{key: fmt.Sprint("late ", i)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		p.undo()
	}
	if n := b.table.Len(); n > 2 {
		t.Fatalf("seed %d: %d clients are remembered; want almost none", seed, n)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
