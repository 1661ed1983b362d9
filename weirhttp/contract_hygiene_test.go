package weirhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// answers are handlers whose responses must be the same with a Handler in front of
// them.
var answers = map[string]http.HandlerFunc{
	"empty":  func(http.ResponseWriter, *http.Request) {},
	"status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) },
	"short":  func(w http.ResponseWriter, _ *http.Request) { typed(w); _, _ = io.WriteString(w, "hello") },
	"long": func(w http.ResponseWriter, _ *http.Request) {
		typed(w)
		_, _ = io.WriteString(w, strings.Repeat("hello", 5000))
	},
	"values in order": func(w http.ResponseWriter, _ *http.Request) {
		typed(w)
		w.Header()["X-Many"] = []string{"b", "a", "b, c", ""}
		w.Header()["Set-Cookie"] = []string{"z=1", "a=2"}
		_, _ = io.WriteString(w, "x")
	},
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		typed(w)
		w.Header().Set("Trailer", "X-Sum, X-None")
		_, _ = io.WriteString(w, "x")
		w.Header().Set("X-Sum", "1")
	},
	"late trailers": func(w http.ResponseWriter, _ *http.Request) {
		typed(w)
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	},
	"no content":       func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-A", "1"); w.WriteHeader(204) },
	"no content, late": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); time.Sleep(time.Second) },
	"own length": func(w http.ResponseWriter, _ *http.Request) {
		typed(w)
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "abc")
	},
	"own receipt": func(w http.ResponseWriter, _ *http.Request) { typed(w); w.Header().Set("Cache-Status", "up; hit") },
}

func typed(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/x-test") }

func TestH17_NothingIsChanged(t *testing.T) {
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, p protocol) {
				for _, method := range []string{"GET", "POST"} {
					for _, alone := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) {
							o := weirhttp.Options{NoCoalescing: alone, NoReceipt: true}
							s := open(t, p, o, answer)
							ask := func() string {
								resp, err := s.client.Do(s.request(t.Context(), method, "/a"))
								if err != nil {
									t.Fatal(err)
								}
								defer resp.Body.Close()
								body, err := io.ReadAll(resp.Body)
								delete(resp.Header, "Date")
								if strings.HasSuffix(name, "trailers") { // the framing by net/http depends on when it is flushed
									delete(resp.Header, "Content-Length")
									resp.ContentLength = 0
								}
								return fmt.Sprint(resp.StatusCode, resp.Header, resp.ContentLength, resp.Trailer, len(body), err)
							}
							with := ask()
							s.client = dialled(t, p, answer)
							if without := ask(); with != without {
								t.Errorf("%s, alone=%t:\n%s with us\n%s without", method, alone, with, without)
							}
						})
					}
				}
			})
		})
	}
}

// Handlers in front of us add to Vary and set cookies. What the response adds to those
// must be what it would add without us.
func TestH17_FieldsOfAHandlerInFront(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		typed(w)
		w.Header().Add("Vary", "Accept")
		switch r.URL.Path {
		case "/cookie":
			http.SetCookie(w, &http.Cookie{Name: "inner", Value: "1"})
		case "/fresh":
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Etag", `"1"`)
		}
		w.Header().Set("X-Of", "inner")
		_, _ = io.WriteString(w, "x")
	})
	around := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "outer", Value: "1"})
			w.Header().Add("Vary", "Origin")
			w.Header().Set("X-Of", "outer")
			next.ServeHTTP(w, r)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		h, err := weirhttp.New(inner, weirhttp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		for _, request := range [][]string{
			{"GET", "/cookie"}, {"POST", "/cookie"}, {"GET", "/plain"}, {"GET", "/fresh"}, // calls
			{"GET", "/fresh"}, {"HEAD", "/fresh"}, {"GET", "/fresh", "bytes=0-0"}, // hits
		} {
			ask := func(next http.Handler) http.Header {
				w, r := httptest.NewRecorder(), httptest.NewRequest(request[0], request[1], nil)
				if len(request) > 2 {
					r.Header.Set("Range", request[2])
				}
				around(next).ServeHTTP(w, r)
				return w.Header()
			}
			with, without := ask(h), ask(inner)
			for _, name := range []string{"Set-Cookie", "Vary", "X-Of"} {
				if !reflect.DeepEqual(with[name], without[name]) {
					t.Errorf("%v: %s = %q with us, %q without", request, name, with[name], without[name])
				}
			}
		}
	})
}

