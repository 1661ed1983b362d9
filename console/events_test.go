package console_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/fleet"
)

const eventsURL = "http://localhost/events"

// open opens a stream without reading from it.
func open(t *testing.T, client *http.Client) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", eventsURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestC6_StreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, &http.Server{Handler: newConsole(t, console.Options{})})
		var all []*listener
		for range console.MaxStreams {
			all = append(all, listen(t, client, eventsURL))
		}
		resp := open(t, client)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "2" {
			t.Errorf("one more stream: %s, Retry-After %q; want 503 and 2", resp.Status, resp.Header.Get("Retry-After"))
		}
		all[3].end() // the browser disconnects
		synctest.Wait()
		listen(t, client, eventsURL).tick()
	})
}

// A browser that does not read its stream misses ticks, and is then disconnected.
// Other browsers are not affected.
func TestC6_SlowBrowserHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		big := make([]console.Unit, console.MaxUnits) // larger than all buffers in between
		for i := range big {
			big[i].Name = strings.Repeat("x", 100) + string(rune('0'+i))
		}
		s.tell(big)
		client := serve(t, &http.Server{Handler: newConsole(t, console.Options{Source: s})})
		for range console.MaxStreams - 1 {
			open(t, client)
		}
		l := listen(t, client, eventsURL)
		began := time.Now()
		for i := range 9 {
			l.tick()
			if got, want := time.Since(began), time.Duration(i+1)*time.Second; got != want {
				t.Errorf("tick %d after %v; want %v", i, got, want)
			}
		}
		if resp := open(t, client); resp.StatusCode != 503 {
			t.Errorf("with the slow clients still connected: %s; want 503", resp.Status)
		}
		l.tick()
		l.tick() // after 11 s: clients that have read nothing for 10 s are disconnected
		for range console.MaxStreams - 1 {
			listen(t, client, eventsURL)
		}
	})
}

// A browser that sleeps for a while has missed ticks when it wakes up, and continues
// with the current ones.
func TestC6_MissedTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		client := serve(t, &http.Server{Handler: newConsole(t, console.Options{Source: s})})
		l := listen(t, client, eventsURL)
		time.Sleep(9500 * time.Millisecond)
		s.tell([]console.Unit{{Name: "new"}})
		old := 0
		for len(l.tick().Units) == 0 {
			old++
		}
		if old < 3 || old > 8 {
			t.Errorf("%d of 9 old ticks were kept; want only the few that fit in the buffers", old)
		}
	})
}

func TestC6_CloseEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		c := newConsole(t, console.Options{Source: s, Roster: fleetOf(), Self: "a"})
		server := &http.Server{Handler: c}
		client := serve(t, server)
		streams := []*listener{listen(t, client, eventsURL), listen(t, client, eventsURL)}
		for _, target := range []string{"/api/fleet", "/api/units/x"} { // uses the cached responses
			get(target).on(c)
		}
		c.Close(context.Background())
		c.Close(context.Background())
		for _, l := range streams {
			if !l.ended() {
				t.Error("a stream broke off; want a clean end")
			}
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown = %v; want nil, because no stream is left", err)
		}
		asked := s.asked
		time.Sleep(time.Minute)
		if s.asked != asked {
			t.Errorf("%d more samples after Close; want none", s.asked-asked)
		}
		if got := get("/events").on(c); got.Code != 503 {
			t.Errorf("events after Close: %d; want 503", got.Code)
		}
		if got := get("/api/snapshot").on(c); got.Code != 200 {
			t.Errorf("a snapshot after Close: %d; want 200", got.Code)
		}
	}) // fails if a goroutine is left
}

// A server's time limits for requests do not apply to streams, and apply again to the
// connection's next request.
func TestC6_StreamOutlivesTheServersTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, console.Options{})
		client := serve(t, &http.Server{Handler: c, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second})
		l := listen(t, client, eventsURL)
		for range 60 {
			l.tick()
		}
	})
}

func TestConnectionAfterAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, console.Options{})
		client := serve(t, &http.Server{Handler: c})
		l := listen(t, client, eventsURL)
		c.Close(context.Background())
		l.ended()
		time.Sleep(time.Minute)
		resp, err := client.Get("http://localhost/api/snapshot")
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("the connection's next request: %v, %v; want 200", resp, err)
		}
		resp.Body.Close()
	})
}

// A comment keeps an idle connection open.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, &http.Server{Handler: newConsole(t, console.Options{Interval: time.Hour, History: time.Hour})})
		l := listen(t, client, eventsURL)
		began := time.Now()
		if a, b := l.line(), l.line(); a != ":" || b != "" || time.Since(began) != 15*time.Second {
			t.Errorf("%q, %q after %v; want a comment after 15 s", a, b, time.Since(began))
		}
	})
}

func TestStreamHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp := open(t, serve(t, &http.Server{Handler: newConsole(t, console.Options{})}))
		for name, want := range map[string]string{"X-Accel-Buffering": "no", "Cache-Control": "no-store", "Content-Type": "text/event-stream"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %q; want %q", name, got, want)
			}
		}
	})
}

// All clients that connect in the same second get the same hello, and each gets every
// later tick once.
func TestHelloAndTicksFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.tell([]console.Unit{{Name: "a"}})
		client := serve(t, &http.Server{Handler: newConsole(t, console.Options{Source: s})})
		for i := range 8 {
			time.Sleep(250 * time.Millisecond)
			l := listen(t, client, eventsURL)
			last := l.hello.Total["t"][len(l.hello.Total["t"])-1]
			s.tell([]console.Unit{{Name: "a"}})
			if next := l.tick().Total["t"]; next <= last {
				t.Errorf("stream %d: tick at %v, last point of the hello at %v; want a later tick", i, next, last)
			}
			l.end()
		}
	})
}

// A rosterStub is a fleet.Roster that returns fixed instances.
type rosterStub struct {
	instances func(ctx context.Context) ([]fleet.Instance, error)
	asked     int
}

func (*rosterStub) Announce(context.Context, fleet.Instance, time.Duration) error { return nil }
func (*rosterStub) Withdraw(context.Context, string) error                        { return nil }
func (r *rosterStub) Instances(ctx context.Context) ([]fleet.Instance, error) {
	r.asked++
	return r.instances(ctx)
}

func fleetOf(all ...fleet.Instance) *rosterStub {
	return &rosterStub{instances: func(context.Context) ([]fleet.Instance, error) { return all, nil }}
}
