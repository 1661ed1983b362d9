package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/proxy/metrics"
	"github.com/weir-go/weir/app/proxy/otlp"
	"github.com/weir-go/weir/console/build"
	"github.com/weir-go/weir/gateway"
)

// meterName is the name of the meter for the jobs and the program.
const meterName = "github.com/weir-go/weir/app/proxy"

// flushGrace is how long shutdown waits for the last metrics and traces to be sent.
const flushGrace = 3 * time.Second

// A telemetry sends metrics and traces. The nil telemetry sends nothing.
type telemetry struct {
	exporter *otlp.Exporter
	weirotel *weirotel.Telemetry
}

// openTelemetry starts the telemetry that s configures. It does not wait for the
// receiver.
func (p *proxy) openTelemetry(ctx context.Context, s Settings) error {
	a := s.Telemetry
	if a == nil {
		return nil
	}
	e, err := otlp.Start(ctx, otlp.Options{
		Service: a.Service, Endpoint: a.Endpoint, Headers: a.Headers, TLS: a.TLS, Timeout: a.Timeout,
		Metrics: a.Metrics, Interval: a.Interval, Traces: a.Traces, Sample: a.Sample, Exemplars: a.Traces && a.Trust,
		Version: build.Version(), Instance: p.id, Logger: p.logger,
	})
	if err != nil {
		return err
	}
	w, err := weirotel.New(weirotel.Options{
		TracerProvider: e.TracerProvider(), MeterProvider: e.MeterProvider(), Requests: e.Requests(), Untrusted: !a.Trust,
	})
	if err != nil {
		_ = e.Close(ctx) // there is nothing to send
		return err
	}
	p.telemetry = &telemetry{e, w}
	return nil
}

// watch exports the counters of g, of the jobs and of the program.
func (t *telemetry) watch(g Gateway, s *adminUI) error {
	if t == nil {
		return nil
	}
	if m := t.exporter.MeterProvider(); m != nil {
		if err := metrics.Observe(m.Meter(meterName), metrics.Options{Queues: s.board.Queues, Responses: s.p.tally.Counts, Program: s.program}); err != nil {
			return err
		}
	}
	if real, ok := g.(*gateway.Gateway); ok { // or a fake in tests
		return t.weirotel.AddGateway(real)
	}
	return nil
}

// with wraps next in the middleware that records requests.
func (t *telemetry) with(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return t.weirotel.Middleware("")(next)
}

// close sends what is left. It does not wait long for a receiver that does not accept
// it.
func (t *telemetry) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushGrace)
	defer cancel()
	_ = t.exporter.Close(ctx) // it has logged what it could not send
	_ = t.weirotel.Close()    // nothing reads it any more
}

// fixedTelemetry returns the section telemetry as text. All of it needs a restart. The
// values of headers are included as hashes only. It contains the names of files; fixFiles
// adds their contents.
func fixedTelemetry(t *config.Telemetry) string {
	if t == nil {
		return ""
	}
	fixed := *t
	fixed.OTLP.Headers = nil
	text, err := json.Marshal(fixed)
	if err != nil {
		return err.Error() // nothing in it can fail to marshal
	}
	var b strings.Builder
	b.Write(text)
	for _, name := range slices.Sorted(maps.Keys(t.OTLP.Headers)) {
		fmt.Fprintf(&b, " %s %s", name, hashOf([]byte(strings.Join(t.OTLP.Headers[name], ", "))))
	}
	return b.String()
}

// telemetrySummary describes in a few words what is sent where.
func telemetrySummary(a *config.TelemetryAccess) (where, what string) {
	var all []string
	if a.Metrics {
		metrics := "metrics"
		if a.Interval > 0 {
			metrics += " every " + config.Duration(a.Interval).String()
		}
		all = append(all, metrics)
	}
	if a.Traces {
		traces := "traces"
		if a.Sample != nil {
			traces += fmt.Sprintf(", %g %% of those that begin here", *a.Sample*100)
		}
		if a.Trust {
			traces += ", and those that clients have sampled"
		}
		all = append(all, traces)
	}
	to := otlp.Options{Endpoint: a.Endpoint, TLS: a.TLS, Metrics: a.Metrics, Traces: a.Traces}
	return to.Where(), strings.Join(all, ", ")
}
