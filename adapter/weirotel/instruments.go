package weirotel

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
)

// instruments record measurements when they happen.
type instruments struct {
	began    time.Time // see now
	loads    sets[loaded]
	waits    sets[waited]
	calls    sets[called]
	requests sets[answered]
	active   activeRequests
}

// seconds are the advised bucket boundaries for durations, from the time of a memory
// access to the time after which people give up.
var seconds = []float64{
	0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100,
}

// newInstruments creates the instruments of m. It creates none for requests if these
// have another Recorder.
func newInstruments(m metric.Meter, requests func(attribute.Set) Recorder) (*instruments, error) {
	in := &instruments{began: time.Now()}
	var faults [5]error
	load, err := m.Float64Histogram("weir.load.duration", metric.WithUnit("s"),
		metric.WithDescription("How long the load function of a Guard ran."), metric.WithExplicitBucketBoundaries(seconds...))
	in.loads.recorder, faults[0] = by(load), err
	wait, err := m.Float64Histogram("weir.wait.duration", metric.WithUnit("s"),
		metric.WithDescription("How long a call or a request waited for a load or a call."), metric.WithExplicitBucketBoundaries(seconds...))
	in.waits.recorder, faults[1] = by(wait), err
	client, err := httpconv.NewClientRequestDuration(m)
	in.calls.recorder, faults[2] = by(client.Inst()), err
	if in.requests.recorder = requests; requests == nil {
		server, err := httpconv.NewServerRequestDuration(m)
		in.requests.recorder, faults[3] = by(server.Inst()), err
	}
	faults[4] = in.active.observe(m)
	return in, errors.Join(faults[:]...)
}

// now returns the time since began. Reading that takes half the time of time.Now, and
// it is read twice per request.
func (in *instruments) now() time.Duration { return time.Since(in.began) }

// activeRequests is http.server.active_requests. Requests are counted here and read
// when metrics are collected, because an instrument called at the beginning and the
// end of each request would cost more than all its other metrics.
type activeRequests struct {
	counts       [len(methods)][2]atomic.Int64 // by method, and by whether it used TLS
	used         [len(methods)][2]atomic.Bool  // for each of counts, whether it is reported
	registration metric.Registration
}

// add adds n to the count for a.
func (r *activeRequests) add(a arrived, n int64) {
	scheme := 0
	if a.secure {
		scheme = 1
	}
	r.counts[a.method][scheme].Add(n)
	if used := &r.used[a.method][scheme]; !used.Load() {
		used.Store(true)
	}
}

func (r *activeRequests) observe(m metric.Meter) error {
	inst, err := httpconv.NewServerActiveRequestsObservable(m)
	if err != nil {
		return err
	}
	r.registration, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for method := range r.counts {
			for scheme := range r.counts[method] {
				if r.used[method][scheme].Load() {
					a := arrived{uint8(method), scheme == 1}
					o.ObserveInt64(inst.Inst(), r.counts[method][scheme].Load(), metric.WithAttributes(a.attrs()...))
				}
			}
		}
		return nil
	}, inst.Inst())
	return err
}
