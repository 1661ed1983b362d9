package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/inspect"
)

// bare is the level without protection. It has no Guard and so counts by itself: every
// request is a call.
type bare struct {
	console.BaseSource

	unit, kind string
	load       answerer

	calls, failed atomic.Uint64 // atomics, since all requests count here
	running       atomic.Int64
	took          inspect.Histogram
}

var _ console.Source = (*bare)(nil)

// get calls the source.
func (b *bare) get(ctx context.Context, key int) ([]byte, error) {
	start := time.Now()
	b.calls.Add(1)
	b.running.Add(1)
	body, err := b.load(ctx, key)
	b.running.Add(-1)
	b.took.Record(time.Since(start))
	if err != nil {
		b.failed.Add(1)
	}
	return body, err
}

func (b *bare) see() console.Unit {
	u := console.Unit{
		Name: b.unit, Kind: b.kind, Running: int(b.running.Load()),
		Failed: b.failed.Load(), Calls: b.calls.Load(), CallTime: b.took.Durations(),
	}
	u.Requests = u.Calls
	if b.kind == kindRoute { // the events of Guards carry no time
		u.RequestTime = u.CallTime
	}
	return u
}

// The kinds of units.
const (
	kindGuard = "guard"
	kindRoute = "route"
)

func (b *bare) Snapshot() console.Snapshot {
	return console.Snapshot{Units: []console.Unit{b.see()}}
}

func (b *bare) Detail(string, int) (console.Detail, bool) { return console.Detail{Unit: b.see()}, true }

// HotKeys returns none: bare does not count by key.
func (b *bare) HotKeys(string, int) (inspect.HotKeys, bool) { return inspect.HotKeys{}, true }
