package requests_test

import (
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/adapter/weirotel/requests"
)

// A Producer provides the durations of requests, next to the instruments of weirotel.
func Example() {
	counts := requests.New()
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(counts))
	_, err := weirotel.New(weirotel.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Requests:      counts.Recorder,
	})
	fmt.Println(err)
	// Output: <nil>
}
