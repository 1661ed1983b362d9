// Command middleware puts a cache, coalescing and limits in front of an existing mux,
// with OpenTelemetry traces and metrics and a slog log at the same time. The handlers
// do not change: their Cache-Control headers control the cache.
//
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 go run ./middleware
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/weirhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newMux returns the existing service.
func newMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(100 * time.Millisecond): // an expensive query
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Cache-Control", "max-age=10, stale-while-revalidate=60, stale-if-error=600")
		fmt.Fprintln(w, "42 visitors")
	})
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private") // never shared between clients
		fmt.Fprintln(w, "your page")
	})
	return mux
}

// A service is the mux behind weir.
type service struct {
	http.Handler
	close func(context.Context) error
}

func newService(mux http.Handler, traces *sdktrace.TracerProvider, logger *slog.Logger) (*service, error) {
	telemetry, err := weirotel.New(weirotel.Options{TracerProvider: traces})
	if err != nil {
		return nil, err
	}
	cached, err := weirhttp.New(mux, weirhttp.Options{
		Name:     "shop",
		Observer: weirhttp.Observers(telemetry.HTTP(), weirhttp.SlogObserver(logger)),
	})
	if err != nil {
		return nil, err
	}
	if err := telemetry.AddRoute("shop", cached); err != nil {
		return nil, err
	}
	return &service{
		Handler: telemetry.Middleware("shop")(cached),
		close: func(ctx context.Context) error {
			return errors.Join(cached.Close(ctx), telemetry.Close())
		},
	}, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		log.Fatal(err)
	}
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	s, err := newService(newMux(), traces, slog.Default())
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: s}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	log.Print("try curl -i http://127.0.0.1:8080/report; stop with ^C")
	<-ctx.Done()

	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := errors.Join(server.Shutdown(end), s.close(end), traces.Shutdown(end)); err != nil {
		log.Print(err)
	}
}
