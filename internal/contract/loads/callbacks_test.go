package loads_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// A stage is a Guard whose callbacks can each be made to fail, and its source.
type stage struct {
	*testing.T
	g       *weir.Guard[string, int]
	permits *limit.Concurrency
	tier    *fleet.Memory // nil without a fleet

	mu      sync.Mutex
	armed   string // guarded by mu: the callback that fails
	fault   func() // guarded by mu
	fired   int    // guarded by mu: how often it has failed
	version int    // guarded by mu: the version at the source
}

// at is called by each callback, with its name.
func (s *stage) at(name string) {
	s.mu.Lock()
	fault := s.fault
	if s.armed != name {
		fault = nil
	} else {
		s.fired++
	}
	s.mu.Unlock()
	if fault != nil {
		fault()
	}
}

func (s *stage) arm(name string, fault func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.fault = name, fault
}

// load is the source: a key with a b fails, one with an h returns a heavy
// value.
func (s *stage) load(ctx context.Context, key string) (int, error) {
	select {
	case <-time.After(50 * ms):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if key[0] == 'b' && s.armed != "" {
		return 0, rig.ErrDown
	}
	return s.version, nil
}

// stagedLimiter and the types below are the callbacks with methods.
type stagedLimiter struct{ *stage }

func (l stagedLimiter) Acquire(ctx context.Context) (limit.Permit, error) {
	l.at("Limiter.Acquire")
	p, err := l.permits.Acquire(ctx)
	if err != nil {
		return limit.Permit{}, err
	}
	return limit.NewPermit(func(o limit.Outcome) {
		p.Release(o)
		l.at("Permit.Release")
	}), nil
}

type stagedObserver struct{ *stage }

func (o stagedObserver) LoadStart(ctx context.Context, _ weir.LoadInfo) context.Context {
	o.at("LoadStart")
	return ctx
}
func (o stagedObserver) LoadEnd(context.Context, weir.LoadInfo, weir.LoadEnd) { o.at("LoadEnd") }
func (o stagedObserver) Waited(context.Context, weir.Wait)                    { o.at("Waited") }
func (o stagedObserver) Event(context.Context, weir.Event)                    { o.at("Event") }

type stagedTier struct {
	*stage
	fleet.Tier
}

func (t stagedTier) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	t.at("Tier.Acquire")
	return t.Tier.Acquire(ctx, k, a)
}

func (t stagedTier) Extend(ctx context.Context, k fleet.Key, fence uint64, d time.Duration) (bool, error) {
	t.at("Tier.Extend")
	return t.Tier.Extend(ctx, k, fence, d)
}

func (t stagedTier) Settle(ctx context.Context, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	ok, err := t.Tier.Settle(ctx, k, fence, o)
	t.at("Tier.Settle")
	return ok, err
}

func (t stagedTier) Write(ctx context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	t.at("Tier.Write")
	return t.Tier.Write(ctx, k, w)
}

func (t stagedTier) Tags(ctx context.Context, ns string, tags []string) (fleet.TagState, error) {
	t.at("Tier.Tags")
	return t.Tier.Tags(ctx, ns, tags)
}

func (t stagedTier) InvalidateTags(ctx context.Context, ns string, tags []string, keep time.Duration) (uint64, error) {
	t.at("Tier.InvalidateTags")
	return t.Tier.InvalidateTags(ctx, ns, tags, keep)
}

func (t stagedTier) Watch(ns string, w fleet.Watcher) (func(), error) {
	stop, err := t.Tier.Watch(ns, w)
	return func() { stop(); t.at("Tier.Watch") }, err
}

// stagedCodec is not a hook of a Source, but it is user code too.
type stagedCodec struct {
	*stage
	fleet.JSON
}

func (c stagedCodec) Marshal(v any) ([]byte, error) { c.at("Codec.Marshal"); return c.JSON.Marshal(v) }
func (c stagedCodec) Unmarshal(data []byte, v any) error {
	c.at("Codec.Unmarshal")
	return c.JSON.Unmarshal(data, v)
}

