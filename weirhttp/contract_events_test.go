package weirhttp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// tokens are the events of a stream; the last one is terminal.
var tokens = []string{"data: one\n\n", "data: two\n\n", "event: note\ndata: {}\n\n", "data: four\n\n", "data: [DONE]\n\n"}

// gap is the time between two tokens.
const gap = time.Second

var sharedEvents = weirhttp.Options{Events: weirhttp.EventPolicy{Share: true, TTL: 10 * time.Minute, End: "[DONE]"}}

// streaming returns an origin that sends events, each after gap, with fields (name,
// value, ...). It returns once its context ends.
func streaming(events []string, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.(http.Flusher).Flush()
		for _, e := range events {
			select {
			case <-time.After(gap):
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
	}
}

// events are the request fields of a client that asks for events.
func (s *site) events(ctx context.Context, target string, fields ...string) *http.Request {
	return s.request(ctx, http.MethodGet, target, append(fields, "Accept", "text/event-stream")...)
}

func TestH33_ARunningStreamIsSharedFromItsFirstEvent(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, sharedEvents, streaming(tokens))
			whole := strings.Join(tokens, "")
			// One client begins, four wait for the headers with it, and one more comes
			// after each event.
			early := s.inBackground(5, func(int) *http.Request { return s.events(t.Context(), "/a") })
			var late []func() []reply
			for range tokens {
				time.Sleep(gap + gap/10)
				late = append(late, s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/a") }))
			}
			for _, r := range early() {
				r.want(t, 200, whole)
			}
			for _, wait := range late {
				for _, r := range wait() {
					r.want(t, 200, whole)
				}
			}
			s.wantCalls(1)
			hit := s.do(s.events(t.Context(), "/a"))
			hit.want(t, 200, whole)
			has(t, hit, "Cache-Status", "; hit; ttl=")
			has(t, hit, "Cache-Control", "no-cache") // as the origin sent it
			if hit.took != 0 {
				t.Errorf("the replay took %v; want no time", hit.took)
			}
			s.wantCalls(1)
		})
	})
}

// Each event reaches every client when the origin sends it.
func TestH33_EventsAreNotHeldBack(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, sharedEvents, streaming(tokens))
			began := time.Now()
			arrivals := make(chan time.Duration, 100)
			for range 3 {
				go func() {
					resp, err := s.client.Do(s.events(t.Context(), "/a"))
					if err != nil {
						t.Error(err)
						close(arrivals)
						return
					}
					defer resp.Body.Close()
					b := make([]byte, 1000)
					for {
						n, err := resp.Body.Read(b)
						if n > 0 {
							arrivals <- time.Since(began)
						}
						if err != nil {
							return
						}
					}
				}()
			}
			for i := range tokens {
				for range 3 {
					if at, want := <-arrivals, time.Duration(i+1)*gap; at != want {
						t.Errorf("event %d arrived after %v; want %v", i, at, want)
					}
				}
			}
		})
	})
}

// Without Share, event streams pass as before, with and without Accept (H8).
func TestH33_ElsewhereNothingIsShared(t *testing.T) {
	for _, field := range []string{"Accept", "X-Other"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Hour, Force: true}}, streaming(tokens))
			for range 2 {
				for _, r := range s.together(3, s.same("/a", field, "text/event-stream")) {
					r.want(t, 200, strings.Join(tokens, ""))
				}
			}
			s.wantCalls(6)
		})
	}
}

