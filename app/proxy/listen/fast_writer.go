package listen

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/httpwire"
	"github.com/weir-go/weir/weirhttp/stop"
)

const (
	// gathered is how many bytes of a response are at most copied in order to send them
	// in one write.
	gathered = 64 << 10
	// unsent is how many bytes of a response can wait to be sent until the handler
	// flushes or returns, and counted how many bytes of its body can wait before that,
	// so that a small response gets a Content-Length. net/http has the same sizes.
	unsent  = 4 << 10
	counted = 2 << 10
	// usual is how many fields a header has room for from the start.
	usual = 14
)

// errOver is what a handler gets that uses its ResponseWriter after it has returned.
var errOver = errors.New("listen: the handler has returned")

// A fastWriter writes one HTTP/1.1 response as net/http does: the same bytes, but with
// fewer writes, and without a copy of the header. Like any ResponseWriter it is used by one
// goroutine, except for the methods that set deadlines. It cannot be hijacked, because a
// plain request asks for no other protocol.
//
// As with net/http, a body is buffered twice: up to counted bytes before it is divided
// into chunks, and up to unsent bytes of chunks and header before they are sent. If the
// handler panics, the former are lost, so that a response that was never completed cannot
// look complete (H5).
type fastWriter struct {
	conn   *framedConn
	ctx    *stop.Context // of the request
	head   bool          // the request's method is HEAD
	header http.Header   // of the connection; see fastConn.takeHeader
	pages  *pages        // nil while nothing is buffered

	status   int   // of the final response; 0 before WriteHeader
	length   int64 // of the body, as declared; -1: none
	written  int64
	waiting  int      // how many bytes of pages.early are in use
	trailers []string // names, as declared

	// What the header has: the field Content-Length, one of Content-Type and Content-Encoding,
	// Date, Connection: close, and trailers.
	sized, typed, dated, closes, trails bool

	begun   bool // the header is complete
	chunked bool
	done    bool // the handler has returned
	last    bool // the connection ends with this response
	err     error
}

// pages are the buffers of a fastWriter.
type pages struct {
	early [counted]byte
	out   bytes.Buffer
	lines httpwire.Fields // most responses have the same
}

var pagesPool = sync.Pool{New: func() any { return new(pages) }}

// buffers returns the buffers of w.
func (w *fastWriter) buffers() *pages {
	if w.pages == nil {
		w.pages = pagesPool.Get().(*pages)
	}
	return w.pages
}

// release returns the buffers, if they are empty. A response that waits for more has none.
func (w *fastWriter) release() {
	p := w.pages
	if p == nil || w.waiting > 0 || p.out.Len() > 0 {
		return
	}
	w.pages = nil
	if p.out.Cap() > 2*gathered {
		p.out = bytes.Buffer{}
	}
	pagesPool.Put(p)
}

// Header returns the fields of the header, and later of the trailers. What a handler does with
// them after it has returned has no effect, because another response may have the map by
// then.
func (w *fastWriter) Header() http.Header {
	if w.done {
		return http.Header{}
	}
	return w.header
}

// WriteHeader writes the fields to the buffer. What depends on the body follows in begin.
// A Transfer-Encoding is not sent: it is not for handlers.
func (w *fastWriter) WriteHeader(status int) {
	if w.status != 0 || w.done {
		return
	}
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.statusLine(status)
		w.fields(w.header, withoutBody)
		w.buffers().out.WriteString("\r\n")
		w.flush()
		w.release()
		return
	}
	w.status = status
	h := w.header
	_, w.sized = h["Content-Length"]
	_, w.typed = h["Content-Type"]
	_, w.dated = h["Date"]
	w.typed = w.typed || h.Get("Content-Encoding") != ""
	w.trails = len(h["Trailer"]) > 0
	if v := h["Content-Length"]; len(v) > 0 && v[0] != "" {
		if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n >= 0 {
			w.length = n
		}
	}
	if v := h["Connection"]; len(v) > 0 && v[0] == "close" {
		w.closes, w.last = true, true
	}
	without := uncoded
	switch {
	case status == http.StatusNotModified:
		without = notModified
	case !bodyAllowed(status), w.sized && w.length < 0 && !w.head: // not a length
		without = withoutBody
	}
	w.statusLine(status)
	w.fields(h, without)
	for _, v := range h["Trailer"] {
		w.declare(v)
	}
}

