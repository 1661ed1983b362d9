package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/lab/jobslab"
	"github.com/weir-go/weir/lab/scenario"
)

// jobsService is the service of a process of the scenario jobs.
func jobsService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	var p jobsParams
	if err := o.Decode(&p); err != nil {
		return nil, err
	}
	switch o.Variant {
	case jobKeeper:
		return keeperService(ctx, p)
	case jobWorker:
		return workerService(ctx, p)
	}
	s, err := openSystem(ctx, o.Variant, p)
	if err != nil {
		return nil, err
	}
	control := http.NewServeMux()
	control.HandleFunc("POST /measure", func(w http.ResponseWriter, r *http.Request) {
		var order jobslab.Order
		if err := json.Unmarshal([]byte(r.FormValue("order")), &order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m, err := jobslab.Measure(r.Context(), s, order)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answerJSON(w, m)
	})
	return &scenario.Service{
		Handler: http.NotFoundHandler(), Control: control,
		Close: func() { s.Close() }, //nolint:errcheck // the process ends
	}, nil
}

func openSystem(ctx context.Context, variant string, p jobsParams) (jobslab.System, error) {
	switch variant {
	case weirDisk:
		return jobslab.OpenWeir(ctx, jobslab.WeirOptions{Dir: p.folder("disk"), Durability: jobs.DurabilityDisk})
	case weirProcess:
		return jobslab.OpenWeir(ctx, jobslab.WeirOptions{Dir: p.folder("process"), Durability: jobs.DurabilityProcess})
	case onRiver:
		return jobslab.OpenRiver(ctx, jobslab.RiverOptions{URL: p.Postgres, Cooldown: riverCooldown, Poll: riverPoll})
	case riverDefaults:
		return jobslab.OpenRiver(ctx, jobslab.RiverOptions{URL: p.Postgres})
	case onAsynq:
		return jobslab.OpenAsynq(jobslab.AsynqOptions{Addr: p.Redis, Check: asynqCheck}), nil
	case asynqDefaults:
		return jobslab.OpenAsynq(jobslab.AsynqOptions{Addr: p.Redis}), nil
	}
	return nil, fmt.Errorf("scenarios: jobs has no variant %q", variant)
}

// endless is the queue of jobs that end only when they are canceled.
const endless = "endless"

func endlessQueue(ctx context.Context, nc *nats.Conn, d jobs.Durability, lease time.Duration) (*jobs.Queue[int, struct{}], *jobs.Store, error) {
	store, err := jobs.Open(ctx, nc, jobs.StoreOptions{Durability: d})
	if err != nil {
		return nil, nil, err
	}
	q, err := jobs.NewQueue[int, struct{}](ctx, store, endless, jobs.QueueOptions{Lease: lease})
	return q, store, err
}

// keeperService keeps jobs for separate workers. POST /submit accepts a job, and POST
// /addr returns the server's address.
func keeperService(ctx context.Context, p jobsParams) (*scenario.Service, error) {
	server, err := embedded.Start(embedded.Options{Dir: p.folder("keeper"), Listen: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	nc, err := server.Connect()
	if err != nil {
		return nil, errors.Join(err, server.Close(context.Background()))
	}
	q, store, err := endlessQueue(ctx, nc, server.Durability(), p.Lease)
	if err != nil {
		return nil, errors.Join(err, server.Close(context.Background()))
	}
	control := http.NewServeMux()
	control.HandleFunc("POST /addr", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, server.Addr()) })
	control.HandleFunc("POST /submit", func(w http.ResponseWriter, r *http.Request) {
		h, err := q.Submit(r.Context(), 0, jobs.SubmitOptions{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answerJSON(w, h.ID())
	})
	return &scenario.Service{Handler: http.NotFoundHandler(), Control: control, Close: func() {
		store.Close(context.Background()) //nolint:errcheck // never fails, because the context does not end
		nc.Close()
		server.Close(context.Background()) //nolint:errcheck // the process ends
	}}, nil
}

// workerService starts jobs and never ends them. POST /started lists them.
func workerService(ctx context.Context, p jobsParams) (*scenario.Service, error) {
	nc, err := nats.Connect(p.Addr, nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	q, store, err := endlessQueue(ctx, nc, jobs.DurabilityDisk, p.Lease)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var started []string
	worker, err := q.Work(func(ctx context.Context, j *jobs.Job[int]) (struct{}, error) {
		mu.Lock()
		started = append(started, j.ID)
		mu.Unlock()
		<-ctx.Done()
		return struct{}{}, context.Cause(ctx)
	}, jobs.WorkerOptions{})
	if err != nil {
		return nil, err
	}
	control := http.NewServeMux()
	control.HandleFunc("POST /started", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		answerJSON(w, slices.Clone(started))
	})
	return &scenario.Service{Handler: http.NotFoundHandler(), Control: control, Close: func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		worker.Close(now)                 //nolint:errcheck // its jobs do not end
		store.Close(context.Background()) //nolint:errcheck // never fails, because the context does not end
		nc.Close()
	}}, nil
}
