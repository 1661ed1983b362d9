package gateway

import (
	"errors"
	"fmt"
)

// ErrClosed is returned by Update after Close.
var ErrClosed = errors.New("gateway: closed")

// ErrLoop is in the receipt of a request that has come back to the Gateway that
// forwarded it, and is answered with 508.
var ErrLoop = errors.New("gateway: forwarding loop: the request has passed this gateway before")

// An OptionError is a fault in a Config. Validate, New and Update return all
// faults at once, joined; errors.As finds the first.
type OptionError struct {
	Field string // such as "Routes[2].Cache.TTL"
	Value any
	Bound string // what it must be
}

// Error names the field, the value and the bound.
func (e *OptionError) Error() string {
	return fmt.Sprintf("gateway: %s is %v, must be %s", e.Field, e.Value, e.Bound)
}
