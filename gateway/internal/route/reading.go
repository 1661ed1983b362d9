package route

import (
	"math"
	"slices"
	"strings"
)

// A Match selects the readings of a path that a Rule is compared with.
type Match int

// The kinds of Match.
const (
	Sent       Match = iota // the path as the client sent it
	Normalized              // and as an origin may interpret it
	Caseless                // likewise, without regard to case
)

// A reading is one way to interpret a path. Origins differ in which spellings they resolve,
// so every combination is a reading.
type reading uint8

const (
	slashes     reading = 1 << iota // %2F separates segments
	backslashes                     // so do a backslash and %5C
	params                          // ";" or %3B and the rest of its segment are not part of the path
	runs                            // several slashes are one
	dots                            // "." and ".." are resolved
	tails                           // dots and spaces at the end of a segment do not count
	ends                            // the path ends at %00, at a line break, at %3F and at %23
	everything  = 1<<iota - 1
)

// A loose index finds the rules that match more than the path as sent.
type loose struct {
	match   Match
	index   *Index
	numbers []int  // in the whole set, by the number in index
	all     []Rule // the whole set, with paths as this index has them
	depth   int    // of the path with the most segments
}

// newLoose returns the loose index of the rules with that match, or nil if there are none.
func newLoose(rules []Rule, m Match) *loose {
	x := &loose{match: m}
	var own []Rule
	for i, r := range rules {
		path, exact := strings.CutPrefix(r.Path, "=")
		if r.Path = x.fold((runs | dots).of(decoded(path), math.MaxInt)); exact {
			r.Path = "=" + r.Path
		}
		x.all = append(x.all, r)
		x.depth = max(x.depth, strings.Count(r.Path, "/"))
		if r.Match == m {
			own, x.numbers = append(own, r), append(x.numbers, i)
		}
	}
	if own == nil {
		return nil
	}
	x.index = newIndex(own)
	return x
}

func (x *loose) fold(path string) string {
	if x.match == Caseless {
		return strings.ToLower(path)
	}
	return path
}

// find returns the rule for a request. sent is the rule found for the path as sent. A rule
// of x wins over it if it matches a reading of the path, unless sent matches the same
// reading and is more specific: if readings lead to different rules, the rule that must not
// be evaded wins.
func (x *loose) find(sent int, host, path, method string) int {
	best, most := sent, weight{-1}
	host = strings.ToLower(bare(host))
	for p := range readings(path, x.depth+1) {
		p = x.fold(p)
		i := x.index.find(host, p, method)
		if i == None {
			continue
		}
		i = x.numbers[i]
		says := x.says(i, host, p, method)
		if sent != None && x.says(sent, host, p, method).cmp(says) >= 0 {
			continue
		}
		if says.cmp(most) > 0 {
			best, most = i, says
		}
	}
	return best
}

// A weight is how specific a rule is for a request: by host, whether its path is exact, the
// path's length, by method, and its position. The first is -1 if the rule does not match.
type weight [5]int

func (w weight) cmp(v weight) int { return slices.Compare(w[:], v[:]) }

// says returns the weight of rule i. host has no port and is in lower case.
func (x *loose) says(i int, host, path, method string) weight {
	r := x.all[i]
	onHost, onMethod := -1, 0
	if len(r.Hosts) == 0 {
		onHost = 0
	}
	for _, h := range r.Hosts {
		h = strings.ToLower(h)
		if suffix, ok := strings.CutPrefix(h, "*"); h == host {
			onHost = maxHost + 1
		} else if ok && len(host) > len(suffix) && strings.HasSuffix(host, suffix) {
			onHost = max(onHost, len(suffix))
		}
	}
	if slices.Contains(r.Methods, method) {
		onMethod = 1
	} else if len(r.Methods) > 0 {
		return weight{-1}
	}
	exact, onPath := 0, len(r.Path)
	if p, ok := strings.CutPrefix(r.Path, "="); ok {
		exact = 1
		if p != path {
			return weight{-1}
		}
	} else if r.Path != "/" && path != r.Path && !strings.HasPrefix(path, r.Path+"/") {
		return weight{-1}
	}
	return weight{onHost, exact, onPath, onMethod, -i}
}

