package listen

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A hitConn answers requests between two of those that net/http reads: where net/http
// waits for the next request, a whole request that the store can answer is answered
// here, and what net/http gets to see is the one after it. Everything else is left to
// net/http (decision 0060).
//
// The order of responses holds because net/http has at most one request at a time: of
// what comes behind it no byte is passed on before net/http reports that the connection
// is idle, which it does when it has flushed the response. While a handler runs, net/http
// looks out for the end of the connection with a read of one byte; where a request has
// come early, it gets one byte of it, and then all of that request is its own.
type hitConn struct {
	server *Server
	ctx    context.Context // of requests

	// Used by the reader, one at a time, and by net/http's goroutine between reads.
	phase   phase
	held    []byte    // has come, and is behind the request that net/http has
	renewed time.Time // when the idle time-out was set here
	missed  int       // requests in a row that were not answered here

	mu      sync.Mutex
	writing bool // guarded by mu; a response is being written here
	closing bool // guarded by mu; Close was called meanwhile
}

// A phase says what net/http is doing.
type phase uint8

const (
	// first: it has not had a request yet. Its time-outs for the first request run from
	// the start of the connection, so that one is always its own.
	first phase = iota
	busy        // it has a request, or a part of one
	idle        // it waits for a request
)

// awaits notes that net/http has flushed its response and will read the next request.
func (c *framedConn) awaits() {
	if c.hits != nil {
		c.hits.phase = idle
	}
}

// receive reads what was held back, or else from the connection.
func (c *framedConn) receive(p []byte) (int, error) {
	h := c.hits
	if h == nil || c.free.Load() && len(h.held) == 0 {
		return c.Conn.Read(p)
	}
	if h.phase == busy && c.scan.Between() && len(p) > 1 {
		p = p[:1] // net/http looks out for the end of the connection
	}
	if len(h.held) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, h.held)
	if h.held = h.held[n:]; len(h.held) == 0 {
		h.held = nil
	}
	return n, nil
}

// hold keeps back what follows the message that has ended. It comes before what is held
// already.
func (h *hitConn) hold(rest []byte) {
	if len(rest) > 0 {
		h.held = append(bytes.Clone(rest), h.held...)
	}
}

// answer answers the requests at the start of p[:n] that the store has a response for,
// moves what follows them to the start of p, and returns how much that is. An error is
// that the connection is of no use any more; it has no text, as net/http writes some
// errors to the client.
func (c *framedConn) answer(p []byte, n int) (int, error) {
	for n > 0 {
		size, ok := c.hit(p[:n])
		if size == 0 {
			return n, nil
		}
		if !ok {
			return 0, io.EOF
		}
		n = copy(p, p[size:n])
	}
	return 0, nil
}

// hit answers the request at the start of p, and returns its size. It is 0 if this is
// for net/http. ok is false if the connection has to end.
func (c *framedConn) hit(p []byte) (size int, ok bool) {
	h := c.hits
	s := h.server
	if s.retired.Load() { // net/http asks the client to leave
		return 0, true
	}
	if h.skips() {
		return 0, true
	}
	r, size := readPlain(p, s.http.MaxHeaderBytes)
	if size == 0 {
		return 0, true
	}
	r.RemoteAddr = c.remote()
	r.TLS = c.state
	r, found := s.options.Stored(h.ctx, r)
	if !found || !h.begin() {
		return 0, true
	}
	h.missed = 0
	defer func() { // also if the handler panics: net/http logs that, and ends the connection
		if c.over() {
			ok = false
		}
	}()
	w := hitWriters.Get().(*hitWriter)
	w.reset(c.Conn, r)
	s.options.Handler.ServeHTTP(w, r)
	ok = w.finish()
	hitWriters.Put(w) // not after a panic, as somebody may have kept it
	if idle := s.http.IdleTimeout; ok && idle > 0 {
		// Setting it each time costs as much as a small response does.
		if now := time.Now(); now.Sub(h.renewed) > idle/16 {
			h.renewed = now
			ok = c.Conn.SetReadDeadline(now.Add(idle)) == nil
		}
	}
	return size, ok
}

// missesBeforeSkip is how many requests in a row may miss the store before a connection
// looks up only one in missesBeforeSkip. A lookup costs about 2 µs, which is wasted on a
// service whose responses cannot be cached.
const missesBeforeSkip = 16

