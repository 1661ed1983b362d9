package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/lab/scenario"
)

func syncService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	var p syncParams
	if err := o.Decode(&p); err != nil {
		return nil, err
	}
	switch {
	case o.Variant == secondService:
		return secondsService(), nil
	case queued(o.Variant):
		return eventsService(ctx, o.Variant, p)
	}
	return &scenario.Service{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := encodeMany(shortText)
		if err == nil && o.Variant == unprotected {
			b, err = callSecond(r.Context(), p.Second)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Write(b) //nolint:errcheck // the client is gone
	})}, nil
}

// An eventNumbers is a set of event numbers, with how often each was recorded.
type eventNumbers struct {
	mu    sync.Mutex
	times map[int64]int // guarded by mu
}

func (e *eventNumbers) note(n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.times == nil {
		e.times = make(map[int64]int)
	}
	e.times[n]++
}

func (e *eventNumbers) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.times = nil
}

// serve registers the endpoints that return the count and all numbers.
func (e *eventNumbers) serve(mux *http.ServeMux) {
	mux.HandleFunc("POST /count", func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		answerJSON(w, len(e.times))
	})
	mux.HandleFunc("POST /numbers", func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		answerJSON(w, e.times)
	})
}

// secondsService is the second service. After its work it records the event's number,
// if the call has one.
func secondsService() *scenario.Service {
	meter, done, control := new(scenario.Meter), new(eventNumbers), http.NewServeMux()
	done.serve(control)
	return &scenario.Service{
		Meter: meter, Control: control,
		Reset: func(context.Context) error { done.clear(); return nil },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer meter.Begin()()
			b, err := encodeMany(longText)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			if n, err := strconv.ParseInt(r.URL.Query().Get("event"), 10, 64); err == nil {
				done.note(n)
			}
			w.Write(b) //nolint:errcheck // the client is gone
		}),
	}
}

// callsAtOnce is the number of concurrent calls of the worker to the second service.
const callsAtOnce = 4

// An eventHandler submits an event, with its queue and the
// worker that calls the second service.
type eventHandler struct {
	queue    *jobs.Queue[int64, struct{}]
	accepted eventNumbers

	mu   sync.Mutex
	last int64 // guarded by mu; the last assigned number

	closers []func() error // called in reverse order
}

func eventsService(ctx context.Context, variant string, p syncParams) (*scenario.Service, error) {
	d := new(eventHandler)
	durability := jobs.DurabilityDisk
	if variant == weirProcess {
		durability = jobs.DurabilityProcess
	}
	if err := d.open(ctx, durability, p); err != nil {
		return nil, errors.Join(err, d.close())
	}
	control := http.NewServeMux()
	d.accepted.serve(control)
	return &scenario.Service{
		Handler: d, Control: control,
		Reset: func(context.Context) error { d.accepted.clear(); return nil },
		Close: func() { d.close() }, //nolint:errcheck // the process ends
	}, nil
}

func (d *eventHandler) open(ctx context.Context, durability jobs.Durability, p syncParams) error {
	server, err := embedded.Start(embedded.Options{Dir: p.Dir, Durability: durability})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, func() error { return server.Close(context.Background()) })
	var nc *nats.Conn
	if nc, err = server.Connect(); err != nil {
		return err
	}
	d.closers = append(d.closers, func() error { nc.Close(); return nil })
	store, err := jobs.Open(ctx, nc, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, func() error { return store.Close(context.Background()) })
	// An event is done when the second service has processed it: there is no result.
	d.queue, err = jobs.NewQueue[int64, struct{}](ctx, store, "events", jobs.QueueOptions{ResultTTL: jobs.None, Lease: p.Lease})
	if err != nil {
		return err
	}
	worker, err := d.queue.Work(func(ctx context.Context, j *jobs.Job[int64]) (struct{}, error) {
		_, err := callSecond(ctx, fmt.Sprintf("%s/handle?event=%d", p.Second, j.Input))
		return struct{}{}, err
	}, jobs.WorkerOptions{Concurrency: callsAtOnce})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, func() error { return worker.Close(context.Background()) })
	return nil
}

func (d *eventHandler) close() error {
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i]())
	}
	return errors.Join(errs...)
}

// ServeHTTP does the handler's work, submits the event, whose number the client may
// choose, and responds with 202.
func (d *eventHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := encodeMany(shortText)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	n, err := strconv.ParseInt(r.URL.Query().Get("event"), 10, 64)
	if err != nil {
		n = d.next()
	}
	if _, err := d.queue.Submit(r.Context(), n, jobs.SubmitOptions{}); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	d.accepted.note(n)
	w.WriteHeader(http.StatusAccepted)
	w.Write(b) //nolint:errcheck // the client is gone
}

func (d *eventHandler) next() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	return d.last
}

// secondClient keeps a connection for each request that can be in flight; the default
// client keeps two.
var secondClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// callSecond calls a service and returns the response body.
func callSecond(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := secondClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("second service: %s", resp.Status)
	}
	return b, err
}
