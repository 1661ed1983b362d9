package weirhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

func TestH13_ClientLimiterComesFirst(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			clients, err := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{Rate: 2, Per: 10 * time.Second, Key: weirhttp.ByHeader("User", nil)})
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, p, weirhttp.Options{ClientLimiter: clients}, answering(0, "Cache-Control", "max-age=60"))
			for i := range 3 {
				r := s.get("/a", "User", "u")
				if i < 2 {
					r.want(t, 200, "/a")
					continue
				}
				if r.status != 429 || r.header.Get("Retry-After") != "5" || r.header.Get("RateLimit") == "" || r.header.Get("Cache-Control") != "no-store" {
					t.Errorf("got %d %v; want 429 with Retry-After 5 and RateLimit", r.status, r.header)
				}
			}
			r := s.get("/a", "User", "v") // other clients do not inherit the 429, nor its fields
			r.want(t, 200, "/a")
			has(t, r, "RateLimit", "r=1")
			if r := s.get("/a"); r.header.Get("RateLimit") != "" {
				t.Errorf("RateLimit = %q for a client that is not counted; want none", r.header.Get("RateLimit"))
			}
			if r := s.do(s.request(t.Context(), "POST", "/a", "User", "u")); r.status != 429 {
				t.Errorf("POST = %d; want 429", r.status)
			}
			s.wantCalls(1)
			if got := s.handler.Stats().RefusedClient; got != 2 {
				t.Errorf("RefusedClient = %d; want 2", got)
			}
		})
	})
}

func TestH14_TheCapIsExactWhateverTheWay(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			l := permits(t, limit.ConcurrencyOptions{Limit: 4})
			s := open(t, p, weirhttp.Options{Limiter: l}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/shared" {
					w.Header().Set("Cache-Control", "no-store")
				}
				_, _ = io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(slow) // the permit ends with the body
			})
			s.together(60, func(i int) *http.Request {
				switch i % 5 {
				case 0:
					return s.request(t.Context(), "POST", "/post")
				case 1:
					return s.request(t.Context(), "GET", fmt.Sprint("/", i))
				case 2:
					return s.request(t.Context(), "GET", "/same")
				case 3:
					return s.request(t.Context(), "GET", "/mine", "Cookie", "a=b")
				}
				return s.request(t.Context(), "HEAD", "/shared")
			})
			if got := s.peak.Load(); got != 4 {
				t.Errorf("%d calls at once; want 4", got)
			}
		})
	})
}

func TestH14_RefusedWith503AndRetryAfter(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			l := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: 1})
			s := open(t, p, weirhttp.Options{Limiter: l, Gateway: true}, answering(10*time.Second, "Cache-Control", "max-age=60"))
			s.get("/warm")
			go s.get("/1")
			go s.get("/2")
			time.Sleep(time.Second)
			replies := s.together(5, s.same("/3"))
			for _, r := range replies {
				if r.status != 503 || r.header.Get("Retry-After") == "" || r.took != 0 {
					t.Errorf("got %d %v after %v; want 503 with Retry-After at once", r.status, r.header, r.took)
				}
				has(t, r, "Proxy-Status", "weir; error=connection_limit_reached")
			}
			s.get("/warm").want(t, 200, "/warm") // a hit needs no permit
			if got := s.handler.Stats().Refused; got != 5 {
				t.Errorf("Refused = %d; want 5", got)
			}
			time.Sleep(time.Minute)
		})
	})
}

func TestH14_StreamsAreCountedApart(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			l := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
			streams := permits(t, limit.ConcurrencyOptions{Limit: 2, Queue: -1})
			s := open(t, p, weirhttp.Options{Limiter: l, Streams: streams}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/events" {
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				}
			})
			for _, accept := range []string{"text/event-stream", "*/*"} { // requested by the client, or only by the response
				resp, err := s.begin(t.Context(), "/events", "Accept", accept)
				if err != nil || resp.StatusCode != 200 {
					t.Fatalf("the stream = %v, %v", resp, err)
				}
				defer resp.Body.Close()
				s.get("/a").want(t, 200, "") // the only permit is free
			}
			if r := s.get("/events", "Accept", "text/event-stream"); r.status != 503 {
				t.Errorf("a third stream got %d; want 503", r.status)
			}
		})
	})
}
