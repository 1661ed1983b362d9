package proxy

import (
	"context"
	"errors"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// A jobBackend stores jobs and serves the requests about them. Its fields do not
// change.
type jobBackend struct {
	server  *embedded.Server // nil: the jobs are stored elsewhere
	nc      *nats.Conn
	store   *jobs.Store
	service *jobshttp.Service
	where   string
}

// openBackend opens the backend. With an error, it also returns the parts opened so
// far.
func (p *proxy) openBackend(ctx context.Context, a config.JobsAccess) (b *jobBackend, err error) {
	durability := durabilityOf(a)
	b = &jobBackend{}
	if a.Dir != "" && !p.o.Worker {
		b.server, err = embedded.Start(embedded.Options{
			Dir: a.Dir, Durability: durability, Listen: a.Listen, Token: a.Token, MinFree: a.MinFree, Log: p.logger,
		})
		if err != nil {
			return b, err
		}
		if b.nc, err = b.server.Connect(nats.Name("weir proxy")); err != nil {
			return b, err
		}
	} else if b.nc, err = p.connectJobs(ctx, a); err != nil {
		return b, err
	}
	b.where = placeOf(a, p.o.Worker)
	if b.server != nil && b.server.Addr() != "" {
		b.where += ", others at " + b.server.Addr()
	}
	b.store, err = jobs.Open(ctx, b.nc, jobs.StoreOptions{
		Namespace: a.Namespace, Replicas: a.Replicas, Durability: durability, MaxBytes: a.MaxBytes,
	})
	if err != nil {
		return b, err
	}
	b.service, err = jobshttp.New(b.store, jobshttp.Options{Path: a.Path})
	return b, err
}

// unusable returns why the folder of the jobs cannot be used, if that is why a request to
// the Store has failed with err.
func (b *jobBackend) unusable(err error) error {
	switch {
	case err == nil || b.server == nil:
		return nil
	case b.server.Err() != nil:
		return b.server.Err() // it contains the cause
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, jobs.ErrFull):
		return err
	}
	return nil
}

// close closes the parts of b that are open.
func (b *jobBackend) close(l *slog.Logger) {
	if b == nil {
		return
	}
	if b.store != nil {
		_ = b.store.Close(context.Background()) // nil, because the context does not end
	}
	if b.nc != nil {
		b.nc.Close()
	}
	if b.server != nil {
		if err := b.server.Close(context.Background()); err != nil {
			l.Warn("the job server did not shut down cleanly", "error", err)
		}
	}
}
