//go:build !unix

package forward

import "net"

// A peeker checks a connection without reading from it. There is none on this
// system.
type peeker struct{}

func newPeeker(net.Conn) (peeker, bool) { return peeker{}, false }

func (peeker) quiet() bool { return false }
