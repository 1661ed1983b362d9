package console

import (
	"cmp"
	"context"
	"net/http"
	"sync"
)

// A Console is an http.Handler behind its Access; Bare is without it. Create one with
// New; the zero Console is not usable. It is safe for concurrent use.
type Console struct {
	o       Options
	sampler *sampler
	hello   greetings
	details *details
	roster  *roster // nil without a fleet
	keys    keys
	page    *page

	bare      http.Handler // for paths relative to the console
	protected http.Handler // for the same paths

	closing sync.Once
	done    chan struct{} // closed by Close
	sampled chan struct{} // closed after the last sample
	stop    context.CancelFunc
}

// New returns a Console, which samples its Source until it is closed. The error joins
// all faults in o.
func New(o Options) (*Console, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Console{
		o:       o,
		done:    make(chan struct{}),
		sampled: make(chan struct{}),
		stop:    stop,
		keys:    newKeys(o.ShowKeys),
		page:    built(),
		sampler: &sampler{
			source:   o.Source,
			interval: o.Interval,
			most:     int(o.History / o.Interval),
			logger:   o.Logger,
			subs:     map[*sub]bool{},
		},
	}
	c.details = newDetails(c)
	if o.Roster != nil {
		c.roster = newRoster(o.Roster)
	}
	c.bare = c.routes()
	inside := o.Access
	inside.Base = "/" // the handler sees paths relative to the console
	c.protected = inside.protect(c.bare, nearby)
	c.sampler.sample()
	go func() { // until Close
		defer close(c.sampled)
		c.sampler.run(ctx)
	}()
	return c, nil
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.protected.ServeHTTP(w, below(r, c.o.Access.Base))
}

// Bare returns the Console without its Access, for a server with other protection in
// front of it, such as an Access for more than the console.
func (c *Console) Bare() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		c.bare.ServeHTTP(w, below(r, c.o.Access.Base))
	})
}

// Close ends the sampling and all event streams. It waits for the sampling until ctx
// ends, and then returns its cause. Other requests are still served. Close can be
// called again.
func (c *Console) Close(ctx context.Context) error {
	c.closing.Do(func() {
		c.stop()
		c.sampler.close()
		close(c.done)
		c.details.close()
		if c.roster != nil {
			c.roster.close()
		}
	})
	select {
	case <-c.sampled:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}
