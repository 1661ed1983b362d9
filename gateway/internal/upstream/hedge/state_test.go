package hedge_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
	"github.com/weir-go/weir/gateway/internal/upstream/hedge"
)

const ms = time.Millisecond

// A route plays calls one after another.
type route struct {
	hedge.State
	rule hedge.Rule
	now  choose.Instant
}

func newRoute(budget int, after time.Duration) *route {
	return &route{rule: hedge.Rule{Budget: budget, After: after}, now: choose.Instant(time.Hour)}
}

// call plays a call that takes d, and whose hedge, if it has one, takes other.
func (r *route) call(key, tenant uint64, d, other time.Duration) (v hedge.Verdict, hedged bool) {
	c, after, ok := r.Begin(r.now, r.rule, key<<32|key, tenant)
	if !ok || after >= d {
		r.now += choose.Instant(d)
		r.End(r.now, r.rule, &c, hedge.Headed)
		return 0, false
	}
	r.now += choose.Instant(after)
	if v = r.Hedge(r.now, &c); v != hedge.Sent {
		r.now += choose.Instant(d - after)
		r.End(r.now, r.rule, &c, hedge.Headed)
		return v, false
	}
	if after+other < d {
		r.now += choose.Instant(other)
		r.Ended(r.now, &c, true, false)
		r.End(r.now, r.rule, &c, hedge.GaveUp)
	} else {
		r.now += choose.Instant(d - after)
		r.End(r.now, r.rule, &c, hedge.Headed)
		r.Ended(r.now, &c, false, false)
	}
	return hedge.Sent, true
}

// H41: the delay is the quantile that the budget pays for, of calls that take about as long.
func TestH41_TheDelayIsAQuantileOfItsClass(t *testing.T) {
	for _, budget := range []int{1, 2, 5, 10} {
		r := newRoute(budget, 0)
		random := rand.New(rand.NewPCG(1, 2))
		for range 20_000 {
			r.call(1, 1, time.Duration(10_000+random.IntN(10_000))*time.Microsecond, 10*ms)
			r.call(2, 1, time.Duration(1_000_000+random.IntN(1_000_000))*time.Microsecond, 10*ms)
		}
		for key, base := range map[uint64]time.Duration{1: 10 * ms, 2: time.Second} {
			_, after, ok := r.Begin(r.now, r.rule, key<<32|key, 1)
			want := base + base*time.Duration(100-budget)/100
			if !ok || after < want*95/100 || after > want*115/100 {
				t.Errorf("budget %d: the delay of calls from %v on is %v, %v; want about %v", budget, base, after, ok, want)
			}
		}
	}
}

func TestH41_NoDelayBeforeTheQuantileIsKnown(t *testing.T) {
	r := newRoute(2, 0)
	for n := range 50 {
		if _, _, ok := r.Begin(r.now, r.rule, 1, 1); ok {
			t.Fatalf("the 98th percentile is known after %d calls", n)
		}
		r.call(uint64(n), 1, 10*ms, 0)
	}
	for n := range 50 {
		r.call(uint64(100+n), 1, 10*ms, 0)
	}
	if _, after, ok := r.Begin(r.now, r.rule, 1, 1); !ok || after < 10*ms || after > 12*ms {
		t.Errorf("the delay is %v, %v; want some more than 10 ms", after, ok)
	}
	short := newRoute(2, 0)
	for range 200 {
		short.call(1, 1, 100*time.Microsecond, 0)
	}
	if _, after, _ := short.Begin(short.now, short.rule, 1<<32|1, 1); after != hedge.Least {
		t.Errorf("the delay of calls of 100 µs is %v; want %v", after, hedge.Least)
	}
}

// Failures that are fast do not shorten the delay.
func TestH41_OnlyTimesOfResponsesCount(t *testing.T) {
	r := newRoute(2, 0)
	for range 1000 {
		r.call(1, 1, 100*ms, 10*ms)
	}
	for range 10_000 {
		c, _, _ := r.Begin(r.now, r.rule, 1<<32|1, 1)
		r.now += choose.Instant(ms)
		r.End(r.now, r.rule, &c, hedge.Failed)
	}
	if _, after, ok := r.Begin(r.now, r.rule, 1<<32|1, 1); !ok || after < 100*ms {
		t.Errorf("after failures of 1 ms the delay is %v, %v; want 100 ms", after, ok)
	}
}

// H41: 2 per 100 calls, from the first call on.
func TestH41_TheBudgetOfCalls(t *testing.T) {
	r := newRoute(2, 20*ms)
	calls, hedges := 0, 0
	for range 10_000 {
		calls++
		if _, ok := r.call(1, 1, 100*ms, ms); ok {
			hedges++
		}
		if float64(hedges) > float64(calls)*.02+1e-6 {
			t.Fatalf("%d hedges after %d calls", hedges, calls)
		}
	}
	if hedges < 195 {
		t.Errorf("%d hedges for 10,000 slow calls; want nearly 200", hedges)
	}
	// Quiet times save for few of them.
	for range 100_000 {
		r.call(1, 1, 10*ms, ms)
	}
	hedges = 0
	for range 100 {
		if _, ok := r.call(1, 1, 100*ms, ms); ok {
			hedges++
		}
	}
	if hedges > 25+2 {
		t.Errorf("%d hedges in a row; want at most 25, and the budget", hedges)
	}
}

