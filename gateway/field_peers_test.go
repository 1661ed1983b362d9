package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// What follows the paragraphs about servers that are caches too, a sentence a
// test.

// "nginx and Traffic Server hand an authorized user's max-age response to
// anonymous clients", who are given neither what is stored of it (nothing is)
// nor what is in flight. Nor is it the other way round.
func TestField_AnAuthorisedAnswerIsNotForAnonymousClients(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			w.Header().Set("Cache-Control", "max-age=60")
			io.WriteString(w, "for "+r.Header.Get("Authorization"))
		})))))
		authorized := s.crowd(1, s.same("/", "Authorization", "Bearer me"))
		g.await(t, 1)
		anonymous := s.crowd(20, s.same("/")) // while it is in flight
		s.waiting(19)
		g.await(t, 1)
		close(g.let)
		s.all(authorized(), 200, "for Bearer me")
		s.all(anonymous(), 200, "for ")
		s.stored(1)
		s.want("/", 200, "for Bearer me", "Authorization", "Bearer me")
		s.all(s.crowd(20, s.same("/"))(), 200, "for ")
		s.want("/new", 200, "for Bearer me", "Authorization", "Bearer me")
		s.all(s.crowd(20, s.same("/new"))(), 200, "for ")
		if n := g.calls.Load(); n != 5 {
			t.Errorf("%d calls; want 5: the user's three, and one for all others of each URL", n)
		}
	})
}

// A response that the origin marks as shared is shared, with authorized
// requests too.
func TestField_ASharedAnswerIsForAuthorisedClients(t *testing.T) {
	for _, control := range []string{"public, max-age=60", "s-maxage=60"} {
		g := newGathering()
		s := open(t, config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
			g.calls.Add(1)
			w.Header().Set("Cache-Control", control)
			io.WriteString(w, "for all")
		}))))
		s.want("/", 200, "for all", "Authorization", "Bearer me")
		s.stored(1)
		s.all(s.crowd(10, s.same("/"))(), 200, "for all")
		s.all(s.crowd(10, s.same("/", "Authorization", "Bearer you"))(), 200, "for all")
		if n := g.calls.Load(); n != 1 {
			t.Errorf("%q: %d calls; want 1", control, n)
		}
	}
}

// "Envoy's newer cache filter gives the leader's Set-Cookie to everybody who
// waited": nobody gets another's, though the answer says max-age.
func TestField_SetCookieIsNotForThoseWhoWait(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		const n = 20
		g := newGathering()
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			id := g.hold(r)
			w.Header().Set("Cache-Control", "public, max-age=60")
			w.Header().Set("Set-Cookie", fmt.Sprintf("session=%d", id))
			fmt.Fprint(w, id)
		})))))
		seen := map[string]bool{}
		replies := s.crowd(n, s.same("/"))
		s.waiting(n - 1)
		g.letGo(1)
		g.await(t, n) // with the leader: all others at once
		g.letGo(n - 1)
		for wave := range 2 {
			for i, got := range replies() {
				cookie := got.header.Get("Set-Cookie")
				if got.status != 200 || cookie != "session="+got.body || seen[cookie] {
					t.Errorf("wave %d, client %d: %d %q with Set-Cookie %q; want one of its own", wave, i, got.status, got.body, cookie)
				}
				seen[cookie] = true
			}
			if wave == 0 {
				replies = s.crowd(n, s.same("/"))
				g.await(t, n)
				g.letGo(n)
			}
		}
	})
}

// "httpd, HAProxy replay a stored Set-Cookie." It is not stored, and one that
// comes with a 304 gets into nothing that is.
func TestField_SetCookieIsNotReplayed(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			id := g.calls.Add(1)
			w.Header().Set("Cache-Control", "max-age=60")
			if r.URL.Path == "/valid" {
				w.Header().Set("ETag", `"1"`)
				w.Header().Set("Cache-Control", "max-age=0")
			}
			if r.URL.Path != "/valid" || id > 1 {
				w.Header().Set("Set-Cookie", fmt.Sprintf("session=%d", id))
			}
			if r.Header.Get("If-None-Match") == `"1"` {
				w.WriteHeader(304)
				return
			}
			io.WriteString(w, "body")
		})))))
		s.want("/valid", 200, "body")
		s.stored(1)
		cookies := map[string]bool{}
		for _, path := range []string{"/valid", "/", "/valid", "/"} {
			before := g.calls.Load()
			for i, got := range s.crowd(10, s.same(path))() {
				cookie := got.header.Get("Set-Cookie")
				if got.status != 200 || got.body != "body" || cookies[cookie] || (cookie == "") != (path == "/valid") {
					t.Errorf("%s, client %d: %d %q with Set-Cookie %q; want none of another", path, i, got.status, got.body, cookie)
				}
				if cookie != "" {
					cookies[cookie] = true
				}
			}
			if n := g.calls.Load() - before; n < 1 || path == "/" && n != 10 {
				t.Errorf("%s: %d calls", path, n)
			}
		}
	})
}

