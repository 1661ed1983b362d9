package weirhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// part returns the incomplete response that is stored for the request q, and may be combined with another part of the same representation; nil
// if there is none. In a fleet it is not used if another instance may know more.
func (h *Handler) part(key responses.Key, q rfc9111.Request, now time.Time) *responses.Stored {
	if h.o.NoStore || q.NoStore || q.NoCache || q.Read {
		return nil
	}
	p := h.cache.store.Part(key, &q)
	if p == nil || q.Credentials&^p.Admits != 0 || p.Marked.Load() || h.due(p, key, now, true) {
		return nil
	}
	return p
}

// A partHit is what stored parts have for a request.
type partHit struct {
	part     *responses.Stored
	standing rfc9111.Standing
	from, to int64
	body     []byte
}

// findPart returns what r asks for, if fresh parts have all of it; otherwise ok is
// false. It is for requests for which no complete response is stored.
func (h *Handler) findPart(r *http.Request, q rfc9111.Request, key responses.Key, now time.Time) (hit partHit, ok bool) {
	if !q.Range || r.Method != http.MethodGet {
		return hit, false
	}
	p := h.part(key, q, now)
	if p == nil || !rfc9111.RangeApplies(r.Header, p.Header) {
		return hit, false
	}
	hit.part, hit.standing = p, p.At(now, q)
	if hit.from, hit.to, ok = rfc9111.Requested(r.Header["Range"], p.Partial.Total); ok {
		hit.body, ok = p.Partial.Parts.Covers(hit.from, hit.to)
	}
	return hit, ok && hit.standing.Fresh
}

// hitPart responds to r with what findPart returns. It reports false if there is
// nothing.
func (h *Handler) hitPart(w http.ResponseWriter, r *http.Request, q rfc9111.Request, key responses.Key, now time.Time) bool {
	hit, ok := h.findPart(r, q, key, now)
	if !ok {
		return false
	}
	h.count.hits.Add(1)
	h.avoided(hit.part)
	h.fill(w.Header(), hit.part, hit.standing)
	rangeFields(w.Header(), hit.from, hit.to, hit.part.Partial.Total)
	h.tellKey(w, key)
	h.report(w, Receipt{Outcome: OutcomeHit, TTL: hit.standing.TTL})
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(hit.body) // if the client has gone, the server notices
	return true
}

// rangeFields sets the fields that describe a part.
func rangeFields(h http.Header, from, to, total int64) {
	c := rfc9111.ContentRange{First: from, Last: to, Total: total}
	h["Content-Range"] = []string{c.String()}
	h["Content-Length"] = []string{strconv.FormatInt(c.Len(), 10)}
}

// A gap is what a call asks for that completes stored parts: the range from from to
// to, both inclusive. The range from first to last is complete with it.
type gap struct {
	part          *responses.Stored
	first, last   int64
	from, to      int64
	before, after []byte // what the parts have between first and from, and between to and last
}

// gapOf returns the gap in p between first and last, or nil if the parts have neither
// the beginning nor the end of that, or have all of it.
func gapOf(p *responses.Stored, first, last int64) *gap {
	g := &gap{part: p, first: first, last: last}
	var ok bool
	if g.from, g.to, g.before, g.after, ok = p.Partial.Parts.Missing(first, last); !ok {
		return nil
	}
	return g
}

// gap returns what a call for c has to ask for to complete the range that c requests,
// or nil if c is forwarded as it is.
func (c *call) gap() *gap {
	if !c.q.Range || c.stale != nil || !c.stores() || !c.mayChange("Range", "If-Range") {
		return nil
	}
	p := c.h.part(c.key, c.q, time.Now())
	if p == nil || !rfc9111.RangeApplies(c.r.Header, p.Header) {
		return nil
	}
	first, last, ok := rfc9111.Requested(c.r.Header["Range"], p.Partial.Total)
	if !ok {
		return nil
	}
	return gapOf(p, first, last)
}

// gap returns what the call of f has to ask for to complete the whole body, or nil.
func (f *flight) gap() *gap {
	if f.stale != nil || f.refresh || !f.q.MayChange(f.req.URL.RawQuery, "Range", "If-Range") {
		return nil
	}
	h := f.group.handler
	p := h.part(f.key, f.q, time.Now())
	if p == nil || p.Partial.Total > h.o.MaxObject {
		return nil
	}
	return gapOf(p, 0, p.Partial.Total-1)
}

// ask changes the fields of a request so that it asks for g. g may be nil.
func (g *gap) ask(h http.Header) {
	if g != nil {
		rfc9111.AskFor(h, g.part.Header, g.from, g.to, g.part.Partial.Total)
	}
}

// A filling is what a response to the request for a gap means.
type filling uint8

const (
	fillsGap filling = iota // it is exactly the requested range, of the same representation
	replaces                // it is a complete response: the whole current one, or an error
	askAgain                // it is of no use: the call has to be made as the client requested it
)

// fits returns what a response with this status and these fields, which arrives
// through s, means for g. If it fills g, s makes sure that the body has that length:
// otherwise all bytes after it would be shifted.
func (g *gap) fits(s *sink, status int, h http.Header) filling {
	switch status {
	case http.StatusPartialContent:
		asked := rfc9111.ContentRange{First: g.from, Last: g.to, Total: g.part.Partial.Total}
		if c, ok := s.part(g.part.Header, h); ok && c == asked {
			s.length = c.Len()
			return fillsGap
		}
		return askAgain
	case http.StatusNotModified, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return askAgain
	}
	return replaces
}

// part returns the range of a 206 with fields h, which arrives through s. It reports
// false if that is no part of the representation with fields of, or if more than it
// has arrived.
func (s *sink) part(of, h http.Header) (rfc9111.ContentRange, bool) {
	c, ok := rfc9111.ReadPart(h)
	return c, ok && s.written <= c.Len() && rfc9111.SamePart(of, h)
}

// fills decides about the response to the request for s.gap. It reports false if the
// call has to be repeated as the client requested it.
func (s *solo) fills(status int, header http.Header) bool {
	switch s.gap.fits(s.sink, status, header) {
	case replaces:
		s.gap = nil
	case askAgain:
		s.again, s.instead = true, true
		s.c.h.cache.store.Remove(s.c.key, s.gap.part)
		return false
	}
	return true
}

// fills decides about the response to the request for t.gap, and returns the head of
// the response that it completes. It reports false if the call has to be repeated for
// the whole body.
func (t *fetch) fills(status int, header http.Header, length int64) (int, http.Header, int64, bool) {
	f := t.f
	switch t.gap.fits(t.sink, status, header) {
	case replaces:
		t.gap = nil
		return status, header, length, true
	case askAgain:
		t.again, t.drop = true, true
		f.group.handler.cache.store.Remove(f.key, t.gap.part)
		return 0, nil, 0, false
	}
	f.partial = true
	header, length = rfc9111.Combine(t.gap.part.Header, header), t.gap.part.Partial.Total
	header["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	return http.StatusOK, header, length, true
}
