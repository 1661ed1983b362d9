package responses

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/rfc9111"
)

// A Stored is a response and the decisions made about it. It belongs to the store
// from Put on. Put replaces its strings (Header with names and values, Selected,
// Vary, Tags) with copies, so no other goroutine may read or keep these fields
// while Put runs. After Put, only the fields documented as changing change.
type Stored struct {
	rfc9111.Response
	Selected string        // rfc9111.Selecting(Vary, its request)
	Stale    string        // likewise for StaleVary; empty if that is
	Names    Names         // of the fields of its request
	plain    rfc9111.Kinds // rfc9111.PlainKinds, since Put
	// Asked is its request, for Put alone. nil: Vary is complete.
	Asked  *rfc9111.Request
	Proof  string      // of the body of its request, see Key.Body; the other half of the digest
	Header http.Header // end-to-end fields, Age and Date as received; never nil
	Body   []byte      // a separate allocation: its capacity counts
	// Partial has what is known of the body, instead of Body, if that is not all of it.
	// It is nil for a complete response. The disk has complete ones only.
	Partial *Partial

	// Events: it is an event stream. Pace, if it is not nil, is when the parts of
	// Body arrived. Like Body, it is not modified.
	Events bool
	// Room is the number of responses that the key may have, 0 for the store's default.
	Room  uint16
	score uint32 // see leastUsed; guarded by Store.mu
	Pace  []Step
	// Cost is what the call that fetched it has cost, 0 if that is not counted.
	Cost int64

	// Extra is the number of bytes that Served will hold. They count from Put on.
	Extra int64
	// Rules stands for the policy that stored it. 0: it is not for the disk.
	Rules uint64
	// Large has the body, which is then not in Body, of a response that is read from
	// the disk while it is served. Such a response is not stored here.
	Large *disk.Entry

	// Marked is set by a soft purge: the response counts as stale, but keeps its
	// stale-if-error window.
	Marked atomic.Bool
	found  atomic.Bool // since the last eviction of another variant, see leastUsed
	// Refresh is the instant (in ns, of the caller's clock) from which a refresh
	// ahead may start. It changes by compare-and-swap, which elects the caller
	// that starts it.
	Refresh atomic.Int64
	// Failing records failed calls that were to replace the response; nil means
	// none. It changes by compare-and-swap.
	Failing atomic.Pointer[Failing]
	// Served belongs to the code that serves the response: what it prepared.
	Served atomic.Pointer[any]
	// Hits counts how often the response was served.
	Hits atomic.Uint64

	// In a fleet, Root is the fence of the URL under which the response was
	// fetched: the response is out of date once the URL has been purged with a
	// higher fence. A nonzero Place identifies which of the URL's variants the
	// response is. Fence is the response's own fence; 0 if the fleet does not
	// have the response.
	Root, Place uint64
	Fence       atomic.Uint64
	// Checked is the instant (in ns, of the caller's clock) at which the fleet
	// was last known to have nothing newer. [Store.Supersede] makes it negative.
	Checked atomic.Int64

	// Put writes these fields before the response can be found.
	apart half   // under which it is stored
	order uint64 // it was stored after all responses with a lower one
	tags  []*tag
	seq   uint64 // the number of invalidations by tag when its fetch began
	size  int64  // the number of bytes it counts for
}

// A Partial is an incomplete body.
type Partial struct {
	Parts rfc9111.Parts
	Total int64 // the length of the whole
}

// partialSize is the size of a Partial in memory.
const partialSize = 32

// A Step is a part of a body: the bytes up to Until that arrived at At, counted from
// the arrival of the first.
type Step struct {
	At    time.Duration
	Until int64
}

// stepSize is the size of a Step in memory.
const stepSize = 16

// Overhead is the number of bytes counted for a response in addition to its
// content: the Stored itself, the list that it is in, and its share of the
// underlying cache (node, table and sketch).
const Overhead = 752

// Size returns the size of the body, or of what is known of it.
func (r *Stored) Size() int64 {
	switch {
	case r.Large != nil:
		return r.Large.Size
	case r.Partial != nil:
		return r.Partial.Parts.Size()
	}
	return int64(len(r.Body))
}

// At returns what r may be used for at now, for the request q. The stale windows of the
// policy are only for requests in which all that counts is equal.
func (r *Stored) At(now time.Time, q rfc9111.Request) rfc9111.Standing {
	s := r.Response.At(now, q)
	if r.StaleVary == "" || !s.SWR && !s.IfError && !s.Offline || rfc9111.MatchesOne(r.StaleVary, r.Stale, &q) {
		return s
	}
	s.SWR = s.SWR && r.OwnStaleWhileRevalidate
	s.IfError = s.IfError && r.OwnStaleIfError
	s.Offline = false
	return s
}

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

