package weirredis_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

func TestLoadIsShared(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	a, b := open(t, s), open(t, s)
	told := watch(t, b, "ns")

	fence := granted(t, a, key("k"))
	if now := uint64(time.Now().UnixMicro()); fence > now || fence < now-60e6 {
		t.Errorf("fence = %d; want the engine's µs, about %d", fence, now)
	}
	held := acquire(t, b, key("k"), fleet.Ask{})
	if held.Grant != fleet.GrantHeld || held.Fence != fence || held.Remaining <= 0 || held.Remaining > time.Minute {
		t.Errorf("Acquire = %+v; want held by %d for up to 1m", held, fence)
	}
	if ok, err := a.Extend(t.Context(), key("k"), fence, time.Hour); !ok || err != nil {
		t.Errorf("Extend = %v, %v; want true", ok, err)
	}
	data := []byte("a\x00\xff\r\n" + strings.Repeat("z", 100_000))
	settle(t, a, key("k"), fence, fleet.Outcome{Entry: &fleet.Entry{Data: data, Fresh: time.Minute, Keep: time.Hour}}, true)
	told.await(t, fmt.Sprintf("changed %q %d false", "k", fence))
	got := acquire(t, b, key("k"), fleet.Ask{})
	if got.Grant != fleet.GrantFresh || !bytes.Equal(got.Entry.Data, data) || got.Entry.Fence != fence || got.Entry.Fresh > time.Minute || got.Entry.Fresh < 30*time.Second {
		t.Errorf("Acquire = %v with fence %d, %v left; want the settled entry", got.Grant, got.Entry.Fence, got.Entry.Fresh)
	}
}

// An operation is one command from the instance, not counting the commands inside
// scripts.
func TestRoundTrips(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s, func(o *weirredis.Options) { o.PingInterval = time.Minute })
	k := key("k")
	fence := granted(t, tier, k)
	rate := fleet.Rate{Permits: 10, Per: time.Second, Burst: 10}
	tests := []struct {
		name string
		run  func() error
		want map[string]int // commands of instances
	}{
		{"acquire", func() error { _, err := tier.Acquire(t.Context(), k, fleet.Ask{Lease: time.Minute}); return err }, map[string]int{"evalsha": 1}},
		{"extend, not known to the server", func() error { _, err := tier.Extend(t.Context(), k, fence, time.Minute); return err }, map[string]int{"evalsha": 1, "eval": 1}},
		{"extend", func() error { _, err := tier.Extend(t.Context(), k, fence, time.Minute); return err }, map[string]int{"evalsha": 1}},
		{"settle", func() error {
			_, err := tier.Settle(t.Context(), k, fence, fleet.Outcome{Entry: entry("v")})
			return err
		}, map[string]int{"evalsha": 1, "eval": 1}},
		{"settle again", func() error {
			_, err := tier.Settle(t.Context(), k, fence, fleet.Outcome{Entry: entry("v")})
			return err
		}, map[string]int{"evalsha": 1}},
		{"write", func() error { _, err := tier.Write(t.Context(), k, fleet.Write{}); return err }, map[string]int{"evalsha": 1, "eval": 1}},
		{"write again", func() error { _, err := tier.Write(t.Context(), k, fleet.Write{}); return err }, map[string]int{"evalsha": 1}},
		{"tags", func() error { _, err := tier.Tags(t.Context(), "ns", []string{"a", "b"}); return err }, map[string]int{"hmget": 1}},
		{"invalidate", func() error {
			_, err := tier.InvalidateTags(t.Context(), "ns", []string{"a", "b"}, time.Hour)
			return err
		}, map[string]int{"evalsha": 1, "eval": 1}},
		{"invalidate again", func() error {
			_, err := tier.InvalidateTags(t.Context(), "ns", []string{"a", "b"}, time.Hour)
			return err
		}, map[string]int{"evalsha": 1}},
		{"take", func() error { _, err := tier.Take(t.Context(), k, rate, 3); return err }, map[string]int{"evalsha": 1, "eval": 1}},
		{"take again", func() error { _, err := tier.Take(t.Context(), k, rate, 3); return err }, map[string]int{"evalsha": 1}},
	}
	for _, test := range tests {
		s.Do("CONFIG", "RESETSTAT")
		if err := test.run(); err != nil {
			t.Errorf("%s = %v", test.name, err)
		}
		calls := s.Calls()
		for _, name := range []string{"evalsha", "eval", "script|load", "get"} {
			if calls[name] != test.want[name] {
				t.Errorf("%s: %d %s; want %d", test.name, calls[name], name, test.want[name])
			}
		}
		if n := test.want["hmget"]; n > 0 && calls["hmget"] != n {
			t.Errorf("%s: %d hmget; want %d", test.name, calls["hmget"], n)
		}
	}
}

