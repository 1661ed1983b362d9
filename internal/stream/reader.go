package stream

import (
	"context"
	"sort"

	"github.com/weir-go/weir/internal/wait"
)

// A Reader is a cursor, used by one goroutine. The code that joins must close it:
// past the limit, Write waits for the foremost reader that is not closed.
type Reader struct {
	body   *Body
	pos    int64 // guarded by body.mu, like all fields below; offset of the next byte to read
	place  int   // index in body.readers
	closed bool
}

// Next returns the next bytes: at least one, and as many as are contiguous. They
// are valid until the next call and must not be modified. If there are none, Next
// waits for some until ctx ends, and then returns the cause of ctx. At the end it
// returns io.EOF, the error of a broken body, or ErrLagged. It returns io.EOF
// exactly if the reader had every byte of a complete body.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	for {
		p, more, back, err := r.step()
		r.body.giveBack(back)
		if more == nil {
			return p, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, notEOF(wait.Cause(ctx))
		}
	}
}

// step returns the results of Next, or a channel to wait for, and what it has freed
// of the budget.
func (r *Reader) step() (p []byte, wait <-chan struct{}, back int64, err error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.closed:
		return nil, nil, 0, ErrClosed
	case r.pos < b.baseLocked():
		return nil, nil, 0, ErrLagged
	case r.pos < b.end:
		p, back = b.advanceLocked(r)
		return p, nil, back, nil
	case b.finished:
		return nil, nil, 0, b.err
	}
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return nil, b.more, 0, nil
}

// advanceLocked moves r to the end of its current chunk, and returns the bytes
// passed, and what that frees of the budget. There must be at least one byte, and b.mu
// must be held.
func (b *Body) advanceLocked(r *Reader) (passed []byte, back int64) {
	i := len(b.chunks) - 1 // readers that keep up are in the last chunk
	if r.pos < b.chunks[i].off {
		i = sort.Search(i, func(i int) bool { return b.chunks[i].off > r.pos }) - 1
	}
	c := &b.chunks[i]
	p := c.buf[r.pos-c.off : len(c.buf) : len(c.buf)]
	r.pos += int64(len(p))
	if i == 0 { // it may have been the last to need that chunk
		back = b.slideLocked()
	}
	if r.pos > b.front {
		b.front = r.pos
		b.wakeWriterLocked()
	} else if b.patience > 0 {
		b.wakeWriterLocked() // it may wait for this reader
	}
	return p, back
}

// Pos returns the offset of the next byte that Next would return: the number of bytes
// that it has returned.
func (r *Reader) Pos() int64 {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	return r.pos
}

// Ready reports whether Next would return at once.
func (r *Reader) Ready() bool {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.closed || b.finished || r.pos < b.end // for a lagging reader, pos is before end
}

// Close removes the reader. It may be called more than once.
func (r *Reader) Close() {
	b := r.body
	b.giveBack(b.leave(r))
}

// leave is Close, and returns what it has freed of the budget.
func (b *Body) leave(r *Reader) (back int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.closed {
		return 0
	}
	r.closed = true
	last := len(b.readers) - 1
	b.readers[r.place] = b.readers[last]
	b.readers[r.place].place = r.place
	b.readers[last] = nil
	b.readers = b.readers[:last]
	if r.pos == b.front {
		b.frontStale = true
	}
	b.wakeWriterLocked()
	return b.slideLocked()
}
