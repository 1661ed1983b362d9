package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
	"github.com/weir-go/weir/jobs/internal/ledger"
)

// A claim is a job that is stored and not accepted. It is a record in the state
// forgotten, so every reader treats it as no job. Its data is the input. The work item
// that accepts the job follows the claim's revision:
//
//  1. While the claim is the job's latest message, the item can be written.
//  2. The item has a higher revision, so a second one is refused.
//  3. The first state of the job replaces the claim. Its revision never returns, even
//     after the job has been forgotten.
//
// So a claim becomes at most one job, however late a program tries to commit it.

// A claimRecord is the metadata of a claim. A program that does not know claims reads it
// as that of a dropped job.
type claimRecord struct {
	record
	Claimed bool `json:"claimed"`
}

// isClaim reports whether a state is a claim.
func isClaim(state *journal.Message) bool {
	var r claimRecord
	return state != nil && decodeMeta(state, &r.record) == nil && r.State == forgotten &&
		json.Unmarshal(state.Meta, &r) == nil && r.Claimed
}

// claimTTL removes claims that no program has committed.
const claimTTL = MaxDelay

// kindSchedule is the journal's kind of the marks of schedules, and scheduleQueue the
// queue that holds them. No real queue can have this name.
const (
	kindSchedule  = journal.Kind("p")
	scheduleQueue = "@periodic"
)

func init() {
	ledger.Of = func(store any) ledger.Ledger { return storeLedger{store.(*Store)} }
	ledger.StoreOf = func(queue any) any { return queue.(claimer).storeOf() }
}

// A claimer is a Queue of any type.
type claimer interface {
	claim(ctx context.Context, in any, o SubmitOptions) (ledger.Claim, bool, error)
	storeOf() *Store
}

func (q *queue) storeOf() *Store { return q.store }

// A storeLedger is a Store for package periodic.
type storeLedger struct{ s *Store }

var _ ledger.Ledger = storeLedger{}

// Now returns the server's time.
func (l storeLedger) Now() time.Time { return l.s.journal.Now() }

// ReadMark reads the mark of a schedule.
func (l storeLedger) ReadMark(ctx context.Context, name string) (ledger.Mark, error) {
	m, err := l.s.journal.ReadKind(ctx, scheduleQueue, l.id(name), kindSchedule)
	if err != nil || m == nil {
		return ledger.Mark{}, outward(ctx, err)
	}
	return ledger.Mark{Data: m.Data, Revision: m.Seq}, nil
}

// WriteMark replaces the mark of a schedule.
func (l storeLedger) WriteMark(ctx context.Context, name string, data []byte, after uint64) (uint64, error) {
	seq, err := l.s.journal.Put(ctx, journal.Write{
		Queue: scheduleQueue, ID: l.id(name), Kind: kindSchedule, Meta: []byte("{}"), Data: data, After: after,
	})
	switch {
	case errors.Is(err, journal.ErrStale):
		return 0, ledger.ErrStale
	case errors.Is(err, journal.ErrFull):
		return 0, storeFull(scheduleQueue)
	}
	return seq, outward(ctx, err)
}

func (l storeLedger) id(name string) string { return idOf(l.s.o.Namespace, scheduleQueue, name) }

// Claim claims a job of a queue.
func (l storeLedger) Claim(ctx context.Context, queue, in, options any) (ledger.Claim, bool, error) {
	return queue.(claimer).claim(ctx, in, options.(SubmitOptions))
}

// claim encodes an input and claims its job.
func (q *Queue[In, Out]) claim(ctx context.Context, in any, o SubmitOptions) (ledger.Claim, bool, error) {
	if err := o.validate(); err != nil {
		return ledger.Claim{}, false, err
	}
	v, _ := in.(In) // nil, if In is an interface
	data, err := q.in.Encode(v)
	if err != nil {
		return ledger.Claim{}, false, fmt.Errorf("jobs: queue %q: input: %w", q.name, err)
	}
	return q.claimData(ctx, data, o)
}

// claimData claims a job with an encoded input. It checks the bounds of the queue,
// which Commit does not.
func (q *queue) claimData(ctx context.Context, data []byte, o SubmitOptions) (ledger.Claim, bool, error) {
	if err := q.fits(data); err != nil {
		return ledger.Claim{}, false, err
	}
	c := ledger.Claim{Queue: q.name, ID: idOf(q.store.o.Namespace, q.name, o.Key)}
	r := claimRecord{record{item: q.item(data, o), State: forgotten}, true}
	for {
		v, err := q.store.journal.Read(ctx, q.name, c.ID)
		if err != nil {
			return c, false, outward(ctx, err)
		}
		l, there, err := read(v)
		switch {
		case err != nil:
			return c, false, err
		case there && l.work == nil && isClaim(l.state):
			c.Revision = l.revision
			return c, true, nil
		case there:
			return c, false, nil
		}
		if err := q.admit(ctx, len(data)); err != nil {
			return c, false, err
		}
		c.Revision, err = q.store.journal.Put(ctx, journal.Write{
			Queue: q.name, ID: c.ID, Kind: journal.State, Meta: meta(r), Data: data, TTL: claimTTL,
		})
		q.store.room.written(len(data))
		switch {
		case errors.Is(err, journal.ErrStale):
			continue // another instance was first: read it again
		case errors.Is(err, journal.ErrFull):
			return c, false, storeFull(q.name)
		}
		return c, err == nil, outward(ctx, err)
	}
}

// Commit accepts a claimed job.
func (l storeLedger) Commit(ctx context.Context, c ledger.Claim) (bool, error) {
	m, err := l.claimed(ctx, c)
	if err != nil || m == nil {
		return false, err
	}
	var r record
	if err := decodeMeta(m, &r); err != nil {
		return false, err
	}
	_, err = l.s.journal.Put(ctx, journal.Write{
		Queue: c.Queue, ID: c.ID, Kind: journal.Work, Meta: meta(r.item), Data: m.Data, After: c.Revision,
	})
	switch {
	case errors.Is(err, journal.ErrStale):
		return false, nil
	case errors.Is(err, journal.ErrFull):
		return false, storeFull(c.Queue)
	}
	return err == nil, outward(ctx, err)
}

// claimed returns the message of a claim, or nil if it has become a job. In a cluster an
// older state, or none, is confirmed after a pause, see firstOf: a former leader may not
// know the claim.
func (l storeLedger) claimed(ctx context.Context, c ledger.Claim) (*journal.Message, error) {
	m, _, err := firstOf(ctx, []string{c.Queue}, l.s.o.Replicas > 1, func(queue string) (*journal.Message, error) {
		m, err := l.s.journal.ReadKind(ctx, queue, c.ID, journal.State)
		if err != nil || m == nil || m.Seq < c.Revision {
			return nil, outward(ctx, err)
		}
		return m, nil
	})
	if m != nil && m.Seq != c.Revision {
		m = nil
	}
	return m, err
}
