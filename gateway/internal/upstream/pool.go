// Package upstream is a pool of equivalent servers (H16): it spreads calls by load, ejects
// unhealthy servers, and retries calls that may be retried (H15).
package upstream

import (
	"cmp"
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

// Options holds the options of gateway.Upstream, with defaults applied.
type Options struct {
	Servers        []*url.URL // scheme and host; at least one, no duplicates
	ConnectTimeout time.Duration
	IdleConn       time.Duration
	MaxIdleConns   int
	TLS            *tls.Config // compared by pointer
	// Host replaces the Host of requests. OwnHost replaces it with that of each server.
	Host    string
	OwnHost bool
	Health  Health
	Retry   Retry
}

// Health is gateway.Health, with defaults applied.
type Health struct {
	Path               string
	Interval           time.Duration
	Timeout            time.Duration
	Healthy, Unhealthy int
	Failures           int
	Eject              time.Duration
}

// Retry is gateway.Retry, with defaults applied.
type Retry struct {
	Attempts int
	On       []int
	Methods  []string
	Budget   int
	Backoff  time.Duration
}

// A Transport makes calls to one server. forward.Transport is one.
type Transport interface {
	// RoundTrip returns a *fault.UnreachableError if there was no connection, so that
	// nothing of r was sent and its body was not read, and a *fault.UpstreamError for other
	// faults of the server. Other errors do not count against the server.
	RoundTrip(r *http.Request) (*http.Response, error)
	// Close closes idle connections. Calls continue, and new ones are possible; calls that
	// end later leave idle connections for another Close.
	Close()
}

// Surroundings holds a Pool's dependencies. All fields but Changed are required.
type Surroundings struct {
	// Open returns the Transport of one server.
	Open func(base *url.URL, o Options) (Transport, error)
	// Background counts the goroutines of the health checks.
	Background *sync.WaitGroup
	// Jitter returns a random duration with mean d.
	Jitter func(d time.Duration) time.Duration
	// Changed is called after a change of a server, by several goroutines at once.
	Changed func(ServerChange)
}

// A ServerState is what a server has become.
type ServerState uint8

// The states that a server changes to.
const (
	Ejected    ServerState = 1 + iota // too many calls in a row have failed
	Readmitted                        // an ejected server has responded
	Unhealthy                         // too many health checks in a row have failed
	Healthy                           // enough of them have passed again
)

// A ServerChange is one change of a server.
type ServerChange struct {
	Server   string // its URL
	State    ServerState
	Failures int           // in a row, of Ejected and Unhealthy
	For      time.Duration // of Ejected
	Err      error         // the latest failure, of Ejected and Unhealthy
}

// A Pool is a RoundTripper over several servers. Create one with [New], and
// Retire it. It is safe for concurrent use.
//
// One mutex guards everything that the choice of a server depends on. The longest
// work under it is a loop over the servers.
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

// RoundTrip sends r to one of the servers. It changes r: the URL's scheme and host, the
// Host, and the body.
// A call that cannot connect moves on to the next server at once, until each has
// been tried. No server has seen any of it, so that is not a retry. Options.Retry
// decides about all other retries.
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

// send makes one call, and tries other servers while it cannot reach one. It returns tried
// with these servers added.
func (p *Pool) send(r *http.Request, tried []*server, body *held) (*http.Response, []*server, error) {
	s, probe := p.take(tried, false)
	for {
		if len(tried) > 0 { // the previous call may still read r
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
		return false // checked before u, which is on the heap
	}
	var u *fault.UnreachableError
	return errors.As(err, &u)
}

// call makes one call to s. probe is as returned by take.
func (p *Pool) call(s *server, probe bool, r *http.Request) (*http.Response, error) {
	end := unknown // the verdict if the Transport panics
	var err error
	defer func() {
		p.judge(s, probe, end, err)
		if end != answered {
			p.leave(s)
		}
	}()
	r.URL.Scheme, r.URL.Host = s.scheme, s.url.Host
	if s.key.as != "" {
		r.Host = s.key.as
	}
	resp, failed := s.transport.RoundTrip(r)
	if err = failed; err != nil {
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

// blame returns the verdict on a call without a response. It counts against the
// server only if the fault is certainly the server's: the error says so, or the
// server took too long although it had the complete request. A client could cause
// anything else, and must not be able to eject a server for others.
func blame(ctx context.Context, err error, body io.Reader) verdict {
	if ctx.Err() == nil {
		if fault.Upstreams(err) {
			return failed
		}
		return unknown
	}
	if b, ok := body.(*held); ok && !b.ended() {
		return unknown // the client may have been slow
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

// pause waits for d, or returns the cause of ctx if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}
