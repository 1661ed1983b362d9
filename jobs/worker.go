package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A Handler computes an Out from a job's input. Each run has its own
// goroutine, and several jobs run concurrently. A Handler runs at least once for each
// job: if a worker dies, another attempt follows. To make its effects safe to repeat, pass the job's ID, or its
// Fence, to the target. Later attempts have higher fences, so the target can reject a
// late one.
//
// It must respect ctx, which ends when the job is canceled (ErrCanceled), when
// another attempt may have started (ErrLeaseLost), after AttemptTimeout (ErrTimeout),
// and when the Worker has no time left (ErrStopping); context.Cause returns which. A
// panic counts as an error, and is retried like others.
type Handler[In, Out any] func(ctx context.Context, job *Job[In]) (Out, error)

// A Job is one attempt of a job, as passed to its handler.
type Job[In any] struct {
	ID, Queue  string            // ID of the job, and the name of its queue
	Key, Owner string            // SubmitOptions.Key and Owner
	Headers    map[string]string // a copy of SubmitOptions.Headers; nil: none
	Input      In                // decoded input
	Attempt    int               // from 1; snoozed ones are included
	Snoozes    int               // how often the handler has returned Snooze for this job
	Fence      uint64            // number of the attempt; no other attempt has it
	Submitted  time.Time         // time on the server's clock

	attempt *attempt
}

// MinProgress is the shortest interval between two stored reports of Job.Progress.
const MinProgress = 200 * time.Millisecond

// Progress reports how far the attempt is. It does not block. The latest report is
// stored for Status, at most one every MinProgress, and with the outcome. After the
// attempt is over it does nothing. It is safe for concurrent use.
func (j *Job[In]) Progress(p Progress) {
	if j.attempt != nil {
		j.attempt.report(p)
	}
}

// A Worker runs a handler for the jobs of a queue, until Close. It is safe for
// concurrent use.
type Worker struct {
	queue    *queue
	o        WorkerOptions
	consumer jetstream.Consumer
	handle   func(ctx context.Context, a *attempt) ([]byte, error)

	slots    chan struct{} // a free slot each; Concurrency in all
	stopping context.Context
	stop     context.CancelFunc // take no more jobs
	hurry    context.Context
	end      context.CancelCauseFunc // end what is running
	pulling  sync.WaitGroup          // goroutines that take jobs, and the attempts
	unhear   func()
	unfree   func()
	lots     lots

	mu       sync.Mutex
	round    time.Time           // guarded by mu; when the open requests expire
	attempts map[string]*attempt // guarded by mu; by job ID
	stats    WorkerStats         // guarded by mu
}

// Work starts a Worker, and returns once the server knows the queue. Its errors are
// those of the options, and ErrUnavailable. If the server becomes unavailable, the
// Worker reports EventTrouble and retries until it is closed. A queue can have any
// number of Workers, in any number of programs.
func (q *Queue[In, Out]) Work(h Handler[In, Out], o WorkerOptions) (*Worker, error) {
	orDefault(&o.Concurrency, DefaultConcurrency)
	orDefault(&o.Name, workerName())
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx := context.Background() // the journal has a timeout
	c, err := q.store.journal.Consumer(ctx, q.name, q.o.Lease)
	if err != nil {
		return nil, fmt.Errorf("jobs: queue %q: %w", q.name, outward(ctx, err))
	}
	w := &Worker{
		queue: q.queue, o: o, consumer: c, handle: handler(q, through(o.Middleware, h)),
		slots: make(chan struct{}, o.Concurrency), attempts: make(map[string]*attempt),
	}
	w.stopping, w.stop = context.WithCancel(context.Background())
	w.hurry, w.end = context.WithCancelCause(context.Background())
	if w.unhear, err = q.store.journal.Canceled(q.name, w.canceled); err != nil {
		return nil, fmt.Errorf("jobs: queue %q: %w", q.name, outward(ctx, err))
	}
	if w.unfree, err = q.store.journal.Freed(q.name, w.freed); err != nil {
		w.unhear()
		return nil, fmt.Errorf("jobs: queue %q: %w", q.name, outward(ctx, err))
	}
	for range o.Concurrency {
		w.slots <- struct{}{}
	}
	q.store.employ(w)
	w.pulling.Go(w.pull)
	return w, nil
}

