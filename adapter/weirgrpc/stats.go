package weirgrpc

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// A method is a method that was called.
type method struct {
	name   string
	policy *policy
	safe   bool
	counts *counts // own, or those of all methods that are not counted by name
	own    counts
}

// counts are behind inspect.MethodStats.
type counts struct {
	calls, streams, alone                 atomic.Uint64
	hits, stale, joined, executed, failed atomic.Uint64
	refused, refusedClient, private       atomic.Uint64
	notFound, declined, failures          atomic.Uint64
	costSpent, costRefused                atomic.Uint64
	observerPanics                        atomic.Uint64
	notShared                             [reasonEnd]atomic.Uint64
	running                               atomic.Int64
}

// shared counts a call by its result.
func (c *counts) shared(r weir.Result[*response]) {
	switch {
	case r.State == weir.StateStale, r.State == weir.StateStaleOnError:
		c.stale.Add(1)
	case r.Source == weir.FromMemory:
		c.hits.Add(1)
	case r.Joined, r.Source == weir.FromTier:
		c.joined.Add(1)
	default:
		c.executed.Add(1)
	}
}

// ended counts an execution or a stream that has ended with err.
func (c *counts) ended(err error) {
	if err == nil {
		return
	}
	switch code := codeOf(err); {
	case code == codes.OK:
	case code == codes.NotFound:
		c.notFound.Add(1)
	case isAnswer(code):
		c.declined.Add(1)
	default:
		c.failures.Add(1)
	}
}

func (m *method) stats() inspect.MethodStats {
	c := m.counts
	n := func(r reason) uint64 { return c.notShared[r].Load() }
	return inspect.MethodStats{
		Method: m.name,
		Calls:  c.calls.Load(), Streams: c.streams.Load(), Alone: c.alone.Load(),
		Hits: c.hits.Load(), Stale: c.stale.Load(), Joined: c.joined.Load(), Executed: c.executed.Load(), Failed: c.failed.Load(),
		Refused: c.refused.Load(), RefusedClient: c.refusedClient.Load(),
		NotFound: c.notFound.Load(), Declined: c.declined.Load(), Failures: c.failures.Load(),
		CostSpent: c.costSpent.Load(), CostRefused: c.costRefused.Load(),
		NotShared: inspect.NotShared{
			NotSafe: n(notSafe), Metadata: n(byMetadata), Peer: n(byPeer), Scope: n(byScope), Message: n(byMessage),
			Size: n(bySize), CallOption: n(byOption), Connection: n(byConnection), Private: c.private.Load(),
		},
		ObserverPanics: c.observerPanics.Load(),
		Running:        int(c.running.Load()),
	}
}

// stats returns the counts of all methods that were called, by name.
func (e *engine) stats() []inspect.MethodStats {
	var all []inspect.MethodStats
	e.methods.Range(func(_, m any) bool {
		all = append(all, m.(*method).stats())
		return true
	})
	slices.SortFunc(all, func(a, b inspect.MethodStats) int { return cmp.Compare(a.Method, b.Method) })
	if e.others.counts.calls.Load() > 0 {
		all = append(all, e.others.stats())
	}
	return all
}

// inspectors returns the Guards, by name.
func (e *engine) inspectors() []weir.Inspector {
	var all []weir.Inspector
	for _, g := range e.guards() {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b weir.Inspector) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

// limiters returns the limiters of the Options and of the policies, by pattern.
func (e *engine) limiters() []limit.Limiter {
	all := []limit.Limiter{e.o.Limiter, e.o.Streams}
	for _, pattern := range slices.Sorted(maps.Keys(e.o.Methods)) {
		for _, l := range []limit.Limiter{e.o.Methods[pattern].Limiter, e.o.Methods[pattern].Budget} {
			if l != nil {
				all = append(all, l)
			}
		}
	}
	return all
}
