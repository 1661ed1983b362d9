package proxy

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// A vault is what keeps jobs. It is not altered.
type vault struct {
	server  *embedded.Server // nil: the jobs are kept elsewhere
	nc      *nats.Conn
	store   *jobs.Store
	service *jobshttp.Service
	where   string
}

// openVault returns what there is of it after an error, too.
func (p *proxy) openVault(ctx context.Context, a config.JobsAccess) (v *vault, err error) {
	durability := durabilityOf(a)
	v = &vault{}
	if a.Dir != "" && !p.o.Worker {
		v.server, err = embedded.Start(embedded.Options{
			Dir: a.Dir, Durability: durability, Listen: a.Listen, Token: a.Token, MinFree: a.MinFree, Log: p.logger,
		})
		if err != nil {
			return v, err
		}
		if v.nc, err = v.server.Connect(nats.Name("weir proxy")); err != nil {
			return v, err
		}
	} else if v.nc, err = p.reach(ctx, a); err != nil {
		return v, err
	}
	v.where = placeOf(a, p.o.Worker)
	if v.server != nil && v.server.Addr() != "" {
		v.where += ", others at " + v.server.Addr()
	}
	v.store, err = jobs.Open(ctx, v.nc, jobs.StoreOptions{
		Namespace: a.Namespace, Replicas: a.Replicas, Durability: durability, MaxBytes: a.MaxBytes,
	})
	if err != nil {
		return v, err
	}
	v.service, err = jobshttp.New(v.store, jobshttp.Options{Path: a.Path})
	return v, err
}

// close lets go of what keeps jobs.
func (v *vault) close(l *slog.Logger) {
	if v == nil {
		return
	}
	if v.store != nil {
		_ = v.store.Close() // nothing is under way
	}
	if v.nc != nil {
		v.nc.Close()
	}
	if v.server != nil {
		if err := v.server.Close(); err != nil {
			l.Warn("the jobs were not closed in good order", "error", err)
		}
	}
}
