package weirgrpc_test

import (
	"context"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/limit"
)

// Clients with a retry policy get the time of a refusal in the trailer, once, and not the same one.
func TestH46_PushbackReachesTheClient(t *testing.T) {
	calls := one(t)
	o := shared(weir.Options{})
	o.Limiter = calls
	conn := serve(t, &catalog{}, newServer(t, o).ServerOptions())
	p := mustAcquire(t, calls)
	defer p.Release(limit.Success)
	seen := map[int]bool{}
	for i := range 40 {
		ctx := with("x-user", "ada")
		if i%2 == 0 {
			ctx = context.Background() // this one is shared
		}
		var trailer metadata.MD
		_, err := get(ctx, conn, strconv.Itoa(i), grpc.Trailer(&trailer))
		wantCode(t, "a refusal", err, codes.Unavailable)
		ms, _ := strconv.Atoi(sole(trailer, "grpc-retry-pushback-ms"))
		if ms < 1000 || ms > 4000 {
			t.Fatalf("the trailer of a refusal is %v; want one grpc-retry-pushback-ms from 1000 to 4000", trailer)
		}
		seen[ms] = true
	}
	if len(seen) < 20 {
		t.Errorf("40 refusals have %d different times; want nearly as many", len(seen))
	}
}

// A handler that returns weirgrpc.Error has it as well; other errors have none.
func TestH46_PushbackOfAHandler(t *testing.T) {
	var fails error
	c := &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) { return nil, fails }}
	conn := serve(t, c, newServer(t, weirgrpc.Options{}).ServerOptions())
	for want, err := range map[string]error{
		"2500": weirgrpc.Error(&limit.Error{Reason: limit.QueueFull, RetryAfter: 2500e6}),
		"1":    weirgrpc.Error(&limit.Error{Reason: limit.QueueFull, RetryAfter: 1}),
		"":     weirgrpc.Error(&limit.Error{Reason: limit.TooMany}),
	} {
		fails = err
		var trailer metadata.MD
		if _, err := get(context.Background(), conn, "a", grpc.Trailer(&trailer)); err == nil || sole(trailer, "grpc-retry-pushback-ms") != want {
			t.Errorf("%v: the trailer is %v; want the pushback %q", err, trailer, want)
		}
	}
}

// sole returns the only value of key, or nothing.
func sole(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) == 1 {
		return v[0]
	}
	return ""
}
