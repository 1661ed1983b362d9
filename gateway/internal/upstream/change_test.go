package upstream_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream"
)

func change(t *testing.T, p *upstream.Pool, o upstream.Options) {
	t.Helper()
	c, err := p.Prepare(o)
	if err != nil {
		t.Fatalf("Prepare = %v", err)
	}
	c.Commit()
}

// A removed server gets no new calls, and its connections are closed once its
// current calls have ended.
func TestH16_Draining(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a", "b"))
		one, two := begin(t, p), begin(t, p) // one call each
		onA, onB := one, two
		if !strings.HasPrefix(w.calls(), "a") {
			onA, onB = two, one
		}
		onB.Body.Close()
		change(t, p, options("b", "c"))
		if got := w.closings("a"); got != 1 {
			t.Errorf("idle connections of a closed %d times; want 1, for those already idle", got)
		}
		for range 50 {
			get(t, p)
		}
		if c := w.calls(); strings.Contains(c, "a") || !strings.Contains(c, "b") || !strings.Contains(c, "c") {
			t.Errorf("calls %q; want only b and c", c)
		}
		if b, err := io.ReadAll(onA.Body); string(b) != "body" || err != nil {
			t.Errorf("body of a = %q, %v; want it complete", b, err)
		}
		if got := w.closings("a"); got != 2 {
			t.Errorf("idle connections of a closed %d times; want 2, after its last call", got)
		}
		if w.closings("b") != 0 || w.closings("c") != 0 || w.opened["b"] != 1 {
			t.Error("b or c lost their connections; want them kept")
		}
	})
}

// The health of a server is kept when other servers are added or removed.
func TestH16_ServersThatStayKeepTheirHealth(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := options("a", "b")
		o.Health = upstream.Health{Failures: 1, Eject: time.Minute}
		p := w.pool(o)
		w.on("a", broken)
		fail(t, w, p, "a")
		calls := stats(t, p, "a").Calls
		o = options("b", "c", "a")
		o.Health = upstream.Health{Failures: 1, Eject: time.Minute}
		change(t, p, o)
		if s := stats(t, p, "a"); !s.Ejected || s.Calls != calls || s.Failures != 1 {
			t.Errorf("stats = %+v; want it still ejected, with %d calls", s, calls)
		}
		o.Health.Failures = -1
		change(t, p, o)
		if stats(t, p, "a").Ejected {
			t.Error("a is ejected though ejection is off")
		}
		o.IdleConn = time.Second // needs new connections
		change(t, p, o)
		if s := stats(t, p, "a"); s.Calls != 0 || w.opened["a"] != 2 || w.closings("a") != 1 {
			t.Errorf("stats = %+v; want a new server", s)
		}
	})
}

// A change that cannot be prepared has no effect.
func TestH16_AFailedChangeChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a"))
		_, err := p.Prepare(options("a", "b", "unopenable"))
		if err == nil || !strings.Contains(err.Error(), "http://unopenable") {
			t.Fatalf("Prepare = %v; want an error that names the server", err)
		}
		if w.closings("b") != 1 || w.closings("a") != 0 {
			t.Errorf("closed a %d and b %d times; want only b closed", w.closings("a"), w.closings("b"))
		}
		for range 10 {
			get(t, p)
		}
		if c := w.calls(); strings.Contains(c, "b") {
			t.Errorf("calls %q; want only a", c)
		}
		if _, err := upstream.New(options("unopenable"), w.surroundings()); err == nil {
			t.Error("New = nil; want an error")
		}
	})
}

// Late requests find the servers of a retired pool, and leave no idle connections
// behind.
func TestH16_StragglersOfARetiredPool(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.pool(options("a"))
		p.Retire()
		if got := get(t, p); got != 200 || w.closings("a") != 2 {
			t.Errorf("got %d, idle connections closed %d times; want 200 and 2", got, w.closings("a"))
		}
	})
}

// Spread and retried calls are counted for every request.
func TestH16_ManyAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.on("a", after(time.Millisecond, status(503)))
		w.on("b", after(2*time.Millisecond, status(200)))
		o := retrying(2, "a", "b")
		p := w.pool(o)
		done := make(chan int)
		for i := range 50 {
			go func() {
				n := 0
				for range 20 {
					resp, err := p.RoundTrip(request(t.Context(), http.MethodGet, ""))
					if err == nil {
						resp.Body.Close()
						n++
					}
					if i == 0 {
						c, err := p.Prepare(o)
						if err != nil {
							t.Error(err)
						}
						c.Commit()
					}
				}
				done <- n
			}()
		}
		total := 0
		for range 50 {
			total += <-done
		}
		a, b := stats(t, p, "a"), stats(t, p, "b")
		_, retries, _ := p.Stats()
		if total != 1000 || a.Calls+b.Calls != 1000+retries || a.InFlight+b.InFlight != 0 || retries == 0 {
			t.Errorf("%d responses, %+v, %+v, %d retries; want 1000, and one call per response and per retry", total, a, b, retries)
		}
	})
}
