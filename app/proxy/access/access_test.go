package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/proxy/access"
	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/weirhttp"
)

// ask has a handler answer one request under a log, and returns what was
// logged. The handler's panic is treated as the server's, which would break the
// connection.
func ask(t *testing.T, o access.Options, r *http.Request, h http.HandlerFunc) string {
	t.Helper()
	var out bytes.Buffer
	o.Out = &out
	func() {
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				t.Errorf("panic %v reached the server; want the handler's", v)
			}
		}()
		access.New(o).Handler(h).ServeHTTP(httptest.NewRecorder(), r)
	}()
	return out.String()
}

func request(target string) *http.Request {
	r := httptest.NewRequest("GET", target, nil)
	r.RemoteAddr = "192.0.2.7:4711"
	return r
}

func TestWhatIsLogged(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	ok := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }
	slow := func(w http.ResponseWriter, r *http.Request) { time.Sleep(time.Second); ok(w, r) }
	stream := func(w http.ResponseWriter, r *http.Request) { ok(w, r); time.Sleep(time.Hour); ok(w, r) }
	status := func(n int) http.HandlerFunc { return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(n) } }
	breaks := func(w http.ResponseWriter, r *http.Request) { ok(w, r); panic(http.ErrAbortHandler) }
	stale := func(w http.ResponseWriter, r *http.Request) {
		if rw, logged := w.(weirhttp.ReceiptWriter); logged {
			rw.SetReceipt(weirhttp.Receipt{Outcome: weirhttp.OutcomeStale, Err: errors.New("no answer")})
		}
		ok(w, r)
	}
	for _, tt := range []struct {
		name                  string
		h                     http.HandlerFunc
		ctx                   context.Context
		errors, problems, all bool
	}{
		{"fine", ok, t.Context(), false, false, true},
		{"slow", slow, t.Context(), false, true, true},
		{"long stream", stream, t.Context(), false, false, true},
		{"client's error", status(404), t.Context(), false, false, true},
		{"client's limit", status(429), t.Context(), false, false, true},
		{"our error", status(503), t.Context(), true, true, true},
		{"broken off", breaks, t.Context(), true, true, true},
		{"client left", breaks, gone, false, false, true},
		{"stale for an error", stale, t.Context(), true, true, true},
	} {
		for what, want := range map[access.What]bool{access.Off: false, access.Errors: tt.errors, access.Problems: tt.problems, "": tt.problems, access.All: tt.all} {
			t.Run(tt.name+"/"+string(what), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					line := ask(t, access.Options{What: what}, request("/x").WithContext(tt.ctx), tt.h)
					if got := line != ""; got != want {
						t.Errorf("logged %q; want a line: %v", line, want)
					}
				})
			})
		}
	}
}

func TestJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		came := time.Now()
		r := request("http://shop.example/a?b=c")
		r.Header.Set("Authorization", "Bearer s3cret")
		r.Header.Set("Cookie", "id=s3cret")
		r.Header.Set("X-Request-Id", "abc")
		line := ask(t, access.Options{What: access.All}, r, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(250 * time.Millisecond)
			w.(weirhttp.ReceiptWriter).SetReceipt(weirhttp.Receipt{
				Route: "shop", Outcome: weirhttp.OutcomeFailed, Forwarded: "uri-miss", UpstreamStatus: 500,
				Queued: 20 * time.Millisecond, Fallback: "standby", FallbackReason: "down", Err: errors.New("broke\ndown"),
			})
			r.Host, r.RequestURI = "elsewhere", "/changed"
			w.WriteHeader(502)
			io.WriteString(w, "bad ")
			time.Sleep(50 * time.Millisecond)
			io.Copy(w, strings.NewReader("gateway"))
		})
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil || strings.Count(line, "\n") != 1 {
			t.Fatalf("%v in %q", err, line)
		}
		want := map[string]any{
			"level": "ERROR", "msg": "request", "time": came.Format(time.RFC3339Nano),
			"client": "192.0.2.7", "method": "GET", "host": "shop.example", "target": "http://shop.example/a?b=c", "proto": "HTTP/1.1",
			"status": 502., "bytes": 11., "duration_ms": 300., "ttfb_ms": 250., "route": "shop",
			"cache": "failed", "forwarded": "uri-miss", "upstream_status": 500., "queued_ms": 20.,
			"fallback": "standby", "fallback_reason": "down",
			"request_id": "abc", "error": "broke\ndown",
		}
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s = %v; want %v", name, got[name], v)
			}
		}
		if len(got) != len(want) || strings.Contains(line, "s3cret") {
			t.Errorf("the line is %s; want %d fields and no secret", line, len(want))
		}
	})
}

