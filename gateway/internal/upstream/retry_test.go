package upstream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream"
)

// retrying returns the options of a pool that makes n attempts.
func retrying(n int, hosts ...string) upstream.Options {
	o := options(hosts...)
	o.Retry = upstream.Retry{
		Attempts: n, On: []int{502, 503, 504}, Methods: []string{"GET", "HEAD", "OPTIONS"},
		Budget: 10, Backoff: 25 * time.Millisecond,
	}
	return o
}

func TestH15_OnceMeansOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a", "b"))
		for _, f := range []func(*http.Request) (*http.Response, error){broken, status(503)} {
			w.on("a", f)
			w.on("b", f)
			get(t, p)
			if c := w.calls(); len(c) != 1 {
				t.Errorf("calls %q without retries; want one", c)
			}
		}
	})
}

func TestH15_WhatIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name, method, body string
		answer             func(*http.Request) (*http.Response, error)
		want               int
	}{
		{"a status", "GET", "", status(502), 3},
		{"a broken connection", "GET", "", broken, 3},
		{"no connection at all", "GET", "", unreachable, 3},
		{"another status", "GET", "", status(500), 1},
		{"an answer", "GET", "", status(200), 1},
		{"HEAD", "HEAD", "", status(503), 3},
		{"another method", "DELETE", "", status(503), 1},
		{"a body", "GET", "x", status(503), 1},
		{"a body on a broken connection", "OPTIONS", "x", broken, 1},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			w.on("a", c.answer)
			p := w.pool(retrying(3, "a"))
			p.RoundTrip(request(t.Context(), c.method, c.body))
			if got := len(strings.Fields(w.calls())); got != c.want {
				t.Errorf("%s: %d calls; want %d", c.name, got, c.want)
			}
			if _, retries, _ := p.Stats(); int(retries) != c.want-1 {
				t.Errorf("%s: %d retries counted; want %d", c.name, retries, c.want-1)
			}
		})
	}
}

// Each wait is twice the previous one. The responses in between are closed, and
// the last one is returned.
func TestH15_BackoffDoubles(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		start := time.Now()
		var at []time.Duration
		var bodies []*closing
		w.on("a", func(r *http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			b := &closing{ReadCloser: io.NopCloser(strings.NewReader("sorry"))}
			bodies = append(bodies, b)
			return response(503, b), nil
		})
		p := w.pool(retrying(4, "a"))
		resp := begin(t, p)
		want := []time.Duration{0, 25 * time.Millisecond, 75 * time.Millisecond, 175 * time.Millisecond}
		for i, d := range want {
			if len(at) != len(want) || at[i] != d {
				t.Fatalf("calls at %v; want %v", at, want)
			}
		}
		for i, b := range bodies {
			if wantClosed := i < 3; (b.closed > 0) != wantClosed {
				t.Errorf("body %d closed = %d times; want closed %v", i, b.closed, wantClosed)
			}
		}
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 503 || string(b) != "sorry" {
			t.Errorf("response = %d %q; want the last 503", resp.StatusCode, b)
		}
		if n := stats(t, p, "a").InFlight; n != 0 {
			t.Errorf("InFlight = %d; want 0", n)
		}
	})
}

func TestH15_ARetryPrefersAnotherServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(retrying(2, "a", "b", "c"))
		for range 30 {
			w.on("a", status(503))
			w.on("b", status(200))
			w.on("c", status(200))
			if got := get(t, p); got != 200 {
				t.Fatalf("got %d; want 200 from the second", got)
			}
			time.Sleep(10 * time.Second) // so that the budget allows a retry
		}
	})
}

