package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/weirhttp"
)

// Requests that are kept apart are reported from these numbers on.
const (
	fewestApart  = 100 // requests
	leastApart   = 0.1 // of all requests of the route
	mostNames    = 3   // in a sentence
	fewestPairs  = 20  // of the same response, before unkeyed_headers is proposed
	othersSuffix = " …"
)

// apart says what keeps the requests of a route apart, and what to write; nil if they are
// few.
func apart(st weirhttp.Stats, why weirhttp.AloneStats) *console.Apart {
	n := why.Reasons["apart"]
	if n < fewestApart || float64(n) < leastApart*float64(st.Requests) {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(why.Fields), func(a, b string) int {
		return cmp.Or(cmp.Compare(why.Fields[b], why.Fields[a]), strings.Compare(a, b))
	})
	names = slices.DeleteFunc(names, func(name string) bool { return name == weirhttp.OtherFields })
	if len(names) == 0 {
		return &console.Apart{
			Text: fmt.Sprintf("%d of %d requests share no response, because their clients or their preferences differ.", n, st.Requests),
			Next: "Look at one of them with /explain on the admin listener.",
		}
	}
	shown := strings.Join(names[:min(len(names), mostNames)], ", ")
	if len(names) > mostNames {
		shown += othersSuffix
	}
	next := fmt.Sprintf("If a field selects the response, write vary: [%s].", names[0])
	for _, name := range names {
		if p := why.Pairs[name]; p.Same >= fewestPairs && p.Differed == 0 {
			next += fmt.Sprintf(" %d pairs of requests that differ in %s alone got the same response: unkeyed_headers: [%s] lets them share.", p.Same, name, name)
			break
		}
	}
	if !strings.Contains(next, "unkeyed_headers:") {
		next += " If none does, ignore_headers: [\"*\"] removes them before the request is forwarded; observe mode finds out whether one matters."
	}
	return &console.Apart{Text: fmt.Sprintf("%d of %d requests share no response, because they differ in fields: %s.", n, st.Requests, shown), Next: next}
}
