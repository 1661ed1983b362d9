package upstream

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/upstream/choose"
	"github.com/weir-go/weir/weirhttp"
)

// A RouteOptions says how the calls of one route are judged.
type RouteOptions struct {
	Name string
	// Failures replaces that of Options, unless it is nil.
	Failures []int
	// Fallback is nil without one.
	Fallback *Fallback
	// Responded is called with each response that ends a request. nil costs nothing.
	Responded func(*http.Response)
	// Client returns the client of a request. nil means that clients are not told apart.
	Client func(*http.Request) netip.Addr
	// Hedge is nil without hedges.
	Hedge *HedgeOptions
}

// A Route is a RoundTripper over the servers of a Pool, for requests whose times and responses
// are compared with each other.
type Route struct {
	pool     *Pool
	place    choose.Route
	failures []int
	client   func(*http.Request) netip.Addr
	hedge    *HedgeOptions
	fallback *Fallback
	tell     func(*http.Response)
}

var errMoved = errors.New("no server is left for the request")

var seed = maphash.MakeSeed()

// Route returns a Route of the Pool. What the Pool has learned on a route of that name stays.
func (p *Pool) Route(o RouteOptions) *Route {
	slot := maphash.String(seed, o.Name) % choose.MaxRoutes
	return &Route{pool: p, place: choose.Route{Name: o.Name, Slot: uint8(slot)}, failures: o.Failures, client: o.Client, fallback: o.Fallback, tell: o.Responded, hedge: o.Hedge}
}