// The budget is at least 3 retries in 10 s, and 10 per 100 calls.
func TestH15_TheBudgetBoundsRetries(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.on("a", broken)
		p := w.pool(retrying(2, "a"))
		for range 10 {
			get(t, p)
		}
		if _, retries, refused := p.Stats(); retries != 3 || refused != 7 {
			t.Errorf("%d retries and %d refused of 10 calls; want 3 and 7", retries, refused)
		}
		for range 90 {
			get(t, p)
		}
		if _, retries, refused := p.Stats(); retries != 10 || refused != 90 {
			t.Errorf("%d retries and %d refused of 100 calls; want 10 and 90", retries, refused)
		}
		// The window is 10 full seconds; older calls are dropped.
		time.Sleep(10 * time.Second)
		get(t, p)
		if _, retries, _ := p.Stats(); retries != 10 {
			t.Errorf("%d retries after 10 s; want 10", retries)
		}
		time.Sleep(time.Second)
		get(t, p)
		if _, retries, _ := p.Stats(); retries != 11 {
			t.Errorf("%d retries after 11 s; want 11", retries)
		}
	})
}

// No interval of 10 s has more retries than the budget allows.
func TestH15_TheBudgetHoldsInEveryWindow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var first bool
		var at []time.Time
		w.on("a", func(r *http.Request) (*http.Response, error) {
			if !first {
				at = append(at, time.Now())
			}
			first = false
			return broken(r)
		})
		p := w.pool(retrying(2, "a"))
		for i := range 200 {
			first = true
			get(t, p)
			time.Sleep(time.Duration(1+i*i%3500) * time.Millisecond)
		}
		if len(at) < 10 {
			t.Fatalf("%d retries; want more to examine", len(at))
		}
		for i := range at[3:] {
			if d := at[i+3].Sub(at[i]); d < 10*time.Second {
				t.Errorf("4 retries within %v; want at most 3 in 10 s with so few calls", d)
			}
		}
	})
}

func TestH15_ADeadlineEndsRetries(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.on("a", status(503))
		p := w.pool(retrying(10, "a"))
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 75*time.Millisecond)
		defer cancel()
		resp, err := p.RoundTrip(request(ctx, "GET", ""))
		if err != nil || resp.StatusCode != 503 || len(strings.Fields(w.calls())) != 2 {
			t.Fatalf("RoundTrip = %v, %v; want the second 503, because a third call would be too late", resp, err)
		}
		resp.Body.Close()
		if d := time.Since(start); d != 25*time.Millisecond {
			t.Errorf("took %v; want 25 ms, without a useless wait", d)
		}

		gone := errors.New("gone")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { leave(gone) })
		start = time.Now()
		if _, err := p.RoundTrip(request(ctx, "GET", "")); !errors.Is(err, gone) || time.Since(start) != time.Millisecond {
			t.Errorf("RoundTrip = %v after %v; want %v after 1 ms", err, time.Since(start), gone)
		}
		if got := len(strings.Fields(w.calls())); got != 1 {
			t.Errorf("%d calls for a client that has left; want 1", got)
		}
	})
}

// A response that needs no retry is passed on with its body, even if the body
// then breaks.
func TestH15_ABodyThatBrokeIsNotTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.on("a", func(*http.Request) (*http.Response, error) {
			return response(200, io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{}))), nil
		})
		p := w.pool(retrying(3, "a"))
		b, err := io.ReadAll(begin(t, p).Body)
		if string(b) != "half" || !errors.Is(err, errBroken) || w.calls() != "a" {
			t.Errorf("body = %q, %v; want half of it, from one call", b, err)
		}
		if n := stats(t, p, "a").InFlight; n != 0 {
			t.Errorf("InFlight = %d; want 0", n)
		}
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroken }

// The calls of one request run one after another, because they share one permit.
func TestH15_OneCallAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		now, most := 0, 0
		count := func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			b := &closing{ReadCloser: io.NopCloser(strings.NewReader(""))}
			mu.Lock()
			now--
			mu.Unlock()
			return response(503, b), nil
		}
		w.on("a", count)
		w.on("b", count)
		p := w.pool(retrying(4, "a", "b"))
		get(t, p)
		if most != 1 || len(strings.Fields(w.calls())) != 4 {
			t.Errorf("%d calls at once; want 1, 4 times", most)
		}
	})
}
