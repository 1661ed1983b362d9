package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// source responds with the number of the call, and can be made to fail.
type source struct {
	calls   atomic.Int64
	status  int // of an error instead of a response
	control string
	takes   time.Duration
}

func (o *source) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(o.takes)
	if o.status != 0 {
		w.WriteHeader(o.status)
		return
	}
	w.Header().Set("Cache-Control", o.control)
	_, _ = io.WriteString(w, strconv.FormatInt(o.calls.Add(1), 10))
}

func TestH11_WhatOutranksWhat(t *testing.T) {
	policy := weirhttp.Policy{StaleWhileRevalidate: 10 * time.Second, StaleIfError: time.Hour}
	rows := []struct {
		control  string
		policy   weirhttp.Policy
		swr, sie bool // 5 s after the end of the freshness
	}{
		{"max-age=10", weirhttp.Policy{}, false, false},
		{"max-age=10, stale-while-revalidate=10", weirhttp.Policy{}, true, false},
		{"max-age=10, stale-if-error=10", weirhttp.Policy{}, false, true},
		{"max-age=10, stale-if-error=4", weirhttp.Policy{}, false, false},
		{"max-age=10", policy, true, true},
		{"max-age=10, stale-while-revalidate=1, stale-if-error=1", policy, false, false},
		{"max-age=10, must-revalidate", policy, false, false},
		{"max-age=10, proxy-revalidate, stale-if-error=60", policy, false, false},
		{"max-age=10, no-cache, stale-if-error=60", policy, false, false},
		{"s-maxage=10", weirhttp.Policy{}, false, false},
		{"s-maxage=10, stale-if-error=60", weirhttp.Policy{}, false, true},
		{"s-maxage=10, must-revalidate, stale-if-error=60", weirhttp.Policy{}, false, false},
	}
	for _, row := range rows {
		t.Run(row.control, func(t *testing.T) {
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					o := &source{control: row.control}
					s := open(t, p, weirhttp.Options{Policy: row.policy}, o.ServeHTTP)
					s.get("/a").want(t, 200, "1")
					time.Sleep(15 * time.Second)
					o.status = 503
					r := s.get("/a")
					if got := r.status == 200; got != (row.swr || row.sie) {
						t.Errorf("with the origin down the status is %d; want stale: %t", r.status, row.swr || row.sie)
					}
					synctest.Wait() // a background refresh has failed
					o.status = 0
					time.Sleep(2 * time.Second)
					if got := s.get("/a").body == "1"; got != row.swr {
						t.Errorf("stale while revalidating = %t; want %t", got, row.swr)
					}
				})
			})
		})
	}
}

func TestH11_StaleOnOverloadInsteadOf503(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			one := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
			o := &source{control: "max-age=10, stale-if-error=60"}
			s := open(t, p, weirhttp.Options{Limiter: one}, o.ServeHTTP)
			s.get("/a")
			o.control = "max-age=10"
			s.get("/b")
			time.Sleep(11 * time.Second)
			o.takes = time.Minute
			go s.get("/busy")
			time.Sleep(time.Second)
			r := s.get("/a")
			r.want(t, 200, "1")
			has(t, r, "Cache-Status", "weir; fwd=stale; ttl=-2")
			if r = s.get("/b"); r.status != 503 {
				t.Errorf("without a window the status is %d; want 503", r.status)
			}
			r = s.get("/a", "Cache-Control", "no-cache")
			r.want(t, 200, "1") // a stale response is better than none
			time.Sleep(time.Hour)
			if got := s.handler.Stats(); got.Shed != 2 || got.Refused != 1 {
				t.Errorf("Shed = %d, Refused = %d; want 2, 1", got.Shed, got.Refused)
			}
		})
	})
}

func TestH11_RefreshAheadOfHotKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &source{control: "max-age=100", takes: slow}
		s := open(t, h1, weirhttp.Options{RefreshAhead: 0.5, RefreshHits: 3}, o.ServeHTTP)
		for i := range 40 {
			s.get(fmt.Sprint("/hot", i))
			s.get(fmt.Sprint("/cold", i))
		}
		time.Sleep(30 * time.Second)
		for i := range 40 {
			s.get(fmt.Sprint("/hot", i))
			s.get(fmt.Sprint("/hot", i))
		}
		s.wantCalls(80) // not yet due
		due := map[int64]bool{}
		for range 30 {
			time.Sleep(time.Second)
			before := s.calls.Load()
			for i := range 40 {
				if r := s.get(fmt.Sprint("/hot", i)); r.took != 0 {
					t.Fatalf("a hit waited %v for a refresh", r.took)
				}
			}
			if n := s.calls.Load() - before; n > 0 {
				due[n] = true
				if n > 30 {
					t.Errorf("%d refreshes were due at the same time", n)
				}
			}
		}
		synctest.Wait()
		if got := s.handler.Stats().Refreshes; got != 40 || len(due) == 0 {
			t.Errorf("Refreshes = %d; want 40, one for each hot key", got)
		}
	})
}

