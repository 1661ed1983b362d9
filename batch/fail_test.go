package batch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/limit"
)

// F2: each caller returns exactly at its own deadline with its own cause. If it leaves
// before the batch starts, its item never runs. If it leaves later, its error matches
// ErrUnknown.
func TestF2CallersKeepTheirOwnDeadlines(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Second, deaf: true}
		b := s.batcher(tb, batch.Options{Linger: 100 * ms})
		early := s.do(s.until(50*ms), b, 1)
		late := s.do(s.until(500*ms), b, 2)
		stays := s.do(s.Context(), b, 3)
		s.want(early, 0, context.DeadlineExceeded, 50*ms)
		if errors.Is(early.err, batch.ErrUnknown) {
			s.Errorf("%v matches ErrUnknown; want no match, because the item never ran", early.err)
		}
		s.want(late, 0, context.DeadlineExceeded, 500*ms)
		if !errors.Is(late.err, batch.ErrUnknown) {
			s.Errorf("%v does not match ErrUnknown; want a match, because the item is running", late.err)
		}
		s.want(stays, 6, nil, 1100*ms)
		tb.want("[2 3] at 100ms")
	})
}

func TestF2OwnCauseAndNeverEnters(t *testing.T) {
	tell(t, func(s *story) {
		own := errors.New("own")
		tb := &table{}
		b := s.batcher(tb, batch.Options{Linger: time.Second})
		ctx, cancel := context.WithCancelCause(s.Context())
		one := s.do(ctx, b, 1)
		cancel(own)
		s.want(one, 0, own, 0)
		s.want(s.do(ctx, b, 2), 0, own, 0)
		if st := b.Stats(); st.Calls != 1 || st.Pending != 0 {
			s.Errorf("Calls, Pending = %d, %d; want 1, 0", st.Calls, st.Pending)
		}
		s.at(time.Minute)
		tb.want()
	})
}

// When a caller leaves a batch that waits, its place is free again, even if the batch
// was full.
func TestWhoLeavesMakesRoom(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Second}
		b := s.batcher(tb, batch.Options{MaxSize: 2, MaxParallel: 1, MaxPending: 3})
		s.do(s.Context(), b, 0)
		s.do(s.Context(), b, 1)
		s.do(s.until(500*ms), b, 2)
		s.at(500 * ms)
		s.do(s.Context(), b, 3)
		s.at(time.Second)
		tb.want("[0] at 0s", "[1 3] at 1s")
	})
}

// F3: the bulk call is canceled when all its callers have left, and not
// before.
func TestF3CanceledWhenAllHaveLeft(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Hour}
		b := s.batcher(tb, batch.Options{Linger: ms, Timeout: -1})
		s.do(s.until(time.Second), b, 1)
		s.do(s.until(2*time.Second), b, 2)
		s.at(2*time.Second - 1)
		if st := b.Stats(); st.Running != 1 || st.Pending != 2 {
			s.Errorf("Running, Pending = %d, %d; want 1, 2", st.Running, st.Pending)
		}
		s.at(2 * time.Second)
		if !slices.Equal(tb.causes, []error{batch.ErrAbandoned}) {
			s.Errorf("causes = %v; want ErrAbandoned", tb.causes)
		}
		if st := b.Stats(); st.Running != 0 || st.Pending != 0 || st.Abandoned != 1 {
			s.Errorf("Running, Pending, Abandoned = %d, %d, %d; want 0, 0, 1", st.Running, st.Pending, st.Abandoned)
		}
		tb.takes = 0
		s.want(s.do(s.Context(), b, 3), 6, nil, 2001*ms)
	})
}

// F1: the context of the bulk call has the values of its first caller that has not
// left, without those that RunContext strips, and no caller's deadline.
func TestF1ContextOfTheBulkCall(t *testing.T) {
	type key string
	for _, strip := range []bool{false, true} {
		tell(t, func(s *story) {
			var seen []any
			var deadline time.Duration
			tb := &table{does: func(ctx context.Context, items []int) ([]int, error) {
				seen = append(seen, ctx.Value(key("trace")), ctx.Value(key("user")))
				d, _ := ctx.Deadline()
				deadline = d.Sub(s.start)
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				return items, child.Err()
			}}
			src := batch.Source[int, int]{}
			if strip {
				src.RunContext = func(ctx context.Context) context.Context {
					return context.WithValue(context.Background(), key("trace"), ctx.Value(key("trace")))
				}
			}
			b := s.batcherFrom(src, tb, batch.Options{Linger: time.Second, Timeout: 5 * time.Second})
			with := func(ctx context.Context, name string) context.Context {
				return context.WithValue(context.WithValue(ctx, key("trace"), "t "+name), key("user"), "u "+name)
			}
			s.do(with(s.until(100*ms), "a"), b, 1)
			s.want(s.do(with(s.until(time.Hour), "b"), b, 2), 2, nil, time.Second)
			want := []any{"t b", "u b"}
			if strip {
				want[1] = nil
			}
			if !slices.Equal(seen, want) || deadline != 6*time.Second {
				s.Errorf("values %v, deadline %v; want %v, 6s", seen, deadline, want)
			}
		})
	}
}

