package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// redisServer returns the program's path, from WEIR_TEST_REDIS_SERVER or PATH.
func redisServer(t *testing.T) string {
	t.Helper()
	name := "redis-server"
	if path := os.Getenv("WEIR_TEST_REDIS_SERVER"); path != "" {
		name = path
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("WEIR_TEST_ENGINES") == "required":
		t.Fatalf("WEIR_TEST_ENGINES=required, but there is no redis-server: %v", err)
	default:
		t.Skipf("no redis-server: %v", err)
	}
	return path
}

// startRedis starts one that requires a password, and returns a function that kills it.
func startRedis(t *testing.T, program, addr, password string) (kill func()) {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no", "--requirepass", password)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
	t.Cleanup(kill)
	for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return kill
		} else if time.Now().After(end) {
			t.Fatalf("redis-server does not listen: %v", err)
		}
	}
}

// versions is an origin whose responses contain the number of the call.
func versions(t *testing.T) (server *httptest.Server, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		<-time.After(200 * time.Millisecond)
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Surrogate-Key", "all")
		if strings.HasPrefix(r.URL.Path, "/me") {
			w.Header().Set("Cache-Control", "private")
			io.WriteString(w, r.Header.Get("Cookie"))
			return
		}
		fmt.Fprintf(w, "%s %d", r.URL.Path, n)
	}))
	t.Cleanup(server.Close)
	return server, calls
}

// ask sends a proxy a request for a path of shop.example, the site that all proxies
// serve.
func ask(url, cookie string) (answer, http.Header) {
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return answer{err: err}, nil
	}
	r.Host = "shop.example"
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{err: err}, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(b), resp.Close, err}, resp.Header
}

