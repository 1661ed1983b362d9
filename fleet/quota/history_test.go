package quota_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// A limiterHistory is a fleet of instances that come and go, their callers, and an
// engine with changing faults.
type limiterHistory struct {
	t     *testing.T
	rng   *rand.Rand
	terms quota.Terms
	meter *modelMeter
	ledger
	callers sync.WaitGroup

	instances []*quota.Limiter
	born      int
	ended     []quota.LimiterStats
}

// randomTerms draws terms until they are valid.
func randomTerms(rng *rand.Rand, mode quota.FailureMode) (t quota.Terms) {
	for {
		t = quota.Terms{
			Rate: fleet.Rate{
				Permits: 1 + rng.IntN(1<<rng.IntN(12)),
				Per:     []time.Duration{100 * time.Millisecond, time.Second, 7 * time.Second, time.Minute}[rng.IntN(4)],
				Burst:   2 + rng.IntN(1<<rng.IntN(10)),
			},
			OnFailure: mode, Instances: 8,
			Retry: time.Duration(50+rng.IntN(500)) * time.Millisecond,
		}
		if rng.IntN(2) == 0 { // no slack: a lease of whole permits, and large batches
			t.Rate.Burst = 3 + rng.IntN(30)
			t.MaxBatch = t.Rate.Burst
			t.Lease = time.Duration(1+rng.IntN(3)) * t.Rate.Per / time.Duration(t.Rate.Permits)
		}
		l, err := quota.NewLimiter(newModelMeter(0), quota.LimiterOptions{Terms: t, Key: fleet.Key{Name: "x"}})
		if err == nil {
			l.Close(context.Background())
			return t
		}
	}
}

func (h *limiterHistory) join() {
	o := quota.LimiterOptions{Terms: h.terms, Key: fleet.Key{Namespace: "limits", Name: "api"}}
	o.Queue, o.MaxWait = 1+h.rng.IntN(50), time.Duration(1+h.rng.IntN(3000))*time.Millisecond
	l, err := quota.NewLimiter(h.meter, o)
	if err != nil {
		h.t.Fatal(err)
	}
	l.Seed(h.rng.Uint64())
	h.instances = append(h.instances, l)
	h.born++
}

// update changes options that may differ between instances.
func (h *limiterHistory) update() {
	o := quota.LimiterOptions{Terms: h.terms, Key: fleet.Key{Namespace: "limits", Name: "api"}}
	o.Queue, o.MaxWait = 1+h.rng.IntN(50), time.Duration(1+h.rng.IntN(3000))*time.Millisecond
	o.Retry, o.MaxBatch = time.Duration(50+h.rng.IntN(500))*time.Millisecond, 1+h.rng.IntN(h.terms.Rate.Burst)
	if err := h.instances[h.rng.IntN(len(h.instances))].Update(o); err != nil {
		h.t.Error(err)
	}
}

func (h *limiterHistory) quit(i int) {
	h.instances[i].Close(context.Background())
	h.ended = append(h.ended, h.instances[i].Stats())
	h.instances = append(h.instances[:i], h.instances[i+1:]...)
}

func (h *limiterHistory) call(l *quota.Limiter, take func(context.Context) (limit.Permit, error), patience time.Duration) {
	h.callers.Go(func() {
		ctx := context.Background()
		if patience > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		began := time.Now()
		_, err := take(ctx)
		var refused *limit.Error
		switch {
		case err == nil:
			h.letIn()
		case errors.Is(err, context.DeadlineExceeded) && patience > 0 && time.Since(began) < patience:
			h.t.Errorf("a deadline of %v ended the call after %v", patience, time.Since(began))
		case errors.As(err, &refused) && refused.RetryAfter <= 0:
			h.t.Errorf("%v has no RetryAfter", err)
		case refused == nil && !errors.Is(err, context.DeadlineExceeded) && err != quota.ErrLimiterClosed:
			h.t.Errorf("Acquire = %v", err)
		}
	})
}

// send sends several callers at once to one instance.
func (h *limiterHistory) send() {
	l := h.instances[h.rng.IntN(len(h.instances))]
	waits := h.rng.IntN(3) == 0
	for range 1 + h.rng.IntN(1<<h.rng.IntN(6)) {
		if waits {
			h.call(l, l.Acquire, time.Duration(h.rng.IntN(500))*time.Millisecond)
		} else {
			h.call(l, l.TryAcquire, 0)
		}
	}
}

// steadily sends one caller after another; each may start before the previous one is
// done.
func (h *limiterHistory) steadily() {
	gap := time.Duration(1+h.rng.IntN(3_000)) * time.Microsecond
	for range 20 + h.rng.IntN(60) {
		l := h.instances[h.rng.IntN(len(h.instances))]
		h.call(l, l.TryAcquire, 0)
		time.Sleep(gap)
	}
}

