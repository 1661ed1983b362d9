package batch_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/limit"
)

func TestOptionsFaultsAllAtOnce(t *testing.T) {
	_, err := batch.New[int, int](nil, batch.Options{MaxSize: -1, Linger: -1, MaxParallel: -1, MaxPending: -1})
	var fields []string
	for _, fault := range err.(interface{ Unwrap() []error }).Unwrap() {
		fields = append(fields, fault.(*batch.OptionError).Field)
	}
	want := []string{"Source.Run", "Options.MaxSize", "Options.Linger", "Options.MaxParallel", "Options.MaxPending"}
	if !slices.Equal(fields, want) {
		t.Errorf("faults of %v; want %v", fields, want)
	}
}

// The first item waits for others for exactly Linger.
func TestLingerIsExact(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: 100 * ms}
		b := s.batcher(tb, batch.Options{Linger: 10 * ms})
		one := s.do(s.Context(), b, 1)
		s.at(10*ms - 1)
		two := s.do(s.Context(), b, 2)
		s.at(10 * ms)
		three := s.do(s.Context(), b, 3)
		s.want(one, 2, nil, 110*ms)
		s.want(two, 4, nil, 110*ms)
		s.want(three, 6, nil, 120*ms)
		tb.want("[1 2] at 10ms", "[3] at 20ms")
	})
}

// A full batch starts at once, with its items in order of arrival.
func TestFullBatchDepartsAtOnce(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{}
		b := s.batcher(tb, batch.Options{Linger: time.Hour, MaxSize: 3})
		var all []*answer
		for i := range 7 {
			all = append(all, s.do(s.Context(), b, i))
		}
		tb.want("[0 1 2] at 0s", "[3 4 5] at 0s")
		for i, a := range all[:6] {
			s.want(a, 2*i, nil, 0)
		}
		s.want(all[6], 12, nil, time.Hour)
		if st := b.Stats(); st.Full != 2 || st.Batches != 3 || st.Items != 7 || st.Calls != 7 {
			s.Errorf("Stats = %+v; want 2 full of 3 batches, 7 items, 7 calls", st)
		}
	})
}

// Without a linger, items that arrive while all slots are busy go into one batch.
func TestGathersWhileThePlacesAreTaken(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Second}
		b := s.batcher(tb, batch.Options{MaxParallel: 2, MaxSize: 3})
		for i := range 10 {
			s.do(s.Context(), b, i)
		}
		if st := b.Stats(); st.Running != 2 || st.Pending != 10 {
			s.Errorf("Running, Pending = %d, %d; want 2, 10", st.Running, st.Pending)
		}
		s.at(3 * time.Second)
		tb.want("[0] at 0s", "[1] at 0s", "[2 3 4] at 1s", "[5 6 7] at 1s", "[8 9] at 2s")
	})
}

// Two scopes never share a batch. Batches that wait for a slot start in the order in
// which they became due, however many a scope has.
func TestScopesApartAndInOrder(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Second}
		b := s.batcherFrom(batch.Source[int, int]{Scope: func(i int) any { return i / 100 }}, tb, batch.Options{MaxParallel: 1, MaxSize: 2})
		for _, item := range []int{100, 101, 200, 102, 103, 104, 201, 202, 300} {
			s.do(s.Context(), b, item)
		}
		s.at(7 * time.Second)
		tb.want("[100] at 0s", "[101 102] at 1s", "[200 201] at 2s", "[103 104] at 3s", "[202] at 4s", "[300] at 5s")
	})
}

func TestScopeThatCannotBeCompared(t *testing.T) {
	for name, scope := range map[string]any{"slice": []int{1}, "hidden": [1]any{[]int{1}}, "NaN": math.NaN()} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				tb := &table{}
				b := s.batcherFrom(batch.Source[int, int]{Scope: func(int) any { return scope }}, tb, batch.Options{})
				s.want(s.do(s.Context(), b, 1), 0, batch.ErrScope, 0)
			})
		})
	}
}

// An item beyond MaxPending is rejected with a RetryAfter. Running items count too.
func TestMaxPending(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: 200 * ms}
		b := s.batcher(tb, batch.Options{Name: "rows", MaxPending: 3, MaxSize: 1, MaxParallel: 2})
		for i := range 3 {
			s.do(s.Context(), b, i)
		}
		refused := s.do(s.Context(), b, 3)
		s.want(refused, 0, limit.ErrLimited, 0)
		var e *limit.Error
		if !errors.As(refused.err, &e) || e.Reason != limit.QueueFull || e.Limiter != "rows" || e.RetryAfter != time.Second {
			s.Errorf("rejection = %+v; want rows, queue full, 1s", e)
		}
		s.at(200 * ms)
		s.want(s.do(s.Context(), b, 4), 8, nil, 400*ms)
		s.at(400 * ms)
		for i := range 3 {
			s.do(s.Context(), b, i)
		}
		if refused := s.do(s.Context(), b, 3); !errors.As(refused.err, &e) || e.RetryAfter != 200*ms {
			s.Errorf("RetryAfter = %v; want 200ms, the time of a bulk call", e.RetryAfter)
		}
		s.at(time.Second)
		if st := b.Stats(); st.Refused != 2 || st.Pending != 0 {
			s.Errorf("Refused, Pending = %d, %d; want 2, 0", st.Refused, st.Pending)
		}
	})
}

