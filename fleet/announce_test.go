package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
)

// known returns the IDs of the instances that m knows, with their counts of calls.
func known(t *testing.T, m *fleet.Memory) (ids []string) {
	t.Helper()
	all, err := m.Instances(context.Background())
	if err != nil {
		t.Fatalf("Instances = %v; want nil", err)
	}
	for _, i := range all {
		ids = append(ids, fmt.Sprint(i.ID, " ", i.Counts["told"]))
	}
	return ids
}

func wantKnown(t *testing.T, m *fleet.Memory, want ...string) {
	t.Helper()
	if got := known(t, m); !slices.Equal(got, want) {
		t.Errorf("after %v the known instances are %q; want %q", time.Since(bubbleStart), got, want)
	}
}

// bubbleStart is the initial time of every bubble's clock.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// announcing starts an Announce whose instance counts the calls of tell. end stops it
// and returns its result.
func announcing(r fleet.Roster, every time.Duration) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	told := uint64(0)
	go func() {
		done <- fleet.Announce(ctx, r, func() fleet.Instance {
			told++
			return fleet.Instance{ID: "a", Counts: map[string]uint64{"told": told}}
		}, every)
	}()
	return func() error {
		cancel()
		return <-done
	}
}

func TestAnnounceKeepsAnInstanceKnownUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		end := announcing(m, 0)
		synctest.Wait()
		wantKnown(t, m, "a 1")
		time.Sleep(fleet.DefaultAnnounceEvery - 1)
		wantKnown(t, m, "a 1")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantKnown(t, m, "a 2")
		time.Sleep(time.Hour)
		synctest.Wait()
		wantKnown(t, m, "a 722")
		start := time.Now()
		if err := end(); err != nil || time.Since(start) != 0 {
			t.Errorf("Announce = %v, %v after the end; want nil, at once", err, time.Since(start))
		}
		wantKnown(t, m)
	})
}

// Two lost announcements do no harm. After the third the instance is forgotten. It is
// known again a fifth of the interval after the engine is back.
func TestAnnounceOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		f := fleettest.NewFaults(m)
		end := announcing(f, 10*time.Second)
		synctest.Wait()
		f.Cut()
		time.Sleep(30*time.Second - 1)
		if got := known(t, m); len(got) != 1 {
			t.Errorf("before it expires the known instances are %q; want one", got)
		}
		time.Sleep(time.Nanosecond)
		wantKnown(t, m)
		f.Mend()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := known(t, m); len(got) != 1 {
			t.Errorf("2 s after the outage the known instances are %q; want one", got)
		}

		f.Cut()
		if err := end(); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Announce that cannot withdraw = %v; want %v", err, fleet.ErrUnavailable)
		}
		time.Sleep(30 * time.Second)
		wantKnown(t, m) // forgotten all the same: the announcement expired
	})
}

// An engine that hangs delays an announcement at most until the next one is due, and
// delays the end by at most that much.
func TestAnnounceIsNotHeldByAnEngineThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		f := fleettest.NewFaults(m)
		f.Hang()
		end := announcing(f, 10*time.Second)
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if n := f.Commands(); n != 3 { // at 0, 12 and 24 s
			t.Errorf("%d announcements in 25 s; want 3", n)
		}
		start := time.Now()
		if err := end(); !errors.Is(err, fleet.ErrUnavailable) || time.Since(start) != 10*time.Second {
			t.Errorf("Announce = %v after %v; want %v after 10s", err, time.Since(start), fleet.ErrUnavailable)
		}
	})
}

func TestAnnounceSurvivesAPanicOfTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		calls := 0
		go func() {
			done <- fleet.Announce(ctx, m, func() fleet.Instance {
				if calls++; calls == 1 {
					panic("out of luck")
				}
				return fleet.Instance{ID: "a"}
			}, 10*time.Second)
		}()
		synctest.Wait()
		wantKnown(t, m)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantKnown(t, m, "a 0")
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Announce = %v; want nil", err)
		}
	})
}

// A Breaker exposes the Roster of its Tier, and the Roster's failures open it. If the
// Tier is not a Roster, it reports ErrUnsupported.
func TestBreakerIsARosterIfItsTierIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		f := fleettest.NewFaults(m)
		b := fleet.WithBreaker(f, fleet.BreakerOptions{})
		defer b.Close(context.Background())
		if err := b.Announce(t.Context(), fleet.Instance{ID: "a"}, time.Minute); err != nil {
			t.Errorf("Announce = %v; want nil", err)
		}
		if all, err := b.Instances(t.Context()); err != nil || len(all) != 1 || !all[0].Seen.Equal(time.Now()) {
			t.Errorf("Instances = %+v, %v; want a, seen now", all, err)
		}
		if err := b.Withdraw(t.Context(), "a"); err != nil {
			t.Errorf("Withdraw = %v; want nil", err)
		}
		wantKnown(t, m)
		f.Cut()
		for range fleet.DefaultFailures {
			if _, err := b.Instances(t.Context()); !errors.Is(err, fleet.ErrUnavailable) {
				t.Errorf("Instances while the engine is unreachable = %v; want %v", err, fleet.ErrUnavailable)
			}
		}
		if !b.State().Open {
			t.Errorf("the breaker is closed after %d failures; want it open", fleet.DefaultFailures)
		}

		none := fleet.WithBreaker(modest{wrapper: wrapper{m}}, fleet.BreakerOptions{})
		defer none.Close(context.Background())
		if err := fleet.Announce(t.Context(), none, func() fleet.Instance { return fleet.Instance{ID: "a"} }, 0); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Announce to a Tier without a Roster = %v; want %v", err, errors.ErrUnsupported)
		}
		_, err := none.Instances(t.Context())
		if err2 := none.Withdraw(t.Context(), "a"); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err2, errors.ErrUnsupported) {
			t.Errorf("Instances, Withdraw without a Roster = %v, %v; want %v", err, err2, errors.ErrUnsupported)
		}
	})
}

// Neither an announcer nor a reader can change what others receive.
func TestMemoryKeepsNoMapOfAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		counts := map[string]uint64{"told": 1}
		if err := m.Announce(t.Context(), fleet.Instance{ID: "a", Counts: counts}, time.Minute); err != nil {
			t.Fatal(err)
		}
		counts["told"] = 2
		wantKnown(t, m, "a 1")
		all, err := m.Instances(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("Instances = %+v, %v; want a", all, err)
		}
		all[0].Counts["told"] = 3
		wantKnown(t, m, "a 1")
	})
}

func TestMemoryBoundsItsInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{MaxKeys: 2})
		announce := func(id string, want error) {
			t.Helper()
			if err := m.Announce(t.Context(), fleet.Instance{ID: id}, time.Minute); !errors.Is(err, want) {
				t.Errorf("Announce(%q) = %v; want %v", id, err, want)
			}
		}
		announce("a", nil)
		announce("b", nil)
		announce("c", fleet.ErrUnavailable)
		announce("a", nil) // already known
		wantKnown(t, m, "a 0", "b 0")
		time.Sleep(time.Minute)
		announce("c", nil)
		wantKnown(t, m, "c 0")
		if err := m.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		announce("d", fleet.ErrUnavailable)
	})
}
