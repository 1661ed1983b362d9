package jobslab_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/lab/jobslab"
	"github.com/weir-go/weir/lab/result"
)

// memory is a System in memory, which can be made to fail.
type memory struct {
	refuse int64 // rejects each number divisible by it; 0: none
	lose   int64 // likewise for jobs accepted but never given to a worker
	twice  int64 // likewise for jobs given to a worker twice
	slow   time.Duration

	mu   sync.Mutex
	jobs []int64       // guarded by mu
	some chan struct{} // closed when there is a job; guarded by mu
}

func divides(d, n int64) bool { return d > 0 && n%d == 0 }

func (m *memory) Submit(_ context.Context, n int64) error {
	time.Sleep(time.Millisecond) // otherwise the bubble's time stands still
	if divides(m.refuse, n) {
		return errors.New("refused")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !divides(m.lose, n) {
		m.jobs = append(m.jobs, n)
	}
	if divides(m.twice, n) {
		m.jobs = append(m.jobs, n)
	}
	if len(m.jobs) > 0 && m.some != nil {
		close(m.some)
		m.some = nil
	}
	return nil
}

// next waits for a job until ctx ends.
func (m *memory) next(ctx context.Context) (int64, bool) {
	for {
		m.mu.Lock()
		if len(m.jobs) > 0 {
			n := m.jobs[0]
			m.jobs = m.jobs[1:]
			m.mu.Unlock()
			return n, true
		}
		if m.some == nil {
			m.some = make(chan struct{})
		}
		some := m.some
		m.mu.Unlock()
		select {
		case <-some:
		case <-ctx.Done():
			return 0, false
		}
	}
}

func (m *memory) Work(workers int, do func(int64)) (func() error, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n, ok := m.next(ctx); ok; n, ok = m.next(ctx) {
				time.Sleep(m.slow)
				do(n)
			}
		})
	}
	return func() error { cancel(); wg.Wait(); return nil }, nil
}

func (m *memory) Idle(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.jobs) == 0, nil
}

func (m *memory) Clear(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs = nil
	return nil
}

func (m *memory) Close() error { return nil }

func measure(t *testing.T, s jobslab.System, o jobslab.Order) result.Measurement {
	t.Helper()
	m, err := jobslab.Measure(t.Context(), s, o)
	if err != nil {
		t.Fatalf("Measure(%v) = %v", o.What, err)
	}
	return m
}

func TestWhatIsRefusedIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Not 100 ms: at that time the 100th ends, and another could begin.
		m := measure(t, &memory{refuse: 10}, jobslab.Order{What: jobslab.Enqueue, Submitters: 1, Lasts: 99500 * time.Microsecond})
		if m.Requests != 100 || m.Failures != 10 || m.Good != 90 || m.FirstFailure != "refused" || m.PerSecond != 900 {
			t.Errorf("of 100: %d requests, %d failed (%q), %d good, %g/s; want 100, 10 (refused), 90, 900/s", m.Requests, m.Failures, m.FirstFailure, m.Good, m.PerSecond)
		}
		if m.Latency.P50 != 1 {
			t.Errorf("a Submit of 1 ms took %g ms at the median", m.Latency.P50)
		}
	})
}

func TestWhatIsLostIsAFailure(t *testing.T) {
	for _, what := range []jobslab.What{jobslab.Process, jobslab.Both, jobslab.Start} {
		synctest.Test(t, func(t *testing.T) {
			m := measure(t, &memory{lose: 10}, jobslab.Order{What: what, Jobs: 100, Submitters: 1, Workers: 4, Rate: 100, Lasts: time.Second})
			submitted := int64(m.Values[jobslab.Submitted])
			if lost := submitted / 10; m.Failures != lost || int64(m.Values[jobslab.Lost]) != lost || m.Good != submitted-lost {
				t.Errorf("%s: of %d: %d failed, %g lost, %d good; want %d lost", what, submitted, m.Failures, m.Values[jobslab.Lost], m.Good, lost)
			}
		})
	}
}

func TestWhatIsStartedTwiceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, &memory{twice: 10}, jobslab.Order{What: jobslab.Process, Jobs: 100, Workers: 4})
		if m.Good != 100 || m.Values[jobslab.Again] != 10 || m.Failures != 0 {
			t.Errorf("%d good, %g again, %d failed; want 100, 10, 0", m.Good, m.Values[jobslab.Again], m.Failures)
		}
	})
}

func TestProcessCountsFromTheStartOfTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, &memory{slow: 10 * time.Millisecond}, jobslab.Order{What: jobslab.Process, Jobs: 100, Workers: 10})
		if m.Seconds < 0.1 || m.Seconds > 0.105 {
			t.Errorf("100 jobs of 10 ms with 10 workers took %g s; want 0.1 plus the polling interval", m.Seconds)
		}
	})
}

func TestStartIsMeasuredFromTheCallOfSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, &memory{slow: 4 * time.Millisecond}, jobslab.Order{What: jobslab.Start, Workers: 4, Rate: 50, Lasts: time.Second})
		if m.Good != 50 || m.Latency.P50 != 5 || m.Latency.Slowest != 5 {
			t.Errorf("%d jobs, started after %g ms at the median and %g ms at most; want 50, 5, 5", m.Good, m.Latency.P50, m.Latency.Slowest)
		}
	})
}

func TestManyNeedsASystemThatTakesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if m, err := jobslab.Measure(t.Context(), new(memory), jobslab.Order{What: jobslab.Enqueue, Submitters: 1, Many: 10, Lasts: time.Second}); err == nil {
			t.Errorf("Measure = %v, nil; want an error", m)
		}
	})
}
