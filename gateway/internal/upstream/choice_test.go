package upstream_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream"
)

// choosing returns options of a pool whose servers are compared.
func choosing(hosts ...string) upstream.Options {
	o := options(hosts...)
	o.Failures = []int{500, 502, 503, 504}
	return o
}

// load keeps clients busy for d.
func load(t *testing.T, p *upstream.Pool, clients int, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for time.Now().Before(end) {
				get(t, p)
			}
		})
	}
	running.Wait()
}

// shareDuring returns the share of the calls that host gets while clients are busy for d.
func shareDuring(t *testing.T, p *upstream.Pool, host string, clients int, d time.Duration) float64 {
	t.Helper()
	count := func() (own, all uint64) {
		servers, _, _ := p.Stats()
		for _, s := range servers {
			if all += s.Calls; s.URL == "http://"+host {
				own = s.Calls
			}
		}
		return own, all
	}
	own, all := count()
	load(t, p, clients, d)
	ownNow, allNow := count()
	return float64(ownNow-own) / float64(allNow-all)
}

func TestH35_AServerThatFailsFastIsPenalized(t *testing.T) {
	for _, status500 := range []int{500, 503, 404} {
		for _, clients := range []int{1, 40} {
			inBubble(t, func(t *testing.T, w *world) {
				p := w.pool(choosing("a", "b", "c", "d"))
				for _, h := range []string{"b", "c", "d"} {
					w.on(h, after(20*time.Millisecond, status(200)))
				}
				w.on("a", after(time.Millisecond, status(status500)))
				load(t, p, clients, 2*time.Second)
				if s := shareDuring(t, p, "a", clients, 10*time.Second); s > 0.03 {
					t.Errorf("%d with %d clients: a gets %.1f %% after 2 s; want at most 3", status500, clients, s*100)
				}
				servers, _, _ := p.Stats()
				if s := servers[0]; s.Left.IsZero() || !strings.Contains(s.Reason, "of its latest responses") && !strings.Contains(s.Reason, "tried again") {
					t.Errorf("a left at %v because %q; want the time and the evidence", s.Left, s.Reason)
				}
				if s := servers[1]; !s.Left.IsZero() {
					t.Errorf("b left at %v because %q; want never", s.Left, s.Reason)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.told) == 0 || len(w.told) > 10 || !strings.HasPrefix(w.told[0], "http://a 5 0 5s ") {
					t.Errorf("the changes are %q; want a penalty of a for 5 s, and few more", w.told)
				}
				for _, line := range w.told {
					if !strings.HasPrefix(line, "http://a ") {
						t.Errorf("the change %q is not of a", line)
					}
				}
			})
		}
	}
}

func TestH35_WhatFailsEverywhereIsNoEvidence(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(choosing("a", "b", "c"))
		load(t, p, 5, 0)
		for _, h := range []string{"a", "b", "c"} {
			w.on(h, after(5*time.Millisecond, status(200)))
		}
		load(t, p, 10, 2*time.Second)
		for _, h := range []string{"a", "b", "c"} {
			w.on(h, after(time.Millisecond, status(503)))
		}
		for _, h := range []string{"a", "b", "c"} {
			if s := shareDuring(t, p, h, 10, 5*time.Second); s < .28 || s > .39 {
				t.Errorf("%s gets %.1f %%; want a third", h, s*100)
			}
		}
		w.wantTold()
	})
}

// A penalty lasts, although the health checks pass.
func TestH35_ACheckEndsNoPenalty(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := choosing("a", "b")
		o.Health = upstream.Health{Path: "/check", Interval: time.Second, Timeout: time.Second, Healthy: 1, Unhealthy: 1, Failures: 5, Eject: time.Second}
		p := w.pool(o)
		w.on("b", after(20*time.Millisecond, status(200)))
		w.on("a", func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/check" {
				return status(200)(r)
			}
			return after(time.Millisecond, status(500))(r)
		})
		load(t, p, 10, 2*time.Second)
		if s := shareDuring(t, p, "a", 10, 5*time.Minute); s > 0.03*.5 {
			t.Errorf("a gets %.2f %%; want at most 3 %% of its half", s*100)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.told) > 10 {
			t.Errorf("%d changes in five minutes; want at most 10: %q", len(w.told), w.told)
		}
	})
}

