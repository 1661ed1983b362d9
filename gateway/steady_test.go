package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// B4: a queue that stands, because as many clients wait as before, is no overload: no client whose
// turn comes in time is refused. limit has the same in bubbles, with up to 4,000 clients.
func TestB4_ASteadyQueueRefusesNothing(t *testing.T) {
	for _, clients := range []int{50, 500} {
		t.Run(fmt.Sprint(clients, " clients"), func(t *testing.T) {
			t.Parallel()
			o := serving(t, "slow", func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) })
			c := config(upstreamOf(o))
			c.Upstreams[0].Concurrency = 16
			c.Routes[0].NoStore, c.Routes[0].Coalesce = true, gateway.CoalesceNone
			g := open(t, c).g
			var sent, refused atomic.Int64
			var all sync.WaitGroup
			end := time.Now().Add(20 * time.Second)
			for range clients {
				all.Go(func() {
					for time.Now().Before(end) {
						w := httptest.NewRecorder()
						g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprint("http://site.example/", sent.Add(1)), nil))
						if w.Code != http.StatusOK {
							refused.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := refused.Load(); n > 0 || sent.Load() < int64(clients) {
				t.Errorf("%d of %d requests were refused; want none", n, sent.Load())
			}
		})
	}
}
