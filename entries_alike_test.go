package weir

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A deciding source returns different settings for each key, and others when it
// receives the previous value. It fails the test if it receives another key's
// value.
type deciding struct {
	*testing.T
	again atomic.Bool // set for the second load

	mu    sync.Mutex
	loads map[int]int // guarded by mu: calls by their number of keys
}

var (
	errDecided   = errors.New("the source is down")
	decidingKeys = []string{"plain", "own", "kept", "vanishes", "goes", "gone", "lost", "never", "heavy", "fails"}
)

func (d *deciding) say(key string, prev Previous[string]) (Entry[string], error) {
	n := 1
	if prev.OK {
		n = 2
		if prev.Value != key+"/1" || (prev.Version != "") != (key == "own" || key == "kept") || prev.Age < time.Minute {
			d.Errorf("%s received %+v", key, prev)
		}
	}
	in := Entry[string]{Value: fmt.Sprintf("%s/%d", key, n)}
	switch {
	case key == "own":
		in.TTL, in.StaleWhileRevalidate, in.StaleIfError = 200*time.Second, 50*time.Second, 500*time.Second
		in.Tags, in.Weight, in.Version = []string{"t", "u"}, 7, fmt.Sprintf("v%d", n)
	case key == "kept" && prev.OK:
		return Entry[string]{NotModified: true, TTL: 120 * time.Second}, nil
	case key == "kept":
		in.Tags, in.Weight, in.Version = []string{"t"}, 3, "v1"
	case key == "vanishes" && d.again.Load(), key == "never":
		in.NoStore = true
	case key == "goes" && prev.OK, key == "gone":
		return Entry[string]{TTL: 70 * time.Second, Tags: []string{"t"}}, fmt.Errorf("no %s: %w", key, ErrNotFound)
	case key == "lost":
		return in, ErrNotFound
	case key == "heavy":
		in.Weight = 5000
	case key == "fails":
		return in, errDecided
	}
	return in, nil
}

func (d *deciding) count(keys int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loads[keys]++
}

func (d *deciding) entry(_ context.Context, key string, prev Previous[string]) (Entry[string], error) {
	d.count(1)
	return d.say(key, prev)
}

func (d *deciding) entries(_ context.Context, keys []string, prev []Previous[string]) (map[string]Entry[string], error) {
	d.count(len(keys))
	if len(prev) != len(keys) {
		d.Fatalf("%d previous values for %d keys", len(prev), len(keys))
	}
	entries := map[string]Entry[string]{"nobody asked": {Value: "x", NotModified: true}}
	failed := KeyErrors[string]{}
	for i, key := range keys {
		in, err := d.say(key, prev[i])
		if key == "lost" {
			continue // LoadMany reports not-found this way
		}
		entries[key] = in
		if err != nil {
			failed[key] = err
		}
	}
	return entries, failed
}

// kept is memory's state of a key, in seconds since its load.
type kept struct {
	Value, Err, Version            string
	Refresh, Fresh, Stale, OnError int64
	Weight                         uint32
	Tags                           []string
}

func keeps(g *Guard[string, string]) map[string]kept {
	all := make(map[string]kept)
	for key, e := range g.store.All() {
		since := func(t instant) int64 { return int64(time.Duration(t-e.loadedAt).Round(time.Second) / time.Second) }
		k := kept{Value: e.value, Fresh: since(e.freshUntil), Stale: since(e.staleUntil), OnError: since(e.errorUntil), Weight: e.weight}
		switch {
		case e.outdated() || e.kind == kindFailure:
			continue
		case e.kind == kindNegative:
			k.Err = e.extra.err.Error()
		default:
			k.Refresh = since(e.refreshFrom.Load())
		}
		if e.extra != nil {
			k.Version = e.extra.version
			for _, t := range e.extra.tags {
				k.Tags = append(k.Tags, t.name)
			}
		}
		all[key] = k
	}
	return all
}

// decided returns memory's state after the first load of everything, and after
// the second.
func decided() (first, second map[string]kept) {
	value := func(v string) kept {
		return kept{Value: v, Refresh: 50, Fresh: 100, Stale: 200, OnError: 400, Weight: 1}
	}
	own := kept{Value: "own/1", Version: "v1", Refresh: 100, Fresh: 200, Stale: 250, OnError: 700, Weight: 7, Tags: []string{"t", "u"}}
	held := value("kept/1")
	held.Version, held.Weight, held.Tags = "v1", 3, []string{"t"}
	missing := func(key string) kept {
		return kept{Err: "no " + key + ": weir: not found", Fresh: 70, Stale: 70, OnError: 70, Weight: 1, Tags: []string{"t"}}
	}
	first = map[string]kept{
		"plain": value("plain/1"), "own": own, "kept": held, "vanishes": value("vanishes/1"), "goes": value("goes/1"),
		"gone": missing("gone"), "lost": {Err: "weir: not found", Fresh: 10, Stale: 10, OnError: 10, Weight: 1},
	}
	second = maps.Clone(first)
	second["plain"], second["goes"] = value("plain/2"), missing("goes")
	own.Value, own.Version = "own/2", "v2"
	second["own"] = own
	held.Refresh, held.Fresh, held.Stale, held.OnError = 60, 120, 220, 420
	second["kept"] = held
	delete(second, "vanishes")
	return first, second
}

