package weirhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// numbered responds with fields and the number of the call.
func numbered(fields ...string) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		n++
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		_, _ = io.WriteString(w, strconv.Itoa(n))
	}
}

func TestH10_ForHowLongWhatIsStoredServes(t *testing.T) {
	const long = "Fri, 31 Dec 2100 00:00:00 GMT"
	rows := []struct {
		name   string
		fields []string
		policy weirhttp.Policy
		fresh  time.Duration // 0: not stored
	}{
		{"max-age", []string{"Cache-Control", "max-age=60"}, weirhttp.Policy{}, time.Minute},
		{"s-maxage first", []string{"Cache-Control", "max-age=60, s-maxage=10"}, weirhttp.Policy{}, 10 * time.Second},
		{"max-age before Expires", []string{"Cache-Control", "max-age=60", "Expires", long}, weirhttp.Policy{}, time.Minute},
		{"Age counts", []string{"Cache-Control", "max-age=60", "Age", "20"}, weirhttp.Policy{}, 40 * time.Second},
		{"targeted first", []string{"CDN-Cache-Control", "max-age=10", "Cache-Control", "no-store"}, weirhttp.Policy{}, 10 * time.Second},
		{"a broken targeted field", []string{"CDN-Cache-Control", "max-age=\"", "Cache-Control", "max-age=60"}, weirhttp.Policy{}, time.Minute},
		{"heuristics are off", []string{"Last-Modified", "Fri, 31 Dec 1999 00:00:00 GMT"}, weirhttp.Policy{}, 0},
		{"heuristics on", []string{"Last-Modified", "Fri, 31 Dec 1999 00:00:00 GMT"}, weirhttp.Policy{Heuristic: 0.1, MaxHeuristic: time.Hour}, time.Hour},
		{"nothing said", nil, weirhttp.Policy{}, 0},
		{"a TTL of the route", nil, weirhttp.Policy{TTL: time.Minute}, time.Minute},
		{"a TTL against private", []string{"Cache-Control", "private"}, weirhttp.Policy{TTL: time.Minute}, 0},
		{"a TTL by force", []string{"Cache-Control", "private"}, weirhttp.Policy{TTL: time.Minute, Force: true}, time.Minute},
		{"a TTL by force against Set-Cookie", []string{"Set-Cookie", "a=b"}, weirhttp.Policy{TTL: time.Minute, Force: true}, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{Policy: row.policy}, numbered(row.fields...))
				s.get("/a").want(t, 200, "1")
				if row.fresh > 0 {
					time.Sleep(row.fresh - time.Second)
					s.get("/a").want(t, 200, "1")
					time.Sleep(time.Second)
				}
				s.get("/a").want(t, 200, "2")
			})
		})
	}
}

func TestH10_RequestDirectives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, numbered("Cache-Control", "max-age=60"))
		s.get("/a", "Cache-Control", "only-if-cached").want(t, 504, "504 Gateway Timeout: nothing is stored for this request, and it accepts only stored responses\n")
		s.get("/a").want(t, 200, "1")
		time.Sleep(30 * time.Second)
		s.get("/a", "Cache-Control", "only-if-cached").want(t, 200, "1")
		s.get("/a", "Cache-Control", "max-age=30").want(t, 200, "1")
		s.get("/a", "Cache-Control", "min-fresh=30").want(t, 200, "1")
		s.get("/a", "Cache-Control", "max-age=29").want(t, 200, "2")
		s.get("/a", "Cache-Control", "min-fresh=61").want(t, 200, "3")
		s.get("/a", "Cache-Control", "no-store").want(t, 200, "4")
		s.get("/a").want(t, 200, "3")
		time.Sleep(70 * time.Second)
		s.get("/a", "Cache-Control", "max-stale=5").want(t, 200, "5")
		time.Sleep(65 * time.Second)
		s.get("/a", "Cache-Control", "max-stale=5").want(t, 200, "5")
		s.get("/a", "Cache-Control", "only-if-cached, max-stale").want(t, 200, "5")
	})
}

func TestH10_VariantsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := weirhttp.NewCache(16 << 20)
		s := open(t, h1, weirhttp.Options{Cache: cache}, echoNow("Accept-Language", "Vary", "Accept-Language", "Cache-Control", "max-age=60"))
		for i := range 100 {
			s.get("/a", "Accept-Language", strconv.Itoa(i)).want(t, 200, strconv.Itoa(i))
		}
		if got := cache.Stats().Responses; got > 32 {
			t.Errorf("%d variants are stored; want at most 32", got)
		}
		s.get("/a", "Accept-Language", "99").want(t, 200, "99")
		s.get("/a").want(t, 200, "") // an absent field is a separate value
		s.wantCalls(101)
	})
}

