package otlp

import (
	"os"
	"slices"
	"strings"
)

// DefaultEndpoint is the base URL if none is configured: that of the specification. The
// SDK's own is https, which no receiver on this machine speaks by default.
const DefaultEndpoint = "http://localhost:4318"

// The signals, as in the names of variables.
const (
	signalMetrics = "METRICS"
	signalTraces  = "TRACES"
)

// variable returns the name of the variable that sets the endpoint of a signal, or "".
func variable(signal string) string {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if strings.TrimSpace(os.Getenv(name)) != "" {
			return name
		}
	}
	return ""
}

// endpoint returns the base URL for a signal. "" leaves it to the SDK: a variable sets it,
// or there are settings for TLS, which need the https of its default.
func (o Options) endpoint(signal string) string {
	if o.Endpoint != "" || o.TLS != nil || variable(signal) != "" {
		return o.Endpoint
	}
	return DefaultEndpoint
}

// Where returns where metrics and traces are sent, for people. It names a variable instead
// of its value, which can contain a secret.
func (o Options) Where() string {
	var all []string
	for _, s := range []struct {
		name string
		sent bool
	}{{signalMetrics, o.Metrics}, {signalTraces, o.Traces}} {
		if !s.sent {
			continue
		}
		text := o.endpoint(s.name)
		if text == "" {
			text = "https://localhost:4318"
			if v := variable(s.name); v != "" {
				text = "the endpoint in " + v
			}
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}
