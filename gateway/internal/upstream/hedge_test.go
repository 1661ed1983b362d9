package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/upstream"
	"github.com/weir-go/weir/gateway/internal/upstream/hedge"
	"github.com/weir-go/weir/weirhttp"
)

// A pair has servers whose responses follow a script: by path, what the calls get in the order in
// which they arrive.
type pair struct {
	*world
	route *upstream.Route
	pool  *upstream.Pool
	o     *upstream.HedgeOptions

	mu     sync.Mutex
	script map[string][]func(*http.Request) (*http.Response, error)
	got    map[string][]string // hosts, by path
	bodies map[string][]string
	open   atomic.Int64 // bodies of responses that are not closed
	n      int
}

const usually = 10 * time.Millisecond

func newPair(w *world, set func(o *upstream.Options, r *upstream.RouteOptions)) *pair {
	p := &pair{world: w, script: map[string][]func(*http.Request) (*http.Response, error){}, got: map[string][]string{}, bodies: map[string][]string{}}
	o := options("a.test", "b.test", "c.test")
	o.Failures = []int{500, 502, 503, 504}
	o.Retry.On, o.Retry.Methods, o.Retry.Budget = []int{503}, []string{"GET"}, 100
	p.o = &upstream.HedgeOptions{Rule: hedge.Rule{Budget: 2, After: 3 * usually}, State: new(hedge.State)}
	r := upstream.RouteOptions{Name: "main", Hedge: p.o}
	if set != nil {
		set(&o, &r)
	}
	for _, s := range o.Servers {
		host := s.URL.Host
		w.on(host, func(r *http.Request) (*http.Response, error) { return p.serve(host, r) })
	}
	p.pool = w.pool(o)
	p.route = p.pool.Route(r)
	return p
}

func (p *pair) serve(host string, r *http.Request) (*http.Response, error) {
	path := r.URL.Path
	p.mu.Lock()
	n := len(p.got[path])
	p.got[path] = append(p.got[path], host)
	f := after(usually, status(200))
	if s := p.script[path]; n < len(s) {
		f = s[n]
	}
	p.mu.Unlock()
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.bodies[path] = append(p.bodies[path], string(body))
		p.mu.Unlock()
	}
	resp, err := f(r)
	if resp != nil {
		p.open.Add(1)
		resp.Body = &counted{resp.Body, sync.OnceFunc(func() { p.open.Add(-1) })}
	}
	return resp, err
}

type counted struct {
	io.ReadCloser
	close func()
}

func (c *counted) Close() error { c.close(); return c.ReadCloser.Close() }

// ask sends a request of which the calls get what is in the script, and returns how often it was
// sent, and after which time there was a response with which status, 0 for an error.
func (p *pair) ask(ctx context.Context, method, body string, script ...func(*http.Request) (*http.Response, error)) (sent int, took time.Duration, code int) {
	p.n++
	r := request(ctx, method, body)
	r.URL.Path = fmt.Sprint("/", p.n)
	p.mu.Lock()
	p.script[r.URL.Path] = script
	p.mu.Unlock()
	began := time.Now()
	resp, err := p.route.RoundTrip(r)
	took = time.Since(began)
	if err == nil {
		code = resp.StatusCode
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "body" {
			p.t.Errorf("the body is %q, %v", text, err)
		}
		resp.Body.Close()
	}
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got[r.URL.Path]), took, code
}

// pays makes calls that pay for some hedges.
func (p *pair) pays() {
	for range 1000 {
		p.ask(p.t.Context(), "GET", "")
	}
}

// want checks a request.
func (p *pair) want(what string, sent int, took time.Duration, code int, gotSent int, gotTook time.Duration, gotCode int) {
	p.t.Helper()
	if gotSent != sent || gotTook != took || gotCode != code {
		p.t.Errorf("%s: sent %d times, %v, status %d; want %d, %v, %d", what, gotSent, gotTook, gotCode, sent, took, code)
	}
	if n := p.open.Load(); n != 0 {
		p.t.Errorf("%s: %d responses are not closed", what, n)
	}
	for _, host := range []string{"a.test", "b.test", "c.test"} {
		if n := stats(p.t, p.pool, host).InFlight; n != 0 {
			p.t.Errorf("%s: %d calls in flight at %s", what, n, host)
		}
	}
}

