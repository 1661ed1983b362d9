package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// timeoutField is a field with milliseconds.
var timeoutField = weirhttp.DurationField{Name: "X-Request-Timeout", Unit: weirhttp.Milliseconds}

// times remembers what an origin receives.
type times struct {
	mu     sync.Mutex
	values []string
}

func (o *times) note(r *http.Request, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.values = append(o.values, strings.Join(r.Header[name], "|"))
}

func (o *times) want(t *testing.T, values ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.values, values) {
		t.Errorf("the origin received %q; want %q", o.values, values)
	}
}

// H44: a client that states its time gets 504 when it is over, and others are served by the same call.
func TestH44_ADeadlineEndsItsOwnRequestOnly(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{Deadline: timeoutField, Gateway: true}, answering(10*time.Second, "Cache-Control", "max-age=60"))
			fields := []string{"1500", "", "12000", "60000", "1500.5", "9999999999999"}
			replies := s.together(len(fields), func(i int) *http.Request {
				if fields[i] == "" {
					return s.request(t.Context(), "GET", "/a")
				}
				return s.request(t.Context(), "GET", "/a", "X-Request-Timeout", fields[i])
			})
			for i, r := range replies {
				if i == 0 || i == 4 {
					if want := time.Duration(1500+i/8) * time.Millisecond; r.status != 504 || r.took < want || r.took > want+time.Millisecond {
						t.Errorf("%q: got %d after %v; want 504 after %v", fields[i], r.status, r.took, want)
					}
					has(t, r, "Proxy-Status", "weir; error=http_response_timeout")
					continue
				}
				r.want(t, 200, "/a")
			}
			s.get("/a", "X-Request-Timeout", "0").want(t, 200, "/a") // a hit needs no time
			s.wantCalls(1)
			if r := s.get("/b", "X-Request-Timeout", "0"); r.status != 504 || r.took != 0 {
				t.Errorf("without time: %d after %v; want 504 immediately", r.status, r.took)
			}
			s.wantCalls(1)
			if got := s.handler.Stats().Deadlines; got != (weirhttp.DeadlineStats{Stated: 5, Expired: 3}) {
				t.Errorf("Deadlines = %+v; want 5 stated and 3 expired: a hit needs no time", got)
			}
			if st := s.handler.Stats(); st.Ended() != st.Requests || st.Unanswered != 3 || st.Failed != 0 {
				t.Errorf("%d of %d requests have ended, %d unanswered, %d failed; want all, 3, 0", st.Ended(), st.Requests, st.Unanswered, st.Failed)
			}
		})
	})
}

// H44: a deadline ends with the head of the response, as the time-out of the route does.
func TestH44_ABodyThatHasBegunIsNotCutOff(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{Deadline: timeoutField, TellDeadline: timeoutField}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				_, _ = io.WriteString(w, "a")
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Second)
				_, _ = io.WriteString(w, "b")
			})
			for _, r := range s.together(4, func(i int) *http.Request {
				return s.request(t.Context(), []string{"GET", "POST", "GET", "GET"}[i], "/a", "X-Request-Timeout", "2000", "Cookie", fmt.Sprint(i%3))
			}) {
				r.want(t, 200, "ab")
			}
		})
	})
}

// H44: values that cannot be read are ignored and counted; only durations count.
func TestH44_MalformedDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, NoStore: true}, answering(2*time.Second))
		bad := []string{"", "x", "-1", "+5", "1e3", "1s", "1,5", "0x1", "1.", ".5", " ", "1 2", "1, 2", "1234567890123456", "1.0123456789", "Sun, 06 Nov 1994 08:49:37 GMT"}
		for i, value := range bad {
			s.get(fmt.Sprint("/", i), "X-Request-Timeout", value).want(t, 200, fmt.Sprint("/", i))
		}
		s.get("/twice", "X-Request-Timeout", "1", "X-Request-Timeout", "1").want(t, 200, "/twice")
		if got := s.handler.Stats().Deadlines; got != (weirhttp.DeadlineStats{Malformed: uint64(len(bad)) + 1}) {
			t.Errorf("Deadlines = %+v; want %d malformed", got, len(bad)+1)
		}
	})
}

