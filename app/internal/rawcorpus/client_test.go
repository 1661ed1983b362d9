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
)

// A client reads responses on an HTTP/1 connection as they arrive.
type client struct {
	net.Conn
	answers chan heard // closed at the end of the connection
}

// heard is one response, or what is wrong with it.
type heard struct {
	message
	err error
}

// listen reads responses from c until it ends. heads reports which final responses are
// known to have no body.
func listen(c net.Conn, heads func(i int) bool) *client {
	l := &client{c, make(chan heard, 100)}
	go func() { // ends with the connection, which has a deadline
		defer close(l.answers)
		br := bufio.NewReader(c)
		for final := 0; ; {
			m, err := readAnswer(br, heads(final))
			if errors.Is(err, errEnd) {
				return
			}
			l.answers <- heard{m, err}
			if err != nil || m.broken {
				return
			}
			if len(m.start) != 3 || m.start[0] != '1' || m.start == "101" {
				final++
			}
		}
	}()
	return l
}

// next returns the next response. It returns false if the connection has ended.
func (c *client) next() (message, bool, error) {
	h, ok := <-c.answers
	return h.message, ok, h.err
}

// errEnd means that the connection ended before a response.
var errEnd = errors.New("the connection has ended")

var statusLine = regexp.MustCompile(`^HTTP/1\.[01] ([1-9][0-9][0-9]) [\x20-\x7e\x80-\xff\t]*$`)

// readAnswer reads a response, strictly as RFC 9112 requires.
func readAnswer(br *bufio.Reader, head bool) (m message, err error) {
	if _, err := br.Peek(1); err != nil {
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			return m, fmt.Errorf("no bytes for %v", patience)
		}
		return m, errEnd
	}
	line, err := readLine(br)
	found := statusLine.FindStringSubmatch(wide(line))
	if found == nil {
		return m, fmt.Errorf("status line %q, %v", line, err)
	}
	m.start = found[1]
	if m.fields, err = readFields(br); err != nil {
		return m, fmt.Errorf("head of %s: %w", m.start, err)
	}
	lengths, codings := m.values("content-length"), m.values("transfer-encoding")
	switch {
	case m.start[0] == '1' || m.start == "204":
		if len(lengths)+len(codings) > 0 {
			return m, fmt.Errorf("%v has a length", m)
		}
	case head || m.start == "304":
	case len(lengths)+len(codings) > 1:
		return m, fmt.Errorf("lengths %q with codings %q", lengths, codings)
	case len(codings) == 1:
		if codings[0] != "chunked" {
			return m, fmt.Errorf("coding %q", codings[0])
		}
		if err := m.readChunks(br); err != nil {
			m.broken = true
			if !errors.Is(err, io.EOF) {
				return m, err
			}
		}
	case len(lengths) == 1:
		if !digits.MatchString(lengths[0]) {
			return m, fmt.Errorf("length %q", lengths[0])
		}
		n, _ := strconv.Atoi(lengths[0])
		body := make([]byte, n)
		got, err := io.ReadFull(br, body)
		m.body, m.broken = string(body[:got]), err != nil
	default:
		body, err := io.ReadAll(br)
		m.body, m.broken = string(body), err != nil
	}
	return m, nil
}

// pieces are the ways to split bytes into writes.
var pieces = map[string]func(string) []string{
	"whole": func(s string) []string { return []string{s} },
	"bytes": func(s string) []string {
		if len(s) > 2000 { // the beginning and the end are what matters
			return append(append(strings.Split(s[:500], ""), s[500:len(s)-500]), strings.Split(s[len(s)-500:], "")...)
		}
		return strings.Split(s, "")
	},
	"lines": func(s string) []string { return strings.SplitAfter(s, "\r\n") },
}

// send writes text in pieces. A peer that has disconnected is not a fault here.
func (c *client) send(text, how string) {
	for _, p := range pieces[how](text) {
		if _, err := io.WriteString(c, p); err != nil {
			return
		}
	}
}

// closeWrite closes the client's sending side.
func (c *client) closeWrite() {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite() // the peer can have disconnected
	}
}
