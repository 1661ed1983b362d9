package weirgrpc_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/limit"
)

// Explain has the estimate of what a call costs, whether it would share or not, and what a
// budget has to do with it.
func TestH34_ExplainHasTheEstimate(t *testing.T) {
	o := shared(weir.Options{TTL: time.Hour, StaleWhileRevalidate: time.Hour})
	p := o.Methods[getMethod]
	p.Cost = func(_ string, req proto.Message) int {
		if req == nil {
			return 0 // counts as 1
		}
		return proto.Size(req)
	}
	o.Methods[getMethod] = p
	p.Budget = limit.Must(limit.NewRateLimiter(limit.RateOptions{PerSecond: 1000, Burst: 1000}))
	p.Share, p.Guard = weirgrpc.ShareNone, weir.Options{}
	o.Methods[watchMethod] = p
	s := newServer(t, o)
	req := message("item", "tea")
	size := proto.Size(req)
	check := func(what, method string, req any, answer string, cost int, step string) {
		t.Helper()
		for late := time.Now().Add(2 * time.Millisecond); time.Now().Before(late); {
			runtime.Gosched()
		}
		x := s.Explain(t.Context(), method, req)
		if x.Answer != answer || x.Cost != cost || x.Steps[len(x.Steps)-1] != step {
			t.Errorf("%s: %+v; want %s, the cost %d, and at the end %q", what, x, answer, cost, step)
		}
	}
	counted := "The estimated cost of the execution is %d: it is counted, and no budget limits it."
	check("an execution", getMethod, req, "execute", size, fmt.Sprintf(counted, size))
	check("a call alone", watchMethod, req, "alone", size, fmt.Sprintf("The estimated cost of the execution is %d: the budget of the policy admits it.", size))
	check("a stream", watchMethod, nil, "alone", 1, "The estimated cost of the execution is 1: the budget of the policy admits it.")
	if _, err := call(t.Context(), s, req, func(_ context.Context, req any) (any, error) { return req, nil }); err != nil {
		t.Fatal(err)
	}
	check("a hit", getMethod, req, "hit", 0, fmt.Sprintf("The response costs nothing. The estimate for an execution is %d.", size))

	p = o.Methods[getMethod]
	p.Guard = weir.Options{TTL: time.Millisecond, StaleWhileRevalidate: time.Hour}
	s = newServer(t, weirgrpc.Options{Methods: map[string]weirgrpc.Policy{getMethod: p}})
	if _, err := call(t.Context(), s, req, func(_ context.Context, req any) (any, error) { return req, nil }); err != nil {
		t.Fatal(err)
	}
	check("a stale response", getMethod, req, "stale", 0, fmt.Sprintf("The response costs nothing. The estimate for its refresh is %d.", size))
}
