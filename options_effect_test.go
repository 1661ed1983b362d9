package weir_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

// A life is what can be seen of a Guard: the answers to many calls and when they came, its
// loads, its Stats, what its Observer was notified of, and its hot keys.
func life(t *testing.T, o weir.Options, edit func(*weir.Source[string, int])) string {
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
		type way struct { // how loads go
			takes   time.Duration
			deaf    bool
			failure error
		}
		var now atomic.Pointer[way]
		now.Store(&way{takes: 100 * ms})
		src := weir.Source[string, int]{Load: func(ctx context.Context, key string) (int, error) {
			note("%v: load of %s", time.Since(start), key)
			w := now.Load()
			if w.deaf {
				ctx = context.WithoutCancel(ctx)
			}
			select {
			case <-time.After(w.takes):
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
			return int(time.Since(start)), w.failure
		}}
		if edit != nil {
			edit(&src)
		}
		g, err := weir.NewFrom(src, o)
		if err != nil {
			t.Fatal(err)
		}
		get := func(keys ...string) {
			for _, key := range keys {
				go func() {
					r := g.GetResult(context.Background(), key)
					note("%v %s: %v %v %v %v %d", time.Since(start), key, r.State, r.Source, r.Err, r.FreshFor, r.Value)
				}()
				synctest.Wait()
			}
		}
		during := func(d time.Duration, keys ...string) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * ms) {
				get(keys...)
				time.Sleep(ms)
			}
		}
		during(5*time.Second, "a", "b", "c")
		ctx, cancel := context.WithCancel(context.Background()) // a caller that leaves
		go func() { _, _ = g.Get(ctx, "left") }()
		time.Sleep(20 * ms)
		cancel()
		time.Sleep(time.Second)
		now.Store(&way{takes: 100 * ms, failure: weir.RetryAfter(rig.ErrDown, 2*sec)})
		during(5*time.Second, "a", "b", "c")
		now.Store(&way{takes: 100 * ms, failure: rig.ErrDown})
		during(15*time.Second, "a", "b")
		now.Store(&way{takes: 100 * ms, failure: weir.ErrNotFound})
		during(5*time.Second, "n")
		now.Store(&way{takes: 3 * time.Second})
		during(8*time.Second, "a", "b")
		now.Store(&way{takes: time.Minute, deaf: true})
		during(5*time.Second, "x", "y", "z", "a")
		now.Store(&way{takes: 100 * ms})
		time.Sleep(time.Minute)
		s := g.Stats()
		note("%+v %+v", s, g.HotKeys(3))
		_ = g.Close(context.Background())
	})
	slices.Sort(seen) // those of one instant come in any order
	return strings.Join(seen, "\n")
}

