package flight_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

func TestF1FirstCallerLeavesLoadGoesOn(t *testing.T) {
	tell(t, func(s *story) {
		ends := make(chan run, 1)
		first := s.ask(s.until(100*ms), "k", s.load(time.Second, 42, ends))
		second := s.ask(s.Context(), "k", s.unwanted)
		s.want(first, 0, context.DeadlineExceeded, 100*ms)
		s.want(second, 42, nil, time.Second)
		s.wantEnd(ends, nil, time.Second)
	})
}

func TestF1FirstCallerCancelsLoadGoesOn(t *testing.T) {
	tell(t, func(s *story) {
		ends := make(chan run, 1)
		ctx, hangUp := s.cancelable()
		first := s.ask(ctx, "k", s.load(time.Second, 42, ends))
		second := s.ask(s.Context(), "k", s.unwanted)
		s.at(100 * ms)
		gone := errors.New("gone")
		hangUp(gone)
		s.want(first, 0, gone, 100*ms)
		s.want(second, 42, nil, time.Second)
		s.wantEnd(ends, nil, time.Second)
	})
}

func TestF2JoinersLeaveAtTheirOwnDeadline(t *testing.T) {
	tell(t, func(s *story) {
		// The load ignores its context, and outlasts all but the last.
		first := s.ask(s.until(30*ms), "k", deaf(time.Hour, 42))
		var joiners []*answer
		for i := range 10 {
			joiners = append(joiners, s.ask(s.until(time.Duration(20+i)*ms), "k", s.unwanted))
		}
		last := s.ask(s.Context(), "k", s.unwanted)
		for i, a := range joiners {
			s.want(a, 0, context.DeadlineExceeded, time.Duration(20+i)*ms)
		}
		s.want(first, 0, context.DeadlineExceeded, 30*ms)
		s.want(last, 42, nil, time.Hour)
	})
}

func TestF2JoinerLeavesWithItsOwnCause(t *testing.T) {
	tell(t, func(s *story) {
		hungUp, tooLate := errors.New("hung up"), errors.New("too late")
		a, cancel := s.cancelable()
		b, stop := context.WithTimeoutCause(s.Context(), 2*time.Second, tooLate)
		defer stop()
		first := s.ask(a, "k", deaf(time.Minute, 42))
		second := s.ask(b, "k", s.unwanted)
		s.at(time.Second)
		cancel(hungUp)
		s.want(first, 0, hungUp, time.Second)
		s.want(second, 0, tooLate, 2*time.Second)
		if second.Err != tooLate || first.Err != hungUp {
			s.Errorf("errors = %v, %v; want the causes themselves", first.Err, second.Err)
		}
		if second.Joiners != 0 || !second.Joined {
			s.Errorf("Joiners, Joined = %d, %v; want 0, true", second.Joiners, second.Joined)
		}
		s.at(time.Minute)
	})
}

func TestF2EndedContextStartsAndJoinsNothing(t *testing.T) {
	tell(t, func(s *story) {
		gone := errors.New("gone")
		over, cancel := s.cancelable()
		cancel(gone)
		s.want(s.ask(over, "k", s.unwanted), 0, gone, 0)
		if r := <-s.DoChan(over, "k", s.unwanted); r.Err != gone {
			s.Errorf("DoChan: %v; want %v", r.Err, gone)
		}
		s.wantLen(0)

		first := s.ask(s.Context(), "k", deaf(time.Second, 42))
		s.want(s.ask(over, "k", s.unwanted), 0, gone, 0)
		s.want(first, 42, nil, time.Second)
		if first.Joiners != 1 {
			s.Errorf("Joiners = %d; want 1: the ended context must not join", first.Joiners)
		}
	})
}

// A lateContext ends between the moment a caller has joined and the moment it
// begins to wait: it holds the caller up until the flight's result is there.
type lateContext struct {
	context.Context
	ready <-chan struct{} // closed when another joiner has the result
	over  chan struct{}   // closed
}

func (c lateContext) Done() <-chan struct{} {
	<-c.ready
	return c.over
}

func (c lateContext) Err() error {
	select {
	case <-c.ready:
		return context.Canceled
	default:
		return nil
	}
}

func TestF2ReadyResultWinsOverCancel(t *testing.T) {
	tell(t, func(s *story) {
		over := make(chan struct{})
		close(over)
		for range 64 { // a select between the two would be right half the time
			ready := make(chan struct{})
			first := s.ask(s.Context(), "k", deaf(ms, 42))
			second := s.ask(lateContext{s.Context(), ready, over}, "k", s.unwanted)
			<-first.done
			close(ready)
			s.want(second, 42, nil, first.at)
		}
	})
}

