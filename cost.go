package weir

import (
	"github.com/weir-go/weir/limit"
)

// CostStats are what loads cost, and what calls would have cost without the Guard, in
// units of Source.Cost. All are 0 without a Source.Cost.
type CostStats struct {
	Spent   uint64 // units that loads cost: Entry.Cost, or else the estimate
	Hits    uint64 // avoided by Stats.Hits, StaleHits and NegativeHits: what their entry cost
	Joins   uint64 // avoided by Stats.Joins: what the load cost that they joined
	Fleet   uint64 // avoided by FleetStats.TierHits: the estimate
	Refused uint64 // the estimate of loads that the limiter refused
}

// Avoided is what calls would have cost in addition to Spent.
func (c CostStats) Avoided() uint64 { return c.Hits + c.Joins + c.Fleet }

// costStats collects them.
func (g *Guard[K, V]) costStats() CostStats {
	c := &g.count
	return CostStats{
		Spent: c.costSpent.Load(), Hits: c.costHits.sum(), Joins: c.costJoins.Load(), Fleet: c.costFleet.Load(), Refused: c.costRefused.Load(),
	}
}

// estimate returns what a load of key should cost, from 1 to limit.MaxUnits; 0 if cost
// is not counted. It calls the user's code, so the table must not be locked.
func (g *Guard[K, V]) estimate(key K) int {
	if g.src.Cost == nil {
		return 0
	}
	return max(1, min(g.costOf(key), limit.MaxUnits))
}

// estimate computes what each key of the load should cost. Where misses are batched, the
// load may still get other keys.
func (r *run[K, V]) estimate() {
	g, l := r.g, r.l
	if g.src.Cost == nil {
		return
	}
	g.flights.Lock()
	keys := make([]K, len(l.Flights()))
	for i, f := range l.Flights() {
		keys[i] = f.Key
	}
	g.flights.Unlock()
	costs := make([]int, len(keys))
	for i, key := range keys {
		costs[i] = g.estimate(key)
	}
	r.costs = costs
}

// cost returns what the keys of the load cost together, so far as it is known; 0 if cost
// is not counted.
func (r *run[K, V]) cost() int {
	sum := 0
	for _, n := range r.costs {
		sum += min(n, limit.MaxUnits-sum)
	}
	return sum
}

// costs sets what the ith key has cost, as its Entry says: 0 leaves the estimate.
func (r *run[K, V]) costing(i, cost int) {
	switch {
	case i >= len(r.costs) || cost == 0:
	case cost < 0:
		r.costs[i] = 0
	default:
		r.costs[i] = min(cost, limit.MaxUnits)
	}
}

// settleEstimate corrects the permit, which was acquired before the keys of a batched load
// were final.
func (r *run[K, V]) settleEstimate() {
	if r.g.src.Cost == nil {
		return
	}
	asked := r.cost()
	if r.g.batches != nil || r.costs == nil {
		r.estimate()
	}
	if now := r.cost(); now != asked {
		r.g.settle(r.permit, now)
	}
}

// settleCost corrects the permit to what the load has cost, and counts that.
func (r *run[K, V]) settleCost() {
	if r.ctx == nil || r.costs == nil {
		return
	}
	r.g.count.costSpent.Add(uint64(r.cost()))
	r.g.settle(r.permit, r.cost())
}

// countJoinsLocked counts what the callers that joined the ith flight would have cost,
// each alone. The table's lock must be held.
func (r *run[K, V]) countJoinsLocked(i, joined int) {
	if i >= len(r.costs) {
		return
	}
	if !r.l.Background() {
		joined-- // it started the load
	}
	r.g.count.costJoins.Add(uint64(max(0, joined)) * uint64(r.costs[i]))
}

// setCost records what the entry cost, for later hits.
func (e *entry[V]) setCost(n int) {
	if n <= 0 {
		return
	}
	if e.extra == nil {
		e.extra = &extra{}
	}
	e.extra.cost = int32(min(n, limit.MaxUnits)) //nolint:gosec // MaxUnits fits
}

// cost returns what e cost.
func (e *entry[V]) cost() uint64 {
	if e.extra == nil {
		return 0
	}
	return uint64(e.extra.cost) //nolint:gosec // never negative
}
