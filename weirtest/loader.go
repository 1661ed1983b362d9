package weirtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
)

// ErrUnscripted is the error of a load whose key has no answer: the Loader has neither
// a script for it nor a Func.
var ErrUnscripted = errors.New("weirtest: no answer for the key")

// patience is the longest wait of Started.
const patience = time.Minute

// A Loader is a source that does what a test specifies. Pass its methods Load,
// LoadEntry, LoadMany and LoadEntries to [weir.New] or [weir.Source]. A load goes
// through three steps:
//
//  1. It begins: it is counted, takes its answer from the script, and becomes
//     available to Next and Started.
//  2. It is held while one of its keys is blocked. If its context ends, it fails
//     with the cause, unless IgnoreContext applies to it.
//  3. It returns its answer.
//
// The zero Loader is ready to use, and fails each load with ErrUnscripted. A Loader
// is safe for concurrent use and must not be copied after first use. It has no
// goroutine, and keeps every [Call] in memory.
type Loader[K comparable, V any] struct {
	// Func loads keys that have no script. Nil: they fail with an error that
	// matches ErrUnscripted. It is called when the load is no longer held, and
	// must not change after first use.
	Func func(ctx context.Context, key K) (V, error)

	mu      sync.Mutex
	scripts map[K]*Script[K, V]      // guarded by mu
	others  *Script[K, V]            // guarded by mu; nil: none
	blocked toggle[K]                // guarded by mu
	deaf    toggle[K]                // guarded by mu: ignores its context
	calls   []*Call[K, V]            // guarded by mu: all, in order of their start
	begun   map[K][]*Call[K, V]      // guarded by mu: those that Next has not returned
	waiting map[K][]chan *Call[K, V] // guarded by mu: of callers in Next; each channel has a buffer of one
	running int                      // guarded by mu
	most    int                      // guarded by mu
}

// Load implements weir.Source.Load.
func (l *Loader[K, V]) Load(ctx context.Context, key K) (V, error) {
	e, err := l.LoadEntry(ctx, key, weir.Previous[V]{})
	return e.Value, err
}

// LoadEntry implements weir.Source.LoadEntry.
func (l *Loader[K, V]) LoadEntry(ctx context.Context, key K, prev weir.Previous[V]) (weir.Entry[V], error) {
	c := l.begin(ctx, []K{key}, []weir.Previous[V]{prev})
	defer c.end()
	if err := c.hold(); err != nil {
		return weir.Entry[V]{}, err
	}
	return c.answer(0)
}

// LoadMany implements weir.Source.LoadMany. Each key takes the next answer of its
// script. Keys that fail with [weir.ErrNotFound] are left out of the map. If other
// keys fail, the error is a [weir.KeyErrors]. If the answer of one key panics or calls
// Goexit, so does the whole call.
func (l *Loader[K, V]) LoadMany(ctx context.Context, keys []K) (map[K]V, error) {
	entries, err := l.LoadEntries(ctx, keys, nil)
	if entries == nil {
		return nil, err
	}
	values := make(map[K]V, len(entries))
	for key, e := range entries {
		values[key] = e.Value
	}
	return values, err
}

// LoadEntries implements weir.Source.LoadEntries, with the same rules as LoadMany.
func (l *Loader[K, V]) LoadEntries(ctx context.Context, keys []K, prev []weir.Previous[V]) (map[K]weir.Entry[V], error) {
	c := l.begin(ctx, slices.Clone(keys), slices.Clone(prev))
	defer c.end()
	if err := c.hold(); err != nil {
		return nil, err
	}
	entries := make(map[K]weir.Entry[V], len(keys))
	failed := make(weir.KeyErrors[K])
	for i, key := range c.keys {
		e, err := c.answer(i)
		switch {
		case err == nil:
			entries[key] = e
		case err != weir.ErrNotFound:
			failed[key] = err
		}
	}
	if len(failed) == 0 {
		return entries, nil
	}
	return entries, failed
}

// Block holds loads of the keys that begin from now on, until they are released.
// Without keys it applies to every key. For each key the latest Block or Release
// counts: after Block() and Release("a"), all keys but "a" are blocked.
func (l *Loader[K, V]) Block(keys ...K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked.set(true, keys)
}

// Release ends Block for the keys, or for every key if there are none, and lets the
// loads that it held continue. To release a single load, use [Call.Release].
func (l *Loader[K, V]) Release(keys ...K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked.set(false, keys)
	for _, c := range l.calls {
		if !c.blockedLocked() {
			c.openLocked()
		}
	}
}

