package fleetclient_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/histories"
)

// restored points all instances at an engine that has only what the snapshot has.
func restored(t *testing.T, all []*instance, snapshot fleet.Tier) {
	t.Helper()
	for _, in := range all {
		in.link.Cut()
	}
	for _, in := range all {
		if err := in.link.Replace(snapshot); err != nil {
			t.Fatal(err)
		}
		in.link.Mend()
	}
	synctest.Wait()
}

func (in *instance) has(name, text string, grant fleet.Grant) {
	in.t.Helper()
	s := in.Subscribe(name)
	defer s.Close()
	if a := ask(in.t, s, fleet.Ask{}, grant, text); a.Grant == fleet.GrantLease {
		s.Hold(a.Fence, nil).GiveUp(fleet.Outcome{})
		synctest.Wait()
	}
}

// T13: an engine whose numbers have gone back has lost history. All instances
// treat everything in it as invalidated, and write nothing back.
func TestT13_AnEngineThatLostHistoryIsCleared(t *testing.T) {
	for what, lost := range map[string]func(all []*instance){
		"a key that was replaced": func(all []*instance) { all[0].writes(fleet.Write{Entry: entry("new", 0)}) },
		"a key that was removed":  func(all []*instance) { all[0].writes(fleet.Write{}) },
		"a key that was loaded": func(all []*instance) {
			all[0].writes(fleet.Write{})
			all[0].load("new")
		},
		"a key of which a push has told": func(all []*instance) { all[1].writes(fleet.Write{Entry: entry("new", 0)}) },
		"another's removal":              func(all []*instance) { all[1].writes(fleet.Write{}) },
		"an invalidation by tag":         func(all []*instance) { all[0].invalidates("t") },
		"an invalidation of everything":  func(all []*instance) { all[0].invalidates("") },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				snapshot := fleet.NewMemory(fleet.MemoryOptions{})
				for _, name := range []string{"k", "tagged"} {
					tags := []string{"t"}[:len(name)/5]
					if _, err := snapshot.Write(context.Background(), fleet.Key{Namespace: "n", Name: name}, fleet.Write{Entry: entry("old", 0, tags...)}); err != nil {
						t.Fatal(err)
					}
				}
				all := instances(t, 2)
				time.Sleep(time.Second)
				lost(all)
				synctest.Wait()
				restored(t, all, snapshot)
				in := all[0]
				in.hooks = nil
				name := "k"
				if what == "an invalidation by tag" {
					name = "tagged"
				}
				s := in.Subscribe(name)
				a, err := s.Ask(t.Context(), fleet.Ask{})
				s.Close()
				if a.Grant == fleet.GrantLease {
					s.Hold(a.Fence, nil).GiveUp(fleet.Outcome{})
				}
				if err == nil && a.Value != nil {
					t.Errorf("Ask = %v, %q; want nothing of the snapshot", a.Grant, a.Value.Data)
				}
				time.Sleep(time.Minute / 2) // within the entries' freshness
				all[1].has("k", "", fleet.GrantLease)
				all[1].has("tagged", "", fleet.GrantLease)
				in.has(name, "", fleet.GrantLease)
				if n := in.Stats(); n.Histories != 1 || n.Pending != 0 {
					t.Errorf("Stats = %+v; want one lost history, nothing pending", n)
				}
			})
		})
	}
}

// T13: an unchanged or an empty engine does not count as lost history.
func TestT13_NothingIsLostWhereNumbersGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		for range 3 {
			all[0].load("one")
			all[1].writes(fleet.Write{Expire: true})
			all[0].has("k", "one", fleet.GrantLease)
			all[1].writes(fleet.Write{Entry: entry("two", 0)})
			all[0].has("k", "two", fleet.GrantFresh)
			all[1].writes(fleet.Write{})
		}
		time.Sleep(time.Millisecond)
		restored(t, all, fleet.NewMemory(fleet.MemoryOptions{})) // empty: fences continue from the clock
		all[1].load("three")
		all[0].has("k", "three", fleet.GrantFresh)
		for _, in := range all {
			if n := in.Stats().Histories; n != 0 {
				t.Errorf("%d lost histories; want none", n)
			}
		}
	})
}

// T13: a load under a lease from the lost history is not stored.
func TestT13_LeasesOfALostHistoryStoreNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		snapshot := fleet.NewMemory(fleet.MemoryOptions{})
		if _, err := snapshot.Write(context.Background(), fleet.Key{Namespace: "n", Name: "k"}, fleet.Write{Entry: entry("old", 0)}); err != nil {
			t.Fatal(err)
		}
		all := instances(t, 1)
		time.Sleep(time.Second)
		all[0].writes(fleet.Write{})
		s := all[0].Subscribe("other")
		defer s.Close()
		a := ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
		l := s.Hold(a.Fence, nil)
		restored(t, all, snapshot)
		all[0].has("k", "", fleet.GrantLease)
		settles(t, l, stored("of another history", 0), false)
	})
}

// T13: of several calls at once, one finds out. No other uses the engine before the
// invalidation of everything is pending.
func TestT13_CallsAtOnceFindLostHistory(t *testing.T) {
	for range histories.Count(30, 300) {
		synctest.Test(t, func(t *testing.T) {
			snapshot := fleet.NewMemory(fleet.MemoryOptions{})
			if _, err := snapshot.Write(context.Background(), fleet.Key{Namespace: "n", Name: "k"}, fleet.Write{Entry: entry("old", 0)}); err != nil {
				t.Fatal(err)
			}
			all := instances(t, 1)
			time.Sleep(time.Second)
			all[0].writes(fleet.Write{})
			restored(t, all, snapshot)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					s := all[0].Subscribe("k")
					defer s.Close()
					for range 3 {
						a, err := s.Ask(t.Context(), fleet.Ask{})
						if err == nil && a.Value != nil && !s.Overtaken(a.Entry.Fence) {
							t.Errorf("Ask = %v, %q; want nothing of the snapshot", a.Grant, a.Value.Data)
						}
						if a.Grant == fleet.GrantLease {
							s.Hold(a.Fence, nil).GiveUp(fleet.Outcome{})
						}
					}
				})
			}
			wg.Wait()
		})
		if t.Failed() {
			return
		}
	}
}
