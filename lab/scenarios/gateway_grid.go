package scenarios

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/cert"
	"github.com/weir-go/weir/lab/internal/cpu"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// A grid compares proxies in front of one origin, in cells: lengths of the body,
// connections, protocols, and heads of requests. In each cell the proxies take turns.
type grid struct {
	l     *scenario.Lab
	kept  bool     // the origin's responses can be stored
	names []string // of the variants, in the order of the tables

	pair    cert.Pair
	program string                    // weir
	sets    map[bool][]front          // started, by gridCell.apart
	origins map[bool]*scenario.Server // likewise
	missing map[string]string         // by variant: why it was not measured
}

// Names of a proxy's values in a measurement.
const (
	cpuPerRequest = "CPU of the proxy per request, µs"
	anonymous     = "RssAnon of the proxy, bytes"
	fastShare     = "share of requests on weir's fast path"
)

// newGrid builds weir, and starts all variants: first, where a cell of them is apart,
// without the load generator's processor, and then on all processors.
func newGrid(ctx context.Context, l *scenario.Lab, kept bool, cells []gridCell, variants ...string) (*grid, error) {
	g := &grid{l: l, kept: kept, names: variants, sets: map[bool][]front{}, origins: map[bool]*scenario.Server{}, missing: map[string]string{}}
	var err error
	if g.pair, err = cert.New(1, "127.0.0.1", "127.0.0.3"); err != nil {
		return nil, err
	}
	if g.program, err = buildWeir(ctx, l); err != nil {
		return nil, err
	}
	apart := func(c gridCell) bool { return c.apart }
	if slices.ContainsFunc(cells, apart) {
		if err := g.start(ctx, true, cells); err != nil {
			return nil, err
		}
	}
	if err := l.Spread(); err != nil {
		return nil, err
	}
	return g, g.start(ctx, false, cells)
}

