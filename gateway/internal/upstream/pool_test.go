package upstream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/upstream"
)

// Of two servers, both are always drawn, so the choice is exact.
func TestH16_TheLessBusyIsChosen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a", "b"))
		var open []*http.Response
		for range 10 {
			open = append(open, begin(t, p))
		}
		if a, b := stats(t, p, "a").InFlight, stats(t, p, "b").InFlight; a != 5 || b != 5 {
			t.Errorf("in flight %d and %d; want 5 and 5", a, b)
		}
		w.on("a", after(time.Second, status(200)))
		for _, r := range open {
			r.Body.Close()
			r.Body.Close() // counts only once
		}
		if a, b := stats(t, p, "a").InFlight, stats(t, p, "b").InFlight; a != 0 || b != 0 {
			t.Errorf("in flight %d and %d after Close; want none", a, b)
		}
	})
}

// A call ends at the end of its body, even if the body is not closed; a failed
// call has ended.
func TestH16_ACallEndsWithItsBody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a"))
		resp := begin(t, p)
		if n := stats(t, p, "a").InFlight; n != 1 {
			t.Errorf("InFlight = %d with the body open; want 1", n)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "body" || err != nil {
			t.Errorf("body = %q, %v; want it complete", b, err)
		}
		for _, f := range []func(*http.Request) (*http.Response, error){
			broken,
			func(*http.Request) (*http.Response, error) { return response(204, http.NoBody), nil },
			func(*http.Request) (*http.Response, error) { return response(204, nil), nil },
			func(*http.Request) (*http.Response, error) { panic("transport") },
		} {
			w.on("a", f)
			func() {
				defer func() { recover() }()
				p.RoundTrip(request(t.Context(), "GET", ""))
			}()
			if n := stats(t, p, "a").InFlight; n != 0 {
				t.Errorf("InFlight = %d after the end; want 0", n)
			}
		}
	})
}

// A server that takes ten times as long gets a small share of the calls.
func TestH16_ASlowServerGetsLess(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a", "b", "slow"))
		for _, h := range []string{"a", "b"} {
			w.on(h, after(10*time.Millisecond, status(200)))
		}
		w.on("slow", after(100*time.Millisecond, status(200)))
		var clients sync.WaitGroup
		for range 30 {
			clients.Go(func() {
				for range 50 {
					get(t, p)
				}
			})
		}
		clients.Wait()
		a, b, slow := stats(t, p, "a").Calls, stats(t, p, "b").Calls, stats(t, p, "slow").Calls
		if a+b+slow != 1500 || slow > 225 || a < 500 || b < 500 {
			t.Errorf("calls = %d, %d and %d to the slow one; want 1500, at most 15 %% of them to the slow one", a, b, slow)
		}
	})
}

// All pairs are equally likely, so equal servers get equal shares.
func TestH16_EqualsGetEqualShares(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a", "b", "c", "d"))
		for range 4000 {
			get(t, p)
		}
		for _, h := range []string{"a", "b", "c", "d"} {
			// Expected are 1000, with a standard deviation of 27.
			if n := stats(t, p, h).Calls; n < 850 || n > 1150 {
				t.Errorf("%s got %d of 4000 calls; want about 1000", h, n)
			}
		}
	})
}

func TestH16_FailuresInARowEject(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := options("a", "b")
		o.Health = upstream.Health{Failures: 5, Eject: 10 * time.Second}
		p := w.pool(o)
		w.on("a", broken)
		for range 4 {
			fail(t, w, p, "a")
		}
		w.on("a", status(500)) // a response of any status counts as success
		succeed(t, w, p, "a")
		w.on("a", broken)
		for range 4 {
			fail(t, w, p, "a")
		}
		if stats(t, p, "a").Ejected {
			t.Fatal("ejected after 4 failures in a row; want 5")
		}
		fail(t, w, p, "a")
		if s := stats(t, p, "a"); !s.Ejected || s.Failures != 9 || !s.Healthy {
			t.Errorf("stats = %+v; want it ejected, with 9 failures", s)
		}
		w.calls()
		time.Sleep(10*time.Second - 1)
		for range 50 {
			get(t, p)
		}
		if c := w.calls(); strings.Contains(c, "a") {
			t.Errorf("calls %q; want none to a while it is ejected", c)
		}

		// One call probes it; while that is in flight, no other call tries it.
		time.Sleep(time.Nanosecond)
		w.on("a", after(time.Minute, status(200)))
		hanging := make(chan int)
		for stats(t, p, "a").InFlight == 0 {
			go func() { hanging <- get(t, p) }()
			synctest.Wait()
			if stats(t, p, "a").InFlight == 0 {
				<-hanging
			}
		}
		busy := []*http.Response{begin(t, p), begin(t, p)} // so that a would be chosen
		w.calls()
		for range 50 {
			get(t, p)
		}
		if c := w.calls(); strings.Contains(c, "a") {
			t.Errorf("calls %q; want none to a while it is probed", c)
		}
		for _, resp := range busy {
			resp.Body.Close()
		}
		if got := <-hanging; got != 200 || stats(t, p, "a").Ejected {
			t.Errorf("the probe got %d, Ejected = %v; want 200 and a readmitted", got, stats(t, p, "a").Ejected)
		}
		succeed(t, w, p, "a")
	})
}

