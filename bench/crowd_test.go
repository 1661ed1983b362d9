package bench

import (
	"context"
	"sync"
	"testing"
)

// crowdSize is how many callers call at once.
const crowdSize = 1000

// A crowd is a group of callers that all request key at once. The func returns when
// all have their results.
type crowd func(key string)

// newcomers returns a crowd of callers on new goroutines each time.
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

// A round is one call of a crowd of residents.
type round struct {
	word chan struct{}
	done sync.WaitGroup

	// Written before word is closed, read only after.
	key  string
	next *round // nil: the residents end
}

func newRound() *round {
	r := &round{word: make(chan struct{})}
	r.done.Add(crowdSize)
	return r
}

// residents returns a crowd of callers whose goroutines last until the end of the
// benchmark.
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

// contexts returns one context per caller, as requests have. Callers that share one
// context would contend for its lock.
func contexts(b *testing.B) []context.Context {
	all := make([]context.Context, crowdSize)
	for i := range all {
		ctx, cancel := context.WithCancel(b.Context())
		b.Cleanup(cancel)
		all[i] = ctx
	}
	return all
}
