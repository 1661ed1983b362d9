package weirhttp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
)

// A Middleware creates a [Handler] in front of each handler that it wraps, all with
// the same Options and one Cache. Wrap has the signature that routers expect:
//
//	m, err := weirhttp.NewMiddleware(weirhttp.Options{Name: "shop"})
//	...
//	router.Use(m.Wrap)
//
// The Cache distinguishes responses by URL, not by handler: do not wrap two handlers
// that respond differently to the same URL. If a limiter is nil in Options, each
// Handler gets its own.
//
// Create one with [NewMiddleware], and Close it after the server has shut down. It is
// safe for concurrent use.
type Middleware struct {
	o      Options
	joined bool // this Middleware has joined the Cache to the fleet

	mu  sync.Mutex
	all []*Handler // guarded by mu
}

// NewMiddleware returns a Middleware. The error joins an [*OptionError] for every option
// that is out of bounds.
func NewMiddleware(o Options) (*Middleware, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Cache == nil {
		var err error
		if o.Cache, err = NewCache(DefaultCacheBytes); err != nil {
			return nil, err
		}
	}
	_, joined, err := o.Cache.join(o.Fleet)
	if err != nil {
		return nil, err
	}
	return &Middleware{o: o, joined: joined}, nil
}

// Wrap returns a new Handler in front of next. It panics if next is nil.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	h, err := New(next, m.o)
	if err != nil {
		panic(err) // next is nil: the Options are valid and the Cache is in its fleet
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, h)
	return h
}

// Handlers returns the Handlers that Wrap has created, for metrics and the console.
func (m *Middleware) Handlers() []*Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all)
}

// Drain drains all Handlers, see [Handler.Drain].
func (m *Middleware) Drain(ctx context.Context) error {
	var errs []error
	for _, h := range m.Handlers() {
		errs = append(errs, h.Drain(ctx))
	}
	return errors.Join(errs...)
}

// Close closes all Handlers, see [Handler.Close]. It also closes the Cache if this
// Middleware joined it to a fleet.
func (m *Middleware) Close(ctx context.Context) error {
	var errs []error
	for _, h := range m.Handlers() {
		errs = append(errs, h.Close(ctx))
	}
	if m.joined {
		errs = append(errs, m.o.Cache.Close(ctx))
	}
	return errors.Join(errs...)
}
