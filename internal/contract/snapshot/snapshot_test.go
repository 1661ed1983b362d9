package snapshot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/contract/rig"
)

// A book is a value with an exported part.
type book struct{ Title string }

var windows = weir.Options{TTL: time.Minute, StaleWhileRevalidate: time.Minute, StaleIfError: time.Hour}

// books returns a Guard that loads "loaded KEY".
func books(t *testing.T, o weir.Options) *weir.Guard[string, book] {
	t.Helper()
	src := weir.Source[string, book]{Load: func(_ context.Context, key string) (book, error) { return book{"loaded " + key}, nil }}
	if o.MaxWeight > 0 {
		src.Weigh = func(string, book) uint32 { return 1 }
	}
	g, err := weir.NewFrom(src, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

// written returns a snapshot of g.
func written[K comparable, V any](t *testing.T, g *weir.Guard[K, V]) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := g.Snapshot(t.Context(), &b, nil); err != nil {
		t.Fatalf("Snapshot = %v", err)
	}
	return b.Bytes()
}

func wantRestored[K comparable, V any](t *testing.T, g *weir.Guard[K, V], b []byte, want int) {
	t.Helper()
	if n, err := g.Restore(t.Context(), bytes.NewReader(b), nil); n != want || err != nil {
		t.Errorf("Restore = %d, %v; want %d, nil", n, err, want)
	}
}

func wantTitle(t *testing.T, g *weir.Guard[string, book], key, want string) weir.Result[book] {
	t.Helper()
	r := g.GetResult(t.Context(), key)
	if r.Err != nil || r.Value.Title != want {
		t.Errorf("Get(%s) = %q, %v; want %q", key, r.Value.Title, r.Err, want)
	}
	return r
}

func TestE10_RestoredEntriesKeepTheirInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := books(t, windows)
		for _, key := range []string{"fresh", "stale", "error", "gone"} {
			if err := before.Set(t.Context(), key, book{"stored " + key}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		b := written(t, before)
		time.Sleep(10 * time.Second) // the process is down
		after := books(t, windows)
		wantRestored(t, after, b, 4)
		if r := wantTitle(t, after, "fresh", "stored fresh"); r.State != weir.StateFresh || r.Age != 40*time.Second {
			t.Errorf("Get = %v, %v old; want fresh, 40s", r.State, r.Age)
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		wantTitle(t, after, "fresh", "stored fresh")
		time.Sleep(time.Nanosecond)
		if r := wantTitle(t, after, "stale", "stored stale"); r.State != weir.StateStale {
			t.Errorf("Get = %v; want stale while it revalidates", r.State)
		}
		synctest.Wait()
		wantTitle(t, after, "stale", "loaded stale")
		time.Sleep(time.Minute)
		wantTitle(t, after, "error", "loaded error") // past stale-while-revalidate

		again := books(t, windows)
		time.Sleep(time.Hour)
		wantRestored(t, again, b, 0) // all have expired
	})
}

// E10: a restored entry that is fresh for good keeps its stale windows, which count once
// it is expired.
func TestE10_EndlessFreshnessKeepsItsWindows(t *testing.T) {
	for _, window := range []time.Duration{0, time.Hour, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			o := weir.Options{TTL: math.MaxInt64, StaleIfError: window}
			before := books(t, o)
			wantTitle(t, before, "k", "loaded k")
			b := written(t, before)
			for range 2 { // restored once, and once more
				time.Sleep(time.Minute)
				after, err := weir.New(func(context.Context, string) (book, error) { return book{}, rig.ErrDown }, o)
				if err != nil {
					t.Fatal(err)
				}
				wantRestored(t, after, b, 1)
				time.Sleep(1000 * time.Hour)
				wantTitle(t, after, "k", "loaded k")
				b = written(t, after)
				if err := after.Expire(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				for _, at := range []time.Duration{time.Hour - time.Second, 2 * time.Second} {
					time.Sleep(at)
					want := window > time.Hour || window == time.Hour && at != 2*time.Second
					if r := after.GetResult(t.Context(), "k"); (r.State == weir.StateStaleOnError && r.Err == nil) != want {
						t.Errorf("window %v, %v later: %+v; want it served stale: %v", window, at, r, want)
					}
				}
				_ = after.Close(context.Background())
			}
		})
	}
}