func TestH41_TheFirstHeadThatIsNoFailureWins(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, nil)
		p.pays()
		slow := func(d time.Duration, code int) func(*http.Request) (*http.Response, error) {
			return after(d, status(code))
		}
		for _, row := range []struct {
			what          string
			first, second func(*http.Request) (*http.Response, error)
			sent          int
			took          time.Duration
			code          int
		}{
			{"fast", slow(2*usually, 200), nil, 1, 2 * usually, 200},
			{"the hedge", slow(100*usually, 200), slow(usually, 200), 2, 4 * usually, 200},
			{"the first", slow(5*usually, 201), slow(4*usually, 200), 2, 5 * usually, 201},
			{"the hedge fails", slow(9*usually, 201), slow(usually, 503), 2, 9 * usually, 201},
			{"the first fails", slow(5*usually, 503), slow(8*usually, 201), 2, 11 * usually, 201},
			{"the hedge breaks", slow(9*usually, 201), after(usually, broken), 2, 9 * usually, 201},
			{"both fail, the first first", slow(5*usually, 500), slow(4*usually, 502), 2, 7 * usually, 500},
			{"both fail, the hedge first", slow(9*usually, 500), slow(usually, 502), 2, 9 * usually, 502},
			{"the first fails immediately", slow(usually, 503), nil, 1, usually, 503},
			{"a 404 is no failure", slow(100*usually, 200), slow(usually, 404), 2, 4 * usually, 404},
		} {
			sent, took, code := p.ask(t.Context(), "GET", "", row.first, row.second)
			p.want(row.what, row.sent, row.took, row.code, sent, took, code)
		}
		for path, hosts := range p.got {
			if len(hosts) == 2 && hosts[0] == hosts[1] {
				t.Errorf("%s: both calls went to %s", path, hosts[0])
			}
		}
		if s := p.o.State.Stats(p.o.Rule); s.Sent != 8 || s.Won != 3 || s.Failed != 4 {
			t.Errorf("Stats = %+v; want 8 sent, 3 won, 4 failed", s)
		}
	})
}

// The one that loses is canceled, and says that its server takes at least as long, not that it
// fails.
func TestH41_TheLoserIsNoFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, func(o *upstream.Options, _ *upstream.RouteOptions) { o.Health.Failures = 1; o.Health.Eject = time.Hour })
		p.pays()
		var why atomic.Pointer[error]
		until := func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			err := context.Cause(r.Context())
			why.Store(&err)
			return nil, err
		}
		sent, took, code := p.ask(t.Context(), "GET", "", until)
		p.want("the first hangs", 2, 4*usually, 200, sent, took, code)
		if err := why.Load(); err == nil || !strings.Contains((*err).Error(), "other call") {
			t.Errorf("the cause is %v", err)
		}
		// A request whose time is over ends both; only the first had all of the time.
		ctx, cancel := context.WithTimeout(t.Context(), 6*usually)
		defer cancel()
		sent, took, code = p.ask(ctx, "GET", "", until, until)
		p.want("a time-out", 2, 6*usually, 0, sent, took, code)
		var failed uint64
		for _, host := range []string{"a.test", "b.test", "c.test"} {
			failed += stats(t, p.pool, host).Failures
		}
		if failed != 1 {
			t.Errorf("%d failures; want 1, of the first call of the request that timed out", failed)
		}
	})
}

