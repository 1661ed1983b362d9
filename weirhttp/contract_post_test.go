package weirhttp_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// posts is an origin whose POST responds with its body as the representation of its
// URL, and whose GET responds with the number of the call.
func posts(fields ...string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		i := n.Add(1)
		time.Sleep(slow)
		w.Header().Set("Cache-Control", "max-age=60")
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(w, strconv.FormatInt(i, 10))
			return
		}
		w.Header().Set("Content-Location", r.URL.RequestURI())
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		_, _ = io.Copy(w, r.Body)
	}
}

func (s *site) post(target, body string, fields ...string) reply {
	s.t.Helper()
	r := s.request(s.t.Context(), http.MethodPost, target, fields...)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return s.do(r)
}

func TestH29_APostAnswersALaterGet(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, posts())
			s.get("/a?b=1").want(t, 200, "1")
			r := s.post("/a?b=1", "new")
			r.want(t, 200, "new")
			has(t, r, "Cache-Status", "fwd=method; fwd-status=200; ttl=60; stored")
			synctest.Wait()
			got := s.get("/a?b=1") // what was stored before is gone, and the new one is there
			got.want(t, 200, "new")
			has(t, got, "Cache-Status", "hit")
			s.do(s.request(t.Context(), http.MethodHead, "/a?b=1")).want(t, 200, "")
			s.get("/a?b=1", "Range", "bytes=1-").want(t, 206, "ew")
			s.wantCalls(2)
			s.post("/a?b=1", "newer").want(t, 200, "newer") // never answered from the store
			synctest.Wait()
			s.get("/a?b=1").want(t, 200, "newer")
			s.get("/a").want(t, 200, "4")
			s.wantCalls(4)
			time.Sleep(time.Minute)
			s.get("/a?b=1").want(t, 200, "5")
		})
	})
}

func TestH29_PostsThatAnswerNoGet(t *testing.T) {
	rows := []struct {
		name    string
		fields  []string // of the response
		request []string
		o       weirhttp.Options
	}{
		{"another location", []string{"Content-Location", "/b"}, nil, weirhttp.Options{}},
		{"no freshness", []string{"Cache-Control", "public"}, nil, weirhttp.Options{}},
		{"private", []string{"Cache-Control", "max-age=60, private"}, nil, weirhttp.Options{}},
		{"a cookie that is set", []string{"Set-Cookie", "a=b"}, nil, weirhttp.Options{}},
		{"Authorization", nil, []string{"Authorization", "Bearer x"}, weirhttp.Options{}},
		{"Cookie", nil, []string{"Cookie", "a=b"}, weirhttp.Options{}},
		{"a cookie that a GET would lose", nil, []string{"Cookie", "a=b"}, weirhttp.Options{Policy: weirhttp.Policy{IgnoreCookies: []string{"*"}}}},
		{"a field that a GET would lose", nil, []string{"X-User", "ada"}, weirhttp.Options{Policy: weirhttp.Policy{IgnoreHeaders: []string{"X-User"}}}},
		{"a method in a field", nil, []string{"X-Http-Method-Override", "DELETE"}, weirhttp.Options{}},
		{"a condition", nil, []string{"If-Match", `"1"`}, weirhttp.Options{}},
		{"no-store of the client", nil, []string{"Cache-Control", "no-store"}, weirhttp.Options{}},
		{"storing is off", nil, nil, weirhttp.Options{NoStore: true}},
		{"an event stream", []string{"Content-Type", "text/event-stream"}, nil, weirhttp.Options{}},
		{"too big", nil, nil, weirhttp.Options{MaxObject: 2}},
		{"a short body", []string{"Content-Length", "9"}, nil, weirhttp.Options{}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, _ := weirhttp.NewCache(1 << 20)
				o := row.o
				o.Cache = cache
				s := open(t, h1, o, posts(row.fields...))
				s.get("/a")
				before := s.calls.Load()
				s.post("/a", "new", row.request...)
				synctest.Wait()
				if got := s.get("/a"); got.body != strconv.FormatInt(before+2, 10) {
					t.Errorf("the GET after the POST got %d %q; want its own call", got.status, got.body)
				}
				s.wantCalls(before + 2)
				if n := cache.Stats().Reserved; n != 0 {
					t.Errorf("%d bytes are still reserved", n)
				}
			})
		})
	}
}

// Requests with other credentials, languages and so on do not get the response.
func TestH29_APostKeepsToVaryAndCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, posts("Vary", "Accept-Language", "Cache-Control", "max-age=60, s-maxage=60"))
		s.post("/a", "Ada's", "Accept-Language", "en", "Authorization", "ada").want(t, 200, "Ada's")
		synctest.Wait()
		s.get("/a", "Accept-Language", "EN").want(t, 200, "Ada's") // s-maxage allows it
		s.get("/a", "Accept-Language", "de").want(t, 200, "2")
		s.wantCalls(2)
	})
}

