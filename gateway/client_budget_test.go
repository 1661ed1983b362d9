package gateway_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// H34: each client of a route has its own budget of units, over real sockets: estimated
// from the body, settled from the response, also of a stream. A client that has spent its
// units gets 429 with a true Retry-After, while others are served; hits are free.
func TestH34_BudgetsOfClients(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		origin := model(t)
		c := gateway.Config{
			Upstreams: []gateway.Upstream{{
				Name: "model", Servers: []string{origin.URL},
				Cost: weirhttp.Cost{Field: "/max_tokens", Default: 10, Usage: "/usage/total_tokens"},
			}},
			Routes: []gateway.Route{
				{Name: "all"},
				{
					Name: "llm", Path: "/llm", ClientBudget: &gateway.ClientBudget{Units: 100, Per: 24 * time.Hour, By: "header:X-Group"},
					Cache: weirhttp.Policy{TTL: time.Hour, UnkeyedHeaders: []string{"X-Group"}}, Reads: []weirhttp.ReadRule{{Methods: []string{"QUERY"}}},
				},
			},
		}
		s := open(c)
		send := func(method, group, body string) (status int, retry time.Duration) {
			t.Helper()
			r := s.request(method, "/llm", strings.NewReader(body), "Content-Type", "application/json", "X-Group", group)
			resp, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			return resp.StatusCode, time.Duration(n) * time.Second
		}
		stats := func() weirhttp.ClientBudgetStats { return s.g.Stats().ClientBudgets["llm"] }
		for i, body := range []string{`{"max_tokens":40}`, `{"max_tokens":40,"stream":true}`, `{"max_tokens":45}`} {
			if status, _ := send(http.MethodPost, "search", body); status != 200 {
				t.Errorf("call %d: got %d; want 200", i, status)
			}
			want := []uint64{15, 30, 50}[i]
			s.until("it is settled", func() bool { return stats().Returned == want })
		}
		if status, retry := send(http.MethodPost, "search", `{"max_tokens":75}`); status != 429 || retry < 11*time.Hour || retry > 12*time.Hour {
			t.Errorf("got %d, Retry-After %v; want 429 and the time until 75 units are there", status, retry)
		}
		if status, retry := send(http.MethodPost, "search", `{"max_tokens":101}`); status != 413 || retry != 0 {
			t.Errorf("got %d, Retry-After %v; want 413 for good", status, retry)
		}
		if status, _ := send("QUERY", "support", `{"max_tokens":90}`); status != 200 {
			t.Errorf("got %d for another client; want 200", status)
		}
		for range 5 {
			if status, _ := send("QUERY", "search", `{"max_tokens":90}`); status != 200 {
				t.Errorf("got %d for a hit; want 200 without enough units", status)
			}
		}
		if got, all := stats(), s.g.Stats().Routes["llm"]; got.Refused != 2 || got.Clients != 2 || all.Cost.RefusedClient != 176 || all.Cost.Hits != 125 || all.RefusedBy.ClientBudget != 1 || all.RefusedBy.TooLarge != 1 {
			t.Errorf("Stats = %+v, %+v, %+v; want two clients, and a refusal of each kind", got, all.Cost, all.RefusedBy)
		}

		c.Routes[1].ClientBudget.Units = 200
		if err := s.g.Update(c); err != nil {
			t.Fatal(err)
		}
		if status, _ := send(http.MethodPost, "search", `{"max_tokens":126}`); status != 429 {
			t.Errorf("got %d after Update; want 429, as the units stay spent", status)
		}
		c.Routes[1].ClientBudget.By = ""
		if err := s.g.Update(c); err != nil {
			t.Fatal(err)
		}
		if status, _ := send(http.MethodPost, "search", `{"max_tokens":126}`); status != 200 {
			t.Errorf("got %d after clients are distinguished by their address; want 200", status)
		}
		c.Routes[1].ClientBudget = nil
		if err := s.g.Update(c); err != nil {
			t.Fatal(err)
		}
		if status, _ := send(http.MethodPost, "search", `{"max_tokens":5000}`); status != 200 || len(s.g.Stats().ClientBudgets) != 0 {
			t.Errorf("got %d without a budget; want 200", status)
		}
	})
}

func TestH34_FaultsOfClientBudgets(t *testing.T) {
	up := gateway.Upstream{Name: "up", Servers: []string{"http://127.0.0.1:1"}, Cost: weirhttp.Cost{Units: 1}}
	for field, r := range map[string]gateway.Route{
		"ClientBudget.Units":   {ClientBudget: &gateway.ClientBudget{}},
		"ClientBudget.Per":     {ClientBudget: &gateway.ClientBudget{Units: 1, Per: time.Microsecond}},
		"ClientBudget.Burst":   {ClientBudget: &gateway.ClientBudget{Units: 1, Burst: -1}},
		"ClientBudget.Clients": {ClientBudget: &gateway.ClientBudget{Units: 1, Clients: -1}},
		"ClientBudget.By":      {ClientBudget: &gateway.ClientBudget{Units: 1, By: "header:X-Group"}, Cache: weirhttp.Policy{IgnoreHeaders: []string{"x-group"}}},
	} {
		r.Name = "r"
		c := gateway.Config{Upstreams: []gateway.Upstream{up}, Routes: []gateway.Route{r}}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "Routes[0]."+field) {
			t.Errorf("Validate = %v; want a fault in %s", err, field)
		}
		c.Routes[0].ClientBudget.By = "llm"
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "Routes[0].ClientBudget.By") {
			t.Errorf("Validate = %v; want a fault in By", err)
		}
	}
	up.Cost = weirhttp.Cost{}
	c := gateway.Config{Upstreams: []gateway.Upstream{up}, Routes: []gateway.Route{{Name: "r", ClientBudget: &gateway.ClientBudget{Units: 1}}}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "Routes[0].Cost") {
		t.Errorf("Validate = %v; want a fault in Cost", err)
	}
}
