package scenarios

import (
	"context"

	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var gatewayPass = scenario.Scenario{
	Name:     "gateway-pass",
	Title:    "Requests that the gateway only forwards",
	Asks:     "Nothing can be cached and nothing shared, so the gateway is only in the way. How many requests per second does weir proxy forward, at what cost, compared with nginx, Varnish, Caddy, and small proxies built with net/http's ReverseProxy and with fasthttp?",
	Needs:    []string{"wrk"},
	Optional: []string{"nginx", "varnish", "caddy", "h2load"},
	Service:  peerService,
	Run:      runGatewayPass,
}

// The cells of gateway-pass that have a goal.
var (
	fewPass  = gridCell{length: smallBody, conns: 3, rounds: 6}
	manyPass = gridCell{length: smallBody, conns: 64, rounds: 6}
)

// passVariants are the variants of gateway-pass.
var passVariants = []string{shielded, byReverse, byFasthttp, byNginx, byVarnish, byCaddy}

// passCells returns the cells of gateway-pass.
func passCells(l *scenario.Lab) []gridCell {
	const rounds = 3
	usual := []gridCell{
		fewPass,
		manyPass,
		{length: smallBody, conns: 1, rounds: rounds},
		{length: smallBody, conns: 256, rounds: rounds},
		{length: mediumBody, conns: 3, rounds: rounds},
		{length: mediumBody, conns: 64, rounds: rounds},
		{length: largeBody, conns: 3, rounds: rounds},
		{length: smallBody, conns: 3, secure: true, rounds: rounds},
		{length: smallBody, conns: 64, secure: true, rounds: rounds},
	}
	everything := append(allCells(rounds),
		gridCell{length: smallBody, conns: 64, head: headBrowser, rounds: rounds},
		gridCell{length: smallBody, conns: 16, streams: 8, rounds: rounds},
		gridCell{length: smallBody, conns: 64, apart: true, rounds: rounds},
	)
	few := []gridCell{fewPass, {length: mediumBody, conns: 3, secure: true}}
	return cellsFor(l, usual, everything, few)
}

func runGatewayPass(ctx context.Context, l *scenario.Lab) error {
	cells := passCells(l)
	g, err := newGrid(ctx, l, false, cells, passVariants...)
	if err != nil {
		return err
	}
	if err := g.run(ctx, cells); err != nil {
		return err
	}
	g.judge(cells)
	g.judgePass(cells)
	g.tables(cells, byReverse)
	g.noteGrid()
	l.Note("weir has its defaults, and the origin sends no-store: weir looks into its store, counts, limits and checks each request as always. nginx runs without proxy_cache, and Varnish passes each request.")
	l.Note("%s is httputil.ReverseProxy with net/http's default Transport and %d idle connections. %s is fasthttp's server and HostClient, which reads whole bodies before it sends them.", byReverse, idleAtOrigin, byFasthttp)
	return nil
}

// judgePass checks that each request was a call, and weir's goals.
func (g *grid) judgePass(cells []gridCell) {
	var calls, requests float64
	for _, c := range cells {
		for _, m := range g.l.Measurements(shielded, c.String()) {
			calls += m.Values[originCalls]
			requests += float64(m.Requests)
		}
	}
	g.l.Check("weir: each request is a call", calls >= requests, "%.0f calls, %.0f requests", calls, requests)
	if g.l.Small {
		return
	}
	g.goal(fewPass, byReverse, 1.3)
	g.goal(manyPass, byReverse, 1.6)
	main := manyPass.String()
	share := valueIn(g.l.Measurements(shielded, main), fastShare)
	g.l.Check("weir: most requests take the fast path", share > 0.9, "%.3f", share)
	g.l.Row(result.NewRow("requests that are only forwarded, 64 connections, ReverseProxy → weir", "answers/s", result.Higher).
		Here(medianOf(g.l, byReverse, main).PerSecond, medianOf(g.l, shielded, main).PerSecond))
}
