//go:build !linux

package notify

import "time"

// monotonic returns false: systemd exists only on Linux.
func monotonic() (time.Duration, bool) { return 0, false }
