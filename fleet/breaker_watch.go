package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// watchDeadline bounds how long the Tier may take to begin a watch, which can require
// a separate connection.
const watchDeadline = 2 * time.Second

// A breakerWatch is one Watcher behind a Breaker. The pushes of the Tier and those of
// the Breaker go through one queue, so that calls to the Watcher never overlap.
type breakerWatch struct {
	namespace string
	out       *watch
	stop      func() // guarded by Breaker.mu; stops the Tier's watch, nil without one
	busy      bool   // guarded by Breaker.mu: the Tier's watch is being set up
	gone      bool   // guarded by Breaker.mu
	late      bool   // guarded by Breaker.mu: begun while the breaker was open, so it has missed something
}

// forward is the Watcher that the Tier gets.
type forward struct{ out *watch }

var _ Watcher = forward{}

func (f forward) Changed(name string, fence uint64, removed bool) {
	f.out.add(event{kind: changed, name: name, number: fence, removed: removed})
}
func (f forward) Pushed(name string, e Entry, now uint64) {
	f.out.add(event{kind: valued, name: name, entry: e, number: now})
}
func (f forward) Released(name string) { f.out.add(event{kind: released, name: name}) }
func (f forward) Tagged(tag string, seq uint64) {
	f.out.add(event{kind: tagged, name: tag, number: seq})
}
func (f forward) Expired(tag string, seq uint64) {
	f.out.add(event{kind: expired, name: tag, number: seq})
}
func (f forward) Lost()      { f.out.add(event{kind: lost}) }
func (f forward) Recovered() { f.out.add(event{kind: recovered}) }
func (f forward) Reset()     { f.out.add(event{kind: reset}) }

// Watch implements [Tier]. It succeeds even if the engine is unreachable: the breaker
// then opens, if it was closed, and w gets Reset when the engine is back.
func (b *Breaker) Watch(namespace string, w Watcher) (stop func(), err error) {
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	bw := &breakerWatch{namespace: strings.Clone(namespace), out: &watch{w: w}}
	b.mu.Lock()
	if b.over {
		b.mu.Unlock()
		return nil, &UnavailableError{Op: "breaker", Err: errClosed}
	}
	b.watches = append(b.watches, bw)
	open := b.open
	if open {
		bw.out.add(event{kind: lost})
	}
	bw.busy = !open
	b.mu.Unlock()
	if open {
		return func() { b.unwatch(bw) }, nil
	}
	switch err := b.subscribe(bw); {
	case err == nil:
	case errors.Is(err, ErrUnavailable), errors.Is(err, errMissed):
		b.mu.Lock()
		b.openLocked()
		b.mu.Unlock()
	default:
		b.unwatch(bw)
		return nil, err
	}
	return func() { b.unwatch(bw) }, nil
}

// subscribe begins the Tier's watch of bw. The caller has set bw.busy.
func (b *Breaker) subscribe(bw *breakerWatch) error {
	b.mu.Lock()
	b.calls++
	b.mu.Unlock()
	stop, err := within(context.Background(), watchDeadline, func(context.Context) (func(), error) {
		return b.inner.Watch(bw.namespace, forward{bw.out})
	}, func(stop func()) { stop() }, b.left)
	b.mu.Lock()
	bw.busy = false
	if err == nil && !bw.gone {
		bw.stop, stop = stop, nil
	}
	b.mu.Unlock()
	if err == nil && stop != nil {
		stop()
	}
	return err
}

func (b *Breaker) unwatch(bw *breakerWatch) {
	b.mu.Lock()
	bw.gone = true
	if i := slices.Index(b.watches, bw); i >= 0 {
		b.watches = slices.Delete(b.watches, i, i+1)
	}
	stop := bw.stop
	bw.stop = nil
	b.mu.Unlock()
	if stop != nil {
		stop()
	}
	bw.out.stop()
}
