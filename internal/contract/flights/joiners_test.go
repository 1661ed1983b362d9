package flights_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// F1: waiting for a load allocates nothing, so a thousand callers of one key cost no
// more than one.
func TestF1JoinersAllocateNothing(t *testing.T) {
	if rig.Race {
		t.Skip("the race detector allocates")
	}
	synctest.Test(t, func(t *testing.T) {
		const callers = 1000
		g, err := weir.New(func(context.Context, string) (int, error) {
			time.Sleep(time.Second)
			return 1, nil
		}, weir.Options{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(t.Context()) }() // nothing runs any more
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range callers {
			all.Go(func() {
				<-begin
				_, _ = g.Get(t.Context(), "k")
			})
		}
		synctest.Wait()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		close(begin)
		synctest.Wait()
		runtime.ReadMemStats(&after)
		// The runtime itself may have to make a place for each goroutine that waits: 96 B.
		if n := (after.TotalAlloc - before.TotalAlloc) / callers; n > 150 {
			t.Errorf("%d bytes for each of %d callers; want those of the one that loads alone", n, callers)
		}
		all.Wait()
	})
}
