package weir_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

func negative(source weir.Origin, age time.Duration) weir.Result[int] {
	return weir.Result[int]{Err: weir.ErrNotFound, State: weir.StateNegative, Source: source, Age: age}
}

// remembered is a failure from the memo.
func remembered(err error) weir.Result[int] {
	return weir.Result[int]{Err: err, Source: weir.FromMemory}
}

func TestE4NotFoundIsKeptForItsOwnTTL(t *testing.T) {
	play(t, weir.Options{TTL: 100 * sec, NegativeTTL: 5 * sec, StaleIfError: 100 * sec}, func(s *scene) {
		s.set(2*sec, weir.ErrNotFound)
		s.want(s.get("k"), negative(weir.FromLoad, 0))
		s.until(7*sec - 1)
		s.want(s.get("k"), negative(weir.FromMemory, 5*sec-1))
		if r, ok := s.g.Peek("k"); !ok || r.State != weir.StateNegative {
			s.Errorf("Peek = %+v, %v; want a negative answer", r, ok)
		}
		s.wantLoads(1)
		s.until(7 * sec)
		if r, ok := s.g.Peek("k"); ok {
			s.Errorf("Peek = %+v, true; want nothing", r)
		}
		s.set(0, errDry) // a not-found is never served stale
		s.want(s.get("k"), failure(errDry))
		s.set(0, nil)
		s.want(s.get("k"), loaded(3))
	})
}

func TestE4NotFoundIsNotKeptWithoutNegativeTTL(t *testing.T) {
	play(t, weir.Options{TTL: 100 * sec}, func(s *scene) {
		s.set(0, weir.ErrNotFound)
		s.want(s.get("k"), negative(weir.FromLoad, 0))
		s.want(s.get("k"), negative(weir.FromLoad, 0))
		s.wantLoads(2)
	})
}

func TestE4NotFoundReplacesAStaleValue(t *testing.T) {
	for _, ttl := range []time.Duration{0, 5 * sec} {
		o := fourInstants
		o.NegativeTTL = ttl
		play(t, o, func(s *scene) {
			s.prime("k")
			s.set(0, weir.ErrNotFound)
			s.until(110 * sec)
			s.want(s.get("k"), stale(1, 110*sec)) // starts the refresh
			s.wantLoads(2)
			s.set(0, errDry)
			s.until(112 * sec)
			if ttl > 0 {
				s.want(s.get("k"), negative(weir.FromMemory, 2*sec))
			}
			s.until(116 * sec)
			s.want(s.get("k"), failure(errDry))
		})
	}
}

// An error that Classify maps to not-found matches ErrNotFound and itself,
// from the load, to its joiners and from memory.
func TestE4ClassifiedErrorMatchesBoth(t *testing.T) {
	o := weir.Options{NegativeTTL: 5 * sec, Classify: func(err error) weir.Class {
		if errors.Is(err, sql.ErrNoRows) {
			return weir.ClassNotFound
		}
		return weir.ClassTransient
	}}
	play(t, o, func(s *scene) {
		noRow := &pathError{"SELECT", sql.ErrNoRows}
		s.set(sec, noRow)
		first, second := s.ask("k"), s.ask("k")
		<-second.done
		third := s.get("k")
		for _, r := range []weir.Result[int]{<-result(first), second.Result, third} {
			var typed *pathError
			if !errors.Is(r.Err, weir.ErrNotFound) || !errors.Is(r.Err, sql.ErrNoRows) || !errors.As(r.Err, &typed) || typed != noRow {
				s.Errorf("Err = %#v; want it to match ErrNotFound, sql.ErrNoRows and its own type", r.Err)
			}
			if r.State != weir.StateNegative || r.Err.Error() != noRow.Error() {
				s.Errorf("State, Err = %v, %q; want negative, %q", r.State, r.Err, noRow)
			}
		}
		s.wantLoads(1)
		if _, err := s.g.Get(s.Context(), "k"); !errors.Is(err, sql.ErrNoRows) || !errors.Is(err, weir.ErrNotFound) {
			s.Errorf("Get = %v; want both", err)
		}
	})
}

type pathError struct {
	op  string
	err error
}

