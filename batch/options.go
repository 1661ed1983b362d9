package batch

import (
	"context"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// The defaults of Options.
const (
	DefaultMaxSize     = 100              // of Options.MaxSize
	DefaultMaxParallel = 4                // of Options.MaxParallel
	DefaultMaxPending  = 10_000           // of Options.MaxPending
	DefaultTimeout     = 30 * time.Second // of Options.Timeout
)

// Options configure a Batcher. The Batcher copies them and does not modify them.
type Options struct {
	// Name is the Limiter in the *limit.Error of Do.
	Name string

	// MaxSize is the maximum number of items in a bulk call. Zero: DefaultMaxSize.
	MaxSize int

	// Linger is how long the first item of a batch waits for others while the
	// batch is not full. Zero: not at all; the batch is due at once, and
	// collects items while it waits for a slot.
	Linger time.Duration

	// MaxParallel is how many bulk calls run at once. A smaller number makes
	// batches larger, and one slow call delays more items. Zero:
	// DefaultMaxParallel.
	MaxParallel int

	// MaxPending is how many items may wait or run. Do rejects further items at
	// once, with a *limit.Error. Zero: DefaultMaxPending.
	MaxPending int

	// Timeout bounds one bulk call, from its start. After it the callers get a
	// *TimeoutError and the call's context ends. A call that still does not
	// return is stuck, and keeps its slot. Zero: DefaultTimeout. Negative: none.
	Timeout time.Duration

	// RetrySingly retries the items of a bulk call that failed as a whole, each in
	// a call with only that item. One bad item then does not fail the others, and
	// each caller gets the error of its own item. A call fails as a whole with any
	// error that is not an Errors. There is no retry after a panic, a timeout or a
	// rejection.
	//
	// It is safe only if a failed bulk call has changed nothing (a transaction), or
	// if running an item twice has the same effect as running it once.
	RetrySingly bool

	// Limiter admits bulk calls, one permit each. A batch takes its slot first, and
	// collects items while it waits for the permit. Acquire gets the latest deadline
	// and the highest priority of the callers, and its error is returned to all of
	// them. The permit of a call that timed out, or failed with an error that matches
	// limit.ErrLimited or context.DeadlineExceeded, is released as limit.Dropped.
	// Nil: every call is admitted.
	Limiter limit.Limiter
}

// A Source makes the bulk calls of a Batcher, with hooks that depend on the item
// type. Only Run is required. The hooks must not call the Batcher.
type Source[T, R any] struct {
	// Run makes one bulk call. It returns one result per item, in the order of the
	// items. If R has size zero, such as struct{}, the results may be nil. If Run
	// returns an [Errors], it must have one entry per item, and the results may be
	// nil if no item succeeded. With any other length all callers get ErrResults.
	// With any other error all items have failed, and the results are ignored.
	//
	// It runs on a goroutine of the Batcher; several calls can run at once. It must
	// respect its context and must not keep items. It must not call Do of the same
	// Batcher, because that may have no free slot.
	Run func(ctx context.Context, items []T) ([]R, error)

	// Scope returns the scope of the item: items whose scopes are not equal (==)
	// never share a batch. It is called on the caller's goroutine. If a scope is not
	// comparable, or is not equal to itself, Do returns ErrScope. Nil: all items have
	// the same scope.
	Scope func(item T) any

	// Retry reports whether Options.RetrySingly applies to err. Nil: it applies to
	// all errors.
	Retry func(err error) bool

	// RunContext returns the context whose values Run sees. Its argument has the
	// values of the batch's first caller; the result may be derived from that or
	// from context.Background. Use it to strip an identity that the other items do
	// not share. Deadline and cancellation of the result are ignored. Nil: Run sees
	// the first caller's values.
	RunContext func(ctx context.Context) context.Context
}

// An OptionError reports one fault in Options or a Source.
type OptionError = option.Error

// validate returns an error that joins all faults.
func validate(hasRun bool, o Options) error {
	f := option.Faults{Package: "batch"}
	f.Check(hasRun, "Source.Run", "nil", "given")
	f.Check(o.MaxSize >= 0, "Options.MaxSize", o.MaxSize, "0 (the default) or more")
	f.Check(o.Linger >= 0, "Options.Linger", o.Linger, "0 or more")
	f.Check(o.MaxParallel >= 0, "Options.MaxParallel", o.MaxParallel, "0 (the default) or more")
	f.Add(limit.Validate("batch", "Options.Limiter", o.Limiter))
	f.Check(o.MaxPending >= 0, "Options.MaxPending", o.MaxPending, "0 (the default) or more")
	return f.Err()
}

// withDefaults returns o with its zero values replaced.
func (o Options) withDefaults() Options {
	def := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	def(&o.MaxSize, DefaultMaxSize)
	def(&o.MaxParallel, DefaultMaxParallel)
	def(&o.MaxPending, DefaultMaxPending)
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return o
}
