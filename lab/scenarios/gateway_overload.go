package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var gatewayOverload = scenario.Scenario{
	Name:    "gateway-overload",
	Title:   "More requests than the origin can take",
	Asks:    "An origin runs a fixed number of calls at once; others wait there. Requests arrive at three times its capacity, and no response may be stored. How many get a response in time, and how fast? And what if there are stale responses?",
	Needs:   gatewayNeeds,
	Axis:    "arrivals, times the capacity",
	Service: gatewayService,
	Run:     runGatewayOverload,
}

// The variants. Each front bounds the calls that run at the origin in its own way;
// weir has two ways.
const (
	weirAdaptive = "weir, adaptive"
	weirStale    = "weir, stale on overload"
	byNginxMost  = "nginx, max_conns"
	byVarnishMax = "Varnish, max_connections"
	byCaddyMost  = "Caddy, unhealthy_request_count"
)

// overloadFronts are the variants whose responses may not be stored.
var overloadFronts = []string{shielded, weirAdaptive, byNginxMost, byVarnishMax, byCaddyMost}

// A gatewayLoad is the scenario while it runs.
type gatewayLoad struct {
	l        *scenario.Lab
	origin   *scenario.Server
	permits  int
	capacity float64 // calls per second
}

func runGatewayOverload(ctx context.Context, l *scenario.Lab) error {
	g := gatewayLoad{l: l, permits: scenario.Size(l, 20, 4)}
	var err error
	if g.origin, err = l.Serve(ctx, theOrigin, originSetup{Permits: g.permits, Work: 20 * time.Millisecond}); err != nil {
		return err
	}
	fronts, err := g.start(ctx)
	if err != nil {
		return err
	}
	direct := front{variant: unprotected, url: g.origin.URL}
	if err := g.measureCapacity(ctx, direct); err != nil {
		return err
	}
	for _, f := range append([]front{direct}, fronts...) {
		for _, at := range scenario.Size(l, []arrival{{0.5, 1}, {1, 1}, {judged, 1}, {judged, 2}, {judged, 3}}, []arrival{{judged, 1}}) {
			if err := g.measure(ctx, f, at.factor, at.round); err != nil {
				return err
			}
		}
	}
	if err := g.measureStale(ctx); err != nil {
		return err
	}
	g.judge()
	l.Note("The origin runs %d calls at once, of 20 ms each, and queues others. A response that takes longer than %v counts as failed: its caller has hung up.", g.permits, overloadTimeout(l))
	l.Note("Unprotected is the origin itself. weir has a cap a tenth above that, because a call also counts while it is in transit, and a queue of the same length with a longest wait of %v. The adaptive variant has to find the cap. "+
		"nginx (1.22) and Varnish (7.1) reject requests above their bound at once, Caddy after 20 ms.", queueWait)
	return nil
}

// An arrival is a load, as a multiple of the capacity. The checks use the median of
// three rounds.
type arrival struct {
	factor float64
	round  int
}

// start starts the fronts, each with its bound.
func (g gatewayLoad) start(ctx context.Context) ([]front, error) {
	bound := g.bound()
	peers, err := startFronts(ctx, g.l, g.origin, bound, shielded, byNginx, byVarnish, byCaddy)
	if err != nil {
		return nil, err
	}
	for i, name := range []string{shielded, byNginxMost, byVarnishMax, byCaddyMost} {
		peers[i].variant = name
	}
	finds, err := startFronts(ctx, g.l, g.origin, gatewaySetup{Adaptive: true, Queue: g.permits, QueueWait: queueWait}, weirAdaptive)
	return slices.Concat(peers, finds), err
}

// queueWait is the longest wait in weir's queue. It is shorter than the client's
// timeout; otherwise clients at the end of a standing queue would hang up.
const queueWait = 250 * time.Millisecond

// bound is the cap of the fronts: a tenth above the calls that the origin runs at
// once, because a call also counts while it is in transit.
func (g gatewayLoad) bound() gatewaySetup {
	return gatewaySetup{Calls: g.permits + (g.permits+9)/10, Queue: g.permits, QueueWait: queueWait}
}

// workURLs returns n URLs. There are so many that none is requested again while a
// call for it is in flight, so nothing can be shared.
func workURLs(f front, kind string, n int) []string {
	var urls []string
	for _, k := range keyPaths(n) {
		urls = append(urls, f.url+"/"+kind+k)
	}
	return urls
}

// measureCapacity uses twice as many clients as there are permits, so that no permit
// is idle.
func (g *gatewayLoad) measureCapacity(ctx context.Context, direct front) error {
	m, err := g.l.Measure(ctx, g.origin, scenario.Job{Variant: "capacity, by a closed loop", Load: load.Spec{
		URLs:     workURLs(direct, "busy", 1),
		Clients:  2 * g.permits,
		Duration: scenario.Size(g.l, 4*time.Second, 500*time.Millisecond),
	}})
	if err != nil {
		return err
	}
	if m.Good == 0 || m.Failures > 0 {
		return fmt.Errorf("measuring the capacity: %d requests of %d failed: %s", m.Failures, m.Requests, m.FirstFailure)
	}
	g.capacity = m.PerSecond
	return nil
}

