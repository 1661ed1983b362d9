package metrics

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// Emit receives one value of m and the values of m.Labels, in order.
type Emit func(m *Metric, v float64, labels ...string)

// A Walk reads values for one scrape or collection. Call Gateway before Limiters:
// upstreams keep their names, and limiters with the same name get different ones.
// Make one with NewWalk; it is not safe for concurrent use.
type Walk struct {
	emit   Emit
	limits Names
	seen   map[limit.Limiter]bool // a limiter that several Guards share is read once
}

// NewWalk returns a Walk that calls emit for each value.
func NewWalk(emit Emit) *Walk {
	return &Walk{emit, Names{}, map[limit.Limiter]bool{}}
}

// Gateway emits the values of a gateway, its upstreams and its cache. The adapters define
// their own metrics for routes.
func (w *Walk) Gateway(st gateway.Stats) {
	put(w, gatewayUnrouted, st.Unrouted)
	put(w, gatewayRejected, st.Rejected)
	for name, u := range st.Upstreams {
		w.limits[name] = true
		w.upstream(name, u)
		if u.Budget != nil {
			w.budget("upstream", name, *u.Budget)
		}
	}
	for name, f := range st.Fallbacks {
		for reason := range f.Sent {
			put(w, fallbackRequests, f.Sent[reason], name, f.Upstream, reason, "sent")
			put(w, fallbackRequests, f.Refused[reason], name, f.Upstream, reason, "refused")
			put(w, fallbackRequests, f.Would[reason], name, f.Upstream, reason, "observed")
		}
	}
	for name, b := range st.Budgets {
		w.budget("route", name, b)
	}
	for name, b := range st.ClientBudgets {
		put(w, budgetRefused, b.Refused, "client", name)
		put(w, budgetReturned, b.Returned, "client", name)
		put(w, budgetOwed, b.Owed, "client", name)
		put(w, budgetForgiven, b.Forgiven, "client", name)
	}
	for name, h := range st.Hedges {
		put(w, hedges, h.Won, name, "won")
		put(w, hedges, h.Failed, name, "failed")
		put(w, hedges, h.Lost, name, "lost")
		for reason, n := range h.Refused {
			put(w, hedgesRefused, n, name, reason)
		}
		put(w, hedgesDelay, h.Delay.Seconds(), name)
	}
	w.idempotency(st.Idempotency)
	w.Cache(st.Cache)
}

// idempotency emits the values of a gateway's Idempotency-Keys, nil if it has none.
func (w *Walk) idempotency(st *once.Stats) {
	if st == nil {
		return
	}
	for result, n := range st.Counts {
		m := idempotencyRequests
		if once.IsCall(result) {
			m = idempotencyCalls
		}
		put(w, m, n, result)
	}
	put(w, idempotencyUnknown, st.Unknown)
	put(w, idempotencyKeys, st.Usage.Keys)
	put(w, idempotencyMaxKeys, st.Usage.MaxKeys)
	put(w, idempotencySize, st.Usage.Bytes)
	put(w, idempotencyLimit, st.Usage.MaxBytes)
}

func (w *Walk) upstream(name string, u gateway.UpstreamStats) {
	put(w, upstreamRetries, u.Retries, name)
	put(w, upstreamRetriesRefused, u.NoBudget, name)
	failed := uint64(0)
	for _, one := range u.Names {
		failed += one.Failures
	}
	put(w, upstreamLookupFailures, failed, name)
	for _, one := range u.Servers {
		put(w, serverHealthy, truth(one.Healthy), name, one.URL)
		put(w, serverEjected, truth(one.Ejected), name, one.URL)
		put(w, serverPenalized, truth(one.State == "penalized" || one.State == "trying"), name, one.URL)
		put(w, serverWeight, one.Weight, name, one.URL)
		put(w, serverHead, one.Head.Seconds(), name, one.URL)
		put(w, serverFailing, one.Failing, name, one.URL)
		put(w, serverKept, one.Kept, name, one.URL)
		put(w, serverMoved, one.Moved, name, one.URL)
		put(w, serverInFlight, one.InFlight, name, one.URL)
		put(w, serverCalls, one.Calls, name, one.URL)
		put(w, serverFailures, one.Failures, name, one.URL)
	}
	l := u.Limit
	if l.Kind == "none" {
		return // no cap, no values
	}
	st := limit.ConcurrencyStats{
		Limit: l.Limit, InUse: l.InUse, Queued: l.Queued, Overloaded: l.Overloaded, Admitted: l.Admitted, Waited: l.Waited,
		Storm: l.Storm, Storms: l.Storms, Late: l.Late,
	}
	for reason := range st.Refused {
		st.Refused[reason] = l.RefusedBy[limit.Reason(reason).String()] //nolint:gosec // an index of an array of reasons
	}
	w.concurrency(name, st)
	if l.Kind == "adaptive" {
		put(w, limitLatency, l.Latency.Seconds(), name)
		put(w, limitBaseline, l.Baseline.Seconds(), name)
	}
}