// The deadline and the load's end fall on one instant, so that they race. Either
// may win, but what the caller gets is whole.
func TestF2DeadlineAtTheInstantOfTheResult(t *testing.T) {
	tell(t, func(s *story) {
		for range 500 {
			end := s.now() + ms
			var joiners []*answer
			for range 4 {
				joiners = append(joiners, s.ask(s.until(end), "k", s.load(ms, 42, nil)))
			}
			for _, a := range joiners {
				<-a.done
				result := a.Value == 42 && a.Err == nil && a.Joiners == 4
				left := a.Value == 0 && a.Err == context.DeadlineExceeded && a.Joiners == 0
				if !result && !left || a.at != end {
					s.Fatalf("answer = %+v at %v; want 42 or the deadline at %v", a.Result, a.at, end)
				}
			}
			synctest.Wait()
			s.wantLen(0)
		}
	})
}

func TestF3LastJoinerLeavesCancels(t *testing.T) {
	tell(t, func(s *story) {
		ends := make(chan run, 1)
		first := s.ask(s.until(time.Second), "k", s.load(time.Hour, 42, ends))
		second := s.ask(s.until(3*time.Second), "k", s.unwanted)
		third := s.ask(s.until(2*time.Second), "k", s.unwanted)
		s.at(3*time.Second - 1)
		s.wantLen(1)
		if len(ends) > 0 {
			s.Error("cancelled while somebody waits")
		}
		s.at(3 * time.Second)
		s.wantLen(0)
		s.wantEnd(ends, flight.ErrAbandoned, 3*time.Second)
		s.want(first, 0, context.DeadlineExceeded, time.Second)
		s.want(second, 0, context.DeadlineExceeded, 3*time.Second)
		s.want(third, 0, context.DeadlineExceeded, 2*time.Second)
	})
}

func TestF3LastOfAThousandLeavesCancels(t *testing.T) {
	tell(t, func(s *story) {
		ends := make(chan run, 1)
		ctx := s.until(time.Second) // all at one instant
		for range 1000 {
			go s.Do(ctx, "k", s.load(time.Hour, 42, ends))
		}
		s.at(time.Second)
		s.wantLen(0)
		s.wantEnd(ends, flight.ErrAbandoned, time.Second)
	})
}

func TestF3GraceCancelsLater(t *testing.T) {
	tell(t, func(s *story) {
		s.Grace = time.Second
		ends := make(chan run, 1)
		s.want(s.ask(s.until(time.Second), "k", s.load(time.Hour, 42, ends)), 0, context.DeadlineExceeded, time.Second)
		s.at(2*time.Second - 1)
		s.wantLen(1)
		s.at(2 * time.Second)
		s.wantLen(0)
		s.wantEnd(ends, flight.ErrAbandoned, 2*time.Second)
	})
}

func TestF3GraceEndsWithALoadThatIsDone(t *testing.T) {
	tell(t, func(s *story) {
		s.Grace = time.Second
		ends := make(chan run, 1)
		s.ask(s.until(time.Second), "k", s.load(1500*ms, 42, ends))
		s.at(1500 * ms)
		s.wantEnd(ends, nil, 1500*ms)
		second := s.ask(s.Context(), "k", s.load(time.Second, 43, ends))
		s.want(second, 43, nil, 2500*ms) // the first one's grace ends in between
		s.wantEnd(ends, nil, 2500*ms)
	})
}

func TestF3GraceRejoinedAndLeftAgain(t *testing.T) {
	tell(t, func(s *story) {
		s.Grace = time.Second
		ends := make(chan run, 1)
		s.ask(s.until(time.Second), "k", s.load(time.Hour, 42, ends))
		s.at(1500 * ms)
		second := s.ask(s.until(1800*ms), "k", s.unwanted)
		s.want(second, 0, context.DeadlineExceeded, 1800*ms)
		s.at(2800*ms - 1) // the first departure's grace is over, the second's not
		s.wantLen(1)
		s.at(2800 * ms)
		s.wantLen(0)
		s.wantEnd(ends, flight.ErrAbandoned, 2800*ms)
	})
}

func TestF3GraceRejoinedGoesOn(t *testing.T) {
	tell(t, func(s *story) {
		s.Grace = time.Second
		ends := make(chan run, 1)
		s.ask(s.until(time.Second), "k", s.load(10*time.Second, 42, ends))
		s.at(1999 * ms)
		second := s.ask(s.Context(), "k", s.unwanted)
		s.want(second, 42, nil, 10*time.Second)
		s.wantEnd(ends, nil, 10*time.Second)
	})
}

