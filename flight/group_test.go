package flight_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/weir-go/weir/flight"
)

func TestDoRunsOnceForAll(t *testing.T) {
	tell(t, func(s *story) {
		var answers []*answer
		for i := range 10 {
			s.at(time.Duration(i) * ms)
			answers = append(answers, s.ask(s.Context(), "k", deaf(10*ms, i)))
		}
		s.wantLen(1)
		for i, a := range answers {
			s.want(a, 0, nil, 10*ms)
			if a.Joined != (i > 0) || a.Joiners != 10 {
				s.Errorf("caller %d: Joined, Joiners = %v, %d; want %v, 10", i, a.Joined, a.Joiners, i > 0)
			}
		}
		s.wantLen(0)
		s.want(s.ask(s.Context(), "k", deaf(ms, 42)), 42, nil, 11*ms)
	})
}

func TestDoKeepsKeysApart(t *testing.T) {
	tell(t, func(s *story) {
		var answers []*answer
		for i := range 100 {
			answers = append(answers, s.ask(s.Context(), fmt.Sprint(i), deaf(time.Duration(100-i)*ms, i)))
		}
		s.wantLen(100)
		for i, a := range answers {
			s.want(a, i, nil, time.Duration(100-i)*ms)
		}
	})
}

// A value that the function returns with an error reaches the callers too.
func TestDoHandsOutValueAndError(t *testing.T) {
	tell(t, func(s *story) {
		partial := errors.New("partial")
		fn := func(context.Context) (int, error) { time.Sleep(ms); return 7, partial }
		first, second := s.ask(s.Context(), "k", fn), s.ask(s.Context(), "k", fn)
		s.want(first, 7, partial, ms)
		s.want(second, 7, partial, ms)
	})
}

func TestResultCountsThoseWhoLeft(t *testing.T) {
	tell(t, func(s *story) {
		stays := s.ask(s.Context(), "k", deaf(10*ms, 42))
		for range 3 {
			s.ask(s.until(5*ms), "k", s.unwanted)
		}
		s.want(stays, 42, nil, 10*ms)
		if stays.Joiners != 4 || stays.Joined {
			s.Errorf("Joiners, Joined = %d, %v; want 4, false", stays.Joiners, stays.Joined)
		}
	})
}

func TestTenThousandJoin(t *testing.T) {
	const n = 10_000
	tell(t, func(s *story) {
		var loads, wrong atomic.Int32
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				r := s.DoResult(s.Context(), "k", func(context.Context) (int, error) {
					loads.Add(1)
					time.Sleep(time.Second)
					return 42, nil
				})
				if r.Value != 42 || r.Err != nil || r.Joiners != n {
					wrong.Add(1)
				}
			})
		}
		wg.Wait()
		if loads.Load() != 1 || wrong.Load() != 0 || s.now() != time.Second {
			s.Errorf("%d loads, %d wrong results, after %v; want 1, 0, 1s", loads.Load(), wrong.Load(), s.now())
		}
	})
}

func TestForgetDuringARun(t *testing.T) {
	tell(t, func(s *story) {
		first := s.ask(s.Context(), "k", deaf(2*time.Second, 1))
		joiner := s.ask(s.Context(), "k", s.unwanted)
		s.at(time.Second)
		s.Forget("k")
		s.wantLen(0)
		second := s.ask(s.Context(), "k", deaf(3*time.Second, 2))
		s.want(first, 1, nil, 2*time.Second)
		s.want(joiner, 1, nil, 2*time.Second)
		s.wantLen(1) // the end of the forgotten run did not remove the new one
		third := s.ask(s.Context(), "k", s.unwanted)
		s.want(second, 2, nil, 4*time.Second)
		s.want(third, 2, nil, 4*time.Second)
		if first.Joiners != 2 || second.Joiners != 2 || second.Joined || !third.Joined {
			s.Errorf("first, second, third = %+v, %+v, %+v; want two joiners each", first.Result, second.Result, third.Result)
		}
	})
}

