package forward_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
)

// Requests that are never forwarded, including those that net/http itself
// refuses.
func TestH18_Refused(t *testing.T) {
	var seen atomic.Int32
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		readHead(br)
		seen.Add(1)
	})
	const more = "GET /more HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, tt := range []struct {
		send string
		want int
	}{
		{"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n" + more, 501},
		{"TRACE / HTTP/1.1\r\nHost: h\r\n\r\n" + more, 405},
		{"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n" + more, 501},
		{"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket, H2C\r\n\r\n" + more, 501},
		{"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n" + more, 501},
		{"GET / HTTP/1.1\r\nHost: h\r\nHTTP2-Settings: AAA\r\n\r\n" + more, 501},
		{"GET * HTTP/1.1\r\nHost: h\r\n\r\n" + more, 400},
		{"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n" + more, 400},
		{"GET //a|b HTTP/1.1\r\nHost: h\r\n\r\n" + more, 400},
		{"GET ftp://h/a HTTP/1.1\r\nHost: h\r\n\r\n" + more, 400},
		{"GET http://u@h/a HTTP/1.1\r\nHost: h\r\n\r\n" + more, 400},
		// Refused by net/http:
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc" + more, 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc" + more, 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + more, 501},
		{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + more, 501},
		{"GET / HTTP/1.1\r\nHost: h\r\nBad Name: x\r\n\r\n" + more, 400},
		{"GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n" + more, 400},
		{"GET / HTTP/1.1\r\n\r\n" + more, 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + more, 400},
		{"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n" + more, 400},
	} {
		c := r.client()
		c.send(tt.send)
		resp, _, err := c.answer("GET")
		if resp.StatusCode != tt.want || err != nil {
			t.Errorf("%q: %s, %v; want %d", tt.send, resp.Status, err, tt.want)
		}
		if rest, _ := c.rest(); rest != "" {
			t.Errorf("%q: followed by %q; want the end", tt.send, rest)
		}
	}
	if n := seen.Load(); n != 0 {
		t.Errorf("the origin saw %d requests; want none", n)
	}
}

// A length in addition to chunks allows smuggling, if the two ends interpret it
// differently. The origin must see chunks only.
func TestH18_LengthBesideChunks(t *testing.T) {
	var seen recorder
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		h, err := readHead(br)
		if err != nil {
			return
		}
		seen.add(h)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	c := r.client()
	c.send("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	c.rest()
	for _, h := range seen.all() {
		if strings.Contains(h, "Content-Length") {
			t.Errorf("the origin got %q; want no length", h)
		}
	}
	if got := seen.all(); len(got) > 0 && !strings.HasPrefix(got[0], "POST /1 ") {
		t.Errorf("the first request was %q; want POST /1", got[0])
	}
}

const websocket = "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: a\r\n\r\n"

// Bytes pass in both directions, including those sent with the 101, and each
// direction ends separately.
func TestH18_WebSocketPasses(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		var asked recorder
		fn := func(c net.Conn, br *bufio.Reader) {
			h, _ := readHead(br)
			asked.add(h)
			io.WriteString(c, switched+"hello")
			b, _ := io.ReadAll(br) // until the client ends its direction
			io.WriteString(c, strings.ToUpper(string(b)))
		}
		var r *rig
		if scheme == "https" {
			secured, options := secure(t, fn, "h2", "http/1.1")
			r = newRig(t, secured)
			r.f.RoundTrip = r.origin.transport(t, "https", options).RoundTrip
		} else {
			r = newRig(t, fn)
		}
		c := r.client()
		c.send(websocket)
		h := c.head()
		for _, want := range []string{"HTTP/1.1 101 ", "\r\nConnection: Upgrade\r\n", "\r\nUpgrade: WebSocket\r\n", "\r\nSec-Websocket-Accept: a\r\n"} {
			if !strings.Contains(h, want) {
				t.Errorf("%s: the client got %q; want %q in it", scheme, h, want)
			}
		}
		c.send("frames")
		c.Conn.(*net.TCPConn).CloseWrite()
		if got, err := c.rest(); got != "helloFRAMES" || err != nil {
			t.Errorf("%s: the client got %q, %v; want helloFRAMES", scheme, got, err)
		}
		for _, want := range []string{"\r\nConnection: Upgrade\r\n", "\r\nUpgrade: websocket\r\n", "\r\nSec-Websocket-Key: k\r\n"} {
			if got := asked.all()[0]; !strings.Contains(got, want) {
				t.Errorf("%s: the origin got %q; want %q in it", scheme, got, want)
			}
		}
	}
}

