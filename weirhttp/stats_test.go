package weirhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// breaking responds with the status, and breaks off in the middle of the body.
func breaking(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		time.Sleep(time.Second)
		panic(http.ErrAbortHandler)
	}
}

// Outcomes of requests and calls are counted once, whichever way they take. The
// histories also check that the counters add up.
func TestStatsOfEachKind(t *testing.T) {
	panics := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	slowly := answering(2*time.Second, "Cache-Control", "max-age=10")
	own := []string{"Cookie", "a=b"}
	observed := weirhttp.Options{Observe: true}
	for _, row := range []struct {
		name   string
		o      weirhttp.Options
		origin http.HandlerFunc
		method string
		fields []string
		leaves time.Duration // when the client leaves, 0 for never
		want   weirhttp.Stats
	}{
		{name: "miss", origin: slowly, want: weirhttp.Stats{Missed: 1, Calls: 1}},
		{name: "passed on", method: "POST", origin: slowly, want: weirhttp.Stats{Missed: 1, Calls: 1}},
		{name: "observed", o: observed, origin: slowly, want: weirhttp.Stats{Missed: 1, Calls: 1}},
		{name: "only if cached", fields: []string{"Cache-Control", "only-if-cached"}, origin: slowly, want: weirhttp.Stats{Unanswered: 1}},
		{name: "refused", o: weirhttp.Options{Limiter: &gate{shut: true}}, origin: slowly, want: weirhttp.Stats{Refused: 1, RefusedBy: weirhttp.RefusedStats{Limit: 1}}},
		{name: "no answer", origin: panics, want: weirhttp.Stats{Unanswered: 1, Calls: 1, Failed: 1}},
		{name: "no answer, of its own", fields: own, origin: panics, want: weirhttp.Stats{Unanswered: 1, Calls: 1, Failed: 1}},
		{name: "no answer, passed on", method: "POST", origin: panics, want: weirhttp.Stats{Unanswered: 1, Calls: 1, Failed: 1}},
		{name: "no answer, observed", o: observed, origin: panics, want: weirhttp.Stats{Unanswered: 1, Calls: 1, Failed: 1}},
		{name: "broken off", origin: breaking(200), want: weirhttp.Stats{Missed: 1, Calls: 1, Broken: 1}},
		{name: "500 broken off", origin: breaking(500), want: weirhttp.Stats{Missed: 1, MissedErrors: 1, Calls: 1, ServerErrors: 1}},
		{name: "500 broken off, of its own", fields: own, origin: breaking(500), want: weirhttp.Stats{Missed: 1, MissedErrors: 1, Calls: 1, ServerErrors: 1}},
		{name: "500 broken off, passed on", method: "POST", origin: breaking(500), want: weirhttp.Stats{Missed: 1, MissedErrors: 1, Calls: 1, ServerErrors: 1}},
		{name: "500 broken off, observed", o: observed, origin: breaking(500), want: weirhttp.Stats{Missed: 1, MissedErrors: 1, Calls: 1, ServerErrors: 1}},
		{name: "broken off, observed", o: observed, origin: breaking(200), want: weirhttp.Stats{Missed: 1, Calls: 1, Broken: 1}},
		{name: "left", leaves: time.Second, origin: untilGone, want: weirhttp.Stats{Left: 1, Calls: 1, Abandoned: 1}},
		{name: "left, of its own", fields: own, leaves: time.Second, origin: untilGone, want: weirhttp.Stats{Left: 1, Calls: 1, Abandoned: 1}},
		{name: "left, passed on", method: "POST", leaves: time.Second, origin: untilGone, want: weirhttp.Stats{Left: 1, Calls: 1, Abandoned: 1}},
		{name: "left, observed", o: observed, leaves: time.Second, origin: untilGone, want: weirhttp.Stats{Left: 1, Calls: 1, Abandoned: 1}},
		{name: "left midway", leaves: time.Second, origin: halfUntilGone, want: weirhttp.Stats{Missed: 1, LeftMidway: 1, Calls: 1, Abandoned: 1}},
		{name: "left midway, of its own", fields: own, leaves: time.Second, origin: halfUntilGone, want: weirhttp.Stats{Missed: 1, LeftMidway: 1, Calls: 1, Abandoned: 1}},
		{name: "left midway, passed on", method: "POST", leaves: time.Second, origin: halfUntilGone, want: weirhttp.Stats{Missed: 1, LeftMidway: 1, Calls: 1, Abandoned: 1}},
		{name: "left midway, observed", o: observed, leaves: time.Second, origin: halfUntilGone, want: weirhttp.Stats{Missed: 1, LeftMidway: 1, Calls: 1, Abandoned: 1}},
		{name: "Goexit", origin: exits, want: weirhttp.Stats{Unanswered: 1, Calls: 1, Failed: 1}},
		{name: "Goexit, passed on", method: "POST", origin: exits, want: weirhttp.Stats{Unanswered: 1, Calls: 1, Failed: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, row.o, row.origin)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if row.leaves > 0 {
					time.AfterFunc(row.leaves, cancel)
				}
				if row.method == "" {
					row.method = "GET"
				}
				s.do(s.request(ctx, row.method, "/a", row.fields...))
				synctest.Wait()
				row.want.Requests = 1
				if got := s.handler.Stats(); got != row.want || got.Ended() != 1 {
					t.Errorf("Stats = %+v; want %+v", got, row.want)
				}
			})
		})
	}
}

