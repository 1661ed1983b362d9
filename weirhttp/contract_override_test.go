package weirhttp_test

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A request that may mean another URL reaches the origin. Its response is not served
// to other requests, and no other response is served to it.
func TestH9_OverridesAreNeitherStoredNorShared(t *testing.T) {
	names := append(weirhttp.DefaultOverrides(), "X_Original_URL", "X-Original_Url", "X_HTTP_Method_Override")
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			got := map[string]int{}
			s := open(t, p, weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Minute}}, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				w.Header().Set("Cache-Control", "max-age=60")
				for _, name := range names {
					if r.Header.Get(name) != "" {
						got[name]++
						_, _ = io.WriteString(w, "poison")
						return
					}
				}
				_, _ = io.WriteString(w, "v")
			})
			for i, name := range names {
				target := fmt.Sprint("/", i)
				for range 2 { // neither stored nor shared
					for _, r := range s.together(3, s.same(target, name, "/admin")) {
						r.want(t, 200, "poison")
					}
				}
				s.do(s.request(t.Context(), "HEAD", target, name, "/admin"))
				s.get(target).want(t, 200, "v")
				s.get(target, name, "/admin").want(t, 200, "poison") // nor from the store
				s.get(target).want(t, 200, "v")
				if got[name] < 8 {
					t.Errorf("%s reached the origin %d times; want 8", name, got[name])
				}
			}
			s.wantCalls(int64(9 * len(names)))
		})
	})
}

// A response is not shared with waiting clients either, in whatever order they came.
func TestH9_OverridesDoNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(slow)
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = io.WriteString(w, "v"+r.Header.Get("X-Host"))
		})
		replies := s.together(10, func(i int) *http.Request {
			if i%2 == 0 {
				return s.request(t.Context(), "GET", "/x", "X-Host", "evil")
			}
			return s.request(t.Context(), "GET", "/x")
		})
		for i, r := range replies {
			if want := []string{"vevil", "v"}[i%2]; r.body != want {
				t.Errorf("request %d got %q; want %q", i, r.body, want)
			}
		}
		s.wantCalls(6)
	})
}

func TestH9_OverridesAreASetting(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy weirhttp.Policy
		field  string
		calls  int64 // for two requests with the field
	}{
		{"the default", weirhttp.Policy{}, "X-Host", 2},
		{"none", weirhttp.Policy{Overrides: []string{}}, "X-Host", 1},
		{"one's own", weirhttp.Policy{Overrides: []string{"X-Tenant"}}, "X-Tenant", 2},
		{"one's own, another", weirhttp.Policy{Overrides: []string{"X-Tenant"}}, "X-Host", 1},
		{"kept apart", weirhttp.Policy{Vary: []string{"X-Host"}}, "X-Host", 1},
		{"taken out", weirhttp.Policy{IgnoreHeaders: []string{"X-Host"}}, "X-Host", 1},
		{"Forwarded with a host", weirhttp.Policy{}, "Forwarded", 2},
		{"Forwarded that is dropped", weirhttp.Policy{ForwardingDropped: true}, "Forwarded", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{Policy: tt.policy}, answering(0, "Cache-Control", "max-age=60"))
			for range 2 {
				s.get("/x", tt.field, "for=1.2.3.4;host=evil")
			}
			if got := s.calls.Load(); got != tt.calls {
				t.Errorf("%s: %d calls; want %d", tt.name, got, tt.calls)
			}
		})
	}
}

// Fields that proxies write into every request select separate responses.
func TestH9_ForwardingFieldsKeepAnswersApart(t *testing.T) {
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Scheme", "X_Forwarded_Host", "X-Original-Host", "X-Scheme", "Front-End-Https"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Cache-Control", "max-age=60")
				_, _ = io.WriteString(w, "v"+r.Header.Get(name))
			})
			replies := s.together(6, func(i int) *http.Request {
				if i < 3 {
					return s.request(t.Context(), "GET", "/x", name, "evil")
				}
				return s.request(t.Context(), "GET", "/x")
			})
			for i, r := range replies[3:] {
				if r.body != "v" {
					t.Errorf("%s: request %d without it got %q; want v", name, i, r.body)
				}
			}
			before := s.calls.Load()
			s.get("/y", name, "a").want(t, 200, "va")
			s.get("/y", name, "a").want(t, 200, "va")
			s.get("/y", name, "b").want(t, 200, "vb")
			s.get("/y").want(t, 200, "v")
			if got := s.calls.Load() - before; got != 3 {
				t.Errorf("%s: %d calls; want 3", name, got)
			}
		})
	}
}