// purged purges a path of the shop through an admin listener.
func purged(t *testing.T, admin, path string) (int, string) {
	t.Helper()
	resp, err := http.Post(admin+"/purge", "application/json", strings.NewReader(`{"url": "http://shop.example`+path+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// alone reads from /stats whether the breaker is open.
func alone(t *testing.T, admin string) (open bool) {
	t.Helper()
	var v struct {
		Cache struct{ Fleet *struct{ Open *bool } }
	}
	if err := json.Unmarshal([]byte(get(admin+"/stats").body), &v); err != nil || v.Cache.Fleet == nil || v.Cache.Fleet.Open == nil {
		t.Fatalf("/stats shows nothing about the fleet: %v, %+v", err, v)
	}
	return *v.Cache.Fleet.Open
}

// until waits for something to become true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}

// fleetOf starts n proxies in front of one origin, with one Redis that need not be
// running.
func fleetOf(t *testing.T, n int, origin, addr, password string) []*process {
	t.Helper()
	file := fleetConfig(t, origin, addr, password)
	var all []*process
	for range n {
		all = append(all, start(t, "--config", file))
	}
	return all
}

// fleetConfig writes the configuration of a proxy in a fleet.
func fleetConfig(t *testing.T, origin, addr, password string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"password": password + "\n",
		"weir.yaml": `
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0}
upstreams: [{name: a, servers: ["` + origin + `"]}]
routes:
  - {name: all}
  - {name: own, path: /own, fleet: false}
  - {name: scarce, path: /scarce, rate: {requests: 20, per: 1h}}
fleet:
  redis: {addresses: ["` + addr + `"], password_file: password}
  deadline: 5s # the usual one is not kept by a machine that runs all tests at once
  rate_failure: closed
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "weir.yaml")
}

func TestThreeProxiesAreOne(t *testing.T) {
	program, addr := redisServer(t), free(t)
	kill := startRedis(t, program, addr, "secret-of-redis")
	origin, calls := versions(t)
	all := fleetOf(t, 3, origin.URL, addr, "secret-of-redis")

	var wg sync.WaitGroup
	for _, p := range all {
		for range 8 {
			wg.Go(func() {
				if a, h := ask(p.listen[0]+"/cold", ""); a.status != 200 || a.body != "/cold 1" {
					t.Errorf("a cold key: %+v, %v", a, h)
				}
			})
		}
	}
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("the origin was called %d times for one cold key; want 1", n)
	}
	fromFleet := 0
	ask(all[0].listen[0]+"/later", "")
	for _, p := range all[1:] {
		a, h := ask(p.listen[0]+"/later", "")
		if a.body != "/later 2" {
			t.Errorf("a warm key: %+v, %v", a, h)
		}
		if strings.Contains(h.Get("Cache-Status"), "hit; ttl=") && strings.Contains(h.Get("Cache-Status"), "detail=fleet") {
			fromFleet++
		}
	}
	if fromFleet != 2 {
		t.Errorf("%d responses have detail=fleet; want 2", fromFleet)
	}

	if status, body := purged(t, all[1].admin, "/later"); status != 200 || !strings.Contains(body, `"fleet": "purged"`) {
		t.Errorf("purge = %d %s; want 200", status, body)
	}
	until(t, "the purge is seen by all", func() bool {
		for _, p := range all {
			if a, _ := ask(p.listen[0]+"/later", ""); a.body != "/later 3" {
				return false
			}
		}
		return true
	})

	for _, user := range []string{"ada", "bob", "ada"} {
		for _, p := range all {
			if a, _ := ask(p.listen[0]+"/me", "user="+user); a.body != "user="+user {
				t.Errorf("%s got %+v", user, a)
			}
		}
	}
	before := calls.Load()
	for _, p := range all {
		ask(p.listen[0]+"/own", "")
	}
	if n := calls.Load() - before; n != 3 {
		t.Errorf("a route outside the fleet was called %d times; want 3", n)
	}
	in := 0
	for range 20 {
		for _, p := range all {
			if a, _ := ask(p.listen[0]+"/scarce", ""); a.status == 200 {
				in++
			} else if a.status != 429 {
				t.Errorf("over the rate: %+v; want 429", a)
			}
		}
	}
	if in > 20 || in < 10 {
		t.Errorf("three proxies together admitted %d of 60 requests; want at most 20", in)
	}

	kill()
	for _, p := range all {
		n := 0
		until(t, "the breaker opens", func() bool {
			n++
			ask(p.listen[0]+fmt.Sprint("/miss/", n), "") // a hit in memory makes no call
			return alone(t, p.admin)
		})
		if a, _ := ask(p.listen[0]+"/cold", ""); a.status != 200 {
			t.Errorf("without Redis: %+v; want 200", a)
		}
		if a := get(p.admin + "/readyz"); a.status != 200 {
			t.Errorf("readyz without Redis: %+v; want 200", a)
		}
		if status, body := purged(t, p.admin, "/cold"); status != 503 || !strings.Contains(body, `"fleet": "not reached"`) || !strings.Contains(body, `"responses": 1`) {
			t.Errorf("purge without Redis = %d %s; want 503, and the local purge reported", status, body)
		}
		if strings.Contains(p.stderr(), "secret-of-redis") {
			t.Error("the log contains the password")
		}
		p.signal(syscall.SIGTERM)
	}
	for _, p := range all {
		p.ends(0)
	}
}

func TestProxyStartsWithoutItsRedis(t *testing.T) {
	program, addr := redisServer(t), free(t)
	origin, calls := versions(t)
	all := fleetOf(t, 2, origin.URL, addr, "secret-of-redis")
	for _, p := range all {
		p.await("fleet unreachable; this gateway continues alone and retries periodically", 1)
		if a := get(p.admin + "/readyz"); a.status != 200 {
			t.Errorf("readyz without Redis: %+v; want 200", a)
		}
		if a, _ := ask(p.listen[0]+"/x", ""); a.status != 200 {
			t.Errorf("without Redis: %+v; want 200", a)
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("the origin was called %d times; want 2, one per proxy", n)
	}
	startRedis(t, program, addr, "secret-of-redis")
	// Redis notifies the proxy of its return before the breaker has tried it.
	for _, p := range all {
		p.await("fleet reachable again", 1)
		until(t, "the breaker closes", func() bool { return !alone(t, p.admin) })
	}
	for _, p := range all {
		if a, h := ask(p.listen[0]+"/y", ""); a.body != "/y 3" {
			t.Errorf("with Redis back: %+v, Cache-Status %q; want the response of the one call", a, h.Get("Cache-Status"))
		}
	}
	for _, p := range all { // a reload keeps the connection, and logs what it cannot change
		p.signal(syscall.SIGHUP)
		p.await(`"msg":"reloaded"`, 1)
		if a, _ := ask(p.listen[0]+"/y", ""); a.body != "/y 3" || alone(t, p.admin) {
			t.Errorf("after a reload: %+v", a)
		}
	}
}

func TestProxyWithAWrongPasswordDoesNotStart(t *testing.T) {
	program, addr := redisServer(t), free(t)
	startRedis(t, program, addr, "secret-of-redis")
	dir := t.TempDir()
	config := filepath.Join(dir, "weir.yaml")
	for name, text := range map[string]string{
		"password": "another-secret", "weir.yaml": `
listen: [{address: 127.0.0.1:0}]
upstreams: [{name: a, servers: ["http://127.0.0.1:1"]}]
fleet: {redis: {addresses: ["` + addr + `"], password_file: password}}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := run(t, nil, "proxy", "check", "--config", config) // it connects to nothing
	p.ends(0)
	p = run(t, nil, "proxy", "--config", config)
	p.ends(2)
	if text := p.stderr(); !strings.Contains(text, "fleet: weirredis: connect") || strings.Contains(text, "another-secret") {
		t.Errorf("stderr:\n%s\nwant the error of Redis, and no password", text)
	}
}
