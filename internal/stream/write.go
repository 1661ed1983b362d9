package stream

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/wait"
)

const (
	smallChunk  = 4 << 10  // the first chunk of a body of unknown size
	bigChunk    = 64 << 10 // the largest chunk of such a body
	smallWindow = 64 << 10 // the largest window that is not counted
	trusted     = 64 << 10 // the most that is allocated at once for a Content-Length
	growth      = 4        // factor by which the buffer grows after that
)

// A chunk is a piece of the body. Its buffer is only appended to, within its
// capacity, and written bytes never change. So any holder of a slice of written
// bytes may read it without the lock, even after the chunk is gone. For that
// reason, the buffer of a chunk is never reused.
//
// The writer copies into the spare capacity without the lock, where no reader
// looks, and moves the end of buf under the lock.
type chunk struct {
	off  int64 // offset of its first byte in the body
	buf  []byte
	cost int64 // its share of the budget
}

// end returns the offset behind its last byte.
func (c *chunk) end() int64 { return c.off + int64(len(c.buf)) }

// Write appends a copy of p. Up to the limit it never waits. Past the limit, it
// waits while the foremost reader is a full window or more behind, so a sole
// reader exerts back-pressure. For slower readers the window grows. Once
// Options.Grow refuses, Write waits for them until Options.Patience is used up;
// then the slowest fall behind.
//
// Bytes that Next has returned count as read. If ctx ends during the wait, Write
// returns its cause. Past the limit it returns ErrNobody if there is no reader,
// or if the last one leaves while it waits. With an error, it also returns the
// number of bytes appended.
func (b *Body) Write(ctx context.Context, p []byte) (int, error) {
	n := 0
	for n < len(p) {
		spare, err := b.spare(ctx, len(p)-n)
		if err == nil {
			k := copy(spare, p[n:])
			if err = b.publish(k); err == nil {
				n += k
				continue
			}
		}
		b.mu.Lock()
		if b.failed == nil {
			b.failed = notEOF(err)
		}
		b.mu.Unlock()
		return n, err
	}
	return n, nil
}

// Begin appends a copy of p before there is a reader. If the limit or the budget
// has no room for all of p, it appends nothing; the body is then as good as new,
// and p must be passed to Write once a reader has joined. Begin must be called
// before any Write.
func (b *Body) Begin(p []byte) bool {
	b.mu.Lock()
	fits := !b.over && !b.finished && int64(len(p)) <= b.limit
	b.mu.Unlock()
	if !fits {
		return false
	}
	n := max(int64(len(p)), min(smallChunk, b.limit))
	if b.size >= 0 {
		n = max(int64(len(p)), min(trusted, b.size))
	}
	if !b.take(n) {
		return false
	}
	b.add(make([]byte, 0, n), n)
	spare := b.tail(int64(len(p)))
	return b.publish(copy(spare, p)) == nil
}

// spare returns the space for the next bytes: at least one byte, at most want.
func (b *Body) spare(ctx context.Context, want int) ([]byte, error) {
	for {
		n, wait, err := b.allowance(int64(want))
		if err != nil {
			return nil, err
		}
		patience := time.Duration(0)
		if n > 0 {
			if s := b.tail(n); s != nil {
				return s, nil
			}
			if wait, patience = b.extend(); wait == nil {
				continue
			}
		}
		if err := b.await(ctx, wait, patience); err != nil {
			return nil, err
		}
	}
}

// await waits until wait is closed or ctx ends. If patience is not 0, the wait is
// for slow readers and lasts at most that long.
func (b *Body) await(ctx context.Context, room <-chan struct{}, patience time.Duration) error {
	var enough <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		enough = timer.C
		began := time.Now()
		defer func() {
			b.mu.Lock()
			b.patience = max(0, b.patience-time.Since(began))
			b.mu.Unlock()
		}()
	}
	select {
	case <-room:
	case <-enough:
	case <-ctx.Done():
		return notEOF(wait.Cause(ctx))
	}
	return nil
}

