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
	Method string   `json:"method"`
	Policy string   `json:"policy"` // the key of its Policy in Options.Methods; empty for none
	Key    string   `json:"key"`    // as Key.String returns it; empty if the call shares nothing
	Answer string   `json:"answer"` // "hit", "stale", "execute", which includes joining, or "alone"
	Steps  []string `json:"steps"`  // one sentence each, in the order of the decisions
}

// Explain describes what would happen to a call of fullMethod with message req, if it came
// now in the incoming context ctx, which has its metadata and its peer. It executes
// nothing, changes nothing, and does not consult the limits. Policy.Scope is called.
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
	return x
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
