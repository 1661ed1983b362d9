package gateway

import (
	"fmt"
	"slices"
	"strings"
)

// Advice names settings that are allowed and probably not meant, a sentence each.
// It is empty for most Configs.
func (c Config) Advice() []string {
	var advice []string
	for i, r := range c.Routes {
		if name, ok := r.sharesAClientsAnswers(); ok {
			advice = append(advice, fmt.Sprintf("%s.RateBy tells clients apart by %s, and Cache.TTL shares their answers with each other: "+
				"add %[2]s to Cache.Vary if answers differ by it", index("Routes", i), name))
		}
	}
	return advice
}

// sharesAClientsAnswers reports whether r gives the answers of one client to
// others that its Rate tells apart by a field, and which that is.
func (r Route) sharesAClientsAnswers() (name string, ok bool) {
	name, ok = strings.CutPrefix(r.RateBy, "header:")
	if !ok || r.Rate == nil || r.NoStore || r.Cache.TTL <= 0 {
		return "", false
	}
	is := func(other string) bool { return strings.EqualFold(other, name) }
	// Requests with these share nothing that is not marked for it.
	if is("Authorization") || is("Cookie") {
		return "", false
	}
	return name, !slices.ContainsFunc(r.Cache.Vary, is) && !slices.ContainsFunc(r.Cache.IgnoreHeaders, is)
}
