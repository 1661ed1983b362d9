package scenarios

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/fleetlab"
	"github.com/weir-go/weir/lab/scenario"
)

// Shared parts of the fleet scenarios: a source, the instances of a service, each in
// its own process, nginx in front of them, and an engine that the instances share.

// theSource is the variant of the process that counts the calls. All other processes
// are instances.
const theSource = "the source"

// A fleetSetup configures a process of a fleet.
type fleetSetup struct {
	fleetlab.InstanceOptions
	Wait time.Duration // duration of a call to the source
}

// Names of the counts of an instance.
const (
	tierHits   = "answers of the tier"
	alone      = "loads without the tier"
	refused    = "late results refused"
	lostLeases = "leases lost"
)

// fleetService is the service of a process of a fleet.
func fleetService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var set fleetSetup
	if err := o.Decode(&set); err != nil {
		return nil, err
	}
	if o.Variant == theSource {
		meter := new(scenario.Meter)
		return &scenario.Service{Handler: fleetlab.NewSource(set.Wait, meter.Begin), Meter: meter}, nil
	}
	i, err := fleetlab.NewInstance(set.InstanceOptions)
	if err != nil {
		return nil, err
	}
	return &scenario.Service{
		Handler: i,
		Values: func() map[string]float64 {
			s := i.Guard.Stats().Fleet
			return map[string]float64{
				tierHits: float64(s.TierHits), alone: float64(s.Alone), refused: float64(s.Refused), lostLeases: float64(s.LostLeases),
			}
		},
		Close: func() { i.Close() }, //nolint:errcheck // the process ends
	}, nil
}

// A fleetOf is a running fleet.
type fleetOf struct {
	source    *scenario.Server
	instances []*scenario.Server
	front     string // nginx
}

// startFleet starts a source, n instances, and nginx in front of them.
func startFleet(ctx context.Context, l *scenario.Lab, set fleetSetup, n int) (*fleetOf, error) {
	f := new(fleetOf)
	var err error
	if f.source, err = l.Serve(ctx, theSource, set); err != nil {
		return nil, err
	}
	set.Source = f.source.URL
	var upstreams []string
	for i := range n {
		set.Name = fmt.Sprintf("instance %d", i+1)
		s, err := l.Serve(ctx, set.Name, set)
		if err != nil {
			return nil, err
		}
		f.instances = append(f.instances, s)
		upstreams = append(upstreams, hostOf(s.URL))
	}
	front, err := l.Engine(ctx, "nginx", func(ctx context.Context) (*engine.Server, error) {
		return engine.Nginx(ctx, engine.NginxOptions{Upstreams: upstreams})
	})
	if err != nil {
		return nil, err
	}
	f.front = front.URL
	return f, nil
}

// stop stops the processes. nginx ends with the scenario.
func (f *fleetOf) stop() error {
	for _, s := range append(f.instances, f.source) {
		if err := s.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// named returns the instance with that name, nil if there is none.
func (f *fleetOf) named(name string) *scenario.Server {
	for _, s := range f.instances {
		if s.Variant == name {
			return s
		}
	}
	return nil
}

// order sends a command to the source; see fleetlab.Source.
func (f *fleetOf) order(ctx context.Context, what string) (string, error) {
	return post(ctx, f.source.URL+what)
}

// post sends a request without a body and returns the response body.
func post(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("POST %s: %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}

// redisFor starts Redis for a scenario.
func redisFor(ctx context.Context, l *scenario.Lab) (*engine.Server, error) {
	return l.Engine(ctx, "redis", func(ctx context.Context) (*engine.Server, error) {
		return engine.Redis(ctx, engine.RedisOptions{})
	})
}
