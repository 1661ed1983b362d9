package load_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/lab/load"
)

const url = "http://server/"

// A pipes is an in-memory network of one server: its listener and its dialer.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	dials  atomic.Int64
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		p.dials.Add(1)
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve serves in the bubble until the test ends.
func serve(t *testing.T, h http.HandlerFunc) *pipes {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: h}
	go srv.Serve(p)
	t.Cleanup(func() { srv.Close() })
	return p
}

func run(t *testing.T, p *pipes, s load.Spec) load.Result {
	t.Helper()
	s.URLs = []string{url}
	r, err := load.RunOver(t.Context(), s, p.dial)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// frozen responds at once, except that it freezes during the second second.
func frozen() http.HandlerFunc {
	start := time.Now()
	return func(http.ResponseWriter, *http.Request) {
		if at := time.Since(start); at >= time.Second && at < 2*time.Second {
			time.Sleep(2*time.Second - at)
		}
	}
}

func TestOpenLoopCountsFromWhenARequestWasDue(t *testing.T) {
	// Of 3,000 requests, 1,000 come due while the server is frozen: the one after i
	// ms waits for the remaining 1,000-i ms, whichever worker sends it.
	for _, most := range []int{0, 10, 1} {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, serve(t, frozen()), load.Spec{Mode: load.Open, Rate: 1000, Duration: 3 * time.Second, MaxInFlight: most})
			if r.Requests != 3000 || r.Good != 3000 {
				t.Errorf("MaxInFlight %d: Requests, Good = %d, %d; want 3000 of both", most, r.Requests, r.Good)
			}
			// Three significant digits: half a millisecond off at 1 s.
			for at, want := range map[time.Duration]int64{100 * ms: 901, 500 * ms: 501, 900 * ms: 101, 1001 * ms: 0} {
				if n := r.Latency.AtLeast(at); n < want-1 || n > want+1 {
					t.Errorf("MaxInFlight %d: %d latencies of %v or more; want %d", most, n, at, want)
				}
			}
			if r.Slowest != time.Second {
				t.Errorf("MaxInFlight %d: Slowest = %v; want 1s", most, r.Slowest)
			}
			if most == 0 {
				if r.LateStarts != 0 || r.LatestStart != 0 {
					t.Errorf("LateStarts, LatestStart = %d, %v; want none", r.LateStarts, r.LatestStart)
				}
			} else if want := int64(1000 - most); r.LateStarts < want-1 || r.LateStarts > want+1 || r.LatestStart != time.Second-time.Duration(most)*ms {
				t.Errorf("MaxInFlight %d: LateStarts, LatestStart = %d, %v; want %d, %v",
					most, r.LateStarts, r.LatestStart, want, time.Second-time.Duration(most)*ms)
			}
		})
	}
}

func TestClosedLoopSlowsDownWithItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, most atomic.Int64
		p := serve(t, func(http.ResponseWriter, *http.Request) {
			n := busy.Add(1)
			defer busy.Add(-1)
			most.Store(max(most.Load(), n))
			time.Sleep(100 * ms)
		})
		r := run(t, p, load.Spec{Clients: 20, Requests: 100})
		if r.Requests != 100 || r.Good != 100 || r.Statuses[200] != 100 {
			t.Errorf("Requests, Good, Statuses = %d, %d, %v; want 100 and 200", r.Requests, r.Good, r.Statuses)
		}
		if r.Elapsed != 500*ms || r.PerSecond() != 200 || most.Load() != 20 {
			t.Errorf("Elapsed %v, %v/s, %d at once; want 500ms, 200/s, 20", r.Elapsed, r.PerSecond(), most.Load())
		}
		if r.Slowest != 100*ms || r.Percentile(50) != 100*ms || p.dials.Load() != 20 {
			t.Errorf("Slowest %v, p50 %v, %d connections; want 100ms, 100ms, 20", r.Slowest, r.Percentile(50), p.dials.Load())
		}
		// The answers arrive in rounds, every 100 ms.
		if n := r.AnswersOverTime; len(n) != 6 || n[0] != 0 || n[1] != 20 || n[5] != 20 || r.WorstOverTime[5] != 100 {
			t.Errorf("AnswersOverTime, WorstOverTime = %v, %v; want 20 in each interval but the first", n, r.WorstOverTime)
		}
	})
}

func TestDurationEndsALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, func(http.ResponseWriter, *http.Request) { time.Sleep(300 * ms) })
		r := run(t, p, load.Spec{Clients: 2, Duration: time.Second})
		// The run waits for those sent at 900 ms.
		if r.Requests != 8 || r.Elapsed != 1200*ms {
			t.Errorf("closed: %d requests in %v; want 8 in 1.2s", r.Requests, r.Elapsed)
		}
		r = run(t, p, load.Spec{Mode: load.Open, Rate: 10, Duration: time.Second})
		if r.Requests != 10 || r.Elapsed != 1200*ms {
			t.Errorf("open: %d requests in %v; want 10 in 1.2s", r.Requests, r.Elapsed)
		}
		r = run(t, p, load.Spec{Mode: load.Open, Rate: 10, Requests: 3, Duration: time.Second})
		if r.Requests != 3 {
			t.Errorf("open with both: %d requests; want 3", r.Requests)
		}
	})
}

func TestFailuresAreKeptOutOfTheTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		p := serve(t, func(w http.ResponseWriter, req *http.Request) {
			switch n.Add(1) {
			case 2:
				http.Error(w, "busy", http.StatusServiceUnavailable)
			case 3:
				<-req.Context().Done() // the client cancels
			case 4:
				panic(http.ErrAbortHandler)
			case 5:
				w.Write([]byte("another"))
			default:
				time.Sleep(50 * ms)
				w.Write([]byte("the text"))
			}
		})
		r := run(t, p, load.Spec{Clients: 1, Requests: 7, Timeout: time.Second, ExpectBody: "text"})
		if r.Requests != 7 || r.Good != 3 || r.Failures != 4 {
			t.Errorf("Requests, Good, Failures = %d, %d, %d; want 7, 3, 4", r.Requests, r.Good, r.Failures)
		}
		if s := r.Statuses; len(s) != 3 || s[200] != 4 || s[503] != 1 || s[0] != 2 {
			t.Errorf("Statuses = %v; want four of 200, one of 503, two without an answer", s)
		}
		if want := "GET http://server/: 503 Service Unavailable"; r.FirstFailure != want {
			t.Errorf("FirstFailure = %q; want %q", r.FirstFailure, want)
		}
		if r.Latency.Count() != 3 || r.Percentile(0.1) != 50*ms || r.Slowest != 50*ms || r.AllLatency.Count() != 5 {
			t.Errorf("%d latencies from %v to %v, %d of all answers; want 3, all 50ms, 5",
				r.Latency.Count(), r.Percentile(0.1), r.Slowest, r.AllLatency.Count())
		}
	})
}

func TestConnections(t *testing.T) {
	closing := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }
	plain := func(http.ResponseWriter, *http.Request) {}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		without bool
		want    int64
	}{
		{"kept", plain, false, 2},
		{"without keep-alive", plain, true, 100},
		{"closed by the server", closing, false, 100},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Bool // whether the client sent Connection: close
			p := serve(t, func(w http.ResponseWriter, req *http.Request) {
				asked.Store(req.Close)
				time.Sleep(ms) // otherwise one client could send all requests
				tt.handler(w, req)
			})
			r := run(t, p, load.Spec{Clients: 2, Requests: 100, NoKeepAlive: tt.without})
			if asked.Load() != tt.without {
				t.Errorf("%s: client sent Connection: close: %t; want %t", tt.name, asked.Load(), tt.without)
			}
			if r.Good != 100 || p.dials.Load() != tt.want {
				t.Errorf("%s: %d successful responses (%s), %d connections; want 100, %d", tt.name, r.Good, r.FirstFailure, p.dials.Load(), tt.want)
			}
		})
	}
}

func TestAConnectionClosedMeanwhileIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		srv := &http.Server{IdleTimeout: 100 * ms, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go srv.Serve(p)
		defer srv.Close()
		r := run(t, p, load.Spec{Mode: load.Open, Rate: 1, Requests: 3})
		if r.Good != 3 || p.dials.Load() != 3 {
			t.Errorf("%d successful responses (%s), %d connections; want 3, 3", r.Good, r.FirstFailure, p.dials.Load())
		}
	})
}

func TestWarmupIsNotCounted(t *testing.T) {
	for _, s := range []load.Spec{
		{Clients: 2, Requests: 10, WarmupRequests: 6},
		{Clients: 2, Requests: 10, Warmup: 300 * ms},
		{Mode: load.Open, Rate: 10, Requests: 10, WarmupRequests: 6},
	} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			p := serve(t, func(http.ResponseWriter, *http.Request) {
				n.Add(1)
				time.Sleep(100 * ms)
			})
			r := run(t, p, s)
			if r.Requests != 10 || n.Load() != 16 {
				t.Errorf("%+v: %d requests, %d seen; want 10, 16", s, r.Requests, n.Load())
			}
			if d := p.dials.Load(); d > 2 {
				t.Errorf("%+v: %d connections; want the warm-up's, 2 at most", s, d)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, s := range []load.Spec{
		{Clients: 50, Duration: time.Hour, Timeout: time.Hour},
		{Mode: load.Open, Rate: 10, Duration: time.Hour, Timeout: time.Hour},
		{Mode: load.Open, Rate: 10, Duration: time.Hour, Timeout: time.Hour, MaxInFlight: 1},
		{Clients: 1, Duration: time.Hour, Timeout: time.Hour, Warmup: time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := serve(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(1050*ms, func() { cancel(interrupted) })
			start := time.Now()
			s.URLs = []string{url}
			if _, err := load.RunOver(ctx, s, p.dial); !errors.Is(err, interrupted) {
				t.Errorf("%+v: Run = %v; want %v", s, err, interrupted)
			}
			if took := time.Since(start); took != 1050*ms {
				t.Errorf("%+v: Run took %v; want 1.05s", s, took)
			}
		})
	}
}

func TestConnectedOpensConnectionsBeforeTheLoad(t *testing.T) {
	for _, connected := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := serve(t, func(http.ResponseWriter, *http.Request) {})
			slow := &slowDial{pipes: p}
			s := load.Spec{URLs: []string{url}, Clients: 3, Requests: 3, Connected: connected, Timeout: time.Minute}
			r, err := load.RunOver(t.Context(), s, slow.dial)
			if err != nil {
				t.Fatal(err)
			}
			want := time.Second // they dial at the same time
			if connected {
				want = 0
			}
			if r.Good != 3 || r.Elapsed != want || r.Slowest != want || p.dials.Load() != 3 {
				t.Errorf("Connected %t: %d good in %v, slowest %v, %d connections; want 3 in %v, 3 connections", connected, r.Good, r.Elapsed, r.Slowest, p.dials.Load(), want)
			}
		})
	}
}

// A slowDial takes one second to connect.
type slowDial struct{ *pipes }

func (d *slowDial) dial(ctx context.Context, network, address string) (net.Conn, error) {
	time.Sleep(time.Second)
	return d.pipes.dial(ctx, network, address)
}

func TestConnectedFailsWithoutAServer(t *testing.T) {
	refused := errors.New("refused")
	_, err := load.RunOver(t.Context(), load.Spec{URLs: []string{url}, Clients: 1, Requests: 1, Connected: true},
		func(context.Context, string, string) (net.Conn, error) { return nil, refused })
	if !errors.Is(err, refused) {
		t.Errorf("Run = %v; want the reason for the missing connection", err)
	}
}
