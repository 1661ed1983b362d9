package weirgrpc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
)

func TestG2_AThousandCallersAreOneExecution(t *testing.T) {
	leave := make(chan struct{})
	c := &catalog{get: func(_ context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		<-leave
		return message("value", in.Fields["item"].GetStringValue()), nil
	}}
	s := newServer(t, shared(weir.Options{}))
	conn := serve(t, c, s.ServerOptions())
	const callers = 1000
	errs := make(chan error, callers)
	for range callers {
		go func() {
			v, err := get(context.Background(), conn, "tea")
			if err == nil && v != "tea" {
				err = fmt.Errorf("got %q", v)
			}
			errs <- err
		}()
	}
	eventually(t, "1,000 callers of one execution", func() bool {
		flights := s.Guards()[0].ActiveFlights(10)
		return len(flights) == 1 && flights[0].Joiners == callers
	})
	close(leave)
	for range callers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	got := statsOf(s.Stats(), getMethod)
	if n := c.gets.Load(); n != 1 || got.Executed != 1 || got.Joined != callers-1 {
		t.Errorf("%d executions, Stats %+v; want 1 execution and %d joined", n, got, callers-1)
	}
}

// call passes a call to the interceptor of s, as a gRPC server does.
func call(ctx context.Context, s *weirgrpc.Server, req any, handler grpc.UnaryHandler) (any, error) {
	return s.UnaryInterceptor()(ctx, req, &grpc.UnaryServerInfo{FullMethod: getMethod}, handler)
}

func mustAny(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// withUnknown returns a copy of m with a field that its type does not have.
func withUnknown(m proto.Message, value byte) proto.Message {
	m = proto.Clone(m)
	m.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0x7f, value}) // field 2047, a varint
	return m
}

func TestG2_EqualMessages(t *testing.T) {
	large := func() *structpb.Struct {
		s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for i := range 100 {
			s.Fields[fmt.Sprint(i)] = structpb.NewNumberValue(float64(i))
		}
		return s
	}
	dynamic := dynamicpb.NewMessage(wrapperspb.String("").ProtoReflect().Descriptor())
	dynamic.Set(dynamic.Descriptor().Fields().ByName("value"), protoreflect.ValueOfString("a"))
	for name, tt := range map[string]struct {
		a, b proto.Message
		same bool
	}{
		"maps":                    {large(), large(), true},
		"another value in a map":  {large(), func() proto.Message { s := large(); s.Fields["7"] = structpb.NewNumberValue(0); return s }(), false},
		"one entry less":          {large(), func() proto.Message { s := large(); delete(s.Fields, "7"); return s }(), false},
		"equal Any":               {mustAny(t, wrapperspb.String("a")), mustAny(t, wrapperspb.String("a")), true},
		"Any of another value":    {mustAny(t, wrapperspb.String("a")), mustAny(t, wrapperspb.String("b")), false},
		"Any of another type":     {mustAny(t, wrapperspb.String("a")), mustAny(t, wrapperspb.Bytes([]byte("a"))), false},
		"equal unknown fields":    {withUnknown(wrapperspb.String("a"), 1), withUnknown(wrapperspb.String("a"), 1), true},
		"other unknown fields":    {withUnknown(wrapperspb.String("a"), 1), withUnknown(wrapperspb.String("a"), 2), false},
		"without unknown fields":  {withUnknown(wrapperspb.String("a"), 1), wrapperspb.String("a"), false},
		"same bytes, other types": {wrapperspb.String("a"), wrapperspb.Bytes([]byte("a")), false},
		"generated and dynamic":   {wrapperspb.String("a"), dynamic, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, shared(weir.Options{TTL: time.Hour}))
			n := 0
			for _, req := range []proto.Message{tt.a, tt.b} {
				got, err := call(t.Context(), s, req, func(_ context.Context, req any) (any, error) {
					n++
					return req, nil
				})
				if err != nil || !proto.Equal(got.(proto.Message), req) && name != "generated and dynamic" {
					t.Errorf("the response is %v, %v; want an echo of %v", got, err, req)
				}
			}
			if (n == 1) != tt.same {
				t.Errorf("%d executions; want one only for equal messages (%v)", n, tt.same)
			}
		})
	}
}