func (e *pathError) Error() string { return e.op + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// result waits for a.
func result(a *reply) <-chan weir.Result[int] {
	c := make(chan weir.Result[int], 1)
	<-a.done
	c <- a.Result
	return c
}

// Without an option a failure is not kept.
func TestE4FailureIsNotKeptByDefault(t *testing.T) {
	play(t, weir.Options{TTL: sec, NegativeTTL: sec}, func(s *scene) {
		s.set(0, errDry)
		s.want(s.get("k"), failure(errDry))
		s.want(s.get("k"), failure(errDry))
		s.wantLoads(2)
	})
}

func TestE4FailureMemoPerClass(t *testing.T) {
	transient, permanent, full := errors.New("transient"), errors.New("permanent"), errors.New("full")
	gone := errors.New("canceled")
	o := weir.Options{
		TTL: sec,
		FailureMemo: weir.FailureMemo{
			Transient: weir.Backoff{Initial: 2 * sec},
			Permanent: weir.Backoff{Initial: time.Hour},
			Overload:  weir.Backoff{Initial: 7 * sec},
		},
		Classify: func(err error) weir.Class {
			switch err {
			case permanent:
				return weir.ClassPermanent
			case full:
				return weir.ClassOverload
			case gone:
				return weir.ClassCanceled
			}
			return weir.ClassTransient
		},
	}
	for _, row := range []struct {
		err  error
		memo time.Duration
	}{
		{transient, 2 * sec},
		{permanent, time.Hour},
		{full, 7 * sec},
		{&limit.Error{Reason: limit.QueueFull}, 7 * sec}, // of a limiter behind the load
		{gone, 0},
	} {
		play(t, o, func(s *scene) {
			s.set(3*sec, row.err)
			s.want(s.get("k"), failure(row.err))
			if row.memo > 0 {
				s.until(3*sec + row.memo - 1)
				s.want(s.get("k"), remembered(row.err))
				s.wantLoads(1)
				s.until(3*sec + row.memo)
			}
			s.want(s.get("k"), failure(row.err))
			s.wantLoads(2)
		})
	}
}

// A load that fails after 20 s, with a memo of 5 s: if the time counted from
// its start, there would be no memo.
func TestE4MemoCountsFromTheEndOfTheFailedLoad(t *testing.T) {
	o := weir.Options{TTL: sec, FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: 5 * sec}}}
	play(t, o, func(s *scene) {
		s.set(20*sec, errDry)
		s.wantAt(s.ask("k"), 20*sec, failure(errDry))
		s.until(25*sec - 1)
		s.wantAt(s.ask("k"), 25*sec-1, remembered(errDry))
		s.until(25 * sec)
		s.wantAt(s.ask("k"), 45*sec, failure(errDry))
		s.wantLoads(2)
		s.set(time.Hour, nil) // the hard timeout is a failure, too
		s.until(50 * sec)
		s.wantAt(s.ask("k"), 80*sec, failure(context.DeadlineExceeded))
		s.until(85*sec - 1)
		s.wantAt(s.ask("k"), 85*sec-1, remembered(context.DeadlineExceeded))
	})
}

func TestE4MemoBacksOffAndStartsAnewAfterSuccess(t *testing.T) {
	o := weir.Options{TTL: sec, FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: sec, Max: 5 * sec}}}
	play(t, o, func(s *scene) {
		s.set(0, errDry)
		for range 600 {
			s.get("k")
			time.Sleep(sec / 10)
		}
		var gaps []time.Duration
		calls := s.loads()
		for i := range calls[1:6] {
			gaps = append(gaps, calls[i+1].at-calls[i].at)
		}
		if want := []time.Duration{sec, 2 * sec, 4 * sec, 5 * sec, 5 * sec}; fmt.Sprint(gaps) != fmt.Sprint(want) {
			s.Errorf("times between loads are %v; want %v", gaps, want)
		}
		s.set(0, nil)
		s.until(70 * sec)
		s.prime("k")
		s.set(0, errDry)
		s.until(75 * sec)
		s.get("k")
		s.until(76*sec - 1)
		s.want(s.get("k"), remembered(errDry))
		s.until(76 * sec)
		s.want(s.get("k"), failure(errDry))
	})
}

func TestE4MemoDoesNotOverflow(t *testing.T) {
	o := weir.Options{FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: ms, Max: 1<<63 - 1}}}
	play(t, o, func(s *scene) {
		s.set(0, errDry)
		wait := ms
		for n := range 43 {
			s.want(s.get("k"), failure(errDry))
			s.wantLoads(n + 1)
			time.Sleep(wait - 1)
			s.want(s.get("k"), remembered(errDry))
			time.Sleep(1 * time.Nanosecond)
			if wait *= 2; s.now() > 100*365*24*time.Hour {
				break
			}
		}
	})
}

