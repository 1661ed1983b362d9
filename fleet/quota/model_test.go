package quota_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A modelMeter is an engine that counts exactly: it keeps a bucket in a unit that
// divides both a permit and a nanosecond. Its clock can differ widely from the
// instances' clocks, and the connection to the instances has faults.
type modelMeter struct {
	skew    time.Duration // of its clock
	started time.Time

	mu      sync.Mutex
	debt    map[fleet.Key]int64 // permits taken that have not come back
	at      map[fleet.Key]time.Duration
	weather weather       // guarded by mu
	rng     *rand.Rand    // guarded by mu; nil for no faults
	takes   int           // guarded by mu; requests sent
	largest int           // guarded by mu; most permits requested at once
	rate    fleet.Rate    // guarded by mu; of the last request
	counted int           // guarded by mu; permits given
	oneWay  time.Duration // if there are no faults
}

// A weather is the probability of each fault, in percent.
type weather struct {
	lost, lostAnswer, twice, reload, slow int
	down, hung                            bool
}

func newModelMeter(seed uint64) *modelMeter {
	m := &modelMeter{started: time.Now(), debt: map[fleet.Key]int64{}, at: map[fleet.Key]time.Duration{}}
	if seed != 0 {
		m.rng = rand.New(rand.NewPCG(seed, 1))
		m.skew = time.Duration(m.rng.Int64N(int64(30*time.Minute))) - 15*time.Minute
	}
	return m
}

var errDown = &fleet.UnavailableError{Op: "take", Err: errors.New("connection refused")}

// Take implements fleet.Meter.
func (m *modelMeter) Take(ctx context.Context, k fleet.Key, r fleet.Rate, n int) (fleet.Taken, error) {
	ctx, cancel := context.WithTimeout(ctx, 75*time.Millisecond)
	defer cancel()
	m.mu.Lock()
	m.takes++
	m.largest, m.rate = max(m.largest, n), r
	w, hit := m.weather, func(percent int) bool { return m.rng != nil && m.rng.IntN(100) < percent }
	lost, lostAnswer, twice, reload := hit(w.lost), hit(w.lostAnswer), hit(w.twice), hit(w.reload)
	there, back := m.delayLocked(w), m.delayLocked(w)
	m.mu.Unlock()
	if w.down {
		return fleet.Taken{}, errDown
	}
	if reload { // one more round trip that executes nothing
		there += there + back
	}
	if lost || w.hung || !pause(ctx, there) {
		return fleet.Taken{}, gone(ctx)
	}
	t := m.count(k, r, n)
	if twice {
		t = m.count(k, r, n)
	}
	if lostAnswer || !pause(ctx, back) {
		return fleet.Taken{}, gone(ctx)
	}
	return t, nil
}

func (m *modelMeter) delayLocked(w weather) time.Duration {
	switch {
	case m.rng == nil:
		return m.oneWay
	case m.rng.IntN(100) < w.slow:
		return time.Duration(m.rng.Int64N(int64(60 * time.Millisecond)))
	}
	return time.Duration(m.rng.Int64N(int64(time.Millisecond)))
}

// pause waits for d, and reports whether ctx allowed it.
func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// gone waits for the deadline, and returns its error.
func gone(ctx context.Context) error {
	<-ctx.Done()
	return &fleet.UnavailableError{Op: "take", Err: ctx.Err()}
}

// count takes up to n permits, exactly.
func (m *modelMeter) count(k fleet.Key, r fleet.Rate, n int) fleet.Taken {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Since(m.started) + m.skew
	debt, known := m.debt[k]
	if elapsed := now - m.at[k]; !known || int64(elapsed) > debt/int64(r.Permits) {
		debt = 0
	} else {
		debt -= int64(elapsed) * int64(r.Permits)
	}
	per, full := int64(r.Per), int64(r.Burst)*int64(r.Per)
	given := min(int64(n), (full-debt)/per)
	debt += given * per
	m.debt[k], m.at[k] = debt, now
	m.counted += int(given)
	if given == 0 {
		missing := debt + per - full
		return fleet.Taken{RetryAfter: time.Duration((missing + int64(r.Permits) - 1) / int64(r.Permits))}
	}
	return fleet.Taken{Permits: int(given)}
}

func (m *modelMeter) set(w weather) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.weather = w
}

func (m *modelMeter) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.takes
}

// A ledger records when callers were admitted, by all instances.
type ledger struct {
	mu sync.Mutex
	at []time.Time // guarded by mu; in order, as the bubble has one clock
}

func (l *ledger) letIn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Now())
}

func (l *ledger) n() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.at)
}

// excess returns the number of permits, rounded up, by which the worst window exceeds
// r; 0 if none does. With n permits in a window of w that is n − Permits/Per·w −
// Burst. If permits are numbered, and at·Permits − number·Per is the height of each,
// the worst window is the one with the deepest descent.
func (l *ledger) excess(r fleet.Rate) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var highest, worst int64
	for i, at := range l.at {
		if i > 0 && at.Before(l.at[i-1]) {
			panic("the ledger is out of order")
		}
		height := int64(at.Sub(l.at[0]))*int64(r.Permits) - int64(i)*int64(r.Per)
		if i == 0 || height > highest {
			highest = height
		}
		worst = max(worst, highest-height+int64(r.Per)*int64(1-r.Burst))
	}
	return int((worst + int64(r.Per) - 1) / int64(r.Per))
}

func TestLedgerFindsTheWorstWindow(t *testing.T) {
	r := fleet.Rate{Permits: 10, Per: time.Second, Burst: 3}
	start := time.Now()
	at := func(ms ...int) *ledger {
		l := &ledger{}
		for _, d := range ms {
			l.at = append(l.at, start.Add(time.Duration(d)*time.Millisecond))
		}
		return l
	}
	for _, row := range []struct {
		l    *ledger
		want int
	}{
		{at(), 0},
		{at(0, 0, 0), 0},
		{at(0, 0, 0, 100), 0},
		{at(0, 0, 0, 99), 1},
		{at(0, 0, 0, 0, 0), 2},
		{at(0, 500, 1000, 1000, 1000, 1050), 1},
		{at(0, 500, 1000, 1050, 1100, 1100, 1200), 0},
	} {
		if got := row.l.excess(r); got != row.want {
			t.Errorf("excess(%v) = %d; want %d", row.l.at, got, row.want)
		}
	}
}