// The truncated and reordered streams of which no client may believe that they are
// whole (H5), and which are not stored.
func TestH33_AStreamWithoutItsEndIsBroken(t *testing.T) {
	rules := map[string]weirhttp.EventPolicy{
		"by data": {Share: true, TTL: time.Hour, End: "[DONE]"},
		"by type": {Share: true, TTL: time.Hour, EndType: "stop"},
	}
	ends := map[string]string{"by data": "data: [DONE]\n\n", "by type": "event: stop\ndata: {}\n\n"}
	for name, policy := range rules {
		end := ends[name]
		streams := map[string][]string{
			"reordered":           {"data: a\n\n", end, "data: b\n\n"},
			"missing":             {"data: a\n\n", "data: b\n\n"},
			"nothing at all":      {},
			"without blank line":  {"data: a\n\n", end[:len(end)-1]},
			"in pieces":           {"data: a\n\n", end[:len(end)/2]},
			"the next has begun":  {"data: a\n\n", end, "data: "},
			"in a comment":        {"data: a\n\n", ":" + end},
			"an indented field":   {"data: a\n\n", " " + end},
			"with the wrong case": {"data: a\n\n", strings.ToUpper(end[:1]) + end[1:]},
		}
		for what, events := range streams {
			for _, mode := range []string{"shared", "alone", "at once"} {
				both(t, func(t *testing.T, p protocol) {
					synctest.Test(t, func(t *testing.T) {
						cache, _ := weirhttp.NewCache(16 << 20)
						o := weirhttp.Options{Cache: cache, Events: policy, NoCoalescing: mode == "alone", Observer: quiet{}}
						origin := streaming(events)
						if mode == "at once" { // the handler has returned before anything is sent on
							origin = func(w http.ResponseWriter, _ *http.Request) {
								w.Header().Set("Content-Type", "text/event-stream")
								_, _ = io.WriteString(w, strings.Join(events, ""))
							}
						}
						s := open(t, p, o, origin)
						for _, r := range s.together(4, func(int) *http.Request { return s.events(t.Context(), "/a") }) {
							if r.err == nil {
								t.Errorf("%s, %s, %s: got a complete response %q", name, what, mode, r.body)
							}
						}
						synctest.Wait()
						if got := cache.Stats(); got.Stored != 0 || got.Reserved != 0 {
							t.Errorf("%s, %s, %s: %d stored, %d reserved; want none", name, what, mode, got.Stored, got.Reserved)
						}
						if st := s.handler.Stats(); st.Broken == 0 || st.InFlight != 0 || st.Streams != 0 {
							t.Errorf("%s, %s, %s: broken %d, in flight %d, streams %d", name, what, mode, st.Broken, st.InFlight, st.Streams)
						}
					})
				})
			}
		}
	}
}

// A stream that breaks off at any event is broken for all, and the next request gets a
// new call.
func TestH33_ABreakAtEveryEvent(t *testing.T) {
	for at := range len(tokens) + 1 {
		for name, end := range map[string]func(){"abort": func() { panic(http.ErrAbortHandler) }, "panic": func() { panic("no") }} {
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					var fine atomic.Bool
					o := sharedEvents
					o.Observer = quiet{}
					s := open(t, p, o, func(w http.ResponseWriter, r *http.Request) {
						if fine.Load() {
							streaming(tokens)(w, r)
							return
						}
						time.Sleep(gap) // until all have joined
						streaming(tokens[:at])(w, r)
						end()
					})
					for _, r := range s.together(3, func(int) *http.Request { return s.events(t.Context(), "/a") }) {
						if r.err == nil && r.status == 200 {
							t.Errorf("%s after %d events: got a complete response %q", name, at, r.body)
						}
					}
					fine.Store(true)
					s.do(s.events(t.Context(), "/a")).want(t, 200, strings.Join(tokens, ""))
					s.wantCalls(2)
				})
			})
		}
	}
}

// leavesAt reads a stream and leaves once it has that many events.
func (s *site) leavesAt(t *testing.T, events int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := s.client.Do(s.events(ctx, "/a"))
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for seen := 0; seen < events && lines.Scan(); {
		if lines.Text() == "" {
			seen++
		}
	}
	time.Sleep(gap / 2)
}

// A client that leaves at any event, whether it came first or later, harms no other.
func TestH33_AClientThatLeavesAtEveryEvent(t *testing.T) {
	whole := strings.Join(tokens, "")
	for at := range tokens {
		for _, leader := range []bool{true, false} {
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					s := open(t, p, sharedEvents, streaming(tokens))
					leave := func() { go s.leavesAt(t, at) }
					if leader {
						leave()
						synctest.Wait()
					}
					stays := s.inBackground(3, func(int) *http.Request { return s.events(t.Context(), "/a") })
					synctest.Wait()
					if !leader {
						leave()
					}
					for _, r := range stays() {
						r.want(t, 200, whole)
					}
					s.do(s.events(t.Context(), "/a")).want(t, 200, whole)
					s.wantCalls(1)
					synctest.Wait()
					if st := s.handler.Stats(); st.Broken+st.Failed+st.Abandoned != 0 {
						t.Errorf("broken %d, failed %d, abandoned %d; want none", st.Broken, st.Failed, st.Abandoned)
					}
				})
			})
		}
	}
}

