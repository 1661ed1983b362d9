package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs/internal/journal"
	"github.com/weir-go/weir/limit"
)

// A delivery is a work item that the server has handed to this Worker.
type delivery struct {
	w    *Worker
	m    jetstream.Msg
	work *journal.Message
	*life
}

// take processes one work item.
//
//  1. The item is checked: is it for this version, due, and not too late?
//  2. On a first delivery the job has no other state yet, so it need not be read: the
//     running marker follows the item, or its write is refused as stale.
//  3. Otherwise the job is read: it may be over, be waiting for its next attempt, or
//     be running elsewhere.
//  4. The running marker is written. Its sequence is the attempt's fence, and from
//     then on the attempt is notified of a cancel.
//  5. The attempt runs, and its outcome is written after the attempt's last write.
//  6. The item is acknowledged, which removes it.
//
// If a step fails, the item is redelivered and the steps are repeated.
func (w *Worker) take(m jetstream.Msg) {
	if w.stopping.Err() != nil { // the request was open when Close was called
		m.Nak()
		return
	}
	work, err := w.queue.store.journal.Delivered(m)
	if err != nil {
		w.event(w.hurry, Event{Kind: EventTrouble, Err: err})
		m.NakWithDelay(w.queue.o.Lease)
		return
	}
	d := &delivery{w: w, m: m, work: work}
	l, _, err := read(journal.View{Work: work})
	first := err == nil && deliveries(m) == 1
	if err == nil && !first {
		l, err = d.reread()
	}
	d.proceed(l, err)
}

// proceed begins the job as it was read; err is that of the read.
func (d *delivery) proceed(l *life, err error) {
	for tries := 0; err == nil && l != nil && tries < 8; tries++ {
		d.life = l
		again, err2 := d.begin()
		if !again {
			err = err2
			break
		}
		l, err = d.reread() // the job has changed since it was read
	}
	if err != nil {
		d.w.event(d.w.hurry, Event{Kind: EventTrouble, ID: d.work.ID, Err: err})
		d.m.NakWithDelay(troubleDelay)
	}
}

// troubleDelay is the delay of a work item after an error while it was examined.
const troubleDelay = time.Second

func deliveries(m jetstream.Msg) uint64 {
	meta, err := m.Metadata()
	if err != nil {
		return 0
	}
	return meta.NumDelivered
}

// reread reads the job. It returns nil if nothing remains to be done for the item.
//
// An item is acknowledged only if the state of exactly this run of the job is
// terminal. If nothing is found, or something older, the response may be from a
// server that was the leader until a moment ago, and an acknowledgement would lose
// the job. An item that has really been removed is not redelivered.
func (d *delivery) reread() (*life, error) {
	v, err := d.w.queue.store.journal.Read(d.w.hurry, d.work.Queue, d.work.ID)
	if err != nil {
		return nil, err
	}
	l, ok, err := read(v)
	if err != nil {
		return nil, err
	}
	switch {
	case ok && l.Of == d.work.Seq && l.State.Terminal():
		if l.State == StateDead { // its worker may have died before it wrote the mark
			d.w.mark(d.work.ID, l.kept(d.w.queue.o.DeadTTL))
		}
		return nil, d.m.Ack()
	case !ok || l.Of != d.work.Seq:
		return nil, d.m.NakWithDelay(troubleDelay)
	}
	return l, nil
}

// begin runs the job if it can start now. It returns again as true if the job has
// changed since it was read.
func (d *delivery) begin() (again bool, err error) {
	if d.Version > d.w.queue.o.Version {
		d.w.event(d.w.hurry, Event{Kind: EventHandedBack, ID: d.work.ID, Err: fmt.Errorf("jobs: input has version %d; this worker reads up to %d", d.Version, d.w.queue.o.Version)})
		return false, d.m.NakWithDelay(newerDelay/2 + rand.N(newerDelay))
	}
	if wait := d.wait(); wait > 0 {
		return false, d.m.NakWithDelay(wait)
	}
	if err := d.unfit(); err != nil {
		return d.giveUp(err)
	}
	all := d.locks()
	busy, gens := all.known(d.w, d.work.ID)
	if busy != nil {
		return false, d.park(busy)
	}
	permit, err := d.permit()
	if err != nil {
		return false, err
	}
	if permit == nil {
		return false, nil
	}
	if err := d.unfit(); err != nil { // it may have waited for its permit
		permit.Release(limit.Unused)
		return d.giveUp(err)
	}
	if len(all) > 0 {
		busy, err := all.look(d.w.hurry, d.w, gens)
		if busy != nil || err != nil {
			permit.Release(limit.Unused)
			if err == nil {
				err = d.park(busy)
			}
			return false, err
		}
	}
	return d.run(*permit, all)
}

// newerDelay is the average delay of an input that is too new for this worker. The
// delay is random because otherwise the item could meet the same worker's request
// each time.
const newerDelay = time.Second

// wait returns how long the job has to wait before it can start.
//
// A job that is marked as running is redelivered because its worker is silent, or
// because the server was restarted and has forgotten the earlier delivery. The latter
// looks like a first delivery; the worker then gets another lease to send a
// heartbeat. In either case the marker, which each heartbeat rewrites, must be at
// least one lease old: a worker that had the item earlier may have handed it back
// late.
func (d *delivery) wait() time.Duration {
	switch d.State {
	case StateQueued:
		return d.rest(d.Delay, d.Submitted)
	case StateRetrying:
		return d.rest(d.RetryIn, d.state.Time)
	case StateRunning:
		if deliveries(d.m) == 1 {
			return d.w.queue.o.Lease
		}
		return d.rest(d.w.queue.o.Lease, d.state.Time)
	}
	return 0
}

