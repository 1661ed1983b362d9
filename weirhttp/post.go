package weirhttp

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/stream"
)

// A post stores the response to a POST if the origin declares it to be the
// representation of the POST's own URL: later GET and HEAD requests may use it (H29,
// RFC 9110 section 9.3.3). A nil post stores nothing.
type post struct {
	h       *Handler
	request *http.Request
	q       rfc9111.Request
	key     responses.Key
	sent    time.Time
	// outer are the fields that code around the Handler has set, and that do not
	// belong to the response.
	outer http.Header

	write  *responses.Write // begun before the call; nil once it is clear that nothing is stored
	resp   rfc9111.Response
	header http.Header
	body   *stream.Body // nil before the headers
}

// newPost returns the post for r, parsed as q, whose response will be written to w, or
// nil if r cannot have such a response. A fleet orders writes by the calls of its
// lease holders, which a POST is not, so a Cache in a fleet stores none. Fields that
// the policy removes from a GET reach the origin with a POST, which may use them.
func (h *Handler) newPost(w http.ResponseWriter, r *http.Request, q rfc9111.Request) *post {
	if r.Method != http.MethodPost || q.Read || h.o.NoStore || q.NoStore || q.Conditional || q.Range || q.Expect || q.Upgrade || q.Streams ||
		q.Override || h.cache.fleet.Load() != nil || h.policy.Forward(r.Header, true) {
		return nil
	}
	key := h.key(r)
	return &post{
		h: h, request: r, q: q, key: key, sent: time.Now(), outer: maps.Clone(w.Header()),
		write: h.cache.store.Begin(key),
	}
}

// invalidates invalidates target for the POST, if that is its own URL and its response
// may be stored. Later steps store the response after that, unless another
// invalidation came in between.
func (p *post) invalidates(target string) bool {
	if p == nil || p.write == nil || target != p.key.Target || p.h.cache.fleet.Load() != nil {
		return false
	}
	p.h.cache.purgeFor(p.key, p.write)
	return true
}

// head decides about the response to c, whose body has this length, -1 if unknown.
func (p *post) head(c *call, status int, header http.Header, length int64) {
	if p == nil || p.write == nil {
		return
	}
	full := canonicalFields(header)
	p.header = relayed(full.Clone())
	for name, values := range p.outer {
		if name = http.CanonicalHeaderKey(name); slices.Equal(p.header[name], values) {
			delete(p.header, name)
		}
	}
	now := time.Now()
	read := func(fields http.Header) rfc9111.Response {
		return p.h.rulesNow().ReadPost(p.request, p.q, p.key.Scheme, p.key.Target, status, fields, p.sent, now)
	}
	p.resp = read(p.header)
	if !p.resp.Storable || !read(full).Storable || isStream(header) || length > p.h.o.MaxObject {
		p.drop()
		return
	}
	p.body = stream.New(stream.Options{Size: length, Limit: p.h.o.MaxObject, Reserve: p.h.cache.store.Reserve})
	c.receipt.Stored = true
	c.receipt.TTL = p.resp.Lifetime - p.resp.Age
}

// data takes a piece of the body.
func (p *post) data(ctx context.Context, b []byte) {
	if p == nil || p.body == nil {
		return
	}
	if _, err := p.body.Write(ctx, b); err != nil {
		p.drop() // over the limit
	}
}

// store stores the response, which is complete. A response that a GET has stored in
// the meantime is newer, and stays.
func (p *post) store(c *call) {
	if p == nil || p.body == nil {
		return
	}
	p.body.Finish(nil, nil)
	whole, kept := p.body.Whole()
	if kept && p.h.cache.store.Get(p.key, &p.q) == nil && p.h.cache.store.Part(p.key, &p.q) == nil {
		s := p.h.stored(p.resp, p.request, p.q, p.header, whole)
		s.Rules = 0 // in the folder it would be judged as the response to a GET
		p.write.Put(s)
	}
	p.drop()
}

// drop ends p. After store it does nothing.
func (p *post) drop() {
	if p == nil || p.write == nil {
		return
	}
	p.write.Drop()
	p.write = nil
	if p.body != nil {
		p.body.Finish(nil, errBroken)
		p.body.Release()
		p.body = nil
	}
}
