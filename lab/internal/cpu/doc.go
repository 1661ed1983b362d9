// Package cpu measures and divides CPU time: how much processes have used ([Times]),
// which processors they run on ([Split], [Pin]), and how much of a processor they get
// ([Share]).
//
// Everything except [Own] needs Linux. An operation that a machine does not allow
// returns [ErrNotApplied] with the reason, for a report.
package cpu

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// ErrNotApplied reports that this machine does not allow the requested operation. The
// wrapping error has the reason.
var ErrNotApplied = errors.New("not applied")

func notApplied(format string, args ...any) error {
	return fmt.Errorf("cpu: %w: %w", ErrNotApplied, fmt.Errorf(format, args...))
}

// Own returns the CPU time that this process has used so far, in user and kernel
// mode, without its children.
func Own() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("cpu: getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
