package weirhttp_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A library is a site whose origin answers reads with the number of the call and the
// body that it got.
func library(t *testing.T, o weirhttp.Options, origin http.HandlerFunc) (*site, func(body string, fields ...string) reply) {
	t.Helper()
	if origin == nil {
		origin = parrot(0, "Cache-Control", "max-age=10, stale-while-revalidate=10, stale-if-error=100", "Etag", `"1"`)
	}
	s := open(t, h1, o, origin)
	t.Cleanup(func() {
		if err := s.handler.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if held := s.handler.HeldBodies(); held != 0 {
			t.Errorf("%d bytes of bodies are held after the last request", held)
		}
	})
	return s, func(body string, fields ...string) reply { return s.do(s.reading(body, fields...)) }
}

// parrot is an origin that waits, and responds with the body that it got.
func parrot(after time.Duration, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		time.Sleep(after)
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, body)
	}
}

// reading returns a POST of a body with JSON.
func (s *site) reading(body string, fields ...string) *http.Request {
	r := s.request(s.t.Context(), http.MethodPost, "/search", fields...)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// H32: 1,000 requests at once with bodies of one meaning are one call.
func TestH32_Coalescing(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, reads(byJSON), parrot(time.Second))
			for _, r := range s.together(300, func(i int) *http.Request { return s.reading(fmt.Sprintf(`{"q":%d.%s}`, 1, strings.Repeat("0", 1+i%7))) }) {
				if r.status != 200 || !strings.HasPrefix(r.body, `POST {"q":1.0`) || r.took != time.Second {
					t.Fatalf("got %d %q after %v, %v", r.status, r.body, r.took, r.err)
				}
			}
			s.wantCalls(1)
			if held := s.handler.HeldBodies(); held != 0 {
				t.Errorf("%d bytes are held", held)
			}
		})
	})
}

// H32, H11: stored responses are refreshed ahead, and served stale while they are, with
// the body of the request that found them.
func TestH32_Refreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := reads(byJSON)
		o.RefreshAhead, o.RefreshHits = 0.5, 1
		s, post := library(t, o, parrot(time.Second, "Cache-Control", "max-age=10, stale-while-revalidate=10"))
		post(`{"q":1}`).want(t, 200, `POST {"q":1}`)
		time.Sleep(9 * time.Second)
		post(`{"q":1.0}`).want(t, 200, `POST {"q":1}`) // starts a refresh
		time.Sleep(2 * time.Second)
		s.wantCalls(2)
		post(`{"q":1}`).want(t, 200, `POST {"q":1.0}`)
		time.Sleep(12 * time.Second)
		post(`{"q":1e0}`).want(t, 200, `POST {"q":1.0}`) // stale
		time.Sleep(2 * time.Second)
		post(`{"q":1}`).want(t, 200, `POST {"q":1e0}`)
		s.wantCalls(3)
	})
}

// H32, H11: a stale response is served if the origin fails.
func TestH32_StaleIfError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := false
		ok := parrot(0, "Cache-Control", "max-age=10, stale-if-error=100")
		_, post := library(t, reads(byJSON), func(w http.ResponseWriter, r *http.Request) {
			if failing {
				w.WriteHeader(500)
				return
			}
			ok(w, r)
		})
		post(`{"q":1}`)
		time.Sleep(20 * time.Second)
		failing = true
		post(`{ "q":1 }`).want(t, 200, `POST {"q":1}`)
		if r := post(`{"q":2}`); r.status != 500 {
			t.Errorf("another body got %d %s; want 500", r.status, r.body)
		}
	})
}

// H32, H10: a stored response is validated with the whole request; if that fails, the
// body is sent once more.
func TestH32_Validation(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			s, post := library(t, reads(byJSON), func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = append(got, string(body))
				w.Header().Set("Cache-Control", "max-age=10")
				w.Header().Set("Etag", `"1"`)
				if r.Header.Get("If-None-Match") != "" {
					if wrong {
						w.Header().Set("Etag", `"2"`)
					}
					w.WriteHeader(http.StatusNotModified)
					return
				}
				_, _ = fmt.Fprintf(w, "call %d", len(got))
			})
			post(`{"q":1}`).want(t, 200, "call 1")
			time.Sleep(20 * time.Second)
			want, calls := "call 1", int64(2)
			if wrong {
				want, calls = "call 3", 3
			}
			post(`{"q":1.0}`).want(t, 200, want)
			post(`{"q":1}`).want(t, 200, want)
			s.wantCalls(calls)
			for i, body := range got[1:] {
				if body != `{"q":1.0}` {
					t.Errorf("call %d got %q", i+2, body)
				}
			}
		})
	}
}

