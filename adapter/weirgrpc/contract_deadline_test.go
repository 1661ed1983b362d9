package weirgrpc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-go/weir"
)

// H44: the grpc-timeout of a shared execution is Guard.LoadTimeout, never the deadline of its first
// caller; a call that is not shared carries its caller's.
func TestH44_ADeadlineOfAClientIsItsOwn(t *testing.T) {
	var left atomic.Int64 // of the call that the server has seen last
	see := grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		left.Store(0)
		if until, ok := ctx.Deadline(); ok {
			left.Store(int64(time.Until(until)))
		}
		return handler(ctx, req)
	})
	c := &catalog{}
	client := newClient(t, oneIdentity(weir.Options{TTL: time.Hour, LoadTimeout: time.Hour}))
	conn := serve(t, c, []grpc.ServerOption{see}, client.DialOptions()...)
	for _, tt := range []struct {
		name     string
		ctx      context.Context
		low, top time.Duration
	}{
		{"shared", context.Background(), 30 * time.Minute, time.Hour},
		{"alone", with("authorization", "Bearer ada"), time.Second, 10 * time.Minute},
	} {
		ctx, cancel := context.WithTimeout(tt.ctx, 10*time.Minute)
		if _, err := get(ctx, conn, "1"); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		cancel()
		if got := time.Duration(left.Load()); got < tt.low || got > tt.top {
			t.Errorf("%s: the server has %v; want %v to %v", tt.name, got, tt.low, tt.top)
		}
	}
}
