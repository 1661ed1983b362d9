package weirhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

func TestH6_FinishAbandonedStoresForThoseWhoCome(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{FinishAbandoned: true}, answering(slow, "Cache-Control", "max-age=60"))
			ctx, hangUp := context.WithTimeout(t.Context(), slow/2)
			defer hangUp()
			s.do(s.request(ctx, "GET", "/a"))
			time.Sleep(slow)
			r := s.get("/a")
			r.want(t, 200, "/a")
			if r.took != 0 {
				t.Errorf("the response took %v; want it from the store", r.took)
			}
			s.wantCalls(1)
		})
	})
}

func TestH6_NobodyJoinsWhatWasCanceled(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow) // regardless of its context
				_, _ = io.WriteString(w, "x")
			})
			ctx, hangUp := context.WithTimeout(t.Context(), slow/2)
			defer hangUp()
			s.do(s.request(ctx, "GET", "/a"))
			synctest.Wait()
			s.get("/a").want(t, 200, "x")
			s.wantCalls(2)
			if got := s.handler.Stats().Abandoned; got != 1 {
				t.Errorf("Abandoned = %d; want 1", got)
			}
		})
	})
}

// deadlined gives each request the deadline in its field Within.
func deadlined(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, err := time.ParseDuration(r.Header.Get("Within")); err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			defer cancel()
			r = r.WithContext(ctx)
		}
		h.ServeHTTP(w, r)
	})
}

func TestH6_ADeadlineOfAHandlerBeforeUsIs504(t *testing.T) {
	for _, o := range []weirhttp.Options{{}, {NoCoalescing: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, o, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			s.client = dialled(t, h1, deadlined(s.handler))
			r := s.get("/a", "Within", "1s")
			if r.status != 504 || r.took != time.Second {
				t.Errorf("got %d %q, %v after %v; want 504 after 1s", r.status, r.body, r.err, r.took)
			}
			r = s.do(s.request(t.Context(), "POST", "/a", "Within", "1s"))
			if r.status != 504 || r.took != time.Second {
				t.Errorf("POST: got %d %q, %v after %v; want 504 after 1s", r.status, r.body, r.err, r.took)
			}
		})
	}
}

func TestH6_AQueuedFlightHasTheLatestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := permits(t, limit.ConcurrencyOptions{Limit: 1})
		s := open(t, h1, weirhttp.Options{Limiter: one}, answering(slow, "Cache-Control", "max-age=60"))
		s.client = dialled(t, h1, deadlined(s.handler))
		s.get("/warm") // the limiter knows how long a call takes
		go s.get("/a")
		time.Sleep(time.Millisecond)
		done := make(chan reply, 2)
		go func() { done <- s.get("/b", "Within", "500ms") }() // soon enough to be admitted, too late to get a response
		time.Sleep(time.Millisecond)
		go func() { done <- s.get("/b") }()
		first := <-done
		if first.status != 504 {
			t.Errorf("the request with 500ms got %d %v; want 504", first.status, first.err)
		}
		(<-done).want(t, 200, "/b")
		s.wantCalls(3)
	})
}

func TestH6_AQueuedFlightHasTheHighestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := permits(t, limit.ConcurrencyOptions{Limit: 1})
		var order []string
		o := weirhttp.Options{Limiter: one, Priority: func(r *http.Request) limit.Priority {
			if r.Header.Get("Class") == "high" {
				return limit.High
			}
			return limit.Low
		}}
		s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
			order = append(order, r.URL.Path)
			time.Sleep(slow)
			w.Header().Set("Cache-Control", "max-age=60")
		})
		for _, path := range []string{"/1", "/2", "/3"} {
			go s.get(path)
			time.Sleep(time.Millisecond)
		}
		s.get("/3", "Class", "high")
		time.Sleep(10 * slow)
		synctest.Wait()
		if got := strings.Join(order, " "); got != "/1 /3 /2" {
			t.Errorf("the calls ran as %s; want /1 /3 /2", got)
		}
	})
}

func TestH7_ProbedAgain(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			control := "no-store"
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Cache-Control", control)
			})
			s.get("/a")
			time.Sleep(9 * time.Second)
			for _, r := range s.together(5, s.same("/a")) {
				if r.took != slow {
					t.Errorf("before 10s had passed, a request waited %v; want %v", r.took, slow)
				}
			}
			s.wantCalls(6)
			control = "max-age=1"
			time.Sleep(10 * time.Second)
			s.together(5, s.same("/a"))
			s.wantCalls(7)
		})
	})
}

