package weirotel_test

import (
	"context"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirotel"
)

// A Guard whose loads are traced, here into memory. Hits are not traced.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewSpanRecorder()
	t, err := weirotel.New(weirotel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	})
	if err != nil {
		panic(err)
	}
	defer t.Close()

	prices := weir.Must(weir.New(func(_ context.Context, item string) (int, error) {
		return len(item), nil
	}, weir.Options{Name: "prices", TTL: time.Minute, Observer: t.Guards()}))
	if err := t.AddGuard(prices); err != nil { // for metrics, which this example does not have
		panic(err)
	}

	for range 3 {
		prices.Get(ctx, "tea")
	}
	prices.Close(ctx) // waits until all loads have ended
	for _, span := range spans.Ended() {
		fmt.Println(span.Name())
	}
	// Output: weir load prices
}
