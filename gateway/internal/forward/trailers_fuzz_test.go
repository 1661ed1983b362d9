package forward_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway/internal/forward"
)

// Trailers are forwarded as trailers, with their values in order, and do not
// change the header. Those that could change the framing, the routing, the user,
// or how the message is read are dropped. An invalid field ends the request.
func FuzzTrailers(f *testing.F) {
	for _, name := range []string{"X-Sum", "x-sum", "Content-Length", "Transfer-Encoding", "Host", "Set-Cookie", "Authorization", "Trailer", "Connection", "X-Forwarded-For", "Grpc-Status", "a b", "", "é", "Trailer:X", "Content-Type", "X_forwarded_for", "X_real_ip", "X_sum"} {
		f.Add(name, "a\nb", true, true)
		f.Add(name, "", false, true)
		f.Add(name, "a\r\nb", true, false)
	}
	never := []string{"Content-Length", "Transfer-Encoding", "Host", "Set-Cookie", "Cookie", "Authorization", "Proxy-Authorization", "Trailer", "Connection", "Te", "Upgrade",
		"Content-Type", "Content-Encoding", "Content-Range", "Cache-Control", "Vary", "Via", "Cdn-Loop", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Forwarded", "Location"}
	f.Fuzz(func(t *testing.T, name, lines string, announced, http11 bool) {
		values := strings.Split(lines, "\n")
		name = http.CanonicalHeaderKey(name)
		trailer := func() http.Header {
			h := http.Header{}
			if announced {
				h[name] = nil
			}
			return h
		}
		run := func(with bool) (up, upTrailer, down, downTrailer http.Header, status int) {
			r := httptest.NewRequest("POST", "/", nil)
			if !http11 {
				r.Proto, r.ProtoMajor = "HTTP/2.0", 2
				r.ProtoMinor = 0
			}
			r.ContentLength = -1
			r.Body = ending{strings.NewReader("body"), func() {}}
			if with {
				r.Trailer = trailer()
				r.Body = ending{strings.NewReader("body"), func() { r.Trailer[name] = values }}
			}
			fw := &forward.Forwarder{RoundTrip: func(out *http.Request) (*http.Response, error) {
				up = out.Header.Clone()
				if _, err := io.ReadAll(out.Body); err != nil {
					return nil, err
				}
				upTrailer = out.Trailer.Clone()
				resp := &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"X-Head": {"1"}}, ContentLength: -1, TransferEncoding: []string{"chunked"}, Request: out}
				resp.Body = ending{strings.NewReader("answer"), func() {}}
				if with {
					resp.Trailer = trailer()
					resp.Body = ending{strings.NewReader("answer"), func() { resp.Trailer[name] = values }}
				}
				return resp, nil
			}}
			w := httptest.NewRecorder()
			fw.ServeHTTP(w, r)
			res := w.Result()
			return up, upTrailer, res.Header, res.Trailer, res.StatusCode
		}
		plainUp, _, plainDown, _, _ := run(false)
		up, upTrailer, down, downTrailer, status := run(true)
		if status != 200 {
			if status != http.StatusBadRequest {
				t.Errorf("trailer %q: %q: status %d; want 200, or 400 for an invalid field", name, values, status)
			}
			return
		}
		delete(down, "Trailer") // announces the trailers
		delete(up, "X-Request-Id")
		delete(plainUp, "X-Request-Id") // differs for each request
		if !reflect.DeepEqual(up, plainUp) || !reflect.DeepEqual(down, plainDown) {
			t.Errorf("trailer %q: %q changes the headers: %v and %v; want %v and %v", name, values, up, down, plainUp, plainDown)
		}
		for where, got := range map[string]http.Header{"request": upTrailer, "answer": downTrailer} {
			for other, v := range got {
				if len(v) == 0 {
					continue
				}
				if other != name || !slices.Equal(v, values) || slices.Contains(never, http.CanonicalHeaderKey(strings.ReplaceAll(other, "_", "-"))) || strings.ContainsAny(strings.Join(v, ""), "\r\x00") {
					t.Errorf("trailer %q: %q of the %s is forwarded as %q: %q", name, values, where, other, v)
				}
			}
			if strings.HasPrefix(name, "X-S") && len(got[name]) == 0 {
				t.Errorf("trailer %q: %q of the %s is not forwarded: %v", name, values, where, got)
			}
		}
	})
}

// An ending is a body with a function that runs at its end.
type ending struct {
	io.Reader
	then func()
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.then()
	}
	return n, err
}

func (ending) Close() error { return nil }
