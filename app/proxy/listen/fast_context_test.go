package listen_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// H31: the context of a request that is served without net/http has the values of the
// connection's, and ends with the context of the Server, and when the Server is cut off.
func TestH31_ARequestEndsWithTheServer(t *testing.T) {
	for _, cut := range []bool{false, true} {
		base, end := context.WithCancel(t.Context())
		entered, left, served := make(chan struct{}), make(chan error, 1), new(atomic.Uint64)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			if r.URL.Path != "/wait" {
				return
			}
			if ctx.Value(http.LocalAddrContextKey) == nil || ctx.Err() != nil || context.Cause(ctx) != nil {
				t.Errorf("a context without the connection's values, or with error %v", ctx.Err())
			}
			close(entered)
			select {
			case <-ctx.Done():
				left <- context.Cause(ctx)
			case <-time.After(20 * time.Second):
				left <- errors.New("the request has not ended")
			}
		})
		s, err := listen.Open(listen.Config{Address: "127.0.0.1:0", FastPath: true}, listen.Options{Handler: h, Base: base, Fast: served}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Serve(func(err error) { t.Error(err) })
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, get("/first"))
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v; want 200", resp, err)
		}
		_, _ = io.WriteString(c, get("/wait"))
		<-entered
		if cut {
			_ = s.Close() // cuts it off
		} else {
			end()
		}
		if err := <-left; err != context.Canceled || served.Load() != 1 { //nolint:errorlint // the cause itself
			t.Errorf("cut off: %v: the request ended with %v, and %d took the fast path; want canceled, and 1", cut, err, served.Load())
		}
		end()
		c.Close()
		s.Close()
	}
}
