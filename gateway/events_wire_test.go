package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// raw is an origin that answers each request with these bytes, and then closes the
// connection in order, or, if reset is not nil, resets it after a receive from that.
func raw(t *testing.T, answer string, reset <-chan struct{}) (*origin, func() int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	calls := 0
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				mu.Lock()
				calls++
				mu.Unlock()
				_, _ = io.WriteString(c, answer)
				if reset != nil {
					<-reset
					_ = c.(*net.TCPConn).SetLinger(0)
				}
			}()
		}
	}()
	return &origin{addr: l.Addr().String()}, func() int { mu.Lock(); defer mu.Unlock(); return calls }
}

// How a stream ends on the wire, and what that makes of it.
func TestH33_EndsOnTheWire(t *testing.T) {
	const done, head = "data: a\n\ndata: [DONE]\n\n", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n"
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	const chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	for name, row := range map[string]struct {
		answer       string
		reset        bool
		end          string // of the route
		whole, keeps bool
	}{
		"chunked":                      {chunked + chunk(done) + "0\r\n\r\n", false, "[DONE]", true, true},
		"chunked, no last chunk":       {chunked + chunk(done), false, "[DONE]", false, false},
		"chunked, cut in a chunk":      {chunked + "100\r\n" + done, false, "[DONE]", false, false},
		"chunked, reset":               {chunked + chunk(done), true, "[DONE]", false, false},
		"chunked, no terminal event":   {chunked + chunk("data: a\n\n") + "0\r\n\r\n", false, "[DONE]", false, false},
		"chunked, without a rule":      {chunked + chunk("data: a\n\n") + "0\r\n\r\n", false, "", true, true},
		"no last chunk, without one":   {chunked + chunk("data: a\n\n"), false, "", false, false},
		"length":                       {head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(done)) + done, false, "[DONE]", true, true},
		"short length":                 {head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(done)+1) + done, false, "[DONE]", false, false},
		"closed":                       {head + "\r\n" + done, false, "[DONE]", true, false},
		"closed, no terminal event":    {head + "\r\n" + "data: a\n\n", false, "[DONE]", false, false},
		"closed, reset":                {head + "\r\n" + done, true, "[DONE]", false, false},
		"closed, without a rule":       {head + "\r\n" + "data: a\n\n", false, "", true, false},
		"coded":                        {head + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(done) + "0\r\n\r\n", false, "[DONE]", true, false},
		"another type that looks like": {strings.Replace(chunked, "event-stream", "event-streams", 1) + chunk(done) + "0\r\n\r\n", false, "[DONE]", true, false},
		"with no-store":                {head + "Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(done) + "0\r\n\r\n", false, "[DONE]", true, false},
		"with Set-Cookie":              {head + "Set-Cookie: a=b\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(done) + "0\r\n\r\n", false, "[DONE]", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var reset chan struct{}
			if row.reset {
				reset = make(chan struct{})
			}
			o, calls := raw(t, row.answer, reset)
			c := eventsConfig(o)
			c.Routes[0].Events.End = row.end
			s := open(t, c)
			for range 2 {
				resp, err := s.client.Do(s.request("GET", "/a", nil, "Accept", "text/event-stream"))
				if err == nil {
					body := bufio.NewReader(resp.Body)
					if row.reset {
						_, _ = body.Peek(1) // before that, the reset could overtake all bytes
						reset <- struct{}{}
					}
					_, err = io.Copy(io.Discard, body)
					resp.Body.Close()
				} else if row.reset {
					t.Fatal(err)
				}
				if (err == nil) != row.whole || err == nil && resp.StatusCode != 200 {
					t.Errorf("got %+v, which ends with %v; want whole %v", resp, err, row.whole)
				}
			}
			want := 2
			if row.keeps {
				want = 1
			}
			if n := calls(); n != want {
				t.Errorf("%d calls; want %d", n, want)
			}
		})
	}
}

// H33: in a stream that ends with its connection and has no terminal event, a break looks
// like the end. Such a stream is not shared with the clients that wait for it.
func TestH33_EndsWithTheConnection(t *testing.T) {
	for end, want := range map[string]int64{"[DONE]": 1, "": 2} {
		release := make(chan struct{})
		o := serving(t, "model", func(w http.ResponseWriter, r *http.Request) {
			<-release
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\ndata: [DONE]\n\n")
		})
		c := eventsConfig(o)
		c.Routes[0].Events.End = end
		s := open(t, c)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { s.want("/a", 200, "data: a\n\ndata: [DONE]\n\n", "Accept", "text/event-stream") })
		}
		s.until("one waits for the other", func() bool { return s.g.Stats().Routes[c.Routes[0].Name].Waiting == 1 })
		close(release)
		wg.Wait()
		if n := o.calls.Load(); n != want {
			t.Errorf("with the terminal event %q: %d calls; want %d", end, n, want)
		}
	}
}
