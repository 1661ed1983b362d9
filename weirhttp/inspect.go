package weirhttp

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// RequestTimes returns how long requests took, from their arrival to the end of their
// response, whatever the outcome. Upgrades and event streams are left out: they can
// last for hours, which says nothing about speed. Unfinished requests are left out as
// well.
func (h *Handler) RequestTimes() inspect.Durations { return h.requests.Durations() }

// CallTimes returns how long calls of the next handler took until the response
// headers, or until they failed. Calls for requests that ask for an upgrade or an
// event stream, which have a separate limit, are left out.
func (h *Handler) CallTimes() inspect.Durations { return h.calls.Durations() }

// WaitTimes returns how long requests have waited for another request's call, until
// its headers. It includes requests whose client left. A request that came after the
// headers has not waited.
func (h *Handler) WaitTimes() inspect.Durations { return h.waits.Durations() }

// ActiveFlights returns at most most of the calls in flight that requests share, or
// that refresh a stored response, the oldest first. It includes calls that no request
// can join any more. A call for a single request is not included: it counts in
// Stats.InFlight only. A key is the scheme, host and target of the request, as text.
func (h *Handler) ActiveFlights(most int) []inspect.Flight {
	var keys []responses.Key // converted to text without the lock
	var all []inspect.Flight
	h.cache.mu.Lock()
	for f := h.active.first; f != nil && len(all) < most; f = f.younger {
		keys = append(keys, f.key)
		all = append(all, f.lookLocked())
	}
	h.cache.mu.Unlock()
	for i := range all {
		all[i].Key = keyText(keys[i])
	}
	return all
}

// HotKeys returns the busiest keys, at most most of each kind: scheme, host and
// target, as text, regardless of the method. The load time of a call is the time in
// [Handler.CallTimes]. There are no hot keys without Options.HotKeys.
func (h *Handler) HotKeys(most int) inspect.HotKeys { return h.hot.top(most) }

// The same methods for a Transport, whose requests end when their bodies are closed
// or read to the end.

// RequestTimes is Handler.RequestTimes.
func (t *Transport) RequestTimes() inspect.Durations { return t.h.RequestTimes() }

// CallTimes is Handler.CallTimes, for the transport below.
func (t *Transport) CallTimes() inspect.Durations { return t.h.CallTimes() }

// WaitTimes is Handler.WaitTimes.
func (t *Transport) WaitTimes() inspect.Durations { return t.h.WaitTimes() }

// ActiveFlights is Handler.ActiveFlights.
func (t *Transport) ActiveFlights(most int) []inspect.Flight { return t.h.ActiveFlights(most) }

// HotKeys is Handler.HotKeys.
func (t *Transport) HotKeys(most int) inspect.HotKeys { return t.h.HotKeys(most) }

// CountEntries counts the responses in c, by their state for a request without
// special requirements. It visits them one by one while c is in use. RefreshDue
// counts those that the next hit may refresh, by the options of the Handler that
// stored them. Negative counts 404 and 410 responses, and Failing those of 500 and
// above, as long as they may be served. Dead includes responses that may only be
// validated, and those whose tag was purged.
func (c *Cache) CountEntries() inspect.Entries {
	var e inspect.Entries
	now := time.Now()
	c.store.Each(func(s *responses.Stored, outdated bool) { *place(&e, s, now, outdated)++ })
	return e
}

// place returns the counter in e for s.
func place(e *inspect.Entries, s *responses.Stored, now time.Time, outdated bool) *int {
	st := s.At(now, plainRequest)
	fresh, stale := st.Fresh, st.SWR
	if s.Marked.Load() {
		fresh, stale = false, false
	}
	switch {
	case outdated, !fresh && !stale && !st.IfError && !st.Offline:
		return &e.Dead
	case s.Status == http.StatusNotFound, s.Status == http.StatusGone:
		return &e.Negative
	case s.Status >= http.StatusInternalServerError:
		return &e.Failing
	case fresh && now.UnixNano() >= s.Refresh.Load():
		return &e.RefreshDue
	case fresh:
		return &e.Fresh
	case stale:
		return &e.Stale
	}
	return &e.OnError
}

// plainRequest is a request without special requirements.
var plainRequest = rfc9111.ReadRequest(nil)
