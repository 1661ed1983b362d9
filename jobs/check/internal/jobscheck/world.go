package jobscheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
)

// A world is everything that runs.
type world struct {
	o       Options
	j       *journal
	log     string
	urls    []string
	servers []*process // empty with Embedded: the server is in the first submitter
	parts   []*process // submitters and workers
	nc      *nats.Conn // connection of the checker
}

// newWorld starts all processes.
func newWorld(o Options) (*world, error) {
	w := &world{o: o, log: filepath.Join(o.Dir, "log.jsonl")}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(w.log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var err error
	if w.j, err = openJournal(w.log, "checker"); err != nil {
		return nil, err
	}
	servers, err := w.serverConfigs()
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		w.urls = append(w.urls, fmt.Sprintf("nats://127.0.0.1:%d", s.Port))
	}
	if o.Mode != Embedded {
		for _, s := range servers {
			w.servers = append(w.servers, w.process(roleServer, s.Name, &s))
		}
	}
	for i := range o.Submitters {
		var in *serverConfig
		if o.Mode == Embedded && i == 0 {
			in = &servers[0]
		}
		w.parts = append(w.parts, w.process(roleSubmitter, fmt.Sprintf("submitter-%d", i+1), in))
	}
	for i := range o.Workers {
		w.parts = append(w.parts, w.process(roleWorker, fmt.Sprintf("worker-%d", i+1), nil))
	}
	for _, p := range append(w.servers, w.parts...) {
		if err := p.start(); err != nil {
			return w, err
		}
	}
	w.nc, err = nats.Connect(joinURLs(w.urls), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	return w, err
}

func (w *world) process(role, name string, in *serverConfig) *process {
	return &process{role: role, name: name, folder: w.o.Dir, j: w.j, config: func() config { return w.config(in) }}
}

func (w *world) config(in *serverConfig) config {
	replicas := 1
	if w.o.Mode == Cluster {
		replicas = 3
	}
	return config{
		Log: w.log, Seed: w.o.Seed, Lease: w.o.Lease, Rate: w.o.Rate, URLs: w.urls, Replicas: replicas, Durability: w.o.Durability, Server: in,
	}
}

func (w *world) serverConfigs() ([]serverConfig, error) {
	n := 1
	if w.o.Mode == Cluster {
		n = 3
	}
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var all []serverConfig
	var routes []string
	for i := range n {
		name := fmt.Sprintf("server-%d", i+1)
		c := serverConfig{Name: name, Dir: filepath.Join(w.o.Dir, name), Port: ports[i], Durability: w.o.Durability}
		if w.o.Mode == Cluster {
			c.ClusterPort = ports[n+i]
			routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", c.ClusterPort))
		}
		all = append(all, c)
	}
	for i := range all {
		all[i].Routes = routes
	}
	return all, nil
}

// target returns the process to hit in order to hit a server.
func (w *world) target(ctx context.Context) *process {
	switch w.o.Mode {
	case Embedded:
		return w.parts[0]
	case Cluster:
		name, err := leader(ctx, w.nc)
		for _, p := range w.servers {
			if err == nil && p.name == name {
				return p
			}
		}
	}
	return w.servers[0]
}

// end kills the processes that still run, and waits for them.
func (w *world) end() error {
	var errs []error
	for _, p := range append(w.parts, w.servers...) {
		if over := p.over(); over != nil {
			select {
			case <-over:
			default:
				errs = append(errs, p.kill())
			}
		}
	}
	if w.nc != nil {
		w.nc.Close()
	}
	return errors.Join(append(errs, w.j.Close())...)
}
