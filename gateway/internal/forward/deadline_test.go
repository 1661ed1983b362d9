package forward_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
)

// H44: a dialer that times out at the deadline of a client, as a socket does before its context
// ends, makes the server look unreachable: the next request would not be sent there. So the
// dialer does not know that deadline, but ends with it.
func TestH44_ADeadlineFailsNoConnection(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		synctest.Test(t, func(t *testing.T) {
			dials := 0
			tr, err := forward.NewTransport(forward.Options{
				BaseURL: &url.URL{Scheme: scheme, Host: "origin.test"}, ConnectTimeout: time.Minute,
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					dials++
					at, ok := ctx.Deadline()
					if !ok {
						t.Error("the dialer has no deadline; want ConnectTimeout")
					}
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-time.After(time.Until(at) - time.Nanosecond):
						return nil, os.ErrDeadlineExceeded
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				r, err := http.NewRequestWithContext(ctx, "GET", scheme+"://origin.test/", nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, err = tr.RoundTrip(r)
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 50*time.Millisecond {
					t.Errorf("%s: ended after %v with %v; want the deadline of its context after 50ms", scheme, took, err)
				}
				cancel()
			}
			if want := map[string]int{"http": 10, "https": 1}[scheme]; dials != want { // one is shared for HTTP/2
				t.Errorf("%s: %d dials; want %d: the server is not known to be dead", scheme, dials, want)
			}
		})
	}
}
