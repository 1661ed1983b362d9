package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// meter is an origin whose responses cost what their request says. Requests for /hang get
// none until the test ends; hung counts them.
func meter(t *testing.T) (url string, hung func() int) {
	over, arrived := make(chan struct{}), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Max  int `json:"max_tokens"`
			Cost int
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			t.Errorf("the origin got %v", err)
		}
		if strings.HasSuffix(r.URL.Path, "/hang") {
			arrived <- struct{}{}
			select {
			case <-over:
			case <-r.Context().Done():
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"usage":{"total_tokens":%d}}`, ask.Cost)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return server.URL, func() int { return len(arrived) }
}

// budgetConfig writes the configuration of a proxy in a fleet, with budgets of 100 units a
// day: of a route, and of each client.
func budgetConfig(t *testing.T, origin, addr, password string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"password": password + "\n",
		"weir.yaml": `
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0}
upstreams:
  - name: model
    servers: ["` + origin + `"]
    cost: {field: /max_tokens, default: 10, usage: /usage/total_tokens}
routes:
  - {name: all, path: /all, budget: {units: 100, per: 24h, fleet: true}}
  - {name: left, path: /left, budget: {units: 100, per: 24h, fleet: true}}
  - {name: each, path: /each, client_budget: {units: 100, per: 24h, by: "header:Authorization", fleet: true}}
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

// spends sends p a call with that estimate, of which it costs a part.
func spends(p *process, path, client string, units, cost int) (status int, retry time.Duration, err error) {
	r, err := http.NewRequest(http.MethodPost, p.listen[0]+path, strings.NewReader(fmt.Sprintf(`{"max_tokens":%d,"cost":%d}`, units, cost)))
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", client)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return resp.StatusCode, time.Duration(n) * time.Second, err
}

// T15, H34: two proxies on one Redis let through what a budget allows, no more and no less,
// for a route and for a client. A refusal has the time until there are enough units. A proxy
// that is killed takes the estimates of its calls with it, and nothing else.
func TestT15_TwoProxiesSpendOneBudget(t *testing.T) {
	program, addr := redisServer(t), free(t)
	startRedis(t, program, addr, "secret-of-redis")
	origin, hung := meter(t)
	file := budgetConfig(t, origin, addr, "secret-of-redis")
	both := []*process{start(t, "--config", file), start(t, "--config", file)}

	// 100 units are 10 calls, and a unit comes back every 864 s.
	const soon, late = 9*864*time.Second + 764*time.Second, 10*864*time.Second + 11*time.Second
	for _, row := range []struct {
		path, client string
		refused      int
	}{{"/all", "Bearer ada", 503}, {"/each", "Bearer ada", 429}, {"/each", "Bearer bob", 429}} {
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := make(map[int]int)
		for i := range 40 {
			wg.Go(func() {
				status, retry, err := spends(both[i%2], row.path, row.client, 10, 10)
				if err != nil || status != 200 && (retry < soon || retry > late) {
					t.Errorf("%s: got %d, Retry-After %v, %v; want the time until 10 units are there", row.path, status, retry, err)
				}
				mu.Lock()
				defer mu.Unlock()
				got[status]++
			})
		}
		wg.Wait()
		if got[200] != 10 || got[row.refused] != 30 {
			t.Errorf("%s for %s: got %v; want 200 for 10 of 40, and %d for the others", row.path, row.client, got, row.refused)
		}
	}

	want := func(by *process, path string, units, cost, status int) {
		t.Helper()
		if got, _, err := spends(by, path, "Bearer carl", units, cost); err != nil || got != status {
			t.Errorf("%s: got %d, %v for %d units; want %d", path, got, err, units, status)
		}
	}
	routes := []struct {
		path    string
		refused int
	}{{"/left", 503}, {"/each", 429}}
	for i, row := range routes {
		want(both[0], row.path, 80, 20, 200) // gives 60 back
		until(t, "the other proxy has what was given back", func() bool {
			status, _, err := spends(both[1], row.path, "Bearer carl", 80, 0) // which gives all back
			return err == nil && status == 200
		})
		until(t, "this one has it, too", func() bool {
			status, _, err := spends(both[0], row.path, "Bearer carl", 80, 0)
			return err == nil && status == 200
		})
		go func() { // ends with the proxy
			for {
				if status, _, err := spends(both[0], row.path+"/hang", "Bearer carl", 50, 50); err != nil || status != row.refused {
					return
				}
				<-time.After(20 * time.Millisecond) // until all is given back
			}
		}()
		until(t, "a call is in flight", func() bool { return hung() > i })
	}
	if err := both[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-both[0].exited
	again := start(t, "--config", file)
	for _, row := range routes {
		// Of 100 units, 20 were spent, and 50 went with the killed proxy.
		want(again, row.path, 40, 40, row.refused)
		want(both[1], row.path, 40, 40, row.refused)
		want(again, row.path, 29, 29, 200)
		want(both[1], row.path, 10, 10, row.refused)
	}
}
