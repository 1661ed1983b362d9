package scenarios

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var gatewayHits = scenario.Scenario{
	Name:    "gateway",
	Title:   "Hits in the gateway's cache",
	Asks:    "A small response is cached, and many connections request it. How many responses per second does weir's gateway send, compared with nginx, Varnish, and the fastest possible net/http server?",
	Needs:   append([]string{"wrk"}, gatewayNeeds...),
	Service: gatewayService,
	Run:     runGateway,
}

// hitConnections is the number of connections that send requests without pause.
const hitConnections = 64

func runGateway(ctx context.Context, l *scenario.Lab) error {
	origin, err := l.Serve(ctx, theOrigin, originSetup{})
	if err != nil {
		return err
	}
	fronts, err := startFronts(ctx, l, origin, gatewaySetup{}, allFronts...)
	if err != nil {
		return err
	}
	path := uniquely("kept")
	bare, err := startBare(ctx, l, fronts, path)
	if err != nil {
		return err
	}
	fronts = append(fronts, bare)
	rounds := scenario.Size(l, 20, 1)
	for round := range rounds {
		for i := range fronts {
			f := fronts[(i+round)%len(fronts)] // so that none is always first
			if err := measureHits(ctx, l, origin, f, path, round+1); err != nil {
				return err
			}
		}
	}
	judgeHits(l)
	l.Note("%d connections, %d bytes, one thread of wrk. Caddy represents a proxy without a cache, because Debian's build has none: each of its responses is a call to the origin.", hitConnections, len(originJSON))
	l.Note("The bare handler is net/http with a handler that writes the bytes and the header fields of weir's hit, and does nothing else.")
	return nil
}

// startBare warms the fronts up, checks their responses, and starts a handler with
// the same response as weir.
func startBare(ctx context.Context, l *scenario.Lab, fronts []front, path string) (front, error) {
	var set bareSetup
	for _, f := range fronts {
		for range 2 { // the second can be a hit
			status, h, body, err := get(ctx, f.url+path)
			if err != nil {
				return front{}, fmt.Errorf("warm %s: %w", f.variant, err)
			}
			if f.variant == shielded {
				set = bareSetup{h, body}
			}
			l.Check(f.variant+": the response is the origin's", status == http.StatusOK && body == originJSON, "status %d, %d bytes", status, len(body))
		}
	}
	set.Header.Del("Date") // net/http writes it
	s, err := l.Serve(ctx, bareHandler, set)
	if err != nil {
		return front{}, err
	}
	_, h, body, err := get(ctx, s.URL+path)
	if err != nil {
		return front{}, err
	}
	h.Del("Date")
	l.Check("the bare handler's response equals weir's hit", body == set.Body && maps.EqualFunc(h, set.Header, slices.Equal[[]string]),
		"%d header fields, %d bytes", len(h), len(body))
	return front{variant: bareHandler, url: s.URL, server: s}, nil
}

func measureHits(ctx context.Context, l *scenario.Lab, origin *scenario.Server, f front, path string, round int) error {
	m, err := l.WrkThreads(ctx, origin, 1, hitConnections, scenario.Size(l, 2*time.Second, time.Second), scenario.Job{
		Load:    load.Spec{URLs: []string{f.url + path}},
		Variant: f.variant,
		Round:   round,
		Beside:  f.beside(),
	})
	if err != nil {
		return err
	}
	if round == 1 && slices.Contains(caching, f.variant) {
		l.Check(f.variant+": hits cause no calls", m.Source.Calls == 0, "%d calls for %d answers", m.Source.Calls, m.Good)
	}
	return nil
}

// judgeHits compares the fronts, round by round.
func judgeHits(l *scenario.Lab) {
	for _, v := range append(slices.Clone(allFronts), bareHandler) {
		var failed int64
		for _, m := range l.Measurements(v, "") {
			failed += m.Failures
		}
		l.Check(v+": no request fails", failed == 0, "%d failed", failed)
	}
	table := result.Table{Title: "Responses per second, as a share of the bare handler's in the same round", Head: []string{"", "ratio", "95 % interval", "answers/s", "p99 ms", "CPU"}}
	for _, v := range append([]string{bareHandler}, allFronts...) {
		m := medianOf(l, v, "")
		of := result.Ratio(l.Rates(v, ""), l.Rates(bareHandler, ""))
		table.Cells = append(table.Cells, []string{
			v, valueOf(of.Median, 3), fmt.Sprintf("%.3f to %.3f", of.Low, of.High), valueOf(m.PerSecond, 0), valueOf(p99(m), 2), valueOf(cpuOf(m), 2),
		})
	}
	l.Table(table)
	for _, asked := range []struct {
		of    string
		least float64
	}{{bareHandler, 0.93}, {byNginx, 0.9}, {byVarnish, 1}} {
		r := result.Ratio(l.Rates(shielded, ""), l.Rates(asked.of, ""))
		l.CheckTime(fmt.Sprintf("weir: at least %g of the responses of %s", asked.least, asked.of), r.Median >= asked.least, "%v", r)
	}
	none := medianOf(l, byCaddy, "")
	l.Row(result.NewRow("hits, without a cache → weir", "answers/s", result.Higher).
		Here(none.PerSecond, medianOf(l, shielded, "").PerSecond).Under(medianOf(l, bareHandler, "").PerSecond))
}

// cpuOf is the CPU that services and engines used.
func cpuOf(m result.Measurement) float64 {
	if m.CPU == nil {
		return 0
	}
	return m.CPU.Service + m.CPU.Engines
}
