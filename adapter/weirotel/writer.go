package weirotel

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"

	"github.com/weir-go/weir/weirhttp"
)

var (
	_ weirhttp.ReceiptWriter = (*writer)(nil)
	_ io.ReaderFrom          = (*writer)(nil)
	_ io.StringWriter        = (*writer)(nil)
	_ http.Hijacker          = (*writer)(nil)
	_ http.Flusher           = (*writer)(nil)
)

// A writer records the outcome of one request.
type writer struct {
	http.ResponseWriter
	route   string
	status  int // 0 until the headers are written
	outcome weirhttp.Outcome
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetReceipt records the outcome and the route, of which the last ones count, and
// passes r on.
func (w *writer) SetReceipt(r weirhttp.Receipt) {
	w.outcome = r.Outcome
	w.route = cmp.Or(r.Route, w.route)
	weirhttp.SetReceipt(w.ResponseWriter, r)
}

// WriteHeader writes the headers; it does not record informational ones (1xx).
func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.head(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) head(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(p []byte) (int, error) {
	w.head(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// WriteString is Write without a copy.
func (w *writer) WriteString(s string) (int, error) {
	w.head(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom uses the ReadFrom of the server if it has one.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.head(http.StatusOK)
	if rf, ok := w.ResponseWriter.(io.ReaderFrom); ok {
		return rf.ReadFrom(r)
	}
	return io.Copy(onlyWriter{w.ResponseWriter}, r)
}

// onlyWriter hides all methods but Write, so that io.Copy does not call ReadFrom
// again.
type onlyWriter struct{ io.Writer }

// Flush writes buffered data.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *writer) FlushError() error {
	w.head(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack hands the connection over.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.head(http.StatusSwitchingProtocols)
	}
	return c, buf, err
}
