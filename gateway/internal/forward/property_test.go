package forward_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// A message is a request or a response as both ends should see it.
type message struct {
	line     string // the request line, or the status
	fields   map[string][]string
	body     string
	trailers map[string][]string
	hints    []map[string][]string // the fields of each preceding 103
}

// A maker creates random messages.
type maker struct{ *rand.Rand }

func (m maker) pick(s ...string) string { return s[m.IntN(len(s))] }

func (m maker) fields(prefix string) map[string][]string {
	f := map[string][]string{}
	for range m.IntN(5) {
		name := fmt.Sprint(prefix, m.IntN(4))
		f[name] = append(f[name], m.pick("", "1", "a, b", "\"q;,\"", "x=\xe4", strings.Repeat("long ", 200)+"."))
	}
	return f
}

func (m maker) body() string {
	switch m.IntN(5) {
	case 0:
		return ""
	case 1:
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte("<html>squeezed"))
		z.Close()
		return b.String()
	case 2:
		return strings.Repeat(m.pick("<html>", "\x00", "text\r\n\r\n"), m.IntN(20000))
	}
	return m.pick("<html>x", "0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "{}")
}

// wire encodes a message, with random chunks or with a length.
func (m maker) wire(start string, msg message, chunked, bodyless bool) string {
	var b strings.Builder
	b.WriteString(start + "\r\n")
	writeFields(&b, msg.fields)
	if chunked && len(msg.trailers) > 0 && m.IntN(2) == 0 {
		for name := range msg.trailers {
			b.WriteString("Trailer: " + name + "\r\n")
		}
	}
	if chunked {
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for rest := msg.body; rest != ""; {
			n := 1 + m.IntN(len(rest))
			fmt.Fprintf(&b, "%x%s\r\n%s\r\n", n, m.pick("", ";x", ";a=\"b\""), rest[:n])
			rest = rest[n:]
		}
		b.WriteString("0\r\n")
		writeFields(&b, msg.trailers)
		b.WriteString("\r\n")
		return b.String()
	}
	if !bodyless {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(msg.body))
	}
	b.WriteString("\r\n" + msg.body)
	return b.String()
}

func writeFields(b *strings.Builder, fields map[string][]string) {
	for name, values := range fields {
		for _, v := range values {
			b.WriteString(name + ": " + v + "\r\n")
		}
	}
}

// seenFields returns the fields of h that the test generates, without
// those for framing and those that a gateway adds.
func seenFields(h http.Header) map[string][]string {
	f := map[string][]string{}
	for name, values := range h {
		if strings.HasPrefix(name, "X-R") || strings.HasPrefix(name, "X-T") {
			if !strings.HasPrefix(name, "X-Request") {
				f[name] = values
			}
		}
	}
	for _, name := range []string{"Content-Type", "User-Agent", "Accept-Encoding", "Content-Encoding"} {
		if v, ok := h[name]; ok {
			f[name] = v
		}
	}
	return f
}

func TestH17_AnythingPassesUnchanged(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	m := maker{rand.New(rand.NewPCG(seed, 2))}
	var answer string
	var got message
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		for {
			first, err := br.Peek(1)
			if err != nil || len(first) == 0 {
				return
			}
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			b, _ := io.ReadAll(req.Body)
			got = message{line: req.Method + " " + req.RequestURI + " " + req.Host, fields: seenFields(req.Header), body: string(b), trailers: seenFields(req.Trailer)}
			io.WriteString(c, answer)
		}
	})
	c := r.client()
	for i := range 500 {
		req, resp := m.request(), m.response()
		chunkedUp, chunkedDown := m.IntN(2) == 0, m.IntN(2) == 0
		method, target := m.pick("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "QUERY"), m.pick("/", "//", "/a%2f?", "/?a=1;b=%zz", "/x/../y?q#"[:9], "/ü?"+strings.Repeat("x", m.IntN(3000)))
		req.line = method + " " + target + " shop.test:81"
		if !chunkedUp {
			req.trailers = map[string][]string{}
		}
		none := method == "HEAD" || slices.Contains([]string{"204", "304"}, resp.line)
		if none {
			resp.body = ""
		}
		if !chunkedDown || none {
			resp.trailers, chunkedDown = map[string][]string{}, false
		}
		answer = ""
		for _, h := range resp.hints {
			answer += m.wire("HTTP/1.1 103 Early Hints", message{fields: h}, false, true)
		}
		answer += m.wire("HTTP/1.1 "+resp.line+" Reason", resp, chunkedDown, none)

		c.SetDeadline(time.Now().Add(time.Minute))
		c.send(m.wire(method+" "+target+" HTTP/1.1\r\nHost: shop.test:81", req, chunkedUp, false))
		seen := message{fields: nil}
		for {
			head, err := http.ReadResponse(c.br, &http.Request{Method: method})
			if err != nil {
				t.Fatalf("seed %d, %d: %v", seed, i, err)
			}
			if head.StatusCode == 103 {
				seen.hints = append(seen.hints, seenFields(head.Header))
				continue
			}
			b, err := io.ReadAll(head.Body)
			if err != nil {
				t.Fatalf("seed %d, %d: body %v", seed, i, err)
			}
			seen = message{fmt.Sprint(head.StatusCode), seenFields(head.Header), string(b), seenFields(head.Trailer), seen.hints}
			break
		}
		if !reflect.DeepEqual(got, req) {
			t.Fatalf("seed %d, %d: the origin got\n%.2000q\nwant\n%.2000q", seed, i, got, req)
		}
		if !reflect.DeepEqual(seen, resp) {
			t.Fatalf("seed %d, %d: the client got\n%.2000q\nwant\n%.2000q", seed, i, seen, resp)
		}
	}
}

func (m maker) request() message {
	req := message{fields: m.fields("X-R"), body: m.body(), trailers: m.fields("X-T")}
	for _, name := range []string{"Content-Type", "User-Agent", "Accept-Encoding", "Content-Encoding"} {
		if m.IntN(3) == 0 {
			req.fields[name] = []string{m.pick("gzip", "a/b")}
		}
	}
	return req
}

func (m maker) response() message {
	resp := message{line: m.pick("200", "201", "204", "206", "304", "404", "500", "599"), fields: m.fields("X-R"), body: m.body(), trailers: m.fields("X-T")}
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if m.IntN(3) == 0 {
			resp.fields[name] = []string{m.pick("gzip", "a/b")}
		}
	}
	for range m.IntN(3) {
		resp.hints = append(resp.hints, m.fields("X-R"))
	}
	return resp
}
