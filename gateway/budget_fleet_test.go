package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// H34: gateways of a fleet spend one budget, over real sockets: what one has estimated too
// high is there for the other when the response ends. Without the engine, RateFailure
// decides.
func TestH34_OneBudgetForAFleet(t *testing.T) {
	origin := model(t)
	engine := fleet.NewMemory(fleet.MemoryOptions{})
	t.Cleanup(func() { _ = engine.Close(context.WithoutCancel(t.Context())) })
	var sites []*site
	var lines []*fleettest.Faults
	var configs []gateway.Config
	for range 2 {
		line := fleettest.NewFaults(engine)
		c := gateway.Config{
			Upstreams: []gateway.Upstream{{
				Name: "model", Servers: []string{origin.URL},
				Cost:   weirhttp.Cost{Field: "/max_tokens", Default: 10, Usage: "/usage/total_tokens"},
				Budget: &gateway.Budget{Units: 100, Per: 24 * time.Hour, Fleet: true},
			}},
			Routes: []gateway.Route{{Name: "all", Budget: &gateway.Budget{Units: 1000, Per: 24 * time.Hour, Fleet: true}}},
			Fleet:  &gateway.Fleet{Config: fleet.Config{Tier: line}, RateFailure: quota.FailClosed},
		}
		sites, lines, configs = append(sites, open(t, c)), append(lines, line), append(configs, c)
	}
	send := func(by int, body string) (status int, retry time.Duration) {
		t.Helper()
		resp, err := sites[by].client.Post(sites[by].url+"/v1", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return resp.StatusCode, time.Duration(n) * time.Second
	}
	stats := func(by int) *gateway.BudgetStats { return sites[by].g.Stats().Upstreams["model"].Budget }
	for i, body := range []string{`{"max_tokens":80}`, `{"max_tokens":75,"stream":true}`} { // each costs 25
		if status, _ := send(i, body); status != http.StatusOK {
			t.Errorf("gateway %d: got %d; want 200", i, status)
		}
		want := []uint64{55, 50}[i]
		sites[i].until("it is settled", func() bool { return stats(i).Returned == want })
	}
	if status, retry := send(0, `{"max_tokens":60}`); status != 503 || retry < 2*time.Hour || retry > 3*time.Hour {
		t.Errorf("got %d, Retry-After %v; want 503 and the time until 10 more units are there", status, retry)
	}
	if status, retry := send(1, `{"max_tokens":101}`); status != 413 || retry != 0 {
		t.Errorf("got %d, Retry-After %v; want 413 for good", status, retry)
	}
	if s, r := stats(0), sites[0].g.Stats().Budgets["all"]; !s.Fleet || s.Outage || s.Refused != 1 || s.Burst != 100 || s.Left > 50.1 || s.Left < 49.9 || !r.Fleet || r.Left < 949 {
		t.Errorf("Stats = %+v and %+v; want 50 of 100 left, and 950 of the route's 1000", s, r)
	}

	if err := sites[0].g.Update(configs[0]); err != nil {
		t.Fatal(err)
	}
	if s := stats(0); s.Refused != 1 || s.Returned != 55 {
		t.Errorf("Stats = %+v after Update; want the same budget with its counters", s)
	}
	lines[0].Cut()
	if status, retry := send(0, `{"max_tokens":10}`); status != 503 || retry <= 0 {
		t.Errorf("got %d, Retry-After %v without the engine; want 503", status, retry)
	}
	if status, _ := send(1, `{"max_tokens":10}`); status != 200 {
		t.Errorf("got %d at the other gateway; want 200", status)
	}
	lines[0].Mend()
	configs[0].Upstreams[0].Budget.Fleet = false // from now on it counts alone
	if err := sites[0].g.Update(configs[0]); err != nil {
		t.Fatal(err)
	}
	if s := stats(0); s.Fleet || s.Left != 100 {
		t.Errorf("Stats = %+v after Update; want a full budget of its own", s)
	}
}

// H34: a client has one budget for all gateways of a fleet, over real sockets. An
// excess of one estimate is there at the other gateway when the response ends, and Close waits for it.
func TestH34_AClientHasOneBudgetForAllGateways(t *testing.T) {
	origin := model(t)
	engine := fleet.NewMemory(fleet.MemoryOptions{})
	t.Cleanup(func() { _ = engine.Close(context.WithoutCancel(t.Context())) })
	var sites []*site
	var lines []*fleettest.Faults
	var configs []gateway.Config
	for range 2 {
		line := fleettest.NewFaults(engine)
		c := gateway.Config{
			Upstreams: []gateway.Upstream{{
				Name: "model", Servers: []string{origin.URL}, Cost: weirhttp.Cost{Field: "/max_tokens", Default: 10, Usage: "/usage/total_tokens"},
			}},
			Routes: []gateway.Route{{
				Name: "all", ClientBudget: &gateway.ClientBudget{Units: 100, Per: 24 * time.Hour, By: "header:Authorization", Fleet: true},
			}},
			Fleet: &gateway.Fleet{Config: fleet.Config{Tier: line}, RateFailure: quota.FailClosed},
		}
		sites, lines, configs = append(sites, open(t, c)), append(lines, line), append(configs, c)
	}
	send := func(by int, client, body string) (status int, retry time.Duration) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, sites[by].url+"/v1", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", client)
		resp, err := sites[by].client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return resp.StatusCode, time.Duration(n) * time.Second
	}
	stats := func(by int) weirhttp.ClientBudgetStats { return sites[by].g.Stats().ClientBudgets["all"] }
	for i, body := range []string{`{"max_tokens":80}`, `{"max_tokens":75,"stream":true}`} { // each costs 25
		if status, _ := send(i, "Bearer ada", body); status != http.StatusOK {
			t.Errorf("gateway %d: got %d; want 200", i, status)
		}
		want := []uint64{55, 50}[i]
		sites[i].until("it is settled", func() bool { return stats(i).Returned == want })
	}
	if status, retry := send(0, "Bearer ada", `{"max_tokens":60}`); status != 429 || retry < 2*time.Hour || retry > 3*time.Hour {
		t.Errorf("got %d, Retry-After %v; want 429 and the time until 10 more units are there", status, retry)
	}
	if status, _ := send(0, "Bearer bob", `{"max_tokens":60}`); status != 200 {
		t.Errorf("got %d for another client; want 200", status)
	}
	if s := stats(0); !s.Fleet || s.Outage || s.Refused != 1 || s.Clients != 2 {
		t.Errorf("Stats = %+v; want one refusal, of 2 clients", s)
	}
	lines[0].Cut()
	if status, retry := send(0, "Bearer ada", `{"max_tokens":10}`); status != 503 || retry <= 0 {
		t.Errorf("got %d, Retry-After %v without the engine; want 503", status, retry)
	}
	lines[0].Mend()
	lines[1].Before(func(op string) {
		if op == "correct" {
			<-time.After(50 * time.Millisecond)
		}
	})
	if status, _ := send(1, "Bearer ada", `{"max_tokens":45}`); status != 200 {
		t.Errorf("got %d at the other gateway; want 200", status)
	}
	if err := sites[1].g.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if s := stats(1); s.Returned != 50+20 {
		t.Errorf("Stats = %+v after Close; want that the fleet knows of the last call", s)
	}
	changed := *configs[0].Routes[0].ClientBudget
	changed.Units = 120
	configs[0].Routes[0].ClientBudget = &changed
	if err := sites[0].g.Update(configs[0]); err != nil {
		t.Fatal(err)
	}
	if status, retry := send(0, "Bearer ada", `{"max_tokens":60}`); status != 429 || retry < 2*time.Hour || retry > 3*time.Hour {
		t.Errorf("got %d, Retry-After %v after Update; want 429, because what was spent stays spent", status, retry)
	}
	changed.Fleet = false // from now on it counts alone
	if err := sites[0].g.Update(configs[0]); err != nil {
		t.Fatal(err)
	}
	if status, _ := send(0, "Bearer ada", `{"max_tokens":100}`); status != 200 || stats(0).Fleet {
		t.Errorf("got %d after Update, Stats = %+v; want a full budget", status, stats(0))
	}
}