// A call that tries a penalized server is repeated at another one, outside the budget. Three
// in a row that are no failures end the penalty.
func TestH35_ATrialCostsTheClientNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := retrying(2, "a", "b")
		o.Failures, o.Retry.On = []int{500}, []int{599}
		p := w.pool(o)
		w.on("b", after(20*time.Millisecond, status(200)))
		w.on("a", after(time.Millisecond, status(500)))
		for stats(t, p, "a").State != "penalized" {
			get(t, p)
		}
		calls := stats(t, p, "a").Calls
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			if got := get(t, p); got != 200 {
				t.Fatalf("a client got %d after the penalty; want 200", got)
			}
		}
		if n := stats(t, p, "a").Calls - calls; n == 0 || n > 3 {
			t.Errorf("%d trials in 30 s; want one after 5 s, and after 10 and 20 more", n)
		}
		if _, retries, _ := p.Stats(); retries != 0 {
			t.Errorf("%d retries were charged; want none", retries)
		}
		w.on("a", after(20*time.Millisecond, status(200)))
		load(t, p, 4, time.Minute)
		if s := stats(t, p, "a"); s.State != "working" || s.Failing > 0.5 {
			t.Errorf("stats = %+v; want it working again", s)
		}
		if s := shareDuring(t, p, "a", 10, 10*time.Second); s < .4 || s > .6 {
			t.Errorf("a gets %.1f %% after its return; want about half", s*100)
		}
	})
}

// Without retries a server is tried with calls that cannot be repeated, but only 30 s later.
func TestH35_WithoutRetriesATrialWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(choosing("a", "b"))
		w.on("b", after(20*time.Millisecond, status(200)))
		w.on("a", after(time.Millisecond, status(500)))
		for stats(t, p, "a").State != "penalized" {
			get(t, p)
		}
		calls, began := stats(t, p, "a").Calls, time.Now()
		for stats(t, p, "a").Calls == calls {
			get(t, p)
		}
		if d := time.Since(began); d < 35*time.Second || d > 36*time.Second {
			t.Errorf("the first trial was after %v; want 35 s", d)
		}
	})
}

func TestH35_RetryAfterProlongsAPenalty(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := retrying(2, "a", "b")
		o.Failures, o.Retry.On = []int{503}, []int{599}
		p := w.pool(o)
		w.on("b", after(20*time.Millisecond, status(200)))
		w.on("a", after(time.Millisecond, pausing(503)))
		for stats(t, p, "a").State != "penalized" {
			get(t, p)
		}
		calls, began := stats(t, p, "a").Calls, time.Now()
		for stats(t, p, "a").Calls == calls {
			get(t, p)
		}
		if d := time.Since(began); d < 29*time.Second || d > 31*time.Second {
			t.Errorf("the first trial was after %v; want 30 s, the most that a server can ask for", d)
		}
	})
}

// pausing is a server that responds with a status and an hour of Retry-After.
func pausing(code int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		resp := response(code, http.NoBody)
		resp.Header.Set("Retry-After", "3600")
		return resp, nil
	}
}

// A 429 is meant for its client, and a 304 confirms the copy that a client has: a server that
// sends nothing else is no worse for it.
func TestH35_WhatIsNoEvidence(t *testing.T) {
	for _, code := range []int{429, 304} {
		inBubble(t, func(t *testing.T, w *world) {
			p := w.pool(choosing("a", "b", "c"))
			for _, host := range []string{"b", "c"} {
				w.on(host, after(20*time.Millisecond, status(200)))
			}
			w.on("a", after(20*time.Millisecond, pausing(code)))
			share := shareDuring(t, p, "a", 20, 10*time.Second)
			if s := stats(t, p, "a"); s.State != "working" || !s.Left.IsZero() || share < .2 {
				t.Errorf("%d: %+v, and %.1f %% of the calls; want it working, with a third", code, s, 100*share)
			}
		})
	}
}