func TestH41_OnlyReads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, nil)
		p.pays()
		slow := after(100*usually, status(200))
		for _, row := range []struct {
			method, body string
			reads        bool
			header       string
			sent         int
		}{
			{"GET", "", false, "", 2},
			{"HEAD", "", false, "", 2},
			{"QUERY", "q", false, "", 2},
			{"POST", "q", true, "", 2},
			{"POST", "q", false, "", 1},
			{"POST", "", false, "", 1},
			{"PUT", "q", false, "", 1},
			{"DELETE", "", false, "", 1},
			{"OPTIONS", "", false, "", 1},
		} {
			p.o.Reads = func(*http.Request) bool { return row.reads }
			sent, _, code := p.ask(t.Context(), row.method, row.body, slow)
			if sent != row.sent || code != 200 {
				t.Errorf("%s %q, declared %v: sent %d times, status %d; want %d, 200", row.method, row.body, row.reads, sent, code, row.sent)
			}
			if row.sent == 2 && row.body != "" {
				if got := p.bodies[fmt.Sprint("/", p.n)]; len(got) != 2 || got[0] != row.body || got[1] != row.body {
					t.Errorf("%s: the bodies are %q", row.method, got)
				}
			}
		}
		for what, change := range map[string]func(*http.Request){
			"an event stream": func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") },
			"an upgrade":      func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
			"a body that cannot be read again": func(r *http.Request) {
				r.Method, r.Body, r.GetBody = "QUERY", io.NopCloser(bytes.NewReader([]byte("q"))), nil
			},
		} {
			r := request(t.Context(), "GET", "")
			r.URL.Path = "/" + what
			p.script[r.URL.Path] = []func(*http.Request) (*http.Response, error){slow}
			change(r)
			resp, err := p.route.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if n := len(p.got[r.URL.Path]); n != 1 {
				t.Errorf("%s: sent %d times; want once", what, n)
			}
		}
	})
}

// H41: retries and hedges of one request are at most three calls.
func TestH41_ThreeCallsAtMost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, func(o *upstream.Options, _ *upstream.RouteOptions) { o.Retry.Attempts = 10 })
		p.pays()
		bad := after(5*usually, status(503))
		sent, _, code := p.ask(t.Context(), "GET", "", bad, bad, bad, bad, bad)
		if sent != 3 || code != 503 {
			t.Errorf("with a hedge: sent %d times, status %d; want 3, 503", sent, code)
		}
		quick := after(usually, status(503))
		if sent, _, code := p.ask(t.Context(), "GET", "", quick, quick, quick, quick, quick); sent != 3 || code != 503 {
			t.Errorf("without a hedge: sent %d times, status %d; want 3, 503", sent, code)
		}
		// The retry goes to the server that was not tried.
		for path, hosts := range p.got {
			if len(hosts) == 3 && (hosts[0] == hosts[1] || hosts[1] == hosts[2] || hosts[0] == hosts[2]) {
				t.Errorf("%s: the calls went to %v", path, hosts)
			}
		}
	})
}

func TestH41_NoHedge(t *testing.T) {
	slow := after(100*usually, status(200))
	for _, row := range []struct {
		what string
		set  func(o *upstream.Options, r *upstream.RouteOptions)
		why  hedge.Verdict
	}{
		{"of one server", func(o *upstream.Options, _ *upstream.RouteOptions) { o.Servers = o.Servers[:1] }, hedge.Sent},
		{"without a permit", func(_ *upstream.Options, r *upstream.RouteOptions) {
			r.Hedge.Permit = func() (func(), bool) { return nil, false }
		}, hedge.Busy},
		{"while other servers are at their limits", func(o *upstream.Options, _ *upstream.RouteOptions) {
			for i := range o.Servers {
				o.Servers[i].MaxInFlight = 1
			}
			o.Servers = o.Servers[:2]
		}, hedge.Servers},
		{"in observe mode", func(_ *upstream.Options, r *upstream.RouteOptions) { r.Hedge.Observe = true }, hedge.Sent},
	} {
		t.Run(row.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				p := newPair(w, row.set)
				p.pays()
				if row.why == hedge.Servers {
					go p.pool.RoundTrip(request(t.Context(), "POST", "x")) //nolint:bodyclose // it ends with the test
					w.on("a.test", slow)
					w.on("b.test", slow)
					synctest.Wait()
					resp, err := p.route.RoundTrip(request(t.Context(), "GET", ""))
					if err != nil || resp.StatusCode != 200 {
						t.Errorf("RoundTrip = %v, %v", resp, err)
					}
				} else if sent, took, code := p.ask(t.Context(), "GET", "", slow); sent != 1 || took != 100*usually || code != 200 {
					t.Errorf("sent %d times, %v, status %d", sent, took, code)
				}
				s := p.o.State.Stats(p.o.Rule)
				if s.Sent != 0 || row.why != hedge.Sent && s.Refused[row.why] != 1 || p.o.Observe != (s.Observed == 1) {
					t.Errorf("Stats = %+v", s)
				}
			})
		})
	}
}

