package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// theEvents are the events of a stream, which ends with the last.
var theEvents = []string{"data: one\n\n", "id: 7\ndata: two\n\n", "event: note\ndata: {}\n\n", "data: [DONE]\n\n"}

// A script is an origin that sends a stream on the test's command.
type script struct {
	*origin
	begun chan struct{} // receives once for each call
	next  chan string   // the next bytes; closed: the end
	gone  chan struct{} // receives when a call is canceled
}

func scripted(t *testing.T, fields ...string) *script {
	s := &script{begun: make(chan struct{}, 2000), next: make(chan string), gone: make(chan struct{}, 2000)}
	s.origin = serving(t, "events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.(http.Flusher).Flush()
		s.begun <- struct{}{}
		for {
			select {
			case text, ok := <-s.next:
				if !ok {
					return
				}
				if text == "break" {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, text)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				s.gone <- struct{}{}
				return
			}
		}
	})
	return s
}

// events is a Config whose route shares event streams.
func eventsConfig(o *origin) gateway.Config {
	c := config(upstreamOf(o))
	c.Routes[0].Events = weirhttp.EventPolicy{Share: true, TTL: time.Hour, End: "[DONE]"}
	return c
}

// A reader reads one stream.
type reader struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
	stop context.CancelFunc
}

// follow requests a stream, and returns once its headers have arrived.
func (s *site) follow(path string, fields ...string) *reader {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	resp, err := s.client.Do(s.request("GET", path, nil, append(fields, "Accept", "text/event-stream")...).WithContext(ctx))
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	return &reader{t: s.t, resp: resp, in: bufio.NewReader(resp.Body), stop: cancel}
}

// event reads until it has the bytes of want.
func (r *reader) event(want string) {
	r.t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(r.in, b); err != nil || string(b) != want {
		r.t.Errorf("the next event is %q, %v; want %q", b, err, want)
	}
}

// ends reads the rest, which must be want, and then the end of a whole response.
func (r *reader) ends(want string) {
	r.t.Helper()
	rest, err := io.ReadAll(r.in)
	if err != nil || string(rest) != want {
		r.t.Errorf("the rest is %q, %v; want %q and the end", rest, err, want)
	}
	r.resp.Body.Close()
}

func (r *reader) breaks() {
	r.t.Helper()
	if rest, err := io.ReadAll(r.in); err == nil {
		r.t.Errorf("the stream ended with %q as if it were whole", rest)
	}
	r.resp.Body.Close()
}

func (r *reader) leave() {
	r.stop()
	r.resp.Body.Close()
}

// overHTTP2 returns a site whose clients use HTTP/2 over TLS.
func overHTTP2(t *testing.T, c gateway.Config) *site {
	t.Helper()
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(g)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return &site{t: t, g: g, url: server.URL, client: server.Client()}
}

// bothProtocols runs test with clients of HTTP/1.1 and of HTTP/2.
func bothProtocols(t *testing.T, test func(t *testing.T, open func(*testing.T, gateway.Config) *site)) {
	t.Run("HTTP1", func(t *testing.T) { test(t, open) })
	t.Run("HTTP2", func(t *testing.T) { test(t, overHTTP2) })
}

// One stream goes to the clients that were there from its beginning, to one that comes
// after each event, and to one after its end, event by event.
func TestH33_OneStreamForAll(t *testing.T) {
	bothProtocols(t, func(t *testing.T, open func(*testing.T, gateway.Config) *site) {
		o := scripted(t)
		s := open(t, eventsConfig(o.origin))
		readers := []*reader{s.follow("/a"), s.follow("/a"), s.follow("/a")}
		sent := ""
		for _, e := range theEvents {
			o.next <- e
			for _, r := range readers {
				r.event(e)
			}
			sent += e
			late := s.follow("/a")
			late.event(sent)
			readers = append(readers, late)
		}
		close(o.next)
		for _, r := range readers {
			r.ends("")
		}
		hit := s.get("/a", "Accept", "text/event-stream")
		if hit.body != sent || !strings.Contains(hit.header.Get("Cache-Status"), "hit") {
			t.Errorf("a later client got %q, %s; want the whole stream from the store", hit.body, hit.header.Get("Cache-Status"))
		}
		if n := o.calls.Load(); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
	})
}

