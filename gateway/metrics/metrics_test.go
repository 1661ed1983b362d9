package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// A walk over everything emits each row of the table with its own number of Stats.
func TestC8_EachNumberInItsPlace(t *testing.T) {
	got := map[string]float64{}
	w := metrics.NewWalk(func(m *metrics.Metric, v float64, labels ...string) {
		if len(labels) != len(m.Labels) {
			t.Errorf("%s: labels %q; want %d, of %q", m.Name, labels, len(m.Labels), m.Labels)
		}
		got[strings.Join(append([]string{m.Name}, labels...), " ")] = v
	})
	w.Gateway(gateway.Stats{
		Unrouted: 1, Rejected: 2,
		Hedges: map[string]gateway.HedgeStats{"shop": {
			Won: 301, Failed: 3, Lost: 2, Refused: map[string]uint64{"busy": 302}, Delay: 303 * time.Second,
		}},
		Budgets: map[string]gateway.BudgetStats{"chat": {Left: -44}},
		Fallbacks: map[string]gateway.FallbackStats{"chat": {
			Upstream: "standby", Sent: map[string]uint64{"down": 67}, Refused: map[string]uint64{"down": 68}, Would: map[string]uint64{"down": 69},
		}},
		ClientBudgets: map[string]weirhttp.ClientBudgetStats{
			"chat": {Refused: 141, Returned: 142, Owed: 143, Forgiven: 144},
		},
		Idempotency: &once.Stats{Unknown: 70, Counts: map[string]uint64{"claimed": 71, "replayed": 72, "told_unknown": 73}, Usage: once.Usage{Keys: 74, MaxKeys: 75, Bytes: 76, MaxBytes: 77}},
		Cache: weirhttp.CacheStats{Used: 3, Bytes: 4, Responses: 5, Evicted: 6, Purged: 7, TooBig: 8, Fleet: &weirhttp.FleetStats{Waits: 9},
			Folder: &weirhttp.FolderStats{Bytes: 35, Bound: 36, Responses: 37, Hits: 38, Written: 39, Evicted: 40, Dropped: 41, Errors: 42, Damaged: 43}},
		Upstreams: map[string]gateway.UpstreamStats{"main": {
			Retries: 10, NoBudget: 11, Names: []gateway.NameStats{{Name: "a", Failures: 65}, {Name: "b", Failures: 1}},
			Budget: &gateway.BudgetStats{Left: 45, Burst: 46, Queued: 47, Waited: 48, Refused: 49, Returned: 50, Owed: 51, Forgiven: 52},
			Limit: gateway.LimitStats{
				Kind: "adaptive", Limit: 12, InUse: 13, Queued: 14, Overloaded: true, Admitted: 15, Waited: 16, Storm: true, Storms: 72, Late: 73,
				RefusedBy: map[string]uint64{"queue full": 17}, Latency: 18 * time.Second, Baseline: 19 * time.Second,
			},
			Servers: []gateway.ServerStats{{URL: "a", Healthy: true, InFlight: 20, Calls: 21, Failures: 22, Weight: 60, State: "penalized", Head: 61 * time.Second, Failing: 0.62, Kept: 63, Moved: 64}, {URL: "b", Ejected: true}},
		}},
	})
	w.Fleet("prices", weir.FleetStats{
		Open: true, Fresh: 23, Granted: 24, Held: 25, Cooling: 26, Unavailable: 27, LostLeases: 28, Waits: 29, Pushes: 30, Resets: 31,
		Pending: 32, Blocked: true, Queued: 33, Replayed: 34,
	})
	w.Methods("calls", []inspect.MethodStats{{
		Method: "/a/B", Calls: 200, Streams: 201, Hits: 202, Stale: 203, Joined: 204, Executed: 205, Failed: 206, Refused: 207, RefusedClient: 208,
		NotFound: 209, Declined: 210, Failures: 211, CostSpent: 212, CostRefused: 213, Running: 214,
		Fleet: 224, Abandoned: 225, Executions: 226, Responses: inspect.MethodResponses{OK: 227, ClientError: 228, ServerError: 229}, Left: 230,
		NotShared: inspect.NotShared{
			NotSafe: 215, Metadata: 216, Peer: 217, Scope: 218, Message: 219, Size: 220, CallOption: 221, Connection: 222, Private: 223,
		},
	}})
	want := map[string]float64{
		"grpc.calls calls /a/B": 200, "grpc.streams calls /a/B": 201, "grpc.avoided calls /a/B hit": 202, "grpc.avoided calls /a/B stale": 203,
		"grpc.avoided calls /a/B joined": 204, "grpc.executed calls /a/B": 205, "grpc.failed calls /a/B": 206, "grpc.refused calls /a/B limit": 207,
		"grpc.refused calls /a/B client": 208, "grpc.errors calls /a/B not_found": 209, "grpc.errors calls /a/B declined": 210,
		"grpc.errors calls /a/B failure": 211, "grpc.cost calls /a/B spent": 212, "grpc.cost calls /a/B refused": 213, "grpc.running calls /a/B": 214,
		"grpc.alone calls /a/B not_safe": 215, "grpc.alone calls /a/B metadata": 216, "grpc.alone calls /a/B peer": 217, "grpc.alone calls /a/B scope": 218,
		"grpc.alone calls /a/B message": 219, "grpc.alone calls /a/B size": 220, "grpc.alone calls /a/B call_option": 221,
		"grpc.avoided calls /a/B fleet": 224, "grpc.errors calls /a/B abandoned": 225, "grpc.executions calls /a/B": 226, "grpc.responses calls /a/B ok": 227,
		"grpc.responses calls /a/B client_error": 228, "grpc.responses calls /a/B server_error": 229, "grpc.responses calls /a/B left": 230,
		"grpc.alone calls /a/B connection": 222, "grpc.alone calls /a/B private": 223,
		"idempotency.unknown": 70, "idempotency.calls claimed": 71, "idempotency.requests replayed": 72, "idempotency.requests told_unknown": 73,
		"idempotency.keys": 74, "idempotency.keys_limit": 75, "idempotency.size": 76, "idempotency.limit": 77,
		"folder.size": 35, "folder.limit": 36, "folder.responses": 37, "folder.hits": 38, "folder.written": 39,
		"folder.evictions": 40, "folder.dropped": 41, "folder.errors": 42, "folder.damaged": 43,
		"hedges shop won": 301, "hedges shop failed": 3, "hedges shop lost": 2, "hedges.refused shop busy": 302, "hedges.delay shop": 303,
		"gateway.unrouted": 1, "gateway.rejected": 2,
		"cache.size": 3, "cache.limit": 4, "cache.responses": 5, "cache.evictions": 6, "cache.purges": 7, "cache.too_big": 8, "fleet.waits ": 9,
		"fallback.requests chat standby down sent": 67, "fallback.requests chat standby down refused": 68, "fallback.requests chat standby down observed": 69,
		"upstream.lookup_failures main": 66, "upstream.retries main": 10, "upstream.retries_refused main": 11,
		"limit.permits main": 12, "limit.in_use main": 13, "limit.queued main": 14, "limit.overloaded main": 1, "limit.admitted main": 15,
		"limit.storm main": 1, "limit.storms main": 72, "limit.late main": 73,
		"limit.waited main": 16, "limit.refused main queue_full": 17, "limit.latency main": 18, "limit.baseline main": 19,
		"server.healthy main a": 1, "server.in_flight main a": 20, "server.calls main a": 21, "server.failures main a": 22, "server.penalized main a": 1, "server.weight main a": 60, "server.head main a": 61, "server.failing main a": 0.62, "server.kept main a": 63, "server.moved main a": 64, "server.ejected main b": 1,
		"budget.left upstream main": 45, "budget.burst upstream main": 46, "budget.queued upstream main": 47, "budget.waited upstream main": 48,
		"budget.refused upstream main": 49, "budget.returned upstream main": 50, "budget.owed upstream main": 51,
		"budget.forgiven upstream main": 52, "budget.left route chat": -44,
		"budget.refused client chat": 141, "budget.returned client chat": 142, "budget.owed client chat": 143, "budget.forgiven client chat": 144,
		"fleet.open prices": 1, "fleet.acquires prices fresh": 23, "fleet.acquires prices granted": 24, "fleet.acquires prices held": 25,
		"fleet.acquires prices cooling": 26, "fleet.unavailable prices": 27, "fleet.lost_leases prices": 28, "fleet.waits prices": 29,
		"fleet.pushes prices": 30, "fleet.resets prices": 31, "fleet.pending_invalidations prices": 32, "fleet.reads_blocked prices": 1,
		"fleet.queued_invalidations prices": 33, "fleet.replayed_invalidations prices": 34,
	}
	for series, v := range got {
		if v != want[series] {
			t.Errorf("%s = %v; want %v", series, v, want[series])
		}
	}
	rows := map[string]bool{}
	for series := range want {
		if _, ok := got[series]; !ok {
			t.Errorf("%s: not emitted", series)
		}
		name, _, _ := strings.Cut(series, " ")
		rows[name] = true
	}
	for _, m := range metrics.All() {
		if !rows[m.Name] || m.Help == "" || m.Unit == "" {
			t.Errorf("%+v: want it emitted, with a help text and a unit", m)
		}
	}
	if len(rows) != len(metrics.All()) {
		t.Errorf("%d names in %d rows; want one each", len(rows), len(metrics.All()))
	}
}

// A Guard that has asked nothing of a fleet has no values of one.
func TestC8_NoFleetNoValues(t *testing.T) {
	w := metrics.NewWalk(func(m *metrics.Metric, v float64, _ ...string) { t.Errorf("%s = %v; want nothing", m.Name, v) })
	w.Fleet("prices", weir.FleetStats{})
	w.Limiters("prices", nil)
}

// Each reason has a label of its own, none of them made from its text.
func TestC8_EveryReasonHasALabel(t *testing.T) {
	want := map[limit.Reason]string{
		limit.RateExceeded: "rate_exceeded", limit.QueueFull: "queue_full", limit.QueueTimeout: "queue_timeout",
		limit.WaitTooLong: "wait_too_long", limit.Displaced: "displaced", limit.NoSpare: "no_spare", limit.TooMany: "too_many",
	}
	for r := limit.RateExceeded; int(r) < len(limit.Refusals{}); r++ {
		if got := metrics.Reason(r); got != want[r] {
			t.Errorf("Reason(%v) = %q; want %q", r, got, want[r])
		}
	}
}