// H41: while half of the servers get no calls, or more.
func TestH41_NoneWhileHalfOfTheServersAreOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, func(o *upstream.Options, _ *upstream.RouteOptions) {
			*o = options("a.test", "b.test", "c.test", "d.test")
			o.Health.Failures, o.Health.Eject = 1, time.Hour
		})
		p.pays()
		slow := after(100*usually, status(200))
		eject := func(n int) {
			for ejected := 0; ejected < n; {
				p.ask(t.Context(), "POST", "", broken)
				ejected = 0
				servers, _, _ := p.pool.Stats()
				for _, s := range servers {
					if s.Ejected {
						ejected++
					}
				}
			}
		}
		eject(1)
		if sent, _, _ := p.ask(t.Context(), "GET", "", slow); sent != 2 {
			t.Errorf("one of four is out: sent %d times; want 2", sent)
		}
		eject(2)
		if sent, _, _ := p.ask(t.Context(), "GET", "", slow); sent != 1 {
			t.Errorf("two of four are out: sent %d times; want once", sent)
		}
	})
}

// The permit of a hedge is given back whatever happens, and no goroutine stays.
func TestH41_ThePermitIsForTheServersWork(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var held atomic.Int64
		p := newPair(w, func(_ *upstream.Options, r *upstream.RouteOptions) {
			r.Hedge.Permit = func() (func(), bool) { held.Add(1); return func() { held.Add(-1) }, true }
		})
		p.pays()
		slow := after(100*usually, status(200))
		panics := func(*http.Request) (*http.Response, error) { time.Sleep(usually); panic("test") }
		for what, script := range map[string][]func(*http.Request) (*http.Response, error){
			"the hedge wins":   {slow},
			"the first wins":   {after(5*usually, status(200)), slow},
			"both fail":        {after(5*usually, broken), after(5*usually, broken)},
			"the hedge panics": {after(9*usually, status(200)), panics},
		} {
			if sent, _, _ := p.ask(t.Context(), "GET", "", script...); sent != 2 {
				t.Errorf("%s: sent %d times; want 2", what, sent)
			}
			if n := held.Load(); n != 0 {
				t.Errorf("%s: %d permits are held", what, n)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*usually, func() { cancel(errors.New("the client has left")) })
		if sent, took, code := p.ask(ctx, "GET", "", slow, slow); sent != 2 || took != 5*usually || code != 0 {
			t.Errorf("the client leaves: sent %d times, %v, status %d", sent, took, code)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of the first call is lost")
				}
			}()
			p.ask(t.Context(), "GET", "", func(*http.Request) (*http.Response, error) { time.Sleep(5 * usually); panic("test") }, slow)
		}()
		synctest.Wait()
		if n := held.Load(); n != 0 {
			t.Errorf("%d permits are held", n)
		}
		if n := p.open.Load(); n != 0 {
			t.Errorf("%d responses are not closed", n)
		}
	})
}

