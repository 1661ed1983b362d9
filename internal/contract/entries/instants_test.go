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
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

func TestE1FourInstantsCountFromTheLoadsEnd(t *testing.T) {
	down := rig.StaleOnError // shadowed below for the cause errDry
	for _, row := range []struct {
		at    time.Duration
		err   error // of the second load
		want  weir.Result[int]
		loads int
	}{
		{2 * sec, nil, rig.Fresh(1, 0), 1},
		{82*sec - 1, nil, rig.Fresh(1, 80*sec-1), 1},
		{82 * sec, nil, rig.Fresh(1, 80*sec), 2},
		{102*sec - 1, nil, rig.Fresh(1, 100*sec-1), 2},
		{102 * sec, nil, rig.Stale(1, 100*sec), 2},
		{152*sec - 1, nil, rig.Stale(1, 150*sec-1), 2},
		{152 * sec, nil, rig.Loaded(2), 2},
		{502 * sec, nil, rig.Loaded(2), 2},

		{82 * sec, rig.ErrDown, rig.Fresh(1, 80*sec), 2},
		{102 * sec, rig.ErrDown, rig.Stale(1, 100*sec), 2},
		{152*sec - 1, rig.ErrDown, rig.Stale(1, 150*sec-1), 2},
		{152 * sec, rig.ErrDown, down(1, 150*sec, rig.ErrDown), 2},
		{502*sec - 1, rig.ErrDown, down(1, 500*sec-1, rig.ErrDown), 2},
		{502 * sec, rig.ErrDown, rig.Failure(rig.ErrDown), 2},
	} {
		t.Run(fmt.Sprintf("%v/%v", row.at, row.err), func(t *testing.T) {
			rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
				s.Set(2*sec, nil)
				s.Want(s.Get("k"), rig.Loaded(1))
				s.Set(0, row.err)
				s.Until(row.at)
				s.Want(s.Get("k"), row.want)
				if s.Now() != row.at {
					s.Errorf("Get took %v; want it at once", s.Now()-row.at)
				}
				s.WantLoads(row.loads)
			})
		})
	}
}

// Callers wait for the load that is tried before the fourth instant, and the
// bound on the age holds when the value is returned, not when it was requested.
func TestE1AgeIsBoundedWhenTheAnswerIsGiven(t *testing.T) {
	for _, row := range []struct {
		asked time.Duration
		want  weir.Result[int]
	}{
		{490 * sec, rig.StaleOnError(1, 495*sec, rig.ErrDown)},
		{495*sec - 1, rig.StaleOnError(1, 500*sec-1, rig.ErrDown)},
		{495 * sec, rig.Failure(rig.ErrDown)},
	} {
		rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
			s.Prime("k")
			s.Set(5*sec, rig.ErrDown)
			s.Until(row.asked)
			s.WantAt(s.Ask("k"), row.asked+5*sec, row.want)
		})
	}
}

func TestE1TTLAloneServesNothingStale(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 10 * sec}, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(10*sec - 1)
		s.Want(s.Get("k"), rig.Fresh(1, 10*sec-1))
		s.Until(10 * sec)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
		if r, ok := s.G.Peek("k"); ok {
			s.Errorf("Peek = %+v, true; want nothing", r)
		}
		s.WantLoads(2)
	})
}

func TestE1NoTTLKeepsNothing(t *testing.T) {
	rig.Play(t, weir.Options{StaleWhileRevalidate: sec, StaleIfError: sec}, func(s *rig.Scene) {
		s.Want(s.Get("k"), rig.Loaded(1))
		s.Want(s.Get("k"), rig.Loaded(2))
		if n := s.G.Stats().Entries; n != 0 {
			s.Errorf("Stats().Entries = %d; want 0", n)
		}
	})
}

func TestE1SoftTimeoutServesStaleAndTheLoadGoesOn(t *testing.T) {
	o := rig.FourInstants
	o.SoftTimeout = 3 * sec
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(10*sec, nil)
		s.Until(200 * sec)
		first := s.Ask("k")
		s.Until(202 * sec)
		second := s.Ask("k") // leaves when the load, not itself, has run 3 s
		s.WantAt(first, 203*sec, rig.StaleOnError(1, 203*sec, context.DeadlineExceeded))
		s.WantAt(second, 203*sec, rig.Joined(rig.StaleOnError(1, 203*sec, context.DeadlineExceeded)))
		var soft *weir.TimeoutError
		if !errors.As(first.Cause, &soft) || !soft.Soft || soft.After != 3*sec {
			s.Errorf("Cause = %#v; want a soft *TimeoutError after 3s", first.Cause)
		}
		s.Until(205 * sec)
		s.WantAt(s.Ask("k"), 205*sec, rig.Joined(rig.StaleOnError(1, 205*sec, context.DeadlineExceeded)))
		s.Until(211 * sec) // no caller has waited for the load since, but it has succeeded
		s.Want(s.Get("k"), rig.Fresh(2, sec))
		s.WantLoads(2)
	})
}

