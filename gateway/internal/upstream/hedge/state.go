// Package hedge decides when a call that takes longer than most is repeated at another server (H41),
// which is a hedge.
//
// All decisions are made from what the calls of a route have shown. Time is an argument
// everywhere, so the same code runs in the gateway and in a simulation.
package hedge

import (
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// The rules' constants.
const (
	// Least is the shortest delay: below it a difference between times means nothing.
	Least = 2 * time.Millisecond
	// mostSaved is how many hedges calls can save up for. mostSavedTime bounds the time of hedges
	// in the same way, in calls of the mean length: one hedge of a hundred may be long itself.
	mostSaved     = 25
	mostSavedTime = 1000
	// groups is how many groups of tenants have a separate share, and ahead how many hedges
	// a group may have before it has paid for them. All of them together are still within the
	// budget.
	groups = 1024
	ahead  = 5
	// meanWeight is the weight of one call in the mean length of calls.
	meanWeight = 1. / 64
	// costWeight is the weight of one hedge in the mean length of hedges.
	costWeight = 1. / 16
)

// A Rule is what a route declares.
type Rule struct {
	// Budget is how many hedges 100 calls pay for, and how many seconds of hedges 100 s of calls.
	Budget int
	// After is when a call gets a hedge. 0 means the quantile of recent calls that the budget pays
	// for.
	After time.Duration
}

// A Verdict says whether a call gets a hedge, and if not, why.
type Verdict uint8

// The verdicts.
const (
	Sent    Verdict = iota
	Budget          // the calls have not paid for another hedge
	Time            // nor has the time that they took
	Tenant          // nor have the calls of this tenant
	Class           // hedges of calls of this length do not win
	Servers         // there is no other server that is well, or half of them are not
	Busy            // no permit is free, or calls wait, or a limit was lowered
	verdicts
)

// String returns the verdict as it is in statistics.
func (v Verdict) String() string {
	return [...]string{"sent", "budget", "time", "tenant", "class", "servers", "busy"}[v]
}

// Verdicts returns the reasons for which there is no hedge.
func Verdicts() []Verdict { return []Verdict{Budget, Time, Tenant, Class, Servers, Busy} }

// A State is what is known of the calls of a route. The zero State is one of which nothing is
// known. It is safe for concurrent use.
type State struct {
	mu      sync.Mutex
	calls   float64         // guarded by mu: hedges that are paid for
	tenants [groups]float32 // guarded by mu: hedges that are paid for
	keys    keys            // guarded by mu
	classes [classes]class  // guarded by mu
	stats   Stats           // guarded by mu
}

// Stats counts what a State has decided.
type Stats struct {
	Calls    uint64           // first calls
	Sent     uint64           // hedges
	Won      uint64           // hedges whose response was used
	Failed   uint64           // hedges that have failed
	Lost     uint64           // hedges that were slower than the first call
	Observed uint64           // hedges that observe mode has not sent
	Time     time.Duration    // that hedges have taken
	Of       time.Duration    // that first calls have taken
	Refused  [verdicts]uint64 // by Verdict
	// Delay is when a call of the class with the most calls gets a hedge, 0 if that is not known.
	Delay time.Duration
}

// A Call is a first call, and its hedge.
type Call struct {
	class  uint8
	tenant uint16
	key    uint64
	began  choose.Instant
	hedged choose.Instant // when the hedge began
	held   float64        // what it is expected to take, in nanoseconds
}

// Begin counts a first call, of a key and a tenant. It returns when the call gets a hedge; ok is
// false if that is not known.
func (s *State) Begin(now choose.Instant, rule Rule, key, tenant uint64) (c Call, after time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Calls++
	c = Call{class: s.keys.class(key), tenant: uint16(tenant % groups), key: key, began: now} //nolint:gosec // below groups
	pays := float64(rule.Budget) / 100
	s.calls = min(s.calls+pays, mostSaved)
	t := &s.tenants[c.tenant]
	*t = min(*t+float32(pays), mostSaved-ahead)
	if rule.After > 0 {
		return c, rule.After, true
	}
	after, ok = s.classes[c.class].delay(rule.Budget)
	return c, after, ok
}

// An Outcome is how a first call has ended, or when it was given up.
type Outcome uint8

// The outcomes.
const (
	Headed Outcome = iota // it has a head that is no failure
	Failed                // it has failed
	GaveUp                // it would have taken longer
)

// End records the end of a first call: its head, or that there is none.
func (s *State) End(now choose.Instant, rule Rule, c *Call, o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Duration(max(now-c.began, 0))
	s.stats.Of += took
	k := &s.classes[c.class]
	k.mean += (float64(took) - k.mean) * max(meanWeight, 1/(k.total+1))
	k.earn(took, rule)
	if d, ok := k.delay(rule.Budget); o == Failed && (!ok || took <= d) {
		return // failing fast is not being fast
	}
	k.add(took, rule.Budget)
	s.keys.add(c.key, took)
}

// Hedge decides whether c gets a hedge now, and takes it off the budgets. If it is not sent after
// all, call Withdraw, and else Ended.
func (s *State) Hedge(now choose.Instant, c *Call) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.classes[c.class]
	expects := k.cost
	if expects == 0 {
		expects = max(k.mean, float64(now-c.began)) // it probably takes as long
	}
	v := Sent
	switch {
	case s.calls < 1:
		v = Budget
	case s.tenants[c.tenant] < 1-ahead:
		v = Tenant
	case k.left(now) < expects:
		v = Time
	case k.stopped && k.skips():
		v = Class
	}
	if v != Sent {
		s.stats.Refused[v]++
		return v
	}
	s.calls--
	s.tenants[c.tenant]--
	c.hedged, c.held = now, expects
	k.hold(now, expects)
	s.stats.Sent++
	return Sent
}

// Withdraw takes back a hedge that was not sent, and counts why; Sent means that the first call has
// ended. With observed it would have been sent, which is paid for.
func (s *State) Withdraw(c *Call, why Verdict, observed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Sent--
	s.classes[c.class].release(c)
	if observed {
		s.stats.Observed++
		return
	}
	s.calls++
	s.tenants[c.tenant]++
	if why != Sent {
		s.stats.Refused[why]++
	}
}

// Ended records the end of c's hedge. It has won if its response is used; failed means that it
// has not responded, or with a failure.
func (s *State) Ended(now choose.Instant, c *Call, won, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Duration(max(now-c.hedged, 0))
	k := &s.classes[c.class]
	k.release(c)
	k.time -= float64(took)
	s.stats.Time += took
	switch {
	case won:
		s.stats.Won++
	case failed:
		s.stats.Failed++
	default:
		s.stats.Lost++
	}
	if k.cost == 0 {
		k.cost = float64(took)
	}
	k.cost += (float64(took) - k.cost) * costWeight
	k.judge(won)
}

// Worked records how long a server went on with a first call that was given up.
func (s *State) Worked(rule Rule, c *Call, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Of += d
	s.classes[c.class].earn(d, rule)
}

// Stats returns the counts.
func (s *State) Stats(rule Rule) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	if out.Delay = rule.After; out.Delay > 0 {
		return out
	}
	most := 0.
	for i := range s.classes {
		k := &s.classes[i]
		if d, ok := k.delay(rule.Budget); ok && k.total > most {
			most, out.Delay = k.total, d
		}
	}
	return out
}
