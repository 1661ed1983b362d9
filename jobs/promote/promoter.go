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

// A Promoter wraps a Guard, and turns calls that take too long into jobs. Create one
// with New; it is safe for concurrent use. Until Close it has a goroutine for each
// waiting call, for each load that it keeps running, and for each job that it knows.
type Promoter[K comparable, V any] struct {
	g *weir.Guard[K, V]
	q *jobs.Queue[K, V]
	o Options[K]

	ctx  context.Context // ends at Close, with ErrClosed
	stop context.CancelCauseFunc
	all  sync.WaitGroup // of its goroutines; added to under mu, until closed

	mu       sync.Mutex
	closed   bool                // guarded by mu
	promoted map[K]*promotion[V] // guarded by mu: the ones that may be unfinished
	kept     map[K]*call[V]      // guarded by mu: the ones that keep a load running without a caller
	stats    Stats               // guarded by mu; without Pending and Kept
}

// New returns a Promoter of g's loads, as jobs of q. Use the queue for nothing else,
// and let it keep its results (jobs.QueueOptions.ResultTTL). New returns all faults
// at once, each a [*weir.OptionError].
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

// errLate is the cause of a context whose budget has run out.
var errLate = errors.New("promote: budget exceeded")

// Get calls [Promoter.GetWithin] with Options.Budget.
func (p *Promoter[K, V]) Get(ctx context.Context, key K) (V, *jobs.Handle[V], error) {
	return p.GetWithin(ctx, key, p.o.Budget)
}

// GetWithin returns the Guard's result for key, a value or an error, with a nil
// Handle if it comes within budget. Otherwise it returns no value, and the Handle of
// the job that the call has started or joined. A budget of zero or less means that
// only memory can serve the call.
//
// Its errors are the Guard's, those of Submit, such as jobs.ErrFull, and ErrClosed.
// It returns a [*jobs.JobError] if the call was refused, promoted, and failed as a
// job within the budget. If Submit fails, the load still continues, so a retry may
// succeed.
//
// If ctx ends first, GetWithin returns context.Cause(ctx), and the call is not
// promoted, unless the budget had just run out.
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

// glance returns what the Guard can serve at once, or errLate if it would have to
// load: with a context that has ended, the Guard serves from memory only.
func (p *Promoter[K, V]) glance(ctx context.Context, key K) (V, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, time.Time{}, errLate)
	defer cancel()
	return p.g.Get(ctx, key)
}

// refused reports whether err is a refusal that is promoted.
func (p *Promoter[K, V]) refused(err error) bool {
	return !p.o.Refuse && (errors.Is(err, limit.ErrLimited) || errors.Is(err, weir.ErrStuck))
}

// Stats are counts since New, and two current numbers.
type Stats struct {
	Promoted uint64 // Submits that succeeded
	Shared   uint64 // calls that needed no Submit, because the job was known
	Failed   uint64 // Submits that failed
	Unkept   uint64 // loads not kept running and jobs not remembered because of MaxPromoted

	Pending int // jobs that may be unfinished
	Kept    int // loads that are kept running
}

// Stats returns the counts.
func (p *Promoter[K, V]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Pending, s.Kept = len(p.promoted), len(p.kept)
	return s
}

// Close ends the loads that only the Promoter keeps running. It waits for the
// Promoter's goroutines until ctx ends, and then returns its cause. Calls that are
// waiting return ErrClosed. Later calls of Get do too, unless memory can serve them.
// Jobs and Workers are not affected; close the Workers first. Close can be called
// again.
func (p *Promoter[K, V]) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop(ErrClosed)
	return wait.For(ctx, p.all.Wait)
}
