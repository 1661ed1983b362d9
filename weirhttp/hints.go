package weirhttp

import (
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// maxHints is the maximum number of keys with a sharingHint.
const maxHints = 16384

// A sharingHint is what earlier responses of a key say about sharing the next one
// (H7). It is never changed, only replaced.
type sharingHint struct {
	soloUntil  time.Time           // responses cannot be shared: requests do not wait for each other
	alikeUntil time.Time           // responses are shared among alike requests only: only these wait for each other
	admits     rfc9111.Credentials // requests with these may join (H3)
	// Requests with these may not join, even if a stored response allows it.
	denies      rfc9111.Credentials
	deniesUntil time.Time
	vary        []string // the Vary of its responses
}

// sharingHints are the hints of a Cache. They do not count towards its bytes: there
// are at most maxHints, each about as long as a URL.
type sharingHints struct {
	byKey *otter.Cache[responses.Key, *sharingHint]
}

func newSharingHints() *sharingHints {
	return &sharingHints{otter.Must(&otter.Options[responses.Key, *sharingHint]{MaximumSize: maxHints})}
}

var noHint sharingHint

// of returns what is known about key, never nil.
func (h *sharingHints) of(key responses.Key) *sharingHint {
	if v, ok := h.byKey.GetIfPresent(key); ok {
		return v
	}
	return &noHint
}

// learn records what the head of a response says about sharing its key. A flight
// calls it before it releases any request, so that those requests find the hint.
func (h *sharingHints) learn(key responses.Key, r *rfc9111.Response, now time.Time, relearn time.Duration) {
	if r.Status == http.StatusLoopDetected {
		return // it depends on the path of one request, which a client may have made up
	}
	old := h.of(key)
	next := sharingHint{admits: old.admits, vary: old.vary}
	switch r.Reason {
	case rfc9111.ReasonRequestNoStore:
		return // the client said so, not the origin
	case rfc9111.ReasonAuthorization, rfc9111.ReasonCookie:
		// The credentials of the client make it unshareable. Requests without any may
		// share their response.
		next = *old
		next.denies = ^r.Admits & (rfc9111.Authorization | rfc9111.Cookie)
		next.deniesUntil = now.Add(relearn)
		next.admits &^= next.denies
		h.byKey.Set(cloned(key), &next)
		return
	}
	switch r.Sharing {
	case rfc9111.Nobody:
		next.soloUntil = now.Add(relearn)
	case rfc9111.Alike:
		next.alikeUntil = now.Add(relearn)
	case rfc9111.Anyone:
		next.admits = r.Admits
	}
	if r.Sharing != rfc9111.Nobody {
		next.vary = r.Vary
	}
	if old == &noHint && next.empty() {
		return
	}
	h.byKey.Set(cloned(key), &next)
}

func (h sharingHint) empty() bool {
	return h.soloUntil.IsZero() && h.alikeUntil.IsZero() && h.admits == 0 && len(h.vary) == 0
}
