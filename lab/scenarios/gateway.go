package scenarios

import (
	"context"
	"time"

	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var gatewayHits = scenario.Scenario{
	Name:     "gateway",
	Title:    "Hits in the gateway's cache",
	Asks:     "A response is cached, and clients request it over and over. How many responses per second does weir proxy send, at what cost, compared with nginx, Varnish, and a net/http handler that writes the same bytes?",
	Needs:    []string{"wrk"},
	Optional: []string{"nginx", "varnish", "caddy", "h2load"},
	Service:  peerService,
	Run:      runGateway,
}

// The cells of gateway that have a goal.
var (
	mainHits   = gridCell{length: smallBody, conns: 64, rounds: 6}
	mediumHits = gridCell{length: mediumBody, conns: 16, rounds: 6}
	secureHits = gridCell{length: smallBody, conns: 64, secure: true, rounds: 6}
	streamHits = gridCell{length: smallBody, conns: 16, streams: 8, rounds: 6}
)

// hitVariants are the variants of gateway.
var hitVariants = []string{shielded, byNginx, byVarnish, bareHandler, byCaddy}

// hitCells returns the cells of gateway.
func hitCells(l *scenario.Lab) []gridCell {
	const rounds = 3
	heads := []gridCell{
		{length: smallBody, conns: 64, head: headCurl, rounds: rounds},
		{length: smallBody, conns: 64, head: headGo, rounds: rounds},
		{length: smallBody, conns: 64, head: headBrowser, rounds: rounds},
		{length: smallBody, conns: 64, head: headAgain, rounds: rounds},
	}
	usual := append([]gridCell{
		mainHits,
		{length: smallBody, conns: 1, rounds: rounds},
		{length: smallBody, conns: 3, rounds: rounds},
		{length: smallBody, conns: 256, rounds: rounds},
		mediumHits,
		{length: largeBody, conns: 64, rounds: rounds},
		secureHits,
		{length: mediumBody, conns: 64, secure: true, rounds: rounds},
		streamHits,
		{length: smallBody, conns: 64, apart: true, rounds: rounds},
	}, heads...)
	everything := append(allCells(rounds),
		gridCell{length: mediumBody, conns: 16, streams: 8, rounds: rounds},
		gridCell{length: largeBody, conns: 16, streams: 8, rounds: rounds},
		gridCell{length: smallBody, conns: 1, streams: 1, rounds: rounds},
		gridCell{length: smallBody, conns: 64, streams: 4, rounds: rounds},
		gridCell{length: smallBody, conns: 64, secure: true, head: headBrowser, rounds: rounds},
	)
	few := []gridCell{mainHits, {length: smallBody, conns: 3, head: headAgain}, {length: mediumBody, conns: 3, secure: true}, {length: smallBody, conns: 2, streams: 2}}
	return cellsFor(l, usual, everything, few)
}

func runGateway(ctx context.Context, l *scenario.Lab) error {
	cells := hitCells(l)
	g, err := newGrid(ctx, l, true, cells, hitVariants...)
	if err != nil {
		return err
	}
	if err := g.run(ctx, cells); err != nil {
		return err
	}
	g.judge(cells)
	g.judgeHits()
	g.tables(cells, byNginx)
	g.noteGrid()
	l.Note("The %s is net/http with a handler that writes the bytes and the header fields of weir's hit, and does nothing else.", bareHandler)
	l.Note("%s has no cache in Debian's build: each of its responses is a call to the origin. Varnish passes requests with cookies to the origin, as its built-in configuration does.", byCaddy)
	l.Note("Fast path: the share of requests that weir served without net/http, by its own counter weir_fast_requests_total. The first request of each connection is always left to net/http, and so is HTTP/2.")
	return nil
}

// judgeHits checks that hits are hits, and weir's goals.
func (g *grid) judgeHits() {
	main := mainHits.String()
	for _, name := range caching {
		var calls float64
		rounds := g.l.Measurements(name, main)
		for _, m := range rounds {
			calls += m.Values[originCalls]
		}
		if len(rounds) > 0 {
			g.l.Check(name+": hits cause no calls", calls == 0, "%g calls in %s", calls, roundsOf(len(rounds)))
		}
	}
	share := valueIn(g.l.Measurements(shielded, main), fastShare)
	g.l.Check("weir: most hits take the fast path", share > 0.9, "%.3f", share)
	if g.l.Small {
		return
	}
	g.goal(mainHits, byNginx, 1.15)
	g.goal(mainHits, byVarnish, 1)
	g.goal(mediumHits, byNginx, 1.1)
	g.goal(secureHits, byNginx, 1)
	g.goal(streamHits, bareHandler, 0.95)
	if g.missing[byNginx] == "" {
		ours, theirs := p99(medianOf(g.l, shielded, main)), p99(medianOf(g.l, byNginx, main))
		g.l.CheckTime(main+": weir's p99 is not above nginx's", ours <= theirs, "%.2f ms, nginx %.2f ms", ours, theirs)
	}
	if g.missing[byCaddy] == "" {
		g.l.Row(result.NewRow("hits, without a cache → weir", "answers/s", result.Higher).
			Here(medianOf(g.l, byCaddy, main).PerSecond, medianOf(g.l, shielded, main).PerSecond).Under(medianOf(g.l, bareHandler, main).PerSecond))
	}
}

// noteGrid says how the cells were measured.
func (g *grid) noteGrid() {
	d := scenario.Size(g.l, 2*time.Second, time.Second)
	g.l.Note("Each round is %v of one proxy after the other, with one thread of wrk, or with h2load for HTTP/2. The proxies and the origin may use all processors, and wrk shares them, unless the setting says otherwise. The bounds are the lowest and the highest ratio for fewer than %d rounds, and otherwise a 95 %% interval.", d, result.MinPairs)
	g.l.Note("CPU and memory are those of the proxy with its child processes: user and system time by /proc/PID/stat, and RssAnon by /proc/PID/status, after the round. weir is the program as released. The small proxies in Go and the bare handler run in the lab's program, which itself has some megabytes. nginx keeps bodies in files, and Varnish maps its store, which RssAnon includes.")
}
