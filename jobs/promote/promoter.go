package promote

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/wait"
	"github.com/weir-go/weir/limit"
)

// A Promoter stands before a Guard, and makes jobs of the calls that take too
// long. Make one with New; it is safe for concurrent use. It has a goroutine for
// each call that waits, for each load that it keeps going, and for each job that
// it knows of, until Close.
type Promoter[K comparable, V any] struct {
	g *weir.Guard[K, V]
	q *jobs.Queue[K, V]
	o Options[K]

	ctx  context.Context // ends at Close, with ErrClosed
	stop context.CancelCauseFunc
	all  sync.WaitGroup // of its goroutines; added to under mu, unless closed

	mu       sync.Mutex
	closed   bool                // guarded by mu
	promoted map[K]*promotion[V] // guarded by mu: those that are not known to be over
	kept     map[K]*call[V]      // guarded by mu: those that hold a place for nobody
	stats    Stats               // guarded by mu; without its present numbers
}

// New returns a Promoter of g's loads, as jobs of q. The queue should be for
// nothing else, and should keep its results (jobs.QueueOptions.ResultTTL). All
// faults are returned at once, each a [*weir.OptionError].
func New[K comparable, V any](g *weir.Guard[K, V], q *jobs.Queue[K, V], o Options[K]) (*Promoter[K, V], error) {
	o, f := o.withDefaults()
	f.Check(g != nil, "the Guard", "nil", "given")
	f.Check(q != nil, "the Queue", "nil", "given")
	if err := f.Err(); err != nil {
		return nil, err
	}
	p := &Promoter[K, V]{g: g, q: q, o: o, promoted: make(map[K]*promotion[V]), kept: make(map[K]*call[V])}
	p.ctx, p.stop = context.WithCancelCause(context.Background())
	return p, nil
}

// errLate is the cause of a context whose budget is spent.
var errLate = errors.New("promote: the budget is spent")

// Get is [Promoter.GetWithin] with Options.Budget.
func (p *Promoter[K, V]) Get(ctx context.Context, key K) (V, *jobs.Handle[V], error) {
	return p.GetWithin(ctx, key, p.o.Budget)
}

// GetWithin returns the Guard's answer for key if it comes within budget, with a
// nil Handle: a value, or an error. Otherwise it returns the Handle of the job
// that the call has become or joined, and no value. Zero and below: only what
// memory may serve is waited for.
//
// Beside the Guard's errors, and those of Submit, which match jobs.ErrFull and so
// on, it returns ErrClosed, and a [*jobs.JobError] where the call was refused,
// promoted, and has failed as a job within the budget. After a Submit that failed
// the load goes on all the same, so that it may be worth to ask again.
//
// If ctx ends first it returns context.Cause(ctx). Nothing is promoted then,
// unless the budget was spent just before.
func (p *Promoter[K, V]) GetWithin(ctx context.Context, key K, budget time.Duration) (V, *jobs.Handle[V], error) {
	v, err := p.glance(ctx, key)
	if err != errLate {
		return v, nil, err
	}
	within, cancel := context.WithTimeoutCause(ctx, budget, errLate)
	defer cancel()
	c, err := p.ask(ctx, within, key)
	if err != nil {
		return v, nil, err
	}
	select {
	case <-c.done:
	case <-within.Done():
	}
	if v, ok, err := p.answer(c); ok {
		return v, nil, err
	}
	if ctx.Err() != nil {
		c.leave(context.Cause(ctx))
		return v, nil, context.Cause(ctx)
	}
	return p.later(ctx, within, key, c)
}

// glance returns what the Guard answers at once, or errLate if it would have to
// load: in a context that has ended it answers from memory only.
func (p *Promoter[K, V]) glance(ctx context.Context, key K) (V, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, time.Time{}, errLate)
	defer cancel()
	return p.g.Get(ctx, key)
}

// refused reports whether err is a refusal that is promoted.
func (p *Promoter[K, V]) refused(err error) bool {
	return !p.o.Refuse && (errors.Is(err, limit.ErrLimited) || errors.Is(err, weir.ErrStuck))
}

// Stats are counts since New, and two numbers as they stand now.
type Stats struct {
	Promoted uint64 // Submits that succeeded
	Shared   uint64 // calls that needed none, since the job was known
	Failed   uint64 // Submits that failed
	Unkept   uint64 // loads that were not kept going, and jobs not remembered, for MaxPromoted

	Pending int // jobs that are not known to be over
	Kept    int // loads that are kept going
}

// Stats returns the counts.
func (p *Promoter[K, V]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Pending, s.Kept = len(p.promoted), len(p.kept)
	return s
}

// Close leaves the loads that are kept going, which ends those that nobody else
// waits for, and waits for the Promoter's goroutines until ctx ends, and then returns
// its cause. Calls that wait return ErrClosed, and Get does from then on, unless
// memory has the answer. Jobs are not touched, nor are Workers, which are to be closed
// before. It may be called again.
func (p *Promoter[K, V]) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop(ErrClosed)
	return wait.For(ctx, p.all.Wait)
}
