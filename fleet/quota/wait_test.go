package quota_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// slowly returns terms of one permit per second, with one available at first.
func slowly() quota.Terms {
	return quota.Terms{Name: "api", Rate: fleet.Rate{Permits: 1, Per: time.Second, Burst: 2}, OnFailure: quota.FailClosed}
}

func TestLimiterAcquireWaitsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		l := newLimiter(t, m, slowly())
		began := time.Now()
		var mu sync.Mutex
		var order []int
		var at []time.Duration
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if p, err := l.Acquire(t.Context()); err != nil {
					t.Errorf("Acquire = %v", err)
				} else {
					p.Release(limit.Unused) // gives no permit back
				}
				mu.Lock()
				defer mu.Unlock()
				order, at = append(order, i), append(at, time.Since(began))
			})
			synctest.Wait()
		}
		if s := l.Stats(); s.Queued != 3 || s.Waited != 1 {
			t.Errorf("Stats = %+v; want 3 waiting callers", s)
		}
		_, err := l.TryAcquire(t.Context())
		refused(t, err, limit.RateExceeded, 4*time.Second)
		wg.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3}) || !slices.Equal(at, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}) {
			t.Errorf("admitted %v at %v; want one per second, in turn", order, at)
		}
	})
}

func TestLimiterRefusesWhoWouldSurelyBeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		l := newLimiter(t, m, slowly(), func(o *quota.LimiterOptions) { o.Queue, o.MaxWait = 2, 2500*time.Millisecond })
		drain(t, l)
		within := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			began := time.Now()
			_, err := l.Acquire(ctx)
			if time.Since(began) > 0 {
				t.Errorf("Acquire was refused after %v; want at once", time.Since(began))
			}
			return err
		}
		refused(t, within(time.Second), limit.WaitTooLong, time.Second)
		_, err := l.Acquire(limit.ContextWithPriority(t.Context(), limit.Background))
		refused(t, err, limit.NoSpare, time.Second)

		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if _, err := l.Acquire(t.Context()); err != nil {
					t.Errorf("Acquire = %v", err)
				}
			})
			synctest.Wait()
		}
		refused(t, within(time.Minute), limit.RateExceeded, 3*time.Second) // the queue is full, and the wait is too long
		wg.Wait()
		if s := l.Stats(); s.Refused[limit.WaitTooLong] != 1 || s.Refused[limit.NoSpare] != 1 || s.Refused[limit.RateExceeded] != 2 || s.Left != 0 {
			t.Errorf("Stats = %+v; want each refusal counted", s)
		}
	})
}

// Another instance takes the permit that this one waits for.
func TestLimiterRefusesWhoCannotBeInTimeAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		l := newLimiter(t, m, slowly(), func(o *quota.LimiterOptions) { o.MaxWait = 5500 * time.Millisecond })
		drain(t, l)
		go func() { // each time just before this one calls the engine
			time.Sleep(time.Second - 1)
			for range 6 {
				m.count(fleet.Key{Namespace: "limits", Name: "api"}, fleet.Rate{Permits: 1, Per: time.Second, Burst: 2}, 1)
				time.Sleep(time.Second)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		began := time.Now()
		soon := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx)
			if d := time.Since(began); d > 3*time.Second {
				t.Errorf("Acquire was refused after %v; want at most 3s, because the next permit comes at 4s", d)
			}
			soon <- err
		}()
		synctest.Wait()
		_, err := l.Acquire(t.Context())
		if d := time.Since(began); d < 4*time.Second || d > 5*time.Second {
			t.Errorf("Acquire was refused after %v; want at most 5s, because the next permit comes at 6s", d)
		}
		var e *limit.Error
		if !errors.As(err, &e) || e.Reason != limit.RateExceeded {
			t.Errorf("Acquire = %v; want rate exceeded", err)
		}
		if err := <-soon; !errors.As(err, &e) || e.Reason != limit.WaitTooLong {
			t.Errorf("Acquire = %v; want WaitTooLong", err)
		}
		if s := l.Stats(); s.Queued != 0 || s.Refused.Total() != 3 {
			t.Errorf("Stats = %+v; want no waiting caller", s)
		}
		time.Sleep(3 * time.Second)
	})
}