// A server that works on a call that was given up keeps the permit, and the time is charged.
func TestH41_AServerThatWorksOnKeepsThePermit(t *testing.T) {
	for _, hedgeWins := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, hosts: map[string]func(*http.Request) (*http.Response, error){}, opened: map[string]int{}, closed: map[string]int{}}
			env := w.surroundings()
			env.Apart = func(ctx context.Context, quiet bool) (context.Context, upstream.Side) {
				return ctx, &worker{quiet: quiet}
			}
			var held atomic.Int64
			o := &upstream.HedgeOptions{Rule: hedge.Rule{Budget: 2, After: 3 * usually}, State: new(hedge.State)}
			o.Permit = func() (func(), bool) { held.Add(1); return func() { held.Add(-1) }, true }
			pool, err := upstream.New(options("a.test", "b.test"), env)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Retire()
			route := pool.Route(upstream.RouteOptions{Name: "main", Hedge: o})
			var n atomic.Int64
			calls := after(usually, status(200))
			for _, host := range []string{"a.test", "b.test"} {
				w.on(host, func(r *http.Request) (*http.Response, error) { n.Add(1); return calls(r) })
			}
			get := func() {
				resp, err := route.RoundTrip(request(t.Context(), "GET", ""))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			for range 1000 {
				get()
			}
			n.Store(0)
			calls = func(r *http.Request) (*http.Response, error) {
				if (n.Load() == 1) == hedgeWins {
					return hang(r)
				}
				return after(5*usually, status(200))(r)
			}
			before := o.State.Stats(o.Rule)
			get()
			synctest.Wait()
			if held.Load() != 1 {
				t.Errorf("hedge wins %v: the permit is not held while the server works", hedgeWins)
			}
			time.Sleep(workTime)
			synctest.Wait()
			s := o.State.Stats(o.Rule)
			first, second := s.Of-before.Of, s.Time-before.Time
			wantFirst, wantSecond := 8*usually+workTime, 5*usually
			if !hedgeWins {
				wantFirst, wantSecond = 5*usually, 2*usually+workTime
			}
			if held.Load() != 0 || first != wantFirst || second != wantSecond {
				t.Errorf("hedge wins %v: %d permits are held; first %v, hedge %v; want %v, %v", hedgeWins, held.Load(), first, second, wantFirst, wantSecond)
			}
		})
	}
}

const workTime = time.Second

// A worker is a Side whose server works on for workTime.
type worker struct{ quiet bool }

func (*worker) Left() {}

func (w *worker) Working() <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(workTime, func() { close(done) })
	return done
}

// H41: a request that is not slow has no goroutine more, and a route without hedges no timer.
func TestH41_NothingWithoutAHedge(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, func(_ *upstream.Options, r *upstream.RouteOptions) { r.Hedge = nil })
		p.pays()
		if sent, took, _ := p.ask(t.Context(), "GET", "", after(100*usually, status(200))); sent != 1 || took != 100*usually {
			t.Errorf("sent %d times, %v", sent, took)
		}
		if s := p.o.State.Stats(p.o.Rule); s.Calls != 0 {
			t.Errorf("Stats = %+v; want none", s)
		}
	})
}

// The budget is for all hedges of a route: an origin that counts sees at most 2 calls more for
// 100, however many are slow, and each client has its share of them.
func TestH41_AnOriginThatCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, func(_ *upstream.Options, r *upstream.RouteOptions) {
			r.Client = func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("From")) }
		})
		slow := after(20*usually, status(200))
		calls, hedges := 0, map[string]int{}
		ask := func(client string, script ...func(*http.Request) (*http.Response, error)) {
			p.n++
			r := request(t.Context(), "GET", "")
			r.URL.Path = fmt.Sprint("/", p.n)
			r.Header.Set("From", client)
			p.script[r.URL.Path] = script
			resp, err := p.route.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			synctest.Wait()
			calls++
			hedges[client] += len(p.got[r.URL.Path]) - 1
		}
		for i := range 20_000 {
			switch {
			case i%10 == 0: // one of ten calls is of the first client, and all of them are slow
				ask("192.0.2.1", slow)
			case i%100 == 1:
				ask("192.0.2.2", slow)
			default:
				ask("192.0.2.2")
			}
		}
		if all := hedges["192.0.2.1"] + hedges["192.0.2.2"]; all > calls*2/100 {
			t.Errorf("%d hedges for %d calls; want at most 2 of 100", all, calls)
		}
		if n := hedges["192.0.2.1"]; n > calls/10*2/100+5 {
			t.Errorf("a client with 10 %% of the calls has %d hedges; want its share of %d", n, calls*2/100)
		}
		if n := hedges["192.0.2.2"]; n < calls/100*9/10 {
			t.Errorf("the other client has %d hedges; want most of its %d slow calls", n, calls/100)
		}
	})
}

