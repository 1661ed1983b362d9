package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/forward"
	"github.com/weir-go/weir/gateway/internal/upstream"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Values of Fallback.When that are not statuses.
const (
	// FallbackDown: no server of the upstream can be used, because each is ejected, fails its
	// checks, or cannot be reached. Nothing of the request was sent, or it may run twice.
	FallbackDown = upstream.Down
	// FallbackFull: the upstream's limits reject the call, and its client has no more than its
	// share of them (Upstream.Fair). The limits of the route do not count.
	FallbackFull = "full"
)

// A Fallback sends requests to another upstream while a route's own does not respond to them
// (H40). A stale response that may be served comes first, and a request of which the client has
// received anything stays. It is one step: the other upstream's routes and their
// fallbacks do not matter.
//
// A request is sent at most three times, to both upstreams together: with a status in When, at
// most twice to the first. If it was sent to the first, it is sent once to the other; if not, the
// other's Retry applies. The other's limits, and the route's, apply there, and Route.Timeout
// counts from the first call. Path and Host follow the other upstream.
type Fallback struct {
	// Upstream is the name of the other Upstream. Required.
	Upstream string
	// When lists the reasons: FallbackDown, FallbackFull, "502", "503" and "504". At least one is
	// required. A status comes from a response, or is the one that a client would get because the
	// call has failed. Statuses apply only to requests that may run twice: without a body, with a method
	// in Retry.Methods. Such a send is taken from the budget of retries (Retry.Budget) of the
	// first upstream.
	When []string
	// Store lets responses of the other upstream be stored and shared under the same rules.
	// Otherwise each request makes its own call there.
	Store bool
}

// reasons are the values of Fallback.When, in the order of documents and counters.
var reasons = [...]string{FallbackDown, FallbackFull, "502", "503", "504"}

// FallbackReasons returns the values of Fallback.When.
func FallbackReasons() []string { return slices.Clone(reasons[:]) }

// has reports whether f, which may be nil, has a reason.
func (f *Fallback) has(reason string) bool { return f != nil && slices.Contains(f.When, reason) }

// statuses reports whether f, which may be nil, has a status among its reasons.
func (f *Fallback) statuses() bool {
	return f != nil && slices.ContainsFunc(f.When, func(when string) bool { return when != FallbackDown && when != FallbackFull })
}

func (f *Fallback) clone() *Fallback {
	if f == nil {
		return nil
	}
	own := *f
	own.When = slices.Clone(f.When)
	return &own
}

func (f *Fallback) validate(check *faults, at string, c Config, r Route) {
	if f == nil {
		return
	}
	i := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return u.Name == f.Upstream })
	check.Check(i >= 0, at+".Upstream", quoted(f.Upstream), "the name of an upstream")
	check.Check(len(f.When) > 0, at+".When", "empty", `one or more of "down", "full", "502", "503" and "504"`)
	for j, when := range f.When {
		check.Check(slices.Contains(reasons[:], when), index(at+".When", j), quoted(when), `"down", "full", "502", "503" or "504"`)
		check.Check(!slices.Contains(f.When[:j], when), index(at+".When", j), quoted(when), "no value that was named before")
	}
	if i < 0 {
		return
	}
	u, other := c.upstream(r), c.Upstreams[i]
	r.Idempotency.validateAgain(check, strings.TrimSuffix(at, "Fallback")+"Idempotency", other, false)
	if !check.Check(u.Name != other.Name, at+".Upstream", quoted(f.Upstream), "another upstream than the route's") || !f.has(FallbackFull) {
		return
	}
	shared, both := u.sharedServer(other)
	check.Check(!both, at+".When", `"full"`, "absent, because "+shared+" is a server of both upstreams and would get more calls than either limit allows")
}

// sharedServer returns a server of both u and o.
func (u Upstream) sharedServer(o Upstream) (server string, ok bool) {
	mine := map[string]bool{}
	for _, s := range u.Servers {
		if _, address, ok := parseServer(s); ok {
			mine[address] = true
		}
	}
	for _, s := range o.Servers {
		if _, address, ok := parseServer(s); ok && mine[address] {
			return withoutUser(s), true
		}
	}
	return "", false
}

// A standby is the Fallback of a handler.
type standby struct {
	name   string // of the upstream
	source *source
	http   *weirhttp.Handler
	full   bool
	store  bool
	used   *fallbackCounts // kept when the route changes
	path   forward.Path
	cost   weirhttp.Cost
	fair   Fair
	obeys  bool
	leaves bool // ReleaseAbandoned
	tells  weirhttp.DurationField
}

// fallbackCounts count requests by their reason.
type fallbackCounts struct {
	sent, would, refused counts
}

// counts are numbers by reason.
type counts struct {
	mu sync.Mutex
	n  map[string]uint64 // guarded by mu; nil before the first
}

func (c *counts) add(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]uint64, len(reasons))
	}
	c.n[reason]++
}

// of returns the numbers of these reasons.
func (c *counts) of(reasons []string) map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := make(map[string]uint64, len(reasons))
	for _, reason := range reasons {
		n[reason] = c.n[reason]
	}
	return n
}

