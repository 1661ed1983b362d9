package access

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/plain"
	"github.com/weir-go/weir/weirhttp"
)

var (
	_ weirhttp.ReceiptWriter = (*writer)(nil)
	_ io.ReaderFrom          = (*writer)(nil)
	_ io.StringWriter        = (*writer)(nil)
	_ http.Hijacker          = (*writer)(nil)
	_ http.Flusher           = (*writer)(nil)
)

// A writer records the outcome of one request. It belongs to the request's handler, like
// every ResponseWriter, and returns to its pool after the handler.
type writer struct {
	http.ResponseWriter
	method, target, host string
	start                time.Time
	first                time.Time // of the head; zero without one
	status               int       // 0 without a head
	bytes                int64     // of the body
	broken               bool      // the handler panicked, which breaks off the response
	receipt              weirhttp.Receipt
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetReceipt records what the cache and the limits did; the last call counts.
func (w *writer) SetReceipt(r weirhttp.Receipt) {
	w.receipt = r
	weirhttp.SetReceipt(w.ResponseWriter, r)
}

// WriteHeader writes a response header; informational ones are not recorded.
func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.head(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) head(status int) {
	if w.status == 0 {
		w.status, w.first = status, time.Now()
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.head(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// WriteString is Write without a copy.
func (w *writer) WriteString(s string) (int, error) {
	w.head(http.StatusOK)
	n, err := io.WriteString(w.ResponseWriter, s)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom uses the server's ReadFrom if it has one.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.head(http.StatusOK)
	var n int64
	var err error
	if rf, ok := w.ResponseWriter.(io.ReaderFrom); ok {
		n, err = rf.ReadFrom(r)
	} else {
		n, err = io.Copy(onlyWriter{w.ResponseWriter}, r)
	}
	w.bytes += n
	return n, err
}

// onlyWriter hides everything but Write, so that io.Copy does not call ReadFrom again.
type onlyWriter struct{ io.Writer }

// Flush writes what is buffered.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *writer) FlushError() error {
	w.head(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack hands over the connection; later bytes are not counted.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.head(http.StatusSwitchingProtocols)
	}
	return c, buf, err
}

// connection returns the address of the client's connection, without the port.
func connection(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// target returns the target without the query if that must not be logged, and always
// without user information.
func (l *Log) target(t string) string {
	t = plain.WithoutUser(withoutUser(t))
	if l.o.NoQuery {
		t, _, _ = strings.Cut(t, "?")
	}
	return t
}

// withoutUser returns the target of a request without the user and password of an
// absolute form, or of the authority form of CONNECT.
func withoutUser(t string) string {
	if strings.HasPrefix(t, "/") || !strings.Contains(t, "@") {
		return t
	}
	scheme, rest, absolute := strings.Cut(t, "://")
	if !absolute {
		scheme, rest = "", t
	} else {
		scheme += "://"
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return scheme + plain.Authority(rest[:end]) + rest[end:]
}