// callbacks are the names of all callbacks, those of a Tier last.
var callbacks = []string{
	"Load", "LoadMany", "Clone", "Classify", "Weigh", "BatchScope", "LoadContext", "KeyString",
	"LoadStart", "LoadEnd", "Waited", "Event", "Limiter.Acquire", "Permit.Release",
	"Codec.Marshal", "Codec.Unmarshal",
	"Tier.Acquire", "Tier.Extend", "Tier.Settle", "Tier.Write", "Tier.Tags", "Tier.InvalidateTags", "Tier.Watch",
}

// entryPoints are the calls that may reach a callback. Each is made when fresh, stale
// and due are in memory, a load of taken is running, and absent keys are missing.
var entryPoints = map[string]func(context.Context, *weir.Guard[string, int]){
	"Get of a fresh value":   func(ctx context.Context, g *weir.Guard[string, int]) { g.Get(ctx, "fresh") },
	"Get of a missing value": func(ctx context.Context, g *weir.Guard[string, int]) { g.Get(ctx, "absent") },
	"Get of a failing value": func(ctx context.Context, g *weir.Guard[string, int]) { g.Get(ctx, "broken") },
	"Get of a failing value that is stale": func(ctx context.Context, g *weir.Guard[string, int]) {
		time.Sleep(2 * time.Minute)
		g.Get(ctx, "bad")
	},
	"Get that joins":               func(ctx context.Context, g *weir.Guard[string, int]) { g.Get(ctx, "taken") },
	"GetResult of a missing value": func(ctx context.Context, g *weir.Guard[string, int]) { g.GetResult(ctx, "absent") },
	"Refresh":                      func(ctx context.Context, g *weir.Guard[string, int]) { g.Refresh(ctx, "fresh") },
	"GetWith": func(ctx context.Context, g *weir.Guard[string, int]) {
		g.GetWith(ctx, "stale", weir.Policy{NoStale: true, Priority: limit.High})
	},
	"GetWith of a failing value": func(ctx context.Context, g *weir.Guard[string, int]) {
		g.GetWith(ctx, "bad", weir.Policy{Bypass: true, SoftTimeout: ms})
	},
	"RefreshMany": func(ctx context.Context, g *weir.Guard[string, int]) {
		g.RefreshMany(ctx, []string{"absent", "fresh", "taken", "absent2"})
	},
	"GetManySeq": func(ctx context.Context, g *weir.Guard[string, int]) {
		for range g.GetManySeq(ctx, []string{"absent", "stale", "taken", "fresh", "absent2"}) {
		}
	},
	"GetManySeq that breaks off": func(ctx context.Context, g *weir.Guard[string, int]) {
		for range g.GetManySeq(ctx, []string{"fresh", "absent", "taken"}) {
			break
		}
	},
	"SetMany": func(ctx context.Context, g *weir.Guard[string, int]) {
		g.SetMany(ctx, map[string]int{"taken": -1, "absent": -2})
	},
	"SetNotFound": func(ctx context.Context, g *weir.Guard[string, int]) { g.SetNotFound(ctx, "taken") },
	"Set":         func(ctx context.Context, g *weir.Guard[string, int]) { g.Set(ctx, "taken", -1) },
	"Set of a value that is too big": func(ctx context.Context, g *weir.Guard[string, int]) {
		g.SetEntry(ctx, "absent", weir.Entry[int]{Weight: 1 << 30})
	},
	"Peek":                      func(_ context.Context, g *weir.Guard[string, int]) { g.Peek("stale") },
	"Invalidate":                func(ctx context.Context, g *weir.Guard[string, int]) { g.Invalidate(ctx, "stale", "taken") },
	"Expire":                    func(ctx context.Context, g *weir.Guard[string, int]) { g.Expire(ctx, "stale", "taken") },
	"InvalidateTags":            func(ctx context.Context, g *weir.Guard[string, int]) { g.InvalidateTags(ctx, "tag") },
	"InvalidateAll":             func(ctx context.Context, g *weir.Guard[string, int]) { g.InvalidateAll(ctx) },
	"refresh in the background": func(ctx context.Context, g *weir.Guard[string, int]) { g.Get(ctx, "stale") },
	"refreshes in the background": func(ctx context.Context, g *weir.Guard[string, int]) {
		g.GetMany(ctx, []string{"stale", "fresh", "due", "stale2"})
	},
	"GetMany": func(ctx context.Context, g *weir.Guard[string, int]) {
		g.GetMany(ctx, []string{"absent", "stale", "taken", "fresh", "absent2", "absent3"})
	},
	"GetMany that gives up": func(ctx context.Context, g *weir.Guard[string, int]) {
		ctx, cancel := context.WithTimeout(ctx, 5*ms)
		defer cancel()
		g.GetMany(ctx, []string{"absent", "stale", "taken", "absent2"})
	},
}

