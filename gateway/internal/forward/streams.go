package forward

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// maxResends bounds how often a request is sent again that its server has not run. A
// server that accepts a few requests per connection refuses the rest of a burst each
// time, so it must be large.
const maxResends = 32

// A streams holds the HTTP/2 connections to a server, each for many requests.
//
// net/http has such a pool, but resends requests in it by a rule that includes requests
// that may have run (a stream reset with PROTOCOL_ERROR), cannot resend one with a body,
// and waits for seconds between attempts. A ClientConn sends a request once, and returns
// the reason why it failed.
type streams struct {
	t *Transport

	mu      sync.Mutex
	conns   []*streamConn // guarded by mu; the oldest is first
	dialing *dialing      // guarded by mu; nil if no connection is being opened
}

// A streamConn is a connection of a streams.
type streamConn struct {
	*http.ClientConn
	c    *conn
	used atomic.Bool // a place was reserved on it; atomic because a waiter looks without mu
}

// take reserves a place, if there is one.
func (c *streamConn) take() bool {
	if c.Reserve() != nil {
		return false
	}
	c.used.Store(true)
	return true
}

// A dialing opens a connection for all requests that wait for one.
type dialing struct {
	done   chan struct{}
	cancel context.CancelFunc
	conn   *streamConn // written before done is closed, as err
	err    error
}

// errOldProtocol means that the server has chosen HTTP/1.1. The connection is kept for
// the first request over it.
var errOldProtocol = errors.New("forward: the server has chosen HTTP/1.1")

// openedKey is the key of a context for NewClientConn, which has the connection.
type openedKey struct{}

// roundTrip sends a's request once.
func (s *streams) roundTrip(a *attempt) (*http.Response, error) {
	c, err := s.get(a.req.Context())
	if err != nil {
		return nil, err
	}
	a.conn = c.c
	a.on.Store(c.c)
	if trace := httptrace.ContextClientTrace(a.req.Context()); trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.c})
	}
	resp, err := c.RoundTrip(a.req)
	if cause := context.Cause(a.req.Context()); err != nil && cause != nil {
		err = cause
	}
	return resp, err
}

// get returns a connection with a place reserved for a request.
func (s *streams) get(ctx context.Context) (*streamConn, error) {
	for {
		c, d := s.reserve(ctx)
		if c != nil {
			return c, nil
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
			if d.conn.take() || d.conn.used.CompareAndSwap(false, true) {
				// If it has ended without a use, the request fails with the reason.
				return d.conn, nil
			}
		case <-ctx.Done():
			return nil, cmp.Or(context.Cause(ctx), context.Canceled)
		}
	}
}

// reserve returns a connection with a reserved place, or the dialing to wait for. A
// connection that is closed, or on which the server has announced its end (GOAWAY), has
// no place.
func (s *streams) reserve(ctx context.Context) (*streamConn, *dialing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// One that is too old ends its calls, and is closed when it has been idle for a while.
	s.conns = slices.DeleteFunc(s.conns, func(c *streamConn) bool { return c.Err() != nil || c.c.old() })
	for _, c := range s.conns {
		if c.take() {
			return c, nil
		}
	}
	if s.dialing == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		s.dialing = &dialing{done: make(chan struct{}), cancel: cancel}
		go s.dial(ctx, s.dialing) // ends within ConnectTimeout, or at close
	}
	return nil, s.dialing
}

// dial opens a connection.
func (s *streams) dial(ctx context.Context, d *dialing) {
	c, err := s.open(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.conns = append(s.conns, c)
	}
	s.dialing, d.conn, d.err = nil, c, err
	close(d.done)
	d.cancel()
}

func (s *streams) open(ctx context.Context) (*streamConn, error) {
	address := s.t.address()
	var nc net.Conn
	var err error
	if s.t.scheme == "https" {
		nc, err = s.t.dialTLS(ctx, s.t.network, address, true)
	} else {
		nc, err = s.t.dial(ctx, s.t.network, address, true)
	}
	if err != nil {
		return nil, err
	}
	c := unwrapConn(nc)
	if !c.streams {
		if !s.t.spare.CompareAndSwap(nil, &nc) {
			nc.Close()
		}
		return nil, errOldProtocol
	}
	cc, err := s.t.main.NewClientConn(context.WithValue(ctx, openedKey{}, nc), s.t.scheme, address)
	if err != nil {
		nc.Close()
		return nil, &fault.UnreachableError{Err: err}
	}
	return &streamConn{ClientConn: cc, c: c}, nil
}

// close closes the connections that no request uses. The others close when they have been
// idle for Options.IdleConn.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dialing != nil {
		s.dialing.cancel()
	}
	for _, c := range s.conns {
		if c.InFlight() == 0 {
			c.Close()
		}
	}
}

// A streamError has the fields by which errors.As recognizes net/http's error of a stream.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "forward: the stream was reset" }

const codeRefused = 7 // REFUSED_STREAM (RFC 9113, section 7)

// notRun reports whether err says that the server has not run the request: it has refused
// the stream, or announced with GOAWAY that it will not process it (RFC 9113, section
// 8.7), or nothing was sent because the connection was about to end. refused is the first
// of these.
//
// net/http has no other name for the last two than their texts.
func notRun(err error) (refused, ok bool) {
	var reset streamError
	if errors.As(err, &reset) {
		return true, reset.Code == codeRefused && reset.Cause != nil
	}
	switch err.Error() {
	case "http2: client conn not usable",
		"http2: Transport received Server's graceful shutdown GOAWAY":
		return false, true
	}
	return false, false
}

// pauseBefore waits before the nth resend of a request that was refused, so that a server
// with too many streams has time to end some.
func pauseBefore(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	timer := time.NewTimer(min(time.Millisecond<<n, 100*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}