func TestE10_WhatASnapshotHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := windows
		o.NegativeTTL, o.MaxWeight = time.Minute, 1000
		g := books(t, o)
		ctx := t.Context()
		_ = g.SetEntry(ctx, "tagged", weir.Entry[book]{Value: book{"x"}, Tags: []string{"a", "b"}, Version: "7", Weight: 5})
		_ = g.SetEntry(ctx, "endless", weir.Entry[book]{Value: book{"y"}, TTL: 1 << 62})
		_ = g.SetNotFound(ctx, "missing")
		_ = g.SetEntry(ctx, "outdated", weir.Entry[book]{Value: book{"z"}, Tags: []string{"c"}})
		_ = g.InvalidateTags(ctx, "c")
		b := written(t, g)

		versions := make(chan string, 1)
		after, err := weir.NewFrom(weir.Source[string, book]{LoadEntry: func(_ context.Context, _ string, p weir.Previous[book]) (weir.Entry[book], error) {
			versions <- p.Version + p.Value.Title
			return weir.Entry[book]{NotModified: true}, nil
		}}, o)
		if err != nil {
			t.Fatal(err)
		}
		defer after.Close(context.Background())
		wantRestored(t, after, b, 2)
		if r := after.GetResult(ctx, "endless"); r.Err != nil || r.State != weir.StateFresh {
			t.Errorf("Get(endless) = %v, %v; want fresh", r.State, r.Err)
		}
		time.Sleep(90 * time.Second)
		_, _ = after.Get(ctx, "tagged")
		synctest.Wait()
		if got := <-versions; got != "7x" {
			t.Errorf("the load got version and value %q; want 7x", got)
		}
		_ = after.InvalidateTags(ctx, "b") // the tags are those of the entry, too
		if _, ok := after.Peek("tagged"); ok {
			t.Error("a restored entry outlives the invalidation of its tag")
		}
	})
}

// If the wall clock is behind the snapshot's, by little, entries are as old as when they
// were written. By more, their age is unknown, and nothing is restored.
func TestE10_TheClockWasSetBack(t *testing.T) {
	for by, want := range map[time.Duration]int{time.Minute: 1, time.Minute + time.Nanosecond: 0} {
		var b []byte
		synctest.Test(t, func(t *testing.T) {
			g := books(t, windows)
			time.Sleep(by - 10*time.Second)
			_ = g.Set(t.Context(), "a", book{"old"})
			time.Sleep(10 * time.Second)
			b = written(t, g)
		})
		synctest.Test(t, func(t *testing.T) { // the time of a bubble begins anew
			g := books(t, windows)
			n, err := g.Restore(t.Context(), bytes.NewReader(b), nil)
			if n != want || (err == nil) != (want == 1) || err != nil && !errors.Is(err, weir.ErrSnapshot) {
				t.Errorf("Restore, set back by %v = %d, %v; want %d", by, n, err, want)
			}
			if want == 0 {
				return
			}
			if r := wantTitle(t, g, "a", "old"); r.State != weir.StateFresh || r.Age != 10*time.Second {
				t.Errorf("Get = %v, %v old; want fresh, 10s", r.State, r.Age)
			}
			time.Sleep(50 * time.Second)
			if r := wantTitle(t, g, "a", "old"); r.State != weir.StateStale {
				t.Errorf("Get after the TTL = %v; want stale", r.State)
			}
		})
	}
}