func TestH17_NoTypeIsGuessed(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				_, _ = io.WriteString(w, "<html>")
			})
			for _, r := range []reply{s.get("/a"), s.get("/a"), s.get("/a", "Range", "bytes=0-3"), s.do(s.request(t.Context(), "POST", "/a"))} {
				if v, ok := r.header["Content-Type"]; ok {
					t.Errorf("Content-Type = %q; want none", v)
				}
			}
		})
	})
}

func TestH17_TheRequestArrivesAsItCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []http.Header
		s := open(t, h1, weirhttp.Options{}, func(_ http.ResponseWriter, r *http.Request) {
			h := r.Header.Clone()
			h["-"] = []string{r.Method, r.Host, r.RequestURI, r.Proto}
			seen = append(seen, h)
		})
		s.get("/a%2Fb?a=1;b=2&c=%zz", "X-Many", "b", "X-Many", "a")
		s.client = dialled(t, h1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			h := r.Header.Clone()
			h["-"] = []string{r.Method, r.Host, r.RequestURI, r.Proto}
			seen = append(seen, h)
		}))
		s.get("/a%2Fb?a=1;b=2&c=%zz", "X-Many", "b", "X-Many", "a")
		if !reflect.DeepEqual(seen[0], seen[1]) {
			t.Errorf("the request is\n%v with us\n%v without", seen[0], seen[1])
		}
	})
}

func TestTheErrorTable(t *testing.T) {
	retry := &limit.Error{RetryAfter: 1500 * time.Millisecond}
	rows := []struct {
		err    error
		client bool
		status int
		after  string
	}{
		{weir.ErrNotFound, false, 404, ""},
		{fmt.Errorf("wrapped: %w", weir.ErrNotFound), false, 404, ""},
		{retry, true, 429, "2"},
		{retry, false, 503, "2"},
		{fmt.Errorf("wrapped: %w", retry), false, 503, "2"},
		{weir.RetryAfter(errors.New("busy"), 1500*time.Millisecond), false, 503, "2"},
		{fmt.Errorf("wrapped: %w", weir.RetryAfter(retry, time.Minute)), false, 503, "60"},
		{weir.RetryAfter(errors.New("busy"), 0), false, 503, "1"},
		{weir.RetryAfter(retry, time.Minute), true, 429, "2"},
		{weir.ErrStuck, false, 503, "1"},
		{weir.ErrClosed, false, 503, "1"},
		{weirhttp.ErrClosed, false, 503, "1"},
		{&weir.TimeoutError{}, false, 504, ""},
		{&flight.PanicError{Value: "no"}, false, 500, ""},
		{flight.ErrGoexit, false, 500, ""},
		{flight.ErrRecursive, false, 500, ""},
		{flight.ErrKey, false, 500, ""},
		{&http.MaxBytesError{Limit: 1}, false, 413, ""},
		{errors.New("all else"), false, 500, ""},
	}
	for _, row := range rows {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		if row.client {
			weirhttp.ClientError(w, r, row.err)
		} else {
			weirhttp.Error(w, r, row.err)
		}
		if w.Code != row.status || w.Header().Get("Retry-After") != row.after || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("Error(%v) = %d, %v; want %d with Retry-After %q", row.err, w.Code, w.Header(), row.status, row.after)
		}
		if row.err.Error() != "" && strings.Contains(w.Body.String(), row.err.Error()) {
			t.Errorf("Error(%v) writes %q to the client", row.err, w.Body)
		}
	}
}
