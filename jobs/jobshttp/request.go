package jobshttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-go/weir/jobs/bounded"
)

// A Request is the stored part of an http.Request that became a job. Trailers are not
// stored.
type Request struct {
	Method string      `json:"method"`           // method of the request
	Target string      `json:"target"`           // as in the request line
	Host   string      `json:"host"`             // host of the request
	Header http.Header `json:"header"`           // header fields that are kept
	Remote string      `json:"remote,omitempty"` // the client's address
	TLS    bool        `json:"tls,omitempty"`    // it arrived over TLS
	Body   []byte      `json:"-"`                // the whole body

	read string // of a read with a body: the digest that stands for the body; not stored
}

// headRoom is the space for fields and the codec in addition to a body.
const headRoom = 1 << 20

// dropped are fields for the connection, or for the response to the original request:
// they have no meaning for the later call.
var dropped = []string{
	"Connection", "Content-Length", "Expect", "Keep-Alive", "Prefer", "Proxy-Authorization", "Proxy-Connection", "Range",
	"If-Range", "Grpc-Timeout", "X-Envoy-Expected-Rq-Timeout-Ms", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// conditions make the response to a safe request depend on what the client has. With
// other methods they decide whether to change anything, and are kept.
var conditions = []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}

// newRequest reads r with a body of at most limit bytes, without the fields of
// secret.
func newRequest(w http.ResponseWriter, r *http.Request, limit int, secret []string) (Request, error) {
	if r.ContentLength > int64(limit) {
		return Request{}, &http.MaxBytesError{Limit: int64(limit)} // before the client sends any of it
	}
	q := Request{
		Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header.Clone(), Remote: r.RemoteAddr, TLS: r.TLS != nil,
	}
	if q.Target == "" {
		q.Target = r.URL.RequestURI() // the request is not from a server
	}
	for _, line := range r.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			q.Header.Del(textproto.TrimString(name))
		}
	}
	for _, name := range slices.Concat(dropped, secret) {
		q.Header.Del(name)
	}
	if isSafe(r.Method) {
		for _, name := range conditions {
			q.Header.Del(name)
		}
	}
	if r.Body == nil || r.Body == http.NoBody {
		return q, nil
	}
	var err error
	q.Body, err = bounded.All(http.MaxBytesReader(w, r.Body, int64(limit)), int64(limit))
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return q, large
	}
	if err != nil {
		return q, fmt.Errorf("%w: %w", errUnread, err)
	}
	return q, nil
}

// isSafe reports whether requests with this method change nothing (RFC 9110, section
// 9.2.1).
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == "QUERY"
}

// request rebuilds the request for a handler.
func (q Request) request(ctx context.Context) (*http.Request, error) {
	u, err := url.ParseRequestURI(q.Target)
	if q.Target == "*" {
		u, err = &url.URL{Path: "*"}, nil
	}
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // omit the URL: clients that must not see it can see a job's error
		}
		return nil, fmt.Errorf("the target of the request: %w", err)
	}
	r := (&http.Request{
		Method: q.Method, URL: u, RequestURI: q.Target, Host: q.Host, Header: q.Header.Clone(), RemoteAddr: q.Remote,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}).WithContext(ctx)
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if q.TLS {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	}
	if len(q.Body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(q.Body)), int64(len(q.Body))
	}
	return r, nil
}
