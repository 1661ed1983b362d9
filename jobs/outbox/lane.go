package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A lane relays the rows of one queue, on one goroutine. A lane that has to pause, or
// that waits for a slow submission, does not hold up the others.
type lane struct {
	r         *Relay
	name      string
	o         jobs.QueueOptions
	remembers time.Duration
	wake      chan struct{} // has a buffer of one: signals that arrive together are one

	queues   map[int]*jobs.Queue[[]byte, []byte] // by the version of the input; used by the lane's goroutine only
	answered time.Time                           // when the server last responded; used by the lane's goroutine only
	wasFull  bool                                // the last batch found the queue full; used by the lane's goroutine only
}

const (
	// maxVersions bounds lane.queues. A row of one more version empties it.
	maxVersions = 16
	// answerFor is how long a response of the server counts.
	answerFor = time.Second
)

// raw passes encoded inputs on.
var raw = jobs.Codec[[]byte]{
	Encode: func(b []byte) ([]byte, error) { return b, nil },
	Decode: func(b []byte, _ int) ([]byte, error) { return b, nil },
}

func newLane(ctx context.Context, r *Relay, name string, o jobs.QueueOptions) (*lane, error) {
	l := &lane{r: r, name: name, o: o, wake: make(chan struct{}, 1), queues: make(map[int]*jobs.Queue[[]byte, []byte])}
	if l.o.MaxInput == 0 {
		l.o.MaxInput = jobs.DefaultMaxInput
	}
	q, err := l.queue(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	l.remembers = q.Remembers()
	return l, nil
}

// queue returns the queue that submits inputs of a version.
func (l *lane) queue(ctx context.Context, version int) (*jobs.Queue[[]byte, []byte], error) {
	if q := l.queues[version]; q != nil {
		return q, nil
	}
	o := l.o
	o.Version = version
	q, err := jobs.NewQueue[[]byte, []byte](ctx, l.r.store, l.name, o)
	if err != nil {
		return nil, err
	}
	if len(l.queues) >= maxVersions {
		clear(l.queues)
	}
	q = q.WithCodecs(raw, raw)
	l.queues[version] = q
	return q, nil
}

func (l *lane) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default: // a signal is waiting already
	}
}

// run relays rows until ctx ends. While rows are found, batch follows batch. Then the
// waits double from MinPoll to Poll; a notification starts them over. They also double
// while something fails, but a notification does not shorten those.
func (l *lane) run(ctx context.Context) {
	wait := l.r.o.MinPoll
	for ctx.Err() == nil {
		found, pause, err := l.batch(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.r.trouble(ctx, l.name, "", err)
			sleep(ctx, wait, nil)
			wait = min(2*wait, l.r.o.Poll)
		case pause > 0:
			sleep(ctx, pause, nil)
			wait = l.r.o.MinPoll
		case found > 0:
			wait = l.r.o.MinPoll
		case sleep(ctx, wait, l.wake):
			wait = l.r.o.MinPoll
		default:
			wait = min(2*wait, l.r.o.Poll)
		}
	}
}

// batch claims rows, submits them, and deletes the rows of the jobs. It returns how many
// rows it found, and for how long the queue has to pause because it is full.
//
// Claim and deletion are two transactions, and none is open during the submissions. A
// server that is slow therefore holds no row lock and no snapshot in PostgreSQL. The
// row's ID makes every order of crashes safe:
//
//	relay A   claims the row: tried_at is set, and committed
//	relay A   is killed: before the submission, after it, or after the deletion
//	          committed, if the response was lost
//	relay B   finds the claim expired, and claims the row
//	relay B   submits it under the same ID: a new job, or the one that A submitted
//	relay B   deletes the row
//
// The window that remains: the job ran, and was forgotten, before B's submission. From
// tried_at B knows that A could have submitted the row, and how long ago; see doubtful.
//
//	relay A   claims the row, and is paused (SIGSTOP) until its claim has expired
//	relay B   claims, submits and deletes the row
//	relay A   goes on: its own deadline has passed, so it submits nothing more
//	relay A   its deletion names its claim, which no row has: it deletes nothing
func (l *lane) batch(ctx context.Context) (found int, pause time.Duration, err error) {
	// A server that does not respond is noticed before the claim if possible. Otherwise
	// all rows of the batch would count as tried.
	if time.Since(l.answered) > answerFor {
		if err := l.r.store.Ping(ctx); err != nil {
			return 0, 0, err
		}
		l.answered = time.Now()
	}
	b, err := l.claim(ctx)
	if err != nil {
		return 0, 0, err
	}
	if len(b.rows) == 0 {
		l.r.counts.polled.Add(1)
		return 0, 0, nil
	}
	l.r.counts.claimed.Add(uint64(len(b.rows)))
	b.submit(ctx)
	l.wasFull = b.pause > 0
	err = b.finish(ctx)
	if b.err != nil {
		l.answered = time.Time{}
		if err == nil {
			err = b.err
		}
	}
	if b.pause = min(b.pause, l.r.o.Poll); b.pause > 0 {
		l.r.event(ctx, Event{Kind: EventPaused, Queue: l.name, RetryAfter: b.pause, Err: b.full})
	}
	return len(b.rows), b.pause, err
}
