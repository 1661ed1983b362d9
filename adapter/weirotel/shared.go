package weirotel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/gateway/metrics"
)

// instrument creates the instrument of a metric of gateway/metrics.
func instrument(of metric.Meter, m *metrics.Metric) (metric.Observable, error) {
	name, unit, text := "weir."+m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help)
	switch {
	case m.Kind == metrics.Counter:
		return of.Int64ObservableCounter(name, unit, text)
	case m.Kind == metrics.Amount:
		return of.Int64ObservableUpDownCounter(name, unit, text)
	case m.Unit == "s":
		return of.Float64ObservableGauge(name, unit, text)
	}
	return of.Int64ObservableGauge(name, unit, text)
}

// emit returns a function that reports values to o. It omits labels without a value.
func (s *registry) emit(o metric.Observer) metrics.Emit {
	return func(m *metrics.Metric, v float64, labels ...string) {
		var attrs []attribute.KeyValue
		for i, value := range labels {
			if value != "" {
				attrs = append(attrs, attribute.String("weir."+m.Labels[i], value))
			}
		}
		switch one := s.shared[m].(type) {
		case metric.Int64Observable:
			o.ObserveInt64(one, int64(v), metric.WithAttributes(attrs...))
		case metric.Float64Observable:
			o.ObserveFloat64(one, v, metric.WithAttributes(attrs...))
		}
	}
}
