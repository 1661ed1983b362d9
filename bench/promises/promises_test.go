package promises_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/bench/promises"
)

// Each promise is broken by at least one of these caches, which are written as one
// might write them in a hurry.
var naive = []struct {
	library promises.Library
	breaks  []string
}{
	{promises.Library{Name: "locked", Open: openLocked[string], OpenPair: openLocked[promises.Pair], Stores: true}, strings.Fields("leader-leaves own-deadline panic goexit hung-load shared-failure nested-load struct-keys delete-absent delete-present")},
	{promises.Library{Name: "unlocked", Open: openUnlocked, Stores: true}, strings.Fields("leader-leaves own-deadline panic goexit shared-failure delete-absent delete-present storm-one-key storm-many-keys")},
	{promises.Library{Name: "shared", Open: func(c promises.Setup[string]) promises.Subject[string] { return openShared(c, false) }}, strings.Fields("leader-leaves own-deadline late-caller no-zombie panic goexit no-false-success hung-load nested-load")},
	{promises.Library{Name: "detached", Open: func(c promises.Setup[string]) promises.Subject[string] { return openShared(c, true) }}, strings.Fields("own-deadline abandoned no-zombie panic goexit no-false-success hung-load nested-load")},
}

func TestEveryPromiseIsBrokenByANaiveCache(t *testing.T) {
	names, _ := promises.Promises()
	caught := map[string]bool{}
	for _, n := range naive {
		var broken []string
		for _, r := range promises.Check(t, n.library) {
			if !r.Kept && !r.Skipped {
				broken = append(broken, r.Promise)
				caught[r.Promise] = true
			}
		}
		if !slices.Equal(broken, n.breaks) {
			t.Errorf("%s breaks %q; want %q", n.library.Name, broken, n.breaks)
		}
	}
	for _, name := range names {
		if !caught[name] {
			t.Errorf("no naive cache breaks %s", name)
		}
	}
}

// A locked cache holds its lock during a load, and prints its keys. The lock is a
// channel, because in a bubble, time stands still while a goroutine waits for a
// sync.Mutex.
type locked[K comparable] struct {
	promises.Setup[K]
	mu     chan struct{}
	values map[string]string // guarded by mu
}

func openLocked[K comparable](c promises.Setup[K]) promises.Subject[K] {
	l := &locked[K]{Setup: c, mu: make(chan struct{}, 1), values: map[string]string{}}
	return promises.Subject[K]{Get: l.get, Forget: l.forget}
}

func (l *locked[K]) get(ctx context.Context, key K) (string, error) {
	l.mu <- struct{}{}
	defer func() { <-l.mu }()
	name := fmt.Sprintf("%v", struct{ K K }{key})
	if p, ok := any(key).(promises.Pair); ok {
		name = p.A + " " + p.B
	}
	if v, ok := l.values[name]; ok {
		return v, nil
	}
	v, err := l.Load(ctx, key)
	if err == nil && !l.NoStore {
		l.values[name] = v
	}
	return v, err
}

func (l *locked[K]) forget(key K) {
	l.mu <- struct{}{}
	defer func() { <-l.mu }()
	clear(l.values)
}

// An unlocked cache loads for each caller, and stores every result.
type unlocked struct {
	promises.Setup[string]
	values sync.Map
	born   sync.Map
}

func openUnlocked(c promises.Setup[string]) promises.Subject[string] {
	u := &unlocked{Setup: c}
	return promises.Subject[string]{Get: u.get, Forget: func(key string) { u.values.Delete(key) }}
}

func (u *unlocked) get(ctx context.Context, key string) (string, error) {
	if v, ok := u.values.Load(key); ok {
		if born, _ := u.born.Load(key); u.RefreshFrom > 0 && time.Since(born.(time.Time)) > u.RefreshFrom {
			go u.fill(context.WithoutCancel(ctx), key)
		}
		return v.(string), nil
	}
	return u.fill(ctx, key)
}

func (u *unlocked) fill(ctx context.Context, key string) (string, error) {
	v, err := u.Load(ctx, key)
	if err == nil && !u.NoStore {
		u.born.Store(key, time.Now())
		u.values.Store(key, v)
	}
	return v, err
}

// A shared cache coalesces by hand: it recovers from a panic without returning an
// error, and forgets a flight slightly too late.
type shared struct {
	promises.Setup[string]
	detached bool
	mu       sync.Mutex
	flights  map[string]*flight // guarded by mu
}

type flight struct {
	done  chan struct{}
	value string // written before done is closed
	err   error  // as value
}

func openShared(c promises.Setup[string], detached bool) promises.Subject[string] {
	s := &shared{Setup: c, detached: detached, flights: map[string]*flight{}}
	return promises.Subject[string]{Get: s.get}
}

func (s *shared) get(ctx context.Context, key string) (string, error) {
	s.mu.Lock()
	f := s.flights[key]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		s.flights[key] = f
		load := ctx
		if s.detached {
			load = context.WithoutCancel(ctx)
		}
		go s.run(load, key, f)
	}
	s.mu.Unlock()
	<-f.done
	return f.value, f.err
}

func (s *shared) run(ctx context.Context, key string, f *flight) {
	defer func() {
		recover()
		close(f.done)
		<-time.After(time.Millisecond)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.flights, key)
	}()
	f.value, f.err = s.Load(ctx, key)
}
