package scenarios

import (
	"sync"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/result"
)

// Names of the counts of a Guard in a measurement.
const (
	hits        = "hits"              // served from memory, fresh
	staleHits   = "stale hits"        // served from memory, stale
	joins       = "joined a load"     // waited for a load that another caller had started
	waitedLoads = "loads waited for"  // started by a caller that waits for it
	refreshes   = "refreshes"         // loads in the background, without a waiting caller
	skipped     = "refreshes skipped" // for lack of a free slot
)

// A counter holds the counts of a Guard since the last reset. Its methods are for a
// scenario.Service.
type counter struct {
	stats func() weir.Stats

	mu   sync.Mutex
	base weir.Stats // guarded by mu; at the last reset
}

// reset starts the counts at zero.
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

// accounted is the number of requests in the counts. Each request is counted under
// exactly one of these names.
func accounted(m result.Measurement) int64 {
	return int64(m.Values[hits] + m.Values[staleHits] + m.Values[joins] + m.Values[waitedLoads])
}