// H41: 2 per 100 s of the servers' time, each hedge with all the time it ran.
func TestH41_TheBudgetOfTime(t *testing.T) {
	r := newRoute(2, 20*ms)
	for n := range 20_000 {
		d := 10 * ms
		if n%100 == 0 {
			d = 10 * time.Second
		}
		r.call(1, 1, d, 9*time.Second) // they win, and are nearly as long
		if s := r.Stats(r.rule); s.Time > s.Of*2/100+9*time.Second {
			t.Fatalf("hedges took %v, calls %v", s.Time, s.Of)
		}
	}
	s := r.Stats(r.rule)
	if s.Refused[hedge.Time] == 0 || s.Time < s.Of*1/100 {
		t.Errorf("Stats = %+v; want hedges, and refusals for their time", s)
	}
}

// Hedges that run concurrently count with what they are expected to take, and have taken so far.
func TestH41_RunningHedgesCount(t *testing.T) {
	r := newRoute(2, 20*ms)
	for range 10_000 {
		r.call(1, 1, 10*ms, 0)
	}
	sent := 0
	for range 25 {
		c, _, _ := r.Begin(r.now, r.rule, 1<<32|1, 1)
		r.now += choose.Instant(time.Second)
		if r.Hedge(r.now, &c) == hedge.Sent {
			sent++
		}
	}
	if sent != 1 && sent != 2 {
		t.Errorf("%d hedges that do not end, of which 2 s are paid for; want 1 or 2", sent)
	}
}

// H41: a class whose hedges win less than a quarter stops, and one in 50 tries again.
func TestH41_AClassThatDoesNotWinStops(t *testing.T) {
	r := newRoute(10, 20*ms)
	verdicts := map[hedge.Verdict]int{}
	wanted := 0
	play := func(n int, other time.Duration) {
		clear(verdicts)
		wanted = 0
		for i := range n {
			d := 10 * ms
			if i%20 == 0 {
				d = 100 * ms
				wanted++
			}
			if v, ok := r.call(1, 1, d, other); ok || v != hedge.Sent {
				verdicts[v]++
			}
		}
	}
	play(200_000, 100*ms)
	if verdicts[hedge.Class] < wanted*9/10 || verdicts[hedge.Sent] < wanted/60 || verdicts[hedge.Sent] > wanted/30+64 {
		t.Errorf("hedges that never win: %v of %d; want one in 50 of them sent", verdicts, wanted)
	}
	// Another class goes on.
	for range 1000 {
		r.call(2, 1, 500*time.Microsecond, ms)
	}
	if v, ok := r.call(2, 1, 21*ms, 0); v != hedge.Sent || !ok {
		t.Errorf("another class: %v", v)
	}
	play(200_000, ms)
	if verdicts[hedge.Sent] < wanted*8/10 {
		t.Errorf("when they win: %v of %d; want most of them sent", verdicts, wanted)
	}
	// A third of wins is enough.
	for i := range 100_000 {
		other := 100 * ms
		if i%60 == 0 {
			other = ms
		}
		d := 10 * ms
		if i%20 == 0 {
			d = 100 * ms
		}
		r.call(1, 1, d, other)
	}
	play(2_000, ms)
	if verdicts[hedge.Class] > 0 {
		t.Errorf("after a third of wins: %v", verdicts)
	}
}

// H41: a tenant's share of the hedges is at most its share of the calls, and five.
func TestH41_EachTenantHasItsShare(t *testing.T) {
	r := newRoute(2, 20*ms)
	calls, hedges := map[uint64]int{}, map[uint64]int{}
	for i := range 100_000 {
		tenant, d := uint64(1), 10*ms
		if i%5 == 0 {
			tenant, d = 2, 100*ms // all of its calls are slow
		} else if i%83 == 0 {
			d = 100 * ms
		}
		calls[tenant]++
		if _, ok := r.call(tenant, tenant, d, ms); ok {
			hedges[tenant]++
		}
		if float64(hedges[2]) > float64(calls[2])*.02+5 {
			t.Fatalf("%d hedges of %d calls", hedges[2], calls[2])
		}
	}
	if hedges[1] < 800 {
		t.Errorf("the other tenant has %d hedges; want most of its 964 slow calls", hedges[1])
	}
}

func TestH41_WhatIsNotSentIsPaidBack(t *testing.T) {
	r := newRoute(2, 20*ms)
	for range 2000 {
		r.call(1, 1, 10*ms, 0)
	}
	for r.Stats(r.rule).Refused[hedge.Budget] == 0 {
		r.call(1, 1, 21*ms, 0)
	}
	for range 50 {
		r.call(1, 1, 10*ms, 0)
	}
	before := r.Stats(r.rule).Sent
	c, _, _ := r.Begin(r.now, r.rule, 1<<32|1, 1)
	for range 100 {
		if v := r.Hedge(r.now+choose.Instant(20*ms), &c); v != hedge.Sent {
			t.Fatalf("Hedge = %v; want Sent", v)
		}
		r.Withdraw(&c, hedge.Busy, false)
	}
	if v := r.Hedge(r.now, &c); v != hedge.Sent {
		t.Fatalf("Hedge = %v; want Sent", v)
	}
	r.Withdraw(&c, hedge.Sent, true)
	if v := r.Hedge(r.now, &c); v != hedge.Budget {
		t.Errorf("after one that observe mode has counted, Hedge = %v; want Budget", v)
	}
	if s := r.Stats(r.rule); s.Sent != before || s.Observed != 1 || s.Refused[hedge.Busy] != 100 {
		t.Errorf("Stats = %+v", s)
	}
}

// Decisions take no memory.
func TestH41_DecisionsAllocateNothing(t *testing.T) {
	r := newRoute(2, 0)
	n := uint64(0)
	if got := testing.AllocsPerRun(1000, func() {
		n++
		r.call(n%100, n, time.Duration(n%50)*ms, ms)
	}); got != 0 {
		t.Errorf("%v allocations for a call", got)
	}
}
