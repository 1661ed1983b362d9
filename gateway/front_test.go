package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// The handler in Route.Front gets the requests that the client limiter admitted, and its
// own requests do not pass the limiter again (H13).
func TestH13_FrontIsBehindTheClientLimiter(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "origin") })
	c := config(upstreamOf(o))
	c.Routes[0].Rate = &weirhttp.ClientLimiterOptions{Rate: 2, Per: time.Hour}
	second := c.Routes[0]
	second.Name, second.Path, second.Rate = "bare", "/bare", nil
	third := second
	third.Name, third.Path, third.Observe = "seen", "/seen", true
	c.Routes = append(c.Routes, second, third)
	var s *site
	var fronted atomic.Int64
	c.Front = func(route string) http.Handler {
		if route == "bare" {
			return nil
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fronted.Add(1)
			for i := range 5 {
				inner := httptest.NewRecorder()
				if !s.g.ServeRoute(inner, r, route) || inner.Code != 200 || inner.Body.String() != "origin" {
					t.Errorf("ServeRoute %d = %d %q; want the route's answer", i, inner.Code, inner.Body)
				}
			}
			fmt.Fprint(w, "front of ", route)
		})
	}
	s = open(t, c)
	for range 2 {
		s.want("/", 200, "front of all")
	}
	if got := s.get("/"); got.status != 429 {
		t.Errorf("over the rate = %d %q; want 429", got.status, got.body)
	}
	s.want("/bare", 200, "origin")
	s.want("/seen", 200, "origin") // in observe mode nothing is done
	if n := fronted.Load(); n != 2 {
		t.Errorf("Front answered %d requests; want 2", n)
	}
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	if s.g.ServeRoute(w, r, "none") || w.Body.Len() > 0 {
		t.Errorf("ServeRoute without a route = true, or wrote %q", w.Body)
	}
	c.Front = nil
	s.update(c)
	if got := s.get("/"); got.status != 429 {
		t.Errorf("after the update = %d %q; want 429, by the same limiter", got.status, got.body)
	}
	if err := s.g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.g.ServeRoute(w, r, "all") {
		t.Error("ServeRoute after Close = true")
	}
}
