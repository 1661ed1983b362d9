package fleetclient_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
)

func TestSubscriptionIsOvertakenByAPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		a, b := all[0], all[1]
		b.writes(fleet.Write{Entry: entry("old", 0)})
		synctest.Wait()
		s, other := a.Subscribe("k"), a.Subscribe("other")
		defer s.Close()
		defer other.Close()
		ans := ask(t, s, fleet.Ask{}, fleet.GrantFresh, "old")
		if s.Overtaken(ans.Entry.Fence) {
			t.Error("overtaken before any write")
		}
		fence := b.writes(fleet.Write{})
		synctest.Wait()
		if !s.Overtaken(ans.Entry.Fence) || s.Overtaken(fence) {
			t.Errorf("Overtaken(old) = %v, Overtaken(new) = %v; want true, false", s.Overtaken(ans.Entry.Fence), s.Overtaken(fence))
		}
		if other.Overtaken(0) {
			t.Error("another key's subscription is overtaken")
		}
	})
}

func TestSubscriptionClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := instances(t, 1)[0]
		s, other := a.Subscribe("k"), a.Subscribe("k")
		s.Close()
		s.Close()
		if !a.Subscribed("k") {
			t.Error("Subscribed = false with one subscription left; want true")
		}
		fence := a.writes(fleet.Write{})
		synctest.Wait()
		if !other.Overtaken(fence - 1) {
			t.Error("the remaining subscription was not marked as overtaken")
		}
		other.Close()
		if a.Subscribed("k") {
			t.Error("Subscribed = true with all subscriptions closed; want false")
		}
	})
}

// waits calls Await for a subscription that got Held, and expects it to wait this
// long.
func waits(t *testing.T, s *fleetclient.Subscription, a fleetclient.Answer, least, most time.Duration) {
	t.Helper()
	start := time.Now()
	if err := s.Await(t.Context(), a.Remaining); err != nil {
		t.Errorf("Await = %v; want nil", err)
	}
	if d := time.Since(start); d < least || d > most {
		t.Errorf("Await took %v; want %v to %v", d, least, most)
	}
}

func TestAwaitIsWokenBySettle(t *testing.T) {
	outcomes := map[string]fleet.Outcome{
		"stored": stored("v", 0), "given up": {}, "failed": {Cool: time.Minute},
	}
	for name, o := range outcomes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := instances(t, 2)
				holder, waiter := all[0].Subscribe("k"), all[1].Subscribe("k")
				defer holder.Close()
				defer waiter.Close()
				l := holder.Hold(ask(t, holder, fleet.Ask{}, fleet.GrantLease, "").Fence, nil)
				held := ask(t, waiter, fleet.Ask{}, fleet.GrantHeld, "")
				time.AfterFunc(100*time.Millisecond, func() { settles(t, l, o, true) })
				waits(t, waiter, held, 100*time.Millisecond, 100*time.Millisecond)
			})
		})
	}
}

func TestAwaitIsNotWokenByWhatTheAnswerKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		holder, waiter := all[0].Subscribe("k"), all[1].Subscribe("k")
		defer holder.Close()
		defer waiter.Close()
		all[0].writes(fleet.Write{}) // its push comes before the Ask
		synctest.Wait()
		ask(t, holder, fleet.Ask{}, fleet.GrantLease, "")
		held := ask(t, waiter, fleet.Ask{}, fleet.GrantHeld, "")
		waits(t, waiter, held, lease, lease+50*time.Millisecond)
	})
}

func TestAwaitEndsWithTheLeaseIfTheWakeUpIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		holder, waiter := all[0].Subscribe("k"), all[1].Subscribe("k")
		defer holder.Close()
		defer waiter.Close()
		l := holder.Hold(ask(t, holder, fleet.Ask{}, fleet.GrantLease, "").Fence, nil)
		time.Sleep(100 * time.Millisecond)
		held := ask(t, waiter, fleet.Ask{}, fleet.GrantHeld, "")
		all[1].link.Deafen(true)
		settles(t, l, stored("v", 0), true)
		waits(t, waiter, held, lease-100*time.Millisecond, lease-50*time.Millisecond)
		ask(t, waiter, fleet.Ask{Joined: held.Fence}, fleet.GrantFresh, "v")
	})
}

func TestAwaitEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := instances(t, 1)[0].Subscribe("k")
		defer s.Close()
		held := ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		if err := s.Await(ctx, held.Remaining+time.Minute); err != cause {
			t.Errorf("Await = %v; want the caller's cause", err)
		}
	})
}

func TestResetOvertakesAndWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		a, b := all[0], all[1]
		b.writes(fleet.Write{Entry: entry("v", 0)})
		a.told("changed k false")
		s, waiter := a.Subscribe("k"), a.Subscribe("held")
		defer s.Close()
		defer waiter.Close()
		ans := ask(t, s, fleet.Ask{}, fleet.GrantFresh, "v")
		held := ask(t, waiter, fleet.Ask{}, fleet.GrantLease, "")
		time.AfterFunc(time.Millisecond, a.link.Cut) // Lost wakes waiters, because the engine may no longer be called
		waits(t, waiter, fleetclient.Answer{Answer: fleet.Answer{Remaining: time.Hour}}, time.Millisecond, time.Millisecond)
		if s.Overtaken(ans.Entry.Fence) {
			t.Error("overtaken when the connection was lost; want that only once it is back")
		}
		if _, err := waiter.Ask(t.Context(), fleet.Ask{}); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Ask = %v; want ErrUnavailable", err)
		}
		time.AfterFunc(time.Millisecond, a.link.Mend)
		waits(t, waiter, fleetclient.Answer{Answer: fleet.Answer{Remaining: time.Hour}}, time.Millisecond, time.Millisecond)
		if !s.Overtaken(ans.Entry.Fence) || !waiter.Overtaken(held.Fence) {
			t.Error("not overtaken by Reset; want earlier reads overtaken")
		}
		a.told("reset")
		b.told()
		ans = ask(t, s, fleet.Ask{}, fleet.GrantFresh, "v")
		if s.Overtaken(ans.Entry.Fence) {
			t.Error("a read after Reset is overtaken")
		}
		if n := a.Stats().TagReads; n != 2 {
			t.Errorf("%d reads of the invalidations; want 2: the first, and one after Reset", n)
		}
	})
}

func TestAskSkipsEntriesThatAreOfNoUse(t *testing.T) {
	other := fleet.Value{Codec: "other", Data: []byte("x")}
	foreign, err := other.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string][]byte{
		"of another codec": foreign, "of another version": {fleet.WireVersion + 1, 0}, "cut": foreign[:len(foreign)-1], "empty": {},
	}
	for name, data := range entries {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := instances(t, 1)[0]
				fence := a.writes(fleet.Write{Entry: &fleet.Entry{Data: data, Fresh: time.Minute, Keep: time.Hour}})
				s := a.Subscribe("k")
				defer s.Close()
				ans := ask(t, s, fleet.Ask{Joined: fence}, fleet.GrantLease, "")
				settles(t, s.Hold(ans.Fence, nil), stored("v", 0), true)
				ask(t, s, fleet.Ask{}, fleet.GrantFresh, "v")
			})
		})
	}
}

func TestAskGivesBackALeaseItCannotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		a, b := all[0], all[1]
		a.load("v", "tag")
		synctest.Wait()
		s, other := a.Subscribe("k"), b.Subscribe("k")
		defer s.Close()
		defer other.Close()
		a.link.Before(func(op string) {
			if op == "tags" { // for the entry that comes with the lease
				a.link.Hang()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 75*time.Millisecond)
		defer cancel()
		if _, err := s.Ask(ctx, fleet.Ask{NewerThan: fleet.AnyFence}); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Ask = %v; want ErrUnavailable", err)
		}
		held := ask(t, other, fleet.Ask{NewerThan: fleet.AnyFence}, fleet.GrantHeld, "v")
		time.AfterFunc(time.Millisecond, a.link.Unhang)
		waits(t, other, held, time.Millisecond, time.Millisecond)
		ask(t, other, fleet.Ask{NewerThan: fleet.AnyFence}, fleet.GrantLease, "v")
	})
}

func TestAskOfAHungEngineWaitsForOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := instances(t, 1)[0]
		a.link.Hang()
		done := make(chan time.Duration)
		for range 8 {
			go func() {
				s := a.Subscribe("k")
				defer s.Close()
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 75*time.Millisecond)
				defer cancel()
				if _, err := s.Ask(ctx, fleet.Ask{}); err == nil {
					t.Error("Ask = nil; want an error")
				}
				done <- time.Since(start)
			}()
		}
		for range 8 {
			if d := <-done; d != 75*time.Millisecond {
				t.Errorf("Ask took %v; want 75ms: one deadline for all", d)
			}
		}
		a.link.Unhang()
		s := a.Subscribe("k")
		defer s.Close()
		ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
	})
}
