package fleetclient_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
)

// A pipe is a Tier whose pushes the test makes.
type pipe struct {
	fleet.Tier
	fleet.Watcher
}

func (w *pipe) Watch(_ string, to fleet.Watcher) (func(), error) {
	w.Watcher = to
	return func() {}, nil
}

// A pushee is a Client that gets its pushes from the test, beside another instance on
// the same engine.
type pushee struct {
	*fleetclient.Client
	*pipe
	t     *testing.T
	other *fleet.Memory
	down  atomic.Bool // for Writes of the Client
}

// keeps runs a test in a bubble.
func keeps(t *testing.T, test func(k *pushee)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		k := &pushee{t: t, other: m}
		k.pipe = &pipe{Tier: away{m, &k.down}}
		var err error
		k.Client, err = fleetclient.New(fleetclient.Options{
			Tier: k.pipe, Namespace: "n", Lease: lease, Keep: time.Hour, Codec: "test",
			PushValue: 200, PushMemory: 4000, MemoryCap: 30 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		test(k)
		if err := k.Client.Close(context.Background()); err != nil {
			t.Errorf("Close = %v; want nil", err)
		}
	})
}

// stores has the other instance set a key. It returns the push of the value.
func (k *pushee) stores(name, text string) (e fleet.Entry, now uint64) {
	k.t.Helper()
	v := entry(text, k.TagSeq())
	fence, err := k.other.Write(context.Background(), fleet.Key{Namespace: "n", Name: name}, fleet.Write{Entry: v})
	if err != nil {
		k.t.Fatal(err)
	}
	return fleet.Entry{Data: v.Data, Fence: fence, Fresh: v.Fresh}, uint64(time.Now().UnixMicro())
}

// asks expects this text, and whether the Tier got a request.
func (k *pushee) asks(name string, a fleet.Ask, text string, called bool) fleetclient.Answer {
	k.t.Helper()
	s := k.Subscribe(name)
	defer s.Close()
	before := k.Stats().Acquires
	ans := ask(k.t, s, a, fleet.GrantFresh, text)
	if got := k.Stats().Acquires > before; got != called {
		k.t.Errorf("%q: the Tier got a request: %v; want %v", text, got, called)
	}
	return ans
}

// A pushed value answers the next request for the key, once, in whatever order the value
// and the news arrive. A value for a key that was never requested is not kept.
func TestT1_PushedValueAnswersOnce(t *testing.T) {
	keeps(t, func(k *pushee) {
		v, now := k.stores("k", "1")
		k.Pushed("k", v, now)
		k.asks("k", fleet.Ask{}, "1", true) // not asked for before
		for i, newsFirst := range []bool{false, true} {
			text := fmt.Sprint(i + 2)
			v, now = k.stores("k", text)
			if newsFirst {
				k.Changed("k", v.Fence, false)
			}
			k.Pushed("k", v, now)
			if !newsFirst {
				k.Changed("k", v.Fence, false)
			}
			k.asks("k", fleet.Ask{}, text, false)
			k.asks("k", fleet.Ask{}, text, true)
			k.Pushed("k", v, now) // again: the owner has it
			k.asks("k", fleet.Ask{}, text, true)
		}
	})
}

