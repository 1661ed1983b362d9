package listen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// connKey is the context key of a request's *progressConn.
type connKey struct{}

// framedKey is the context key of a request's *framedConn.
type framedKey struct{}

// An entrance is the first handler of a Server. It bounds how long a client can take to
// send and to receive while the next handler runs.
type entrance struct {
	server *Server
	next   http.Handler
	body   time.Duration // bounds each read of a request's body; not positive: no bound
	// write bounds each write to an HTTP/2 stream, whose flow control can block while
	// the connection makes progress; not positive: no bound.
	write time.Duration
}

func (e *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(framedKey{}).(*framedConn); ok {
		c.handled.Store(true)
	}
	if e.server.turnsAway(w, r) {
		return
	}
	returned := false
	defer func() {
		if !returned && r.ProtoMajor == 1 && r.ProtoMinor == 0 {
			breakOff(r.Context())
		}
	}()
	stream := r.ProtoMajor == 2 && e.write > 0
	reads := r.Body != nil && r.Body != http.NoBody && e.body > 0
	if !stream && !reads {
		e.next.ServeHTTP(w, r)
		returned = true
		return
	}
	pw := &pacedWriter{ResponseWriter: w, rc: http.NewResponseController(w)}
	if stream {
		pw.write = newWatch(e.write, pw.rc.SetWriteDeadline)
		defer pw.write.stop()
	}
	var pb *pacedBody
	if reads {
		// In a copy: if a request's body is of a type that the server does not know,
		// the server reads some of it before it writes a response whose handler has not
		// read it. That read could block forever.
		pb = &pacedBody{ReadCloser: r.Body, watch: newWatch(e.body, pw.rc.SetReadDeadline)}
		paced := *r
		paced.Body = pb
		r = &paced
		defer pb.watch.stop()
	}
	e.next.ServeHTTP(pw, r)
	returned = true
	pw.finish(pb, e.body, e.write)
	if r.ProtoMajor == 2 && pb != nil && (r.ContentLength > 0 || pw.status >= 400) {
		pb.linger(pw.rc)
	}
}

// breakOff keeps an HTTP/1.0 client from treating a broken response as complete. The
// end of its connection can be the end of the body, so a broken one has to end with a
// reset (H5).
func breakOff(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*progressConn); ok {
		weirhttp.Reset(c)
	}
}

// A pacedWriter bounds the writes to a stream.
type pacedWriter struct {
	http.ResponseWriter
	rc       *http.ResponseController
	write    *watch // nil: no bound here
	status   int    // 0: none was set
	hijacked bool
}

func (w *pacedWriter) WriteHeader(status int) {
	w.status = status // the last one is final; those before are informational
	w.ResponseWriter.WriteHeader(status)
}

// finish bounds what the server does after the handler has returned: discarding the
// rest of the body, and writing the rest of its buffer.
func (w *pacedWriter) finish(b *pacedBody, body, write time.Duration) {
	if w.write != nil {
		_ = w.rc.SetWriteDeadline(time.Now().Add(write)) // fails if the stream is gone
	}
	if b != nil && !b.ended && !b.cut && !w.hijacked && w.write == nil {
		_ = w.rc.SetReadDeadline(time.Now().Add(body)) // as above
	}
}

// Unwrap supports http.ResponseController.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *pacedWriter) Write(p []byte) (int, error) {
	w.write.begin()
	defer w.write.end()
	return w.ResponseWriter.Write(p)
}

// ReadFrom uses the server's ReadFrom for HTTP/1.
func (w *pacedWriter) ReadFrom(r io.Reader) (int64, error) {
	if rf, ok := w.ResponseWriter.(io.ReaderFrom); ok && w.write == nil {
		return rf.ReadFrom(r)
	}
	return io.Copy(writerOnly{w}, r)
}

// writerOnly hides all methods but Write, so that io.Copy does not call ReadFrom again.
type writerOnly struct{ io.Writer }

// FlushError supports http.ResponseController.
func (w *pacedWriter) FlushError() error {
	w.write.begin()
	defer w.write.end()
	return w.rc.Flush()
}

// Flush writes the buffered bytes.
func (w *pacedWriter) Flush() { _ = w.FlushError() }

// Hijack hands over the connection.
func (w *pacedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := w.rc.Hijack()
	w.hijacked = w.hijacked || err == nil
	return c, buf, err
}

// A pacedBody is a request's body whose every read has to end in time.
type pacedBody struct {
	io.ReadCloser
	watch *watch
	ended bool // used by the handler's goroutine; the body has been read to its end
	cut   bool // as ended; the client was too slow for our time-out or the handler's
}

func (b *pacedBody) Read(p []byte) (int, error) {
	b.watch.begin()
	n, err := b.ReadCloser.Read(p)
	if b.watch.end() && err != nil && err != io.EOF {
		b.cut = true
		err = fmt.Errorf("the client sent no part of the body for %v: %w", b.watch.after, err)
	}
	b.ended = b.ended || err == io.EOF
	b.cut = b.cut || errors.Is(err, os.ErrDeadlineExceeded) // the handler's deadline
	return n, err
}

// A watch cuts off an operation that takes too long, by setting a deadline in the past.
// The timer's goroutine ends on its own; it has no effect once stop has returned. A nil
// watch does nothing.
type watch struct {
	after time.Duration
	cut   func(time.Time) error

	mu    sync.Mutex
	timer *time.Timer // guarded by mu
	due   time.Time   // guarded by mu; zero between operations
	fired bool        // guarded by mu
}

func newWatch(after time.Duration, cut func(time.Time) error) *watch {
	return &watch{after: after, cut: cut}
}

// begin starts an operation.
func (w *watch) begin() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Now().Add(w.after)
	if w.timer == nil {
		w.timer = time.AfterFunc(w.after, w.fire)
	} else {
		w.timer.Reset(w.after)
	}
}

// end ends the operation, and reports whether it was cut off.
func (w *watch) end() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
	w.timer.Stop()
	return w.fired
}

// stop ends all operations.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
	if w.timer != nil {
		w.timer.Stop()
	}
}

// fire can run late, when its operation has ended and the next one has begun. In that
// case it does nothing: begin has reset the timer.
func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due.IsZero() || time.Now().Before(w.due) {
		return
	}
	w.fired = true
	_ = w.cut(past) // fails if the connection is gone, which is just as good
}
