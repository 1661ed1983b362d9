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

// A hitConn answers requests in between those that net/http reads. While net/http waits
// for the next request, complete requests that the store can answer are answered here,
// and net/http gets to see only the request after them. All other requests are left to
// net/http (decision 0060).
//
// The order of responses is kept because net/http has at most one request at a time. No
// byte behind that request is passed on before net/http reports the connection as idle,
// which it does after flushing the response. While a handler runs, net/http reads one
// byte to detect the end of the connection. If a request has arrived early, net/http
// gets one byte of it, and then has to handle all of it.
type hitConn struct {
	server *Server
	ctx    context.Context // of requests

	// Used by the reader, one at a time, and by net/http's goroutine between reads.
	phase   phase
	held    []byte    // received, but behind the request that net/http has
	renewed time.Time // when the idle time-out was last set here
	missed  int       // requests in a row that were not answered here

	mu      sync.Mutex
	writing bool // guarded by mu; a response is being written here
	closing bool // guarded by mu; Close was called during the write
}

// A phase is what net/http is doing.
type phase uint8

const (
	// first: it has not had a request yet. Its time-outs for the first request start
	// with the connection, so the first request is always left to net/http.
	first phase = iota
	busy        // it has a request, or a part of one
	idle        // it waits for a request
)

// awaits records that net/http has flushed its response and will read the next request.
func (c *framedConn) awaits() {
	if c.hits != nil {
		c.hits.phase = idle
	}
}

// receive reads the bytes that were held back, if any, and otherwise from the
// connection.
func (c *framedConn) receive(p []byte) (int, error) {
	h := c.hits
	if h == nil || c.free.Load() && len(h.held) == 0 {
		return c.Conn.Read(p)
	}
	if h.phase == busy && c.scan.Between() && len(p) > 1 {
		p = p[:1] // net/http checks for the end of the connection
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

// hold keeps back the bytes behind the message that has ended. They come before the
// bytes that are already held.
func (h *hitConn) hold(rest []byte) {
	if len(rest) > 0 {
		h.held = append(bytes.Clone(rest), h.held...)
	}
}

// answer answers the requests at the start of p[:n] for which the store has a response,
// moves the remaining bytes to the start of p, and returns their number. An error means
// that the connection cannot be used any more. It is io.EOF, because net/http writes
// some errors to the client.
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

// hit answers the request at the start of p, and returns its size. The size is 0 if the
// request is left to net/http. ok is false if the connection has to be closed.
func (c *framedConn) hit(p []byte) (size int, ok bool) {
	h := c.hits
	s := h.server
	if s.retired.Load() { // net/http asks the client to disconnect
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
	if s.options.Fast != nil {
		s.options.Fast.Add(1)
	}
	defer func() { // also if the handler panics: net/http logs that, and ends the connection
		if c.over() {
			ok = false
		}
	}()
	w := hitWriters.Get().(*hitWriter)
	w.reset(c.Conn, r)
	s.options.Handler.ServeHTTP(w, r)
	ok = w.finish()
	hitWriters.Put(w) // not after a panic, because the handler can still hold it
	if idle := s.http.IdleTimeout; ok && idle > 0 {
		// Setting the deadline each time would cost as much as a small response.
		if now := time.Now(); now.Sub(h.renewed) > idle/16 {
			h.renewed = now
			ok = c.Conn.SetReadDeadline(now.Add(idle)) == nil
		}
	}
	return size, ok
}

// missesBeforeSkip is how many requests in a row can miss the store before a connection
// looks up only one in missesBeforeSkip. A lookup costs about 2 µs, which is wasted on
// a service whose responses cannot be cached.
const missesBeforeSkip = 16

// skips reports whether the next request is left to net/http without a lookup.
func (h *hitConn) skips() bool {
	h.missed++
	return h.missed > missesBeforeSkip && h.missed%missesBeforeSkip != 0
}

// begin records that a response is being written. It returns false if the connection is
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

// over ends what begin has begun. It reports whether Close was called during the write;
// if so, over closes the connection.
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

// defers reports whether Close has to wait for a response that is being written. When a
// server shuts down, net/http closes idle connections, and considers this one idle.
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

// remote returns the client's address as text.
func (c *framedConn) remote() string {
	if c.address == "" {
		c.address = c.RemoteAddr().String()
	}
	return c.address
}

// bind sets the context of c's requests, as net/http does.
func (c *framedConn) bind(ctx context.Context) {
	if c.hits != nil {
		c.hits.ctx = context.WithValue(ctx, http.LocalAddrContextKey, c.LocalAddr())
	}
}

// readPlain reads the request at the start of p, and returns its size. The size is 0
// unless p contains the complete header and the header is unambiguous: HTTP/1.1, GET or
// HEAD, a path, one Host, fields of visible ASCII characters, and no field that changes
// what a server does with the connection or the body. All other requests are left to
// net/http.
func readPlain(p []byte, most int) (*http.Request, int) {
	if len(p) < 4 || p[0] != 'G' && p[0] != 'H' {
		return nil, 0
	}
	end := bytes.Index(p, []byte("\r\n\r\n"))
	if end < 0 || most > 0 && end+4 > most {
		return nil, 0
	}
	head := string(p[:end]) // all strings of the request are substrings of it
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
			// Pragma: net/http turns it into Cache-Control.
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

// visible reports whether s contains only visible ASCII characters, and no fragment.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '#' {
			return false
		}
	}
	return true
}

// field reports whether s contains only visible ASCII characters, spaces and tabs.
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

// host reports whether s is a name or an IPv4 address, with or without a port. net/http
// decides about everything else.
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
