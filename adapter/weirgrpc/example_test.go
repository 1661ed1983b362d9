package weirgrpc_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/limit"
)

// Concurrent calls of one method share one execution, and its response is kept.
func ExampleNewServer() {
	s, err := weirgrpc.NewServer(weirgrpc.Options{
		Limiter: limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "calls", Limit: 100})),
		Methods: map[string]weirgrpc.Policy{
			"/weir.test.Catalog/Get": {
				Share:    weirgrpc.ShareAll,
				Metadata: []string{"accept-language"},
				Guard:    weir.Options{TTL: time.Minute, StaleIfError: time.Hour, NegativeTTL: 10 * time.Second},
			},
		},
	})
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(s.ServerOptions()...)
	defer s.Close(context.Background()) // after the server has stopped
	defer server.GracefulStop()

	// Register your services, and serve. Here the interceptor is called directly:
	call := func(lang string) {
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("accept-language", lang))
		info := &grpc.UnaryServerInfo{FullMethod: "/weir.test.Catalog/Get"}
		resp, err := s.UnaryInterceptor()(ctx, structpb.NewStringValue("tea"), info, func(context.Context, any) (any, error) {
			fmt.Println("half a second of work")
			return structpb.NewStringValue("3.20 in " + lang), nil
		})
		fmt.Println(resp.(*structpb.Value).GetStringValue(), err)
	}
	call("en")
	call("en")
	call("de")
	// Output:
	// half a second of work
	// 3.20 in en <nil>
	// 3.20 in en <nil>
	// half a second of work
	// 3.20 in de <nil>
}

// A call with credentials shares nothing, and Explain says why.
func ExampleServer_Explain() {
	s, err := weirgrpc.NewServer(weirgrpc.Options{Methods: map[string]weirgrpc.Policy{
		"/weir.test.Catalog/": {Share: weirgrpc.ShareAll, Guard: weir.Options{TTL: time.Minute}},
	}})
	if err != nil {
		panic(err)
	}
	defer s.Close(context.Background())
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer x"))
	x := s.Explain(ctx, "/weir.test.Catalog/Get", structpb.NewStringValue("tea"))
	fmt.Println(x.Answer)
	for _, step := range x.Steps {
		fmt.Println(step)
	}
	// Output:
	// alone
	// The policy for "/weir.test.Catalog/" applies; it shares all.
	// The call shares nothing: it has metadata that is neither part of the identity nor declared irrelevant.
	// The metadata is authorization.
}

// A client that serves one identity shares its calls before they leave.
func ExampleNewClient() {
	c, err := weirgrpc.NewClient(weirgrpc.ClientOptions{
		OneIdentity: true, // all calls of the connection have the same credentials
		Options: weirgrpc.Options{Methods: map[string]weirgrpc.Policy{
			"/weir.test.Catalog/Get": {Share: weirgrpc.ShareAll, Guard: weir.Options{TTL: time.Minute, StaleIfError: time.Hour}},
		}},
	})
	if err != nil {
		panic(err)
	}
	defer c.Close(context.Background())
	fmt.Println(len(c.DialOptions()), "options for grpc.NewClient")
	// Output: 2 options for grpc.NewClient
}
