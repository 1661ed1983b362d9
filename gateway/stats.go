package gateway

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// Stats counts a Gateway's work, by route and by upstream. Each request is counted in the
// Requests of its route, or in Unrouted or Rejected. Requests that Config.Front has
// answered are in none of them.
type Stats struct {
	Cache   weirhttp.CacheStats       `json:"cache"`             // the cache that all routes share
	Routes  map[string]weirhttp.Stats `json:"routes"`            // keyed by route
	Budgets map[string]BudgetStats    `json:"budgets,omitempty"` // of routes that have one
	// ClientBudgets are of routes that have a ClientBudget.
	ClientBudgets map[string]weirhttp.ClientBudgetStats `json:"client_budgets,omitempty"`
	// OverBudget has, for these routes, the clients that were refused most in the last minutes.
	OverBudget map[string][]weirhttp.ClientShare `json:"over_budget,omitempty"`

	// Hedges are of routes that have a Hedge.
	Hedges map[string]HedgeStats `json:"hedges,omitempty"`
	// Fallbacks are of routes that have a Fallback.
	Fallbacks map[string]FallbackStats `json:"fallbacks,omitempty"`
	// Idempotency is the state of Config.Claims, nil without them.
	Idempotency *once.Stats `json:"idempotency,omitempty"`

	// Alone says why the requests of a route share nothing.
	Alone map[string]weirhttp.AloneStats `json:"alone"`

	Durations map[string]RouteDurations `json:"durations"` // keyed by route
	Upstreams map[string]UpstreamStats  `json:"upstreams"` // keyed by upstream
	Unrouted  uint64                    `json:"unrouted"`  // requests that no route matched
	Rejected  uint64                    `json:"rejected"`  // CONNECT, h2c upgrades, malformed requests, forwarding loops, bodies declared too long, and all requests after Close
}

// mostOver is how many clients of a route are in Stats.OverBudget.
const mostOver = 5

// RouteDurations holds a route's durations, see [weirhttp.Handler].
type RouteDurations struct {
	Requests inspect.Durations `json:"requests"` // how long requests took, and how many there were
	Calls    inspect.Durations `json:"calls"`    // calls to the upstream
	Waits    inspect.Durations `json:"waits"`    // waits for a call that another request made
}

// UpstreamStats holds the statistics of one Upstream.
type UpstreamStats struct {
	Limit    LimitStats    `json:"limit"`           // the limit of the upstream's calls
	Servers  []ServerStats `json:"servers"`         // in the order of the configuration
	Retries  uint64        `json:"retries"`         // repeated calls
	NoBudget uint64        `json:"retries_refused"` // retries that the budget of retries did not allow
	// Names has each name of Upstream.Servers that stands for several servers, one for each
	// address.
	Names []NameStats `json:"names,omitempty"`
	// Budget is the state of the upstream's budget. It is nil if none is configured.
	Budget *BudgetStats `json:"budget,omitempty"`
	// Stated is what its servers have stated, if that is obeyed.
	Stated *weirhttp.StatedStats `json:"stated,omitempty"`
}

// ServerStats holds the statistics of one server.
type ServerStats struct {
	URL      string `json:"url"`       // URL of the server, as configured
	Healthy  bool   `json:"healthy"`   // its latest health checks passed, or it has none
	Ejected  bool   `json:"ejected"`   // it gets no calls after failures in a row
	InFlight int    `json:"in_flight"` // calls in flight
	Calls    uint64 `json:"calls"`     // calls that were sent to it
	Failures uint64 `json:"failures"`  // calls that failed
	// Left is when it last was ejected or penalized, or its checks began to fail, and got no calls any
	// more; Reason says why. Returned is when it got calls again, zero if it does not. All are zero if it has never
	// left.
	Left     time.Time `json:"left,omitzero"`
	Returned time.Time `json:"returned,omitzero"`
	Reason   string    `json:"reason,omitempty"`
	Weight   int       `json:"weight"`
	// State says which calls it gets: "working" its share, "starting" a share that grows,
	// "trying" one call at a time after a penalty, and "penalized", "ejected", "unhealthy"
	// and "draining" none while others can take them.
	State string `json:"state"`
	// Head is the usual time to the head of its responses, and Failing the share of failures
	// among its latest calls. Both are 0 for the only server of an upstream, which is not
	// compared with others.
	Head    time.Duration `json:"head_ns"`
	Failing float64       `json:"failing"`
	// Kept counts the calls of the server's own keys, with Upstream.Affinity, and Moved those of
	// other servers' keys that it got because those servers had no room or were tried before.
	Kept  uint64 `json:"kept"`
	Moved uint64 `json:"moved"`
	// Name is the host, perhaps with a port, that its address was resolved from; empty if it is
	// not resolved.
	Name string `json:"name,omitempty"`
}

