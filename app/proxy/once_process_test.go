package proxy_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A payOrigin counts payments, and does not notice that clients leave.
type payOrigin struct {
	mu  sync.Mutex
	ran map[string]int // by body; guarded by mu
}

func (o *payOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return // the proxy was killed before it had sent all of it
	}
	o.mu.Lock()
	o.ran[string(b)]++
	n := o.ran[string(b)]
	o.mu.Unlock()
	sha256.Sum256(make([]byte, 4<<20)) // takes some time, so that kills find payments that run
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s paid for the %d. time at %v", b, n, time.Now().UnixNano())
}

// Payments through a proxy that is killed again and again run at most once: each has one
// answer, or is unknown on every retry, until an operator settles it.
func TestH45_APaymentRunsOnceThoughTheProxyIsKilled(t *testing.T) {
	origin := &payOrigin{ran: map[string]int{}}
	s := httptest.NewServer(origin)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	config(t, file, s.URL, fmt.Sprintf(`listen: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
idempotency: {dir: %q}
routes: [{name: pay, idempotency: {required: true, unknown: refuse}}]`, filepath.Join(dir, "keys")))
	const kills, each, clients = 3, 60, 8
	answers := map[string]string{} // by key
	unknown := map[string]bool{}
	var mu sync.Mutex
	pay := func(url, key string) (status int, text string, err error) {
		r, err := http.NewRequest(http.MethodPost, url+"/payments", strings.NewReader(key))
		if err != nil {
			return 0, "", err
		}
		r.Host = "shop.example" // whatever the port of the proxy is
		r.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	told := func(key string, status int, text string) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case status == http.StatusCreated && unknown[key]:
			t.Errorf("%s was unknown, and then answered", key)
		case status == http.StatusCreated && answers[key] != "" && answers[key] != text:
			t.Errorf("%s was answered %q, and then %q", key, answers[key], text)
		case status == http.StatusCreated:
			answers[key] = text
		case status == http.StatusConflict && strings.Contains(text, "idempotency-outcome-unknown") && answers[key] == "":
			unknown[key] = true
		default:
			t.Errorf("%s = %d %s", key, status, text)
		}
	}
	for round := range kills + 1 {
		p := start(t, "--config", file)
		var work sync.WaitGroup
		for c := range clients {
			work.Go(func() {
				for i := c; i < (round+1)*each; i += clients {
					key := fmt.Sprint("payment-", i)
					status, text, err := pay(p.listen[0], key)
					if err != nil {
						continue // killed
					}
					told(key, status, text)
				}
			})
		}
		if round < kills {
			until(t, "half of the payments have run", func() bool {
				origin.mu.Lock()
				defer origin.mu.Unlock()
				return len(origin.ran) > round*each+each/2
			})
			p.signal(os.Kill)
			<-p.exited
		}
		work.Wait()
		if round == kills {
			settle(t, p, len(unknown))
			p.signal(os.Interrupt)
			p.ends(0)
		}
	}
	for key, n := range origin.ran {
		if n != 1 {
			t.Errorf("%s ran %d times", key, n)
		}
	}
	if n := len(unknown); n > kills*clients || len(answers)+n != (kills+1)*each {
		t.Errorf("%d answers and %d unknown; want %d together, with at most %d unknown", len(answers), n, (kills+1)*each, kills*clients)
	}
	t.Logf("%d answered, %d unknown", len(answers), len(unknown))
}

