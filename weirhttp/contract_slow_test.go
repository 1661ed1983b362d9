package weirhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// A dribble is a request body that sends one byte every so often.
type dribble struct {
	every time.Duration
	done  <-chan struct{}
}

func (d dribble) Read(b []byte) (int, error) {
	select {
	case <-time.After(d.every):
		b[0] = 'x'
		return 1, nil
	case <-d.done:
		return 0, io.ErrUnexpectedEOF
	}
}

// dribbling returns a request whose body of that length (-1: unknown) arrives one
// byte every 3 s until the test is over.
func (s *site) dribbling(ctx context.Context, length int64, fields ...string) *http.Request {
	r := s.request(ctx, "POST", "/upload", fields...)
	r.Body, r.ContentLength = io.NopCloser(dribble{3 * time.Second, ctx.Done()}), length
	return r
}

// inBackground sends n requests. It returns a function that waits for them and
// returns their replies.
func (s *site) inBackground(n int, request func(i int) *http.Request) func() []reply {
	replies := make([]reply, n)
	var wg sync.WaitGroup
	for i := range n {
		r := request(i)
		wg.Go(func() { replies[i] = s.do(r) })
	}
	return func() []reply { wg.Wait(); return replies }
}

// reading responds after it has read the request's body.
func reading(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, "the body broke", http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, n)
}

func TestH24_ABodyIsReadBeforeAdmission(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			l := permits(t, limit.ConcurrencyOptions{Limit: 4, Queue: -1})
			s := open(t, p, weirhttp.Options{Limiter: l, Gateway: true}, reading)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			replies := s.inBackground(50, func(int) *http.Request { return s.dribbling(ctx, 100) })
			for range 5 {
				time.Sleep(time.Second)
				s.get("/other").want(t, 200, "0")
				r := s.request(t.Context(), "POST", "/small")
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader("abc")), 3
				s.do(r).want(t, 200, "3")
			}
			if used := l.Stats().InUse; used != 0 {
				t.Errorf("%d permits are in use; want none", used)
			}
			s.wantCalls(10)
			for _, r := range replies() {
				if r.err == nil && r.status != 408 || r.took > 11*time.Second {
					t.Fatalf("a client with a dribbling body got %d, %v after %v; want 408 after 10 s", r.status, r.err, r.took)
				}
			}
			s.wantCalls(10)
			if st := s.handler.Stats(); st.Slow.CutSending != 50 || st.Slow.ReadAhead != 5 || st.Failed != 0 || st.ServerErrors != 0 {
				t.Errorf("Stats = %+v; want 50 clients cut off, 5 bodies read ahead, and no failure", st)
			}
		})
	})
}

func TestH24_WhatIsNotReadAhead(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		for name, request := range map[string]func(s *site, ctx context.Context) *http.Request{
			"unknown length": func(s *site, ctx context.Context) *http.Request { return s.dribbling(ctx, -1) },
			"too long":       func(s *site, ctx context.Context) *http.Request { return s.dribbling(ctx, 64<<10+1) },
			"gRPC": func(s *site, ctx context.Context) *http.Request {
				return s.dribbling(ctx, 100, "Content-Type", "application/grpc+proto")
			},
			"Expect": func(s *site, ctx context.Context) *http.Request {
				return s.dribbling(ctx, 100, "Expect", "100-continue")
			},
		} {
			if name == "Expect" && p == h2 {
				continue // net/http hides it from handlers
			}
			synctest.Test(t, func(t *testing.T) {
				s := open(t, p, weirhttp.Options{}, reading)
				ctx, cancel := context.WithCancel(t.Context())
				replies := s.inBackground(1, func(int) *http.Request { return request(s, ctx) })
				time.Sleep(4 * time.Second)
				if s.calls.Load() != 1 {
					t.Errorf("%s: the origin was not called before the body had arrived", name)
				}
				cancel()
				replies()
			})
		}
	})
}

func TestH24_TheMemoryOfBodiesIsBounded(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			body := bytes.Repeat([]byte("0123456789"), 1000)
			var whole sync.Map
			o := weirhttp.Options{Clients: weirhttp.ClientLimits{ReadAheadMemory: 16 << 10}}
			s := open(t, p, o, func(_ http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				time.Sleep(time.Second)
				whole.Store(r.URL.Path, err == nil && bytes.Equal(b, body) && r.ContentLength == int64(len(body)))
			})
			post := func(i int) *http.Request {
				r := s.request(t.Context(), "POST", fmt.Sprint("/", i))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				return r
			}
			s.together(10, post)
			before := s.handler.Stats().Slow
			if before.NoMemory < 8 || before.ReadAhead+before.NoMemory != 10 {
				t.Errorf("Stats.Slow = %+v; want at most two of 10 bodies read ahead", before)
			}
			s.do(post(0))
			for i := range 10 {
				if ok, _ := whole.Load(fmt.Sprint("/", i)); ok != true {
					t.Errorf("body %d did not arrive unchanged", i)
				}
			}
			if st := s.handler.Stats().Slow; st.ReadAhead != before.ReadAhead+1 {
				t.Errorf("Stats.Slow = %+v; want one more body read ahead, now that the memory is free", st)
			}
		})
	})
}

