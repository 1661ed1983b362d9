package weirotel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// A catalog stands in for a *weirgrpc.Server, with one method.
type catalog struct {
	name   string
	guards []weir.Inspector
	limits []limit.Limiter
}

func (c *catalog) Name() string { return c.name }
func (c *catalog) Stats() []inspect.MethodStats {
	return []inspect.MethodStats{{Method: "/shop.v1.Catalog/Get", Calls: 5, Hits: 1, Stale: 2, Joined: 3, RefusedClient: 4, Running: 6}}
}
func (c *catalog) Guards() []weir.Inspector  { return c.guards }
func (c *catalog) Limiters() []limit.Limiter { return c.limits }

// An interceptor is reported with its Guards and limiters, and all of it ends with RemoveInterceptor.
func TestC8_MetricsOfMethods(t *testing.T) {
	r := open(t, weirotel.Options{})
	used, free := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "calls", Limit: 3})), limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 7}))
	load := func(context.Context, string) (string, error) { return "", nil }
	own := weir.Must(weir.New(load, weir.Options{Name: "grpc/", Limiter: used}))
	defer own.Close(context.Background())
	other := r.guard(load, weir.Options{Name: "other"})
	m := &catalog{name: "grpc", guards: []weir.Inspector{own}, limits: []limit.Limiter{used, free, used}}
	if err := r.AddInterceptor(m); err != nil {
		t.Fatal(err)
	}
	const of = "weir.interceptor=grpc weir.method=/shop.v1.Catalog/Get "
	const kind = "weir.interceptor=grpc weir.kind="
	const method = " weir.method=/shop.v1.Catalog/Get "
	r.equal("weir.grpc.calls", of+"5")
	r.equal("weir.grpc.avoided", kind+"hit"+method+"1", kind+"stale"+method+"2", kind+"joined"+method+"3", kind+"fleet"+method+"0")
	r.equal("weir.grpc.refused", of+"weir.reason=limit 0", of+"weir.reason=client 4")
	r.equal("weir.grpc.running", of+"6")
	r.equal("weir.limit.permits", "weir.limit=calls 3", "weir.limit=grpc 7")
	r.equal("weir.calls", "weir.guard=grpc/ 0", "weir.guard=other 0")

	taken := &catalog{name: "second", guards: []weir.Inspector{other}}
	for what, is := range map[string]struct{ err, want error }{
		"it again":               {r.AddInterceptor(m), weirotel.ErrTaken},
		"no interceptor":         {r.AddInterceptor(nil), weirotel.ErrNil},
		"another of its name":    {r.AddInterceptor(&catalog{name: "grpc"}), weirotel.ErrTaken},
		"a nameless interceptor": {r.AddInterceptor(&catalog{}), weirotel.ErrName},
		"a taken Guard":          {r.AddInterceptor(taken), weirotel.ErrTaken},
	} {
		if !errors.Is(is.err, is.want) {
			t.Errorf("adding %s = %v; want %v", what, is.err, is.want)
		}
	}
	r.equal("weir.grpc.calls", of+"5")

	if !r.RemoveInterceptor("grpc") || r.RemoveInterceptor("grpc") {
		t.Error("RemoveInterceptor twice: want true, and then false")
	}
	r.equal("weir.grpc.calls")
	r.equal("weir.limit.permits")
	r.equal("weir.calls", "weir.guard=other 0")
	if err := r.AddInterceptor(m); err != nil {
		t.Errorf("adding it after that = %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r.equal("weir.grpc.calls")
}
