package engine

import (
	"errors"
	"fmt"
)

// ErrMissing is what a [*MissingError] is.
var ErrMissing = errors.New("engine: not installed")

// ErrUnknown is returned by [Start] and [Install] for a name that is no
// engine's.
var ErrUnknown = errors.New("engine: unknown engine")

// A MissingError says that an engine's programs are not on this machine. It
// matches [ErrMissing].
type MissingError struct {
	Engine  string // as in [Start]
	Package string // the Debian package that has it
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("engine: %s is not installed; on Debian: apt-get install %s", e.Engine, e.Package)
}

// Is reports whether target is [ErrMissing].
func (e *MissingError) Is(target error) bool { return target == ErrMissing }