// newStage makes the Guard for one case. shape is the kind of its Source.
func newStage(t *testing.T, shape string, inFleet bool) *stage {
	s := &stage{T: t, version: 1}
	var err error
	if s.permits, err = limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 4}); err != nil {
		t.Fatal(err)
	}
	src := weir.Source[string, int]{
		Clone:       func(v int) int { s.at("Clone"); return v },
		Weigh:       func(string, int) uint32 { s.at("Weigh"); return 1 },
		LoadContext: func(ctx context.Context) context.Context { s.at("LoadContext"); return ctx },
		KeyString:   func(k string) string { s.at("KeyString"); return k },
	}
	many := func(ctx context.Context, keys []string) (map[string]int, error) {
		s.at("LoadMany")
		values := make(map[string]int)
		failed := weir.KeyErrors[string]{}
		for _, key := range keys {
			if v, err := s.load(ctx, key); err != nil {
				failed[key] = err
			} else {
				values[key] = v
			}
		}
		if len(failed) > 0 {
			return values, failed
		}
		return values, nil
	}
	src.Load = func(ctx context.Context, key string) (int, error) { s.at("Load"); return s.load(ctx, key) }
	o := weir.Options{
		Name: "stage", TTL: time.Second, StaleWhileRevalidate: time.Minute, StaleIfError: time.Hour, MaxWeight: 1 << 20,
		LoadTimeout: -1, Limiter: stagedLimiter{s}, Observer: stagedObserver{s},
		Classify: func(error) weir.Class { s.at("Classify"); return weir.ClassPermanent },
	}
	switch shape {
	case "bulk":
		src.LoadMany = many
	case "batch":
		src.LoadMany, src.Load = many, nil
		src.BatchScope = func(context.Context, string) any { s.at("BatchScope"); return "all" }
		o.Batch = weir.Batching{MaxSize: 8, Linger: 2 * ms, MaxParallel: 4}
	}
	if inFleet {
		s.tier = fleet.NewMemory(fleet.MemoryOptions{})
		o.LoadTimeout = time.Hour
		o.Fleet = weir.Fleet{Config: fleet.Config{Tier: stagedTier{s, s.tier}, Lease: fleet.MinLease, Cooling: -1}, Codec: stagedCodec{stage: s}}
	}
	if s.g, err = weir.NewFrom(src, o); err != nil {
		t.Fatal(err)
	}
	return s
}

// run calls fn on a caller's goroutine. ended is closed when that goroutine
// ends, and returned is set if fn returned.
func (s *stage) run(fn func()) (ended chan struct{}, returned *bool) {
	ended, returned = make(chan struct{}), new(bool)
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		fn()
		*returned = true
	}()
	return ended, returned
}

