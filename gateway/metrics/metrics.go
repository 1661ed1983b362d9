// Package metrics declares the metrics of limiters, upstreams, servers, a gateway,
// its cache and a fleet once, and reads their values from Stats. The adapters for
// Prometheus and OpenTelemetry only translate: names, units and labels follow from
// the table, so both report the same values.
//
//	w := metrics.NewWalk(func(m *metrics.Metric, v float64, labels ...string) { ... })
//	w.Gateway(g.Stats())
//	w.Limiters("prices", prices.Limiter())
//
// Labels are constants and names from the program's configuration: never a key, nor
// anything else that clients send.
package metrics

import "slices"

// A Kind says how a Metric's values behave.
type Kind int

const (
	Counter Kind = iota // counts since the start
	Amount              // a value now; the values of several instances add up
	Gauge               // a value now; they do not
)

// A Metric describes one metric. Its fields are not altered.
type Metric struct {
	Name   string   // dotted, such as limit.permits
	Unit   string   // in UCUM, as OpenTelemetry writes it: "s", "By", "1", "{call}"
	Help   string   // what it counts
	Kind   Kind     // how its values behave
	Labels []string // their names, in the order of their values

	// Prometheus replaces the name that follows from Name, Unit and Kind there.
	// Empty means that one.
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