// Names can be any bytes, and no two names collide.
func TestNamesAreAnyBytes(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	long := strings.Repeat("\xff{}", fleet.MaxName/3)
	keys := []fleet.Key{
		{}, {Name: "/"}, {Namespace: "/"}, {Name: "a"}, {Namespace: "a"}, {Namespace: "a", Name: "b"}, {Namespace: "a/b"}, {Name: "a/b"},
		{Namespace: "|a"}, {Name: "{a}"}, {Name: "}:c:1"}, {Name: "%41"}, {Name: "A"}, {Name: "\x00"}, {Name: "%00"}, {Name: "\r\n"},
		{Name: long}, {Name: long + "x"}, {Namespace: long, Name: long}, {Name: "ü"}, {Name: `"\ `},
	}
	for i, k := range keys {
		told := watch(t, tier, k.Namespace)
		fence := write(t, tier, k, fleet.Write{Entry: entry(fmt.Sprint(i))})
		told.await(t, fmt.Sprintf("changed %q %d false", k.Name, fence))
		seq, err := tier.InvalidateTags(t.Context(), k.Namespace, []string{k.Name}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		told.await(t, fmt.Sprintf("tagged %q %d", k.Name, seq))
	}
	for i, k := range keys {
		if a := acquire(t, tier, k, fleet.Ask{}); a.Grant != fleet.GrantFresh || string(a.Entry.Data) != fmt.Sprint(i) {
			t.Errorf("Acquire(%.20q) = %v, %q; want fresh, %q", k, a.Grant, a.Entry.Data, fmt.Sprint(i))
		}
	}
	if n := s.Int("DBSIZE"); n < int64(2*len(keys)) {
		t.Errorf("DBSIZE = %d; want at least two for each of %d keys", n, len(keys))
	}
}

// Push keys are deleted, and all stored keys have a time to live, except the records
// of invalidations by tag.
func TestWhatIsKept(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	settle(t, tier, key("value"), granted(t, tier, key("value")), fleet.Outcome{Entry: &fleet.Entry{Fresh: time.Minute, Keep: 2 * time.Hour}}, true)
	settle(t, tier, key("failed"), granted(t, tier, key("failed")), fleet.Outcome{Cool: 30 * time.Minute, MaxCool: time.Hour}, true)
	settle(t, tier, key("released"), granted(t, tier, key("released")), fleet.Outcome{}, true)
	write(t, tier, key("removed"), fleet.Write{})
	granted(t, tier, key("held"))
	if _, err := tier.InvalidateTags(t.Context(), "ns", []string{"a"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := tier.Take(t.Context(), key("rate"), fleet.Rate{Permits: 1, Per: time.Minute, Burst: 5}, 2); err != nil {
		t.Fatal(err)
	}
	const after = 10 * time.Minute
	want := map[string]time.Duration{
		"weir:e:{ns/value}":    2 * time.Hour,
		"weir:s:{ns/value}":    2*time.Hour + after,
		"weir:s:{ns/failed}":   30*time.Minute + after,
		"weir:s:{ns/released}": after,
		"weir:s:{ns/removed}":  after,
		"weir:s:{ns/held}":     time.Minute + after,
		"weir:m:{ns/rate}":     2 * time.Minute,
		"weir:t:{|ns}":         -time.Millisecond, // PTTL's -1: no time to live
	}
	if keys := s.Texts("KEYS", "*"); len(keys) != len(want) {
		t.Errorf("KEYS = %q; want the keys of %v", keys, want)
	}
	for k, ttl := range want {
		got := time.Duration(s.Int("PTTL", k)) * time.Millisecond
		if got > ttl+time.Millisecond || got < ttl-patience {
			t.Errorf("PTTL %s = %v; want about %v", k, got, ttl)
		}
	}
}
