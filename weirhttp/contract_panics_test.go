package weirhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// A panic of the next handler, with any value and at any step, is a failure of the
// service for its clients, and they see neither its text nor a stack.
func TestH21_APanicIsNotTheErrorItPanickedWith(t *testing.T) {
	const secret = "10.1.2.3:5432"
	values := map[string]any{
		"text": secret, "not found": fmt.Errorf("%s: %w", secret, weir.ErrNotFound),
		"limited": &limit.Error{Reason: limit.QueueFull, RetryAfter: time.Second},
		"closed":  weir.ErrClosed, "too large": &http.MaxBytesError{Limit: 1},
		"a panic": &weir.PanicError{Value: errors.Join(weir.ErrNotFound, limit.ErrLimited), Stack: debug.Stack()},
		"a stack": fmt.Sprintf("%s\n%s", secret, debug.Stack()),
	}
	steps := map[string]func(http.ResponseWriter, *http.Request, any){
		"before the head": func(_ http.ResponseWriter, _ *http.Request, v any) { panic(v) },
		"with fields set": func(w http.ResponseWriter, _ *http.Request, v any) {
			w.Header().Set("Trailer", "X-End")
			w.Header().Set("Cache-Control", "max-age=60")
			panic(v)
		},
		"after early hints": func(w http.ResponseWriter, _ *http.Request, v any) {
			w.WriteHeader(http.StatusEarlyHints)
			panic(v)
		},
		"after the head": func(w http.ResponseWriter, _ *http.Request, v any) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			panic(v)
		},
		"in the body": func(w http.ResponseWriter, _ *http.Request, v any) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(v)
		},
		"before the trailers": func(w http.ResponseWriter, _ *http.Request, v any) {
			w.Header().Set("Trailer", "X-End")
			_, _ = io.WriteString(w, "half")
			w.Header().Set("X-End", "1")
			panic(v)
		},
	}
	for step, run := range steps {
		for name, value := range values {
			t.Run(step+" "+name, func(t *testing.T) {
				both(t, func(t *testing.T, p protocol) {
					synctest.Test(t, func(t *testing.T) {
						s := open(t, p, weirhttp.Options{Gateway: true, Observer: quiet{}}, func(w http.ResponseWriter, r *http.Request) {
							time.Sleep(slow)
							run(w, r, value)
						})
						for _, r := range s.together(3, s.same("/a")) {
							seen := fmt.Sprint(r.status, r.header, r.body, r.err)
							if r.err == nil && r.status != http.StatusInternalServerError {
								t.Errorf("status %d, %q; want 500 or a broken response", r.status, r.body)
							}
							if strings.Contains(seen, secret) || strings.Contains(seen, "goroutine ") || strings.Contains(seen, ".go:") || strings.Contains(seen, "Retry-After") {
								t.Errorf("the client sees %q", seen)
							}
						}
					})
				})
			})
		}
	}
}
