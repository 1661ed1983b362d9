// Package upstream is a pool of equivalent servers: it spreads calls by what the servers do
// (H35), ejects unhealthy servers (H16), and retries calls that may be retried (H15).
package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// Options holds the options of gateway.Upstream, with defaults applied.
type Options struct {
	Servers        []Target // at least one, no duplicates, not all of weight 0
	ConnectTimeout time.Duration
	IdleConn       time.Duration
	MaxIdleConns   int
	MaxConnAge     time.Duration // 0 for none
	Resolver       *net.Resolver // of names, nil for net.DefaultResolver; compared by pointer
	TLS            *tls.Config   // compared by pointer
	// Host replaces the Host of requests. OwnHost replaces it with that of each server.
	Host    string
	OwnHost bool
	Health  Health
	Retry   Retry
	// SlowStart is how long a new or recovered server takes to its share; 0 means no time.
	SlowStart time.Duration
	// Affinity is nil without keys.
	Affinity *Affinity
	// Sticky is nil without sessions.
	Sticky *Sticky
	// Failures are the statuses that count most against a server.
	Failures []int
}

// A Target is a server with its settings.
type Target struct {
	URL         *url.URL // scheme and host, or the scheme unix and a path
	Weight      int      // its share; 0 drains it
	MaxInFlight int      // calls, 0 for no limit
	// Resolve makes each address of the host a server, and is how often it is looked up. 0 means
	// that the host is one server.
	Resolve time.Duration
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

// Surroundings holds a Pool's dependencies. All fields but Apart and Changed are required, unless they say otherwise.
type Surroundings struct {
	// Open returns the Transport of one server. at is its address, the zero value for one that
	// is not resolved.
	Open func(base *url.URL, at netip.AddrPort, o Options) (Transport, error)
	// Lookup returns the addresses of a host, and Connects reports whether one accepts
	// connections. Both are required for targets with Resolve.
	Lookup   func(ctx context.Context, o Options, host string) ([]netip.Addr, error)
	Connects func(ctx context.Context, at netip.AddrPort) bool
	// Apart returns a context for one of two calls for a request, made from the request's. With
	// quiet, 1xx responses do not reach the client. nil means that the request's is used.
	Apart func(ctx context.Context, quiet bool) (context.Context, Side)
	// Background counts the goroutines of the health checks and lookups.
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
	Penalized                         // it fails where the other servers do not
	Returned                          // it was tried after that, and works
	Unresolved                        // a lookup of the name has failed
	Resolved                          // the name has other addresses, or a lookup has succeeded again
)

// A ServerChange is one change of a server.
type ServerChange struct {
	Server   string // its URL
	State    ServerState
	Failures int           // in a row, of Ejected and Unhealthy
	For      time.Duration // of Ejected and Penalized
	Err      error         // why, of Ejected, Unhealthy, Penalized and Unresolved
	// Addresses are all that the name has, of Resolved.
	Addresses []netip.Addr
}

// A Pool is a RoundTripper over several servers. Create one with [New], and
// Retire it. It is safe for concurrent use.
//
// The choice of a server takes no lock that all calls share. The mutex guards the health of
// the servers, which changes rarely, and the budget of retries.
type Pool struct {
	env   Surroundings
	began time.Time
	book  *choose.Book
	all   *Route                   // for calls of no particular route
	now   atomic.Pointer[settings] // replaced with mu held; calls read it without
	freed chan struct{}            // receives when a call has ended, if there are limits

	mu       sync.Mutex
	budget   budget // guarded by mu
	retries  uint64 // guarded by mu
	noBudget uint64 // guarded by mu
}

// settings are what a Change replaces. They are not changed.
type settings struct {
	o       Options
	places  []place   // one for each of o.Servers
	servers []*server // of all places
	targets []Target  // of the servers
	tokens  []string  // of the servers, with Sticky
	serving bool      // a server has a weight
	limits  bool      // some servers have a MaxInFlight
}

// New returns a Pool.
func New(o Options, env Surroundings) (*Pool, error) {
	p := &Pool{env: env, began: time.Now(), freed: make(chan struct{}, 1)}
	p.now.Store(&settings{})
	p.book = choose.New(p.changed, nil)
	p.all = p.Route(RouteOptions{})
	c, err := p.Prepare(o)
	if err != nil {
		return nil, err
	}
	c.Commit()
	return p, nil
}

// RoundTrip is RoundTrip of a Route without a name.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) { return p.all.RoundTrip(r) }

// instant returns t for the book. It is never 0.
func (p *Pool) instant(t time.Time) choose.Instant {
	return choose.Instant(t.Sub(p.began) + time.Hour)
}

// changed reports a change that the book has made.
func (p *Pool) changed(c choose.Change) {
	s := c.Server.Of.(*server) //nolint:forcetypeassert // always
	if c.Condition != choose.Penalized {
		p.mu.Lock()
		s.returnsLocked()
		p.mu.Unlock()
		p.tell(ServerChange{Server: s.text, State: Returned})
		return
	}
	err := fmt.Errorf("%.0f %% of its latest responses on route %q are of the class %s, but %.0f %% of those of the other servers", c.Cause.Share*100, c.Cause.Route, c.Cause.Class, c.Cause.Others*100)
	if c.Cause.Relapse {
		err = fmt.Errorf("it was tried again on route %q, and the response was of the class %s", c.Cause.Route, c.Cause.Class)
	}
	p.mu.Lock()
	s.leavesLocked(err.Error())
	p.mu.Unlock()
	p.tell(ServerChange{Server: s.text, State: Penalized, For: c.For, Err: err})
}

// probes reports whether the next call of s, the only server, probes whether it has recovered.
func (p *Pool) probes(s *server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	probe := s.ejected.Load() && !s.probing && !time.Now().Before(s.until)
	s.probing = s.probing || probe
	return probe
}

// leave records that a call has ended, including its body.
func (p *Pool) leave(k taken) {
	if k.c != nil {
		k.c.End(p.instant(time.Now()))
	}
	if n := k.s.inFlight.Add(-1); n == 0 && k.s.gone.Load() {
		k.s.transport.Close()
	}
	if p.now.Load().limits {
		select {
		case p.freed <- struct{}{}:
		default:
		}
	}
}

// freedEvery bounds the wait for an end that another call has seen first.
const freedEvery = 20 * time.Millisecond

// someEnd waits until a call may have ended.
func (p *Pool) someEnd(ctx context.Context) error {
	t := time.NewTimer(freedEvery)
	defer t.Stop()
	select {
	case <-p.freed:
	case <-t.C:
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
	return nil
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
