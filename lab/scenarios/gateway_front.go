package scenarios

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/cpu"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/weirhttp"
)

// The variants of the scenarios about the gateway, in addition to shielded, which is
// weir's gateway, and unprotected, which is the origin itself.
const (
	theOrigin   = "origin"
	bareHandler = "bare handler"
	byNginx     = "nginx"
	byVarnish   = "Varnish"
	byCaddy     = "Caddy, no cache"
)

// caching are the variants with a cache.
var caching = []string{shielded, byNginx, byVarnish}

// allFronts are all variants with a proxy in front of the origin.
var allFronts = []string{shielded, byNginx, byVarnish, byCaddy}

// gatewayNeeds are the engines and tools that these scenarios need.
var gatewayNeeds = []string{"nginx", "varnish", "caddy"}

// gatewayService serves the origin or weir's gateway.
func gatewayService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	if o.Variant == theOrigin {
		return originService(o)
	}
	return weirGatewayService(o)
}

// A gatewaySetup configures weir's gateway. Everything else has its default.
type gatewaySetup struct {
	Upstreams []string      // host:port
	Calls     int           // concurrent calls; 0: the default
	Queue     int           // requests that wait for a call; 0: the default
	QueueWait time.Duration // how long they wait; 0: the default
	Adaptive  bool          // the limit on calls adapts to the latency
	Store     int64         // bytes; 0: the default
	Balance   bool          // each request is forwarded: nothing is stored or shared
}

func (g gatewaySetup) config() (gateway.Config, error) {
	up := gateway.Upstream{Name: theOrigin, Concurrency: g.Calls, Queue: g.Queue, QueueWait: g.QueueWait, Adaptive: g.Adaptive}
	for _, u := range g.Upstreams {
		up.Servers = append(up.Servers, "http://"+u)
	}
	coalesce := gateway.CoalesceAnyClient // the load comes from one address as if from many
	if g.Balance {
		coalesce = gateway.CoalesceNone
	}
	c := gateway.Config{
		Upstreams: []gateway.Upstream{up},
		Routes:    []gateway.Route{{Name: "all", NoStore: g.Balance, Coalesce: coalesce}},
	}
	if g.Store == 0 {
		return c, nil
	}
	var err error
	c.Cache, err = weirhttp.NewCache(g.Store)
	return c, err
}

// Names of the counts of weir's gateway. Those of its memory are also gauges.
const (
	callsStarted   = "calls"
	callsRefused   = "refused"
	shedStale      = "stale on overload"
	accountedBytes = "accounted bytes"
	residentBytes  = "resident bytes"
)

// weirGatewayService serves the gateway.
func weirGatewayService(o scenario.Options) (*scenario.Service, error) {
	var set gatewaySetup
	if err := o.Decode(&set); err != nil {
		return nil, err
	}
	config, err := set.config()
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(config)
	if err != nil {
		return nil, err
	}
	accounted := func() float64 { return float64(g.Stats().Cache.Used) }
	resident := func() float64 { return residentOf(os.Getpid()) }
	c := gatewayCounter{g: g}
	return &scenario.Service{
		Handler: g,
		Reset:   func(context.Context) error { c.reset(); return nil },
		Gauges:  map[string]func() float64{accountedBytes: accounted, residentBytes: resident},
		Values:  c.values,
		Close:   func() { g.Close(context.Background()) }, //nolint:errcheck // it ends with the process
	}, nil
}

// A gatewayCounter holds the counts of a gateway since the last reset.
type gatewayCounter struct {
	g *gateway.Gateway

	mu   sync.Mutex
	base weirhttp.Stats // guarded by mu; at the last reset
}

func (c *gatewayCounter) reset() {
	now := c.g.Stats().Routes["all"]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = now
}

func (c *gatewayCounter) values() map[string]float64 {
	now := c.g.Stats().Routes["all"]
	c.mu.Lock()
	was := c.base
	c.mu.Unlock()
	return map[string]float64{
		hits:         float64(now.Hits - was.Hits),
		staleAnswers: float64(now.Stale - was.Stale),
		shedStale:    float64(now.Shed - was.Shed),
		joins:        float64(now.Joined - was.Joined),
		callsStarted: float64(now.Calls - was.Calls),
		callsRefused: float64(now.Refused - was.Refused),
	}
}

// residentOf is the resident memory of a process and its descendants, in bytes.
func residentOf(pid int) float64 { return memoryOf(pid, "VmRSS:") }

// memoryOf adds up a field of /proc/PID/status of a process and its descendants, in
// bytes. It is 0 if the process has ended, or if this is not Linux.
func memoryOf(pid int, field string) (sum float64) {
	all, _ := cpu.Tree(pid)
	for _, id := range all {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", id)) // none: it has just ended
		for line := range strings.Lines(string(status)) {
			if text, ok := strings.CutPrefix(line, field); ok {
				kib, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 64)
				sum += kib * 1024
			}
		}
	}
	return sum
}

// A front is a proxy in front of the origin, or the origin itself.
type front struct {
	variant string
	url     string           // without a slash at its end
	secure  string           // likewise, with TLS; empty: none
	server  *scenario.Server // weir's; nil if it is an engine
	engine  *engine.Server   // the others'; nil if it is weir
}

// beside lists the services to measure in addition to the origin.
func (f front) beside() []*scenario.Server {
	if f.server == nil {
		return nil
	}
	return []*scenario.Server{f.server}
}

func (f front) pid() int {
	if f.server != nil {
		return f.server.Pid()
	}
	return f.engine.Pid()
}

// startFronts starts the given variants in front of the origin: weir with set, and
// the others with the corresponding settings.
func startFronts(ctx context.Context, l *scenario.Lab, origin *scenario.Server, set gatewaySetup, variants ...string) ([]front, error) {
	set.Upstreams = []string{hostOf(origin.URL)}
	o := engine.ProxyOptions{Upstream: hostOf(origin.URL), Store: set.Store, MaxCalls: set.Calls}
	var all []front
	for _, v := range variants {
		f := front{variant: v}
		var err error
		switch v {
		case byNginx:
			f.engine, err = l.Engine(ctx, v, func(ctx context.Context) (*engine.Server, error) { return engine.NginxCache(ctx, o) })
		case byVarnish:
			f.engine, err = l.Engine(ctx, v, func(ctx context.Context) (*engine.Server, error) { return engine.Varnish(ctx, o) })
		case byCaddy:
			f.engine, err = l.Engine(ctx, v, func(ctx context.Context) (*engine.Server, error) { return engine.Caddy(ctx, o) })
		default:
			f.server, err = l.Serve(ctx, v, set)
		}
		if err != nil {
			return nil, err
		}
		if f.engine != nil {
			f.url = f.engine.URL
		} else {
			f.url = f.server.URL
		}
		all = append(all, f)
	}
	return all, nil
}

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

// get requests a URL once.
func get(ctx context.Context, url string) (status int, h http.Header, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

// valueOf formats a number for a table.
func valueOf(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// medianOf returns the median round of a variant under a setting.
func medianOf(l *scenario.Lab, variant, setting string) result.Measurement {
	groups := result.Groups(l.Measurements(variant, setting))
	if len(groups) == 0 {
		panic(fmt.Sprintf("scenarios: %q, %q was not measured", variant, setting))
	}
	return groups[0].Median
}

// uniquely returns a path of the kind name that no cache has seen.
func uniquely(name string) string { return fmt.Sprintf("/%s/%d", name, time.Now().UnixNano()) }
