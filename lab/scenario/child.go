package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/internal/proc"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
)

// role is the environment variable that holds the role of a process of the lab.
const role = "WEIR_LAB_ROLE"

// The roles.
const (
	roleServe = "serve"
	roleLoad  = "load"
)

// Child runs this process in the role given by the lab and exits. In a process that
// the lab did not start it does nothing. Programs call it first in main, tests in
// TestMain.
func Child(all []Scenario) {
	what := os.Getenv(role)
	if what == "" {
		return
	}
	// An interrupt from a terminal reaches the whole process group; the lab signals
	// its children itself.
	signal.Ignore(os.Interrupt)
	proc.DieWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	var err error
	switch what {
	case roleServe:
		err = serve(ctx, all, os.Stdin, os.Stdout)
	case roleLoad:
		err = load.Main(ctx, os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("scenario: %s=%q is not a role", role, what)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// An order names the service to run. It is the first line that a serving process
// reads; the process ends when its input ends.
type order struct {
	Scenario string
	Options  Options
}

// An address holds the URLs of a service: the line that a serving process writes.
type address struct{ Service, Control string }

// serve serves until ctx or in ends.
func serve(ctx context.Context, all []Scenario, in io.Reader, out io.Writer) error {
	var o order
	input := json.NewDecoder(in)
	if err := input.Decode(&o); err != nil {
		return fmt.Errorf("scenario: read the order: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process that sent the order
		io.Copy(io.Discard, in) //nolint:errcheck // however it ends
		cancel()
	}()
	s, ok := byName(all, o.Scenario)
	if !ok || s.Service == nil {
		return fmt.Errorf("scenario: %q has no service", o.Scenario)
	}
	svc, err := s.Service(ctx, o.Options)
	if err != nil {
		return fmt.Errorf("scenario: create the service %s of %s: %w", o.Options.Variant, o.Scenario, err)
	}
	if svc.Close != nil {
		defer svc.Close()
	}
	r := &recorder{svc: svc}
	r.begin()
	return r.serve(ctx, out)
}

// A recorder runs a service and keeps its measurements.
type recorder struct {
	svc *Service

	mu     sync.Mutex
	start  time.Time                 // guarded by mu; of the measurement
	gauges map[string]*result.Series // guarded by mu
}

// seen is a service's report on a measurement.
type seen struct {
	Source *result.Source
	Series []result.Series
	Values map[string]float64
}

func (r *recorder) serve(ctx context.Context, out io.Writer) error {
	control := http.NewServeMux()
	control.HandleFunc("POST /reset", r.handleReset)
	control.HandleFunc("POST /begin", func(http.ResponseWriter, *http.Request) { r.begin() })
	control.HandleFunc("GET /seen", r.handleSeen)
	if r.svc.Control != nil {
		control.Handle("POST /control/", http.StripPrefix("/control", r.svc.Control))
	}
	var at address
	var done []func() error
	ended := make(chan error, 2)
	for _, side := range []struct {
		handler http.Handler
		url     *string
	}{{r.svc.Handler, &at.Service}, {control, &at.Control}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("scenario: listen: %w", err)
		}
		*side.url = "http://" + l.Addr().String()
		srv := &http.Server{Handler: side.handler, ReadHeaderTimeout: 30 * time.Second}
		done = append(done, srv.Close)
		go func() { ended <- srv.Serve(l) }() // ended by Close
	}
	if r.svc.Gauges != nil {
		go r.sample(ctx)
	}
	if err := json.NewEncoder(out).Encode(at); err != nil {
		return fmt.Errorf("scenario: write the address: %w", err)
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	for _, end := range done {
		err = errors.Join(err, end())
	}
	return err
}

func (r *recorder) handleReset(w http.ResponseWriter, req *http.Request) {
	if r.svc.Reset != nil {
		if err := r.svc.Reset(req.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
}

// begin begins a measurement.
func (r *recorder) begin() {
	now := time.Now()
	if r.svc.Meter != nil {
		r.svc.Meter.reset(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.gauges = now, make(map[string]*result.Series)
	for name := range r.svc.Gauges {
		r.gauges[name] = &result.Series{Name: name, EveryMS: ms(Interval)}
	}
}

func (r *recorder) handleSeen(w http.ResponseWriter, _ *http.Request) {
	var s seen
	if m := r.svc.Meter; m != nil {
		source := m.source()
		s.Source = &source
		s.Series = append(s.Series, m.series(time.Now()))
	}
	r.mu.Lock()
	for _, g := range r.gauges {
		s.Series = append(s.Series, *g)
	}
	r.mu.Unlock()
	if r.svc.Values != nil {
		s.Values = r.svc.Values()
	}
	json.NewEncoder(w).Encode(s) //nolint:errcheck // the lab is gone, or will ask again
}

// sample samples the gauges until ctx ends.
func (r *recorder) sample(ctx context.Context) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := make(map[string]float64, len(r.svc.Gauges))
		for name, gauge := range r.svc.Gauges {
			now[name] = gauge()
		}
		r.mu.Lock()
		for name, g := range r.gauges {
			if len(g.Values) < maxIntervals {
				g.Values = append(g.Values, now[name])
			}
		}
		r.mu.Unlock()
	}
}