// skips reports whether the next request is left to net/http without a lookup.
func (h *hitConn) skips() bool {
	h.missed++
	return h.missed > missesBeforeSkip && h.missed%missesBeforeSkip != 0
}

// begin notes that a response is being written. It reports false if the connection is
// closed.
func (h *hitConn) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	h.writing = true
	h.server.hitsInFlight.Add(1)
	return true
}

// over ends what begin began, and reports whether Close was called meanwhile, which is
// done now.
func (c *framedConn) over() (closed bool) {
	h := c.hits
	h.mu.Lock()
	h.writing = false
	closed = h.closing
	h.mu.Unlock()
	if closed {
		h.server.forget(c)
		_ = c.Conn.Close() // the client has its response
	}
	h.server.hitsInFlight.Add(-1)
	h.server.hitEnded()
	return closed
}

// defers reports whether Close has to wait for a response that is being written. net/http
// closes idle connections when a server shuts down, and takes this one for idle.
func (c *framedConn) defers() bool {
	h := c.hits
	if h == nil || h.server.cut.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing = true
	return h.writing && h.server.remember(c)
}

// remote is the client's address, as text.
func (c *framedConn) remote() string {
	if c.address == "" {
		c.address = c.RemoteAddr().String()
	}
	return c.address
}

// bind sets what requests of c have as their context, as net/http does.
func (c *framedConn) bind(ctx context.Context) {
	if c.hits != nil {
		c.hits.ctx = context.WithValue(ctx, http.LocalAddrContextKey, c.LocalAddr())
	}
}

// readPlain reads the request at the start of p, and returns its size. That is 0 unless
// p has all of its head, and the head is one that leaves no doubt: HTTP/1.1, GET or HEAD,
// a path, one Host, fields of visible ASCII characters, and none of those that change
// what a server does with the connection or the body. All others are for net/http.
func readPlain(p []byte, most int) (*http.Request, int) {
	if len(p) < 4 || p[0] != 'G' && p[0] != 'H' {
		return nil, 0
	}
	end := bytes.Index(p, []byte("\r\n\r\n"))
	if end < 0 || most > 0 && end+4 > most {
		return nil, 0
	}
	head := string(p[:end]) // all strings of the request are parts of it
	line, rest, _ := strings.Cut(head, "\r\n")
	method, line, _ := strings.Cut(line, " ")
	target, proto, _ := strings.Cut(line, " ")
	if method != http.MethodGet && method != http.MethodHead || proto != "HTTP/1.1" ||
		target == "" || target[0] != '/' || !visible(target) {
		return nil, 0
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, 0
	}
	r := &http.Request{
		Method: method, URL: u, RequestURI: target, Proto: proto, ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody,
	}
	count := strings.Count(rest, "\r\n") + 1
	r.Header = make(http.Header, count)
	values := make([]string, 0, count)
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok || !token(name) {
			return nil, 0
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")
		if !field(value) {
			return nil, 0
		}
		switch name {
		case "Host":
			if r.Host != "" || !host(value) {
				return nil, 0
			}
			r.Host = value
			continue
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") || r.Header[name] != nil {
				return nil, 0
			}
		case "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Expect", "Upgrade", "Http2-Settings",
			"Range", "If-Range", "Keep-Alive", "Proxy-Connection", "Pragma":
			// Pragma: net/http makes a Cache-Control of it.
			return nil, 0
		}
		if old := r.Header[name]; old != nil {
			r.Header[name] = append(old, value)
			continue
		}
		values = append(values, value)
		r.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if r.Host == "" {
		return nil, 0
	}
	return r, end + 4
}

// visible reports whether s has visible ASCII characters only, and no fragment.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '#' {
			return false
		}
	}
	return true
}

// field reports whether s is visible ASCII characters, blanks and tabs.
func field(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// token reports whether s is a token (RFC 9110, section 5.6.2).
func token(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

// host reports whether s is a name or an IPv4 address, with a port or without. Anything
// else is for net/http to judge.
func host(s string) bool {
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '.' && c != '-' && c != ':' {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

var tokenByte = func() (t [256]bool) {
	for c := range t {
		t[c] = alphanumeric(byte(c)) || c < 0x7f && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

var _ net.Conn = (*framedConn)(nil)
