package scenarios

import (
	"context"
	"fmt"
	"net/http"
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
	Asks:  "A handler that needs nothing but CPU is at its limit. What do three instances behind a balancer give?",
	Published: &result.Published{
		Title:      "highload-patterns: stateless horizontal scaling",
		Setup:      "A handler that is bound by its CPU, as one instance and as three behind nginx; wrk with 1 and with 3 connections, each for 5 s.",
		FromSource: fromSource,
		Inconsistencies: []string{
			"The block printed for three instances is a copy of the one for a single instance, down to the last digit and to the host it names. So there is no published figure for three.",
			"One instance answers 169 requests/s on 1 connection and 75 on 3: more load, less than half of the work. The text does not say why.",
		},
	},
	Needs:   []string{"wrk", "nginx"},
	Service: scaleService,
	Run:     runScaleOut,
}

// The variants of scale-out beside the ceiling.
const (
	oneInstance    = "1 instance"
	threeInstances = "3 instances"
)

// A balancer is what stands before several instances.
type balancer struct {
	name  string
	start func(ctx context.Context, upstreams []string) (*engine.Server, error)
}

var balancedByNginx = balancer{"nginx", func(ctx context.Context, upstreams []string) (*engine.Server, error) {
	return engine.Nginx(ctx, engine.NginxOptions{Upstreams: upstreams})
}}

func runScaleOut(ctx context.Context, l *scenario.Lab) error {
	return scaleWith(ctx, l, balancedByNginx)
}

// scaleWith measures one instance, and three behind that balancer.
func scaleWith(ctx context.Context, l *scenario.Lab, b balancer) error {
	one, err := startInstances(ctx, l, oneInstance, 1)
	if err != nil {
		return err
	}
	three, err := behindBalancer(ctx, l, b, threeInstances+" behind "+b.name)
	if err != nil {
		return err
	}
	constant, err := behindBalancer(ctx, l, b, ceiling)
	if err != nil {
		return err
	}
	rounds := scenario.Size(l, 3, 1)
	for round := 1; round <= rounds; round++ {
		turn := []scaleTarget{one, three}
		if round == 1 {
			turn = append(turn, constant)
		}
		for _, clients := range []int{1, 3} {
			for i := range turn {
				t := turn[(i+round)%len(turn)] // nobody is always first
				if err := t.measure(ctx, l, clients, round); err != nil {
					return err
				}
			}
		}
	}
	judgeScaleOut(l, three.variant, one.held && three.held)
	return nil
}

// behindBalancer starts three instances and the balancer before them.
func behindBalancer(ctx context.Context, l *scenario.Lab, b balancer, variant string) (scaleTarget, error) {
	t, err := startInstances(ctx, l, variant, 3)
	if err != nil {
		return t, err
	}
	var upstreams []string
	for _, s := range t.servers {
		upstreams = append(upstreams, strings.TrimPrefix(s.URL, "http://"))
	}
	s, err := l.Engine(ctx, b.name, func(ctx context.Context) (*engine.Server, error) { return b.start(ctx, upstreams) })
	if err != nil {
		return t, err
	}
	t.url = s.URL
	return t, nil
}

// A scaleTarget is a variant, its instances, and where they are asked.
type scaleTarget struct {
	variant string
	servers []*scenario.Server
	url     string
	held    bool // each instance to its share
}

// startInstances starts n of them, each with a share of its own.
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

func judgeScaleOut(l *scenario.Lab, three string, held bool) {
	all := medianRounds(l, oneInstance, three, ceiling)
	for _, m := range all {
		want := 3.0
		if m.Variant == oneInstance {
			want = 1
		}
		l.Check(fmt.Sprintf("%s, %s: all instances take part", m.Variant, m.Setting), m.Values[answered] == want, "%.0f of %.0f", m.Values[answered], want)
	}
	for _, at := range []struct {
		clients   int
		published float64
	}{{1, 169.08}, {3, 74.56}} {
		setting := onConnections(at.clients)
		before, after, most := medianRound(all, oneInstance, setting), medianRound(all, three, setting), medianRound(all, ceiling, setting)
		l.Row(publishedBefore(result.NewRow("requests/s, "+setting, "requests/s", result.Higher), at.published).
			Here(before.PerSecond, after.PerSecond).Under(most.PerSecond).
			Noted("what was published for three instances is a copy of this figure"))
	}
	l.Table(usedTable("What a request costs", all))
	l.Note("A share bounds CPU time, so one instance does the share divided by what a request costs, on any number of connections; more of them only wait longer. " +
		"Published were 169 requests/s on 1 connection and 75 on 3: there a request cost more, or the instance got less than its share.")
	if held {
		noteShare(l, medianRound(all, oneInstance, onConnections(1)))
		noteShare(l, medianRound(all, oneInstance, onConnections(3)))
		setting := onConnections(3)
		gain := result.Ratio(l.Rates(three, setting), l.Rates(oneInstance, setting))
		l.CheckTime("3 instances do at least twice the work of 1, on 3 connections", gain.Median >= 2, "%v", gain)
	}
}

// answered counts the instances that had a request.
const answered = "instances that answered"

func scaleService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	work := func() ([]byte, error) { return encodeMany(shortText) }
	if o.Variant == ceiling {
		constant, err := encodeMany(shortText)
		if err != nil {
			return nil, err
		}
		work = func() ([]byte, error) { return constant, nil }
	}
	var asked atomic.Bool
	return &scenario.Service{
		Reset: func(context.Context) error { asked.Store(false); return nil },
		Values: func() map[string]float64 {
			if asked.Load() {
				return map[string]float64{answered: 1}
			}
			return map[string]float64{answered: 0}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Store(true)
			b, err := work()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Write(b) //nolint:errcheck // the client is gone
		}),
	}, nil
}
