package scenarios

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The kinds of slow clients.
const (
	slowBodies  = "slow bodies"
	slowReaders = "slow readers"
	slowHeads   = "slow heads"
)

// An attack is many slow clients of one kind.
type attack struct {
	kind      string
	addresses int           // from which they connect
	http2     bool          // all on one connection
	clients   int           // at once: a disconnected one reconnects
	drip      time.Duration // between two bytes
}

// name is the attack's name as a setting.
func (a attack) name() string {
	if a.http2 {
		return a.kind + ", HTTP/2"
	}
	if a.addresses > 1 {
		return fmt.Sprintf("%s, %d addresses", a.kind, a.addresses)
	}
	return a.kind + ", 1 address"
}

// comeBack is how long a disconnected client waits before it reconnects.
const comeBack = 250 * time.Millisecond

// start connects the clients to address, host:port, and returns when each has sent
// the beginning of its request. stop ends them and waits for them.
func (a attack) start(ctx context.Context, address string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	stop = func() { cancel(); all.Wait() }
	begun := make(chan struct{}, 2*a.clients) // one signal per client is enough
	if a.http2 {
		all.Go(func() { a.overHTTP2(ctx, address, begun) })
	} else {
		for i := range a.clients {
			all.Go(func() { a.overHTTP1(ctx, address, i, begun) })
		}
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for range a.clients {
		select {
		case <-begun:
		case <-late.C:
			stop()
			return nil, fmt.Errorf("%s: not all clients have connected to %s in %v", a.name(), address, patience)
		case <-ctx.Done():
			stop()
			return nil, context.Cause(ctx)
		}
	}
	return stop, nil
}

// hasBegun signals that a client has begun. Signals of reconnecting clients are
// dropped.
func hasBegun(begun chan<- struct{}) {
	select {
	case begun <- struct{}{}:
	default:
	}
}

// overHTTP1 runs the i-th client.
func (a attack) overHTTP1(ctx context.Context, address string, i int, begun chan<- struct{}) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%a.addresses))}}
	for n := 0; ctx.Err() == nil; n++ {
		if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			unwatch := context.AfterFunc(ctx, func() { conn.Close() })
			a.dawdle(ctx, conn, fmt.Sprintf("%d-%d", i, n), begun)
			unwatch()
			conn.Close()
		}
		rest(ctx, comeBack)
	}
}

// dawdle sends the beginning of a request and then one byte per interval, until the
// connection is cut. A slow reader sends the beginning of its next request that way:
// it reads nothing, so it notices the cut only by a failed write.
func (a attack) dawdle(ctx context.Context, conn net.Conn, id string, begun chan<- struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var head, drops string
	switch a.kind {
	case slowBodies:
		head, drops = "POST /upload/"+id+" HTTP/1.1\r\nHost: slow\r\nContent-Length: 10000\r\n\r\nx", "x"
	case slowHeads:
		head, drops = "GET /private/"+id+" HTTP/1.1\r\nHost: slow\r\nX-Slow: x", "x"
	default:
		head, drops = "GET /big/"+id+" HTTP/1.1\r\nHost: slow\r\n\r\n", "GET /private/next HTTP/1.1\r\nX-Slow: xxxxxxxxxx"
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetReadBuffer(4 << 10) //nolint:errcheck // if this fails, it receives more before it stalls
		}
	}
	if _, err := io.WriteString(conn, head); err != nil {
		return
	}
	hasBegun(begun)
	if a.kind != slowReaders {
		go func() { // ends with conn
			io.Copy(io.Discard, conn) //nolint:errcheck // however it ends
			cancel()
		}()
	}
	for i := 0; rest(ctx, a.drip); i++ {
		if _, err := io.WriteString(conn, drops[i%len(drops):i%len(drops)+1]); err != nil {
			return
		}
	}
}

// overHTTP2 runs all clients, each as a stream. A closed connection is opened again.
func (a attack) overHTTP2(ctx context.Context, address string, begun chan<- struct{}) {
	for ctx.Err() == nil {
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			unwatch := context.AfterFunc(ctx, func() { conn.Close() })
			s := slowStreams{attack: a, conn: conn, open: make(map[uint32]bool), next: 1, begun: begun}
			s.run(ctx)
			unwatch()
			conn.Close()
		}
		rest(ctx, comeBack)
	}
}

