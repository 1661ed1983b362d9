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
	// ErrLagged is what a reader gets that fell out of the window.
	ErrLagged = errors.New("stream: reader fell behind the window")
	// ErrNobody is what Write returns past the limit when there is no reader,
	// or none that could still go on.
	ErrNobody = errors.New("stream: nobody reads")
	// ErrFinished is what Write returns once Finish was called.
	ErrFinished = errors.New("stream: body is finished")
	// ErrClosed is what Next returns once its reader was closed.
	ErrClosed = errors.New("stream: reader is closed")
)

// Options configure a Body.
type Options struct {
	// Size is what Content-Length says, -1 if it is not known. With a Size
	// above Limit the body is past the limit from its first byte on.
	Size int64
	// Limit is up to where everything is kept.
	Limit int64
	// Window is how much is kept past Limit, below 1 means 64 KiB. As it slides
	// by whole chunks, a little more is held.
	Window int64
	// Patience is for how long Write waits, over the whole body, for readers that
	// would lose their place, before they do. Readers that are equally fast are
	// never quite so; a slow one costs the others no more than that. 0 means
	// that none is waited for.
	Patience time.Duration
	// Reserve asks for n more bytes of the budget that the buffers in flight
	// share with the store (n < 0 returns them). When it says no, the body
	// behaves as if the limit had been reached, with a window of at most 64 KiB
	// that is not counted. nil means that there is no budget. It is called
	// without a lock of the body, and never after Release has returned what the
	// body had.
	Reserve func(n int64) bool
}

// A Body is appended to by one goroutine and read by many. All its methods but
// Write may be called from any goroutine at any time.
type Body struct {
	size    int64 // -1 if it is not known
	limit   int64
	reserve func(n int64) bool // nil: no budget

	// consolidating is held by Whole, and taken before mu.
	consolidating sync.Mutex

	// mu is held for bookkeeping only: bytes are copied without it. See chunk.
	mu       sync.Mutex
	window   int64         // guarded by mu, as all below; shrinks when Reserve refuses
	patience time.Duration // that is left
	chunks   []chunk       // what is kept, in order, without gaps, up to end
	end      int64         // how much was written
	over     bool          // past the limit: the window slides, nobody joins
	refused  bool          // by Reserve; no chunk is counted from then on
	reserved int64         // what Reserve has taken and not given back
	released bool
	failed   error // of the first Write that did not append everything
	finished bool
	err      error // that Next ends with, never nil once finished
	trailer  http.Header

	readers    []*Reader // those that joined and are not closed
	front      int64     // the greatest pos of readers; -1 without any
	frontStale bool      // the reader at front has left: look again

	more chan struct{} // closed when there is more to read; nil if nobody waits
	room chan struct{} // closed when Write may go on; nil if it does not wait
}

// New returns an empty Body.
func New(o Options) *Body {
	b := &Body{size: max(-1, o.Size), limit: o.Limit, window: o.Window, patience: o.Patience, reserve: o.Reserve, front: -1}
	if b.window < 1 {
		b.window = smallWindow
	}
	b.over = b.size > b.limit
	return b
}

// Finish ends the body: completely with a nil err, or else broken. Readers
// get what is still kept, then io.EOF or err. The first call counts.
//
// An end is complete only if it is true: with a nil err the body is broken all
// the same when a Write failed, or when it has not the Size it was said to
// have. And io.EOF as err is not passed on as such, since it would read as the
// end of a whole body; it becomes io.ErrUnexpectedEOF.
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
		err = fmt.Errorf("stream: %d bytes in a body of %d", b.end, b.size)
	default:
		err = io.EOF
	}
	b.finished, b.err, b.trailer = true, err, trailer
	b.wakeReadersLocked()
	b.wakeWriterLocked()
}

// notEOF returns err, or what stands for it if a reader would take it for the
// end of a whole body.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%v)", io.ErrUnexpectedEOF, err)
	}
	return err
}

// Whole returns the body once it is complete, as one slice with no spare
// capacity that nobody may change, and true if all of it was kept. A body
// whose size was not known is put together by the first call, in the place of
// what it was kept in.
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
	// Nobody writes any more: chunks stay as they are.
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

// Trailer returns what Finish was given, nil before.
func (b *Body) Trailer() http.Header {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trailer
}

// Join returns a reader from the first byte on, nil if it is not kept any more
// or the body was released. Joining a body that has ended is fine.
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

// keptLocked is Kept. A window may reach back to the first byte for a while:
// still nobody joins then, or who is let in would hang on how fast others read.
// b.mu must be held.
func (b *Body) keptLocked() bool {
	return !b.released && (!b.over || b.end == 0)
}

// Release gives the budget back. It is called when the flight is over, once no
// new reader comes; readers that are still there read on. It may be called more
// than once. A body that is still written to goes on as if Reserve refused.
func (b *Body) Release() {
	b.mu.Lock()
	back := b.reserved
	b.reserved, b.released = 0, true
	b.mu.Unlock()
	b.giveBack(back)
}

// wakeReadersLocked lets everybody look again. b.mu must be held.
func (b *Body) wakeReadersLocked() {
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
}

// wakeWriterLocked lets Write look again. b.mu must be held.
func (b *Body) wakeWriterLocked() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}