// echoNow is echo without a delay.
func echoNow(name string, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		_, _ = io.WriteString(w, r.Header.Get(name))
	}
}

func TestH10_A304FreshensWhatIsStored(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Etag", `"1"`)
				w.Header().Set("X-Seen", r.Header.Get("If-None-Match"))
				if r.Header.Get("If-None-Match") != "" {
					time.Sleep(slow)
					w.Header().Set("Cache-Control", "max-age=600")
					w.WriteHeader(http.StatusNotModified)
					return
				}
				w.Header().Set("Cache-Control", "max-age=1")
				_, _ = io.WriteString(w, "body")
			})
			s.get("/a")
			time.Sleep(10 * time.Second)
			for _, r := range s.together(5, s.same("/a")) {
				r.want(t, 200, "body")
			}
			s.wantCalls(2)
			time.Sleep(500 * time.Second)
			r := s.get("/a")
			r.want(t, 200, "body")
			has(t, r, "X-Seen", `"1"`)
			has(t, r, "Age", "500")
			s.wantCalls(2)
		})
	})
}

func TestH10_A304AboutSomethingElseIsAskedAgain(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			s := open(t, h1, weirhttp.Options{NoCoalescing: alone}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=1")
				if r.Header.Get("If-None-Match") != "" {
					w.Header().Set("Etag", `"other"`)
					w.WriteHeader(http.StatusNotModified)
					return
				}
				n++
				w.Header().Set("Etag", fmt.Sprintf(`"%d"`, n))
				_, _ = fmt.Fprint(w, "body ", n)
			})
			s.get("/a").want(t, 200, "body 1")
			time.Sleep(10 * time.Second)
			s.get("/a").want(t, 200, "body 2")
			s.get("/a").want(t, 200, "body 2")
			s.wantCalls(3)
		})
	}
}

func TestH10_InvalidationByUnsafeMethods(t *testing.T) {
	rows := []struct {
		method string
		status int
		fields []string
		gone   []string
	}{
		{"POST", 200, nil, []string{"/a"}},
		{"PUT", 204, nil, []string{"/a"}},
		{"DELETE", 200, nil, []string{"/a"}},
		{"PATCH", 302, []string{"Location", "/b"}, []string{"/a", "/b"}},
		{"BREW", 200, nil, []string{"/a"}},
		{"POST", 201, []string{"Location", "http://shop.example/b", "Content-Location", "c"}, []string{"/a", "/b", "/c"}},
		{"POST", 201, []string{"Location", "http://other.example/b"}, []string{"/a"}},
		{"POST", 500, []string{"Location", "/b"}, nil},
		{"POST", 404, nil, nil},
		{"OPTIONS", 200, nil, nil},
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row.method, row.status, row.fields), func(t *testing.T) {
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
						if r.Method == "GET" {
							w.Header().Set("Cache-Control", "max-age=60")
							return
						}
						for i := 0; i+1 < len(row.fields); i += 2 {
							w.Header().Set(row.fields[i], row.fields[i+1])
						}
						w.WriteHeader(row.status)
					})
					paths := []string{"/a", "/b", "/c"}
					for _, path := range paths {
						s.get(path)
					}
					s.do(s.request(t.Context(), row.method, "/a")).want(t, row.status, "")
					before := s.calls.Load()
					for _, path := range paths {
						s.get(path)
					}
					s.wantCalls(before + int64(len(row.gone)))
				})
			})
		})
	}
}

func TestH10_AnInvalidationBeatsACallInFlight(t *testing.T) {
	invalidate := map[string]func(*site, *weirhttp.Cache){
		"POST":  func(s *site, _ *weirhttp.Cache) { s.do(s.request(s.t.Context(), "POST", "/a")) },
		"purge": func(s *site, c *weirhttp.Cache) { _, _ = c.Invalidate(s.t.Context(), "http", "shop.example", "/a") },
		"tag":   func(s *site, c *weirhttp.Cache) { _ = c.InvalidateTags(s.t.Context(), "t") },
		"all":   func(s *site, c *weirhttp.Cache) { _ = c.InvalidateAll(s.t.Context()) },
	}
	for name, invalidate := range invalidate {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprint(name, alone), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cache, _ := weirhttp.NewCache(16 << 20)
					n := 0
					s := open(t, h1, weirhttp.Options{Cache: cache, NoCoalescing: alone}, func(w http.ResponseWriter, r *http.Request) {
						if r.Method == "POST" {
							return
						}
						n++
						body := strconv.Itoa(n)
						w.Header().Set("Cache-Control", "max-age=60")
						w.Header().Set("Surrogate-Key", "t")
						_, _ = io.WriteString(w, body)
						w.(http.Flusher).Flush()
						time.Sleep(slow)
					})
					go s.get("/a")
					time.Sleep(slow / 2)
					invalidate(s, cache)
					s.get("/a").want(t, 200, "2")
					time.Sleep(slow)
					s.get("/a").want(t, 200, "2")
				})
			})
		}
	}
}

