package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A Submission is one job of SubmitMany.
type Submission[In any] struct {
	Input   In            // input of the job
	Options SubmitOptions // as for Submit
}

// MaxSubmissions is the number of jobs that one SubmitMany accepts.
const MaxSubmissions = 10_000

// SubmitErrors are the errors of the submissions that SubmitMany did not accept, by
// their index. Each is an error as Submit returns it.
type SubmitErrors map[int]error

// Error names the number of failed submissions and the first error.
func (e SubmitErrors) Error() string {
	if len(e) == 0 {
		return "jobs: no submission failed"
	}
	first := slices.Min(slices.Collect(maps.Keys(e)))
	return fmt.Sprintf("jobs: %d submissions failed; number %d: %v", len(e), first, e[first])
}

// Unwrap returns the errors in the order of the submissions.
func (e SubmitErrors) Unwrap() []error {
	all := make([]error, 0, len(e))
	for _, i := range slices.Sorted(maps.Keys(e)) {
		all = append(all, e[i])
	}
	return all
}

// SubmitMany is Submit for several jobs. It sends them without waiting for the server
// in between, and with DurabilityDisk they share its flushes.
//
// It is not a transaction: each job is accepted, joined or refused on its own. The
// result has a Handle for each submission, in their order, and nil for those that were
// not accepted. Their errors are in a SubmitErrors; a nil error means that all were
// accepted. Submissions with the same Key are treated in their order, as by separate
// calls. The queue's bounds hold for all submissions together: those that do not fit
// are refused with a [*FullError], the last ones first.
//
// At most MaxSubmissions; more are refused with an *OptionError, and nothing is
// submitted.
func (q *Queue[In, Out]) SubmitMany(ctx context.Context, all []Submission[In]) ([]*Handle[Out], error) {
	f := newFaults()
	f.Check(len(all) <= MaxSubmissions, "submissions", len(all), fmt.Sprintf("at most %d", MaxSubmissions))
	if err := f.Err(); err != nil {
		return nil, err
	}
	m := &manySubmits{q: q.queue, all: make([]candidate, len(all))}
	for i, s := range all {
		m.all[i] = q.candidate(s)
	}
	m.submit(ctx)
	handles, errs := make([]*Handle[Out], len(all)), SubmitErrors{}
	for i, c := range m.all {
		if c.err != nil {
			errs[i] = c.err
			continue
		}
		handles[i] = q.Job(c.id)
		handles[i].joined = c.joined
	}
	if len(errs) > 0 {
		return handles, errs
	}
	return handles, nil
}

// candidate encodes a submission.
func (q *Queue[In, Out]) candidate(s Submission[In]) candidate {
	c := candidate{o: s.Options}
	if c.err = c.o.validate(); c.err != nil {
		return c
	}
	data, err := q.in.Encode(s.Input)
	if err != nil {
		c.err = fmt.Errorf("jobs: queue %q: input: %w", q.name, err)
		return c
	}
	c.data, c.err = data, q.fits(data)
	return c
}

// A candidate is a submission of SubmitMany and what became of it.
type candidate struct {
	o      SubmitOptions
	data   []byte
	id     string
	joined bool
	err    error
}

// manySubmits is one call of SubmitMany. Most jobs are new, so all are written at once
// as jobs that do not exist. Only those that the server refuses as stale, because a job
// with their key exists, are read and submitted one by one.
type manySubmits struct {
	q     *queue
	all   []candidate
	first []int // for the write; at most one for each key
	later []int // one by one, after the write, in their order
}

// laterAtOnce is how many keys SubmitMany looks up at a time.
const laterAtOnce = 16

func (m *manySubmits) submit(ctx context.Context) {
	m.sort(ctx)
	m.write(ctx)
	byKey := make(map[string][]int)
	for _, i := range m.later {
		byKey[m.all[i].o.Key] = append(byKey[m.all[i].o.Key], i)
	}
	slots := make(chan struct{}, laterAtOnce)
	var running sync.WaitGroup
	for _, same := range byKey {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			slices.Sort(same)
			for _, i := range same {
				c := &m.all[i]
				c.id, c.joined, c.err = m.q.submit(ctx, c.data, c.o)
			}
		})
	}
	running.Wait()
}

// sort decides which submissions are written at once. One that the queue has no room
// for can still join a job, if it has a key.
func (m *manySubmits) sort(ctx context.Context) {
	var refused error
	keys := make(map[string]bool)
	for i := range m.all {
		c := &m.all[i]
		switch {
		case c.err != nil:
			continue
		case keys[c.o.Key]:
			m.later = append(m.later, i)
			continue
		case refused == nil:
			refused = m.q.room(ctx, len(c.data))
		}
		keys[c.o.Key] = c.o.Key != ""
		switch {
		case refused == nil:
			m.first = append(m.first, i)
		case errors.Is(refused, ErrFull) && c.o.Key != "":
			m.later = append(m.later, i)
		default:
			c.err = m.q.count(refused)
		}
	}
}

// write writes the new jobs.
func (m *manySubmits) write(ctx context.Context) {
	if len(m.first) == 0 {
		return
	}
	writes := make([]journal.Write, len(m.first))
	for n, i := range m.first {
		c := &m.all[i]
		c.id = idOf(m.q.store.o.Namespace, m.q.name, c.o.Key)
		writes[n] = journal.Write{Queue: m.q.name, ID: c.id, Kind: journal.Work, Meta: meta(m.q.item(c.data, c.o)), Data: c.data}
	}
	_, errs := m.q.store.journal.PutMany(ctx, writes)
	for _, w := range writes {
		m.q.store.room.written(len(w.Data))
	}
	unused := 0
	for n, i := range m.first {
		c := &m.all[i]
		switch err := errs[n]; {
		case err == nil, errors.Is(err, journal.ErrStale) && c.o.Key == "": // see queue.submit
			m.q.submitted.Add(1)
		case errors.Is(err, journal.ErrStale):
			unused++
			m.later = append(m.later, i)
		case errors.Is(err, journal.ErrFull):
			m.q.refused.Add(1)
			c.err = storeFull(m.q.name)
		default:
			c.err = outward(ctx, err)
		}
	}
	m.q.backlog.forgo(unused)
}
