package listen_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// twoWays are two gateways with the same store in front of one origin. One serves plain
// requests without net/http, the other leaves all of them to it. A client must get the same
// from both (H31).
type twoWays struct {
	fast, slow way
}

type way struct {
	*listen.Server
	gateway *gateway.Gateway
	served  *atomic.Uint64 // requests that were served without net/http

	patience time.Duration // of a client that receives nothing
}

// newTwoWays returns both listeners, with the pages in the store.
func newTwoWays(t testing.TB, c listen.Config, routes ...gateway.Route) *twoWays {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(origin))
	t.Cleanup(upstream.Close)
	if routes == nil {
		routes = []gateway.Route{{Name: "all"}}
	}
	open := func(fast bool) way {
		g, err := gateway.New(gateway.Config{
			Upstreams: []gateway.Upstream{{Name: "origin", Servers: []string{upstream.URL}}},
			Routes:    routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close(context.Background()) })
		own, served := c, new(atomic.Uint64)
		own.Address, own.FastPath = "127.0.0.1:0", fast
		s, err := listen.Open(own, listen.Options{Handler: g, Fast: served}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		s.Serve(func(err error) { t.Error(err) })
		for _, target := range []string{"/a", "/b?c=d", "/big", "/empty", "/gone", "/none", "/language"} {
			r := httptest.NewRequest("GET", target, nil)
			r.Host = "h"
			if c.TLS.Cert != "" {
				r.TLS = new(tls.ConnectionState)
			}
			g.ServeHTTP(httptest.NewRecorder(), r)
		}
		return way{s, g, served, 20 * time.Second}
	}
	return &twoWays{open(true), open(false)}
}

// end closes a connection cleanly.
const end = "GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

// first is the request that net/http gets at the start of each connection.
const first = "GET /first HTTP/1.1\r\nHost: h\r\n\r\n"

// converse sends text in pieces that end at the cuts, with a pause after each, and
// returns everything that is received until the connection ends. It returns false if
// the connection ended with a reset, or if nothing was received for s.patience.
func converse(t testing.TB, s way, text string, cuts []int) (string, bool) {
	t.Helper()
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	type result struct {
		text  []byte
		ended bool
	}
	got := make(chan result, 1)
	begun := make(chan struct{}) // closed when the first request has its response
	go func() {
		var once sync.Once
		answered := func() { once.Do(func() { close(begun) }) }
		defer answered()
		var all []byte
		b := make([]byte, 32<<10)
		for {
			c.SetReadDeadline(time.Now().Add(s.patience))
			n, err := c.Read(b)
			if all = append(all, b[:n]...); bytes.Contains(all, []byte("GET /first")) {
				answered()
			}
			if err != nil {
				got <- result{all, err == io.EOF}
				return
			}
		}
	}()
	c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	from := 0
	for _, cut := range append(cuts, len(text)) {
		if cut <= from || cut > len(text) {
			continue
		}
		if _, err := io.WriteString(c, text[from:cut]); err != nil {
			break // it was refused and closed
		}
		from = cut
		if from == len(first) {
			<-begun
		}
		if from < len(text) {
			<-time.After(2 * time.Millisecond)
		}
	}
	r := <-got
	return string(r.text), r.ended
}

// until reads from c until it has received text.
func until(t testing.TB, c net.Conn, text string) {
	t.Helper()
	var all []byte
	b := make([]byte, 32<<10)
	for !bytes.Contains(all, []byte(text)) {
		n, err := c.Read(b)
		if all = append(all, b[:n]...); err != nil {
			t.Fatalf("got %q, %v; want %s", all, err, text)
		}
	}
}

var varies = regexp.MustCompile(`(?m)^(Date|Age|X-Request-Id): .*\r\n|; ttl=\d+`)

var lengthField = regexp.MustCompile(`(Content-Length: \d+\r\n)((?:[^\r\n]+\r\n)*)\r\n`)

