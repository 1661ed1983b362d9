// Package resp implements the parts of Redis' protocol, version 2, that the lab
// needs: to form a cluster, and to read the commands that an engine received.
// Measured programs use a real client.
package resp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// An Error is an error reply, which begins with a minus.
type Error string

func (e Error) Error() string { return string(e) }

// A Conn is a connection. It is not safe for concurrent use.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial connects to addr, host:port.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{conn: c, in: bufio.NewReader(c)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Ask is Dial, Do and Close, and takes at most one second.
func Ask(ctx context.Context, addr string, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, args...)
}

// Do sends a command and returns its reply: a string, an int64, nil, or a slice of
// these. An error reply is an [Error]. After any other error, such as a deadline, the
// connection is unusable.
func (c *Conn) Do(ctx context.Context, args ...string) (any, error) {
	end, _ := ctx.Deadline() // the zero time means no deadline
	if err := c.conn.SetDeadline(end); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })() //nolint:errcheck // it fails only if the connection is closed
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, err
	}
	return read(c.in, 0)
}

// ErrProtocol matches Do's error for bytes that are not a valid reply.
var ErrProtocol = errors.New("resp: not a reply of the protocol")

// Bounds of a reply.
const (
	maxBytes = 64 << 20
	maxItems = 1 << 20
	maxDepth = 8
)

// read reads one reply.
func read(in *bufio.Reader, depth int) (any, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	rest := line[1:]
	switch line[0] {
	case '+':
		return rest, nil
	case '-':
		return nil, Error(rest)
	case ':':
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", ErrProtocol, line)
		}
		return n, nil
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil || n < -1:
	case n == -1 && (line[0] == '$' || line[0] == '*'):
		return nil, nil
	case line[0] == '$' && n <= maxBytes:
		return readBulk(in, n)
	case line[0] == '*' && n <= maxItems && depth < maxDepth:
		return readArray(in, n, depth)
	}
	return nil, fmt.Errorf("%w: %q", ErrProtocol, line)
}

// readLine reads a line of at least one byte, which is its type.
func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return "", fmt.Errorf("%w: %q", ErrProtocol, line)
	}
	return string(line[:len(line)-2]), nil
}

func readBulk(in *bufio.Reader, n int) (any, error) {
	var b strings.Builder
	if _, err := io.CopyN(&b, in, int64(n)); err != nil { // bytes that are never sent take no memory
		return nil, err
	}
	var end [2]byte
	if _, err := io.ReadFull(in, end[:]); err != nil {
		return nil, err
	}
	if string(end[:]) != "\r\n" {
		return nil, fmt.Errorf("%w: more than the announced %d bytes", ErrProtocol, n)
	}
	return b.String(), nil
}

// readArray reads n replies. An error reply is returned among the others.
func readArray(in *bufio.Reader, n, depth int) (any, error) {
	var all []any
	for range n {
		v, err := read(in, depth+1)
		var said Error
		if errors.As(err, &said) {
			v, err = said, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