// H32, H12: a purge of a URL reaches the responses to all bodies, and beats a call that
// is running; a purge by tag reaches those with the tag.
func TestH32_Purge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		o := reads(byJSON)
		o.Cache = cache
		s, post := library(t, o, parrot(time.Second, "Cache-Control", "max-age=60, stale-if-error=100", "Surrogate-Key", "products"))
		all := func() {
			post(`{"q":1}`).want(t, 200, `POST {"q":1}`)
			post(`{"q":2}`).want(t, 200, `POST {"q":2}`)
		}
		all()
		all()
		s.wantCalls(2)
		purge := func(what string, n int64, order func() error) {
			t.Helper()
			if err := order(); err != nil {
				t.Fatal(err)
			}
			before := s.calls.Load()
			all()
			if got := s.calls.Load() - before; got != n {
				t.Errorf("%d calls after %s; want %d", got, what, n)
			}
		}
		ctx := t.Context()
		purge("Invalidate", 2, func() error { _, err := cache.Invalidate(ctx, "http", "shop.example", "/search"); return err })
		purge("Expire", 2, func() error { _, err := cache.Expire(ctx, "http", "shop.example", "/search"); return err })
		purge("Invalidate of another URL", 0, func() error { _, err := cache.Invalidate(ctx, "http", "shop.example", "/searc"); return err })
		purge("InvalidateTags", 2, func() error { return cache.InvalidateTags(ctx, "products") })
		purge("another tag", 0, func() error { return cache.InvalidateTags(ctx, "product") })
		purge("InvalidateAll", 2, func() error { return cache.InvalidateAll(ctx) })

		// A call that began before a purge is neither stored nor joined.
		first := make(chan reply, 2)
		go func() { first <- post(`{"q":3}`) }()
		time.Sleep(100 * time.Millisecond)
		if _, err := cache.Invalidate(ctx, "http", "shop.example", "/search"); err != nil {
			t.Fatal(err)
		}
		before := s.calls.Load()
		post(`{"q":3}`).want(t, 200, `POST {"q":3}`)
		post(`{"q":3}`).want(t, 200, `POST {"q":3}`)
		(<-first).want(t, 200, `POST {"q":3}`)
		if got := s.calls.Load() - before; got != 1 {
			t.Errorf("%d calls after a purge during a call; want 1", got)
		}
	})
}

// A purge says how many responses to reads it removed or expired, and Explain does not
// count those that are gone.
func TestH32_APurgeCountsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		o := reads(byJSON)
		o.Cache = cache
		s, post := library(t, o, parrot(0, "Cache-Control", "max-age=60, stale-if-error=100"))
		read := func(n int) {
			for i := range n {
				post(fmt.Sprintf(`{"q":%d}`, i)).want(t, 200, fmt.Sprintf(`POST {"q":%d}`, i))
			}
		}
		purge := func(want int, order func(ctx context.Context, scheme, host, target string) (int, error)) {
			t.Helper()
			if n, err := order(t.Context(), "http", "shop.example", "/search"); err != nil || n != want {
				t.Errorf("a purge of %d responses returned %d, %v", want, n, err)
			}
		}
		explained := func(want int) {
			t.Helper()
			e := s.handler.Explain(s.reading(`{"q":"another"}`))
			if text := fmt.Sprintf("%+v", e); !strings.Contains(text, fmt.Sprintf("%d responses are stored", want)) {
				t.Errorf("Explain says %s; want that %d responses are stored", text, want)
			}
		}
		read(3)
		explained(3)
		purge(3, cache.Expire)
		purge(3, cache.Expire)
		purge(3, cache.Invalidate)
		purge(0, cache.Invalidate)
		explained(0)
		read(2) // they take the place of what is gone
		explained(2)
		purge(2, cache.Invalidate)
	})
}

// H32: responses that may not be shared are not, and their bodies are remembered.
func TestH32_NotShareable(t *testing.T) {
	for _, field := range []string{"no-store", "private", "no-cache"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, reads(byJSON), parrot(time.Second, "Cache-Control", field))
			for i, r := range s.together(5, func(i int) *http.Request { return s.reading(fmt.Sprintf(`{"q":1.%s}`, strings.Repeat("0", i+1))) }) {
				r.want(t, 200, fmt.Sprintf(`POST {"q":1.%s}`, strings.Repeat("0", i+1)))
			}
			s.wantCalls(5)
		})
	}
}