func TestH11_OneRefreshForManyStaleHits(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			o := &source{control: "max-age=10, stale-while-revalidate=60", takes: slow}
			s := open(t, p, weirhttp.Options{}, o.ServeHTTP)
			s.get("/a")
			time.Sleep(11 * time.Second)
			for _, r := range s.together(50, s.same("/a")) {
				r.want(t, 200, "1")
				if r.took != 0 {
					t.Errorf("a stale hit waited %v", r.took)
				}
			}
			time.Sleep(slow)
			synctest.Wait()
			s.wantCalls(2)
			s.get("/a").want(t, 200, "2")
		})
	})
}

func TestH11_OfflineIsForAnOriginOutOfReachOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			if down {
				_, err := (&http.Transport{DialContext: refusing}).RoundTrip(r)
				return nil, err
			}
			return plain(r, 200, "v", "Cache-Control", "max-age=1"), nil
		})
		tr, err := weirhttp.NewTransport(base, weirhttp.Options{Policy: weirhttp.Policy{StaleOffline: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{Transport: tr}
		fetch(t, c, "http://a/x")
		down = true
		time.Sleep(time.Minute)
		if got, err := fetch(t, c, "http://a/x"); got != "v" || err != nil {
			t.Errorf("with the origin unreachable: %q, %v; want v", got, err)
		}
	})
}

// A refresh is the cache's own request: what one client says about stored responses does
// not go to a cache upstream, which would answer only-if-cached with 504, and max-stale
// with a stale response for all clients. A field that selects the response stays.
func TestH11_ARefreshHasNoDirectivesOfAClient(t *testing.T) {
	for _, vary := range []bool{false, true} {
		for _, fields := range [][]string{
			{"Cache-Control", "only-if-cached"},
			{"Cache-Control", "max-stale=1"},
			{"Cache-Control", "max-age=9999", "Pragma", "x"},
		} {
			synctest.Test(t, func(t *testing.T) {
				var seen http.Header
				n := 0
				s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
					n++
					seen = r.Header.Clone()
					w.Header().Set("Cache-Control", "max-age=10, stale-while-revalidate=600")
					if vary {
						w.Header().Set("Vary", "Cache-Control, Pragma")
					}
					_, _ = fmt.Fprint(w, n)
				})
				first := fields
				if fields[1] == "only-if-cached" { // which cannot be the first
					if vary {
						return
					}
					first = nil
				}
				s.get("/a", first...).want(t, 200, "1")
				time.Sleep(20 * time.Second)
				s.get("/a", fields...).want(t, 200, "1") // stale
				synctest.Wait()
				s.get("/a", fields...)
				synctest.Wait()
				for i := 0; i < len(fields); i += 2 {
					if got := seen.Get(fields[i]); vary && got != fields[i+1] || !vary && got != "" {
						t.Errorf("vary %v: the refresh has %s: %q; the client's was %q", vary, fields[i], got, fields[i+1])
					}
				}
				s.get("/a", fields...).want(t, 200, "2")
				s.wantCalls(2)
			})
		}
	}
}

func TestH12_PurgeAndSoftPurge(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			cache, _ := weirhttp.NewCache(16 << 20)
			o := &source{control: "max-age=600, stale-if-error=600"}
			s := open(t, p, weirhttp.Options{Cache: cache}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Surrogate-Key", "all k"+r.URL.Path[1:])
				o.ServeHTTP(w, r)
			})
			s.get("/a").want(t, 200, "1")
			s.get("/b").want(t, 200, "2")
			_ = cache.InvalidateTags(t.Context(), "ka")
			s.get("/b").want(t, 200, "2")
			s.get("/a").want(t, 200, "3")
			if n, err := cache.Expire(t.Context(), "http", "shop.example", "/b"); err != nil || n != 1 {
				t.Errorf("Expire = %d; want 1", n)
			}
			o.status = 503
			s.get("/b").want(t, 200, "2") // its window is kept
			o.status = 0
			s.get("/b").want(t, 200, "4")
			_ = cache.ExpireTags(t.Context(), "all")
			s.get("/a").want(t, 200, "5")
			_, _ = cache.Invalidate(t.Context(), "http", "shop.example", "/a")
			o.status = 503
			s.get("/a").want(t, 503, "") // nothing is left to serve
		})
	})
}

func TestH11_StopRefreshingEndsWhatRunsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		first := true
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			if !first {
				<-r.Context().Done()
				cause = context.Cause(r.Context())
				return
			}
			first = false
			w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=60")
		})
		s.get("/a")
		time.Sleep(5 * time.Second)
		s.get("/a").want(t, 200, "") // stale, with a refresh behind it
		synctest.Wait()
		s.wantCalls(2)
		if err := s.handler.Drain(t.Context()); err != nil || cause != weirhttp.ErrClosed {
			t.Errorf("Drain = %v, and the call ended with %v; want nil, ErrClosed", err, cause)
		}
		time.Sleep(5 * time.Second)
		s.get("/a").want(t, 200, "")
		synctest.Wait()
		s.wantCalls(2) // none was started
	})
}