// H41: a request that waits for a server has no call that could be slow.
func TestH41_NoneWhileItWaitsForAServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, func(o *upstream.Options, _ *upstream.RouteOptions) {
			for i := range o.Servers {
				o.Servers[i].MaxInFlight = 1
			}
		})
		p.pays()
		slow := after(20*usually, status(200))
		p.script["/x"] = []func(*http.Request) (*http.Response, error){slow, slow, slow}
		for range 3 { // each server is at its limit
			go func() {
				if resp, err := p.pool.RoundTrip(request(t.Context(), "POST", "")); err == nil {
					resp.Body.Close()
				}
			}()
		}
		synctest.Wait()
		sent, took, code := p.ask(t.Context(), "GET", "", slow)
		p.want("a wait", 1, 40*usually, 200, sent, took, code)
		if s := p.o.State.Stats(p.o.Rule); s.Sent != 0 || s.Refused[hedge.Servers] != 0 {
			t.Errorf("Stats = %+v; want no hedge, and none that had no server", s)
		}
	})
}

// H41: a call that tries whether a server has recovered is that server's test.
func TestH41_NoneForATrial(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, func(o *upstream.Options, _ *upstream.RouteOptions) { o.Retry.Attempts = 2 })
		p.pays()
		w.on("a.test", after(time.Millisecond, status(500)))
		for stats(t, p.pool, "a.test").State != "penalized" {
			p.ask(t.Context(), "GET", "")
		}
		w.on("a.test", after(100*usually, status(200)))
		time.Sleep(6 * time.Second) // it is due
		w.calls()
		_, took, code := p.ask(t.Context(), "GET", "")
		if calls := w.calls(); calls != "a.test" || took != 100*usually || code != 200 {
			t.Errorf("calls to %s, %v, status %d; want one to a.test, %v, 200", calls, took, code, 100*usually)
		}
	})
}

// H41: where there are retries, or a fallback for statuses, hedges are within their budget.
func TestH41_TheBudgetOfRetries(t *testing.T) {
	for _, row := range []struct {
		what string
		set  func(o *upstream.Options, r *upstream.RouteOptions)
		free bool
	}{
		{"without retries", func(o *upstream.Options, _ *upstream.RouteOptions) { o.Retry.Attempts = 1 }, true},
		{"with retries", func(o *upstream.Options, _ *upstream.RouteOptions) { o.Retry.Attempts = 2 }, false},
		{"with a fallback for statuses", func(_ *upstream.Options, r *upstream.RouteOptions) { r.Fallback = elsewhere(504) }, false},
		{"with a fallback for none", func(_ *upstream.Options, r *upstream.RouteOptions) { r.Fallback = elsewhere() }, true},
	} {
		t.Run(row.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				p := newPair(w, func(o *upstream.Options, r *upstream.RouteOptions) {
					o.Retry.Budget, r.Hedge.Rule.Budget = 1, 10
					row.set(o, r)
				})
				p.pays()
				hedges, most := 0, 0
				began := time.Now()
				for range 300 {
					for range 19 {
						p.ask(t.Context(), "GET", "")
					}
					sent, _, _ := p.ask(t.Context(), "GET", "", after(20*usually, status(200)))
					hedges += sent - 1
				}
				most = int(time.Since(began)/(10*time.Second)+1) * 10 // 1 % of at most 1,000 calls in 10 s
				refused := p.o.State.Stats(p.o.Rule).Refused[hedge.Budget]
				if row.free && (hedges < 200 || refused > 100) || !row.free && (hedges > most || hedges == 0 || refused < 100) {
					t.Errorf("%d hedges, %d refused; the budget of retries pays for %d", hedges, refused, most)
				}
			})
		})
	}
}

// elsewhere is a Fallback for these statuses.
func elsewhere(statuses ...int) *upstream.Fallback {
	return &upstream.Fallback{Statuses: statuses, Status: func(error) int { return 502 }, May: func(context.Context) bool { return true }}
}

