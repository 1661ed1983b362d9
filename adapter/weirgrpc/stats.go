package weirgrpc

import (
	"cmp"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/weir-go/weir"
)

// MethodStats count the calls and streams of one method since the Server or Client was
// created. They are read one after another, so under traffic they may not add up
// exactly.
type MethodStats struct {
	Method string // the full name, or "others" for those beyond MaxMethods

	Calls   uint64 // calls and streams, including rejected ones
	Streams uint64 // streams that were admitted
	Alone   uint64 // calls that shared nothing, by reason in NotShared

	// Calls that could be shared.
	Hits     uint64 // got a fresh response from memory
	Stale    uint64 // got a stale one
	Joined   uint64 // waited for the execution of another call, or of another instance
	Executed uint64 // started an execution
	Failed   uint64 // got the failure of an execution, or left before its end

	Refused       uint64 // rejected by a limiter, or after Close
	RefusedClient uint64 // rejected by Options.ClientLimiter

	// Executions, shared or not, and streams that have ended without a response, by code.
	// They are the same classes as for a Guard and an Observer: NotFound is not-found, the
	// other codes that are responses are successful loads, and the rest are failures.
	NotFound uint64 // NotFound
	Declined uint64 // another code that is a response, such as PermissionDenied
	Failures uint64 // a code that is a failure, or a panic

	// Units of Policy.Cost of calls that shared nothing, and of streams. Those of shared
	// executions are in the Stats of the Guard.
	CostSpent   uint64 // as stated, or else the estimate; after the end of the call
	CostRefused uint64 // the estimates of rejected ones

	NotShared NotShared

	ObserverPanics uint64 // outside of Guards, which count their own

	Running int // calls that share nothing, and streams, now
}

// NotShared counts calls that shared nothing, by reason.
type NotShared struct {
	NotSafe    uint64 // the method is not declared safe
	Metadata   uint64 // undeclared metadata
	Peer       uint64 // an identity of the peer without a rule
	Scope      uint64 // Policy.Scope returned false
	Message    uint64 // the message is no proto.Message
	Size       uint64 // larger than Options.MaxRequest
	CallOption uint64 // a call option that is not known to be irrelevant
	Connection uint64 // no OneIdentity, or another connection
	Private    uint64 // the response that the call waited for was private
}

// A method is a method that was called.
type method struct {
	name   string
	policy *policy
	safe   bool
	counts *counts // own, or those of all methods beyond MaxMethods
	own    counts
}

// counts are behind MethodStats.
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

func (m *method) stats() MethodStats {
	c := m.counts
	n := func(r reason) uint64 { return c.notShared[r].Load() }
	return MethodStats{
		Method: m.name,
		Calls:  c.calls.Load(), Streams: c.streams.Load(), Alone: c.alone.Load(),
		Hits: c.hits.Load(), Stale: c.stale.Load(), Joined: c.joined.Load(), Executed: c.executed.Load(), Failed: c.failed.Load(),
		Refused: c.refused.Load(), RefusedClient: c.refusedClient.Load(),
		NotFound: c.notFound.Load(), Declined: c.declined.Load(), Failures: c.failures.Load(),
		CostSpent: c.costSpent.Load(), CostRefused: c.costRefused.Load(),
		NotShared: NotShared{
			NotSafe: n(notSafe), Metadata: n(byMetadata), Peer: n(byPeer), Scope: n(byScope), Message: n(byMessage),
			Size: n(bySize), CallOption: n(byOption), Connection: n(byConnection), Private: c.private.Load(),
		},
		ObserverPanics: c.observerPanics.Load(),
		Running:        int(c.running.Load()),
	}
}

// stats returns the counts of all methods that were called, by name.
func (e *engine) stats() []MethodStats {
	var all []MethodStats
	e.methods.Range(func(_, m any) bool {
		all = append(all, m.(*method).stats())
		return true
	})
	slices.SortFunc(all, func(a, b MethodStats) int { return cmp.Compare(a.Method, b.Method) })
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
