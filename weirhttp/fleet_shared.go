package weirhttp

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// found ends f with s as its response. s is another instance's response that is now
// stored here, or was not stored for reasons other than its content; or it is the
// known one. because is why it is served although it is stale. waited means that it
// is the response to a call for which f has waited. It reports false if f has already
// ended.
func (f *flight) found(s *responses.Stored, because error, waited bool) bool {
	return f.end(func() { f.fleet = fleetResult{s, s == f.known, because, waited} })
}

// disband releases all callers of f: no response that it could get is for them.
func (f *flight) disband() bool {
	return f.end(func() {
		f.dispersed = true
		for _, w := range f.waiting {
			w.released = true
		}
	})
}

// takeShared responds to c with the response that the fleet had for f, if c may use
// it. The rules are those of a hit in the store.
func (c *call) takeShared(f *flight) bool {
	h, s := c.h, f.fleet.stored
	if c.q.Credentials&^s.Admits != 0 || c.q.NoCache && f.fleet.because == nil || !rfc9111.Matches(s.Vary, s.Selected, &c.q) {
		return false
	}
	u := use{Standing: s.At(time.Now(), c.q)}
	u.fresh, u.swr = !s.Marked.Load() && (u.Fresh || f.fleet.waited && f.fleet.because == nil && !s.MustRevalidate), u.SWR
	c.stale = s
	switch {
	case f.fleet.because != nil:
		if !u.IfError {
			return false
		}
		c.receipt = Receipt{}
		c.noteFleet(f)
		c.serveStale(f.fleet.because)
		return true
	case !u.fresh && !u.swr:
		return false
	}
	c.receipt = Receipt{TTL: u.TTL}
	c.noteFleet(f)
	o := OutcomeHit
	if !u.fresh {
		o = OutcomeStale
	}
	h.fill(c.w.Header(), s, u.Standing)
	if c.receipt.Detail != "" {
		h.tellMore(c.w, "; detail="+c.receipt.Detail)
	}
	h.tellKey(c.w, c.key)
	c.report(o)
	c.body(s)
	return true
}

// detailFleet is the detail of responses that another instance has fetched.
const detailFleet = "fleet"

// noteFleet records that c gets another instance's response, unless this instance
// already had it and only checked it with the fleet.
func (c *call) noteFleet(f *flight) {
	if !f.fleet.own {
		c.fleet = true
		c.receipt.Detail = detailFleet
	}
}

// tellMore appends to the Cache-Status of a hit.
func (h *Handler) tellMore(w http.ResponseWriter, what string) {
	if h.o.NoReceipt {
		return
	}
	d := w.Header()
	told := slices.Clone(d["Cache-Status"])
	told[len(told)-1] += what
	d["Cache-Status"] = told
}

// adopt makes the stale response that the fleet had for f the stored response of c,
// in case the call fails.
func (c *call) adopt(f *flight) {
	s := f.known
	if c.h.fleet == nil || c.stale != nil || s == nil || c.q.NoStore || c.q.Credentials&^s.Admits != 0 {
		return
	}
	if rfc9111.Matches(s.Vary, s.Selected, &c.q) {
		c.stale = s
	}
}
