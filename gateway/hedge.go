package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
	"github.com/weir-go/weir/gateway/internal/upstream"
	"github.com/weir-go/weir/gateway/internal/upstream/hedge"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Defaults and bounds of a Hedge.
const (
	defaultHedges = 2
	mostHedges    = 10
)

// A Hedge sends a request again, to another server, if its response takes longer than
// most (H41). It applies to GET, HEAD, QUERY and declared reads (Route.Reads) of an upstream with
// several servers, whose bodies are in memory; not to upgrades and event streams, and not to
// sessions of Upstream.Sticky. The first response that is no failure is used, and the other call
// is canceled.
//
// A hedge has its own permit, which must be free without waiting. There are none while
// requests wait, during an overload, for 10 s after a limit was lowered, and while half of the
// servers or more get no calls. All calls for one request, with retries, are at most three.
type Hedge struct {
	// Budget is how many hedges there are at most per 100 calls, and how many seconds they take per
	// 100 s of calls. Each client has its share. 0 means 2, at most 10.
	Budget int
	// After is how long the response takes before there is a hedge. 0 means the time that is
	// exceeded by as many calls as the budget pays for (with 2, the 98th percentile), of the route's
	// latest calls of about the same length; at least 2 ms. At most 1 h.
	After time.Duration
}

func (h *Hedge) validate(f *faults, at string) {
	if h == nil {
		return
	}
	f.count(at+".Budget", h.Budget, 0, mostHedges)
	f.Check(h.After == 0 || h.After >= hedge.Least && h.After <= time.Hour, at+".After", h.After, "from 2ms to 1h, or 0 for the time that the budget pays for")
}

// validateHedge checks that a hedge costs nothing.
func (r Route) validateHedge(f *faults, at string, u Upstream) {
	f.Check(r.Hedge == nil || r.cost(u) == weirhttp.Cost{}, at+".Hedge", "set", "nil where calls have a Cost: what a call costs that is given up is not known")
}

func (h *Hedge) rule() hedge.Rule {
	return hedge.Rule{Budget: cmp.Or(h.Budget, defaultHedges), After: h.After}
}

// hedging makes the options of h's hedges, which need permits of l. There are none at the upstream
// of its fallback. What is known of its calls stays if the route is changed.
func (p *plan) hedging(h *handler, to *source, l limit.Limiter) *upstream.HedgeOptions {
	if h.route.Hedge == nil || to != h.source {
		return nil
	}
	was := p.before.named(h.route.Name)
	if h.hedges = was.hedges; h.hedges == nil || was.source != h.source {
		h.hedges = new(hedge.State)
	}
	permits := &spare{limiter: l, gates: []*valve{&h.source.calls}}
	if h.calls != nil {
		permits.gates = append(permits.gates, h.calls)
	}
	permits.highest = make([]int, len(permits.gates))
	return &upstream.HedgeOptions{
		Rule: h.route.Hedge.rule(), State: h.hedges, Observe: h.route.Observe, Permit: permits.take,
		Reads: weirhttp.IsRead,
	}
}

// apart is upstream.Surroundings.Apart.
func apart(ctx context.Context, quiet bool) (context.Context, upstream.Side) {
	ctx, side := forward.Apart(ctx, quiet)
	if side == nil {
		return ctx, nil
	}
	return ctx, side
}

// A spare gives permits to calls that no client waits for.
type spare struct {
	limiter limit.Limiter
	gates   []*valve

	mu      sync.Mutex
	highest []int     // guarded by mu: of each gate's limit since it was lowered
	lowered time.Time // guarded by mu
}

// afterLowered is for how long there are none after a limit was lowered.
const afterLowered = 10 * time.Second

// take is upstream.HedgeOptions.Permit.
func (s *spare) take() (release func(), ok bool) {
	if !s.calm(time.Now()) {
		return nil, false
	}
	// Nothing of the request's context: it has a place in the queue, and permits that it may lend.
	p, err := s.limiter.Acquire(limit.ContextWithPriority(context.Background(), limit.Background))
	if err != nil {
		return nil, false
	}
	return func() { p.Release(limit.Ignored) }, true
}

// calm reports whether no calls wait and no limit was lowered lately. An adaptive limit also
// tries values a little below the best, so a tenth less is no lower limit. It is looked at for
// each hedge: a limit that was lowered since the one before counts as lowered now.
func (s *spare) calm(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	calm := true
	for i, g := range s.gates {
		st := g.Stats()
		if st.Queued > 0 || st.Overloaded {
			calm = false
		}
		if st.Limit > 0 && 10*st.Limit < 9*s.highest[i] { // 0 is no limit
			s.lowered, s.highest[i] = now, st.Limit
		}
		s.highest[i] = max(s.highest[i], st.Limit)
	}
	return calm && (s.lowered.IsZero() || now.Sub(s.lowered) >= afterLowered)
}

// HedgeStats counts the hedges of a route; see Hedge.
type HedgeStats struct {
	Calls  uint64 `json:"calls"`  // that could have one
	Sent   uint64 `json:"sent"`   // hedges
	Won    uint64 `json:"won"`    // of Sent: whose response was used
	Lost   uint64 `json:"lost"`   // of Sent: the first call was faster
	Failed uint64 `json:"failed"` // of Sent: neither
	// Observed counts those that observe mode has not sent.
	Observed uint64 `json:"observed,omitempty"`
	// Refused counts those that were not sent, by reason: "budget", "time" and "tenant" (the calls
	// of the route, their time, or the calls of the client have not paid for it), "class" (hedges of
	// calls of about this length do not win), "servers" (no other one works), and "busy" (no permit
	// is free).
	Refused map[string]uint64 `json:"refused"`
	// Time is how long hedges have taken, and CallTime how long the calls to their heads.
	Time     time.Duration `json:"time_ns"`
	CallTime time.Duration `json:"call_time_ns"`
	// Delay is when most calls get a hedge, 0 while that is not known.
	Delay time.Duration `json:"delay_ns"`
}

// hedgeStats returns the counts of h's hedges, nil without any.
func (h *handler) hedgeStats() *HedgeStats {
	if h.route.Hedge == nil {
		return nil
	}
	s := h.hedges.Stats(h.route.Hedge.rule())
	out := &HedgeStats{
		Calls: s.Calls, Sent: s.Sent, Won: s.Won, Failed: s.Failed, Lost: s.Lost, Observed: s.Observed,
		Time: s.Time, CallTime: s.Of, Delay: s.Delay, Refused: make(map[string]uint64),
	}
	for _, v := range hedge.Verdicts() {
		out.Refused[v.String()] = s.Refused[v]
	}
	return out
}

// explainHedge describes when a call for r gets a hedge.
func (h *handler) explainHedge(e *weirhttp.Explanation, r *http.Request) {
	st := h.hedgeStats()
	if st == nil || e.Answer == "hit" || e.Answer == "error" {
		return
	}
	switch {
	case e.Answer == "pass" && r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != "QUERY":
		e.Steps = append(e.Steps, "A call gets no hedge: it is not a GET, HEAD, QUERY or declared read.")
	case !h.source.pool.Several():
		e.Steps = append(e.Steps, "A call gets no hedge: the upstream has one server.")
	case st.Delay == 0:
		e.Steps = append(e.Steps, "A call gets no hedge: how long calls take is not known yet.")
	default:
		e.Steps = append(e.Steps, fmt.Sprintf("A call that has no response after about %v gets a hedge, if the budget of %d per 100 calls allows it.", st.Delay.Round(time.Millisecond), h.route.Hedge.rule().Budget))
	}
}