// One bad item fails alone.
func TestOneBadItemFailsAlone(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		tell(t, func(s *story) {
			tb := &table{bad: map[int]error{2: errDown}}
			if wrap {
				tb.does = func(_ context.Context, items []int) ([]int, error) {
					return []int{2, 0, 6}, fmt.Errorf("insert: %w", batch.Errors{nil, errDown, nil})
				}
			}
			b := s.batcher(tb, batch.Options{MaxSize: 3, Linger: time.Second})
			one, two, three := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2), s.do(s.Context(), b, 3)
			s.want(one, 2, nil, 0)
			s.want(two, 0, errDown, 0)
			s.want(three, 6, nil, 0)
			if two.err != errDown || b.Stats().Failures != 1 {
				s.Errorf("Do = %v, Failures = %d; want the item's own error, 1", two.err, b.Stats().Failures)
			}
		})
	}
}

// For every kind of result of Run, valid or not, no caller gets a zero value without an
// error.
func TestLengthsOfWhatRunReturns(t *testing.T) {
	none := batch.Errors{nil, nil}
	for name, row := range map[string]struct {
		results []int
		err     error
		want    error // of both items
	}{
		"one result":                  {[]int{1}, nil, batch.ErrResults},
		"three results":               {[]int{1, 2, 3}, nil, batch.ErrResults},
		"nil":                         {nil, nil, batch.ErrResults},
		"one error":                   {[]int{1, 2}, batch.Errors{nil}, batch.ErrResults},
		"errors without results":      {nil, batch.Errors{nil, errDown}, batch.ErrResults},
		"all failed, without results": {nil, batch.Errors{errDown, errDown}, errDown},
		"no item failed":              {[]int{1, 2}, none, nil},
		"joined":                      {[]int{1, 2}, errors.Join(none, errDown), errDown},
		"as a whole":                  {[]int{1, 2}, errDown, errDown},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				tb := &table{does: func(context.Context, []int) ([]int, error) { return row.results, row.err }}
				b := s.batcher(tb, batch.Options{MaxSize: 2, Linger: time.Second})
				one, two := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)
				values := []int{1, 2}
				if row.want != nil {
					values = []int{0, 0}
				}
				s.want(one, values[0], row.want, 0)
				s.want(two, values[1], row.want, 0)
			})
		})
	}
	b := batch.Must(batch.New(func(context.Context, []int) ([]struct{}, error) { return nil, nil }, batch.Options{}))
	if _, err := b.Do(t.Context(), 1); err != nil {
		t.Errorf("Do = %v with an R of size zero; want nil", err)
	}
	b.Close(t.Context())
}

// When Errors is joined with another error, an item gets its own error if it has one,
// otherwise the other error. It never matches the error of another item.
func TestErrorsJoinedWithAnother(t *testing.T) {
	errBad := errors.New("bad")
	own := batch.Errors{errBad, nil}
	for name, row := range map[string]struct {
		err      error
		one, two error
	}{
		"joined":        {errors.Join(own, errDown), errBad, errDown},
		"in any order":  {errors.Join(errDown, nil, own), errBad, errDown},
		"wrapped":       {fmt.Errorf("insert: %w", errors.Join(own, errDown)), errBad, errDown},
		"by two verbs":  {fmt.Errorf("%w, then %w", own, errDown), errBad, errDown},
		"two of them":   {errors.Join(own, batch.Errors{nil, errDown}), errBad, errDown},
		"other lengths": {errors.Join(own, batch.Errors{errDown}), batch.ErrResults, batch.ErrResults},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				tb := &table{does: func(context.Context, []int) ([]int, error) { return []int{1, 2}, row.err }}
				b := s.batcher(tb, batch.Options{MaxSize: 2, Linger: time.Second})
				one, two := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)
				s.want(one, 0, row.one, 0)
				s.want(two, 0, row.two, 0)
				if row.one == errBad && (errors.Is(one.err, errDown) || errors.Is(two.err, errBad)) {
					s.Errorf("Do = %v and %v; want only its own error for each", one.err, two.err)
				}
			})
		})
	}
}

