package rawcorpus

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// H24: malformed requests of clients do not affect the health of servers. No row
// changes it, even if a single failure makes a server unhealthy.
func TestH24_MalformedRequestsEjectNoServer(t *testing.T) {
	t.Parallel()
	all := rows(t, "requests-*.txt", requestKeys...)
	framed := rows(t, "h2-*.txt", frameKeys...)
	a, b := newOrigin(t, usual), newOrigin(t, usual)
	w := start(t, configurations["default"], fmt.Sprintf(
		"{name: o, servers: ['http://%s', 'http://%s'], health: {path: /health, interval: 100ms, timeout: 10m, failures: 1, unhealthy: 1}}", a.Addr(), b.Addr()))
	for _, r := range all {
		for _, secure := range []bool{false, true} {
			w.provoke(t, r, secure)
			w.healthy(t, r)
		}
	}
	for _, r := range framed {
		h := newH2(w.dial(t, true, "h2"))
		for _, line := range r.values["send"] {
			h.send(t, line)
		}
		h.await(1)
		h.send(t, "101:HEADERS end @last")
		h.await(101)
		h.Close()
		w.healthy(t, r)
	}
	log := w.log.String()
	for _, word := range []string{"ejected", "breaker", "unhealthy"} {
		if strings.Contains(log, word) {
			t.Errorf("the log contains %q:\n%s", word, log)
		}
	}
}

// provoke sends a row and reads until the connection ends.
func (w *weir) provoke(t *testing.T, r row, secure bool) {
	t.Helper()
	c := &client{Conn: w.dial(t, secure)}
	defer c.Close()
	go func() { // ends with the connection
		c.send(raw(t, r.get("send")), "whole")
		if !r.has("end") {
			c.send("GET /last HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n\r\n", "whole")
		}
		c.closeWrite()
	}()
	_, _ = io.Copy(io.Discard, c) // another test checks how it ends
}

// healthy fails the test if any server is unhealthy.
func (w *weir) healthy(t *testing.T, r row) {
	t.Helper()
	for _, s := range w.gateway.Stats().Upstreams["o"].Servers {
		if !s.Healthy || s.Ejected || s.Failures > 0 {
			t.Fatalf("after %v: %+v; want it healthy, without failures", r, s)
		}
	}
}
