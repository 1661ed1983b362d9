package upstream_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream"
)

func checked(hosts ...string) upstream.Options {
	o := options(hosts...)
	o.Health = upstream.Health{
		Path: "/check", Interval: 2 * time.Second, Timeout: time.Second,
		Healthy: 2, Unhealthy: 3, Failures: -1, Eject: 10 * time.Second,
	}
	return o
}

// health returns the health of host now and after each second, as a string of +
// and -. It must be called between checks, which would otherwise be at the same
// instant.
func health(t *testing.T, p *upstream.Pool, host string, seconds int) string {
	var s strings.Builder
	for range seconds {
		synctest.Wait()
		if stats(t, p, host).Healthy {
			s.WriteByte('+')
		} else {
			s.WriteByte('-')
		}
		time.Sleep(time.Second)
	}
	return s.String()
}

func TestH16_ChecksFindTheIll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.on("a", status(500))
		p := w.pool(checked("a", "b"))
		time.Sleep(time.Second / 2)
		want := func(text string) {
			t.Helper()
			if got := health(t, p, "a", len(text)); got != text {
				t.Errorf("health by the second = %s; want %s", got, text)
			}
		}
		want("++++-") // checked at 0, 2 and 4 s
		w.wantTold(fmt.Sprint("http://a ", upstream.Unhealthy, " 3 0s status 500"))
		w.calls()
		for range 50 {
			get(t, p)
		}
		if c := w.calls(); strings.Contains(c, "a") {
			t.Errorf("calls %q; want none to the unhealthy a", c)
		}
		w.on("a", status(302)) // at 6 and 8 s
		want("---+")
		w.wantTold(fmt.Sprint("http://a ", upstream.Healthy, " 0 0s <nil>"))
		w.on("a", status(404)) // at 10 and 12 s
		want("+++")
		w.on("a", status(200)) // at 14 s, so that there are not three failures in a row
		want("+++")
		w.on("a", status(404)) // at 16, 18 and 20 s
		want("+++++-")
	})
}

// A check without a response in time fails, and the next one starts on schedule.
func TestH16_ChecksTimeOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var at []time.Duration
		start := time.Now()
		w.on("a", func(r *http.Request) (*http.Response, error) {
			if r.Host == "client.test" {
				return status(200)(r)
			}
			at = append(at, time.Since(start))
			if r.Method != "GET" || r.Host != "a" || r.URL.RawQuery != "deep=1" {
				t.Errorf("check = %s %s %v; want GET a /check?deep=1", r.Method, r.Host, r.URL)
			}
			return hang(r)
		})
		o := checked("a")
		o.Health.Path = "/check?deep=1"
		p := w.pool(o)
		time.Sleep(time.Second / 2)
		if got := health(t, p, "a", 7); got != "+++++--" {
			t.Errorf("health by the second = %s; want +++++--", got)
		}
		synctest.Wait()
		if len(at) != 4 || at[3] != 6*time.Second {
			t.Errorf("checks at %v; want 0, 2, 4 and 6 s", at)
		}
		if s := stats(t, p, "a"); s.Calls != 0 || s.Failures != 0 || s.InFlight != 0 {
			t.Errorf("stats = %+v; checks must not count as calls", s)
		}
		if got := get(t, p); got != 200 {
			t.Errorf("with all servers unhealthy, a call got %d; want 200", got)
		}
	})
}

// Successful checks end an ejection early.
func TestH16_ChecksEndAnEjection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := checked("a", "b")
		o.Health.Failures, o.Health.Eject = 1, time.Hour
		p := w.pool(o)
		synctest.Wait()
		w.on("a", broken)
		fail(t, w, p, "a")
		time.Sleep(7 * time.Second) // failed at 2, 4 and 6 s
		if s := stats(t, p, "a"); s.Healthy || !s.Ejected {
			t.Fatalf("stats = %+v; want it unhealthy and ejected", s)
		}
		w.on("a", status(200))
		time.Sleep(4 * time.Second)
		if s := stats(t, p, "a"); !s.Healthy || s.Ejected {
			t.Errorf("stats = %+v; want it readmitted", s)
		}
	})
}

// Changed check options restart the checks, and removing them stops the checks.
func TestH16_ChecksChangeWithOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.on("a", status(500))
		p := w.pool(checked("a"))
		time.Sleep(5 * time.Second)
		if stats(t, p, "a").Healthy {
			t.Fatal("a is healthy; want it unhealthy")
		}
		o := checked("a")
		o.Health.Interval = time.Second
		w.on("a", status(200))
		change(t, p, o)
		if got := health(t, p, "a", 3); got != "-++" {
			t.Errorf("health by the second = %s; want -++", got)
		}
		time.Sleep(time.Second / 2)
		w.on("a", status(500))
		time.Sleep(3 * time.Second)
		change(t, p, options("a"))
		if s := stats(t, p, "a"); !s.Healthy {
			t.Errorf("stats = %+v without checks; want it healthy", s)
		}
		w.on("a", func(*http.Request) (*http.Response, error) {
			t.Error("checked without a path")
			return nil, errBroken
		})
		time.Sleep(time.Minute)
		if n := w.opened["a"]; n != 1 {
			t.Errorf("opened %d times; want 1, because its connections are kept", n)
		}
	})
}

// Retire stops the checks at once, even one that hangs.
func TestH16_RetireEndsChecks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		o := checked("a", "b")
		o.Health.Timeout = time.Hour
		p, err := upstream.New(o, w.surroundings())
		if err != nil {
			t.Fatal(err)
		}
		w.on("a", hang)
		time.Sleep(5 * time.Second)
		start := time.Now()
		p.Retire()
		w.background.Wait()
		if d := time.Since(start); d != 0 {
			t.Errorf("the checks ended after %v; want at once", d)
		}
	})
}
