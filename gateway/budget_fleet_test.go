package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
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
			Fleet:  &gateway.Fleet{Config: fleet.Config{Tier: line}, RateFailure: fleet.FailClosed},
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

func TestH34_FaultsOfFleetBudgets(t *testing.T) {
	up := gateway.Upstream{Name: "up", Servers: []string{"http://127.0.0.1:1"}, Cost: weirhttp.Cost{Units: 1}, Budget: &gateway.Budget{Units: 1, Fleet: true}}
	for _, row := range []struct {
		fleet *gateway.Fleet
		field string
	}{
		{nil, "Upstreams[0].Budget.Fleet"},
		{&gateway.Fleet{}, "Fleet.RateFailure"},
		{&gateway.Fleet{Config: fleet.Config{Tier: withoutLedger{fleet.NewMemory(fleet.MemoryOptions{})}}, RateFailure: fleet.FailOpen}, "Upstreams[0].Budget.Fleet"},
	} {
		err := gateway.Config{Upstreams: []gateway.Upstream{up}, Fleet: row.fleet}.Validate()
		if err == nil || !strings.Contains(err.Error(), row.field) {
			t.Errorf("Validate = %v; want a fault in %s", err, row.field)
		}
	}
}

// withoutLedger is a Tier that does not count units.
type withoutLedger struct{ fleet.Tier }

func (withoutLedger) Abilities() fleet.Abilities { return fleet.Abilities{} }
