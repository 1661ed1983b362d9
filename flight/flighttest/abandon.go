package flighttest

import (
	"context"
	"time"

	"github.com/weir-go/weir/flight"
)

var abandonCases = []testCase{
	{name: "F3LastJoinerLeavesCancels", tell: func(s *story) {
		ends := make(chan run, 1)
		first := s.ask(s.until(time.Second), "k", s.load(time.Hour, 42, ends))
		second := s.ask(s.until(3*time.Second), "k", s.unwanted)
		third := s.ask(s.until(2*time.Second), "k", s.unwanted)
		s.at(3*time.Second - 1)
		s.wantJoinable(1)
		if len(ends) > 0 {
			s.Error("the load was canceled while a caller waits")
		}
		s.at(3 * time.Second)
		s.wantJoinable(0)
		s.wantEnd(ends, flight.ErrAbandoned, 3*time.Second)
		s.want(first, 0, context.DeadlineExceeded, time.Second)
		s.want(second, 0, context.DeadlineExceeded, 3*time.Second)
		s.want(third, 0, context.DeadlineExceeded, 2*time.Second)
	}},
	{name: "F3LastOfAThousandLeavesCancels", tell: func(s *story) {
		ends := make(chan run, 1)
		ctx := s.until(time.Second) // all callers leave at the same instant
		for range 1000 {
			go func() { _, _, _ = s.Do(ctx, "k", s.load(time.Hour, 42, ends)) }()
		}
		s.at(time.Second)
		s.wantJoinable(0)
		s.wantEnd(ends, flight.ErrAbandoned, time.Second)
	}},
	{name: "F3GraceCancelsLater", grace: time.Second, tell: func(s *story) {
		ends := make(chan run, 1)
		s.want(s.ask(s.until(time.Second), "k", s.load(time.Hour, 42, ends)), 0, context.DeadlineExceeded, time.Second)
		s.at(2*time.Second - 1)
		s.wantJoinable(1)
		s.at(2 * time.Second)
		s.wantJoinable(0)
		s.wantEnd(ends, flight.ErrAbandoned, 2*time.Second)
	}},
	{name: "F3GraceEndsWithALoadThatIsDone", grace: time.Second, tell: func(s *story) {
		ends := make(chan run, 1)
		s.ask(s.until(time.Second), "k", s.load(1500*ms, 42, ends))
		s.at(1500 * ms)
		s.wantEnd(ends, nil, 1500*ms)
		second := s.ask(s.Context(), "k", s.load(time.Second, 43, ends))
		s.want(second, 43, nil, 2500*ms) // the first one's grace ends in between
		s.wantEnd(ends, nil, 2500*ms)
	}},
	{name: "F3GraceRejoinedAndLeftAgain", grace: time.Second, tell: func(s *story) {
		ends := make(chan run, 1)
		s.ask(s.until(time.Second), "k", s.load(time.Hour, 42, ends))
		s.at(1500 * ms)
		second := s.ask(s.until(1800*ms), "k", s.unwanted)
		s.want(second, 0, context.DeadlineExceeded, 1800*ms)
		s.at(2800*ms - 1) // the first departure's grace is over, the second's not
		s.wantJoinable(1)
		s.at(2800 * ms)
		s.wantJoinable(0)
		s.wantEnd(ends, flight.ErrAbandoned, 2800*ms)
	}},
	{name: "F3GraceRejoinedGoesOn", grace: time.Second, tell: func(s *story) {
		ends := make(chan run, 1)
		s.ask(s.until(time.Second), "k", s.load(10*time.Second, 42, ends))
		s.at(1999 * ms)
		second := s.ask(s.Context(), "k", s.unwanted)
		s.want(second, 42, nil, 10*time.Second)
		s.wantEnd(ends, nil, 10*time.Second)
	}},
	{name: "F3NeverRunsToItsEnd", grace: flight.Never, tell: func(s *story) {
		ends := make(chan run, 1)
		first := s.ask(s.until(time.Second), "k", s.load(time.Minute, 42, ends))
		s.want(first, 0, context.DeadlineExceeded, time.Second)
		s.at(30 * time.Second)
		second := s.ask(s.Context(), "k", s.unwanted)
		s.want(second, 42, nil, time.Minute)
		s.wantEnd(ends, nil, time.Minute)
		s.wantJoinable(0)
	}},
}
