package interoptest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/limit"
)

// C9: a stream has one span in a trace, and is in no duration of loads. Of a refused one the
// trace shows the refusal.
func TestC9_StreamsInATrace(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	tel, err := weirotel.New(weirotel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	s, err := weirgrpc.NewServer(weirgrpc.Options{
		Name: "shop", Observer: tel.Guards(), Streams: limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	inside := make(chan bool)
	conn := streaming(t, s, func(_ any, ss grpc.ServerStream) error {
		inside <- true
		return ss.RecvMsg(new(emptypb.Empty)) // EOF
	})
	open := func() grpc.ClientStream {
		ss, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/weir.test.Mills/Watch")
		if err != nil {
			t.Fatal(err)
		}
		return ss
	}
	first := open()
	<-inside
	if err := open().RecvMsg(new(emptypb.Empty)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the second stream ends with %v; want a refusal", err)
	}
	if err := first.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_ = first.RecvMsg(new(emptypb.Empty))
	for end := time.Now().Add(10 * time.Second); len(spans.Ended()) < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	var names []string
	for _, span := range spans.Ended() {
		names = append(names, span.Name())
		if span.Name() == "weir wait shop" && (len(span.Events()) != 1 || span.Events()[0].Name != "weir.refused") {
			t.Errorf("the refused stream has the events %v; want weir.refused", span.Events())
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"weir stream shop", "weir wait shop"}) {
		t.Errorf("the spans are %q; want one of the stream, and one of the refusal", names)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "weir.load.duration" {
			t.Errorf("%s has %+v; want nothing of a stream", m.Name, m.Data)
		}
	}
}

// C9: the error.type of a failure is the name of its code, whether the execution is shared or
// not, and codes that no one has defined do not add values.
func TestC9_FailuresHaveTheirCodes(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tel, err := weirotel.New(weirotel.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	for _, share := range []weirgrpc.Share{weirgrpc.ShareAll, weirgrpc.ShareNone} {
		for code, want := range map[codes.Code]string{codes.Unavailable: "Unavailable", codes.Internal: "Internal", 4711: "Unknown"} {
			spans.Reset()
			s, err := weirgrpc.NewServer(weirgrpc.Options{Observer: tel.Guards(), Methods: map[string]weirgrpc.Policy{"/": {Share: share}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.UnaryInterceptor()(t.Context(), structpb.NewStringValue("tea"), &grpc.UnaryServerInfo{FullMethod: "/weir.test.Mills/Get"},
				func(context.Context, any) (any, error) { return nil, status.Error(code, "no") })
			if status.Code(err) != code {
				t.Errorf("%v, %v: the call returns %v", share, code, err)
			}
			if err := s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			found := false
			for _, span := range spans.Ended() {
				for _, a := range span.Attributes() {
					if a.Key == "error.type" {
						found = true
						if got := a.Value.AsString(); got != want {
							t.Errorf("%v, %v: the span %q has error.type %q; want %q", share, code, span.Name(), got, want)
						}
					}
				}
			}
			if !found {
				t.Errorf("%v, %v: no span has an error.type", share, code)
			}
		}
	}
}

// streaming serves the stream Watch with handler over loopback, and returns a connection.
func streaming(t *testing.T, s *weirgrpc.Server, handler grpc.StreamHandler) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(s.ServerOptions()...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "weir.test.Mills", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "Watch", Handler: handler, ClientStreams: true, ServerStreams: true}},
	}, t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-done
	})
	return conn
}