// H44: grpc-timeout, in all units, counts for gRPC alone.
func TestH44_GRPCTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at times
		s := open(t, h1, weirhttp.Options{NoStore: true, HeadTimeout: -1, StreamIdleTimeout: -1}, func(w http.ResponseWriter, r *http.Request) {
			at.note(r, "Grpc-Timeout")
			<-r.Context().Done()
		})
		for _, tt := range []struct {
			value, sent string
			want        time.Duration
		}{
			{"2H", "7200000m", 2 * time.Hour}, {"3M", "180000m", 3 * time.Minute}, {"4S", "4000000u", 4 * time.Second},
			{"50m", "50000000n", 50 * time.Millisecond}, {"60u", "60000n", 60 * time.Microsecond}, {"99999999n", "99999999n", 99999999}, {"00000001S", "", 0},
			{"100000000n", "", 0}, {"1", "", 0}, {"S", "", 0}, {"1s", "", 0}, {"-1S", "", 0}, {"1.5S", "", 0},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
			r := s.request(ctx, "POST", "/a.B/C", "Grpc-Timeout", tt.value, "Content-Type", "application/grpc+proto")
			at.mu.Lock()
			at.values = nil
			at.mu.Unlock()
			began := time.Now()
			got := s.do(r)
			cancel()
			if tt.want == 0 {
				if got.status == 504 && time.Since(began) < time.Minute && tt.value != "00000001S" {
					t.Errorf("%q: ended after %v; want it ignored", tt.value, time.Since(began))
				}
				continue
			}
			if got.status != 504 || got.took != tt.want {
				t.Errorf("%q: got %d after %v; want 504 after %v", tt.value, got.status, got.took, tt.want)
			}
			at.want(t, tt.sent)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r := s.do(s.request(ctx, "POST", "/a", "Grpc-Timeout", "1S")); r.took != time.Minute {
			t.Errorf("without gRPC it ended after %v; want the client's minute", r.took)
		}
	})
}

// H44: the field is no part of a key, also if the origin's Vary names it, and is not forwarded.
func TestH44_DeadlinesSelectNothing(t *testing.T) {
	for _, vary := range []string{"", "X-Request-Timeout", "Accept, X-Request-Timeout", "heuristic"} {
		synctest.Test(t, func(t *testing.T) {
			var at times
			heuristic := vary == "heuristic" // without a stated lifetime, unknown fields keep requests apart
			if heuristic {
				vary = ""
			}
			s := open(t, h1, weirhttp.Options{Deadline: timeoutField, Policy: weirhttp.Policy{Heuristic: 0.5}}, func(w http.ResponseWriter, r *http.Request) {
				at.note(r, "X-Request-Timeout")
				if w.Header().Set("Last-Modified", time.Now().Add(-time.Hour).Format(http.TimeFormat)); !heuristic {
					w.Header().Set("Cache-Control", "max-age=60")
				}
				if vary != "" {
					w.Header().Set("Vary", vary)
				}
				time.Sleep(slow)
				_, _ = io.WriteString(w, "x")
			})
			for range 2 {
				s.together(20, func(i int) *http.Request {
					if i%4 == 0 {
						return s.request(t.Context(), "GET", "/a")
					}
					return s.request(t.Context(), "GET", "/a", "X-Request-Timeout", fmt.Sprint(5000+i))
				})
			}
			at.want(t, "")
		})
	}
}

// H44: a call that others may join receives the time of the route, never its first caller's;
// one that is for one request carries that caller's, and its response is not stored.
func TestH44_WhatTheUpstreamIsTold(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			var at times
			l := permits(t, limit.ConcurrencyOptions{Limit: 1})
			s := open(t, p, weirhttp.Options{Deadline: timeoutField, TellDeadline: weirhttp.DurationField{Name: "X-Time", Unit: weirhttp.Seconds}, HeadTimeout: 20 * time.Second, Limiter: l},
				func(w http.ResponseWriter, r *http.Request) {
					at.note(r, "X-Time")
					if r.Header["X-Request-Timeout"] != nil {
						t.Errorf("the origin sees X-Request-Timeout %q", r.Header["X-Request-Timeout"])
					}
					w.Header().Set("Cache-Control", "max-age=60, public")
					time.Sleep(2 * time.Second)
					_, _ = io.WriteString(w, "x")
				})
			s.get("/a", "X-Request-Timeout", "3000").want(t, 200, "x") // it leads a call
			at.want(t, "20")
			s.get("/b", "X-Request-Timeout", "3000", "Cookie", "a=b").want(t, 200, "x") // alone
			at.want(t, "20", "3")
			s.get("/b", "X-Request-Timeout", "9000", "Cookie", "a=b").want(t, 200, "x") // nothing was stored
			at.want(t, "20", "3", "9")
			s.get("/b", "X-Request-Timeout", "30000", "Cookie", "a=b").want(t, 200, "x") // the route's is shorter
			at.want(t, "20", "3", "9", "20")
			s.get("/b", "X-Request-Timeout", "30000", "Cookie", "a=b").want(t, 200, "x") // stored
			s.get("/b", "X-Time", "1").want(t, 200, "x")
			s.do(s.request(t.Context(), "POST", "/c", "X-Request-Timeout", "5000", "X-Time", "1")).want(t, 200, "x")
			s.do(s.request(t.Context(), "POST", "/c", "X-Time", "1")).want(t, 200, "x")
			at.want(t, "20", "3", "9", "20", "5", "20")
			go s.do(s.request(t.Context(), "POST", "/first"))
			time.Sleep(time.Second)
			s.do(s.request(t.Context(), "POST", "/second", "X-Request-Timeout", "5000")).want(t, 200, "x") // what is left after the queue
			at.want(t, "20", "3", "9", "20", "5", "20", "20", "4")
		})
	})
}

