package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/fleet"
)

// What the how-to shows is a configuration that loads, and means what it says.
func TestHowtoOfTheFleetLoads(t *testing.T) {
	text, err := os.ReadFile("../../../docs/howto/several-instances.md")
	if err != nil {
		t.Fatal(err)
	}
	folder(t)
	write(t, "redis.password", "0123456789abcdef")
	found := false
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "fleet:") || !strings.Contains(block, "upstreams:") {
			continue
		}
		found = true
		c, faults := load(t, block)
		if faults != nil {
			t.Fatalf("it does not load:\n%s", faults.Text())
		}
		g, err := c.Gateway()
		if err != nil {
			t.Fatal(err)
		}
		if g.Fleet == nil || g.Fleet.RateFailure != fleet.FailLocalShare || g.Fleet.Instances != 3 || g.Routes[0].NoFleet || !g.Routes[1].NoFleet {
			t.Errorf("Fleet = %+v, routes %+v", g.Fleet, g.Routes)
		}
		r, err := c.Redis()
		if err != nil || r.Password != "0123456789abcdef" || len(r.Addresses) != 1 || r.Prefix != "weir" {
			t.Errorf("Redis = %+v, %v", r, err)
		}
	}
	if !found {
		t.Error("the how-to shows no fleet")
	}
}

func TestRedisAccess(t *testing.T) {
	example(t)
	c := must(t, config.Source{File: "weir.example.yaml"})
	r, err := c.Redis()
	if err != nil {
		t.Fatal(err)
	}
	if r.Username != "weir" || r.Password == "" || r.Master != "main" || r.SentinelPassword == "" || r.Cluster ||
		len(r.Addresses) != 2 || r.TLS == nil || r.TLS.ServerName != "redis.internal.example" || len(r.TLS.Certificates) != 1 {
		t.Errorf("Redis = %+v", r)
	}
	write(t, "secrets/redis.password", "")
	write(t, "tls/ca.pem", "")
	_, err = c.Redis()
	for _, part := range []string{"fleet.redis.password_file", "fleet.redis.tls"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Redis without its files = %v; want a fault of %s", err, part)
		}
	}
	var none config.Config
	if r, err := none.Redis(); r != nil || err != nil {
		t.Errorf("Redis without a fleet = %v, %v; want nil, nil", r, err)
	}
}
