package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// What follows the first paragraph of "What the field gets wrong", a sentence a
// test: what a cache does that coalesces around a buffered response.

// "9 of 10 users with different Authorization got another user's body, even with
// no-store."
func TestField_EachUserGetsTheirOwnBody(t *testing.T) {
	const users = 20
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for _, control := range []string{"", "no-store", "private, max-age=60", "max-age=60", "no-cache"} {
			for _, field := range []string{"Authorization", "Cookie"} {
				g := newGathering()
				s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
					g.hold(r)
					if control != "" {
						w.Header().Set("Cache-Control", control)
					}
					w.Header().Set("ETag", `"same"`)
					io.WriteString(w, "for "+r.Header.Get(field))
				})))))
				user := func(i int) string { return fmt.Sprintf("user-%d", i) }
				for wave := range 2 {
					replies := s.crowd(users, func(i int) *http.Request { return s.request("GET", "/me", nil, field, user(i)) })
					g.await(t, users) // none waits for another
					g.letGo(users)
					for i, got := range replies() {
						if want := "for " + user(i); got.err != nil || got.status != 200 || got.body != want {
							t.Errorf("wave %d, Cache-Control %q: %s %s = %d %q, %v; want %q", wave, control, field, user(i), got.status, got.body, got.err, want)
						}
					}
				}
				if n := s.g.Cache().Stats().Responses; n != 0 {
					t.Errorf("Cache-Control %q with %s: %d stored; want none", control, field, n)
				}
			}
		}
	})
}

// "An origin 500 reached followers as an empty 200."
func TestField_AnErrorReachesFollowersAsItIs(t *testing.T) {
	const body = "the origin is sorry"
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			w.Header().Set("X-Why", "because")
			w.WriteHeader(500)
			io.WriteString(w, body)
		})))))
		replies := s.crowd(20, s.same("/"))
		s.waiting(19)
		close(g.let)
		for i, got := range replies() {
			if got.status != 500 || got.body != body || got.header.Get("X-Why") != "because" {
				t.Errorf("client %d: %d %q with X-Why %q; want the origin's 500", i, got.status, got.body, got.header.Get("X-Why"))
			}
		}
		if n := g.calls.Load(); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
		// Requests that differ may not share it; they get one of their own.
		replies = s.crowd(10, func(i int) *http.Request { return s.request("GET", "/apart", nil, "X-Who", fmt.Sprint(i)) })
		s.all(replies(), 500, body)
	})
}

// "A body cut off by the origin was delivered as complete to everybody."
func TestField_ACutOffBodyIsBrokenForEverybody(t *testing.T) {
	cut := map[string]func(w http.ResponseWriter){
		"length": func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1000") },
		"chunks": func(http.ResponseWriter) {},
	}
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for name, frame := range cut {
			g := newGathering()
			s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
				frame(w)
				w.Header().Set("Cache-Control", "max-age=60")
				g.hold(r)
				w.Write(make([]byte, 500))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})))))
			for wave := int64(1); wave <= 2; wave++ {
				replies := s.crowd(20, s.same("/"))
				s.waiting(19)
				g.letGo(1)
				for i, got := range replies() {
					// It is a 502 if the origin ends before the head has been sent.
					if got.err == nil && got.status != http.StatusBadGateway || len(got.body) > 500 {
						t.Errorf("%s, client %d: %d with %d bytes, no error; want it broken, or 502", name, i, got.status, len(got.body))
					}
				}
				if n := g.calls.Load(); n != wave || s.g.Cache().Stats().Responses != 0 {
					t.Errorf("%s: %d calls, %d stored; want %d and none", name, n, s.g.Cache().Stats().Responses, wave)
				}
			}
		}
	})
}

