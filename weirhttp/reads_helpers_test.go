package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A search is a Handler in front of an origin that answers reads with a body, behind a
// server on a real socket. The origin answers with what it got.
type search struct {
	t       *testing.T
	handler *weirhttp.Handler
	url     string
	calls   atomic.Int64
	slow    atomic.Int64 // how long a call takes, as a Duration
	status  atomic.Int64 // of the responses, 0 means 200
	header  atomic.Pointer[http.Header]

	mu  sync.Mutex
	got []string // guarded by mu; the bodies that the origin got
}

// fresh is what the origin sends unless a test changes it.
var fresh = http.Header{"Cache-Control": {"max-age=60"}, "Content-Type": {"text/plain"}}

func openSearch(t *testing.T, o weirhttp.Options) *search {
	t.Helper()
	s := &search{t: t}
	s.header.Store(&fresh)
	h, err := weirhttp.New(http.HandlerFunc(s.answer), o)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = h
	server := httptest.NewServer(h)
	s.url = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if held := h.HeldBodies(); held != 0 {
			t.Errorf("%d bytes of bodies are held after the last request", held)
		}
	})
	return s
}

// answer is the origin. Its response names all that it depends on, except the call.
func (s *search) answer(w http.ResponseWriter, r *http.Request) {
	n := s.calls.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	s.got = append(s.got, string(body))
	s.mu.Unlock()
	time.Sleep(time.Duration(s.slow.Load()))
	for k, v := range *s.header.Load() {
		w.Header()[k] = v
	}
	w.Header().Set("X-Call", fmt.Sprint(n))
	if tag := r.Header.Get("If-None-Match"); tag != "" && tag == w.Header().Get("Etag") {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if status := s.status.Load(); status != 0 {
		w.WriteHeader(int(status))
	}
	_, _ = io.WriteString(w, s.answerTo(r.Method, string(body), r.Header))
}

// answerTo is the response to a request.
func (s *search) answerTo(method, body string, h http.Header) string {
	return fmt.Sprintf("%s %q %q %q %q", method, body, h.Get("Authorization"), h.Get("Cookie"), h.Get("X-Api-Key"))
}

// send sends a body with fields (name, value, ...). The Content-Type is JSON unless
// they have one.
func (s *search) send(method, body string, fields ...string) reply {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/search", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "Content-Type" {
			r.Header.Del(fields[i])
		}
		r.Header.Add(fields[i], fields[i+1])
	}
	return s.do(r)
}

func (s *search) do(r *http.Request) reply {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body), err: err}
}

func (s *search) post(body string, fields ...string) reply {
	return s.send(http.MethodPost, body, fields...)
}

func (s *search) wantCalls(n int64) {
	s.t.Helper()
	if got := s.calls.Load(); got != n {
		s.t.Errorf("the origin was called %d times; want %d", got, n)
	}
}

// byJSON and byBytes declare POST with JSON as a read.
var (
	byJSON  = weirhttp.ReadRule{Methods: []string{"POST"}, Types: []string{"application/json"}, Compare: weirhttp.CompareJSON}
	byBytes = weirhttp.ReadRule{Methods: []string{"POST"}, Types: []string{"application/json"}}
)

func reads(rules ...weirhttp.ReadRule) weirhttp.Options { return weirhttp.Options{Reads: rules} }

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(until) {
			t.Fatalf("%s: not after 20 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
