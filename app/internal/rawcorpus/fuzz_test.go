package rawcorpus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// For any bytes of a client, the origin sees what a strict reader sees in them: the
// same requests in the same order with the same bodies, and no others. If the strict
// reader finds a fault, weir can refuse the request, or tolerate what RFC 9112 allows a
// recipient to tolerate. It never turns one request into two.
func FuzzRawRequests(f *testing.F) {
	for _, r := range rows(f, "requests-*.txt", requestKeys...) {
		if s := raw(f, r.get("send")); len(s) < 2000 {
			f.Add([]byte(s))
		}
	}
	o := newOrigin(f, usual)
	w := start(f, configurations["default"], "{name: o, servers: ['http://"+o.Addr().String()+"']}")
	var runs atomic.Int64
	f.Fuzz(func(t *testing.T, bytes []byte) {
		// A call that was cut off can reach the origin later, so each run has a mark.
		mark := fmt.Sprintf("X-Run: %d", runs.Add(1))
		bytes = lineEnd.ReplaceAll(bytes, []byte("${1}"+mark+"\r\n"))
		c := w.dial(t, false)
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		go func() { // ends with the connection
			_, _ = c.Write(bytes) // weir can refuse before the end
			(&client{Conn: c}).closeWrite()
		}()
		_, _ = io.Copy(io.Discard, c) // the content is tested by the rows
		c.Close()
		waitIdle(t, w)
		seen, faults := o.take()
		if len(faults) > 0 {
			t.Fatalf("the origin cannot read %q, after %q", faults, bytes)
		}
		seen = slices.DeleteFunc(seen, func(m message) bool {
			v := m.values("X-Run")
			return len(v) > 0 && "X-Run: "+v[len(v)-1] != mark
		})
		strict, clean := readAll(string(bytes))
		for i, m := range seen {
			if i >= len(strict) {
				if clean {
					t.Fatalf("the origin saw %v, which a strict reader does not see in %q", m, bytes)
				}
				t.Fatalf("the origin saw %v, which comes after what a strict reader cannot read in %q", m, bytes)
			}
			if fault := differs(strict[i], m); fault != "" {
				t.Fatalf("the origin saw %s: %v of %q", fault, m, bytes)
			}
		}
	})
}

// lineEnd is the end of a possible request line.
var lineEnd = regexp.MustCompile(`( HTTP/1\.[0-9]\r?\n)`)

// waitIdle waits until no call is in flight to the origin.
func waitIdle(t *testing.T, w *weir) {
	t.Helper()
	late := time.After(patience)
	for w.gateway.Stats().Upstreams["o"].Limit.InUse > 0 {
		select {
		case <-late:
			t.Fatal("a call does not end although its client has disconnected")
		case <-time.After(time.Millisecond):
		}
	}
}

// readAll reads requests as strictly as the origin does, except for what RFC 9112
// allows a recipient to tolerate: empty lines before a request, LF instead of CR LF in
// a header, folded lines, and chunk extensions. clean is false if it ends at a fault.
func readAll(s string) (all []message, clean bool) {
	br := bufio.NewReader(strings.NewReader(s))
	for {
		for b, err := br.Peek(1); err == nil && (b[0] == '\r' || b[0] == '\n'); b, err = br.Peek(1) {
			_, _ = br.Discard(1) // already peeked
		}
		m, err := readTolerant(br)
		if errors.Is(err, io.EOF) {
			return all, true
		}
		if err != nil {
			return all, false
		}
		all = append(all, m)
	}
}

// differs returns how the request that the origin saw differs from the one that the
// client sent. It compares only the fields that affect framing or routing.
func differs(sent, seen message) string {
	method, target, _ := strings.Cut(sent.start, " ")
	if i := strings.Index(target, "://"); i > 0 && target[0] != '/' { // the absolute form
		rest := target[i+3:]
		j := strings.IndexAny(rest, "/?")
		switch {
		case j < 0 && method == "OPTIONS":
			target = "*"
		case j < 0:
			target = "/"
		case rest[j] == '?':
			target = "/" + rest[j:]
		default:
			target = rest[j:]
		}
	}
	if want := method + " " + target; seen.start != want {
		return "a request line other than " + want
	}
	if sent.body != seen.body {
		return "a body other than " + cut(sent.body)
	}
	return ""
}

// For any bytes of an origin, a client never sees a complete response if the origin's
// was incomplete, and never a part of one response in another.
func FuzzRawAnswers(f *testing.F) {
	for _, r := range rows(f, "answers-*.txt", answerKeys...) {
		if s := raw(f, r.get("send")); len(s) < 2000 && !r.has("reset") && !strings.HasPrefix(r.get("ask"), "HEAD") {
			f.Add([]byte(s))
		}
	}
	o := newOrigin(f, scripted)
	w := start(f, configurations["caching"], "{name: o, servers: ['http://"+o.Addr().String()+"']}")
	f.Fuzz(func(t *testing.T, bytes []byte) {
		w.gateway.Cache().InvalidateAll(context.Background())
		s := &stand{weir: w, origin: o}
		o.mu.Lock()
		o.script = map[string]response{"GET /a": {string(bytes), "whole", true, false}}
		o.mu.Unlock()
		first, _ := s.ask(t, "GET", "/a", "", "plain")
		second, _ := s.ask(t, "GET", "/b", "", "plain")
		if second.start != "502" && (second.start != "200" || second.body != alphabet || second.broken) { // its connection can end while it is used
			t.Fatalf("the next response is %v, after %q", second, bytes)
		}
		if first.broken || first.start == "502" {
			return
		}
		m, err := finalOf(string(bytes))
		switch {
		case err == nil && strings.HasPrefix(string(bytes), "HTTP/1.0") && m.values("Transfer-Encoding") != nil:
			// HTTP/1.0 has no codings: some recipients read chunks, and others a body
			// that looks like chunks.
		case err != nil:
			t.Fatalf("the client got %v; a strict reader returns %v for %q", first, err, bytes)
		case m.broken:
			t.Fatalf("the client got %v, complete; it was cut off in %q", first, bytes)
		case m.start != first.start || m.body != first.body:
			t.Fatalf("the client got %v; the origin sent %v in %q", first, m, bytes)
		}
	})
}

// finalOf reads the final response from the bytes of an origin that then closed.
func finalOf(s string) (m message, err error) {
	br := bufio.NewReader(strings.NewReader(s))
	for {
		m, err = readTolerantAnswer(br)
		if err != nil || len(m.start) == 3 && m.start[0] != '1' || m.start == "101" {
			return m, err
		}
	}
}

// The reader of the fuzz targets reads valid requests as the origin does.
func TestTolerantReader(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", []string{"GET /a", "GET /b"}},
		{"\r\nPOST /a HTTP/1.1\nHost: h\nContent-Length: 2\n\nhiGET /b HTTP/1.1\r\nHost: h\r\n\r\n", []string{"POST /a", "GET /b"}},
		{"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", []string{"POST /a", "GET /b"}},
		{"GET /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", nil},
		{"GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", nil},
	} {
		all, _ := readAll(tt.in)
		var got []string
		for _, m := range all {
			got = append(got, m.start)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("readAll(%q) = %q; want %q", tt.in, got, tt.want)
		}
	}
}
