package weirprom_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// A catalog stands in for a *weirgrpc.Server, with one method.
type catalog struct {
	name   string
	stats  inspect.MethodStats
	guards []weir.Inspector
	limits []limit.Limiter
}

func (c *catalog) Name() string { return c.name }
func (c *catalog) Stats() []inspect.MethodStats {
	st := c.stats
	st.Method = "/shop.v1.Catalog/Get\xff"
	return []inspect.MethodStats{st}
}
func (c *catalog) Guards() []weir.Inspector  { return c.guards }
func (c *catalog) Limiters() []limit.Limiter { return c.limits }

// Each count of a method is reported under its name, with its kind.
func TestC8_MetricsOfMethodsEqualTheirStats(t *testing.T) {
	const want = `
# HELP weir_grpc_alone_total Calls that shared nothing: the method is not declared safe (not_safe); they have undeclared metadata (metadata), a peer with an identity (peer), an unknown scope (scope), no message that can be compared (message), too large a request (size), a call option that could matter (call_option), or a connection without one identity (connection); or the response was for one client (private).
# TYPE weir_grpc_alone_total counter
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="call_option"} 16
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="connection"} 17
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="message"} 14
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="metadata"} 11
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="not_safe"} 10
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="peer"} 12
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="private"} 18
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="scope"} 13
weir_grpc_alone_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="size"} 15
# HELP weir_grpc_avoided_total Calls that started no execution: answered by a fresh response (hit), a stale one (stale), or the execution of another call (joined) or instance (fleet).
# TYPE weir_grpc_avoided_total counter
weir_grpc_avoided_total{interceptor="calls",kind="fleet",method="/shop.v1.Catalog/Get�"} 26
weir_grpc_avoided_total{interceptor="calls",kind="hit",method="/shop.v1.Catalog/Get�"} 3
weir_grpc_avoided_total{interceptor="calls",kind="joined",method="/shop.v1.Catalog/Get�"} 5
weir_grpc_avoided_total{interceptor="calls",kind="stale",method="/shop.v1.Catalog/Get�"} 4
# HELP weir_grpc_calls_total Calls and streams, including refused ones.
# TYPE weir_grpc_calls_total counter
weir_grpc_calls_total{interceptor="calls",method="/shop.v1.Catalog/Get�"} 1
# HELP weir_grpc_cost_total Units of cost of calls that shared nothing and of streams (spent), and the estimates of refused ones (refused). Those of shared executions are in the Guard's.
# TYPE weir_grpc_cost_total counter
weir_grpc_cost_total{interceptor="calls",kind="refused",method="/shop.v1.Catalog/Get�"} 24
weir_grpc_cost_total{interceptor="calls",kind="spent",method="/shop.v1.Catalog/Get�"} 23
# HELP weir_grpc_errors_total Executions and streams that ended without a response: with NotFound (not_found), another code that is a response, such as PermissionDenied (declined), a code that is a failure, or a panic (failure), or because no caller was waiting any more (abandoned).
# TYPE weir_grpc_errors_total counter
weir_grpc_errors_total{interceptor="calls",kind="abandoned",method="/shop.v1.Catalog/Get�"} 27
weir_grpc_errors_total{interceptor="calls",kind="declined",method="/shop.v1.Catalog/Get�"} 21
weir_grpc_errors_total{interceptor="calls",kind="failure",method="/shop.v1.Catalog/Get�"} 22
weir_grpc_errors_total{interceptor="calls",kind="not_found",method="/shop.v1.Catalog/Get�"} 20
# HELP weir_grpc_executed_total Calls that could be shared, started an execution, and got its response.
# TYPE weir_grpc_executed_total counter
weir_grpc_executed_total{interceptor="calls",method="/shop.v1.Catalog/Get�"} 6
# HELP weir_grpc_executions_total Executions, shared or not, and streams.
# TYPE weir_grpc_executions_total counter
weir_grpc_executions_total{interceptor="calls",method="/shop.v1.Catalog/Get�"} 28
# HELP weir_grpc_failed_total Calls that could be shared and got the failure of an execution, and calls that got an error while they waited.
# TYPE weir_grpc_failed_total counter
weir_grpc_failed_total{interceptor="calls",method="/shop.v1.Catalog/Get�"} 7
# HELP weir_grpc_refused_total Calls and streams that were refused by a limiter (limit), or by the limit of their client (client).
# TYPE weir_grpc_refused_total counter
weir_grpc_refused_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="client"} 9
weir_grpc_refused_total{interceptor="calls",method="/shop.v1.Catalog/Get�",reason="limit"} 8
# HELP weir_grpc_responses_total Calls and streams that have ended, by what their caller received: a response (ok), a code that is a response, such as NotFound, or the limit of the client (client_error), another code (server_error), or nothing, because it had canceled the call (left).
# TYPE weir_grpc_responses_total counter
weir_grpc_responses_total{class="client_error",interceptor="calls",method="/shop.v1.Catalog/Get�"} 30
weir_grpc_responses_total{class="left",interceptor="calls",method="/shop.v1.Catalog/Get�"} 32
weir_grpc_responses_total{class="ok",interceptor="calls",method="/shop.v1.Catalog/Get�"} 29
weir_grpc_responses_total{class="server_error",interceptor="calls",method="/shop.v1.Catalog/Get�"} 31
# HELP weir_grpc_running Calls that share nothing, and streams, that have not ended.
# TYPE weir_grpc_running gauge
weir_grpc_running{interceptor="calls",method="/shop.v1.Catalog/Get�"} 25
# HELP weir_grpc_streams_total Streams that were admitted.
# TYPE weir_grpc_streams_total counter
weir_grpc_streams_total{interceptor="calls",method="/shop.v1.Catalog/Get�"} 2
`
	m := &catalog{name: "calls", stats: inspect.MethodStats{
		Calls: 1, Streams: 2, Hits: 3, Stale: 4, Joined: 5, Executed: 6, Failed: 7, Refused: 8, RefusedClient: 9,
		NotShared: inspect.NotShared{
			NotSafe: 10, Metadata: 11, Peer: 12, Scope: 13, Message: 14, Size: 15, CallOption: 16, Connection: 17, Private: 18,
		},
		NotFound: 20, Declined: 21, Failures: 22, CostSpent: 23, CostRefused: 24, Running: 25,
		Fleet: 26, Abandoned: 27, Executions: 28, Responses: inspect.MethodResponses{OK: 29, ClientError: 30, ServerError: 31}, Left: 32,
	}}
	if err := compare(collector(t, weirprom.Options{Interceptors: []metrics.Interceptor{m}}), want); err != nil {
		t.Error(err)
	}
}

