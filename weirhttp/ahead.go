package weirhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/internal/slow"
)

// firstAhead is how much memory is reserved for a body before any of it has arrived.
// After that, the reservation grows with the body.
const firstAhead = 1 << 10

// A bodyError means that a request's body could not be read from the client.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "weirhttp: the request's body: " + e.err.Error() }

func (e *bodyError) Unwrap() error { return e.err }

// readable reports whether the client of a request that failed with err may still
// read a response. net/http ends the request's context not only when the client has
// left, but also when the body could not be read.
func readable(err error) bool {
	return errors.Is(err, ErrSlowClient) || errors.As(err, new(*bodyError)) || ofRequest(err)
}

// ofRequest reports whether the forwarder blames the request for err.
func ofRequest(err error) bool {
	var forward *ForwardError
	return errors.As(err, &forward) && forward.Request
}

// A budget is the memory of bodies that are read ahead. It is a single number, so an
// atomic is enough.
type budget struct{ used atomic.Int64 }

// take takes n more bytes if the total stays within most, and reports whether it did.
func (b *budget) take(n, most int64) bool {
	if b.used.Add(n) > most {
		b.used.Add(-n)
		return false
	}
	return true
}

// ahead reports whether the body of p's request is read before admission.
func (p *passthroughWriter) ahead() bool {
	n, r := p.r.ContentLength, p.r
	if n <= 0 || n > p.h.o.Clients.ReadAhead || p.c.q.Expect || p.c.q.Upgrade || r.Body == nil || r.Body == http.NoBody {
		return false
	}
	if _, done := r.Body.(*readBody); done {
		return false
	}
	return !isGRPC(r.Header)
}

func isGRPC(h http.Header) bool {
	const grpc = "application/grpc"
	t := h.Get("Content-Type")
	return len(t) >= len(grpc) && strings.EqualFold(t[:len(grpc)], grpc)
}

// readAhead reads the body of r, and returns r with a body that can be read without
// waiting. If the memory is used up, the new body consists of the part that was read,
// followed by the rest of the original body. The memory is held until giveBack.
func (p *passthroughWriter) readAhead(ctx context.Context, r *http.Request) (*http.Request, error) {
	p.mem = memory{budget: &p.h.cache.ahead, most: p.h.o.Clients.ReadAheadMemory}
	body := aheadReader{client: &p.ticket.clients, mem: &p.mem, src: r.Body, n: int(r.ContentLength)}
	read, got, err := body.read()
	if err != nil {
		return nil, readFailure(ctx, &p.ticket.clients, err)
	}
	out := *r
	if got == gotAll {
		p.h.count.readAhead.Add(1)
		out.Body = newReadBody(read)
		return &out, nil
	}
	p.h.count.noMemory.Add(1)
	out.Body = begunBody{io.MultiReader(bytes.NewReader(read), upload{r.Body, p}), r.Body}
	return &out, nil
}

// A begunBody is a body that was partly read before admission.
type begunBody struct {
	io.Reader // the rest through an upload
	io.Closer
}

// An aheadReader reads a body of n bytes, or one of unknown length with at most n.
type aheadReader struct {
	client *slow.Client
	mem    *memory
	src    io.Reader
	n      int
	open   bool // its length is unknown
	buf    []byte
}

// What an aheadReader has got.
type got uint8

const (
	gotAll     got = iota
	gotPart        // memory ran out
	gotTooMuch     // the body has more than n bytes
)

// read returns what it has read.
func (a *aheadReader) read() (read []byte, what got, err error) {
	for len(a.buf) < a.n {
		if len(a.buf) == cap(a.buf) && !a.grow() {
			return a.buf, gotPart, nil
		}
		m, err := a.step(a.buf[len(a.buf):cap(a.buf)])
		a.buf = a.buf[:len(a.buf)+m]
		switch {
		case err == io.EOF && (a.open || len(a.buf) == a.n):
			return a.buf, gotAll, nil
		case err == io.EOF:
			return nil, 0, io.ErrUnexpectedEOF
		case err != nil:
			return nil, 0, err
		}
	}
	var one [1]byte // the end is still to come, with the trailers
	switch m, err := a.step(one[:]); {
	case m > 0 && a.open:
		return append(a.buf, one[0]), gotTooMuch, nil
	case m > 0:
		return nil, 0, http.ErrContentLength
	case err != nil && err != io.EOF:
		return nil, 0, err
	}
	return a.buf, gotAll, nil
}

// step is one Read, during which we wait for the client.
func (a *aheadReader) step(b []byte) (n int, err error) {
	for tries := 0; n == 0 && err == nil; tries++ {
		if tries == 100 {
			return 0, io.ErrNoProgress
		}
		a.client.Begin(slow.Up, 0)
		n, err = a.src.Read(b)
		a.client.End(slow.Up, n)
	}
	return n, err
}

// grow enlarges the buffer, and reports whether there was memory for it.
func (a *aheadReader) grow() bool {
	size := min(a.n, max(firstAhead, 4*cap(a.buf)))
	if !a.mem.take(int64(size - cap(a.buf))) {
		return false
	}
	buf := make([]byte, len(a.buf), size)
	copy(buf, a.buf)
	a.buf = buf
	return true
}
