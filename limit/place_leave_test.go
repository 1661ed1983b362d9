package limit_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/limit"
)

// A modelPlace is a place in the model of a queue: its class and, for each class,
// the turn at which it reached at least that class.
type modelPlace struct {
	n, class int
	since    [3]int
}

var modelClasses = []limit.Priority{limit.Low, limit.Normal, limit.High}

// move does to the model what Join and Leave do to a place at the given turn.
func (p *modelPlace) move(class, turn int) {
	for i := p.class + 1; i <= class; i++ {
		p.since[i] = turn
	}
	p.class = class
}

// F3, against a model: a place moves up to the end of a class, and down to the turn
// that it had there, or would have had.
func TestF3PlacesMoveUpAndDown(t *testing.T) {
	for seed := range histories.Seeds(t, 20, 100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, OverloadAfter: -1, MaxWait: -1})
			if err != nil {
				t.Fatal(err)
			}
			p := admitted(t, l, t.Context())
			var model []*modelPlace
			var calls []*call
			var places []*limit.Place
			turn := 0
			for range 40 {
				turn++
				switch i, class := rng.IntN(len(places)+1), rng.IntN(3); {
				case i == len(places):
					c, at := placed(t, l, modelClasses[class])
					calls, places = append(calls, c), append(places, at)
					m := &modelPlace{n: i, class: -1}
					m.move(class, turn)
					model = append(model, m)
				case rng.IntN(2) == 0:
					if err := places[i].Join(time.Time{}, modelClasses[class]); err != nil {
						t.Fatal(err)
					}
					model[i].move(max(class, model[i].class), turn)
				default:
					places[i].Leave(modelClasses[class])
					model[i].move(min(class, model[i].class), turn)
				}
				l.Check(t)
			}
			slices.SortFunc(model, func(a, b *modelPlace) int {
				if a.class != b.class {
					return b.class - a.class
				}
				return a.since[a.class] - b.since[b.class]
			})
			for at, m := range model {
				p.Release(limit.Success)
				synctest.Wait()
				if c := calls[m.n]; !c.back.Load() {
					t.Fatalf("seed %d: place %d is not served as number %d", seed, m.n, at)
				}
				p = calls[m.n].got(t, 0)
			}
			p.Release(limit.Success)
			l.Check(t)
		})
	}
}

// F3: Join and Leave before the caller queues count once it does.
func TestF3LeaveBeforeTheQueue(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		var low, high limit.Place
		low.Join(time.Time{}, limit.High)
		low.Leave(limit.Low)
		high.Leave(limit.Low)
		high.Join(time.Time{}, limit.High)
		a := start(l, limit.ContextWithPlace(of(t, limit.High), &low))
		b := start(l, limit.ContextWithPlace(of(t, limit.Normal), &high))
		p.Release(limit.Success)
		b.got(t, 0).Release(limit.Success)
		a.got(t, 0).Release(limit.Success)
	})
}

// holder acquires a permit for the call c.
func holder(t *testing.T, l limit.Limiter, c *lend.Call) (limit.Permit, context.Context) {
	t.Helper()
	var at limit.Place
	ctx := lend.Context(t.Context(), c)
	p := admitted(t, l, limit.ContextWithPlace(ctx, &at))
	at.Hold(p)
	return p, ctx
}

// B6: a lent permit is returned when lender and borrower have both ended, in either
// order, and releasing one of them twice does nothing.
func TestB6LentPermitComesBackOnce(t *testing.T) {
	for _, order := range []string{"ab", "ba", "aabb", "abab", "bbaa"} {
		t.Run(order, func(t *testing.T) {
			eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
				var a, b lend.Call
				pa, ctx := holder(t, l, &a)
				edge := lend.Wait(ctx, &b)
				pb, _ := holder(t, l, &b)
				edge.End()
				w := start(l, t.Context())
				left := map[rune]bool{'a': true, 'b': true}
				for _, who := range order {
					if len(left) > 0 && w.back.Load() {
						t.Errorf("the permit was handed to another caller before both had ended")
					}
					map[rune]limit.Permit{'a': pa, 'b': pb}[who].Release(limit.Success)
					delete(left, who)
					synctest.Wait()
					l.Check(t)
				}
				w.got(t, 0).Release(limit.Success)
				l.Check(t)
			})
		})
	}
}

// B6: a queued call borrows as soon as it can: when the holder begins to wait for it,
// and when another borrower has returned the permit.
func TestB6QueuedCallBorrowsLater(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
		var a, between lend.Call
		pa, ctx := holder(t, l, &a)
		var calls []*call
		var nested [3]lend.Call
		for i := range nested {
			within := lend.Context(t.Context(), &between)
			lend.Wait(within, &nested[i])
			calls = append(calls, start(l, limit.ContextWithPlace(lend.Context(within, &nested[i]), new(limit.Place))))
		}
		for i, c := range calls {
			if c.back.Load() {
				t.Fatalf("call %d has a permit, although no holder of one waits for it", i)
			}
		}
		edge := lend.Wait(ctx, &between)
		for served := range calls {
			synctest.Wait()
			var got *call
			for _, c := range calls {
				if c != nil && c.back.Load() {
					if got != nil {
						t.Fatal("two calls have the permit at once")
					}
					got = c
				}
			}
			if got == nil {
				t.Fatalf("after %d calls none has the permit", served)
			}
			calls[slices.Index(calls, got)] = nil
			got.got(t, 0).Release(limit.Success)
			l.Check(t)
		}
		edge.End()
		pa.Release(limit.Success)
	})
}
