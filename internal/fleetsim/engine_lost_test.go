package fleetsim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/internal/histories"
)

// A pastEngine is a fleet.Memory that can go back in time, and whose clock can be
// stepped. It logs its operations, and goes back by replaying the first ones.
type pastEngine struct {
	fleet.BaseTier

	mu     sync.Mutex
	now    *fleet.Memory // guarded by mu
	log    []pastOp      // guarded by mu
	step   time.Duration // guarded by mu: how far the clock was stepped
	replay time.Time     // guarded by mu: the clock's time during a replay
}

type pastOp struct {
	at time.Time
	do func(m *fleet.Memory)
}

var _ fleet.Tier = (*pastEngine)(nil)

func newPastEngine() *pastEngine {
	e := &pastEngine{}
	e.now = e.empty()
	return e
}

func (e *pastEngine) empty() *fleet.Memory {
	return fleet.NewMemory(fleet.MemoryOptions{Clock: e.clock})
}

// clock returns the time. e.mu must be held, as it is while the Memory is called.
func (e *pastEngine) clock() time.Time {
	if !e.replay.IsZero() {
		return e.replay
	}
	return time.Now().Add(e.step)
}

// done returns the number of operations so far.
func (e *pastEngine) done() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.log)
}

// back restores e to its state after its first n operations.
func (e *pastEngine) back(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log = e.log[:n:n]
	e.replay = time.Now().Add(e.step)
	if n > 0 {
		e.replay = e.log[0].at
	}
	e.now = e.empty()
	for _, op := range e.log {
		e.replay = op.at
		op.do(e.now)
	}
	e.replay = time.Time{}
}

func pastDo[T any](e *pastEngine, do func(m *fleet.Memory) (T, error)) (T, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log = append(e.log, pastOp{e.clock(), func(m *fleet.Memory) { _, _ = do(m) }})
	return do(e.now)
}

func (e *pastEngine) Acquire(_ context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	return pastDo(e, func(m *fleet.Memory) (fleet.Answer, error) { return m.Acquire(context.Background(), k, a) })
}

func (e *pastEngine) Extend(_ context.Context, k fleet.Key, fence uint64, d time.Duration) (bool, error) {
	return pastDo(e, func(m *fleet.Memory) (bool, error) { return m.Extend(context.Background(), k, fence, d) })
}

func (e *pastEngine) Settle(_ context.Context, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	return pastDo(e, func(m *fleet.Memory) (bool, error) { return m.Settle(context.Background(), k, fence, o) })
}

func (e *pastEngine) Write(_ context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	return pastDo(e, func(m *fleet.Memory) (uint64, error) { return m.Write(context.Background(), k, w) })
}

func (e *pastEngine) Tags(_ context.Context, namespace string, tags []string) (fleet.TagState, error) {
	return pastDo(e, func(m *fleet.Memory) (fleet.TagState, error) { return m.Tags(context.Background(), namespace, tags) })
}

func (e *pastEngine) InvalidateTags(_ context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return pastDo(e, func(m *fleet.Memory) (uint64, error) {
		return m.InvalidateTags(context.Background(), namespace, tags, keep)
	})
}

func (e *pastEngine) ExpireTags(_ context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return pastDo(e, func(m *fleet.Memory) (uint64, error) {
		return m.ExpireTags(context.Background(), namespace, tags, keep)
	})
}

func (e *pastEngine) Watch(namespace string, w fleet.Watcher) (func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now.Watch(namespace, w)
}

// T12, T13, T14: whatever happens to the engine and the connections to it, an
// instance never returns what it has invalidated itself, no caller waits longer than
// a lease for another, and after an entry's lifetime all instances have the newest
// version.
func TestT13_EnginesThatGoBack(t *testing.T) {
	for seed := range histories.Seeds(t, 100, 1000) {
		goesBack(t, seed)
	}
}

func goesBack(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, lease = 20 * time.Second, time.Second
		r := rand.New(rand.NewPCG(seed, 0x6261636b))
		e := newPastEngine()
		var lines []*fleettest.Faults
		c := &cutSite{T: t}
		for range 3 {
			line := fleettest.NewFaults(e)
			b := fleet.WithBreaker(line, fleet.BreakerOptions{})
			g := c.guard(b, weir.Options{Name: "rows", TTL: ttl, Fleet: weir.Fleet{Config: fleet.Config{Tier: b, Lease: lease, MemoryCap: 5 * time.Second, PushValues: seed%3 > 0}}})
			t.Cleanup(func() {
				_ = g.Close(context.Background())
				_ = b.Close(context.Background())
			})
			lines, c.guards = append(lines, line), append(c.guards, g)
		}
		var trace []string
		did := func(format string, args ...any) { trace = append(trace, fmt.Sprintf(format, args...)) }
		var floors [3]int // per instance: the version at its last invalidation
		look := func(i, least int) {
			began := time.Now()
			res := c.guards[i].GetResult(t.Context(), "k")
			did("%v: instance %d shows version %d from %v after %v", began, i, res.Value.Version, res.Source, time.Since(began))
			if res.Err != nil || res.Value.Version < least || time.Since(began) > lease+time.Second {
				t.Fatalf("instance %d shows %+v after %v; want at least version %d\n%v", i, res, time.Since(began), least, trace)
			}
		}
		reconnect := func(change func()) { // cuts all connections and restores them
			for _, l := range lines {
				l.Cut()
			}
			change()
			for _, l := range lines {
				if err := l.Replace(e); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range lines {
				l.Mend()
			}
			synctest.Wait()
		}
		setBack := false
		names := []string{"Set", "Invalidate", "Expire", "InvalidateTags", "InvalidateAll"}
		for range 40 {
			i := r.IntN(3)
			switch x := r.IntN(12); x {
			case 0, 1, 2, 3:
				look(i, floors[i])
			case 4, 5:
				v := c.version.Add(1)
				name := names[r.IntN(len(names))]
				var err error
				if name == "Set" {
					err = c.guards[i].SetEntry(t.Context(), "k", weir.Entry[row]{Value: row{"k", int(v)}, Tags: []string{"t", "of k"}})
				} else {
					err = invalidations[name](t.Context(), c.guards[i])
				}
				floors[i] = int(v)
				did("%d: %s at version %d: %v", i, name, v, err)
			case 6:
				lines[i].Cut()
				did("%d is cut off", i)
			case 7:
				lines[i].Mend()
				did("%d is back", i)
			case 8:
				done := e.done()
				n := r.IntN(done + 1)
				if r.IntN(3) == 0 {
					n = max(0, done-r.IntN(6)) // as after a failover
				}
				did("the engine goes back to %d of %d operations", n, done)
				reconnect(func() { e.back(n) })
			case 9:
				did("the engine restarts empty")
				reconnect(func() { e.back(0) })
			case 10:
				d := []time.Duration{-time.Minute, time.Minute}[r.IntN(2)]
				e.mu.Lock()
				e.step += d
				e.mu.Unlock()
				setBack = setBack || d < 0
				did("the engine's clock steps by %v", d)
			case 11:
				time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
			}
		}
		for _, l := range lines {
			l.Mend()
		}
		time.Sleep(ttl + 10*time.Second)
		if setBack { // after that, an entry lasts its full lifetime from the first query
			for i := range c.guards {
				look(i, floors[i])
			}
			time.Sleep(ttl + 10*time.Second)
		}
		for i := range c.guards {
			look(i, int(c.version.Load()))
			if s := c.guards[i].Stats().Fleet; s.Pending > 0 {
				t.Errorf("instance %d has %d pending invalidations", i, s.Pending)
			}
		}
	})
}
