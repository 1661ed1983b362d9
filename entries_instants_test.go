package weir_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// fourInstants are loaded at 0 by a load of 2 s, so that the instants lie at
// 82 s, 102 s, 152 s and 502 s.
var fourInstants = weir.Options{
	TTL:                  100 * sec,
	RefreshAhead:         0.2,
	RefreshJitter:        -1,
	StaleWhileRevalidate: 50 * sec,
	StaleIfError:         400 * sec,
}

func TestE1FourInstantsCountFromTheLoadsEnd(t *testing.T) {
	down := staleOnError // shadowed below for the cause errDry
	for _, row := range []struct {
		at    time.Duration
		err   error // of the second load
		want  weir.Result[int]
		loads int
	}{
		{2 * sec, nil, fresh(1, 0), 1},
		{82*sec - 1, nil, fresh(1, 80*sec-1), 1},
		{82 * sec, nil, fresh(1, 80*sec), 2},
		{102*sec - 1, nil, fresh(1, 100*sec-1), 2},
		{102 * sec, nil, stale(1, 100*sec), 2},
		{152*sec - 1, nil, stale(1, 150*sec-1), 2},
		{152 * sec, nil, loaded(2), 2},
		{502 * sec, nil, loaded(2), 2},

		{82 * sec, errDry, fresh(1, 80*sec), 2},
		{102 * sec, errDry, stale(1, 100*sec), 2},
		{152*sec - 1, errDry, stale(1, 150*sec-1), 2},
		{152 * sec, errDry, down(1, 150*sec, errDry), 2},
		{502*sec - 1, errDry, down(1, 500*sec-1, errDry), 2},
		{502 * sec, errDry, failure(errDry), 2},
	} {
		t.Run(fmt.Sprintf("%v/%v", row.at, row.err), func(t *testing.T) {
			play(t, fourInstants, func(s *scene) {
				s.set(2*sec, nil)
				s.want(s.get("k"), loaded(1))
				s.set(0, row.err)
				s.until(row.at)
				s.want(s.get("k"), row.want)
				if s.now() != row.at {
					s.Errorf("Get took %v; want it at once", s.now()-row.at)
				}
				s.wantLoads(row.loads)
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
		{490 * sec, staleOnError(1, 495*sec, errDry)},
		{495*sec - 1, staleOnError(1, 500*sec-1, errDry)},
		{495 * sec, failure(errDry)},
	} {
		play(t, fourInstants, func(s *scene) {
			s.prime("k")
			s.set(5*sec, errDry)
			s.until(row.asked)
			s.wantAt(s.ask("k"), row.asked+5*sec, row.want)
		})
	}
}

func TestE1TTLAloneServesNothingStale(t *testing.T) {
	play(t, weir.Options{TTL: 10 * sec}, func(s *scene) {
		s.prime("k")
		s.set(0, errDry)
		s.until(10*sec - 1)
		s.want(s.get("k"), fresh(1, 10*sec-1))
		s.until(10 * sec)
		s.want(s.get("k"), failure(errDry))
		if r, ok := s.g.Peek("k"); ok {
			s.Errorf("Peek = %+v, true; want nothing", r)
		}
		s.wantLoads(2)
	})
}

func TestE1NoTTLKeepsNothing(t *testing.T) {
	play(t, weir.Options{StaleWhileRevalidate: sec, StaleIfError: sec}, func(s *scene) {
		s.want(s.get("k"), loaded(1))
		s.want(s.get("k"), loaded(2))
		if n := s.g.Stats().Entries; n != 0 {
			s.Errorf("Stats().Entries = %d; want 0", n)
		}
	})
}

func TestE1SoftTimeoutServesStaleAndTheLoadGoesOn(t *testing.T) {
	o := fourInstants
	o.SoftTimeout = 3 * sec
	play(t, o, func(s *scene) {
		s.prime("k")
		s.set(10*sec, nil)
		s.until(200 * sec)
		first := s.ask("k")
		s.until(202 * sec)
		second := s.ask("k") // leaves when the load, not itself, has run 3 s
		s.wantAt(first, 203*sec, staleOnError(1, 203*sec, context.DeadlineExceeded))
		s.wantAt(second, 203*sec, joined(staleOnError(1, 203*sec, context.DeadlineExceeded)))
		var soft *weir.TimeoutError
		if !errors.As(first.Cause, &soft) || !soft.Soft || soft.After != 3*sec {
			s.Errorf("Cause = %#v; want a soft *TimeoutError after 3s", first.Cause)
		}
		s.until(205 * sec)
		s.wantAt(s.ask("k"), 205*sec, joined(staleOnError(1, 205*sec, context.DeadlineExceeded)))
		s.until(211 * sec) // no caller has waited for the load since, but it has succeeded
		s.want(s.get("k"), fresh(2, sec))
		s.wantLoads(2)
	})
}

// A load that fails, or succeeds, before the soft timeout is not affected by
// it; and without a stale value there is no soft timeout.
func TestE1SoftTimeoutIsNoTimeout(t *testing.T) {
	o := fourInstants
	o.SoftTimeout = 3 * sec
	play(t, o, func(s *scene) {
		s.set(10*sec, nil)
		s.wantAt(s.ask("k"), 10*sec, loaded(1))
		s.set(3*sec-1, nil)
		s.until(210 * sec)
		s.wantAt(s.ask("k"), 213*sec-1, loaded(2))
		s.until(600 * sec)
		s.set(3*sec-1, errDry)
		s.wantAt(s.ask("k"), 603*sec-1, staleOnError(2, 390*sec, errDry))
	})
}

func TestE1RefusalServesStaleWithItsCause(t *testing.T) {
	gate := &gate{}
	o := fourInstants
	o.Limiter = gate
	play(t, o, func(s *scene) {
		s.prime("k")
		gate.shut.Store(true)
		s.until(200 * sec)
		s.want(s.get("k"), staleOnError(1, 200*sec, limit.ErrLimited))
		s.until(500 * sec)
		s.want(s.get("k"), failure(limit.ErrLimited))
	})
}

func TestE1HardTimeoutIs30sByDefault(t *testing.T) {
	play(t, weir.Options{TTL: 10 * sec, StaleIfError: 100 * sec}, func(s *scene) {
		s.set(time.Hour, nil)
		a := s.ask("k")
		s.wantAt(a, 30*sec, failure(context.DeadlineExceeded))
		var hard *weir.TimeoutError
		if !errors.As(a.Err, &hard) || hard.Soft || hard.After != weir.DefaultLoadTimeout {
			s.Errorf("Err = %#v; want a hard *TimeoutError after 30s", a.Err)
		}
		s.set(0, nil)
		s.prime("k")
		s.set(time.Hour, nil)
		s.until(41 * sec)
		s.wantAt(s.ask("k"), 71*sec, staleOnError(2, 41*sec, context.DeadlineExceeded))
	})
}

// After a refresh the instants count from the end of the refresh.
func TestE1RefreshStartsTheInstantsAnew(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		s.prime("k")
		s.set(5*sec, nil)
		s.until(90 * sec)
		s.want(s.get("k"), fresh(1, 90*sec))
		s.until(95*sec - 1)
		s.want(s.get("k"), fresh(1, 95*sec-1))
		s.until(95 * sec)
		s.want(s.get("k"), fresh(2, 0))
		s.until(175*sec - 1)
		s.want(s.get("k"), fresh(2, 80*sec-1))
		s.wantLoads(2)
		s.want(s.get("k"), fresh(2, 80*sec-1))
		s.until(175 * sec)
		s.want(s.get("k"), fresh(2, 80*sec))
		s.wantLoads(3)
	})
}

// StaleIfError below StaleWhileRevalidate has no effect.
func TestE1InstantsAreInOrder(t *testing.T) {
	play(t, weir.Options{TTL: 10 * sec, StaleWhileRevalidate: 20 * sec, StaleIfError: 5 * sec}, func(s *scene) {
		s.prime("k")
		s.set(0, errDry)
		s.until(30*sec - 1)
		s.want(s.get("k"), stale(1, 30*sec-1))
		s.until(30 * sec)
		s.want(s.get("k"), failure(errDry))
	})
}

func TestE1TTLJitterShortensWithinItsShare(t *testing.T) {
	play(t, weir.Options{TTL: 100 * sec, TTLJitter: 0.3}, func(s *scene) {
		const n = 200
		keys := springKeys(n)
		for _, key := range keys {
			s.prime(key)
		}
		alive := func() (n int) {
			for _, key := range keys {
				if _, ok := s.g.Peek(key); ok {
					n++
				}
			}
			return n
		}
		s.until(70*sec - 1)
		if got := alive(); got != n {
			s.Errorf("%d of %d fresh at the least TTL; want all", got, n)
		}
		s.until(85 * sec)
		if got := alive(); got < n/4 || got > 3*n/4 {
			s.Errorf("%d of %d fresh half way; want about half", got, n)
		}
		s.until(100 * sec)
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
		play(t, o, func(s *scene) {
			const n, step = 200, 100 * time.Millisecond
			keys := springKeys(n)
			for _, key := range keys {
				s.prime(key)
			}
			for at := row.from - sec; at <= 81*sec; at += step {
				s.until(at)
				for _, key := range keys {
					s.get(key)
				}
			}
			refreshes := s.loads()[n:]
			if len(refreshes) != n {
				s.Fatalf("jitter %v: %d refreshes; want %d", row.jitter, len(refreshes), n)
			}
			var sum time.Duration
			for _, c := range refreshes {
				if c.at < row.from || c.at > row.to+step {
					s.Errorf("jitter %v: refresh at %v; want from %v to %v", row.jitter, c.at, row.from, row.to)
				}
				sum += c.at
			}
			middle := (row.from + row.to) / 2
			if mean := sum / n; mean < middle-2*sec || mean > middle+2*sec {
				s.Errorf("jitter %v: refreshes at %v in the mean; want about %v", row.jitter, mean, middle)
			}
		})
	}
}

func TestE2FailedRefreshPausesForRefreshRetry(t *testing.T) {
	o := fourInstants
	o.RefreshRetry = 3 * sec
	play(t, o, func(s *scene) {
		s.prime("k")
		s.set(sec, errDry)
		for at := 75 * sec; at <= 90*sec; at += sec / 2 {
			s.until(at)
			s.want(s.get("k"), fresh(1, at))
		}
		var at []time.Duration
		for _, c := range s.loads()[1:] {
			at = append(at, c.at)
		}
		// Each took a second, and the pause, 3 s and then 6 s, counts from its end.
		if want := []time.Duration{80 * sec, 84 * sec}; fmt.Sprint(at) != fmt.Sprint(want) {
			s.Errorf("refreshes at %v; want %v", at, want)
		}
	})
}

func TestE2RefreshRetryIsASecondByDefault(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		s.prime("k")
		s.set(0, errDry)
		s.until(110 * sec)
		s.want(s.get("k"), stale(1, 110*sec))
		s.wantLoads(2)
		s.until(111*sec - 1)
		s.want(s.get("k"), stale(1, 111*sec-1))
		s.wantLoads(2)
		s.until(111 * sec)
		s.want(s.get("k"), stale(1, 111*sec))
		s.wantLoads(3)
	})
}

// 1,000 hits on an entry that is due for a refresh start one.
func TestE2OneRefreshForAllHits(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		s.prime("k")
		s.set(sec, nil)
		s.until(110 * sec)
		for range 1000 {
			go s.get("k")
		}
		s.wantLoads(2)
		if st := s.g.Stats(); st.Refreshing != 1 || st.StaleHits != 1000 {
			s.Errorf("Stats: Refreshing, StaleHits = %d, %d; want 1, 1000", st.Refreshing, st.StaleHits)
		}
		s.until(120 * sec)
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
			play(t, row.o, func(s *scene) {
				s.prime("k")
				s.set(row.takes, errDry)
				var served atomic.Int64
				for at := time.Duration(0); at < 110*sec; at += 100 * time.Millisecond {
					s.until(at)
					go func() {
						r := s.get("k")
						switch {
						case r.Err != nil:
						case r.Value != 1 || r.Age != s.now() || r.Age >= 40*sec:
							s.Errorf("at %v: served %d of age %v; want 1, younger than 40s", s.now(), r.Value, r.Age)
						default:
							served.Add(1)
						}
					}()
					synctest.Wait()
				}
				if n := served.Load(); n < 150 { // those of the first 15 s at least
					s.Errorf("%d calls were served; want 150 at least", n)
				}
				s.until(200 * sec)
				if st := s.g.Stats(); st.Running > 0 && row.takes < time.Hour {
					s.Errorf("%d loads run at the end; want 0", st.Running)
				}
				if err := s.g.Close(s.Context()); err != nil {
					s.Error(err)
				}
			})
		})
	}
}

func TestE3FailedRefreshNeverRenews(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		s.prime("k")
		s.set(0, errDry)
		for _, at := range []time.Duration{80 * sec, 99 * sec, 120 * sec, 149 * sec} {
			s.until(at)
			s.get("k")
			if r := s.g.RefreshResult(s.Context(), "k"); !errors.Is(r.Err, errDry) {
				s.Errorf("Refresh = %v; want %v", r.Err, errDry)
			}
		}
		s.until(150*sec - 1)
		s.want(s.get("k"), stale(1, 150*sec-1))
		s.until(150 * sec)
		s.want(s.get("k"), staleOnError(1, 150*sec, errDry))
		s.until(500 * sec)
		s.want(s.get("k"), failure(errDry))
	})
}
