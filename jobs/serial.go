package jobs

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A serialLock is held by the one running attempt among the jobs with one Serial, or
// among those that may have killed their workers. It is a message that names the
// attempt, and is void once the job is no longer marked as running with that attempt.
// So it needs no renewal, and the lock of a dead worker ends with its job's next
// attempt.
type serialLock struct {
	q     *queue
	id    string // of the lock
	job   string
	after uint64
	taken uint64
}

type serialHolder struct {
	Job   string `json:"job"`
	Fence uint64 `json:"fence"`
}

const (
	// kindLock is the journal's kind of serial locks.
	kindLock journal.Kind = "l"
	// lockTTL removes the locks that a dead worker has left.
	lockTTL = 30 * 24 * time.Hour
)

// serialDelay is how long a job waits whose lock another attempt has taken first, before
// it looks again.
func serialDelay() time.Duration { return 50*time.Millisecond + rand.N(100*time.Millisecond) }

// A lock is what an attempt has to hold while it runs, beside its job.
type lock interface {
	name() string // the ID of its message
	// look returns why the job has to wait, or nil.
	look(ctx context.Context, w *Worker) (*busy, error)
	// take takes the lock for the attempt with this fence, after the job was marked as
	// running with it, and reports whether the attempt has the lock.
	take(ctx context.Context, fence uint64) bool
	// drop releases the lock, if it was taken. If that fails, the lock becomes void.
	drop()
	// step is the time between two starts; 0: a job waits until another has ended.
	step() time.Duration
}

// locks are the locks of one attempt. The place behind a gate is the last one: its look
// takes it, and uses up a start of the rate.
type locks []lock

// locks returns the locks that the job needs.
func (d *delivery) locks() (all locks) {
	q := d.w.queue
	of := func(name string) *serialLock {
		return &serialLock{q: q, id: idOf(q.store.o.Namespace, q.name, name), job: d.work.ID}
	}
	if d.Serial != "" {
		all = append(all, of("serial\x00"+d.Serial))
	}
	if d.suspect() {
		all = append(all, of("suspects\x00"))
	}
	if s := d.slot(); s != nil {
		all = append(all, s)
	}
	return all
}

// known returns why the job has to wait, if that is known without a look. The locks'
// generations are for the looks that follow.
func (l locks) known(w *Worker, job string) (*busy, []uint64) {
	var gens []uint64
	for _, one := range l {
		w.lots.leave(one.name(), job)
	}
	for _, one := range l {
		b, gen := w.lots.known(one.name(), one.step())
		if b != nil {
			return b, nil
		}
		gens = append(gens, gen)
	}
	return nil, gens
}

// look checks whether the job can run now, given the jobs that it shares a lock with. If
// not, it returns why it has to wait.
func (l locks) look(ctx context.Context, w *Worker, gens []uint64) (*busy, error) {
	for i, one := range l {
		b, err := one.look(ctx, w)
		if b != nil {
			b.gen = gens[i]
		}
		if b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

// suspect reports whether the job would be dead if the next attempt lost its worker,
// as the last one did. An input that kills its worker also kills the jobs that run
// beside it. All of them start again after the same lease, and are killed again. So
// before they are declared dead, each has to run without the others.
func (d *delivery) suspect() bool {
	o := &d.w.queue.o
	if o.MaxAttempts == 1 || d.Spent != o.MaxAttempts-1 && d.crashes() != o.MaxCrashes-1 {
		return false
	}
	n := len(d.History)
	return d.State == StateRunning || n > 0 && d.History[n-1].Error == errWorkerLost.Error()
}

func (s *serialLock) name() string        { return s.id }
func (s *serialLock) step() time.Duration { return 0 }

func (s *serialLock) look(ctx context.Context, _ *Worker) (*busy, error) {
	m, err := s.q.store.journal.ReadKind(ctx, s.q.name, s.id, kindLock)
	if err != nil || m == nil {
		return nil, err
	}
	s.after = m.Seq
	var holder serialHolder
	if json.Unmarshal(m.Meta, &holder) != nil || holder.Job == s.job {
		return nil, nil
	}
	held, err := s.q.holds(ctx, holder)
	if held {
		return &busy{id: s.id}, nil
	}
	return nil, err
}

// holds reports whether a holder's attempt is still its job's latest. In a cluster, a
// former leader may respond with a state from before the attempt; that says nothing.
func (q *queue) holds(ctx context.Context, h serialHolder) (bool, error) {
	l, ok, err := q.store.look(ctx, q.name, h.Job)
	if err != nil || !ok {
		return false, err
	}
	return l.State == StateRunning && l.Fence == h.Fence || l.revision < h.Fence, nil
}

// secure takes the locks for attempt a, and reports whether it can run. If another
// attempt was faster, the job is handed back.
//
// The last attempt of a suspect counts only from here on. Between its marker and this
// point another suspect that has the lock can kill it:
//
//	victim   reads the lock: it is free
//	killer   reads the lock: it is free
//	victim   writes its marker
//	killer   writes its marker, takes the lock, runs, and kills the process
//
// The victim would be dead after an attempt that never began.
func (d *delivery) secure(a *attempt, l locks) (bool, error) {
	if !l.take(d.w.hurry, a.fence) {
		l.drop()
		a.Begun = d.Begun
		a.handBack(serialDelay())
		return false, nil
	}
	if !d.suspect() {
		return true, nil
	}
	err := a.put(a.record, nil, underWayTTL)
	if err != nil {
		l.drop()
	}
	return err == nil, err
}

// take takes the locks for the attempt with this fence, and reports whether it got
// all of them.
func (l locks) take(ctx context.Context, fence uint64) bool {
	for _, s := range l {
		if !s.take(ctx, fence) {
			return false
		}
	}
	return true
}

// pass starts another job that waits for the same gate, if that has room left.
func (l locks) pass(w *Worker) {
	for _, one := range l {
		if s, ok := one.(*keySlot); ok && s.wait() == nil {
			w.freed(s.id)
		}
	}
}

// drop removes the locks. If that fails, they become void anyway.
func (l locks) drop() {
	for _, s := range l {
		s.drop()
	}
}

func (s *serialLock) take(ctx context.Context, fence uint64) bool {
	seq, err := s.q.store.journal.Put(ctx, journal.Write{
		Queue: s.q.name, ID: s.id, Kind: kindLock, After: s.after, TTL: lockTTL,
		Meta: meta(serialHolder{s.job, fence}),
	})
	s.taken = seq
	return err == nil
}

func (s *serialLock) drop() {
	if s.taken != 0 {
		s.q.store.journal.Remove(context.Background(), s.taken)
		s.q.store.journal.TellFree(s.q.name, s.id)
	}
}
