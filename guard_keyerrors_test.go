package weir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
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
		"alone":                              {own{"a": errDown}, errDown, none, nil},
		"alone, not found":                   {own{"a": none}, none, none, nil},
		"alone, of a key with a value":       {own{"d": errDown}, none, none, errDown},
		"alone, empty":                       {own{}, none, none, nil},
		"alone, nil":                         {own(nil), none, none, nil},
		"alone, a nil error":                 {own{"a": nil}, none, none, nil},
		"alone, wrapped twice":               {wrap(wrap(own{"a": errDown})), errDown, none, nil},
		"alone, joined":                      {errors.Join(own{"a": errDown}, nil), errDown, none, nil},
		"joined":                             {errors.Join(own{"a": none}, errDown), none, errDown, nil},
		"joined the other way round":         {errors.Join(errDown, own{"a": none}), none, errDown, nil},
		"joined, a nil error":                {errors.Join(own{"a": nil}, errDown), errDown, errDown, nil},
		"joined, of a key with a value":      {errors.Join(own{"d": none}, errDown), errDown, errDown, none},
		"joined, then wrapped":               {wrap(errors.Join(own{"a": none}, errDown)), none, errDown, nil},
		"wrapped, then joined":               {errors.Join(wrap(own{"a": none}), wrap(errDown)), none, errDown, nil},
		"by two verbs":                       {fmt.Errorf("%w, and %w", own{"a": none}, errDown), none, errDown, nil},
		"a join in a join":                   {errors.Join(io.EOF, errors.Join(own{"a": none}, wrap(errors.Join(errDown)))), none, errDown, nil},
		"in a type of its own":               {manyError{own{"a": none}, nil, errDown}, none, errDown, nil},
		"values that wrap not-found":         {errors.Join(own{"a": wrap(none)}, errDown), none, errDown, nil},
		"two KeyErrors":                      {errors.Join(own{"a": errDown}, own{"b": io.EOF}), errDown, io.EOF, nil},
		"two KeyErrors and another":          {errors.Join(own{"a": none}, own{"d": none}, errDown), none, errDown, none},
		"two of one key, missing and failed": {errors.Join(own{"a": none}, own{"a": errDown}), errDown, none, nil},
		"two of one key, failed and missing": {errors.Join(own{"a": errDown}, own{"a": none}), errDown, none, nil},
		"beside a missing row":               {errors.Join(own{"a": errDown}, none), errDown, none, nil},
		"another beside a missing row":       {errors.Join(wrap(none), errDown), errDown, errDown, nil},
		"beside a missing row and another":   {errors.Join(own{"a": none}, wrap(none), errDown), none, errDown, nil},
		"all of it says missing":             {errors.Join(wrap(none), none), none, none, nil},
	} {
		// A failure must not match ErrNotFound because of another key.
		same := func(r weir.Result[int], want error) bool {
			return errors.Is(r.Err, want) && (want != nil || r.Err == nil) && errors.Is(r.Err, none) == (want == none)
		}
		for _, gathers := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", gathered: ", gathers), func(t *testing.T) {
				tell(t, func(s *story) {
					b := &bulk{err: row.err, lacks: []string{"a", "b"}}
					o := weir.Options{TTL: time.Hour, NegativeTTL: time.Hour}
					if gathers {
						o.Batch = weir.Batching{MaxSize: 4, Linger: time.Hour}
					}
					g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, o)
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
// recognise it.
func TestF8ErrorsLeftKeepTheirType(t *testing.T) {
	tell(t, func(s *story) {
		outer := &refusedError{err: errors.Join(weir.KeyErrors[string]{"a": weir.ErrNotFound}, errDown)}
		var asked *refusedError
		b := &bulk{err: outer, lacks: []string{"a", "b"}}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{Classify: func(err error) weir.Class {
			errors.As(err, &asked)
			return weir.ClassPermanent
		}})
		err := g.GetMany(s.Context(), []string{"a", "b"})["b"].Err
		var typed *refusedError
		if asked != outer || !errors.As(err, &typed) || !errors.Is(err, outer) || !errors.Is(err, errDown) || errors.Is(err, io.EOF) {
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
	tell(t, func(s *story) {
		b := &bulk{err: fmt.Errorf("rows: %w", weir.KeyErrors[int]{7: weir.ErrNotFound}), lacks: []string{"a"}}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{})
		r := g.GetMany(s.Context(), []string{"a", "b"})
		if err := r["a"].Err; err == nil || errors.Is(err, weir.ErrNotFound) || r["b"].Err != nil {
			s.Errorf("a: %v, b: %v; want a failure, and none", err, r["b"].Err)
		}
	})
}

// F8, E3: a key that fails with the other error keeps its stale value.
func TestF8StaleValueOutlivesTheErrorOfAnotherKey(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: time.Second, StaleIfError: time.Hour, NegativeTTL: time.Hour})
		g.GetMany(s.Context(), []string{"a", "b"})
		s.at(time.Minute)
		b.lacks, b.err = []string{"a", "b"}, errors.Join(weir.KeyErrors[string]{"a": weir.ErrNotFound}, errDown)
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
		"nil map and an error":          {nil, errDown, map[string]any{"a": errDown, "b": errDown}},
		"missing":                       {entries{"b": {Value: 2}}, nil, map[string]any{"a": weir.ErrNotFound, "b": 2}},
		"in part, with an error":        {entries{"b": {Value: 2}}, errDown, map[string]any{"a": errDown, "b": 2}},
		"not modified":                  {entries{"a": {NotModified: true}, "b": {Value: 2}}, nil, map[string]any{"a": 1, "b": 2}},
		"not modified, without a value": {entries{"a": {Value: 2}, "b": {NotModified: true}}, nil, map[string]any{"a": 2, "b": weir.ErrNotModified}},
		"not modified, of others":       {entries{"a": {Value: 2}, "b": {Value: 2}, "c": {NotModified: true}}, nil, map[string]any{"a": 2, "b": 2}},
		"an entry that has failed":      {entries{"a": {Value: 2}, "b": {Value: 2}}, weir.KeyErrors[string]{"b": errDown}, map[string]any{"a": 2, "b": errDown}},
		"the zero entry":                {entries{"a": {}, "b": {}}, nil, map[string]any{"a": 0, "b": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				first := true
				g := guardFrom(s, weir.Source[string, int]{LoadEntries: func(_ context.Context, keys []string, prev []weir.Previous[int]) (map[string]weir.Entry[int], error) {
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
				s.at(time.Minute)
				s.wantMany(s.many(s.Context(), g, "b", "a"), time.Minute, row.want)
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
	tell(t, func(s *story) {
		var asked []string
		g := guardFrom(s, weir.Source[string, int]{LoadEntries: func(_ context.Context, keys []string, prev []weir.Previous[int]) (map[string]weir.Entry[int], error) {
			m := make(map[string]weir.Entry[int])
			for i, key := range keys {
				asked = append(asked, fmt.Sprint(key, prev[i].Value))
				m[key] = weir.Entry[int]{Value: len(asked)}
			}
			return m, nil
		}}, weir.Options{TTL: time.Second, Batch: weir.Batching{MaxSize: 3, Linger: time.Second}})
		s.many(s.Context(), g, "a", "b", "c")
		s.at(time.Minute)
		before := s.get(s.Context(), g, "a")
		if err := g.Invalidate(s.Context(), "a"); err != nil {
			s.Fatal(err)
		}
		after := s.get(s.Context(), g, "a")
		other := s.get(s.Context(), g, "b")
		s.want(before, 4, nil, time.Minute)
		s.want(after, 4, nil, time.Minute)
		s.want(other, 5, nil, time.Minute)
		if fmt.Sprint(asked[3:]) != "[a0 b2]" {
			s.Errorf("asked for %v; want a without a previous value, and b", asked[3:])
		}
	})
}
