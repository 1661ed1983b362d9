package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// A front is a gateway in front of a service, on its own loopback port. Its
// goroutines start in startFront; close stops them and waits.
type front struct {
	config  gateway.Config
	gateway *gateway.Gateway
	server  http.Server
	base    string // http://127.0.0.1:port
	serving sync.WaitGroup
}

// gatewayLevels returns the demo's levels with a gateway in front of an unchanged service,
// instead of a Guard in it.
func gatewayLevels() []level {
	var admission gateway.Upstream
	admission.Adaptive, admission.Queue, admission.QueueWait = true, Queue, MaxWait
	proven := gateway.Route{NoStore: true}
	coalescing := gateway.Route{NoStore: true, Coalesce: gateway.CoalesceAnyClient}
	cache := gateway.Route{Cache: weirhttp.Policy{TTL: TTL}}
	ahead := gateway.Route{
		Cache:        weirhttp.Policy{TTL: TTL, StaleWhileRevalidate: StaleWindow},
		RefreshAhead: RefreshAhead,
	}
	all := levels() // each adds the same protection
	return []level{
		{name: all[0].name, adds: "every request goes to the service, which calls the source", kind: kindRoute},
		{name: "one address", adds: "requests for the same tile at the same time share one call if they come from one address: the service states no lifetime, so its response may depend on that",
			front: &fronted{route: proven}},
		{name: all[1].name, adds: "all requests for the same tile at the same time share one call: coalesce: any_client", front: &fronted{route: coalescing}},
		{name: all[2].name, adds: all[2].adds, front: &fronted{route: cache}},
		{name: all[3].name, adds: all[3].adds, front: &fronted{route: ahead}},
		{name: all[4].name, adds: fmt.Sprintf("as many concurrent calls as the service can take, adapted to their latency, with %d CPUs; the rest wait", runtime.GOMAXPROCS(0)),
			front: &fronted{upstream: admission, route: ahead}},
	}
}

// fronted is the configuration of a level's gateway.
type fronted struct {
	upstream gateway.Upstream
	route    gateway.Route
}

// The names of the parts of a level's gateway. On a Board they have the level's name.
const (
	upstreamName = "service"
	routeName    = "all"
)

// startFront starts a gateway in front of the service at base that tracks its hot keys.
func startFront(f fronted, base string, hotKeys int) (*front, error) {
	u, r := f.upstream, f.route
	u.Name, u.Servers = upstreamName, []string{base}
	r.Name, r.HotKeys = routeName, hotKeys
	c := gateway.Config{Upstreams: []gateway.Upstream{u}, Routes: []gateway.Route{r}}
	g, err := gateway.New(c)
	if err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the gateway: %w", err), g.Close(context.Background()))
	}
	t := &front{config: c, gateway: g, base: "http://" + l.Addr().String()}
	t.server = http.Server{Handler: g, ReadHeaderTimeout: headerTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	t.serving.Go(func() {
		_ = t.server.Serve(l) // ErrServerClosed; otherwise the clients fail and report it
	})
	return t, nil
}

// close ends all connections, and waits until ctx ends for the gateway's background work.
func (t *front) close(ctx context.Context) error {
	err := t.server.Close()
	t.serving.Wait()
	return errors.Join(err, t.gateway.Close(ctx))
}

// answerURL returns the URL of the response for key, below base.
func answerURL(base string, key int) string { return base + "/answers/" + strconv.Itoa(key) }
