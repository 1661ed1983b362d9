package weirhttp

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// refreshRetry is the minimum time between the starts of two refreshes, if the first
// did not store anything.
const refreshRetry = time.Second

// refreshJitter is the share of the lifetime by which a refresh may start earlier
// than RefreshAhead says, as in a Guard.
const refreshJitter = 0.1

// refreshFrom returns the time from which a hit on s starts a refresh: the end of its
// freshness, or with RefreshAhead some time before that. The time has jitter, so that
// responses that were stored together are not refreshed together.
func (h *Handler) refreshFrom(s *responses.Stored) time.Time {
	left := s.Lifetime - s.Age
	if h.o.RefreshAhead > 0 && left > 0 {
		ahead := h.o.RefreshAhead + min(refreshJitter, h.o.RefreshAhead)*rand.Float64()
		left -= time.Duration(float64(s.Lifetime) * ahead)
	}
	return s.Received.Add(max(left, 0))
}

// refreshAhead starts a refresh of s, which is fresh, if it is due and s is hot.
func (h *Handler) refreshAhead(key responses.Key, r *http.Request, q rfc9111.Request, s *responses.Stored) {
	if s.Hits.Add(1) < uint64(h.o.RefreshHits) { //nolint:gosec // validated to be positive
		return
	}
	if now := time.Now(); now.UnixNano() >= s.Refresh.Load() {
		h.refresh(key, r, q, s, now)
	}
}

// refresh starts a background call that refreshes s, unless one has begun recently.
// It must be called only for a request that may see s.
func (h *Handler) refresh(key responses.Key, r *http.Request, q rfc9111.Request, s *responses.Stored, now time.Time) {
	if f := s.Failing.Load(); f != nil && now.Before(f.Until) {
		return // the origin is left alone for longer after each failure
	}
	due := s.Refresh.Load()
	if now.UnixNano() < due || !s.Refresh.CompareAndSwap(due, now.Add(refreshRetry).UnixNano()) {
		return // the goroutine that moves Refresh makes the call
	}
	h.startRefresh(&call{h: h, r: r, q: q, key: key, stale: s}, nil)
}

// startRefresh starts a call for the store alone, unless there are too many, or one
// is already in flight. If prepare is not nil, it is called before the start, with
// Cache.mu held.
func (h *Handler) startRefresh(c *call, prepare func(*flight)) {
	c.q.Conditional, c.q.Range = false, false // the call is for the store, not for r
	c.q.OnlyIfCached, c.q.MaxAge, c.q.MinFresh, c.q.MaxStale = false, rfc9111.None, 0, rfc9111.None
	h.cache.mu.Lock()
	g := c.group() // under the lock, see call.shared
	f := h.cache.findLocked(c.key, g)
	if f != nil || h.background.Load() >= maxBackground || h.refreshes.Err() != nil {
		h.cache.mu.Unlock()
		return
	}
	h.background.Add(1)
	h.refreshing.Add(1)
	f = h.newFlightLocked(c, g)
	f.refresh = true
	if prepare != nil {
		prepare(f)
	}
	h.cache.mu.Unlock()
	get := *c.r
	if get.Method == http.MethodHead {
		get.Method = http.MethodGet
	}
	f.start(&get)
}

// maxBackground is how many background calls one Handler may run at the same time.
const maxBackground = 64