// comparable returns text without what differs from one response to the next: the time,
// and how the end of a forwarded response is marked. If all of it comes at once, it has a
// length, otherwise chunks. A length becomes the last field. The end of a text that a
// reset cut off is left out from where it has no length yet.
func comparable(text string, ended bool) string {
	text = varies.ReplaceAllString(text, "")
	var out strings.Builder
	for {
		head, rest, ok := strings.Cut(text, "Transfer-Encoding: chunked\r\n")
		out.WriteString(head)
		if !ok {
			break
		}
		fields, rest, _ := strings.Cut("\r\n"+rest, "\r\n\r\n")
		if fields != "" {
			out.WriteString(fields[len("\r\n"):] + "\r\n")
		}
		body, rest, complete := unchunked(rest)
		if !complete && !ended && !strings.Contains(rest, "HTTP/1.1 ") {
			break
		}
		if complete && !strings.HasPrefix(rest, "\r\n") {
			complete = false // trailers follow
		}
		if complete {
			fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n%s", len(body), body)
			text = rest[len("\r\n"):]
		} else {
			fmt.Fprintf(&out, "chunked: %s end ", body)
			text = rest
		}
	}
	return lengthField.ReplaceAllString(out.String(), "$2$1\r\n")
}

// unchunked returns the data of the chunks that text begins with, what follows them, and
// whether the last chunk was there.
func unchunked(text string) (data, rest string, complete bool) {
	var all strings.Builder
	for {
		size, rest, _ := strings.Cut(text, "\r\n")
		n, err := strconv.ParseUint(size, 16, 31)
		if err != nil || int(n)+2 > len(rest) {
			return all.String(), text, false
		}
		if n == 0 {
			return all.String(), rest, true
		}
		all.WriteString(rest[:n])
		text = rest[n+2:]
	}
}

// same sends text to both gateways and compares the responses.
func (w *twoWays) same(t testing.TB, text string, cuts []int) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		fast, fastEnded := converse(t, w.fast, text, cuts)
		slow, slowEnded := converse(t, w.slow, text, cuts)
		if !fastEnded && slowEnded && attempt < 5 && w.fast.patience > time.Second {
			continue // a refused client that keeps sending can be reset, which loses bytes on their way
		}
		if strings.Contains(text, "/torn") || strings.Contains(text, "/broken") {
			fastEnded, slowEnded = false, false // what is still buffered when the origin breaks off is not sent
		}
		fast, slow = comparable(fast, fastEnded), comparable(slow, slowEnded)
		switch {
		case fast == slow,
			!fastEnded && strings.HasPrefix(slow, fast), // more would have come
			!slowEnded && strings.HasPrefix(fast, slow):
		default:
			t.Errorf("sent %q, cut at %v\nwithout net/http: %q, ended %t\nby net/http:      %q, ended %t",
				text, cuts, shortened(fast), fastEnded, shortened(slow), slowEnded)
		}
		return
	}
}

func shortened(s string) string { return strings.ReplaceAll(s, bigPage, "BIG") }

// get is a request for target.
func get(target string, fields ...string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: h\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
}

// A row is what a client sends between the first request and the last, and how many of
// the requests are served without net/http. -1 means unknown, for requests behind one
// that net/http handles: it can read ahead before they arrive, and then gets them.
type row struct {
	name string
	text string
	fast int64
}

