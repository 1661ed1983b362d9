package jobshttp

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/weirhttp"
)

// A Response is the result of a job: the handler's response, without informational
// responses (1xx) and trailers.
type Response struct {
	Status int         `json:"status"` // status code
	Header http.Header `json:"header"` // header fields that are kept
	Body   []byte      `json:"-"`      // the whole body
}

// write responds to r with p; the fields in extra override those of p, except that
// Vary is extended.
func (p Response) write(w http.ResponseWriter, r *http.Request, extra http.Header) {
	h := w.Header()
	maps.Copy(h, p.Header)
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // otherwise net/http guesses one
	}
	for name, values := range extra {
		if name == "Vary" {
			h[name] = append(h[name][:len(h[name]):len(h[name])], values...)
		} else {
			h[name] = values
		}
	}
	if r.Method != http.MethodHead || len(p.Body) > 0 {
		h.Del("Content-Length")
		if p.Status >= 200 && p.Status != http.StatusNoContent && p.Status != http.StatusNotModified {
			h.Set("Content-Length", strconv.Itoa(len(p.Body)))
		}
	}
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.Body) // the server notices if the client is gone
	}
}

// own returns p as served under the path of jobs: for its owner only, and not for
// caches.
func (p Response) own() Response {
	h := make(http.Header, len(p.Header)+1)
	for name, values := range p.Header {
		if !aboutCaches(name) {
			h[name] = values
		}
	}
	h["Cache-Control"] = []string{private}
	return Response{p.Status, h, p.Body}
}

// aboutCaches reports whether the response field gives instructions to caches or
// describes what they did.
func aboutCaches(name string) bool {
	switch name {
	case "Age", "Cache-Control", "Cache-Status", "Expires", "Pragma", "Surrogate-Control", "Surrogate-Key":
		return true
	}
	return strings.HasSuffix(name, "-Cache-Control") // RFC 9213
}

// A recorder is a ResponseWriter that keeps a response of bounded size.
type recorder struct {
	limit  int
	cancel context.CancelCauseFunc // ends the call

	header  http.Header
	kept    Response // Status 0: no header yet
	body    bytes.Buffer
	over    bool // the body is larger than limit
	receipt weirhttp.Receipt
}

var _ weirhttp.ReceiptWriter = (*recorder)(nil)

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. It drops responses before the final
// one. It also drops the ID of the job's own request, which is none of the requests that
// get the result.
func (w *recorder) WriteHeader(status int) {
	if w.kept.Status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.kept = Response{Status: status, Header: make(http.Header, len(w.header))}
	for name, values := range w.header {
		if name != "X-Request-Id" && name != "Trailer" && !strings.HasPrefix(name, http.TrailerPrefix) && name != "Connection" && name != "Keep-Alive" {
			w.kept.Header[name] = append([]string(nil), values...)
		}
	}
}

// Write implements http.ResponseWriter. Past the limit it fails, and ends the call.
func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.body.Len()+len(p) > w.limit {
		w.over = true
		err := &oversizeError{w.limit}
		w.cancel(err)
		return 0, err
	}
	return w.body.Write(p)
}

// Flush implements http.Flusher. It does nothing, because the response is stored.
func (w *recorder) Flush() {}

// SetReceipt implements weirhttp.ReceiptWriter.
func (w *recorder) SetReceipt(r weirhttp.Receipt) { w.receipt = r }

// record calls next for r and returns its response. As in net/http, a handler aborts
// its response with a panic of http.ErrAbortHandler.
func record(next http.Handler, r *http.Request, limit int) (p Response, receipt weirhttp.Receipt, err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	w := &recorder{limit: limit, cancel: cancel, header: http.Header{}}
	defer func() {
		switch v := recover(); {
		case w.over:
			err = &oversizeError{limit}
		case v == http.ErrAbortHandler: //nolint:errorlint // it is panicked with as it is
			err = errBroken
		case v != nil:
			err = &jobs.PanicError{Value: v, Stack: debug.Stack()}
		}
		receipt = w.receipt
	}()
	next.ServeHTTP(w, r.WithContext(ctx))
	w.WriteHeader(http.StatusOK)
	w.kept.Body = w.body.Bytes()
	return w.kept, w.receipt, nil
}