// others checks that other requests get responses while slow clients hold all they
// can.
func others(t *testing.T, s *site) {
	t.Helper()
	for range 20 {
		began := time.Now()
		if r := s.get("/other", "Cookie", "a=b"); r.status != 200 || time.Since(began) > 500*time.Millisecond {
			t.Errorf("another client got %d, %v after %v; want 200 at once", r.status, r.err, time.Since(began))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestH24_SlowBodiesTakeAShareOfThePermits(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		for _, fields := range [][]string{nil, {"Expect", "100-continue"}} {
			synctest.Test(t, func(t *testing.T) {
				l := permits(t, limit.ConcurrencyOptions{Limit: 8})
				s := open(t, p, weirhttp.Options{Limiter: l, Gateway: true}, reading)
				ctx, cancel := context.WithCancel(t.Context())
				replies := s.inBackground(8, func(int) *http.Request { return s.dribbling(ctx, 1<<20, fields...) })
				time.Sleep(time.Second)
				if used := l.Stats().InUse; used != 8 {
					t.Errorf("%d permits are in use; want all, while no other request needs one", used)
				}
				others(t, s)
				if used := l.Stats().InUse; used < 4 || used > 7 {
					t.Errorf("%d permits are in use; want the share of the slow clients", used)
				}
				st := s.handler.Stats()
				if st.Slow.CutBlocked == 0 || st.Slow.CutBlocked > 4 || st.Refused != 0 || st.Failed != 0 {
					t.Errorf("Stats = %+v; want 1 to 4 clients cut off, and none rejected", st)
				}
				time.Sleep(time.Second)
				cancel()
				told := 0
				for _, r := range replies() {
					if r.status == 408 {
						told++
					} else if r.err == nil {
						t.Errorf("a client with a dribbling body got %d; want 408", r.status)
					}
				}
				if p == h2 && told != int(st.Slow.CutBlocked) {
					t.Errorf("%d got 408; want %d", told, st.Slow.CutBlocked)
				}
			})
		}
	})
}

// huge responds with 10 MB, and under /other with a few bytes.
func huge(length bool, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		if r.URL.Path == "/other" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		if length {
			w.Header().Set("Content-Length", fmt.Sprint(10<<20))
		}
		piece := make([]byte, 32<<10)
		for range 10 << 20 / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

// TestH24_SlowReadersTakeAShareOfThePermits: a client that does not read holds a
// permit through its own call, through a call that bypasses the cache, or as the only
// reader of a shared call whose body is too big to be kept.
func TestH24_SlowReadersTakeAShareOfThePermits(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		for name, row := range map[string]struct {
			method string
			length bool
			fields []string
		}{
			"own call":               {"GET", true, []string{"Cookie", "a=b"}},
			"own call, no length":    {"GET", false, []string{"Cookie", "a=b"}},
			"passed on":              {"POST", true, nil},
			"shared call":            {"GET", true, nil},
			"shared call, no length": {"GET", false, nil},
		} {
			synctest.Test(t, func(t *testing.T) {
				l := permits(t, limit.ConcurrencyOptions{Limit: 4})
				s := open(t, p, weirhttp.Options{Limiter: l, Gateway: true, MaxObject: 1 << 20, Window: 64 << 10}, huge(row.length))
				ctx, cancel := context.WithCancel(t.Context())
				var bodies []io.ReadCloser
				for i := range 4 {
					resp, err := s.client.Do(s.request(ctx, row.method, fmt.Sprint("/big", i), row.fields...))
					if err != nil {
						t.Fatal(err)
					}
					bodies = append(bodies, resp.Body)
				}
				time.Sleep(time.Second)
				if used := l.Stats().InUse; used != 4 {
					t.Errorf("%s: %d permits are in use; want all, while no other request needs one", name, used)
				}
				others(t, s)
				st := s.handler.Stats()
				if st.Slow.CutBlocked == 0 || st.Slow.CutBlocked > 2 || st.Refused != 0 || st.Broken != 0 || st.Failed != 0 {
					t.Errorf("%s: Stats = %+v; want 1 or 2 clients cut off, none rejected, and no failure of the origin", name, st)
				}
				broken := 0
				for _, b := range bodies {
					// More than the buffers in between hold.
					if _, err := io.CopyN(io.Discard, b, 6<<20); err != nil {
						broken++
					}
					_ = b.Close()
				}
				if broken != int(st.Slow.CutBlocked) {
					t.Errorf("%s: %d bodies broke off; want %d", name, broken, st.Slow.CutBlocked)
				}
				cancel()
				synctest.Wait()
				if used := l.Stats().InUse; used != 0 {
					t.Errorf("%s: %d permits are in use at the end; want none", name, used)
				}
			})
		}
	})
}

