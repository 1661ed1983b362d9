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
	return advice
}

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