// T8, T10, T12: nothing that was invalidated, or may have been, is answered from pushes.
func TestT8_PushedValueEndsWithTheNews(t *testing.T) {
	for what, end := range map[string]func(k *pushee){
		"a removal": func(k *pushee) {
			fence, _ := k.other.Write(context.Background(), fleet.Key{Namespace: "n", Name: "k"}, fleet.Write{})
			k.Changed("k", fence, true)
			k.stores("k", "new")
		},
		"an expiry": func(k *pushee) {
			fence, _ := k.other.Write(context.Background(), fleet.Key{Namespace: "n", Name: "k"}, fleet.Write{Expire: true})
			k.Changed("k", fence, false)
			k.stores("k", "new")
		},
		"a newer value of which only the news came": func(k *pushee) {
			v, _ := k.stores("k", "new")
			k.Changed("k", v.Fence, false)
		},
		"its own write": func(k *pushee) {
			if _, err := k.Client.Write(context.Background(), "k", fleet.Write{Entry: entry("new", 0)}); err != nil {
				k.t.Error(err)
			}
		},
		"its own write of which the engine knows nothing": func(k *pushee) {
			k.down.Store(true)
			if _, err := k.Client.Write(context.Background(), "k", fleet.Write{}); err == nil {
				k.t.Error("Write = nil; want a PendingError")
			}
			s := k.Subscribe("k")
			defer s.Close()
			if a, err := s.Ask(context.Background(), fleet.Ask{}); err == nil {
				k.t.Errorf("Ask = %v, nil while an invalidation is pending; want an error", a.Value)
			}
			k.down.Store(false)
			time.Sleep(time.Second) // it is sent again
			k.stores("k", "new")
		},
		"an invalidation of everything": func(k *pushee) {
			seq, _ := k.other.InvalidateTags(context.Background(), "n", []string{""}, time.Hour)
			k.Tagged("", seq)
			v := entry("new", seq)
			_, _ = k.other.Write(context.Background(), fleet.Key{Namespace: "n", Name: "k"}, fleet.Write{Entry: v})
		},
		"a reset":     func(k *pushee) { k.stores("k", "new"); k.Lost(); k.Reset() },
		"an outage":   func(k *pushee) { k.stores("k", "new"); k.Lost() },
		"a recovery":  func(k *pushee) { k.stores("k", "new"); k.Lost(); k.Recovered() },
		"MemoryCap":   func(k *pushee) { k.stores("k", "new"); time.Sleep(30 * time.Second) },
		"old history": func(k *pushee) { k.loses(); k.stores("k", "new") },
	} {
		t.Run(what, func(t *testing.T) {
			keeps(t, func(k *pushee) {
				k.stores("k", "0")
				k.asks("k", fleet.Ask{}, "0", true)
				v, now := k.stores("k", "old")
				k.Pushed("k", v, now)
				k.Changed("k", v.Fence, false)
				end(k)
				for i := range 20_000 { // the bounded history of fences forgets the key
					k.Changed(fmt.Sprint("other", i), 1<<59, false)
				}
				k.asks("k", fleet.Ask{}, "new", true)
				k.Pushed("k", v, now) // late
				k.asks("k", fleet.Ask{}, "new", true)
			})
		})
	}
}

// away is a Tier that is unreachable for Writes while down is true.
type away struct {
	fleet.Tier
	down *atomic.Bool
}

func (a away) Write(ctx context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	if w.Entry != nil && w.Entry.Push != (len(w.Entry.Data) <= 200) {
		return 0, fmt.Errorf("%d bytes, and Push is %v; want it up to 200", len(w.Entry.Data), w.Entry.Push)
	}
	if a.down.Load() {
		return 0, &fleet.UnavailableError{Op: "write", Err: context.DeadlineExceeded}
	}
	return a.Tier.Write(ctx, k, w)
}

// T10: nothing is kept while pushes may be missing, even if some arrive.
func TestT10_NothingIsKeptWhilePushesAreLost(t *testing.T) {
	keeps(t, func(k *pushee) {
		k.stores("k", "0")
		k.asks("k", fleet.Ask{}, "0", true)
		k.Lost()
		k.asks("k", fleet.Ask{}, "0", true)
		v, now := k.stores("k", "1")
		k.Pushed("k", v, now)
		k.stores("k", "2") // its push is lost
		k.asks("k", fleet.Ask{}, "2", true)
		k.Recovered()
		k.asks("k", fleet.Ask{}, "2", true)
		v, now = k.stores("k", "3")
		k.Pushed("k", v, now)
		k.asks("k", fleet.Ask{}, "3", false)
	})
}

// loses has the instance find out, with another key, that the engine has lost history.
func (k *pushee) loses() {
	k.t.Helper()
	k.stores("other", "1")
	k.Changed("other", 1<<60, true)
	s := k.Subscribe("other")
	defer s.Close()
	if _, err := s.Ask(context.Background(), fleet.Ask{}); err != nil && k.Stats().Histories == 0 {
		k.t.Errorf("Ask = %v; want lost history", err)
	}
	time.Sleep(time.Second)
	if k.Stats().Histories != 1 {
		k.t.Errorf("%d histories were lost; want 1", k.Stats().Histories)
	}
}

// T13: a value of a history that the engine has lost is not used, even if its numbers are
// higher than those of the new one.
func TestT13_PushedValueEndsWithItsHistory(t *testing.T) {
	keeps(t, func(k *pushee) {
		k.stores("k", "0")
		k.asks("k", fleet.Ask{}, "0", true)
		v, now := k.stores("k", "old")
		v.Data = entry("old", 1<<60).Data
		k.Pushed("k", v, now)
		k.loses()
		k.stores("k", "new")
		k.asks("k", fleet.Ask{}, "new", true)
	})
}

