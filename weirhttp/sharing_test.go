package weirhttp_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

const slow = 400 * time.Millisecond

func TestH1_WhoMayNotShareIsReleasedAtOnceAndTogether(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, answering(slow, "Cache-Control", "no-store"))
			for i, r := range s.together(20, s.same("/a")) {
				r.want(t, 200, "/a")
				if r.took > 2*slow {
					t.Errorf("client %d waited %v; want at most %v", i, r.took, 2*slow)
				}
			}
			s.wantCalls(20)
			for _, r := range s.together(20, s.same("/a")) { // H7: learned
				if r.took != slow {
					t.Errorf("in the second wave a client waited %v; want %v", r.took, slow)
				}
			}
		})
	})
}

func TestH1_WhoIsReleasedGoesThroughAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		five, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, h1, weirhttp.Options{Limiter: five}, answering(slow, "Cache-Control", "private"))
		s.together(21, s.same("/a"))
		if got := s.peak.Load(); got != 5 {
			t.Errorf("%d calls at once; want 5", got)
		}
		s.wantCalls(21)
	})
}

func TestH2_WhatSatisfiesWhoWaits(t *testing.T) {
	rows := []struct {
		name   string
		fields []string
		calls  int64
	}{
		{"explicit freshness", []string{"Cache-Control", "max-age=60"}, 1},
		{"no freshness, alike", nil, 1},
		{"no-store", []string{"Cache-Control", "no-store"}, 10},
		{"private", []string{"Cache-Control", "private, max-age=60"}, 10},
		{"no-cache", []string{"Cache-Control", "no-cache"}, 10},
		{"set-cookie", []string{"Cache-Control", "max-age=60", "Set-Cookie", "a=b"}, 10},
		{"vary star", []string{"Cache-Control", "max-age=60", "Vary", "*"}, 10},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{}, answering(slow, row.fields...))
				for _, r := range s.together(10, s.same("/a")) {
					r.want(t, 200, "/a")
				}
				s.wantCalls(row.calls)
			})
		})
	}
}

func TestH3_NobodyGetsAnothersAnswer(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Cache-Control", "max-age=60")
				_, _ = io.WriteString(w, r.Header.Get("Authorization"))
			})
			users := []string{"a", "b", "c", "d", "e"}
			replies := s.together(len(users), func(i int) *http.Request {
				return s.request(t.Context(), "GET", "/me", "Authorization", users[i])
			})
			for i, r := range replies {
				r.want(t, 200, users[i])
				if r.took != slow {
					t.Errorf("%s waited %v; want %v, straight to admission", users[i], r.took, slow)
				}
			}
			s.get("/me").want(t, 200, "")
		})
	})
}

func TestH6_TheLeaderLeaves(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, answering(slow, "Cache-Control", "max-age=60"))
			ctx, hangUp := context.WithCancel(t.Context())
			go s.do(s.request(ctx, "GET", "/a"))
			time.Sleep(100 * time.Millisecond)
			go func() {
				time.Sleep(100 * time.Millisecond)
				hangUp()
			}()
			for _, r := range s.together(10, s.same("/a")) {
				r.want(t, 200, "/a")
				if r.took != slow-100*time.Millisecond {
					t.Errorf("a follower waited %v; want %v", r.took, slow-100*time.Millisecond)
				}
			}
			s.wantCalls(1)
		})
	})
}

func TestH6_TheLastOneOutCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		s := open(t, h1, weirhttp.Options{}, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			cause = context.Cause(r.Context())
		})
		ctx, hangUp := context.WithTimeout(t.Context(), slow)
		defer hangUp()
		s.do(s.request(ctx, "GET", "/a"))
		synctest.Wait()
		if cause != weirhttp.ErrAbandoned {
			t.Errorf("the call ended with %v; want ErrAbandoned", cause)
		}
	})
}

func TestH5_ABrokenAnswerIsBrokenForAll(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				_, _ = io.WriteString(w, "the first half")
				w.(http.Flusher).Flush()
				time.Sleep(slow)
				panic(http.ErrAbortHandler)
			})
			for _, r := range s.together(10, s.same("/a")) {
				if r.err == nil {
					t.Errorf("a broken response was delivered as complete: %q", r.body)
				}
			}
			s.wantCalls(1)
			s.get("/a")
			s.wantCalls(2) // nothing was stored
		})
	})
}

func TestH4_FollowersStream(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				for range 5 {
					time.Sleep(slow)
					_, _ = io.WriteString(w, "x")
					w.(http.Flusher).Flush()
				}
			})
			first := make(chan time.Duration, 20)
			for i := range 20 {
				go func() {
					time.Sleep(time.Duration(i) * 50 * time.Millisecond) // some come after the headers
					resp, err := s.client.Do(s.request(t.Context(), "GET", "/a"))
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					began := time.Now()
					b := make([]byte, 1)
					_, _ = io.ReadFull(resp.Body, b)
					first <- time.Since(began)
					if rest, err := io.ReadAll(resp.Body); string(rest) != "xxxx" || err != nil {
						t.Errorf("the rest = %q, %v; want xxxx", rest, err)
					}
				}()
			}
			for range 20 {
				if d := <-first; d > 0 {
					t.Errorf("the first byte came %v after the headers", d)
				}
			}
			time.Sleep(5 * slow)
			s.wantCalls(1)
			s.get("/a").want(t, 200, "xxxxx")
			s.wantCalls(1)
		})
	})
}
