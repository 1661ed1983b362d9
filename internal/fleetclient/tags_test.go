package fleetclient_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
)

func TestTagsAreStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 3)
		a, b, deaf := all[0], all[1], all[2]
		deaf.link.Deafen(true)
		for i := range 6 {
			a.load(fmt.Sprint(i), "x", "y")
			for _, in := range all {
				s := in.Subscribe("k")
				ask(t, s, fleet.Ask{}, fleet.GrantFresh, fmt.Sprint(i))
				s.Close()
			}
			b.invalidates([]string{"y", "z", ""}[i%3:]...) // the last one: the whole namespace only
			for _, in := range all {                       // at once, without waiting for a push
				s := in.Subscribe("k")
				ans := ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
				s.Hold(ans.Fence, nil).GiveUp(fleet.Outcome{})
				synctest.Wait()
				s.Close()
			}
		}
	})
}

func TestManyTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		a, b := all[0], all[1]
		tags := make([]string, 2*fleet.MaxTags+1)
		for i := range tags {
			tags[i] = fmt.Sprint(i)
		}
		s := b.Subscribe("k")
		defer s.Close()
		for _, tag := range []string{"0", tags[fleet.MaxTags], tags[2*fleet.MaxTags]} {
			a.load("v", tags...)
			ask(t, s, fleet.Ask{}, fleet.GrantFresh, "v")
			a.invalidates(tag)
			s.Hold(ask(t, s, fleet.Ask{}, fleet.GrantLease, "").Fence, nil).GiveUp(fleet.Outcome{})
			synctest.Wait()
		}
		a.load("v", tags...)
		a.invalidates(tags...)
		ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
	})
}

func TestTagsOfALoadThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		a, b := all[0], all[1]
		s, other := a.Subscribe("k"), b.Subscribe("k")
		defer s.Close()
		defer other.Close()
		l := s.Hold(ask(t, s, fleet.Ask{}, fleet.GrantLease, "").Fence, nil)
		seq := a.TagSeq()
		b.invalidates("x")
		settles(t, l, stored("old", seq, "x"), true) // the lease is valid; the value's tag is not
		ask(t, other, fleet.Ask{}, fleet.GrantLease, "")
	})
}

// A load that begins after an invalidation counts as newer, even if its instance
// never received the push.
func TestTagsOfADeafInstanceCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		deaf, b := all[0], all[1]
		s := deaf.Subscribe("k")
		defer s.Close()
		deaf.load("first", "x")
		deaf.link.Deafen(true)
		b.invalidates("x")
		ans := ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
		settles(t, s.Hold(ans.Fence, nil), stored("second", deaf.TagSeq(), "x"), true)
		ask(t, s, fleet.Ask{}, fleet.GrantFresh, "second")
	})
}

func TestTagOfTheWholeNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		a, b := all[0], all[1]
		a.load("v")
		b.invalidates("")
		a.told("changed k false", "tagged ")
		// b gets a hook call for its own invalidation only if the push arrives
		// before the reply.
		synctest.Wait()
		b.mu.Lock()
		b.hooks = slices.DeleteFunc(b.hooks, func(call string) bool { return call == "tagged " })
		b.mu.Unlock()
		b.told("changed k false")
		for _, in := range all {
			s := in.Subscribe("k")
			defer s.Close()
			ans := ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
			s.Hold(ans.Fence, nil).GiveUp(fleet.Outcome{})
			synctest.Wait()
		}
	})
}

// An instance that starts, or was cut off, reads the namespace's numbers before
// it uses anything, because no push will bring them.
func TestTagsAreReadBeforeTheFirstEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 3)
		a, b, fresh := all[0], all[1], all[2]
		a.load("v")
		fresh.link.Deafen(true)
		b.invalidates("")
		var wg sync.WaitGroup
		var mu sync.Mutex
		grants := make(map[fleet.Grant]int)
		fresh.link.Before(func(op string) {
			if op == "tags" {
				time.Sleep(10 * time.Millisecond) // others call in between
			}
		})
		for range 8 {
			wg.Go(func() {
				s := fresh.Subscribe("k")
				defer s.Close()
				ans, err := s.Ask(t.Context(), fleet.Ask{})
				if err != nil || ans.Value != nil {
					t.Errorf("Ask = %v, %v; want no value from before the invalidation", ans.Value, err)
				}
				mu.Lock()
				defer mu.Unlock()
				grants[ans.Grant]++
			})
		}
		wg.Wait()
		if grants[fleet.GrantLease] != 1 || grants[fleet.GrantHeld] != 7 {
			t.Errorf("grants = %v; want 1 granted, 7 held", grants)
		}
		if n := fresh.Stats().TagReads; n != 1 {
			t.Errorf("%d reads of the invalidations; want 1 for all", n)
		}
	})
}

// After a Reset during the read, the numbers are read again: they may be
// outdated.
func TestTagsAreReadAgainAfterAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := instances(t, 1)[0]
		a.link.Before(func(op string) {
			if op == "tags" {
				a.link.Before(nil)
				a.link.Mend()
			}
		})
		s := a.Subscribe("k")
		defer s.Close()
		ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
		ask(t, s, fleet.Ask{}, fleet.GrantHeld, "")
		if n := a.Stats().TagReads; n != 2 {
			t.Errorf("%d reads of the invalidations; want 2", n)
		}
	})
}

func TestTagsThatCannotBeReadFailTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := instances(t, 1)[0]
		a.link.Before(func(op string) {
			if op == "tags" {
				a.link.Cut()
			}
		})
		s := a.Subscribe("k")
		defer s.Close()
		if _, err := s.Ask(t.Context(), fleet.Ask{}); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Ask = %v; want ErrUnavailable", err)
		}
		if n := a.Stats().Acquires; n != 0 {
			t.Errorf("%d requests for an entry; want none before the invalidations are known", n)
		}
	})
}