func TestH10_WhatIsNotStored(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				h := w.Header()
				h.Set("Cache-Control", "max-age=60")
				h.Set("Connection", "X-Hop")
				h.Set("X-Hop", "1")
				h.Set("X-Kept", "1")
				h.Set("Keep-Alive", "timeout=5")
				h.Set("Proxy-Authenticate", "Basic")
				h.Set("Trailer", "X-Sum")
				h.Set(http.TrailerPrefix+"X-More", "1")
				_, _ = io.WriteString(w, strings.Repeat("x", 3000))
				h.Set("X-Sum", "1")
			})
			s.get("/a")
			resp, err := s.begin(t.Context(), "/a")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate", "X-Sum", "X-More"} {
				if resp.Header.Get(name) != "" || resp.Trailer.Get(name) != "" {
					t.Errorf("%s is in a stored response: %v, %v", name, resp.Header, resp.Trailer)
				}
			}
			if resp.Header.Get("X-Kept") != "1" || resp.ContentLength != 3000 {
				t.Errorf("X-Kept = %q, Content-Length = %d; want 1, 3000", resp.Header.Get("X-Kept"), resp.ContentLength)
			}
			s.wantCalls(1)
		})
	})
}

func TestH10_ErrorsWithExplicitFreshnessAreStored(t *testing.T) {
	for _, status := range []int{204, 301, 404, 410, 500, 503, 599} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				w.WriteHeader(status)
			})
			s.get("/a").want(t, status, "")
			s.get("/a").want(t, status, "")
			s.wantCalls(1)
		})
	}
}

func TestH10_WhatIsDeliveredIsStoredOrInFlight(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, answering(0, "Cache-Control", "max-age=60"))
			for i := range 300 {
				s.get(fmt.Sprint("/", i))
				s.get(fmt.Sprint("/", i)) // at once: the first call may have just ended
			}
			s.wantCalls(300)
			if got := s.handler.Stats().Abandoned; got != 0 {
				t.Errorf("Abandoned = %d; want 0", got)
			}
		})
	})
}

func TestH10_RangesAndHeadFromTheStore(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, answering(0, "Cache-Control", "max-age=60", "Etag", `"1"`, "Last-Modified", "Fri, 31 Dec 1999 00:00:00 GMT"))
			s.get("/hello")
			s.get("/hello", "Range", "bytes=-2").want(t, 206, "lo")
			s.get("/hello", "Range", "bytes=1-2", "If-Range", `"1"`).want(t, 206, "he")
			s.get("/hello", "Range", "bytes=1-2", "If-Range", `"2"`).want(t, 200, "/hello")
			s.get("/hello", "If-Modified-Since", "Fri, 31 Dec 1999 00:00:00 GMT").want(t, 304, "")
			s.get("/hello", "Range", "bytes=1-2", "If-Range", "Fri, 31 Dec 1999 00:00:00 GMT").want(t, 206, "he")
			s.do(s.request(t.Context(), "HEAD", "/hello", "Range", "bytes=1-2")).want(t, 200, "")
			s.do(s.request(t.Context(), "HEAD", "/hello", "If-None-Match", `"1"`)).want(t, 304, "")
			s.wantCalls(1)
		})
	})
}

