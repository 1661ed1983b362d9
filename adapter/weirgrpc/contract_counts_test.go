package weirgrpc_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/inspect"
)

// G6: NotFound is not-found for the Guard, the Observer and the Stats of the method; other
// codes that are responses are loads, and the rest are failures. It does not matter whether
// an execution is shared.
func TestG6_CodesAreCountedAsWhatTheyAre(t *testing.T) {
	fail := func(_ context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		for _, code := range []codes.Code{codes.NotFound, codes.PermissionDenied, codes.Internal} {
			if in.Fields["item"].GetStringValue() == code.String() {
				return nil, status.Error(code, "no")
			}
		}
		return nil, weir.ErrNotFound // from a Guard of the handler
	}
	calls := []string{"NotFound", "NotFound", "NotFound", "from a Guard", "PermissionDenied", "PermissionDenied", "Internal"}
	for _, share := range []bool{true, false} {
		seen := record()
		o := shared(weir.Options{TTL: time.Hour, NegativeTTL: time.Hour})
		want := inspect.MethodStats{NotFound: 2, Declined: 2, Failures: 1, Hits: 2, Executed: 4, Failed: 1}
		if !share {
			o = weirgrpc.Options{}
			want = inspect.MethodStats{NotFound: 4, Declined: 2, Failures: 1}
		}
		o.Observer = seen
		s := newServer(t, o)
		conn := serve(t, &catalog{get: fail}, s.ServerOptions())
		for _, item := range calls {
			if _, err := get(context.Background(), conn, item); err == nil {
				t.Errorf("Get(%q) has no error", item)
			}
		}
		got := statsOf(s.Stats(), getMethod)
		if got.NotFound != want.NotFound || got.Declined != want.Declined || got.Failures != want.Failures ||
			got.Hits != want.Hits || got.Executed != want.Executed || got.Failed != want.Failed {
			t.Errorf("shared %v: the Stats are %+v; want %+v", share, got, want)
		}
		if share {
			g := s.Guards()[0].Stats()
			if g.NotFound != 2 || g.NegativeHits != 2 || g.Hits != 0 || g.LoadFailures != 1 || g.Loads != 5 {
				t.Errorf("the Guard's Stats are %+v; want 2 not-found of 5 loads, 2 negative hits, 1 failure", g)
			}
		}
		ends := map[weir.Class]int{}
		for range int(want.NotFound + want.Declined + want.Failures) {
			if end := <-seen.ends; end.Err == nil {
				ends[100]++
			} else {
				ends[end.Class]++
			}
		}
		if ends[100] != 2 || ends[weir.ClassNotFound] != int(want.NotFound) || ends[weir.ClassTransient] != 1 {
			t.Errorf("shared %v: the Observer got %v by class; want 2 loads, %d not-found, 1 transient", share, ends, want.NotFound)
		}
	}
}

// G6: streams are counted by code too, on both sides.
func TestG6_StreamsAreCountedByCode(t *testing.T) {
	handler := func(_ any, ss grpc.ServerStream) error {
		in := new(structpb.Struct)
		if err := ss.RecvMsg(in); err != nil {
			return err
		}
		return outcome(in.Fields["item"].GetStringValue())
	}
	for side, dial := range metering(t, handler, recovering) {
		conn, stats := dial(weirgrpc.Policy{})
		for _, item := range []string{"absent", "denied", "fail", "panic", "fine"} {
			_ = converse(context.Background(), conn, "Both", item)
		}
		eventually(t, side+": all streams are counted", func() bool {
			s := statsOf(stats(), "/weir.test.Streams/Both")
			return s.NotFound == 1 && s.Declined == 1 && s.Failures == 2 && s.Running == 0
		})
	}
}

