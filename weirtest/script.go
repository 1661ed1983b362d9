package weirtest

import (
	"context"
	"runtime"

	"github.com/weir-go/weir"
)

// An answer is the last step of a load, for one of its keys.
type answer[K comparable, V any] func(ctx context.Context, key K) (weir.Entry[V], error)

// A Script is a row of answers, made by [Loader.On] and [Loader.OnAny]. Each
// method adds one answer and returns the Script. Each load takes the next one
// when it begins, and the last one stays:
//
//	l.On("a").Fail(errDown).Return(1) // fails once, is 1 from then on
//
// A Script without answers is as none. It is safe for concurrent use, but a
// load that begins while answers are added sees only those that are there.
type Script[K comparable, V any] struct {
	l       *Loader[K, V]
	answers []answer[K, V] // guarded by l.mu
}

// On starts the script of key, in place of the one it had.
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

// OnAny starts the script of all keys that have none of their own, in place of
// the one they had. It is one row of answers for all of them together.
func (l *Loader[K, V]) OnAny() *Script[K, V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others = &Script[K, V]{l: l}
	return l.others
}

// Return answers with v.
func (s *Script[K, V]) Return(v V) *Script[K, V] { return s.add(returns[K](weir.Entry[V]{Value: v})) }

// ReturnEntry answers with e. Load and LoadMany return its Value alone.
func (s *Script[K, V]) ReturnEntry(e weir.Entry[V]) *Script[K, V] { return s.add(returns[K](e)) }

// Fail answers with err, such as weir.ErrNotFound.
func (s *Script[K, V]) Fail(err error) *Script[K, V] { return s.add(fails[K, V](err)) }

// Panic panics with v.
func (s *Script[K, V]) Panic(v any) *Script[K, V] { return s.add(panics[K, V](v)) }

// Goexit ends the load's goroutine with runtime.Goexit, as t.Fatal does.
func (s *Script[K, V]) Goexit() *Script[K, V] { return s.add(exits[K, V]) }

// Default answers as a key without a script: by Loader.Func.
func (s *Script[K, V]) Default() *Script[K, V] { return s.add(s.l.fallback) }

func (s *Script[K, V]) add(a answer[K, V]) *Script[K, V] {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.answers = append(s.answers, a)
	return s
}

// takeLocked returns the next answer, nil if there is none; s may be nil.
// l.mu must be held.
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