// H44: a call with a short deadline takes nothing from others: neither a stored response, nor
// the origin's reputation, nor the rules of its URL.
func TestH44_AShortDeadlineHarmsNoOtherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := 0
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, TellDeadline: timeoutField, Gateway: true, NoCoalescing: true, Policy: weirhttp.Policy{StaleIfError: time.Hour}},
			func(w http.ResponseWriter, r *http.Request) {
				if len(r.Header.Get("X-Request-Timeout")) < 5 { // an origin that sends less if it has little time
					short++
					w.Header().Set("Cache-Control", "no-store")
					if r.URL.Path == "/504" {
						w.WriteHeader(504)
					}
					return
				}
				w.Header().Set("Cache-Control", "max-age=5")
				w.Header().Set("Etag", `"1"`)
				_, _ = io.WriteString(w, "good")
			})
		for i, path := range []string{"/504", "/200"} {
			s.get(path).want(t, 200, "good")
			time.Sleep(10 * time.Second) // it is stale
			s.get(path, "X-Request-Timeout", "100").want(t, 200, []string{"good", ""}[i])
			if short != i+1 {
				t.Fatalf("%s: the origin has had %d short deadlines; want %d", path, short, i+1)
			}
			if e := s.handler.Explain(s.request(t.Context(), "GET", path)); len(e.Stored) != 1 {
				t.Errorf("%s: %d responses are stored; want the one from before", path, len(e.Stored))
			}
			before := s.calls.Load()
			s.get(path).want(t, 200, "good")
			if s.calls.Load() != before+1 {
				t.Errorf("%s: the origin is not called, as if it had failed", path)
			}
		}
	})
}

// H44: a request whose time is over gets the stale response where a failure would.
func TestH44_StaleInsteadOf504(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, Policy: weirhttp.Policy{StaleIfError: time.Hour}}, answering(2*time.Second, "Cache-Control", "max-age=5"))
		s.get("/a").want(t, 200, "/a")
		time.Sleep(10 * time.Second)
		r := s.get("/a", "X-Request-Timeout", "500")
		r.want(t, 200, "/a")
		if r.took != 500*time.Millisecond {
			t.Errorf("it took %v; want 500ms", r.took)
		}
		s.get("/a").want(t, 200, "/a")
		s.wantCalls(3) // the origin has not failed, so it is called
	})
}

// H44: the time of a client is not a failure of the origin: an adaptive limit does not shrink.
func TestH44_TheLimiterLearnsNothingFromDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := limit.NewAdaptive(limit.AdaptiveOptions{Initial: 20, Max: 100})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, TellDeadline: timeoutField, Limiter: l, NoCoalescing: true}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/504" {
				time.Sleep(50 * time.Millisecond)
				w.WriteHeader(504)
				return
			}
			<-r.Context().Done()
		})
		for i := range 200 {
			s.together(20, s.same([]string{"/504", "/hangs"}[i%2], "X-Request-Timeout", "100"))
		}
		if st := l.Stats(); st.Limit < 20 {
			t.Errorf("the limit has fallen to %d; want 20 or more", st.Limit)
		}
		if st := s.handler.Stats(); st.Failed != 0 || st.Abandoned != 2000 {
			t.Errorf("%d failed and %d abandoned calls; want 0 and 2000", st.Failed, st.Abandoned)
		}
	})
}