func TestErrorsSaysHowMany(t *testing.T) {
	e := batch.Errors{nil, errDown, nil, errors.New("late")}
	if got := e.Error(); got != "batch: 2 of 4 items failed, the first: the source is down" {
		t.Errorf("Error() = %q", got)
	}
	if len(e.Unwrap()) != 2 || !errors.Is(e, errDown) || batch.Errors(nil).Error() == "" {
		t.Errorf("Unwrap() = %v; want the two errors", e.Unwrap())
	}
}

// A batch that failed as a whole is retried item by item, each with its own error.
// The retries are bounded by MaxParallel.
func TestRetrySingly(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Second, whole: true, bad: map[int]error{2: errDown}}
		b := s.batcher(tb, batch.Options{MaxSize: 4, Linger: time.Hour, MaxParallel: 2, RetrySingly: true})
		one, two := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)
		gone := s.do(s.until(500*ms), b, 3)
		patient := s.do(s.until(1500*ms), b, 4)
		s.want(gone, 0, batch.ErrUnknown, 500*ms)
		s.want(patient, 0, batch.ErrUnknown, 1500*ms)
		s.want(one, 2, nil, 2*time.Second)
		s.want(two, 0, errWhole, 2*time.Second)
		s.at(time.Minute)
		if len(tb.calls) != 3 || tb.calls[0] != "[1 2 3 4] at 0s" || b.Stats().Retries != 3 {
			s.Errorf("calls %q, %d retries; want all items, then 1 and 2 alone, and 3 retries", tb.calls, b.Stats().Retries)
		}
	})
}

func TestRetryOnlyWhatTheHookWants(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{err: errDown}
		src := batch.Source[int, int]{Retry: func(err error) bool { return err != errDown }}
		b := s.batcherFrom(src, tb, batch.Options{MaxSize: 2, Linger: time.Hour, RetrySingly: true})
		one, two := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)
		s.want(one, 0, errDown, 0)
		s.want(two, 0, errDown, 0)
		tb.want("[1 2] at 0s")
	})
}

// F6: after a panic or Goexit in the bulk call, or in a hook, every caller of that
// batch gets an error. No slot and no permit is lost, and nothing is retried.
func TestF6PanicAndGoexit(t *testing.T) {
	boom := func(context.Context, []int) ([]int, error) { panic(errDown) }
	for name, row := range map[string]struct {
		does   func(context.Context, []int) ([]int, error)
		err    error
		src    batch.Source[int, int]
		panics bool
	}{
		"panic":      {does: boom, panics: true},
		"goexit":     {does: func(context.Context, []int) ([]int, error) { runtime.Goexit(); return nil, nil }},
		"retry":      {err: errDown, src: batch.Source[int, int]{Retry: func(error) bool { panic(errDown) }}, panics: true},
		"runcontext": {src: batch.Source[int, int]{RunContext: func(context.Context) context.Context { panic(errDown) }}, panics: true},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				c, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
				tb := &table{does: row.does, err: row.err}
				b := s.batcherFrom(row.src, tb, batch.Options{MaxSize: 2, Linger: time.Hour, MaxParallel: 1, RetrySingly: true, Limiter: c})
				for range 3 {
					for _, a := range []*answer{s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)} {
						<-a.done
						var p *batch.PanicError
						if row.panics && (!errors.As(a.err, &p) || p.Value != errDown || !strings.Contains(string(p.Stack), "panic")) {
							s.Errorf("Do = %v; want a PanicError with its stack", a.err)
						} else if !row.panics && a.err != batch.ErrGoexit {
							s.Errorf("Do = %v; want ErrGoexit", a.err)
						}
					}
				}
				if st := b.Stats(); st.Panics != 3 || st.Running != 0 || st.Pending != 0 || c.Stats().InUse != 0 {
					s.Errorf("Stats = %+v, %d permits in use; want 3 panics, nothing running, pending or in use", st, c.Stats().InUse)
				}
			})
		})
	}
}