// squeeze makes instances lease as much as they can and use it as late as they can,
// when the engine has new permits already.
func (h *limiterHistory) squeeze() {
	lease := h.lease()
	n := 1 + h.rng.IntN(min(24, 2*h.terms.Rate.Burst))
	for _, l := range h.instances {
		for range n {
			h.call(l, l.TryAcquire, 0)
		}
	}
	time.Sleep(lease/2 - time.Duration(h.rng.Int64N(int64(lease/4))))
	for _, l := range h.instances { // leases a batch, according to the demand so far
		h.call(l, l.TryAcquire, 0)
	}
	pause := lease - time.Duration(h.rng.Int64N(int64(lease/8))) // just in time
	switch h.rng.IntN(4) {
	case 0:
		pause += lease / 6 // too late
	case 1:
		pause += h.terms.Rate.Per / time.Duration(h.terms.Rate.Permits) * time.Duration(h.terms.Rate.Burst) // the burst is full again
	}
	time.Sleep(pause)
	for range 3 {
		for _, l := range h.instances {
			for range n {
				h.call(l, l.TryAcquire, 0)
			}
		}
		time.Sleep(time.Duration(h.rng.Int64N(int64(lease / 8))))
	}
}

// lease returns the lease of the terms, or one near the default.
func (h *limiterHistory) lease() time.Duration {
	if h.terms.Lease > 0 {
		return h.terms.Lease
	}
	half := int64(h.terms.Rate.Per) / int64(h.terms.Rate.Permits) * int64(h.terms.Rate.Burst/2)
	return min(200*time.Millisecond, max(time.Millisecond, time.Duration(half)))
}

func (h *limiterHistory) change() {
	switch h.rng.IntN(6) {
	case 0:
		h.meter.set(weather{down: true})
	case 1:
		h.meter.set(weather{hung: true})
	case 2, 3:
		h.meter.set(weather{lost: h.rng.IntN(30), lostAnswer: h.rng.IntN(30), twice: h.rng.IntN(30), reload: h.rng.IntN(50), slow: h.rng.IntN(100)})
	default:
		h.meter.set(weather{})
	}
}

func (h *limiterHistory) step() {
	switch h.rng.IntN(12) {
	case 0:
		h.change()
	case 1:
		if len(h.instances) < 8 {
			h.join()
		}
	case 2:
		if len(h.instances) > 1 {
			h.quit(h.rng.IntN(len(h.instances)))
		}
	case 3, 4:
		h.steadily()
	case 5, 6:
		h.squeeze()
	case 7:
		h.update()
	case 8:
		time.Sleep(time.Duration(h.rng.Int64N(int64(time.Millisecond) << h.rng.IntN(12))))
	default:
		h.send()
	}
}

func (h *limiterHistory) finish() (s quota.LimiterStats) {
	h.callers.Wait() // the bubble's clock advances until all have given up
	for len(h.instances) > 0 {
		h.quit(0)
	}
	for _, e := range h.ended {
		s.Admitted += e.Admitted
		s.OutageAdmitted += e.OutageAdmitted
		s.Leased += e.Leased
		if e.Queued != 0 || e.Stock != 0 {
			h.t.Errorf("after Close %d callers wait and %d permits are in stock; want none", e.Queued, e.Stock)
		}
	}
	return s
}

func runLimiterHistory(t *testing.T, seed uint64, mode quota.FailureMode) {
	rng := rand.New(rand.NewPCG(seed, uint64(mode)))
	h := &limiterHistory{t: t, rng: rng, terms: randomTerms(rng, mode), meter: newModelMeter(seed)}
	if rng.IntN(3) == 0 {
		h.change()
	}
	h.join()
	for range 9 {
		h.step()
	}
	s := h.finish()
	rate := h.terms.Rate
	if mode == quota.FailLocalShare {
		// Each instance's local share comes on top, at 1/8 of the rate.
		rate.Permits, rate.Per = rate.Permits*(8+h.born), rate.Per*8
		rate.Burst += h.born * max(1, rate.Burst/8)
	}
	if over := h.excess(rate); over > 0 {
		t.Errorf("seed %d, %v: the worst window is %d above the bound of %+v, of %d admitted in all", seed, mode, over, h.terms, h.n())
	}
	if s.Admitted != uint64(h.n()) {
		t.Errorf("seed %d, %v: Stats counts %d admitted; want %d", seed, mode, s.Admitted, h.n())
	}
	if leased := s.Admitted - s.OutageAdmitted; leased > s.Leased || s.Leased > uint64(h.meter.counted) {
		t.Errorf("seed %d, %v: %d admitted with leased permits, of %d, of %d counted", seed, mode, leased, s.Leased, h.meter.counted)
	}
	if mode == quota.FailClosed && s.OutageAdmitted != 0 {
		t.Errorf("seed %d: %d admitted without the engine", seed, s.OutageAdmitted)
	}
}

// T11: TestLimiterHistories runs random histories, 10,000 in a full run. One that is
// run alone has the same steps, though the scheduler decides the order of events at one
// instant.
func TestLimiterHistories(t *testing.T) {
	histories.InLanes(t, 400, 10_000, func(t *testing.T, seed uint64) {
		mode := quota.FailClosed
		if seed%4 == 0 {
			mode = quota.FailLocalShare
		}
		synctest.Test(t, func(t *testing.T) { runLimiterHistory(t, seed, mode) })
	})
}
