package entries_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/contract/rig"
)

// E1: a caller with a deadline gets the stale value before it if the source
// hangs, with or without a soft timeout.
func TestE1CallerWithADeadlineIsServedStaleBeforeIt(t *testing.T) {
	for _, row := range []struct {
		soft, has, after time.Duration
		own              bool // the Options' soft timeout ends the wait
	}{
		{0, 2 * sec, 1900 * ms, false},
		{0, 100 * ms, 95 * ms, false},
		{0, 10 * ms, 9 * ms, false}, // at least a millisecond is left
		{0, ms, 0, false},
		{0, ms / 2, 0, false},
		{0, 10000 * time.Hour, 9500 * time.Hour, false},
		{5 * sec, 2 * sec, 1900 * ms, false},
		{sec, 2 * sec, sec, true},
		{sec, time.Hour, sec, true},
	} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			o := weir.Options{TTL: 10 * sec, StaleIfError: 20000 * time.Hour, SoftTimeout: row.soft, LoadTimeout: -1}
			rig.Play(t, o, func(s *rig.Scene) {
				s.Prime("k")
				s.Set(15000*time.Hour, nil)
				s.Until(20 * sec)
				ctx, cancel := context.WithTimeout(s.Context(), row.has)
				defer cancel()
				a := s.AskWith(ctx, "k")
				s.WantAt(a, 20*sec+row.after, rig.StaleOnError(1, 20*sec+row.after, context.DeadlineExceeded))
				var why *weir.TimeoutError
				if !errors.As(a.Cause, &why) || !why.Soft || why.After != row.after || why.Caller == row.own {
					s.Errorf("Cause = %#v; want a soft *TimeoutError after %v", a.Cause, row.after)
				}
				s.WantLoads(2)
				if n := s.G.Stats().Running; n != 1 {
					s.Errorf("%d loads run; want the load to go on", n)
				}
			})
		})
	}
}

// E1, F2: a caller without a stale value or a deadline waits, and one that is canceled
// leaves, as before.
func TestE1DeadlineWithoutAStaleValue(t *testing.T) {
	o := weir.Options{TTL: 10 * sec, StaleIfError: time.Minute, LoadTimeout: time.Hour}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(10*sec, nil)
		s.Until(20 * sec)
		canceled, cancel := context.WithTimeoutCause(s.Context(), 10*sec, rig.ErrDown)
		left := s.AskWith(canceled, "k")
		patient := s.Ask("k") // it has no deadline
		short, end := context.WithTimeoutCause(s.Context(), 2*sec, rig.ErrDown)
		defer end()
		none := s.AskWith(short, "other")
		s.WantAt(none, 22*sec, rig.Failure(rig.ErrDown)) // at the deadline, with its own cause
		s.Until(25 * sec)
		cancel()
		s.WantAt(left, 25*sec, rig.Failure(context.Canceled))
		s.WantAt(patient, 30*sec, rig.Joined(rig.Loaded(2)))
	})
	rig.Play(t, o, func(s *rig.Scene) { // a result before the margin is the answer
		s.Prime("k")
		s.Set(1900*ms-1, nil)
		s.Until(20 * sec)
		ctx, cancel := context.WithTimeout(s.Context(), 2*sec)
		defer cancel()
		s.WantAt(s.AskWith(ctx, "k"), 21900*ms-1, rig.Loaded(2))
	})
}

// E1: Refresh gets no stale value, and an invalidated one is not served.
func TestE1DeadlineOfRefreshAndAfterInvalidate(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 10 * sec, StaleIfError: time.Hour}, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(time.Hour, nil)
		s.Until(20 * sec)
		ctx, cancel := context.WithTimeoutCause(s.Context(), 2*sec, rig.ErrDown)
		defer cancel()
		if r := s.G.RefreshResult(ctx, "k"); r.Err != rig.ErrDown || s.Now() != 22*sec {
			s.Errorf("Refresh = %+v at %v; want its own cause at 22s", r, s.Now())
		}
		next, cancel2 := context.WithTimeoutCause(s.Context(), 2*sec, rig.ErrDown)
		defer cancel2()
		a := s.AskWith(next, "k")
		s.G.Invalidate(s.Context(), "k")
		s.WantAt(a, 24*sec, rig.Failure(rig.ErrDown))
	})
}

