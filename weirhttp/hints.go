package weirhttp

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/internal/opaque"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

const (
	// maxHints is the maximum number of keys with a sharingHint.
	maxHints = 16384
	// maxHintVary is the memory, in bytes, that the Vary of one hint may take. It is
	// enough for some 15 fields. Without a longer one, requests with different values
	// may wait for each other, and are released.
	maxHintVary = 512
)

// A sharingHint is what earlier responses of a key say about sharing the next one
// (H7). It is never changed, only replaced.
type sharingHint struct {
	soloUntil time.Time           // responses cannot be shared: requests do not wait for each other
	admits    rfc9111.Credentials // requests with these may join (H3)
	// Requests with these may not join, even if a stored response allows it.
	denies      rfc9111.Credentials
	deniesUntil time.Time
	vary        []string // the Vary of its responses, at most maxHintVary
	// Until largeUntil, responses to requests with all of largeWith have more bytes than
	// clients that read at different rates can share.
	largeUntil time.Time
	largeWith  rfc9111.Credentials
}

// sharingHints are the hints of a Cache. They do not count towards its bytes, but are
// bounded as well: there are at most maxHints, each of a fixed size and maxHintVary.
//
// A key is known by its digest alone, because clients choose how long it is. Two keys
// with one digest share a hint, which is then wrong for one of them, as each hint is
// once the origin responds differently. That costs a wait or a call: a hint only decides
// which requests wait for each other. Which of them may use a response, its headers decide.
type sharingHints struct {
	seed     maphash.Seed
	byDigest opaque.Cache[uint64, *sharingHint]
}

func newSharingHints() *sharingHints {
	return &sharingHints{maphash.MakeSeed(), otter.Must(&otter.Options[uint64, *sharingHint]{MaximumSize: maxHints})}
}

var noHint sharingHint

func (h *sharingHints) digest(key responses.Key) uint64 { return maphash.Comparable(h.seed, key) }

// of returns what is known about key, never nil.
func (h *sharingHints) of(key responses.Key) *sharingHint {
	if v, ok := h.byDigest.GetIfPresent(h.digest(key)); ok {
		return v
	}
	return &noHint
}

// learn records what the head of a response says about sharing its key. with are the
// credentials of its request. A flight calls learn before it releases any request, so
// that those requests find the hint. learn reports whether the fields have changed that
// select responses: then the flights that wait belong to other groups, see Cache.regroup.
func (h *sharingHints) learn(key responses.Key, r *rfc9111.Response, with rfc9111.Credentials, now time.Time, relearn time.Duration) (varies bool) {
	if aboutClient(r) {
		return false
	}
	old := h.of(key)
	next := sharingHint{admits: old.admits, vary: old.vary, largeUntil: old.largeUntil, largeWith: old.largeWith}
	switch {
	case !r.Shared:
		if with != 0 {
			next = old.denying(r, with, now, relearn)
			break
		}
		next.soloUntil = now.Add(relearn)
		next.denies, next.deniesUntil = old.denies, old.deniesUntil
	case rfc9111.Strict(r.Vary):
		next.denies, next.deniesUntil = old.denies&^with, old.deniesUntil
		next.vary = old.varyOf(r)
	default:
		next.admits = r.Admits
		next.vary = old.varyOf(r)
	}
	if old == &noHint && next.empty() {
		return false
	}
	h.byDigest.Set(h.digest(key), &next)
	return !slices.Equal(old.vary, next.vary)
}

// denying returns h after r, an unshareable response to a request with credentials. It
// may be about these, so requests without any may still share their response.
func (h sharingHint) denying(r *rfc9111.Response, with rfc9111.Credentials, now time.Time, relearn time.Duration) sharingHint {
	if !now.Before(h.deniesUntil) {
		h.denies = 0
	}
	switch r.Reason {
	case rfc9111.ReasonAuthorization, rfc9111.ReasonCookie:
		h.denies = ^r.Admits & (rfc9111.Authorization | rfc9111.Cookie)
		h.admits &^= h.denies
	default:
		h.denies |= with
	}
	h.deniesUntil = now.Add(relearn)
	return h
}

func (h sharingHint) empty() bool {
	return h.soloUntil.IsZero() && h.admits == 0 && h.denies == 0 && len(h.vary) == 0 && h.largeUntil.IsZero()
}

// large reports whether the response to a request with these credentials is expected to
// be larger than Options.MaxObject.
func (h *sharingHint) large(with rfc9111.Credentials, now time.Time) bool {
	return now.Before(h.largeUntil) && with&h.largeWith == h.largeWith
}

// measured records whether the body of r, a response to a request with these
// credentials, is larger than Options.MaxObject. Unlike what learn records, the headers
// of a response do not revoke that: they say nothing about a body of unknown length.
// Requests that do not wait for each other measure it again, so no wait is needed to
// notice that bodies are small again.
func (h *sharingHints) measured(key responses.Key, r *rfc9111.Response, with rfc9111.Credentials, large bool, now time.Time, relearn time.Duration) {
	old := h.of(key)
	known := now.Before(old.largeUntil)
	if aboutClient(r) || !large && !(known && with == old.largeWith) {
		return
	}
	next := *old
	next.largeUntil, next.largeWith = time.Time{}, 0
	if large {
		next.largeUntil, next.largeWith = now.Add(relearn), with
		if known {
			next.largeWith &= old.largeWith
		}
	}
	h.byDigest.Set(h.digest(key), &next)
}

// aboutClient reports whether r depends on what the client said, which may have made it
// up, so that r is no hint for other requests.
func aboutClient(r *rfc9111.Response) bool {
	return rfc9111.AboutOneRequest(r.Status) || r.Reason == rfc9111.ReasonRequestNoStore || r.Reason == rfc9111.ReasonOtherForm
}

// varyOf returns the Vary of r for a hint that replaces h.
func (h *sharingHint) varyOf(r *rfc9111.Response) []string {
	if slices.Equal(h.vary, r.Vary) {
		return h.vary
	}
	size := 0
	for _, name := range r.Vary {
		size += len(name) + 16 // with the string's header
	}
	if size > maxHintVary {
		return nil
	}
	vary := make([]string, len(r.Vary))
	for i, name := range r.Vary {
		vary[i] = strings.Clone(name) // or it would pin the header of the response
	}
	return vary
}