// As above, where the end of the connection is the end of the body: reset, it
// is broken for all; closed, it is whole, but not kept. The reset comes when all
// have the head, as it may take along what was not read before it.
func TestField_ACloseDelimitedBody(t *testing.T) {
	let, cut := make(chan struct{}), make(chan struct{})
	o := rawServing(t, func(c net.Conn, br *bufio.Reader) {
		path := readHead(br)
		<-let
		io.WriteString(c, "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nhalf of it")
		if path == "/reset" {
			<-cut
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	})
	for _, path := range []string{"/reset", "/closed"} {
		s := open(t, o.config())
		replies := s.crowd(20, s.same(path))
		s.waiting(19)
		let <- struct{}{}
		if path == "/reset" {
			s.until("all have the head", func() bool { return s.stats().Joined == 19 })
			close(cut)
		}
		for i, got := range replies() {
			if broken := got.err != nil; broken != (path == "/reset") || !broken && got.body != "half of it" {
				t.Errorf("%s, client %d: %d %q, %v", path, i, got.status, got.body, got.err)
			}
		}
		if n := s.g.Cache().Stats().Responses; n != 0 {
			t.Errorf("%s: %d stored; want none", path, n)
		}
	}
}

// "When the leader's client hung up, all followers got 499."
func TestField_TheLeaderHangsUp(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g, middle := newGathering(), make(chan struct{})
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			io.WriteString(w, "first, ")
			w.(http.Flusher).Flush()
			select {
			case <-middle:
			case <-r.Context().Done():
				return
			}
			io.WriteString(w, "last")
		})))))
		hangUp := func(ctx context.Context) (chan struct{}, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				s.do(s.request("GET", "/", nil).WithContext(ctx))
			}()
			return gone, cancel
		}
		gone, cancel := hangUp(t.Context())
		g.await(t, 1)
		replies := s.crowd(20, s.same("/"))
		s.waiting(20)
		cancel()
		<-gone
		s.until("the leader's leaving is noticed", func() bool { return s.stats().Left == 1 })
		g.letGo(1)
		s.until("all have the head", func() bool { return s.stats().Joined == 20 })
		close(middle)
		s.all(replies(), 200, "first, last")
		if n := g.calls.Load(); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
	})
}

// "Streaming broke, for the leader too": each has the first bytes while the
// origin has not sent the last.
func TestField_StreamingForLeaderAndFollowers(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for _, control := range []string{"no-store", "max-age=60", ""} {
			n := 20
			if control == "no-store" {
				n = 1 // none follows
			}
			first, last := newGathering(), make(chan struct{})
			s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
				if control != "" {
					w.Header().Set("Cache-Control", control)
				}
				first.hold(r)
				io.WriteString(w, "first\n")
				w.(http.Flusher).Flush()
				<-last
				io.WriteString(w, "last\n")
			})))))
			firsts, wholes := make(chan struct{}, n), make(chan string, n)
			for range n {
				go func() {
					resp, err := s.client.Do(s.request("GET", "/", nil))
					if err != nil {
						t.Error(err)
						firsts <- struct{}{}
						wholes <- ""
						return
					}
					defer resp.Body.Close()
					br := bufio.NewReader(resp.Body)
					line, _ := br.ReadString('\n')
					firsts <- struct{}{}
					rest, _ := io.ReadAll(br)
					wholes <- line + string(rest)
				}()
			}
			s.waiting(n - 1)
			first.letGo(1)
			late := time.After(patience)
			for i := range n {
				select {
				case <-firsts:
				case <-late:
					close(last)
					t.Fatalf("%q: %d of %d clients have the first bytes before the origin sent the last", control, i, n)
				}
			}
			close(last)
			for range n {
				if got := <-wholes; got != "first\nlast\n" {
					t.Errorf("%q: body %q", control, got)
				}
			}
			if calls := first.calls.Load(); calls != 1 {
				t.Errorf("%q: %d calls; want 1", control, calls)
			}
		}
	})
}

// As above, where the answer has a length and is to be stored: followers have
// the half that was sent, not only "the first byte" and the rest at the end.
func TestField_FollowersHaveWhatWasSent(t *testing.T) {
	const half = 256 << 10
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g, last := newGathering(), make(chan struct{})
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Content-Length", fmt.Sprint(2*half))
			g.hold(r)
			io.WriteString(w, strings.Repeat("a", half))
			w.(http.Flusher).Flush()
			<-last
			io.WriteString(w, strings.Repeat("b", half))
		})))))
		halves, wholes := make(chan bool, 20), make(chan bool, 20)
		for range 20 {
			go func() {
				resp, err := s.client.Do(s.request("GET", "/", nil))
				if err != nil {
					halves <- false
					wholes <- false
					return
				}
				defer resp.Body.Close()
				b := make([]byte, half)
				_, err = io.ReadFull(resp.Body, b)
				halves <- err == nil && string(b) == strings.Repeat("a", half)
				_, err = io.ReadFull(resp.Body, b)
				wholes <- err == nil && string(b) == strings.Repeat("b", half)
			}()
		}
		s.waiting(19)
		g.letGo(1)
		late := time.After(patience)
		for i := range 20 {
			select {
			case ok := <-halves:
				if !ok {
					t.Error("a client has another first half")
				}
			case <-late:
				close(last)
				t.Fatalf("%d clients have the half that was sent; want 20", i)
			}
		}
		close(last)
		for range 20 {
			if !<-wholes {
				t.Error("a client has another second half")
			}
		}
	})
}
