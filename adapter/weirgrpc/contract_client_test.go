package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/limit"
)

func oneIdentity(g weir.Options) weirgrpc.ClientOptions {
	return weirgrpc.ClientOptions{Options: shared(g), OneIdentity: true}
}

// ofContext are credentials of a connection that depend on the context of each call.
type ofContext struct{}

func (ofContext) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	user, _ := ctx.Value(ofContext{}).(string)
	return map[string]string{"authorization": user}, nil
}
func (ofContext) RequireTransportSecurity() bool { return false }

func TestG10_AClientSharesNothingUnlessDeclared(t *testing.T) {
	_, err := weirgrpc.NewClient(weirgrpc.ClientOptions{Options: shared(weir.Options{TTL: time.Hour})})
	var fault *weirgrpc.OptionError
	if !errors.As(err, &fault) || !strings.Contains(fault.Field, "Share") {
		t.Errorf("NewClient = %v; want the fault that Share needs OneIdentity", err)
	}
	c := personal()
	client := newClient(t, weirgrpc.ClientOptions{})
	conn := serve(t, c, nil, append(client.DialOptions(), grpc.WithPerRPCCredentials(ofContext{}))...)
	for _, user := range []string{"ada", "bob", "ada"} {
		if got, err := get(context.WithValue(context.Background(), ofContext{}, user), conn, "1"); err != nil || got != user {
			t.Errorf("Get of %s = %q, %v", user, got, err)
		}
	}
	if got := statsOf(client.Stats(), getMethod); got.Alone != 3 || c.gets.Load() != 3 {
		t.Errorf("Stats = %+v; want 3 calls alone", got)
	}
}

func TestG10_CallsThatDifferShareNothing(t *testing.T) {
	c := personal()
	client := newClient(t, oneIdentity(weir.Options{TTL: time.Hour}))
	conn := serve(t, c, nil, client.DialOptions()...)
	creds := func(user string) grpc.CallOption { return grpc.PerRPCCredentials(perRPC{"x-user", user}) }
	var p peer.Peer
	for _, tt := range []struct {
		ctx  context.Context
		opts []grpc.CallOption
		want string
	}{
		{context.Background(), nil, ""},
		{context.Background(), []grpc.CallOption{creds("ada")}, "ada"},
		{context.Background(), []grpc.CallOption{creds("bob")}, "bob"},
		{with("authorization", "Bearer ada"), nil, "Bearer ada"},
		{with("cookie", "sid=bob"), nil, "sid=bob"},
		{context.Background(), []grpc.CallOption{grpc.Peer(&p)}, ""},
		{context.Background(), []grpc.CallOption{grpc.CallAuthority("b.example")}, ""},
		{context.Background(), nil, ""},
	} {
		if got, err := get(tt.ctx, conn, "1", tt.opts...); err != nil || got != tt.want {
			t.Errorf("Get = %q, %v; want %q", got, err, tt.want)
		}
	}
	if n := c.gets.Load(); n != 7 {
		t.Errorf("%d calls left; want 7: only the last is a hit", n)
	}
	if p.Addr == nil {
		t.Error("grpc.Peer was not filled")
	}
}

func TestG10_AnotherConnectionSharesNothing(t *testing.T) {
	client := newClient(t, oneIdentity(weir.Options{TTL: time.Hour}))
	a := serve(t, &catalog{}, nil, client.DialOptions()...)
	other := personal()
	b := serve(t, other, nil, append(client.DialOptions(), grpc.WithPerRPCCredentials(perRPC{"x-user", "bob"}))...)
	for range 2 {
		if _, err := get(context.Background(), a, "1"); err != nil {
			t.Fatal(err)
		}
		if got, err := get(context.Background(), b, "1"); err != nil || got != "bob" {
			t.Errorf("over the other connection Get = %q, %v; want bob", got, err)
		}
	}
	if got := statsOf(client.Stats(), getMethod); got.Hits != 1 || got.NotShared.Connection != 2 {
		t.Errorf("Stats = %+v; want 1 hit and 2 of another connection", got)
	}
}

