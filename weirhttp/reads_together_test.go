package weirhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// H32, H33: reads with one body share a running event stream, and what is stored of it.
// Other bodies of the URL, and a GET of it, have separate streams.
func TestH32_EventStreams(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			o := sharedEvents
			o.Reads = []weirhttp.ReadRule{byJSON}
			s := open(t, p, o, streaming(tokens))
			whole := strings.Join(tokens, "")
			ask := func(body string) func(int) *http.Request {
				return func(int) *http.Request { return s.reading(body, "Accept", "text/event-stream") }
			}
			first := s.inBackground(2, ask(`{"q":1,"stream":true}`))
			time.Sleep(gap + gap/2)
			joined := s.inBackground(1, ask(`{"stream": true, "q": 1.0}`))
			synctest.Wait()
			s.wantCalls(1)
			other := s.inBackground(1, ask(`{"q":2,"stream":true}`))
			get := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/search") })
			user := s.inBackground(1, func(int) *http.Request {
				return s.reading(`{"q":1,"stream":true}`, "Accept", "text/event-stream", "Authorization", "Bearer a")
			})
			synctest.Wait()
			s.wantCalls(4)
			for _, wait := range []func() []reply{first, joined, other, get, user} {
				for _, r := range wait() {
					r.want(t, 200, whole)
				}
			}
			hit := s.do(ask(`{"q":1,"stream":true}`)(0))
			hit.want(t, 200, whole)
			has(t, hit, "Cache-Status", "hit")
			s.wantCalls(4)
			if held := s.handler.HeldBodies(); held != 0 {
				t.Errorf("%d bytes of bodies are held after the last stream", held)
			}
		})
	})
}

// H32, H28: the folder has no responses to reads with a body. Storing and purging them
// leaves what a GET of their URL has there, and neither is served for the other.
func TestH32_Folder(t *testing.T) {
	const body = `{"q":1}`
	origin := parrot(0, "Cache-Control", "max-age=3600")
	restarted(t, reads(byJSON), origin, func(t *testing.T, s *site, c *weirhttp.Cache) {
		s.get("/both").want(t, 200, "GET ")
		synctest.Wait()
		for range 2 {
			s.do(s.readingOf("/both", body)).want(t, 200, "POST "+body)
			s.do(s.readingOf("/post", body)).want(t, 200, "POST "+body)
		}
		s.wantCalls(3)
		synctest.Wait()
		if st := c.Stats().Folder; st.Written != 1 || st.Responses != 1 {
			t.Errorf("%d responses written, %d in the folder; want that of the GET", st.Written, st.Responses)
		}
	}, func(t *testing.T, s *site, c *weirhttp.Cache) {
		if e := s.handler.Explain(s.readingOf("/both", body)); strings.Contains(fmt.Sprint(e), "folder") {
			t.Errorf("Explain = %v; want nothing about the folder", e)
		}
		s.do(s.readingOf("/both", body)).want(t, 200, "POST "+body)
		s.wantCalls(1)
		s.get("/both").want(t, 200, "GET ")
		s.wantCalls(1)
		s.get("/post").want(t, 200, "GET ")
		s.wantCalls(2)
		_, err := c.Invalidate(t.Context(), "http", "shop.example", "/both")
		mustPurge(t, err)
		s.get("/both").want(t, 200, "GET ")
		s.do(s.readingOf("/both", body)).want(t, 200, "POST "+body)
		s.wantCalls(4)
	})
}

// readingOf is reading with another target.
func (s *site) readingOf(target, body string) *http.Request {
	r := s.reading(body)
	r.URL.Path = target
	return r
}

// H32, H29: a response to a read with a body is not for a GET, even if the origin calls
// it the representation of its URL, and whether the read is shared or not.
func TestH32_ContentLocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := byJSON
		rule.Only = []weirhttp.ReadCondition{{Field: "/q", Values: []string{"1"}}}
		answer := parrot(0, "Cache-Control", "max-age=3600")
		s, _ := library(t, reads(rule), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Location", r.URL.Path)
			answer(w, r)
		})
		for _, row := range []struct {
			target, body string
			calls        int64
		}{{"/shared", `{"q":1}`, 2}, {"/alone", `{"q":2}`, 3}} {
			before := s.calls.Load()
			for range 2 {
				s.do(s.readingOf(row.target, row.body)).want(t, 200, "POST "+row.body)
				synctest.Wait()
				s.get(row.target).want(t, 200, "GET ")
			}
			if n := s.calls.Load() - before; n != row.calls {
				t.Errorf("%s: %d calls; want %d", row.target, n, row.calls)
			}
		}
	})
}
