package responses

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/rfc9111"
)

// A Stored is a response and what was decided about it. It belongs to the store
// from Put on, which replaces its texts (Header with names and values, Selected,
// Vary, Tags) by copies of its own: nobody else may read or keep these fields
// while Put runs. After Put nothing in it changes but the fields that say so.
type Stored struct {
	rfc9111.Response
	Selected string      // rfc9111.Selecting(Vary, request fields)
	Header   http.Header // end-to-end fields, Age and Date as they came; never nil
	Body     []byte      // an allocation of its own: what counts is its capacity

	// Extra is how many bytes Served will hold. They count from Put on.
	Extra int64

	// Marked is set by a soft purge: the response counts as stale, and keeps its
	// stale-if-error window.
	Marked atomic.Bool
	// Refresh is the instant (in ns, of the caller's clock) from which a refresh
	// ahead may start. It moves by compare-and-swap, which elects who starts it.
	Refresh atomic.Int64
	// Failing is what is remembered of calls that were to replace it and failed, nil
	// for nothing. It moves by compare-and-swap.
	Failing atomic.Pointer[Failing]
	// Served is for the one who serves it: what it made ready.
	Served atomic.Pointer[any]
	// Hits counts how often it was served.
	Hits atomic.Uint64

	// Root is, in a fleet, the fence of its URL under which it was fetched: it is
	// out of date once the URL has been purged with a higher one. Place is not 0
	// if it is one of the URL's variants, and tells which. Fence is its own; 0 if
	// the fleet does not have it.
	Root, Place uint64
	Fence       atomic.Uint64
	// Checked is the instant (in ns, of the caller's clock) at which the fleet was
	// last known to have nothing newer. [Store.Supersede] makes it negative.
	Checked atomic.Int64

	// These are written by Put, before the response can be found.
	tags []*tag
	seq  uint64 // how many invalidations by tag there were when its fetch began
	size int64  // what it counts for
}

// Overhead is what is counted for a response beside its bytes: the Stored
// itself, the list that it is in, and its part of the cache below (node, table
// and sketch).
const Overhead = 608

// outdated reports whether one of r's tags was invalidated after its fetch
// began.
func (r *Stored) outdated() bool {
	for _, t := range r.tags {
		if t.hard.Load() > r.seq {
			return true
		}
	}
	return false
}

// soften marks r if one of its tags was invalidated softly after its fetch
// began.
func (r *Stored) soften() {
	for _, t := range r.tags {
		if t.soft.Load() > r.seq && !r.Marked.Load() {
			r.Marked.Store(true)
		}
	}
}

// standsFor reports whether r stands for v, which was stored before: they answer
// the same requests, or r answers all.
func (r *Stored) standsFor(v *Stored) bool {
	return len(r.Vary) == 0 || r.Selected == v.Selected && slices.Equal(r.Vary, v.Vary)
}

// own gives r texts of its own, all in one string, so that it pins nothing that
// the request or the response came in, and sets its size. k is its key.
func (r *Stored) own(k Key) {
	text, values := len(r.Selected), 0
	for name, vs := range r.Header {
		text, values = text+len(name), values+len(vs)
		for _, v := range vs {
			text += len(v)
		}
	}
	for _, name := range r.Vary {
		text += len(name)
	}

	c := newCutter(text)
	header, all := make(http.Header, len(r.Header)), make([]string, 0, values)
	for name, vs := range r.Header {
		first := len(all)
		for _, v := range vs {
			all = append(all, c.cut(v))
		}
		header[c.cut(name)] = all[first:len(all):len(all)]
	}
	r.Header, r.Selected = header, c.cut(r.Selected)
	vary := make([]string, len(r.Vary))
	for i, name := range r.Vary {
		vary[i] = c.cut(name)
	}
	r.Vary = vary

	r.size = Overhead + k.size() + max(r.Extra, 0) +
		allocated(cap(r.Body)) + allocated(text) +
		allocated(stringSize*(values+len(vary))+mallocHeader) + mapSize(len(header))
	for _, name := range r.Tags {
		r.size += tagSize(name)
	}
}

// own returns k with texts of its own, in one string.
func (k Key) own() Key {
	c := newCutter(len(k.Scheme) + len(k.Host) + len(k.Target))
	return Key{Scheme: c.cut(k.Scheme), Host: c.cut(k.Host), Target: c.cut(k.Target)}
}

func (k Key) size() int64 {
	return allocated(len(k.Scheme) + len(k.Host) + len(k.Target))
}

// A cutter copies strings into one.
type cutter struct{ b strings.Builder }

// newCutter returns a cutter for strings of n bytes together.
func newCutter(n int) *cutter {
	c := &cutter{}
	c.b.Grow(n)
	return c
}

// cut returns a copy of s.
func (c *cutter) cut(s string) string {
	first := c.b.Len()
	c.b.WriteString(s)
	return c.b.String()[first:]
}

const (
	stringSize   = 16
	mallocHeader = 8 // before an allocation with pointers, if it is not small
)

// mapSize is what a map of n header fields takes: groups of 8 slots with a word
// of their own, filled by 7 in 8, and their number is a power of two.
func mapSize(n int) int64 {
	const fixed, slot, group = 48, 2*stringSize + 8, 8
	if n <= group {
		return fixed + allocated(8+group*slot)
	}
	groups := 2
	for groups*7 < n {
		groups *= 2
	}
	const table = 96 // with the directory
	return fixed + table + allocated(groups*(8+group*slot)+mallocHeader)
}

// allocated is what an allocation of n bytes takes: the allocator rounds up to
// one of its classes of sizes, and to whole pages above them.
func allocated(n int) int64 {
	const page = 8192
	classes := sizeClasses()
	if n > classes[len(classes)-1] {
		return (int64(n) + page - 1) / page * page
	}
	i, _ := slices.BinarySearch(classes, n)
	return int64(classes[i])
}

// sizeClasses finds the allocator's classes by asking for each size that is one
// above the class before.
var sizeClasses = sync.OnceValue(func() []int {
	const biggest = 32 << 10
	classes := []int{0}
	for n := 0; n < biggest; {
		n = cap(append([]byte(nil), make([]byte, n+1)...))
		classes = append(classes, n)
	}
	return classes
})