func TestH18_UpgradeDenied(t *testing.T) {
	r := newRig(t, answers("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 3\r\n\r\nno!"))
	c := r.client()
	for range 2 {
		c.send(websocket)
		if resp, body, err := c.answer("GET"); resp.StatusCode != 426 || body != "no!" || err != nil {
			t.Errorf("%s %q, %v; want 426 no!", resp.Status, body, err)
		}
	}
}

// Bytes that the client sends before the 101 are not forwarded.
func TestH18_BytesBeforeThe101(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 1)
		r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
			readHead(br)
			time.Sleep(time.Second)
			io.WriteString(c, switched)
			b, _ := io.ReadAll(br)
			got <- string(b)
		})
		c := r.client()
		go io.WriteString(c.Conn, websocket+"GET /smuggled HTTP/1.1\r\n\r\n")
		if rest, _ := c.rest(); rest != "" {
			t.Errorf("the client got %q; want nothing", rest)
		}
		if b := <-got; b != "" {
			t.Errorf("the origin got %q; want nothing", b)
		}
		c.Close()
	})
}

// A tunnel without progress is closed; traffic in one direction is enough to keep
// it open.
func TestH19_IdleTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
			readHead(br)
			io.WriteString(c, switched)
			for range 3 {
				time.Sleep(9 * time.Second)
				io.WriteString(c, "x")
			}
			br.ReadByte()
		})
		r.f.IdleTimeout = 10 * time.Second
		begin := time.Now()
		c := r.client()
		c.send(websocket)
		c.head()
		if got, _ := c.rest(); got != "xxx" {
			t.Errorf("the client got %q; want xxx", got)
		}
		if d := time.Since(begin); d != 37*time.Second {
			t.Errorf("the tunnel lasted %v; want 37s", d)
		}
	})
}

