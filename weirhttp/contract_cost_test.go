package weirhttp_test

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// completions is the Cost of a model server.
var completions = weirhttp.Cost{Field: "/max_tokens", Default: 40, Header: "X-Cost", Usage: "/usage/total_tokens"}

// budget returns a budget of 100 units, which come back at 1 per second.
func budget(t *testing.T) *limit.RateLimiter {
	t.Helper()
	l, err := limit.NewRateLimiter(limit.RateOptions{Name: "tokens", PerSecond: 1, Burst: 100})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// prompt sends body to /.
func (s *site) prompt(body string) reply {
	r := s.request(s.t.Context(), http.MethodPost, "/", "Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return s.do(r)
}

func left(t *testing.T, l *limit.RateLimiter, want float64) {
	t.Helper()
	synctest.Wait()
	if s := l.Stats(); s.Tokens != want {
		t.Errorf("the budget has %v units; want %v", s.Tokens, want)
	}
}

// writing returns an origin that checks that l has that many units left, and responds
// with parts, each flushed and 1 s after the one before.
func writing(t *testing.T, l *limit.RateLimiter, estimated float64, contentType string, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s := l.Stats(); s.Tokens != estimated {
			t.Errorf("the budget has %v units during the call; want %v", s.Tokens, estimated)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		for i, part := range parts {
			if i > 0 {
				time.Sleep(time.Second)
			}
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	}
}

// The estimate is taken before the call, from the body, and what the response states is
// settled, from JSON and from the last event that has it. The response is not changed.
func TestH34_EstimatedAndSettled(t *testing.T) {
	const usage = `{"id":1,"usage":{"total_tokens":25}}`
	for _, row := range []struct {
		name, body, kind string
		parts            []string
		estimated, left  float64 // the seconds of the response come back
	}{
		{"JSON", `{"max_tokens":60}`, "application/json", []string{usage}, 40, 75},
		{"JSON in parts", `{"max_tokens":60}`, "application/json; charset=utf-8", []string{usage[:12], usage[12:30], usage[30:34], usage[34:]}, 40, 78},
		{"more than estimated", `{"max_tokens":20}`, "application/problem+json", []string{usage}, 80, 75},
		{"no number in the body", `{"max_tokens":"many"}`, "application/json", []string{usage}, 60, 75},
		{"no JSON in the body", `max_tokens=3`, "application/json", []string{usage}, 60, 75},
		{"no usage", `{"max_tokens":60}`, "application/json", []string{`{"usage":{}}`}, 40, 40},
		{"another type", `{"max_tokens":60}`, "text/plain", []string{usage}, 40, 40},
		{"events", `{"max_tokens":60}`, "text/event-stream", []string{"data: {\"usage\":null}\n\n", "data: {\"usage\":{\"total_", "tokens\":25}}\n", "\ndata: [DONE]\n\n"}, 40, 78},
		{"events without an end", `{"max_tokens":60}`, "text/event-stream", []string{"data: {\"usage\":{\"total_tokens\":25}}\n"}, 40, 40},
	} {
		t.Run(row.name, func(t *testing.T) {
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					l := budget(t)
					s := open(t, p, weirhttp.Options{Budget: l, Cost: completions}, writing(t, l, row.estimated, row.kind, row.parts...))
					s.prompt(row.body).want(t, 200, strings.Join(row.parts, ""))
					left(t, l, row.left)
					if got := s.handler.Stats().Cost; got.Spent == 0 || got.Avoided() != 0 {
						t.Errorf("Cost = %+v; want it spent", got)
					}
				})
			})
		})
	}
}

// A response field states the cost before the body; a rejection by the origin is free.
func TestH34_SettledByHeaderAndStatus(t *testing.T) {
	for _, row := range []struct {
		status int
		field  string
		left   float64
	}{{200, "12", 88}, {200, "11.2", 88}, {200, "-1", 60}, {200, "x", 60}, {200, "", 60}, {429, "", 100}, {429, "3", 97}, {400, "", 100}, {500, "", 60}} {
		synctest.Test(t, func(t *testing.T) {
			l := budget(t)
			s := open(t, h1, weirhttp.Options{Budget: l, Cost: completions}, func(w http.ResponseWriter, r *http.Request) {
				if row.field != "" {
					w.Header().Set("X-Cost", row.field)
				}
				w.WriteHeader(row.status)
				w.(http.Flusher).Flush()
				time.Sleep(time.Millisecond)
			})
			s.prompt("{}")
			synctest.Wait()
			if got := l.Stats().Tokens; got < row.left || got > row.left+0.002 {
				t.Errorf("status %d with X-Cost %q: the budget has %v units; want %v", row.status, row.field, got, row.left)
			}
		})
	}
}

// A budget that is used up makes requests wait, and refuses those that would wait too
// long, with the time until there are enough units. Those that can never have enough are
// refused for good.
func TestH34_RefusedWithATrueRetryAfter(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			l := budget(t)
			s := open(t, p, weirhttp.Options{Budget: l, Cost: completions}, answering(0))
			s.prompt(`{"max_tokens":95}`).want(t, 200, "/")
			if r := s.prompt(`{"max_tokens":8}`); r.status != 200 || r.took != 3*time.Second {
				t.Errorf("got %d after %v; want 200 after 3s", r.status, r.took)
			}
			if r := s.prompt(`{"max_tokens":30}`); r.status != 503 || r.header.Get("Retry-After") != "30" || r.took != 0 {
				t.Errorf("got %d, Retry-After %q, after %v; want 503 and 30 at once", r.status, r.header.Get("Retry-After"), r.took)
			}
			if r := s.prompt(`{"max_tokens":101}`); r.status != 413 || r.header.Get("Retry-After") != "" || strings.Contains(r.body, "try again") {
				t.Errorf("got %d %q, Retry-After %q; want 413 for good", r.status, r.body, r.header.Get("Retry-After"))
			}
			s.wantCalls(2)
			if got := s.handler.Stats(); got.Cost != (weirhttp.CostStats{Spent: 103, Refused: 131}) || got.RefusedBy != (weirhttp.RefusedStats{Budget: 1, TooLarge: 1}) {
				t.Errorf("Stats = %+v; want 103 spent and 131 refused", got)
			}
		})
	})
}