func TestH34_FaultsOfFleetBudgets(t *testing.T) {
	up := gateway.Upstream{Name: "up", Servers: []string{"http://127.0.0.1:1"}, Cost: weirhttp.Cost{Units: 1}, Budget: &gateway.Budget{Units: 1, Fleet: true}}
	for _, row := range []struct {
		fleet *gateway.Fleet
		field string
	}{
		{nil, "Upstreams[0].Budget.Fleet"},
		{&gateway.Fleet{}, "Fleet.RateFailure"},
		{&gateway.Fleet{Config: fleet.Config{Tier: withoutLedger{fleet.NewMemory(fleet.MemoryOptions{})}}, RateFailure: quota.FailOpen}, "Upstreams[0].Budget.Fleet"},
	} {
		err := gateway.Config{Upstreams: []gateway.Upstream{up}, Fleet: row.fleet}.Validate()
		if err == nil || !strings.Contains(err.Error(), row.field) {
			t.Errorf("Validate = %v; want a fault in %s", err, row.field)
		}
		c := gateway.Config{Upstreams: []gateway.Upstream{up}, Routes: []gateway.Route{{Name: "all", ClientBudget: &gateway.ClientBudget{Units: 1, Fleet: true}}}, Fleet: row.fleet}
		c.Upstreams[0].Budget = nil
		field := strings.Replace(row.field, "Upstreams[0].Budget", "Routes[0].ClientBudget", 1)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate = %v; want a fault in %s", err, field)
		}
	}
}