// An origin that receives fields as variables takes Accept_Language for Accept-Language. A
// client that sends it does not choose the response of clients that send neither.
func TestH9_UnderscoreDoesNotSelectForOthers(t *testing.T) {
	for _, name := range []string{"Accept_Language", "Accept_Encoding", "X_Tenant"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{Policy: weirhttp.Policy{Vary: []string{"X-Tenant"}}}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Cache-Control", "max-age=60")
				w.Header().Set("Vary", "Accept-Language, Accept-Encoding")
				_, _ = io.WriteString(w, "v"+r.Header.Get(name))
			})
			replies := s.together(6, func(i int) *http.Request {
				if i < 3 {
					return s.request(t.Context(), "GET", "/x", name, "evil")
				}
				return s.request(t.Context(), "GET", "/x")
			})
			for i, r := range replies[3:] {
				if r.body != "v" {
					t.Errorf("%s: request %d without it got %q; want v", name, i, r.body)
				}
			}
			s.get("/y", name, "evil").want(t, 200, "vevil")
			s.get("/y").want(t, 200, "v")
		})
	}
}

// A request for thousands of ranges does not get more bytes than the body has.
func TestH10_Ranges(t *testing.T) {
	body := strings.Repeat("0123456789", 10_000)
	for _, tt := range []struct {
		value  string
		status int
		want   string // Content-Range, or those of the parts
	}{
		{"bytes=0-0", 206, "bytes 0-0/100000"},
		{"bytes=5-", 206, "bytes 5-99999/100000"},
		{"bytes=-5", 206, "bytes 99995-99999/100000"},
		{"bytes=-200000", 206, "bytes 0-99999/100000"},
		{"BYTES=0-0", 206, "bytes 0-0/100000"},
		{"bytes=0-99999999999999999999999999", 206, "bytes 0-99999/100000"},
		{"bytes=0-9223372036854775807", 206, "bytes 0-99999/100000"},
		{"bytes=-99999999999999999999999999", 206, "bytes 0-99999/100000"},
		{"bytes=-0", 416, "bytes */100000"},
		{"bytes=100000-", 416, "bytes */100000"},
		{"bytes=99999999999999999999999999-", 416, "bytes */100000"},
		{"bytes=18446744073709551616-18446744073709551617", 416, "bytes */100000"},
		{"bytes=-0,100000-100001", 416, "bytes */100000"},
		{"bytes=-0,1-2", 206, "bytes 1-2/100000"},
		{"items=0-1", 200, ""},
		{"bytes 0-1", 200, ""},
		{"bytes=a-b", 200, ""},
		{"bytes=5-3", 200, ""},
		{"bytes=--1", 200, ""},
		{"bytes=+0-1", 200, ""},
		{"bytes=", 200, ""},
		{"bytes=,", 200, ""},
		{"bytes=0-1,5-6", 206, "bytes 0-1/100000, bytes 5-6/100000"},
		{"bytes=5-6,0-1", 206, "bytes 5-6/100000, bytes 0-1/100000"},
		{"bytes= 0-1 , 5-6", 206, "bytes 0-1/100000, bytes 5-6/100000"},
		{"bytes=0-5,3-9", 206, "bytes 0-9/100000"},
		{"bytes=0-5,6-9,20-21", 206, "bytes 0-9/100000, bytes 20-21/100000"},
		{"bytes=0-,-1", 206, "bytes 0-99999/100000"},
		{"bytes=" + strings.Repeat("0-0,", 15_000) + "0-0", 200, ""},
		{"bytes=" + strings.Repeat("0-0,", 15) + "0-0", 206, "bytes 0-0/100000"},
		{"bytes=" + strings.Repeat("0-,", 15) + "0-", 206, "bytes 0-99999/100000"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Cache-Control", "max-age=60")
				w.Header().Set("ETag", `"1"`)
				w.Header().Set("Content-Type", "text/plain")
				_, _ = io.WriteString(w, body)
			})
			replies := s.together(2, func(i int) *http.Request { // one leads, and one joins with a range
				if i == 0 {
					return s.request(t.Context(), "GET", "/x")
				}
				time.Sleep(slow / 2)
				return s.request(t.Context(), "GET", "/x", "Range", tt.value)
			})
			replies = append(replies, s.get("/x", "Range", tt.value), s.get("/x", "Range", tt.value, "If-Range", `"1"`))
			for i, r := range replies[1:] {
				if got := ranges(r); r.status != tt.status || got != tt.want || len(r.body) > len(body)+200*16 {
					t.Errorf("%s, request %d = %d %q with %d bytes, %v; want %d %q", shortened(tt.value), i, r.status, got, len(r.body), r.err, tt.status, tt.want)
				}
			}
			if r := s.get("/x", "Range", tt.value, "If-Range", `"2"`); r.status != 200 || r.body != body {
				t.Errorf("%s with another If-Range = %d with %d bytes; want the whole body", shortened(tt.value), r.status, len(r.body))
			}
			calls := int64(1)
			if !strings.HasPrefix(strings.ToLower(tt.value), "bytes=") {
				calls = 5 // only the origin knows what it means
			}
			s.wantCalls(calls)
		})
	}
}