func TestClientCoalescesAndCaches(t *testing.T) {
	enter, leave := make(chan struct{}, 100), make(chan struct{})
	c := &catalog{get: func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		enter <- struct{}{}
		<-leave
		_ = grpc.SetHeader(ctx, metadata.Pairs("one", "1"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("two", "2"))
		return message("value", in.Fields["item"].GetStringValue()), nil
	}}
	client := newClient(t, oneIdentity(weir.Options{TTL: time.Hour}))
	conn := serve(t, c, nil, client.DialOptions()...)
	errs := make(chan error, 100)
	ask := func() {
		var h, tr metadata.MD
		v, err := get(context.Background(), conn, "tea", grpc.Header(&h), grpc.Trailer(&tr))
		if err == nil && (v != "tea" || fmt.Sprint(h["one"], tr["two"]) != "[1] [2]") {
			err = fmt.Errorf("got %q, %v, %v", v, h, tr)
		}
		h.Set("one", "of a caller") // its own copy
		errs <- err
	}
	for range cap(errs) {
		go ask()
	}
	<-enter
	eventually(t, "100 callers", func() bool {
		flights := client.Guards()[0].ActiveFlights(1)
		return len(flights) == 1 && flights[0].Joiners == cap(errs)
	})
	close(leave)
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if ask(); <-errs != nil || c.gets.Load() != 1 {
		t.Errorf("%d calls left; want 1", c.gets.Load())
	}
}

// The reply belongs to its caller, whatever its type.
func TestG4_RepliesOfAClient(t *testing.T) {
	client := newClient(t, oneIdentity(weir.Options{TTL: time.Hour}))
	conn := serve(t, &catalog{}, nil, client.DialOptions()...)
	descriptor := (&structpb.Struct{}).ProtoReflect().Descriptor()
	for i, out := range []proto.Message{new(structpb.Struct), dynamicpb.NewMessage(descriptor), message("left", "over")} {
		if err := conn.Invoke(context.Background(), getMethod, message("item", "1"), out); err != nil {
			t.Fatal(err)
		}
		if b, err := proto.Marshal(out); err != nil || string(b) != string(mustMarshal(t, message("item", "1"))) {
			t.Errorf("reply %d is %v, %v", i, out, err)
		}
		fields := out.ProtoReflect().Mutable(descriptor.Fields().ByName("fields")).Map()
		fields.Clear(protoreflect.ValueOfString("item").MapKey()) // by the caller
	}
	if got := statsOf(client.Stats(), getMethod); got.Executed != 1 || got.Hits != 2 {
		t.Errorf("Stats = %+v; want 1 execution and 2 hits", got)
	}
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestG7_StreamsOfAClientAreAdmitted(t *testing.T) {
	l := one(t)
	client := newClient(t, weirgrpc.ClientOptions{Options: weirgrpc.Options{Streams: l}})
	c := &catalog{watch: func(ss grpc.ServerStream) error { return ss.RecvMsg(new(structpb.Struct)) }}
	conn := serve(t, c, nil, client.DialOptions()...)
	open := func(ctx context.Context) (grpc.ClientStream, error) {
		return conn.NewStream(ctx, &catalogDesc.Streams[0], watchMethod)
	}
	for name, end := range map[string]func(grpc.ClientStream, context.CancelFunc){
		"it ends": func(s grpc.ClientStream, _ context.CancelFunc) {
			_ = s.CloseSend()
			_ = s.RecvMsg(new(structpb.Struct))
		},
		"is canceled": func(_ grpc.ClientStream, cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(context.Background())
		s, err := open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = open(ctx)
		wantCode(t, "a second stream", err, codes.Unavailable)
		wantRetryInfo(t, err)
		end(s, cancel)
		eventually(t, "the release after "+name, func() bool {
			p, err := l.TryAcquire()
			p.Release(limit.Unused)
			return err == nil
		})
		cancel()
	}
	failing, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := open(failing); err == nil {
		t.Error("a stream of an ended context was opened")
	}
	mustAcquire(t, l).Release(limit.Success)
	if got := statsOf(client.Stats(), watchMethod); got.Running != 0 {
		t.Errorf("Stats = %+v; want none running", got)
	}
}
