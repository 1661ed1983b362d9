package weir

import (
	"context"
	"errors"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// A Class says what an error of the source means for the Guard: whether a retry can
// help, the key does not exist, the source is overloaded, or the load was canceled.
type Class uint8

const (
	// ClassTransient may go away without a change. It is the zero Class.
	ClassTransient Class = iota
	// ClassNotFound is an answer: the source does not have the key.
	ClassNotFound
	// ClassPermanent will not go away on a retry.
	ClassPermanent
	// ClassOverload means that the source, or something in front of it, is
	// overloaded.
	ClassOverload
	// ClassCanceled means that the load was canceled. It is never remembered.
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

// classify returns the class of the Guard's own errors, and calls the user's
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
	case tooMany(err):
		return ClassPermanent
	case errors.Is(err, limit.ErrLimited), errors.Is(err, ErrStuck):
		return ClassOverload
	case errors.Is(err, context.Canceled):
		return ClassCanceled
	case user != nil:
		return user(err)
	case errors.As(err, new(*RetryAfterError)):
		return ClassOverload
	}
	return ClassTransient
}

// Classify returns the class of an error that the Guard has returned. The Guard's
// own errors have fixed classes, errors from other instances keep the class they
// got there, and Options.Classify decides about the rest. For nil, which is no
// error, it returns ClassTransient.
func (g *Guard[K, V]) Classify(err error) Class {
	if err == nil {
		return ClassTransient
	}
	if h := (*handed)(nil); errors.As(err, &h) && h.by == g {
		return ClassNotFound // this Guard's own answer, through any other Guard
	}
	return classify(g.o.Classify, err)
}

// tooMany reports whether err is the rejection of a call that costs more than the whole
// limit.
func tooMany(err error) bool {
	var refused *limit.Error
	return errors.As(err, &refused) && refused.Reason == limit.TooMany
}

// handed is a not-found that a Guard gave to a load as the answer to a call. Only
// the author of that load knows what it means for the load's own key: a user
// without an avatar is not a missing user.
type handed struct {
	error
	by any // the Guard
}

func (e *handed) Unwrap() error { return e.error }

// handOn returns r, g's answer to a call with ctx. If it is a not-found for a
// call from within a load, it is marked as handed on.
func handOn[K comparable, V any](ctx context.Context, g *Guard[K, V], r Result[V]) Result[V] {
	if r.State == StateNegative && inflight.Within(ctx) {
		r.Err = &handed{r.Err, g}
	}
	return r
}

// classNamed is the Class whose String is name. An unknown name, as from a newer
// instance, is ClassTransient.
func classNamed(name string) Class {
	for c := ClassTransient; c <= ClassCanceled; c++ {
		if c.String() == name {
			return c
		}
	}
	return ClassTransient
}
