package weirhttp

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// withdraw removes old if resp shows that the origin has withdrawn it, and reports
// whether it did. resp is the response to a call with the fields of q that was to
// replace old; with validated it is old itself, with the fields of a 304. old may be
// nil.
//
// A response that is no error but must not be stored takes the place of a stale one
// (RFC 9111 sections 4.3.3 and 4.3.4): the origin has deleted or moved the resource, or
// no longer wants it shared. Otherwise old would be served again for the rest of its
// stale windows. While old is fresh, only a 304 withdraws it, because that is about old.
//
// A client must not be able to take from others what they need. So old stays if the
// request may be the reason: it had credentials, a range, a condition or no-store, the
// response is for one client, or has a client error that is not about the resource. A
// 304 is about old itself, with any credentials.
func (h *Handler) withdraw(key responses.Key, old *responses.Stored, resp *rfc9111.Response, q rfc9111.Request, validated bool, now time.Time) bool {
	switch {
	case old == nil, resp.Storable, !aboutTheResource(resp.Status):
		return false
	case q.NoStore, !validated && (q.Credentials != 0 || q.Range || q.Conditional):
		return false
	case resp.Reason == rfc9111.ReasonMethod, resp.Reason == rfc9111.ReasonSetCookie:
		return false
	case !validated && !old.Marked.Load() && old.At(now, q).TTL > 0:
		return false
	}
	h.cache.store.Remove(key, old)
	return true
}

// aboutTheResource reports whether a response with this status is complete and says
// what has become of the resource. Any other client error can be due to the fields of
// one client.
func aboutTheResource(status int) bool {
	switch status {
	case http.StatusPartialContent, http.StatusNotModified:
		return false
	case http.StatusNotFound, http.StatusGone, http.StatusUnavailableForLegalReasons:
		return true
	}
	return status < 400
}
