package interoptest_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// service is the service of the interoperability tests.
const service = "/grpc.testing.TestService/"

// sharing shares all calls to the service, with the metadata of the tests in the key.
func sharing() weirgrpc.Options {
	return weirgrpc.Options{Methods: map[string]weirgrpc.Policy{service: {
		Share:    weirgrpc.ShareAll,
		Metadata: []string{"x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"},
		Guard:    weir.Options{TTL: time.Hour, StaleIfError: 2 * time.Hour, NegativeTTL: time.Hour},
	}}}
}

// priced counts cost, which replaces the streams that handlers and callers see.
func priced() weirgrpc.Options {
	return weirgrpc.Options{Methods: map[string]weirgrpc.Policy{service: {
		Cost:     func(string, proto.Message) int { return 10 },
		Usage:    func(_ string, m proto.Message) (int, bool) { return proto.Size(m), true },
		UsageKey: "x-cost",
		Budget:   limit.Must(limit.NewRateLimiter(limit.RateOptions{PerSecond: 1e9, Burst: 1 << 30})),
	}}}
}

// The interoperability tests of grpc-go end the process when they fail. G12: they pass
// through the interceptors, each of them twice, so that the second run gets what the
// first has stored.
func TestG12_InteroperabilityTests(t *testing.T) {
	for name, tt := range map[string]struct {
		server *weirgrpc.Options
		client *weirgrpc.ClientOptions
		dial   []grpc.DialOption
	}{
		"server admits":              {server: &weirgrpc.Options{}},
		"server shares":              {server: options(sharing())},
		"client admits":              {client: &weirgrpc.ClientOptions{}},
		"client shares":              {client: &weirgrpc.ClientOptions{Options: sharing(), OneIdentity: true}},
		"both share, with gzip":      {options(sharing()), &weirgrpc.ClientOptions{Options: sharing(), OneIdentity: true}, []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name))}},
		"server shares, with gzip":   {server: options(sharing()), dial: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name))}},
		"server counts cost":         {server: options(priced())},
		"client counts cost":         {client: &weirgrpc.ClientOptions{Options: priced()}},
		"without weir, as a control": {},
	} {
		t.Run(name, func(t *testing.T) {
			var serverOptions []grpc.ServerOption
			dial := tt.dial
			var stats []func() []inspect.MethodStats
			if tt.server != nil {
				s, err := weirgrpc.NewServer(*tt.server)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close(context.Background())
				serverOptions, stats = s.ServerOptions(), append(stats, s.Stats)
			}
			if tt.client != nil {
				c, err := weirgrpc.NewClient(*tt.client)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				dial, stats = append(dial, c.DialOptions()...), append(stats, c.Stats)
			}
			conn := serve(t, serverOptions, dial)
			for range 2 {
				runAll(t, conn)
			}
			if len(stats) == 2 {
				stats = stats[1:] // the server shares nothing that the client does not
			}
			for _, of := range stats {
				checkStats(t, of(), tt.server != nil && tt.server.Methods[service].Share != weirgrpc.ShareNone || tt.client != nil && tt.client.OneIdentity)
			}
		})
	}
}

func options(o weirgrpc.Options) *weirgrpc.Options { return &o }

// checkStats checks that the calls went through the interceptors, and shared.
func checkStats(t *testing.T, all []inspect.MethodStats, shares bool) {
	t.Helper()
	var calls, streams, hits, refused uint64
	for _, s := range all {
		calls, streams, hits, refused = calls+s.Calls, streams+s.Streams, hits+s.Hits, refused+s.Refused
		if s.Running != 0 {
			t.Errorf("%s: %d still run", s.Method, s.Running)
		}
	}
	if calls == 0 || streams == 0 || refused != 0 || (hits > 0) != shares {
		t.Errorf("%d calls, %d streams, %d hits, %d refused; want hits: %v", calls, streams, hits, refused, shares)
	}
}

func serve(t *testing.T, options []grpc.ServerOption, dial []grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	conn, err := grpc.NewClient(listener.Addr().String(), append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// runAll runs the tests that apply. The others need credentials of a cloud (ComputeEngine,
// ServiceAccount, JWTToken, Oauth2Token, PerRPC, GoogleDefault), a server with an ID
// (PickFirstUnary) or one that reports its load (ORCA), which interop.NewTestServer is not, or
// run LargeUnaryCall for hours (Soak).
func runAll(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := testgrpc.NewTestServiceClient(conn)
	for _, test := range []func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
		interop.DoEmptyUnaryCall, interop.DoLargeUnaryCall, interop.DoClientStreaming, interop.DoServerStreaming,
		interop.DoPingPong, interop.DoEmptyStream, interop.DoTimeoutOnSleepingServer,
		interop.DoCancelAfterFirstResponse, interop.DoCustomMetadata, interop.DoStatusCodeAndMessage,
		interop.DoSpecialStatusMessage,
	} {
		test(ctx, client)
	}
	cancelAfterBegin(t, client)
	interop.DoUnimplementedMethod(ctx, conn)
	interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
}

// cancelAfterBegin is interop.DoCancelAfterBegin, which ends the process if the response
// arrives although the call was canceled. That can happen on a busy machine: grpc-go looks for
// both at once, and takes either.
func cancelAfterBegin(t *testing.T, client testgrpc.TestServiceClient) {
	t.Helper()
	for range 20 {
		ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "k1", "v1"))
		stream, err := client.StreamingInputCall(ctx)
		cancel()
		if err == nil {
			_, err = stream.CloseAndRecv()
		}
		switch status.Code(err) {
		case codes.Canceled:
			return
		case codes.OK:
		default:
			t.Fatalf("CloseAndRecv = %v; want %v", err, codes.Canceled)
		}
	}
	t.Error("20 calls succeeded although they were canceled before they sent anything")
}