// E1, B3: a GetMany is answered at once for all keys with a stale value.
func TestE1DeadlineOfGetMany(t *testing.T) {
	for _, bulk := range []bool{false, true} {
		edit := func(src *weir.Source[string, int]) {
			if one := src.LoadEntry; bulk {
				src.LoadEntries = func(ctx context.Context, keys []string, prev []weir.Previous[int]) (map[string]weir.Entry[int], error) {
					e, err := one(ctx, keys[0], prev[0])
					m := make(map[string]weir.Entry[int])
					for _, key := range keys {
						m[key] = e
					}
					return m, err
				}
			}
		}
		rig.PlayFrom(t, weir.Options{TTL: 10 * sec, StaleIfError: time.Hour}, edit, func(s *rig.Scene) {
			s.G.GetMany(s.Context(), []string{"a", "b"})
			s.Set(time.Hour, nil)
			s.Until(20 * sec)
			ask := func(keys ...string) (map[string]weir.Result[int], time.Duration) {
				ctx, cancel := context.WithTimeout(s.Context(), 2*sec)
				defer cancel()
				from := s.Now()
				return s.G.GetMany(ctx, keys), s.Now() - from
			}
			for _, keys := range [][]string{{"a", "b"}, {"none", "a", "b"}, {"a", "none", "b"}} {
				r, took := ask(keys...)
				want := 1900 * ms
				if len(keys) == 3 {
					want = 2 * sec // for the key without a value
				}
				if took != want || r["a"].State != weir.StateStaleOnError || r["b"].State != weir.StateStaleOnError || len(keys) == 3 && r["none"].Err == nil {
					s.Errorf("bulk %v, GetMany(%v) = %+v after %v; want stale values after %v", bulk, keys, r, took, want)
				}
			}
		})
	}
}

// A slowTier is slow to settle.
type slowTier struct {
	fleet.Tier
	takes atomic.Int64 // nanoseconds
}

func (s *slowTier) Settle(ctx context.Context, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.Tier.Settle(ctx, k, fence, o)
}

// E1, T4: the same with a fleet: while another instance holds the lease, and while
// the result of a load is being written to the Tier.
func TestE1DeadlineInAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rig.NewSite(t, nil)
		tier := &slowTier{Tier: fleet.NewMemory(fleet.MemoryOptions{})}
		s.Tier = tier
		gs := s.Instances(3, func(o *weir.Options) { o.TTL, o.StaleIfError = 10*sec, time.Hour })
		s.Get(gs[0], "k", 0)
		s.Get(gs[1], "k", 0)
		time.Sleep(20 * sec)
		s.Takes = 20 * sec
		served := func(name string, g *weir.Guard[string, rig.Row], state weir.State) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 2*sec)
			defer cancel()
			from := time.Now()
			r := g.GetResult(ctx, "k")
			if took := time.Since(from); r.Err != nil || r.State != state || took != 1900*ms {
				t.Errorf("%s: %+v after %v; want %v after 1.9s", name, r, took, state)
			}
		}
		served("the one that loads", gs[0], weir.StateStaleOnError)
		served("one that has a value", gs[1], weir.StateStaleOnError)
		served("one that has none", gs[2], weir.StateStaleOnError)
		tier.takes.Store(int64(10 * sec))
		time.Sleep(15 * sec) // the load has returned, and is being settled
		served("settling", gs[0], weir.StateStaleOnError)
		time.Sleep(time.Minute)
	})
}

