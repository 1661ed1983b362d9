package fleetsim_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
)

// A row is the data in the source: a key and its version.
type row struct {
	Key     string
	Version int
}

// A cutSite is a source with three instances, each with a separate connection to one
// engine.
type cutSite struct {
	*testing.T
	version, loads atomic.Int64

	lines  []*fleettest.Faults
	guards []*weir.Guard[string, row]
}

// newCutSite returns a cutSite in which all instances have version 0 of the keys in
// memory.
func newCutSite(t *testing.T, change func(i int, o *weir.Options)) *cutSite {
	t.Helper()
	m := fleet.NewMemory(fleet.MemoryOptions{})
	c := &cutSite{T: t}
	for i := range 3 {
		line := fleettest.NewFaults(m)
		c.lines = append(c.lines, line)
		o := weir.Options{Name: "rows", TTL: 10 * time.Minute, StaleIfError: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: line, MemoryCap: 5 * time.Minute}}}
		if change != nil {
			change(i, &o)
		}
		g := c.guard(o.Fleet.Tier, o)
		t.Cleanup(func() { _ = g.Close(context.Background()) })
		c.guards = append(c.guards, g)
	}
	for _, g := range c.guards {
		for _, key := range []string{"k", "other"} {
			c.get(g, key, 0)
		}
	}
	synctest.Wait()
	return c
}

// guard returns an instance whose values have tags.
func (c *cutSite) guard(tier fleet.Tier, o weir.Options) *weir.Guard[string, row] {
	c.Helper()
	o.Fleet.Tier = tier
	g, err := weir.NewFrom(weir.Source[string, row]{
		LoadEntry: func(_ context.Context, key string, _ weir.Previous[row]) (weir.Entry[row], error) {
			c.loads.Add(1)
			time.Sleep(time.Millisecond)
			return weir.Entry[row]{Value: row{key, int(c.version.Load())}, Tags: []string{"t", "of " + key}}, nil
		},
	}, o)
	if err != nil {
		c.Fatal(err)
	}
	return g
}

func (c *cutSite) get(g *weir.Guard[string, row], key string, version int) weir.Result[row] {
	c.Helper()
	r := g.GetResult(c.Context(), key)
	if r.Err != nil || r.Value != (row{key, version}) {
		c.Errorf("GetResult(%q) = %+v; want version %d", key, r, version)
	}
	return r
}

// shows checks that instance i has this version of k, by Get and by GetMany.
func (c *cutSite) shows(i, version int) {
	c.Helper()
	c.get(c.guards[i], "k", version)
	if all := c.guards[i].GetMany(c.Context(), []string{"k"}); all["k"].Value.Version != version {
		c.Errorf("GetMany = %+v; want version %d", all["k"], version)
	}
}

// invalidations are the ways to invalidate k.
var invalidations = map[string]func(ctx context.Context, g *weir.Guard[string, row]) error{
	"Set":            func(ctx context.Context, g *weir.Guard[string, row]) error { return g.Set(ctx, "k", row{"k", 1}) },
	"Invalidate":     func(ctx context.Context, g *weir.Guard[string, row]) error { return g.Invalidate(ctx, "z", "k") },
	"Expire":         func(ctx context.Context, g *weir.Guard[string, row]) error { return g.Expire(ctx, "k") },
	"InvalidateTags": func(ctx context.Context, g *weir.Guard[string, row]) error { return g.InvalidateTags(ctx, "x", "of k") },
	"InvalidateAll":  func(ctx context.Context, g *weir.Guard[string, row]) error { return g.InvalidateAll(ctx) },
}

// T12: an entry that an instance has invalidated while it was cut off does not come
// back there, in whatever order the instances and the engine return. Once the
// invalidation has been sent, it does not come back on other instances either.
func TestT12_WhatWasInvalidatedWhileCutOffDoesNotComeBack(t *testing.T) {
	ends := map[string]func(c *cutSite){
		"it returns": func(c *cutSite) { c.lines[0].Mend() },
		"it returns, others are cut off": func(c *cutSite) {
			c.lines[1].Cut()
			c.lines[2].Cut()
			c.lines[0].Mend()
			c.shows(0, 1)
			c.lines[1].Mend()
			c.lines[2].Mend()
		},
		"it is cut off twice": func(c *cutSite) {
			c.lines[0].Before(func(op string) { // its first command cuts it off again
				c.lines[0].Before(nil)
				c.lines[0].Cut()
			})
			c.lines[0].Mend()
			c.shows(0, 1)
			time.Sleep(time.Second)
			c.lines[0].Mend()
		},
		"its writes are lost, its questions answered": func(c *cutSite) {
			c.lines[0].Before(func(op string) {
				if op == "write" || op == "invalidate tags" {
					c.lines[0].Hang()
				} else {
					c.lines[0].Unhang()
				}
			})
			c.lines[0].Mend()
			c.shows(0, 1)
			c.lines[0].Before(nil)
			c.lines[0].Unhang()
		},
		"the engine returns empty": func(c *cutSite) {
			empty := fleet.NewMemory(fleet.MemoryOptions{})
			for _, l := range c.lines {
				l.Cut()
				if err := l.Replace(empty); err != nil {
					c.Fatal(err)
				}
			}
			for _, l := range c.lines {
				l.Mend()
			}
		},
	}
	for what, invalidate := range invalidations {
		for how, end := range ends {
			for _, hangs := range []bool{false, true} {
				t.Run(fmt.Sprint(what, ", ", how, ", hangs ", hangs), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newCutSite(t, func(i int, o *weir.Options) {
							b := fleet.WithBreaker(o.Fleet.Tier, fleet.BreakerOptions{})
							t.Cleanup(func() { b.Close(context.Background()) })
							o.Fleet.Tier = b
						})
						c.version.Store(1)
						if hangs {
							c.lines[0].Hang()
						} else {
							c.lines[0].Cut()
						}
						ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // shorter than the deadline
						defer cancel()
						if err := invalidate(ctx, c.guards[0]); !errors.Is(err, fleet.ErrUnavailable) {
							t.Errorf("error %v; want one that matches ErrUnavailable", err)
						}
						c.shows(0, 1)
						if hangs {
							c.lines[0].Cut()
							c.lines[0].Unhang()
						}
						end(c)
						c.shows(0, 1)
						time.Sleep(5 * time.Second)
						for i, g := range c.guards {
							c.shows(i, 1)
							if s := g.Stats().Fleet; s.Pending != 0 || s.Blocked {
								t.Errorf("Stats of instance %d = %+v; want none pending", i, s)
							}
						}
					})
				})
			}
		}
	}
}

