package weirhttp

import (
	"errors"
	"net/http"

	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/stream"
)

// A rest is the part of a shared body that its client has not received when it falls
// behind. The client gets it through a separate call for a range.
type rest struct {
	header http.Header // of the shared response
	from   int64       // the client has the bytes before that
	total  int64       // size of the shared body, -1 if unknown
	skip   int64       // bytes to come that the client has: the origin sends the whole body
}

// errOtherBody ends a response whose rest is not available: the origin has no range, or
// has another version by now.
var errOtherBody = errors.New("weirhttp: the client fell behind, and the origin did not continue the same body")

// restOf returns what is left of the body of f for c, whose cursor fell behind. It
// returns nil if a separate call cannot continue it: only a strong validator proves that
// the bytes of two responses belong together (RFC 9110 section 8.8.1).
func (c *call) restOf(f *flight, r *stream.Reader) *rest {
	if f.resp.Status != http.StatusOK || f.endless() || c.r.Method != http.MethodGet ||
		rfc9111.StrongValidator(f.header) == "" || !c.mayChange("Range", "If-Range") {
		return nil
	}
	return &rest{header: f.header, from: r.Pos(), total: f.length}
}

// ask changes the fields of a request so that it asks for r.
func (r *rest) ask(h http.Header) {
	rfc9111.AskFor(h, r.header, r.from, -1, -1)
}

// begins decides about the response to the request for r, which arrives through s with
// this status, these fields and this length. It reports whether it continues the body.
func (r *rest) begins(s *sink, status int, h http.Header, length int64) bool {
	switch status {
	case http.StatusPartialContent:
		part, ok := s.part(r.header, h)
		if !ok || part.First != r.from || part.Last != part.Total-1 || r.total >= 0 && part.Total != r.total {
			return false
		}
		s.length = part.Len()
		return true
	case http.StatusOK:
		r.skip = r.from
		return rfc9111.SamePart(r.header, h) && (r.total < 0 || length < 0 || length == r.total)
	}
	return false
}

// next returns what the client does not have of the next bytes of the response.
func (r *rest) next(p []byte) []byte {
	n := min(r.skip, int64(len(p)))
	r.skip -= n
	return p[n:]
}

// continued ends c when the call for its rest has ended.
func (s *solo) continued(err error) {
	c := s.c
	if errors.Is(s.sink.err, errOtherBody) || err == nil && (!s.sentOn || c.rest.skip > 0) {
		err = errOtherBody // also if a handler that panics for it hides that
	}
	switch {
	case err == nil:
		c.h.count.resumed.Add(1)
		copyTrailers(c.w, c.rest.header, s.sink.trailers())
		return
	case errors.Is(err, errOtherBody):
	case !s.sentOn:
		c.noAnswer(err)
	default:
		c.cutOff(s.status, s.clientLost(err))
	}
	c.fellBehind(err)
}

// fellBehind ends the response of c, which cannot be completed because c fell behind the
// others that share it.
func (c *call) fellBehind(err error) {
	if c.r.Context().Err() == nil && !errors.As(err, new(errClient)) && !errors.Is(err, ErrSlowClient) {
		c.h.count.lagged.Add(1)
		c.h.event(Event{Kind: EventLagged, Request: c.r, Err: err})
	}
	c.broken(err)
}
