package weir_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
)

// O1: a Result of any call has the time that it is still fresh, and the version
// and tags of its entry.
func TestO1ResultTellsFreshnessVersionAndTags(t *testing.T) {
	ways := map[string]func(*scene) weir.Result[int]{
		"GetResult": func(s *scene) weir.Result[int] { return s.get("k") },
		"GetMany":   func(s *scene) weir.Result[int] { return s.g.GetMany(s.Context(), []string{"k", "other"})["k"] },
		"Peek":      func(s *scene) weir.Result[int] { r, _ := s.g.Peek("k"); return r },
	}
	for name, ask := range ways {
		t.Run(name, func(t *testing.T) {
			play(t, weir.Options{TTL: 100 * sec, StaleWhileRevalidate: 50 * sec, StaleIfError: 400 * sec}, func(s *scene) {
				s.says(weir.Entry[int]{Value: 7, Version: "v1", Tags: []string{"a", "b"}}, nil)
				first := s.get("k")
				wantFresh(s, first, 100*sec)
				s.until(40 * sec)
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
				s.set(time.Hour, nil)
				s.until(100 * sec)
				wantFresh(s, ask(s), 0)
				s.until(300 * sec)
			})
		})
	}
}

func wantFresh(s *scene, r weir.Result[int], want time.Duration) {
	s.Helper()
	if r.FreshFor != want {
		s.Errorf("at %v: FreshFor = %v in %+v; want %v", s.now(), r.FreshFor, r, want)
	}
}

// O1: a value that is not stored has no FreshFor.
func TestO1WhatIsNotKeptIsNotFresh(t *testing.T) {
	play(t, weir.Options{TTL: 100 * sec, NegativeTTL: 10 * sec}, func(s *scene) {
		s.says(weir.Entry[int]{Value: 1, NoStore: true}, nil)
		wantFresh(s, s.get("private"), 0)
		s.says(weir.Entry[int]{Value: 1, TTL: weir.None}, nil)
		wantFresh(s, s.get("short"), 0)
		s.says(weir.Entry[int]{NoStore: true}, weir.ErrNotFound)
		wantFresh(s, s.get("hidden"), 0)
		s.says(weir.Entry[int]{}, weir.ErrNotFound)
		wantFresh(s, s.get("gone"), 10*sec)
		s.until(4 * sec)
		wantFresh(s, s.get("gone"), 6*sec)
		if r := s.get("gone"); r.Version() != "" || r.Tags() != nil {
			s.Errorf("Version, Tags = %q, %q; want none", r.Version(), r.Tags())
		}
		s.says(weir.Entry[int]{}, errDry)
		wantFresh(s, s.get("failing"), 0)
		s.spring.mu.Lock()
		s.spring.say, s.spring.takes = nil, sec
		s.spring.mu.Unlock()
		a := s.ask("k")
		s.g.Invalidate(s.Context(), "k")
		<-a.done
		if !a.Superseded || a.FreshFor != 0 {
			s.Errorf("%+v; want it superseded, and FreshFor 0", a.Result)
		}
	})
}

// O1: Get and GetResult, Refresh and RefreshResult differ in what they return.
func TestO1RefreshReturnsValueAndError(t *testing.T) {
	play(t, weir.Options{TTL: 100 * sec, StaleIfError: time.Hour}, func(s *scene) {
		s.prime("k")
		if v, err := s.g.Refresh(s.Context(), "k"); v != 2 || err != nil {
			s.Errorf("Refresh = %v, %v; want 2, nil", v, err)
		}
		s.want(s.g.RefreshResult(s.Context(), "k"), loaded(3))
		s.set(0, errDry)
		if v, err := s.g.Refresh(s.Context(), "k"); v != 0 || err != errDry {
			s.Errorf("Refresh = %v, %v; want 0, %v", v, err, errDry)
		}
		s.want(s.g.RefreshResult(s.Context(), "k"), failure(errDry))
	})
}

