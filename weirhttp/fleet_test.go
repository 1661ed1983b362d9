package weirhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/weirhttp"
)

func TestFleetOneCallForAColdKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 8, nil, answering(200*time.Millisecond, "Cache-Control", "max-age=60"))
		for k, replies := range e.everywhere(64, everybody("/cold")) {
			for _, r := range replies {
				r.want(t, 200, "/cold")
				if r.took != 200*time.Millisecond {
					t.Errorf("instance %d responded after %v; want 200ms", k, r.took)
				}
			}
		}
		e.wantCalls(1)
		fetched := 0
		for _, s := range e.sites {
			if n := s.calls.Load(); n == 1 {
				fetched++
				continue
			}
			if st := s.handler.Stats(); st.Fleet != 64 || st.FleetStale != 0 || st.Hits != 64 || st.Failed != 0 {
				t.Errorf("Stats = %+v; want Fleet and Hits 64", st)
			}
		}
		synctest.Wait()
		for _, l := range e.lines {
			if n := l.Commands(); n > 5 { // including the tags that are read once, and the watch
				t.Errorf("an instance sent %d commands; want at most 5", n)
			}
		}
		if fetched != 1 {
			t.Errorf("%d instances called the origin; want 1", fetched)
		}
	})
}

func TestFleetAnswersAsTheStoreDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, answering(0, "Cache-Control", "max-age=60", "Age", "10", "X-Two", "b", "X-Two", "a", "Etag", `"1"`))
		a, b := e.sites[0], e.sites[1]
		a.get("/x").want(t, 200, "/x")
		time.Sleep(5 * time.Second)
		r := b.get("/x")
		r.want(t, 200, "/x")
		has(t, r, "Cache-Status", "weir; hit; ttl=45; detail=fleet")
		has(t, r, "Age", "15")
		has(t, r, "X-Two", "b, a")
		time.Sleep(2 * time.Second)
		r = b.get("/x") // now it is stored here
		has(t, r, "Cache-Status", "weir; hit; ttl=43")
		has(t, r, "Age", "17")
		if got := r.header.Get("Cache-Status"); got != "weir; hit; ttl=43" {
			t.Errorf("Cache-Status = %q; want no detail", got)
		}
		b.get("/x", "If-None-Match", `"1"`).want(t, 304, "")
		b.get("/x", "Range", "bytes=1-1").want(t, 206, "x")
		time.Sleep(43 * time.Second)
		a.get("/x").want(t, 200, "/x") // by now it is stale in all instances
		b.get("/x").want(t, 200, "/x")
		e.wantCalls(2)
	})
}

func TestFleetHolderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
			answering(0, "Cache-Control", "max-age=60")(w, r)
		})
		a, b := e.sites[0], e.sites[1]
		ctx, cancel := contextWithCancel(t)
		go a.do(a.request(ctx, http.MethodGet, "/x"))
		synctest.Wait()
		var r reply
		done := make(chan struct{})
		go func() { defer close(done); r = b.get("/x") }()
		time.Sleep(300 * time.Millisecond)
		cancel()
		<-done
		r.want(t, 200, "/x")
		if r.took != 1300*time.Millisecond { // 300 ms of waiting, and a call
			t.Errorf("got a response after %v; want 1.3s: the lease was not given up", r.took)
		}
		e.wantCalls(2)
	})
}