func TestH7_AlikeGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, echo("Accept")) // without freshness
		wave := func() {
			t.Helper()
			for i, r := range s.together(12, func(i int) *http.Request {
				return s.request(t.Context(), "GET", "/a", "Accept", fmt.Sprint("t", i%3))
			}) {
				r.want(t, 200, fmt.Sprint("t", i%3))
				if r.took > 2*slow {
					t.Errorf("%d waited %v; want at most %v", i, r.took, 2*slow)
				}
			}
		}
		wave()
		s.wantCalls(3)
		wave()
		s.wantCalls(6) // one for each value, and at once
	})
}

func TestH7_ALearnedVaryJoinsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, echo("Accept", "Vary", "Accept", "Cache-Control", "max-age=1"))
		for wave := range 3 {
			for i, r := range s.together(12, func(i int) *http.Request {
				return s.request(t.Context(), "GET", "/a", "Accept", fmt.Sprint("t", i%3))
			}) {
				r.want(t, 200, fmt.Sprint("t", i%3))
				if wave > 0 && r.took != slow {
					t.Errorf("in wave %d a request waited %v; want %v", wave, r.took, slow)
				}
			}
			s.wantCalls(int64(3 * (wave + 1)))
			time.Sleep(time.Minute)
		}
	})
}

func TestH8_WhatNeverLeads(t *testing.T) {
	rows := [][]string{
		{"GET", "Range", "bytes=0-0"}, {"GET", "If-None-Match", `"x"`}, {"GET", "If-Modified-Since", "Fri, 31 Dec 1999 00:00:00 GMT"},
		{"GET", "Cache-Control", "no-store"}, {"GET", "Expect", "100-continue"}, {"GET", "Accept", "text/event-stream"}, {"HEAD"},
	}
	for _, row := range rows {
		t.Run(strings.Join(row, " "), func(t *testing.T) {
			both(t, func(t *testing.T, p protocol) {
				if p == h2 && row[len(row)-1] == "100-continue" {
					return // net/http has handled and removed it
				}
				synctest.Test(t, func(t *testing.T) {
					s := open(t, p, weirhttp.Options{}, answering(slow, "Cache-Control", "max-age=60"))
					began := make(chan bool)
					go func() {
						close(began)
						s.do(s.request(t.Context(), row[0], "/a", row[1:]...))
					}()
					<-began
					time.Sleep(slow / 2)
					r := s.get("/a")
					r.want(t, 200, "/a")
					if r.took != slow {
						t.Errorf("a GET after it took %v; want %v, from its own call", r.took, slow)
					}
					s.wantCalls(2)
				})
			})
		})
	}
}

func TestH8_ABodyNeverLeads(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Cache-Control", "max-age=60")
				_, _ = io.Copy(w, r.Body)
			})
			replies := s.together(6, func(i int) *http.Request {
				r := s.request(t.Context(), "GET", "/a")
				body := strconv.Itoa(i)
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), []int64{-1, 1}[i%2]
				return r
			})
			for i, r := range replies {
				r.want(t, 200, strconv.Itoa(i))
			}
			s.wantCalls(6)
		})
	})
}

func TestH8_JoinersConditionsAndRanges(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Cache-Control", "max-age=60")
				w.Header().Set("Etag", `"1"`)
				_, _ = io.WriteString(w, "0123456789")
			})
			rows := []struct {
				method string
				fields []string
				status int
				body   string
			}{
				{"GET", []string{"Range", "bytes=2-4"}, 206, "234"},
				{"GET", []string{"Range", "bytes=90-"}, 416, ""},
				{"GET", []string{"If-None-Match", `"1"`}, 304, ""},
				{"GET", []string{"If-None-Match", `"2"`}, 200, "0123456789"},
				{"GET", []string{"Range", "bytes=2-4", "If-Range", `"2"`}, 200, "0123456789"},
				{"HEAD", nil, 200, ""},
				{"HEAD", []string{"Range", "bytes=2-4"}, 200, ""},
				{"GET", []string{"Cache-Control", "no-store"}, 200, "0123456789"},
			}
			for range 2 { // in flight, then stored
				go s.get("/a")
				time.Sleep(slow / 2)
				for i, r := range s.together(len(rows), func(i int) *http.Request {
					return s.request(t.Context(), rows[i].method, "/a", rows[i].fields...)
				}) {
					if r.status == 416 {
						r.body = "" // the body has the reason
					}
					if rows[i].fields != nil && rows[i].fields[0] == "Cache-Control" && r.took == slow {
						s.calls.Add(-1) // the second time: it skips the store
					}
					if r.err != nil || r.status != rows[i].status || r.body != rows[i].body {
						t.Errorf("%s %v = %d %q, %v; want %d %q", rows[i].method, rows[i].fields, r.status, r.body, r.err, rows[i].status, rows[i].body)
					}
					if rows[i].method == "HEAD" && r.header.Get("Content-Length") != "10" {
						t.Errorf("HEAD has Content-Length %q; want 10", r.header.Get("Content-Length"))
					}
				}
			}
			s.wantCalls(1)
		})
	})
}