// H32: Vary keeps requests with one body apart.
func TestH32_Vary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, post := library(t, reads(byJSON), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Vary", "Accept-Language")
			_, _ = io.WriteString(w, r.Header.Get("Accept-Language"))
		})
		for range 2 {
			post(`{"q":1}`, "Accept-Language", "de").want(t, 200, "de")
			post(`{"q":1}`, "Accept-Language", "fr").want(t, 200, "fr")
		}
		s.wantCalls(2)
	})
}

// H32: receipts and Explain say what happened, and nothing about the body.
func TestH32_Explain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := ignoring
		rule.Only = []weirhttp.ReadCondition{{Field: "/t", Values: []string{"0"}, Absent: true}}
		rule.MaxBody = 200
		o := reads(rule)
		o.ReceiptKey = true
		s, post := library(t, o, nil)
		const body = `{"secret":1,"user":"secret"}`
		has(t, post(body), "Cache-Status", `weir; fwd=uri-miss; fwd-status=200; ttl=10; stored; key="http://shop.example/search body=`)
		has(t, post(body), "Cache-Status", `weir; hit; ttl=10; key="http://shop.example/search body=`)
		has(t, post(`{"secret":1,"t":1}`), "Cache-Status", `fwd=method; fwd-status=200; key="`)
		has(t, post(`{"secret":1,"t":1}`), "Cache-Status", `detail="condition of the read rule"`)
		has(t, post(strings.Repeat("secret ", 100)), "Cache-Status", `detail="body too large"`)
		for _, tt := range []struct{ body, answer, says string }{
			{body, "hit", "compared as JSON, without /user, /metadata/trace"},
			{`{"user":"other secret","secret":1.0}`, "hit", "the values of Content-Type"},
			{`{"secret":2}`, "lead", "For other bodies of its URL, 1 responses are stored."},
			{`{"secret":2,"secret":3}`, "pass", "a condition of its rule does not hold"}, // which cannot be known
			{`{"secret":0.10000000000000000001}`, "lead", "because a number in it has more digits than a double"},
			{`{"secret":1,"t":1}`, "pass", "a condition of its rule does not hold"},
			{strings.Repeat("secret ", 100), "pass", "larger than 200 bytes"},
		} {
			e := s.handler.Explain(s.reading(tt.body))
			text := fmt.Sprintf("%+v", e)
			if e.Answer != tt.answer || !strings.Contains(text, tt.says) || strings.Contains(text, "secret") {
				t.Errorf("Explain(%s) = %s; want %q, saying %q, and nothing secret", tt.body, text, tt.answer, tt.says)
			}
		}
		plain := open(t, h1, reads(ignoring), parrot(0))
		if e := fmt.Sprint(plain.handler.Explain(plain.reading(`{"a":2,"a":3}`))); !strings.Contains(e, "compared by its bytes, because an object has a name twice") {
			t.Errorf("Explain of a name twice = %s", e)
		}
		if e := s.handler.Explain(s.reading("{}", "Expect", "100-continue")); e.Answer != "pass" {
			t.Errorf("Explain with Expect = %+v; want pass", e)
		}
	})
}

// H32, H22: observe mode shares nothing, and reports what it would have.
func TestH32_Observe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := ignoring
		rule.MaxBody = 100
		o := reads(rule)
		o.Observe = true
		s, post := library(t, o, parrot(time.Second, "Cache-Control", "max-age=60"))
		post(`{"q":1,"user":"a"}`).want(t, 200, `POST {"q":1,"user":"a"}`)
		post(`{"q":1,"user":"b"}`).want(t, 200, `POST {"q":1,"user":"b"}`) // would have been a hit, with another response
		post(`{"q":1,"user":"a"}`)
		post(`{"q":2}`)
		post(strings.Repeat("x", 300)).want(t, 200, "POST "+strings.Repeat("x", 300))
		s.together(3, func(int) *http.Request { return s.reading(`{"q":3}`) })
		s.wantCalls(8)
		synctest.Wait() // the comparisons run on
		if st := s.handler.Stats().Observed; st.Hits != 2 || st.Joined != 2 || st.Compared != 4 || st.Differed != 1 {
			t.Errorf("Observed = %+v; want 2 hits, 2 joined, 4 compared, 1 differed", st)
		}
		s.do(func() *http.Request { r := s.reading("{}"); r.Method = "PUT"; return r }())
		post(`{"q":1,"user":"a"}`)
		if st := s.handler.Stats().Observed; st.Hits != 2 {
			t.Errorf("Observed = %+v after a PUT; want no more hits", st)
		}
	})
}