// An unwritten Tier answers queries but accepts no removal.
type unwritten struct{ fleet.Tier }

func (unwritten) Write(context.Context, fleet.Key, fleet.Write) (uint64, error) {
	return 0, &fleet.UnavailableError{Op: "write", Err: context.DeadlineExceeded}
}

// T12: a single missed deadline does not block the fleet.
func TestT12_OneMissedDeadlineLeavesTheFleetOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCutSite(t, func(i int, o *weir.Options) {
			if i == 0 {
				o.Fleet.Tier = unwritten{o.Fleet.Tier}
			}
		})
		c.version.Store(1)
		if err := c.guards[0].Invalidate(t.Context(), "k"); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Invalidate = %v; want ErrUnavailable", err)
		}
		loads := c.loads.Load()
		c.get(c.guards[1], "third", 1)
		if r := c.get(c.guards[0], "third", 1); r.Source != weir.FromTier {
			t.Errorf("source of another key = %v; want the tier", r.Source)
		}
		c.shows(0, 1)
		if n := c.loads.Load(); n != loads+2 {
			t.Errorf("%d loads; want %d", n, loads+2)
		}
	})
}

// An eventCounter counts two kinds of events.
type eventCounter struct {
	weir.NopObserver
	pending, sent atomic.Int64
}

func (c *eventCounter) Event(_ context.Context, e weir.Event) {
	switch e.Kind {
	case weir.EventInvalidationsPending:
		c.pending.Add(1)
	case weir.EventInvalidationsSent:
		c.sent.Add(1)
	}
}

// T12: an Observer is notified once when invalidations become pending, and once when
// none are left; Stats count them.
func TestT12_PendingInvalidationsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &eventCounter{}
		c := newCutSite(t, func(i int, o *weir.Options) {
			if i == 0 {
				o.Observer = rec
			}
		})
		c.lines[0].Cut()
		var err error
		for i := range 20 {
			err = c.guards[0].Invalidate(t.Context(), fmt.Sprint(i))
		}
		var pending *fleet.PendingError
		if !errors.As(err, &pending) || pending.Pending != 20 {
			t.Errorf("Invalidate = %v; want a PendingError of 20", err)
		}
		if s := c.guards[0].Stats().Fleet; s.Pending != 20 || s.Queued != 20 || s.Blocked {
			t.Errorf("Stats = %+v; want 20 pending", s)
		}
		c.lines[0].Mend()
		time.Sleep(time.Second)
		if s := c.guards[0].Stats().Fleet; s.Pending != 0 || s.Replayed != 20 {
			t.Errorf("Stats = %+v; want 20 replayed", s)
		}
		if a, b := rec.pending.Load(), rec.sent.Load(); a != 1 || b != 1 {
			t.Errorf("the Observer was called %d and %d times; want once each", a, b)
		}
	})
}

// T12: pending invalidations are lost with an instance that dies. Close reports them,
// and the other instances keep the old value until its entry ends, and no longer.
func TestT12_WhoDiesLosesWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCutSite(t, nil)
		began := time.Now()
		c.lines[0].Cut()
		c.version.Store(1)
		_ = c.guards[0].Invalidate(t.Context(), "k")
		var lost *fleet.PendingError
		if err := c.guards[0].Close(t.Context()); !errors.As(err, &lost) || lost.Pending != 1 {
			t.Errorf("Close = %v; want a PendingError of 1", err)
		}
		c.lines[0].Mend()
		time.Sleep(9 * time.Minute)
		c.shows(1, 0)
		time.Sleep(10*time.Minute - time.Since(began))
		c.shows(1, 1)
		c.shows(2, 1)
	})
}
