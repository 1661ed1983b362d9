package config_test

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/jobs"
)

// The configuration in the how-to loads and has the described effect.
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
			t.Fatalf("the configuration does not load:\n%s", faults.Text())
		}
		g, err := c.Gateway()
		if err != nil {
			t.Fatal(err)
		}
		if g.Fleet == nil || g.Fleet.RateFailure != quota.FailLocalShare || g.Fleet.Instances != 3 || g.Routes[0].NoFleet || !g.Routes[1].NoFleet {
			t.Errorf("Fleet = %+v, routes %+v", g.Fleet, g.Routes)
		}
		r, err := c.Redis()
		if err != nil || r.Password != "0123456789abcdef" || len(r.Addresses) != 1 || r.Prefix != "weir" {
			t.Errorf("Redis = %+v, %v", r, err)
		}
	}
	if !found {
		t.Error("the how-to contains no fleet")
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
			t.Errorf("Redis without its files = %v; want a fault about %s", err, part)
		}
	}
	var none config.Config
	if r, err := none.Redis(); r != nil || err != nil {
		t.Errorf("Redis without a fleet = %v, %v; want nil, nil", r, err)
	}
}

// The same holds for the jobs in the how-to about slow endpoints.
func TestHowtoOfSlowEndpointsLoads(t *testing.T) {
	text, err := os.ReadFile("../../../docs/howto/make-a-slow-endpoint-asynchronous.md")
	if err != nil {
		t.Fatal(err)
	}
	folder(t)
	block, _, _ := strings.Cut(strings.SplitN(string(text), "```yaml\n", 2)[1], "```")
	c, faults := load(t, block)
	if faults != nil || len(c.Warnings) > 0 {
		t.Fatalf("the configuration does not load without faults and warnings:\n%s%s", faults.Text(), c.Warnings.Text())
	}
	a, err := c.JobsAccess()
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := a.Routes["reports"]; !ok || o.Attempts != 25 || o.UnsafeAttempts != 1 || o.Budget != 0 || o.DropCredentials || !o.AskCache ||
		len(o.Principal) != 1 || o.MaxWait != 30*time.Second || !strings.HasSuffix(a.Dir, "/conf/jobs") || !a.Workers || a.Concurrency != 16 {
		t.Errorf("JobsAccess = %+v", a)
	}
}

func TestJobsAccess(t *testing.T) {
	example(t)
	c := must(t, config.Source{File: "weir.example.yaml"})
	a, err := c.JobsAccess()
	if err != nil {
		t.Fatal(err)
	}
	if len(a.NATS) != 3 || a.Username != "weir" || a.Password == "" || a.TLS == nil || a.Durability != jobs.DurabilityMajority || a.Replicas != 3 ||
		len(a.Routes) != 1 || a.Routes["report"].MaxResult != 4<<20 {
		t.Errorf("JobsAccess = %+v", a)
	}
	// A request that the route's own call would reject does not become a job.
	if got := a.Routes["report"].MaxBody; got != 512<<10 {
		t.Errorf("MaxBody = %d; want 512 KiB, less than the route's", got)
	}
	c.Routes[1].MaxBody = 100
	if a, err := c.JobsAccess(); err != nil || c.Routes[1].Name != "report" || a.Routes["report"].MaxBody != 100 {
		t.Errorf("MaxBody = %d, %v; want the route's 100", a.Routes["report"].MaxBody, err)
	}
	write(t, "secrets/nats.password", "")
	write(t, "tls/ca.pem", "")
	_, err = c.JobsAccess()
	for _, part := range []string{"jobs.password_file", "jobs.tls"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("JobsAccess without its files = %v; want a fault about %s", err, part)
		}
	}
	var none config.Config
	if a, err := none.JobsAccess(); a != nil || err != nil {
		t.Errorf("JobsAccess without jobs = %v, %v; want nil, nil", a, err)
	}
}

var yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")

// yamlBlocks returns the YAML blocks of a how-to that configure the proxy. Blocks for
// other programs begin with their file name. The indentation of lists is removed.
func yamlBlocks(t *testing.T, page string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/howto/" + page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(m[2], "# ") {
			all = append(all, strings.TrimPrefix(strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n"), "\n"))
		}
	}
	return all
}

// The same holds for the how-tos about the console, metrics and traces.
func TestHowtosOfSeeingLoad(t *testing.T) {
	pages := map[string][]string{}
	for _, page := range []string{"wire-opentelemetry-and-prometheus.md", "read-the-console.md"} {
		pages[page] = yamlBlocks(t, page)
	}
	folder(t)
	write(t, "admin.token", "0123456789abcdef\n")
	seen := map[string]int{}
	for page, blocks := range pages {
		for _, block := range blocks {
			if !strings.Contains(block, "upstreams:") {
				block += one
			}
			c, faults := load(t, block)
			if faults != nil {
				t.Fatalf("%s: the configuration does not load:\n%s", page, faults.Text())
			}
			if len(c.Warnings) > 0 {
				t.Errorf("%s: the configuration loads with warnings:\n%s", page, c.Warnings.Text())
			}
			if c.Admin.Address != "" {
				seen[page+" admin"]++
				token, err := c.AdminToken()
				if err != nil || token != "0123456789abcdef" || len(c.Admin.AllowedHosts) != 1 || !c.Admin.Console || c.Admin.ShowKeys {
					t.Errorf("%s: Admin = %+v, %v; want a token, a host name, and keys hidden", page, c.Admin, err)
				}
			}
			a, err := c.TelemetryAccess()
			if err != nil {
				t.Fatal(err)
			}
			if a != nil {
				seen[page+" telemetry"]++
				if a.Service != "shop-gateway" || a.Endpoint != "http://127.0.0.1:4318" || a.Sample == nil || *a.Sample != 0.1 || !a.Metrics || !a.Traces || a.Trust {
					t.Errorf("%s: TelemetryAccess = %+v", page, a)
				}
			}
		}
	}
	want := map[string]int{
		"wire-opentelemetry-and-prometheus.md admin": 1, "wire-opentelemetry-and-prometheus.md telemetry": 1, "read-the-console.md admin": 1,
	}
	if !maps.Equal(seen, want) {
		t.Errorf("the pages contain %v; want %v", seen, want)
	}
}

// The blocks of the page about query rules load without a warning.
func TestHowtoOfQueryRules(t *testing.T) {
	blocks := yamlBlocks(t, "control-query-parameters.md")
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks; want 2", len(blocks))
	}
	t.Chdir(t.TempDir())
	for _, block := range blocks {
		c, faults := load(t, block+one)
		if faults != nil || len(c.Warnings) > 0 {
			t.Errorf("the configuration loads with faults %v and warnings %v:\n%s", faults, c.Warnings, block)
		}
	}
}
