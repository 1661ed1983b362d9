package weirhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A sick is an origin that can be made to fail.
type sick struct {
	status atomic.Int64  // 0: healthy, -1: no response
	takes  time.Duration // how long a failing response takes
	fields []string      // of a healthy response
	failed []string      // of a failing response
}

func (o *sick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch status := o.status.Load(); status {
	case 0:
		for i := 0; i+1 < len(o.fields); i += 2 {
			w.Header().Add(o.fields[i], o.fields[i+1])
		}
		_, _ = io.WriteString(w, "v"+r.Header.Get("Accept-Language"))
	case -1:
		time.Sleep(o.takes)
		panic(http.ErrAbortHandler)
	default:
		for i := 0; i+1 < len(o.failed); i += 2 {
			w.Header().Add(o.failed[i], o.failed[i+1])
		}
		time.Sleep(o.takes)
		w.WriteHeader(int(status))
	}
}

const lastsASecond = "max-age=1, stale-if-error=86400"

// A nosy client does something as soon as it has the headers.
type nosy struct {
	http.ResponseWriter
	then func()
}

func (c *nosy) WriteHeader(status int) {
	c.ResponseWriter.WriteHeader(status)
	if then := c.then; then != nil {
		c.then = nil
		then()
	}
}

// A client that has the headers of a stale response may send the request again. That
// request does not reach the origin.
func TestH26_FailuresAreRememberedBeforeTheStaleAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1) == 1 {
				w.Header().Set("Cache-Control", lastsASecond)
				return
			}
			w.WriteHeader(503)
			w.(http.Flusher).Flush()
			time.Sleep(time.Second) // it is still failing
		}), weirhttp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(then func()) {
			w := httptest.NewRecorder()
			h.ServeHTTP(&nosy{w, then}, httptest.NewRequest("GET", "http://shop.test/x", nil))
			if w.Code != 200 {
				t.Errorf("got %d; want the stored response", w.Code)
			}
		}
		ask(nil)
		time.Sleep(2 * time.Second)
		ask(func() { ask(nil) })
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls; want 2: the first one, and the one that failed", n)
		}
		time.Sleep(time.Second)
	})
}

// A failing origin is not called again by each request that gets the stale response,
// whichever way the call is made. It is called after waits that double up to the cap,
// and by one request each time.
func TestH26_FailuresAreRemembered(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      weirhttp.Options
		status int64
		failed []string // its fields
		method string
		fields []string // of requests
	}{
		{name: "503", status: 503},
		{name: "no answer", status: -1},
		{name: "an answer that is not shared", status: 503, failed: []string{"Cache-Control", "no-store", "Set-Cookie", "a=b"}},
		{name: "without coalescing", o: weirhttp.Options{NoCoalescing: true}, status: 500},
		{name: "by HEAD", status: 504, method: "HEAD"},
		{name: "by a range", status: 502, fields: []string{"Range", "bytes=0-"}},
		{name: "by reloads", status: 503, fields: []string{"Cache-Control", "no-cache"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &sick{fields: []string{"Cache-Control", lastsASecond, "ETag", `"1"`}, failed: tt.failed}
				s := open(t, h1, tt.o, o.ServeHTTP)
				s.get("/x").want(t, 200, "v")
				time.Sleep(2 * time.Second)
				o.status.Store(tt.status)
				method := tt.method
				if method == "" {
					method = "GET"
				}
				calls := int64(1)
				for _, wait := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
					began := time.Now()
					s.do(s.request(t.Context(), method, "/x", tt.fields...))
					calls++
					for time.Since(began) < wait*time.Second-time.Millisecond {
						for _, r := range s.together(4, func(int) *http.Request { return s.request(t.Context(), method, "/x", tt.fields...) }) {
							if r.status/100 != 2 || r.took != 0 {
								t.Errorf("got %d %v after %v; want the stale response at once", r.status, r.err, r.took)
							}
							has(t, r, "Cache-Status", `fwd=stale; ttl=-`)
							has(t, r, "Cache-Status", `detail="cooling"`)
						}
						s.wantCalls(calls)
						time.Sleep(wait * time.Second / 4)
					}
					time.Sleep(time.Until(began.Add(wait * time.Second)))
				}
				// All requests that come when the wait is over cause one call, and
				// the others are not held up.
				o.takes = time.Second
				quick := 0
				for _, r := range s.together(10, func(int) *http.Request { return s.request(t.Context(), method, "/x", tt.fields...) }) {
					if r.took == 0 {
						quick++
					}
				}
				if s.wantCalls(calls + 1); quick != 9 {
					t.Errorf("%d of 10 got a response at once; want 9", quick)
				}
				// A success ends it.
				o.status.Store(0)
				time.Sleep(31 * time.Second)
				s.get("/x", "Cache-Control", "no-cache").want(t, 200, "v")
				time.Sleep(2 * time.Second)
				o.status.Store(tt.status)
				s.get("/x")
				before := s.calls.Load()
				time.Sleep(time.Second)
				s.get("/x")
				s.wantCalls(before + 1)
			})
		})
	}
}