// The last client to leave, at any event, ends the call, or lets it finish.
func TestH33_TheLastOneOut(t *testing.T) {
	for at := range tokens {
		for _, finish := range []bool{false, true} {
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					o := sharedEvents
					o.FinishAbandoned = finish
					s := open(t, p, o, streaming(tokens))
					go s.leavesAt(t, at)
					s.leavesAt(t, at)
					synctest.Wait()
					running := int64(0)
					if finish {
						running = 1
					}
					if got := s.running.Load(); got != running {
						t.Errorf("%d calls run after the last client left at event %d; want %d", got, at, running)
					}
					time.Sleep(time.Minute)
					s.do(s.events(t.Context(), "/a")).want(t, 200, strings.Join(tokens, ""))
					s.wantCalls(2 - running)
				})
			})
		}
	}
}

// Two users share nothing, unless the route or the origin says how (H3).
func TestH33_TwoUsers(t *testing.T) {
	for name, row := range map[string]struct {
		policy weirhttp.Policy
		fields []string
		calls  int64
	}{
		"nothing said":                  {calls: 4},
		"must-revalidate with no-cache": {fields: []string{"Cache-Control", "no-cache, must-revalidate"}, calls: 4},
		"public with no-cache":          {fields: []string{"Cache-Control", "no-cache, public"}, calls: 4},
		"private":                       {policy: weirhttp.Policy{Vary: []string{"Authorization"}}, fields: []string{"Cache-Control", "private"}, calls: 4},
		"no-store":                      {policy: weirhttp.Policy{Vary: []string{"Authorization"}}, fields: []string{"Cache-Control", "no-store"}, calls: 4},
		"compared by the route":         {policy: weirhttp.Policy{Vary: []string{"Authorization"}}, calls: 2},
		"public":                        {fields: []string{"Cache-Control", "public"}, calls: 2}, // one learns it, and the next may join
	} {
		synctest.Test(t, func(t *testing.T) {
			o := sharedEvents
			o.Policy = row.policy
			s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
				user := r.Header.Get("Authorization")
				if name == "public" {
					user = "all"
				}
				streaming([]string{"data: for " + user + "\n\n", tokens[4]}, row.fields...)(w, r)
			})
			for range 2 {
				replies := s.together(2, func(i int) *http.Request {
					return s.events(t.Context(), "/a", "Authorization", string(rune('a'+i)))
				})
				for i, r := range replies {
					want := "data: for " + string(rune('a'+i))
					if name == "public" {
						want = "data: for all"
					}
					r.want(t, 200, want+"\n\n"+tokens[4])
				}
			}
			if got := s.calls.Load(); got != row.calls {
				t.Errorf("%s: %d calls; want %d", name, got, row.calls)
			}
		})
	}
}

// A request for events never gets anything else that is stored, nor the other way
// round, even if the origin forgets Vary.
func TestH33_OtherTypesAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, sharedEvents, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Accept"), "event-stream") {
				streaming(tokens)(w, r)
				return
			}
			w.Header().Set("Cache-Control", "max-age=600")
			time.Sleep(gap)
			_, _ = io.WriteString(w, "page")
		})
		for range 2 {
			page := s.inBackground(2, s.same("/a", "Accept", "text/html"))
			for _, r := range s.together(2, func(int) *http.Request { return s.events(t.Context(), "/a") }) {
				r.want(t, 200, strings.Join(tokens, ""))
			}
			for _, r := range page() {
				r.want(t, 200, "page")
			}
		}
		s.wantCalls(2)
	})
}

// HEAD has no events, and so no terminal one.
func TestH33_Head(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, sharedEvents, streaming(tokens))
		for _, calls := range []int64{1, 2} { // before there is anything to share, and from the store
			r := s.do(s.request(t.Context(), http.MethodHead, "/a", "Accept", "text/event-stream"))
			r.want(t, 200, "")
			s.wantCalls(calls)
			s.do(s.events(t.Context(), "/a")).want(t, 200, strings.Join(tokens, ""))
		}
	})
}

// A stream that was not asked for is shared among the requests that did not ask.
func TestH33_AStreamThatWasNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, sharedEvents, streaming(tokens))
		for range 2 {
			for _, r := range s.together(3, s.same("/a", "Accept", "application/json")) {
				r.want(t, 200, strings.Join(tokens, ""))
			}
		}
		s.wantCalls(1)
	})
}

