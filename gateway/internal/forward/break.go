package forward

import (
	"io"
	"net"
	"net/http"
	"strings"
)

// Break breaks off the answer to r so that the client can tell, and does not
// return: it panics with http.ErrAbortHandler. net/http leaves out the final
// chunk then, or resets the stream. To a client on HTTP/1.0, whose body may end
// with the connection, it would send a FIN, which looks like a proper end (H5);
// so that connection is reset.
func Break(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && !r.ProtoAtLeast(1, 1) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			reset(conn)
		}
	}
	panic(http.ErrAbortHandler)
}

// reset closes conn with a RST, below TLS and whatever else is wrapped around it.
func reset(conn net.Conn) {
	for {
		if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
			tcp.SetLinger(0)
			break
		}
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	conn.Close()
}

// closeAfterReply has net/http close the client's connection after the answer,
// though its head is written. There is no method for it, but a MaxBytesReader
// says just that to its ResponseWriter when it meets its limit.
func closeAfterReply(w http.ResponseWriter) {
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = inner.Unwrap()
	}
	one := http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0)
	one.Read(make([]byte, 1))
}
