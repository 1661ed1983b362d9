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

// A front is a gateway before a service, on a loopback port of its own. Its
// goroutines start in startFront; close stops them and waits.
type front struct {
	config  gateway.Config
	gateway *gateway.Gateway
	server  http.Server
	base    string // http://127.0.0.1:port
	serving sync.WaitGroup
}

// gatewayLevels are the demo's, with a gateway before a service that knows
// nothing of it, in place of a Guard within.
func gatewayLevels() []level {
	var admission gateway.Upstream
	admission.Adaptive, admission.Queue, admission.QueueWait = true, Queue, MaxWait
	coalescing := gateway.Route{NoStore: true}
	cache := gateway.Route{Cache: weirhttp.Policy{TTL: TTL}}
	ahead := gateway.Route{
		Cache:        weirhttp.Policy{TTL: TTL, StaleWhileRevalidate: StaleWindow},
		RefreshAhead: RefreshAhead,
	}
	all := levels() // what each adds is the same
	return []level{
		{name: all[0].name, adds: "every request goes to the service, which calls the source", kind: kindRoute},
		{name: all[1].name, adds: all[1].adds, front: &fronted{route: coalescing}},
		{name: all[2].name, adds: all[2].adds, front: &fronted{route: cache}},
		{name: all[3].name, adds: all[3].adds, front: &fronted{route: ahead}},
		{name: all[4].name, adds: fmt.Sprintf("as many calls at once as the service takes, found by their latency, with %d CPUs; the rest waits its turn", runtime.GOMAXPROCS(0)),
			front: &fronted{upstream: admission, route: ahead}},
	}
}

// fronted is what a gateway of a level does.
type fronted struct {
	upstream gateway.Upstream
	route    gateway.Route
}

// What the parts of a level's gateway are called. On a Board they have the
// level's name.
const (
	upstreamName = "service"
	routeName    = "all"
)

// startFront starts a gateway before the service at base, that knows its hot
// keys.
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
		_ = t.server.Serve(l) // ErrServerClosed, or the clients fail and say so
	})
	return t, nil
}

// close ends all connections, and waits for what the gateway does in the
// background until ctx ends.
func (t *front) close(ctx context.Context) error {
	err := t.server.Close()
	t.serving.Wait()
	return errors.Join(err, t.gateway.Close(ctx))
}

// answerURL is where the answer of key is, behind base.
func answerURL(base string, key int) string { return base + "/answers/" + strconv.Itoa(key) }
