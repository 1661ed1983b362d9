package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/weir-go/weir/lab/result"
)

// A Scenario is an experiment.
type Scenario struct {
	Name  string // of the command line: lower case, with hyphens
	Title string
	Asks  string // the question, in a sentence or two

	// Published is the experiment that it repeats, nil if it is nobody's.
	Published *result.Published

	// Needs are the engines and tools that must be on the machine, by their
	// names in package engine.
	Needs []string

	// Axis says what Job.X is, with its unit. Empty: it has none.
	Axis string

	// Service makes the service under load. It runs in a process of its own.
	// nil: the scenario serves nothing.
	Service func(ctx context.Context, o Options) (*Service, error)

	// Run does the experiment.
	Run func(ctx context.Context, l *Lab) error
}

// Options are what a service is made with.
type Options struct {
	Variant string
	Small   bool            // the lab runs at its small size
	Params  json.RawMessage // what the scenario's Run gave to Serve
}

// Decode decodes the parameters into v, a pointer to what was given to Serve.
func (o Options) Decode(v any) error {
	if err := json.Unmarshal(o.Params, v); err != nil {
		return fmt.Errorf("scenario: the service's parameters: %w", err)
	}
	return nil
}

// A Service is what answers the load, and the source behind it. Only Handler
// is needed.
type Service struct {
	Handler http.Handler

	// Meter counts the calls at the source.
	Meter *Meter

	// Gauges are sampled ten times per second, by the name of the series.
	Gauges map[string]func() float64

	// Values returns further numbers, by name, when a measurement ends.
	Values func() map[string]float64

	// Reset makes the service as new, before a measurement: its caches empty.
	Reset func(ctx context.Context) error

	// Control answers POST /control/... of Server.Control: what the scenario
	// wants done to the service, such as taking its source away.
	Control http.Handler

	// Close gives back what Service holds, when the service ends.
	Close func()
}

// Find returns the scenarios of those names, in that order. One that is not
// in all is an error which lists those that are.
func Find(all []Scenario, names ...string) ([]Scenario, error) {
	var found []Scenario
	for _, name := range names {
		s, ok := byName(all, name)
		if !ok {
			var known []string
			for _, s := range all {
				known = append(known, s.Name)
			}
			return nil, fmt.Errorf("there is no scenario %q; there are %v", name, known)
		}
		found = append(found, s)
	}
	return found, nil
}

func byName(all []Scenario, name string) (Scenario, bool) {
	for _, s := range all {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}