// A load that fails, or succeeds, before the soft timeout is not affected by
// it; and without a stale value there is no soft timeout.
func TestE1SoftTimeoutIsNoTimeout(t *testing.T) {
	o := rig.FourInstants
	o.SoftTimeout = 3 * sec
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(10*sec, nil)
		s.WantAt(s.Ask("k"), 10*sec, rig.Loaded(1))
		s.Set(3*sec-1, nil)
		s.Until(210 * sec)
		s.WantAt(s.Ask("k"), 213*sec-1, rig.Loaded(2))
		s.Until(600 * sec)
		s.Set(3*sec-1, rig.ErrDown)
		s.WantAt(s.Ask("k"), 603*sec-1, rig.StaleOnError(2, 390*sec, rig.ErrDown))
	})
}

func TestE1RefusalServesStaleWithItsCause(t *testing.T) {
	gate := &rig.Gate{}
	o := rig.FourInstants
	o.Limiter = gate
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		gate.Shut.Store(true)
		s.Until(200 * sec)
		s.Want(s.Get("k"), rig.StaleOnError(1, 200*sec, limit.ErrLimited))
		s.Until(500 * sec)
		s.Want(s.Get("k"), rig.Failure(limit.ErrLimited))
	})
}

func TestE1HardTimeoutIs30sByDefault(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 10 * sec, StaleIfError: 100 * sec}, func(s *rig.Scene) {
		s.Set(time.Hour, nil)
		a := s.Ask("k")
		s.WantAt(a, 30*sec, rig.Failure(context.DeadlineExceeded))
		var hard *weir.TimeoutError
		if !errors.As(a.Err, &hard) || hard.Soft || hard.After != weir.DefaultLoadTimeout {
			s.Errorf("Err = %#v; want a hard *TimeoutError after 30s", a.Err)
		}
		s.Set(0, nil)
		s.Prime("k")
		s.Set(time.Hour, nil)
		s.Until(41 * sec)
		s.WantAt(s.Ask("k"), 71*sec, rig.StaleOnError(2, 41*sec, context.DeadlineExceeded))
	})
}

// After a refresh the instants count from the end of the refresh.
func TestE1RefreshStartsTheInstantsAnew(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(5*sec, nil)
		s.Until(90 * sec)
		s.Want(s.Get("k"), rig.Fresh(1, 90*sec))
		s.Until(95*sec - 1)
		s.Want(s.Get("k"), rig.Fresh(1, 95*sec-1))
		s.Until(95 * sec)
		s.Want(s.Get("k"), rig.Fresh(2, 0))
		s.Until(175*sec - 1)
		s.Want(s.Get("k"), rig.Fresh(2, 80*sec-1))
		s.WantLoads(2)
		s.Want(s.Get("k"), rig.Fresh(2, 80*sec-1))
		s.Until(175 * sec)
		s.Want(s.Get("k"), rig.Fresh(2, 80*sec))
		s.WantLoads(3)
	})
}

// StaleIfError below StaleWhileRevalidate has no effect.
func TestE1InstantsAreInOrder(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 10 * sec, StaleWhileRevalidate: 20 * sec, StaleIfError: 5 * sec}, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(30*sec - 1)
		s.Want(s.Get("k"), rig.Stale(1, 30*sec-1))
		s.Until(30 * sec)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
	})
}

func TestE1TTLJitterShortensWithinItsShare(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 100 * sec, TTLJitter: 0.3}, func(s *rig.Scene) {
		const n = 200
		keys := rig.SpringKeys(n)
		for _, key := range keys {
			s.Prime(key)
		}
		alive := func() (n int) {
			for _, key := range keys {
				if _, ok := s.G.Peek(key); ok {
					n++
				}
			}
			return n
		}
		s.Until(70*sec - 1)
		if got := alive(); got != n {
			s.Errorf("%d of %d fresh at the least TTL; want all", got, n)
		}
		s.Until(85 * sec)
		if got := alive(); got < n/4 || got > 3*n/4 {
			s.Errorf("%d of %d fresh half way; want about half", got, n)
		}
		s.Until(100 * sec)
		if got := alive(); got != 0 {
			s.Errorf("%d fresh at the TTL; want none", got)
		}
	})
}

func TestE2RefreshAheadJitterBounds(t *testing.T) {
	for _, row := range []struct {
		jitter   float64 // as in Options
		from, to time.Duration
	}{
		{0, 70 * sec, 80 * sec},
		{0.3, 50 * sec, 80 * sec},
		{-1, 80 * sec, 80 * sec},
	} {
		o := weir.Options{TTL: 100 * sec, RefreshAhead: 0.2, RefreshJitter: row.jitter, MaxRefreshes: 1000}
		rig.Play(t, o, func(s *rig.Scene) {
			const n, step = 200, 100 * time.Millisecond
			keys := rig.SpringKeys(n)
			for _, key := range keys {
				s.Prime(key)
			}
			for at := row.from - sec; at <= 81*sec; at += step {
				s.Until(at)
				for _, key := range keys {
					s.Get(key)
				}
			}
			refreshes := s.Loads()[n:]
			if len(refreshes) != n {
				s.Fatalf("jitter %v: %d refreshes; want %d", row.jitter, len(refreshes), n)
			}
			var sum time.Duration
			for _, c := range refreshes {
				if c.At < row.from || c.At > row.to+step {
					s.Errorf("jitter %v: refresh at %v; want from %v to %v", row.jitter, c.At, row.from, row.to)
				}
				sum += c.At
			}
			middle := (row.from + row.to) / 2
			if mean := sum / n; mean < middle-2*sec || mean > middle+2*sec {
				s.Errorf("jitter %v: refreshes at %v in the mean; want about %v", row.jitter, mean, middle)
			}
		})
	}
}

