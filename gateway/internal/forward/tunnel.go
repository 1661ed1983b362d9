package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// tunnel relays the 101 response, and then bytes in both directions until both
// have ended, there is no progress for too long, or one of them breaks.
func (x *relay) tunnel(resp *http.Response, upgrade []string) {
	server, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		resp.Body.Close()
		x.fail(&ProtocolError{"a 101 response without a connection"})
		return
	}
	defer server.Close()
	protocol := resp.Header["Upgrade"]
	if !offered(upgrade, protocol) {
		x.fail(&ProtocolError{"the server switched to a protocol that was not requested"})
		return
	}
	client, rw, err := x.rc.Hijack()
	if err != nil {
		x.fail(&ProtocolError{"the client's connection cannot switch protocols: " + err.Error()})
		return
	}
	defer client.Close()
	if rw.Reader.Buffered() > 0 {
		return // the client did not wait for the 101 (H18)
	}
	h := x.w.Header()
	if len(resp.Header[RequestID]) > 0 {
		delete(h, RequestID)
	}
	copyEndToEnd(h, resp.Header)
	h["Via"] = append(slices.Clip(h["Via"]), x.f.via(resp.ProtoMajor, resp.ProtoMinor))
	x.f.changeResponse(h)
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, protocol
	io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\n")
	h.Write(rw)
	io.WriteString(rw, "\r\n")
	if rw.Flush() != nil {
		return
	}
	x.pump(client, server)
}

// offered reports whether all protocols chosen were among those offered
// (RFC 9110, section 7.8).
func offered(upgrade, chosen []string) bool {
	for _, v := range chosen {
		for protocol := range strings.SplitSeq(v, ",") {
			if !hasToken(upgrade, strings.TrimSpace(protocol)) {
				return false
			}
		}
	}
	return len(chosen) > 0
}

// pump copies in both directions. The context of x, and so the watch, ends it.
func (x *relay) pump(client net.Conn, server io.ReadWriteCloser) {
	shut := context.AfterFunc(x, func() {
		client.Close()
		server.Close()
	})
	defer shut()
	x.relax()
	x.watch.begin()
	defer x.watch.end()
	var back sync.WaitGroup
	back.Go(func() { x.pipe(client, server) })
	x.pipe(server, client)
	back.Wait()
}

// pipe copies what src sends to dst, and then its end. If something breaks, the
// other direction ends too.
func (x *relay) pipe(dst io.Writer, src io.Reader) {
	buffer := make([]byte, 8<<10)
	for {
		n, err := src.Read(buffer)
		x.watch.moved()
		if n > 0 {
			if _, werr := dst.Write(buffer[:n]); werr != nil {
				x.Cancel(werr)
				return
			}
			x.watch.moved()
		}
		if err == nil {
			continue
		}
		half, ok := dst.(interface{ CloseWrite() error })
		if !errors.Is(err, io.EOF) || !ok || half.CloseWrite() != nil {
			x.Cancel(err)
		}
		return
	}
}