// A request that may not use the stored response makes a call, and so does one for
// another variant.
func TestH26_WithoutAStaleAnswerEachRequestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &sick{fields: []string{"Cache-Control", "max-age=1, stale-if-error=10", "Vary", "Accept-Language"}}
		s := open(t, h1, weirhttp.Options{}, o.ServeHTTP)
		s.get("/x", "Accept-Language", "de").want(t, 200, "vde")
		s.get("/x", "Accept-Language", "fr").want(t, 200, "vfr")
		time.Sleep(2 * time.Second)
		o.status.Store(503)
		s.get("/x", "Accept-Language", "de").want(t, 200, "vde")
		s.get("/x", "Accept-Language", "de").want(t, 200, "vde")
		s.wantCalls(3)
		s.get("/x", "Accept-Language", "fr").want(t, 200, "vfr") // its own failure
		s.get("/x", "Accept-Language", "fr").want(t, 200, "vfr")
		s.wantCalls(4)
		for range 3 {
			s.get("/x", "Accept-Language", "en").want(t, 503, "")
			s.get("/y").want(t, 503, "")
		}
		s.wantCalls(10)
		time.Sleep(20 * time.Second) // past the windows
		s.get("/x", "Accept-Language", "de").want(t, 503, "")
		s.get("/x", "Accept-Language", "de").want(t, 503, "")
		s.wantCalls(12)
		o.status.Store(0)
		s.get("/x", "Accept-Language", "de").want(t, 200, "vde")
	})
}

// Background refreshes leave a failing origin alone for the same time.
func TestH26_RefreshesAreSpacedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &sick{fields: []string{"Cache-Control", "max-age=1, stale-while-revalidate=86400"}}
		s := open(t, h1, weirhttp.Options{}, o.ServeHTTP)
		s.get("/x")
		o.status.Store(503)
		time.Sleep(2 * time.Second)
		for range 63 * 10 {
			s.get("/x").want(t, 200, "v")
			time.Sleep(time.Second / 10)
		}
		if got := s.calls.Load() - 1; got < 5 || got > 7 { // after 0, 1, 3, 7, 15, 31 s
			t.Errorf("%d refreshes in a minute; want 6", got)
		}
	})
}

// If a turn shows nothing about the origin, the next request gets it.
func TestH26_ATurnIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &sick{fields: []string{"Cache-Control", lastsASecond}}
		s := open(t, h1, weirhttp.Options{}, o.ServeHTTP)
		s.get("/x")
		time.Sleep(2 * time.Second)
		o.status.Store(503)
		s.get("/x")
		time.Sleep(time.Second)
		o.takes = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if r := s.do(s.request(ctx, "GET", "/x")); r.err == nil {
			t.Errorf("a client that left got %d", r.status)
		}
		synctest.Wait()
		o.status.Store(0)
		s.get("/x").want(t, 200, "v")
		s.wantCalls(4)
		time.Sleep(2 * time.Hour) // until the call that was given up has ended
	})
}