func TestFleetPrivateAnswersAreNobodyElses(t *testing.T) {
	for _, fields := range [][]string{
		{"Cache-Control", "private, max-age=60"},
		{"Cache-Control", "no-store"},
		{"Cache-Control", "max-age=60", "Set-Cookie", "a=b"},
		{"Cache-Control", "max-age=60", "Vary", "*"},
		{"Cache-Control", "max-age=60, no-cache", "Etag", `"1"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := openEnsemble(t, 4, nil, answering(time.Second, fields...))
			for _, replies := range e.everywhere(3, everybody("/me")) {
				for _, r := range replies {
					r.want(t, 200, "/me")
					if r.took > 2*time.Second {
						t.Errorf("%q: got a response after %v; want at most 2s: the other instances make their own calls at once", fields, r.took)
					}
				}
			}
			e.wantCalls(12)
			began := time.Now()
			e.everywhere(3, everybody("/me"))
			if took := time.Since(began); took != time.Second {
				t.Errorf("%q: the second wave took %v; want 1s: all instances have learned from the first", fields, took)
			}
		})
	}
}

func TestFleetCredentialsStayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, policy := range []weirhttp.Policy{{}, {Vary: []string{"Authorization", "Cookie"}}} {
			e := openEnsemble(t, 2, func(_ int, o *weirhttp.Options) { o.Policy = policy }, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				_, _ = w.Write([]byte(r.Header.Get("Authorization") + r.Header.Get("Cookie")))
			})
			for range 2 {
				for _, s := range e.sites {
					for _, user := range []string{"ada", "bob"} {
						s.get("/me", "Authorization", user).want(t, 200, user)
						s.get("/me", "Cookie", user).want(t, 200, user)
					}
				}
			}
			synctest.Wait()
			if n := e.tier.Len(); n != 0 {
				t.Errorf("Policy %+v: the tier holds %d keys; want none", policy, n)
			}
			for _, s := range e.sites {
				if st := s.handler.Stats(); st.Fleet != 0 {
					t.Errorf("Fleet = %d; want 0", st.Fleet)
				}
			}
		}
	})
}

func TestFleetPublicIsForThoseWithCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, answering(0, "Cache-Control", "public, max-age=60"))
		a, b := e.sites[0], e.sites[1]
		a.get("/x").want(t, 200, "/x")
		b.get("/x").want(t, 200, "/x")
		for range 2 { // from the response, b knows that they may join
			b.get("/x", "Authorization", "ada").want(t, 200, "/x")
		}
		e.wantCalls(1)
	})
}

func TestFleetVary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 4, nil, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Cache-Control", "max-age=600")
			w.Header().Set("Vary", "Accept-Language")
			_, _ = w.Write([]byte(r.Header.Get("Accept-Language")))
		})
		languages := []string{"de", "en", "fr"}
		for range 2 {
			for _, replies := range e.everywhere(6, func(s *site, i int) *http.Request {
				return s.request(t.Context(), http.MethodGet, "/x", "Accept-Language", languages[i%3])
			}) {
				for i, r := range replies {
					r.want(t, 200, languages[i%3])
					if r.took > 3*time.Second {
						t.Errorf("got a response after %v; want at most 3s", r.took)
					}
				}
			}
			e.wantCalls(3)
		}
		e.sites[2].get("/x", "Accept-Language", "es").want(t, 200, "es")
		e.sites[3].get("/x", "Accept-Language", "es").want(t, 200, "es")
		e.wantCalls(4)
	})
}

func TestFleetVaryThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=600")
			w.Header().Set("Vary", "Accept-Language")
			if r.Header.Get("Accept-Language") == "de" {
				w.Header().Add("Vary", "X-Region")
			}
			_, _ = w.Write([]byte(r.Header.Get("Accept-Language") + r.Header.Get("X-Region")))
		})
		for range 3 {
			for _, language := range []string{"en", "de"} {
				for _, region := range []string{"a", "b"} {
					for _, s := range e.sites {
						r := s.get("/x", "Accept-Language", language, "X-Region", region)
						if r.body != language+region && (language == "de" || !strings.HasPrefix(r.body, language)) {
							t.Errorf("%s, %s = %q; want the response for these values", language, region, r.body)
						}
						synctest.Wait()
					}
				}
			}
		}
		before := e.calls()
		for _, s := range e.sites {
			for _, region := range []string{"a", "b"} {
				s.get("/x", "Accept-Language", "de", "X-Region", region).want(t, 200, "de"+region)
			}
		}
		e.wantCalls(before)
		if before > 9 {
			t.Errorf("the origin was called %d times; want at most 9", before)
		}
	})
}

func TestFleetPurgeOnOneIsSeenOnAll(t *testing.T) {
	for name, purge := range map[string]func(*testing.T, *weirhttp.Cache, *site){
		"url": func(t *testing.T, c *weirhttp.Cache, _ *site) {
			if n, err := c.Invalidate(t.Context(), "http", "shop.example", "/x"); n != 1 || err != nil {
				t.Errorf("Invalidate = %d, %v; want 1, nil", n, err)
			}
		},
		"soft": func(t *testing.T, c *weirhttp.Cache, _ *site) {
			_, _ = c.Expire(t.Context(), "http", "shop.example", "/x")
		},
		"tag": func(t *testing.T, c *weirhttp.Cache, _ *site) {
			if err := c.InvalidateTags(t.Context(), "other", "t"); err != nil {
				t.Errorf("InvalidateTags: %v", err)
			}
		},
		"all": func(t *testing.T, c *weirhttp.Cache, _ *site) {
			if err := c.InvalidateAll(t.Context()); err != nil {
				t.Errorf("InvalidateAll: %v", err)
			}
		},
		"tag expired": func(t *testing.T, c *weirhttp.Cache, _ *site) {
			if err := c.ExpireTags(t.Context(), "other", "t"); err != nil {
				t.Errorf("ExpireTags: %v", err)
			}
		},
		"all expired": func(t *testing.T, c *weirhttp.Cache, _ *site) {
			if err := c.ExpireAll(t.Context()); err != nil {
				t.Errorf("ExpireAll: %v", err)
			}
		},
		"post": func(t *testing.T, _ *weirhttp.Cache, s *site) {
			s.do(s.request(t.Context(), http.MethodPost, "/x"))
		},
	} {
		for _, vary := range []string{"", "Accept-Language"} {
			synctest.Test(t, func(t *testing.T) {
				cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
				if err != nil {
					t.Fatal(err)
				}
				e := openEnsemble(t, 3, func(i int, o *weirhttp.Options) {
					if i == 0 {
						o.Cache = cache
					}
				}, counting(0, "Cache-Control", "max-age=600", "Surrogate-Key", "t", "Vary", vary))
				call := func(i int) string { return e.sites[i].get("/x").header.Get("X-Call") }
				for i := range 2 {
					if got := call(i); got != "1" {
						t.Errorf("%s: instance %d has call %s; want 1", name, i, got)
					}
				}
				purge(t, cache, e.sites[0])
				want := "2"
				if name == "post" {
					want = "3"
				}
				if got := call(0); got != want {
					t.Errorf("%s %q: after the purge, instance 0 has call %s; want %s", name, vary, got, want)
				}
				synctest.Wait() // the push has arrived
				for i := range 3 {
					if got := call(i); got != want {
						t.Errorf("%s %q: after the purge, instance %d has call %s; want %s", name, vary, i, got, want)
					}
				}
			})
		}
	}
}

// T8: a response that one instance has expired replaces errors of the origin on all.
func TestT8_ExpiredResponsesStandInOnAll(t *testing.T) {
	for name, expire := range map[string]func(context.Context, *weirhttp.Cache) error{
		"url": func(ctx context.Context, c *weirhttp.Cache) error {
			_, err := c.Expire(ctx, "http", "shop.example", "/x")
			return err
		},
		"tag": func(ctx context.Context, c *weirhttp.Cache) error { return c.ExpireTags(ctx, "t") },
		"all": func(ctx context.Context, c *weirhttp.Cache) error { return c.ExpireAll(ctx) },
	} {
		synctest.Test(t, func(t *testing.T) {
			cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
			if err != nil {
				t.Fatal(err)
			}
			var down atomic.Bool
			e := openEnsemble(t, 3, func(i int, o *weirhttp.Options) {
				if i == 0 {
					o.Cache = cache
				}
			}, func(w http.ResponseWriter, _ *http.Request) {
				if down.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				w.Header().Set("Cache-Control", "max-age=600, stale-if-error=60")
				w.Header().Set("Surrogate-Key", "t")
				_, _ = io.WriteString(w, "old")
			})
			for i := range 2 {
				e.sites[i].get("/x").want(t, 200, "old")
			}
			down.Store(true)
			if err := expire(t.Context(), cache); err != nil {
				t.Errorf("%s: %v; want nil", name, err)
			}
			synctest.Wait()
			for i := range 3 { // the third has it only from the Tier
				e.sites[i].get("/x").want(t, 200, "old")
			}
			time.Sleep(2 * time.Minute)
			if r := e.sites[2].get("/x"); r.status != 503 && name != "all" {
				t.Errorf("%s: %d after the window; want 503", name, r.status)
			}
		})
	}
}

// While a new configuration is rolled out, instances may differ. An instance applies
// its own policy to responses that another has stored.
func TestFleetOfDifferentPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 3, func(i int, o *weirhttp.Options) {
			switch i {
			case 1:
				o.Policy.Vary = []string{"X-Tenant"}
			case 2:
				o.Policy.TTL = 10 * time.Second
			}
		}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=600")
			_, _ = w.Write([]byte(r.Header.Get("X-Tenant")))
		})
		e.sites[0].get("/x", "X-Tenant", "a").want(t, 200, "a")
		synctest.Wait()
		for range 2 {
			e.sites[1].get("/x", "X-Tenant", "b").want(t, 200, "b")
			e.sites[1].get("/x", "X-Tenant", "c").want(t, 200, "c")
		}
		has(t, e.sites[2].get("/x", "X-Tenant", "a"), "Cache-Status", "ttl=10")
	})
}

// A Tier that others can write to cannot introduce responses that may not be stored.
func TestFleetTrustsNoEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, fields := range map[string]http.Header{
			"set-cookie": {"Cache-Control": {"max-age=600"}, "Set-Cookie": {"user=ada"}},
			"private":    {"Cache-Control": {"max-age=600, private"}},
			"unproven":   {},
			"varies":     {"Cache-Control": {"max-age=600"}, "Vary": {"Accept"}},
		} {
			e := openEnsemble(t, 1, nil, answering(0, "Cache-Control", "max-age=600"))
			for _, target := range []string{"/x", "/other"} { // the second name is that of another key
				w := responses.Wire{Key: responses.Key{Scheme: "http", Host: "shop.example", Target: "/x"}, Status: 200, Header: fields, Body: []byte("poison")}
				if target == "/other" {
					w.Header = http.Header{"Cache-Control": {"max-age=600"}}
				}
				data, err := w.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				v := fleet.Value{TTL: time.Hour, Codec: "http/1", Data: data}
				if data, err = v.AppendBinary(nil); err != nil {
					t.Fatal(err)
				}
				key := fleet.Key{Namespace: "http", Name: "u4:http12:shop.example" + target}
				if _, err := e.tier.Write(t.Context(), key, fleet.Write{Entry: &fleet.Entry{Data: data, Fresh: time.Hour, Keep: time.Hour}}); err != nil {
					t.Fatal(err)
				}
				if got := e.sites[0].get(target); got.body != target {
					t.Errorf("%s: %s = %q; want the origin's response", name, target, got.body)
				}
			}
		}
	})
}

func TestFleetSharedAnswersAreJudgedForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Cache-Control", "max-age=600")
			w.Header().Set("Vary", "Accept")
			_, _ = w.Write([]byte(r.Header.Get("Accept")))
		})
		go e.sites[0].get("/x", "Accept", "a")
		synctest.Wait()
		// They wait together for the other instance's call.
		for i, r := range e.sites[1].together(4, func(i int) *http.Request {
			return e.sites[1].request(t.Context(), http.MethodGet, "/x", "Accept", string(rune('a'+i%2)))
		}) {
			r.want(t, 200, string(rune('a'+i%2)))
		}
		e.wantCalls(2)
	})
}