// readings yields the ways in which origins may interpret a path, each without a trailing
// slash, and of no more segments than most. It may yield the same one twice.
func readings(path string, most int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		path, _, _ = strings.Cut(path, "#")
		if !strings.HasPrefix(path, "/") { // OPTIONS *
			return
		}
		path = decoded(path)
		if !combined(path, most, yield) || !strings.Contains(path, "%25") {
			return
		}
		// An origin may decode twice.
		combined(decoded(strings.ReplaceAll(path, "%25", "%")), most, yield)
	}
}

// combined yields all readings of a decoded path. It returns false if yield did.
func combined(path string, most int, yield func(string) bool) bool {
	occurs := occurring(path)
	for r := range reading(everything) + 1 {
		if r&^occurs == 0 && !yield(r.of(path, most)) {
			return false
		}
	}
	return true
}

// endings are what a path can end at, decoded as by decoded.
var endings = []string{"\x00", "\n", "\r", "%3F", "%23"}

// occurring returns the features of a path that have more than one interpretation.
func occurring(path string) reading {
	var r reading
	if strings.Contains(path, "%2F") {
		r |= slashes
	}
	if strings.Contains(path, "%5C") || strings.Contains(path, `\`) {
		r |= backslashes
	}
	if strings.Contains(path, ";") || strings.Contains(path, "%3B") {
		r |= params
	}
	for _, e := range endings {
		if strings.Contains(path, e) {
			r |= ends
		}
	}
	if last := path[len(path)-1]; last == '.' || last == ' ' || strings.Contains(path, "./") || strings.Contains(path, " /") ||
		r != 0 && strings.ContainsAny(path, ". ") {
		r |= tails
	}
	if r != 0 || strings.Contains(path, "//") {
		r |= runs
	}
	if r != 0 && strings.Contains(path, ".") || strings.Contains(path, "/.") {
		r |= dots
	}
	return r
}

// of returns a decoded path as r interprets it, and of that the first segments, at most as
// many as given: there are many readings, and a path can be long.
func (r reading) of(path string, most int) string {
	if r == 0 && (path == "/" || !strings.HasSuffix(path, "/")) && path != "" {
		return path
	}
	if r&ends != 0 {
		for _, e := range endings {
			path, _, _ = strings.Cut(path, e)
		}
	}
	if r&slashes != 0 {
		path = strings.ReplaceAll(path, "%2F", "/")
	}
	if r&backslashes != 0 {
		path = strings.ReplaceAll(strings.ReplaceAll(path, "%5C", "/"), `\`, "/")
	}
	var kept []string
	deeper := 0
	for s := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if r&params != 0 {
			s, _, _ = strings.Cut(s, ";")
			if strings.IndexByte(s, '%') >= 0 {
				s, _, _ = strings.Cut(s, "%3B")
			}
		}
		if r&tails != 0 {
			s = untailed(s)
		}
		switch {
		case r&runs != 0 && s == "", r&dots != 0 && s == ".":
		case r&dots != 0 && s == "..":
			if deeper > 0 {
				deeper--
			} else {
				kept = kept[:max(len(kept)-1, 0)]
			}
		case len(kept) == most && r&dots == 0:
			return "/" + strings.Join(kept, "/")
		case len(kept) == most:
			deeper++
		default:
			kept = append(kept, s)
		}
	}
	for deeper == 0 && len(kept) > 0 && kept[len(kept)-1] == "" {
		kept = kept[:len(kept)-1]
	}
	return "/" + strings.Join(kept, "/")
}

// untailed returns a segment without dots and spaces at its end, as Windows names files.
func untailed(s string) string {
	if t := strings.TrimRight(s, " "); t == "." || t == ".." {
		return t
	}
	return strings.TrimRight(s, ". ")
}

// decoded decodes the escapes of a path once, except those of characters with a meaning in
// paths: / \ ; % ? #. It writes those in capitals.
func decoded(path string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c != '%' || i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]) {
			b.WriteByte(c)
			continue
		}
		if c = unhex(path[i+1])<<4 | unhex(path[i+2]); strings.IndexByte(`/\;%?#`, c) >= 0 {
			b.WriteString(strings.ToUpper(path[i : i+3]))
		} else {
			b.WriteByte(c)
		}
		i += 2
	}
	return b.String()
}
