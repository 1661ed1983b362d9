package weirgrpc_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/inspect"
)

const (
	getMethod   = "/weir.test.Catalog/Get"
	watchMethod = "/weir.test.Catalog/Watch"
	patience    = 10 * time.Second // for what must happen; tests do not wait for it otherwise
)

// A catalog is the service of these tests. Nil functions count and echo.
type catalog struct {
	get   func(context.Context, *structpb.Struct) (*structpb.Struct, error)
	watch func(grpc.ServerStream) error
	gets  atomic.Int64
}

func (c *catalog) Get(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
	c.gets.Add(1)
	if c.get == nil {
		return in, nil
	}
	return c.get(ctx, in)
}

var catalogDesc = grpc.ServiceDesc{
	ServiceName: "weir.test.Catalog",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Get",
		Handler: func(srv any, ctx context.Context, dec func(any) error, by grpc.UnaryServerInterceptor) (any, error) {
			in := new(structpb.Struct)
			if err := dec(in); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, req any) (any, error) {
				out, err := srv.(*catalog).Get(ctx, req.(*structpb.Struct))
				if err != nil {
					return nil, err
				}
				return out, nil
			}
			if by == nil {
				return handler(ctx, in)
			}
			return by(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: getMethod}, handler)
		},
	}},
	Streams: []grpc.StreamDesc{{
		StreamName: "Watch", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, ss grpc.ServerStream) error { return srv.(*catalog).watch(ss) },
	}},
}

// shared is a policy that shares Get and keeps its responses.
func shared(g weir.Options) weirgrpc.Options {
	return weirgrpc.Options{Methods: map[string]weirgrpc.Policy{getMethod: {Share: weirgrpc.ShareAll, Guard: g}}}
}

func newServer(t *testing.T, o weirgrpc.Options) *weirgrpc.Server {
	t.Helper()
	s, err := weirgrpc.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return s
}

func newClient(t *testing.T, o weirgrpc.ClientOptions) *weirgrpc.Client {
	t.Helper()
	c, err := weirgrpc.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return c
}

// serve serves c over memory, and returns a connection to it.
func serve(t *testing.T, c *catalog, options []grpc.ServerOption, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	desc := catalogDesc
	return serveAs(t, &desc, c, options, dial...)
}

// serveAs serves the service of desc.
func serveAs(t *testing.T, desc *grpc.ServiceDesc, impl any, options []grpc.ServerOption, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(options...)
	server.RegisterService(desc, impl)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return connect(t, listener, dial...)
}

func connect(t *testing.T, listener *bufconn.Listener, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	dial = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	}, dial...)
	conn, err := grpc.NewClient("passthrough:///catalog", dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// get calls Get for an item, and returns the field "value" of the response.
func get(ctx context.Context, conn grpc.ClientConnInterface, item string, opts ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out := new(structpb.Struct)
	if err := conn.Invoke(ctx, getMethod, message("item", item), out, opts...); err != nil {
		return "", err
	}
	return out.Fields["value"].GetStringValue(), nil
}

func message(key, value string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(value)}}
}

func with(pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), pairs...)
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s = %v; want the code %v", what, err, want)
	}
}

// statsOf returns the counts of a method.
func statsOf(all []inspect.MethodStats, method string) inspect.MethodStats {
	for _, s := range all {
		if s.Method == method {
			return s
		}
	}
	return inspect.MethodStats{}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not happen within %v", what, patience)
		}
	}
}