// A batch takes one permit, collects items while it waits for it, and releases it with
// the outcome of the call.
func TestOnePermitABulkCall(t *testing.T) {
	tell(t, func(s *story) {
		c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
		if err != nil {
			s.Fatal(err)
		}
		held, err := c.Acquire(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		tb := &table{takes: time.Second}
		b := s.batcher(tb, batch.Options{Limiter: c})
		one, two := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)
		gone := s.do(s.until(time.Second), b, 3)
		s.want(gone, 0, context.DeadlineExceeded, time.Second)
		s.at(2 * time.Second)
		held.Release(limit.Success)
		s.want(one, 2, nil, 3*time.Second)
		s.want(two, 4, nil, 3*time.Second)
		tb.want("[1 2] at 2s")
		if st := c.Stats(); st.Admitted != 2 || st.InUse != 0 {
			s.Errorf("Admitted, InUse = %d, %d; want 2, 0", st.Admitted, st.InUse)
		}
	})
}

// If the limiter rejects a batch, all of its callers get that error, and callers of
// other batches do not.
func TestLimiterRefuses(t *testing.T) {
	tell(t, func(s *story) {
		c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, MaxWait: time.Second})
		if err != nil {
			s.Fatal(err)
		}
		held, _ := c.Acquire(s.Context())
		tb := &table{}
		b := s.batcher(tb, batch.Options{Limiter: c})
		one, two := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2)
		s.want(one, 0, limit.ErrLimited, time.Second)
		s.want(two, 0, limit.ErrLimited, time.Second)
		held.Release(limit.Success)
		s.want(s.do(s.Context(), b, 3), 6, nil, time.Second)
		tb.want("[3] at 1s")
		if st := b.Stats(); st.Refused != 1 || st.Batches != 1 {
			s.Errorf("Refused, Batches = %d, %d; want 1, 1", st.Refused, st.Batches)
		}
	})
}

// F4: no caller can join a batch that all callers have left, even while a limiter that
// ignores cancellation still holds it.
func TestF4NobodyJoinsALostBatch(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{}
		b := s.batcher(tb, batch.Options{Limiter: limiterFunc(func(context.Context) (limit.Permit, error) {
			time.Sleep(10 * time.Second)
			return limit.Permit{}, nil
		})})
		s.want(s.do(s.until(time.Second), b, 1), 0, context.DeadlineExceeded, time.Second)
		s.at(2 * time.Second)
		s.want(s.do(s.Context(), b, 2), 4, nil, 12*time.Second)
		tb.want("[2] at 12s")
		if st := b.Stats(); st.Batches != 1 || st.Panics != 0 {
			s.Errorf("Batches, Panics = %d, %d; want 1, 0", st.Batches, st.Panics)
		}
	})
}

// A batch acquires its permit with the latest deadline of its callers. If that is
// rejected after a caller with a later deadline has joined, it tries again.
func TestF3AsksForTheLatestDeadline(t *testing.T) {
	tell(t, func(s *story) {
		var asked []time.Duration
		tb := &table{}
		b := s.batcher(tb, batch.Options{Limiter: limiterFunc(func(ctx context.Context) (limit.Permit, error) {
			until, _ := ctx.Deadline()
			asked = append(asked, until.Sub(s.start))
			time.Sleep(500 * ms)
			if until.Sub(s.start) < 10*time.Second {
				return limit.Permit{}, &limit.Error{Reason: limit.WaitTooLong}
			}
			return limit.Permit{}, nil
		})})
		one, two := s.do(s.until(5*time.Second), b, 1), s.do(s.until(600*ms), b, 2)
		s.at(100 * ms)
		three := s.do(s.until(20*time.Second), b, 3)
		s.want(two, 0, context.DeadlineExceeded, 600*ms)
		s.want(one, 2, nil, time.Second)
		s.want(three, 6, nil, time.Second)
		if want := []time.Duration{5 * time.Second, 20 * time.Second}; !slices.Equal(asked, want) {
			s.Errorf("acquired with the deadlines %v; want %v", asked, want)
		}
		tb.want("[1 3] at 1s")
	})
}