func TestG2_WhatIsTooLargeOrNoMessageRunsAlone(t *testing.T) {
	o := shared(weir.Options{TTL: time.Hour})
	o.MaxRequest = 1000
	s := newServer(t, o)
	for _, req := range []any{wrapperspb.Bytes(make([]byte, 1000)), "text", (*structpb.Struct)(nil)} {
		n := 0
		for range 2 {
			if _, err := call(t.Context(), s, req, func(context.Context, any) (any, error) {
				n++
				return wrapperspb.Bool(true), nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if n != 2 {
			t.Errorf("%d executions for two requests of %T; want 2", n, req)
		}
	}
	if got := statsOf(s.Stats(), getMethod).NotShared; got.Size != 2 || got.Message != 4 {
		t.Errorf("NotShared = %+v; want 2 by size and 4 by message", got)
	}
}

func TestG3_ASharedExecutionSeesOnlyWhatIsShared(t *testing.T) {
	o := shared(weir.Options{TTL: time.Hour})
	p := o.Methods[getMethod]
	p.Metadata, p.IgnoreMetadata = []string{"lang"}, []string{"x-request-id"}
	o.Methods[getMethod] = p
	seen := make(chan metadata.MD, 1)
	var from *peer.Peer
	c := &catalog{get: func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		from, _ = peer.FromContext(ctx)
		if method, ok := grpc.Method(ctx); !ok || method != getMethod {
			t.Errorf("grpc.Method = %q, %v", method, ok)
		}
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline, not even that of LoadTimeout")
		}
		seen <- md
		return in, nil
	}}
	conn := serve(t, c, newServer(t, o).ServerOptions())
	for i := range 3 {
		if _, err := get(with("lang", "en", "x-request-id", fmt.Sprint(i), "traceparent", fmt.Sprint(i)), conn, "1"); err != nil {
			t.Fatal(err)
		}
	}
	want := metadata.MD{"lang": {"en"}, ":authority": {"catalog"}}
	if got := <-seen; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the handler saw %v; want %v", got, want)
	}
	if from == nil || from.Addr.String() != "shared" {
		t.Errorf("the handler saw the peer %v; want no address", from)
	}
	if n := c.gets.Load(); n != 1 {
		t.Errorf("%d executions; want 1", n)
	}
}

// A call that shares nothing keeps all of it.
func TestG3_ACallAloneIsUnchanged(t *testing.T) {
	c := &catalog{get: func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		from, _ := peer.FromContext(ctx)
		if fmt.Sprint(md["x-user"], md["user-agent"] != nil, from.Addr) != "[ada] true bufconn" {
			t.Errorf("the handler saw %v from %v", md, from)
		}
		return in, nil
	}}
	conn := serve(t, c, newServer(t, shared(weir.Options{TTL: time.Hour})).ServerOptions())
	if _, err := get(with("x-user", "ada"), conn, "1"); err != nil {
		t.Fatal(err)
	}
}

func TestG4_NoModificationReachesAnother(t *testing.T) {
	s := newServer(t, shared(weir.Options{TTL: time.Hour}))
	kept := message("value", "original")
	handler := func(_ context.Context, req any) (any, error) {
		req.(*structpb.Struct).Fields["item"] = structpb.NewStringValue("by the handler")
		return kept, nil
	}
	req := message("item", "1")
	for i := range 3 {
		got, err := call(t.Context(), s, req, handler)
		if err != nil {
			t.Fatal(err)
		}
		out := got.(*structpb.Struct)
		if v := out.Fields["value"].GetStringValue(); v != "original" {
			t.Errorf("call %d got %q; want the original", i, v)
		}
		out.Fields["value"] = structpb.NewStringValue("by a caller") // an outer interceptor
		kept.Fields["value"].Kind = &structpb.Value_StringValue{StringValue: "by the handler, later"}
		if v := req.Fields["item"].GetStringValue(); v != "1" {
			t.Errorf("the request of the caller has become %q", v)
		}
	}
}

