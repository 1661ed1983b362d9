package rawcorpus

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
)

// H5, H2, H17: for each response of an origin, the rows say what the client sees,
// whether other clients can get it, and whether the connection to the origin is reused.
func TestH5_RawAnswers(t *testing.T) {
	all := rows(t, "answers-*.txt", answerKeys...)
	if len(all) < 100 {
		t.Errorf("%d rows; want 100", len(all))
	}
	spread(t, all, func(t *testing.T, s *stand, r row) {
		for _, how := range []string{"plain", "TLS", "h2"} {
			if fault := s.answered(t, r, how); fault != "" {
				t.Errorf("%v (%s, %s): %s\n\tRFC %s", r, s.configuration, how, fault, r.get("rfc"))
				return
			}
		}
	})
}

// pieceOf is how an origin splits its writes for each kind of client.
var pieceOf = map[string]string{"plain": "whole", "TLS": "bytes", "h2": "lines"}

// reset breaks a connection.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // it is about to be closed
	}
	_ = c.Close()
}

// answered requests the response of a row, and then the same target as another client.
// It returns what went wrong.
func (s *stand) answered(t *testing.T, r row, how string) string {
	t.Helper()
	s.gateway.Cache().InvalidateAll(context.Background())
	ask := r.get("ask")
	if ask == "" {
		ask = "GET /a"
	}
	method, target, _ := strings.Cut(ask, " ")
	target, version, _ := strings.Cut(target, " ")
	if version != "" && how == "h2" {
		return ""
	}
	written := pieceOf[how]
	if r.has("once") {
		written = "whole"
	}
	s.origin.mu.Lock()
	s.origin.script = map[string]response{method + " " + target: {raw(t, r.get("send")), written, r.has("end"), r.has("reset")}}
	s.origin.mu.Unlock()
	first, interim := s.ask(t, method, target, version, how)
	if fault := sees(t, r, first, interim); fault != "" {
		return fmt.Sprintf("%s\n\tthe client got %v %v", fault, interim, first)
	}
	seen, _ := s.origin.take()
	conn := 0
	if len(seen) > 0 {
		conn = seen[0].conn
	}
	second, _ := s.ask(t, "GET", target, "", how)
	third, _ := s.ask(t, "GET", "/third", "", how)
	seen, faults := s.origin.take()
	asked, again := false, false
	for _, m := range seen {
		asked = asked || m.start == "GET "+target
		again = again || m.conn == conn
	}
	switch {
	case len(faults) > 0:
		return fmt.Sprintf("the origin cannot read %q", faults)
	case !asked && r.get("stored") == "no":
		return fmt.Sprintf("the next client got it: %v", second)
	case asked && r.get("stored") == "yes" && s.configuration == "caching" && method == "GET":
		return "it was not stored"
	case asked && (second.body != alphabet || second.broken):
		return fmt.Sprintf("the next client got %v; want the next response", second)
	case third.body != alphabet || third.broken:
		return fmt.Sprintf("the client after it got %v; want the response to its request", third)
	case again && r.get("reuse") == "no":
		return "the connection to the origin was reused"
	}
	return ""
}

// ask sends a request on a separate connection, and returns the response and the
// statuses before it.
func (s *stand) ask(t *testing.T, method, target, version, how string) (final message, interim []string) {
	t.Helper()
	if how == "h2" {
		h := newH2(s.dial(t, true, "h2"))
		defer h.Close()
		h.send(t, "HEADERS "+endless(method)+":method="+method+" :scheme=https :authority=h.test :path="+target+" te=trailers")
		if endless(method) == "" {
			h.send(t, "DATA end body")
		}
		e := h.await(1)
		return e.message, e.interim
	}
	return askOn(s.dial(t, how == "TLS"), method, target, version)
}

// askOn is ask for an HTTP/1 connection.
func askOn(conn net.Conn, method, target, version string) (final message, interim []string) {
	if version == "" {
		version = "HTTP/1.1"
	}
	text := method + " " + target + " " + version + "\r\nHost: h.test\r\nTE: trailers\r\nConnection: TE\r\n"
	if endless(method) == "" {
		text += "Content-Length: 4\r\n\r\nbody"
	} else {
		text += "\r\n"
	}
	c := listen(conn, func(int) bool { return method == "HEAD" })
	defer c.Close()
	c.send(text, "whole")
	for {
		m, ok, err := c.next()
		switch {
		case err != nil:
			return message{start: err.Error(), broken: true}, interim
		case !ok:
			return message{start: "none", broken: true}, interim
		case m.start[0] == '1' && m.start != "101":
			interim = append(interim, m.start)
		default:
			return m, interim
		}
	}
}

// endless returns the word that ends a stream after the header of a request without a
// body.
func endless(method string) string {
	if method == "POST" {
		return ""
	}
	return "end "
}

// sees returns how a response differs from the row.
func sees(t *testing.T, r row, m message, interim []string) string {
	t.Helper()
	conditions := r.get("sees")
	start, rest, _ := strings.Cut(conditions, " | ")
	statuses := strings.Fields(start)
	conditions = statuses[len(statuses)-1]
	if rest != "" {
		conditions += " | " + rest
	}
	if fault := m.unlike(t, conditions); fault != "" {
		return fault
	}
	if want := strings.Join(statuses[:len(statuses)-1], " "); m.start == strings.Split(conditions, "|")[0] && strings.Join(interim, " ") != want {
		return fmt.Sprintf("interim responses %q; want %q", interim, want)
	}
	return ""
}