// Hits of restored entries avoid what their loads cost before, as the new Source counts cost.
func TestE10_RestoredEntriesKeepTheirCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counting := func(cost func(string) int) *weir.Guard[string, book] {
			g := weir.Must(weir.NewFrom(weir.Source[string, book]{
				LoadEntry: func(_ context.Context, key string, _ weir.Previous[book]) (weir.Entry[book], error) {
					return weir.Entry[book]{Value: book{"loaded " + key}, Cost: 70}, nil
				},
				Cost: cost,
			}, windows))
			t.Cleanup(func() { _ = g.Close(context.Background()) })
			return g
		}
		before := counting(func(string) int { return 5 })
		wantTitle(t, before, "a", "loaded a")
		b := written(t, before)
		after := counting(func(string) int { return 5 })
		wantRestored(t, after, b, 1)
		wantTitle(t, after, "a", "loaded a")
		if c := after.Stats().Cost; c.Hits != 70 || c.Spent != 0 {
			t.Errorf("cost avoided by hits %d, spent %d; want 70, 0", c.Hits, c.Spent)
		}
		without := counting(nil)
		wantRestored(t, without, b, 1)
		wantTitle(t, without, "a", "loaded a")
		if c := without.Stats().Cost; c != (weir.CostStats{}) {
			t.Errorf("costs without a Source.Cost are %+v; want none", c)
		}
	})
}

// A key that the codec decodes as another one is left out: its value must not become the
// answer for the other.
func TestE10_KeysThatTheCodecChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := books(t, windows)
		_ = g.Set(t.Context(), "\xff", book{"not UTF-8"})
		_ = g.Set(t.Context(), "a", book{"a"})
		check := func(n int, err error, want int) {
			t.Helper()
			var left *weir.SnapshotError
			if n != want || !errors.As(err, &left) || left.Entries != 1 {
				t.Errorf("Snapshot = %d, %v; want %d, and 1 missing", n, err, want)
			}
		}
		n, err := g.Snapshot(t.Context(), io.Discard, nil)
		check(n, err, 1)

		type account struct{ tenant, user string }
		hidden := weir.Must(weir.New(func(context.Context, account) (int, error) { return 0, nil }, windows))
		defer hidden.Close(context.Background())
		_ = hidden.Set(t.Context(), account{"a", "b"}, 1)
		n, err = hidden.Snapshot(t.Context(), io.Discard, nil)
		check(n, err, 0)
	})
}

// What was set, invalidated or expired in the new process wins, before and while
// Restore runs.
func TestE10_InvalidationsWin(t *testing.T) {
	changes := map[string]func(ctx context.Context, g *weir.Guard[string, book]) error{
		"Invalidate":     func(ctx context.Context, g *weir.Guard[string, book]) error { return g.Invalidate(ctx, "a") },
		"Expire":         func(ctx context.Context, g *weir.Guard[string, book]) error { return g.Expire(ctx, "a") },
		"InvalidateTags": func(ctx context.Context, g *weir.Guard[string, book]) error { return g.InvalidateTags(ctx, "t") },
		"ExpireTags":     func(ctx context.Context, g *weir.Guard[string, book]) error { return g.ExpireTags(ctx, "t") },
		"InvalidateAll":  func(ctx context.Context, g *weir.Guard[string, book]) error { return g.InvalidateAll(ctx) },
		"ExpireAll":      func(ctx context.Context, g *weir.Guard[string, book]) error { return g.ExpireAll(ctx) },
		"Set, and not stored": func(ctx context.Context, g *weir.Guard[string, book]) error {
			return g.SetEntry(ctx, "a", weir.Entry[book]{Value: book{"set"}, NoStore: true})
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := books(t, windows)
				_ = g.SetEntry(t.Context(), "a", weir.Entry[book]{Value: book{"old"}, Tags: []string{"t"}})
				b := written(t, g)
				for _, while := range []bool{false, true} {
					after := books(t, windows)
					var r io.Reader = bytes.NewReader(b)
					if while { // after the head was read, before the entry
						r = &pausing{b: b, at: len(b) / 2, then: func() { _ = change(t.Context(), after) }}
					} else {
						_ = change(t.Context(), after)
					}
					if n, err := after.Restore(t.Context(), r, nil); n != 0 || err != nil {
						t.Errorf("Restore = %d, %v; want 0, nil", n, err)
					}
					wantTitle(t, after, "a", "loaded a")
				}
				// And after it.
				after := books(t, windows)
				wantRestored(t, after, b, 1)
				_ = change(t.Context(), after)
				if r := after.GetResult(t.Context(), "a"); r.Err != nil || r.State == weir.StateFresh {
					t.Errorf("Get after %s = %v, %v; want a load, or stale", name, r.State, r.Err)
				}
			})
		})
	}
}