// H44: a Transport tells its service what is left of its caller's time.
func TestH44_ATransportTellsItsCallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at times
		c, _ := transport(t, weirhttp.Options{TellDeadline: timeoutField}, func(r *http.Request) (*http.Response, error) {
			at.note(r, "X-Request-Timeout")
			time.Sleep(slow)
			return plain(r, 200, "x", "Cache-Control", "max-age=60"), nil
		})
		get := func(method, path string, timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, method, "http://shop.example"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(r)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return err
		}
		for _, err := range []error{get("GET", "/a", 5*time.Second), get("POST", "/a", 5*time.Second), get("POST", "/a", 5*time.Minute)} {
			if err != nil {
				t.Error(err)
			}
		}
		at.want(t, "60000", "5000", "60000")
	})
}

// H44: observe mode rejects nothing, and counts the requests whose time would have been over.
func TestH44_ObserveModeCountsDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, Observe: true}, answering(2*time.Second))
		for _, d := range []string{"1000", "3000", "x"} {
			s.get("/a", "X-Request-Timeout", d).want(t, 200, "/a")
		}
		st := s.handler.Stats()
		if st.Observed.Expired != 1 || st.Deadlines != (weirhttp.DeadlineStats{Stated: 2, Malformed: 1}) {
			t.Errorf("Observed = %+v, Deadlines = %+v; want 1 expired, 2 stated, 1 malformed", st.Observed, st.Deadlines)
		}
	})
}

// H44: explain says what a request states, and what the upstream receives.
func TestH44_ExplainsDeadlines(t *testing.T) {
	h, err := weirhttp.New(http.NotFoundHandler(), weirhttp.Options{Deadline: timeoutField, TellDeadline: timeoutField})
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"1500": "waits for 1.5s", "x": "X-Request-Timeout cannot be read"} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://shop.example/", nil)
		r.Header.Set("X-Request-Timeout", value)
		if e := h.Explain(r); !strings.Contains(strings.Join(e.Steps, "\n"), want) {
			t.Errorf("%s: steps %q; want one with %q", value, e.Steps, want)
		}
	}
}

// H44: options without a unit, and fields that have another meaning, are errors.
func TestH44_DeadlineOptions(t *testing.T) {
	for _, o := range []weirhttp.Options{
		{Deadline: weirhttp.DurationField{Name: "X-T"}},
		{Deadline: weirhttp.DurationField{Unit: weirhttp.Seconds}},
		{TellDeadline: weirhttp.DurationField{Name: "X T", Unit: weirhttp.Seconds}},
		{Deadline: weirhttp.DurationField{Name: "x-t", Unit: 9}},
		{Deadline: weirhttp.DurationField{Name: "cookie", Unit: weirhttp.Seconds}},
		{Deadline: timeoutField, Policy: weirhttp.Policy{Vary: []string{"X-Request-Timeout"}}},
	} {
		var fault *weirhttp.OptionError
		if err := o.Validate(); !errors.As(err, &fault) || !strings.Contains(fault.Field, "Deadline.") {
			t.Errorf("%+v: Validate = %v; want an error for the deadline", o, err)
		}
	}
}

// H44: no call is made that has hardly a chance to respond in time, and what was refused for that does
// not keep the estimate alive.
func TestH44_NoCallWithoutAChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, NoStore: true}, answering(time.Second))
		get := func(path, ms string, status int, took time.Duration, calls int64) {
			t.Helper()
			before := s.calls.Load()
			r := s.get(path, "X-Request-Timeout", ms)
			if r.status != status || r.took != took || s.calls.Load()-before != calls {
				t.Errorf("%s with %s ms: %d after %v and %d calls; want %d after %v and %d", path, ms, r.status, r.took, s.calls.Load()-before, status, took, calls)
			}
		}
		get("/unknown", "500", 504, 500*time.Millisecond, 1)
		s.together(30, func(i int) *http.Request { return s.request(t.Context(), "GET", fmt.Sprint("/", i)) })
		get("/led", "500", 504, 0, 0)
		get("/enough", "1200", 200, time.Second, 1)
		before := s.calls.Load()
		if r := s.do(s.request(t.Context(), "POST", "/post", "X-Request-Timeout", "500")); r.status != 504 || r.took != 0 || s.calls.Load() != before {
			t.Errorf("POST: %d after %v and %d calls; want 504 without a call", r.status, r.took, s.calls.Load()-before)
		}
		if r := s.get("/alone", "X-Request-Timeout", "500", "Cookie", "a=b"); r.status != 504 || r.took != 0 || s.calls.Load() != before {
			t.Errorf("alone: %d after %v; want 504 without a call", r.status, r.took)
		}
		go s.get("/joined")
		time.Sleep(700 * time.Millisecond)
		get("/joined", "500", 200, 300*time.Millisecond, 0) // the call of another ends in time
		if got := s.handler.Stats().Deadlines; got.NoChance != 3 || got.Expired != 1 {
			t.Errorf("Deadlines = %+v; want 3 without a chance and 1 expired", got)
		}
		if e := s.handler.Explain(s.request(t.Context(), "GET", "/x", "X-Request-Timeout", "500")); !strings.Contains(strings.Join(e.Steps, " "), "refused without") {
			t.Errorf("Explain = %q; want that it is refused", e.Steps)
		}
		time.Sleep(21 * time.Second)
		get("/later", "500", 504, 500*time.Millisecond, 1) // nothing is known any more: the origin may be faster by now
		time.Sleep(time.Minute)
	})
}