// declare records the trailers that a Trailer field announces.
func (w *fastWriter) declare(names string) {
	for name := range strings.SplitSeq(names, ",") {
		name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
		if name != "" && !strings.HasPrefix(name, "If-") && !notTrailers[name] {
			w.trailers = append(w.trailers, name)
		}
	}
}

// takes prepares for n bytes of the body.
func (w *fastWriter) takes(n int) error {
	if w.done {
		return errOver
	}
	w.WriteHeader(http.StatusOK)
	switch {
	case n == 0:
		return nil
	case !bodyAllowed(w.status):
		return http.ErrBodyNotAllowed
	}
	w.written += int64(n)
	if w.length >= 0 && w.written > w.length {
		return http.ErrContentLength
	}
	return w.err
}

// WriteString writes a piece of the body. Unlike Write, it divides a large one: net/http
// does so, too.
func (w *fastWriter) WriteString(s string) (int, error) {
	if err := w.takes(len(s)); err != nil {
		return 0, err
	}
	n := 0
	for {
		m := copy(w.buffers().early[w.waiting:], s[n:])
		w.waiting += m
		if n += m; n == len(s) || w.err != nil {
			return n, w.err
		}
		w.passEarly()
	}
}

// Write writes a piece of the body.
func (w *fastWriter) Write(p []byte) (int, error) {
	if err := w.takes(len(p)); err != nil {
		return 0, err
	}
	n := 0
	for len(p) > counted-w.waiting && w.err == nil {
		m := len(p)
		if w.waiting == 0 {
			w.pass(p)
		} else {
			m = copy(w.pages.early[w.waiting:], p)
			w.waiting += m
			w.passEarly()
		}
		n, p = n+m, p[m:]
	}
	if w.err != nil || len(p) == 0 {
		return n, w.err
	}
	m := copy(w.buffers().early[w.waiting:], p)
	w.waiting += m
	return n + m, nil
}

// passEarly passes on what has waited.
func (w *fastWriter) passEarly() {
	if n := w.waiting; n > 0 {
		w.waiting = 0
		w.pass(w.pages.early[:n])
	}
}

// pass passes on p, as one chunk if there are chunks.
func (w *fastWriter) pass(p []byte) {
	w.begin(p)
	if w.head {
		return
	}
	out := &w.buffers().out
	if w.chunked {
		out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(len(p)), 16))
		out.WriteString("\r\n")
	}
	if n := max(gathered-out.Len(), 0); len(p) > n {
		out.Write(p[:n])
		w.flush()
		w.write(p[n:])
	} else {
		out.Write(p)
	}
	if w.chunked {
		out.WriteString("\r\n")
	}
	if out.Len() > unsent {
		w.flush()
	}
}

// begin completes the header of a response whose body begins with p.
func (w *fastWriter) begin(p []byte) {
	if w.begun {
		return
	}
	w.begun = true
	out := &w.buffers().out
	if !w.dated {
		out.WriteString("Date: ")
		out.WriteString(date())
		out.WriteString("\r\n")
	}
	body := bodyAllowed(w.status)
	if w.done && body && !w.sized && !w.trails && (!w.head || len(p) > 0) {
		w.length = int64(len(p))
		out.WriteString("Content-Length: ")
		out.Write(strconv.AppendInt(out.AvailableBuffer(), w.length, 10))
		out.WriteString("\r\n")
	}
	if body && !w.typed && len(p) > 0 {
		out.WriteString("Content-Type: ")
		out.WriteString(http.DetectContentType(p))
		out.WriteString("\r\n")
	}
	if !w.closes && w.conn.fast.server.stopping.Load() {
		w.last = true
		out.WriteString("Connection: close\r\n")
	}
	if body && !w.head && w.length < 0 {
		w.chunked = true
		out.WriteString("Transfer-Encoding: chunked\r\n")
	}
	out.WriteString("\r\n")
}