// B3: RefreshMany loads keys that memory has, all in one call, joins running
// loads, and returns the error of a failure.
func TestB3RefreshManyLoadsWhatMemoryHas(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: time.Second}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: time.Minute, StaleIfError: time.Hour})
		g.GetMany(s.Context(), []string{"a", "b"})
		running := s.get(s.Context(), g, "c")
		a := &manyAnswer{done: make(chan struct{})}
		s.ask(func() weir.Result[int] {
			defer close(a.done)
			a.results = g.RefreshMany(s.Context(), []string{"a", "c", "b", "a"})
			a.at = s.now()
			return weir.Result[int]{}
		})
		s.wantMany(a, 2*time.Second, map[string]any{"a": 3, "b": 3, "c": 2})
		if !a.results["c"].Joined || a.results["a"].Joined {
			s.Errorf("%+v; want c joined, and a not", a.results)
		}
		s.want(running, 2, nil, 2*time.Second)
		b.want(s, "a b at 0s", "c at 1s", "a b at 1s")
		b.err, b.lacks = errDown, []string{"a", "b"}
		for key, r := range g.RefreshMany(s.Context(), []string{"a", "b"}) {
			if r.Err != errDown || r.Value != 0 {
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
	tell(t, func(s *story) {
		m, b := &mill{takes: 3 * time.Second}, &bulk{takes: time.Second}
		g := guardFrom(s, weir.Source[string, int]{Load: m.load, LoadMany: b.load}, weir.Options{TTL: time.Minute})
		if err := g.Set(s.Context(), "fresh", 70); err != nil {
			s.Fatal(err)
		}
		running := s.get(s.Context(), g, "running")
		seq := g.GetManySeq(s.Context(), []string{"a", "fresh", "a", "running", "b"})
		s.at(ms)
		b.want(s) // no load before the iteration
		var got []result
		for key, r := range seq {
			if r.Err != nil {
				s.Errorf("%s: %v", key, r.Err)
			}
			if len(got) == 0 {
				b.want(s, "a b at 0s")
			}
			got = append(got, result{key, r.Value, s.now()})
		}
		first := time.Second + ms
		want := []result{{"a", 1, first}, {"fresh", 70, first}, {"a", 1, first}, {"running", 1, 3 * time.Second}, {"b", 1, 3 * time.Second}}
		if !slices.Equal(got, want) {
			s.Errorf("results %v; want %v", got, want)
		}
		<-running.done
		for range seq { // all of it is fresh now
		}
		b.want(s, "a b at 0s")
	})
}

// B3: an iteration that ends early leaves the loads that it has not reached.
func TestB3GetManySeqThatBreaksOffLeaves(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: time.Hour}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: time.Minute})
		g.Set(s.Context(), "fresh", 70)
		for range g.GetManySeq(s.Context(), []string{"fresh", "a", "b"}) {
			s.at(ms) // the load of the others has begun
			break
		}
		s.at(2 * ms)
		if len(b.causes) != 1 || b.causes[0] != weir.ErrAbandoned {
			s.Errorf("causes %v; want the load abandoned", b.causes)
		}
		wantGauges(s, g, weir.Stats{})
	})
}

// B3, E6: keys that were overtaken while they were loaded are loaded again in one
// call, wherever the iteration is.
func TestB3GetManySeqLoadsAgainTogether(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: time.Second}
		tagged := func(ctx context.Context, keys []string, _ []weir.Previous[int]) (map[string]weir.Entry[int], error) {
			values, err := b.load(ctx, keys)
			entries := make(map[string]weir.Entry[int])
			for _, key := range keys {
				entries[key] = weir.Entry[int]{Value: values[key], Tags: []string{"t"}}
			}
			return entries, err
		}
		g := guardFrom(s, weir.Source[string, int]{LoadEntries: tagged}, weir.Options{TTL: time.Minute})
		s.many(s.Context(), g, "a", "b", "c")
		s.at(500 * ms)
		g.InvalidateTags(s.Context(), "t") // callers from now on need a load that begins later
		var keys []string
		for key, r := range g.GetManySeq(s.Context(), []string{"c", "a", "b", "c"}) {
			if r.Value != 2 || r.Err != nil || s.now() != 2*time.Second {
				s.Errorf("%s: %+v at %v; want 2 at 2s", key, r, s.now())
			}
			keys = append(keys, key)
		}
		if !slices.Equal(keys, []string{"c", "a", "b", "c"}) {
			s.Errorf("keys %v; want them in the order asked", keys)
		}
		b.want(s, "a b c at 0s", "a b c at 1s")
	})
}
