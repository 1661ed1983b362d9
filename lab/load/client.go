package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// readBuffer holds the headers of a response.
	readBuffer = 16 << 10
	// maxBody is the longest response body; a longer one is a failure.
	maxBody = 64 << 20
	// closeWait is how long a server has to close a connection that the client asked
	// it to close.
	closeWait = 100 * time.Millisecond
)

// A client sends one request at a time. It is not safe for concurrent use.
type client struct {
	run    *run
	links  []link // by host
	answer fasthttp.Response
}

// A link is a client's connection to a host.
type link struct {
	conn    net.Conn // nil if there is none
	in      *bufio.Reader
	unwatch func() bool
	spent   bool // the server will close it
}

// errStale reports a keep-alive connection that was closed before a response began.
var errStale = errors.New("the connection was closed")

// send sends a request and reads the response. The status is 0 if there was none.
func (c *client) send(ctx context.Context, t *target) (status int, err error) {
	l := &c.links[t.host]
	deadline := time.Now().Add(c.run.spec.Timeout)
	for {
		reused := l.conn != nil
		if !reused {
			if err := c.connect(ctx, l, t.host, deadline); err != nil {
				return 0, fmt.Errorf("GET %s: %w", t.url, err)
			}
		}
		err := c.exchange(l, t, deadline)
		if err == nil {
			break
		}
		l.drop()
		if !reused || !errors.Is(err, errStale) {
			return 0, fmt.Errorf("GET %s: no answer: %w", t.url, err)
		}
	}
	l.spent = c.run.spec.NoKeepAlive || c.answer.ConnectionClose()
	status = c.answer.StatusCode()
	if status < 200 || status > 299 {
		return status, fmt.Errorf("GET %s: %d %s", t.url, status, http.StatusText(status))
	}
	if want := c.run.expect; !bytes.Contains(c.answer.Body(), want) {
		return status, fmt.Errorf("GET %s: %d, the body does not contain %q", t.url, status, want)
	}
	return status, nil
}

// connect opens a connection, which the end of ctx closes.
func (c *client) connect(ctx context.Context, l *link, i int, deadline time.Time) error {
	h := c.run.hosts[i]
	dialing, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	conn, err := c.run.dial(dialing, "tcp", h.address)
	if err != nil {
		return err
	}
	if h.name != "" {
		secure := tls.Client(conn, &tls.Config{ServerName: h.name, NextProtos: []string{"http/1.1"}})
		if err := secure.HandshakeContext(dialing); err != nil {
			conn.Close()
			return err
		}
		conn = secure
	}
	if l.in == nil {
		l.in = bufio.NewReaderSize(conn, readBuffer)
	} else {
		l.in.Reset(conn)
	}
	l.conn = conn
	l.unwatch = context.AfterFunc(ctx, func() { conn.Close() })
	return nil
}

func (c *client) exchange(l *link, t *target, deadline time.Time) error {
	if err := l.conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	_, wrote := l.conn.Write(t.text)
	// A server may reject a request before it has read it, so check for a response
	// even if the write failed.
	if _, err := l.in.Peek(1); err != nil {
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return err
		}
		return fmt.Errorf("%w: %w", errStale, cmp.Or(wrote, err))
	}
	return c.answer.ReadLimitBody(l.in, maxBody)
}

// tidy closes the connections that ended with the last response. If the server is
// about to close, tidy waits for that: the side that closes first keeps the port for
// a minute (TIME-WAIT), and the client would run out of ports.
func (c *client) tidy() {
	for i := range c.links {
		l := &c.links[i]
		if !l.spent {
			continue
		}
		l.conn.SetDeadline(time.Now().Add(closeWait)) //nolint:errcheck // then Peek fails too
		if _, err := l.in.Peek(1); !errors.Is(err, io.EOF) {
			if tcp, ok := l.conn.(*net.TCPConn); ok {
				tcp.SetLinger(0) //nolint:errcheck // if this fails, the port is held for a minute
			}
		}
		l.drop()
	}
}

// close closes all connections.
func (c *client) close() {
	for i := range c.links {
		c.links[i].drop()
	}
}

func (l *link) drop() {
	if l.conn == nil {
		return
	}
	l.unwatch()
	l.conn.Close()
	l.conn, l.spent = nil, false
}
