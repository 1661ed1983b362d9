package weirhttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/rfc9111"
)

// QueryRules remove and order the parameters of a query, in the key and in the forwarded
// request alike (H9), for every method. The zero value changes nothing.
//
// Parameters are separated by "&" alone, and a name ends at its first "=". Names are
// compared with their escapes decoded once ("+" is a space) and with their case. The
// rest keeps the client's spelling. A part such as "utm_a=1;b=2" is one parameter,
// which is removed or kept as a whole, whatever an origin makes of the ";". A query that
// a signature may cover is not changed, in the key neither.
type QueryRules struct {
	// Keep lists the parameters that remain. Empty keeps all.
	Keep []string
	// Drop lists the parameters that are removed, also of those in Keep. In both lists a
	// name may end in "*", for all names that begin with it. Each list has at most
	// MaxQueryNames names, of at most 256 bytes.
	Drop []string
	// Sort orders the parameters by their names. Those with the same name stay in the
	// client's order, because it often means something. So do those whose names some
	// origins treat as equal: "a", "A" and "a[]"; "b.c" and "b_c". A query with a ";",
	// which some origins treat as a separator, is not sorted, nor is one with more than
	// MaxSortedParameters.
	Sort bool
}

// Bounds of QueryRules.
const (
	MaxQueryNames       = 100  // names in QueryRules.Keep or Drop
	MaxSortedParameters = 1000 // parameters of a query that QueryRules.Sort orders
	maxQueryName        = 256
)

// check checks the names of q.
func (q QueryRules) check(check func(ok bool, field string, value any, bound string) bool) {
	for _, list := range []struct {
		field string
		names []string
	}{{"Query.Keep", q.Keep}, {"Query.Drop", q.Drop}} {
		check(len(list.names) <= MaxQueryNames, list.field, len(list.names), "at most 100 names")
		for _, name := range list.names {
			inner := strings.IndexByte(strings.TrimSuffix(name, "*"), '*') >= 0
			check(name != "" && !inner, list.field, name, `a name, perhaps with "*" at its end`)
			check(len(name) <= maxQueryName, list.field, name, "at most 256 bytes")
		}
	}
}

// compile returns q for use, or nil if it changes nothing.
func (q QueryRules) compile() *queryRules {
	if len(q.Keep) == 0 && len(q.Drop) == 0 && !q.Sort {
		return nil
	}
	return &queryRules{keep: newNameSet(q.Keep), drop: newNameSet(q.Drop), sort: q.Sort}
}

// queryRules are QueryRules that are prepared for use. nil changes nothing.
type queryRules struct {
	keep, drop *nameSet // nil if empty
	sort       bool
}

// A nameSet is a set of names and beginnings of names.
type nameSet struct {
	names    map[string]bool
	prefixes []string
}

func newNameSet(list []string) *nameSet {
	if len(list) == 0 {
		return nil
	}
	s := &nameSet{names: make(map[string]bool, len(list))}
	for _, name := range list {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			s.prefixes = append(s.prefixes, prefix)
		} else {
			s.names[name] = true
		}
	}
	return s
}