// H44: the same after the queue: the permit goes to a call that can respond in time. A request with more
// time that has joined gets its call.
func TestH44_NoCallWithoutAChanceAfterTheQueue(t *testing.T) {
	for _, method := range []string{"GET", "POST", "joined"} {
		synctest.Test(t, func(t *testing.T) {
			l := permits(t, limit.ConcurrencyOptions{Limit: 30})
			s := open(t, h1, weirhttp.Options{Deadline: timeoutField, NoStore: true, Limiter: l}, answering(time.Second))
			s.together(30, func(i int) *http.Request { return s.request(t.Context(), "GET", fmt.Sprint("/", i)) })
			if err := l.Update(limit.ConcurrencyOptions{Limit: 1}); err != nil {
				t.Fatal(err)
			}
			s.calls.Store(0)
			go s.get("/runs")
			time.Sleep(100 * time.Millisecond)
			var patient reply
			var group sync.WaitGroup
			if method == "joined" {
				group.Go(func() { time.Sleep(time.Millisecond); patient = s.get("/a") })
			}
			r := s.do(s.request(t.Context(), strings.Replace(method, "joined", "GET", 1), "/a", "X-Request-Timeout", "1500"))
			group.Wait()
			if method == "joined" {
				patient.want(t, 200, "/a")
				if r.status != 504 || r.took != 1500*time.Millisecond {
					t.Errorf("got %d after %v; want 504 after 1.5s", r.status, r.took)
				}
				s.wantCalls(2)
				return
			}
			if r.status != 504 || r.took != 900*time.Millisecond {
				t.Errorf("%s: %d after %v; want 504 when the permit comes, after 900ms", method, r.status, r.took)
			}
			s.wantCalls(1)
			if st := l.Stats(); st.InUse != 0 {
				t.Errorf("%d permits are in use; want none", st.InUse)
			}
		})
	}
}

// H44: a request that the queue cannot serve in time, by its own estimate, is refused immediately,
// and one with more time waits.
func TestH44_TheQueueRefusesWhatItCannotServeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := permits(t, limit.ConcurrencyOptions{Limit: 1})
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, NoStore: true, Limiter: l, Gateway: true}, answering(time.Second))
		for i := range 4 {
			s.get(fmt.Sprint("/", i)) // it learns how long calls take
		}
		for i := range 5 {
			go s.get(fmt.Sprint("/queued", i))
		}
		time.Sleep(time.Millisecond)
		if r := s.get("/a", "X-Request-Timeout", "3000"); r.status != 503 || r.took != 0 || r.header.Get("Retry-After") == "" {
			t.Errorf("got %d after %v; want 503 with Retry-After immediately", r.status, r.took)
		}
		s.get("/a", "X-Request-Timeout", "8000").want(t, 200, "/a")
		time.Sleep(time.Minute)
	})
}