// allowance returns how many of want bytes may be written now, as far as the
// foremost reader is concerned. If none may, it returns a channel to wait for
// before the next call.
func (b *Body) allowance(want int64) (n int64, wait <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return 0, nil, ErrFinished
	}
	if b.end >= b.limit {
		b.over = true
	}
	if !b.over {
		return min(want, b.limit-b.end), nil, nil
	}
	front := b.frontLocked()
	if front < 0 {
		return 0, nil, ErrNobody
	}
	if n = min(want, front+b.window-b.end); n > 0 {
		return n, nil, nil
	}
	return 0, b.roomLocked(), nil
}

// roomLocked returns a channel that is closed when Write may continue. b.mu must
// be held.
func (b *Body) roomLocked() <-chan struct{} {
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return b.room
}

// backLocked returns the position of the hindmost reader that has not fallen
// behind, at most end. b.mu must be held.
func (b *Body) backLocked() int64 {
	back, base := b.end, b.baseLocked()
	for _, r := range b.readers {
		if r.pos >= base {
			back = min(back, r.pos)
		}
	}
	return back
}

// outsideLocked reports whether the first chunk is outside the window of a body
// past the limit. After the end, nothing is in it. b.mu must be held.
func (b *Body) outsideLocked() bool {
	return b.over && len(b.chunks) > 0 && (b.finished || b.chunks[0].end() <= b.end-b.window)
}

// stretchedLocked reports whether the window has grown: the first chunk is outside
// it, and a reader still needs that. b.mu must be held.
func (b *Body) stretchedLocked() bool {
	return b.outsideLocked() && b.backLocked() < b.chunks[0].end()
}

// frontLocked returns the position of the foremost reader, or -1 if there is
// none. Readers that fell behind the window do not count: they read no more, and
// Write would wait for them forever. b.mu must be held.
func (b *Body) frontLocked() int64 {
	if !b.frontStale {
		return b.front
	}
	b.front, b.frontStale = -1, false
	base := b.baseLocked()
	for _, r := range b.readers {
		if r.pos >= base {
			b.front = max(b.front, r.pos)
		}
	}
	return b.front
}

// baseLocked returns the offset of the first byte kept. b.mu must be held.
func (b *Body) baseLocked() int64 {
	if len(b.chunks) == 0 {
		return b.end
	}
	return b.chunks[0].off
}

// tail returns up to n bytes of the spare capacity, or nil if there is none.
func (b *Body) tail(n int64) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.chunks) == 0 {
		return nil
	}
	buf := b.chunks[len(b.chunks)-1].buf
	n = min(n, int64(cap(buf)-len(buf)))
	if n == 0 {
		return nil
	}
	return buf[len(buf) : len(buf)+int(n)]
}

// extend adds spare capacity, or discovers that the body is past the limit. If slow
// readers are in the way, it returns a channel to wait for before the next call, for
// at most patience.
func (b *Body) extend() (wait <-chan struct{}, patience time.Duration) {
	b.mu.Lock()
	over, refused, window, end, stretched := b.over, b.refused, b.window, b.end, b.stretchedLocked()
	b.mu.Unlock()
	switch {
	case stretched:
		n := windowChunk(window)
		if !b.stretch(n) {
			return b.shed(n)
		}
		b.add(make([]byte, 0, n), n)
	case over && refused:
		b.add(make([]byte, 0, windowChunk(window)), 0)
	case over:
		if n := windowChunk(window); b.take(n) {
			b.add(make([]byte, 0, n), n)
		}
	case end < b.size:
		b.grow()
	default:
		n := min(max(end, smallChunk), bigChunk, b.limit-end)
		if b.take(n) {
			b.add(make([]byte, 0, n), n)
		}
	}
	return nil, 0
}

// shed makes room for n bytes in a window that cannot grow: it returns a channel to
// wait for, or, without patience, drops the first chunk and with it the readers that
// need it. The new chunk takes over its share of the budget, so that the other readers
// keep what the window has grown by.
func (b *Body) shed(n int64) (wait <-chan struct{}, patience time.Duration) {
	b.mu.Lock()
	if !b.stretchedLocked() || b.finished {
		b.mu.Unlock()
		return nil, 0 // a reader has moved on in the meantime
	}
	if b.patience > 0 {
		defer b.mu.Unlock()
		return b.roomLocked(), b.patience
	}
	back := b.dropLocked(1)
	if back >= n {
		back -= n
		b.reserved += n
		b.chunks = append(b.chunks, chunk{off: b.end, buf: make([]byte, 0, n), cost: n})
	}
	b.mu.Unlock()
	b.giveBack(back)
	return nil, 0
}