func TestH26_CoolingCanBeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			o     weirhttp.Options
			calls int64 // caused by ten requests in ten seconds
		}{
			{weirhttp.Options{Cooling: -1}, 10},
			{weirhttp.Options{Cooling: time.Minute}, 1},
			{weirhttp.Options{Cooling: 2 * time.Second, MaxCooling: 2 * time.Second}, 5},
		} {
			o := &sick{fields: []string{"Cache-Control", lastsASecond}}
			s := open(t, h1, tt.o, o.ServeHTTP)
			s.get("/x")
			time.Sleep(2 * time.Second)
			o.status.Store(503)
			for range 10 {
				s.get("/x").want(t, 200, "v")
				time.Sleep(time.Second)
			}
			s.wantCalls(1 + tt.calls)
		}
	})
	_, err := weirhttp.New(http.NotFoundHandler(), weirhttp.Options{Cooling: 2 * time.Hour})
	if err == nil || !strings.Contains(err.Error(), "Options.Cooling") {
		t.Errorf("a Cooling of 2 h: %v; want an error that names the option", err)
	}
}

// A route's TTL gives errors only a short lifetime; the lifetime that the origin
// states applies.
func TestH26_ErrorsHaveALifetimeOfTheirOwn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  weirhttp.Policy
		status  int
		control string
		fresh   time.Duration // 0: not stored
	}{
		{"200", weirhttp.Policy{TTL: time.Hour}, 200, "", time.Hour},
		{"301", weirhttp.Policy{TTL: time.Hour}, 301, "", time.Hour},
		{"404", weirhttp.Policy{TTL: time.Hour}, 404, "", 10 * time.Second},
		{"405", weirhttp.Policy{TTL: time.Hour}, 405, "", 10 * time.Second},
		{"410", weirhttp.Policy{TTL: time.Hour}, 410, "", 10 * time.Second},
		{"414", weirhttp.Policy{TTL: time.Hour}, 414, "", 10 * time.Second},
		{"501", weirhttp.Policy{TTL: time.Hour}, 501, "", 10 * time.Second},
		{"503", weirhttp.Policy{TTL: time.Hour}, 503, "", 0},
		{"a TTL that is shorter", weirhttp.Policy{TTL: 5 * time.Second}, 404, "", 5 * time.Second},
		{"set", weirhttp.Policy{TTL: time.Hour, ErrorTTL: time.Minute}, 404, "", time.Minute},
		{"set to more than the TTL", weirhttp.Policy{TTL: time.Minute, ErrorTTL: time.Hour}, 404, "", time.Minute},
		{"none", weirhttp.Policy{TTL: time.Hour, ErrorTTL: -1}, 404, "", 0},
		{"stated", weirhttp.Policy{TTL: time.Hour}, 404, "max-age=60", time.Minute},
		{"stated, and more", weirhttp.Policy{TTL: time.Minute}, 404, "max-age=600", 10 * time.Minute},
		{"stated, with none", weirhttp.Policy{TTL: time.Hour, ErrorTTL: -1}, 404, "max-age=60", time.Minute},
		{"stated, for 500", weirhttp.Policy{TTL: time.Hour}, 500, "max-age=60", time.Minute},
		{"forced", weirhttp.Policy{TTL: time.Hour, Force: true}, 404, "no-store, max-age=60", 10 * time.Second},
		{"forbidden", weirhttp.Policy{TTL: time.Hour}, 404, "no-store", 0},
		{"not by its windows", weirhttp.Policy{TTL: time.Hour, StaleWhileRevalidate: time.Hour, StaleIfError: time.Hour}, 404, "", 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{Policy: tt.policy}, func(w http.ResponseWriter, _ *http.Request) {
					if tt.control != "" {
						w.Header().Set("Cache-Control", tt.control)
					}
					w.WriteHeader(tt.status)
				})
				hit := func() bool {
					r := s.get("/x")
					return strings.Contains(r.header.Get("Cache-Status"), "hit")
				}
				hit()
				if got := hit(); got != (tt.fresh > 0) {
					t.Fatalf("whether the next request is a hit = %v; want %v", got, tt.fresh > 0)
				}
				if tt.fresh == 0 {
					return
				}
				time.Sleep(tt.fresh - time.Second)
				if !hit() {
					t.Errorf("the response is not a hit one second before %v", tt.fresh)
				}
				time.Sleep(tt.fresh + 2*time.Second) // past a refresh, if there was one
				if hit() {
					t.Errorf("the response is a hit long after %v", tt.fresh)
				}
			})
		})
	}
}