func TestH8_ReloadsCoalesceWithTheirLike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, answering(slow, "Cache-Control", "max-age=60"))
		s.get("/a")
		s.together(5, s.same("/a", "Cache-Control", "no-cache"))
		s.wantCalls(2)
		s.together(5, s.same("/a", "Pragma", "no-cache"))
		s.wantCalls(3)
		s.together(5, s.same("/a", "Cache-Control", "max-age=0"))
		s.wantCalls(4)
		go s.get("/b")
		time.Sleep(slow / 2)
		s.get("/b", "Cache-Control", "no-cache") // began later: not served by the older call
		s.wantCalls(6)
	})
}

// A reload needs a call that began after it. If it comes after the headers of another
// reload's response, which may be stale by now, it starts a call, and those that come
// with it share that one.
func TestH8_AReloadDoesNotJoinAfterTheHead(t *testing.T) {
	for _, control := range []string{"max-age=60", "max-age=1, must-revalidate"} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", control)
				mine := n.Add(1)
				time.Sleep(slow)
				_, _ = fmt.Fprint(w, mine)
				w.(http.Flusher).Flush()
				if mine == 1 {
					time.Sleep(10 * slow)
				}
				_, _ = fmt.Fprint(w, mine)
			})
			first := make(chan reply)
			go func() { first <- s.get("/a", "Cache-Control", "no-cache") }()
			time.Sleep(5 * slow)
			for _, r := range s.together(5, s.same("/a", "Cache-Control", "no-cache")) {
				r.want(t, 200, "22")
				if age := r.header.Get("Age"); age != "" || r.took != slow {
					t.Errorf("%s: a reload got Age %q after %v; want none, after %v", control, age, r.took, slow)
				}
			}
			s.wantCalls(2)
			(<-first).want(t, 200, "11")
		})
	}
}

// hints returns a context in which 103 responses are counted.
func hints(ctx context.Context, n *int, got *http.Header) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				*n, *got = *n+1, http.Header(h)
			}
			return nil
		},
	})
}

func TestH8_EarlyHintsAreTheLeadersOnly(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Link", "</x>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				w.Header().Del("Link")
				time.Sleep(slow)
				w.Header().Set("Cache-Control", "max-age=60")
				_, _ = io.WriteString(w, "x")
			})
			var leads, follows int
			var link, none http.Header
			go func() {
				time.Sleep(slow / 2)
				s.do(s.request(hints(t.Context(), &follows, &none), "GET", "/a")).want(t, 200, "x")
			}()
			r := s.do(s.request(hints(t.Context(), &leads, &link), "GET", "/a"))
			r.want(t, 200, "x")
			synctest.Wait()
			if leads != 1 || follows != 0 || link.Get("Link") == "" || r.header.Get("Link") != "" {
				t.Errorf("%d hints (%v) to the leader, %d to a follower, %q in the response; want 1, 0, none", leads, link, follows, r.header.Get("Link"))
			}
			s.wantCalls(1)
		})
	})
}

func TestH8_EventStreamsGoOnForAsLongAsTheyMove(t *testing.T) {
	for _, accept := range []string{"text/event-stream", "*/*"} {
		both(t, func(t *testing.T, p protocol) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					for range 10 {
						time.Sleep(50 * time.Second)
						_, _ = io.WriteString(w, "data: x\n\n")
						w.(http.Flusher).Flush()
					}
					<-r.Context().Done() // nothing more comes
				})
				resp, err := s.begin(t.Context(), "/events", "Accept", accept)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				began := time.Now()
				all, err := io.ReadAll(resp.Body)
				if len(all) != 90 || err == nil {
					t.Errorf("got %d bytes, %v; want 90, and an error", len(all), err)
				}
				if d := time.Since(began); d != 510*time.Second { // the headers came with the first event
					t.Errorf("it ended after %v; want 8m30s: a minute after the last event", d)
				}
			})
		})
	}
}

