package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var scaleOut = scenario.Scenario{
	Name:  "scale-out",
	Title: "Stateless horizontal scaling",
	Asks:  "A handler that needs only CPU is at its limit. What do three instances behind a load balancer add?",
	Published: &result.Published{
		Title:      "highload-patterns: stateless horizontal scaling",
		Setup:      "A CPU-bound handler, as one instance and as three behind nginx; wrk with 1 and with 3 connections, each for 5 s.",
		FromSource: fromSource,
		Inconsistencies: []string{
			"The block printed for three instances is a copy of the one for a single instance, down to the last digit and to the host it names. So there is no published figure for three.",
			"One instance serves 169 requests/s on 1 connection and 75 on 3: more load, but less than half the throughput. The text does not say why.",
		},
	},
	Needs:   []string{"wrk", "nginx"},
	Service: scaleService,
	Run:     runScaleOut,
}

// The variants of scale-out, in addition to the ceiling.
const (
	oneInstance    = "1 instance"
	threeInstances = "3 instances"
)

// A balancer is a load balancer in front of several instances.
type balancer struct {
	name  string
	start func(ctx context.Context, l *scenario.Lab, upstreams []string) (url string, err error)
}

// balancers are the measured load balancers. The rows use the ceiling of the first
// one.
var balancers = []balancer{
	{"nginx", func(ctx context.Context, l *scenario.Lab, upstreams []string) (string, error) {
		s, err := l.Engine(ctx, "nginx", func(ctx context.Context) (*engine.Server, error) {
			return engine.Nginx(ctx, engine.NginxOptions{Upstreams: upstreams})
		})
		if err != nil {
			return "", err
		}
		return s.URL, nil
	}},
	{"weir", func(ctx context.Context, l *scenario.Lab, upstreams []string) (string, error) {
		s, err := l.Serve(ctx, shielded, gatewaySetup{Upstreams: upstreams, Balance: true})
		if err != nil {
			return "", err
		}
		return s.URL, nil
	}},
}

// threeBehind and ceilingBehind name the variants measured for a balancer.
func threeBehind(b balancer) string   { return threeInstances + " behind " + b.name }
func ceilingBehind(b balancer) string { return ceiling + ", behind " + b.name }

// runScaleOut measures one instance, and three behind each balancer.
func runScaleOut(ctx context.Context, l *scenario.Lab) error {
	one, err := startInstances(ctx, l, oneInstance, 1)
	if err != nil {
		return err
	}
	held, targets := one.held, []scaleTarget{one}
	var constants []scaleTarget
	for _, b := range balancers {
		three, err := behindBalancer(ctx, l, b, threeBehind(b))
		if err != nil {
			return err
		}
		constant, err := behindBalancer(ctx, l, b, ceilingBehind(b))
		if err != nil {
			return err
		}
		held = held && three.held
		targets, constants = append(targets, three), append(constants, constant)
	}
	rounds := scenario.Size(l, 3, 1)
	for round := 1; round <= rounds; round++ {
		turn := targets
		if round == 1 {
			turn = slices.Concat(targets, constants)
		}
		for _, clients := range []int{1, 3} {
			for i := range turn {
				t := turn[(i+round)%len(turn)] // so that none is always first
				if err := t.measure(ctx, l, clients, round); err != nil {
					return err
				}
			}
		}
	}
	judgeScaleOut(l, held)
	return nil
}

// behindBalancer starts three instances and the balancer in front of them.
func behindBalancer(ctx context.Context, l *scenario.Lab, b balancer, variant string) (scaleTarget, error) {
	t, err := startInstances(ctx, l, variant, 3)
	if err != nil {
		return t, err
	}
	var upstreams []string
	for _, s := range t.servers {
		upstreams = append(upstreams, strings.TrimPrefix(s.URL, "http://"))
	}
	t.url, err = b.start(ctx, l, upstreams)
	return t, err
}

// A scaleTarget is a variant, its instances, and their addresses.
type scaleTarget struct {
	variant string
	servers []*scenario.Server
	url     string
	held    bool // each instance is held to its share
}