// The bytes of a stream are the same for every client, whatever its line ends are (H17).
func TestH33_BytesAreUnchanged(t *testing.T) {
	for _, stream := range []string{
		"\xef\xbb\xbf: hello\r\n\r\ndata: a\r\ndata: b\r\n\r\ndata: [DONE]\r\n\r\n",
		"retry: 10\rdata:a\r\rdata:[DONE]\r\r", "data\ndata\n\nevent:x\ndata: \xff\xfe\x00\n\ndata: [DONE]\n\n: bye",
	} {
		o := scripted(t)
		s := open(t, eventsConfig(o.origin))
		whole := stream
		if strings.HasSuffix(stream, "bye") {
			whole += "\n"
		}
		a, b := s.follow("/a"), s.follow("/a")
		for i := range len(whole) {
			o.next <- whole[i : i+1]
		}
		close(o.next)
		a.ends(whole)
		b.ends(whole)
		if hit := s.get("/a", "Accept", "text/event-stream"); hit.body != whole || !strings.Contains(hit.header.Get("Cache-Status"), "; hit") {
			t.Errorf("from the store: %q, %s; want %q", hit.body, hit.header.Get("Cache-Status"), whole)
		}
	}
}

// Whichever client leaves, after whichever event, the others lose nothing.
func TestH33_LeavingAtEveryEvent(t *testing.T) {
	bothProtocols(t, func(t *testing.T, open func(*testing.T, gateway.Config) *site) {
		for at := range len(theEvents) + 1 {
			for who := range 3 {
				o := scripted(t)
				s := open(t, eventsConfig(o.origin))
				readers := []*reader{s.follow("/a"), s.follow("/a"), s.follow("/a")}
				for i, e := range append(theEvents, "") {
					if i == at {
						readers[who].leave()
						readers = append(readers[:who:who], readers[who+1:]...)
					}
					if e == "" {
						close(o.next)
						break
					}
					o.next <- e
					for _, r := range readers {
						r.event(e)
					}
				}
				for _, r := range readers {
					r.ends("")
				}
				if n := o.calls.Load(); n != 1 {
					t.Errorf("client %d left after event %d: %d calls; want 1", who, at, n)
				}
			}
		}
	})
}

// The last client to leave ends the call to the origin, or the stream is finished and
// stored without it.
func TestH33_TheLastClientToLeave(t *testing.T) {
	for at := range theEvents {
		for _, finish := range []bool{false, true} {
			o := scripted(t)
			c := eventsConfig(o.origin)
			c.Routes[0].FinishAbandoned = finish
			s := open(t, c)
			a, b := s.follow("/a"), s.follow("/a")
			for _, e := range theEvents[:at] {
				o.next <- e
				a.event(e)
				b.event(e)
			}
			a.leave()
			b.leave()
			if !finish {
				<-o.gone
				if n := s.g.Cache().Stats().Responses; n != 0 {
					t.Errorf("%d stored; want none", n)
				}
				continue
			}
			for s.g.Stats().Routes["all"].LeftMidway < 2 {
				s.turn()
			}
			for _, e := range theEvents[at:] {
				o.next <- e
			}
			close(o.next)
			s.stored(1)
			s.want("/a", 200, strings.Join(theEvents, ""), "Accept", "text/event-stream")
			if n := o.calls.Load(); n != 1 {
				t.Errorf("%d calls; want 1", n)
			}
		}
	}
}

// An origin that dies after any event breaks the stream for all, and nothing is stored
// (H5). The next client gets the origin's next response.
func TestH33_TheOriginDies(t *testing.T) {
	bothProtocols(t, func(t *testing.T, open func(*testing.T, gateway.Config) *site) {
		for at := range len(theEvents) + 1 {
			o := scripted(t)
			s := open(t, eventsConfig(o.origin))
			a, b := s.follow("/a"), s.follow("/a")
			for _, e := range theEvents[:at] {
				o.next <- e
				a.event(e)
				b.event(e)
			}
			o.next <- "break"
			a.breaks()
			b.breaks()
			if st := s.g.Cache().Stats(); st.Responses != 0 || st.Reserved != 0 {
				t.Errorf("after event %d: %d stored, %d reserved; want none", at, st.Responses, st.Reserved)
			}
			o.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(500)
				_, _ = io.WriteString(w, theEvents[3])
			})
			for range 2 {
				s.want("/a", 500, theEvents[3], "Accept", "text/event-stream")
			}
			if st := s.g.Cache().Stats(); st.Responses != 0 {
				t.Error("a stream with status 500 was stored")
			}
		}
	})
}