func TestForgottenRunIsStillAbandoned(t *testing.T) {
	tell(t, func(s *story) {
		ends := make(chan run, 1)
		s.ask(s.until(2*time.Second), "k", s.load(time.Hour, 1, ends))
		s.Forget("k")
		second := s.ask(s.Context(), "k", deaf(3*time.Second, 2))
		s.at(2 * time.Second)
		s.wantEnd(ends, flight.ErrAbandoned, 2*time.Second)
		s.wantLen(1)
		s.want(second, 2, nil, 3*time.Second)
	})
}

func TestForgetUnknownKeyIsNothing(t *testing.T) {
	tell(t, func(s *story) {
		s.Forget("k")
		first := s.ask(s.Context(), "k", deaf(time.Second, 1))
		s.Forget("other")
		s.wantLen(1)
		s.want(first, 1, nil, time.Second)
	})
}

func TestDoChanDeliversOnce(t *testing.T) {
	tell(t, func(s *story) {
		first := s.DoChan(s.Context(), "k", deaf(time.Second, 42))
		s.wantLen(1) // joined before DoChan returned
		second := s.DoChan(s.Context(), "k", s.unwanted)
		s.at(time.Minute) // no receiver yet: the results wait in the channels
		for i, ch := range []<-chan flight.Result[int]{first, second} {
			want := flight.Result[int]{Value: 42, Joined: i == 1, Joiners: 2}
			if r := <-ch; r != want {
				s.Errorf("DoChan %d: %+v; want %+v", i, r, want)
			}
			select {
			case r, open := <-ch:
				s.Errorf("DoChan %d: second receive returned %+v, %v; want it to block", i, r, open)
			default:
			}
		}
	})
}

func TestDoChanLeavesWhenItsContextEnds(t *testing.T) {
	tell(t, func(s *story) {
		ends := make(chan run, 1)
		ch := s.DoChan(s.until(time.Second), "k", s.load(time.Hour, 42, ends))
		if r := <-ch; r.Err != context.DeadlineExceeded || s.now() != time.Second {
			s.Errorf("DoChan: %+v at %v; want DeadlineExceeded at 1s", r, s.now())
		}
		s.wantEnd(ends, flight.ErrAbandoned, time.Second)
	})
}

// A load's context can outlive the load, in a goroutine that the load started. It must
// not keep loads in memory that ran at the same time.
func TestFinishedLoadHoldsNoOther(t *testing.T) {
	var g flight.Group[int, *[64]byte]
	var kept context.Context
	results := make([]weak.Pointer[[64]byte], 3)
	release := make([]chan struct{}, len(results))
	chans := make([]<-chan flight.Result[*[64]byte], len(results))
	for i := range results { // in sequence, each overlapping with the next
		release[i] = make(chan struct{})
		started := make(chan struct{})
		chans[i] = g.DoChan(t.Context(), i, func(ctx context.Context) (*[64]byte, error) {
			if i == 0 {
				kept = ctx
			}
			close(started)
			<-release[i]
			return new([64]byte), nil
		})
		<-started
		if i > 0 {
			close(release[i-1])
			results[i-1] = weak.Make((<-chans[i-1]).Value)
		}
	}
	close(release[2])
	results[2] = weak.Make((<-chans[2]).Value)
	runtime.GC()
	for i := 1; i < len(results); i++ {
		if results[i].Value() != nil {
			t.Errorf("the context of load 0 keeps load %d in memory", i)
		}
	}
	runtime.KeepAlive(kept)
}

// The zero Group works with many goroutines at once, and also outside a bubble.
func TestZeroGroup(t *testing.T) {
	var g flight.Group[int, int]
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if v, err := g.Do(t.Context(), i%10, func(context.Context) (int, error) { return i % 10, nil }); v != i%10 || err != nil {
				t.Errorf("Do(%d) = %d, %v; want %d, nil", i%10, v, err, i%10)
			}
		})
	}
	wg.Wait()
	synctest.Test(t, func(t *testing.T) {
		if n := g.Len(); n != 0 {
			t.Errorf("Len() = %d; want 0", n)
		}
	})
}