func TestF3NeverRunsToItsEnd(t *testing.T) {
	tell(t, func(s *story) {
		s.Grace = flight.Never
		ends := make(chan run, 1)
		first := s.ask(s.until(time.Second), "k", s.load(time.Minute, 42, ends))
		s.want(first, 0, context.DeadlineExceeded, time.Second)
		s.at(30 * time.Second)
		second := s.ask(s.Context(), "k", s.unwanted)
		s.want(second, 42, nil, time.Minute)
		s.wantEnd(ends, nil, time.Minute)
		s.wantLen(0)
	})
}

func TestF4LateJoinerStartsNewFlight(t *testing.T) {
	tell(t, func(s *story) {
		first := s.ask(s.until(time.Second), "k", deaf(10*time.Second, 1))
		s.want(first, 0, context.DeadlineExceeded, time.Second)
		s.wantLen(0)
		s.at(2 * time.Second)
		second := s.ask(s.Context(), "k", deaf(18*time.Second, 2))
		s.at(11 * time.Second) // the first load has returned: it takes nothing with it
		s.wantLen(1)
		third := s.ask(s.Context(), "k", s.unwanted)
		s.want(second, 2, nil, 20*time.Second)
		s.want(third, 2, nil, 20*time.Second)
		if second.Joined || !third.Joined {
			s.Errorf("Joined = %v, %v; want false, true", second.Joined, third.Joined)
		}
	})
}

// A caller that comes at the very instant of the abandonment gets a healthy
// result, whether it was in time to save the load or not.
func TestF4JoinerAtTheInstantOfAbandonment(t *testing.T) {
	tell(t, func(s *story) {
		for range 500 {
			left := s.now() + ms
			s.ask(s.until(left), "k", s.load(2*ms, 42, nil))
			time.Sleep(ms)
			v, err := s.Do(s.Context(), "k", s.load(2*ms, 42, nil))
			if v != 42 || err != nil {
				s.Fatalf("Do = %d, %v; want 42, nil", v, err)
			}
			if wait := s.now() - left; wait != ms && wait != 2*ms {
				s.Fatalf("Do took %v; want 1ms (saved) or 2ms (anew)", wait)
			}
		}
	})
}

func TestF4NoZombie(t *testing.T) {
	type stamp struct {
		load int64
		end  time.Time
	}
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, stamp]
		var loads, seen atomic.Int64 // seen: the last load whose result a caller has
		load := func(context.Context) (stamp, error) {
			n := loads.Add(1)
			time.Sleep(2 * ms)
			return stamp{n, time.Now()}, nil
		}
		stop := time.Now().Add(700 * ms)
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for time.Now().Before(stop) {
					time.Sleep(time.Duration(rand.IntN(3*8)) * ms / 8)
					before, called := seen.Load(), time.Now()
					r, err := g.Do(t.Context(), "k", load)
					if err != nil || r.load <= before || r.end.Before(called) {
						t.Errorf("caller %d: result %d of %v, %v; called at %v, after a caller had %d", i, r.load, r.end, err, called, before)
					}
					if took := time.Since(called); took > 2*ms {
						t.Errorf("caller %d: %v; want 2ms at most", i, took)
					}
					for v := before; v < r.load && !seen.CompareAndSwap(v, r.load); v = seen.Load() {
					}
				}
			})
		}
		wg.Wait()
		if n := loads.Load(); n < 100 || n > 351 {
			t.Errorf("%d loads; want at most one at a time", n)
		}
	})
}

func TestF4NoDoomedJoin(t *testing.T) {
	tell(t, func(s *story) {
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() { // these hang up too early, again and again
				for s.now() < 200*ms {
					ctx, cancel := context.WithTimeout(s.Context(), time.Duration(rand.IntN(3))*ms/2)
					s.Do(ctx, "k", s.load(2*ms, 42, nil))
					cancel()
					time.Sleep(time.Duration(1+rand.IntN(8)) * ms / 8)
				}
			})
			wg.Go(func() {
				for s.now() < 200*ms {
					if v, err := s.Do(s.Context(), "k", s.load(2*ms, 42, nil)); v != 42 || err != nil {
						s.Errorf("Do of a patient caller = %d, %v; want 42, nil", v, err)
					}
					time.Sleep(time.Duration(1+rand.IntN(32)) * ms / 8)
				}
			})
		}
		wg.Wait()
	})
}
