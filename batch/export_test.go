package batch

import "github.com/weir-go/weir/internal/spread"

// The tests of this package expect the least RetryAfter.
func init() { spread.Fix(func() float64 { return 0 }) }
