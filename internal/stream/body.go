package stream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Errors of a Body.
var (
	// ErrLagged is returned to a reader whose next byte is no longer kept.
	ErrLagged = errors.New("stream: a slow reader fell behind, and there is no memory to keep the rest for it")
	// ErrNobody is returned by Write past the limit if there is no reader, or if
	// every reader fell behind the window.
	ErrNobody = errors.New("stream: no readers")
	// ErrFinished is returned by Write after Finish was called.
	ErrFinished = errors.New("stream: body is finished")
	// ErrClosed is returned by Next after its reader was closed.
	ErrClosed = errors.New("stream: reader is closed")
)

// Options configure a Body.
type Options struct {
	// Size is the Content-Length, or -1 if unknown. If Size is above Limit, the
	// body is past the limit from its first byte on.
	Size int64
	// Limit is the number of bytes up to which everything is kept.
	Limit int64
	// Window is the number of bytes kept past Limit; below 1 means 64 KiB. The
	// window slides by whole chunks, so slightly more is held.
	Window int64
	// Grow requests n more bytes of the budget of Reserve, to keep bytes that are
	// outside the window for readers that still need them. While it returns true,
	// no reader falls behind. It should return false before Reserve does, so that
	// slow readers leave memory for other bodies. The bytes are returned through
	// Reserve. nil means that the window does not grow.
	Grow func(n int64) bool
	// Patience is the time, summed over the whole body, that Write waits for
	// readers that would otherwise fall behind, because the window does not grow.
	// Even equally fast readers never progress exactly alike; a slow one delays the
	// others by at most Patience. 0 means that Write does not wait for them.
	Patience time.Duration
	// Reserve requests n more bytes of the budget that the buffers in flight
	// share with the store (n < 0 returns bytes). If it returns false, the body
	// behaves as if the limit had been reached, with a window of at most 64 KiB
	// that is not counted. nil means that there is no budget. It is called
	// without a lock of the body, and never after Release has returned the body's
	// share.
	Reserve func(n int64) bool
}

// A Body is appended to by one goroutine and read by many. All methods except
// Write may be called from any goroutine at any time.
type Body struct {
	size    int64 // -1 if unknown
	limit   int64
	reserve func(n int64) bool // nil: no budget
	widen   func(n int64) bool // Options.Grow; nil: the window does not grow

	// consolidating is held by Whole, and taken before mu.
	consolidating sync.Mutex

	// mu is held for bookkeeping only: bytes are copied without it. See chunk.
	mu       sync.Mutex
	window   int64         // guarded by mu, like all fields below; shrinks when Reserve refuses
	patience time.Duration // what is left of it
	chunks   []chunk       // the bytes kept, in order, without gaps, up to end
	end      int64         // number of bytes written
	over     bool          // past the limit: the window slides, and Join returns nil
	refused  bool          // by Reserve; chunks added since are not counted
	reserved int64         // bytes that Reserve granted and that were not returned
	released bool
	failed   error // error of the first incomplete Write
	finished bool
	err      error // the final error of Next, never nil once finished
	trailer  http.Header

	readers    []*Reader // joined and not closed
	front      int64     // the greatest pos of readers; -1 if there are none
	frontStale bool      // the reader at front has left: search again

	more chan struct{} // closed when there is more to read; nil if no reader waits
	room chan struct{} // closed when Write may continue; nil if it does not wait
}

// New returns an empty Body.
func New(o Options) *Body {
	b := &Body{size: max(-1, o.Size), limit: o.Limit, window: o.Window, patience: o.Patience, reserve: o.Reserve, widen: o.Grow, front: -1}
	if b.window < 1 {
		b.window = smallWindow
	}
	b.over = b.size > b.limit
	return b
}

// Finish ends the body: as complete if err is nil, otherwise as broken. Readers
// get the bytes still kept, then io.EOF or err. Only the first call counts.
//
// With a nil err, the body is nevertheless broken if a Write failed or if its
// length differs from its Size. An err of io.EOF becomes io.ErrUnexpectedEOF,
// because readers would mistake it for the end of a complete body.
func (b *Body) Finish(trailer http.Header, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return
	}
	switch {
	case err != nil:
		err = notEOF(err)
	case b.failed != nil:
		err = b.failed
	case b.size >= 0 && b.end < b.size:
		err = fmt.Errorf("stream: %d bytes of %d: %w", b.end, b.size, io.ErrUnexpectedEOF)
	case b.size >= 0 && b.end > b.size:
		err = fmt.Errorf("stream: %d bytes in a body of size %d", b.end, b.size)
	default:
		err = io.EOF
	}
	b.finished, b.err, b.trailer = true, err, trailer
	b.wakeReadersLocked()
	b.wakeWriterLocked()
}

// notEOF returns err, wrapped if a reader would mistake it for the end of a
// complete body.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%v)", io.ErrUnexpectedEOF, err)
	}
	return err
}

// Whole returns the complete body as one slice without spare capacity, which must
// not be modified, and true. It returns false if the body is not complete, or if
// not all of it was kept. If the size was unknown, the first call copies the
// chunks into one buffer, which replaces them.
func (b *Body) Whole() ([]byte, bool) {
	b.consolidating.Lock()
	defer b.consolidating.Unlock()
	b.mu.Lock()
	whole := b.finished && b.err == io.EOF && !b.over
	chunks, end := b.chunks, b.end
	b.mu.Unlock()
	switch {
	case !whole:
		return nil, false
	case end == 0:
		return []byte{}, true
	case len(chunks) == 1 && len(chunks[0].buf) == cap(chunks[0].buf):
		return chunks[0].buf, true
	}
	// There are no more writes, so the chunks do not change.
	buf := make([]byte, 0, end)
	for _, c := range chunks {
		buf = append(buf, c.buf...)
	}
	b.mu.Lock()
	b.chunks = []chunk{{buf: buf, cost: end}}
	back := b.reserved - end
	if b.released || b.reserve == nil {
		back = 0
	}
	b.reserved -= back
	b.mu.Unlock()
	b.giveBack(back)
	return buf, true
}

// Trailer returns the trailer passed to Finish, or nil before that.
func (b *Body) Trailer() http.Header {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trailer
}

// Join returns a reader that starts at the first byte. It returns nil if that
// byte is no longer kept, or if the body was released. A body that has ended can
// still be joined.
func (b *Body) Join() *Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.keptLocked() {
		return nil
	}
	r := &Reader{body: b, place: len(b.readers)}
	b.readers = append(b.readers, r)
	b.front = max(b.front, 0)
	return r
}

// Kept reports whether Join would succeed.
func (b *Body) Kept() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keptLocked()
}

// keptLocked is Kept. A window may still reach back to the first byte for a
// while, but no reader joins then: its success would depend on how fast the
// others read. b.mu must be held.
func (b *Body) keptLocked() bool {
	return !b.released && (!b.over || b.end == 0)
}

// Release returns the body's share of the budget. It is called when the flight is
// over and no new reader can come; remaining readers read on. It may be called
// more than once. If the body is still being written, it continues as if Reserve
// refused.
func (b *Body) Release() {
	b.mu.Lock()
	back := b.reserved
	b.reserved, b.released = 0, true
	b.mu.Unlock()
	b.giveBack(back)
}

// wakeReadersLocked wakes all waiting readers. b.mu must be held.
func (b *Body) wakeReadersLocked() {
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
}

// wakeWriterLocked wakes a waiting Write. b.mu must be held.
func (b *Body) wakeWriterLocked() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}
