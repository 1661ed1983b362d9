package weirgrpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/weir-go/weir"
)

// An Explanation describes what would happen to a call, and why.
type Explanation struct {
	Method string   `json:"method"` // full name of the method
	Policy string   `json:"policy"` // the key of its Policy in Options.Methods; empty for none
	Key    string   `json:"key"`    // as Key.String returns it; empty if the call shares nothing
	Answer string   `json:"answer"` // "hit", "stale", "execute", which includes joining, or "alone"
	Cost   int      `json:"cost"`   // estimated units of the execution; 0 without one, or without Policy.Cost
	Steps  []string `json:"steps"`  // one sentence each, in the order of the decisions
}

// Explain describes what would happen to a call of fullMethod with message req, if it came
// now in the incoming context ctx, which has its metadata and its peer. It executes
// nothing, changes nothing, and does not consult the limits. Policy.Scope and Policy.Cost are
// called.
// The Steps have the names of metadata keys, and no values.
func (s *Server) Explain(ctx context.Context, fullMethod string, req any) Explanation {
	p := s.e.policyOf(fullMethod)
	m := &method{name: fullMethod, policy: p, safe: p.shares(fullMethod)}
	x := Explanation{Method: fullMethod, Policy: p.pattern}
	if p.pattern == "" {
		x.say("No policy is for the method.")
	} else {
		x.say("The policy for %q applies; it shares %v.", p.pattern, p.Share)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	key, id, why := s.e.identify(ctx, m, md, req)
	if why != shareable {
		x.Answer = "alone"
		x.say("The call shares nothing: %s.", reasonTexts[why])
		if len(id.offending) > 0 {
			x.say("The metadata is %s.", strings.Join(id.offending, ", "))
		}
		x.estimate(m, req)
		return x
	}
	x.Key = key.String()
	var ignored []string
	for k := range md {
		if _, ok := id.shown[k]; !ok {
			ignored = append(ignored, k)
		}
	}
	if slices.Sort(ignored); len(ignored) > 0 {
		x.say("Irrelevant metadata: %s. A shared execution does not see it.", strings.Join(ignored, ", "))
	}
	x.stored(p.guard.Peek(key))
	x.estimate(m, req)
	return x
}

// estimate describes what the call is expected to cost, if cost is counted.
func (x *Explanation) estimate(m *method, req any) {
	if m.policy.Cost == nil {
		return
	}
	units := m.units(req)
	switch x.Answer {
	case "hit":
		x.say("The response costs nothing. The estimate for an execution is %d.", units)
		return
	case "stale":
		x.say("The response costs nothing. The estimate for its refresh is %d.", units)
		return
	}
	x.Cost = units
	by := "it is counted, and no budget limits it"
	if m.policy.Budget != nil {
		by = "the budget of the policy admits it"
	}
	x.say("The estimated cost of the execution is %d: %s.", units, by)
}

func (x *Explanation) say(format string, args ...any) {
	x.Steps = append(x.Steps, fmt.Sprintf(format, args...))
}

// stored describes what is stored for the call.
func (x *Explanation) stored(r weir.Result[*response], ok bool) {
	x.Answer = "execute"
	age := r.Age.Round(time.Millisecond)
	switch {
	case !ok:
		x.say("Nothing is stored that could be served: it joins a running execution or starts one.")
	case r.State == weir.StateFresh:
		x.Answer = "hit"
		x.say("The stored response is %v old, and fresh for another %v.", age, r.FreshFor.Round(time.Millisecond))
	case r.State == weir.StateStale:
		x.Answer = "stale"
		x.say("The stored response is %v old, and may be served while it is refreshed.", age)
	default:
		x.say("The stored response is %v old, and may be served if the execution fails.", age)
	}
}
