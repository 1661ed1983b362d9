package once

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/wait"
)

// Reasons of records.
const (
	// ReasonGone is that of a claim whose call cannot be finished any more.
	ReasonGone = "the gateway ended while the call was running"
	// ReasonSettled is that of a call that an operator has settled as done.
	ReasonSettled = "an operator has settled it as done"
	// ReasonNotKept is that of a call whose answer could not be stored.
	ReasonNotKept = "the answer could not be stored"
)

// Errors of Begin and Settle.
var (
	// ErrCredentials means that the key belongs to a call with other credentials.
	ErrCredentials = errors.New("once: the key was used with other credentials")
	// ErrFingerprint means that the key belongs to another request.
	ErrFingerprint = errors.New("once: the key was used for another request")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("once: closed")
	// ErrSettled means that the outcome of a call is known, or that it is still running.
	ErrSettled = errors.New("once: there is no unknown call with this ID")
)

// A Call is what Claims has to know of a request with a key.
type Call struct {
	// ID stands for the route and the key.
	ID Digest
	// Fingerprint, Credentials, Principal, Route and Name: see Record, which has Name as Call.
	Fingerprint, Credentials, Principal Digest
	Route, Name                         string
	// TTL is how long the record is kept, from the claim.
	TTL time.Duration
	// Reserve is the room for the answer, in bytes.
	Reserve int64
	// Resend runs a call again whose outcome is unknown, for a server that knows keys.
	Resend bool
}

// Claims knows which calls run in this process, and what came of earlier ones. It is safe
// for concurrent use. A Store has one Claims.
type Claims struct {
	store Store
	owner string

	mu     sync.Mutex
	runs   map[Digest]*Run // guarded by mu
	closed bool            // guarded by mu; no call begins any more
	alive  sync.WaitGroup  // of runs; added to under mu, before closed

	count [outcomes]atomic.Uint64
	// sending is how many runs have a claim, or are taking one.
	sending atomic.Int64
}

// NewClaims returns Claims with that Store.
func NewClaims(s Store) *Claims {
	return &Claims{store: s, owner: rand.Text(), runs: map[Digest]*Run{}}
}

// A Run is one call, from the first request for it until its outcome is stored. The
// request that Begin tells to lead makes the call: it calls Claim directly before the first
// byte is sent, then one of Answer, Finish, Free and Doubt, and End in any case. Without
// one of the former a call that was claimed is unknown.
type Run struct {
	claims *Claims
	call   Call
	done   chan struct{}
	taken  chan struct{} // closed once the call is claimed

	// Of the leader's goroutine until done is closed.
	found   Stored // what the Store had before
	claimed uint64 // the version of the claim, 0 if there is none
	settled bool
	value   any
}

// Done is closed when the call has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// Value returns what End was given. Done must be closed.
func (r *Run) Value() any { return r.value }

// Call returns the call.
func (r *Run) Call() Call { return r.call }

// Claimed reports whether the call may have been sent. It is for the leader.
func (r *Run) Claimed() bool { return r.claimed != 0 }

// An Entry says what a request with a key gets.
type Entry struct {
	// Run is the call that the request leads or joins. If it is nil, Record is what is stored.
	Run *Run
	// Leads: the request has to make the call.
	Leads bool
	// Record has the state Answered, Done or Unknown.
	Record Record
}

// Begin returns what the request for c gets: the record of a call that has ended, a call
// that is running, or the right to make it. It waits for others until ctx ends.
func (c *Claims) Begin(ctx context.Context, call Call) (Entry, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return Entry{}, ErrClosed
		}
		run := c.runs[call.ID]
		if run == nil {
			run = &Run{claims: c, call: call, done: make(chan struct{}), taken: make(chan struct{})}
			c.runs[call.ID] = run
			c.alive.Add(1)
			c.mu.Unlock()
			return c.lead(ctx, run)
		}
		c.mu.Unlock()
		err := check(run.call.Credentials, run.call.Fingerprint, call)
		if err == nil {
			c.count[Joined].Add(1)
			return Entry{Run: run}, nil
		}
		// A call that is not claimed yet has no right to the key: it may be refused, and a
		// forger must not keep the key from its owner with one.
		select {
		case <-run.taken:
			return Entry{}, c.refuses(err)
		case <-run.done:
		case <-ctx.Done():
			return Entry{}, wait.Cause(ctx)
		}
	}
}

// lead looks at the Store for a run that has just begun.
func (c *Claims) lead(ctx context.Context, run *Run) (Entry, error) {
	found, err := c.await(ctx, run.call)
	if err != nil {
		run.End(nil)
		return Entry{}, err
	}
	if found.State == Claimed { // of a process that has ended, or of a run whose end was not stored
		found.State, found.Reason = Unknown, cmp.Or(found.Reason, ReasonGone)
	}
	run.found = found
	if found.Version == 0 || found.State == Unknown && run.call.Resend {
		return Entry{Run: run, Leads: true}, nil
	}
	run.End(nil)
	return Entry{Record: c.replayed(found.Record)}, nil
}

// await returns the record of a call, once no other process makes the call.
func (c *Claims) await(ctx context.Context, call Call) (Stored, error) {
	for pause, waited := minPoll, false; ; pause, waited = min(2*pause, maxPoll), true {
		found, err := c.store.Get(ctx, call.ID)
		if err != nil {
			return Stored{}, c.refuses(err)
		}
		if found.Version != 0 {
			if err := check(found.Credentials, found.Fingerprint, call); err != nil {
				return Stored{}, c.refuses(err)
			}
		}
		if !found.Elsewhere {
			return found, nil
		}
		if !waited {
			c.count[Joined].Add(1)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return Stored{}, wait.Cause(ctx)
		}
	}
}

