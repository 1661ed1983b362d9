package rawcorpus

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// An origin reads requests strictly as RFC 9112 requires, without net/http, and records
// everything that is not plain.
type origin struct {
	net.Listener
	answer func(o *origin, c *originConn, m message) (again bool)

	mu     sync.Mutex
	seen   []message           // guarded by mu
	faults []string            // guarded by mu
	conns  map[net.Conn]bool   // guarded by mu
	script map[string]response // guarded by mu; the responses for targets
	count  int                 // guarded by mu; number of connections
}

// An originConn is a connection to an origin.
type originConn struct {
	net.Conn
	br *bufio.Reader
	id int
}

// A response is what an origin sends for the first request for a target.
type response struct {
	bytes      string
	pieces     string
	end, reset bool
}

func newOrigin(t testing.TB, answer func(*origin, *originConn, message) bool) *origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{Listener: l, answer: answer, conns: map[net.Conn]bool{}, script: map[string]response{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			o.mu.Lock()
			o.conns[c] = true
			o.count++
			id := o.count
			o.mu.Unlock()
			running.Go(func() { o.serve(&originConn{c, bufio.NewReader(c), id}) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		o.mu.Lock()
		for c := range o.conns {
			c.Close()
		}
		o.mu.Unlock()
		running.Wait()
	})
	return o
}

func (o *origin) serve(c *originConn) {
	defer func() {
		c.Close()
		o.mu.Lock()
		delete(o.conns, c.Conn)
		o.mu.Unlock()
	}()
	for {
		m, err := readRequest(c.br, func() { io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n") })
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			o.mu.Lock()
			o.faults = append(o.faults, fmt.Sprintf("%v in %v", err, m))
			o.mu.Unlock()
			return
		}
		m.conn = c.id
		o.note(m)
		if !o.answer(o, c, m) {
			return
		}
	}
}

func (o *origin) note(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, m)
}

// take returns the requests and faults since the last call.
func (o *origin) take() (seen []message, faults []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen, faults = o.seen, o.faults
	o.seen, o.faults = nil, nil
	return seen, faults
}

// alphabet is the body of every response.
const alphabet = "abcdefghijklmnopqrstuvwxyz"

// usual answers every request with the alphabet.
func usual(_ *origin, c *originConn, m message) bool {
	text := "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nLast-Modified: Mon, 02 Mar 2026 10:00:00 GMT\r\nContent-Length: 26\r\n\r\n"
	if !strings.HasPrefix(m.start, "HEAD ") {
		text += alphabet
	}
	_, err := io.WriteString(c, text)
	return err == nil
}

var (
	requestLine = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+ [\\x21-\\x7e\\x80-\\xff]+ HTTP/1\\.1$")
	fieldLine   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ \\t]*[\\x20-\\x7e\\x80-\\xff\\t]*$")
	chunkLine   = regexp.MustCompile(`^[0-9a-fA-F]{1,15}$`)
	digits      = regexp.MustCompile(`^[0-9]{1,15}$`)
)

// wide converts each byte to a character, for regular expressions, which read UTF-8.
func wide(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}

// readRequest reads one request. io.EOF means that there is none, or a truncated one,
// which is harmless.
func readRequest(br *bufio.Reader, expected func()) (m message, err error) {
	line, err := readLine(br)
	if err != nil {
		return m, err
	}
	if !requestLine.MatchString(wide(line)) {
		return m, fmt.Errorf("request line %q", line)
	}
	m.start = strings.TrimSuffix(line, " HTTP/1.1")
	if m.fields, err = readFields(br); err != nil {
		return m, err
	}
	if m.values("Expect") != nil && (m.values("Content-Length") != nil || m.values("Transfer-Encoding") != nil) {
		expected()
	}
	lengths, codings := m.values("content-length"), m.values("transfer-encoding")
	switch {
	case len(m.values("host")) != 1:
		return m, fmt.Errorf("hosts %q", m.values("host"))
	case len(lengths)+len(codings) > 1:
		return m, fmt.Errorf("lengths %q with codings %q", lengths, codings)
	case len(codings) == 1 && codings[0] != "chunked":
		return m, fmt.Errorf("coding %q", codings[0])
	case len(codings) == 1:
		return m, m.readChunks(br)
	case len(lengths) == 1 && !digits.MatchString(lengths[0]):
		return m, fmt.Errorf("length %q", lengths[0])
	case len(lengths) == 1:
		n, _ := strconv.Atoi(lengths[0])
		body := make([]byte, n)
		if _, err := io.ReadFull(br, body); err != nil {
			return m, io.EOF
		}
		m.body = string(body)
	}
	return m, nil
}

// readChunks reads a chunked body and its trailer.
func (m *message) readChunks(br *bufio.Reader) error {
	for {
		line, err := readLine(br)
		if err != nil {
			return err
		}
		if !chunkLine.MatchString(line) {
			return fmt.Errorf("chunk %q", line)
		}
		n, _ := strconv.ParseUint(line, 16, 63)
		if n == 0 {
			break
		}
		piece := make([]byte, n+2)
		if _, err := io.ReadFull(br, piece); err != nil {
			return io.EOF
		}
		if string(piece[n:]) != "\r\n" {
			return fmt.Errorf("chunk ends %q", piece[n:])
		}
		m.body += string(piece[:n])
	}
	var err error
	m.trailer, err = readFields(br)
	return err
}

func readFields(br *bufio.Reader) (lines []string, err error) {
	for {
		line, err := readLine(br)
		if err != nil || line == "" {
			return lines, err
		}
		if !fieldLine.MatchString(wide(line)) {
			return lines, fmt.Errorf("field %q", line)
		}
		lines = append(lines, line)
	}
}

// readLine reads a line that ends with CR LF and contains neither character before it.
func readLine(br *bufio.Reader) (string, error) {
	line, err := br.ReadString('\n')
	if err != nil {
		return line, io.EOF
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok || strings.ContainsAny(text, "\r\x00") {
		return text, fmt.Errorf("line end in %q", line)
	}
	return text, nil
}