// slowStreams are the streams of one connection. Their windows are never enlarged, so
// a slow reader's stream stalls after the initial 64 KiB.
type slowStreams struct {
	attack
	conn  net.Conn
	open  map[uint32]bool // running streams
	next  uint32          // of the next stream
	begun chan<- struct{}
	acks  atomic.Int32 // settings of the server that have not been acknowledged yet
}

// Frames of HTTP/2, RFC 9113 section 6.
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway, frameWindow = 0, 1, 3, 4, 7, 8

	flagEndStream, flagEndHeaders, flagAck = 1, 4, 1
)

func frame(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	return string([]byte{
		byte(n >> 16), byte(n >> 8), byte(n), kind, flags,
		byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream),
	}) + payload
}

// run opens the streams and drips, until the connection ends.
func (s *slowStreams) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The connection's window is large, so that each stream stalls on its own window.
	hello := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(frameSettings, 0, 0, "") + frame(frameWindow, 0, 0, "\x3f\x00\x00\x00")
	if _, err := io.WriteString(s.conn, hello); err != nil {
		return
	}
	over := make(chan uint32, s.clients)
	go func() { // ends with s.conn
		s.listen(ctx, over)
		cancel()
	}()
	for range s.clients {
		if s.request() != nil {
			return
		}
	}
	tick := time.NewTicker(s.drip)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-over:
			if !s.open[id] {
				continue // it got a response, and then a reset
			}
			delete(s.open, id)
			if !rest(ctx, comeBack/50) || s.request() != nil { // disconnected ones reconnect one after the other
				return
			}
		case <-tick.C:
			if s.drop() != nil {
				return
			}
		}
	}
}

// request opens a stream. Its fields, except for the method and the scheme, are
// literals without indexing (RFC 7541, section 6.2.2).
func (s *slowStreams) request() error {
	id := s.next
	s.next += 2
	method, path, flags := byte(0x82), fmt.Sprintf("/big/h2-%d", id), byte(flagEndHeaders|flagEndStream) // GET
	if s.kind == slowBodies {
		method, path, flags = 0x83, fmt.Sprintf("/upload/h2-%d", id), flagEndHeaders // POST
	}
	block := string([]byte{method, 0x86, 0x04, byte(len(path))}) + path + "\x01\x04slow"
	text := frame(frameHeaders, flags, id, block)
	for n := s.acks.Swap(0); n > 0; n-- {
		text += frame(frameSettings, flagAck, 0, "")
	}
	if _, err := io.WriteString(s.conn, text); err != nil {
		return err
	}
	s.open[id] = true
	hasBegun(s.begun)
	return nil
}

// drop sends a byte of each body.
func (s *slowStreams) drop() error {
	var text string
	for n := s.acks.Swap(0); n > 0; n-- {
		text += frame(frameSettings, flagAck, 0, "")
	}
	if s.kind == slowBodies {
		for id := range s.open {
			text += frame(frameData, 0, id, "x")
		}
	}
	_, err := io.WriteString(s.conn, text)
	return err
}

// listen reads the server's frames and reports the streams that end.
func (s *slowStreams) listen(ctx context.Context, over chan<- uint32) {
	var h [9]byte
	for {
		if _, err := io.ReadFull(s.conn, h[:]); err != nil {
			return
		}
		n := int64(h[0])<<16 | int64(h[1])<<8 | int64(h[2])
		if _, err := io.CopyN(io.Discard, s.conn, n); err != nil {
			return
		}
		id := uint32(h[5])<<24 | uint32(h[6])<<16 | uint32(h[7])<<8 | uint32(h[8])
		kind, flags := h[3], h[4]
		switch {
		case kind == frameGoAway:
			return
		case kind == frameSettings && flags&flagAck == 0:
			s.acks.Add(1)
		case kind == frameReset, (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0:
			select {
			case over <- id:
			case <-ctx.Done():
				return
			}
		}
	}
}