// Hits and joiners cost nothing, and are counted with the cost of the call.
func TestH34_HitsAndJoinersCostNothing(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			l := budget(t)
			cost := weirhttp.Cost{Units: 50, Header: "X-Cost"}
			s := open(t, p, weirhttp.Options{Budget: l, Cost: cost}, answering(time.Second, "Cache-Control", "max-age=60", "X-Cost", "20"))
			for _, r := range s.together(5, s.same("/a")) {
				r.want(t, 200, "/a")
			}
			for range 3 {
				s.get("/a").want(t, 200, "/a")
			}
			s.wantCalls(1)
			left(t, l, 81) // with the second that has passed
			if got := s.handler.Stats().Cost; got != (weirhttp.CostStats{Spent: 20, Hits: 60, Joined: 80}) || got.Avoided() != 140 {
				t.Errorf("Cost = %+v; want 20 spent, 60 avoided by hits, 80 by joining", got)
			}
		})
	})
}

// A permit of a budget that bounds units in use is held until a stream has ended.
func TestH34_StreamsHoldTheirUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := permits(t, limit.ConcurrencyOptions{Limit: 50, Queue: -1})
		s := open(t, h1, weirhttp.Options{Budget: l, Cost: completions}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Second)
		})
		go s.prompt(`{"max_tokens":30}`)
		time.Sleep(5 * time.Second)
		if r := s.prompt(`{"max_tokens":30}`); r.status != 503 {
			t.Errorf("got %d while 30 of 50 units are in use; want 503", r.status)
		}
		time.Sleep(10 * time.Second)
		if r := s.prompt(`{"max_tokens":30}`); r.status != 200 {
			t.Errorf("got %d after the stream; want 200", r.status)
		}
	})
}

// A call that is not made costs nothing: because another limit refused it, or the
// origin could not be reached.
func TestH34_NothingIsTakenWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := budget(t)
		full := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		s := open(t, h1, weirhttp.Options{Budget: l, Cost: completions, Limiter: full}, func(w http.ResponseWriter, r *http.Request) {
			weirhttp.SinkOf(w).Fail(&weirhttp.ForwardError{Err: io.EOF, Unreachable: true})
		})
		s.prompt("{}")
		s.get("/")
		left(t, l, 100)
		held, err := full.TryAcquire()
		if err != nil {
			t.Fatal(err)
		}
		if a, b := s.prompt("{}"), s.get("/b"); a.status != 503 || b.status != 503 {
			t.Errorf("got %d and %d; want 503", a.status, b.status)
		}
		held.Release(limit.Success)
		left(t, l, 100)
		if got := s.handler.Stats().Cost; got != (weirhttp.CostStats{}) {
			t.Errorf("Cost = %+v; want none", got)
		}
	})
}

// Bytes of the body and a constant add up.
func TestH34_EstimateOfBytes(t *testing.T) {
	for _, row := range []struct {
		cost weirhttp.Cost
		n    int
		left float64
	}{
		{weirhttp.Cost{BytesPerUnit: 4}, 9, 97},
		{weirhttp.Cost{BytesPerUnit: 4, Units: 10}, 8, 88},
		{weirhttp.Cost{BytesPerUnit: 4}, 0, 99},
		{weirhttp.Cost{Units: 7}, 100, 93},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := budget(t)
			s := open(t, h1, weirhttp.Options{Budget: l, Cost: row.cost}, answering(0))
			s.prompt(strings.Repeat("x", row.n)).want(t, 200, "/")
			left(t, l, row.left)
		})
	}
}

func TestH34_FaultsOfACost(t *testing.T) {
	err := weirhttp.Options{Cost: weirhttp.Cost{Units: -1, BytesPerUnit: limit.MaxUnits + 1, Default: 1, Usage: "usage"}}.Validate()
	for _, field := range []string{"Cost.Units", "Cost.BytesPerUnit", "Cost.Default", "Cost.Usage"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate = %v; want a fault in %s", err, field)
		}
	}
	for _, c := range []weirhttp.Cost{{Units: 1, Price: -1}, {Units: 1, Price: 1}, {Units: 1, Price: math.NaN(), Currency: "EUR"}, {Units: 1, Currency: "eur"}, {Units: 1, Price: 1, Currency: "EURO"}} {
		if err := (weirhttp.Options{Cost: c}).Validate(); err == nil || !strings.Contains(err.Error(), "Cost.") {
			t.Errorf("Validate of %+v = %v; want a fault", c, err)
		}
	}
	if err := (weirhttp.Options{Cost: weirhttp.Cost{Units: 1, Price: 0.000_002, Currency: "EUR"}}).Validate(); err != nil {
		t.Errorf("Validate = %v; want nil", err)
	}
	if err := (weirhttp.Options{Budget: limit.All()}).Validate(); err == nil || !strings.Contains(err.Error(), "Budget") {
		t.Errorf("Validate of a Budget without a Cost = %v; want a fault", err)
	}
}