func (w *Walk) budget(kind, name string, b gateway.BudgetStats) {
	put(w, budgetLeft, b.Left, kind, name)
	put(w, budgetBurst, b.Burst, kind, name)
	put(w, budgetQueued, b.Queued, kind, name)
	put(w, budgetWaited, b.Waited, kind, name)
	put(w, budgetRefused, b.Refused, kind, name)
	put(w, budgetReturned, b.Returned, kind, name)
	put(w, budgetOwed, b.Owed, kind, name)
	put(w, budgetForgiven, b.Forgiven, kind, name)
}

// Cache emits the values of a cache of responses, and of its fleet if it is in one.
func (w *Walk) Cache(st weirhttp.CacheStats) {
	put(w, cacheSize, st.Used)
	put(w, cacheLimit, st.Bytes)
	put(w, cacheResponses, st.Responses)
	put(w, cacheEvictions, st.Evicted)
	put(w, cachePurges, st.Purged)
	put(w, cacheTooBig, st.TooBig)
	if f := st.Folder; f != nil {
		put(w, folderSize, f.Bytes)
		put(w, folderLimit, f.Bound)
		put(w, folderResponses, f.Responses)
		put(w, folderHits, f.Hits)
		put(w, folderWritten, f.Written)
		put(w, folderEvictions, f.Evicted)
		put(w, folderDropped, f.Dropped)
		put(w, folderErrors, f.Errors)
		put(w, folderDamaged, f.Damaged)
	}
	if st.Fleet != nil {
		w.fleet("", *st.Fleet)
	}
}

// Fleet emits the values of a Guard's fleet, if it is in one and has used it.
func (w *Walk) Fleet(guard string, f weir.FleetStats) {
	if f == (weir.FleetStats{}) {
		return
	}
	w.fleet(guard, weirhttp.FleetStats{
		Open: f.Open, Fresh: f.Fresh, Granted: f.Granted, Held: f.Held, Cooling: f.Cooling, Unavailable: f.Unavailable,
		LostLeases: f.LostLeases, Waits: f.Waits, Pushes: f.Pushes, Resets: f.Resets,
		Pending: f.Pending, Blocked: f.Blocked, Queued: f.Queued, Replayed: f.Replayed,
	})
}

func (w *Walk) fleet(guard string, f weirhttp.FleetStats) {
	put(w, fleetOpen, truth(f.Open), guard)
	put(w, fleetAcquires, f.Fresh, guard, "fresh")
	put(w, fleetAcquires, f.Granted, guard, "granted")
	put(w, fleetAcquires, f.Held, guard, "held")
	put(w, fleetAcquires, f.Cooling, guard, "cooling")
	put(w, fleetUnavailable, f.Unavailable, guard)
	put(w, fleetLostLeases, f.LostLeases, guard)
	put(w, fleetWaits, f.Waits, guard)
	put(w, fleetPushes, f.Pushes, guard)
	put(w, fleetResets, f.Resets, guard)
	put(w, fleetPending, f.Pending, guard)
	put(w, fleetBlocked, truth(f.Blocked), guard)
	put(w, fleetQueued, f.Queued, guard)
	put(w, fleetReplayed, f.Replayed, guard)
}

// Limiters emits the values of a Guard's limiter, or of each part of a limit.All:
// each under its own name, or the Guard's if it has none. Of limiters of other
// packages it reads those that have the Stats method of one in package limit.
func (w *Walk) Limiters(guard string, l limit.Limiter) {
	for _, part := range limit.Parts(l) {
		if !reflect.ValueOf(part).Comparable() || w.seen[part] {
			continue
		}
		w.seen[part] = true
		read := w.limiter(part)
		if read == nil {
			continue
		}
		name := guard
		if n, ok := part.(interface{ Name() string }); ok && n.Name() != "" {
			name = strings.ToValidUTF8(n.Name(), "\uFFFD")
		}
		read(w.limits.Take(name, guard+":"+name))
	}
}

// An Interceptor has counts of the methods of a gRPC server or client, and the Guards and limiters of its
// policies. It is a *weirgrpc.Server or a *weirgrpc.Client.
type Interceptor interface {
	// Name is the value of the label interceptor.
	Name() string
	// Stats are of a bounded number of methods, each with another name.
	Stats() []inspect.MethodStats
	// Guards and Limiters always return the same.
	Guards() []weir.Inspector
	Limiters() []limit.Limiter
}

