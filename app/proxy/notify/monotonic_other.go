//go:build !linux

package notify

import "time"

// monotonic has no clock to read: systemd is Linux's.
func monotonic() (time.Duration, bool) { return 0, false }
