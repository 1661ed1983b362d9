package listen_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// responses are handlers that use their ResponseWriter in all ways that it has.
var responses = map[string]http.HandlerFunc{
	"nothing":        func(http.ResponseWriter, *http.Request) {},
	"small":          func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "small") },
	"empty write":    func(w http.ResponseWriter, _ *http.Request) { w.Write(nil) },
	"status":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); io.WriteString(w, "not here") },
	"unknown status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) },
	"status of 999":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(999); io.WriteString(w, "x") },
	"no status":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) },
	"two statuses":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(500) },
	"2048 bytes":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, bigPage[:2048]) },
	"2049 bytes":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, bigPage[:2049]) },
	"large":          func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, bigPage) },
	"many writes": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			fmt.Fprintf(w, "write %d of a body; ", i)
		}
	},
	"writes of all sizes": func(w http.ResponseWriter, _ *http.Request) {
		for _, n := range []int{1, 2047, 1, 2048, 100, 4096, 3000, 65536, 1, 70_000, 2049} {
			w.Write([]byte(bigPage[:n]))
		}
	},
	"writes of strings": func(w http.ResponseWriter, _ *http.Request) {
		for _, n := range []int{1, 2047, 1, 2048, 100, 4096, 3000, 65536, 1, 70_000, 2049, 0} {
			io.WriteString(w, bigPage[:n])
		}
	},
	"length": func(w http.ResponseWriter, _ *http.Request) { length(w, 5); io.WriteString(w, "12345") },
	"length in parts": func(w http.ResponseWriter, _ *http.Request) {
		length(w, 10)
		io.WriteString(w, "<html")
		io.WriteString(w, "><b>!")
	},
	"long length": func(w http.ResponseWriter, _ *http.Request) {
		length(w, len(bigPage)+10)
		io.WriteString(w, bigPage)
		io.WriteString(w, "0123456789")
	},
	"too short": func(w http.ResponseWriter, _ *http.Request) { length(w, 50); io.WriteString(w, "12345") },
	"too long": func(w http.ResponseWriter, _ *http.Request) {
		length(w, 5)
		io.WriteString(w, "123")
		if _, err := io.WriteString(w, "4567"); err != http.ErrContentLength {
			panic(err)
		}
	},
	"length of 0": func(w http.ResponseWriter, _ *http.Request) { length(w, 0) },
	"no length": func(w http.ResponseWriter, _ *http.Request) {
		set(w, "Content-Length", "x")
		io.WriteString(w, "12345")
	},
	"empty length": func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Length", ""); io.WriteString(w, "12345") },
	"deleted length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Length"] = nil
		io.WriteString(w, "1")
	},
	"html": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
	"no type": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "<html>")
	},
	"coded": func(w http.ResponseWriter, _ *http.Request) {
		set(w, "Content-Encoding", "gzip")
		io.WriteString(w, "<html>")
	},
	"204": func(w http.ResponseWriter, _ *http.Request) {
		length(w, 0)
		set(w, "Content-Type", "a/b")
		w.WriteHeader(204)
	},
	"204 with a body": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(204)
		if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
			panic(err)
		}
	},
	"304": func(w http.ResponseWriter, _ *http.Request) {
		length(w, 7)
		set(w, "Content-Type", "a/b")
		w.WriteHeader(304)
	},
	"304 with other spellings": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["content-length"], w.Header()["content-type"] = []string{"7"}, []string{"a/b"}
		w.WriteHeader(304)
	},
	"fields": func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["X-Two"], h["x-lower"], h["X-None"], h["X-Empty"] = []string{"1", "2"}, []string{"l"}, nil, []string{""}
		h["no name"], h["X-Line"], h["X-Blanks"] = []string{"1"}, []string{"a\r\nb\nc"}, []string{" \t x "}
		set(w, "Date", "Mon, 02 Jan 2006 15:04:05 GMT")
		io.WriteString(w, "x")
	},
	"fields set late": func(w http.ResponseWriter, _ *http.Request) {
		set(w, "X-A", "1")
		w.WriteHeader(200)
		set(w, "X-A", "2")
		set(w, "X-B", "2")
		io.WriteString(w, "x")
	},
	"close": func(w http.ResponseWriter, _ *http.Request) { set(w, "Connection", "close"); io.WriteString(w, "x") },
	"flushed": func(w http.ResponseWriter, _ *http.Request) {
		flush(w)
		io.WriteString(w, "one")
		flush(w)
		flush(w)
		io.WriteString(w, "two")
	},
	"flushed with a length": func(w http.ResponseWriter, _ *http.Request) {
		length(w, 6)
		flush(w)
		io.WriteString(w, "one")
		flush(w)
		io.WriteString(w, "two")
	},
	"flushed and sniffed": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<html>")
		flush(w)
		io.WriteString(w, "x")
	},
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		set(w, "Trailer", "X-Sum, x-other,, If-Match, Content-Length, X-None")
		w.Header().Add("Trailer", "X-More")
		io.WriteString(w, "body")
		set(w, "X-Sum", "1")
		w.Header()["X-Other"], w.Header()["X-More"] = []string{"2", "3"}, []string{"4"}
		set(w, "Content-Length", "5")
	},
	"unannounced trailers": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "body")
		flush(w)
		set(w, http.TrailerPrefix+"X-Late", "1")
	},
	"trailers of a small body": func(w http.ResponseWriter, _ *http.Request) {
		set(w, http.TrailerPrefix+"X-Soon", "1")
		io.WriteString(w, "body")
	},
	"trailers that are too late": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "body")
		set(w, http.TrailerPrefix+"X-Late", "1")
	},
	"early responses": func(w http.ResponseWriter, _ *http.Request) {
		set(w, "Link", "</a.css>")
		w.WriteHeader(103)
		set(w, "Content-Length", "3")
		w.WriteHeader(102)
		w.WriteHeader(100)
		w.Header().Del("Link")
		io.WriteString(w, "end")
	},
	"101":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101) },
	"panic":        func(http.ResponseWriter, *http.Request) { panic("nothing was written") },
	"small, panic": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "small"); panic(http.ErrAbortHandler) },
	"whole, panic": func(w http.ResponseWriter, _ *http.Request) {
		length(w, 5)
		io.WriteString(w, "small")
		panic(http.ErrAbortHandler)
	},
	"flushed, panic": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "small")
		flush(w)
		io.WriteString(w, "lost")
		panic(http.ErrAbortHandler)
	},
	"chunks, panic": func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(bigPage[:3000]))
		io.WriteString(w, "lost")
		panic(http.ErrAbortHandler)
	},
	"large, panic": func(w http.ResponseWriter, _ *http.Request) {
		length(w, len(bigPage))
		io.WriteString(w, bigPage[:200_000])
		io.WriteString(w, bigPage[:1000])
		panic(http.ErrAbortHandler)
	},
	"early response, panic": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); panic(http.ErrAbortHandler) },
	"request": func(w http.ResponseWriter, r *http.Request) {
		server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
		fmt.Fprintf(w, "%s %s %v %q %s %d %d %d %v %v %v %v %v %t", r.Method, r.Host, r.URL, r.RequestURI, r.Proto, r.ProtoMajor,
			r.ProtoMinor, r.ContentLength, r.Header, r.TransferEncoding, r.Close, r.Trailer, r.Body == http.NoBody, server != nil)
		fmt.Fprint(w, r.RemoteAddr != "", r.Context().Value(http.LocalAddrContextKey) != nil, r.TLS, r.Form, r.Pattern)
		deadline, ok := r.Context().Deadline()
		fmt.Fprint(w, r.Context().Err(), deadline, ok)
	},
	"deadlines": func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		later := time.Now().Add(time.Hour)
		fmt.Fprint(w, c.SetReadDeadline(later), c.SetWriteDeadline(later), c.EnableFullDuplex(), c.Flush())
	},
	"short deadlines": func(w http.ResponseWriter, _ *http.Request) { // they end with the response
		c := http.NewResponseController(w)
		io.WriteString(w, "in time")
		c.Flush()
		c.SetReadDeadline(time.Now().Add(time.Hour))
		c.SetWriteDeadline(time.Unix(1, 0))
		c.SetWriteDeadline(time.Now().Add(30 * time.Millisecond))
	},
}