// clockSlack is how far in the future a time of the server can appear. The known
// offset of its clock is as inaccurate as a round trip is long.
const clockSlack = 5 * time.Second

// rest returns the remaining part of a wait that began at a time of the server's
// clock. A time far in the future is from before that clock was set back, and is not
// usable. The wait then begins with the first delivery and ends with the next, which
// the server's timers trigger when it is due. Otherwise the job would wait until the
// clock reached that time again.
func (d *delivery) rest(whole time.Duration, from time.Time) time.Duration {
	switch passed := d.w.queue.store.journal.Now().Sub(from); {
	case passed > -clockSlack:
		return whole - max(passed, 0)
	case deliveries(d.m) == 1:
		return whole
	}
	return 0
}

// unfit returns the reason why the job must not be started any more, or nil.
func (d *delivery) unfit() error {
	now := d.w.queue.store.journal.Now()
	switch {
	case !d.Begun && d.Deadline > 0 && now.Sub(d.Submitted) > d.Deadline:
		return ErrExpired
	case d.State == StateRunning && (d.Spent >= d.w.queue.o.MaxAttempts || d.crashes() >= d.w.queue.o.MaxCrashes):
		return errWorkerLost
	}
	return nil
}

var errWorkerLost = errors.New("worker lost: no heartbeat for the lease")

// giveUp ends a job that must not be started any more.
func (d *delivery) giveUp(why error) (again bool, err error) {
	q, state, ttl := d.w.queue, StateFailed, d.failedTTL(d.w.queue)
	if d.State == StateRunning {
		state, ttl = StateDead, q.o.DeadTTL
	}
	r := d.next(state)
	if d.State == StateRunning {
		r.fail(q.store.journal.Now(), why, "")
	}
	r.Error = why.Error()
	data := d.work.Data
	for {
		_, err = q.store.journal.Put(d.w.hurry, journal.Write{
			Queue: q.name, ID: d.work.ID, Kind: journal.State, Meta: meta(r), Data: data, After: d.revision, TTL: d.kept(ttl),
		})
		if !errors.Is(err, journal.ErrTooLarge) || !r.lessen(&data) {
			break
		}
	}
	if err != nil {
		return errors.Is(err, journal.ErrStale), err
	}
	d.w.event(d.w.hurry, Event{Kind: EventEnded, State: state, ID: d.work.ID, Attempt: d.Attempt, Err: why})
	if state == StateDead {
		d.w.mark(d.work.ID, d.kept(ttl))
	}
	return false, d.m.Ack()
}

// permit acquires a permit from the Limiter. It returns nil if the job was handed
// back. While it waits, it keeps the item's lease.
func (d *delivery) permit() (*limit.Permit, error) {
	l := d.w.o.Limiter
	if l == nil {
		return &limit.Permit{}, nil
	}
	stop := d.keep()
	defer stop()
	p, err := l.Acquire(d.w.stopping)
	var refused *limit.Error
	switch {
	case err == nil:
		return &p, nil
	case errors.As(err, &refused):
		d.w.event(d.w.hurry, Event{Kind: EventHandedBack, ID: d.work.ID, Err: err})
		return nil, d.m.NakWithDelay(refused.RetryAfter)
	}
	return nil, d.m.Nak() // stopping
}

// keep renews the item's lease until stop is called.
func (d *delivery) keep() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	d.w.pulling.Go(func() {
		t := time.NewTicker(d.w.queue.o.Lease / 3)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				d.m.InProgress()
			}
		}
	})
	return cancel
}

// run writes the running marker and runs the attempt. The permit is released
// when the handler has returned.
func (d *delivery) run(permit limit.Permit, locks locks) (again bool, err error) {
	a := d.newAttempt()
	seq, err := d.w.queue.store.journal.Put(d.w.hurry, a.firstMarker())
	if err != nil {
		permit.Release(limit.Unused)
		locks.drop()
		return errors.Is(err, journal.ErrStale), err
	}
	a.marked(seq)
	if ok, err := d.secure(a, locks); !ok {
		permit.Release(limit.Unused)
		return errors.Is(err, journal.ErrStale), err
	}
	locks.pass(d.w)
	a.run(permit)
	locks.drop()
	return false, nil
}

// newAttempt returns the next attempt of the job. It has no fence until its running
// marker is written.
func (d *delivery) newAttempt() *attempt {
	q := d.w.queue
	r := d.next(StateRunning)
	if d.State == StateRunning {
		r.fail(q.store.journal.Now(), errWorkerLost, "")
	}
	r.Of, r.Worker, r.Error, r.Progress = d.work.Seq, d.w.o.Name, "", nil
	r.Begun = true
	r.Attempt++
	r.Spent++
	r.Crashes = d.crashes()
	r.Fence, r.Started = 0, q.store.journal.Now()
	if since := d.since(); r.Started.Before(since) { // the known clock is behind
		r.Started = since
	}
	marker := r
	if d.suspect() {
		marker.Spent-- // not counted yet, see secure
		marker.Unsecured = true
	}
	return &attempt{
		record: r, marker: marker, w: d.w, m: d.m, id: d.work.ID, input: d.work.Data,
		revision: d.revision, begun: d.Begun, renewed: time.Now(),
	}
}

// firstMarker is the write that marks the job as running with this attempt.
func (a *attempt) firstMarker() journal.Write {
	return journal.Write{
		Queue: a.w.queue.name, ID: a.id, Kind: journal.State, Meta: meta(a.marker), After: a.revision, TTL: underWayTTL, Mine: true,
	}
}

// marked records that the first marker is written. Its revision is the attempt's fence.
func (a *attempt) marked(seq uint64) {
	a.record.Fence, a.fence, a.revision, a.shown = seq, seq, seq, seq
	a.marker = a.record
}
