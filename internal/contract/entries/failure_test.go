package entries_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

func TestE4NotFoundIsKeptForItsOwnTTL(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 100 * sec, NegativeTTL: 5 * sec, StaleIfError: 100 * sec}, func(s *rig.Scene) {
		s.Set(2*sec, weir.ErrNotFound)
		s.Want(s.Get("k"), rig.Negative(weir.FromLoad, 0))
		s.Until(7*sec - 1)
		s.Want(s.Get("k"), rig.Negative(weir.FromMemory, 5*sec-1))
		if r, ok := s.G.Peek("k"); !ok || r.State != weir.StateNegative {
			s.Errorf("Peek = %+v, %v; want a negative answer", r, ok)
		}
		s.WantLoads(1)
		s.Until(7 * sec)
		if r, ok := s.G.Peek("k"); ok {
			s.Errorf("Peek = %+v, true; want nothing", r)
		}
		s.Set(0, rig.ErrDown) // a not-found is never served stale
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
		s.Set(0, nil)
		s.Want(s.Get("k"), rig.Loaded(3))
	})
}

func TestE4NotFoundIsNotKeptWithoutNegativeTTL(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 100 * sec}, func(s *rig.Scene) {
		s.Set(0, weir.ErrNotFound)
		s.Want(s.Get("k"), rig.Negative(weir.FromLoad, 0))
		s.Want(s.Get("k"), rig.Negative(weir.FromLoad, 0))
		s.WantLoads(2)
	})
}

func TestE4NotFoundReplacesAStaleValue(t *testing.T) {
	for _, ttl := range []time.Duration{0, 5 * sec} {
		o := rig.FourInstants
		o.NegativeTTL = ttl
		rig.Play(t, o, func(s *rig.Scene) {
			s.Prime("k")
			s.Set(0, weir.ErrNotFound)
			s.Until(110 * sec)
			s.Want(s.Get("k"), rig.Stale(1, 110*sec)) // starts the refresh
			s.WantLoads(2)
			s.Set(0, rig.ErrDown)
			s.Until(112 * sec)
			if ttl > 0 {
				s.Want(s.Get("k"), rig.Negative(weir.FromMemory, 2*sec))
			}
			s.Until(116 * sec)
			s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
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
	rig.Play(t, o, func(s *rig.Scene) {
		noRow := &pathError{"SELECT", sql.ErrNoRows}
		s.Set(sec, noRow)
		first, second := s.Ask("k"), s.Ask("k")
		<-second.Done
		third := s.Get("k")
		for _, r := range []weir.Result[int]{<-result(first), second.Result, third} {
			var typed *pathError
			if !errors.Is(r.Err, weir.ErrNotFound) || !errors.Is(r.Err, sql.ErrNoRows) || !errors.As(r.Err, &typed) || typed != noRow {
				s.Errorf("Err = %#v; want it to match ErrNotFound, sql.ErrNoRows and its own type", r.Err)
			}
			if r.State != weir.StateNegative || r.Err.Error() != noRow.Error() {
				s.Errorf("State, Err = %v, %q; want negative, %q", r.State, r.Err, noRow)
			}
		}
		s.WantLoads(1)
		if _, err := s.G.Get(s.Context(), "k"); !errors.Is(err, sql.ErrNoRows) || !errors.Is(err, weir.ErrNotFound) {
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
func result(a *rig.Reply) <-chan weir.Result[int] {
	c := make(chan weir.Result[int], 1)
	<-a.Done
	c <- a.Result
	return c
}

// Without an option a failure is not kept.
func TestE4FailureIsNotKeptByDefault(t *testing.T) {
	rig.Play(t, weir.Options{TTL: sec, NegativeTTL: sec}, func(s *rig.Scene) {
		s.Set(0, rig.ErrDown)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
		s.WantLoads(2)
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
		rig.Play(t, o, func(s *rig.Scene) {
			s.Set(3*sec, row.err)
			s.Want(s.Get("k"), rig.Failure(row.err))
			if row.memo > 0 {
				s.Until(3*sec + row.memo - 1)
				s.Want(s.Get("k"), rig.Remembered(row.err))
				s.WantLoads(1)
				s.Until(3*sec + row.memo)
			}
			s.Want(s.Get("k"), rig.Failure(row.err))
			s.WantLoads(2)
		})
	}
}

// A load that fails after 20 s, with a memo of 5 s: if the time counted from
// its start, there would be no memo.
func TestE4MemoCountsFromTheEndOfTheFailedLoad(t *testing.T) {
	o := weir.Options{TTL: sec, FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: 5 * sec}}}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(20*sec, rig.ErrDown)
		s.WantAt(s.Ask("k"), 20*sec, rig.Failure(rig.ErrDown))
		s.Until(25*sec - 1)
		s.WantAt(s.Ask("k"), 25*sec-1, rig.Remembered(rig.ErrDown))
		s.Until(25 * sec)
		s.WantAt(s.Ask("k"), 45*sec, rig.Failure(rig.ErrDown))
		s.WantLoads(2)
		s.Set(time.Hour, nil) // the hard timeout is a failure, too
		s.Until(50 * sec)
		s.WantAt(s.Ask("k"), 80*sec, rig.Failure(context.DeadlineExceeded))
		s.Until(85*sec - 1)
		s.WantAt(s.Ask("k"), 85*sec-1, rig.Remembered(context.DeadlineExceeded))
	})
}

func TestE4MemoBacksOffAndStartsAnewAfterSuccess(t *testing.T) {
	o := weir.Options{TTL: sec, FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: sec, Max: 5 * sec}}}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(0, rig.ErrDown)
		for range 600 {
			s.Get("k")
			time.Sleep(sec / 10)
		}
		var gaps []time.Duration
		calls := s.Loads()
		for i := range calls[1:6] {
			gaps = append(gaps, calls[i+1].At-calls[i].At)
		}
		if want := []time.Duration{sec, 2 * sec, 4 * sec, 5 * sec, 5 * sec}; fmt.Sprint(gaps) != fmt.Sprint(want) {
			s.Errorf("times between loads are %v; want %v", gaps, want)
		}
		s.Set(0, nil)
		s.Until(70 * sec)
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(75 * sec)
		s.Get("k")
		s.Until(76*sec - 1)
		s.Want(s.Get("k"), rig.Remembered(rig.ErrDown))
		s.Until(76 * sec)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
	})
}

