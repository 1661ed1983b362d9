package weirhttp

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// serveRead responds to r if there is a rule for it (H32), and reports whether it did.
// q is parsed from r.
func (h *Handler) serveRead(w http.ResponseWriter, r *http.Request, q rfc9111.Request, came time.Time, turn uint64) bool {
	rule := h.reads.of(r)
	if rule == nil {
		return false
	}
	if !h.plainRead(r, q) {
		q.Read = !rule.GraphQL && !q.Override // otherwise it may be anything
		h.passRead(w, r, q, came, turn, unsharedFields)
		return true
	}
	q.Read = true
	original, fields := r, q
	r, q = h.asked(r, q)
	in, held, why, err := h.receive(w, r, rule)
	defer held.release()
	if err != nil {
		c := &call{h: h, w: w, r: r, q: q}
		c.identify()
		c.identify()
		c.fail(err)
		c.over(came)
		return true
	}
	key, why := h.readKey(rule, in, held, why)
	if why != "" {
		if rule.GraphQL && why != unsharedCondition { // it may change something: it keeps the fields that reads lose
			own := *in
			own.Header = original.Header
			in, q = &own, fields
			q.Read = false
		}
		h.passRead(w, in, q, came, turn, why)
		return true
	}
	if h.count.reads.Add(1); !h.cache.reads.Load() {
		h.cache.reads.Store(true)
	}
	h.lookUp(w, in, q, key, came, turn)
	return true
}

// passRead forwards r, for which there is a rule, alone. Nothing can be stored for it.
func (h *Handler) passRead(w http.ResponseWriter, r *http.Request, q rfc9111.Request, came time.Time, turn uint64, why string) {
	h.count.unshared.Add(1)
	if q.OnlyIfCached {
		c := &call{h: h, w: w, r: r, q: q}
		c.answer(errNotStored)
		c.over(came)
		return
	}
	h.pass(w, r, q, came, turn, usesCache, why)
}

// plainRead reports whether nothing in the fields of r, a read, keeps it from being
// looked up.
func (h *Handler) plainRead(r *http.Request, q rfc9111.Request) bool {
	return h.bypasses(r, q, true) == usesCache && h.bypassesAsked(r, q) == usesCache
}

// readKey returns the key of r, whose body was received, or why there is none.
func (h *Handler) readKey(rule *readRule, r *http.Request, held *heldBody, why string) (responses.Key, string) {
	if why != "" {
		return responses.Key{}, why
	}
	if len(r.Trailer) > 0 {
		return responses.Key{}, unsharedTrailers
	}
	key, proof, why, _ := h.keyOf(rule, r, held.bytes)
	held.proof = proof
	return key, why
}

// judge is readHead for a request with that key. The responses to reads with a body
// carry the tag of their URL, by which they are purged with it.
func (h *Handler) judge(key responses.Key, req *http.Request, q rfc9111.Request, status int, header http.Header, fin bool, sent, now time.Time) (rfc9111.Response, *events) {
	resp, events := h.readHead(req, q, status, header, fin, sent, now)
	if key.Body != "" && resp.Storable {
		resp.Tags = append(slices.Clip(resp.Tags), readTag(key))
	}
	return resp, events
}

// receive reads the body of a request in observe mode, if it is a read, and sets its
// key.
func (o *observation) receive() (held *heldBody, err error) {
	h := o.h
	rule := h.reads.of(o.r)
	if rule == nil {
		return nil, nil
	}
	o.q.Read = !rule.GraphQL && !o.q.Override
	if !h.plainRead(o.r, o.q) {
		return nil, nil
	}
	in, held, why, err := h.receive(o.ResponseWriter, o.r, rule)
	if err != nil {
		return held, err
	}
	o.r = in
	asked, q := h.asked(h.query.applyTo(in), o.q)
	key, why := h.readKey(rule, asked, held, why)
	if why == "" {
		o.asked, o.q, o.key = asked, q, key
		h.shadow.reads.Store(true)
	}
	o.q.Read = why == "" || !rule.GraphQL || why == unsharedCondition
	return held, nil
}

// unreadable ends o, whose body could not be read.
func (o *observation) unreadable(err error) {
	o.Fail(err)
	o.h.report(o.ResponseWriter, Receipt{Outcome: OutcomeFailed, RequestID: o.id, Err: err, Detail: "observe"})
}

// asked returns r, which was parsed as q, without the fields that the policy ignores.
func (h *Handler) asked(r *http.Request, q rfc9111.Request) (*http.Request, rfc9111.Request) {
	if !h.ignores || !h.policy.Forward(r.Header, true) {
		return r, q
	}
	ctx := r.Context()
	if h.o.Tenant != nil || h.o.ClientBudget != nil || h.o.Priority != nil || h.o.Deadline.Name != "" {
		ctx = context.WithValue(ctx, sentKey{h}, r)
	}
	in := r.WithContext(ctx)
	in.Header, in.Trailer = r.Header.Clone(), r.Trailer.Clone()
	h.policy.Forward(in.Header, false)
	read := q.Read
	q = h.readRequest(in)
	q.Read = read
	return in, q
}

// sentKey is the key of the request as a client has sent it, in the context of what asked
// has made of it. Another handler in the same context has its own.
type sentKey struct{ *Handler }

// sent returns r with the fields that the policy ignores. What a client may have, such as
// its share of a limit, depends on all that it has sent: a policy for the cache, such as
// one that removes X-Forwarded-For, makes no two clients one.
func (h *Handler) sent(r *http.Request) *http.Request {
	if own, ok := r.Context().Value(sentKey{h}).(*http.Request); ok {
		return own
	}
	return r
}