// play runs one case, and returns how often the callback has failed.
func (s *stage) play(callback string, fault func(), call func(context.Context, *weir.Guard[string, int])) int {
	ctx, g := s.Context(), s.g
	held := []string{"stale", "due", "stale2", "bad", "taken2"}
	for _, key := range held {
		if _, err := g.Get(ctx, key); err != nil {
			s.Fatalf("Get(%q) before the fault: %v", key, err)
		}
	}
	time.Sleep(2 * time.Second)
	g.Get(ctx, "fresh")
	others, _ := s.run(func() { g.Get(ctx, "taken") })
	time.Sleep(3 * ms)

	s.arm(callback, fault)
	ended, _ := s.run(func() { call(ctx, g) })
	var all []chan struct{}
	for _, key := range []string{"absent", "taken", "stale", "fresh", "broken"} {
		done, _ := s.run(func() { g.Get(ctx, key) }) // its hooks may fail too
		all = append(all, done)
	}
	time.Sleep(10 * time.Minute)
	for i, done := range append(all, ended, others) {
		select {
		case <-done:
		default:
			s.Errorf("caller %d has no answer", i)
		}
	}
	s.mu.Lock()
	s.armed, s.version = "", 2
	fired := s.fired
	s.mu.Unlock()
	s.healthy()
	return fired
}

// healthy checks that the fault has left nothing behind.
func (s *stage) healthy() {
	ctx, g := s.Context(), s.g
	synctest.Wait()
	if st := g.Stats(); st.Flights+st.Running+st.Refreshing+st.Stuck > 0 {
		s.Errorf("Flights, Running, Refreshing, Stuck = %d, %d, %d, %d; want none", st.Flights, st.Running, st.Refreshing, st.Stuck)
	}
	if st := s.permits.Stats(); st.InUse+st.Queued > 0 {
		s.Errorf("%d permits out, %d queued; want none", st.InUse, st.Queued)
	}
	keys := []string{"absent", "taken", "stale", "due", "fresh", "bad", "broken", "stale2"}
	for _, key := range keys {
		if s.tier == nil {
			break
		}
		a, err := s.tier.Acquire(ctx, fleet.Key{Namespace: "stage", Name: key}, fleet.Ask{Lease: ms, NewerThan: fleet.AnyFence, Cooled: true})
		if err != nil || a.Grant != fleet.GrantLease {
			s.Errorf("the lease of %q: %v, %v; want it to be free", key, a.Grant, err)
		}
	}
	time.Sleep(2 * ms) // the leases acquired above have expired
	for _, key := range keys {
		if v, err := g.Get(ctx, key); v != 2 || err != nil {
			s.Errorf("Get(%q) after the fault = %d, %v; want 2, nil", key, v, err)
		}
	}
	// All are in memory now; they must be refreshed once they are stale.
	s.mu.Lock()
	s.version = 3
	s.mu.Unlock()
	time.Sleep(5 * time.Second)
	for _, key := range keys {
		g.Get(ctx, key)
		time.Sleep(time.Second / 2)
		if v, err := g.Get(ctx, key); v != 3 || err != nil {
			s.Errorf("Get(%q) after it was due for a refresh = %d, %v; want 3, nil", key, v, err)
		}
	}
}

// F6, B2, E9: if any callback panics or exits, at any call and on any goroutine,
// nothing leaks: no joiner, permit, lease, election, count or goroutine. All other
// callers get an answer, the next call works, and Close returns.
func TestF6CallbackThatFailsLeavesNothingBehind(t *testing.T) {
	fired := make(map[string]int)
	cells, played := 0, 0
	// One cell in four has each pair of values: of a callback and an entry point, of an
	// entry point and a shape, and so on. A full run has them all.
	of := histories.Count(4, 1) * histories.Part()
	for i, shape := range []string{"single", "bulk", "batch"} {
		for j, inFleet := range []bool{false, true} {
			for k, callback := range callbacks {
				for l, name := range []string{"panic", "goexit"} {
					fault := map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit}[name]
					for m, at := range slices.Sorted(maps.Keys(entryPoints)) {
						if (i+2*j+k+l+m)%of != 0 && callback != "Tier.Tags" { // few reach that one
							continue
						}
						call := entryPoints[at]
						cells++
						t.Run(fmt.Sprintf("%s/%s/%s/fleet=%t/%s", callback, name, shape, inFleet, at), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								s := newStage(t, shape, inFleet)
								fired[callback+" "+name] += s.play(callback, fault, call)
								played++
								s.closes("")
							})
						})
					}
				}
			}
		}
	}
	if played < cells || histories.Alone() {
		return // some were selected by name, or too few are played
	}
	for _, callback := range callbacks {
		for _, name := range []string{"panic", "goexit"} {
			if fired[callback+" "+name] == 0 && callback != "Tier.Watch" && !t.Failed() {
				t.Errorf("%s: no entry point has met its %s", callback, name)
			}
		}
	}
}