// Requests that resume a stream get their own call; so do those for a part of one, or
// on a condition, while it runs.
func TestH33_RequestsThatDoNotJoin(t *testing.T) {
	for _, field := range []string{"Last-Event-Id", "last-event-id", "Range", "If-None-Match"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, sharedEvents, func(w http.ResponseWriter, r *http.Request) {
				streaming([]string{"data: resumed " + r.Header.Get("Last-Event-ID") + "\n\n", tokens[4]}, "Etag", `"v1"`)(w, r)
			})
			first := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/a") })
			time.Sleep(gap / 2)
			r := s.events(t.Context(), "/a")
			r.Header[http.CanonicalHeaderKey(field)] = []string{map[string]string{"Range": "bytes=0-4", "If-None-Match": `"v0"`}[field] + "7"}
			own := s.do(r)
			if own.err != nil || own.status != 200 || !strings.HasSuffix(own.body, tokens[4]) {
				t.Errorf("%s: got %d %q, %v; want a whole stream", field, own.status, own.body, own.err)
			}
			if field == "Last-Event-Id" && !strings.Contains(own.body, "resumed 7") {
				t.Errorf("the client that resumes at 7 got %q", own.body)
			}
			first()
			s.wantCalls(2)
		})
	}
	synctest.Test(t, func(t *testing.T) { // the same field, removed by the policy
		o := sharedEvents
		o.Policy.IgnoreHeaders = []string{"Last-Event-Id"}
		s := open(t, h1, o, streaming(tokens))
		for range 2 {
			s.do(s.events(t.Context(), "/a", "Last-Event-ID", "7")).want(t, 200, strings.Join(tokens, ""))
		}
		s.wantCalls(1)
	})
}

// A browser's EventSource sends no-cache with every request.
func TestH33_AnEventSourceGetsAStoredStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, sharedEvents, streaming(tokens))
		for range 3 {
			s.do(s.events(t.Context(), "/a", "Cache-Control", "no-cache", "Pragma", "no-cache")).want(t, 200, strings.Join(tokens, ""))
		}
		s.wantCalls(1)
		s.do(s.events(t.Context(), "/a", "Cache-Control", "no-store")).want(t, 200, strings.Join(tokens, ""))
		s.wantCalls(2)
	})
}

// A stream's freshness counts from its end: one that took longer than its TTL is fresh
// for that long afterwards. Its age counts from its beginning.
func TestH33_FreshnessCountsFromTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sharedEvents
		o.Events.TTL = 3 * gap
		s := open(t, h1, o, streaming(tokens)) // 5 gaps
		first := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/a") })
		time.Sleep(4*gap + gap/2)
		r := s.do(s.events(t.Context(), "/a"))
		r.want(t, 200, strings.Join(tokens, ""))
		has(t, r, "Age", "4")
		first()
		time.Sleep(3*gap - gap/4)
		r = s.do(s.events(t.Context(), "/a"))
		has(t, r, "Age", "7")
		s.wantCalls(1)
		time.Sleep(gap / 2)
		s.do(s.events(t.Context(), "/a"))
		s.wantCalls(2)
	})
}

// An incomplete stream goes to its clients as it is, and is not stored; the next
// request begins a new one.
// A stream that ended before its first event may have been cut off there.
func TestH33_AStreamWithoutAnEventIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sharedEvents
		o.Events.End, o.Events.EndType = "", ""
		s := open(t, h1, o, streaming([]string{": connected\n\n"}))
		for range 2 {
			s.do(s.events(t.Context(), "/a")).want(t, 200, ": connected\n\n")
		}
		s.wantCalls(2)
	})
}

func TestH33_AnIncompleteStreamIsNotStored(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := sharedEvents
			o.NoCoalescing = alone
			o.Events.IncompleteTypes, o.Events.IncompleteData = []string{"error"}, []string{`"finish":"length"`}
			bad := "data: {\"finish\":\"length\"}\n\n"
			s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/b" {
					bad = "event: error\ndata: x\n\n"
				}
				streaming([]string{tokens[0], bad, tokens[1], tokens[4]})(w, r)
			})
			for _, path := range []string{"/a", "/b"} {
				before := s.calls.Load()
				first := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), path) })
				time.Sleep(gap + gap/2)
				second := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), path) })
				time.Sleep(gap)
				third := s.do(s.events(t.Context(), path)) // comes when it is known to be incomplete
				for _, r := range append(append(first(), second()...), third) {
					r.want(t, 200, tokens[0]+bad+tokens[1]+tokens[4])
				}
				want := int64(2)
				if alone {
					want = 3
				}
				if got := s.calls.Load() - before; got != want {
					t.Errorf("%s: %d calls; want %d", path, got, want)
				}
				s.do(s.events(t.Context(), path))
				if got := s.calls.Load() - before; got != want+1 {
					t.Errorf("%s: the incomplete stream was stored", path)
				}
			}
		})
	}
}
