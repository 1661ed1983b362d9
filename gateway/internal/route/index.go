// Package route finds the route of a request: an index over hosts, paths and
// methods, built once, then read-only.
package route

import "strings"

// None is what Find returns when no rule matches.
const None = -1

// A Rule holds the conditions of one route, see gateway.Route. Its hosts and
// its path are valid ([ValidHost], [ValidPath]).
type Rule struct {
	Hosts   []string // empty: every host
	Path    string   // with "=" before it: exact; empty: "/"
	Methods []string // empty: every method
	Match   Match    // the readings of a request's path that it is compared with
}

// An Index finds rules. It is safe for concurrent use.
type Index struct {
	hosts map[string]*tree // by name, in lower case
	below map[string]*tree // for "*.example", by "example"
	every *tree            // for the rules without a host
	loose []*loose         // for the rules that match more than the path as sent
}

// New returns an Index of rules.
func New(rules []Rule) *Index {
	x := newIndex(rules)
	for _, m := range []Match{Normalized, Caseless} {
		if l := newLoose(rules, m); l != nil {
			x.loose = append(x.loose, l)
		}
	}
	return x
}

// newIndex returns an Index that compares paths as sent.
func newIndex(rules []Rule) *Index {
	x := &Index{hosts: map[string]*tree{}, below: map[string]*tree{}, every: newTree()}
	for i, r := range rules {
		if len(r.Hosts) == 0 {
			x.every.add(r, i)
		}
		for _, h := range r.Hosts {
			h = strings.ToLower(h)
			if suffix, ok := strings.CutPrefix(h, "*."); ok {
				grow(x.below, suffix).add(r, i)
			} else {
				grow(x.hosts, h).add(r, i)
			}
		}
	}
	return x
}

func grow(m map[string]*tree, key string) *tree {
	if m[key] == nil {
		m[key] = newTree()
	}
	return m[key]
}

// Find returns the number of the most specific rule that matches a request, or None. host
// is as the client sent it, path is the escaped path. It allocates only if the path has
// escapes or if some rules compare other readings of it.
func (x *Index) Find(host, path, method string) int {
	i := x.find(host, plain(path), method)
	for _, l := range x.loose {
		i = l.find(i, host, path, method)
	}
	return i
}

// find compares the path, which is in normal form, as sent.
func (x *Index) find(host, path, method string) int {
	var buf [maxHost + 1]byte
	if name := bare(host); len(name) <= maxHost {
		h := lower(name, &buf)
		if t := x.hosts[string(h)]; t != nil {
			if i := t.find(path, method); i != None {
				return i
			}
		}
		if len(x.below) > 0 {
			if i := x.findBelow(h, path, method); i != None {
				return i
			}
		}
	}
	return x.every.find(path, method)
}

// findBelow searches the wildcards that cover h, the longest first.
func (x *Index) findBelow(h []byte, path, method string) int {
	for i := 1; i < len(h); i++ {
		if h[i] != '.' {
			continue
		}
		if t := x.below[string(h[i+1:])]; t != nil {
			if n := t.find(path, method); n != None {
				return n
			}
		}
	}
	return None
}

// A tree holds the rules of one host.
type tree struct {
	exact map[string]*leaf
	root  node
}

// A node is a place where a prefix may end: after a segment of the path.
type node struct {
	next  map[string]*node // by the segment that follows
	here  leaf             // "/api", at the node of api
	slash leaf             // "/api/", at the same node; "/" at the root
}

// A leaf holds the rules of one path.
type leaf struct {
	named map[string]int // by method
	any   int            // the rule for every method, plus 1; 0 is none
}

func newTree() *tree { return &tree{exact: map[string]*leaf{}} }

func (t *tree) add(r Rule, i int) {
	path := r.Path
	if path == "" {
		path = "/"
	}
	if p, ok := strings.CutPrefix(path, "="); ok {
		p = plain(p)
		if t.exact[p] == nil {
			t.exact[p] = &leaf{}
		}
		t.exact[p].add(r.Methods, i)
		return
	}
	n, rest := &t.root, plain(path)
	for rest != "" && rest != "/" {
		var segment string
		segment, rest = cut(rest)
		if n.next == nil {
			n.next = map[string]*node{}
		}
		if n.next[segment] == nil {
			n.next[segment] = &node{}
		}
		n = n.next[segment]
	}
	if rest == "/" {
		n.slash.add(r.Methods, i)
	} else {
		n.here.add(r.Methods, i)
	}
}

// add adds a rule; of equal rules it keeps the first.
func (l *leaf) add(methods []string, i int) {
	if len(methods) == 0 && l.any == 0 {
		l.any = i + 1
	}
	for _, m := range methods {
		if l.named == nil {
			l.named = map[string]int{}
		}
		if _, ok := l.named[m]; !ok {
			l.named[m] = i
		}
	}
}

func (l *leaf) find(method string) int {
	if i, ok := l.named[method]; ok {
		return i
	}
	return l.any - 1
}

// find returns the rule for the path, which is in normal form. It descends segment by
// segment as far as there are rules; a deeper rule is more specific.
func (t *tree) find(path, method string) int {
	if !strings.HasPrefix(path, "/") { // OPTIONS *
		return t.root.slash.find(method)
	}
	if l := t.exact[path]; l != nil {
		if i := l.find(method); i != None {
			return i
		}
	}
	best, n, rest := None, &t.root, path
	for {
		if i := n.here.find(method); i != None {
			best = i
		}
		if rest == "" {
			return best
		}
		if i := n.slash.find(method); i != None {
			best = i
		}
		var segment string
		segment, rest = cut(rest)
		if n = n.next[segment]; n == nil {
			return best
		}
	}
}

// cut takes the first segment off a path that begins with a slash; the rest also begins
// with one, or is empty.
func cut(path string) (segment, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}