// NameStats holds the statistics of a name whose addresses are servers.
type NameStats struct {
	Name      string `json:"name"`      // the server's URL in the configuration
	Addresses int    `json:"addresses"` // addresses that the name has now
	Failures  uint64 `json:"failures"`  // lookups that have failed, or had no address
	// Error is why the latest lookup has failed; empty if it has not.
	Error string `json:"error,omitempty"`
}

// Stats returns a snapshot. Each part is consistent in itself, but the parts are taken at
// slightly different instants.
func (g *Gateway) Stats() Stats {
	now := g.now.Load()
	s := Stats{
		Cache:     g.cache.Stats(),
		Routes:    make(map[string]weirhttp.Stats, len(now.handlers)),
		Alone:     make(map[string]weirhttp.AloneStats, len(now.handlers)),
		Durations: make(map[string]RouteDurations, len(now.handlers)),
		Upstreams: make(map[string]UpstreamStats, len(now.sources)),
		Unrouted:  g.unrouted.Load(),
		Rejected:  g.rejected.Load(),
	}
	if g.claims != nil {
		st := g.claims.Stats()
		s.Idempotency = &st
	}
	for _, h := range now.handlers {
		s.Routes[h.route.Name], s.Alone[h.route.Name] = h.http.Stats(), h.http.Alone()
		if b := h.clientBudget; b != nil {
			if s.ClientBudgets == nil {
				s.ClientBudgets = make(map[string]weirhttp.ClientBudgetStats)
				s.OverBudget = make(map[string][]weirhttp.ClientShare)
			}
			if over := b.Refused(mostOver); len(over) > 0 {
				s.OverBudget[h.route.Name] = over
			}
			s.ClientBudgets[h.route.Name] = b.Stats()
		}
		if own := h.hedgeStats(); own != nil {
			if s.Hedges == nil {
				s.Hedges = make(map[string]HedgeStats)
			}
			s.Hedges[h.route.Name] = *own
		}
		if h.standby != nil {
			if s.Fallbacks == nil {
				s.Fallbacks = make(map[string]FallbackStats)
			}
			s.Fallbacks[h.route.Name] = h.fallbackStats()
		}
		if b := h.budget.stats(); b != nil {
			if s.Budgets == nil {
				s.Budgets = make(map[string]BudgetStats)
			}
			s.Budgets[h.route.Name] = *b
		}
		s.Durations[h.route.Name] = RouteDurations{h.http.RequestTimes(), h.http.CallTimes(), h.http.WaitTimes()}
	}
	for name, src := range now.sources {
		servers, retries, refused := src.pool.Stats()
		u := UpstreamStats{Limit: src.calls.now.Load().look(), Retries: retries, NoBudget: refused}
		u.Limit.Blocked = src.shared.Blocked()
		u.Budget = src.budget.stats()
		if stated := src.stated.Stats(); stated != (weirhttp.StatedStats{}) {
			u.Stated = &stated
		}
		for _, one := range servers {
			u.Servers = append(u.Servers, ServerStats(one))
		}
		for _, one := range src.pool.Names() {
			u.Names = append(u.Names, NameStats(one))
		}
		s.Upstreams[name] = u
	}
	return s
}

