package limit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// A script decides what a history does next. It is random bytes or the fuzzer's
// input. At its end, next returns 0.
type script []byte

func randomScript(seed uint64) script {
	s := make(script, 600)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(s)
	return s
}

func (s *script) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

// span returns a duration of up to a few seconds, with odd low digits so that few
// instants coincide.
func (s *script) span() time.Duration {
	return time.Duration(1+s.next(256)) * 13_000_117
}

// A fate is the state of a caller.
type fate int

const (
	waiting fate = iota
	in           // has a permit
	out          // has released it
	gone         // its context ended
	no           // rejected
)

func (f fate) String() string { return [...]string{"waiting", "in", "out", "gone", "refused"}[f] }

// A caller is one Acquire, in the model and in reality.
type caller struct {
	call  *call
	place limit.Place
	class limit.Priority // the highest one it had in the queue
	units int
	plain bool      // from TryAcquire: it cannot be settled
	until time.Time // in the queue; zero: forever

	want     fate
	reason   limit.Reason // with no
	arrived  time.Time
	deadline time.Time // zero if none
	granted  time.Time // with in
}

// An acquirer is a limiter with AcquireN.
type acquirer interface {
	AcquireN(ctx context.Context, n int) (limit.Permit, error)
}

// units is a Limiter that acquires n units.
type units struct {
	acquirer
	n int
}

func (u units) Acquire(ctx context.Context) (limit.Permit, error) { return u.AcquireN(ctx, u.n) }

// join returns a caller that acquires n units from l with deadline d from now, or
// without a deadline if d is 0.
func join(t *testing.T, l acquirer, ctx context.Context, d time.Duration, n int) *caller {
	now := time.Now()
	c := &caller{arrived: now, units: n}
	if d > 0 {
		c.deadline = now.Add(d)
		bounded, cancel := context.WithTimeout(ctx, d)
		t.Cleanup(cancel)
		ctx = bounded
	}
	c.call = start(units{l, n}, limit.ContextWithPlace(ctx, &c.place))
	return c
}

// tried returns a caller with the result of TryAcquire.
func tried(p limit.Permit, err error) *caller {
	c := &caller{arrived: time.Now(), units: 1, plain: true, call: &call{permit: p, err: err}}
	c.call.back.Store(true)
	return c
}

// is returns the actual state of c.
func (c *caller) is() (fate, limit.Reason) {
	var e *limit.Error
	switch {
	case !c.call.back.Load():
		return waiting, 0
	case c.call.err == nil && c.want == out:
		return out, 0
	case c.call.err == nil:
		return in, 0
	case errors.As(c.call.err, &e):
		return no, e.Reason
	case errors.Is(c.call.err, errGone), errors.Is(c.call.err, context.DeadlineExceeded):
		return gone, 0
	}
	return -1, 0
}

// compare checks every caller against the model.
func compare(t *testing.T, step int, callers []*caller) {
	t.Helper()
	synctest.Wait()
	for i, c := range callers {
		if is, reason := c.is(); is != c.want || reason != c.reason {
			var err error
			if is != waiting {
				err = c.call.err
			}
			t.Fatalf("step %d, caller %d of %d: %v (%v, error %v); want %v (%v)",
				step, i, len(callers), is, reason, err, c.want, c.reason)
		}
	}
}

// pick returns one of the callers whose state in the model is f, or nil if there is
// none.
func (s *script) pick(callers []*caller, f fate) *caller {
	var some []*caller
	for _, c := range callers {
		if c.want == f {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[s.next(len(some))]
}
