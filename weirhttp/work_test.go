package weirhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Behind a Transport it is not seen when a server ends. A permit whose client has left is
// held for as long as calls take, and at most for HeadTimeout.
func TestH14_BehindATransportAPermitIsHeldForAsLongAsCallsTake(t *testing.T) {
	for _, tt := range []struct {
		name    string
		known   bool // a call has ended before
		release bool
		wait    time.Duration // of the next call
	}{
		{"as calls take", true, false, 1250*time.Millisecond - 100*time.Millisecond},
		{"nothing is known", false, false, 5*time.Second - 100*time.Millisecond},
		{"the server stops", true, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				permits, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
				if err != nil {
					t.Fatal(err)
				}
				transport, err := weirhttp.NewTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
					select {
					case <-time.After(time.Second):
						return &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader("done")), ContentLength: 4}, nil
					case <-r.Context().Done():
						return nil, context.Cause(r.Context())
					}
				}), weirhttp.Options{Limiter: permits, HeadTimeout: 5 * time.Second, ReleaseAbandoned: tt.release})
				if err != nil {
					t.Fatal(err)
				}
				defer transport.Close(t.Context())
				get := func(target string, d time.Duration) error {
					ctx, cancel := context.WithTimeout(t.Context(), d)
					defer cancel()
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.example"+target, nil)
					resp, err := (&http.Client{Transport: transport}).Do(r)
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					_, err = io.Copy(io.Discard, resp.Body)
					return err
				}
				if tt.known {
					if err := get("/known", time.Hour); err != nil {
						t.Fatal(err)
					}
				}
				if err := get("/left", 100*time.Millisecond); err == nil {
					t.Fatal("a call of a second ended within 100 ms")
				}
				synctest.Wait()
				began := time.Now()
				permit, err := permits.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				permit.Release(limit.Success)
				if waited := time.Since(began); waited != tt.wait {
					t.Errorf("the next call waited %v; want %v", waited, tt.wait)
				}
			})
		})
	}
}
