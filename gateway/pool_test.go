package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// A pool is an upstream of four servers, over real connections, whose first one can fail.
type pool struct {
	*site
	servers []*origin
	failing atomic.Pointer[http.HandlerFunc]
	changes func() []gateway.ServerChange
}

func newPool(t *testing.T, edit func(*gateway.Config)) *pool {
	t.Helper()
	p := &pool{}
	for i := range 4 {
		p.servers = append(p.servers, serving(t, fmt.Sprint(i), func(w http.ResponseWriter, r *http.Request) {
			if f := p.failing.Load(); f != nil && i == 0 {
				(*f)(w, r)
				return
			}
			io.WriteString(w, "good")
		}))
	}
	c := config(upstreamOf(p.servers...))
	c.Routes[0].NoStore, c.Routes[0].Coalesce = true, gateway.CoalesceNone
	var mu sync.Mutex
	var changes []gateway.ServerChange // guarded by mu
	c.ServerChanged = func(c gateway.ServerChange) {
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, c)
	}
	p.changes = func() []gateway.ServerChange {
		mu.Lock()
		defer mu.Unlock()
		return changes
	}
	if edit != nil {
		edit(&c)
	}
	p.site = open(t, c)
	return p
}

// send makes n requests with that many clients, and returns how many failed and the calls of
// each server.
func (p *pool) send(clients, n int, request func(i int) *http.Request) (failed int, calls [4]int64) {
	for i, o := range p.servers {
		calls[i] = -o.calls.Load()
	}
	var bad atomic.Int64
	var running sync.WaitGroup
	for c := range clients {
		running.Go(func() {
			for i := range n / clients {
				if got := p.do(request(c*n + i)); got.err != nil || got.status >= 400 {
					bad.Add(1)
				}
			}
		})
	}
	running.Wait()
	for i, o := range p.servers {
		calls[i] += o.calls.Load()
	}
	return int(bad.Load()), calls
}

func (p *pool) gets(i int) *http.Request { return p.request("GET", fmt.Sprintf("/%d", i), nil) }

func (p *pool) posts(i int) *http.Request {
	return p.request("POST", fmt.Sprintf("/%d", i), strings.NewReader("body"))
}

func failingWith(status int) *http.HandlerFunc {
	f := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	return &f
}

func TestH35_AFailingServerIsPenalized(t *testing.T) {
	for _, status := range []int{500, 503, 404} {
		for _, clients := range []int{1, 10} {
			p := newPool(t, nil)
			p.send(clients, 200, p.gets)
			p.failing.Store(failingWith(status))
			p.send(clients, 400, p.posts)
			failed, calls := p.send(clients, 1000, p.posts)
			if failed > 30 || calls[0] > 30 {
				t.Errorf("%d with %d clients: %d of 1000 requests failed, the calls are %v; want at most 30 to the first", status, clients, failed, calls)
			}
			s := p.g.Stats().Upstreams["main"].Servers[0]
			if s.State != "penalized" && s.State != "trying" {
				t.Errorf("Stats = %+v; want it penalized", s)
			}
			changes := p.changes()
			if len(changes) == 0 || changes[0].State != gateway.ServerPenalized || changes[0].Server != p.servers[0].url() || changes[0].Err == nil || changes[0].For <= 0 {
				t.Errorf("ServerChanged got %+v; want the penalty with its cause", changes)
			}
		}
	}
}

func TestH35_HalfOfItsResponsesFail(t *testing.T) {
	p := newPool(t, nil)
	p.send(10, 200, p.gets)
	var n atomic.Int64
	half := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.WriteHeader(503)
		}
	})
	p.failing.Store(&half)
	p.send(10, 1000, p.gets)
	if _, calls := p.send(10, 1000, p.gets); calls[0] > 50 {
		t.Errorf("the calls are %v; want at most 50 to the first", calls)
	}
}

// With retries, clients do not notice.
func TestH35_RetriesGoToAnotherServer(t *testing.T) {
	p := newPool(t, func(c *gateway.Config) { c.Upstreams[0].Retry = gateway.Retry{Attempts: 2} })
	p.send(10, 200, p.gets)
	p.failing.Store(failingWith(503))
	if failed, _ := p.send(10, 1000, p.gets); failed > 10 {
		t.Errorf("%d of 1000 requests failed; want at most 10", failed)
	}
}

