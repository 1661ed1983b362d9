package stream

import (
	"context"
	"time"
)

const (
	smallChunk  = 4 << 10  // the first of a body whose size is not known
	bigChunk    = 64 << 10 // no chunk of such a body is bigger
	smallWindow = 64 << 10 // the widest window that is not counted
	trusted     = 64 << 10 // up to here a Content-Length gets its buffer at once
	growth      = 4        // by this factor the buffer grows after that
)

// A chunk is a piece of the body. Its buffer is appended to within its capacity
// and nothing in it changes after that, so any holder of a slice of what was
// written may read it without the lock, even when the chunk is long gone. The
// buffer of a chunk is never used again for that reason.
//
// The writer copies into the spare capacity without the lock, where nobody
// looks, and moves the end of buf under it.
type chunk struct {
	off  int64 // of its first byte in the body
	buf  []byte
	cost int64 // that it has of the budget
}

// Write appends a copy of p. Up to the limit it never waits. Past it, it waits
// while the reader that is ahead of all others is the window behind or more: so
// a sole reader gets back-pressure, and a laggard among several loses its place,
// once Options.Patience is used up.
// What Next has returned counts as read. ctx ends the wait with its cause. It
// returns ErrNobody past the limit when there is no reader, also when the last
// one leaves while it waits. With an error it says how much was appended.
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

// Begin appends a copy of p before there is a reader: all of it, or nothing if the
// limit or the budget has no room for that. Then the body is as good as new, and p
// goes to Write once somebody has joined. It is called before any Write.
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

// spare returns where the next bytes go: at least one, at most want.
func (b *Body) spare(ctx context.Context, want int) ([]byte, error) {
	for {
		n, wait, patience, err := b.allowance(int64(want))
		if err != nil {
			return nil, err
		}
		if n > 0 {
			if s := b.tail(n); s != nil {
				return s, nil
			}
			b.extend()
			continue
		}
		if err := b.await(ctx, wait, patience); err != nil {
			return nil, err
		}
	}
}

// await waits until wait is closed or ctx ends. With patience it is for laggards
// that it waits, and no longer than that.
func (b *Body) await(ctx context.Context, wait <-chan struct{}, patience time.Duration) error {
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
	case <-wait:
	case <-enough:
	case <-ctx.Done():
		return notEOF(context.Cause(ctx))
	}
	return nil
}

// allowance says how many of want bytes may be written now, or if none may,
// what to wait for before asking again, and with patience for how long: then it
// is laggards that are in the way.
func (b *Body) allowance(want int64) (n int64, wait <-chan struct{}, patience time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return 0, nil, 0, ErrFinished
	}
	if b.end >= b.limit {
		b.over = true
	}
	if !b.over {
		return min(want, b.limit-b.end), nil, 0, nil
	}
	front := b.frontLocked()
	if front < 0 {
		return 0, nil, 0, ErrNobody
	}
	n = min(want, front+b.window-b.end)
	if n > 0 && b.patience > 0 {
		if n = min(n, b.backLocked(front)+b.window-b.end); n <= 0 {
			patience = b.patience
		}
	}
	if n > 0 {
		return n, nil, 0, nil
	}
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return 0, b.room, patience, nil
}

// backLocked returns how far the last reader is that has not fallen out of the
// window, at most front. b.mu must be held.
func (b *Body) backLocked(front int64) int64 {
	base := b.baseLocked()
	for _, r := range b.readers {
		if r.pos >= base {
			front = min(front, r.pos)
		}
	}
	return front
}

// frontLocked returns how far the foremost reader is, -1 if there is none.
// Readers that fell out of the window do not count: they read no more, and
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

// baseLocked returns the offset of the first byte that is kept. b.mu must be
// held.
func (b *Body) baseLocked() int64 {
	if len(b.chunks) == 0 {
		return 0
	}
	return b.chunks[0].off
}

// tail returns up to n bytes of the spare capacity, nil if there is none.
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

// extend makes spare capacity, or finds that the body is past the limit.
func (b *Body) extend() {
	b.mu.Lock()
	over, refused, window, end := b.over, b.refused, b.window, b.end
	b.mu.Unlock()
	switch {
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
}

// windowChunk is the size of chunks in a window: a quarter, as whole chunks
// leave it, so that no more than that is held beyond it.
func windowChunk(window int64) int64 {
	return min(max(1, window/4), bigChunk)
}

// add appends an empty chunk, unless Finish came in between: what Whole returns
// is the one chunk then. What was reserved for it is given back by Release.
func (b *Body) add(buf []byte, cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return
	}
	b.chunks = append(b.chunks, chunk{off: b.end, buf: buf, cost: cost})
}

// grow gives the one buffer of a body of known size more capacity. It ends at
// exactly that size, and follows what really comes: a header that promises much
// takes no memory. While it copies, the old buffer is there too, uncounted.
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

// publish makes n bytes of the spare capacity part of the body, and drops what
// is now outside of the window.
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

// slideLocked drops the chunks that are wholly outside of the window, and
// returns what they had of the budget. The foremost reader is never outside,
// see allowance. b.mu must be held.
func (b *Body) slideLocked() (back int64) {
	if !b.over {
		return 0
	}
	k := 0
	for ; k < len(b.chunks); k++ {
		c := &b.chunks[k]
		if c.off+int64(len(c.buf)) > b.end-b.window {
			break
		}
		back += c.cost
		*c = chunk{}
	}
	b.chunks = b.chunks[k:]
	if b.released {
		return 0 // Release has given back everything
	}
	b.reserved -= back
	return back
}

// take asks for n bytes of the budget. If there are none, the body is past its
// limit from now on.
func (b *Body) take(n int64) bool {
	if b.reserve == nil {
		return true
	}
	b.mu.Lock()
	released := b.released
	b.mu.Unlock()
	got := !released && b.reserve(n)
	b.mu.Lock()
	if got && !b.released {
		b.reserved += n
		b.mu.Unlock()
		return true
	}
	b.over, b.refused = true, true
	b.window = min(b.window, smallWindow)
	b.mu.Unlock()
	if got {
		b.reserve(-n) // released while we asked
	}
	return false
}

// giveBack returns n bytes to the budget.
func (b *Body) giveBack(n int64) {
	if n != 0 && b.reserve != nil {
		b.reserve(-n)
	}
}