// M4: each exported option of a Guard, its Source and its Fleet changes something that can be
// seen. The bounds of the memory have a base in which nothing is evicted, as the store evicts at random.
func TestM4EachOptionHasAnEffect(t *testing.T) {
	type edit = func(*weir.Source[string, int])
	value := func(o *weir.Options) { o.TTL, o.LoadTimeout = 2*sec, 5*sec }
	batched := func(src *weir.Source[string, int]) { src.LoadMany = rig.Singly(src.Load) }
	batch := func(o *weir.Options) {
		value(o)
		o.Batch = weir.Batching{MaxSize: 2, Linger: 30 * ms}
	}
	all := func(with ...func(*weir.Options)) weir.Options {
		var o weir.Options
		for _, f := range with {
			f(&o)
		}
		return o
	}
	refreshing := func(o *weir.Options) {
		value(o)
		o.RefreshAhead, o.RefreshJitter = 0.5, -1
	}
	stale := func(o *weir.Options) {
		value(o)
		o.StaleIfError = time.Hour
	}
	observed := func(o *weir.Options) { o.Observer = &rig.Recorder{} }
	weighs := func(src *weir.Source[string, int]) { src.Weigh = func(string, int) uint32 { return 3 } }
	covered := map[string]bool{}
	for field, row := range map[string]struct {
		base weir.Options
		set  func(*weir.Options)
		src  edit // of both
		with edit // instead, with the option
	}{
		"TTL":                           {base: weir.Options{}, set: func(o *weir.Options) { o.TTL = 2 * sec }},
		"TTLJitter":                     {base: all(value), set: func(o *weir.Options) { o.TTLJitter = 0.5 }},
		"RefreshAhead":                  {base: all(value), set: func(o *weir.Options) { o.RefreshAhead = 0.5 }},
		"RefreshJitter":                 {base: all(refreshing), set: func(o *weir.Options) { o.RefreshJitter = 0.5 }},
		"RefreshBeta":                   {base: all(value), set: func(o *weir.Options) { o.RefreshBeta = 10 }},
		"RefreshRetry":                  {base: weir.Options{TTL: sec, StaleWhileRevalidate: time.Hour, MaxRetryAfter: -1}, set: func(o *weir.Options) { o.RefreshRetry = 300 * ms }},
		"RefreshRetryMax":               {base: weir.Options{TTL: sec, StaleWhileRevalidate: time.Hour, MaxRetryAfter: -1}, set: func(o *weir.Options) { o.RefreshRetryMax = sec }},
		"StaleWhileRevalidate":          {base: all(value), set: func(o *weir.Options) { o.StaleWhileRevalidate = time.Minute }},
		"StaleIfError":                  {base: all(value), set: func(o *weir.Options) { o.StaleIfError = time.Minute }},
		"NegativeTTL":                   {base: all(value), set: func(o *weir.Options) { o.NegativeTTL = sec }},
		"FailureMemo.Transient.Initial": {base: all(value), set: func(o *weir.Options) { o.FailureMemo.Transient.Initial = sec }},
		"FailureMemo.Transient.Max":     {base: weir.Options{FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: sec}}}, set: func(o *weir.Options) { o.FailureMemo.Transient.Max = 4 * sec }},
		"FailureMemo.Permanent.Initial": {base: weir.Options{Classify: permanent}, set: func(o *weir.Options) { o.FailureMemo.Permanent.Initial = sec }},
		"FailureMemo.Permanent.Max":     {base: weir.Options{Classify: permanent, FailureMemo: weir.FailureMemo{Permanent: weir.Backoff{Initial: sec}}}, set: func(o *weir.Options) { o.FailureMemo.Permanent.Max = 4 * sec }},
		"FailureMemo.Overload.Initial":  {base: weir.Options{Classify: overload}, set: func(o *weir.Options) { o.FailureMemo.Overload.Initial = sec }},
		"FailureMemo.Overload.Max":      {base: weir.Options{Classify: overload, FailureMemo: weir.FailureMemo{Overload: weir.Backoff{Initial: sec}}}, set: func(o *weir.Options) { o.FailureMemo.Overload.Max = 4 * sec }},
		"MaxRetryAfter":                 {base: all(value), set: func(o *weir.Options) { o.MaxRetryAfter = 200 * ms }},
		"LoadTimeout":                   {base: weir.Options{TTL: 2 * sec}, set: func(o *weir.Options) { o.LoadTimeout = 2 * sec }},
		"SoftTimeout":                   {base: all(stale), set: func(o *weir.Options) { o.SoftTimeout = 500 * ms }},
		"AbandonGrace":                  {base: all(value), set: func(o *weir.Options) { o.AbandonGrace = sec }},
		"MaxEntries":                    {base: weir.Options{TTL: time.Minute}, set: func(o *weir.Options) { o.MaxEntries = 1 }},
		"MaxWeight":                     {base: weir.Options{TTL: time.Minute, MaxWeight: 100}, set: func(o *weir.Options) { o.MaxWeight = 4 }, src: weighs},
		"MaxRefreshes":                  {base: weir.Options{TTL: sec, StaleWhileRevalidate: time.Minute}, set: func(o *weir.Options) { o.MaxRefreshes = 1 }},
		"MaxStuck":                      {base: weir.Options{TTL: sec, LoadTimeout: 2 * sec}, set: func(o *weir.Options) { o.MaxStuck = 1 }},
		"Batch.MaxSize":                 {base: all(batch, func(o *weir.Options) { o.Batch.MaxSize = 5 }), set: func(o *weir.Options) { o.Batch.MaxSize = 2 }, src: batched},
		"Batch.Linger":                  {base: all(value, func(o *weir.Options) { o.Batch.MaxSize = 5 }), set: func(o *weir.Options) { o.Batch.Linger = 30 * ms }, src: batched},
		"Batch.MaxParallel":             {base: all(batch), set: func(o *weir.Options) { o.Batch.MaxParallel = 1 }, src: batched},
		"Limiter":                       {base: all(value), set: func(o *weir.Options) { o.Limiter = limit.PerCall(refuser{}) }},
		"Classify":                      {base: all(value, func(o *weir.Options) { o.NegativeTTL = sec }), set: func(o *weir.Options) { o.Classify = func(error) weir.Class { return weir.ClassNotFound } }},
		"HotKeys":                       {base: all(value), set: func(o *weir.Options) { o.HotKeys = 1 }},
		"Source.LoadMany": {base: all(batch), set: func(*weir.Options) {}, src: func(src *weir.Source[string, int]) { src.LoadMany = rig.Singly(src.Load) }, with: func(src *weir.Source[string, int]) {
			src.LoadMany = func(context.Context, []string) (map[string]int, error) { return nil, rig.ErrDown }
		}},
		"Source.BatchScope": {base: all(batch), set: func(*weir.Options) {}, src: batched, with: func(src *weir.Source[string, int]) {
			batched(src)
			src.BatchScope = func(_ context.Context, key string) any { return key }
		}},
		"Source.Clone": {base: all(value), set: func(*weir.Options) {}, with: func(src *weir.Source[string, int]) { src.Clone = func(int) int { return 7 } }},
		"Source.Weigh": {base: weir.Options{TTL: time.Minute, MaxWeight: 24}, set: func(*weir.Options) {}, src: weighs, with: func(src *weir.Source[string, int]) { src.Weigh = func(string, int) uint32 { return 20 } }},
		"Source.Cost":  {base: all(value), set: func(*weir.Options) {}, with: func(src *weir.Source[string, int]) { src.Cost = func(string) int { return 9 } }},
		"Source.LoadContext": {base: all(value), set: func(*weir.Options) {}, with: func(src *weir.Source[string, int]) {
			src.LoadContext = func(context.Context) context.Context { panic("called") }
		}},
		"Source.Load": {base: all(value), set: func(*weir.Options) {}, with: func(src *weir.Source[string, int]) {
			src.Load = func(context.Context, string) (int, error) { return 0, rig.ErrDown }
		}},
		"Source.LoadEntry": {base: all(value), set: func(*weir.Options) {}, with: func(src *weir.Source[string, int]) {
			src.Load = nil
			src.LoadEntry = func(context.Context, string, weir.Previous[int]) (weir.Entry[int], error) {
				return weir.Entry[int]{TTL: sec}, nil
			}
		}},
		"Source.LoadEntries": {base: all(value), set: func(*weir.Options) {}, with: func(src *weir.Source[string, int]) {
			src.Load, src.LoadEntries = nil, func(context.Context, []string, []weir.Previous[int]) (map[string]weir.Entry[int], error) {
				return nil, rig.ErrDown
			}
		}},
	} {
		covered[field] = true
		o := row.base
		row.set(&o)
		if row.with == nil {
			row.with = row.src
		}
		if err := errors.Join(row.base.Validate(), o.Validate()); err != nil {
			t.Errorf("%s: %v", field, err)
			continue
		}
		a, again, b := life(t, row.base, row.src), life(t, row.base, row.src), life(t, o, row.with)
		if a == b {
			t.Errorf("%s has no effect that can be seen", field)
		}
		if a != again {
			t.Errorf("%s: two lives with the same options differ", field)
		}
	}
	// What an Observer sees.
	for field, set := range map[string]func(*weir.Options){
		"Observer": func(*weir.Options) {}, "Name": func(o *weir.Options) { o.Name = "n" },
		"ReportEvictions": func(o *weir.Options) { o.ReportEvictions = true },
	} {
		covered[field] = true
		saw := func(set func(*weir.Options)) string {
			o := all(observed, func(o *weir.Options) { o.TTL, o.MaxEntries = time.Minute, 1 }, set)
			life(t, o, nil)
			rec := o.Observer.(*rig.Recorder)
			return fmt.Sprint(rec.Ends, rec.Events)
		}
		if without := saw(func(*weir.Options) {}); field == "Observer" && without == "[] []" || field != "Observer" && without == saw(set) {
			t.Errorf("%s has no effect that can be seen", field)
		}
	}
	testEachFleetOption(t, covered)
	var visit func(prefix string, s reflect.Type)
	visit = func(prefix string, s reflect.Type) {
		for f := range fieldsOf(s) {
			name := prefix + f.Name
			switch {
			case f.Type.Kind() == reflect.Struct:
				visit(name+".", f.Type)
			case !covered[name]:
				t.Errorf("there is no case for %s", name)
			}
		}
	}
	visit("", reflect.TypeFor[weir.Options]())
	visit("Source.", reflect.TypeFor[weir.Source[string, int]]())
}