// fail makes calls until one to host fails; succeed, until one to host does not.
func fail(t *testing.T, w *world, p *upstream.Pool, host string) { until(t, w, p, host, 0) }

func succeed(t *testing.T, w *world, p *upstream.Pool, host string) { until(t, w, p, host, 200, 500) }

func until(t *testing.T, w *world, p *upstream.Pool, host string, want ...int) {
	t.Helper()
	for range 1000 {
		w.calls()
		got := get(t, p)
		if w.calls() != host {
			continue
		}
		for _, s := range want {
			if got == s {
				return
			}
		}
		t.Fatalf("a call to %s got %d; want %d", host, got, want)
	}
	t.Fatalf("no call to %s in 1000 calls", host)
}

// After a failed probe, the server is ejected for the same time again.
func TestH16_AFailedProbeEjectsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := options("a", "b")
		o.Health = upstream.Health{Failures: 1, Eject: 10 * time.Second}
		p := w.pool(o)
		w.on("a", broken)
		for range 3 {
			fail(t, w, p, "a")
			before := stats(t, p, "a").Calls
			time.Sleep(10*time.Second - 1)
			for range 20 {
				get(t, p)
			}
			if got := stats(t, p, "a").Calls; got != before {
				t.Fatalf("%d calls to a before 10 s have passed; want none", got-before)
			}
			time.Sleep(time.Nanosecond)
		}
		w.on("a", status(200))
		succeed(t, w, p, "a")
	})
}

// Without a healthy server, all are called, and a server that responds is
// readmitted.
func TestH16_AllIllMeansAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := options("a", "b")
		o.Health = upstream.Health{Failures: 1, Eject: 10 * time.Second}
		p := w.pool(o)
		w.on("a", broken)
		w.on("b", broken)
		fail(t, w, p, "a")
		fail(t, w, p, "b")
		if !stats(t, p, "a").Ejected || !stats(t, p, "b").Ejected {
			t.Fatal("not both are ejected")
		}
		fail(t, w, p, "a")
		fail(t, w, p, "b")
		w.on("b", status(200))
		succeed(t, w, p, "b")
		w.calls()
		for range 20 {
			if got := get(t, p); got != 200 {
				t.Fatalf("call got %d; want 200 from b", got)
			}
		}
		if c := w.calls(); strings.Contains(c, "a") {
			t.Errorf("calls %q; want only b", c)
		}
	})
}

// A canceled client proves nothing about the server; a call that took too long
// does.
func TestH16_WhoIsToBlame(t *testing.T) {
	timeout := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	inBubble(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			name string
			ctx  func(context.Context) (context.Context, context.CancelFunc)
			want uint64
		}{
			{"canceled", func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			}, 0},
			{"deadline", timeout, 1},
			{"a deadline with a cause of its own", func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, time.Second, errors.New("too long"))
			}, 1},
			{"a cause that is a timeout", func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(&net.DNSError{IsTimeout: true}) })
				return ctx, func() { cancel(nil) }
			}, 1},
			{"a cause that is none", func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(&net.DNSError{}) })
				return ctx, func() { cancel(nil) }
			}, 0},
		} {
			p := w.pool(options("a"))
			w.on("a", hang)
			ctx, cancel := c.ctx(t.Context())
			p.RoundTrip(request(ctx, "GET", ""))
			cancel()
			if got := stats(t, p, "a").Failures; got != c.want {
				t.Errorf("%s: %d failures; want %d", c.name, got, c.want)
			}
		}
	})
}