// How often a call that another process makes is looked at: a Store need not push anything.
const (
	minPoll = 20 * time.Millisecond
	maxPoll = 500 * time.Millisecond
)

func check(credentials, fingerprint Digest, call Call) error {
	switch {
	case credentials != call.Credentials:
		return ErrCredentials
	case fingerprint != call.Fingerprint:
		return ErrFingerprint
	}
	return nil
}

// Claim makes it durable that the call may have been sent. If it returns an error, the call
// must not be sent. ErrConflict means that another process has taken it in the meantime: the
// requests of the run have to begin anew.
func (r *Run) Claim(ctx context.Context) error {
	now := time.Now()
	rec := r.record(Claimed)
	rec.Since, rec.Expires, rec.Reserve = now, now.Add(r.call.TTL), r.call.Reserve
	r.claims.sending.Add(1) // before there is a claim, because it must not look like the claim of another process
	version, err := r.claims.store.Put(ctx, r.call.ID, rec, r.found.Version)
	if err != nil {
		r.claims.sending.Add(-1)
		return r.claims.refuses(err)
	}
	r.found = Stored{ID: r.call.ID, Version: version, Record: rec}
	r.claimed = version
	close(r.taken)
	r.claims.count[Made].Add(1)
	return nil
}

func (r *Run) record(s State) Record {
	c := &r.call
	return Record{
		State: s, Route: c.Route, Call: c.Name, Owner: r.claims.owner,
		Fingerprint: c.Fingerprint, Credentials: c.Credentials, Principal: c.Principal,
		Since: r.found.Since, Expires: r.found.Expires,
	}
}

// Answer keeps the answer of the call: the fields of the answer in rec.
func (r *Run) Answer(rec Record) error {
	own := r.record(Answered)
	own.Status, own.Header, own.Trailer, own.Body = rec.Status, rec.Header, rec.Trailer, rec.Body
	return r.settle(own, Kept)
}

// Finish records that the call has run, and why its answer is not kept.
func (r *Run) Finish(reason string) error {
	rec := r.record(Done)
	rec.Reason = reason
	return r.settle(rec, Finished)
}

// Doubt records why it is unknown whether the call took effect.
func (r *Run) Doubt(reason string) error {
	rec := r.record(Unknown)
	rec.Reason = reason
	return r.settle(rec, Doubted)
}

// Free forgets the call, because the server has certainly not done it.
func (r *Run) Free() error {
	if r.claimed == 0 || r.settled {
		return nil
	}
	if err := r.claims.store.Delete(context.Background(), r.call.ID, r.claimed); err != nil {
		return fmt.Errorf("once: freeing a claim: %w", err)
	}
	r.settled = true
	r.claims.count[Freed].Add(1)
	return nil
}

// settle replaces the claim. It does nothing for a call that is not claimed, or settled.
func (r *Run) settle(rec Record, as Outcome) error {
	if r.claimed == 0 || r.settled {
		return nil
	}
	version, err := r.claims.store.Put(context.Background(), r.call.ID, rec, r.claimed)
	if err != nil {
		return fmt.Errorf("once: recording the outcome of a call: %w", err)
	}
	r.found.Version, r.settled = version, true
	r.claims.count[as].Add(1)
	return nil
}

// End ends the run, with a value for the requests that wait for it. It may be called again.
func (r *Run) End(value any) {
	c := r.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs[r.call.ID] != r {
		return
	}
	if r.claimed != 0 {
		c.sending.Add(-1)
		if !r.settled {
			c.count[Doubted].Add(1)
		}
	}
	delete(c.runs, r.call.ID)
	r.value = value
	close(r.done)
	c.alive.Done()
}

// Unknown returns at most most calls whose outcome is unknown.
func (c *Claims) Unknown(ctx context.Context, most int) ([]Stored, error) {
	all, err := c.store.List(ctx, most+c.running(), Claimed, Unknown)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Stored
	for _, s := range all {
		if s.State == Claimed && (s.Elsewhere || c.runs[s.ID] != nil) {
			continue
		}
		if s.State == Claimed {
			s.State, s.Reason = Unknown, ReasonGone
		}
		if out = append(out, s); len(out) == most {
			break
		}
	}
	return out, nil
}

func (c *Claims) running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)
}

// Settle ends the doubt about a call: with done it has taken effect, and never runs again;
// otherwise it has not, and runs with the next request.
func (c *Claims) Settle(ctx context.Context, id Digest, done bool) error {
	found, err := c.store.Get(ctx, id)
	if err != nil {
		return err
	}
	c.mu.Lock()
	runs := c.runs[id] != nil
	c.mu.Unlock()
	if runs || found.Elsewhere || found.State != Claimed && found.State != Unknown {
		return ErrSettled
	}
	if !done {
		err = c.store.Delete(ctx, id, found.Version)
	} else {
		found.State, found.Reason, found.Reserve = Done, ReasonSettled, 0
		_, err = c.store.Put(ctx, id, found.Record, found.Version)
	}
	if errors.Is(err, ErrConflict) {
		return ErrSettled
	}
	return err
}

// Close lets no call begin, and waits for those that run until ctx ends. It does not close
// the Store.
func (c *Claims) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return wait.For(ctx, c.alive.Wait)
}
