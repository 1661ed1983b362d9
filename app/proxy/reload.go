package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
)

// reloads records the outcome of the reloads, for /stats.
type reloads struct {
	mu   sync.Mutex
	info reloadInfo // guarded by mu
}

// reloadInfo is the part of /stats about reloads.
type reloadInfo struct {
	Done   int       `json:"done"`
	Failed int       `json:"failed"`
	Last   time.Time `json:"last,omitzero"`
	Error  string    `json:"error,omitempty"` // of the last one
}

func (r *reloads) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.info.Last, r.info.Error = time.Now().UTC(), ""
	if err != nil {
		r.info.Failed++
		r.info.Error = err.Error()
		return
	}
	r.info.Done++
}

func (r *reloads) get() reloadInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.info
}

// reload reads the configuration again. If anything is wrong with it, the proxy keeps
// the old one and logs why.
func (p *proxy) reload(ctx context.Context) {
	p.noteManager(p.manager.Reloading())
	before := p.settings
	err := p.renew(ctx)
	if err != nil && ctx.Err() != nil {
		return // the proxy is about to end
	}
	p.reloads.note(err)
	if err != nil {
		for _, fault := range faults(err) {
			p.logger.Error("invalid configuration; keeping the current one", "source", p.o.Source, "error", fault)
		}
		p.noteManager(p.manager.Ready(p.status() + "; the last reload failed"))
		return
	}
	args := []any{"source", p.o.Source, "listeners", len(p.settings.Listen), "routes", len(p.settings.Gateway.Routes)}
	p.logger.Info("reloaded", append(args, changes(before, p.settings)...)...)
	p.noteManager(p.manager.Ready(p.status()))
}

// maxChanges is how many settings of each kind the log names after a reload.
const maxChanges = 30

// changes returns the settings that a reload has changed, for the log, and those whose
// files have a new content. It returns only names, because values can be secret.
func changes(from, to Settings) []any {
	if from.Source == nil || to.Source == nil {
		return nil
	}
	var args []any
	c := config.Compare(from.Source, to.Source)
	for _, kind := range []struct {
		name  string
		names []string
	}{{"added", c.Added}, {"removed", c.Removed}, {"changed", c.Changed}, {"files", changedFiles(from.Files, to.Files)}} {
		if n := len(kind.names) - maxChanges; n > 0 {
			kind.names = append(kind.names[:maxChanges:maxChanges], fmt.Sprintf("and %d more", n))
		}
		if len(kind.names) > 0 {
			args = append(args, kind.name, kind.names)
		}
	}
	if args == nil {
		args = []any{"changed", "nothing"}
	}
	return args
}

// renew replaces the configuration, or leaves everything as it is.
func (p *proxy) renew(ctx context.Context) error {
	s, err := load(ctx, p.o)
	if err != nil {
		return err
	}
	c, err := p.open(s)
	if err != nil {
		return err
	}
	// Sockets that a stale and a fresh listener share are now open twice, but only the
	// stale one accepts connections.
	s.Gateway.Cache = p.gateway.Cache()
	p.keepFleet(&s)
	p.keepJobs(&s)
	s.Telemetry = p.settings.Telemetry
	if s.Jobs != nil {
		p.jobs.reopen(p.base, *s.Jobs) // /readyz reports why it failed
	}
	routes, err := p.jobs.prepare(p.base, s)
	if err == nil {
		if err = p.gateway.Update(p.gatewayConfig(s)); err != nil {
			p.jobs.keep(p.jobs.all())
		}
	}
	if err != nil {
		closeAll(c.fresh)
		return err
	}
	p.warnFixed(s)
	s.Fixed = p.settings.Fixed
	p.activate(s, c)
	if err := p.jobs.activate(s, routes); err != nil {
		p.logger.Error("starting the new workers failed; the old ones keep running", "error", err)
	}
	for _, d := range p.listeners {
		d.server.ReloadCertificate()
	}
	return nil
}

// warnFixed logs the settings that changed but need a restart.
func (p *proxy) warnFixed(s Settings) {
	for _, name := range slices.Sorted(maps.Keys(s.Fixed)) {
		if was, now := p.settings.Fixed[name], s.Fixed[name]; was != now {
			p.logger.Warn("this setting changes with a restart only", "setting", name, "is", cmp.Or(was, "not set"), "wanted", now)
		}
	}
}

// faults splits joined errors.
func faults(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, faults(err)...)
	}
	return all
}
