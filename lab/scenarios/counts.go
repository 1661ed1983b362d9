package scenarios

import (
	"sync"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/result"
)

// Names of what a Guard has counted of a measurement.
const (
	hits        = "hits"              // answered from memory, and fresh
	staleHits   = "stale hits"        // answered from memory, and not
	joins       = "joined a load"     // waited for a load that somebody else had started
	waitedLoads = "loads waited for"  // begun by a caller, who waits
	refreshes   = "refreshes"         // loads in the background, for which nobody waits
	skipped     = "refreshes skipped" // for want of a place
)

// A counter is what a Guard has counted since the last reset. Its methods are
// for a scenario.Service.
type counter struct {
	stats func() weir.Stats

	mu   sync.Mutex
	base weir.Stats // guarded by mu; at the last reset
}

// reset begins to count anew.
func (c *counter) reset() {
	now := c.stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = now
}

// values returns the counts by their names.
func (c *counter) values() map[string]float64 {
	now := c.stats()
	c.mu.Lock()
	was := c.base
	c.mu.Unlock()
	return map[string]float64{
		hits:        float64(now.Hits - was.Hits),
		staleHits:   float64(now.StaleHits - was.StaleHits),
		joins:       float64(now.Joins - was.Joins),
		waitedLoads: float64(now.Loads - now.Refreshes - was.Loads + was.Refreshes),
		refreshes:   float64(now.Refreshes - was.Refreshes),
		skipped:     float64(now.RefreshesSkipped - was.RefreshesSkipped),
	}
}

// accounted is how many requests the counts account for. A request is counted
// under exactly one of these names.
func accounted(m result.Measurement) int64 {
	return int64(m.Values[hits] + m.Values[staleHits] + m.Values[joins] + m.Values[waitedLoads])
}
