package weirhttp_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

func TestH10_FreshThenValidated(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				w.Header().Set("Etag", `"1"`)
				if r.Header.Get("If-None-Match") == `"1"` {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				_, _ = io.WriteString(w, "hello")
			})
			r := s.get("/a")
			r.want(t, 200, "hello")
			has(t, r, "Cache-Status", "weir; fwd=uri-miss; fwd-status=200; ttl=60; stored")
			time.Sleep(30 * time.Second)
			r = s.get("/a")
			r.want(t, 200, "hello")
			has(t, r, "Cache-Status", "weir; hit; ttl=30")
			has(t, r, "Age", "30")
			s.wantCalls(1)
			time.Sleep(31 * time.Second)
			r = s.get("/a")
			r.want(t, 200, "hello")
			has(t, r, "Cache-Status", "weir; fwd=stale; fwd-status=304")
			s.wantCalls(2)
			s.get("/a").want(t, 200, "hello")
			s.wantCalls(2)
			s.get("/a", "If-None-Match", `"1"`).want(t, 304, "")
			s.get("/a", "Range", "bytes=1-2").want(t, 206, "el")
			s.do(s.request(t.Context(), "HEAD", "/a")).want(t, 200, "")
			s.wantCalls(2)
		})
	})
}

func TestH10_UnsafeMethodsInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, answering(0, "Cache-Control", "max-age=60"))
		s.get("/a")
		s.get("/a")
		s.wantCalls(1)
		s.do(s.request(t.Context(), "POST", "/a")).want(t, 200, "/a")
		s.get("/a")
		s.wantCalls(3)
	})
}

func TestH11_TheLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := false
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			if fail {
				w.WriteHeader(503)
				return
			}
			w.Header().Set("Cache-Control", "max-age=10, stale-while-revalidate=10, stale-if-error=60")
			_, _ = io.WriteString(w, "v")
		})
		s.get("/a")
		time.Sleep(15 * time.Second)
		r := s.get("/a")
		r.want(t, 200, "v")
		has(t, r, "Cache-Status", "hit; ttl=-5")
		synctest.Wait()
		s.wantCalls(2) // revalidated in the background
		has(t, s.get("/a"), "Cache-Status", "hit; ttl=10")
		fail = true
		time.Sleep(25 * time.Second)
		r = s.get("/a")
		r.want(t, 200, "v")
		has(t, r, "Cache-Status", "fwd=stale; fwd-status=503; ttl=-15")
		time.Sleep(60 * time.Second)
		s.get("/a").want(t, 503, "")
	})
}

func TestH10_WhatConnectionNamesDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Vary", "Accept-Language")
			_, _ = io.WriteString(w, "in "+r.Header.Get("Accept-Language"))
		})
		s.get("/a", "Accept-Language", "de", "Connection", "accept-language, keep-alive").want(t, 200, "in ")
		s.get("/a", "Accept-Language", "de").want(t, 200, "in de")
		s.get("/a").want(t, 200, "in ")
		s.wantCalls(2)
	})
}

// A client that has a complete short response finds it stored, its call ended, and
// its permit released, even if the release takes a while. The next request is a hit,
// and is admitted.
func TestAShortAnswerIsStoredBeforeAnybodyHasIt(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		for _, row := range []struct {
			name   string
			length bool     // the handler declares the length
			fields []string // of the request
		}{{"short", false, nil}, {"with its length", true, nil}, {"evaluated whole", false, []string{"If-None-Match", `"other"`}}} {
			synctest.Test(t, func(t *testing.T) {
				var taken atomic.Int64
				l := limiterFunc(func(context.Context) (limit.Permit, error) {
					taken.Add(1)
					return limit.NewPermit(func(limit.Outcome) {
						time.Sleep(time.Second)
						taken.Add(-1)
					}), nil
				})
				s := open(t, p, weirhttp.Options{Limiter: l}, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Cache-Control", "max-age=60")
					if row.length {
						w.Header().Set("Content-Length", "2")
					}
					_, _ = io.WriteString(w, "ok")
				})
				s.get("/a", row.fields...).want(t, 200, "ok")
				if n := taken.Load(); n != 0 {
					t.Errorf("%s: %d permits are taken after the response; want none", row.name, n)
				}
				if st := s.handler.Stats(); st.InFlight != 0 || st.Flights != 0 {
					t.Errorf("%s: Stats = %+v after the response; want nothing in flight", row.name, st)
				}
				has(t, s.get("/a"), "Cache-Status", "; hit")
			})
		}
	})
}

// A limiterFunc is a function that implements Limiter.
type limiterFunc func(ctx context.Context) (limit.Permit, error)

func (f limiterFunc) Acquire(ctx context.Context) (limit.Permit, error) { return f(ctx) }
