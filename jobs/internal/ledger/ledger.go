// Package ledger is what package jobs does for package periodic and does not export: a
// durable mark per schedule, and jobs that are accepted in two steps. Package jobs
// implements it. A claim is the first step: the job is stored and does not run. The
// commit is the second: the job is accepted, unless it was before.
package ledger

import (
	"context"
	"errors"
	"time"
)

// ErrStale is returned by WriteMark if the mark's revision is not the expected one.
var ErrStale = errors.New("the mark has changed")

// A Mark is a small value with a name. Revision 0: there is none.
type Mark struct {
	Data     []byte
	Revision uint64
}

// A Claim is a job that is stored and not accepted. Its fields are part of the format
// of a mark.
type Claim struct {
	Queue    string `json:"queue"`
	ID       string `json:"id"`
	Revision uint64 `json:"revision"`
}

// A Ledger is a Store as package periodic uses it. It is safe for concurrent use.
type Ledger interface {
	// Now returns the server's time, as far as it is known here.
	Now() time.Time

	// ReadMark returns the mark with a name, with Revision 0 if there is none.
	ReadMark(ctx context.Context, name string) (Mark, error)

	// WriteMark replaces the mark of the given revision, and returns the new one. The
	// error is ErrStale if the mark has another revision by then.
	WriteMark(ctx context.Context, name string, data []byte, after uint64) (uint64, error)

	// Claim stores a job of a *jobs.Queue, with its jobs.SubmitOptions, or finds the
	// claim of another instance with the same key. It returns false if the key has or
	// had a job, as far as is known.
	Claim(ctx context.Context, queue, in, options any) (Claim, bool, error)

	// Commit accepts a claimed job, and reports whether this call did. It never
	// accepts a claim twice, however late the second call is.
	Commit(ctx context.Context, c Claim) (bool, error)
}

// Of returns the Ledger of a *jobs.Store. Package jobs sets it; tests may wrap it.
var Of func(store any) Ledger

// StoreOf returns the *jobs.Store of a *jobs.Queue. Package jobs sets it.
var StoreOf func(queue any) any