func TestH35_AllAlikePenalizesNone(t *testing.T) {
	for name, edit := range map[string]func(w http.ResponseWriter, r *http.Request){
		"all":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"one URL": func(w http.ResponseWriter, r *http.Request) { fails(w, strings.HasSuffix(r.URL.Path, "7"), 500) },
		"one client": func(w http.ResponseWriter, r *http.Request) {
			fails(w, r.Header.Get("X-Forwarded-For") == "192.0.2.1", 401)
		},
	} {
		likely(t, func() string {
			var servers []*origin
			for range 4 {
				servers = append(servers, serving(t, "s", edit))
			}
			c := config(upstreamOf(servers...))
			c.TrustedProxies = prefixes("127.0.0.0/8", "::1/128")
			c.Routes[0].NoStore, c.Routes[0].Coalesce = true, gateway.CoalesceNone
			c.ServerChanged = func(c gateway.ServerChange) { t.Errorf("%s: %+v; want no change", name, c) }
			p := &pool{site: open(t, c), servers: servers}
			_, calls := p.send(10, 2000, func(i int) *http.Request {
				r := p.gets(i)
				r.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i%10))
				return r
			})
			for _, n := range calls {
				if n < 300 || n > 700 {
					return fmt.Sprintf("%s: the calls are %v; want about 500 each", name, calls)
				}
			}
			return ""
		})
	}
}

func fails(w http.ResponseWriter, fail bool, status int) {
	if fail {
		w.WriteHeader(status)
	}
}

// A route can say that its 500 is normal, and that its 404 is a failure.
func TestH35_ARouteHasItsOwnFailures(t *testing.T) {
	p := newPool(t, func(c *gateway.Config) { c.Routes[0].Failures = []int{404} })
	p.send(10, 200, p.gets)
	p.failing.Store(failingWith(404))
	p.send(10, 400, p.gets)
	if s := p.g.Stats().Upstreams["main"].Servers[0]; s.Failing == 0 {
		t.Errorf("Stats = %+v; want the 404s to count as failures", s)
	}
}

func TestH38_WeightsOverConnections(t *testing.T) {
	likely(t, func() string {
		p := newPool(t, func(c *gateway.Config) {
			c.Upstreams[0].ServerSettings = []gateway.ServerSettings{{Weight: 9}, {}, {Weight: -1}, {Weight: -1}}
		})
		_, calls := p.send(2, 1000, p.gets)
		if calls[2]+calls[3] != 0 {
			t.Errorf("the calls are %v; want none of the servers that are drained", calls)
		}
		if calls[0] < 850 || calls[0] > 950 {
			return fmt.Sprintf("the calls are %v; want about 900 and 100", calls)
		}
		return ""
	})
}

// likely fails the test if try returns a fault each time. On a busy machine, a server that waits
// for a processor is a slow one, and rightly gets fewer calls.
func likely(t *testing.T, try func() (fault string)) {
	t.Helper()
	var fault string
	for range 10 {
		if fault = try(); fault == "" {
			return
		}
	}
	t.Error(fault)
}

// What is known of a server survives a reload with another weight.
func TestH38_AReloadKeepsWhatIsKnown(t *testing.T) {
	var c gateway.Config
	p := newPool(t, func(own *gateway.Config) { c = *own })
	p.failing.Store(failingWith(500))
	p.send(10, 400, p.gets)
	c.Upstreams = append([]gateway.Upstream(nil), c.Upstreams...)
	c.Upstreams[0].ServerSettings = []gateway.ServerSettings{{Weight: 5}}
	if err := p.g.Update(c); err != nil {
		t.Fatal(err)
	}
	if s := p.g.Stats().Upstreams["main"].Servers[0]; s.Weight != 5 || s.State != "penalized" && s.State != "trying" || s.Calls == 0 {
		t.Errorf("Stats = %+v; want the new weight, and the penalty", s)
	}
	if _, calls := p.send(10, 1000, p.gets); calls[0] > 30 {
		t.Errorf("the calls are %v; want at most 30 to the first", calls)
	}
}

func TestH36_SettingsOfServersAreChecked(t *testing.T) {
	for name, edit := range map[string]func(*gateway.Upstream){
		"Upstreams[0].ServerSettings[1].Weight":      func(u *gateway.Upstream) { u.ServerSettings = []gateway.ServerSettings{{}, {Weight: 1001}} },
		"Upstreams[0].ServerSettings[0].MaxInFlight": func(u *gateway.Upstream) { u.ServerSettings = []gateway.ServerSettings{{MaxInFlight: -1}} },
		"Upstreams[0].ServerSettings":                func(u *gateway.Upstream) { u.ServerSettings = []gateway.ServerSettings{{Weight: -1}, {Weight: -1}} },
		"Upstreams[0].Failures[0]":                   func(u *gateway.Upstream) { u.Failures = []int{200} },
		"Upstreams[0].SlowStart":                     func(u *gateway.Upstream) { u.SlowStart = 1 << 60 },
	} {
		c := config(gateway.Upstream{Name: "main", Servers: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}})
		edit(&c.Upstreams[0])
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Validate = %v; want a fault of %s", err, name)
		}
	}
}