// H10: a range of another unit calls alone, and nothing is stored or shared of it. A 200
// with Content-Range is never the whole.
func TestH10_RangesOfOtherUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			if rows := r.Header.Get("Range"); rows != "" && r.URL.Path == "/rows" {
				w.Header().Set("Content-Range", strings.TrimPrefix(rows, "rows=")+"/*")
				_, _ = io.WriteString(w, "some")
				return
			}
			_, _ = io.WriteString(w, "all")
		})
		for _, value := range []string{"rows=0-4", "0-4", "bytes 0-4"} {
			s.get("/rows", "Range", value).want(t, 200, "some")
		}
		s.wantCalls(3)
		s.get("/rows").want(t, 200, "all")
		s.get("/rows", "Range", "rows=0-4").want(t, 200, "some")
		s.get("/rows").want(t, 200, "all")
		s.wantCalls(5)
	})
}

// ranges returns the Content-Range of a response, or those of its parts.
func ranges(r reply) string {
	kind, params, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	if kind != "multipart/byteranges" {
		return r.header.Get("Content-Range")
	}
	var all []string
	for m := multipart.NewReader(strings.NewReader(r.body), params["boundary"]); ; {
		p, err := m.NextPart()
		if err != nil {
			if err != io.EOF {
				return err.Error()
			}
			return strings.Join(all, ", ")
		}
		all = append(all, p.Header.Get("Content-Range"))
	}
}

// The Host in the key is exactly the one in the request to the origin, whichever form
// a client has chosen.
func TestH9_HostsAreKeyedAsTheyAreForwarded(t *testing.T) {
	hosts := []string{
		"a.test", "A.TEST", "a.Test:80", "a.test:443", "a.test:8080", "a.test:", "a.test.", "a.test.:80", "a.test..",
		"127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80", "[::1]:", "[2001:DB8::A]:8443", "[2001:db8::a]:8443",
	}
	for _, scheme := range []string{"http", "https"} {
		synctest.Test(t, func(t *testing.T) {
			cache, err := weirhttp.NewCache(8 << 20)
			if err != nil {
				t.Fatal(err)
			}
			o := weirhttp.Options{Cache: cache, ReceiptKey: true, Scheme: func(*http.Request) string { return scheme }}
			s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				_, _ = io.WriteString(w, r.Host)
			})
			ask := func(method, host string) reply {
				r := s.request(t.Context(), method, "/x")
				r.Host = host
				return s.do(r)
			}
			for _, host := range hosts {
				for range 2 {
					r := ask("GET", host)
					r.want(t, 200, host)
					has(t, r, "Cache-Status", `key="`+scheme+"://"+host+`/x"`)
				}
			}
			s.wantCalls(int64(len(hosts)))
			for _, host := range hosts {
				if n, err := cache.Invalidate(t.Context(), scheme, host, "/x"); err != nil || n != 1 {
					t.Errorf("a purge of %s removed %d; want 1", host, n)
				}
				ask("GET", host)
				ask("POST", host)
				if n, err := cache.Invalidate(t.Context(), scheme, host, "/x"); err != nil || n != 0 {
					t.Errorf("after a POST to %s, %d are still stored", host, n)
				}
			}
		})
	}
}

// The same through a Transport, whose URLs may be written in any form.
func TestH9_HostsOfATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tr := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
			return plain(r, 200, r.Host, "Cache-Control", "max-age=60"), nil
		})
		for _, host := range []string{"a.test", "A.TEST", "a.test:80", "a.test.", "[::1]:80"} {
			for range 2 {
				if got, err := fetch(t, c, "http://"+host+"/x"); got != host || err != nil {
					t.Errorf("GET of %s requested host %q, %v", host, got, err)
				}
			}
		}
		if got := tr.Stats(); got.Calls != 5 || got.Hits != 5 {
			t.Errorf("%d calls, %d hits; want 5 of each", got.Calls, got.Hits)
		}
	})
}

// A name that is not a token may be a different field for another program, and a name
// in different case is the same field.
func TestH2_NamesOfFields(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		stored      bool
	}{
		{"Cache-Control ", "private", false}, {"Vary ", "Cookie", false}, {"Set-Cookie ", "a=b", false}, {" Set-Cookie", "a=b", false},
		{"Set-Cookie\t", "a=b", false}, {"X Y", "1", false}, {"", "1", false}, {"X:Y", "1", false}, {"X\x00", "1", false}, {"Ä", "1", false},
		{"cache-control", "private", false}, {"set-cookie", "a=b", false}, {"vary", "*", false}, {"CACHE-CONTROL", "no-store", false},
		{"x-odd", "1", true}, {"X_Odd", "1", true},
	} {
		for _, way := range []string{"handler", "transport"} {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				var ask func()
				if way == "handler" {
					s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
						calls++
						w.Header()["Cache-Control"] = []string{"max-age=60"}
						w.Header()[tt.name] = []string{tt.value}
					})
					ask = func() { s.get("/x") }
				} else {
					c, _ := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
						calls++
						resp := plain(r, 200, "v", "Cache-Control", "max-age=60")
						resp.Header[tt.name] = []string{tt.value}
						return resp, nil
					})
					ask = func() { _, _ = fetch(t, c, "http://a/x") }
				}
				ask()
				ask()
				if got := calls == 1; got != tt.stored {
					t.Errorf("%s: %q stored = %v; want %v", way, tt.name, got, tt.stored)
				}
			})
		}
	}
}
