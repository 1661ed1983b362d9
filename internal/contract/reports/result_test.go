package reports_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// O1: a Result of any call has the time that it is still fresh, and the version
// and tags of its entry.
func TestO1ResultTellsFreshnessVersionAndTags(t *testing.T) {
	ways := map[string]func(*rig.Scene) weir.Result[int]{
		"GetResult": func(s *rig.Scene) weir.Result[int] { return s.Get("k") },
		"GetMany":   func(s *rig.Scene) weir.Result[int] { return s.G.GetMany(s.Context(), []string{"k", "other"})["k"] },
		"Peek":      func(s *rig.Scene) weir.Result[int] { r, _ := s.G.Peek("k"); return r },
	}
	for name, ask := range ways {
		t.Run(name, func(t *testing.T) {
			rig.Play(t, weir.Options{TTL: 100 * sec, StaleWhileRevalidate: 50 * sec, StaleIfError: 400 * sec}, func(s *rig.Scene) {
				s.Says(weir.Entry[int]{Value: 7, Version: "v1", Tags: []string{"a", "b"}}, nil)
				first := s.Get("k")
				wantFresh(s, first, 100*sec)
				s.Until(40 * sec)
				r := ask(s)
				wantFresh(s, r, 60*sec)
				for _, r := range []weir.Result[int]{first, r} {
					if r.Version() != "v1" || !slices.Equal(r.Tags(), []string{"a", "b"}) {
						s.Errorf("%+v: Version, Tags = %q, %q; want v1, [a b]", r, r.Version(), r.Tags())
					}
				}
				r.Tags()[0] = "x" // the caller's own
				if got := r.Tags(); got[0] != "a" {
					s.Errorf("Tags = %q after a change of what it returned", got)
				}
				s.Set(time.Hour, nil)
				s.Until(100 * sec)
				wantFresh(s, ask(s), 0)
				s.Until(300 * sec)
			})
		})
	}
}

func wantFresh(s *rig.Scene, r weir.Result[int], want time.Duration) {
	s.Helper()
	if r.FreshFor != want {
		s.Errorf("at %v: FreshFor = %v in %+v; want %v", s.Now(), r.FreshFor, r, want)
	}
}

// O1: a value that is not stored has no FreshFor.
func TestO1WhatIsNotKeptIsNotFresh(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 100 * sec, NegativeTTL: 10 * sec}, func(s *rig.Scene) {
		s.Says(weir.Entry[int]{Value: 1, NoStore: true}, nil)
		wantFresh(s, s.Get("private"), 0)
		s.Says(weir.Entry[int]{Value: 1, TTL: weir.None}, nil)
		wantFresh(s, s.Get("short"), 0)
		s.Says(weir.Entry[int]{NoStore: true}, weir.ErrNotFound)
		wantFresh(s, s.Get("hidden"), 0)
		s.Says(weir.Entry[int]{}, weir.ErrNotFound)
		wantFresh(s, s.Get("gone"), 10*sec)
		s.Until(4 * sec)
		wantFresh(s, s.Get("gone"), 6*sec)
		if r := s.Get("gone"); r.Version() != "" || r.Tags() != nil {
			s.Errorf("Version, Tags = %q, %q; want none", r.Version(), r.Tags())
		}
		s.Says(weir.Entry[int]{}, rig.ErrDown)
		wantFresh(s, s.Get("failing"), 0)
		s.Spring.Mu.Lock()
		s.Spring.Say, s.Spring.Takes = nil, sec
		s.Spring.Mu.Unlock()
		a := s.Ask("k")
		s.G.Invalidate(s.Context(), "k")
		<-a.Done
		if !a.Superseded || a.FreshFor != 0 {
			s.Errorf("%+v; want it superseded, and FreshFor 0", a.Result)
		}
	})
}

// O1: Get and GetResult, Refresh and RefreshResult differ in what they return.
func TestO1RefreshReturnsValueAndError(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 100 * sec, StaleIfError: time.Hour}, func(s *rig.Scene) {
		s.Prime("k")
		if v, err := s.G.Refresh(s.Context(), "k"); v != 2 || err != nil {
			s.Errorf("Refresh = %v, %v; want 2, nil", v, err)
		}
		s.Want(s.G.RefreshResult(s.Context(), "k"), rig.Loaded(3))
		s.Set(0, rig.ErrDown)
		if v, err := s.G.Refresh(s.Context(), "k"); v != 0 || err != rig.ErrDown {
			s.Errorf("Refresh = %v, %v; want 0, %v", v, err, rig.ErrDown)
		}
		s.Want(s.G.RefreshResult(s.Context(), "k"), rig.Failure(rig.ErrDown))
	})
}

