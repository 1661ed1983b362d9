package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A Relay submits the rows of a Table as jobs, and deletes them. Any number of relays,
// in any number of processes, can share a table. It is safe for concurrent use.
type Relay struct {
	t     *Table
	store *jobs.Store
	o     RelayOptions
	lanes map[string]*lane // by queue; not changed after NewRelay

	counts counters
	done   chan struct{} // closed when Run has returned

	mu     sync.Mutex
	stop   context.CancelCauseFunc // guarded by mu; nil before Run
	closed bool                    // guarded by mu
}

// NewRelay returns a Relay, which Run starts. It opens the queues on the store, and
// checks the version of the table. The caller keeps the table's database and the store,
// which must outlive Run. A batch needs one connection of the database at a time for
// each queue.
func NewRelay(ctx context.Context, t *Table, store *jobs.Store, o RelayOptions) (*Relay, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	version, err := tableVersion(ctx, t.db, t.schema)
	if err != nil {
		return nil, fmt.Errorf("outbox: version of the table: %w", err)
	}
	if version < tableRequired {
		return nil, fmt.Errorf("%w: it has version %d; this program requires %d", ErrNotMigrated, version, tableRequired)
	}
	r := &Relay{t: t, store: store, o: o, lanes: make(map[string]*lane), done: make(chan struct{})}
	f := newFaults("RelayOptions.")
	for _, name := range slices.Sorted(maps.Keys(o.Queues)) {
		l, err := newLane(ctx, r, name, o.Queues[name])
		if err != nil {
			return nil, err
		}
		f.Check(o.Lease <= l.remembers/2, "Lease", o.Lease,
			fmt.Sprintf("at most half of the %v for which queue %q remembers its jobs", l.remembers, name))
		r.lanes[name] = l
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// tableRequired is the lowest version of the table that this package can work with.
const tableRequired = 1

// Run submits rows until ctx ends or Close is called. It returns nil after Close,
// otherwise ctx's cause. Failures of PostgreSQL and of the server do not end it: it
// tries again, and reports them to the Observer. When it returns, its goroutines have
// ended, and no row that it did not submit is still claimed, unless PostgreSQL did not
// respond. That can take RelayOptions.Lease. Run can be called once.
func (r *Relay) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	switch {
	case r.closed:
		r.mu.Unlock()
		return ErrClosed
	case r.stop != nil:
		r.mu.Unlock()
		return ErrRunning
	}
	r.stop = stop
	r.mu.Unlock()
	defer close(r.done)

	var running sync.WaitGroup
	for _, l := range r.lanes {
		running.Go(func() { l.run(ctx) })
	}
	if r.o.Listen != nil {
		running.Go(func() { r.listen(ctx) })
	}
	if r.o.UnknownAfter >= 0 {
		running.Go(func() { r.parkUnknown(ctx) })
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// Close ends Run and waits until it has returned. If ctx ends first, Close returns its
// cause, and Run still ends. Close can be called again, and before Run.
func (r *Relay) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	stop := r.stop
	r.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop(ErrClosed)
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}

// Wake makes the Relay look for rows of a queue at once; of all queues if it does not
// have that queue. A program that enqueues and relays can call it after a commit,
// instead of a Listener.
func (r *Relay) Wake(queue string) {
	if l := r.lanes[queue]; l != nil {
		l.wakeUp()
		return
	}
	for _, l := range r.lanes {
		l.wakeUp()
	}
}

// AdviceRemembers is the time below which Advice mentions what a queue remembers.
const AdviceRemembers = time.Hour

// Advice names the queues that forget their finished jobs in less than AdviceRemembers.
// If all relays are killed and stay away for longer than that, the rows that they had
// claimed are doubtful, see the package comment.
func (r *Relay) Advice() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.lanes)) {
		if l := r.lanes[name]; l.remembers < AdviceRemembers {
			what := "parked"
			if r.o.ResubmitDoubtful {
				what = "submitted again"
			}
			all = append(all, fmt.Sprintf("queue %q remembers its jobs for %v after their end: rows that a killed relay had claimed are %s if no relay looks at them for longer; a ResultTTL and a DeadTTL of %v or more avoid that",
				name, l.remembers, what, AdviceRemembers))
		}
	}
	return all
}

// sleep waits for d, for a signal on wake (nil: none), or for the end of ctx. It
// reports whether it was woken.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-wake:
		return true
	}
	return false
}
