package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
)

// fleetLife is what can be seen of three instances of a fleet, of which the first has the
// Options one and its Source edited, and the others the Options rest: the answers to many calls
// and when they came, the loads, and the Stats of each.
func fleetLife(t *testing.T, one, rest weir.Options, edit func(*weir.Source[string, string])) string {
	t.Helper()
	var mu sync.Mutex
	var seen []string // guarded by mu
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf(format, args...))
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var takes atomic.Int64 // of a load, in ns
		takes.Store(int64(10 * ms))
		var fails atomic.Bool
		line := fleettest.NewFaults(fleet.NewMemory(fleet.MemoryOptions{}))
		var all [3]*weir.Guard[string, string]
		for i := range all {
			o := rest
			src := weir.Source[string, string]{Load: func(ctx context.Context, key string) (string, error) {
				note("%v: load of %s by %d", time.Since(start), key, i)
				select {
				case <-time.After(time.Duration(takes.Load())):
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
				v := fmt.Sprint(time.Since(start))
				if strings.HasPrefix(key, "big") {
					v += strings.Repeat("x", 24<<10)
				}
				if fails.Load() {
					return v, errors.New("down")
				}
				return v, nil
			}}
			if i == 0 {
				if o = one; edit != nil {
					edit(&src)
				}
			}
			if o.Fleet.Tier != nil {
				o.Fleet.Tier = line // one for each life
			}
			g, err := weir.NewFrom(src, o)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = g
		}
		get := func(i int, key string) {
			synctest.Wait() // for the pushes
			r := all[i].GetResult(context.Background(), key)
			note("%v %d %s: %v %v %v %v %.20s", time.Since(start), i, key, r.State, r.Source, r.Err, r.Age, r.Value)
		}
		for i := range all {
			get(i, "k")
		}
		synctest.Wait()
		line.Deafen(true) // MemoryCap
		_ = all[1].Set(context.Background(), "k", "set elsewhere")
		for range 16 {
			time.Sleep(500 * ms)
			get(0, "k")
		}
		synctest.Wait()
		line.Deafen(false)
		takes.Store(int64(5 * time.Second)) // a lease is renewed, and lost
		go get(0, "long")
		time.Sleep(2500 * ms)
		_ = all[1].Set(context.Background(), "long", "set meanwhile")
		time.Sleep(10 * time.Second)
		takes.Store(int64(10 * ms))
		for range 5 { // what is pushed
			for k := range 16 {
				for _, key := range []string{"p", fmt.Sprint("big", k)} {
					_ = all[1].RefreshResult(context.Background(), key)
					synctest.Wait()
				}
			}
			for k := range 16 {
				for i := range all {
					get(i, "p")
					get(i, fmt.Sprint("big", k))
				}
			}
		}
		get(1, "kept")
		fails.Store(true) // what is remembered for the fleet
		for range 100 {
			get(1, "f")
			get(0, "f")
			time.Sleep(100 * ms)
		}
		time.Sleep(10 * time.Minute)
		get(0, "kept")
		synctest.Wait()
		for _, g := range all {
			note("%+v", g.Stats().Fleet)
			_ = g.Close(context.Background())
		}
	})
	slices.Sort(seen)
	return strings.Join(seen, "\n")
}

// foreignCodec is a Codec that no other instance has.
type foreignCodec struct{ fleet.JSON }

func (foreignCodec) Name() string { return "another" }

// M4: each exported option of a Guard's Fleet changes something that can be seen.
func testEachFleetOption(t *testing.T, covered map[string]bool) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	type set = func(*weir.Options)
	base := func(sets ...set) weir.Options {
		o := weir.Options{Name: "rows", TTL: 5 * time.Second, StaleIfError: time.Hour, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}}
		for _, s := range sets {
			s(&o)
		}
		return o
	}
	pushing := base(func(o *weir.Options) { o.Fleet.PushValues, o.Fleet.MaxPush = true, 64<<10 })
	for field, row := range map[string]struct {
		base  weir.Options
		set   set
		alone bool // one instance has the option, the others not
	}{
		"Config.Tier":       {base: base(), alone: true, set: func(o *weir.Options) { o.Fleet = weir.Fleet{} }},
		"Config.Namespace":  {base: base(), alone: true, set: func(o *weir.Options) { o.Fleet.Namespace = "other" }},
		"Config.Lease":      {base: base(), set: func(o *weir.Options) { o.Fleet.Lease = time.Second }},
		"Config.MemoryCap":  {base: base(), set: func(o *weir.Options) { o.Fleet.MemoryCap = time.Second }},
		"Config.MaxKeep":    {base: base(), set: func(o *weir.Options) { o.Fleet.MaxKeep = time.Minute }},
		"Config.Cooling":    {base: base(), set: func(o *weir.Options) { o.Fleet.Cooling = time.Second }},
		"Config.MaxCooling": {base: base(), set: func(o *weir.Options) { o.Fleet.MaxCooling = 500 * ms }},
		"Config.PushValues": {base: base(), set: func(o *weir.Options) { o.Fleet.PushValues = true }},
		"Config.MaxPush":    {base: pushing, set: func(o *weir.Options) { o.Fleet.MaxPush = 1 }},
		"Config.PushMemory": {base: pushing, set: func(o *weir.Options) { o.Fleet.PushMemory = fleet.MinPushMemory }},
		"Codec":             {base: base(), alone: true, set: func(o *weir.Options) { o.Fleet.Codec = foreignCodec{} }},
		"CancelLost":        {base: base(), set: func(o *weir.Options) { o.Fleet.CancelLost = true }},
	} {
		covered["Fleet."+field] = true
		with := row.base
		row.set(&with)
		rest := with
		if row.alone {
			rest = row.base
		}
		if err := errors.Join(row.base.Validate(), with.Validate()); err != nil {
			t.Errorf("Fleet.%s: %v", field, err)
			continue
		}
		a := fleetLife(t, row.base, row.base, nil)
		if again := fleetLife(t, row.base, row.base, nil); a != again {
			t.Errorf("Fleet.%s: two lives with the same options differ", field)
		}
		if a == fleetLife(t, with, rest, nil) {
			t.Errorf("Fleet.%s has no effect that can be seen", field)
		}
	}
	covered["Source.KeyString"] = true
	named := func(src *weir.Source[string, string]) {
		src.KeyString = func(key string) string { return "other " + key }
	}
	if fleetLife(t, base(), base(), nil) == fleetLife(t, base(), base(), named) {
		t.Error("Source.KeyString has no effect that can be seen")
	}
}