// B3: RefreshMany loads keys that memory has, all in one call, joins running
// loads, and returns the error of a failure.
func TestB3RefreshManyLoadsWhatMemoryHas(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: time.Second}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: time.Minute, StaleIfError: time.Hour})
		g.GetMany(s.Context(), []string{"a", "b"})
		running := s.Get(s.Context(), g, "c")
		a := &rig.ManyAnswer{Done: make(chan struct{})}
		s.Ask(func() weir.Result[int] {
			defer close(a.Done)
			a.Results = g.RefreshMany(s.Context(), []string{"a", "c", "b", "a"})
			a.At = s.Now()
			return weir.Result[int]{}
		})
		s.WantMany(a, 2*time.Second, map[string]any{"a": 3, "b": 3, "c": 2})
		if !a.Results["c"].Joined || a.Results["a"].Joined {
			s.Errorf("%+v; want c joined, and a not", a.Results)
		}
		s.Want(running, 2, nil, 2*time.Second)
		b.Want(s, "a b at 0s", "c at 1s", "a b at 1s")
		b.Err, b.Lacks = rig.ErrDown, []string{"a", "b"}
		for key, r := range g.RefreshMany(s.Context(), []string{"a", "b"}) {
			if r.Err != rig.ErrDown || r.Value != 0 {
				s.Errorf("%s: %+v; want the error, though memory has a value", key, r)
			}
		}
		if r, ok := g.Peek("a"); !ok || r.Value != 3 {
			s.Errorf("Peek = %+v, %v; want the value of before", r, ok)
		}
	})
}

// B3: GetManySeq starts all loads before its first result, and yields each result
// in the order of the keys as soon as it is available.
func TestB3GetManySeqInTheOrderAsked(t *testing.T) {
	type result struct {
		key   string
		value int
		at    time.Duration
	}
	rig.Tell(t, func(s *rig.Story) {
		m, b := &rig.Mill{Takes: 3 * time.Second}, &rig.Bulk{Takes: time.Second}
		g := rig.GuardFrom(s, weir.Source[string, int]{Load: m.Load, LoadMany: b.Load}, weir.Options{TTL: time.Minute})
		if err := g.Set(s.Context(), "fresh", 70); err != nil {
			s.Fatal(err)
		}
		running := s.Get(s.Context(), g, "running")
		seq := g.GetManySeq(s.Context(), []string{"a", "fresh", "a", "running", "b"})
		s.At(ms)
		b.Want(s) // no load before the iteration
		var got []result
		for key, r := range seq {
			if r.Err != nil {
				s.Errorf("%s: %v", key, r.Err)
			}
			if len(got) == 0 {
				b.Want(s, "a b at 0s")
			}
			got = append(got, result{key, r.Value, s.Now()})
		}
		first := time.Second + ms
		want := []result{{"a", 1, first}, {"fresh", 70, first}, {"a", 1, first}, {"running", 1, 3 * time.Second}, {"b", 1, 3 * time.Second}}
		if !slices.Equal(got, want) {
			s.Errorf("results %v; want %v", got, want)
		}
		<-running.Done
		for range seq { // all of it is fresh now
		}
		b.Want(s, "a b at 0s")
	})
}

// B3: an iteration that ends early leaves the loads that it has not reached.
func TestB3GetManySeqThatBreaksOffLeaves(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: time.Hour}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: time.Minute})
		g.Set(s.Context(), "fresh", 70)
		for range g.GetManySeq(s.Context(), []string{"fresh", "a", "b"}) {
			s.At(ms) // the load of the others has begun
			break
		}
		s.At(2 * ms)
		if len(b.Causes) != 1 || b.Causes[0] != weir.ErrAbandoned {
			s.Errorf("causes %v; want the load abandoned", b.Causes)
		}
		rig.WantGauges(s, g, weir.Stats{})
	})
}

// B3, E6: keys that were overtaken while they were loaded are loaded again in one
// call, wherever the iteration is.
func TestB3GetManySeqLoadsAgainTogether(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: time.Second}
		tagged := func(ctx context.Context, keys []string, _ []weir.Previous[int]) (map[string]weir.Entry[int], error) {
			values, err := b.Load(ctx, keys)
			entries := make(map[string]weir.Entry[int])
			for _, key := range keys {
				entries[key] = weir.Entry[int]{Value: values[key], Tags: []string{"t"}}
			}
			return entries, err
		}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadEntries: tagged}, weir.Options{TTL: time.Minute})
		s.Many(s.Context(), g, "a", "b", "c")
		s.At(500 * ms)
		g.InvalidateTags(s.Context(), "t") // callers from now on need a load that begins later
		var keys []string
		for key, r := range g.GetManySeq(s.Context(), []string{"c", "a", "b", "c"}) {
			if r.Value != 2 || r.Err != nil || s.Now() != 2*time.Second {
				s.Errorf("%s: %+v at %v; want 2 at 2s", key, r, s.Now())
			}
			keys = append(keys, key)
		}
		if !slices.Equal(keys, []string{"c", "a", "b", "c"}) {
			s.Errorf("keys %v; want them in the order asked", keys)
		}
		b.Want(s, "a b c at 0s", "a b c at 1s")
	})
}