// Two proxies share the fleet's Redis, and are killed in turn while clients repeat their payments at
// both: each payment runs at most once, and has one answer or is unknown at both.
func TestH45_APaymentRunsOnceThoughBothProxiesAreKilled(t *testing.T) {
	program := redisServer(t)
	origin := &payOrigin{ran: map[string]int{}}
	s := httptest.NewServer(origin)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	const password = "correct horse battery"
	for name, text := range map[string]string{"password": password, "secret": "of all the proxies of this fleet"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := free(t)
	startRedis(t, program, addr, password)
	file := filepath.Join(dir, "weir.yaml")
	config(t, file, s.URL, fmt.Sprintf(`listen: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
fleet: {deadline: 5s, redis: {addresses: [%q], password_file: %q}}
idempotency: {fleet: true, secret_file: %q}
routes: [{name: pay, idempotency: {required: true, unknown: refuse}}]`, addr, filepath.Join(dir, "password"), filepath.Join(dir, "secret")))
	proxies := []*process{start(t, "--config", file), start(t, "--config", file)}
	const each, clients = 40, 8
	answers, unknown := map[string]string{}, map[string]bool{}
	var mu sync.Mutex
	pay := func(p *process, key string) {
		r, err := http.NewRequest(http.MethodPost, p.listen[0]+"/payments", strings.NewReader(key))
		if err != nil {
			t.Error(err)
			return
		}
		r.Host = "shop.example"
		r.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return // killed
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch text := string(b); {
		case resp.StatusCode == http.StatusCreated && !unknown[key] && (answers[key] == "" || answers[key] == text):
			answers[key] = text
		case resp.StatusCode == http.StatusConflict && strings.Contains(text, "idempotency-outcome-unknown") && answers[key] == "":
			unknown[key] = true
		default:
			t.Errorf("%s = %d %s; before: %q, unknown %v", key, resp.StatusCode, text, answers[key], unknown[key])
		}
	}
	for round := range 3 {
		var work sync.WaitGroup
		for c := range clients {
			work.Go(func() {
				for i := c; i < (round+1)*each; i += clients {
					for _, n := range []int{i, i + 1} { // a retry, at the other one
						pay(proxies[n%2], fmt.Sprint("payment-", i))
					}
				}
			})
		}
		if round < 2 {
			until(t, "half of the payments have run", func() bool {
				origin.mu.Lock()
				defer origin.mu.Unlock()
				return len(origin.ran) > round*each+each/2
			})
			proxies[round].signal(os.Kill)
			<-proxies[round].exited
		}
		work.Wait()
		if round < 2 {
			proxies[round] = start(t, "--config", file)
		}
	}
	for key, n := range origin.ran {
		if n != 1 {
			t.Errorf("%s ran %d times", key, n)
		}
	}
	if n := len(unknown); n > 2*clients || len(answers)+n != 3*each {
		t.Errorf("%d answers and %d unknown; want %d together, with at most %d unknown", len(answers), n, 3*each, 2*clients)
	}
	t.Logf("%d answered, %d unknown", len(answers), len(unknown))
	settle(t, proxies[0], len(unknown))
}

// settle settles all n unknown calls at the admin listener.
func settle(t *testing.T, p *process, n int) {
	t.Helper()
	list := func() (ids []string) {
		var got struct {
			Unknown []struct{ ID, Call, Route string }
		}
		if err := json.Unmarshal([]byte(get(p.admin+"/idempotency").body), &got); err != nil {
			t.Fatal(err)
		}
		for _, u := range got.Unknown {
			if ids = append(ids, u.ID); u.Call != "POST /payments" || u.Route != "pay" {
				t.Errorf("listed %+v; want POST /payments of pay", u)
			}
		}
		return ids
	}
	shown := func(want int) {
		var snapshot struct {
			Idempotency *struct{ Unknown int }
		}
		var stats struct {
			Idempotency *struct {
				Unknown int `json:"unknown_calls"`
			}
		}
		for at, v := range map[string]any{"/console/api/snapshot": &snapshot, "/stats": &stats} {
			if err := json.Unmarshal([]byte(get(p.admin+at).body), v); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
		if i, s := snapshot.Idempotency, stats.Idempotency; i == nil || i.Unknown != want || s == nil || s.Unknown != want {
			t.Errorf("the console shows %+v, and /stats %+v; want %d unknown", i, s, want)
		}
		if metric := fmt.Sprintf("\nweir_idempotency_unknown %d\n", want); !strings.Contains(get(p.admin+"/metrics").body, metric) {
			t.Errorf("/metrics has no line%s", metric)
		}
	}
	ids := list()
	if len(ids) != n {
		t.Errorf("%d unknown calls are listed; want %d", len(ids), n)
	}
	shown(n)
	for _, id := range ids {
		resp, err := http.Post(p.admin+"/idempotency", "application/json", strings.NewReader(fmt.Sprintf(`{"id": %q, "settle": "done"}`, id)))
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("settling = %d; want 200", resp.StatusCode)
		}
	}
	if ids = list(); len(ids) != 0 {
		t.Errorf("%d unknown calls are left; want 0", len(ids))
	}
	shown(0)
}