// startInstances starts n instances, each with its own CPU share.
func startInstances(ctx context.Context, l *scenario.Lab, variant string, n int) (scaleTarget, error) {
	t := scaleTarget{variant: variant, held: true}
	for range n {
		s, held, err := serveHeld(ctx, l, variant, nil)
		if err != nil {
			return t, err
		}
		t.held = t.held && held
		t.servers = append(t.servers, s)
	}
	t.url = t.servers[0].URL
	return t, nil
}

func (t scaleTarget) measure(ctx context.Context, l *scenario.Lab, clients, round int) error {
	_, err := l.Wrk(ctx, t.servers[0], clients, scenario.Size(l, 5*time.Second, time.Second), scenario.Job{
		Load:    load.Spec{URLs: []string{t.url + "/handle"}},
		Variant: t.variant,
		Setting: onConnections(clients),
		Round:   round,
		Beside:  t.servers[1:],
	})
	return err
}

func judgeScaleOut(l *scenario.Lab, held bool) {
	variants := []string{oneInstance}
	for _, b := range balancers {
		variants = append(variants, threeBehind(b), ceilingBehind(b))
	}
	all := medianRounds(l, variants...)
	for _, m := range all {
		want := 3.0
		if m.Variant == oneInstance {
			want = 1
		}
		l.Check(fmt.Sprintf("%s, %s: all instances take part", m.Variant, m.Setting), m.Values[answered] == want, "%.0f of %.0f", m.Values[answered], want)
		l.Check(fmt.Sprintf("%s, %s: each request reaches an instance", m.Variant, m.Setting), m.Values[reached] >= float64(m.Requests), "%.0f for %d answers", m.Values[reached], m.Requests)
	}
	for _, at := range []struct {
		clients   int
		published float64
	}{{1, 169.08}, {3, 74.56}} {
		setting := onConnections(at.clients)
		before := medianRound(all, oneInstance, setting)
		for i, b := range balancers {
			after, most := medianRound(all, threeBehind(b), setting), medianRound(all, ceilingBehind(b), setting)
			row := result.NewRow("requests/s, behind "+b.name+", "+setting, "requests/s", result.Higher)
			if i == 0 {
				row = publishedBefore(row, at.published).Noted("the figure published for three instances is a copy of this one")
			}
			l.Row(row.Here(before.PerSecond, after.PerSecond).Under(most.PerSecond))
		}
	}
	l.Table(usedTable("CPU cost of a request", all))
	l.Note("A share bounds CPU time, so the throughput of an instance is its share divided by the cost of a request, on any number of connections. With more connections, requests only wait longer. " +
		"The published figures are 169 requests/s on 1 connection and 75 on 3: either a request cost more there, or the instance got less than its share.")
	l.Note("weir is configured to store and share nothing here; otherwise it would coalesce concurrent requests.")
	if held {
		noteShare(l, medianRound(all, oneInstance, onConnections(1)))
		noteShare(l, medianRound(all, oneInstance, onConnections(3)))
		setting := onConnections(3)
		for _, b := range balancers {
			gain := result.Ratio(l.Rates(threeBehind(b), setting), l.Rates(oneInstance, setting))
			l.CheckTime("3 instances behind "+b.name+" do at least twice the work of 1, on 3 connections", gain.Median >= 2, "%v", gain)
		}
	}
}

// answered names the number of instances that had a request, reached the number of
// requests.
const (
	answered = "instances that answered"
	reached  = "requests at the instances"
)

func scaleService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	if o.Variant == shielded {
		return weirGatewayService(o)
	}
	work := func() ([]byte, error) { return encodeMany(shortText) }
	if strings.HasPrefix(o.Variant, ceiling) {
		constant, err := encodeMany(shortText)
		if err != nil {
			return nil, err
		}
		work = func() ([]byte, error) { return constant, nil }
	}
	var asked atomic.Int64
	return &scenario.Service{
		Reset: func(context.Context) error { asked.Store(0); return nil },
		Values: func() map[string]float64 {
			n := float64(asked.Load())
			return map[string]float64{answered: min(n, 1), reached: n}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			b, err := work()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Write(b) //nolint:errcheck // the client is gone
		}),
	}, nil
}