var rows = []row{
	{"hit", get("/a"), 1},
	{"hits in a row", get("/a") + get("/b?c=d") + get("/a"), 3},
	{"large", get("/big") + get("/a"), 2},
	{"empty", get("/empty") + get("/a"), 2},
	{"status without a body", get("/none") + get("/a"), 2},
	{"410", get("/gone") + get("/a"), 2},
	{"HEAD", "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n" + get("/a"), 2},
	{"304", get("/a", `If-None-Match: "1"`) + get("/a"), 2},
	{"304 by date", get("/a", "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT") + get("/a"), 2},
	{"412", get("/a", `If-Match: "2"`) + get("/a"), 2},
	{"a browser's fields", get("/a", "Accept: */*", "accept-encoding: gzip, br", "User-Agent: x (y; z)", "Connection: keep-alive"), 1},
	{"variant", get("/language") + get("/language", "Accept-Language: de"), 2},
	{"hit, miss, hit", get("/a") + get("/x") + get("/a"), 3},
	{"credentials", get("/a", "Authorization: Basic eA==") + get("/a", "Cookie: a=b"), 2},
	{"no-cache", get("/a", "Cache-Control: no-cache") + get("/a", "Pragma: no-cache"), 1},
	{"range", get("/a", "Range: bytes=1-2"), 0},
	{"close", get("/a", "Connection: close"), 0},
	{"HTTP/1.0", "GET /a HTTP/1.0\r\nHost: h\r\n\r\n", 0},
	{"HTTP/1.0 with keep-alive", "GET /a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n" + get("/a"), -1},
	{"absolute form", "GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n" + get("/a"), -1},
	{"another host", "GET /a HTTP/1.1\r\nHost: i\r\n\r\n" + get("/a"), -1},
	{"no host", "GET /a HTTP/1.1\r\n\r\n", 0},
	{"two hosts", get("/a", "Host: h"), 0},
	{"empty line before", "\r\n" + get("/a") + "\r\n" + get("/a"), 0},
	{"bare LF", "GET /a HTTP/1.1\nHost: h\n\n", 0},
	{"bare LF in a field", "GET /a HTTP/1.1\r\nHost: h\r\nA: b\nC: d\r\n\r\n", 0},
	{"folded field", get("/a", "A: b", " c"), 0},
	{"blank before the colon", get("/a", "A : b"), 0},
	{"no name", get("/a", ": b"), 0},
	{"two blanks", "GET  /a HTTP/1.1\r\nHost: h\r\n\r\n", 0},
	{"control character", get("/a", "A: b\x01"), 0},
	{"NUL", get("/a\x00"), 0},
	{"Latin-1", get("/a", "A: \xe9") + get("/a"), -1},
	{"fragment", get("/a#b"), 0},
	{"escaped", get("/%61") + get("/a"), -1},
	{"bad escape", get("/%zz") + get("/a"), 0},
	{"body of a GET", get("/a", "Content-Length: 4") + "body" + get("/a"), -1},
	{"length of 0", get("/a", "Content-Length: 0") + get("/a"), -1},
	{"two lengths", get("/a", "Content-Length: 0", "Content-Length: 5") + get("/a"), 0},
	{"chunked GET", get("/a", "Transfer-Encoding: chunked") + "0\r\n\r\n" + get("/a"), -1},
	{"length and chunked", get("/a", "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n" + get("/a"), 0},
	{"Expect", get("/a", "Expect: 100-continue") + get("/a"), -1},
	{"upgrade", get("/a", "Connection: Upgrade", "Upgrade: websocket") + get("/a"), -1},
	{"h2c upgrade", get("/a", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"), 0},
	{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + get("/a"), 0},
	{"CONNECT", "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n" + get("/a"), 0},
	{"POST", "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab" + get("/a"), -1},
	{"POST whose body is a request", "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\n\r\n" + (get("/a") + "12345678")[:30] + get("/b?c=d"), -1},
	{"slow request, then a POST whose body is a request", get("/slow") + "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\n\r\n" + (get("/a") + "12345678")[:30] + get("/b?c=d"), -1},
	{"slow request, then hits", get("/slow") + get("/a") + get("/b?c=d"), -1},
	{"chunked POST", "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n" + get("/a"), -1},
	{"forwarded", get("/x") + get("/y", "Cookie: a=b") + "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n" + get("/x"), 4},
	{"forwarded without a length", get("/stream") + get("/chunks") + get("/x"), 3},
	{"forwarded with a long body", get("/length") + get("/x"), 2},
	{"forwarded and slow", get("/slow") + get("/x"), 2},
	{"forwarded with trailers", get("/trailers") + get("/late") + get("/x"), 3},
	{"forwarded with an early response", get("/early") + get("/x"), 2},
	{"forwarded without a body", get("/204") + get("/304", `If-None-Match: "1"`) + get("/0") + get("/x"), 4},
	{"forwarded without a type", get("/untyped") + get("/x"), 2},
	{"forwarded and broken", get("/x") + get("/broken") + get("/x"), 2},
	{"forwarded and broken between chunks", get("/x") + get("/torn") + get("/x"), 2},
	{"forwarded to a server that hangs up", get("/hangup") + get("/x"), 2},
	{"large head", get("/a", "A: "+strings.Repeat("x", 5000)) + get("/a"), -1},
	{"garbage", "\x16\x03\x01\x00\x00", 0},
}

// H31: a client gets the same whether or not net/http serves the request.
func TestH31_SameResponses(t *testing.T) {
	w := newTwoWays(t, listen.Config{Limits: listen.Limits{ReadHeader: 2 * time.Second}})
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			var n int64
			for range 20 { // on a busy machine net/http can still be reading ahead
				before := w.fast.served.Load()
				w.same(t, first+tt.text+end, []int{len(first)})
				if n = int64(w.fast.served.Load() - before); n == tt.fast || tt.fast < 0 || t.Failed() {
					return
				}
			}
			t.Errorf("%d requests were served without net/http; want %d", n, tt.fast)
		})
		t.Run(tt.name+" in pieces", func(t *testing.T) {
			text := first + tt.text + end
			for _, size := range []int{1, 7, 20} {
				if len(text) > 2000 {
					continue
				}
				var cuts []int
				for i := len(first); i < len(text); i += size {
					if size == 1 && i%9 != 0 { // single bytes take long
						continue
					}
					cuts = append(cuts, i)
				}
				w.same(t, text, cuts)
			}
		})
	}
}