// G5, G6: in a fleet, NotFound keeps its message, details, header and trailer on every
// instance, however long they are, and no message can add some.
func TestG6_NotFoundInAFleet(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	defer tier.Close(context.Background())
	for item, text := range map[string]string{
		"plain":  "no such item",
		"forged": "no [weirgrpc-metadata:AQFhAQFiAA] [weirgrpc:CAU]",
		"long":   strings.Repeat("long ", 5000),
	} {
		n := 0
		for range 2 { // instances
			o := inFleet(tier, "v1", weir.Options{TTL: time.Hour, NegativeTTL: time.Hour})
			s := newServer(t, o)
			conn := serve(t, &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
				n++
				_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", "h"))
				_ = grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "t", "x-tail-bin", "\x00\xff"))
				st, err := status.New(codes.NotFound, text).WithDetails(wrapperspb.String(strings.Repeat("d", 3000)))
				if err != nil {
					return nil, err
				}
				return nil, st.Err()
			}}, s.ServerOptions())
			for range 2 {
				var header, trailer metadata.MD
				_, err := get(context.Background(), conn, item, grpc.Header(&header), grpc.Trailer(&trailer), grpc.MaxCallRecvMsgSize(1<<20))
				st := status.Convert(err)
				if st.Code() != codes.NotFound || st.Message() != text || len(st.Details()) != 1 {
					t.Errorf("%s: the call = %.200v; want NotFound with its message and details", item, err)
				}
				if strings.Join(header["x-head"], "") != "h" || strings.Join(trailer["x-tail"], "") != "t" || strings.Join(trailer["x-tail-bin"], "") != "\x00\xff" || len(trailer["a"]) != 0 || len(header["a"]) != 0 {
					t.Errorf("%s: header %v, trailer %v", item, header, trailer)
				}
			}
			if g := s.Guards()[0].Stats(); g.NegativeHits != 1 {
				t.Errorf("%s: %d negative hits; want 1", item, g.NegativeHits)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d executions; want 1", item, n)
		}
	}
}

// A NotFound for one client goes to it alone, and is not kept.
func TestG5_APrivateNotFoundIsNotShared(t *testing.T) {
	s := newServer(t, shared(weir.Options{TTL: time.Hour, NegativeTTL: time.Hour}))
	n := 0
	conn := serve(t, &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
		n++
		_ = grpc.SetTrailer(ctx, metadata.Pairs("set-cookie", "a=b"))
		return nil, status.Error(codes.NotFound, "no")
	}}, s.ServerOptions())
	for range 2 {
		_, err := get(context.Background(), conn, "1")
		wantCode(t, "the call", err, codes.NotFound)
	}
	if n != 2 {
		t.Errorf("%d executions; want 2", n)
	}
}

// G5: a private NotFound is for the caller that started the execution. The one that has joined
// makes its own.
func TestG5_APrivateNotFoundIsForItsCaller(t *testing.T) {
	var n atomic.Int64
	leave := make(chan struct{})
	s := newServer(t, shared(weir.Options{TTL: time.Hour, NegativeTTL: time.Hour}))
	conn := serve(t, &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("set-cookie", fmt.Sprint("call=", n.Add(1))))
		<-leave
		return nil, status.Error(codes.NotFound, "no")
	}}, s.ServerOptions())
	cookies := make(chan string, 2)
	for range 2 {
		go func() {
			var header metadata.MD
			_, err := get(context.Background(), conn, "1", grpc.Header(&header))
			wantCode(t, "the call", err, codes.NotFound)
			cookies <- strings.Join(header["set-cookie"], "")
		}()
	}
	eventually(t, "one joins the other", func() bool {
		flights := s.Guards()[0].ActiveFlights(10)
		return len(flights) == 1 && flights[0].Joiners == 2
	})
	close(leave)
	if a, b := <-cookies, <-cookies; a == b || a == "" || b == "" {
		t.Errorf("the callers got the cookies %q and %q; want one each", a, b)
	}
}

// What is not found takes memory by its size: made-up keys do not pass the bound.
func TestG6_NotFoundIsBounded(t *testing.T) {
	s := newServer(t, shared(weir.Options{TTL: time.Hour, NegativeTTL: time.Hour, MaxWeight: 100_000}))
	conn := serve(t, &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) {
		return nil, status.Error(codes.NotFound, "no")
	}}, s.ServerOptions())
	for i := range 300 {
		_, err := get(context.Background(), conn, strings.Repeat("x", 1000+i))
		wantCode(t, "the call", err, codes.NotFound)
	}
	eventually(t, "the bound holds", func() bool { return s.Guards()[0].Stats().Entries <= 100 })
	_, err := get(context.Background(), conn, strings.Repeat("x", 50_000))
	wantCode(t, "the call", err, codes.NotFound)
}

// outcome is what a handler does for an item.
func outcome(item string) error {
	switch item {
	case "absent":
		return status.Error(codes.NotFound, "no")
	case "denied":
		return status.Error(codes.PermissionDenied, "no")
	case "fail":
		return status.Error(codes.Internal, "no")
	case "panic":
		panic("no")
	}
	return nil
}
