package weirhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// begin sends a request and returns the response when its headers have arrived.
func (s *site) begin(ctx context.Context, target string, fields ...string) (*http.Response, error) {
	return s.client.Do(s.request(ctx, http.MethodGet, target, fields...))
}

func TestH4_AHeadThatWasFlushedIsNotHeldBack(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				w.(http.Flusher).Flush()
				time.Sleep(slow)
				_, _ = io.WriteString(w, "x")
			})
			began := time.Now()
			resp, err := s.begin(t.Context(), "/a")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if d := time.Since(began); d != 0 {
				t.Errorf("the headers arrived after %v; want at once", d)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		})
	})
}

func TestH4_WhoComesAfterTheHeadIsToldItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Second)
		})
		go s.get("/a")
		time.Sleep(20 * time.Second)
		r := s.get("/a")
		r.want(t, 200, "x")
		has(t, r, "Age", "20")
		s.wantCalls(1)
	})
}

func TestH4_PastTheLimitJoiningCloses(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{MaxObject: 1000, Window: 64 << 10}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "max-age=600")
				for range 10 {
					_, _ = w.Write(make([]byte, 500))
					w.(http.Flusher).Flush()
					time.Sleep(time.Second)
				}
			})
			var early, late []reply
			done := make(chan bool)
			go func() {
				early = s.together(5, s.same("/a"))
				close(done)
			}()
			time.Sleep(5500 * time.Millisecond)
			late = s.together(5, s.same("/a"))
			<-done
			for _, r := range append(early, late...) {
				r.want(t, 200, strings.Repeat("\x00", 5000))
			}
			s.wantCalls(6) // late requests have separate calls: the URL is remembered
			s.get("/a")
			s.wantCalls(7) // and none was stored
			synctest.Wait()
			if got := s.handler.Stats().InFlight; got != 0 {
				t.Errorf("InFlight = %d; want 0", got)
			}
		})
	})
}

// Without memory to keep for it what it has not read, and without a validator to
// continue from there, a laggard is reset.
func TestH4_ALaggardIsResetAndASoleReaderHoldsTheOriginBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 << 20
		var sent int
		cache, err := weirhttp.NewCache(weirhttp.MinCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, h1, weirhttp.Options{Cache: cache, MaxObject: 1000, Window: 128 << 10}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "max-age=600")
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
			for sent = 0; sent < size; sent += 4 << 10 {
				if _, err := w.Write(make([]byte, 4<<10)); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
		laggard, err := s.begin(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		defer laggard.Body.Close()
		s.get("/a").want(t, 200, strings.Repeat("\x00", size))
		if _, err := io.Copy(io.Discard, laggard.Body); err == nil {
			t.Error("a reader that fell behind the window got a complete response")
		}
		s.wantCalls(1)
		sole, err := s.begin(t.Context(), "/b")
		if err != nil {
			t.Fatal(err)
		}
		defer sole.Body.Close()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if sent > 300<<10 {
			t.Errorf("the origin sent %d bytes to a client that reads nothing; want at most the window", sent)
		}
		if n, err := io.Copy(io.Discard, sole.Body); n != size || err != nil {
			t.Errorf("the sole reader got %d bytes, %v; want %d", n, err, size)
		}
	})
}

func TestH4_BuffersCountUntilTheirLastReaderHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(16 << 20)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, h1, weirhttp.Options{Cache: cache}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20)) // without freshness: it is not stored
		})
		resp, err := s.begin(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := cache.Stats().Reserved; got < 1<<20 {
			t.Errorf("Reserved = %d while a client reads 1 MiB from a buffer; want at least that", got)
		}
		_ = resp.Body.Close()
		s.client.CloseIdleConnections()
		synctest.Wait()
		if got := cache.Stats().Reserved; got != 0 {
			t.Errorf("Reserved = %d at the end; want 0", got)
		}
	})
}

func TestH4_TheBudgetBoundsAllBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(4 << 20)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, h1, weirhttp.Options{Cache: cache, MaxObject: 1 << 20}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			for range 16 {
				_, _ = w.Write(make([]byte, 50<<10))
				time.Sleep(time.Second)
				if used := cache.Stats(); used.Reserved+used.Used > 4<<20 {
					t.Errorf("%d reserved and %d used; want at most %d", used.Reserved, used.Used, 4<<20)
				}
			}
		})
		for _, r := range s.together(20, func(i int) *http.Request { return s.request(t.Context(), "GET", fmt.Sprint("/", i)) }) {
			if len(r.body) != 16*50<<10 || r.err != nil {
				t.Errorf("got %d bytes, %v; want %d", len(r.body), r.err, 16*50<<10)
			}
		}
		synctest.Wait()
		if got := cache.Stats().Reserved; got != 0 {
			t.Errorf("Reserved = %d; want 0", got)
		}
	})
}

// Requests for a part or on a condition wait for the whole body. They all use the one
// that the flight keeps, with or without a declared length: separate copies would
// be outside the budget.
func TestH4_WaitingForTheWholeBodyTakesNoMemory(t *testing.T) {
	const size, waiting = 4 << 20, 20
	for _, declared := range []bool{true, false} {
		t.Run(fmt.Sprint(declared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Cache-Control", "max-age=60")
					w.Header().Set("Etag", `"1"`)
					if declared {
						w.Header().Set("Content-Length", strconv.Itoa(size))
					}
					_, _ = w.Write(make([]byte, size-1))
					w.(http.Flusher).Flush()
					time.Sleep(2 * slow)
					_, _ = io.WriteString(w, "x")
				})
				leader, err := s.begin(t.Context(), "/a")
				if err != nil {
					t.Fatal(err)
				}
				defer leader.Body.Close()
				synctest.Wait()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				replies := make(chan reply, waiting)
				for i := range waiting {
					go func() {
						if i%2 == 0 {
							replies <- s.get("/a", "Range", "bytes=-1")
						} else {
							replies <- s.get("/a", "If-None-Match", `"1"`)
						}
					}()
				}
				time.Sleep(slow)
				synctest.Wait()
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > waiting*size/8 {
					t.Errorf("%d requests that wait for a body of %d bytes allocated %d", waiting, size, n)
				}
				_, _ = io.Copy(io.Discard, leader.Body)
				for range waiting {
					if r := <-replies; r.err != nil || r.status == 206 && r.body != "x" || r.status != 206 && r.status != 304 {
						t.Errorf("got %d %q, %v; want the last byte, or 304", r.status, shortened(r.body), r.err)
					}
				}
				s.wantCalls(1)
			})
		})
	}
}

// A body that is not kept whole, because it is too large or the budget is used up, is
// no use to a request for a part. It makes its own call at once.
func TestH4_ABodyThatIsNotKeptHoldsUpNoRange(t *testing.T) {
	for _, test := range []struct {
		name   string
		object int64
	}{{"too large", 1 << 20}, {"no budget", 8 << 20}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, err := weirhttp.NewCache(2 << 20)
				if err != nil {
					t.Fatal(err)
				}
				s := open(t, h1, weirhttp.Options{Cache: cache, MaxObject: test.object}, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Range") != "" {
						w.Header().Set("Content-Range", "bytes 0-0/4194304")
						w.WriteHeader(http.StatusPartialContent)
						_, _ = io.WriteString(w, "x")
						return
					}
					w.Header().Set("Cache-Control", "max-age=60")
					w.(http.Flusher).Flush()
					time.Sleep(slow)
					_, _ = w.Write(make([]byte, 2<<20))
					time.Sleep(10 * slow)
					_, _ = w.Write(make([]byte, 2<<20))
				})
				whole := make(chan reply, 1)
				go func() { whole <- s.get("/a") }()
				time.Sleep(slow / 2)
				r := s.get("/a", "Range", "bytes=0-0")
				r.want(t, 206, "x")
				if r.took != slow/2 {
					t.Errorf("took %v; want %v", r.took, slow/2)
				}
				(<-whole).want(t, 200, strings.Repeat("\x00", 4<<20))
				s.wantCalls(2)
			})
		})
	}
}