// H31: the same over TLS.
func TestH31_SameResponsesOverTLS(t *testing.T) {
	secure := newTwoWays(t, listen.Config{TLS: certified(t)})
	ask := func(s way) string {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer tr.CloseIdleConnections()
		client := http.Client{Transport: tr}
		var all strings.Builder
		for range 3 {
			resp, err := client.Get("https://" + s.Address() + "/a")
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			delete(resp.Header, "Date")
			delete(resp.Header, "Age")
			delete(resp.Header, "Cache-Status")
			delete(resp.Header, "X-Request-Id")
			fmt.Fprintln(&all, resp.Status, resp.Header, string(b), err)
		}
		return all.String()
	}
	fast, slow := ask(secure.fast), ask(secure.slow)
	if fast != slow {
		t.Errorf("without net/http %s; by net/http %s", fast, slow)
	}
	for range 20 {
		if secure.fast.served.Load() > 0 {
			return
		}
		ask(secure.fast) // see TestH31_SameResponses
	}
	t.Error("no hit was served without net/http")
}

// H31: hits are counted and limited in the same way.
func TestH31_SameCountersAndLimits(t *testing.T) {
	routes := []gateway.Route{{Name: "all", Rate: &weirhttp.ClientLimiterOptions{Rate: 5, Per: time.Hour, Burst: 5}}}
	var stats [2]weirhttp.Stats
	var texts [2]string
	for i := range 2 {
		w := newTwoWays(t, listen.Config{}, routes...)
		s := []way{w.fast, w.slow}[i]
		text := first + strings.Repeat(get("/a"), 7) + end
		got, _ := converse(t, s, text, []int{len(first)})
		texts[i] = varies.ReplaceAllString(got, "")
		stats[i] = s.gateway.Stats().Routes["all"]
	}
	if !strings.Contains(texts[0], "429 Too Many Requests") || texts[0] != texts[1] {
		t.Errorf("without net/http %q; by net/http %q; want the same, with 429", texts[0], texts[1])
	}
	count := func(s weirhttp.Stats) string {
		return fmt.Sprintf("%d requests, %d hits, %d refused, %d calls", s.Requests, s.Hits, s.RefusedClient, s.Calls)
	}
	if count(stats[0]) != count(stats[1]) || stats[0].Hits == 0 || stats[0].RefusedClient == 0 {
		t.Errorf("without net/http: %s; by net/http: %s; want the same, with hits and refusals", count(stats[0]), count(stats[1]))
	}
}

// H31: a connection with hits lives longer than the time-outs of one request, and ends
// when it has been idle.
func TestH31_Deadlines(t *testing.T) {
	const header, idle = time.Second, 3 * time.Second
	w := newTwoWays(t, listen.Config{Limits: listen.Limits{ReadHeader: header, Whole: header, Idle: idle}})
	c := dial(t, w.fast.Server)
	answer := make([]byte, 4096)
	ask := func(text, want string) {
		t.Helper()
		io.WriteString(c, text)
		until(t, c, want)
	}
	ask(first, `GET /first ""`)
	for range 8 {
		ask(get("/a"), "stored /a")
		<-time.After(idle / 6)
	}
	ask(get("/x"), `GET /x ""`) // which has separate time-outs
	ask(get("/a"), "stored /a")
	began := time.Now()
	if _, err := c.Read(answer); err != io.EOF {
		t.Errorf("an idle connection: %v; want it closed", err)
	} else if d := time.Since(began); d < idle/2 {
		t.Errorf("it ended after %v; want about %v", d, idle)
	}

	// A header that does not end is cut off by its own time-out, not by the idle
	// time-out.
	c = dial(t, w.fast.Server)
	ask(first, `GET /first ""`)
	ask(get("/a"), "stored /a")
	io.WriteString(c, "GET /a HTTP/1.1\r\n")
	if _, err := c.Read(answer); err == nil {
		t.Error("an unfinished head got a response; want the end of the connection")
	}
}

// stalled returns a connection to w on which a large hit is being written that the
// client does not read.
func stalled(t *testing.T, w *twoWays) net.Conn {
	t.Helper()
	c := dial(t, w.fast.Server)
	io.WriteString(c, first)
	until(t, c, `GET /first ""`)
	<-time.After(10 * time.Millisecond) // until the connection is idle
	before := w.fast.served.Load()
	io.WriteString(c, strings.Repeat(get("/big"), 100)) // 32 MB, more than sockets hold
	for w.fast.served.Load() < before+2 {
		<-time.After(time.Millisecond)
	}
	for last := ^uint64(0); last != w.fast.served.Load(); <-time.After(50 * time.Millisecond) {
		last = w.fast.served.Load()
	}
	return c
}

