package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// A refusedError is a driver's error type that wraps another error.
type refusedError struct {
	err error
}

func (e *refusedError) Error() string { return "refused: " + e.err.Error() }

// manyError wraps several errors.
type manyError []error

func (e manyError) Error() string   { return "several" }
func (e manyError) Unwrap() []error { return e }

func (e *refusedError) Unwrap() error { return e.err }

// F8: the error of a bulk load is taken apart by key, however it is nested. A
// key that it does not name fails with the errors that are not about single
// keys; without such errors it is not found.
func TestF8KeyErrorsInAnyNesting(t *testing.T) {
	type own = weir.KeyErrors[string]
	none := weir.ErrNotFound
	wrap := func(err error) error { return fmt.Errorf("query: %w", err) }
	for name, row := range map[string]struct {
		err  error
		a, b error // of the keys a and b, which have no value; c and d have one
		d    error
	}{
		"alone":                              {own{"a": rig.ErrDown}, rig.ErrDown, none, nil},
		"alone, not found":                   {own{"a": none}, none, none, nil},
		"alone, of a key with a value":       {own{"d": rig.ErrDown}, none, none, rig.ErrDown},
		"alone, empty":                       {own{}, none, none, nil},
		"alone, nil":                         {own(nil), none, none, nil},
		"alone, a nil error":                 {own{"a": nil}, none, none, nil},
		"alone, wrapped twice":               {wrap(wrap(own{"a": rig.ErrDown})), rig.ErrDown, none, nil},
		"alone, joined":                      {errors.Join(own{"a": rig.ErrDown}, nil), rig.ErrDown, none, nil},
		"joined":                             {errors.Join(own{"a": none}, rig.ErrDown), none, rig.ErrDown, nil},
		"joined the other way round":         {errors.Join(rig.ErrDown, own{"a": none}), none, rig.ErrDown, nil},
		"joined, a nil error":                {errors.Join(own{"a": nil}, rig.ErrDown), rig.ErrDown, rig.ErrDown, nil},
		"joined, of a key with a value":      {errors.Join(own{"d": none}, rig.ErrDown), rig.ErrDown, rig.ErrDown, none},
		"joined, then wrapped":               {wrap(errors.Join(own{"a": none}, rig.ErrDown)), none, rig.ErrDown, nil},
		"wrapped, then joined":               {errors.Join(wrap(own{"a": none}), wrap(rig.ErrDown)), none, rig.ErrDown, nil},
		"by two verbs":                       {fmt.Errorf("%w, and %w", own{"a": none}, rig.ErrDown), none, rig.ErrDown, nil},
		"a join in a join":                   {errors.Join(io.EOF, errors.Join(own{"a": none}, wrap(errors.Join(rig.ErrDown)))), none, rig.ErrDown, nil},
		"in a type of its own":               {manyError{own{"a": none}, nil, rig.ErrDown}, none, rig.ErrDown, nil},
		"values that wrap not-found":         {errors.Join(own{"a": wrap(none)}, rig.ErrDown), none, rig.ErrDown, nil},
		"two KeyErrors":                      {errors.Join(own{"a": rig.ErrDown}, own{"b": io.EOF}), rig.ErrDown, io.EOF, nil},
		"two KeyErrors and another":          {errors.Join(own{"a": none}, own{"d": none}, rig.ErrDown), none, rig.ErrDown, none},
		"two of one key, missing and failed": {errors.Join(own{"a": none}, own{"a": rig.ErrDown}), rig.ErrDown, none, nil},
		"two of one key, failed and missing": {errors.Join(own{"a": rig.ErrDown}, own{"a": none}), rig.ErrDown, none, nil},
		"beside a missing row":               {errors.Join(own{"a": rig.ErrDown}, none), rig.ErrDown, none, nil},
		"another beside a missing row":       {errors.Join(wrap(none), rig.ErrDown), rig.ErrDown, rig.ErrDown, nil},
		"beside a missing row and another":   {errors.Join(own{"a": none}, wrap(none), rig.ErrDown), none, rig.ErrDown, nil},
		"all of it says missing":             {errors.Join(wrap(none), none), none, none, nil},
	} {
		// A failure must not match ErrNotFound because of another key.
		same := func(r weir.Result[int], want error) bool {
			return errors.Is(r.Err, want) && (want != nil || r.Err == nil) && errors.Is(r.Err, none) == (want == none)
		}
		for _, gathers := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", gathered: ", gathers), func(t *testing.T) {
				rig.Tell(t, func(s *rig.Story) {
					b := &rig.Bulk{Err: row.err, Lacks: []string{"a", "b"}}
					o := weir.Options{TTL: time.Hour, NegativeTTL: time.Hour}
					if gathers {
						o.Batch = weir.Batching{MaxSize: 4, Linger: time.Hour}
					}
					g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, o)
					r := g.GetMany(s.Context(), []string{"a", "b", "c", "d"})
					if !same(r["a"], row.a) || !same(r["b"], row.b) || !same(r["c"], nil) || !same(r["d"], row.d) {
						s.Errorf("a: %v, b: %v, c: %v, d: %v; want %v, %v, none, %v", r["a"].Err, r["b"].Err, r["c"].Err, r["d"].Err, row.a, row.b, row.d)
					}
					for key, want := range map[string]error{"a": row.a, "b": row.b, "d": row.d} {
						if _, kept := g.Peek(key); kept != (want == nil || want == none) {
							s.Errorf("%s is kept: %v; want only an answer to be", key, kept)
						}
					}
				})
			})
		}
	}
}

