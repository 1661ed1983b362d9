package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"
)

// A handshaker is a TLS listener whose connections have finished the handshake when
// they are accepted, so that their version of HTTP is known. Each handshake runs on a
// separate goroutine with a time-out, so that no client delays another.
//
// After the underlying listener has ended, Accept still returns the connections that
// were accepted before: each is a client with a request on its way.
type handshaker struct {
	net.Listener
	config  *tls.Config
	timeout time.Duration // none if not positive
	log     *log.Logger
	linger  *Lingering
	silent  *silent

	ready chan net.Conn
	over  chan struct{} // closed after the last handshake; err is written before
	err   error         // of the listener below

	ctx  context.Context // ends with cut
	stop context.CancelFunc
	each sync.WaitGroup
}

// shakeHands returns a handshaker, which accepts connections from now on.
func shakeHands(l net.Listener, config *tls.Config, timeout time.Duration, log *log.Logger, linger *Lingering, silent *silent) *handshaker {
	h := &handshaker{Listener: l, config: config, timeout: timeout, log: log, linger: linger, silent: silent,
		ready: make(chan net.Conn), over: make(chan struct{})}
	h.ctx, h.stop = context.WithCancel(context.Background())
	go h.run() // until l is closed; Accept reports the end
	return h
}

// run accepts until the listener ends.
func (h *handshaker) run() {
	for wait := time.Duration(0); ; {
		c, err := h.Listener.Accept()
		if err == nil {
			wait = 0
			h.each.Go(func() { h.shake(c) })
			continue
		}
		//lint:ignore SA1019 net/http relies on it, too
		if t, ok := err.(net.Error); ok && t.Temporary() {
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			h.log.Printf("http: Accept error: %v; retrying in %v", err, wait)
			time.Sleep(wait)
			continue
		}
		h.err = err
		h.each.Wait()
		close(h.over)
		return
	}
}

// Accept waits for a connection that has finished its handshake.
func (h *handshaker) Accept() (net.Conn, error) {
	select {
	case c := <-h.ready:
		return c, nil
	case <-h.over:
		return nil, h.err
	}
}

// cut ends handshakes, and drops connections that were not accepted.
func (h *handshaker) cut() { h.stop() }

// shake runs the handshake of c and passes c to Accept.
func (h *handshaker) shake(c net.Conn) {
	defer func() {
		if v := recover(); v != nil { // of a callback of the tls.Config
			h.log.Printf("http: panic serving a TLS handshake: %v", v)
			c.Close()
		}
	}()
	ctx, cancel := h.ctx, func() {}
	if h.timeout > 0 {
		ctx, cancel = context.WithTimeout(h.ctx, h.timeout)
		_ = c.SetDeadline(time.Now().Add(h.timeout)) // fails if the connection is gone, which the handshake detects
	}
	defer cancel()
	if p, ok := c.(*progressConn); ok {
		shy := &shyConn{progressConn: p, silent: h.silent}
		h.silent.add(shy)
		c = shy
	}
	t := tls.Server(c, h.config)
	if err := t.HandshakeContext(ctx); err != nil {
		answered, err := explain(err)
		h.log.Printf("http: TLS handshake error from %s: %v", c.RemoteAddr(), err)
		if answered {
			lingerAfter(h.ctx, h.linger, c)
			return
		}
		c.Close()
		return
	}
	if h.timeout > 0 {
		_ = c.SetDeadline(time.Time{})
	}
	select {
	case h.ready <- t:
	case <-h.ctx.Done():
		t.Close()
	}
}

// explain answers a client that does not use TLS, and returns the error to log.
func explain(err error) (answered bool, _ error) {
	record, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || record.Conn == nil {
		return false, err
	}
	switch string(record.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		_, _ = io.WriteString(record.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		return true, fmt.Errorf("client sent an HTTP request to an HTTPS server")
	}
	return false, err
}
