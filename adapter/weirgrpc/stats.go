package weirgrpc

import (
	"cmp"
	"context"
	"errors"
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
	calls, streams, alone                atomic.Uint64
	hits, stale, joined, fleet, executed atomic.Uint64
	ran, ranFailures, failed, left       atomic.Uint64
	refused, refusedClient, private      atomic.Uint64
	ok, clientErrors, serverErrors       atomic.Uint64
	executions, refreshes, staleOnError  atomic.Uint64
	notFound, declined                   atomic.Uint64
	failures, abandoned                  atomic.Uint64
	costSpent, costRefused               atomic.Uint64
	observerPanics                       atomic.Uint64
	notShared                            [reasonEnd]atomic.Uint64
	running, executing                   atomic.Int64
	callTime, waitTime, executionTime    inspect.Histogram
}

// shared counts a call by its result.
func (c *counts) shared(r weir.Result[*response]) {
	switch {
	case r.State == weir.StateStale:
		c.stale.Add(1)
	case r.State == weir.StateStaleOnError:
		c.stale.Add(1)
		c.staleOnError.Add(1)
	case r.Source == weir.FromMemory:
		c.hits.Add(1)
	case r.Joined:
		c.joined.Add(1)
	case r.Source == weir.FromTier:
		c.fleet.Add(1)
	default:
		c.executed.Add(1)
	}
}

// answered counts what the caller of a call with ctx, or of a stream, has received.
func (c *counts) answered(ctx context.Context, err error) {
	switch code := codeOf(err); {
	case hasLeft(ctx, err):
		c.left.Add(1)
	case code == codes.OK:
		c.ok.Add(1)
	case isAnswer(code):
		c.clientErrors.Add(1)
	default:
		c.serverErrors.Add(1)
	}
}

// hasLeft reports whether err is the end of a call whose caller has canceled ctx.
func hasLeft(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.Canceled) && codeOf(err) == codes.Canceled
}

// ranAlone counts a call that has shared nothing, or a stream, which has ended with err.
func (c *counts) ranAlone(ctx context.Context, err error) {
	if hasLeft(ctx, err) {
		return // answered counts it
	}
	c.ran.Add(1)
	if code := codeOf(err); code != codes.OK && !isAnswer(code) {
		c.ranFailures.Add(1)
	}
}

// ended counts an execution with ctx, or a stream, that has ended with err.
func (c *counts) ended(ctx context.Context, err error) {
	switch code := codeOf(err); {
	case code == codes.OK:
	case hasLeft(ctx, err):
		c.abandoned.Add(1)
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
		Hits: c.hits.Load(), Stale: c.stale.Load(), Joined: c.joined.Load(), Fleet: c.fleet.Load(), Executed: c.executed.Load(),
		Ran: c.ran.Load(), RanFailures: c.ranFailures.Load(), Failed: c.failed.Load(), Left: c.left.Load(),
		Refused: c.refused.Load(), RefusedClient: c.refusedClient.Load(),
		Responses:  inspect.MethodResponses{OK: c.ok.Load(), ClientError: c.clientErrors.Load(), ServerError: c.serverErrors.Load()},
		Executions: c.executions.Load(), Refreshes: c.refreshes.Load(), StaleOnError: c.staleOnError.Load(),
		NotFound: c.notFound.Load(), Declined: c.declined.Load(), Failures: c.failures.Load(), Abandoned: c.abandoned.Load(),
		CostSpent: c.costSpent.Load(), CostRefused: c.costRefused.Load(),
		NotShared: inspect.NotShared{
			NotSafe: n(notSafe), Metadata: n(byMetadata), Peer: n(byPeer), Scope: n(byScope), Message: n(byMessage),
			Size: n(bySize), CallOption: n(byOption), Connection: n(byConnection), Private: c.private.Load(),
		},
		ObserverPanics: c.observerPanics.Load(),
		Running:        int(c.running.Load()), Executing: int(c.executing.Load()),
		CallTime: c.callTime.Durations(), WaitTime: c.waitTime.Durations(), ExecutionTime: c.executionTime.Durations(),
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

// partsOf returns what serves a method.
func (e *engine) partsOf(name string) (guard weir.Inspector, calls, streams limit.Limiter) {
	p := e.policyOf(name)
	if p.guard != nil && p.shares(name) {
		guard = p.guard
	}
	return guard, p.unary, p.streams
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
