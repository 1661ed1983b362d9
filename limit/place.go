package limit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/lend"
)

// A Place is a caller's place in a limiter's queue. It is for code that queues on
// behalf of callers that come and go, as a Guard does for the callers of one key.
// Pass it to Acquire with [ContextWithPlace]. The zero Place is ready to use, for
// one Acquire at a time. It is safe for concurrent use.
type Place struct {
	// Atomics instead of a mutex, because that would have to be taken both inside
	// and outside the limiter's.
	at    atomic.Pointer[place]
	class atomic.Int32 // class set by Join and Leave before Acquire queues: see pendingClass
	call  *lend.Call   // call of the context passed to ContextWithPlace, or nil; written before Acquire
}

// A place is a waiter and the limiter in whose queue it is, or was.
type place struct {
	in queuer
	w  *waiter
}

// A queuer is a limiter as seen by a Place.
type queuer interface {
	waitFor(w *waiter) (wait time.Duration, queued bool)
	joinAt(w *waiter, left time.Duration, class int) *Error
	leaveAt(w *waiter, class int)
}

// Wait returns the limiter's current estimate of the remaining wait, and reports
// whether the caller is in a queue. It is not before it queues, after it has left,
// or with a Limiter from outside this package.
func (p *Place) Wait() (wait time.Duration, queued bool) {
	at := p.at.Load()
	if at == nil {
		return 0, false
	}
	return at.in.waitFor(at.w)
}

// Join adds a caller that waits at this place until its deadline (zero means
// none). It returns an [*Error] with WaitTooLong, and counts a rejection, if the
// caller cannot be served in time. Otherwise, if the caller's class is higher, the
// place moves to the end of that class; a RateLimiter has only one class. While the
// place is in no queue, Join rejects no caller; if Acquire queues later, it uses the
// class that Join was given.
func (p *Place) Join(deadline time.Time, class Priority) error {
	at := p.at.Load()
	if at == nil {
		// Join and set each write first and then read: one of them sees the other.
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

// Leave reports that a caller has left the place, and that rest is the highest
// class of the remaining callers ([Background] if there are none: the place then
// moves to the lowest class and keeps waiting). The place moves down to that class,
// to the position that it would have if the others had never joined. If Acquire has
// not queued yet, it uses that class when it does.
func (p *Place) Leave(rest Priority) {
	p.updatePending(func(pendingClass) pendingClass { return pendingClass{rest.class(), true} })
	if at := p.at.Load(); at != nil {
		at.in.leaveAt(at.w, rest.class())
	}
}

// Hold reports that the Acquire call to which p was passed has returned permit. While
// the call that holds it waits for other calls, it can lend them the permit: see
// [ContextWithPlace].
func (p *Place) Hold(permit Permit) {
	if p.call != nil {
		p.call.Hold(permit.appendHeld(nil))
	}
}

// A pendingClass is the class requested for a place before it is in a queue: a lower
// bound or, once a caller has left, the exact class.
type pendingClass struct {
	class int // -1: none requested
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

// updatePending changes the requested class.
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

// set records where the caller waits, and returns the class it should have after
// earlier calls of Join and Leave. p may be nil. The mutex of in must be held, so
// that w enters the queue and p at the same time.
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

// placeKey has size zero, so that a lookup allocates nothing.
type placeKey struct{}

// ContextWithPlace returns a copy of ctx with which Acquire keeps p up to date
// while it waits.
//
// If ctx belongs to a call of this module (a Guard's load, a bulk call of package
// batch, a request of weirhttp), Acquire acts on behalf of that call. If another
// call waits for that call, and holds a permit of the same [Concurrency] or
// [Adaptive], Acquire borrows that permit instead of taking another one. A permit is
// lent to one call at a time. It returns to the limiter when the call that holds it
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