// Callers that read and write their responses at the same time do not race (-race).
func TestG4_ConcurrentCallersOwnTheirResponses(t *testing.T) {
	s := newServer(t, shared(weir.Options{}))
	leave := make(chan struct{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			got, err := call(t.Context(), s, message("item", "1"), func(context.Context, any) (any, error) {
				<-leave
				return message("value", "v"), nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			got.(*structpb.Struct).Fields["value"] = structpb.NewStringValue("own")
		})
	}
	eventually(t, "50 callers", func() bool {
		flights := s.Guards()[0].ActiveFlights(1)
		return len(flights) == 1 && flights[0].Joiners == 50
	})
	close(leave)
	wg.Wait()
}

func TestG5_HeaderAndTrailerReachEveryCaller(t *testing.T) {
	leave := make(chan struct{})
	c := &catalog{get: func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		for _, err := range []error{
			grpc.SetHeader(ctx, metadata.Pairs("one", "1")),
			grpc.SetHeader(ctx, metadata.Pairs("one", "2", "two-bin", "\x00\xff")),
			grpc.SetTrailer(ctx, metadata.Pairs("cost", "7")),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		if grpc.SetHeader(ctx, metadata.Pairs("bad", "\n")) == nil {
			t.Error("SetHeader accepted a line feed; it would make the replay of the header fail")
		}
		if in.Fields["item"].GetStringValue() == "sent" {
			if err := grpc.SendHeader(ctx, metadata.Pairs("three", "3")); err != nil {
				t.Error(err)
			}
			if grpc.SetHeader(ctx, metadata.Pairs("four", "4")) == nil {
				t.Error("SetHeader after SendHeader was accepted")
			}
		}
		<-leave
		if in.Fields["item"].GetStringValue() == "fails" {
			return nil, fmt.Errorf("failed")
		}
		return in, nil
	}}
	s := newServer(t, shared(weir.Options{TTL: time.Hour}))
	conn := serve(t, c, s.ServerOptions())
	for item, want := range map[string]string{
		"plain": "[1 2] [\x00\xff] [] [7]", "sent": "[1 2] [\x00\xff] [3] [7]", "fails": "[1 2] [\x00\xff] [] [7]",
	} {
		got := make(chan string, 20)
		leave = make(chan struct{})
		for range cap(got) {
			go func() {
				var h, tr metadata.MD
				_, err := get(context.Background(), conn, item, grpc.Header(&h), grpc.Trailer(&tr))
				if (err != nil) != (item == "fails") {
					t.Errorf("Get(%s) = %v", item, err)
				}
				got <- fmt.Sprint(h["one"], h["two-bin"], h["three"], tr["cost"])
			}()
		}
		eventually(t, "20 callers", func() bool {
			flights := s.Guards()[0].ActiveFlights(1)
			return len(flights) == 1 && flights[0].Joiners == cap(got)
		})
		close(leave)
		for range cap(got) {
			if g := <-got; g != want {
				t.Errorf("a caller of %s got %q; want %q", item, g, want)
			}
		}
		if item == "fails" {
			continue
		}
		var h, tr metadata.MD // from memory
		if _, err := get(context.Background(), conn, item, grpc.Header(&h), grpc.Trailer(&tr)); err != nil || fmt.Sprint(h["one"], h["two-bin"], h["three"], tr["cost"]) != want {
			t.Errorf("a hit of %s got %v, %v, %v", item, h, tr, err)
		}
	}
}

// A response that is for one client goes to that client only, even if others wait.
func TestG5_PrivateResponsesAreNotShared(t *testing.T) {
	for _, how := range []string{"header", "trailer", "directives"} {
		t.Run(how, func(t *testing.T) {
			leave := make(chan struct{})
			c := &catalog{}
			c.get = func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
				n := fmt.Sprint(c.gets.Load())
				switch how {
				case "header":
					_ = grpc.SetHeader(ctx, metadata.Pairs("set-cookie", "sid="+n))
				case "trailer":
					_ = grpc.SetTrailer(ctx, metadata.Pairs("set-cookie", "sid="+n))
				case "directives":
					if ok := weirgrpc.SetDirectives(ctx, weirgrpc.Directives{TTL: time.Hour, Private: true}); ok != (n == "1") {
						t.Errorf("SetDirectives = %v in execution %s; want true only for the one that may be shared", ok, n)
					}
				}
				<-leave
				return message("value", n), nil
			}
			s := newServer(t, shared(weir.Options{TTL: time.Hour}))
			conn := serve(t, c, s.ServerOptions())
			got := make(chan string, 3)
			for range cap(got) {
				go func() {
					v, err := get(context.Background(), conn, "1")
					if err != nil {
						t.Error(err)
					}
					got <- v
				}()
			}
			eventually(t, "3 callers", func() bool {
				flights := s.Guards()[0].ActiveFlights(1)
				return len(flights) == 1 && flights[0].Joiners == cap(got)
			})
			close(leave)
			different := map[string]bool{<-got: true, <-got: true, <-got: true}
			if n := c.gets.Load(); n != 3 || how != "header" && len(different) < 2 {
				t.Errorf("%d executions, responses %v; want 3", n, different)
			}
			if n := s.Guards()[0].Stats().Entries; n != 0 {
				t.Errorf("%d entries are kept; want none", n)
			}
		})
	}
}

func TestTermsOfAHandler(t *testing.T) {
	c := &catalog{}
	c.get = func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
		weirgrpc.SetDirectives(ctx, weirgrpc.Directives{TTL: time.Hour, Tags: []string{"prices"}})
		return message("value", fmt.Sprint(c.gets.Load())), nil
	}
	s := newServer(t, shared(weir.Options{}))
	conn := serve(t, c, s.ServerOptions())
	want := func(want string) {
		t.Helper()
		if v, err := get(context.Background(), conn, "1"); err != nil || v != want {
			t.Errorf("Get = %q, %v; want %q", v, err, want)
		}
	}
	want("1")
	want("1")
	if err := s.InvalidateTags(context.Background(), "prices"); err != nil {
		t.Fatal(err)
	}
	want("2")
	if weirgrpc.SetDirectives(context.Background(), weirgrpc.Directives{}) {
		t.Error("SetDirectives of no call is true")
	}
}
