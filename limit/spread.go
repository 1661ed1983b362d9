package limit

import (
	"time"

	"github.com/weir-go/weir/internal/spread"
)

// DefaultMaxRetryAfter is the bound of Error.RetryAfter where that is an estimate. See ConcurrencyOptions.MaxRetryAfter.
const DefaultMaxRetryAfter = spread.Most

// Spread returns when a rejected caller should try again: a time that is uniform between wait, an estimate, and twice
// that, and at most most (if that is above 0, else DefaultMaxRetryAfter). If twice the wait is above the bound, the time
// is uniform between half the bound and the bound. Limiters of other packages can use it for Error.RetryAfter, so that
// callers that were rejected together do not come back together.
func Spread(wait, most time.Duration) time.Duration {
	if most <= 0 {
		most = DefaultMaxRetryAfter
	}
	return spread.Estimated(wait, most)
}
