package entries_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
)

// E1, E6: All yields what Peek returns for each key in memory, as of when it is yielded. The
// loop's body may use the Guard.
func TestE1_AllYieldsWhatPeekReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := weir.Must(weir.New(func(_ context.Context, key int) (int, error) {
			if key < 0 {
				return 0, weir.ErrNotFound
			}
			return key, nil
		}, weir.Options{TTL: time.Minute, StaleIfError: time.Hour, NegativeTTL: time.Hour}))
		for key := range 2000 {
			if _, err := g.Get(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = g.Get(t.Context(), -1)
		for range g.All() {
			break
		}
		seen := make(map[int]bool)
		for key, r := range g.All() {
			want, ok := g.Peek(key)
			if !ok || r.State != want.State || r.Err != want.Err || r.Value != want.Value || seen[key] {
				t.Fatalf("All has %d, %+v; Peek = %+v, %v; again: %v", key, r, want, ok, seen[key])
			}
			seen[key] = true
		}
		if len(seen) != 2001 {
			t.Errorf("%d keys; want 2001", len(seen))
		}

		first := true
		gone := make(map[int]bool)
		for key := range g.All() { // no lock is held, so the body may write
			if gone[key] {
				t.Fatalf("All has %d, which is invalidated", key)
			}
			if !first {
				continue
			}
			first = false
			for other := range 2000 {
				if err := g.Invalidate(t.Context(), other); err != nil {
					t.Fatal(err)
				}
				gone[other] = true
			}
			for other := 10_000; other < 20_000; other++ { // and memory grows
				if err := g.Set(t.Context(), other, other); err != nil {
					t.Fatal(err)
				}
			}
		}

		time.Sleep(2 * time.Minute)
		states := make(map[weir.State]int)
		for _, r := range g.All() {
			states[r.State]++
		}
		if want := map[weir.State]int{weir.StateStaleOnError: 10_000, weir.StateNegative: 1}; !maps.Equal(states, want) {
			t.Errorf("%v; want %v", states, want)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(len(maps.Collect(g.All()))); got != "1" { // the negative entry is fresh
			t.Errorf("%s keys after Close; want the fresh one", got)
		}
	})
}
