package stream

import (
	"context"
	"sort"
)

// A Reader is a cursor. It is used by one goroutine. The code that joins closes
// it: past the limit, Write waits for the foremost of those that are not
// closed.
type Reader struct {
	body   *Body
	pos    int64 // guarded by body.mu, as all below; of the next byte it gets
	place  int   // in body.readers
	closed bool
}

// Next returns the next bytes, at least one, as many as there are in one piece.
// They are valid until the next call, and must not be changed. It waits for
// them until ctx ends, and returns its cause then; what is there already is
// returned even so. At the end it is io.EOF, or the error of a broken body, or
// ErrLagged. io.EOF means that the reader had every byte of a complete body, and
// nothing else is io.EOF.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	for {
		p, wait, err := r.step()
		if wait == nil {
			return p, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, notEOF(context.Cause(ctx))
		}
	}
}

// step returns what Next does, or what to wait for.
func (r *Reader) step() (p []byte, wait <-chan struct{}, err error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.closed:
		return nil, nil, ErrClosed
	case r.pos < b.baseLocked():
		return nil, nil, ErrLagged
	case r.pos < b.end:
		return b.advanceLocked(r), nil, nil
	case b.finished:
		return nil, nil, b.err
	}
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return nil, b.more, nil
}

// advanceLocked moves r to the end of the chunk it is in, and returns what it
// has passed. There must be something, and b.mu must be held.
func (b *Body) advanceLocked(r *Reader) []byte {
	i := len(b.chunks) - 1 // where all are who keep up
	if r.pos < b.chunks[i].off {
		i = sort.Search(i, func(i int) bool { return b.chunks[i].off > r.pos }) - 1
	}
	c := &b.chunks[i]
	p := c.buf[r.pos-c.off : len(c.buf) : len(c.buf)]
	r.pos += int64(len(p))
	if r.pos > b.front {
		b.front = r.pos
		b.wakeWriterLocked()
	} else if b.patience > 0 {
		b.wakeWriterLocked() // which may wait for this one
	}
	return p
}

// Ready reports whether Next would return at once.
func (r *Reader) Ready() bool {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.closed || b.finished || r.pos < b.end // a laggard is before the end
}

// Close takes the reader off. It may be called more than once.
func (r *Reader) Close() {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.closed {
		return
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
}
