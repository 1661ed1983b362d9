// Package metrics declares the metrics of limiters, upstreams, servers, a gateway,
// its cache, a fleet and gRPC methods once, and reads their values from Stats. The adapters for
// Prometheus and OpenTelemetry only translate: names, units and labels follow from
// the table, so both report the same values.
//
//	w := metrics.NewWalk(func(m *metrics.Metric, v float64, labels ...string) { ... })
//	w.Gateway(g.Stats())
//	w.Limiters("prices", prices.Limiter())
//
// Labels are constants and names from the program's configuration, never a key or anything
// else that clients send.
package metrics

import "slices"

// A Kind says how a Metric's values behave.
type Kind int

const (
	Counter Kind = iota // counts since the start
	Amount              // a current value; the values of several instances add up
	Gauge               // a current value; those of several instances do not add up
)

// A Metric describes one metric. Its fields never change.
type Metric struct {
	Name   string   // dotted, such as limit.permits
	Unit   string   // in UCUM, as OpenTelemetry writes it: "s", "By", "1", "{call}"
	Help   string   // what it counts
	Kind   Kind     // how its values behave
	Labels []string // their names, in the order of their values

	// Prometheus overrides the Prometheus name derived from Name, Unit and Kind. Empty
	// means the derived name.
	Prometheus string
}

// All returns the table, in the order in which it is declared.
func All() []*Metric { return slices.Clone(table) }

var table []*Metric // see table.go; not altered after that

func declare(kind Kind, name, unit, help string, labels ...string) *Metric {
	m := &Metric{Name: name, Unit: unit, Help: help, Kind: kind, Labels: labels}
	table = append(table, m)
	return m
}

// named sets the name for Prometheus.
func (m *Metric) named(prometheus string) *Metric {
	m.Prometheus = prometheus
	return m
}
