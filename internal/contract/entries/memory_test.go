package entries_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// E8: what an entry takes in addition to its key and value, by kind, as docs/sizing.md has it.
// The bounds leave a seventh for other versions of Go; run with -v for the figures.
func TestE8_MemoryPerEntryByKind(t *testing.T) {
	if rig.Race {
		t.Skip("the race detector adds memory")
	}
	const n = 50_000
	shared := []string{"t"}
	for _, row := range []struct {
		kind string
		most float64
		load func(key int) (weir.Entry[*int], error)
	}{
		{"plain", 160, func(int) (weir.Entry[*int], error) { return weir.Entry[*int]{}, nil }},
		{"with one tag", 320, func(int) (weir.Entry[*int], error) { return weir.Entry[*int]{Tags: shared}, nil }},
		{"with a version", 320, func(int) (weir.Entry[*int], error) { return weir.Entry[*int]{Version: "v"}, nil }},
		{"negative", 320, func(int) (weir.Entry[*int], error) { return weir.Entry[*int]{}, weir.ErrNotFound }},
	} {
		g := weir.Must(weir.NewFrom(weir.Source[int, *int]{LoadEntry: func(_ context.Context, key int, _ weir.Previous[*int]) (weir.Entry[*int], error) {
			return row.load(key)
		}}, weir.Options{TTL: time.Hour, NegativeTTL: time.Hour, MaxEntries: 2 * n}))
		before := rig.Heap()
		for key := range n {
			_, _ = g.Get(t.Context(), key)
		}
		each := float64(rig.Heap()-before)/n - 16 // an int key and a pointer
		if got := g.CountEntries(); each <= 0 || each > row.most {
			t.Errorf("an entry %s takes %.0f B besides key and value; want at most %.0f (%+v)", row.kind, each, row.most, got)
		}
		t.Logf("an entry %s: %.0f B", row.kind, each)
		runtime.KeepAlive(g)
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
