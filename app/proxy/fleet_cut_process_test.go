package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A line is one proxy's connection to Redis, which can be cut.
type line struct {
	l      net.Listener
	target string

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	work  sync.WaitGroup
}

func newLine(t *testing.T, target string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &line{l: l, target: target}
	n.work.Go(n.accept)
	t.Cleanup(func() {
		_ = l.Close()
		n.set(true)
		n.work.Wait()
	})
	return n
}

func (n *line) accept() {
	for {
		near, err := n.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", n.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		n.mu.Lock()
		if n.cut {
			_ = near.Close()
			_ = far.Close()
		} else {
			n.conns = append(n.conns, near, far)
			n.work.Go(func() { pipe(near, far) })
			n.work.Go(func() { pipe(far, near) })
		}
		n.mu.Unlock()
	}
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from) // until either is closed
	_ = to.Close()
	_ = from.Close()
}

// set cuts the line, or restores it.
func (n *line) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// cutFleet starts three proxies in front of one origin. Each has its own line to one
// shared Redis. A POST to the origin creates a new version of all its pages.
func cutFleet(t *testing.T) (lines []*line, all []*process) {
	t.Helper()
	program, addr := redisServer(t), free(t)
	startRedis(t, program, addr, "secret-of-redis")
	var version atomic.Int64
	version.Store(1)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			version.Add(1)
		}
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Surrogate-Key", "page of-"+strings.Trim(r.URL.Path, "/"))
		fmt.Fprintf(w, "%s v%d", r.URL.Path, version.Load())
	}))
	t.Cleanup(origin.Close)
	for i := range 3 {
		n, dir := newLine(t, addr), t.TempDir()
		config := filepath.Join(dir, "weir.yaml")
		for name, text := range map[string]string{
			filepath.Join(dir, "password"): "secret-of-redis\n",
			config: `
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0}
upstreams: [{name: a, servers: ["` + origin.URL + `"]}]
routes: [{name: all}]
fleet:
  redis: {addresses: ["` + n.l.Addr().String() + `"], password_file: password}
  deadline: 5s # the usual one is not kept by a machine that runs all tests at once
`,
		} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(i, err)
			}
		}
		lines = append(lines, n)
		all = append(all, start(t, "--config", config))
	}
	return lines, all
}

func send(t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequest("POST", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.example"
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("POST %s = %d", url, resp.StatusCode)
	}
}

// order purges through an admin listener, which cannot reach the fleet.
func order(t *testing.T, p *process, what string) {
	t.Helper()
	resp, err := http.Post(p.admin+"/purge", "application/json", strings.NewReader(what))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 503 {
		t.Fatalf("purge %s = %d; want 503", what, resp.StatusCode)
	}
}

// T12: a proxy that is cut off from Redis receives a POST. It never serves the version
// from before again, and once it is reconnected neither do the others.
func TestT12_WhatAProxyPurgedWhileCutOffDoesNotComeBack(t *testing.T) {
	for name, purge := range map[string]func(t *testing.T, p *process){
		"POST": func(t *testing.T, p *process) { send(t, p.listen[0]+"/x") },
		"tag": func(t *testing.T, p *process) {
			send(t, p.listen[0]+"/y")
			order(t, p, `{"tags": ["of-x"]}`)
		},
		"everything": func(t *testing.T, p *process) {
			send(t, p.listen[0]+"/y")
			order(t, p, `{"all": true}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines, all := cutFleet(t)
			shows := func(p *process, want string) {
				t.Helper()
				if a, h := ask(p.listen[0]+"/x", ""); a.body != want {
					t.Fatalf("the proxy serves %q, Cache-Status %q; want %q", a.body, h.Get("Cache-Status"), want)
				}
			}
			for _, p := range all {
				shows(p, "/x v1")
			}
			cut := all[0]
			lines[0].set(true)
			cut.await("fleet unreachable", 1)
			purge(t, cut)
			shows(cut, "/x v2")
			shows(all[1], "/x v1") // it cannot know
			if m := get(cut.admin + "/metrics").body; !strings.Contains(m, "weir_fleet_queued_invalidations_total") || strings.Contains(m, `weir_fleet_pending_invalidations{guard=""} 0`) {
				t.Error("/metrics does not show that something is pending")
			}
			cut.await("purges are not acknowledged by the fleet", 1)
			lines[1].set(true) // another one is cut off when the first reconnects
			lines[0].set(false)
			until(t, "the purge is acknowledged", func() bool {
				shows(cut, "/x v2")
				return strings.Contains(cut.stderr(), "all queued purges are acknowledged")
			})
			lines[1].set(false)
			for _, p := range all[1:] {
				until(t, "the others see it", func() bool {
					a, _ := ask(p.listen[0]+"/x", "")
					return a.body == "/x v2"
				})
			}
			for _, p := range all {
				shows(p, "/x v2")
			}
			until(t, "/metrics shows that nothing is pending", func() bool {
				return strings.Contains(get(cut.admin+"/metrics").body, `weir_fleet_pending_invalidations{guard=""} 0`)
			})
			if n := strings.Count(cut.stderr(), "purges are not acknowledged"); n != 1 {
				t.Errorf("the log says %d times that purges are not acknowledged; want once", n)
			}
		})
	}
}