// "nginx's cache lock polls every 500 ms": here the waiting clients get an error.
// The best of some waves counts: one that polls is late in all of them, and on a
// busy machine there is none that is quick before long.
func TestField_NobodyPolls(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for _, control := range []string{"max-age=60", "no-store"} {
			const quick = 200 * time.Millisecond // 5 ms where nothing else runs
			best, end := time.Hour, time.Now().Add(patience)
			for wave := 0; best > quick && time.Now().Before(end); wave++ {
				g := newGathering()
				s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
					g.hold(r)
					w.Header().Set("Cache-Control", control)
				})))))
				replies := s.crowd(20, s.same(fmt.Sprint("/", wave)))
				s.waiting(19)
				let := time.Now()
				close(g.let)
				s.all(replies(), 200, "")
				best = min(best, time.Since(let))
			}
			if best > quick {
				t.Errorf("%s: the last of 20 had its answer %v after the origin gave it", control, best)
			}
		}
	})
}

// "Followers get no byte until the whole body is stored" is tested with
// streaming, in field_buffered_test.go. "An uncacheable or failing answer
// releases waiters one by one, again on every wave": here all are at the origin
// at the same time, and those of the next wave do not wait at all.
func TestField_WaitersAreReleasedAtOnce(t *testing.T) {
	const n = 20
	answers := map[string]func(w http.ResponseWriter){
		"no-store":   func(w http.ResponseWriter) { w.Header().Set("Cache-Control", "no-store") },
		"private":    func(w http.ResponseWriter) { w.Header().Set("Cache-Control", "private, max-age=60") },
		"no-cache":   func(w http.ResponseWriter) { w.Header().Set("Cache-Control", "no-cache") },
		"Vary: *":    func(w http.ResponseWriter) { w.Header().Set("Vary", "*") },
		"Set-Cookie": func(w http.ResponseWriter) { w.Header().Set("Set-Cookie", "a=b") },
		"403":        func(w http.ResponseWriter) { w.WriteHeader(403) },
		"401":        func(w http.ResponseWriter) { w.WriteHeader(401) },
		"429":        func(w http.ResponseWriter) { w.WriteHeader(429) },
		"500 no-store": func(w http.ResponseWriter) {
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(500)
		},
		"503 private": func(w http.ResponseWriter) {
			w.Header().Set("Cache-Control", "private")
			w.WriteHeader(503)
		},
	}
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for name, answer := range answers {
			g := newGathering()
			s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
				id := g.hold(r)
				answer(w)
				fmt.Fprint(w, id)
			})))))
			first := s.crowd(n, s.same("/"))
			s.waiting(n - 1)
			g.await(t, 1)
			g.letGo(1)
			g.await(t, n-1)
			second := s.crowd(n, s.same("/"))
			g.await(t, n) // while those of the first are there still
			close(g.let)
			seen := map[string]bool{}
			for i, got := range slices.Concat(first(), second()) {
				if got.err != nil || got.body == "" || seen[got.body] {
					t.Errorf("%s, client %d: %d %q, %v; want an answer of its own", name, i, got.status, got.body, got.err)
				}
				seen[got.body] = true
			}
		}
	})
}

// As above, where there is no answer: the failure is everybody's, at once.
func TestField_AFailureIsEverybodysAtOnce(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			panic(http.ErrAbortHandler)
		})))))
		for wave := int64(1); wave <= 2; wave++ {
			replies := s.crowd(20, s.same("/"))
			s.waiting(19)
			g.letGo(1)
			for i, got := range replies() {
				if got.err != nil || got.status != 502 || got.header.Get("Proxy-Status") == "" || got.header.Get("Cache-Control") != "no-store" {
					t.Errorf("client %d: %d %v, %v; want 502 with Proxy-Status, not to be stored", i, got.status, got.header, got.err)
				}
			}
			if n := g.calls.Load(); n != wave {
				t.Errorf("%d calls; want %d", n, wave)
			}
		}
	})
}

// "Traffic Server makes 30 upstream calls by default" for a cold object.
func TestField_OneCallForAColdObject(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for _, control := range []string{"max-age=60", "", "max-age=0", "public"} {
			g := newGathering()
			s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
				id := g.hold(r)
				if control != "" {
					w.Header().Set("Cache-Control", control)
				}
				fmt.Fprint(w, id)
			})))))
			replies := s.crowd(30, s.same("/", "Accept-Language", "en"))
			s.waiting(29)
			g.letGo(1)
			s.all(replies(), 200, "1")
			if n := g.calls.Load(); n != 1 {
				t.Errorf("%q: %d calls; want 1", control, n)
			}
		}
	})
}

