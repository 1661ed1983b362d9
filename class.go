package weir

import (
	"context"
	"errors"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// A Class says what an error of the source means for the Guard.
type Class uint8

const (
	// ClassTransient may go away by itself. It is the zero Class.
	ClassTransient Class = iota
	// ClassNotFound is an answer: the source does not have the key.
	ClassNotFound
	// ClassPermanent will not go away by trying again.
	ClassPermanent
	// ClassOverload says that the source, or what stands before it, is full.
	ClassOverload
	// ClassCanceled says that the load was canceled. It is never remembered.
	ClassCanceled
)

func (c Class) String() string {
	switch c {
	case ClassTransient:
		return "transient"
	case ClassNotFound:
		return "not found"
	case ClassPermanent:
		return "permanent"
	case ClassOverload:
		return "overload"
	case ClassCanceled:
		return "canceled"
	}
	return "unknown"
}

// classify gives the Guard's own errors their class, and asks the user's
// function (see classifier) for all others.
func classify(user func(error) Class, err error) Class {
	var hard *TimeoutError
	var remote *fleet.RemoteError
	switch {
	case errors.Is(err, ErrNotFound):
		if user != nil && errors.As(err, new(*handed)) {
			return user(err)
		}
		return ClassNotFound
	case errors.As(err, &hard):
		return ClassTransient
	case errors.As(err, &remote):
		return classNamed(remote.Kind)
	case errors.Is(err, limit.ErrLimited), errors.Is(err, ErrStuck):
		return ClassOverload
	case errors.Is(err, context.Canceled):
		return ClassCanceled
	case user != nil:
		return user(err)
	}
	return ClassTransient
}

// Classify says what an error that the Guard has returned means to it: the
// Guard's own errors have their class, those of other instances the one they
// were given there, and all others are Options.Classify's to judge. Of nil, which
// is no error, it says ClassTransient.
func (g *Guard[K, V]) Classify(err error) Class {
	if err == nil {
		return ClassTransient
	}
	if h := (*handed)(nil); errors.As(err, &h) && h.by == g {
		return ClassNotFound // this Guard's own answer, through any other Guard
	}
	return classify(g.o.Classify, err)
}

// handed is a not-found that a Guard gave to a load as the answer to a call. What
// it means for the key of that load, only its author can say: the avatar that a
// user lacks does not make the user missing.
type handed struct {
	error
	by any // the Guard
}

func (e *handed) Unwrap() error { return e.error }

// handOn returns r, the answer of g to a call with ctx, and marks it if it is a
// not-found for a load.
func handOn[K comparable, V any](ctx context.Context, g *Guard[K, V], r Result[V]) Result[V] {
	if r.State == StateNegative && inflight.Within(ctx) {
		r.Err = &handed{r.Err, g}
	}
	return r
}

// classNamed is the Class whose String is name; ClassTransient if there is none,
// as from a newer instance.
func classNamed(name string) Class {
	for c := ClassTransient; c <= ClassCanceled; c++ {
		if c.String() == name {
			return c
		}
	}
	return ClassTransient
}