// H21: the line has the ID that the gateway made or adopted, and never that of a stored
// response.
func TestH21_TheRequestIDOfTheReceiptIsLogged(t *testing.T) {
	for _, e := range []struct{ request, response, receipt, want string }{
		{"", "", "made", "made"},
		{"a b", "origin", "made", "made"},
		{"client", "stored", "", "client"}, // a hit
		{"", "stored", "", ""},
	} {
		r := request("/")
		if e.request != "" {
			r.Header.Set("X-Request-Id", e.request)
		}
		line := ask(t, access.Options{What: access.All}, r, func(w http.ResponseWriter, r *http.Request) {
			if e.response != "" {
				w.Header().Set("X-Request-Id", e.response)
			}
			w.(weirhttp.ReceiptWriter).SetReceipt(weirhttp.Receipt{RequestID: e.receipt})
		})
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if id, _ := got["request_id"].(string); id != e.want {
			t.Errorf("%+v: request_id is %q; want %q", e, id, e.want)
		}
	}
}

func TestCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := request("/")
		r.RequestURI = "/a\"b\\c\n127.0.0.1 - - [x]?q=1\x00\x7f\xff"
		r.Header.Set("Referer", "http://a.example/\r\n")
		r.Header.Set("User-Agent", "é\t")
		h := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }
		const head = `192.0.2.7 - - [01/Jan/2000:00:00:00 +0000] "GET /a\"b\\c\n127.0.0.1 - - [x]`
		at := func(s string) string {
			return regexp.MustCompile(`\[\d+/.*?\]`).ReplaceAllString(s, "[01/Jan/2000:00:00:00 +0000]")
		}

		line := ask(t, access.Options{What: access.All, Format: access.Combined}, r, h)
		if want := head + `?q=1\x00\x7f\xff HTTP/1.1" 200 5 "http://a.example/\r\n" "\xc3\xa9\t"` + "\n"; at(line) != want {
			t.Errorf("logged %s; want %s", line, want)
		}
		line = ask(t, access.Options{What: access.All, Format: access.Combined, NoQuery: true}, r, h)
		if want := head + ` HTTP/1.1" 200 5 "-" "\xc3\xa9\t"` + "\n"; at(line) != want {
			t.Errorf("without queries logged %s; want %s", line, want)
		}
		line = ask(t, access.Options{What: access.All, Format: access.Combined}, request("/x"), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if want := `192.0.2.7 - - [01/Jan/2000:00:00:00 +0000] "GET /x HTTP/1.1" - - "-" "-"` + "\n"; at(line) != want {
			t.Errorf("without an answer logged %s; want %s", line, want)
		}
	})
}

// What clients received is counted whatever is logged: complete responses by class, what
// broke off, and what the client did not wait for. Each request is in one class.
func TestC11_ResponsesAreCounted(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	status := func(n int) http.HandlerFunc { return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(n) } }
	receipt := func(h http.HandlerFunc, rc weirhttp.Receipt) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			rc.Route = "pages"
			weirhttp.SetReceipt(w, rc)
			h(w, r)
		}
	}
	breaks := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "half"); panic(http.ErrAbortHandler) }
	resets := func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }
	nothing := func(w http.ResponseWriter, r *http.Request) {}
	for _, what := range []access.What{access.Off, access.Errors, access.All} {
		var n tally.Tally
		n.Routes([]string{"pages"})
		o := access.Options{What: what, Tally: &n, Logger: slog.New(slog.DiscardHandler)}
		for range 2 { // the second time with the pooled writer
			for _, row := range []struct {
				h    http.HandlerFunc
				ctx  context.Context
				want tally.Class
			}{
				{status(101), t.Context(), tally.Switched},
				{status(204), t.Context(), tally.Success},
				{nothing, t.Context(), tally.Success}, // net/http sends 200
				{status(304), t.Context(), tally.Redirect},
				{status(429), t.Context(), tally.ClientError},
				{status(503), t.Context(), tally.ServerError},
				{breaks, t.Context(), tally.Broken},
				{resets, t.Context(), tally.Broken},
				{breaks, gone, tally.Left},
				{status(499), gone, tally.Left},
				{nothing, gone, tally.Left},
				{status(200), gone, tally.Success}, // it was complete before the client left
			} {
				before := n.Counts()["pages"]
				ask(t, o, request("/").WithContext(row.ctx), receipt(row.h, weirhttp.Receipt{}))
				after := n.Counts()["pages"]
				before[row.want]++
				if after != before {
					t.Errorf("%s, %s: counts %v; want %v", what, row.want, after, before)
				}
			}
			before := n.Counts()["pages"]
			ask(t, o, request("/"), receipt(breaks, weirhttp.Receipt{Err: weirhttp.ErrSlowClient}))
			if before[tally.Left]++; n.Counts()["pages"] != before {
				t.Errorf("%s, a client that was too slow: counts %v; want %v", what, n.Counts()["pages"], before)
			}
		}
		ask(t, o, request("/"), status(404))
		if got := n.Counts()[""]; got != (tally.Counts{tally.ClientError: 1}) {
			t.Errorf("%s, without a route: counts %v; want one 4xx", what, got)
		}
	}
}

func TestLinesAreBoundedInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, told bytes.Buffer
		l := access.New(access.Options{Out: &out, PerSecond: 3, Format: access.Combined, Logger: slog.New(slog.NewTextHandler(&told, nil))})
		h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }))
		for range 10 {
			h.ServeHTTP(httptest.NewRecorder(), request("/"))
		}
		if n := strings.Count(out.String(), "\n"); n != 3 || l.LeftOut() != 7 || told.Len() > 0 {
			t.Errorf("%d lines, %d left out, told %q; want 3, 7 and nothing yet", n, l.LeftOut(), told.String())
		}
		time.Sleep(time.Second)
		h.ServeHTTP(httptest.NewRecorder(), request("/"))
		if n := strings.Count(out.String(), "\n"); n != 4 || !strings.Contains(told.String(), "lines=7") {
			t.Errorf("a second later: %d lines, told %q; want 4, and of 7 lines", n, told.String())
		}
	})
}

// A full disk must not silence the access log without a trace: each line that is lost is
// counted, and the program's log says why, once a minute at most.
func TestH4_LostLinesAreCountedAndReported(t *testing.T) {
	for _, format := range []access.Format{access.JSON, access.Text, access.Combined} {
		synctest.Test(t, func(t *testing.T) {
			var told bytes.Buffer
			disk := &fullDisk{err: syscall.ENOSPC}
			out := access.NewOutput(disk, slog.New(slog.NewTextHandler(&told, nil)))
			h := access.New(access.Options{Out: out, What: access.All, Format: format}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			serve := func(n int) {
				for range n {
					h.ServeHTTP(httptest.NewRecorder(), request("/"))
					synctest.Wait()
				}
			}
			serve(3)
			if n := strings.Count(told.String(), "\n"); out.Lost() != 3 || n != 1 || !strings.Contains(told.String(), "lines=1 ") || !strings.Contains(told.String(), "no space left") {
				t.Errorf("%s: %d lines lost, told %q; want 3, and one warning about the first with its cause", format, out.Lost(), told.String())
			}
			told.Reset()
			time.Sleep(time.Minute)
			serve(2)
			if n := strings.Count(told.String(), "\n"); out.Lost() != 5 || n != 1 || !strings.Contains(told.String(), "lines=3 ") {
				t.Errorf("%s, a minute later: %d lines lost, told %q; want 5, and one warning about 3", format, out.Lost(), told.String())
			}
			told.Reset()
			disk.err = nil
			time.Sleep(time.Minute)
			serve(1)
			if out.Lost() != 5 || told.Len() > 0 || disk.lines != 1 {
				t.Errorf("%s, with room again: %d lines lost, %d written, told %q; want 5, 1 and nothing", format, out.Lost(), disk.lines, told.String())
			}
		})
	}
}

// A fullDisk counts the lines it takes while err is nil.
type fullDisk struct {
	err   error
	lines int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	d.lines++
	return len(p), nil
}

// The wrapper does not hide what the server's writer can do.
func TestWriterPassesOn(t *testing.T) {
	w := &server{ResponseRecorder: httptest.NewRecorder()}
	access.New(access.Options{Out: io.Discard}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		w.WriteHeader(103)
		io.WriteString(w, "a")
		io.Copy(w, struct{ io.Reader }{strings.NewReader("bc")}) // without WriteTo
		w.(http.Flusher).Flush()
		if err := errors.Join(rc.Flush(), rc.SetReadDeadline(time.Time{}), rc.EnableFullDuplex()); err != nil {
			t.Errorf("the controller says %v", err)
		}
	})).ServeHTTP(w, request("/"))
	if w.Body.String() != "abc" || w.readFrom != 1 || w.flushed != 2 || w.deadlines != 1 || w.duplex != 1 || len(w.heads) != 1 || w.heads[0] != 103 {
		t.Errorf("the server's writer saw %+v with body %q", w, w.Body)
	}
}

type server struct {
	*httptest.ResponseRecorder
	heads                                []int
	readFrom, flushed, deadlines, duplex int
}

