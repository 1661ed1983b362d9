package forward

import (
	"net/http"
	"strconv"
	"strings"
)

// Reject answers what a gateway never forwards (see Refusal), and reports whether it
// did.
func Reject(w http.ResponseWriter, r *http.Request) bool {
	status, text := Refusal(w.Header(), r)
	return status != 0 && refuse(w, r, status, text)
}

// Refusal returns the status and the text for what a gateway never forwards (H18), 0 for
// all else, and puts fields into h that belong to it: CONNECT (501), TRACE (405), a change to another version of HTTP or to TLS
// within the connection (501), and a target, an authority or a method that is
// none (400). A client on
// HTTP/1 that tried the first or the third may go on as if it had been granted,
// so its connection is closed.
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
		} else if r.RequestURI != "" || r.URL == nil { // else no server's request
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

// refuse answers, and returns true. Over HTTP/1 it ends the connection; over
// HTTP/2 others' requests may be on it, and the fault is the stream's (RFC 9113,
// section 8.1.1).
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

// switchesHTTP reports whether r asks to go on in another version of HTTP, or in
// TLS, which would take all that follows past the gateway.
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
// cannot (RFC 9110, section 7.8), and a request with a body is forwarded as one
// that does not ask: what follows its head is the body, not the protocol.
func upgradeOf(r *http.Request) []string {
	if r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1) || r.ContentLength != 0 {
		return nil
	}
	if !hasToken(r.Header["Connection"], "upgrade") {
		return nil
	}
	return r.Header["Upgrade"]
}