// pausing is a Reader that returns single bytes, and calls then in between.
type pausing struct {
	b    []byte
	at   int
	pos  int
	then func()
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.pos == len(p.b) {
		return 0, io.EOF
	}
	if p.pos == p.at {
		p.then()
	}
	b[0] = p.b[p.pos]
	p.pos++
	return 1, nil
}

func TestE10_MemoryWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := books(t, windows)
		for _, key := range []string{"a", "b"} {
			_ = g.Set(t.Context(), key, book{"old"})
		}
		b := written(t, g)
		after := books(t, windows)
		wantTitle(t, after, "a", "loaded a")
		wantRestored(t, after, b, 1)
		wantTitle(t, after, "a", "loaded a")
		wantTitle(t, after, "b", "old")
		wantRestored(t, after, b, 0) // a second time
	})
}

// Damaged input is an error, and restores whole records only.
func TestE10_DamagedSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := books(t, windows)
		const entries = 20
		for i := range entries {
			_ = g.SetEntry(t.Context(), fmt.Sprint(i), weir.Entry[book]{Value: book{"old"}, Tags: []string{"t"}})
		}
		whole := written(t, g)
		check := func(name string, b []byte) {
			t.Helper()
			after := books(t, windows)
			n, err := after.Restore(t.Context(), bytes.NewReader(b), nil)
			if !errors.Is(err, weir.ErrSnapshot) {
				t.Errorf("%s: Restore = %d, %v; want ErrSnapshot", name, n, err)
			}
			found := 0
			for i := range entries {
				if v, ok := after.Peek(fmt.Sprint(i)); ok {
					if found++; v.Value.Title != "old" {
						t.Errorf("%s: restored %q; want what was written", name, v.Value.Title)
					}
				}
			}
			if found != n || n > entries {
				t.Errorf("%s: Restore = %d, and %d are there", name, n, found)
			}
		}
		for i := range whole {
			check(fmt.Sprint("cut at ", i), whole[:i])
			b := bytes.Clone(whole)
			b[i] ^= 0x40
			check(fmt.Sprint("bit of byte ", i), b)
		}
		check("nothing", nil)
		check("zeros", make([]byte, 1000))
		check("a long record", append(whole[:9:9], binary.BigEndian.AppendUint32(nil, math.MaxUint32)...))
		check("a record without its bytes", append(whole[:9:9], binary.BigEndian.AppendUint32(nil, weir.MaxSnapshotEntry)...))
		few := bytes.Clone(whole)
		few[len(few)-5]++ // the number of entries
		check("an entry too few", repaired(few))
		long := append(whole[:9:9], binary.BigEndian.AppendUint32(nil, weir.MaxSnapshotEntry+1)...)
		if _, err := books(t, windows).Restore(t.Context(), bytes.NewReader(long), nil); !strings.Contains(fmt.Sprint(err), "are allowed") {
			t.Errorf("Restore of a record that is too long = %v; want its bounds", err)
		}
		if _, err := books(t, windows).Restore(t.Context(), io.MultiReader(bytes.NewReader(whole[:50]), failing{}), nil); err == nil || errors.Is(err, weir.ErrSnapshot) {
			t.Errorf("Restore from a reader that fails = %v; want that error", err)
		}
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestE10_ForeignSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := books(t, windows)
		_ = g.Set(t.Context(), "a", book{"old"})
		b := written(t, g)
		refused := func(name string, n int, err error, part string) {
			t.Helper()
			if n != 0 || !errors.Is(err, weir.ErrSnapshot) || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: Restore = %d, %v; want ErrSnapshot with %q", name, n, err, part)
			}
		}
		load := func(context.Context, string) (int, error) { return 0, nil }
		other := weir.Must(weir.New(load, windows))
		defer other.Close(context.Background())
		n, err := other.Restore(t.Context(), bytes.NewReader(b), nil)
		refused("another type", n, err, "Guard[string, int]")
		named := windows
		named.Name = "other"
		n, err = books(t, named).Restore(t.Context(), bytes.NewReader(b), nil)
		refused("another Name", n, err, `"other"`)
		n, err = books(t, windows).Restore(t.Context(), bytes.NewReader(b), codecOf{"gob"})
		refused("another codec", n, err, `"gob"`)
		newer := bytes.Clone(b)
		newer[len("weirsnap")]++
		n, err = books(t, windows).Restore(t.Context(), bytes.NewReader(newer), nil)
		refused("a newer version", n, err, "version 2")

		tier := fleet.NewMemory(fleet.MemoryOptions{})
		defer tier.Close(context.Background())
		shared := windows
		shared.Name, shared.Fleet = "books", weir.Fleet{Config: fleet.Config{Tier: tier}}
		n, err = books(t, shared).Restore(t.Context(), bytes.NewReader(b), nil)
		refused("in a fleet", n, err, "Tier")

		closed := books(t, windows)
		_ = closed.Close(context.Background())
		if n, err := closed.Restore(t.Context(), bytes.NewReader(nil), nil); n != 0 || !errors.Is(err, weir.ErrClosed) {
			t.Errorf("Restore after Close = %d, %v; want ErrClosed", n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n, err := books(t, windows).Restore(ctx, bytes.NewReader(b), nil); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("Restore with a canceled context = %d, %v", n, err)
		}
		if _, err := g.Snapshot(ctx, io.Discard, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Snapshot with a canceled context = %v", err)
		}
	})
}

