package listen_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// bigPage needs more than one write.
var bigPage = strings.Repeat("0123456789abcdef", 20_000)

// origin has pages that can be stored, some that cannot, and answers all other requests
// with a description.
func origin(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if stored(w, r) {
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	flush := func() {
		w.(http.Flusher).Flush()
		<-time.After(5 * time.Millisecond)
	}
	switch r.URL.Path {
	case "/stream":
		for i := range 3 {
			fmt.Fprintf(w, "part %d", i)
			flush()
		}
	case "/chunks":
		io.WriteString(w, bigPage)
	case "/length":
		h.Set("Content-Length", fmt.Sprint(len(bigPage)))
		io.WriteString(w, bigPage)
	case "/trailers":
		h.Set("Trailer", "X-Sum")
		io.WriteString(w, "with trailers")
		h.Set("X-Sum", "1")
	case "/late":
		io.WriteString(w, "with trailers")
		flush()
		h.Set(http.TrailerPrefix+"X-Late", "1")
	case "/early":
		h.Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		flush()
		io.WriteString(w, "late")
	case "/204":
		w.WriteHeader(http.StatusNoContent)
	case "/304":
		h.Set("Etag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
	case "/0":
		h.Set("Content-Length", "0")
	case "/untyped":
		h["Content-Type"] = nil
		io.WriteString(w, "<html>")
	case "/broken":
		h.Set("Content-Length", "100")
		io.WriteString(w, "too short")
		flush()
		panic(http.ErrAbortHandler)
	case "/torn":
		io.WriteString(w, "without an end")
		flush()
		panic(http.ErrAbortHandler)
	case "/hangup":
		panic(http.ErrAbortHandler)
	case "/slow":
		<-time.After(60 * time.Millisecond) // until the client is watched
		fallthrough
	default:
		fmt.Fprintf(w, "%s %s %q", r.Method, r.URL.RequestURI(), body)
	}
}

// stored writes the page of r, if it can be stored.
func stored(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	text, status := "stored "+r.URL.RequestURI(), http.StatusOK
	switch r.URL.Path {
	case "/a", "/b":
		h.Set("Etag", `"1"`)
		h.Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		h["X-Twice"] = []string{"1", "2"}
	case "/big":
		text = bigPage
	case "/empty":
		text = ""
		h.Set("Content-Length", "0")
	case "/gone":
		text, status = "", http.StatusGone
	case "/none":
		text, status = "", http.StatusNoContent
	case "/language":
		h.Set("Vary", "Accept-Language")
		text = "stored in " + r.Header.Get("Accept-Language")
	default:
		return false
	}
	h.Set("Cache-Control", "max-age=3600")
	w.WriteHeader(status)
	io.WriteString(w, text)
	return true
}