// F8: the rest of an error keeps its type, so that Classify and the callers
// recognize it.
func TestF8ErrorsLeftKeepTheirType(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		outer := &refusedError{err: errors.Join(weir.KeyErrors[string]{"a": weir.ErrNotFound}, rig.ErrDown)}
		var asked *refusedError
		b := &rig.Bulk{Err: outer, Lacks: []string{"a", "b"}}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{Classify: func(err error) weir.Class {
			errors.As(err, &asked)
			return weir.ClassPermanent
		}})
		err := g.GetMany(s.Context(), []string{"a", "b"})["b"].Err
		var typed *refusedError
		if asked != outer || !errors.As(err, &typed) || !errors.Is(err, outer) || !errors.Is(err, rig.ErrDown) || errors.Is(err, io.EOF) {
			s.Errorf("b: %v; want the error of its type", err)
		}
		var keys weir.KeyErrors[string]
		if errors.As(err, &keys) || strings.Contains(err.Error(), "key a") {
			s.Errorf("b: %v; want nothing of a in it", err)
		}
	})
}

// F8: errors of keys of another type, for example of a nested bulk load, do not
// apply to these keys.
func TestF8KeyErrorsOfOtherKeys(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Err: fmt.Errorf("rows: %w", weir.KeyErrors[int]{7: weir.ErrNotFound}), Lacks: []string{"a"}}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{})
		r := g.GetMany(s.Context(), []string{"a", "b"})
		if err := r["a"].Err; err == nil || errors.Is(err, weir.ErrNotFound) || r["b"].Err != nil {
			s.Errorf("a: %v, b: %v; want a failure, and none", err, r["b"].Err)
		}
	})
}

// F8, E3: a key that fails with the other error keeps its stale value.
func TestF8StaleValueOutlivesTheErrorOfAnotherKey(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: time.Second, StaleIfError: time.Hour, NegativeTTL: time.Hour})
		g.GetMany(s.Context(), []string{"a", "b"})
		s.At(time.Minute)
		b.Lacks, b.Err = []string{"a", "b"}, errors.Join(weir.KeyErrors[string]{"a": weir.ErrNotFound}, rig.ErrDown)
		r := g.GetMany(s.Context(), []string{"a", "b"})
		if r["a"].State != weir.StateNegative || r["b"].State != weir.StateStaleOnError || r["b"].Value != 1 {
			s.Errorf("a: %+v, b: %+v; want not found, and the stale value", r["a"], r["b"])
		}
	})
}