// untilGone gives up when no client waits any more, as a forwarder does.
func untilGone(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

func halfUntilGone(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "half")
	w.(http.Flusher).Flush()
	untilGone(w, r)
}

func exits(http.ResponseWriter, *http.Request) { runtime.Goexit() }

// A request that has joined a call, and is rejected or ends without a response, does
// not count as joined.
func TestStatsOfJoiners(t *testing.T) {
	for _, row := range []struct {
		name   string
		fields []string
		origin http.HandlerFunc
		want   weirhttp.Stats
	}{
		{"answered", nil, answering(2*time.Second, "Cache-Control", "max-age=10"), weirhttp.Stats{Missed: 1, Joined: 1, Calls: 1}},
		{"no answer", nil, func(http.ResponseWriter, *http.Request) { time.Sleep(2 * time.Second); panic(http.ErrAbortHandler) },
			weirhttp.Stats{Unanswered: 2, Calls: 1, Failed: 1}},
		{"a part of what breaks off", []string{"Range", "bytes=0-1"}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "max-age=10")
			time.Sleep(2 * time.Second)
			breaking(200)(w, nil)
		}, weirhttp.Stats{Missed: 1, Unanswered: 1, Calls: 1, Broken: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{}, row.origin)
				go s.get("/a")
				time.Sleep(time.Second)
				s.get("/a", row.fields...)
				synctest.Wait()
				row.want.Requests = 2
				if got := s.handler.Stats(); got != row.want {
					t.Errorf("Stats = %+v; want %+v", got, row.want)
				}
			})
		})
	}
}

// A rejected refresh makes no call, so it does not count as a background call either.
func TestStatsOfARefusedRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &gate{}
		s := open(t, h1, weirhttp.Options{Limiter: limiter}, answering(0, "Cache-Control", "max-age=10, stale-while-revalidate=60"))
		s.get("/a")
		time.Sleep(15 * time.Second)
		limiter.shut = true
		s.get("/a").want(t, 200, "/a")
		synctest.Wait()
		if got, want := s.handler.Stats(), (weirhttp.Stats{Requests: 2, Missed: 1, Stale: 1, Calls: 1}); got != want {
			t.Errorf("Stats = %+v; want %+v", got, want)
		}
	})
}

// upgrades is a RoundTripper that returns err, or a 101 with a body.
type upgrades struct{ err error }

func (u upgrades) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.err != nil {
		return nil, u.err
	}
	return &http.Response{StatusCode: 101, Body: io.NopCloser(nil), Request: r}, nil
}

// A Transport's upgrades count as requests too, whatever their outcome.
func TestStatsOfATransportsUpgrades(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		name    string
		ctx     context.Context
		streams limit.Limiter
		err     error
		want    weirhttp.Stats
	}{
		{"open", t.Context(), nil, nil, weirhttp.Stats{Requests: 1, Missed: 1, Calls: 1, InFlight: 1, Streams: 1}},
		{"refused", t.Context(), &gate{shut: true}, nil, weirhttp.Stats{Requests: 1, Refused: 1, RefusedBy: weirhttp.RefusedStats{Limit: 1}}},
		{"failed", t.Context(), nil, errors.New("no"), weirhttp.Stats{Requests: 1, Unanswered: 1, Calls: 1, Failed: 1}},
		{"left", gone, nil, context.Canceled, weirhttp.Stats{Requests: 1, Left: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tr, err := weirhttp.NewTransport(upgrades{row.err}, weirhttp.Options{Streams: row.streams})
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(row.ctx, "GET", "http://shop.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Upgrade", "websocket")
			resp, err := tr.RoundTrip(r)
			if got := tr.Stats(); got != row.want {
				t.Errorf("Stats = %+v; want %+v", got, row.want)
			}
			if err == nil {
				resp.Body.Close()
				if got := tr.Stats(); got.InFlight != 0 || got.Streams != 0 {
					t.Errorf("after the end of the upgrade: %+v", got)
				}
			}
		})
	}
}

// A lost is the ResponseWriter of a client whose connection is gone, which the server
// has not noticed yet.
type lost struct{ http.ResponseWriter }

func (lost) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// If a client does not take its response, the handler is not to blame.
func TestStatsOfAClientThatTakesNothing(t *testing.T) {
	want := weirhttp.Stats{Requests: 1, Missed: 1, LeftMidway: 1, Calls: 1, Abandoned: 1}
	for _, row := range []struct {
		name, method string
		o            weirhttp.Options
	}{
		{"of its own", "GET", weirhttp.Options{NoCoalescing: true}},
		{"passed on", "POST", weirhttp.Options{}},
		{"observed", "GET", weirhttp.Options{Observe: true}},
	} {
		h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := io.WriteString(w, strings.Repeat("x", 10_000)); err != nil {
				panic(http.ErrAbortHandler) // as forwarders do
			}
		}), row.o)
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }() // the response is broken off
			h.ServeHTTP(lost{httptest.NewRecorder()}, httptest.NewRequest(row.method, "http://shop.example/", nil))
		}()
		if got := h.Stats(); got != want {
			t.Errorf("%s: Stats = %+v; want %+v", row.name, got, want)
		}
	}
}