func set(w http.ResponseWriter, name, value string) { w.Header().Set(name, value) }

func length(w http.ResponseWriter, n int) { set(w, "Content-Length", fmt.Sprint(n)) }

func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }

// H31: whatever a handler does with its ResponseWriter, the client gets the same bytes,
// chunks included.
func TestH31_SameWriter(t *testing.T) {
	open := func(fast bool) way {
		served := new(atomic.Uint64)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name := r.URL.Query().Get("as"); name != "" {
				responses[name](w, r)
				return
			}
			fmt.Fprint(w, "GET "+r.URL.Path)
		})
		s := serve(t, listen.Config{FastPath: fast}, listen.Options{Handler: handler, Fast: served, Logger: slog.New(slog.DiscardHandler)})
		return way{Server: s, served: served, patience: 20 * time.Second}
	}
	fast, slow := open(true), open(false)
	for name := range responses {
		for _, method := range []string{"GET", "HEAD"} {
			t.Run(method+" "+name, func(t *testing.T) {
				request := method + " /?as=" + strings.ReplaceAll(name, " ", "%20") + " HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n"
				text := first + request + get("/between") + request + end
				want, wantEnded := converse(t, slow, text, []int{len(first)})
				for range 20 { // on a busy machine net/http can still be reading ahead
					before := fast.served.Load()
					got, ended := converse(t, fast, text, []int{len(first)})
					got, want := varies.ReplaceAllString(got, ""), varies.ReplaceAllString(want, "")
					if got != want || ended != wantEnded {
						t.Errorf("without net/http: %q, ended %t\nby net/http:      %q, ended %t", shortened(got), ended, shortened(want), wantEnded)
						return
					}
					if fast.served.Load() > before {
						return
					}
				}
				t.Error("no request was served without net/http")
			})
		}
	}
}
