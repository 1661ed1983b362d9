package weirtest

import (
	"context"
	"runtime"

	"github.com/weir-go/weir"
)

// An answer produces the result of a load for one of its keys.
type answer[K comparable, V any] func(ctx context.Context, key K) (weir.Entry[V], error)

// A Script is a sequence of answers, created by [Loader.On] and [Loader.OnAny]. Each
// method adds one answer and returns the Script. Each load takes the next answer when
// it begins; the last one is used repeatedly:
//
//	l.On("a").Fail(errDown).Return(1) // fails once, then always returns 1
//
// A Script without answers has no effect. It is safe for concurrent use, but a load
// that begins while answers are being added sees only those added so far.
type Script[K comparable, V any] struct {
	l       *Loader[K, V]
	answers []answer[K, V] // guarded by l.mu
}

// On starts a new script for key, replacing any earlier one.
func (l *Loader[K, V]) On(key K) *Script[K, V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scripts == nil {
		l.scripts = make(map[K]*Script[K, V])
	}
	s := &Script[K, V]{l: l}
	l.scripts[key] = s
	return s
}

// OnAny starts a new script for all keys without their own script, replacing any
// earlier one. Those keys share a single sequence of answers.
func (l *Loader[K, V]) OnAny() *Script[K, V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others = &Script[K, V]{l: l}
	return l.others
}

// Return makes the load return v.
func (s *Script[K, V]) Return(v V) *Script[K, V] { return s.add(returns[K](weir.Entry[V]{Value: v})) }

// ReturnEntry makes the load return e. Load and LoadMany return only its Value.
func (s *Script[K, V]) ReturnEntry(e weir.Entry[V]) *Script[K, V] { return s.add(returns[K](e)) }

// Fail makes the load fail with err, such as weir.ErrNotFound.
func (s *Script[K, V]) Fail(err error) *Script[K, V] { return s.add(fails[K, V](err)) }

// Panic makes the load panic with v.
func (s *Script[K, V]) Panic(v any) *Script[K, V] { return s.add(panics[K, V](v)) }

// Goexit ends the load's goroutine with runtime.Goexit, like t.Fatal.
func (s *Script[K, V]) Goexit() *Script[K, V] { return s.add(exits[K, V]) }

// Default calls Loader.Func, as for a key without a script.
func (s *Script[K, V]) Default() *Script[K, V] { return s.add(s.l.fallback) }

func (s *Script[K, V]) add(a answer[K, V]) *Script[K, V] {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.answers = append(s.answers, a)
	return s
}

// takeLocked returns the next answer, or nil if there is none. s may be nil. l.mu must
// be held.
func (s *Script[K, V]) takeLocked() answer[K, V] {
	if s == nil || len(s.answers) == 0 {
		return nil
	}
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return a
}

func returns[K comparable, V any](e weir.Entry[V]) answer[K, V] {
	return func(context.Context, K) (weir.Entry[V], error) { return e, nil }
}

func fails[K comparable, V any](err error) answer[K, V] {
	return func(context.Context, K) (weir.Entry[V], error) { return weir.Entry[V]{}, err }
}

func panics[K comparable, V any](v any) answer[K, V] {
	return func(context.Context, K) (weir.Entry[V], error) { panic(v) }
}

func exits[K comparable, V any](context.Context, K) (weir.Entry[V], error) {
	runtime.Goexit()
	panic("unreachable")
}
