package batch

import (
	"context"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// The defaults of Options.
const (
	DefaultMaxSize     = 100
	DefaultMaxParallel = 4
	DefaultMaxPending  = 10_000
	DefaultTimeout     = 30 * time.Second
)

// Options say how a Batcher gathers. It copies them; they are not altered.
type Options struct {
	// Name is the Limiter in the refusals of Do.
	Name string

	// MaxSize is how many items a bulk call has at most. Zero: DefaultMaxSize.
	MaxSize int

	// Linger is how long the first item of a batch waits for others while the
	// batch is not full. Zero: not at all; the batch is due at once, and
	// gathers while it waits for a place.
	Linger time.Duration

	// MaxParallel is how many bulk calls run at once. With fewer the batches
	// grow larger, and one slow call holds up more. Zero: DefaultMaxParallel.
	MaxParallel int

	// MaxPending is how many items wait or run. Beyond it Do refuses at once,
	// with a *limit.Error. Zero: DefaultMaxPending.
	MaxPending int

	// Timeout bounds one bulk call, from its start. After it the callers get a
	// *TimeoutError and the call's context ends. A call that does not return
	// then is stuck, and keeps its place. Zero: DefaultTimeout. Negative: none.
	Timeout time.Duration

	// RetrySingly has a bulk call that failed as a whole (an error that is not
	// an Errors; not a panic, a timeout or a refusal) tried again item by item,
	// each alone, with its own error. So one bad item does not fail the
	// others, and its caller gets its error.
	//
	// It is safe only where a failed bulk call has changed nothing (a
	// transaction) or where doing an item twice is the same as once.
	RetrySingly bool

	// Limiter admits bulk calls, one permit each; a batch takes its place
	// first, and gathers while it waits for the permit. It asks with the
	// latest deadline and the highest priority of the callers, and its refusal
	// is the error of all of them. A call that timed out, or failed with an
	// error that matches limit.ErrLimited or context.DeadlineExceeded, is
	// released as limit.Dropped. Nil: every call is admitted.
	Limiter limit.Limiter
}

// A Source is what a Batcher stands before, with the hooks that know the types.
// Only Run must be set. The hooks must not call the Batcher.
type Source[T, R any] struct {
	// Run makes one bulk call. It returns a result for each item, in the order
	// of the items; where R has no size, such as struct{}, nil will do. If it
	// returns an [Errors], that has one entry for each item, and the results
	// may be nil if none succeeded. Any other length is ErrResults for all.
	// With any other error all items have failed, and the results are ignored.
	//
	// It runs on a goroutine of the Batcher's, several at a time. It must
	// respect its context, must not keep items, and must not call Do of its own
	// Batcher, which may have no place left.
	Run func(ctx context.Context, items []T) ([]R, error)

	// Scope names what the item may be gathered with: items whose scopes are
	// not equal (==) never share a batch. It is called on the goroutine of the
	// caller. A scope that cannot be compared, or is unequal to itself, is
	// ErrScope. Nil: there is one scope.
	Scope func(item T) any

	// Retry says, with Options.RetrySingly, for which errors it holds. Nil:
	// for all.
	Retry func(err error) bool

	// RunContext returns the context whose values Run sees, derived from that
	// of the batch's first caller, or from context.Background. It is the place
	// to strip an identity that the other items do not share. Its deadline and
	// cancellation are ignored. Nil: Run sees the first caller's values.
	RunContext func(ctx context.Context) context.Context
}

// An OptionError names one fault in Options or a Source.
type OptionError = option.Error

// validate returns all faults at once.
func validate(hasRun bool, o Options) error {
	f := option.Faults{Package: "batch"}
	f.Check(hasRun, "Source.Run", "nil", "given")
	f.Check(o.MaxSize >= 0, "Options.MaxSize", o.MaxSize, "0 (the default) or more")
	f.Check(o.Linger >= 0, "Options.Linger", o.Linger, "0 or more")
	f.Check(o.MaxParallel >= 0, "Options.MaxParallel", o.MaxParallel, "0 (the default) or more")
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
