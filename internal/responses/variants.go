package responses

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/rfc9111"
)

// many is the number of variants from which on the fields of a request are encoded once,
// and compared as text. Comparing fewer one by one costs less.
const many = 8

// find returns the newest variant with this proof for the request q that no tag has
// outdated, or nil; with parts, also an incomplete one. fields are those by which responses
// of the URL vary. A response for requests without any of the kinds skip is not for q. find
// allocates nothing for values of usual length.
func (l *list) find(proof string, q *rfc9111.Request, parts bool, fields []string, skip rfc9111.Kinds) *Stored {
	if len(l.all) >= many {
		return l.findAmongMany(proof, q, parts, fields)
	}
	for _, r := range l.all {
		if r.Partial != nil && !parts || r.Proof != proof || r.outdated() || r.plain != 0 && r.plain == skip {
			continue
		}
		// The first test is the second one for the usual request, and takes less.
		if (r.plain != 0 && q.None(r.plain) || len(r.Vary) == 0 || rfc9111.Matches(r.Vary, r.Selected, q)) && r.fits(fields, q) {
			return r
		}
	}
	return nil
}

// marked marks r, which may be nil, if it is one of several, and returns it.
func (l *list) marked(r *Stored) *Stored {
	if r != nil {
		r.soften()
		if len(l.all) > 1 {
			r.mark()
		}
	}
	return r
}

func (l *list) findAmongMany(proof string, q *rfc9111.Request, parts bool, fields []string) *Stored {
	var text [512]byte
	selected, vary := text[:0], []string(nil)
	for _, r := range l.all {
		if len(r.Vary) > 0 && !slices.Equal(r.Vary, vary) {
			vary = r.Vary
			selected = rfc9111.AppendSelecting(text[:0], vary, q)
		}
		if (parts || r.Partial == nil) && (len(r.Vary) == 0 || r.Selected == string(selected)) && r.Proof == proof && !r.outdated() && r.fits(fields, q) {
			return r
		}
	}
	return nil
}

// maxUnion is the number of names by which the responses of one URL may vary. A response
// without Vary is not stored beside responses that vary by more.
const maxUnion = 16

// completes lets r, a response that is about to be stored under k, vary by all fields by
// which others of k do: a server may forget Vary where the field is absent (RFC 9111
// section 4.1). It reports false if these are too many.
func (r *Stored) completes(sp *space, k Key) bool {
	if r.Asked == nil {
		return true
	}
	names := r.Vary
	add := func(vary []string) {
		for _, name := range vary {
			if isField(name) && !slices.Contains(names, name) {
				names = append(slices.Clip(names), name)
			}
		}
	}
	for _, v := range sp.peek(k).all {
		add(v.Vary)
	}
	if f := sp.family(k); f != nil {
		add(*f.fields.Load())
	}
	if len(names) > len(r.Vary) {
		if fieldsOf(names) > maxUnion {
			return false
		}
		slices.Sort(names)
		r.Vary, r.Selected = names, rfc9111.Selecting(names, r.Asked)
	}
	return true
}

// union returns the fields by which one of all varies, if another one does not.
func union(all []*Stored) []string {
	var names []string
	for _, r := range all {
		for _, name := range r.Vary {
			if isField(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if !slices.ContainsFunc(all, func(r *Stored) bool { return fieldsOf(r.Vary) < len(names) }) {
		return nil
	}
	return names
}

// fits reports whether r, which matches q by its own Vary, does so by all fields by which
// responses of its URL vary. If r was stored before it was known that a field matters, only
// its absence is known.
func (r *Stored) fits(fields []string, q *rfc9111.Request) bool {
	for _, name := range fields {
		if !slices.Contains(r.Vary, name) && (len(q.Fields[name]) > 0 || r.Names.May(name)) {
			return false
		}
	}
	return true
}

// fieldsOf returns how many names of a Vary are fields.
func fieldsOf(vary []string) int {
	n := 0
	for _, name := range vary {
		if isField(name) {
			n++
		}
	}
	return n
}

// Names are the names of a request's fields, as a Bloom filter with one hash.
type Names [2]uint64

// NamesOf returns the names of the fields in h.
func NamesOf(h http.Header) (n Names) {
	for name, lines := range h {
		if len(lines) > 0 {
			i := nameHash(name)
			n[i/64] |= 1 << (i % 64)
		}
	}
	return n
}

// May reports whether name may be one of n.
func (n Names) May(name string) bool {
	i := nameHash(name)
	return n[i/64]&(1<<(i%64)) != 0
}

// nameHash is FNV-1a, folded to 7 bits.
func nameHash(name string) uint32 {
	sum := uint32(2166136261)
	for i := range len(name) {
		sum = (sum ^ uint32(name[i])) * 16777619
	}
	return (sum ^ sum>>7 ^ sum>>14 ^ sum>>21) % 128
}

// isField reports whether a name of a Vary is that of a field.
func isField(name string) bool { return !strings.Contains(name, ":") }

// mark records that r was found. It writes only if that is news, because other
// goroutines read the same memory.
func (r *Stored) mark() {
	if !r.found.Load() {
		r.found.Store(true)
	}
}

// leastUsed returns the position in l of the variant to evict; it is never the first,
// which is new. A variant scores once for each eviction since the last of which it was
// found, and loses its part of the list's length, so that one that is no longer used
// goes in the end. Of several with the lowest score, the one stored first is evicted. So
// a client that sends many values evicts its own responses, and not those that others
// use. Store.mu must be held.
func (l *list) leastUsed() int {
	least, at := uint32(0), len(l.all)-1
	for i := len(l.all) - 1; i > 0; i-- {
		score := l.all[i].pass(uint32(len(l.all))) //nolint:gosec // bounded by Stored.Room
		if i == len(l.all)-1 || score < least {
			least, at = score, i
		}
	}
	return at
}

// pass returns r's score, in parts of 256, after an eviction among n variants.
func (r *Stored) pass(n uint32) uint32 {
	const one = 256
	r.score -= (r.score + n - 1) / n
	if r.found.Load() {
		r.found.Store(false)
		r.score += one
	}
	return r.score
}