// LimitStats holds the state and the counters of an upstream's limit. All fields but
// Blocked are of the same instant.
type LimitStats struct {
	Kind       string        `json:"kind"`       // "fixed", "adaptive", or "none" for no cap
	Limit      int           `json:"limit"`      // calls at once at present, 0 for no cap
	InUse      int           `json:"in_use"`     // permits in use
	Queued     int           `json:"queued"`     // callers in the queue
	Tenants    int           `json:"tenants"`    // that have queued calls, see Fair
	Overloaded bool          `json:"overloaded"` // the queue never empties: the newest are served first
	Storm      bool          `json:"storm"`      // most calls end after their clients have left, so the limit is lowered
	Storms     uint64        `json:"storms"`     // how often that has begun
	Late       uint64        `json:"late"`       // calls that ended, or were given up, after their clients had left
	Held       time.Duration `json:"held_ns"`    // mean time of a call
	Wait       time.Duration `json:"wait_ns"`    // of a new caller at the end of the queue
	Blocked    int           `json:"blocked"`    // calls in InUse that wait for their clients
	Admitted   uint64        `json:"admitted"`   // callers that received a permit
	Waited     uint64        `json:"waited"`     // how many of Admitted had waited in the queue
	Left       uint64        `json:"left"`       // callers that left the queue before they were admitted
	Refused    uint64        `json:"refused"`    // callers that were rejected
	// RefusedBy counts refusals by reason, such as "queue full": see limit.Reason. It is
	// nil if there are none.
	RefusedBy map[string]uint64 `json:"refused_by,omitempty"`
	// Baseline and Latency belong to an adaptive limit: the latency of a call without load,
	// as far as it is known, and the latency in the last window. 0 before the first window.
	Baseline time.Duration `json:"baseline_ns,omitempty"`
	Latency  time.Duration `json:"latency_ns,omitempty"`
}

// look returns the state of g.
func (g *gate) look() LimitStats {
	s := g.stats()
	return LimitStats{
		Kind: g.kind, Limit: s.Limit, InUse: s.InUse, Queued: s.Queued, Tenants: s.Tenants, Overloaded: s.Overloaded,
		Storm: s.Storm, Storms: s.Storms, Late: s.Late, Held: s.Held, Wait: s.Wait,
		Admitted: s.Admitted, Waited: s.Waited, Left: s.Left, Refused: s.Refused.Total(),
		RefusedBy: byReason(s.Refused), Baseline: s.Baseline, Latency: s.Latency,
	}
}

func byReason(refused limit.Refusals) map[string]uint64 {
	var m map[string]uint64
	for reason, n := range refused {
		if n > 0 {
			if m == nil {
				m = make(map[string]uint64)
			}
			m[limit.Reason(reason).String()] = n //nolint:gosec // an index of an array of reasons
		}
	}
	return m
}

// A ServerState is what a server has become.
type ServerState uint8

// The states that a server changes to.
const (
	ServerEjected    ServerState = 1 + iota // Health.Failures calls in a row have failed
	ServerReadmitted                        // an ejected server has responded
	ServerUnhealthy                         // Health.Unhealthy checks in a row have failed
	ServerHealthy                           // Health.Healthy of them have passed again
	ServerPenalized                         // it fails where the other servers do not
	ServerReturned                          // three calls in a row have shown that it does not any more
	ServerUnresolved                        // a lookup of the name has failed; its addresses stay
	ServerResolved                          // the name has other addresses, or a lookup has succeeded again
)

// String returns "ejected", "readmitted", "unhealthy", "healthy", "penalized", "returned",
// "unresolved" or "resolved".
func (s ServerState) String() string {
	names := [...]string{"none", "ejected", "readmitted", "unhealthy", "healthy", "penalized", "returned", "unresolved", "resolved"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("server state(%d)", uint8(s))
}

// A ServerChange is a change of one server: see Config.ServerChanged.
type ServerChange struct {
	Upstream string        // its name
	Server   string        // the URL of the server
	State    ServerState   // state of the server after the change
	Failures int           // calls or checks that failed in a row; of ServerEjected and ServerUnhealthy
	For      time.Duration // time until a call may probe the server; only of ServerEjected and ServerPenalized
	Err      error         // the latest failure, or the evidence; of ServerEjected, ServerUnhealthy, ServerPenalized and ServerUnresolved
	// Addresses are all that the name has now; of ServerResolved.
	Addresses []netip.Addr
}

// storm reports to the current Config that a limit was lowered, or is what it was.
func (g *Gateway) storm(s limit.Storm) {
	if st := g.now.Load(); st != nil && st.config.LimitChanged != nil {
		st.config.LimitChanged(s)
	}
}

// serverChanged reports a change to the current Config.
func (g *Gateway) serverChanged(name string, c upstream.ServerChange) {
	st := g.now.Load()
	if st == nil { // New is still at work, and a lookup has already ended
		g.mu.Lock()
		st = g.now.Load()
		g.mu.Unlock()
	}
	if st == nil || st.config.ServerChanged == nil {
		return
	}
	st.config.ServerChanged(ServerChange{
		Upstream: name, Server: c.Server, State: ServerState(c.State), Failures: c.Failures, For: c.For, Err: c.Err, Addresses: c.Addresses,
	})
}