type codecOf struct{ name string }

func (c codecOf) Name() string                     { return c.name }
func (codecOf) Marshal(any) ([]byte, error)        { panic("no") }
func (codecOf) Unmarshal(data []byte, v any) error { panic("no") }

// A snapshot without some of the entries is valid.
func TestE10_EntriesThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := func(context.Context, string) (any, error) { return nil, nil }
		g := weir.Must(weir.New(load, windows))
		defer g.Close(context.Background())
		ctx := t.Context()
		_ = g.Set(ctx, "a", 1)
		_ = g.Set(ctx, "b", func() {})
		_ = g.Set(ctx, "c", strings.Repeat("x", weir.MaxSnapshotEntry))
		var b bytes.Buffer
		n, err := g.Snapshot(ctx, &b, nil)
		var left *weir.SnapshotError
		if n != 1 || !errors.As(err, &left) || left.Entries != 2 {
			t.Errorf("Snapshot = %d, %v; want 1, and that 2 entries are missing", n, err)
		}
		after := weir.Must(weir.New(load, windows))
		defer after.Close(context.Background())
		wantRestored(t, after, b.Bytes(), 1)
		n, err = g.Snapshot(ctx, io.Discard, codecOf{"panics"})
		if n != 0 || !errors.As(err, &left) || left.Entries != 3 {
			t.Errorf("Snapshot with a codec that panics = %d, %v; want 3 entries missing", n, err)
		}
		if _, err := g.Snapshot(ctx, failingWriter{}, nil); err == nil || errors.As(err, &left) {
			t.Errorf("Snapshot to a writer that fails = %v; want its error", err)
		}
	})
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

// Hits need no lock while a snapshot is written or restored, and allocate nothing.
func TestE10_HitsDoNotWait(t *testing.T) {
	g := books(t, windows)
	for i := range 100 {
		_ = g.Set(t.Context(), fmt.Sprint(i), book{"old"})
	}
	hit := func() {
		if _, err := g.Get(t.Context(), "7"); err != nil {
			t.Error(err)
		}
	}
	var b bytes.Buffer
	n, err := g.Snapshot(t.Context(), io.MultiWriter(&b, writerFunc(hit)), nil)
	if n != 100 || err != nil {
		t.Fatalf("Snapshot = %d, %v; want 100", n, err)
	}
	g = books(t, windows)
	_ = g.Set(t.Context(), "7", book{"new"})
	if n, err := g.Restore(t.Context(), &pausing{b: b.Bytes(), at: b.Len() / 2, then: hit}, nil); n != 99 || err != nil {
		t.Errorf("Restore = %d, %v; want 99", n, err)
	}
	if n := testing.AllocsPerRun(100, hit); n > 0 && !rig.Race {
		t.Errorf("a hit of a restored entry allocates %v times; want 0", n)
	}
}

type writerFunc func()

func (f writerFunc) Write(b []byte) (int, error) { f(); return len(b), nil }
