package responses

import (
	"net/http"
	"slices"

	"github.com/weir-go/weir/internal/rfc9111"
)

// many is the number of variants from which on the fields of a request are encoded once,
// and compared as text. Comparing fewer one by one costs less.
const many = 8

// find returns the newest complete variant with this proof for a request with fields h that no
// tag has outdated, or nil. It allocates nothing for values of usual length.
func (l *list) find(proof string, h http.Header) *Stored {
	if len(l.all) >= many {
		return l.findAmongMany(proof, h)
	}
	for _, r := range l.all {
		if r.Partial != nil || r.Proof != proof || r.outdated() {
			continue
		}
		if len(r.Vary) == 0 || rfc9111.Matches(r.Vary, r.Selected, h) {
			return r
		}
	}
	return nil
}

func (l *list) findAmongMany(proof string, h http.Header) *Stored {
	var text [512]byte
	selected, vary := text[:0], []string(nil)
	for _, r := range l.all {
		if len(r.Vary) > 0 && !slices.Equal(r.Vary, vary) {
			vary = r.Vary
			selected = rfc9111.AppendSelecting(text[:0], vary, h)
		}
		if r.Partial == nil && (len(r.Vary) == 0 || r.Selected == string(selected)) && r.Proof == proof && !r.outdated() {
			return r
		}
	}
	return nil
}

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