// T8: an older value that arrives after a reply or a write is not kept, even if the key was
// unknown when the news came.
func TestT8_DelayedPushIsNotKept(t *testing.T) {
	keeps(t, func(k *pushee) {
		old, now := k.stores("k", "old")
		k.stores("k", "new")
		k.asks("k", fleet.Ask{}, "new", true)
		k.Pushed("k", old, now)
		k.asks("k", fleet.Ask{}, "new", true)

		// A reply while the key cools has no fence.
		old, now = k.stores("c", "old")
		c := fleet.Key{Namespace: "n", Name: "c"}
		a, err := k.other.Acquire(context.Background(), c, fleet.Ask{NewerThan: fleet.AnyFence, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := k.other.Settle(context.Background(), c, a.Fence, fleet.Outcome{Remove: true, Cool: time.Minute}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s := k.Subscribe("c")
		defer s.Close()
		ask(t, s, fleet.Ask{}, fleet.GrantCooling, "")
		k.Pushed("c", old, now)
		ask(t, s, fleet.Ask{}, fleet.GrantCooling, "")
	})
}

// T14: what remains of the freshness is counted by the engine's clock, however long the
// push was on its way. A value from the future is not used.
func TestT14_PushedFreshnessCountsFromTheStore(t *testing.T) {
	keeps(t, func(k *pushee) {
		k.stores("k", "0")
		k.asks("k", fleet.Ask{}, "0", true)
		v, now := k.stores("k", "late")
		time.Sleep(20 * time.Second)
		k.Pushed("k", v, now)
		time.Sleep(5 * time.Second)
		a := k.asks("k", fleet.Ask{}, "late", false)
		if a.Age < 25*time.Second || a.Age > 25*time.Second+time.Millisecond || a.Entry.Fresh != time.Minute-a.Age {
			t.Errorf("the age is %v, fresh for %v; want 25s, and 35s", a.Age, a.Entry.Fresh)
		}

		v, now = k.stores("k", "future")
		k.Pushed("k", v, now+uint64(time.Second/time.Microsecond))
		k.asks("k", fleet.Ask{}, "future", true)

		v, now = k.stores("k", "short")
		v.Fresh = time.Second
		k.Pushed("k", v, now)
		time.Sleep(2 * time.Second)
		k.asks("k", fleet.Ask{}, "short", true) // it has expired
	})
}

// T2: a caller that waited for a load gets its value from the push, even if it is not fresh. A
// request for something newer gets nothing older.
func TestT2_WaiterGetsThePushedValue(t *testing.T) {
	keeps(t, func(k *pushee) {
		key := fleet.Key{Namespace: "n", Name: "k"}
		held, err := k.other.Acquire(context.Background(), key, fleet.Ask{Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		s := k.Subscribe("k")
		defer s.Close()
		if a := ask(t, s, fleet.Ask{}, fleet.GrantHeld, ""); a.Fence != held.Fence {
			t.Errorf("held by %d; want %d", a.Fence, held.Fence)
		}
		v := entry("v", 0)
		v.Fresh = 0
		if _, err := k.other.Settle(context.Background(), key, held.Fence, fleet.Outcome{Entry: v}); err != nil {
			t.Fatal(err)
		}
		k.Pushed("k", fleet.Entry{Data: v.Data, Fence: held.Fence}, uint64(time.Now().UnixMicro()))
		k.Changed("k", held.Fence, false)
		if err := s.Await(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		before := k.Stats().Acquires
		ask(t, s, fleet.Ask{Joined: held.Fence}, fleet.GrantFresh, "v")
		if k.Stats().Acquires != before {
			t.Error("the Tier got a request; want the pushed value")
		}

		w, now := k.stores("k", "w")
		k.Pushed("k", w, now)
		ask(t, s, fleet.Ask{NewerThan: w.Fence}, fleet.GrantLease, "w")
	})
}

// The kept keys and values stay within their bounds: those with the latest requests stay.
func TestPushedValuesAreBounded(t *testing.T) {
	keeps(t, func(k *pushee) { // room for some ten keys
		for i := range 100 {
			name := fmt.Sprint(i)
			k.stores(name, "0")
			k.asks(name, fleet.Ask{}, "0", true)
		}
		for i := range 100 {
			v, now := k.stores(fmt.Sprint(i), "1")
			k.Pushed(fmt.Sprint(i), v, now)
		}
		if n := k.Stats().PushedKept; n < 8 || n > 15 {
			t.Errorf("%d values are kept; want some ten", n)
		}
		k.asks("99", fleet.Ask{}, "1", false)
		k.asks("0", fleet.Ask{}, "1", true)
		for _, n := range []int{100, 250} {
			if _, err := k.Client.Write(context.Background(), "99", fleet.Write{Entry: entry(string(make([]byte, n)), 0)}); err != nil {
				k.t.Errorf("Write = %v; want nil", err)
			}
		}
		v, now := k.stores("99", string(make([]byte, 201)))
		k.Pushed("99", v, now)
		k.asks("99", fleet.Ask{}, string(make([]byte, 201)), true) // too large
	})
}