// A request that was never sent goes to the next server, including its body, once
// each.
func TestH15_WhatNeverLeftGoesElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a", "b", "c"))
		w.on("a", unreachable)
		w.on("b", unreachable)
		w.on("c", func(r *http.Request) (*http.Response, error) {
			defer r.Body.Close()
			b, err := io.ReadAll(r.Body)
			if string(b) != "payload" || err != nil {
				t.Errorf("c read %q, %v; want the payload", b, err)
			}
			return status(201)(r)
		})
		for range 20 {
			r := request(t.Context(), "POST", "payload")
			body := &closing{ReadCloser: r.Body}
			r.Body = body
			resp, err := p.RoundTrip(r)
			if err != nil || resp.StatusCode != 201 {
				t.Fatalf("RoundTrip = %v, %v; want 201", resp, err)
			}
			resp.Body.Close()
			if body.closed != 1 {
				t.Errorf("the body was closed %d times; want 1", body.closed)
			}
		}
		w.calls()

		w.on("c", unreachable)
		r := request(t.Context(), "POST", "payload")
		body := &closing{ReadCloser: r.Body}
		r.Body = body
		_, err := p.RoundTrip(r)
		var u *fault.UnreachableError
		if !errors.As(err, &u) || len(strings.Fields(w.calls())) != 3 || body.closed != 1 {
			t.Errorf("RoundTrip = %v, the body closed %d times; want an UnreachableError after 3 calls, and 1 close", err, body.closed)
		}
	})
}

type closing struct {
	io.ReadCloser
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return c.ReadCloser.Close()
}

// A body that was partly read cannot be resent, and a broken call may have been
// executed.
func TestH15_WhatMayHaveLeftDoesNot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a", "b"))
		both := func(f func(*http.Request) (*http.Response, error)) {
			w.on("a", f)
			w.on("b", f)
		}
		both(func(r *http.Request) (*http.Response, error) {
			r.Body.Read(make([]byte, 1))
			return unreachable(r)
		})
		if _, err := p.RoundTrip(request(t.Context(), "POST", "payload")); err == nil || len(w.calls()) != 1 {
			t.Errorf("RoundTrip = %v after a read; want an error after one call", err)
		}
		both(broken)
		if _, err := p.RoundTrip(request(t.Context(), "GET", "")); !errors.Is(err, errBroken) || len(w.calls()) != 1 {
			t.Errorf("RoundTrip = %v; want %v after one call", err, errBroken)
		}
		ctx, cancel := context.WithCancel(t.Context())
		both(func(r *http.Request) (*http.Response, error) {
			cancel()
			return unreachable(r)
		})
		if _, err := p.RoundTrip(request(ctx, "GET", "")); err == nil || len(w.calls()) != 1 {
			t.Errorf("RoundTrip = %v for a client that has left; want an error after one call", err)
		}
	})
}

// An upgraded connection is passed on with both directions, and is in flight
// until it is closed.
func TestH18_AnUpgradeKeepsBothWays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ours, theirs := net.Pipe()
		w.on("a", func(*http.Request) (*http.Response, error) { return response(101, ours), nil })
		p := w.pool(options("a"))
		conn, ok := begin(t, p).Body.(io.ReadWriteCloser)
		if !ok {
			t.Fatal("the body of a 101 cannot be written to")
		}
		go func() {
			io.WriteString(theirs, "down")
			io.ReadFull(theirs, make([]byte, 2))
			theirs.Close()
		}()
		b := make([]byte, 4)
		if _, err := io.ReadFull(conn, b); string(b) != "down" || err != nil {
			t.Errorf("read %q, %v; want down", b, err)
		}
		if n, err := io.WriteString(conn, "up"); n != 2 || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		if _, err := conn.Read(b); err != io.EOF {
			t.Errorf("Read = %v; want EOF", err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("CloseWrite = %v; want ErrUnsupported of a pipe", err)
		}
		if n := stats(t, p, "a").InFlight; n != 1 {
			t.Errorf("InFlight = %d before Close; want 1", n)
		}
		conn.Close()
		if n := stats(t, p, "a").InFlight; n != 0 {
			t.Errorf("InFlight = %d after Close; want 0", n)
		}
	})
}
