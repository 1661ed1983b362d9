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
	Name  string // on the command line: lower case, with hyphens
	Title string
	Asks  string // the question, in a sentence or two

	// Published is the published experiment that it repeats, nil if there is none.
	Published *result.Published

	// Needs are the engines and tools that must be on the machine, by their
	// names in package engine.
	Needs []string

	// Optional are engines and tools that it measures if they are on the machine. Run
	// records which of them are missing.
	Optional []string

	// Axis describes Job.X, with its unit. Empty: there is no axis.
	Axis string

	// Service creates the service under load, which runs in a separate process. nil:
	// the scenario has no service.
	Service func(ctx context.Context, o Options) (*Service, error)

	// Run runs the experiment.
	Run func(ctx context.Context, l *Lab) error
}

// Options configure a service.
type Options struct {
	Variant string
	Small   bool            // the lab runs at its small size
	Params  json.RawMessage // the value that the scenario's Run gave to Serve
}

// Decode decodes the parameters into v, a pointer to the type of the value given to
// Serve.
func (o Options) Decode(v any) error {
	if err := json.Unmarshal(o.Params, v); err != nil {
		return fmt.Errorf("scenario: the service's parameters: %w", err)
	}
	return nil
}

// A Service answers the load, with the source behind it. Only Handler is required.
type Service struct {
	Handler http.Handler

	// Meter counts the calls to the source.
	Meter *Meter

	// Gauges are sampled ten times per second, by the name of the series.
	Gauges map[string]func() float64

	// Values returns further numbers, by name, when a measurement ends.
	Values func() map[string]float64

	// Reset returns the service to its initial state before a measurement, with empty
	// caches.
	Reset func(ctx context.Context) error

	// Control handles POST /control/... from Server.Control: commands of the scenario
	// to the service, such as taking its source down.
	Control http.Handler

	// Close releases the service's resources when it ends.
	Close func()
}

// Find returns the scenarios with those names, in that order. The error for an
// unknown name lists the known ones.
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