// FallbackStats count the requests of a route with a Fallback, for each value of Fallback.When.
type FallbackStats struct {
	Upstream string `json:"upstream"` // the other one
	// Sent counts the requests that went there, and Refused those that could not, because
	// the budget of retries was used up by the time.
	Sent    map[string]uint64 `json:"sent"`
	Refused map[string]uint64 `json:"refused"`
	// Would counts those that would have gone there, in observe mode.
	Would map[string]uint64 `json:"would"`
	// Calls are the statistics of the calls there, with their outcomes.
	Calls weirhttp.Stats `json:"calls"`
}

func (h *handler) fallbackStats() FallbackStats {
	s, when := h.standby, h.route.Fallback.When
	return FallbackStats{Upstream: s.name, Sent: s.used.sent.of(when), Refused: s.used.refused.of(when), Would: s.used.would.of(when), Calls: s.http.Stats()}
}

// standby gives h, which was is the predecessor of, its standby, and returns when its upstream
// gives requests up. o are the options of the route.
func (p *plan) standby(c Config, h, was *handler, o weirhttp.Options) (*upstream.Fallback, error) {
	f := h.route.Fallback
	if f == nil {
		return nil, nil
	}
	u := c.upstream(Route{Upstream: f.Upstream})
	s := &standby{name: u.Name, source: p.after.sources[u.Name], full: f.has(FallbackFull), store: f.Store, used: new(fallbackCounts)}
	if was.standby != nil && was.standby.name == s.name {
		s.used = was.standby.used
	}
	s.path, s.cost, s.fair, s.obeys, s.leaves = settings(h.route, u)
	s.tells = fieldOf(u.TellDeadline)
	o.Idempotency, o.ClientLimiter, o.HotKeys, o.RefreshAhead, o.Observe = nil, nil, 0, 0, false
	if !f.Store {
		o.NoStore, o.NoCoalescing, o.Fleet = true, true, weirhttp.FleetOptions{}
	}
	var err error
	if s.http, err = p.forwards(c, h, u, s.source, o, nil); err != nil {
		return nil, err
	}
	h.standby = s
	up := &upstream.Fallback{Down: f.has(FallbackDown), May: weirhttp.MayFallBack, Status: func(err error) int {
		status, _ := forward.Failure(err)
		return status
	}}
	for _, when := range f.When {
		if status, err := strconv.Atoi(when); err == nil {
			up.Statuses = append(up.Statuses, status)
		}
	}
	if h.route.Observe {
		up.Observed = s.used.would.add
	}
	return up, nil
}

// option returns the option of the Handler in front of s.
func (s *standby) option() *weirhttp.Fallback {
	return &weirhttp.Fallback{Serve: s.serve, Observed: func(err error) {
		if s.full && isFull(err) {
			s.used.would.add(FallbackFull)
		}
	}}
}

// settings returns what u decides about the calls of r.
func settings(r Route, u Upstream) (forward.Path, weirhttp.Cost, Fair, bool, bool) {
	return r.path(u), r.cost(u), u.Fair, u.MaxPause > 0, u.ReleaseAbandoned
}

// same reports whether s, which may be nil, is as a new one for r would be.
func (s *standby) same(p *plan, c Config, r Route) bool {
	if s == nil || r.Fallback == nil {
		return s == nil && r.Fallback == nil
	}
	u := c.upstream(Route{Upstream: r.Fallback.Upstream})
	path, cost, fair, obeys, leaves := settings(r, u)
	return s.source == p.after.sources[u.Name] && s.path == path && s.cost == cost && s.fair == fair && s.obeys == obeys && s.leaves == leaves &&
		s.tells == fieldOf(u.TellDeadline)
}

// serve is weirhttp.Fallback.Serve.
func (s *standby) serve(w http.ResponseWriter, r *http.Request, err error) bool {
	call := weirhttp.FallbackCall{Name: s.name, Store: s.store}
	sends := 0
	if e := (*fault.ElsewhereError)(nil); errors.As(err, &e) {
		if !e.Take() {
			s.used.refused.add(e.Reason)
			return false
		}
		call.Reason, call.Began, sends = e.Reason, e.Began, e.Sends
	} else if s.full && isFull(err) {
		call.Reason = FallbackFull
	} else {
		return false
	}
	s.used.sent.add(call.Reason)
	s.http.ServeFallback(w, r.WithContext(upstream.ContextWithSends(r.Context(), sends)), call)
	return true
}

// explainFallback says what happens if the upstream does not respond.
func (h *handler) explainFallback(e *weirhttp.Explanation) {
	s := h.standby
	if s == nil || e.Answer == "error" || e.Answer == "hit" {
		return
	}
	step := "If upstream " + h.source.name + " does not respond (" + strings.Join(h.route.Fallback.When, ", ") + "), and no stale response may be used, the request goes to upstream " + s.name
	if !s.store {
		step += ", and the response is neither stored nor shared"
	}
	e.Steps = append(e.Steps, step+".")
	if h.route.Fallback.has(FallbackDown) && h.source.pool.Down() {
		e.Steps = append(e.Steps, "No server of upstream "+h.source.name+" is in use now: the request goes to upstream "+s.name+", unless it probes a server.")
	}
}

// isFull reports whether err is a refusal of an upstream's limits, for a caller within its share.
func isFull(err error) bool {
	return weirhttp.IsFull(err) && !errors.As(err, new(*ownError))
}

// An ownError is a refusal of a limit of the route itself.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// owned returns err as an ownError, if own.
func owned(err error, own bool) error {
	if own && errors.Is(err, limit.ErrLimited) {
		return &ownError{err}
	}
	return err
}