// "A leader that stops reading starves its followers": here it gets what its
// connection takes, and falls behind on its own.
func TestField_ALeaderThatStopsReading(t *testing.T) {
	const chunk, small, large, followers = 512 << 10, 4 << 20, 16 << 20, 10
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for _, row := range []struct {
			name   string
			size   int
			length bool // the origin says how long it is
		}{{"kept whole", small, true}, {"kept whole, chunks", small, false}, {"window", large, false}} {
			g, took := newGathering(), make(chan struct{}, 1000)
			c := config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				if row.length {
					w.Header().Set("Content-Length", fmt.Sprint(row.size))
				}
				g.hold(r)
				for range row.size / chunk {
					w.Write(make([]byte, chunk))
					w.(http.Flusher).Flush()
					for range followers { // an origin that is not faster than they are
						select {
						case <-took:
						case <-r.Context().Done():
							return
						}
					}
				}
			}))))
			c.Routes[0].MaxObject = 8 << 20
			s := open(c)
			var leader *http.Response // whose body nobody reads
			led := make(chan struct{})
			go func() {
				defer close(led)
				var err error
				if leader, err = s.anew().Do(s.request("GET", "/", nil)); err != nil {
					t.Error(err)
				}
			}()
			g.await(t, 1)
			others := s.anew()
			var clients sync.WaitGroup
			for i := range followers {
				clients.Go(func() {
					resp, err := others.Do(s.request("GET", "/", nil))
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					piece := make([]byte, chunk)
					for n := 0; n < row.size; n += chunk {
						if _, err := io.ReadFull(resp.Body, piece); err != nil {
							t.Errorf("%s, follower %d: %v after %d bytes; want %d", row.name, i, err, n, row.size)
							return
						}
						took <- struct{}{}
					}
					if n, err := resp.Body.Read(piece); n != 0 || err != io.EOF {
						t.Errorf("%s, follower %d: %d more bytes, %v; want the end", row.name, i, n, err)
					}
				})
			}
			s.waiting(followers)
			g.letGo(1)
			clients.Wait()
			<-led
			if leader != nil {
				leader.Body.Close()
			}
			if n := g.calls.Load(); n != 1 {
				t.Errorf("%s: %d calls; want 1", row.name, n)
			}
		}
	})
}

// "A leaving leader harms nobody" in the middle of the body either, nor does a
// follower that leaves.
func TestField_WhoLeavesInTheMiddleHarmsNobody(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g, last := newGathering(), make(chan struct{})
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			io.WriteString(w, "first, ")
			w.(http.Flusher).Flush()
			select {
			case <-last:
				io.WriteString(w, "last")
			case <-r.Context().Done():
			}
		})))))
		leave := make(chan struct{})
		var leavers sync.WaitGroup
		leaver := func() {
			client := s.anew()
			leavers.Go(func() {
				resp, err := client.Do(s.request("GET", "/", nil))
				if err != nil {
					t.Error(err)
					return
				}
				<-leave
				resp.Body.Close()
			})
		}
		leaver()
		g.await(t, 1) // it leads
		for range 5 {
			leaver()
		}
		replies := s.crowd(15, s.same("/"))
		s.waiting(20)
		g.letGo(1)
		s.until("all have the head", func() bool { return s.stats().Joined == 20 })
		close(leave)
		leavers.Wait()
		s.until("the leavers are gone", func() bool { return s.stats().LeftMidway == 6 })
		close(last)
		s.all(replies(), 200, "first, last")
		if n := g.calls.Load(); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
	})
}

// Varnish "turns all collapsing off and lets everybody through": what is known
// not to be shareable is not waited for, and is limited all the same.
func TestField_HitForMissIsStillLimited(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		o := serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			w.Header().Set("Cache-Control", "private")
			io.WriteString(w, "yours")
		}))
		c := config(upstreamOf(o))
		c.Upstreams[0].Concurrency = 4
		s := open(c)
		learn := s.crowd(1, s.same("/"))
		g.await(t, 1)
		g.letGo(1)
		s.all(learn(), 200, "yours")
		o.peak.Store(0)
		replies := s.crowd(30, s.same("/"))
		g.await(t, 4)
		s.until("all others are queued", func() bool { return s.g.Stats().Upstreams["main"].Limit.Queued == 26 })
		if n := s.stats().Waiting; n != 0 {
			t.Errorf("%d wait for another's call; want none", n)
		}
		close(g.let)
		s.all(replies(), 200, "yours")
		if n := o.peak.Load(); n != 4 {
			t.Errorf("%d calls at once; want 4", n)
		}
	})
}

// Released waiters are limited too: never all at the origin at once.
func TestField_ReleasedWaitersAreLimited(t *testing.T) {
	g := newGathering()
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		w.Header().Set("Cache-Control", "no-store")
	})
	c := config(upstreamOf(o))
	c.Upstreams[0].Concurrency = 3
	s := open(t, c)
	replies := s.crowd(30, s.same("/"))
	s.waiting(29)
	g.letGo(1)
	g.await(t, 4) // with the leader
	s.until("all but the three are queued", func() bool { return s.g.Stats().Upstreams["main"].Limit.Queued == 26 })
	close(g.let)
	s.all(replies(), 200, "")
	if n := o.peak.Load(); n != 3 {
		t.Errorf("%d calls at once; want 3", n)
	}
}
