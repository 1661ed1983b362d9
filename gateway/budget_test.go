package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// A model answers prompts over a real socket: JSON or events, with usage in the form of
// a widely copied API.
func model(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[{"message":{"content":"usage"}}],"usage":{"total_tokens":25}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, `{"choices":[],"usage":{"total_tokens":25}}`, `[DONE]`} {
			fmt.Fprintf(w, "data: %s\n\n", event)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// H34: an upstream's budget and a route's are estimated from the body and settled from the
// response, also of a stream, over real sockets; the response is not changed. A refusal has
// a true Retry-After.
func TestH34_BudgetsOfUpstreamsAndRoutes(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		origin := model(t)
		c := gateway.Config{
			Upstreams: []gateway.Upstream{{
				Name: "model", Servers: []string{origin.URL},
				Cost:   weirhttp.Cost{Field: "/max_tokens", Default: 10, Usage: "/usage/total_tokens"},
				Budget: &gateway.Budget{Units: 100, Per: 24 * time.Hour},
			}},
			Routes: []gateway.Route{
				{Name: "all"},
				{Name: "team", Path: "/team", Budget: &gateway.Budget{Units: 30, Per: 24 * time.Hour}},
			},
		}
		s := open(c)
		spent := s.g.Stats().Upstreams["model"].Budget.Left // over HTTP/2, open has sent a request
		send := func(url, body string) (status int, retry time.Duration, text string) {
			t.Helper()
			resp, err := s.client.Post(url, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			return resp.StatusCode, time.Duration(n) * time.Second, string(b)
		}
		for i, body := range []string{`{"max_tokens":40}`, `{"max_tokens":40,"stream":true}`} {
			_, _, want := send(origin.URL, body)
			if status, _, got := send(s.url+"/v1", body); status != 200 || got != want {
				t.Errorf("got %d %q; want %q", status, got, want)
			}
			s.until("it is settled", func() bool {
				return int(s.g.Stats().Upstreams["model"].Budget.Left+0.5) == int(spent+0.5)-25*(i+1)
			})
		}
		if status, retry, _ := send(s.url+"/v1", `{"max_tokens":99}`); status != 503 || retry < 10*time.Hour || retry > 20*time.Hour {
			t.Errorf("got %d, Retry-After %v; want 503 and the time until 99 units are there", status, retry)
		}
		if status, retry, _ := send(s.url+"/team", `{"max_tokens":31}`); status != 413 || retry != 0 {
			t.Errorf("got %d, Retry-After %v; want 413 for good from the route's budget", status, retry)
		}
		if status, _, _ := send(s.url+"/team", `{"max_tokens":20}`); status != 200 {
			t.Errorf("got %d; want 200", status)
		}
		s.until("the route's budget is settled", func() bool { return int(s.g.Stats().Budgets["team"].Left+0.5) == 5 })
		st := s.g.Stats()
		if up := st.Upstreams["model"].Budget; up.Refused != 1 || st.Budgets["team"].Refused != 1 || st.Routes["team"].Cost.Spent != 25 || st.Routes["team"].Cost.Refused != 31 {
			t.Errorf("Stats = %+v, %+v, %+v; want one refusal each, 25 spent and 31 refused", up, st.Budgets, st.Routes["team"].Cost)
		}

		c.Upstreams[0].Budget.Units = 1000
		if err := s.g.Update(c); err != nil {
			t.Fatal(err)
		}
		if up := s.g.Stats().Upstreams["model"].Budget; up.Burst != 1000 || up.Left > 30 {
			t.Errorf("after Update: %+v; want the units spent", up)
		}
		c.Upstreams[0].Budget = nil
		c.Routes[1].Budget = nil
		if err := s.g.Update(c); err != nil {
			t.Fatal(err)
		}
		if status, _, _ := send(s.url+"/team", `{"max_tokens":5000}`); status != 200 || s.g.Stats().Upstreams["model"].Budget != nil {
			t.Errorf("got %d without a budget; want 200", status)
		}
	})
}

