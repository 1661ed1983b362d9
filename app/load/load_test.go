package load_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/load"
)

var errBad = errors.New("bad answer")

func TestRunMeasuresAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Ten clients, a response every 10 ms, and one in a hundred after 50 ms.
		var n atomic.Int64
		l := load.New(10, 10*time.Second, func(context.Context, int) error {
			if n.Add(1)%100 == 0 {
				time.Sleep(50 * time.Millisecond)
				return nil
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		r, err := l.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests != n.Load() || r.Requests < 9_000 || r.Requests > 10_010 {
			t.Errorf("Requests = %d; want the %d sent, about 9,600", r.Requests, n.Load())
		}
		if r.P50 < 9990*time.Microsecond || r.P50 > 10010*time.Microsecond {
			t.Errorf("P50 = %v; want 10ms", r.P50)
		}
		if r.P99 < r.P50 || r.P99 > r.Slowest {
			t.Errorf("P99 = %v; want it between P50, %v, and Slowest, %v", r.P99, r.P50, r.Slowest)
		}
		if r.Slowest != 50*time.Millisecond {
			t.Errorf("Slowest = %v; want 50ms", r.Slowest)
		}
		if r.Failures != 0 || r.FirstFailure != nil || l.Answered() != r.Requests {
			t.Errorf("Failures = %d (%v), Answered = %d; want 0, nil, %d",
				r.Failures, r.FirstFailure, l.Answered(), r.Requests)
		}
	})
}

func TestRunCountsFailuresAndKeepsThemOutOfTheTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load.New(2, time.Second, func(_ context.Context, client int) error {
			if client == 1 {
				time.Sleep(time.Millisecond) // a quick rejection
				return errBad
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		r, err := l.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if good := r.Requests - r.Failures; good != 11 && good != 10 || r.Failures < 990 {
			t.Errorf("Requests, Failures = %d, %d; want 10 good ones and about 1,000 failures", r.Requests, r.Failures)
		}
		if !errors.Is(r.FirstFailure, errBad) {
			t.Errorf("FirstFailure = %v; want %v", r.FirstFailure, errBad)
		}
		if r.P50 != 100*time.Millisecond || r.Slowest != 100*time.Millisecond {
			t.Errorf("P50, Slowest = %v, %v; want 100ms for both", r.P50, r.Slowest)
		}
	})
}

func TestRunWithNoGoodAnswerHasNoTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := load.New(1, time.Second, func(context.Context, int) error {
			time.Sleep(time.Millisecond)
			return errBad
		}).Run(t.Context())
		if err != nil || r.Failures != r.Requests || r.P50 != 0 || r.P99 != 0 || r.Slowest != 0 {
			t.Errorf("Run = %+v, %v; want only failures, and no times", r, err)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		var running atomic.Int64
		l := load.New(50, time.Hour, func(ctx context.Context, _ int) error {
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		time.AfterFunc(time.Second, func() { cancel(interrupted) })
		start := time.Now()
		if _, err := l.Run(ctx); !errors.Is(err, interrupted) {
			t.Errorf("Run = %v; want %v", err, interrupted)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Run took %v; want 1s", took)
		}
		if n := running.Load(); n != 0 {
			t.Errorf("%d clients still run after Run; want none", n)
		}
		if _, err := l.Run(ctx); !errors.Is(err, interrupted) {
			t.Errorf("Run with an ended context = %v; want %v", err, interrupted)
		}
	})
}
