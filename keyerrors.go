package weir

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// KeyErrors is the error of a Source.LoadMany or Source.LoadEntries when some
// keys have failed. It has one error per key, each with its own class; a nil
// error is ignored. A key that has both a value and an error has failed.
//
// KeyErrors may be wrapped, and joined with other errors, in any nesting. Alone
// it is complete: a key that it does not name and that has no value is not
// found. If it is joined with another error, such a key has failed with that
// error. If two KeyErrors name one key, a failure outweighs not-found.
//
// SetMany returns KeyErrors as well.
type KeyErrors[K comparable] map[K]error

func (e KeyErrors[K]) Error() string {
	for key, err := range e {
		if len(e) == 1 {
			return fmt.Sprintf("weir: key %v failed: %v", key, err)
		}
		return fmt.Sprintf("weir: %d keys failed, among them %v: %v", len(e), key, err)
	}
	return "weir: no key failed"
}

// Unwrap returns the errors, in no order.
func (e KeyErrors[K]) Unwrap() []error { return slices.Collect(maps.Values(e)) }

// keyed marks KeyErrors of any K.
func (e KeyErrors[K]) keyed() {}

// A verdict assigns the error of a bulk load to its keys.
type verdict[K comparable] struct {
	own  KeyErrors[K] // of the keys that it names
	rest error        // of a key that it does not name and that has no value
}

// judge returns the verdict of err, which may be nil.
func judge[K comparable](err error) verdict[K] {
	if err == nil {
		return verdict[K]{rest: ErrNotFound}
	}
	named, rest, _ := split[K](err)
	if rest == nil {
		rest = ErrNotFound
	}
	return verdict[K]{named, rest}
}

// of returns the error of key, nil for none. loaded means that the load has
// returned a value for it.
func (v verdict[K]) of(key K, loaded bool) error {
	if err := v.own[key]; err != nil {
		return err
	}
	if loaded {
		return nil
	}
	return v.rest
}

// split takes the errors of single keys out of err, and returns the rest, nil
// if nothing is left. changed reports whether the rest differs from err: if
// not, the caller keeps err itself.
//
// The rest must not match ErrNotFound because of another key, or a key that has
// failed would be treated as one that does not exist. So not-found errors among
// several joined errors are dropped if there are others.
func split[K comparable](err error) (named KeyErrors[K], rest error, changed bool) {
	switch e := err.(type) {
	case KeyErrors[K]:
		return e, nil, true
	case interface{ keyed() }: // of another type of keys: nothing about these
		return nil, &opaque{err}, true
	case interface{ Unwrap() []error }:
		return splitJoined[K](err, e.Unwrap())
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		if inner == nil {
			return nil, err, false
		}
		named, rest, changed = split[K](inner)
		switch {
		case !changed:
			return nil, err, false
		case rest == nil:
			return named, nil, true
		}
		return named, &pruned{outer: err, error: rest}, true
	}
	return nil, err, false
}

// splitJoined is split for err, which joins parts.
func splitJoined[K comparable](err error, parts []error) (named KeyErrors[K], rest error, changed bool) {
	var missing, failed []error
	for _, part := range parts {
		if part == nil {
			continue
		}
		own, left, other := split[K](part)
		named, changed = named.with(own), changed || other
		switch {
		case left == nil:
		case errors.Is(left, ErrNotFound):
			missing = append(missing, left)
		default:
			failed = append(failed, left)
		}
	}
	if len(failed) == 0 {
		failed = missing
	} else {
		changed = changed || len(missing) > 0
	}
	switch {
	case !changed:
		return nil, err, false
	case len(failed) == 0:
		return named, nil, true
	}
	return named, &pruned{outer: err, error: errors.Join(failed...)}, true
}

// with returns the union of e and more; neither is altered.
func (e KeyErrors[K]) with(more KeyErrors[K]) KeyErrors[K] {
	if len(e) == 0 {
		return more
	}
	all := maps.Clone(e)
	for key, err := range more {
		switch before := all[key]; {
		case err == nil:
		case before == nil, errors.Is(before, ErrNotFound) && !errors.Is(err, ErrNotFound):
			all[key] = err
		case errors.Is(before, ErrNotFound) || !errors.Is(err, ErrNotFound):
			all[key] = errors.Join(before, err)
		}
	}
	return all
}

// pruned is an error without its parts that are about other keys. It keeps the
// type and identity of outer, which wraps them all.
type pruned struct {
	outer error
	error // what is left
}

func (e *pruned) Unwrap() error { return e.error }

func (e *pruned) Is(target error) bool {
	if target == ErrNotFound {
		return false // only the rest can match it
	}
	if reflect.TypeOf(target).Comparable() && e.outer == target {
		return true
	}
	x, ok := e.outer.(interface{ Is(error) bool })
	return ok && x.Is(target)
}

func (e *pruned) As(target any) bool {
	to := reflect.ValueOf(target).Elem() // errors.As has checked that this can be set
	if reflect.TypeOf(e.outer).AssignableTo(to.Type()) {
		to.Set(reflect.ValueOf(e.outer))
		return true
	}
	x, ok := e.outer.(interface{ As(any) bool })
	return ok && x.As(target)
}

// opaque hides everything but the text of an error.
type opaque struct{ error }