// Clients that do not read their responses use up the budget. Responses to others
// still arrive complete, short or long, with or without a declared length.
func TestH4_NobodyElseIsCutWhenTheBudgetIsUsedUp(t *testing.T) {
	for _, declared := range []bool{true, false} {
		for _, size := range []int{1, 2 << 10, 3 << 10, 100 << 10, 2 << 20} {
			t.Run(fmt.Sprint(declared, "/", size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cache, err := weirhttp.NewCache(1 << 20)
					if err != nil {
						t.Fatal(err)
					}
					s := open(t, h1, weirhttp.Options{Cache: cache, MaxObject: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
						n := size
						if strings.HasPrefix(r.URL.Path, "/big") {
							n = 1 << 20
						} else if declared {
							w.Header().Set("Content-Length", strconv.Itoa(n))
						}
						for ; n > 0; n -= 64 << 10 {
							_, _ = w.Write(make([]byte, min(n, 64<<10)))
						}
					})
					for i := range 40 {
						resp, err := s.begin(t.Context(), fmt.Sprint("/big", i))
						if err != nil {
							t.Fatal(err)
						}
						defer resp.Body.Close()
					}
					synctest.Wait()
					if got := cache.Stats().Reserved; got < 450<<10 {
						t.Fatalf("Reserved = %d; want the budget, half of 1 MiB, to be used up", got)
					}
					for i := range 3 {
						s.get(fmt.Sprint("/other", i)).want(t, 200, strings.Repeat("\x00", size))
					}
				})
			})
		}
	}
}

// endings are handlers whose responses are incomplete, each in a different way.
var endings = map[string]http.HandlerFunc{
	"abort": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	},
	"abort before a flush": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("half", 2000))
		panic(http.ErrAbortHandler)
	},
	"short": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
	},
	"panic": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic("no")
	},
	"goexit": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		runtime.Goexit()
	},
	"long": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "half")
	},
}

// quiet receives the handler's panics, so that they are not logged.
type quiet struct{ weirhttp.NopObserver }

func TestH5_WhatIsNotWholeIsBrokenForAllAndNotStored(t *testing.T) {
	for name, origin := range endings {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " alone=", alone), func(t *testing.T) {
				both(t, func(t *testing.T, p protocol) {
					synctest.Test(t, func(t *testing.T) {
						cache, _ := weirhttp.NewCache(16 << 20)
						o := weirhttp.Options{Cache: cache, NoCoalescing: alone, Observer: quiet{}}
						s := open(t, p, o, func(w http.ResponseWriter, r *http.Request) {
							time.Sleep(slow)
							w.Header().Set("Cache-Control", "max-age=60")
							origin(w, r)
						})
						for _, r := range s.together(5, s.same("/a")) {
							if r.err == nil && r.status == 200 {
								t.Errorf("got a complete response %q; want a broken one", r.body)
							}
						}
						synctest.Wait()
						if got := cache.Stats(); got.Stored != 0 || got.Reserved != 0 {
							t.Errorf("stored %d, reserved %d; want 0, 0", got.Stored, got.Reserved)
						}
						if got := s.handler.Stats(); got.InFlight != 0 || got.Waiting != 0 {
							t.Errorf("InFlight %d, Waiting %d; want 0, 0", got.InFlight, got.Waiting)
						}
					})
				})
			})
		}
	}
}

func TestH5_NoAnswerAtAllIsAnErrorForAll(t *testing.T) {
	for name, end := range map[string]func(){
		"panic": func() { panic("no") }, "abort": func() { panic(http.ErrAbortHandler) }, "goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{Observer: quiet{}, Limiter: nil}, func(http.ResponseWriter, *http.Request) {
					time.Sleep(slow)
					end()
				})
				for _, r := range s.together(5, s.same("/a")) {
					if name == "abort" {
						if r.err == nil || r.took != slow {
							t.Errorf("got %d after %v; want a reset after %v", r.status, r.took, slow)
						}
					} else if r.status != 500 || r.took != slow {
						t.Errorf("got %d %v after %v; want 500 after %v", r.status, r.err, r.took, slow)
					}
				}
				s.wantCalls(1)
			})
		})
	}
}