// H32: a Transport does the same for the requests of a program.
func TestH32_Transport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Policy: weirhttp.Policy{}}, parrot(time.Second, "Cache-Control", "max-age=60"))
		tr, err := weirhttp.NewTransport(s.client.Transport, reads(ignoring))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close(context.Background())
		s.client = &http.Client{Transport: tr}
		for _, r := range s.together(20, func(i int) *http.Request { return s.reading(fmt.Sprintf(`{"q":1,"user":%d}`, i)) }) {
			if r.status != 200 || !strings.HasPrefix(r.body, `POST {"q":1,"user":`) {
				t.Errorf("got %d %q, %v", r.status, r.body, r.err)
			}
		}
		s.do(s.reading(`{"q":1}`))
		s.wantCalls(1)
		chunked := s.reading(`{"q":1}`)
		chunked.ContentLength = -1
		s.do(chunked)
		s.wantCalls(1)
		s.do(s.reading(`{"q":2}`)).want(t, 200, `POST {"q":2}`)
		s.wantCalls(2)
	})
}

// H32: a response that reports errors is shared by the requests that wait for it, and is
// not stored; with GraphQL, /errors reports them.
func TestH32_ErrorsAreNotStored(t *testing.T) {
	zipped := func(s string) string {
		var b strings.Builder
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	const notFound = `{"data":null,"errors":[{"message":"PersistedQueryNotFound"}]}`
	for name, tt := range map[string]struct {
		rule   func(r *weirhttp.ReadRule)
		body   string
		fields []string
		calls  int64
	}{
		"errors":                     {nil, notFound, nil, 2},
		"no errors":                  {nil, `{"data":{"a":"errors"}}`, nil, 1},
		"null":                       {nil, `{"data":{},"errors": null }`, nil, 1},
		"none":                       {nil, `{"data":{},"errors":[ ]}`, nil, 1},
		"twice":                      {nil, `{"errors":[1],"errors":[]}`, nil, 2},
		"another media type of JSON": {nil, notFound, []string{"Content-Type", "application/graphql-response+json; charset=utf-8"}, 2},
		"not JSON":                   {nil, notFound, []string{"Content-Type", "text/plain"}, 1},
		"gzip":                       {nil, zipped(notFound), []string{"Content-Encoding", "gzip"}, 2},
		"gzip without errors":        {nil, zipped(`{"data":1}`), []string{"Content-Encoding", "gzip"}, 1},
		"another coding":             {nil, "?", []string{"Content-Encoding", "br"}, 2},
		"not valid":                  {nil, `{"data":`, nil, 2},
		"an array":                   {nil, `[{"errors":[1]}]`, nil, 1},
		"another field":              {func(r *weirhttp.ReadRule) { r.ErrorFields = []string{"/status/failed"} }, `{"status":{"failed":true}}`, nil, 2},
		"in an array":                {func(r *weirhttp.ReadRule) { r.ErrorFields = []string{"/1/failed"} }, `[{},{"failed":"x"}]`, nil, 2},
		"turned off":                 {func(r *weirhttp.ReadRule) { r.ErrorFields = []string{} }, notFound, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rule := byJSON
				rule.GraphQL = true
				if tt.rule != nil {
					tt.rule(&rule)
				}
				o := reads(rule)
				o.Policy.TTL = time.Minute
				s := open(t, h1, o, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					for i := 0; i+1 < len(tt.fields); i += 2 {
						w.Header().Set(tt.fields[i], tt.fields[i+1])
					}
					time.Sleep(time.Second)
					_, _ = io.WriteString(w, tt.body)
				})
				for range 2 {
					for _, r := range s.together(3, func(int) *http.Request { return s.reading(`{"query":"{a}"}`, "Accept-Encoding", "gzip, br") }) {
						r.want(t, 200, tt.body)
					}
				}
				s.wantCalls(tt.calls)
			})
		})
	}
}
