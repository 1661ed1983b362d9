package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/lab/scenario"
)

const (
	grpcServiceName = "weir.lab.Catalog"
	grpcMethod      = "/" + grpcServiceName + "/Get"
)

// A costlyMethod takes Call for each execution, of which Slots run at once.
type costlyMethod struct {
	call  time.Duration
	slots chan struct{}
	meter *scenario.Meter
}

// get returns the item of the request and the user that the credentials name.
func (c *costlyMethod) get(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	defer c.meter.Begin()()
	time.Sleep(c.call)
	user := ""
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) > 0 {
		user = values[0]
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"item": in.Fields["item"], "user": structpb.NewStringValue(user),
	}}, nil
}

// describe returns the service descriptor, as generated code would have it.
func (c *costlyMethod) describe() *grpc.ServiceDesc {
	handle := func(_ any, ctx context.Context, decode func(any) error, by grpc.UnaryServerInterceptor) (any, error) {
		in := new(structpb.Struct)
		if err := decode(in); err != nil {
			return nil, err
		}
		run := func(ctx context.Context, req any) (any, error) { return c.get(ctx, req.(*structpb.Struct)) }
		if by == nil {
			return run(ctx, in)
		}
		return by(ctx, in, &grpc.UnaryServerInfo{Server: c, FullMethod: grpcMethod}, run)
	}
	return &grpc.ServiceDesc{
		ServiceName: grpcServiceName,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Get", Handler: handle}},
	}
}

// grpcPolicy returns the policy of a variant with weir.
func grpcPolicy(variant string) weirgrpc.Policy {
	p := weirgrpc.Policy{Share: weirgrpc.ShareAll}
	if variant != coalescing {
		p.Guard = weir.Options{TTL: time.Minute}
	}
	switch variant {
	case perUser:
		p.Metadata = []string{"authorization"}
	case userIgnored:
		p.IgnoreMetadata = []string{"authorization"}
	}
	return p
}

// grpcService serves the method with gRPC; its HTTP handler returns the address.
func grpcService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var c grpcCrowd
	if err := o.Decode(&c); err != nil {
		return nil, err
	}
	method := &costlyMethod{call: c.Call, slots: make(chan struct{}, c.Slots), meter: new(scenario.Meter)}
	var options []grpc.ServerOption
	closeWeir := func() error { return nil }
	if o.Variant != unprotected {
		w, err := weirgrpc.NewServer(weirgrpc.Options{Methods: map[string]weirgrpc.Policy{grpcMethod: grpcPolicy(o.Variant)}})
		if err != nil {
			return nil, err
		}
		options = w.ServerOptions()
		closeWeir = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return w.Close(ctx)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, closeWeir())
	}
	server := grpc.NewServer(options...)
	server.RegisterService(method.describe(), method)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }() // ends with Stop; Close waits for it
	return &scenario.Service{
		Meter:   method.meter,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listener.Addr()) }),
		Close: func() {
			server.Stop()
			<-done
			_ = closeWeir() // the process ends
		},
	}, nil
}
