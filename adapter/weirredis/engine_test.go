package weirredis_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

// Scripts that the server has forgotten are sent again.
func TestScriptFlush(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	for range 3 {
		everything(t, tier)
		write(t, tier, key("k"), fleet.Write{})
		s.Do("FLUSHALL")
		s.Do("SCRIPT", "FLUSH")
	}
	var done atomic.Bool
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for !done.Load() {
			s.Do("SCRIPT", "FLUSH")
		}
	})
	for i := range 300 {
		if fence := write(t, tier, key(fmt.Sprint(i)), fleet.Write{Entry: entry("v")}); fence == 0 {
			t.Errorf("Write = 0; want a fence")
		}
	}
	done.Store(true)
	flushing.Wait()
}

// An operator may delete keys: a load that began before cannot settle, and fences
// keep growing.
func TestOperatorDeletes(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	first := granted(t, tier, key("k"))
	settle(t, tier, key("k"), first, fleet.Outcome{Entry: entry("v")}, true)
	second := write(t, tier, key("k"), fleet.Write{Expire: true})

	s.Do("DEL", "weir:s:{ns/k}")
	settle(t, tier, key("k"), second, fleet.Outcome{Entry: entry("of before")}, false)
	if ok, err := tier.Extend(t.Context(), key("k"), second, time.Minute); ok || err != nil {
		t.Errorf("Extend without a register = %v, %v; want false", ok, err)
	}
	// The entry has a fence from the future, as after a clock was set back.
	const future = 1 << 52
	s.Do("HSET", "weir:e:{ns/k}", "f", fmt.Sprint(uint64(future)))
	third := granted(t, tier, key("k"))
	if third != future+1 {
		t.Errorf("fence = %d; want %d, past the entry's", third, uint64(future+1))
	}
	s.Do("DEL", "weir:e:{ns/k}")
	fourth := write(t, tier, key("k"), fleet.Write{})
	if fourth != future+2 {
		t.Errorf("fence = %d; want %d, past the register's", fourth, uint64(future+2))
	}
	s.Do("DEL", "weir:t:{|ns}")
	if got, err := tier.Tags(t.Context(), "ns", []string{"a"}); err != nil || got.Last != 0 || got.Each[0] != 0 {
		t.Errorf("Tags = %+v, %v; want none", got, err)
	}
}

// With too little memory keys are evicted and operations continue; the records of
// invalidations by tag stay.
func TestEviction(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t), "--maxmemory", "4mb", "--maxmemory-policy", "volatile-lru")
	tier := open(t, s)
	seq, err := tier.InvalidateTags(t.Context(), "ns", []string{"a"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	fence := granted(t, tier, key("first"))
	value := entry(strings.Repeat("v", 4<<10))
	// The engine records last use in whole seconds, and evicts at random among keys
	// of the same second, so the lease is evicted sooner or later.
	for i := 0; s.Int("EXISTS", "weir:s:{ns/first}") != 0; i++ {
		if i == 100_000 {
			t.Fatal("the oldest lease was not evicted")
		}
		k := key(fmt.Sprint(i))
		settle(t, tier, k, granted(t, tier, k), fleet.Outcome{Entry: value}, true)
	}
	settle(t, tier, key("first"), fence, fleet.Outcome{Entry: value}, false)
	if again := granted(t, tier, key("first")); again <= fence {
		t.Errorf("fence = %d; want more than %d", again, fence)
	}
	if got, err := tier.Tags(t.Context(), "ns", []string{"a"}); err != nil || got.Each[0] != seq {
		t.Errorf("Tags = %+v, %v; want %d", got, err, seq)
	}
}

// With full memory and no eviction, entries and leases are refused as a whole.
func TestOutOfMemory(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s, func(o *weirredis.Options) { o.Breaker.Failures = 1 << 20 })
	fence := granted(t, tier, key("k"))
	settle(t, tier, key("k"), fence, fleet.Outcome{Entry: entry("v")}, true)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	for _, test := range []struct {
		name string
		err  error
	}{
		{"acquire", second(tier.Acquire(t.Context(), key("new"), fleet.Ask{Lease: time.Minute}))},
		{"settle", second(tier.Settle(t.Context(), key("k"), fence, fleet.Outcome{Entry: entry("w")}))},
		{"write", second(tier.Write(t.Context(), key("k"), fleet.Write{Entry: entry("w")}))},
	} {
		if !unavailable(test.err) || !strings.Contains(test.err.Error(), "OOM") {
			t.Errorf("%s = %v; want unavailable, with OOM", test.name, test.err)
		}
	}
	if a := acquire(t, tier, key("k"), fleet.Ask{}); a.Grant != fleet.GrantFresh || string(a.Entry.Data) != "v" || a.Entry.Fence != fence {
		t.Errorf("Acquire = %+v; want the stored entry", a)
	}
	// Operations that free memory or invalidate succeed.
	settle(t, tier, key("k"), fence, fleet.Outcome{Cool: time.Minute, Remove: true}, true)
	if a := acquire(t, tier, key("k"), fleet.Ask{}); a.Grant != fleet.GrantCooling || a.Entry != nil {
		t.Errorf("Acquire = %+v; want cooling, and no entry", a)
	}
	write(t, tier, key("k"), fleet.Write{Expire: true})
	write(t, tier, key("k"), fleet.Write{})
	if _, err := tier.InvalidateTags(t.Context(), "ns", []string{"a"}, time.Hour); err != nil {
		t.Errorf("InvalidateTags = %v; want nil", err)
	}
}

func second[T any](_ T, err error) error { return err }

// Ten thousand callers of one key and of many keys: one lease per key.
func TestManyCallers(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	const callers, keys = 10_000, 100
	many := func(o *weirredis.Options) { o.Breaker.MaxCalls, o.Breaker.Deadline = callers, time.Minute }
	tiers := []*weirredis.Tier{open(t, s, many), open(t, s, many)}
	var grants [keys]atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			a, err := tiers[i%2].Acquire(t.Context(), key(fmt.Sprint(i%keys)), fleet.Ask{Lease: time.Minute})
			switch {
			case err != nil:
				t.Errorf("Acquire = %v", err)
			case a.Grant == fleet.GrantLease:
				grants[i%keys].Add(1)
			case a.Grant != fleet.GrantHeld:
				t.Errorf("Acquire = %v; want granted or held", a.Grant)
			}
		})
	}
	all.Wait()
	for i := range grants {
		if n := grants[i].Load(); n != 1 {
			t.Errorf("%d leases of key %d; want 1", n, i)
		}
	}
}

// Expired records are deleted as new ones come, a few at a time; the others stay.
func TestTagNotesArePruned(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	invalidate := func(keep time.Duration, tags ...string) uint64 {
		seq, err := tier.InvalidateTags(t.Context(), "ns", tags, keep)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	kept := invalidate(time.Hour, "kept")
	invalidate(time.Nanosecond, "kept") // does not shorten the first keep
	for i := range 300 {
		invalidate(time.Nanosecond, fmt.Sprint("old ", i), fmt.Sprint("older ", i))
	}
	last := invalidate(time.Hour, "")
	if n := s.Int("HLEN", "weir:t:{|ns}"); n > 50 {
		t.Errorf("%d of 600 expired records remain; want a few", n)
	}
	got, err := tier.Tags(t.Context(), "ns", []string{"kept", "", "never"})
	if err != nil || got.Last != last || got.Each[0] <= kept || got.Each[1] != last || got.Each[2] != 0 {
		t.Errorf("Tags = %+v, %v; want one after %d, %d, and none", got, err, kept, last)
	}
}