// Only a 503 asks for a pause of its server.
func TestH35_RetryAfterOfA500ProlongsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := retrying(2, "a", "b")
		o.Failures, o.Retry.On = []int{500}, []int{599}
		p := w.pool(o)
		w.on("b", after(20*time.Millisecond, status(200)))
		w.on("a", after(time.Millisecond, pausing(500)))
		for stats(t, p, "a").State != "penalized" {
			get(t, p)
		}
		calls, began := stats(t, p, "a").Calls, time.Now()
		for stats(t, p, "a").Calls == calls {
			get(t, p)
		}
		if d := time.Since(began); d > 6*time.Second {
			t.Errorf("the first trial was after %v; want 5 s", d)
		}
	})
}

// The probe of an ejected server finds that it responds, and asks for a pause.
func TestH35_RetryAfterProlongsAnEjection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := options("a", "b")
		o.Health = upstream.Health{Failures: 1, Eject: 10 * time.Second}
		p := w.pool(o)
		w.on("b", after(20*time.Millisecond, status(200)))
		w.on("a", broken)
		fail(t, w, p, "a")
		w.on("a", pausing(503))
		for stats(t, p, "a").Calls < 2 {
			get(t, p)
		}
		probed := time.Now()
		if !stats(t, p, "a").Ejected {
			t.Error("a server that asks for a pause is readmitted")
		}
		w.on("a", status(200))
		for stats(t, p, "a").Calls < 3 {
			get(t, p)
		}
		if d := time.Since(probed); d < 30*time.Second || d > 31*time.Second || stats(t, p, "a").Ejected {
			t.Errorf("the next probe was after %v, Ejected = %v; want 30 s, the most that a server can ask for, and false", d, stats(t, p, "a").Ejected)
		}
	})
}

// The last server that responds gets the calls, whatever it asks for.
func TestH35_NoPauseOfTheLastServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := options("a", "b", "drained")
		o.Servers[2].Weight = 0
		o.Health = upstream.Health{Failures: 1, Eject: 10 * time.Second}
		p := w.pool(o)
		w.on("a", broken)
		w.on("b", broken)
		fail(t, w, p, "a")
		fail(t, w, p, "b")
		w.on("a", pausing(503))
		until(t, w, p, "a", 503)
		if stats(t, p, "a").Ejected {
			t.Error("the only server that responds stays ejected for its Retry-After")
		}
	})
	inBubble(t, func(t *testing.T, w *world) {
		o := choosing("a", "b")
		o.Failures = []int{503}
		o.Health = upstream.Health{Failures: 1, Eject: time.Hour}
		p := w.pool(o)
		w.on("b", after(20*time.Millisecond, status(200)))
		w.on("a", after(time.Millisecond, status(503)))
		for stats(t, p, "a").State != "penalized" {
			get(t, p)
		}
		began := time.Now()
		w.on("b", broken)
		fail(t, w, p, "b")
		w.on("a", after(time.Millisecond, pausing(503)))
		for stats(t, p, "a").State == "penalized" {
			get(t, p)
		}
		if d := time.Since(began); d > 6*time.Second {
			t.Errorf("the penalty of the last server that responds lasted %v; want 5 s", d)
		}
	})
}