// H31: Shutdown waits for a hit that is being written, and the client gets all of it.
func TestH31_ShutdownWaitsForHits(t *testing.T) {
	w := newTwoWays(t, listen.Config{})
	c := stalled(t, w)
	done := make(chan error, 1)
	go func() { done <- w.fast.Shutdown(context.Background()) }()
	select {
	case err := <-done:
		t.Fatalf("Shutdown returned %v while a response was being written", err)
	case <-time.After(200 * time.Millisecond):
	}
	got, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	bodies := strings.Count(string(got), bigPage)
	if n := strings.Count(string(got), "HTTP/1.1 200"); n != bodies || n == 0 {
		t.Errorf("got %d headers and %d complete bodies; want the same number", n, bodies)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// H31: a Shutdown whose context ends, and Close, cut off a hit that is being written.
func TestH31_CutWhileAHitIsWritten(t *testing.T) {
	w := newTwoWays(t, listen.Config{})
	stalled(t, w)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := w.fast.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v; want the error of its context", err)
	}
	w = newTwoWays(t, listen.Config{})
	stalled(t, w)
	if err := w.fast.Close(); err != nil { // returns only when connections have ended
		t.Error(err)
	}
}

// H31: a retired listener asks clients to disconnect, on hits as well.
func TestH31_RetiredListenerAsksToLeave(t *testing.T) {
	w := newTwoWays(t, listen.Config{})
	c := dial(t, w.fast.Server)
	io.WriteString(c, first)
	until(t, c, `GET /first ""`)
	w.fast.Leave()
	io.WriteString(c, get("/a"))
	got, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(got), "Connection: close\r\n") || !strings.HasSuffix(string(got), "stored /a") {
		t.Errorf("got %q, %v; want the page, and Connection: close", got, err)
	}
}

// H31: a panic of the handler ends the connection, as with net/http.
func TestH31_Panic(t *testing.T) {
	log := &syncedBuffer{}
	s := serve(t, listen.Config{FastPath: true}, listen.Options{
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("the store is broken")
			}
			io.WriteString(w, "fine")
		}),
	})
	c := dial(t, s)
	io.WriteString(c, first)
	until(t, c, "fine")
	io.WriteString(c, get("/panic"))
	if rest, _ := io.ReadAll(c); len(rest) > 0 {
		t.Errorf("got %q; want the end of the connection", rest)
	}
	s.Close()
	if !strings.Contains(log.String(), "the store is broken") {
		t.Errorf("logged %q; want the panic", log.String())
	}
}

// H31: requests of all kinds in random order, split at random places.
func TestH31_RandomSequences(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	w := newTwoWays(t, listen.Config{Limits: listen.Limits{ReadHeader: 2 * time.Second, Read: 2 * time.Second}})
	for range 150 {
		text := first
		for range 1 + random.IntN(6) {
			text += rows[random.IntN(len(rows))].text
		}
		text += end
		cuts := []int{len(first)}
		for range random.IntN(8) {
			cuts = append(cuts, random.IntN(len(text)))
		}
		slices.Sort(cuts)
		if w.same(t, text, cuts); t.Failed() {
			return
		}
	}
}

// H31: the bytes, their segmentation and the duration of handlers make no difference.
func FuzzH31_SameResponses(f *testing.F) {
	for i, tt := range rows {
		f.Add([]byte(tt.text), []byte{byte(i), 30, 7})
	}
	w := newTwoWays(f, listen.Config{Limits: listen.Limits{ReadHeader: 200 * time.Millisecond, Idle: 200 * time.Millisecond, Read: 200 * time.Millisecond}})
	w.fast.patience, w.slow.patience = 100*time.Millisecond, 100*time.Millisecond
	f.Fuzz(func(t *testing.T, text, steps []byte) {
		if len(text) > 8<<10 || len(steps) > 8 {
			return
		}
		cuts := []int{len(first)}
		for _, step := range steps {
			cuts = append(cuts, cuts[len(cuts)-1]+int(step))
		}
		w.same(t, first+string(text)+end, slices.Compact(cuts))
	})
}

// A syncedBuffer is a buffer that is safe for concurrent use.
type syncedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *syncedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