// IgnoreContext makes loads of the keys that begin from now on stay held when their
// context ends, like code that ignores it. Without keys it applies to every key. Such
// loads never return unless they are released.
func (l *Loader[K, V]) IgnoreContext(keys ...K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf.set(true, keys)
}

// Next waits for the next load of key to begin and returns it. Next and Started return
// each load once per key, in order; a load may have ended by then. If ctx ends first,
// Next returns context.Cause(ctx).
func (l *Loader[K, V]) Next(ctx context.Context, key K) (*Call[K, V], error) {
	l.mu.Lock()
	if calls := l.begun[key]; len(calls) > 0 {
		l.begun[key] = calls[1:]
		l.mu.Unlock()
		return calls[0], nil
	}
	ready := make(chan *Call[K, V], 1) // created here, so that it belongs to the caller's bubble
	if l.waiting == nil {
		l.waiting = make(map[K][]chan *Call[K, V])
	}
	l.waiting[key] = append(l.waiting[key], ready)
	l.mu.Unlock()

	select {
	case c := <-ready:
		return c, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting[key], ready)
	if i < 0 {
		return <-ready, nil // delivered at the last moment
	}
	l.waiting[key] = slices.Delete(l.waiting[key], i, i+1)
	return nil, context.Cause(ctx)
}

// Started is [Loader.Next] for tests: it ends the test with t.Fatal if no load of key
// begins within a minute, in a bubble a minute of the bubble's time. Like t.Fatal, it
// must be called on the test's goroutine.
func (l *Loader[K, V]) Started(t testing.TB, key K) *Call[K, V] {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := l.Next(ctx, key)
	if err != nil {
		t.Fatalf("weirtest: no load of %v has begun within %v", key, patience)
	}
	return c
}

// Count returns how many loads of key have begun, including bulk loads.
func (l *Loader[K, V]) Count(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.calls {
		if slices.Contains(c.keys, key) {
			n++
		}
	}
	return n
}

// Total returns how many loads have begun. A bulk load counts as one.
func (l *Loader[K, V]) Total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// Running returns how many loads have begun and not returned.
func (l *Loader[K, V]) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// MostRunning returns the highest number of loads that ran at the same time.
func (l *Loader[K, V]) MostRunning() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// Calls returns all loads in the order in which they began.
func (l *Loader[K, V]) Calls() []*Call[K, V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// begin registers a load.
func (l *Loader[K, V]) begin(ctx context.Context, keys []K, prev []weir.Previous[V]) *Call[K, V] {
	c := &Call[K, V]{
		l: l, keys: keys, ctx: ctx, prev: prev,
		gate: make(chan struct{}), done: make(chan struct{}),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		c.answers = append(c.answers, l.takeLocked(key))
		c.deaf = c.deaf || l.deaf.of(key)
	}
	if !c.blockedLocked() {
		c.openLocked()
	}
	l.calls = append(l.calls, c)
	l.running++
	l.most = max(l.most, l.running)
	for _, key := range keys {
		l.announceLocked(key, c)
	}
	return c
}

// announceLocked passes c to a waiting Next, or stores it for a later one. l.mu must
// be held.
func (l *Loader[K, V]) announceLocked(key K, c *Call[K, V]) {
	if w := l.waiting[key]; len(w) > 0 {
		l.waiting[key] = w[1:]
		w[0] <- c
		return
	}
	if l.begun == nil {
		l.begun = make(map[K][]*Call[K, V])
	}
	l.begun[key] = append(l.begun[key], c)
}

// takeLocked returns the next answer for key. l.mu must be held.
func (l *Loader[K, V]) takeLocked(key K) answer[K, V] {
	for _, s := range []*Script[K, V]{l.scripts[key], l.others} {
		if a := s.takeLocked(); a != nil {
			return a
		}
	}
	return l.fallback
}

// fallback is the answer for a key without a script.
func (l *Loader[K, V]) fallback(ctx context.Context, key K) (weir.Entry[V], error) {
	if l.Func == nil {
		return weir.Entry[V]{}, fmt.Errorf("%w %v", ErrUnscripted, key)
	}
	v, err := l.Func(ctx, key)
	return weir.Entry[V]{Value: v}, err
}

// A toggle is on or off for every key.
type toggle[K comparable] struct {
	all bool
	own map[K]bool // for keys that were set individually
}

func (s *toggle[K]) set(on bool, keys []K) {
	if len(keys) == 0 {
		s.all, s.own = on, nil
		return
	}
	if s.own == nil {
		s.own = make(map[K]bool)
	}
	for _, key := range keys {
		s.own[key] = on
	}
}

func (s *toggle[K]) of(key K) bool {
	if on, ok := s.own[key]; ok {
		return on
	}
	return s.all
}