func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// handler wraps h in a function that does not depend on the types: it decodes the
// input, calls h and encodes the result.
func handler[In, Out any](q *Queue[In, Out], h Handler[In, Out]) func(context.Context, *attempt) ([]byte, error) {
	return func(ctx context.Context, a *attempt) ([]byte, error) {
		in, err := q.in.Decode(a.input, a.Version)
		if err != nil {
			return nil, &undecodable{a.Version, err}
		}
		out, err := h(ctx, &Job[In]{
			ID: a.id, Queue: q.name, Key: a.Key, Owner: a.Owner, Headers: maps.Clone(a.Headers), Input: in,
			Attempt: a.Attempt, Snoozes: a.Snoozes, Fence: a.fence, Submitted: a.Submitted, attempt: a,
		})
		if err != nil {
			return nil, err
		}
		data, err := q.out.Encode(out)
		switch {
		case err != nil:
			return nil, Permanent(fmt.Errorf("encoding the result: %w", err))
		case len(data) > q.o.MaxResult:
			return nil, Permanent(fmt.Errorf("%w: the result has %d bytes; queue %q accepts %d", ErrTooLarge, len(data), q.name, q.o.MaxResult))
		}
		return data, nil
	}
}

const (
	// maxFetch bounds the number of jobs per request to the server.
	maxFetch = 256
	// fetchWait is how long, on average, the server keeps a request open. An idle
	// Worker sends requests at this interval, and takes that long to stop.
	fetchWait = time.Second
	// gatherWait bounds how far apart the responses of requests arrive that expire
	// together.
	gatherWait = 5 * time.Millisecond
	// A Worker with manySlots waits slotWait for more free slots if fewer than a quarter
	// of them are free: a request for one job costs the server and the Worker as much as
	// one for a hundred. The slots of an idle Worker are all in open requests.
	manySlots = 64
	slotWait  = time.Millisecond
	// afterTrouble is the pause after a failed request to the server.
	afterTrouble = 200 * time.Millisecond
)

// pull requests as many jobs as there are free slots. An open request keeps its
// slots; slots that become free go into the next request.
func (w *Worker) pull() {
	for {
		select {
		case <-w.stopping.Done():
			return
		case <-w.slots:
		}
		w.gather()
		n := w.freeSlots(1)
		if w.o.Concurrency >= manySlots && n < w.o.Concurrency/4 {
			time.Sleep(slotWait)
			n = w.freeSlots(n)
		}
		w.pulling.Go(func() { w.fetch(n) })
	}
}

// freeSlots takes the free slots for a request that has n of them already.
func (w *Worker) freeSlots(n int) int {
	for n < maxFetch {
		select {
		case <-w.slots:
			n++
		default:
			return n
		}
	}
	return n
}

// fetch takes up to n jobs, and frees the slots of those that did not come.
func (w *Worker) fetch(n int) {
	batch, err := w.consumer.Fetch(n, jetstream.FetchMaxWait(w.rest()))
	if err == nil {
		for m := range batch.Messages() {
			n--
			if !w.start(m) {
				w.pulling.Go(func() {
					defer w.free(1)
					w.take(m)
				})
			}
		}
		err = batch.Error()
	}
	if err != nil && !errors.Is(err, jetstream.ErrNoMessages) {
		w.event(w.hurry, Event{Kind: EventTrouble, Err: err})
		select {
		case <-w.stopping.Done():
		case <-time.After(afterTrouble):
		}
	}
	w.free(n)
}