func TestH24_AClientBelowTheRateIsCut(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		for _, fields := range [][]string{{"Cookie", "a=b"}, nil} {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, p, weirhttp.Options{}, huge(true))
				resp, err := s.client.Do(s.request(t.Context(), "GET", "/big", fields...))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var one [1]byte
				for err == nil { // the part that fits into the buffers in between arrives at once
					_, err = resp.Body.Read(one[:])
					time.Sleep(3 * time.Second)
					if s.handler.Stats().Slow.CutReading == 1 {
						break
					}
				}
				if st := s.handler.Stats(); st.Slow.CutReading != 1 || st.Broken != 0 {
					t.Errorf("Stats = %+v; want one client cut off, and no failure of the origin", st)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err == nil {
					t.Error("the body ended as if it were complete")
				}
			})
		}
	})
}

// TestH24_OnlyWaitsForTheClientCount: the origin may be slow when it reads the
// request, before its response, and in the middle of it. Streams may be slow as well.
func TestH24_OnlyWaitsForTheClientCount(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		for name, origin := range map[string]http.HandlerFunc{
			"the origin reads slowly": func(w http.ResponseWriter, r *http.Request) {
				b := make([]byte, 32<<10)
				for {
					n, err := io.ReadFull(r.Body, b)
					if err != nil {
						break
					}
					_ = n
					time.Sleep(40 * time.Second)
				}
				fmt.Fprint(w, "ok")
			},
			"the origin answers slowly": func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for range 5 {
					time.Sleep(40 * time.Second)
					fmt.Fprint(w, ".")
					w.(http.Flusher).Flush()
				}
			},
			"an event stream": func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				for range 5 {
					fmt.Fprint(w, "data: x\n\n")
					w.(http.Flusher).Flush()
					time.Sleep(40 * time.Second)
				}
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, p, weirhttp.Options{}, origin)
				r := s.request(t.Context(), "POST", "/")
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, 256<<10))), 256<<10
				if got := s.do(r); got.status != 200 || got.err != nil {
					t.Errorf("%s: got %d, %v; want 200", name, got.status, got.err)
				}
				if st := s.handler.Stats().Slow; st != (weirhttp.SlowStats{}) {
					t.Errorf("%s: Stats.Slow = %+v; want nothing", name, st)
				}
			})
		}
	})
}

// TestH24_APermitEndsWithTheOriginsAnswer: a small response holds no permit while its
// client is slow to read it.
func TestH24_APermitEndsWithTheOriginsAnswer(t *testing.T) {
	for _, row := range []struct{ method, cookie string }{{"GET", "a=b"}, {"POST", ""}} {
		synctest.Test(t, func(t *testing.T) {
			l := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
			h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "30000")
				_, _ = w.Write(make([]byte, 30000))
			}), weirhttp.Options{Limiter: l, Gateway: true})
			if err != nil {
				t.Fatal(err)
			}
			r, _ := http.NewRequestWithContext(t.Context(), row.method, "http://shop.example/", nil)
			r.Header.Set("Cookie", row.cookie)
			r.RequestURI = "/"
			w := &stalled{header: http.Header{}, release: make(chan struct{})}
			go h.ServeHTTP(w, r)
			synctest.Wait()
			if used := l.Stats().InUse; used != 0 || !w.writes {
				t.Errorf("%s: %d permits are in use while the client is slow; want none", row.method, used)
			}
			close(w.release)
			synctest.Wait()
		})
	}
}

// A stalled is the ResponseWriter of a client that reads nothing until release.
type stalled struct {
	header  http.Header
	release chan struct{}
	writes  bool
}

func (w *stalled) Header() http.Header { return w.header }
func (w *stalled) WriteHeader(int)     {}
func (w *stalled) Write(b []byte) (int, error) {
	w.writes = true
	<-w.release
	return len(b), nil
}

// TestH24_ASlowLeaderStallsNobody: the leader of a call does not read the response.
func TestH24_ASlowLeaderStallsNobody(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
				for range 1 << 20 / 4096 {
					_, _ = w.Write(make([]byte, 4096))
				}
			})
			leader, err := s.client.Do(s.request(t.Context(), "GET", "/a"))
			if err != nil {
				t.Fatal(err)
			}
			defer leader.Body.Close()
			for _, r := range s.together(10, s.same("/a")) {
				if r.status != 200 || len(r.body) != 1<<20 || r.took > 2*time.Second {
					t.Errorf("a follower got %d, %d bytes, %v after %v; want the whole body at once", r.status, len(r.body), r.err, r.took)
				}
			}
			s.wantCalls(1)
		})
	})
}

func TestH24_TheLimitsAreChecked(t *testing.T) {
	for _, c := range []weirhttp.ClientLimits{
		{BlockedShare: 1.1}, {Grace: -1}, {Grace: time.Hour}, {ReadAhead: 1 << 30},
	} {
		var fault *weirhttp.OptionError
		if _, err := weirhttp.New(http.NotFoundHandler(), weirhttp.Options{Clients: c}); !errors.As(err, &fault) ||
			!strings.HasPrefix(fault.Field, "Options.Clients.") {
			t.Errorf("New with %+v = %v; want an OptionError for a field of Clients", c, err)
		}
	}
}
