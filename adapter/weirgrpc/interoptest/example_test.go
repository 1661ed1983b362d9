package interoptest_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/gateway/metrics"
)

// A Server whose methods are in Prometheus and OpenTelemetry.
func Example_metrics() {
	telemetry, err := weirotel.New(weirotel.Options{}) // with the providers of your program
	if err != nil {
		panic(err)
	}
	defer telemetry.Close()
	s, err := weirgrpc.NewServer(weirgrpc.Options{
		Name:     "shop",
		Observer: telemetry.Guards(), // traces
		Methods: map[string]weirgrpc.Policy{
			"/weir.test.Catalog/Get": {Share: weirgrpc.ShareAll, Guard: weir.Options{TTL: time.Minute}},
		},
	})
	if err != nil {
		panic(err)
	}
	defer s.Close(context.Background())
	if err := telemetry.AddInterceptor(s); err != nil { // metrics for OpenTelemetry
		panic(err)
	}
	c, err := weirprom.New(weirprom.Options{Interceptors: []metrics.Interceptor{s}}) // metrics for Prometheus
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)

	// Serve with s.ServerOptions(). Here the interceptor is called directly:
	for range 3 {
		info := &grpc.UnaryServerInfo{FullMethod: "/weir.test.Catalog/Get"}
		_, err := s.UnaryInterceptor()(context.Background(), structpb.NewStringValue("tea"), info,
			func(context.Context, any) (any, error) { return structpb.NewStringValue("3.20"), nil })
		if err != nil {
			panic(err)
		}
	}
	families, err := registry.Gather() // what promhttp.HandlerFor(registry, …) serves
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "weir_grpc_avoided_total" {
			for _, m := range f.GetMetric() {
				fmt.Println(m.GetLabel()[1].GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	// Output:
	// fleet 0
	// hit 2
	// joined 0
	// stale 0
}

// The console of a program with a Server. Further Guards are shown beside its methods.
func Example_console() {
	s, err := weirgrpc.NewServer(weirgrpc.Options{Name: "shop"})
	if err != nil {
		panic(err)
	}
	defer s.Close(context.Background())
	prices := weir.Must(weir.New(queryPrice, weir.Options{Name: "prices", TTL: time.Minute}))
	defer prices.Close(context.Background())

	source, err := console.Methods([]console.Interceptor{s}, prices)
	if err != nil {
		panic(err)
	}
	c, err := console.New(console.Options{Title: "shop", Source: source})
	if err != nil {
		panic(err)
	}
	defer c.Close(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/weir/", c) // serve it on loopback
	fmt.Println(len(source.Snapshot().Limits), "limits")
	// Output: 2 limits
}

func queryPrice(context.Context, string) (string, error) { return "3.20", nil }