// Two users with different credentials get their own streams (H3).
func TestH33_TwoUsersOverSockets(t *testing.T) {
	o := serving(t, "users", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache, must-revalidate")
		_, _ = io.WriteString(w, "data: "+r.Header.Get("Authorization")+r.Header.Get("Cookie")+"\n\n"+theEvents[3])
	})
	s := open(t, eventsConfig(o))
	for range 2 {
		for _, field := range []string{"Authorization", "Cookie"} {
			for _, user := range []string{"a=1", "b=2"} {
				s.want("/a", 200, "data: "+user+"\n\n", field, user, "Accept", "text/event-stream")
			}
		}
		s.want("/a", 200, "data: \n\n", "Accept", "text/event-stream")
	}
	if n := o.calls.Load(); n != 9 {
		t.Errorf("%d calls; want 9: one for each request of a user, and one for the rest", n)
	}
}

// A thousand clients, each with its own connection, get one stream.
func TestH33_AThousandConnections(t *testing.T) {
	o := scripted(t)
	s := open(t, eventsConfig(o.origin))
	const n = 1000
	replies := make(chan reply, n)
	for range n {
		go func() { replies <- s.get("/a", "Accept", "text/event-stream") }()
	}
	<-o.begun
	for _, e := range theEvents {
		o.next <- e
	}
	close(o.next)
	for range n {
		if r := <-replies; r.err != nil || r.body != strings.Join(theEvents, "") {
			t.Fatalf("a client got %q, %v", r.body, r.err)
		}
	}
	if n := o.calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
}

// A client that does not read is cut off when it falls behind the window of a stream
// beyond the object limit. The other one gets everything.
func TestH33_AClientThatDoesNotRead(t *testing.T) {
	const event, n = 64 << 10, 400 // more than the sockets' buffers
	o := scripted(t)
	c := eventsConfig(o.origin)
	c.Routes[0].MaxObject = 128 << 10
	var err error
	if c.Cache, err = weirhttp.NewCache(weirhttp.MinCacheBytes); err != nil { // too little memory for what it does not read
		t.Fatal(err)
	}
	s := open(t, c)
	slow := s.follow("/a")
	fast := s.follow("/a")
	text := "data: " + strings.Repeat("x", event) + "\n\n"
	for range n {
		o.next <- text
		fast.event(text)
	}
	o.next <- theEvents[3]
	close(o.next)
	fast.ends(theEvents[3])
	slow.breaks()
	if got := s.g.Stats().Routes["all"].Lagged; got != 1 {
		t.Errorf("%d laggards; want 1", got)
	}
	if st := s.g.Cache().Stats(); st.Responses != 0 {
		t.Errorf("a stream beyond the limit was stored")
	}
}

// A route that no longer shares streams does not serve those that are stored.
func TestH33_ARouteThatNoLongerShares(t *testing.T) {
	o := serving(t, "events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.Join(theEvents, ""))
	})
	c := eventsConfig(o)
	s := open(t, c)
	for range 2 {
		s.want("/a", 200, theEvents[0], "Accept", "application/json")
	}
	c.Routes[0].Events = weirhttp.EventPolicy{}
	s.update(c)
	for range 2 {
		s.want("/a", 200, theEvents[0], "Accept", "application/json")
	}
	if n := o.calls.Load(); n != 3 {
		t.Errorf("%d calls; want 3", n)
	}
	// A document that was stored while the route shared no streams is not for a client
	// that accepts them.
	o.serve = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		if r.Header.Get("Accept") == "text/event-stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Join(theEvents, ""))
			return
		}
		_, _ = io.WriteString(w, "a document")
	}
	s.want("/b", 200, "a document")
	c.Routes[0].Events = eventsConfig(o).Routes[0].Events
	s.update(c)
	s.want("/b", 200, theEvents[0], "Accept", "text/event-stream")
	c.Routes[0].Events = weirhttp.EventPolicy{Share: true, End: "a\rb"}
	if err := s.g.Update(c); err == nil || !strings.Contains(err.Error(), "Routes[0].Events.End") {
		t.Errorf("Update = %v; want an error about Routes[0].Events.End", err)
	}
}
