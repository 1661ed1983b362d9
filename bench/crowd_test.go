package bench

import (
	"context"
	"sync"
	"testing"
)

// crowdSize is how many callers ask at once.
const crowdSize = 1000

// A crowd is callers who all ask for key at once. It returns when all have
// their answers.
type crowd func(key string)

// newcomers are callers on new goroutines, each time.
func newcomers(b *testing.B, get getFunc[string]) crowd {
	ctxs := contexts(b)
	return func(key string) {
		var ready, done sync.WaitGroup
		start := make(chan struct{})
		ready.Add(crowdSize)
		for _, ctx := range ctxs {
			done.Go(func() {
				ready.Done()
				<-start
				ask(b, ctx, get, key)
			})
		}
		ready.Wait()
		close(start)
		done.Wait()
	}
}

// A round is one time that residents ask.
type round struct {
	word chan struct{}
	done sync.WaitGroup

	// Written before word is closed, read only after.
	key  string
	next *round // nil: go home
}

func newRound() *round {
	r := &round{word: make(chan struct{})}
	r.done.Add(crowdSize)
	return r
}

// residents are callers whose goroutines stay until the end of the benchmark.
func residents(b *testing.B, get getFunc[string]) crowd {
	now := newRound()
	for _, ctx := range contexts(b) {
		go func(r *round) {
			for {
				<-r.word
				if r.next == nil {
					r.done.Done()
					return
				}
				ask(b, ctx, get, r.key)
				r.done.Done()
				r = r.next
			}
		}(now)
	}
	b.Cleanup(func() {
		close(now.word)
		now.done.Wait()
	})
	return func(key string) {
		r := now
		r.key, r.next = key, newRound()
		close(r.word)
		r.done.Wait()
		now = r.next
	}
}

func ask(b *testing.B, ctx context.Context, get getFunc[string], key string) {
	if v, err := get(ctx, key); v == nil || err != nil || v.key != key {
		b.Errorf("Get(%q) = %v, %v", key, v, err)
	}
}

// contexts are one for each caller, as requests have: callers who all wait on
// one context would wait for its lock.
func contexts(b *testing.B) []context.Context {
	all := make([]context.Context, crowdSize)
	for i := range all {
		ctx, cancel := context.WithCancel(b.Context())
		b.Cleanup(cancel)
		all[i] = ctx
	}
	return all
}
