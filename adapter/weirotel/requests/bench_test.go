package requests_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/adapter/weirotel/requests"
	"github.com/weir-go/weir/weirhttp"
)

// BenchmarkMiddleware measures the cost of a request that is answered at once:
// without a Middleware, with one that uses an instrument of the SDK, and with one
// that uses Counts.
func BenchmarkMiddleware(b *testing.B) {
	b.Run("by=nothing", func(b *testing.B) { benchHits(b, http.HandlerFunc(hit)) })
	b.Run("by=instrument", func(b *testing.B) { benchHits(b, middleware(b, sdkmetric.NewManualReader(), nil, hit)) })
	b.Run("by=counts", func(b *testing.B) {
		counts := requests.New()
		benchHits(b, middleware(b, sdkmetric.NewManualReader(sdkmetric.WithProducer(counts)), counts, hit))
	})
}

// middleware returns a Middleware around next. Without counts it uses an instrument.
func middleware(tb testing.TB, reader sdkmetric.Reader, counts *requests.Counts, next http.HandlerFunc) http.Handler {
	tb.Helper()
	o := weirotel.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}
	if counts != nil {
		o.Requests = counts.Recorder
	}
	t, err := weirotel.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return t.Middleware("")(next)
}

// hit responds like a gateway from memory.
func hit(w http.ResponseWriter, _ *http.Request) {
	weirhttp.SetReceipt(w, weirhttp.Receipt{Route: "shop"})
	weirhttp.SetReceipt(w, weirhttp.Receipt{Route: "shop", Outcome: weirhttp.OutcomeHit})
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, "hello")
}

func benchHits(b *testing.B, h http.Handler) {
	r := httptest.NewRequest(http.MethodGet, "http://shop.example/", nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.ServeHTTP(nowhere{}, r)
		}
	})
}

// nowhere is a ResponseWriter that discards the response.
type nowhere struct{}

func (nowhere) Header() http.Header               { return nil }
func (nowhere) WriteHeader(int)                   {}
func (nowhere) Write(p []byte) (int, error)       { return len(p), nil }
func (nowhere) WriteString(s string) (int, error) { return len(s), nil }
