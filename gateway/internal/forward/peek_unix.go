//go:build unix

package forward

import (
	"net"
	"syscall"
)

// A peeker checks a connection without reading from it.
type peeker struct {
	raw  syscall.RawConn
	look func(fd uintptr) bool // as a field, so that it is allocated once
	err  *error
}

// newPeeker returns the peeker of c, and whether c can be checked.
func newPeeker(c net.Conn) (peeker, bool) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return peeker{}, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return peeker{}, false
	}
	p := peeker{raw: raw, err: new(error)}
	p.look = func(fd uintptr) bool {
		var b [1]byte
		_, _, *p.err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	}
	return p, true
}

// quiet reports whether c is open and nothing has arrived on it.
func (p peeker) quiet() bool {
	if err := p.raw.Read(p.look); err != nil {
		return false
	}
	return *p.err == syscall.EAGAIN //nolint:errorlint // it is always an Errno
}