// RFC 9111 section 4.3.2: If-Match and If-Unmodified-Since are for the origin, which may
// have a newer version than the cache.
func TestH10_ConditionsOfTheOriginReachIt(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			version := 1
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				w.Header().Set("Etag", fmt.Sprintf("\"%d\"", version))
				http.ServeContent(w, r, "", time.Now().Add(-time.Hour), strings.NewReader(fmt.Sprint("version ", version)))
			})
			s.get("/a").want(t, 200, "version 1")
			version = 2
			for _, method := range []string{"GET", "HEAD"} {
				s.do(s.request(t.Context(), method, "/a", "If-Match", `"1"`)).want(t, 412, "")
				s.do(s.request(t.Context(), method, "/a", "If-Match", `"2"`)).want(t, 200, map[string]string{"GET": "version 2"}[method])
				s.do(s.request(t.Context(), method, "/a", "If-Unmodified-Since", time.Now().Add(-2*time.Hour).UTC().Format(http.TimeFormat))).want(t, 412, "")
			}
			s.wantCalls(7)
			s.get("/a").want(t, 200, "version 1")
			s.wantCalls(7)
		})
	})
}

// A field in several lines is one list (RFC 9110 section 5.3).
func TestH10_IfNoneMatchInLines(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, answering(slow, "Cache-Control", "max-age=60", "Etag", `"1"`))
			for range 2 { // in flight, then stored
				go s.get("/a")
				time.Sleep(slow / 2)
				for _, method := range []string{"GET", "HEAD"} {
					s.do(s.request(t.Context(), method, "/a", "If-None-Match", `"0"`, "If-None-Match", `"1"`)).want(t, 304, "")
				}
				s.get("/a", "If-None-Match", `"0"`, "If-None-Match", `"2"`, "Range", "bytes=0-0").want(t, 206, "/")
			}
			s.wantCalls(1)
		})
	})
}

// RFC 9110 section 13.1.5: a second version of the same second has the same date.
func TestH10_IfRangeWithADateThatIsWeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modified := time.Now().UTC().Format(http.TimeFormat)
		s := open(t, h1, weirhttp.Options{}, answering(slow, "Cache-Control", "max-age=3600", "Last-Modified", modified))
		for range 2 { // in flight, then stored
			go s.get("/a")
			time.Sleep(slow / 2)
			s.get("/a", "Range", "bytes=1-", "If-Range", modified).want(t, 200, "/a")
			s.get("/a", "Range", "bytes=1-").want(t, 206, "a")
		}
		s.wantCalls(1)
	})
}

// A 416 or a 412 is about the range or the condition of one request. Stored, it would
// be the response to every request for the URL.
func TestH10_ErrorsAboutRangesAndConditionsAreNotStored(t *testing.T) {
	for status, request := range map[int][]string{
		http.StatusRequestedRangeNotSatisfiable: {"Range", "bytes=200-"},
		http.StatusPreconditionFailed:           {"If-Match", `"0"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				if r.Header.Get(request[0]) != "" {
					w.WriteHeader(status)
					return
				}
				_, _ = io.WriteString(w, "page")
			})
			s.get("/a", request...).want(t, status, "")
			synctest.Wait()
			s.get("/a").want(t, 200, "page")
			s.get("/a").want(t, 200, "page")
			s.wantCalls(2)
		})
	}
}

// H1: the response to a HEAD that shows another representation than the stored one makes
// that stale (RFC 9111 section 4.3.5).
func TestH1_AHeadShowsThatAResponseIsOutdated(t *testing.T) {
	for name, tt := range map[string]struct {
		head   []string
		status int
		stale  bool
	}{
		"the same":                {[]string{"Etag", `"1"`, "Content-Length", "3"}, 200, false},
		"without a validator":     {nil, 200, false},
		"another tag":             {[]string{"Etag", `"2"`}, 200, true},
		"another length":          {[]string{"Etag", `"1"`, "Content-Length", "4"}, 200, true},
		"a length in a coding":    {[]string{"Etag", `"1"`, "Content-Length", "4", "Content-Encoding", "gzip"}, 200, false},
		"gone":                    {nil, 410, true},
		"a failure":               {nil, 500, false},
		"a refusal of the client": {nil, 403, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
					fields := []string{"Etag", `"1"`, "Content-Length", "3"}
					if r.Method == http.MethodHead {
						fields = tt.head
					}
					w.Header().Set("Cache-Control", "max-age=600")
					for i := 0; i+1 < len(fields); i += 2 {
						w.Header().Set(fields[i], fields[i+1])
					}
					if r.Method == http.MethodHead {
						w.WriteHeader(tt.status)
						return
					}
					_, _ = io.WriteString(w, "abc")
				})
				s.get("/a").want(t, 200, "abc")
				s.do(s.request(t.Context(), "HEAD", "/a", "Cache-Control", "no-cache")).want(t, tt.status, "")
				s.get("/a").want(t, 200, "abc")
				calls := int64(2)
				if tt.stale {
					calls = 3
				}
				s.wantCalls(calls)
			})
		})
	}
}
