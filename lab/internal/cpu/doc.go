// Package cpu measures and divides processor time: what processes have used
// ([Times]), which processors they run on ([Split], [Pin]), and how much of a
// processor they get ([Share]).
//
// All of it but [Own] needs Linux. What a machine does not allow is
// [ErrNotApplied], with the reason, so that a report can say so.
package cpu

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// ErrNotApplied says that this machine does not allow the requested quota. The
// error around it says why.
var ErrNotApplied = errors.New("not applied")

func notApplied(format string, args ...any) error {
	return fmt.Errorf("cpu: %w: %w", ErrNotApplied, fmt.Errorf(format, args...))
}

// Own returns the CPU time that this process has used so far, in the kernel
// and outside, without its children's.
func Own() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("cpu: getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