// H44: a request that is refused for its time gets the stale response, and leaves no trace for others: neither the
// memory of a failure, nor the turn to try a failing origin.
func TestH44_ARefusalIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := false
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, Policy: weirhttp.Policy{StaleIfError: time.Hour}, Cooling: 10 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			if fails {
				w.WriteHeader(503)
				return
			}
			w.Header().Set("Cache-Control", "max-age=5")
			_, _ = io.WriteString(w, "x")
		})
		s.get("/a").want(t, 200, "x")
		s.together(30, func(i int) *http.Request { return s.request(t.Context(), "GET", fmt.Sprint("/", i)) })
		time.Sleep(6 * time.Second) // it is stale, and calls are known to take a second
		for _, left := range []string{"500", "0"} {
			before := s.calls.Load()
			r := s.get("/a", "X-Request-Timeout", left)
			if r.want(t, 200, "x"); r.took != 0 || s.calls.Load() != before {
				t.Errorf("%s ms: after %v and %d calls; want the stale response immediately", left, r.took, s.calls.Load()-before)
			}
		}
		before := s.calls.Load()
		s.get("/a").want(t, 200, "x")
		if s.calls.Load() != before+1 {
			t.Error("the origin is not called, as if it had failed")
		}
		time.Sleep(6 * time.Second)
		fails = true
		s.get("/a").want(t, 200, "x") // it fails, and cools
		time.Sleep(11 * time.Second)
		fails = false
		s.get("/a", "X-Request-Timeout", "0").want(t, 200, "x") // takes the turn, and has no time
		before = s.calls.Load()
		s.get("/a").want(t, 200, "x")
		if s.calls.Load() != before+1 {
			t.Error("no request tries the origin again")
		}
	})
}

// H44: a Handler behind another one does not pass on what that has told its own server: its shared calls
// are for others as well.
func TestH44_NestedHandlersKeepDeadlinesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at times
		inner, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			own := *r
			weirhttp.UpdateDeadline(&own)
			at.note(&own, "X-Request-Timeout")
			w.Header().Set("Cache-Control", "max-age=60")
			time.Sleep(time.Second)
			_, _ = io.WriteString(w, "x")
		}), weirhttp.Options{Deadline: timeoutField})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, h1, weirhttp.Options{TellDeadline: timeoutField, Deadline: timeoutField, NoCoalescing: true}, inner.ServeHTTP)
		s.get("/a", "X-Request-Timeout", "5000").want(t, 200, "x")
		at.want(t, "")
	})
}

// H44: a Transport whose service needs longer than its caller has makes no call, and returns a DeadlineExceeded.
func TestH44_ATransportMakesNoCallWithoutAChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c, _ := transport(t, weirhttp.Options{NoStore: true}, func(r *http.Request) (*http.Response, error) {
			calls.Add(1)
			time.Sleep(time.Second)
			return plain(r, 200, "x"), nil
		})
		get := func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, "POST", "http://shop.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		var group sync.WaitGroup
		for range 30 {
			group.Go(func() {
				if err := get(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		before := calls.Load()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := get(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, weirhttp.ErrOutOfTime) || calls.Load() != before {
			t.Errorf("got %v and %d calls; want ErrOutOfTime, which is a DeadlineExceeded, without a call", err, calls.Load()-before)
		}
	})
}

// H44: a call whose response may be stored receives no deadline of one client, also not in a
// field that is known without Options: a server that shortens its response to fit would shorten it
// for all.
func TestH44_WhatIsStoredKnowsNoDeadlineOfOneClient(t *testing.T) {
	for _, field := range []string{"Grpc-Timeout", "X-Envoy-Expected-Rq-Timeout-Ms"} {
		both(t, func(t *testing.T, p protocol) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Cache-Control", "public, max-age=60")
					if r.Method == "POST" {
						w.Header().Set("Content-Location", r.URL.Path)
					}
					_, _ = io.WriteString(w, "whole")
					if r.Header[field] != nil {
						w.Header().Set("Content-Type", "text/plain")
						_, _ = io.WriteString(w, ", but shortened")
					}
				})
				for i, method := range []string{"GET", "POST"} {
					path := fmt.Sprint("/", i)
					s.do(s.request(t.Context(), method, path, field, "1", "Cookie", "a=b"))
					s.get(path).want(t, 200, "whole")
				}
			})
		})
	}
}

// H44: a response that comes at the very instant of the deadline is a whole response or a 504.
func TestH44_AResponseAtTheDeadlineIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Deadline: timeoutField, TellDeadline: timeoutField}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			_, _ = io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
			_, _ = io.WriteString(w, "b")
		})
		for i := range 300 {
			method := []string{"GET", "POST"}[i%2]
			r := s.do(s.request(t.Context(), method, fmt.Sprint("/", i), "X-Request-Timeout", "1000", "Cookie", fmt.Sprint("a=", i%3)))
			if r.status == 504 {
				continue
			}
			r.want(t, 200, "ab")
		}
	})
}
