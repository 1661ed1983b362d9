package weir_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
)

// E5, T4: like a single load, a bulk load receives the Tier's old values of its
// keys, and its callers get them if it fails.
func TestFleetBulkLoadKnowsWhatTheTierHas(t *testing.T) {
	for _, gathers := range []bool{false, true} {
		inFleet(t, func(s *site) {
			var broken bool
			src := weir.Source[string, row]{LoadEntries: func(_ context.Context, keys []string, prev []weir.Previous[row]) (map[string]weir.Entry[row], error) {
				s.loads.Add(1)
				if broken {
					return nil, errDown
				}
				entries := make(map[string]weir.Entry[row])
				for i, key := range keys {
					switch p := prev[i]; {
					case p.OK && (p.Value.Key != key || p.Version != "of "+key):
						s.Errorf("%s received %+v", key, p)
					case p.OK:
						entries[key] = weir.Entry[row]{NotModified: true}
					default:
						entries[key] = weir.Entry[row]{Value: row{key, 1}, Version: "of " + key, Tags: []string{"t"}}
					}
				}
				return entries, nil
			}}
			o := weir.Options{TTL: time.Minute, StaleIfError: time.Hour}
			if gathers {
				o.Batch = weir.Batching{MaxSize: 2, Linger: time.Second}
			}
			keys := []string{"a", "b"}
			many := func(g *weir.Guard[string, row], state weir.State) {
				s.Helper()
				for key, r := range g.GetMany(s.Context(), keys) {
					if r.Value != (row{key, 1}) || r.State != state {
						s.Errorf("gathered %v: %s = %+v; want version 1, %v", gathers, key, r, state)
					}
				}
			}
			gs := make([]*weir.Guard[string, row], 3)
			for i := range gs {
				gs[i] = from(s, src, o)
			}
			many(gs[0], weir.StateLoaded)
			time.Sleep(2 * time.Minute)
			many(gs[1], weir.StateLoaded)
			s.loaded(2)
			if n := gs[1].Stats().NotModified; n != 2 {
				s.Errorf("NotModified = %d; want 2", n)
			}
			time.Sleep(2 * time.Minute)
			broken = true
			many(gs[2], weir.StateStaleOnError) // it has nothing in memory
			broken = false
			time.Sleep(time.Minute)
			if err := gs[0].InvalidateTags(s.Context(), "t"); err != nil { // the tags were kept
				s.Fatal(err)
			}
			synctest.Wait()
			s.loads.Store(0)
			many(gs[2], weir.StateLoaded)
			s.loaded(1)
		})
	}
}