func TestH5_AHandlerThatHangsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan bool)
		defer close(free)
		s := open(t, h1, weirhttp.Options{IdleTimeout: time.Minute, HeadTimeout: 10 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				w.Header().Set("Cache-Control", "max-age=600")
				_, _ = io.WriteString(w, "half")
				w.(http.Flusher).Flush()
			}
			<-free // regardless of its context
		})
		for _, r := range s.together(3, s.same("/head")) {
			r.want(t, 504, r.body)
			if r.took != 10*time.Second {
				t.Errorf("the response came after %v; want 10s", r.took)
			}
		}
		for _, r := range s.together(3, s.same("/body")) {
			if r.err == nil || r.took != time.Minute {
				t.Errorf("got %q, %v after %v; want a broken response after 1m", r.body, r.err, r.took)
			}
		}
	})
}

func TestH5_AHandlerThatGivesUpHasNoWholeAnswer(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cache, _ := weirhttp.NewCache(16 << 20)
			o := weirhttp.Options{Cache: cache, NoCoalescing: alone, IdleTimeout: time.Minute, HeadTimeout: time.Hour}
			s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=600")
				_, _ = io.WriteString(w, "half")
				if r.URL.Path == "/flushed" {
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done() // and returns, as handlers do
			})
			for _, r := range s.together(3, s.same("/flushed")) {
				if r.err == nil || r.took != time.Minute {
					t.Errorf("got a complete response %q, %v after %v; want a broken one after 1m", r.body, r.err, r.took)
				}
			}
			for _, r := range s.together(3, s.same("/held")) {
				if r.status != 504 || r.took != time.Hour {
					t.Errorf("got %d %q, %v after %v; want 504 after 1h", r.status, r.body, r.err, r.took)
				}
			}
			if got := cache.Stats().Stored; got != 0 {
				t.Errorf("%d responses were stored; want none", got)
			}
		})
	}
}

// listening serves h on a loopback port until the end of the test.
func listening(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return l.Addr().String()
}

func TestH5_CloseDelimitedEndsByFinAndBreaksByReset(t *testing.T) {
	gate := make(chan bool)
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/broken" {
			<-gate
			panic(http.ErrAbortHandler)
		}
	}), weirhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	addr := listening(t, h)
	ask := func(target string) (string, error) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: a\r\n\r\n", target)
		br := bufio.NewReader(conn)
		for line := "-"; strings.TrimSpace(line) != ""; {
			if line, err = br.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		head := make([]byte, 4)
		if _, err := io.ReadFull(br, head); err != nil {
			t.Fatal(err)
		}
		if target == "/broken" {
			gate <- true
		}
		_, err = br.ReadByte()
		return string(head), err
	}
	if body, err := ask("/whole"); body != "half" || !errors.Is(err, io.EOF) {
		t.Errorf("a complete response = %q, %v; want it to end with EOF", body, err)
	}
	if body, err := ask("/broken"); body != "half" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a broken response = %q, %v; want it to end with a reset", body, err)
	}
}

func TestH19_AnUploadThatMovesHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{HeadTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			n, b := 0, make([]byte, 1)
			for r.Context().Err() == nil {
				k, err := r.Body.Read(b)
				if n += k; err != nil {
					_, _ = fmt.Fprint(w, n)
					return
				}
			}
		})
		upload := func(pause time.Duration) reply {
			body, w := io.Pipe()
			go func() {
				for range 10 {
					time.Sleep(pause)
					_, _ = io.WriteString(w, "x")
				}
				_ = w.Close()
			}()
			r := s.request(t.Context(), "PUT", "/a")
			r.Body = body
			return s.do(r)
		}
		upload(900*time.Millisecond).want(t, 200, "10")
		if r := upload(1100 * time.Millisecond); r.status != http.StatusGatewayTimeout {
			t.Errorf("an upload that stalls = %d, %v; want 504", r.status, r.err)
		}
	})
}
