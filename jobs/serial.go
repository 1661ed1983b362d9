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

// serialDelay is how long a job waits for another with its Serial, before it tries
// again.
func serialDelay() time.Duration { return 50*time.Millisecond + rand.N(100*time.Millisecond) }

// locks are the locks of one attempt.
type locks []*serialLock

// lock checks whether the job can run now, given the jobs that it shares a lock with.
// If not, it returns how long to wait.
func (d *delivery) lock() (locks, time.Duration, error) {
	var all locks
	for _, name := range d.lockNames() {
		s, wait, err := d.lockOf(name)
		if err != nil || wait > 0 {
			return nil, wait, err
		}
		all = append(all, s)
	}
	return all, 0, nil
}

func (d *delivery) lockNames() (names []string) {
	if d.Serial != "" {
		names = append(names, "serial\x00"+d.Serial)
	}
	if d.suspect() {
		names = append(names, "suspects\x00")
	}
	return names
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

func (d *delivery) lockOf(name string) (*serialLock, time.Duration, error) {
	q := d.w.queue
	s := &serialLock{q: q, id: idOf(q.store.o.Namespace, q.name, name), job: d.work.ID}
	m, err := q.store.journal.ReadKind(d.w.hurry, q.name, s.id, kindLock)
	if err != nil || m == nil {
		return s, 0, err
	}
	s.after = m.Seq
	var holder serialHolder
	if json.Unmarshal(m.Meta, &holder) != nil || holder.Job == s.job {
		return s, 0, nil
	}
	l, ok, err := q.store.look(d.w.hurry, q.name, holder.Job)
	if err == nil && ok && l.State == StateRunning && l.Fence == holder.Fence {
		return nil, serialDelay(), nil
	}
	return s, 0, err
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
// all of them. If another attempt was faster, the locks already taken become void
// once this attempt is handed back.
func (l locks) take(ctx context.Context, fence uint64) bool {
	for _, s := range l {
		if !s.take(ctx, fence) {
			return false
		}
	}
	return true
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
	}
}