// B3: the results of LoadEntries that are not values in the map.
func TestB3LoadEntriesAnswersPerKey(t *testing.T) {
	type entries = map[string]weir.Entry[int]
	for name, row := range map[string]struct {
		entries entries
		err     error
		want    map[string]any // of a, which has the previous value 1, and of b
	}{
		"nil map":                       {nil, nil, map[string]any{"a": weir.ErrNotFound, "b": weir.ErrNotFound}},
		"nil map and an error":          {nil, rig.ErrDown, map[string]any{"a": rig.ErrDown, "b": rig.ErrDown}},
		"missing":                       {entries{"b": {Value: 2}}, nil, map[string]any{"a": weir.ErrNotFound, "b": 2}},
		"in part, with an error":        {entries{"b": {Value: 2}}, rig.ErrDown, map[string]any{"a": rig.ErrDown, "b": 2}},
		"not modified":                  {entries{"a": {NotModified: true}, "b": {Value: 2}}, nil, map[string]any{"a": 1, "b": 2}},
		"not modified, without a value": {entries{"a": {Value: 2}, "b": {NotModified: true}}, nil, map[string]any{"a": 2, "b": weir.ErrNotModified}},
		"not modified, of others":       {entries{"a": {Value: 2}, "b": {Value: 2}, "c": {NotModified: true}}, nil, map[string]any{"a": 2, "b": 2}},
		"an entry that has failed":      {entries{"a": {Value: 2}, "b": {Value: 2}}, weir.KeyErrors[string]{"b": rig.ErrDown}, map[string]any{"a": 2, "b": rig.ErrDown}},
		"the zero entry":                {entries{"a": {}, "b": {}}, nil, map[string]any{"a": 0, "b": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				first := true
				g := rig.GuardFrom(s, weir.Source[string, int]{LoadEntries: func(_ context.Context, keys []string, prev []weir.Previous[int]) (map[string]weir.Entry[int], error) {
					if first {
						first = false
						return entries{"a": {Value: 1}}, nil
					}
					for i, key := range keys {
						if prev[i].OK != (key == "a") || prev[i].Value != map[string]int{"a": 1}[key] {
							s.Errorf("%s received %+v", key, prev[i])
						}
					}
					return row.entries, row.err
				}}, weir.Options{TTL: time.Second})
				g.Get(s.Context(), "a")
				s.At(time.Minute)
				s.WantMany(s.Many(s.Context(), g, "b", "a"), time.Minute, row.want)
				if _, ok := g.Peek("c"); ok {
					s.Error("a key that was not asked for is kept")
				}
			})
		})
	}
}

// B3, E6: a key that is gathered twice because it was invalidated in between is
// loaded once, and gets the previous value of its key.
func TestB3LoadEntriesOfAKeyThatIsGatheredTwice(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		var asked []string
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadEntries: func(_ context.Context, keys []string, prev []weir.Previous[int]) (map[string]weir.Entry[int], error) {
			m := make(map[string]weir.Entry[int])
			for i, key := range keys {
				asked = append(asked, fmt.Sprint(key, prev[i].Value))
				m[key] = weir.Entry[int]{Value: len(asked)}
			}
			return m, nil
		}}, weir.Options{TTL: time.Second, Batch: weir.Batching{MaxSize: 3, Linger: time.Second}})
		s.Many(s.Context(), g, "a", "b", "c")
		s.At(time.Minute)
		before := s.Get(s.Context(), g, "a")
		if err := g.Invalidate(s.Context(), "a"); err != nil {
			s.Fatal(err)
		}
		after := s.Get(s.Context(), g, "a")
		other := s.Get(s.Context(), g, "b")
		s.Want(before, 4, nil, time.Minute)
		s.Want(after, 4, nil, time.Minute)
		s.Want(other, 5, nil, time.Minute)
		if fmt.Sprint(asked[3:]) != "[a0 b2]" {
			s.Errorf("asked for %v; want a without a previous value, and b", asked[3:])
		}
	})
}
