package limit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/lend"
)

// A Place is where a caller stands in a limiter's queue. It is for code that
// queues on behalf of others that come and go, as a Guard does for the callers
// of one key. Hand it to Acquire with [ContextWithPlace]. The zero Place is
// ready to use, for one Acquire at a time. It is safe for concurrent use.
type Place struct {
	// Atomics, not a mutex, which would have to be taken both under and around
	// a limiter's.
	at    atomic.Pointer[place]
	class atomic.Int32 // what Join and Leave have said before there was a queue: see pendingClass
	call  *lend.Call   // of the context that the Place was put into, or nil; written before Acquire
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
	leaveAt(w *waiter, class int)
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

// Leave says that one of the callers behind the place has left, and that rest is the
// highest class of those that stay ([Background] if there are none: then the place
// is moved to the lowest class, and keeps waiting). The place is moved down to
// that class, to where it would be if the others had never come. Where nothing
// is queued yet, the class counts once Acquire has come so far.
func (p *Place) Leave(rest Priority) {
	p.updatePending(func(pendingClass) pendingClass { return pendingClass{rest.class(), true} })
	if at := p.at.Load(); at != nil {
		at.in.leaveAt(at.w, rest.class())
	}
}

// Hold says that the Acquire which p was handed to has returned permit. While
// the call under it waits for other calls it may lend them the permit: see
// [ContextWithPlace].
func (p *Place) Hold(permit Permit) {
	if p.call != nil {
		p.call.Hold(permit.appendHeld(nil))
	}
}

// A pendingClass is the class asked for a place before there is a queue: at least a class,
// or, once somebody has left, exactly that class.
type pendingClass struct {
	class int // -1: nothing
	exact bool
}

func pendingClassOf(n int32) pendingClass {
	if n < 0 {
		return pendingClass{int(-n) - 1, true}
	}
	return pendingClass{int(n) - 1, false}
}

func (w pendingClass) number() int32 {
	if w.exact {
		return -int32(w.class + 1)
	}
	return int32(w.class + 1)
}

// updatePending changes the class asked for.
func (p *Place) updatePending(change func(pendingClass) pendingClass) {
	for {
		old := p.class.Load()
		if p.class.CompareAndSwap(old, change(pendingClassOf(old)).number()) {
			return
		}
	}
}

func (p *Place) raise(class Priority) {
	p.updatePending(func(w pendingClass) pendingClass { return pendingClass{max(w.class, class.class()), w.exact} })
}

// set notes where the caller waits, and returns the class that it is to have, by
// what has been said before. p may be nil. The mutex of in must be held, so that
// w is in the queue and in p at once.
func (p *Place) set(in queuer, w *waiter) (class int) {
	if p == nil {
		return w.class
	}
	p.at.Store(&place{in, w})
	asked := pendingClassOf(p.class.Load())
	if asked.exact {
		return asked.class
	}
	return max(w.class, asked.class)
}

// placeKey is of size zero, so that a look-up allocates nothing.
type placeKey struct{}

// ContextWithPlace returns a copy of ctx with which Acquire keeps p up to date
// while it waits.
//
// Where ctx is that of a call of this module (a Guard's load, a bulk call of
// package batch, a request of weirhttp), Acquire asks on behalf of that call. If
// another call waits for it, and holds a permit of the same [Concurrency] or
// [Adaptive], that permit is lent to it, before and in place of one more. A permit
// is lent to one call at a time. It comes back to the limiter when its own call
// and the borrower have both ended.
func ContextWithPlace(ctx context.Context, p *Place) context.Context {
	if p != nil {
		p.call = lend.From(ctx)
	}
	return context.WithValue(ctx, placeKey{}, p)
}

func placeOf(ctx context.Context) *Place {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p
}
