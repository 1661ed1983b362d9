//go:build !unix

package forward

import "net"

// A peeker looks at a connection without reading from it. There is none here.
type peeker struct{}

func newPeeker(net.Conn) (peeker, bool) { return peeker{}, false }

func (peeker) quiet() bool { return false }