// closes checks that Close returns although the armed callback fails.
func (s *stage) closes(armed string) {
	if err := s.g.Close(s.within(time.Hour)); err != nil {
		s.Errorf("Close = %v; want nil", err)
	}
	if st := s.permits.Stats(); st.InUse+st.Queued > 0 {
		s.Errorf("after Close %d permits out, %d queued; want none", st.InUse, st.Queued)
	}
	_ = armed
}

func (s *stage) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	s.Cleanup(cancel)
	return ctx
}

// F6, E9: the same when the Guard is closed while the callback fails.
func TestF6CallbackThatFailsDuringClose(t *testing.T) {
	for _, shape := range []string{"single", "batch"} {
		for _, inFleet := range []bool{false, true} {
			for _, callback := range callbacks {
				for name, fault := range map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit} {
					t.Run(fmt.Sprintf("%s/%s/%s/fleet=%t", callback, name, shape, inFleet), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							s := newStage(t, shape, inFleet)
							var all []chan struct{}
							for _, key := range []string{"a", "b", "c", "a"} {
								done, _ := s.run(func() { s.g.Get(t.Context(), key) })
								all = append(all, done)
							}
							many, _ := s.run(func() { s.g.GetMany(t.Context(), []string{"a", "d", "e"}) })
							time.Sleep(5 * ms)
							s.arm(callback, fault)
							s.closes(callback)
							for i, done := range append(all, many) {
								select {
								case <-done:
								case <-time.After(time.Minute):
									t.Errorf("caller %d has no answer", i)
								}
							}
						})
					})
				}
			}
		}
	}
}

// F6: an Observer that exits loses its own report, not the load.
func TestF6ObserverThatExits(t *testing.T) {
	for _, callback := range []string{"LoadStart", "LoadEnd", "Event"} {
		t.Run(callback, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, "single", false)
				s.arm(callback, runtime.Goexit)
				if v, err := s.g.Get(t.Context(), "k"); v != 1 || err != nil {
					t.Errorf("Get = %d, %v; want 1, nil", v, err)
				}
				synctest.Wait()
				if n := s.g.Stats().ObserverPanics; n != 1 && callback != "Event" {
					t.Errorf("ObserverPanics = %d; want 1", n)
				}
				s.closes("")
			})
		})
	}
}

// E9: a Close whose context ends reports what it waits for, including the
// Observer.
func TestE9CloseErrorCountsLoadsThatAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "single", false)
		release := make(chan struct{})
		s.arm("LoadEnd", func() { <-release })
		if v, err := s.g.Get(t.Context(), "k"); v != 1 || err != nil {
			t.Errorf("Get = %d, %v; want 1, nil", v, err)
		}
		var closing *weir.CloseError
		if err := s.g.Close(s.within(time.Second)); !errors.As(err, &closing) || closing.Running != 0 || closing.Reporting != 1 {
			t.Errorf("Close = %v; want an error that counts no load and one report", err)
		}
		close(release)
		s.closes("")
	})
}

// F6: a caller that panics in Clone while it collects a bulk load's values leaves no
// joiner behind.
func TestF6CloneThatPanicsInGetManyLeavesNoJoiner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "single", false)
		if _, err := s.g.Get(t.Context(), "fresh"); err != nil {
			t.Fatal(err)
		}
		s.arm("Clone", func() { panic("boom") })
		hang := make(chan struct{})
		ended, returned := s.run(func() { s.g.GetMany(t.Context(), []string{"a", "b", "c"}) })
		<-ended
		synctest.Wait()
		if st := s.g.Stats(); *returned || st.Running+st.Flights > 0 {
			t.Errorf("returned %t, %d loads, %d flights; want the panic, and none", *returned, st.Running, st.Flights)
		}
		close(hang)
		s.arm("", nil)
		s.closes("")
	})
}
