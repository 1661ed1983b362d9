package bench

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
)

// libParts does only what a hit through a Guard must do: an otter lookup, a read of
// the monotonic clock, and one count. What weir takes in addition is weir's own
// overhead. What this takes in addition to otter's Get is the price of otter's store
// and an exact clock.
var libParts = library[string]{"parts", openParts[string]}

func openParts[K comparable](tb testing.TB, c config[K]) instance[K] {
	store, err := otter.New(&otter.Options[K, *record]{MaximumSize: 2 * c.entries})
	if err != nil {
		tb.Fatal(err)
	}
	base := time.Now()
	var hits [16]struct {
		n atomic.Uint64
		_ [56]byte
	}
	return instance[K]{keep: store, get: func(ctx context.Context, key K) (*record, error) {
		if v, ok := store.GetIfPresent(key); ok {
			if now := time.Since(base); now < ttl {
				hits[now&15].n.Add(1)
				return v, nil
			}
		}
		v, err := c.load(ctx, key)
		if err == nil {
			store.Set(key, v)
		}
		return v, err
	}}
}
