//go:build !linux

package jobscheck

import "time"

// now returns the wall clock, in ns, on systems where we know of no monotonic clock
// shared by all processes. Discard a run during which this clock is stepped.
func now() int64 { return time.Now().UnixNano() }
