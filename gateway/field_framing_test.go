package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A strict origin reads requests off the wire by the letter of RFC 9112, with
// no regard to what net/http makes of them, and tells whatever is not plain.
type strict struct {
	*rawOrigin
	mu     sync.Mutex
	seen   []wire   // guarded by mu
	faults []string // guarded by mu
}

// A wire is a request as it came.
type wire struct {
	line    string
	fields  []string // lines
	body    string
	trailer []string
}

func strictServing(t *testing.T) *strict {
	t.Helper()
	o := &strict{}
	o.rawOrigin = rawServing(t, func(c net.Conn, br *bufio.Reader) {
		for {
			w, err := readWire(br)
			if err == io.EOF {
				return
			}
			o.mu.Lock()
			if err != nil {
				o.faults = append(o.faults, fmt.Sprintf("%v in %q", err, w))
			} else {
				o.seen = append(o.seen, w)
			}
			o.mu.Unlock()
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	return o
}

// take returns what was seen since, and what was wrong with it.
func (o *strict) take() (seen []wire, faults []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen, faults = o.seen, o.faults
	o.seen, o.faults = nil, nil
	return seen, faults
}

var (
	requestLine = regexp.MustCompile(`^[A-Z]+ [\x21-\x7e\x80-\xff]+ HTTP/1\.1$`)
	fieldLine   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ \\t]*[\\x20-\\x7e\\x80-\\xff\\t]*$")
	chunkSize   = regexp.MustCompile(`^[0-9a-fA-F]{1,15}$`)
	digits      = regexp.MustCompile(`^[0-9]{1,15}$`)
)

// readWire reads one request. io.EOF is that there is none.
func readWire(br *bufio.Reader) (w wire, err error) {
	if _, err := br.Peek(1); err != nil {
		return w, io.EOF
	}
	if w.line, err = wireLine(br); err != nil || !requestLine.MatchString(w.line) {
		return w, fmt.Errorf("request line %q: %v", w.line, err)
	}
	if w.fields, err = wireFields(br); err != nil {
		return w, err
	}
	lengths, codings := w.values("content-length"), w.values("transfer-encoding")
	switch {
	case len(w.values("host")) != 1:
		return w, fmt.Errorf("hosts %q", w.values("host"))
	case len(lengths)+len(codings) > 1:
		return w, fmt.Errorf("lengths %q with codings %q", lengths, codings)
	case len(codings) == 1:
		if codings[0] != "chunked" {
			return w, fmt.Errorf("coding %q", codings[0])
		}
		return w, w.readChunks(br)
	case len(lengths) == 1:
		if !digits.MatchString(lengths[0]) {
			return w, fmt.Errorf("length %q", lengths[0])
		}
		n, _ := strconv.Atoi(lengths[0])
		body := make([]byte, n)
		_, err = io.ReadFull(br, body)
		w.body = string(body)
		return w, cutShort(err)
	}
	return w, nil
}

// cutShort is what a connection that the gateway has closed in the middle of a
// request looks like: an end, and nobody is misled by it.
func cutShort(err error) error {
	if err != nil {
		return io.EOF
	}
	return nil
}

func (w *wire) readChunks(br *bufio.Reader) error {
	for {
		line, err := wireLine(br)
		if err != nil {
			return cutShort(err)
		}
		if !chunkSize.MatchString(line) {
			return fmt.Errorf("chunk %q", line)
		}
		n, _ := strconv.ParseUint(line, 16, 63)
		if n == 0 {
			break
		}
		piece := make([]byte, n+2)
		if _, err := io.ReadFull(br, piece); err != nil {
			return cutShort(err)
		}
		if string(piece[n:]) != "\r\n" {
			return fmt.Errorf("chunk ends %q", piece[n:])
		}
		w.body += string(piece[:n])
	}
	var err error
	w.trailer, err = wireFields(br)
	return err
}

func wireFields(br *bufio.Reader) (lines []string, err error) {
	for {
		line, err := wireLine(br)
		if err != nil || line == "" {
			return lines, err
		}
		if !fieldLine.MatchString(line) {
			return lines, fmt.Errorf("field %q", line)
		}
		lines = append(lines, line)
	}
}

func wireLine(br *bufio.Reader) (string, error) {
	line, err := br.ReadString('\n')
	if err != nil {
		return line, cutShort(err)
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok || strings.ContainsAny(text, "\r\x00") {
		return text, fmt.Errorf("line end in %q", line)
	}
	return text, nil
}

// values returns the values of a field, name in lower case.
func (w *wire) values(name string) []string { return valuesOf(w.fields, name) }

func valuesOf(lines []string, name string) (values []string) {
	for _, line := range lines {
		if k, v, _ := strings.Cut(line, ":"); strings.EqualFold(k, name) {
			values = append(values, strings.Trim(v, " \t"))
		}
	}
	return values
}

// answers reads all answers on a connection until it ends.
func answers(t *testing.T, c net.Conn) (statuses []int, closed bool) {
	t.Helper()
	br := bufio.NewReader(c)
	for {
		if _, err := br.Peek(1); err != nil {
			timeout, ok := err.(net.Error)
			return statuses, !ok || !timeout.Timeout()
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			rest, _ := io.ReadAll(br)
			t.Errorf("an answer that is none: %v, with %q", err, rest)
			return statuses, true
		}
		io.Copy(io.Discard, resp.Body)
		statuses = append(statuses, resp.StatusCode)
	}
}

const tail = "GET /last HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n\r\n"

// What is sent to the gateway, with another request after it, and what is to
// become of it. The other request hides in what some reader may take for a body,
// or the other way round.
var probes = []struct {
	name, bytes string
	// refused: 4xx or 501, nothing reaches the origin, and the connection ends.
	// Or the origin sees these, one by one, and each has its answer.
	refused bool
	origin  []string // "METHOD target|body"
}{
	{"length and chunks", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h.test\r\n\r\n", false, []string{"POST /a|", "GET /smuggled|", "GET /last|"}},
	{"chunks and length", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\nZ\r\n0\r\n\r\n", false, []string{"POST /a|Z", "GET /last|"}},
	{"coding twice", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", true, nil},
	{"chunked twice", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", true, nil},
	{"another coding", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true, nil},
	{"coding and chunked", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", true, nil},
	{"identity", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true, nil},
	{"coding with a tab", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n", false, []string{"POST /a|", "GET /last|"}},
	{"coding with a tab before", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true, nil},
	{"coding in quotes", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: \"chunked\"\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true, nil},
	{"coding in capitals", "POST /a HTTP/1.1\r\nHost: h.test\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n1\r\nZ\r\n0\r\n\r\n", false, []string{"POST /a|Z", "GET /last|"}},
	{"blank before the colon", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true, nil},
	{"folded coding", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding:\r\n chunked\r\n\r\n1\r\nZ\r\n0\r\n\r\n", false, []string{"POST /a|Z", "GET /last|"}},
	{"folded field", "POST /a HTTP/1.1\r\nHost: h.test\r\nX-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", false, []string{"POST /a|0\r\n\r\n", "GET /last|"}},
	{"folded to begin with", "POST /a HTTP/1.1\r\n Host: h.test\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true, nil},
	{"chunked in HTTP/1.0", "POST /a HTTP/1.0\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", false, []string{"POST /a|0\r\n\r\n"}},
	{"two lengths", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", true, nil},
	{"one length twice", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", false, []string{"POST /a|ab", "GET /last|"}},
	{"list of lengths", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 5, 5\r\n\r\n0\r\n\r\n", true, nil},
	{"length with a plus", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: +5\r\n\r\n0\r\n\r\n", true, nil},
	{"length with a minus", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: -1\r\n\r\n", true, nil},
	{"length in hex", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 0x5\r\n\r\n0\r\n\r\n", true, nil},
	{"length with a point", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 5.0\r\n\r\n0\r\n\r\n", true, nil},
	{"length too long", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 18446744073709551621\r\n\r\n0\r\n\r\n", true, nil},
	{"length empty", "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length:\r\n\r\n", true, nil},
	{"length of a GET", "GET /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", false, []string{"GET /a|0\r\n\r\n", "GET /last|"}},
	{"bare LF", "POST /a HTTP/1.1\nHost: h.test\nContent-Length: 2\n\nab", false, []string{"POST /a|ab", "GET /last|"}},
	{"LF in a field", "GET /a HTTP/1.1\r\nHost: h.test\r\nX-A: b\nContent-Length: 5\r\n\r\n0\r\n\r\n", false, []string{"GET /a|0\r\n\r\n", "GET /last|"}},
	{"CR in a field", "GET /a HTTP/1.1\r\nHost: h.test\r\nX-A: b\rX-B: c\r\n\r\n", true, nil},
	{"null in a field", "GET /a HTTP/1.1\r\nHost: h.test\r\nX-A: b\x00c\r\n\r\n", true, nil},
	{"null in a name", "GET /a HTTP/1.1\r\nHost: h.test\r\nX\x00A: b\r\n\r\n", true, nil},
	{"null in the target", "GET /a\x00b HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"blank in a name", "GET /a HTTP/1.1\r\nHost: h.test\r\nX A: b\r\n\r\n", true, nil},
	{"no name", "GET /a HTTP/1.1\r\nHost: h.test\r\n: b\r\n\r\n", true, nil},
	{"no colon", "GET /a HTTP/1.1\r\nHost: h.test\r\nX-A\r\n\r\n", true, nil},
	{"colon in a name", "GET /a HTTP/1.1\r\nHost: h.test\r\n:path: /b\r\n\r\n", true, nil},
	{"no host", "GET /a HTTP/1.1\r\n\r\n", true, nil},
	{"two hosts", "GET /a HTTP/1.1\r\nHost: h.test\r\nHost: other.test\r\n\r\n", true, nil},
	{"host with a path", "GET /a HTTP/1.1\r\nHost: h.test/b\r\n\r\n", true, nil},
	{"host with a blank", "GET /a HTTP/1.1\r\nHost: h.test other\r\n\r\n", true, nil},
	{"host with a user", "GET /a HTTP/1.1\r\nHost: me@h.test\r\n\r\n", true, nil},
	{"absolute form", "GET http://h.test/a HTTP/1.1\r\nHost: other.test\r\n\r\n", false, []string{"GET /a|", "GET /last|"}},
	{"absolute form with a user", "GET http://me@h.test/a HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"authority form", "GET h.test:80 HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"no form", "GET a HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"a fragment", "GET /a#b HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"blank in the target", "GET /a b HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"two blanks", "GET  /a HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"blank before the method", " GET /a HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"a method that is none", "G\"T /a HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"another version", "GET /a HTTP/1.2\r\nHost: h.test\r\n\r\n", false, []string{"GET /a|", "GET /last|"}},
	{"a version that is none", "GET /a HTTP/1.1x\r\nHost: h.test\r\n\r\n", true, nil},
	{"HTTP/2 in the clear", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true, nil},
	{"chunk extension", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n1;a=\"b\"\r\nZ\r\n0;c\r\n\r\n", false, []string{"POST /a|Z", "GET /last|"}},
	{"LF in a chunk extension", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n1;a\nZ\r\n0\r\n\r\n", true, nil},
	{"chunk size too long", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000001\r\nZ\r\n0\r\n\r\n", true, nil},
	{"chunk size negative", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nZ\r\n0\r\n\r\n", true, nil},
	{"chunk size with a plus", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\nZ\r\n0\r\n\r\n", true, nil},
	{"chunk size in hex", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\nZ\r\n0\r\n\r\n", true, nil},
	{"chunk without an end", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nZZ\r\n0\r\n\r\n", true, nil},
	{"chunk ends with LF", "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nZ\n0\r\n\r\n", true, nil},
	{"connection names the length", "POST /a HTTP/1.1\r\nHost: h.test\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", false, []string{"POST /a|0\r\n\r\n", "GET /last|"}},
	{"connection names the coding", "POST /a HTTP/1.1\r\nHost: h.test\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nZ\r\n0\r\n\r\n", false, []string{"POST /a|Z", "GET /last|"}},
	{"connection names the host", "GET /a HTTP/1.1\r\nHost: h.test\r\nConnection: host\r\n\r\n", false, []string{"GET /a|", "GET /last|"}},
	{"TRACE", "TRACE /a HTTP/1.1\r\nHost: h.test\r\n\r\n", true, nil},
	{"CONNECT", "CONNECT h.test:80 HTTP/1.1\r\nHost: h.test:80\r\n\r\n", true, nil},
	{"CONNECT with a body", "CONNECT h.test:80 HTTP/1.1\r\nHost: h.test:80\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true, nil},
	{"h2c", "GET /a HTTP/1.1\r\nHost: h.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n", true, nil},
	{"h2c unannounced", "GET /a HTTP/1.1\r\nHost: h.test\r\nUpgrade: h2c\r\n\r\n", true, nil},
}

// H18, and "request smuggling" as above: whatever a client sends, either it is
// refused and its connection ends, or the origin reads the same requests with
// the same bodies as the gateway, and each of them has an answer.
func TestField_FramingIsAgreedOn(t *testing.T) {
	o := strictServing(t)
	s := open(t, o.config())
	for _, probe := range probes {
		c := s.rawDial()
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, probe.bytes+tail)
		statuses, closed := answers(t, c)
		seen, faults := o.take()
		if len(faults) > 0 {
			t.Errorf("%s: the origin saw %q", probe.name, faults)
		}
		var got []string
		for _, w := range seen {
			line, _, _ := strings.Cut(w.line, " HTTP/1.1")
			got = append(got, line+"|"+w.body)
			if hosts := w.values("host"); !slices.Equal(hosts, []string{"h.test"}) {
				t.Errorf("%s: %s with hosts %q; want h.test", probe.name, w.line, hosts)
			}
		}
		if !closed {
			t.Errorf("%s: the connection stays open", probe.name)
		}
		if probe.refused {
			last := 0
			if len(statuses) > 0 {
				last = statuses[len(statuses)-1]
			}
			if len(statuses) != 1 || last != 501 && (last < 400 || last > 499) && last != 505 || len(got) > 0 {
				t.Errorf("%s: answered %d, and the origin saw %q; want one refusal, and nothing", probe.name, statuses, got)
			}
			continue
		}
		ok := len(statuses) == len(got) && !slices.ContainsFunc(statuses, func(s int) bool { return s != 200 })
		if !ok || !slices.Equal(got, probe.origin) {
			t.Errorf("%s: answered %d, and the origin saw %q; want %q", probe.name, statuses, got, probe.origin)
		}
	}
}

// What Connection names is not for the origin, and what is for the next hop
// only is not either, however it is named; the framing is the gateway's own.
func TestField_ConnectionNames(t *testing.T) {
	o := strictServing(t)
	s := open(t, o.config())
	c := s.rawDial()
	io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h.test\r\nAuthorization: Bearer me\r\nX-Kept: 1\r\nX-Hop: 1\r\nCookie: a=b\r\n"+
		"Proxy-Authorization: Basic x\r\nTE: gzip, trailers\r\nKeep-Alive: timeout=1\r\nProxy-Connection: keep-alive\r\n"+
		"Connection: close, authorization\r\nConnection: X-Hop , cookie\r\nContent-Length: 2\r\n\r\nab")
	if statuses, _ := answers(t, c); !slices.Equal(statuses, []int{200}) {
		t.Fatalf("answered %d; want 200", statuses)
	}
	seen, faults := o.take()
	if len(seen) != 1 || len(faults) > 0 {
		t.Fatalf("the origin saw %q, %q; want one request", seen, faults)
	}
	w := seen[0]
	for _, name := range []string{"authorization", "x-hop", "cookie", "proxy-authorization", "keep-alive", "proxy-connection", "connection", "upgrade"} {
		if v := w.values(name); v != nil {
			t.Errorf("the origin saw %s: %q", name, v)
		}
	}
	if !slices.Equal(w.values("te"), []string{"trailers"}) || !slices.Equal(w.values("x-kept"), []string{"1"}) || w.body != "ab" {
		t.Errorf("the origin saw %q; want TE: trailers, X-Kept and the body", w)
	}
}

// Credentials that Connection takes out of a request do not decide about it
// either: what the origin answered is an anonymous answer.
func TestField_ConnectionTakesCredentialsOut(t *testing.T) {
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "for "+r.Header.Get("Authorization"))
	})
	s := open(t, config(upstreamOf(o)))
	c := s.rawDial()
	io.WriteString(c, "GET /a HTTP/1.1\r\nHost: h.test\r\nAuthorization: Bearer me\r\nConnection: close, authorization\r\n\r\n")
	b, _ := io.ReadAll(c)
	if !bytes.HasSuffix(b, []byte("for ")) {
		t.Errorf("answered %q; want what is for nobody", b)
	}
	s.stored(1)
	s.want("/a", 200, "for ", "Host", "h.test")
	s.want("/a", 200, "for Bearer me", "Host", "h.test", "Authorization", "Bearer me")
	if n := o.calls.Load(); n != 2 {
		t.Errorf("%d calls; want 2: the first answer is for everybody", n)
	}
}

// Trailers whose names must not be in trailers (RFC 9110 section 6.5.1) do not
// reach the origin, and others do.
func TestField_ForbiddenTrailers(t *testing.T) {
	o := strictServing(t)
	s := open(t, o.config())
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Host", "Trailer", "Connection", "Authorization", "Cookie", "X-Forwarded-For", "Cache-Control", "Te", "Upgrade", "Content-Type"} {
		c := s.rawDial()
		io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nZ\r\n0\r\n"+name+": 5\r\nX-Sum: 1\r\n\r\n"+tail)
		statuses, _ := answers(t, c)
		seen, faults := o.take()
		if len(faults) > 0 || len(seen) != len(statuses) {
			t.Errorf("%s: answered %d, the origin saw %q, %q", name, statuses, seen, faults)
		}
		for _, w := range seen {
			if v := w.values(name); w.line == "POST /a HTTP/1.1" && slices.Contains(v, "5") {
				t.Errorf("%s: the trailer became a field: %q", name, w.fields)
			}
			switch name {
			case "Content-Length", "Transfer-Encoding", "Host", "Trailer", "Connection", "Te", "Upgrade":
				if v := valuesOf(w.trailer, name); v != nil {
					t.Errorf("%s: the origin has it as a trailer", name)
				}
			}
		}
	}
}
