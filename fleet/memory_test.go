package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
)

func acquire(t *testing.T, m fleet.Tier, k fleet.Key, a fleet.Ask) fleet.Answer {
	t.Helper()
	if a.Lease == 0 {
		a.Lease = time.Second
	}
	ans, err := m.Acquire(context.Background(), k, a)
	if err != nil {
		t.Fatalf("Acquire(%q) = %v", k, err)
	}
	return ans
}

func TestMemoryLoadIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		defer m.Close(context.Background())
		k := fleet.Key{Namespace: "n", Name: "k"}
		a := acquire(t, m, k, fleet.Ask{})
		if a.Grant != fleet.GrantLease || a.Entry != nil || a.Fence == 0 {
			t.Fatalf("Acquire of a new key = %+v; want granted", a)
		}
		if b := acquire(t, m, k, fleet.Ask{}); b.Grant != fleet.GrantHeld || b.Fence != a.Fence || b.Remaining != time.Second {
			t.Errorf("Acquire of a held key = %+v; want held", b)
		}
		ok, err := m.Settle(t.Context(), k, a.Fence, fleet.Outcome{Entry: &fleet.Entry{Data: []byte("v"), Fresh: time.Minute, Keep: time.Hour}})
		if !ok || err != nil {
			t.Fatalf("Settle = %v, %v; want true", ok, err)
		}
		if b := acquire(t, m, k, fleet.Ask{}); b.Grant != fleet.GrantFresh || string(b.Entry.Data) != "v" || b.Entry.Fence != a.Fence || b.Entry.Fresh != time.Minute {
			t.Errorf("Acquire of a loaded key = %+v; want fresh", b)
		}
	})
}

// A slow Watcher is in a call when it is stopped.
type slow struct {
	heard
	takes time.Duration
}

func (s *slow) Changed(name string, fence uint64, removed bool) {
	time.Sleep(s.takes)
	s.heard.Changed(name, fence, removed)
}

func TestMemoryStopWaitsForTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		w := &slow{takes: time.Second}
		stop, err := m.Watch("n", w)
		if err != nil {
			t.Fatalf("Watch = %v; want nil", err)
		}
		for range 2 {
			if _, err := m.Write(t.Context(), testKey, fleet.Write{}); err != nil {
				t.Fatalf("Write = %v; want nil", err)
			}
		}
		synctest.Wait() // in the first call
		start := time.Now()
		stop()
		if d := time.Since(start); d != time.Second {
			t.Errorf("stop returned after %v; want 1s, at the end of the call in progress", d)
		}
		w.want(t, "changed k true")
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("Close = %v; want nil", err)
		}
		stop()
	})
}

func TestMemorySlowWatcherIsToldReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		defer m.Close(context.Background())
		w := &slow{takes: time.Minute}
		stop, err := m.Watch("n", w)
		if err != nil {
			t.Fatalf("Watch = %v; want nil", err)
		}
		for i := range 20_000 {
			if i == 1 {
				synctest.Wait() // the first call is in progress
			}
			if _, err := m.Write(t.Context(), testKey, fleet.Write{}); err != nil {
				t.Fatalf("Write = %v; want nil", err)
			}
		}
		time.Sleep(time.Minute + time.Second) // the first call is over, and the next has begun
		stop()
		w.want(t, "changed k true", "reset", "changed k true")
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{MaxKeys: 10})
		defer m.Close(context.Background())
		key := func(i int) fleet.Key { return fleet.Key{Namespace: "n", Name: fmt.Sprint(i)} }
		lost := acquire(t, m, key(0), fleet.Ask{})
		last := lost.Fence
		for i := range 1000 {
			a := acquire(t, m, key(i%50+1), fleet.Ask{NewerThan: fleet.AnyFence})
			last = max(last, a.Fence)
			if m.Len() > 10 {
				t.Fatalf("Len = %d; want at most 10", m.Len())
			}
		}
		if ok, err := m.Settle(t.Context(), key(0), lost.Fence, fleet.Outcome{Entry: &fleet.Entry{Keep: time.Hour}}); ok || err != nil {
			t.Errorf("Settle of a dropped key = %v, %v; want false", ok, err)
		}
		if a := acquire(t, m, key(0), fleet.Ask{}); a.Fence <= lost.Fence {
			t.Errorf("fence %d of a dropped key; want more than %d", a.Fence, lost.Fence)
		}
		tags := func(i int) []string { return []string{fmt.Sprint(i)} }
		for i := range 11 {
			if _, err := m.InvalidateTags(t.Context(), "n", tags(i), time.Hour); err != nil {
				t.Fatalf("InvalidateTags = %v; want nil", err)
			}
		}
		s, err := m.Tags(t.Context(), "n", []string{"", "0"})
		if err != nil || s.Each[0] != s.Last || s.Last == 0 {
			t.Errorf("Tags = %+v, %v; want the whole namespace invalidated, because there are too many tags", s, err)
		}
		rate := fleet.Rate{Permits: 1, Per: time.Second, Burst: 1}
		for i := range 20 {
			_, err := m.Take(t.Context(), key(i), rate, 1)
			if full := i >= 10; errors.Is(err, fleet.ErrUnavailable) != full {
				t.Errorf("Take of limit %d = %v; want unavailable: %v", i, err, full)
			}
		}
		time.Sleep(time.Second)
		if _, err := m.Take(t.Context(), key(99), rate, 1); err != nil {
			t.Errorf("Take when the others have expired = %v; want nil", err)
		}
	})
}

func TestMemoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		defer m.Close(context.Background())
		seq, err := m.InvalidateTags(t.Context(), "n", []string{"t"}, time.Hour)
		if err != nil {
			t.Fatalf("InvalidateTags = %v; want nil", err)
		}
		acquire(t, m, testKey, fleet.Ask{})
		time.Sleep(time.Hour - 1)
		if s, _ := m.Tags(t.Context(), "n", []string{"t"}); s.Each[0] != seq {
			t.Errorf("Tags = %+v before keep has passed; want %d", s, seq)
		}
		time.Sleep(time.Nanosecond)
		if s, _ := m.Tags(t.Context(), "n", []string{"t"}); s.Each[0] != 0 || s.Last != seq {
			t.Errorf("Tags = %+v after keep; want none, last %d", s, seq)
		}
		time.Sleep(2 * time.Hour)
		acquire(t, m, fleet.Key{Name: "another"}, fleet.Ask{})
		if m.Len() != 1 {
			t.Errorf("Len = %d; want 1: a new key drops expired ones", m.Len())
		}
	})
}

func TestMemoryClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		h := &heard{}
		stop, err := m.Watch("n", h)
		if err != nil {
			t.Fatalf("Watch = %v; want nil", err)
		}
		for range 2 {
			if err := m.Close(context.Background()); err != nil {
				t.Errorf("Close = %v; want nil", err)
			}
		}
		fails(t, m, 0)
		_, err = m.Take(t.Context(), testKey, fleet.Rate{Permits: 1, Per: 1, Burst: 1}, 1)
		if !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Take after Close = %v; want ErrUnavailable", err)
		}
		if _, err := m.Watch("n", h); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Watch after Close = %v; want ErrUnavailable", err)
		}
		stop()
		h.want(t)
	})
}