// rest is how long a request can stay open. All open requests expire together, so
// that their slots are combined into one request again. Otherwise one Worker with
// many requests would get all jobs, because the server serves the oldest request
// first. The time is random, so that Workers do not get into a fixed order either.
func (w *Worker) rest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.round.Sub(now) < fetchWait/20 {
		w.round = now.Add(fetchWait/2 + rand.N(fetchWait))
	}
	return w.round.Sub(now)
}

// gather waits for the slots of all open requests if these are expiring now. The
// slots come back a moment apart, and without the wait each would stay in a separate
// request from then on.
func (w *Worker) gather() {
	w.mu.Lock()
	d := time.Until(w.round.Add(gatherWait))
	w.mu.Unlock()
	if 0 < d && d < 2*gatherWait {
		time.Sleep(d)
	}
}

func (w *Worker) free(n int) {
	for range n {
		w.slots <- struct{}{}
	}
}

// Close takes no more jobs, and waits for the running ones. When ctx ends, it ends
// their contexts with ErrStopping, waits another second, and hands the remaining jobs
// back, so that other workers can take them at once. It returns nil if all jobs have
// finished, otherwise ctx's cause. A Worker with an open request to the server waits
// for its response, up to a second. Close can be called again. It does not wait
// longer for a handler that does not return.
func (w *Worker) Close(ctx context.Context) error {
	w.stop()
	done := make(chan struct{})
	go func() { // ends with the attempts, which end soon after hurry
		w.pulling.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = cmp.Or(context.Cause(ctx), context.Canceled)
		w.end(ErrStopping)
		<-done
	}
	w.unhear()
	w.unfree()
	w.queue.store.dismiss(w)
	return err
}

// canceled ends the attempt of a canceled job, if this Worker runs one.
func (w *Worker) canceled(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.attempts[id]; a != nil {
		// Check the job first: the message may be late, and about an earlier run of
		// the job. Go is called under the lock because Close waits for an attempt
		// until it has left the map.
		w.pulling.Go(func() { a.ours(w.hurry, time.Now().Add(w.queue.o.Lease)) })
	}
}

// WorkerStats count events since the Worker was started.
type WorkerStats struct {
	Running                                                          int    // handlers that run now
	Started, Succeeded, Retried, Ended, HandedBack, Dropped, Trouble uint64 // attempts, and Trouble: operations of the server that failed
	Failed, Dead                                                     uint64 // the parts of Ended that failed, or died
	Snoozed                                                          uint64 // attempts that asked to run again later
	Parked                                                           uint64 // handed back to wait for a KeyLimit or a Serial
}

// With returns the sums of s and o.
func (s WorkerStats) With(o WorkerStats) WorkerStats {
	return WorkerStats{
		Running: s.Running + o.Running,
		Started: s.Started + o.Started, Succeeded: s.Succeeded + o.Succeeded, Retried: s.Retried + o.Retried,
		Ended: s.Ended + o.Ended, HandedBack: s.HandedBack + o.HandedBack, Dropped: s.Dropped + o.Dropped,
		Trouble: s.Trouble + o.Trouble, Failed: s.Failed + o.Failed, Dead: s.Dead + o.Dead,
		Snoozed: s.Snoozed + o.Snoozed, Parked: s.Parked + o.Parked,
	}
}

// WorkerStats returns the sums over all Workers of this Store, including closed ones,
// by queue.
func (s *Store) WorkerStats() map[string]WorkerStats {
	s.mu.Lock()
	all := maps.Clone(s.past)
	workers := slices.Collect(maps.Keys(s.workers))
	s.mu.Unlock()
	for _, w := range workers {
		all[w.queue.name] = all[w.queue.name].With(w.Stats())
	}
	return all
}

// employ registers a Worker that has started, and dismiss removes one that was
// closed.
func (s *Store) employ(w *Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers[w] = true
}

func (s *Store) dismiss(w *Worker) {
	last := w.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers[w] {
		s.past[w.queue.name] = s.past[w.queue.name].With(last)
		delete(s.workers, w)
	}
}

// Stats returns the counts.
func (w *Worker) Stats() WorkerStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Running = len(w.attempts)
	return s
}