// withoutLedger is a Tier that does not count units.
type withoutLedger struct{ fleet.Tier }

func (withoutLedger) Abilities() fleet.Abilities { return fleet.Abilities{} }

// H34: which buckets the gateways of a fleet count in, and with which terms.
func TestH34_BucketsOfAFleet(t *testing.T) {
	origin := model(t)
	engine := &buckets{Memory: fleet.NewMemory(fleet.MemoryOptions{}), seen: make(map[fleet.Key]terms)}
	t.Cleanup(func() { _ = engine.Close(context.WithoutCancel(t.Context())) })
	s := open(t, gateway.Config{
		Upstreams: []gateway.Upstream{{
			Name: "model", Servers: []string{origin.URL}, Cost: weirhttp.Cost{Units: 2, Usage: "/usage/total_tokens"},
			Budget: &gateway.Budget{Units: 1000, Fleet: true},
		}},
		Routes: []gateway.Route{
			{Name: "model", Path: "/a", Budget: &gateway.Budget{Units: 2000, Per: time.Hour, Burst: 300, MaxDebt: 40, Fleet: true}},
			{Name: "other", Budget: &gateway.Budget{Units: 4000, MaxDebt: -1, Fleet: true}, ClientBudget: &gateway.ClientBudget{Units: 5000, Per: time.Second, Burst: 60, MaxDebt: 7, Fleet: true}},
		},
		Fleet: &gateway.Fleet{Config: fleet.Config{Tier: engine, Namespace: "shop"}, RateFailure: quota.FailClosed},
	})
	for _, path := range []string{"/a", "/b"} {
		resp, err := s.client.Post(s.url+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	s.until("all is settled", func() bool {
		engine.mu.Lock()
		defer engine.mu.Unlock()
		return len(engine.seen) >= 4
	})
	want := map[string]terms{
		"shop budget/upstream/model": {fleet.Rate{Permits: 1000, Per: time.Minute, Burst: 1000}, 1000},
		"shop budget/route/model":    {fleet.Rate{Permits: 2000, Per: time.Hour, Burst: 300}, 40},
		"shop budget/route/other":    {fleet.Rate{Permits: 4000, Per: time.Minute, Burst: 4000}, 0},
		"shop/client budget/other":   {fleet.Rate{Permits: 5000, Per: time.Second, Burst: 60}, 7},
	}
	for k, got := range engine.seen {
		at := k.Namespace + " " + k.Name
		if strings.HasPrefix(k.Namespace, "shop/client") {
			at = k.Namespace // the name is a digest
		}
		if w, ok := want[at]; !ok || got != w {
			t.Errorf("%s counts %+v; want %+v", at, got, w)
		}
	}
	if len(engine.seen) != len(want) {
		t.Errorf("%d buckets; want %d", len(engine.seen), len(want))
	}
}

// buckets is a Tier that records the terms of each bucket.
type buckets struct {
	*fleet.Memory
	mu   sync.Mutex
	seen map[fleet.Key]terms // guarded by mu
}

type terms struct {
	rate fleet.Rate
	debt int
}

func (b *buckets) Abilities() fleet.Abilities {
	a := b.Memory.Abilities()
	a.Ledger = b
	return a
}

func (b *buckets) Correct(ctx context.Context, k fleet.Key, r fleet.Rate, debt int, c fleet.Correction) (fleet.Corrected, error) {
	b.mu.Lock()
	b.seen[k] = terms{r, debt}
	b.mu.Unlock()
	return b.Memory.Correct(ctx, k, r, debt, c)
}