// HTTP/2 on both sides: bodies, trailers, 1xx, and no HTTP/1 connection.
func TestH17_HTTP2(t *testing.T) {
	for _, scheme := range []string{"h2c", "https"} {
		var protos recorder
		o := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			protos.add(r.Proto)
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("Trailer", "X-Sum")
			w.Header().Set("X-Target", r.RequestURI)
			w.Header().Set("X-Length", http.StatusText(int(r.ContentLength)+200)) // OK for 0
			w.WriteHeader(200)
			w.Write(b)
			w.Header().Set("X-Sum", "1"+r.Trailer.Get("X-Up"))
			w.Header().Set(http.TrailerPrefix+"X-More", "2")
		}))
		o.Config.Protocols = new(http.Protocols)
		o.Config.Protocols.SetUnencryptedHTTP2(true)
		o.Config.Protocols.SetHTTP2(true)
		if scheme == "https" {
			o.EnableHTTP2 = true
			o.StartTLS()
		} else {
			o.Start()
		}
		base := mustURL(t, scheme+"://"+o.Listener.Addr().String())
		tr, err := forward.NewTransport(forward.Options{BaseURL: base, TLS: &tls.Config{InsecureSkipVerify: true}})
		if err != nil {
			t.Fatal(err)
		}
		f := httptest.NewUnstartedServer(&forward.Forwarder{RoundTrip: tr.RoundTrip})
		f.EnableHTTP2 = true
		f.StartTLS()
		for _, body := range []string{"", "abc"} {
			req, _ := http.NewRequest("POST", f.URL+"//a%2Fb?x;y=%zz", io.MultiReader(strings.NewReader(body)))
			req.Trailer = http.Header{"X-Up": {"5"}}
			if body == "" {
				req, _ = http.NewRequest("GET", f.URL+"//a%2Fb?x;y=%zz", nil)
			}
			resp, err := f.Client().Do(req)
			if err != nil {
				t.Fatalf("%s: %v", scheme, err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			sum := map[string]string{"": "1", "abc": "15"}[body]
			if string(b) != body || err != nil || resp.Trailer.Get("X-Sum") != sum || resp.Trailer.Get("X-More") != "2" || resp.ProtoMajor != 2 {
				t.Errorf("%s: %s %q, %v, %v; want %q and trailers", scheme, resp.Proto, b, err, resp.Trailer, body)
			}
			if got := resp.Header.Get("X-Target"); got != "//a%2Fb?x;y=%zz" {
				t.Errorf("%s: the target was %q; want it unchanged", scheme, got)
			}
			if body == "" && resp.Header.Get("X-Length") != "OK" {
				t.Errorf("%s: a GET arrived with a body of unknown length", scheme)
			}
			if via := resp.Header["Via"]; len(via) != 1 || via[0] != "2 weir" {
				t.Errorf("%s: Via = %q; want 2 weir", scheme, via)
			}
		}
		for _, p := range protos.all() {
			if p != "HTTP/2.0" {
				t.Errorf("%s: the origin received %s; want HTTP/2.0", scheme, p)
			}
		}
		f.Close()
		tr.Close()
		o.Close()
	}
}

// An HTTP/2 server that resets a stream with an error may have processed the
// request. net/http would send it up to seven times.
func TestH15_ResetIsNoReplay(t *testing.T) {
	var seen atomic.Int32
	o := serve(t, loopback(t), func(c net.Conn, br *bufio.Reader) {
		io.CopyN(io.Discard, br, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
		c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
		for {
			var h [9]byte
			if _, err := io.ReadFull(br, h[:]); err != nil {
				return
			}
			io.CopyN(io.Discard, br, int64(h[0])<<16|int64(h[1])<<8|int64(h[2]))
			if h[3] == 1 { // HEADERS: RST_STREAM with PROTOCOL_ERROR
				seen.Add(1)
				c.Write([]byte{0, 0, 4, 3, 0, h[5], h[6], h[7], h[8], 0, 0, 0, 1})
			}
		}
	})
	if body, err := get(o.transport(t, "h2c")); err == nil {
		t.Errorf("get = %q; want an error", body)
	}
	if n := seen.Load(); n != 1 {
		t.Errorf("the origin received %d requests; want once", n)
	}
}

// For any request line, the forwarded path is the one received.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "//a", "/a%2F?x", "*", "http://h/a?b", "http://h?x", "/a|b", "//a|b", "/?", "/a??", "///", "h:1", "/%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if strings.ContainsAny(target, " \r\n") {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
		if err != nil {
			return
		}
		var line string
		fwd := &forward.Forwarder{RoundTrip: func(out *http.Request) (*http.Response, error) {
			var b strings.Builder
			out.Write(&b)
			line, _, _ = strings.Cut(b.String(), "\r\n")
			return nil, io.EOF
		}}
		w := httptest.NewRecorder()
		fwd.ServeHTTP(w, r)
		if w.Code == http.StatusBadRequest {
			return
		}
		want := target
		if _, rest, ok := strings.Cut(target, "://"); ok && target[0] != '/' {
			want = "/"
			if i := strings.IndexAny(rest, "/?"); i >= 0 {
				want = "/" + strings.TrimPrefix(rest[i:], "/")
			}
		}
		if want = "GET " + want + " HTTP/1.1"; line != want {
			t.Errorf("%q was forwarded as %q; want %q", target, line, want)
		}
	})
}
