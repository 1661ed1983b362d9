package exchange

import (
	"net"
	"net/http"
)

// Break breaks off the answer to r so that its client can tell that it is not
// whole, and does not return: it panics with http.ErrAbortHandler. net/http leaves
// out the last chunk then, or resets the stream. For HTTP/1.0, where a body may end
// with the connection, it would end the connection in good order; so that is reset
// here.
func Break(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			Reset(conn)
		}
	}
	panic(http.ErrAbortHandler)
}

// Reset closes conn with a RST. It closes the socket before the layers above it,
// because TLS would send a close_notify alert, which is an orderly end.
func Reset(conn net.Conn) {
	for below := conn; ; {
		if tcp, ok := below.(interface{ SetLinger(seconds int) error }); ok {
			_ = tcp.SetLinger(0) // a connection that is gone already needs no reset
			_ = below.Close()
			break
		}
		inner, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		below = inner.NetConn()
	}
	_ = conn.Close()
}