func permanent(error) weir.Class { return weir.ClassPermanent }
func overload(error) weir.Class  { return weir.ClassOverload }

// A refuser is a limiter without permits.
type refuser struct{}

func (refuser) Acquire(context.Context) (limit.Permit, error) {
	return limit.Permit{}, &limit.Error{Reason: limit.QueueFull, RetryAfter: sec}
}

func fieldsOf(s reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range s.NumField() {
			if !yield(s.Field(i)) {
				return
			}
		}
	}
}

// M4: MaxKeep bounds how long the Tier has a value.
func TestM4FleetMaxKeepBoundsTheTier(t *testing.T) {
	for _, keep := range []time.Duration{time.Minute, time.Hour} {
		rig.InFleet(t, func(s *rig.Site) {
			s.Takes = 0
			gs := s.Instances(2, func(o *weir.Options) { o.TTL, o.StaleIfError, o.Fleet.MaxKeep = sec, time.Hour, keep })
			s.Get(gs[0], "k", 0)
			time.Sleep(10 * time.Minute)
			s.Fail(rig.ErrDown)
			if r := gs[1].GetResult(s.Context(), "k"); (r.Err == nil) != (keep == time.Hour) {
				s.Errorf("MaxKeep %v: after ten minutes: %v", keep, r.Err)
			}
		})
	}
}

// M4: a Tier keeps values for their TTL, if no MaxKeep is set.
func TestM4FleetKeepsValuesForTheirTTL(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		s.Takes = 0
		gs := s.Instances(2, func(o *weir.Options) { o.TTL = 72 * time.Hour })
		s.Get(gs[0], "k", 0)
		time.Sleep(60 * time.Hour)
		s.Fail(rig.ErrDown)
		if r := gs[1].GetResult(s.Context(), "k"); r.Err != nil {
			s.Errorf("after 60 hours: %v", r.Err)
		}
	})
}
