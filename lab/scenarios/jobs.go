package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/jobslab"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var jobsScenario = scenario.Scenario{
	Name:    "jobs",
	Title:   "Jobs: weir, River and asynq",
	Asks:    "How many jobs per second does each accept and execute, how soon does a job start, and how long does a job wait after its worker was killed?",
	Needs:   []string{"postgres", "redis"},
	Service: jobsService,
	Run:     runJobs,
}

// The variants.
const (
	weirDisk      = "weir, disk"
	weirProcess   = "weir, process"
	onRiver       = "River"
	onAsynq       = "asynq"
	weirMany      = "weir, disk, SubmitMany of 1,000"
	riverMany     = "River, InsertMany of 1,000"
	riverDefaults = "River, its defaults"
	asynqDefaults = "asynq, its defaults"
	jobKeeper     = "weir, a server for others"
	jobWorker     = "weir, a worker apart"
)

// manyOf are the variants with many jobs per call, by the variant whose service they use.
var manyOf = map[string]string{weirDisk: weirMany, onRiver: riverMany}

// jobsVariants are the compared variants, in the order of the first round.
var jobsVariants = []string{weirDisk, weirProcess, onRiver, onAsynq}

// River is configured as in its own benchmark, and asynq with the shortest wait that
// does not hurt it. With their defaults a job waits up to 100 ms and 1.5 s.
const (
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	asynqCheck    = time.Millisecond
)

// The settings.
const (
	submitOne   = "accepted, 1 submitter"
	submitEight = "accepted, 8 submitters"
	submitMany  = "accepted, 64 submitters"
	workOff     = "drained"
	bothAtOnce  = "accepted and drained together"
	lightLoad   = "from Submit to start, 50 jobs/s"
)

// A jobsSetup is the size of the load.
type jobsSetup struct {
	Rounds int
	Lasts  time.Duration // of submitting
	Light  time.Duration // of the light load
	Jobs   int           // to execute
	Sweep  []int         // numbers of workers to try
	Lease  time.Duration
	Held   int // jobs that the killed worker holds
}

func newJobsSetup(l *scenario.Lab) jobsSetup {
	return scenario.Size(l,
		jobsSetup{Rounds: 6, Lasts: time.Second, Light: 2 * time.Second, Jobs: 10_000, Sweep: []int{16, 64, 256, 1024}, Held: 8},
		jobsSetup{Rounds: 1, Lasts: 100 * time.Millisecond, Light: 300 * time.Millisecond, Jobs: 200, Sweep: []int{16}, Lease: time.Second, Held: 2})
}

// jobsParams configure a process.
type jobsParams struct {
	Postgres, Redis string
	Dir             string        // of the embedded server
	Addr            string        // of the server of a separate worker
	Lease           time.Duration // 0: the default
}

// A jobsRun is the scenario while it runs.
type jobsRun struct {
	lab     *scenario.Lab
	set     jobsSetup
	params  jobsParams
	servers map[string]*scenario.Server
	workers map[string]int // the best number for each variant
}

func runJobs(ctx context.Context, l *scenario.Lab) error {
	r := &jobsRun{lab: l, set: newJobsSetup(l), servers: make(map[string]*scenario.Server), workers: make(map[string]int)}
	if err := l.Spread(); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{r.startEngines, r.startServices, r.sweep, r.rounds, r.killWorker} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	r.judge()
	return nil
}

func (r *jobsRun) startEngines(ctx context.Context) error {
	pg, err := r.lab.Engine(ctx, "PostgreSQL", func(ctx context.Context) (*engine.Server, error) {
		return engine.Postgres(ctx, engine.PostgresOptions{Durable: true, Settings: map[string]string{
			"max_connections": "200", // for River, with its defaults and without
			"max_wal_size":    "8GB", // otherwise the server writes out its pages during a measurement
		}})
	})
	if err != nil {
		return err
	}
	redis, err := redisFor(ctx, r.lab)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-lab")
	if err != nil {
		return err
	}
	r.lab.Defer(func() error { return os.RemoveAll(dir) })
	r.params = jobsParams{Postgres: pg.URL, Redis: redis.URL, Dir: dir, Lease: r.set.Lease}
	return nil
}

// startServices starts a process for each variant. While one is measured the others
// are idle.
func (r *jobsRun) startServices(ctx context.Context) error {
	for _, v := range append([]string{riverDefaults, asynqDefaults}, jobsVariants...) {
		s, err := r.lab.Serve(ctx, v, r.params)
		if err != nil {
			return err
		}
		r.servers[v] = s
	}
	return nil
}

