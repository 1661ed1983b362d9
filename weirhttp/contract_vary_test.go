package weirhttp_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

func TestH29_VariantsAreFoundByMeaning(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, echoNow("Accept-Language", "Vary", "Accept-Language", "Cache-Control", "max-age=60"))
			for _, same := range []string{"en, DE;q=0.5", "de;q=0.50 ,EN", "en;q=1,en, de;q=0.5"} {
				s.get("/a", "Accept-Language", same).want(t, 200, "en, DE;q=0.5")
			}
			s.wantCalls(1)
			for _, other := range []string{"en, de", "en, de;q=0", "en", "de;q=0.5", "*", "en, de;q=.5", "EN, de;q=.5"} {
				s.get("/a", "Accept-Language", other).want(t, 200, other)
			}
			s.wantCalls(8)
		})
	})
}

// A route's own Vary is compared in the same way, and so is what requests join by.
func TestH29_FlightsAreJoinedByMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Policy: weirhttp.Policy{Vary: []string{"Accept-Encoding"}}}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(slow)
			w.Header().Set("Cache-Control", "max-age=1")
			w.Header().Set("Vary", "Accept-Language")
			_, _ = w.Write([]byte(r.Header.Get("Accept-Language")))
		})
		languages := []string{"en, de;q=0.5", "de;q=0.5,EN", "fr", "FR", "FR;q=1"}
		encodings := []string{"gzip, br", "BR,gzip", "br;q=1.0 , gzip", "gzip,br", "gzip,,br"}
		wave := func() []reply {
			return s.together(50, func(i int) *http.Request {
				return s.request(t.Context(), http.MethodGet, "/a", "Accept-Language", languages[i%5], "Accept-Encoding", encodings[i/5%5])
			})
		}
		wave() // the first wave learns the Vary
		time.Sleep(2 * time.Second)
		before := s.calls.Load()
		for i, r := range wave() {
			if want := languages[i%5]; r.status != 200 || (r.body == "fr" || r.body == "FR" || r.body == "FR;q=1") != (i%5 >= 2) {
				t.Errorf("request %d in %q got %d %q", i, want, r.status, r.body)
			}
		}
		if n := s.calls.Load() - before; n != 2 {
			t.Errorf("a wave of 50 requests in two languages made %d calls; want 2", n)
		}
	})
}

// Requests whose answers could differ stay apart, on a flight too.
func TestH29_MalformedFieldsStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(slow)
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Vary", "Accept")
			_, _ = w.Write([]byte(r.Header.Get("Accept")))
		})
		accepts := []string{`text/html;a="x"`, `TEXT/html;a="x"`, "text/html;q=2", "TEXT/html;q=2", "text/html;q=0.2,text/html", "text/html"}
		for range 2 {
			for i, r := range s.together(len(accepts), func(i int) *http.Request {
				return s.request(t.Context(), http.MethodGet, "/a", "Accept", accepts[i])
			}) {
				r.want(t, 200, accepts[i])
			}
		}
		s.wantCalls(int64(len(accepts)))
	})
}

func TestH29_InstancesShareByMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 3, nil, answering(time.Second, "Vary", "Accept-Language", "Cache-Control", "max-age=600"))
		for i, language := range []string{"en, DE;q=0.5", "de;q=0.50,en", "EN;q=1, de;q=0.5"} {
			e.sites[i].get("/x", "Accept-Language", language).want(t, 200, "/x")
			synctest.Wait()
		}
		e.wantCalls(1)
		e.sites[0].get("/x", "Accept-Language", "en, de").want(t, 200, "/x")
		e.wantCalls(2)
	})
}

func TestH29_IfModifiedSinceWithoutLastModified(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now().UTC()
			at := func(d time.Duration) string { return began.Add(d).Format(http.TimeFormat) }
			var modified atomic.Value
			modified.Store("")
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				w.Header().Set("Etag", `"1"`)
				w.Header().Set("Date", at(0))
				if m := modified.Load().(string); m != "" {
					w.Header().Set("Last-Modified", m)
				}
				time.Sleep(slow)
				_, _ = w.Write([]byte("whole"))
			})
			// On a flight.
			replies := s.together(2, func(i int) *http.Request {
				if i == 0 {
					return s.request(t.Context(), http.MethodGet, "/a")
				}
				time.Sleep(slow / 2)
				return s.request(t.Context(), http.MethodGet, "/a", "If-Modified-Since", at(0))
			})
			replies[0].want(t, 200, "whole")
			replies[1].want(t, 304, "")
			// From the store.
			r := s.get("/a", "If-Modified-Since", at(time.Second))
			r.want(t, 304, "")
			if r.header.Get("Last-Modified") != "" || r.header.Get("Etag") != `"1"` || r.header.Get("Date") != at(0) {
				t.Errorf("the fields of the 304 are %v; want Etag and Date, and no Last-Modified", r.header)
			}
			s.get("/a", "If-Modified-Since", at(-time.Second)).want(t, 200, "whole")
			s.get("/a", "If-Modified-Since", at(0), "If-None-Match", `"2"`).want(t, 200, "whole")
			s.get("/a", "If-Modified-Since", "today").want(t, 200, "whole")
			part := s.get("/a", "Range", "bytes=0-1", "If-Modified-Since", at(-time.Second))
			part.want(t, 206, "wh")
			s.get("/a", "Range", "bytes=0-1", "If-Range", at(0)).want(t, 200, "whole") // Date is no validator
			s.wantCalls(1)
			// Last-Modified decides where there is one.
			modified.Store(at(-time.Hour))
			s.get("/b").want(t, 200, "whole")
			s.get("/b", "If-Modified-Since", at(-time.Hour)).want(t, 304, "")
			s.get("/b", "If-Modified-Since", at(-2*time.Hour)).want(t, 200, "whole")
		})
	})
}
