package jobshttp

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/weir/weirhttp"
)

// A Response is the result of a job: what the handler answered. Informational
// answers (1xx) and trailers are not kept.
type Response struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"-"`
}

// write answers r with p, and what extra says over it.
func (p Response) write(w http.ResponseWriter, r *http.Request, extra http.Header) {
	h := w.Header()
	maps.Copy(h, p.Header)
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // or net/http guesses one
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
		_, _ = w.Write(p.Body) // a client that has gone is the server's to notice
	}
}

// own returns p as it is given under the path of jobs: for its owner, to be kept
// by nobody on the way.
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

// aboutCaches reports whether the response field tells caches what to do, or
// what they have done.
func aboutCaches(name string) bool {
	switch name {
	case "Age", "Cache-Control", "Cache-Status", "Expires", "Pragma", "Surrogate-Control", "Surrogate-Key":
		return true
	}
	return strings.HasSuffix(name, "-Cache-Control") // RFC 9213
}

// A recorder is a ResponseWriter that keeps an answer of a bounded size.
type recorder struct {
	limit  int
	cancel context.CancelCauseFunc // ends the call

	header  http.Header
	kept    Response // Status 0: no head yet
	body    bytes.Buffer
	over    bool // the body is larger than limit
	receipt weirhttp.Receipt
}

var _ weirhttp.ReceiptWriter = (*recorder)(nil)

// Header is of http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader is of http.ResponseWriter. What comes before the final head is
// dropped.
func (w *recorder) WriteHeader(status int) {
	if w.kept.Status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.kept = Response{Status: status, Header: make(http.Header, len(w.header))}
	for name, values := range w.header {
		if name != "Trailer" && !strings.HasPrefix(name, http.TrailerPrefix) && name != "Connection" && name != "Keep-Alive" {
			w.kept.Header[name] = append([]string(nil), values...)
		}
	}
}

// Write is of http.ResponseWriter. Past the limit it fails, and ends the call.
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

// Flush is of http.Flusher: there is nobody to flush to.
func (w *recorder) Flush() {}

// SetReceipt is of weirhttp.ReceiptWriter.
func (w *recorder) SetReceipt(r weirhttp.Receipt) { w.receipt = r }

// record has next answer r, and returns the answer. A handler that breaks off
// panics with http.ErrAbortHandler, as net/http has it.
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
			err = fmt.Errorf("the handler panicked: %v", v)
		}
		receipt = w.receipt
	}()
	next.ServeHTTP(w, r.WithContext(ctx))
	w.WriteHeader(http.StatusOK)
	w.kept.Body = w.body.Bytes()
	return w.kept, w.receipt, nil
}
