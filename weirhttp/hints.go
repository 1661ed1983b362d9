package weirhttp

import (
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// maxHints is how many keys are remembered that something was learned about.
const maxHints = 16384

// A sharingHint is what earlier answers say about sharing the next one of their key
// (H7). It is never changed, but replaced.
type sharingHint struct {
	soloUntil  time.Time           // its answers cannot be shared: nobody waits for another's
	alikeUntil time.Time           // its answers are shared among alike requests only: only those wait for each other
	admits     rfc9111.Credentials // requests with these may join (H3)
	// Requests with these may not join, though something stored says so.
	denies      rfc9111.Credentials
	deniesUntil time.Time
	vary        []string // what its answers were kept apart by
}

// sharingHints are those of a Cache. They do not count in its bytes: there are at
// most maxHints, of the size of a URL.
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

// learn notes what the head of an answer says about its key. Under a flight's
// turn it is called before anybody is released, so that they find it.
func (h *sharingHints) learn(key responses.Key, r *rfc9111.Response, now time.Time, relearn time.Duration) {
	if r.Status == http.StatusLoopDetected {
		return // it is about the way of one request, which a client may have made up
	}
	old := h.of(key)
	next := sharingHint{admits: old.admits, vary: old.vary}
	switch r.Reason {
	case rfc9111.ReasonRequestNoStore:
		return // the client said so, not the origin
	case rfc9111.ReasonAuthorization, rfc9111.ReasonCookie:
		// It is not for others because of who asked. Those without credentials
		// may share what they get.
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
