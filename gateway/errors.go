package gateway

import (
	"errors"

	"github.com/weir-go/weir/option"
)

// ErrClosed is returned by Update after Close.
var ErrClosed = errors.New("gateway: closed")

// ErrLoop is in the receipt of a request that has come back to the Gateway that forwarded
// it, and that gets 508.
var ErrLoop = errors.New("gateway: forwarding loop: the request has passed this gateway before")

// Values of Err in an ErrorResponse that the Gateway itself generates, in addition to
// ErrLoop.
var (
	// ErrNoRoute: no route matches the request (404).
	ErrNoRoute = errors.New("gateway: no route matches the request")
	// ErrRejected: no gateway forwards such a request (400, 405 or 501).
	ErrRejected = errors.New("gateway: the request cannot be forwarded")
	// ErrRewrite: the request that Route.Rewrite returned cannot be forwarded (500).
	ErrRewrite = errors.New("gateway: the rewritten request cannot be forwarded")
)

// An OptionError is a fault in a Config. Validate, New and Update return all
// faults at once, joined; errors.As finds the first.
type OptionError = option.Error
