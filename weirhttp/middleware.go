package weirhttp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
)

// A Middleware makes a [Handler] before each handler that it wraps, all with the same
// Options and one Cache. Its Wrap has the shape that routers take:
//
//	m, err := weirhttp.NewMiddleware(weirhttp.Options{Name: "shop"})
//	...
//	router.Use(m.Wrap)
//
// The Cache tells responses apart by their URL, not by handler: do not wrap two handlers
// that answer the same URL differently. A limit that is nil in Options is one for each
// Handler.
//
// Make one with [NewMiddleware], and Close it when the server has ended. It is safe for
// concurrent use.
type Middleware struct {
	o      Options
	joined bool // the Cache is in a fleet because of this Middleware

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

// Wrap returns a new Handler before next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	h, err := New(next, m.o)
	if err != nil {
		panic(err) // not with Options that are valid, and a Cache in its fleet
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, h)
	return h
}

// Handlers returns those that Wrap has made, for metrics and the console.
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

// Close closes all Handlers, see [Handler.Close], and the Cache if it is in a fleet because
// of this Middleware.
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
