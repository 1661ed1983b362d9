//go:build !linux

package jobscheck

import "time"

// now is the wall clock, in ns, where we know of no monotonic clock that all
// processes share. A run in which it is stepped is to be thrown away.
func now() int64 { return time.Now().UnixNano() }