// most bounds the duration of a measurement.
const most = 3 * time.Minute

// ask has a service run a measurement.
func (r *jobsRun) ask(ctx context.Context, variant string, o jobslab.Order) (m result.Measurement, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return m, err
	}
	answer, err := r.servers[variant].ControlFor(ctx, "/measure?order="+url.QueryEscape(string(text)), most)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(answer, &m)
}

// measure is ask, and also records the measurement.
func (r *jobsRun) measure(ctx context.Context, variant, setting string, round int, o jobslab.Order) error {
	name := variant
	if o.Many > 0 {
		name = manyOf[variant]
	}
	_, err := r.lab.MeasureBy(ctx, r.servers[variant], scenario.Job{Variant: name, Setting: setting, Round: round},
		func(ctx context.Context) (result.Measurement, error) {
			m, err := r.ask(ctx, variant, o)
			if o.What != jobslab.Process { // its time to fill the queue would be counted too
				m.CPU = &result.CPU{} // the CPU use of the service and the engines is added
			}
			return m, err
		})
	return err
}

// sweep finds, for each variant, the number of workers that executes jobs fastest.
func (r *jobsRun) sweep(ctx context.Context) error {
	t := result.Table{Title: "Jobs executed per second, by the number of workers; the best number is used", Head: []string{"workers"}}
	t.Head = append(t.Head, jobsVariants...)
	best := make(map[string]float64)
	for _, workers := range r.set.Sweep {
		cells := []string{fmt.Sprint(workers)}
		for _, v := range jobsVariants {
			r.lab.Step("jobs, %s, trying %d workers", v, workers)
			m, err := r.ask(ctx, v, jobslab.Order{What: jobslab.Process, Jobs: r.set.Jobs / 2, Workers: workers})
			if err != nil {
				return err
			}
			if m.PerSecond > best[v] {
				best[v], r.workers[v] = m.PerSecond, workers
			}
			cells = append(cells, valueOf(m.PerSecond, 0))
		}
		t.Cells = append(t.Cells, cells)
	}
	r.lab.Table(t)
	return nil
}

func (r *jobsRun) rounds(ctx context.Context) error {
	for round := 1; round <= r.set.Rounds; round++ {
		for _, setting := range []string{submitOne, submitEight, submitMany, workOff, bothAtOnce} {
			for i := range jobsVariants {
				v := jobsVariants[(i+round-1)%len(jobsVariants)] // so that none is always first
				if err := r.measure(ctx, v, setting, round, r.order(v, setting)); err != nil {
					return err
				}
			}
		}
		for _, v := range []string{weirDisk, onRiver} {
			if err := r.measure(ctx, v, submitOne, round, jobslab.Order{What: jobslab.Enqueue, Submitters: 1, Many: 1000, Lasts: r.set.Lasts}); err != nil {
				return err
			}
		}
	}
	for round := 1; round <= min(r.set.Rounds, 3); round++ {
		for _, v := range append([]string{riverDefaults, asynqDefaults}, jobsVariants...) {
			if err := r.measure(ctx, v, lightLoad, round, r.order(v, lightLoad)); err != nil {
				return err
			}
		}
	}
	return nil
}

// order returns the load of a variant.
func (r *jobsRun) order(variant, setting string) jobslab.Order {
	workers := r.workers[variant]
	switch setting {
	case submitOne:
		return jobslab.Order{What: jobslab.Enqueue, Submitters: 1, Lasts: r.set.Lasts}
	case submitEight:
		return jobslab.Order{What: jobslab.Enqueue, Submitters: 8, Lasts: r.set.Lasts}
	case submitMany:
		return jobslab.Order{What: jobslab.Enqueue, Submitters: 64, Lasts: r.set.Lasts}
	case workOff:
		return jobslab.Order{What: jobslab.Process, Jobs: r.set.Jobs, Workers: workers}
	case bothAtOnce:
		return jobslab.Order{What: jobslab.Both, Submitters: 64, Workers: workers, Lasts: r.set.Lasts}
	default:
		return jobslab.Order{What: jobslab.Start, Rate: 50, Workers: 16, Lasts: r.set.Light}
	}
}

// folder is the folder of the jobs of a variant's embedded server.
func (p jobsParams) folder(variant string) string { return filepath.Join(p.Dir, variant) }