// B1: callers of a bulk call that hangs get an error at the timeout. The call keeps its
// slot, and once all slots are taken by such calls, other callers fail at once.
func TestB1HungBulkCall(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Minute, deaf: true}
		b := s.batcher(tb, batch.Options{MaxParallel: 2, MaxSize: 1, Timeout: time.Second})
		one := s.do(s.Context(), b, 1)
		s.at(500 * ms)
		two, waits := s.do(s.Context(), b, 2), s.do(s.Context(), b, 3)
		s.want(one, 0, context.DeadlineExceeded, time.Second)
		var timeout *batch.TimeoutError
		if !errors.As(one.err, &timeout) || timeout.After != time.Second || !timeout.Timeout() || !errors.Is(one.err, batch.ErrUnknown) {
			s.Errorf("Do = %v; want a *TimeoutError of 1s that matches ErrUnknown", one.err)
		}
		if st := b.Stats(); st.Stuck != 1 || st.Running != 2 || st.Pending != 3 {
			s.Errorf("Stuck, Running, Pending = %d, %d, %d; want 1, 2, 3", st.Stuck, st.Running, st.Pending)
		}
		s.want(two, 0, context.DeadlineExceeded, 1500*ms)
		s.want(waits, 0, batch.ErrStuck, 1500*ms)
		s.want(s.do(s.Context(), b, 4), 0, batch.ErrStuck, 1500*ms)
		tb.takes = 0
		s.at(time.Minute)
		s.want(s.do(s.Context(), b, 5), 10, nil, time.Minute)
		s.at(time.Minute + time.Second)
		if st := b.Stats(); st.Stuck != 0 || st.Running != 0 || st.Pending != 0 || st.Timeouts != 2 || st.Refused != 2 {
			s.Errorf("Stats = %+v; want nothing stuck, 2 timeouts, 2 rejected", st)
		}
	})
}

// The context of a call that timed out reports the timeout.
func TestB1ContextOfATimedOutCall(t *testing.T) {
	tell(t, func(s *story) {
		var err, cause error
		tb := &table{does: func(ctx context.Context, _ []int) ([]int, error) {
			<-ctx.Done()
			err, cause = ctx.Err(), context.Cause(ctx)
			return nil, err
		}}
		b := s.batcher(tb, batch.Options{Timeout: time.Second, RetrySingly: true, MaxSize: 2, Linger: 500 * ms})
		one, two := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)
		for _, a := range []*answer{one, two} {
			s.want(a, 0, context.DeadlineExceeded, time.Second)
		}
		if s.at(time.Minute); err != context.DeadlineExceeded || !errors.As(cause, new(*batch.TimeoutError)) || len(tb.calls) != 1 {
			s.Errorf("Err, Cause = %v, %v after %d calls; want the timeout, 1 call", err, cause, len(tb.calls))
		}
	})
}

// The permit is released with the outcome that an adaptive limiter needs.
func TestOutcomesOfPermits(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want limit.Outcome
	}{
		"success":         {nil, limit.Success},
		"failed":          {errDown, limit.Ignored},
		"one item":        {batch.Errors{nil, errDown}, limit.Success},
		"overload":        {&limit.Error{}, limit.Dropped},
		"one in overload": {batch.Errors{nil, &limit.Error{}}, limit.Dropped},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				var got []limit.Outcome
				tb := &table{does: func(_ context.Context, items []int) ([]int, error) { return items, row.err }}
				b := s.batcher(tb, batch.Options{MaxSize: 2, Linger: time.Second, Limiter: limiterFunc(func(context.Context) (limit.Permit, error) {
					return limit.NewPermit(func(o limit.Outcome) { got = append(got, o) }), nil
				})})
				one, two := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)
				<-one.done
				<-two.done
				if !slices.Equal(got, []limit.Outcome{row.want}) {
					s.Errorf("outcomes = %v; want %v", got, row.want)
				}
			})
		})
	}
}

type limiterFunc func(context.Context) (limit.Permit, error)

func (f limiterFunc) Acquire(ctx context.Context) (limit.Permit, error) { return f(ctx) }

// F6: after a panic of the limiter, the Batcher still works.
func TestF6LimiterPanics(t *testing.T) {
	tell(t, func(s *story) {
		var once sync.Once
		tb := &table{}
		b := s.batcher(tb, batch.Options{MaxParallel: 1, Limiter: limiterFunc(func(context.Context) (limit.Permit, error) {
			once.Do(func() { panic("limiter") })
			return limit.NewPermit(func(limit.Outcome) { panic("release") }), nil
		})})
		if a := s.do(s.Context(), b, 1); !errors.As(a.err, new(*batch.PanicError)) {
			s.Errorf("Do = %v; want a PanicError", a.err)
		}
		s.want(s.do(s.Context(), b, 2), 4, nil, 0)
	})
}
