package gateway

import (
	"fmt"
	"slices"
	"strings"
)

// Advice returns one sentence for each setting that is allowed but probably a mistake.
// It is empty for most Configs.
func (c Config) Advice() []string {
	var advice []string
	for i, r := range c.Routes {
		if name, ok := r.sharesAClientsAnswers(); ok {
			advice = append(advice, fmt.Sprintf("%s.RateBy tells clients apart by %s, and Cache.TTL shares responses between them: "+
				"add %[2]s to Cache.Vary if answers differ by it", index("Routes", i), name))
		}
	}
	for i, u := range c.Upstreams {
		for _, m := range u.Retry.Methods {
			if u.Retry.Attempts > 1 && slices.Contains(withBodies, m) {
				advice = append(advice, fmt.Sprintf("%s.Retry.Methods contains %s: a request with a body is never retried", index("Upstreams", i), m))
			}
		}
	}
	return advice
}

// withBodies are the methods whose requests usually have a body.
var withBodies = []string{"PATCH", "POST", "PUT", "QUERY"}

// sharesAClientsAnswers reports whether r shares responses between clients that its Rate
// tells apart by a field, and returns that field.
func (r Route) sharesAClientsAnswers() (name string, ok bool) {
	name, ok = strings.CutPrefix(r.RateBy, "header:")
	if !ok || r.Rate == nil || r.NoStore || r.Cache.TTL <= 0 {
		return "", false
	}
	is := func(other string) bool { return strings.EqualFold(other, name) }
	// Responses to requests with these fields are shared only if they are marked as
	// shareable.
	if is("Authorization") || is("Cookie") {
		return "", false
	}
	return name, !slices.ContainsFunc(r.Cache.Vary, is) && !slices.ContainsFunc(r.Cache.IgnoreHeaders, is)
}