// windowChunk returns the size of chunks in a window: a quarter of it. Chunks
// leave the window as a whole, so no more than a quarter is held beyond it.
func windowChunk(window int64) int64 {
	return min(max(1, window/4), bigChunk)
}

// add appends an empty chunk, unless Finish came in between: then the existing
// chunk may be the slice that Whole returned. Release returns what was reserved
// for the unused chunk.
func (b *Body) add(buf []byte, cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return
	}
	b.chunks = append(b.chunks, chunk{off: b.end, buf: buf, cost: cost})
}

// grow gives the single buffer of a body of known size more capacity. The final
// capacity is exactly that size, but growth follows the bytes that arrive, so a
// large Content-Length alone takes no memory. During the copy, the old buffer
// also exists and is not counted.
func (b *Body) grow() {
	b.mu.Lock()
	var old []byte
	if len(b.chunks) > 0 {
		old = b.chunks[0].buf
	}
	b.mu.Unlock()
	size := min(b.size, max(trusted, growth*int64(len(old))))
	if !b.take(size - int64(len(old))) {
		return
	}
	buf := make([]byte, len(old), size)
	copy(buf, old)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chunks = []chunk{{buf: buf, cost: size}}
}

// publish makes n bytes of the spare capacity part of the body, and drops what is
// now outside the window.
func (b *Body) publish(n int) error {
	b.mu.Lock()
	if b.finished {
		b.mu.Unlock()
		return ErrFinished
	}
	last := &b.chunks[len(b.chunks)-1]
	last.buf = last.buf[:len(last.buf)+n]
	b.end += int64(n)
	back := b.slideLocked()
	b.wakeReadersLocked()
	b.mu.Unlock()
	b.giveBack(back)
	return nil
}

// slideLocked drops the chunks that are entirely outside the window, and returns
// their share of the budget. It keeps those that a reader needs, if the window can
// grow or Write would wait for that reader. The foremost reader is never outside, see
// allowance. b.mu must be held.
func (b *Body) slideLocked() (back int64) {
	if !b.outsideLocked() {
		return 0
	}
	until := b.end - b.window
	if b.finished {
		until = b.end
	}
	if b.finished || b.widen != nil || b.patience > 0 {
		until = min(until, b.backLocked())
	}
	k := 0
	for k < len(b.chunks) && b.chunks[k].end() <= until {
		k++
	}
	return b.dropLocked(k)
}

// dropLocked drops the first k chunks, and returns their share of the budget. b.mu
// must be held.
func (b *Body) dropLocked(k int) (back int64) {
	for i := range b.chunks[:k] {
		back += b.chunks[i].cost
		b.chunks[i] = chunk{}
	}
	b.chunks = b.chunks[k:]
	if b.released {
		return 0 // Release has returned everything
	}
	b.reserved -= back
	return back
}

// take requests n bytes of the budget. If it does not get them, the body is past
// its limit from now on.
func (b *Body) take(n int64) bool {
	if b.reserve == nil || b.request(n, b.reserve) {
		return true
	}
	b.mu.Lock()
	b.over, b.refused = true, true
	b.window = min(b.window, smallWindow)
	b.mu.Unlock()
	return false
}

// stretch requests n bytes of the budget, to keep what is outside the window.
func (b *Body) stretch(n int64) bool { return b.widen != nil && b.request(n, b.widen) }

// request requests n bytes from one of reserve and grow.
func (b *Body) request(n int64, from func(n int64) bool) bool {
	b.mu.Lock()
	released := b.released
	b.mu.Unlock()
	if released || !from(n) {
		return false
	}
	b.mu.Lock()
	released = b.released
	if !released {
		b.reserved += n
	}
	b.mu.Unlock()
	if released {
		b.giveBack(n) // during the request
	}
	return !released
}

// giveBack returns n bytes to the budget.
func (b *Body) giveBack(n int64) {
	if n != 0 && b.reserve != nil {
		b.reserve(-n)
	}
}
