// Package upstream is a pool of servers that do the same (H16): it spreads calls
// by load, leaves ill servers alone, and tries again what may be tried again
// (H15).
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// Options are those of gateway.Upstream, with the defaults filled in.
type Options struct {
	Servers        []*url.URL // scheme and host; one at least, none twice
	ConnectTimeout time.Duration
	IdleConn       time.Duration
	MaxIdleConns   int
	TLS            *tls.Config // compared by pointer
	Health         Health
	Retry          Retry
}

// Health is gateway.Health, with the defaults filled in.
type Health struct {
	Path               string
	Interval           time.Duration
	Timeout            time.Duration
	Healthy, Unhealthy int
	Failures           int
	Eject              time.Duration
}

// Retry is gateway.Retry, with the defaults filled in.
type Retry struct {
	Attempts int
	On       []int
	Methods  []string
	Budget   int
	Backoff  time.Duration
}

// A Transport makes calls of one server. forward.Transport is one.
type Transport interface {
	// RoundTrip fails with an *fault.UnreachableError when there was no
	// connection, so that nothing of r was sent and its body was not read, and
	// with an *fault.UpstreamError for other faults of the server. Any other
	// error says nothing about the server.
	RoundTrip(r *http.Request) (*http.Response, error)
	// Close closes the connections that are idle. Calls go on, and may still be
	// made; those that end afterwards leave idle connections behind, for
	// another Close.
	Close()
}

// Surroundings are what a Pool is given to live with. All fields are required.
type Surroundings struct {
	// Open returns the Transport of one server.
	Open func(base *url.URL, o Options) (Transport, error)
	// Background counts the goroutines of the health checks.
	Background *sync.WaitGroup
	// Jitter returns a duration about as long as d, and with the mean d.
	Jitter func(d time.Duration) time.Duration
}

// A Pool is a RoundTripper over several servers. Make one with [New], and Retire
// it. It is safe for concurrent use.
//
// One mutex guards all that a choice of a server looks at. What is done under it
// is a walk over the servers at most.
type Pool struct {
	env Surroundings

	mu       sync.Mutex
	o        Options   // guarded by mu
	servers  []*server // guarded by mu
	budget   budget    // guarded by mu
	retries  uint64    // guarded by mu
	noBudget uint64    // guarded by mu
}

// New returns a Pool.
func New(o Options, env Surroundings) (*Pool, error) {
	p := &Pool{env: env}
	c, err := p.Prepare(o)
	if err != nil {
		return nil, err
	}
	c.Commit()
	return p, nil
}

// RoundTrip has one of the servers answer r, which it changes: the URL's scheme
// and host, and the body.
//
// A call for which there was no connection goes to the next server at once,
// until each has been tried: nothing of it has been seen anywhere, so that is
// no retry. Whether anything else is tried again is up to Options.Retry.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	body := hold(r)
	defer body.release()
	retry := p.arrived(r)
	var few [4]*server
	tried := few[:0]
	for n := 1; ; n++ {
		var resp *http.Response
		var err error
		resp, tried, err = p.send(r, tried, body)
		wait, again := p.again(r.Context(), retry, n, resp, err)
		if !again {
			return resp, err
		}
		if resp != nil {
			resp.Body.Close()
		}
		if err := pause(r.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// send makes one call, of another server if it could not reach the first. It
// returns tried with these servers added.
func (p *Pool) send(r *http.Request, tried []*server, body *held) (*http.Response, []*server, error) {
	s, probe := p.take(tried, false)
	for {
		if len(tried) > 0 { // the call before may still be looking at r
			r = another(r)
		}
		tried = append(tried, s)
		resp, err := p.call(s, probe, r)
		if !unreachable(err) || body.touched() || r.Context().Err() != nil {
			return resp, tried, err
		}
		if s, probe = p.take(tried, true); s == nil {
			return resp, tried, err
		}
	}
}

// another returns a copy of r for another call.
func another(r *http.Request) *http.Request {
	r = r.WithContext(r.Context())
	u := *r.URL
	r.URL = &u
	return r
}

func unreachable(err error) bool {
	if err == nil {
		return false // before u, which is on the heap
	}
	var u *fault.UnreachableError
	return errors.As(err, &u)
}

// call makes one call with a token that s granted.
func (p *Pool) call(s *server, probe bool, r *http.Request) (*http.Response, error) {
	end := unknown // what it is if the Transport panics
	defer func() {
		p.judge(s, probe, end)
		if end != answered {
			p.leave(s)
		}
	}()
	r.URL.Scheme, r.URL.Host = s.scheme, s.url.Host
	resp, err := s.transport.RoundTrip(r)
	if err != nil {
		end = blame(r.Context(), err, r.Body)
		return nil, err
	}
	end = answered
	if resp.Body == nil || resp.Body == http.NoBody {
		p.leave(s)
	} else {
		resp.Body = follow(resp.Body, func() { p.leave(s) })
	}
	return resp, nil
}

// blame tells whether a call without an answer says something about the server.
// Only what is known to be the server's fault does: an error that says so, or
// that it took too long when it had all of the request. Anything else could be
// brought about by a client, who must not be able to take a server from others.
func blame(ctx context.Context, err error, body io.Reader) verdict {
	if ctx.Err() == nil {
		if fault.Upstreams(err) {
			return failed
		}
		return unknown
	}
	if b, ok := body.(*held); ok && !b.ended() {
		return unknown // it may be the client who was slow
	}
	var timeout interface{ Timeout() bool }
	if errors.As(context.Cause(ctx), &timeout) && timeout.Timeout() {
		return failed
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return failed
	}
	return unknown
}

// pause waits for d, or returns the cause of ctx when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