// buildWeir builds weir as a release is built, but with this machine's paths in it: so the
// compiled packages of other builds can be used. It returns the file, which at the small
// size can be one that tools/gate has built once for all tests.
func buildWeir(ctx context.Context, l *scenario.Lab) (string, error) {
	if program := os.Getenv("WEIR_TEST_PROGRAM"); program != "" && l.Small {
		return program, nil
	}
	folder, err := os.MkdirTemp("", "weir-lab")
	if err != nil {
		return "", err
	}
	l.Defer(func() error { return os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // engines run as another user
		return "", err
	}
	program := filepath.Join(folder, "weir")
	return program, buildProgram(ctx, l, program, "./app/cmd/weir", "-tags=grpcnotrace", "-ldflags=-s")
}

// start starts the origin and the proxies.
func (g *grid) start(ctx context.Context, apart bool, cells []gridCell) error {
	origin, err := g.l.Serve(ctx, gridOrigin, peerSetup{})
	if err != nil {
		return err
	}
	at, err := entranceOf(ctx, origin)
	if err != nil {
		return err
	}
	g.origins[apart] = origin
	o := engine.ProxyOptions{Upstream: at.Plain, Pass: !g.kept, TLS: &g.pair}
	starts := map[string]func(context.Context) (*engine.Server, error){
		shielded:  func(ctx context.Context) (*engine.Server, error) { return engine.Weir(ctx, g.program, o) },
		byNginx:   func(ctx context.Context) (*engine.Server, error) { return engine.NginxCache(ctx, o) },
		byVarnish: func(ctx context.Context) (*engine.Server, error) { return engine.Varnish(ctx, o) },
		byCaddy:   func(ctx context.Context) (*engine.Server, error) { return engine.Caddy(ctx, o) },
	}
	for _, name := range g.names {
		set := peerSetup{TLS: g.pair, Origin: at.Plain}
		if name == bareHandler {
			if set.Answers, err = g.answersOf(ctx, g.sets[apart][0], cells); err != nil {
				return err
			}
		}
		f, err := g.startFront(ctx, name, starts[name], set)
		if missing := new(engine.MissingError); errors.As(err, &missing) {
			g.missing[name] = "not installed (" + missing.Package + ")"
			continue
		}
		if err != nil {
			return err
		}
		g.sets[apart] = append(g.sets[apart], f)
	}
	return nil
}

// startFront starts an engine, or a service of the lab if start is nil.
func (g *grid) startFront(ctx context.Context, name string, start func(context.Context) (*engine.Server, error), set peerSetup) (f front, err error) {
	f.variant = name
	if start != nil {
		f.engine, err = g.l.Engine(ctx, name, start)
		if err == nil {
			f.url, f.secure = f.engine.URL, f.engine.Secure
		}
		return f, err
	}
	if f.server, err = g.l.Serve(ctx, name, set); err != nil {
		return f, err
	}
	at, err := entranceOf(ctx, f.server)
	f.url, f.secure = "http://"+at.Plain, "https://"+at.Secure
	return f, err
}

func entranceOf(ctx context.Context, s *scenario.Server) (at entrance, err error) {
	text, err := s.Control(ctx, "/")
	if err != nil {
		return at, err
	}
	return at, json.Unmarshal(text, &at)
}

// answersOf returns weir's hits, for the handler that sends the same.
func (g *grid) answersOf(ctx context.Context, weir front, cells []gridCell) (map[string]peerAnswer, error) {
	all := map[string]peerAnswer{}
	for _, c := range cells {
		path := gridPath(g.kept, c.length)
		for range 2 { // the second is a hit
			got, err := fetchGrid(ctx, weir.url+path, gridCell{}, nil)
			if err != nil {
				return nil, err
			}
			got.header.Del("Date") // net/http writes it
			all[path] = peerAnswer{got.header, got.body}
		}
	}
	return all, nil
}

// addressOf returns the URL of a front in that cell, or why it has none.
func addressOf(f front, c gridCell) (url, why string) {
	switch {
	case c.streams > 0 && f.variant == byFasthttp:
		return "", "it has no HTTP/2"
	case !c.secure && c.streams == 0:
		return f.url, ""
	case f.secure == "":
		return "", "it has no TLS"
	}
	return f.secure, ""
}

// run measures the cells, in order.
func (g *grid) run(ctx context.Context, cells []gridCell) error {
	for _, c := range cells {
		if err := g.cell(ctx, c); err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
	}
	return nil
}

// cell measures one cell, in rounds that each begin with another proxy.
func (g *grid) cell(ctx context.Context, c gridCell) error {
	if c.streams > 0 && engine.Installed("h2load") != nil {
		g.l.Note("%v was not measured: h2load is not installed (nghttp2-client).", c)
		return nil
	}
	var fronts []front
	for _, f := range g.sets[c.apart] {
		if _, why := addressOf(f, c); why == "" && g.takesPart(f.variant, c) {
			fronts = append(fronts, f)
		}
	}
	if err := g.same(ctx, c, fronts); err != nil {
		return err
	}
	for round := range c.rounds {
		for i := range fronts {
			if err := g.measure(ctx, c, fronts[(i+round)%len(fronts)], round+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// takesPart reports whether a variant is of interest in a cell. The proxy without a
// cache stands beside hits once. A constant response cannot be 304 for some requests.
func (g *grid) takesPart(variant string, c gridCell) bool {
	switch variant {
	case byCaddy:
		return !g.kept || c.String() == mainHits.String()
	case bareHandler:
		return c.head != headAgain
	}
	return true
}

// same checks that all proxies send the origin's response.
func (g *grid) same(ctx context.Context, c gridCell, fronts []front) error {
	var faults []string
	want := http.StatusOK
	if c.head == headAgain {
		want = http.StatusNotModified
	}
	for _, f := range fronts {
		at, _ := addressOf(f, c)
		if g.kept { // a full response is stored first
			if _, err := fetchGrid(ctx, at+gridPath(g.kept, c.length), c, nil); err != nil {
				return fmt.Errorf("%s: %w", f.variant, err)
			}
		}
		got, err := fetchGrid(ctx, at+gridPath(g.kept, c.length), c, gridHeads[c.head])
		if err != nil {
			return fmt.Errorf("%s: %w", f.variant, err)
		}
		if got.status != want || want == http.StatusOK && !bytes.Equal(got.body, gridBody[:c.length]) {
			faults = append(faults, fmt.Sprintf("%s: status %d, %d bytes", f.variant, got.status, len(got.body)))
		}
	}
	detail := fmt.Sprintf("status %d from %d", want, len(fronts))
	if len(faults) > 0 {
		detail = strings.Join(faults, "; ")
	}
	g.l.Check(c.String()+": each sends the origin's response", len(faults) == 0, "%s", detail)
	return nil
}

// measure sends the load of a cell to one proxy.
func (g *grid) measure(ctx context.Context, c gridCell, f front, round int) error {
	at, _ := addressOf(f, c)
	used, err := cpu.Times(f.pid())
	if err != nil {
		return err
	}
	fast, err := fastRequests(ctx, f)
	if err != nil {
		return err
	}
	job := scenario.Job{
		Load:    load.Spec{URLs: []string{at + gridPath(g.kept, c.length)}, Header: gridHeads[c.head]},
		Variant: f.variant, Setting: c.String(), Round: round, Beside: f.beside(),
		After: func(ctx context.Context, m *result.Measurement) error {
			now, err := cpu.Times(f.pid())
			if err != nil {
				return err
			}
			m.Values[cpuPerRequest] = float64((now - used).Microseconds()) / max(1, float64(m.Requests))
			m.Values[anonymous] = memoryOf(f.pid(), "RssAnon:")
			if f.variant != shielded {
				return nil
			}
			answered, err := fastRequests(ctx, f)
			m.Values[fastShare] = min(1, (answered-fast)/max(1, float64(m.Requests)))
			return err
		},
	}
	d := scenario.Size(g.l, 2*time.Second, time.Second)
	if c.streams > 0 {
		_, err = g.l.H2load(ctx, g.origins[c.apart], c.conns, c.streams, d, job)
	} else {
		_, err = g.l.WrkThreads(ctx, g.origins[c.apart], 1, c.conns, d, job)
	}
	return err
}

// fastRequests returns how many requests weir has served without net/http, by its own
// count. For other proxies it is 0.
func fastRequests(ctx context.Context, f front) (float64, error) {
	if f.engine == nil || f.engine.Admin == "" {
		return 0, nil
	}
	_, _, page, err := get(ctx, f.engine.Admin+"/metrics")
	if err != nil {
		return 0, err
	}
	return metricOf(page, "weir_fast_requests_total")
}

// metricOf returns the value of a metric without labels on a page for Prometheus.
func metricOf(page, name string) (float64, error) {
	for lines := bufio.NewScanner(strings.NewReader(page)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("weir's /metrics has no %s", name)
}

// A fetched is a response.
type fetched struct {
	status int
	header http.Header
	body   []byte
}

// fetchGrid requests a URL once, over the protocol of the cell.
func fetchGrid(ctx context.Context, url string, c gridCell, fields map[string]string) (got fetched, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the certificate is the grid's own
		ForceAttemptHTTP2:  c.streams > 0,
		DisableCompression: true,
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return got, err
	}
	for name, value := range fields {
		req.Header.Set(name, value)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, largeBody+1))
	return fetched{resp.StatusCode, resp.Header, body}, err
}