func TestE4MemoDoesNotOverflow(t *testing.T) {
	o := weir.Options{FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: ms, Max: 1<<63 - 1}}}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(0, rig.ErrDown)
		wait := ms
		for n := range 43 {
			s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
			s.WantLoads(n + 1)
			time.Sleep(wait - 1)
			s.Want(s.Get("k"), rig.Remembered(rig.ErrDown))
			time.Sleep(1 * time.Nanosecond)
			if wait *= 2; s.Now() > 100*365*24*time.Hour {
				break
			}
		}
	})
}

// A memo saves the load, and the stale value is served in its window.
func TestE4MemoWithStaleIfError(t *testing.T) {
	o := rig.FourInstants
	o.FailureMemo.Transient = weir.Backoff{Initial: 20 * sec}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(490 * sec)
		s.Want(s.Get("k"), rig.StaleOnError(1, 490*sec, rig.ErrDown))
		s.Until(500*sec - 1)
		s.Want(s.Get("k"), rig.StaleOnError(1, 500*sec-1, rig.ErrDown))
		s.Until(500 * sec)
		s.Want(s.Get("k"), rig.Remembered(rig.ErrDown))
		s.WantLoads(2)
		s.Until(510 * sec)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
		s.WantLoads(3)
		s.Set(0, nil) // Refresh calls the source despite the memo
		if r := s.G.RefreshResult(s.Context(), "k"); r.Err != nil {
			s.Errorf("Refresh = %v; want nil", r.Err)
		}
		s.Want(s.Get("k"), rig.Fresh(4, 0))
	})
}

// A memo also holds back background refreshes.
func TestE4MemoHoldsBackRefreshes(t *testing.T) {
	o := rig.FourInstants
	o.FailureMemo.Transient = weir.Backoff{Initial: 20 * sec}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(80 * sec)
		s.Want(s.Get("k"), rig.Fresh(1, 80*sec))
		s.Until(100*sec - 1)
		s.Want(s.Get("k"), rig.Fresh(1, 100*sec-1))
		s.WantLoads(2)
		s.Until(100 * sec)
		s.Want(s.Get("k"), rig.Stale(1, 100*sec))
		s.WantLoads(3)
	})
}

// An abandoned load, whose function fails with its cancellation, is never
// remembered.
func TestE4CancellationIsNeverKept(t *testing.T) {
	every := weir.Backoff{Initial: time.Hour}
	o := weir.Options{FailureMemo: weir.FailureMemo{Transient: every, Permanent: every, Overload: every}}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(10*sec, nil)
		ctx, cancel := context.WithTimeoutCause(s.Context(), sec, rig.ErrDown)
		defer cancel()
		s.WantAt(s.AskWith(ctx, "k"), sec, rig.Failure(rig.ErrDown))
		s.WantAt(s.Ask("k"), 11*sec, rig.Loaded(2))
		s.Set(0, fmt.Errorf("query: %w", context.Canceled)) // by the source
		s.Want(s.Get("other"), rig.Failure(context.Canceled))
		s.Want(s.Get("other"), rig.Failure(context.Canceled))
		s.WantLoads(4)
	})
}

func TestE4RefusalIsNeverKept(t *testing.T) {
	every := weir.Backoff{Initial: time.Hour}
	gate := &rig.Gate{}
	o := weir.Options{Limiter: gate, FailureMemo: weir.FailureMemo{Transient: every, Permanent: every, Overload: every}}
	rig.Play(t, o, func(s *rig.Scene) {
		gate.Shut.Store(true)
		s.Want(s.Get("k"), rig.Failure(limit.ErrLimited))
		s.Want(s.Get("k"), rig.Failure(limit.ErrLimited))
		gate.Shut.Store(false)
		s.Want(s.Get("k"), rig.Loaded(1))
		if st := s.G.Stats(); st.Refusals != 2 || st.Loads != 1 || st.LoadFailures != 0 || st.MemoHits != 0 {
			s.Errorf("Stats = %+v; want 2 refusals and 1 load", st)
		}
	})
}

// A panic and Goexit are remembered like other failures.
func TestE4PanicIsKeptAsTransient(t *testing.T) {
	o := weir.Options{FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: sec}}}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Spring.Say = func(string, int) (weir.Entry[int], error) { panic("ouch") }
		for range 2 {
			var p *weir.PanicError
			if r := s.Get("k"); !errors.As(r.Err, &p) || p.Value != "ouch" {
				s.Errorf("Get = %v; want a *PanicError", r.Err)
			}
		}
		s.WantLoads(1)
	})
}

// A panic of Classify does not fail the load.
func TestE4ClassifyMayPanic(t *testing.T) {
	rig.Play(t, weir.Options{Classify: func(error) weir.Class { panic("ouch") }}, func(s *rig.Scene) {
		s.Set(0, rig.ErrDown)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
	})
}