// statusLine writes the status line.
func (w *fastWriter) statusLine(status int) {
	out := &w.buffers().out
	out.WriteString("HTTP/1.1 ")
	out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(status), 10))
	if text := http.StatusText(status); text != "" {
		out.WriteString(" ")
		out.WriteString(text)
		out.WriteString("\r\n")
		return
	}
	fmt.Fprintf(out, " status code %d\r\n", status)
}

// fields writes h.
func (w *fastWriter) fields(h http.Header, without map[string]bool) {
	p := w.buffers()
	w.trails = p.lines.Write(&p.out, h, without) || w.trails
}

// flush sends what is in the buffer.
func (w *fastWriter) flush() {
	out := &w.pages.out
	w.write(out.Bytes())
	out.Reset()
}

// write sends p. As with net/http, the request is canceled if that fails.
func (w *fastWriter) write(p []byte) {
	if w.err != nil || len(p) == 0 {
		return
	}
	if _, err := w.conn.Conn.Write(p); err != nil {
		w.err = err
		w.ctx.Cancel(nil)
	}
}

// FlushError sends everything that was written so far.
func (w *fastWriter) FlushError() error {
	if w.done {
		return errOver
	}
	w.WriteHeader(http.StatusOK)
	w.passEarly()
	w.begin(nil)
	if w.pages != nil {
		w.flush()
		w.release()
	}
	return w.err
}

// Flush implements [http.Flusher].
func (w *fastWriter) Flush() { _ = w.FlushError() }

// finish writes what is left, and reports whether the connection can continue. The handler
// must have returned.
func (w *fastWriter) finish() bool {
	w.WriteHeader(http.StatusOK)
	w.done = true
	w.passEarly()
	w.begin(nil)
	if w.chunked {
		out := &w.buffers().out
		out.WriteString("0\r\n")
		if t := w.finalTrailers(); len(t) > 0 {
			w.fields(t, nil)
		}
		out.WriteString("\r\n")
	}
	if w.pages != nil {
		w.flush()
		w.release()
	}
	short := !w.head && w.length >= 0 && w.length != w.written && bodyAllowed(w.status)
	return w.err == nil && !w.last && !short
}

// finalTrailers returns the trailers that the handler has set.
func (w *fastWriter) finalTrailers() http.Header {
	var t http.Header
	for name, values := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			if t == nil {
				t = make(http.Header)
			}
			t[name] = values
		}
	}
	for _, name := range w.trailers {
		if t == nil {
			t = make(http.Header)
		}
		if v := w.header[name]; len(v) > 0 {
			t[name] = append(t[name], v...)
		}
	}
	return t
}

// abort sends what net/http has sent of a response whose handler has panicked, and ends
// the response without its end.
func (w *fastWriter) abort() {
	if w.begun && w.pages != nil {
		w.flush()
	}
	w.done = true // the buffers stay with w, because the handler can still hold it
}

// SetReadDeadline supports [http.ResponseController].
func (w *fastWriter) SetReadDeadline(t time.Time) error { return w.conn.setReadDeadline(w.ctx, t) }

// SetWriteDeadline supports [http.ResponseController].
func (w *fastWriter) SetWriteDeadline(t time.Time) error { return w.conn.setWriteDeadline(w.ctx, t) }

// EnableFullDuplex supports [http.ResponseController]. It is about the bodies of requests.
func (w *fastWriter) EnableFullDuplex() error { return nil }

// Fields that are omitted, as net/http does: in all responses, in those without a body,
// and in 304.
var (
	uncoded     = map[string]bool{"Transfer-Encoding": true}
	withoutBody = map[string]bool{"Content-Length": true, "Transfer-Encoding": true}
	notModified = map[string]bool{"Content-Type": true, "Content-Length": true, "Transfer-Encoding": true}
)

// notTrailers are the fields that net/http does not send as announced trailers.
var notTrailers = map[string]bool{
	"Authorization": true, "Cache-Control": true, "Connection": true, "Content-Encoding": true,
	"Content-Length": true, "Content-Range": true, "Content-Type": true, "Expect": true, "Host": true,
	"Keep-Alive": true, "Max-Forwards": true, "Pragma": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Proxy-Connection": true, "Range": true, "Realm": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Www-Authenticate": true,
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
