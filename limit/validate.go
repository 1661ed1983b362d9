package limit

import (
	"fmt"

	"github.com/weir-go/weir/option"
)

// A Timed limiter makes its callers wait for time to pass, and not for other calls to end:
// its permits hold nothing. Within [All], such limiters come before those that hold a
// permit during the wait, a [Concurrency] or an [Adaptive].
type Timed interface {
	Limiter

	// Timed has no effect.
	Timed()
}

// Timed implements [Timed].
func (l *RateLimiter) Timed() {}

var _ Timed = (*RateLimiter)(nil)

// Validate returns all faults of l, which may be nil, as the Limiter in the options of a
// package, joined by errors.Join, each an *OptionError of that package, or nil: a nil pointer
// in it, and a [Timed] limiter after a Concurrency or an Adaptive in an [All].
func Validate(pkg, field string, l Limiter) error {
	f := option.Faults{Package: pkg}
	var holds Limiter
	for _, part := range Parts(l) {
		if !f.Filled(field, part) {
			continue
		}
		_, timed := part.(Timed)
		f.Check(!timed || holds == nil, field, fmt.Sprintf("limit.All with %T before %T", holds, part),
			fmt.Sprintf("limit.All with %T first, or calls that wait for it hold permits", part))
		switch part.(type) {
		case *Concurrency, *Adaptive:
			holds = part
		}
	}
	return f.Err()
}