// Callers that arrive while a request is in flight do not queue without limit.
func TestLimiterQueueIsBoundedAfterAnAnswerToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		m.oneWay = time.Millisecond
		l := newLimiter(t, m, slowly(), func(o *quota.LimiterOptions) { o.Queue = 2 })
		began := time.Now()
		for range 5 {
			go func() { _, _ = l.Acquire(t.Context()) }()
		}
		time.Sleep(10 * time.Millisecond)
		if s := l.Stats(); s.Admitted != 1 || s.Queued != 2 || s.Refused[limit.RateExceeded] != 2 {
			t.Errorf("Stats after %v = %+v; want 1 admitted, 2 waiting and 2 refused", time.Since(began), s)
		}
		time.Sleep(5 * time.Second)
		if s := l.Stats(); s.Admitted != 3 || s.Queued != 0 {
			t.Errorf("Stats = %+v; want the two admitted", s)
		}
	})
}

func TestLimiterAcquireEndsAfterMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		m.oneWay = 30 * time.Millisecond
		l := newLimiter(t, m, api(), func(o *quota.LimiterOptions) { o.MaxWait = 50 * time.Millisecond })
		began := time.Now()
		_, err := l.Acquire(t.Context())
		var e *limit.Error
		if !errors.As(err, &e) || e.Reason != limit.QueueTimeout || time.Since(began) != 50*time.Millisecond {
			t.Errorf("Acquire = %v after %v; want a queue timeout after 50ms", err, time.Since(began))
		}
		if s := l.Stats(); s.Queued != 0 || s.Refused[limit.QueueTimeout] != 1 {
			t.Errorf("Stats = %+v; want no waiting caller", s)
		}
	})
}

func TestLimiterCallerMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		m.oneWay = 10 * time.Millisecond
		l := newLimiter(t, m, api())
		why := errors.New("no longer needed")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(15*time.Millisecond, func() { cancel(why) }) // before the response
		if _, err := l.TryAcquire(ctx); err != why {
			t.Errorf("TryAcquire = %v; want its cause", err)
		}
		time.Sleep(10 * time.Millisecond)
		if s := l.Stats(); s.Left != 1 || s.Admitted != 0 || s.Stock != 1 || s.Queued != 0 {
			t.Errorf("Stats = %+v; want one caller that left, and its permit in stock", s)
		}
		if _, err := l.TryAcquire(t.Context()); err != nil || m.asked() != 1 {
			t.Errorf("TryAcquire = %v after %d requests; want nil after 1", err, m.asked())
		}
		if _, err := l.Acquire(ctx); err != why {
			t.Errorf("Acquire = %v with a context that is done; want its cause", err)
		}
	})
}

func TestLimiterWhoLeavesTheQueueMakesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, newModelMeter(0), slowly())
		drain(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		first := make(chan error, 1)
		go func() {
			c, cancel := context.WithCancel(t.Context())
			time.AfterFunc(500*time.Millisecond, cancel)
			_, err := l.Acquire(c)
			first <- err
		}()
		synctest.Wait()
		time.Sleep(600 * time.Millisecond)
		if _, err := l.Acquire(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("Acquire = %v after %v; want the permit of the caller that left, after 1s", err, time.Since(began))
		}
		if err := <-first; err != context.Canceled {
			t.Errorf("Acquire = %v; want context.Canceled", err)
		}
	})
}

func TestLimiterCloseEndsAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(3)
		l := newLimiter(t, m, slowly())
		drain(t, l)
		m.set(weather{hung: true})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := l.Acquire(t.Context()); err != quota.ErrLimiterClosed {
					t.Errorf("Acquire = %v; want ErrLimiterClosed", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		l.Close(context.Background())
		l.Close(context.Background())
		wg.Wait()
		if d := time.Since(began); d != 0 {
			t.Errorf("Close took %v; want no time", d)
		}
		if _, err := l.TryAcquire(t.Context()); err != quota.ErrLimiterClosed {
			t.Errorf("TryAcquire = %v; want ErrLimiterClosed", err)
		}

		// A request is in progress.
		k, err := quota.NewKeyedLimiter(m, quota.KeyedLimiterOptions{Terms: slowly()})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := k.Allow(t.Context(), "client"); err != quota.ErrLimiterClosed {
				t.Errorf("Allow = %v; want ErrLimiterClosed", err)
			}
		})
		synctest.Wait()
		k.Close(context.Background())
		k.Close(context.Background())
		if err := k.Allow(t.Context(), "client"); err != quota.ErrLimiterClosed {
			t.Errorf("Allow = %v; want ErrLimiterClosed", err)
		}
		wg.Wait()
		if d := time.Since(began); d != 0 {
			t.Errorf("Close took %v; want no time", d)
		}
	})
}
