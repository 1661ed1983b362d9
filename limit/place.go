package limit

import (
	"context"
	"sync/atomic"
	"time"
)

// A Place is where a caller stands in a limiter's queue. It is for those who
// queue on behalf of others that come and go, as a Guard does for the callers
// of one key. Hand it to Acquire with [ContextWithPlace]. The zero Place is
// ready to use, for one Acquire at a time. It is safe for concurrent use.
type Place struct {
	// Atomics, not a mutex, which would have to be taken both under and around
	// a limiter's.
	at    atomic.Pointer[place]
	class atomic.Int32 // 1 + the highest class that joined before there was a queue
}

// A place is a waiter and the limiter in whose queue it is, or was.
type place struct {
	in queuer
	w  *waiter
}

// A queuer can tell about its waiters.
type queuer interface {
	waitFor(w *waiter) (wait time.Duration, queued bool)
	joinAt(w *waiter, left time.Duration, class int) *Error
}

// Wait returns the time that is left, as the limiter estimates it now, and
// whether the caller is in a queue at all: not before, not after, and never
// with a Limiter from outside this package.
func (p *Place) Wait() (wait time.Duration, queued bool) {
	at := p.at.Load()
	if at == nil {
		return 0, false
	}
	return at.in.waitFor(at.w)
}

// Join is for one more caller that is to wait along, until its deadline (zero:
// it has none). It returns an [*Error] with WaitTooLong if the caller cannot
// be served in time, and counts that as a refusal. Else the place is moved up
// to the end of the class of the caller, if that is higher; a RateLimiter has
// one class for all. Where nothing is queued nothing is refused; if that is so
// because Acquire has not come so far, the class counts once it has.
func (p *Place) Join(deadline time.Time, class Priority) error {
	at := p.at.Load()
	if at == nil {
		// Either this look or that of set sees what the other has written.
		p.raise(class)
		if at = p.at.Load(); at == nil {
			return nil
		}
	}
	left := forever
	if !deadline.IsZero() {
		left = time.Until(deadline)
	}
	if err := at.in.joinAt(at.w, left, class.class()); err != nil {
		return err
	}
	return nil
}

func (p *Place) raise(class Priority) {
	c := int32(1 + class.class())
	for old := p.class.Load(); old < c && !p.class.CompareAndSwap(old, c); old = p.class.Load() {
	}
}

// set notes where the caller waits, and returns the highest class that has
// joined it before, -1 if there is none. p may be nil. The mutex of in must be
// held, so that w is in the queue and in p at once.
func (p *Place) set(in queuer, w *waiter) (class int) {
	if p == nil {
		return -1
	}
	p.at.Store(&place{in, w})
	return int(p.class.Load()) - 1
}

// placeKey is of size zero, so that a look-up allocates nothing.
type placeKey struct{}

// ContextWithPlace returns a copy of ctx with which Acquire keeps p up to date
// while it waits.
func ContextWithPlace(ctx context.Context, p *Place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

func placeOf(ctx context.Context) *Place {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p
}
