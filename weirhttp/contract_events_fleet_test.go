package weirhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A complete stream is a response for the whole fleet. While it runs it belongs to its
// instance, and a broken one is never stored.
func TestH33_InAFleet(t *testing.T) {
	for name, events := range map[string][]string{"whole": tokens, "broken": tokens[:3]} {
		synctest.Test(t, func(t *testing.T) {
			set := func(_ int, o *weirhttp.Options) { o.Events, o.Observer = sharedEvents.Events, quiet{} }
			e := openEnsemble(t, 3, set, streaming(events))
			request := func(s *site, _ int) *http.Request { return s.events(t.Context(), "/a") }
			for _, replies := range e.everywhere(3, request) {
				for _, r := range replies {
					if name == "broken" {
						if r.err == nil && r.status == 200 {
							t.Errorf("got a complete response %q", r.body)
						}
						continue
					}
					r.want(t, 200, strings.Join(tokens, ""))
				}
			}
			if name == "broken" {
				return
			}
			e.wantCalls(1)
			time.Sleep(time.Minute)
			e.everywhere(3, request)
			e.wantCalls(1)
			time.Sleep(8*time.Minute + 57*time.Second) // until 3 s before the end of its freshness
			e.everywhere(1, request)
			e.wantCalls(1)
			time.Sleep(10 * time.Second)
			e.everywhere(1, request)
			e.wantCalls(2)
		})
	}
}

// Instances with and without the declaration share a Tier: the latter never serve what
// the former store.
func TestH33_AFleetInWhichNotAllShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := func(i int, o *weirhttp.Options) {
			if i == 0 {
				o.Events = sharedEvents.Events
			}
		}
		e := openEnsemble(t, 2, set, streaming(tokens, "Cache-Control", "max-age=600"))
		for range 2 {
			for _, s := range e.sites {
				s.get("/a", "Accept", "application/json").want(t, 200, strings.Join(tokens, ""))
			}
		}
		e.sites[0].wantCalls(1)
		e.sites[1].wantCalls(2)
	})
}