// soften marks r if one of its tags was soft-invalidated after its fetch began.
func (r *Stored) soften() {
	for _, t := range r.tags {
		if t.soft.Load() > r.seq && !r.Marked.Load() {
			r.Marked.Store(true)
		}
	}
}

// standsFor reports whether r replaces v, which was stored before: both match the
// same requests, or r matches all of those with its body. Parts do not replace a
// complete response.
func (r *Stored) standsFor(v *Stored) bool {
	return r.covers(v) && (r.Partial == nil || v.Partial != nil)
}

// covers reports whether r is for all requests that v is for.
func (r *Stored) covers(v *Stored) bool {
	return r.Proof == v.Proof && (len(r.Vary) == 0 || r.Selected == v.Selected && slices.Equal(r.Vary, v.Vary))
}

// own replaces r's strings with copies, all cut from one string, so that r does
// not pin the buffers of the request or the response. It also sets r's size. k is
// r's key.
func (r *Stored) own(k Key) {
	text, values := len(r.Selected)+len(r.Stale)+len(r.StaleVary)+len(r.Proof), 0
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
	r.plain = rfc9111.PlainKinds(r.Vary, r.Selected)
	r.Header, r.Selected, r.Proof = header, c.cut(r.Selected), c.cut(r.Proof)
	r.Stale, r.StaleVary = c.cut(r.Stale), c.cut(r.StaleVary)
	vary := make([]string, len(r.Vary))
	for i, name := range r.Vary {
		vary[i] = c.cut(name)
	}
	r.Vary = vary

	r.size = Overhead + k.size() + max(r.Extra, 0) +
		allocated(cap(r.Body)) + allocated(stepSize*cap(r.Pace)) + allocated(text) +
		allocated(stringSize*(values+len(vary))+mallocHeader) + mapSize(len(header))
	if r.Partial != nil {
		r.size += partialSize + allocated(partSize*cap(r.Partial.Parts)+mallocHeader)
		for _, p := range r.Partial.Parts {
			r.size += allocated(cap(p.Bytes))
		}
	}
	for _, name := range r.Tags {
		r.size += tagSize(name)
	}
}

// own returns a copy of k whose parts are cut from one new string.
func (k Key) own() Key {
	c := newCutter(k.length())
	return Key{Scheme: c.cut(k.Scheme), Host: c.cut(k.Host), Target: c.cut(k.Target), Body: c.cut(k.Body), apart: k.apart}
}

func (k Key) size() int64 {
	return allocated(k.length())
}

func (k Key) length() int { return len(k.Scheme) + len(k.Host) + len(k.Target) + len(k.Body) }

// A cutter copies strings into one string.
type cutter struct{ b strings.Builder }

// newCutter returns a cutter for strings with a total of n bytes.
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
	partSize     = 32 // of a rfc9111.Part
	stringSize   = 16
	mallocHeader = 8 // precedes an allocation with pointers, unless it is small
)

// mapSize returns the size of a map of n header fields: groups of 8 slots with a
// control word each, 7/8 full, and a power of two of them.
func mapSize(n int) int64 {
	const fixed, slot, group = 48, 2*stringSize + 8, 8
	if n <= group {
		return fixed + allocated(8+group*slot)
	}
	groups := 2
	for groups*7 < n {
		groups *= 2
	}
	const table = 96 // including the directory
	return fixed + table + allocated(groups*(8+group*slot)+mallocHeader)
}

// allocated returns the real size of an allocation of n bytes: the allocator
// rounds up to one of its size classes, and to whole pages above them.
func allocated(n int) int64 {
	const page = 8192
	classes := sizeClasses()
	if n > classes[len(classes)-1] {
		return (int64(n) + page - 1) / page * page
	}
	i, _ := slices.BinarySearch(classes, n)
	return int64(classes[i])
}

// sizeClasses finds the allocator's size classes: it repeatedly allocates one
// byte more than the last class.
var sizeClasses = sync.OnceValue(func() []int {
	const biggest = 32 << 10
	classes := []int{0}
	for n := 0; n < biggest; {
		n = cap(append([]byte(nil), make([]byte, n+1)...))
		classes = append(classes, n)
	}
	return classes
})