// An interceptor is reported with its Guards and limiters, and all of it ends with RemoveInterceptor.
func TestC8_MethodsComeAndGo(t *testing.T) {
	used, free := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "calls", Limit: 3})), limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 7}))
	own := guard(t, same, weir.Options{Name: "grpc/", TTL: time.Minute, Limiter: used})
	other := guard(t, same, weir.Options{Name: "other", TTL: time.Minute})
	m := &catalog{name: "grpc", guards: []weir.Inspector{own}, limits: []limit.Limiter{used, free, used}}
	c := collector(t, weirprom.Options{Guards: []weir.Inspector{other}})
	if err := c.AddInterceptor(m); err != nil {
		t.Fatal(err)
	}
	f := gather(t, c)
	if got := labelled(f["weir_limit_permits"], "limit"); !slices.Equal(got, []string{"calls", "grpc"}) {
		t.Errorf("limiters %q; want calls once, and grpc", got)
	}
	if got := labelled(f["weir_guard_loads_total"], "guard"); !slices.Equal(got, []string{"grpc/", "other"}) {
		t.Errorf("Guards %q; want grpc/ and other", got)
	}

	taken := &catalog{name: "second", guards: []weir.Inspector{guard(t, same, weir.Options{Name: "new"}), other}}
	for what, is := range map[string]struct{ err, want error }{
		"it again":               {c.AddInterceptor(m), weirprom.ErrTaken},
		"no interceptor":         {c.AddInterceptor(nil), weirprom.ErrNil},
		"another of its name":    {c.AddInterceptor(&catalog{name: "grpc"}), weirprom.ErrTaken},
		"a nameless interceptor": {c.AddInterceptor(&catalog{}), weirprom.ErrName},
		"a taken Guard":          {c.AddInterceptor(taken), weirprom.ErrTaken},
	} {
		if !errors.Is(is.err, is.want) {
			t.Errorf("adding %s = %v; want %v", what, is.err, is.want)
		}
	}
	if got := labelled(gather(t, c)["weir_guard_loads_total"], "guard"); !slices.Equal(got, []string{"grpc/", "other"}) {
		t.Errorf("Guards %q after an error; want no change", got)
	}

	if !c.RemoveInterceptor("grpc") || c.RemoveInterceptor("grpc") {
		t.Error("RemoveInterceptor twice: want true, and then false")
	}
	f = gather(t, c)
	if len(f["weir_grpc_calls_total"].GetMetric()) != 0 || len(f["weir_limit_permits"].GetMetric()) != 0 {
		t.Error("methods or limiters are reported after RemoveInterceptor")
	}
	if got := labelled(f["weir_guard_loads_total"], "guard"); !slices.Equal(got, []string{"other"}) {
		t.Errorf("Guards %q after RemoveInterceptor; want other", got)
	}
	if err := c.AddInterceptor(m); err != nil {
		t.Errorf("adding it after that = %v", err)
	}
	own.Close(context.Background())
}