// E6: a Set that stores nothing returns ErrNotStored and overtakes the running
// load.
func TestE6SetThatStoresNothingSaysSo(t *testing.T) {
	forever := weir.Options{TTL: time.Hour, MaxWeight: 10}
	for name, row := range map[string]struct {
		o     weir.Options
		entry weir.Entry[int]
		want  error
	}{
		"no TTL":             {weir.Options{}, weir.Entry[int]{}, weir.ErrNotStored},
		"a TTL of none":      {forever, weir.Entry[int]{TTL: weir.None}, weir.ErrNotStored},
		"too heavy":          {forever, weir.Entry[int]{Weight: 11}, weir.ErrNotStored},
		"NoStore":            {forever, weir.Entry[int]{NoStore: true}, weir.ErrNotStored},
		"as heavy as it may": {forever, weir.Entry[int]{Weight: 10}, nil},
		"a TTL of its own":   {weir.Options{}, weir.Entry[int]{TTL: time.Hour}, nil},
		"a window alone":     {weir.Options{}, weir.Entry[int]{TTL: weir.None, StaleIfError: time.Hour}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Play(t, row.o, func(s *rig.Scene) {
				s.Set(sec, nil)
				a := s.Ask("k")
				row.entry.Value = 7
				if err := s.G.SetEntry(s.Context(), "k", row.entry); !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
					s.Errorf("SetEntry = %v; want %v", err, row.want)
				}
				s.WantAt(a, sec, rig.Superseded(rig.Loaded(1)))
				if r, kept := s.G.Peek("k"); kept != (row.want == nil) || kept && r.Value != 7 {
					s.Errorf("Peek = %+v, %v; want only what was set", r, kept)
				}
				if err := s.G.Set(s.Context(), "k", 7); (err == nil) != (row.o.TTL > 0) || err != nil && !errors.Is(err, weir.ErrNotStored) {
					s.Errorf("Set = %v; want an error without a TTL", err)
				}
			})
		})
	}
	rig.InFleet(t, func(s *rig.Site) { // a value too heavy for memory is in the Tier
		src := weir.Source[string, rig.Row]{Load: s.Load, Weigh: func(string, rig.Row) uint32 { return 1 }}
		gs := make([]*weir.Guard[string, rig.Row], 2)
		for i := range gs {
			gs[i] = rig.SiteGuard(s, src, weir.Options{TTL: time.Minute, MaxWeight: 10})
		}
		if err := gs[0].SetEntry(s.Context(), "k", weir.Entry[rig.Row]{Value: rig.Row{Key: "k", Version: 7}, Weight: 11}); err != nil {
			s.Errorf("SetEntry = %v; want nil", err)
		}
		for _, g := range gs {
			if r := s.Get(g, "k", 7); r.Source != weir.FromTier {
				s.Errorf("Source = %v; want the Tier", r.Source)
			}
		}
		if err := gs[0].SetEntry(s.Context(), "k", weir.Entry[rig.Row]{Value: rig.Row{Key: "k", Version: 8}, Weight: 11, NoStore: true}); !errors.Is(err, weir.ErrNotStored) {
			s.Errorf("SetEntry = %v; want ErrNotStored", err)
		}
	})
}

// E9: after Close Peek returns what Get does.
func TestE9PeekAfterCloseIsForFreshEntriesOnly(t *testing.T) {
	o := rig.FourInstants
	o.NegativeTTL = 100 * sec
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, weir.ErrNotFound)
		s.Get("none")
		s.G.Close(s.Context())
		for _, at := range []time.Duration{99 * sec, 100 * sec, 149 * sec, 150 * sec, 499 * sec, 500 * sec} {
			s.Until(at)
			for _, key := range []string{"k", "none"} {
				r, ok := s.G.Peek(key)
				got := s.Get(key)
				if ok != (at < 100*sec) || ok != (got.Err != weir.ErrClosed) {
					s.Errorf("at %v: Peek(%s) = %+v, %v, and Get = %+v; want a fresh one, or nothing", at, key, r, ok, got)
				}
			}
		}
	})
}