// That also holds if the next handler changes the fields of its request.
func TestH29_APostIsStoredByTheFieldsThatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := posts("Vary", "X-Api-Key")
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("X-Api-Key")
			answer(w, r)
		})
		s.post("/a", "Ada's", "X-Api-Key", "ada").want(t, 200, "Ada's")
		synctest.Wait()
		s.get("/a", "X-Api-Key", "ada").want(t, 200, "Ada's")
		s.get("/a").want(t, 200, "2")
	})
}

// An invalidation while the POST runs voids its right to store; so does an error
// response void nothing.
func TestH29_APostInvalidatesFirst(t *testing.T) {
	purges := map[string]func(t *testing.T, s *site, c *weirhttp.Cache){
		"by URL": func(t *testing.T, _ *site, c *weirhttp.Cache) {
			_, _ = c.Invalidate(t.Context(), "http", "shop.example", "/a")
		},
		"by tag":  func(t *testing.T, _ *site, c *weirhttp.Cache) { _ = c.InvalidateTags(t.Context(), "t") },
		"all":     func(t *testing.T, _ *site, c *weirhttp.Cache) { _ = c.InvalidateAll(t.Context()) },
		"by PUT":  func(t *testing.T, s *site, _ *weirhttp.Cache) { s.do(s.request(t.Context(), http.MethodPut, "/a")) },
		"by POST": func(t *testing.T, s *site, _ *weirhttp.Cache) { s.post("/a", "other", "Cache-Control", "no-store") },
	}
	for name, purge := range purges {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, _ := weirhttp.NewCache(1 << 20)
				var first atomic.Bool
				origin := posts("Surrogate-Key", "t")
				s := open(t, h1, weirhttp.Options{Cache: cache}, func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost && first.CompareAndSwap(false, true) {
						time.Sleep(2 * slow) // the first POST is slower than all that comes in between
					}
					origin(w, r)
				})
				done := make(chan reply)
				go func() { done <- s.post("/a", "mine") }()
				time.Sleep(slow / 2)
				purge(t, s, cache)
				(<-done).want(t, 200, "mine")
				synctest.Wait()
				if r := s.get("/a"); r.body == "mine" {
					t.Errorf("a POST stored its response although the URL was invalidated while it ran")
				}
			})
		})
	}
	t.Run("a GET before it", func(t *testing.T) { // its response is older than the POST
		synctest.Test(t, func(t *testing.T) {
			origin := posts()
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					time.Sleep(2 * slow)
				}
				origin(w, r)
			})
			done := make(chan reply)
			go func() { done <- s.get("/a") }()
			time.Sleep(slow / 2)
			s.post("/a", "new").want(t, 200, "new")
			(<-done).want(t, 200, "2")
			synctest.Wait()
			s.get("/a").want(t, 200, "new")
		})
	})
	t.Run("an error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				w.Header().Set("Content-Location", "/a")
				if r.Method == http.MethodPost {
					w.WriteHeader(http.StatusConflict)
				}
				_, _ = io.WriteString(w, r.Method)
			})
			s.get("/a").want(t, 200, "GET")
			s.post("/a", "x").want(t, 409, "POST")
			s.get("/a").want(t, 200, "GET")
			s.wantCalls(2)
		})
	})
}

// Code around the Handler sets fields for its client only.
func TestH29_APostStoresOnlyTheOriginsFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t}
		h, err := weirhttp.New(posts("X-Origin", "1", "Keep-Alive", "x", "Connection", "X-Hop", "X-Hop", "1"), weirhttp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		s.client = dialled(t, h1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			w.Header().Set("X-Request-Id", strconv.Itoa(n))
			h.ServeHTTP(w, r)
		}))
		s.post("/a", "new").want(t, 200, "new")
		synctest.Wait()
		r := s.get("/a")
		r.want(t, 200, "new")
		if id := r.header["X-Request-Id"]; len(id) != 1 || id[0] != "2" || r.header.Get("X-Origin") != "1" || r.header.Get("X-Hop") != "" {
			t.Errorf("the fields of the hit are %v; want X-Origin, the hit's own X-Request-Id 2, and no X-Hop", r.header)
		}
	})
}

func TestH29_APostInAFleetIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, posts())
		e.sites[1].get("/a").want(t, 200, "1")
		e.sites[0].post("/a", "new").want(t, 200, "new")
		synctest.Wait()
		for _, s := range e.sites {
			s.get("/a").want(t, 200, "3")
			synctest.Wait()
		}
		e.wantCalls(3)
	})
}