// RoundTrip sends r to one of the servers. It changes r: the URL's scheme and host, the
// Host, and the body.
// A call that cannot connect moves on to the next server at once, until each has
// been tried. No server has seen any of it, so that is not a retry. Options.Retry
// decides about all other retries.
func (t *Route) RoundTrip(r *http.Request) (*http.Response, error) {
	p := t.pool
	now, began := p.now.Load(), time.Time{}
	if t.fallback != nil {
		began = time.Now()
	}
	if !now.serving {
		var err error
		if now, err = p.resolved(r.Context()); err != nil {
			return t.end(&attempts{t: t, began: began}, r, nil, err)
		}
	}
	key, bound := t.key(now, r)
	races, get := t.hedge.may(now, r), r.GetBody
	var kind uint64
	if races {
		kind = keyOfCall(r)
	}
	body := hold(r)
	defer body.release()
	var few [4]*choose.Server
	a := attempts{t: t, now: now, body: body, tried: few[:0], began: began}
	if f := t.fallback; f != nil && f.Observed != nil {
		a.unused = f.Down && p.book.Unused(p.instant(time.Now()))
	}
	retry := a.arrived(r)
	a.request = choose.Request{Route: t.place, Repeatable: retry.Attempts > 1, Key: key, Bound: bound, Used: t.fallback.takesDown(r.Context())}
	if len(now.servers) > 1 {
		a.request.Stream = wantsStream(r)
		if t.client != nil {
			a.request.Client = maphash.Comparable(seed, t.client(r))
		}
		now.prefer(r, &a.request)
	}
	if t.hedge != nil {
		a.most = min(a.most, mostSends)
	}
	for n := 1; ; n++ {
		var resp *http.Response
		var err error
		if races && a.most > 1 {
			var twice bool
			if resp, err, twice = a.race(r, kind, get, retry); twice {
				n++
				a.sends++
			}
			races = false
		} else {
			resp, err = a.send(r)
		}
		wait, again := time.Duration(0), a.repeat
		if again {
			n-- // the request only tried whether a server has recovered
			a.request.NoTrial = true
		} else if a.sends < a.most {
			wait, again = p.again(r.Context(), &retry, n, resp, err)
		}
		if !again {
			return t.end(&a, r, resp, err)
		}
		if resp != nil {
			resp.Body.Close()
		}
		if err := pause(r.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// key returns the key of r and the bound of its servers.
func (t *Route) key(now *settings, r *http.Request) (key uint64, bound float64) {
	if a := now.o.Affinity; a != nil && len(now.servers) > 1 {
		return a.key(r, t.client), a.Bound
	}
	return 0, choose.NoBound
}

// attempts are the calls made for one request.
type attempts struct {
	t       *Route
	now     *settings
	body    *held
	tried   []*choose.Server
	request choose.Request
	repeat  bool         // the latest call has failed, and must be made elsewhere
	class   choose.Class // of the latest call, for its own request: a 504 is a failure also where the client has stated little time
	racing  *race        // while its first call runs, else nil
	// Of a request that has a Fallback or hedges, or that a Fallback has taken over:
	sends      int  // calls that may have reached a server
	most       int  // sends that are allowed
	repeatable bool // the request may run twice
	began      time.Time
	unused     bool // no server was in use, and the Fallback only observes
}

// send makes one call, and tries other servers while it cannot reach one.
func (a *attempts) send(r *http.Request) (*http.Response, error) {
	a.request.Other = false
	k, err := a.take(r.Context())
	if err != nil {
		return nil, err
	}
	if k.s == nil && a.request.Used {
		return nil, &fault.DownError{}
	}
	if k.s == nil { // a reload has left only names without addresses
		_, err := a.t.pool.resolved(r.Context())
		return nil, cmp.Or(err, error(&fault.UnresolvedError{Err: errMoved}))
	}
	for {
		if len(a.tried) > 0 { // the previous call may still read r
			r = another(r)
		}
		a.tried = append(a.tried, &k.s.known)
		if a.racing != nil {
			a.racing.goes(a, k)
		}
		resp, err := a.call(k, r)
		if !unreachable(err) || a.body.touched() || r.Context().Err() != nil {
			a.sends++
			return resp, err
		}
		a.request.Other = true
		next, full := a.take(r.Context())
		if full != nil || next.s == nil {
			return resp, err
		}
		k = next
	}
}

// A taken is a server that was chosen for a call.
type taken struct {
	s     *server
	c     *choose.Call // nil for the only server of a pool
	probe bool         // the call probes whether the server has recovered
}

// take chooses a server for a call and counts the call as in flight. It returns none if only
// another server than those tried would do, and there is none. While each server has as many
// calls as it may have, take waits.
func (a *attempts) take(ctx context.Context) (taken, error) {
	p := a.t.pool
	if now := p.now.Load(); len(now.servers) == 1 && now.serving && !now.limits {
		s := now.servers[0]
		if a.request.Other && slices.Contains(a.tried, &s.known) { // or it has just become the only one
			return taken{}, nil
		}
		probe := s.ejected.Load() && p.probes(s)
		if a.request.Used && !probe && p.book.Unused(p.instant(time.Now())) {
			return taken{}, nil
		}
		s.count()
		return taken{s: s, probe: probe}, nil
	}
	a.request.Tried = a.tried
	for {
		c, full := p.book.Pick(p.instant(time.Now()), a.request)
		if c != nil {
			s := c.Server.Of.(*server) //nolint:forcetypeassert // always
			s.count()
			switch {
			case c.Moved:
				s.moved.Add(1)
			case a.request.Key != 0 && !c.Trial:
				s.kept.Add(1)
			}
			return taken{s: s, c: c, probe: c.Trial}, nil
		}
		if !full {
			return taken{}, nil
		}
		if err := p.someEnd(ctx); err != nil {
			return taken{}, err
		}
	}
}

// call makes one call to the server of k.
func (a *attempts) call(k taken, r *http.Request) (*http.Response, error) {
	p := a.t.pool
	a.class = choose.Unknown
	end, class := unknown, choose.Unknown // what it means if the Transport panics
	var err error
	var pause time.Duration
	defer func() {
		p.judge(k.s, k.probe, end, pause, err)
		k.judge(p, class, pause)
		if end != answered {
			p.leave(k)
		}
	}()
	r.URL.Scheme, r.URL.Host = k.s.scheme, k.s.host
	if k.s.key.as != "" {
		r.Host = k.s.key.as
	}
	own := weirhttp.UpdateDeadline(r)
	resp, broken := k.s.transport.RoundTrip(r)
	if err = broken; err != nil {
		end = blame(r.Context(), err, r.Body)
	} else {
		end = answered
	}
	if k.c == nil {
		a.repeat = false
		if err == nil {
			a.now.stick(r, resp, k.s)
			resp.Body = p.followed(k, resp)
		}
		return resp, err
	}
	class = a.t.class(&p.now.Load().o, end, resp)
	a.class = class
	if own && err == nil && resp.StatusCode == http.StatusGatewayTimeout {
		class = choose.Unknown // of a client that has stated little time
	}
	a.repeat = k.c.Trial && a.request.Repeatable && class == choose.Failure && a.sends+1 < a.most && r.Context().Err() == nil
	if err != nil {
		return nil, err
	}
	a.now.stick(r, resp, k.s)
	pause = retryAfter(resp)
	k.c.Head(p.instant(time.Now()), class == choose.Good, isStream(resp))
	if class == choose.Good && isGRPC(resp) {
		class = choose.Unknown // until its trailers
	}
	resp.Body = p.followed(k, resp)
	return resp, nil
}

// judge tells the book what the response was.
func (k taken) judge(p *Pool, class choose.Class, retryAfter time.Duration) {
	if k.c != nil {
		k.c.Judge(p.instant(time.Now()), class, retryAfter)
	}
}

// followed returns the body of resp, with which the call ends.
func (p *Pool) followed(k taken, resp *http.Response) io.ReadCloser {
	grpc := k.c != nil && isGRPC(resp)
	if resp.Body == nil || resp.Body == http.NoBody {
		if grpc {
			k.judge(p, grpcClass(resp), 0)
		}
		p.leave(k)
		return resp.Body
	}
	return follow(resp.Body, func(complete bool) {
		if grpc && complete {
			k.judge(p, grpcClass(resp), 0)
		}
		p.leave(k)
	})
}