// A memo saves the load, and the stale value is served in its window.
func TestE4MemoWithStaleIfError(t *testing.T) {
	o := fourInstants
	o.FailureMemo.Transient = weir.Backoff{Initial: 20 * sec}
	play(t, o, func(s *scene) {
		s.prime("k")
		s.set(0, errDry)
		s.until(490 * sec)
		s.want(s.get("k"), staleOnError(1, 490*sec, errDry))
		s.until(500*sec - 1)
		s.want(s.get("k"), staleOnError(1, 500*sec-1, errDry))
		s.until(500 * sec)
		s.want(s.get("k"), remembered(errDry))
		s.wantLoads(2)
		s.until(510 * sec)
		s.want(s.get("k"), failure(errDry))
		s.wantLoads(3)
		s.set(0, nil) // Refresh calls the source despite the memo
		if r := s.g.RefreshResult(s.Context(), "k"); r.Err != nil {
			s.Errorf("Refresh = %v; want nil", r.Err)
		}
		s.want(s.get("k"), fresh(4, 0))
	})
}

// A memo also holds back background refreshes.
func TestE4MemoHoldsBackRefreshes(t *testing.T) {
	o := fourInstants
	o.FailureMemo.Transient = weir.Backoff{Initial: 20 * sec}
	play(t, o, func(s *scene) {
		s.prime("k")
		s.set(0, errDry)
		s.until(80 * sec)
		s.want(s.get("k"), fresh(1, 80*sec))
		s.until(100*sec - 1)
		s.want(s.get("k"), fresh(1, 100*sec-1))
		s.wantLoads(2)
		s.until(100 * sec)
		s.want(s.get("k"), stale(1, 100*sec))
		s.wantLoads(3)
	})
}

// An abandoned load, whose function fails with its cancellation, is never
// remembered.
func TestE4CancellationIsNeverKept(t *testing.T) {
	every := weir.Backoff{Initial: time.Hour}
	o := weir.Options{FailureMemo: weir.FailureMemo{Transient: every, Permanent: every, Overload: every}}
	play(t, o, func(s *scene) {
		s.set(10*sec, nil)
		ctx, cancel := context.WithTimeoutCause(s.Context(), sec, errDry)
		defer cancel()
		s.wantAt(s.askWith(ctx, "k"), sec, failure(errDry))
		s.wantAt(s.ask("k"), 11*sec, loaded(2))
		s.set(0, fmt.Errorf("query: %w", context.Canceled)) // by the source
		s.want(s.get("other"), failure(context.Canceled))
		s.want(s.get("other"), failure(context.Canceled))
		s.wantLoads(4)
	})
}

func TestE4RefusalIsNeverKept(t *testing.T) {
	every := weir.Backoff{Initial: time.Hour}
	gate := &gate{}
	o := weir.Options{Limiter: gate, FailureMemo: weir.FailureMemo{Transient: every, Permanent: every, Overload: every}}
	play(t, o, func(s *scene) {
		gate.shut.Store(true)
		s.want(s.get("k"), failure(limit.ErrLimited))
		s.want(s.get("k"), failure(limit.ErrLimited))
		gate.shut.Store(false)
		s.want(s.get("k"), loaded(1))
		if st := s.g.Stats(); st.Refusals != 2 || st.Loads != 1 || st.LoadFailures != 0 || st.MemoHits != 0 {
			s.Errorf("Stats = %+v; want 2 refusals and 1 load", st)
		}
	})
}

// A panic and Goexit are remembered like other failures.
func TestE4PanicIsKeptAsTransient(t *testing.T) {
	o := weir.Options{FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: sec}}}
	play(t, o, func(s *scene) {
		s.spring.say = func(string, int) (weir.Entry[int], error) { panic("ouch") }
		for range 2 {
			var p *weir.PanicError
			if r := s.get("k"); !errors.As(r.Err, &p) || p.Value != "ouch" {
				s.Errorf("Get = %v; want a *PanicError", r.Err)
			}
		}
		s.wantLoads(1)
	})
}

// A panic of Classify does not fail the load.
func TestE4ClassifyMayPanic(t *testing.T) {
	play(t, weir.Options{Classify: func(error) weir.Class { panic("ouch") }}, func(s *scene) {
		s.set(0, errDry)
		s.want(s.get("k"), failure(errDry))
	})
}
