package exchange

import (
	"bytes"
	"io"
)

var _ io.ReadCloser = (*ReadBody)(nil)

// A ReadBody is the body of a request that was read from its client to the end,
// before the handler was called. Reading it waits for nobody, and who stops
// doing so need not see to the client's connection.
type ReadBody struct{ bytes.Reader }

// NewReadBody returns the body that b is.
func NewReadBody(b []byte) *ReadBody {
	r := new(ReadBody)
	r.Reset(b)
	return r
}

// Close does nothing.
func (*ReadBody) Close() error { return nil }