func (s *nameSet) has(name string) bool {
	return s.names[name] || slices.ContainsFunc(s.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// keeps reports whether a parameter remains.
func (q *queryRules) keeps(name string) bool {
	return (q.keep == nil || q.keep.has(name)) && (q.drop == nil || !q.drop.has(name))
}

// sorts reports whether the parameters of query are sorted.
func (q *queryRules) sorts(query string) bool {
	return q.sort && strings.IndexByte(query, ';') < 0 && strings.Count(query, "&") < MaxSortedParameters
}

// paramName returns the decoded name of a parameter. Invalid escapes stay as they are. It
// allocates only for names with escapes.
func paramName(param string) string {
	name, _, _ := strings.Cut(param, "=")
	if strings.IndexByte(name, '%') < 0 && strings.IndexByte(name, '+') < 0 {
		return name
	}
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '+':
			b = append(b, ' ')
		case c == '%' && i+2 < len(name) && isHex(name[i+1]) && isHex(name[i+2]):
			b = append(b, unhex(name[i+1])<<4|unhex(name[i+2]))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// sortName returns the text by which a decoded name is sorted. Names that any origin is
// known to treat as equal have the same: some ignore case; PHP and others read "a[]" and "a[x]"
// as parts of "a", replace a blank, "." or an unclosed "[" with "_", drop leading blanks, and
// end a name at a NUL. Too many with the same costs only hits.
func sortName(name string) string {
	if !strings.ContainsFunc(name, func(c rune) bool { return !isPlain(c) }) {
		return name
	}
	name = strings.TrimLeft(name, " ")
	name, _, _ = strings.Cut(name, "\x00")
	if i := strings.IndexByte(name, '['); i > 0 && strings.IndexByte(name[i:], ']') > 0 {
		name = name[:i]
	}
	b := []byte(name)
	for i, c := range b {
		switch {
		case 'A' <= c && c <= 'Z':
			b[i] = c | 0x20
		case !isPlain(rune(c)):
			b[i] = '_'
		}
	}
	return string(b)
}

func isPlain(c rune) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// apply returns query as the rules leave it, and whether that differs. It allocates
// nothing if not, for names in lower case without escapes.
func (q *queryRules) apply(query string) (string, bool) {
	if query == "" || !q.changes(query) {
		return query, false
	}
	type param struct{ by, raw string }
	var params []param
	sort := q.sorts(query)
	for raw := range strings.SplitSeq(query, "&") {
		if name := paramName(raw); q.keeps(name) {
			if sort {
				name = sortName(name)
			}
			params = append(params, param{name, raw})
		}
	}
	if sort {
		slices.SortStableFunc(params, func(a, b param) int { return strings.Compare(a.by, b.by) })
	}
	var b strings.Builder
	b.Grow(len(query))
	for i, p := range params {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.raw)
	}
	rest := b.String()
	if !sort { // perhaps because of what was dropped
		rest, _ = q.apply(rest)
	}
	return rest, true
}

// changes reports whether apply changes query.
func (q *queryRules) changes(query string) bool {
	last, first, sort := "", true, q.sorts(query)
	for rest, more := query, true; more; {
		var raw string
		raw, rest, more = strings.Cut(rest, "&")
		name := paramName(raw)
		if !q.keeps(name) {
			return true
		}
		if !sort {
			continue
		}
		name = sortName(name)
		if !first && name < last {
			return true
		}
		last, first = name, false
	}
	return false
}

// applyTo returns r with the query that the rules leave, and r itself if that is the same,
// or if a signature may cover the query. The path stays as the client spelled it.
func (q *queryRules) applyTo(r *http.Request) *http.Request {
	if q == nil {
		return r
	}
	query, changed := q.apply(r.URL.RawQuery)
	// A signature in the query that the rules drop does not matter to the operator.
	if !changed || !rfc9111.MayChangeQuery(r.Header, query) {
		return r
	}
	own, u := *r, *r.URL
	u.RawQuery, u.ForceQuery = query, false
	own.URL = &u
	if own.RequestURI != "" { // as a server received it
		own.RequestURI = withQuery(own.RequestURI, query)
	}
	return &own
}

// target returns a target, path and query, as the rules leave it.
func (q *queryRules) target(target string) string {
	_, query, asked := strings.Cut(target, "?")
	if q == nil || !asked {
		return target
	}
	if query, changed := q.apply(query); changed && rfc9111.MayChangeQuery(nil, query) {
		return withQuery(target, query)
	}
	return target
}

// withQuery returns a target with another query.
func withQuery(target, query string) string {
	path, _, _ := strings.Cut(target, "?")
	if query == "" {
		return path
	}
	return path + "?" + query
}

// Target returns the path and query under which the response to a request for target is
// stored: that of the key, with Options.Query applied. Use it for [Cache.Invalidate].
func (h *Handler) Target(target string) string { return h.query.target(target) }

// Apply returns r with the query that Options.Query leaves, and r itself if that is the
// same. ServeHTTP does this too. It is for code that keeps a request for later, and
// compares it with others.
func (h *Handler) Apply(r *http.Request) *http.Request { return h.query.applyTo(r) }

// storedTargets returns the targets under which responses to target may be stored.
func (h *Handler) storedTargets(host, target string) []string {
	if h.o.StoredTargets != nil {
		return h.o.StoredTargets(host, target)
	}
	if rewritten := h.query.target(target); rewritten != target {
		return []string{target, rewritten} // the first for requests with a signature
	}
	return []string{target}
}
