package gateway

import (
	"errors"

	"github.com/weir-go/weir/option"
)

// ErrClosed is returned by Update after Close.
var ErrClosed = errors.New("gateway: closed")

// ErrLoop is in the receipt of a request that has come back to the Gateway that
// forwarded it, and is answered with 508.
var ErrLoop = errors.New("gateway: forwarding loop: the request has passed this gateway before")

// An OptionError is a fault in a Config. Validate, New and Update return all
// faults at once, joined; errors.As finds the first.
type OptionError = option.Error
