package stop_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp/stop"
)

type key struct{ n int }

// A pair is a context of package context, and one of this package that must do the same.
type pair struct {
	std, own context.Context
	cancel   func(error)
}

// differ returns the first difference between the two.
func (p pair) differ(keys int) error {
	if a, b := p.std.Err(), p.own.Err(); a != b { //nolint:errorlint // the same
		return fmt.Errorf("Err is %v; want %v", b, a)
	}
	if a, b := context.Cause(p.std), context.Cause(p.own); a != b { //nolint:errorlint // the same
		return fmt.Errorf("the cause is %v; want %v", b, a)
	}
	a, aok := p.std.Deadline()
	if b, bok := p.own.Deadline(); aok != bok || !a.Equal(b) {
		return fmt.Errorf("Deadline is %v, %v; want %v, %v", b, bok, a, aok)
	}
	for n := range keys {
		if a, b := p.std.Value(key{n}), p.own.Value(key{n}); a != b {
			return fmt.Errorf("value %d is %v; want %v", n, b, a)
		}
	}
	return nil
}

// done reports whether Done is closed.
func done(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// Random trees of contexts end as in package context, with the same causes,
// whatever is derived from them, and what On registers is called as often as what AfterFunc
// registers.
func TestContextsEndAsThoseOfTheStandardLibrary(t *testing.T) {
	for seed := range uint64(2000) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			base, end := context.WithCancelCause(t.Context())
			all := []pair{{base, base, func(err error) { end(err) }}}
			values := 0
			type registered struct {
				std         func() bool
				own         stop.Hook
				stdRan, ran *atomic.Int32
			}
			var hooks []registered
			for step := range 40 {
				p := all[r.IntN(len(all))]
				what := r.IntN(10)
				switch what {
				case 0, 1, 2:
					std, cancel := context.WithCancelCause(p.std)
					own := new(stop.Context)
					own.Start(p.own)
					all = append(all, pair{std, own, func(err error) { cancel(err); own.Cancel(err) }})
				case 3:
					k := key{values}
					values++
					all = append(all, pair{context.WithValue(p.std, k, step), stop.WithValue(p.own, k, step), p.cancel})
				case 4: // contexts of the standard library in between
					std, cancel := context.WithTimeout(p.std, time.Duration(r.IntN(5))*time.Second)
					own, cancelOwn := context.WithDeadline(p.own, deadline(std))
					all = append(all, pair{std, own, func(error) { cancel(); cancelOwn() }})
				case 5:
					all = append(all, pair{context.WithoutCancel(p.std), stop.Detach(p.own), func(error) {}})
				case 6, 7:
					h := registered{stdRan: new(atomic.Int32), ran: new(atomic.Int32)}
					h.std = context.AfterFunc(p.std, func() { h.stdRan.Add(1) })
					h.own = stop.On(p.own, func() { h.ran.Add(1) })
					hooks = append(hooks, h)
				case 8:
					if len(hooks) > 0 {
						h := hooks[r.IntN(len(hooks))]
						if a, b := h.std(), h.own.Remove(); a != b {
							t.Fatalf("seed %d: Remove returns %v; want %v", seed, b, a)
						}
					}
				case 9:
					if r.IntN(3) == 0 {
						p.cancel([]error{nil, errors.New("cause")}[r.IntN(2)])
					} else {
						time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
					}
				}
				synctest.Wait()
				for i, p := range all {
					if r.IntN(20) == 0 && done(p.std) != done(p.own) {
						t.Fatalf("seed %d, step %d, context %d: Done differs", seed, step, i)
					}
					if r.IntN(20) > 0 {
						continue // to look for the cause makes a context of package context
					}
					if err := p.differ(values); err != nil {
						t.Fatalf("seed %d, step %d, context %d: %v", seed, step, i, err)
					}
				}
				for i, h := range hooks {
					if std, own := h.stdRan.Load(), h.ran.Load(); std != own {
						t.Fatalf("seed %d, step %d: function %d ran %d times; want %d", seed, step, i, own, std)
					}
				}
			}
			for i, p := range all {
				if err := p.differ(values); err != nil {
					t.Fatalf("seed %d, context %d: %v", seed, i, err)
				}
				p.cancel(nil)
			}
			end(nil)
		})
	}
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

// A Context that ends before anything waits for it allocates nothing, however long the
// chain is, and a function that is registered is one object.
func TestContextsThatAreNotWaitedForAllocateNothing(t *testing.T) {
	base, cancel := context.WithCancel(t.Context())
	defer cancel()
	var chain [3]stop.Context
	f := func() {}
	n := testing.AllocsPerRun(100, func() {
		chain = [3]stop.Context{} //nolint:govet // nothing uses them
		parent := stop.Detach(base)
		for i := range chain {
			chain[i].Start(parent)
			parent = &chain[i]
		}
		h := stop.On(parent, f)
		if parent.Err() != nil || parent.Value(key{}) != nil || !h.Remove() {
			t.Fatal("ended")
		}
		for i := range chain {
			chain[len(chain)-1-i].Cancel(nil)
		}
		if chain[2].Err() == nil {
			t.Fatal("not ended")
		}
	})
	if n > 2 { // the hook, and Detach
		t.Errorf("%v allocations; want 2", n)
	}
}

// What is registered at the end of a chain is called once if contexts of it end at the same
// time, and never after Remove has returned true.
func TestContextsEndConcurrently(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			base, cancel := context.WithCancelCause(t.Context())
			var a, b stop.Context
			a.Start(base)
			b.Start(stop.WithValue(&a, key{}, 1))
			ran, stopped := make(chan struct{}, 9), false
			hook := stop.On(&b, func() { ran <- struct{}{} })
			go cancel(nil)
			go a.Cancel(errors.New("a"))
			go b.Cancel(errors.New("b"))
			go func() { _ = b.Done() }()
			go func() { _ = context.Cause(&b) }()
			go func() { stop.On(&b, func() {}) }()
			go func() { stopped = hook.Remove() }()
			synctest.Wait()
			if want := map[bool]int{true: 0, false: 1}[stopped]; len(ran) != want || b.Err() == nil || context.Cause(&b) == nil || !done(&b) {
				t.Fatalf("the function ran %d times; want %d, and %v", len(ran), want, b.Err())
			}
		})
	}
}