// H40, H41: an origin that counts the calls for a request, with a hedge, retries and a fallback, sees
// at most three.
func TestH41_ThreeCallsAtMostWithAFallback(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, func(o *upstream.Options, r *upstream.RouteOptions) {
			o.Retry.Attempts = 10
			r.Fallback = elsewhere(503)
		})
		p.pays()
		other := retrying(10, "d.test", "e.test", "f.test")
		for _, s := range other.Servers {
			w.on(s.URL.Host, after(5*usually, status(503)))
		}
		standby := w.pool(other).Route(upstream.RouteOptions{Name: "standby", Hedge: p.o})
		for what, d := range map[string]time.Duration{"with a hedge": 5 * usually, "without one": usually} {
			w.calls()
			r := request(t.Context(), "GET", "")
			r.URL.Path = "/" + what
			bad := after(d, status(503))
			p.script[r.URL.Path] = []func(*http.Request) (*http.Response, error){bad, bad, bad, bad}
			resp, err := p.route.RoundTrip(r)
			var to *fault.ElsewhereError
			if !errors.As(err, &to) || to.Sends != 2 {
				t.Fatalf("%s: RoundTrip = %v, %v; want the fallback after two calls", what, resp, err)
			}
			resp, err = standby.RoundTrip(request(upstream.ContextWithSends(t.Context(), to.Sends), "GET", ""))
			if err != nil || resp.StatusCode != 503 {
				t.Fatalf("%s: the fallback's RoundTrip = %v, %v", what, resp, err)
			}
			resp.Body.Close()
			synctest.Wait()
			if calls := strings.Fields(w.calls()); len(calls) != 3 {
				t.Errorf("%s: the calls are %v; want three", what, calls)
			}
		}
		if s := p.o.State.Stats(p.o.Rule); s.Sent != 1 {
			t.Errorf("Stats = %+v; want one hedge", s)
		}
	})
}

// H41, H44: a hedge receives what is left of the client's time. A server that responds with 504 because
// that is too little does not end the other call.
func TestH41_TheTimeThatAClientStates(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := newPair(w, nil)
		field := weirhttp.DurationField{Name: "X-Time", Unit: weirhttp.Milliseconds}
		h, err := weirhttp.New(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			resp, err := p.route.RoundTrip(r)
			if err != nil {
				rw.WriteHeader(http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			rw.WriteHeader(resp.StatusCode)
		}), weirhttp.Options{Deadline: field, TellDeadline: field, NoCoalescing: true})
		if err != nil {
			t.Fatal(err)
		}
		p.pays()
		var mu sync.Mutex
		var told []int
		notes := func(f func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
			return func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				n, _ := strconv.Atoi(r.Header.Get("X-Time"))
				told = append(told, n)
				mu.Unlock()
				return f(r)
			}
		}
		for _, row := range []struct {
			what          string
			first, second func(*http.Request) (*http.Response, error)
			code          int
		}{
			{"the first gives up", after(5*usually, status(504)), after(5*usually, status(200)), 200},
			{"the hedge gives up", after(8*usually, status(200)), after(usually, status(504)), 200},
			{"both give up", after(5*usually, status(504)), after(usually, status(504)), 504},
		} {
			told = nil
			r := request(t.Context(), "GET", "")
			r.URL.Path = "/" + strings.ReplaceAll(row.what, " ", "-")
			r.Header.Set("X-Time", "900")
			r.Header.Set("Authorization", "Basic eDp5")
			p.script[r.URL.Path] = []func(*http.Request) (*http.Response, error){notes(row.first), notes(row.second)}
			rw := httptest.NewRecorder()
			h.ServeHTTP(rw, r)
			synctest.Wait()
			if rw.Code != row.code || fmt.Sprint(told) != "[900 870]" {
				t.Errorf("%s: status %d, the calls receive %v ms; want %d, [900 870]", row.what, rw.Code, told, row.code)
			}
		}
		if n := p.open.Load(); n != 0 {
			t.Errorf("%d responses are not closed", n)
		}
	})
}