// arrivals returns a load of factor times the capacity.
func (g gatewayLoad) arrivals(urls []string, factor float64) load.Spec {
	return load.Spec{
		URLs: urls, Mode: load.Open, Rate: factor * g.capacity, Timeout: overloadTimeout(g.l), ExpectBody: originSays,
		Warmup:   scenario.Size(g.l, overloadWarmup, 200*time.Millisecond),
		Duration: scenario.Size(g.l, 4*time.Second, 500*time.Millisecond),
	}
}

func (g gatewayLoad) measure(ctx context.Context, f front, factor float64, round int) error {
	m, err := g.l.Measure(ctx, g.origin, scenario.Job{
		Variant: f.variant, Setting: times(factor), X: factor, Round: round, Beside: f.beside(),
		Load: g.arrivals(workURLs(f, "busy", scenario.Size(g.l, 5000, 500)), factor),
	})
	if err != nil {
		return err
	}
	at := fmt.Sprintf("%s, %s, round %d: ", f.variant, m.Setting, round)
	refused := refusals(m)
	g.l.Check(at+"every request is accounted for", m.Good+m.Failures == m.Requests && refused <= m.Failures,
		"%d requests: %d good, %d refused, %d failed", m.Requests, m.Good, refused, m.Failures-refused)
	if f.variant == shielded {
		busy := m.Statuses[http.StatusServiceUnavailable]
		g.l.Check(at+"all failures are rejections, with 503", m.Failures == busy, "%d of %d", m.Failures-busy, m.Failures)
	}
	return nil
}

// refusals are the requests rejected for lack of capacity: with 503, or by nginx with
// 502, because it has no server left when its only one is full.
func refusals(m result.Measurement) int64 {
	n := m.Statuses[http.StatusServiceUnavailable]
	if m.Variant == byNginxMost {
		n += m.Statuses[http.StatusBadGateway]
	}
	return n
}

// measureStale lets weir store responses that are fresh for a second, and then
// overloads the origin.
func (g gatewayLoad) measureStale(ctx context.Context) error {
	bound := g.bound()
	fronts, err := startFronts(ctx, g.l, g.origin, bound, weirStale)
	if err != nil {
		return err
	}
	f := fronts[0]
	urls := workURLs(f, "aged", scenario.Size(g.l, 4000, 200))
	_, err = g.l.Measure(ctx, g.origin, scenario.Job{Variant: weirStale, Setting: "before", Beside: f.beside(), Load: load.Spec{
		URLs: urls, Clients: g.permits, Requests: len(urls), Timeout: patience,
	}})
	if err != nil {
		return err
	}
	rest(ctx, 1500*time.Millisecond) // none is fresh any longer
	spec := g.arrivals(urls, judged)
	spec.Warmup, spec.Pick = 0, load.Random
	m, err := g.l.Measure(ctx, g.origin, scenario.Job{Variant: weirStale, Setting: times(judged), X: judged, Beside: f.beside(), Load: spec})
	if err != nil {
		return err
	}
	g.l.Check(weirStale+": no request fails or is rejected", m.Failures == 0, "%d of %d; %s", m.Failures, m.Requests, m.FirstFailure)
	g.l.Check(weirStale+": some responses are stale because of the overload", m.Values[shedStale] > 0, "%.0f", m.Values[shedStale])
	return nil
}

func (g gatewayLoad) judge() {
	table := result.Table{
		Title: fmt.Sprintf("At %d times the capacity of %.0f calls per second", judged, g.capacity),
		Head:  []string{"", "answers in time, of the capacity", "p99 ms", "refused", "failed", "most calls at once"},
	}
	for _, v := range slices.Concat([]string{unprotected}, overloadFronts, []string{weirStale}) {
		m := medianOf(g.l, v, times(judged))
		busy := refusals(m)
		share := func(n int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, m.Requests))) }
		table.Cells = append(table.Cells, []string{
			v, valueOf(m.PerSecond/g.capacity, 3), valueOf(p99(m), 1), share(busy), share(m.Failures - busy), fmt.Sprint(m.Source.Most),
		})
	}
	g.l.Table(table)
	none, weir, stale := medianOf(g.l, unprotected, times(judged)), medianOf(g.l, shielded, times(judged)), medianOf(g.l, weirStale, times(judged))
	g.l.Check("weir: never more calls at once than the cap", weir.Source.Most <= g.permits, "%d", weir.Source.Most)
	g.l.CheckTime("weir: at least 95 % of the capacity", weir.PerSecond >= 0.95*g.capacity, "%.0f of %.0f responses per second", weir.PerSecond, g.capacity)
	if !g.l.Small {
		idle := medianOf(g.l, shielded, times(0.5))
		g.l.CheckTime("weir: p99 of admitted requests at most twice that of the idle origin", p99(weir) <= 2*p99(idle), "%.1f ms; idle %.1f ms", p99(weir), p99(idle))
	}
	g.l.CheckTime("weir, stale on overload: more responses than the capacity", stale.PerSecond > g.capacity, "%.0f per second", stale.PerSecond)
	g.l.Row(result.NewRow(fmt.Sprintf("answers in time at %d times the capacity", judged), "answers/s", result.Higher).
		Here(none.PerSecond, weir.PerSecond).Under(g.capacity).Noted("the ceiling is the capacity"))
	g.l.Row(result.NewRow("the same, with old answers on overload", "answers/s", result.Higher).Here(none.PerSecond, stale.PerSecond))
}
