package forward_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/forward"
)

// H16: a server that refuses connections is dialled once in 20 ms at most, whatever the
// load, and used again within 20 ms of its recovery.
func TestH16_ADeadServerIsDialledSeldom(t *testing.T) {
	for _, scheme := range []string{"http", "h2c"} {
		t.Run(scheme, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := pipes(t)
				var dials atomic.Int64
				var up atomic.Bool
				tr, err := forward.NewTransport(forward.Options{
					BaseURL: mustURL(t, scheme+"://origin"),
					Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
						dials.Add(1)
						if !up.Load() {
							return nil, syscall.ECONNREFUSED
						}
						return ln.dial(ctx, network, address)
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				var protocols http.Protocols
				protocols.SetHTTP1(true)
				protocols.SetUnencryptedHTTP2(true)
				s := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
				go s.Serve(ln)
				defer s.Close()
				defer tr.Close()

				var clients sync.WaitGroup
				for range 20 {
					clients.Go(func() {
						for range 1000 { // 20,000 requests in a second
							_, err := get(tr)
							if u := (*fault.UnreachableError)(nil); !errors.As(err, &u) || u.Ours || !errors.Is(err, syscall.ECONNREFUSED) {
								t.Errorf("RoundTrip = %v; want an UnreachableError that is ECONNREFUSED", err)
								return
							}
							time.Sleep(time.Millisecond)
						}
					})
				}
				clients.Wait()
				if n := dials.Load(); n < 40 || n > 50+20 { // all that arrive before the first failure dial
					t.Errorf("%d dials in a second; want 40 to 70", n)
				}

				up.Store(true)
				time.Sleep(20 * time.Millisecond)
				for range 3 {
					if _, err := get(tr); err != nil {
						t.Errorf("RoundTrip 20 ms after the server's recovery = %v; want nil", err)
					}
				}
			})
		})
	}
}

// H16: a dial that fails for a reason that is not the server's says nothing to others.
func TestH16_OnlyTheServersFailuresStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		var fails atomic.Value
		tr, err := forward.NewTransport(forward.Options{
			BaseURL: mustURL(t, "http://origin"), ConnectTimeout: time.Second,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				dials.Add(1)
				if err, _ := fails.Load().(error); err != nil {
					return nil, err
				}
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		for range 3 { // the connect timeout
			_, err := get(tr)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("RoundTrip = %v; want the connect timeout", err)
			}
		}
		fails.Store(error(syscall.EMFILE))
		for range 3 {
			_, err := get(tr)
			if u := (*fault.UnreachableError)(nil); !errors.As(err, &u) || !u.Ours {
				t.Errorf("RoundTrip = %v; want an UnreachableError that is ours", err)
			}
		}
		if n := dials.Load(); n != 6 {
			t.Errorf("%d dials; want 6", n)
		}
	})
}
