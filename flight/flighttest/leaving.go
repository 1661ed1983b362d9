package flighttest

import (
	"context"
	"errors"
	"testing/synctest"
	"time"
)

var leavingCases = []testCase{
	{name: "F1FirstCallerLeavesLoadGoesOn", tell: func(s *story) {
		ends := make(chan run, 1)
		first := s.ask(s.until(100*ms), "k", s.load(time.Second, 42, ends))
		second := s.ask(s.Context(), "k", s.unwanted)
		s.want(first, 0, context.DeadlineExceeded, 100*ms)
		s.want(second, 42, nil, time.Second)
		s.wantEnd(ends, nil, time.Second)
	}},
	{name: "F1FirstCallerCancelsLoadGoesOn", tell: func(s *story) {
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
	}},
	{name: "F2JoinersLeaveAtTheirOwnDeadline", tell: func(s *story) {
		// The load ignores its context, and outlasts all callers but the last.
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
	}},
	{name: "F2JoinerLeavesWithItsOwnCause", tell: func(s *story) {
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
		if second.err != tooLate || first.err != hungUp {
			s.Errorf("errors = %v, %v; want the causes, not wrapped", first.err, second.err)
		}
		s.at(time.Minute)
	}},
	{name: "F2EndedContextStartsAndJoinsNothing", tell: func(s *story) {
		gone := errors.New("gone")
		over, cancel := s.cancelable()
		cancel(gone)
		s.want(s.ask(over, "k", s.unwanted), 0, gone, 0)
		s.wantJoinable(0)

		first := s.ask(s.Context(), "k", deaf(time.Second, 42))
		s.want(s.ask(over, "k", s.unwanted), 0, gone, 0)
		s.want(first, 42, nil, time.Second)
	}},
	{name: "F2ReadyResultWinsOverCancel", tell: func(s *story) {
		over := make(chan struct{})
		close(over)
		for range 64 { // a plain select would pass half the time
			ready := make(chan struct{})
			first := s.ask(s.Context(), "k", deaf(ms, 42))
			second := s.ask(lateContext{s.Context(), ready, over}, "k", s.unwanted)
			<-first.done
			close(ready)
			s.want(second, 42, nil, first.at)
		}
	}},
	// The deadline and the load's end fall on the same instant, so that they race.
	// Either can win, but the caller never gets a mix of both.
	{name: "F2DeadlineAtTheInstantOfTheResult", tell: func(s *story) {
		for range 500 {
			end := s.now() + ms
			var joiners []*answer
			for range 4 {
				joiners = append(joiners, s.ask(s.until(end), "k", s.load(ms, 42, nil)))
			}
			for _, a := range joiners {
				<-a.done
				result := a.value == 42 && a.err == nil
				left := a.value == 0 && a.err == context.DeadlineExceeded
				if !result && !left || a.at != end {
					s.Fatalf("answer = %d, %v at %v; want 42 or the deadline at %v", a.value, a.err, a.at, end)
				}
			}
			synctest.Wait()
			s.wantJoinable(0)
		}
	}},
}

// A lateContext ends after its caller has joined and before the caller begins to wait:
// Done blocks until the flight's result is available.
type lateContext struct {
	context.Context
	ready <-chan struct{} // closed when another caller has the result
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
