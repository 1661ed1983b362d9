package weirhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// A limiter learns that the clients of a call have left before its response has begun, for
// calls that are shared and those that are not, and that a call has timed out.
func TestB9_ALimiterLearnsThatClientsHaveLeft(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		patience     time.Duration
		late         uint64
	}{
		{"shared", http.MethodGet, 100 * time.Millisecond, 1},
		{"not shared", http.MethodPost, 100 * time.Millisecond, 1},
		{"shared, timed out", http.MethodGet, time.Hour, 1},
		{"not shared, timed out", http.MethodPost, time.Hour, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 4}))
				h, err := weirhttp.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
				}), weirhttp.Options{Limiter: l, HeadTimeout: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer h.Close(t.Context())
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, tt.method, "http://shop.example/", http.NoBody))
				synctest.Wait()
				if st := l.Stats(); st.Late != tt.late || st.InUse != 0 {
					t.Errorf("%d late calls, %d in use; want %d, 0", st.Late, st.InUse, tt.late)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // a call in time
		l := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 4}))
		h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), weirhttp.Options{Limiter: l})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.example/", http.NoBody))
		if st := l.Stats(); st.Late != 0 {
			t.Errorf("%d late calls; want 0", st.Late)
		}
	})
}