func TestE2FailedRefreshPausesForRefreshRetry(t *testing.T) {
	o := rig.FourInstants
	o.RefreshRetry = 3 * sec
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(sec, rig.ErrDown)
		for at := 75 * sec; at <= 90*sec; at += sec / 2 {
			s.Until(at)
			s.Want(s.Get("k"), rig.Fresh(1, at))
		}
		var at []time.Duration
		for _, c := range s.Loads()[1:] {
			at = append(at, c.At)
		}
		// Each took a second, and the pause, 3 s and then 6 s, counts from its end.
		if want := []time.Duration{80 * sec, 84 * sec}; fmt.Sprint(at) != fmt.Sprint(want) {
			s.Errorf("refreshes at %v; want %v", at, want)
		}
	})
}

func TestE2RefreshRetryIsASecondByDefault(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(110 * sec)
		s.Want(s.Get("k"), rig.Stale(1, 110*sec))
		s.WantLoads(2)
		s.Until(111*sec - 1)
		s.Want(s.Get("k"), rig.Stale(1, 111*sec-1))
		s.WantLoads(2)
		s.Until(111 * sec)
		s.Want(s.Get("k"), rig.Stale(1, 111*sec))
		s.WantLoads(3)
	})
}

// 1,000 hits on an entry that is due for a refresh start one.
func TestE2OneRefreshForAllHits(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(sec, nil)
		s.Until(110 * sec)
		for range 1000 {
			go s.Get("k")
		}
		s.WantLoads(2)
		if st := s.G.Stats(); st.Refreshing != 1 || st.StaleHits != 1000 {
			s.Errorf("Stats: Refreshing, StaleHits = %d, %d; want 1, 1000", st.Refreshing, st.StaleHits)
		}
		s.Until(120 * sec)
	})
}

func TestE3SourceDownForTenTTLs(t *testing.T) {
	base := weir.Options{TTL: 10 * sec, RefreshAhead: 0.5, StaleWhileRevalidate: 5 * sec, StaleIfError: 30 * sec}
	memo := base
	memo.FailureMemo.Transient = weir.Backoff{Initial: 700 * time.Millisecond, Max: 4 * sec}
	soft := base
	soft.SoftTimeout = sec
	for _, row := range []struct {
		name  string
		o     weir.Options
		takes time.Duration
	}{
		{"fails at once", base, 0},
		{"fails slowly", base, 3 * sec},
		{"hangs", base, time.Hour},
		{"memo", memo, 0},
		{"memo, fails slowly", memo, 3 * sec},
		{"soft timeout, hangs", soft, time.Hour},
	} {
		t.Run(row.name, func(t *testing.T) {
			rig.Play(t, row.o, func(s *rig.Scene) {
				s.Prime("k")
				s.Set(row.takes, rig.ErrDown)
				var served atomic.Int64
				for at := time.Duration(0); at < 110*sec; at += 100 * time.Millisecond {
					s.Until(at)
					go func() {
						r := s.Get("k")
						switch {
						case r.Err != nil:
						case r.Value != 1 || r.Age != s.Now() || r.Age >= 40*sec:
							s.Errorf("at %v: served %d of age %v; want 1, younger than 40s", s.Now(), r.Value, r.Age)
						default:
							served.Add(1)
						}
					}()
					synctest.Wait()
				}
				if n := served.Load(); n < 150 { // those of the first 15 s at least
					s.Errorf("%d calls were served; want 150 at least", n)
				}
				s.Until(200 * sec)
				if st := s.G.Stats(); st.Running > 0 && row.takes < time.Hour {
					s.Errorf("%d loads run at the end; want 0", st.Running)
				}
				if err := s.G.Close(s.Context()); err != nil {
					s.Error(err)
				}
			})
		})
	}
}

func TestE3FailedRefreshNeverRenews(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		for _, at := range []time.Duration{80 * sec, 99 * sec, 120 * sec, 149 * sec} {
			s.Until(at)
			s.Get("k")
			if r := s.G.RefreshResult(s.Context(), "k"); !errors.Is(r.Err, rig.ErrDown) {
				s.Errorf("Refresh = %v; want %v", r.Err, rig.ErrDown)
			}
		}
		s.Until(150*sec - 1)
		s.Want(s.Get("k"), rig.Stale(1, 150*sec-1))
		s.Until(150 * sec)
		s.Want(s.Get("k"), rig.StaleOnError(1, 150*sec, rig.ErrDown))
		s.Until(500 * sec)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
	})
}