// E5: an entry has the settings that its load returned, however the load was
// called: alone, with others, gathered, forced, in the background, or by
// another instance.
func TestE5EntriesAreAlikeHoweverLoaded(t *testing.T) {
	type guard = *Guard[string, string]
	one := func(ctx context.Context, g guard) {
		for _, key := range decidingKeys {
			g.Get(ctx, key)
		}
	}
	atOnce := func(ctx context.Context, g guard) {
		var all sync.WaitGroup
		for _, key := range decidingKeys {
			all.Go(func() { g.Get(ctx, key) })
		}
		all.Wait()
	}
	many := func(ctx context.Context, g guard) { g.GetMany(ctx, decidingKeys) }
	refresh := func(ctx context.Context, g guard) {
		for _, key := range decidingKeys {
			g.Refresh(ctx, key)
		}
	}
	const far, due = 2 * time.Hour, 150 * time.Second // beyond all windows; where a hit starts a refresh
	ways := []struct {
		name  string
		load  func(context.Context, guard)
		after time.Duration
	}{
		{"Get", one, far}, {"Get at once", atOnce, far}, {"GetMany", many, far}, {"Refresh", refresh, far},
		{"background", one, due}, {"background, many", many, due}, {"background, at once", atOnce, due},
	}
	for _, with := range []struct {
		name            string
		entry, entries  bool
		gathers, shares bool
	}{
		{"LoadEntry", true, false, false, false},
		{"LoadEntries", false, true, false, false},
		{"both", true, true, false, false},
		{"LoadEntries gathered", false, true, true, false},
		{"both gathered", true, true, true, false},
		{"LoadEntry in a fleet", true, false, false, true},
		{"LoadEntries in a fleet", false, true, false, true},
		{"both in a fleet", true, true, false, true},
		{"both gathered in a fleet", true, true, true, true},
	} {
		for _, way := range ways {
			t.Run(with.name+"/"+way.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := &deciding{T: t, loads: make(map[int]int)}
					var src Source[string, string]
					if with.entry {
						src.LoadEntry = d.entry
					}
					if with.entries {
						src.LoadEntries = d.entries
					}
					o := Options{
						Name: "alike", TTL: 100 * time.Second, RefreshAhead: 0.5, RefreshJitter: -1,
						StaleWhileRevalidate: 100 * time.Second, StaleIfError: 300 * time.Second,
						NegativeTTL: 10 * time.Second, MaxWeight: 1000,
					}
					if with.gathers {
						o.Batch = Batching{MaxSize: 4, Linger: time.Millisecond}
					}
					var other guard // in the fleet
					if with.shares {
						o.Fleet = Fleet{Config: fleet.Config{Tier: fleet.NewMemory(fleet.MemoryOptions{}), MemoryCap: 24 * time.Hour}}
						other = Must(NewFrom(src, o))
						defer other.Close(t.Context())
					}
					g := Must(NewFrom(src, o))
					defer g.Close(t.Context())
					load := func() {
						way.load(t.Context(), g)
						synctest.Wait()
						time.Sleep(10 * time.Millisecond) // gathering
						synctest.Wait()
					}
					check := func(round string, want map[string]kept) {
						t.Helper()
						for name, g := range map[string]guard{"it": g, "the other": other} {
							if g == nil {
								continue
							}
							if other != nil && g == other {
								g.GetMany(t.Context(), decidingKeys)
								synctest.Wait()
							}
							got := keeps(g)
							for _, key := range decidingKeys {
								if !reflect.DeepEqual(got[key], want[key]) {
									t.Errorf("%s: %s has of %s\n%+v; want\n%+v", round, name, key, got[key], want[key])
								}
							}
							if _, ok := got["nobody asked"]; ok {
								t.Errorf("%s: a key that was not asked for is kept", round)
							}
						}
					}
					first, second := decided()
					load()
					check("first", first)
					time.Sleep(way.after)
					d.again.Store(true)
					load()
					check("second", second)
					if n := g.Stats().NotModified; n != 1 {
						t.Errorf("Stats().NotModified = %d; want 1", n)
					}
					if with.entries && !with.gathers && way.name == "background, many" && d.loads[5] == 0 {
						t.Errorf("loads by keys: %v; want one refresh of 5", d.loads)
					}

					g.InvalidateTags(t.Context(), "t")
					synctest.Wait()
					for name, g := range map[string]guard{"it": g, "the other": other} {
						if g != nil && !slices.Equal(slices.Sorted(maps.Keys(keeps(g))), []string{"lost", "plain"}) {
							t.Errorf("%s keeps %v after its tag was invalidated; want lost and plain", name, keeps(g))
						}
					}
				})
			})
		}
	}
}