func TestH34_FaultsOfBudgets(t *testing.T) {
	up := gateway.Upstream{Name: "up", Servers: []string{"http://127.0.0.1:1"}}
	bad := up
	bad.Budget = &gateway.Budget{Burst: -1, Per: -1}
	bad.Cost.Usage = "usage"
	for _, row := range []struct {
		c      gateway.Config
		faults []string
	}{
		{gateway.Config{Upstreams: []gateway.Upstream{bad}}, []string{"Upstreams[0].Budget.Units", "Upstreams[0].Budget.Burst", "Upstreams[0].Budget.Per", "Upstreams[0].Cost.Usage"}},
		{gateway.Config{Upstreams: []gateway.Upstream{up}, Routes: []gateway.Route{{Name: "r", Budget: &gateway.Budget{Units: 1}}}}, []string{"Routes[0].Cost"}},
		{gateway.Config{Upstreams: []gateway.Upstream{up}, Routes: []gateway.Route{{Name: "r", Cost: weirhttp.Cost{Units: -1}}}}, []string{"Routes[0].Cost.Units"}},
	} {
		err := row.c.Validate()
		for _, field := range row.faults {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("Validate = %v; want a fault in %s", err, field)
			}
		}
	}
}

// H34: an upstream's statement makes the next calls wait, or refuses them with the true
// time, before the upstream refuses them itself.
func TestH34_StatedLimitsOfAnUpstream(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		var calls, early atomic.Int64
		var until atomic.Int64
		origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/-":
			case time.Now().UnixNano() < until.Load():
				early.Add(1)
			case calls.Add(1) == 1:
				until.Store(time.Now().Add(time.Second).UnixNano())
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(429)
			case calls.Load() == 3:
				w.Header().Set("X-RateLimit-Remaining-Requests", "0")
				w.Header().Set("X-RateLimit-Reset-Requests", "20m")
			}
		}))
		t.Cleanup(origin.Close)
		c := gateway.Config{
			Upstreams: []gateway.Upstream{{Name: "api", Servers: []string{origin.URL}, MaxPause: 10 * time.Minute, QueueWait: 20 * time.Second}},
			Routes:    []gateway.Route{{Name: "all", Coalesce: gateway.CoalesceNone}},
		}
		s := open(c)
		get := func() (int, string) {
			t.Helper()
			resp, err := s.client.Get(s.url + "/x")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode, resp.Header.Get("Retry-After")
		}
		for i, want := range []int{429, 200, 200, 503} {
			status, retry := get()
			if n, _ := strconv.Atoi(retry); status != want || i == 3 && (n < 500 || n > 611) {
				t.Errorf("call %d: got %d, Retry-After %q; want %d, at last with the time, at most MaxPause and the spread (H46)", i, status, retry, want)
			}
		}
		if early.Load() != 0 || calls.Load() != 3 {
			t.Errorf("the origin got %d calls, %d of them too early; want 3 and none", calls.Load(), early.Load())
		}
		if st := s.g.Stats().Upstreams["api"].Stated; st == nil || st.Waited != 1 || st.Refused != 1 {
			t.Errorf("Stats = %+v; want 1 waited and 1 refused", st)
		}
		c.Upstreams[0].MaxPause = 0
		if err := s.g.Update(c); err != nil {
			t.Fatal(err)
		}
		if status, _ := get(); status != 200 {
			t.Errorf("got %d after nothing is obeyed any more; want 200", status)
		}
	})
}

// H34: a route's Cost replaces its upstream's.
func TestH34_ARouteHasItsOwnCost(t *testing.T) {
	origin := model(t)
	s := open(t, gateway.Config{
		Upstreams: []gateway.Upstream{{
			Name: "model", Servers: []string{origin.URL}, Cost: weirhttp.Cost{Units: 1},
			Budget: &gateway.Budget{Units: 100, Per: 24 * time.Hour},
		}},
		Routes: []gateway.Route{{Name: "all"}, {Name: "report", Path: "/report", Cost: weirhttp.Cost{Units: 7}}},
	})
	left := 100
	for path, cost := range map[string]int{"/page": 1, "/report": 7} {
		resp, err := s.client.Post(s.url+path, "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		left -= cost
		s.until(path+" is charged", func() bool { return int(s.g.Stats().Upstreams["model"].Budget.Left+0.5) == left })
	}
}