func (s *server) WriteHeader(n int) { s.heads = append(s.heads, n) }
func (s *server) ReadFrom(r io.Reader) (int64, error) {
	s.readFrom++
	return io.Copy(s.Body, r)
}
func (s *server) FlushError() error               { s.flushed++; return nil }
func (s *server) SetReadDeadline(time.Time) error { s.deadlines++; return nil }
func (s *server) EnableFullDuplex() error         { s.duplex++; return nil }

// A writer that came from the pool knows nothing of the request before.
func TestPooledWriterForgets(t *testing.T) {
	var out bytes.Buffer
	l := access.New(access.Options{Out: &out, What: access.All})
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			w.(weirhttp.ReceiptWriter).SetReceipt(weirhttp.Receipt{UpstreamStatus: 500, Err: errors.New("x")})
			w.WriteHeader(500)
		}
	}))
	for range 20 {
		h.ServeHTTP(httptest.NewRecorder(), request("/first"))
		out.Reset()
		h.ServeHTTP(httptest.NewRecorder(), request("/second"))
		if line := out.String(); !strings.Contains(line, `"status":0`) || strings.Contains(line, "error") || strings.Contains(line, "cache") {
			t.Fatalf("the second line is %s; want nothing of the first request", line)
		}
	}
}

func TestRequestsThatAreNotLoggedCostNoAllocation(t *testing.T) {
	h := access.New(access.Options{Out: io.Discard}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(weirhttp.ReceiptWriter).SetReceipt(weirhttp.Receipt{Outcome: weirhttp.OutcomeHit})
		w.WriteHeader(200)
		w.Write(nil)
	}))
	w, r := nothing{}, request("/")
	if n := testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) }); n >= 1 {
		t.Errorf("%v allocations a request; want none", n)
	}
}

// nothing is a ResponseWriter that does not allocate.
type nothing struct{}

func (nothing) Header() http.Header         { return nil }
func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) WriteHeader(int)             {}

func TestConcurrentUse(t *testing.T) {
	var out lines
	h := access.New(access.Options{Out: &out, What: access.All, Format: access.Combined}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Path)
	}))
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { h.ServeHTTP(httptest.NewRecorder(), request("/"+strings.Repeat("x", i))) })
	}
	all.Wait()
	if out.n != 50 || out.bad != 0 {
		t.Errorf("%d lines of which %d are none; want 50 and 0", out.n, out.bad)
	}
}

// lines counts what is written, and what of it is no whole line.
type lines struct {
	mu     sync.Mutex
	n, bad int // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if bytes.Count(p, []byte("\n")) != 1 || p[len(p)-1] != '\n' {
		l.bad++
	}
	return len(p), nil
}

// Whatever a client sends, a request is one line, in printable ASCII.
func FuzzCombined(f *testing.F) {
	f.Add("/", "", "agent")
	f.Add("/\"\\\n", "\r\n", "\x00\xff")
	f.Fuzz(func(t *testing.T, target, referer, agent string) {
		r := request("/")
		r.RequestURI = target
		r.Header["Referer"], r.Header["User-Agent"] = []string{referer}, []string{agent}
		line := ask(t, access.Options{What: access.All, Format: access.Combined}, r, func(http.ResponseWriter, *http.Request) {})
		body, ok := strings.CutSuffix(line, "\n")
		if !ok || strings.ContainsFunc(body, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Errorf("logged %q; want one printable line", line)
		}
		if n := strings.Count(regexp.MustCompile(`\\.`).ReplaceAllString(body, ""), `"`); n != 6 {
			t.Errorf("logged %q with %d quotes; want 6", line, n)
		}
	})
}

// H21: a request that could not be read is counted, and logged if everything is, without
// any of its bytes.
func TestH21_UnreadableRequestsAreLoggedAndCounted(t *testing.T) {
	for _, w := range []struct {
		what   access.What
		format access.Format
		want   string
	}{
		{access.All, access.JSON, `"client":"192.0.2.7","method":"","host":"","target":"","proto":"","status":431,`},
		{access.All, access.Combined, `192.0.2.7 - - [`},
		{access.All, access.Combined, `] "-" 431 - "-" "-"`},
		{access.Problems, access.JSON, ""},
		{access.Off, access.JSON, ""},
	} {
		var out strings.Builder
		var counts tally.Tally
		l := access.New(access.Options{Out: &out, What: w.what, Format: w.format, Tally: &counts})
		l.Rejected("192.0.2.7:4711", 431)
		if !strings.Contains(out.String(), w.want) || w.want == "" && out.Len() > 0 {
			t.Errorf("%s as %s: %q; want %q", w.what, w.format, out.String(), w.want)
		}
		if got := counts.Counts()[""][tally.ClientError]; got != 1 {
			t.Errorf("%s: %d responses are counted; want 1", w.what, got)
		}
	}
}
