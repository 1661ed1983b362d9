package forward

import (
	"net/http"
	"strconv"
	"strings"
)

// Reject responds to a request that a gateway never forwards (see Refusal), and
// reports whether it did.
func Reject(w http.ResponseWriter, r *http.Request) bool {
	status, text := Refusal(w.Header(), r)
	return status != 0 && refuse(w, r, status, text)
}

// Refusal returns the status and the text for a request that a gateway never
// forwards (H18), or 0 for other requests. It adds the matching fields to h. The
// requests are CONNECT (501), TRACE (405), a switch to another HTTP version or to
// TLS within the connection (501), and an invalid target, authority or method
// (400). After the first or the third, an HTTP/1 client may continue as if it had
// been granted, so its connection is closed.
func Refusal(h http.Header, r *http.Request) (status int, text string) {
	switch {
	case r.Method == http.MethodConnect:
		status, text = http.StatusNotImplemented, "CONNECT is not supported"
	case r.Method == http.MethodTrace:
		h.Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		status, text = http.StatusMethodNotAllowed, "TRACE is not allowed"
	case switchesHTTP(r):
		status, text = http.StatusNotImplemented, "this upgrade is not supported"
	default:
		if text = unclear(r); text != "" {
			status = http.StatusBadRequest
		} else if r.RequestURI != "" || r.URL == nil { // otherwise not a server's request
			if _, ok := targetPath(r); !ok {
				status, text = http.StatusBadRequest, "this request target cannot be forwarded"
			}
		}
	}
	if status != 0 && r.ProtoMajor <= 1 {
		h.Set("Connection", "close")
	}
	return status, text
}

// refuse responds, and returns true. Over HTTP/1 it ends the connection. An
// HTTP/2 connection may carry requests of other clients, and the error belongs to
// the stream (RFC 9113, section 8.1.1).
func refuse(w http.ResponseWriter, r *http.Request, code int, text string) bool {
	h := w.Header()
	if r.ProtoMajor <= 1 {
		h.Set("Connection", "close")
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(code)
	w.Write([]byte(text + "\n"))
	return true
}

// switchesHTTP reports whether r asks to continue in another HTTP version, or in
// TLS. Everything after that would bypass the gateway.
func switchesHTTP(r *http.Request) bool {
	if _, ok := r.Header["Http2-Settings"]; ok {
		return true
	}
	for _, v := range r.Header["Upgrade"] {
		for protocol := range strings.SplitSeq(v, ",") {
			name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(protocol)), "/")
			switch name {
			case "h2c", "h2", "http", "tls":
				return true
			}
		}
	}
	return false
}

// upgradeOf returns the protocols that r may switch to, nil if none. HTTP/1.0
// cannot switch (RFC 9110, section 7.8). A request with a body is forwarded
// without its upgrade: what follows its header is the body, not the protocol.
func upgradeOf(r *http.Request) []string {
	if r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1) || r.ContentLength != 0 {
		return nil
	}
	if !hasToken(r.Header["Connection"], "upgrade") {
		return nil
	}
	return r.Header["Upgrade"]
}
