package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/jobs"
)

// A promotion is a job that this process has submitted and that may be unfinished.
type promotion[V any] struct {
	ready chan struct{}   // closed when job and err are final
	job   *jobs.Handle[V] // written before ready is closed, read only after
	err   error           // why there is no job; guarded like job
}

// later turns a call into a job, after its budget ran out or it was refused:
//
//  1. Keep the call's place in the flight, unless another call for the key does.
//  2. Submit, or share what was submitted for the key before. If the Guard's result
//     comes first, return it to the caller.
//  3. After a refusal, wait for the job during the rest of the budget.
func (p *Promoter[K, V]) later(ctx, within context.Context, key K, c *call[V]) (v V, job *jobs.Handle[V], err error) {
	if !p.keep(key, c) {
		defer c.leave(errLate) // after the job exists, so that a local worker can have joined
	}
	pr, err := p.promote(ctx, key)
	if err != nil {
		return v, nil, err
	}
	for done := c.done; ; done = nil {
		select {
		case <-pr.ready:
			if pr.err != nil {
				return v, nil, p.failed(c, pr.err)
			}
			return await(within, pr.job)
		case <-done:
			if v, ok, err := p.answer(c); ok {
				return v, nil, err
			}
		case <-ctx.Done():
			return v, nil, cmp.Or(context.Cause(ctx), context.Canceled)
		}
	}
}

// promote returns the promotion of key, and starts one if there is none. If
// MaxPromoted is reached, the promotion is not remembered for other callers.
func (p *Promoter[K, V]) promote(ctx context.Context, key K) (*promotion[V], error) {
	name := p.o.KeyString(key) // outside the lock, because it is the user's function
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	pr := p.promoted[key]
	if pr != nil {
		p.stats.Shared++
		return pr, nil
	}
	pr = &promotion[V]{ready: make(chan struct{})}
	known := len(p.promoted) < p.o.MaxPromoted
	if known {
		p.promoted[key] = pr
	} else {
		p.stats.Unkept++
	}
	p.all.Add(1)
	go p.follow(context.WithoutCancel(ctx), key, name, pr, known)
	return pr, nil
}

// follow submits the job of pr. If other callers know pr, it then waits until the job
// is over. It continues when its caller has left, because others may share it.
func (p *Promoter[K, V]) follow(ctx context.Context, key K, name string, pr *promotion[V], known bool) {
	defer p.all.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(ErrClosed) })()

	pr.job, pr.err = p.submit(ctx, key, name)
	p.mu.Lock()
	if pr.err == nil {
		p.stats.Promoted++
	} else {
		p.stats.Failed++
	}
	p.mu.Unlock()
	close(pr.ready)
	if !known {
		return
	}
	if pr.err == nil {
		watch(ctx, pr.job)
	}
	p.mu.Lock()
	delete(p.promoted, key)
	p.mu.Unlock()
}

// submit submits a job for key, or joins the unfinished one. It recovers from a panic
// of the queue's codec: no other code on this goroutine would.
func (p *Promoter[K, V]) submit(ctx context.Context, key K, name string) (job *jobs.Handle[V], err error) {
	defer func() {
		if r := recover(); r != nil {
			job, err = nil, fmt.Errorf("promote: submit: panic: %v", r)
		}
	}()
	job, err = p.q.Submit(ctx, key, jobs.SubmitOptions{Key: name, Restart: true})
	switch {
	case err == nil:
		return job, nil
	case p.ctx.Err() != nil:
		return nil, ErrClosed
	}
	return nil, fmt.Errorf("promote: submit: %w", err)
}

// watch waits until the job is over, or its state can no longer be read: then the
// next call submits again, and joins.
func watch[V any](ctx context.Context, job *jobs.Handle[V]) {
	for s, err := range job.Watch(ctx) {
		if err != nil || s.State.Terminal() {
			return
		}
	}
}

// await returns the job, or its result or failure if that is known within the budget.
func await[V any](within context.Context, job *jobs.Handle[V]) (v V, _ *jobs.Handle[V], err error) {
	if within.Err() != nil {
		return v, job, nil
	}
	result, err := job.Wait(within)
	if err == nil {
		return result, nil, nil
	}
	var failed *jobs.JobError
	if errors.As(err, &failed) {
		return v, nil, err
	}
	return v, job, nil
}

// failed returns the error of a call that could not be promoted. After a refusal it
// matches the refusal too.
func (p *Promoter[K, V]) failed(c *call[V], err error) error {
	select {
	case <-c.done:
		if p.refused(c.err) {
			return errors.Join(err, c.err)
		}
	default:
	}
	return err
}