func TestH8_UpgradesPassThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			_, _ = io.Copy(conn, rw)
		})
		dial := s.client.Transport.(*http.Transport).DialContext
		conn, err := dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		br := bufio.NewReader(conn)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 101 {
			t.Fatalf("the response = %v, %v; want 101", resp, err)
		}
		time.Sleep(time.Hour) // none of our timeouts bounds the total time
		go func() { _, _ = io.WriteString(conn, "hello") }()
		b := make([]byte, 5)
		if _, err := io.ReadFull(br, b); string(b) != "hello" || err != nil {
			t.Errorf("the echo = %q, %v; want hello", b, err)
		}
		if got := s.handler.Stats().Streams; got != 1 {
			t.Errorf("Streams = %d; want 1", got)
		}
		_ = conn.Close()
		synctest.Wait()
		if got := s.handler.Stats(); got.Streams != 0 || got.InFlight != 0 {
			t.Errorf("Streams = %d, InFlight = %d after the end; want 0, 0", got.Streams, got.InFlight)
		}
	})
}

func TestH9_TheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = io.WriteString(w, r.Host+" "+r.URL.RequestURI())
		})
		same := []struct{ host, target string }{
			{"a.example", "/x"}, {"b.example", "/x"}, {"a.example", "/x?"}, {"a.example", "/x?q"}, {"a.example", "/x?q="},
			{"a.example", "/X"}, {"a.example", "//x"}, {"a.example", "/x/"}, {"a.example", "/%78"}, {"a.example", "/a%2Fb"},
			{"a.example", "/a/b"}, {"a.example", "/x?a=1&b=2"}, {"a.example", "/x?b=2&a=1"}, {"a.example", "/x?a=1;b=2&c=%zz"},
			{"a.example:81", "/x"},
		}
		dial := s.client.Transport.(*http.Transport).DialContext
		conn, err := dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		br := bufio.NewReader(conn)
		ask := func(line, host string) string {
			go fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n\r\n", line, host)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			return string(body)
		}
		for round := range 2 {
			for i, k := range same {
				ask("GET "+k.target, k.host)
				if want := int64(i + 1); round == 0 && s.calls.Load() != want {
					t.Errorf("%v was served a response that is stored for another key", k)
				}
			}
		}
		s.wantCalls(int64(len(same)))
		ask("GET http://a.example/x", "ignored.example") // the absolute form names the same resource
		s.wantCalls(int64(len(same)))
	})
}

func TestH9_AMiddlewareThatRewritesTheURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := "old"
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = io.WriteString(w, r.URL.EscapedPath()+" "+body)
		})
		tenants := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/" + r.Header.Get("Tenant") + r.URL.Path // and RawPath stays unchanged
			s.handler.ServeHTTP(w, r)
		})
		plain := s.client
		s.client = dialled(t, h1, tenants)
		for _, path := range []string{"/x", "/x%2Fy", "/x%20y"} {
			for _, tenant := range []string{"a", "b"} {
				if r := s.get(path, "Tenant", tenant); !strings.HasPrefix(r.body, "/"+tenant+"/") {
					t.Errorf("tenant %s got %q for %s", tenant, r.body, path)
				}
			}
		}
		s.wantCalls(6)
		s.client = plain
		s.client = dialled(t, h1, http.StripPrefix("/api", s.handler))
		s.get("/api/z").want(t, 200, "/z old")
		s.get("/api/z").want(t, 200, "/z old")
		s.wantCalls(7)
		body = "new"
		s.do(s.request(t.Context(), "POST", "/api/z"))
		s.get("/api/z").want(t, 200, "/z new")
	})
}

func TestH6_CloseEndsCallsAndStartsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
			}
		})
		s.get("/a")
		done := make(chan []reply)
		go func() { done <- s.together(3, s.same("/slow")) }()
		time.Sleep(time.Second)
		if err := s.handler.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		for _, r := range <-done {
			if r.status != 503 {
				t.Errorf("a request in flight got %d, %v; want 503", r.status, r.err)
			}
		}
		s.get("/a").want(t, 200, "") // fresh responses are served
		if r := s.get("/b"); r.status != 503 {
			t.Errorf("after Close a miss got %d; want 503", r.status)
		}
		s.wantCalls(2)
	})
}

// The first response of a URL changes how its requests are grouped, also those that wait
// already: a later request finds their call.
func TestH7_ALearnedVaryRegroupsTheCallsThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Minute, Vary: []string{"X-Tenant"}}}, func(w http.ResponseWriter, r *http.Request) {
			wait := time.Second
			if r.Header.Get("X-Tenant") == "slow" {
				wait = 3 * time.Second
			}
			answering(wait, "Vary", "Accept-Language")(w, r)
		})
		slow := s.same("/a", "X-Tenant", "slow")
		fast := s.inBackground(1, s.same("/a", "X-Tenant", "fast"))
		first := s.inBackground(1, slow)
		time.Sleep(2 * time.Second)
		second := s.inBackground(1, slow)
		for _, replies := range []func() []reply{fast, first, second} {
			replies()[0].want(t, 200, "/a")
		}
		s.wantCalls(2)
	})
}