// The status of gRPC stands in the trailers.
func TestH35_FailuresInTrailers(t *testing.T) {
	for code, failure := range map[string]bool{"13": true, "14": true, "5": false} {
		inBubble(t, func(t *testing.T, w *world) {
			p := w.pool(choosing("a", "b", "c"))
			answer := func(code string) func(*http.Request) (*http.Response, error) {
				return after(5*time.Millisecond, func(*http.Request) (*http.Response, error) {
					resp := response(200, io.NopCloser(strings.NewReader("message")))
					resp.Header.Set("Content-Type", "application/grpc")
					resp.Trailer = http.Header{"Grpc-Status": {code}}
					return resp, nil
				})
			}
			w.on("a", answer(code))
			w.on("b", answer("0"))
			w.on("c", answer("0"))
			for range 200 {
				resp := begin(t, p)
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if s := stats(t, p, "a"); s.State != "penalized" || s.InFlight != 0 || (s.Failing > 0.3) != failure {
				t.Errorf("%s: stats = %+v; want it penalized, and a failure: %v", code, s, failure)
			}
		})
	}
}

// The limit holds for the only server of a pool, too.
func TestH35_TheOnlyServerHasALimit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := choosing("a")
		o.Servers[0].MaxInFlight = 2
		p := w.pool(o)
		open := []*http.Response{begin(t, p), begin(t, p)}
		got := make(chan int)
		go func() { got <- get(t, p) }()
		synctest.Wait()
		select {
		case status := <-got:
			t.Fatalf("status %d with 2 calls in flight; want it to wait", status)
		default:
		}
		open[0].Body.Close()
		if status := <-got; status != 200 {
			t.Errorf("the waiting call got %d; want 200", status)
		}
		w.on("a", broken) // nothing else changes with one server
		for range 20 {
			if status := get(t, p); status != 0 {
				t.Errorf("status %d; want an error", status)
			}
		}
		w.on("a", status(200))
		if status := get(t, p); status != 200 {
			t.Errorf("status %d after failures; want 200", status)
		}
		open[1].Body.Close()
	})
}

func TestH35_AServerHasALimit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := choosing("a", "b")
		o.Servers[0].MaxInFlight, o.Servers[1].MaxInFlight = 2, 3
		p := w.pool(o)
		var open []*http.Response
		for range 5 {
			open = append(open, begin(t, p))
		}
		if a, b := stats(t, p, "a").InFlight, stats(t, p, "b").InFlight; a != 2 || b != 3 {
			t.Errorf("in flight %d and %d; want 2 and 3", a, b)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.RoundTrip(request(ctx, "GET", "")); err != context.DeadlineExceeded {
			t.Errorf("RoundTrip = %v with all servers at their limits; want it to wait to the deadline", err)
		}
		got := make(chan int)
		go func() { got <- get(t, p) }()
		synctest.Wait()
		open[0].Body.Close()
		synctest.Wait()
		if status := <-got; status != 200 {
			t.Errorf("the waiting call got %d; want 200", status)
		}
		for _, r := range open {
			r.Body.Close()
		}
	})
}

// Idle event streams at a server do not drive other calls away from it, and are spread evenly.
func TestH35_StreamsAreSpreadByTheirOwnNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(choosing("a", "b"))
		stream := func(*http.Request) (*http.Response, error) {
			body, _ := io.Pipe()
			resp := response(200, body)
			resp.Header.Set("Content-Type", "text/event-stream")
			return resp, nil
		}
		w.on("a", stream)
		w.on("b", stream)
		for range 100 {
			r := request(t.Context(), "GET", "")
			r.Header.Set("Accept", "text/event-stream")
			resp, err := p.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
		}
		if a, b := stats(t, p, "a").InFlight, stats(t, p, "b").InFlight; a < 49 || a > 51 {
			t.Errorf("%d and %d streams; want 50 each", a, b)
		}
		for _, h := range []string{"a", "b"} {
			w.on(h, after(10*time.Millisecond, status(200)))
		}
		if s := shareDuring(t, p, "a", 10, time.Second); s < .4 || s > .6 {
			t.Errorf("a gets %.1f %% of the other calls; want half", s*100)
		}
	})
}

func TestH36_ANewServerBeginsWithOneCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := choosing("a", "b")
		o.SlowStart = 10 * time.Second
		p := w.pool(o)
		for _, h := range []string{"a", "b", "c"} {
			w.on(h, after(20*time.Millisecond, status(200)))
		}
		if s := shareDuring(t, p, "a", 40, time.Second); s < .4 || s > .6 {
			t.Errorf("a gets %.1f %% of a pool that is new as a whole; want half", s*100)
		}
		o = choosing("a", "b", "c")
		o.SlowStart = 10 * time.Second
		change(t, p, o)
		if s := shareDuring(t, p, "c", 40, 500*time.Millisecond); s > .12 {
			t.Errorf("the new server gets %.1f %% in its first half second; want little", s*100)
		}
		if s := stats(t, p, "c"); s.State != "starting" {
			t.Errorf("stats = %+v; want it starting", s)
		}
		load(t, p, 40, 10*time.Second)
		if s := shareDuring(t, p, "c", 40, time.Second); s < .28 || s > .39 {
			t.Errorf("it gets %.1f %% after 10 s; want a third", s*100)
		}
	})
}

// A change of weights keeps what is known, and a weight of 0 drains.
func TestH38_WeightsChange(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := choosing("a", "b", "c")
		p := w.pool(o)
		for _, h := range []string{"b", "c"} {
			w.on(h, after(20*time.Millisecond, status(200)))
		}
		w.on("a", after(time.Millisecond, status(500)))
		load(t, p, 10, time.Second)
		o = choosing("a", "b", "c")
		o.Servers[1].Weight = 9
		change(t, p, o)
		if s := stats(t, p, "a"); s.State != "penalized" || w.opened["a"] != 1 {
			t.Errorf("stats = %+v; want it penalized as before, with its connections", s)
		}
		if s := shareDuring(t, p, "b", 1, 3*time.Second); s < .8 || s > .99 {
			t.Errorf("the server of weight 9 of 10 gets %.1f %%", s*100)
		}
		o = choosing("a", "b", "c")
		o.Servers[1].Weight = 0
		change(t, p, o)
		if s := shareDuring(t, p, "b", 10, time.Second); s > 0 {
			t.Errorf("a drained server gets %.1f %%; want nothing", s*100)
		}
		if s := stats(t, p, "b"); s.State != "draining" || s.InFlight != 0 {
			t.Errorf("stats = %+v; want it draining", s)
		}
	})
}

// A server that is tried has one call at a time, however many clients there are.
func TestH35_OneTrialAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := retrying(2, "a", "b")
		o.Failures, o.Retry.On = []int{500}, []int{599}
		p := w.pool(o)
		w.on("b", after(20*time.Millisecond, status(200)))
		w.on("a", after(100*time.Millisecond, status(500)))
		for stats(t, p, "a").State != "penalized" {
			load(t, p, 10, 20*time.Millisecond)
		}
		load(t, p, 10, time.Second) // so that earlier calls have ended
		calls := stats(t, p, "a").Calls
		load(t, p, 40, 10*time.Second)
		if n := stats(t, p, "a").Calls - calls; n == 0 || n > 2 {
			t.Errorf("%d trials in 10 s; want one after 5 s, and perhaps one more", n)
		}
	})
}

// A client whose request has tried one server does not try another one that is due: it would get the
// failure of that.
func TestH35_ARequestTriesOneServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := retrying(2, "a", "b", "c", "d")
		o.Failures, o.Retry.On = []int{500}, []int{599}
		p := w.pool(o)
		for _, host := range []string{"c", "d"} {
			w.on(host, after(20*time.Millisecond, status(200)))
		}
		for _, host := range []string{"a", "b"} {
			w.on(host, after(time.Millisecond, status(500)))
		}
		for stats(t, p, "a").State != "penalized" || stats(t, p, "b").State != "penalized" {
			get(t, p)
		}
		time.Sleep(6 * time.Second) // both are due
		w.calls()
		for range 2 {
			got := get(t, p)
			if calls := strings.Fields(w.calls()); got != 200 || len(calls) != 2 || calls[0] > "b" || calls[1] < "c" {
				t.Errorf("status %d, calls %v; want 200, of one server that is tried and one that works", got, calls)
			}
		}
		if _, retries, _ := p.Stats(); retries != 0 {
			t.Errorf("%d retries were charged; want none", retries)
		}
	})
}