// Methods emits the values of gRPC methods under the name of their Server or Client.
func (w *Walk) Methods(name string, methods []inspect.MethodStats) {
	for _, m := range methods {
		method := strings.ToValidUTF8(m.Method, "\uFFFD")
		put(w, grpcCalls, m.Calls, name, method)
		put(w, grpcStreams, m.Streams, name, method)
		put(w, grpcAvoided, m.Hits, name, method, "hit")
		put(w, grpcAvoided, m.Stale, name, method, "stale")
		put(w, grpcAvoided, m.Joined, name, method, "joined")
		put(w, grpcAvoided, m.Fleet, name, method, "fleet")
		put(w, grpcExecuted, m.Executed, name, method)
		put(w, grpcFailed, m.Failed, name, method)
		put(w, grpcAlone, m.NotShared.NotSafe, name, method, "not_safe")
		put(w, grpcAlone, m.NotShared.Metadata, name, method, "metadata")
		put(w, grpcAlone, m.NotShared.Peer, name, method, "peer")
		put(w, grpcAlone, m.NotShared.Scope, name, method, "scope")
		put(w, grpcAlone, m.NotShared.Message, name, method, "message")
		put(w, grpcAlone, m.NotShared.Size, name, method, "size")
		put(w, grpcAlone, m.NotShared.CallOption, name, method, "call_option")
		put(w, grpcAlone, m.NotShared.Connection, name, method, "connection")
		put(w, grpcAlone, m.NotShared.Private, name, method, "private")
		put(w, grpcRefused, m.Refused, name, method, "limit")
		put(w, grpcRefused, m.RefusedClient, name, method, "client")
		put(w, grpcAnswers, m.Responses.OK, name, method, "ok")
		put(w, grpcAnswers, m.Responses.ClientError, name, method, "client_error")
		put(w, grpcAnswers, m.Responses.ServerError, name, method, "server_error")
		put(w, grpcAnswers, m.Left, name, method, "left")
		put(w, grpcStarted, m.Executions, name, method)
		put(w, grpcErrors, m.NotFound, name, method, "not_found")
		put(w, grpcErrors, m.Declined, name, method, "declined")
		put(w, grpcErrors, m.Failures, name, method, "failure")
		put(w, grpcErrors, m.Abandoned, name, method, "abandoned")
		put(w, grpcCost, m.CostSpent, name, method, "spent")
		put(w, grpcCost, m.CostRefused, name, method, "refused")
		put(w, grpcRunning, m.Running, name, method)
	}
}

// limiter returns a function that emits the values of l under a name, or nil.
func (w *Walk) limiter(l limit.Limiter) func(name string) {
	switch l := l.(type) {
	case interface{ Stats() limit.AdaptiveStats }:
		return func(name string) {
			st := l.Stats()
			w.concurrency(name, st.ConcurrencyStats)
			put(w, limitLatency, st.Latency.Seconds(), name)
			put(w, limitBaseline, st.Baseline.Seconds(), name)
		}
	case interface {
		Stats() limit.ConcurrencyStats
	}:
		return func(name string) { w.concurrency(name, l.Stats()) }
	case interface{ Stats() limit.RateStats }:
		return func(name string) {
			st := l.Stats()
			w.admission(name, st.Queued, st.Admitted, st.Waited, st.Refused)
		}
	}
	return nil
}

func (w *Walk) concurrency(name string, st limit.ConcurrencyStats) {
	put(w, limitPermits, st.Limit, name)
	put(w, limitInUse, st.InUse, name)
	put(w, limitOverloaded, truth(st.Overloaded), name)
	put(w, limitStorm, truth(st.Storm), name)
	put(w, limitStorms, st.Storms, name)
	put(w, limitLate, st.Late, name)
	w.admission(name, st.Queued, st.Admitted, st.Waited, st.Refused)
}

func (w *Walk) admission(name string, queued int, admitted, waited uint64, refused limit.Refusals) {
	put(w, limitQueued, queued, name)
	put(w, limitAdmitted, admitted, name)
	put(w, limitWaited, waited, name)
	for reason := limit.RateExceeded; int(reason) < len(refused); reason++ {
		put(w, limitRefused, refused[reason], name, Reason(reason))
	}
}

// reasons are the values of the label reason. A test fails if one is missing.
var reasons = [len(limit.Refusals{})]string{
	limit.RateExceeded: "rate_exceeded",
	limit.QueueFull:    "queue_full",
	limit.QueueTimeout: "queue_timeout",
	limit.WaitTooLong:  "wait_too_long",
	limit.Displaced:    "displaced",
	limit.NoSpare:      "no_spare",
	limit.TooMany:      "too_many",
}

// Reason returns the value of the label reason for r.
func Reason(r limit.Reason) string {
	if int(r) < len(reasons) && reasons[r] != "" {
		return reasons[r]
	}
	return strings.ReplaceAll(r.String(), " ", "_")
}

// Names holds the values that one scrape or collection has used for a label: a registry
// rejects the whole scrape if two series are equal.
type Names map[string]bool

// Take returns name, or a different name if it is taken.
func (n Names) Take(name, another string) string {
	for i := 2; n[name]; i++ {
		name = another
		if n[name] {
			name += " " + strconv.Itoa(i)
		}
	}
	n[name] = true
	return name
}

// put emits a number of any type that occurs in Stats.
func put[N ~int | ~int64 | ~uint64 | ~float64](w *Walk, m *Metric, v N, labels ...string) {
	w.emit(m, float64(v), labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
