package engine

import (
	"errors"
	"fmt"
)

// ErrMissing is the error that a [*MissingError] matches.
var ErrMissing = errors.New("engine: not installed")

// ErrUnknown is returned by [Start], [Install], [Installed] and [Command] for
// a name that is not among [Names].
var ErrUnknown = errors.New("engine: unknown engine")

// A MissingError reports that the programs of an engine or a tool are not on this
// machine. It matches [ErrMissing].
type MissingError struct {
	Engine  string // as in [Names]
	Package string // its Debian package, or for Cassandra that of the Java it needs
}

func (e *MissingError) Error() string {
	how := "on Debian: apt-get install " + e.Package
	if e.Engine == "cassandra" { // Debian has no package of it
		how = "it needs Java 17, on Debian: apt-get install " + e.Package + ", and its jars, which only Install fetches"
	}
	if known[e.Engine].fixed {
		return fmt.Sprintf("engine: %s is not installed; as root, %s", e.Engine, how)
	}
	return fmt.Sprintf("engine: %s is not installed; %s; or anywhere: go run ./lab/cmd/with --install %[1]s -- true", e.Engine, how)
}

// Is reports whether target is [ErrMissing].
func (e *MissingError) Is(target error) bool { return target == ErrMissing }
