package weirhttp

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// A use describes how a stored response may be used for a request.
type use struct {
	rfc9111.Standing
	fresh bool // as it is
	swr   bool // while it is revalidated
	due   bool // as it is, but only after a check with the fleet
}

// find returns the response that is stored for r and how it may be used, or nil if
// there is none that r may see (H3). q is parsed from r. now comes from Handler.now
// or time.Now.
func (h *Handler) find(key responses.Key, r *http.Request, q rfc9111.Request, now time.Time) (*responses.Stored, use) {
	if h.o.NoStore || q.NoStore {
		return nil, use{}
	}
	proof := ""
	if q.Read {
		proof = proofOf(r)
	}
	s := h.cache.store.Find(key, proof, &q)
	if s == nil || q.Credentials&^s.Admits != 0 || s.Events && !h.o.Events.Share || q.Streams && !fitsStreams(s) {
		return nil, use{}
	}
	return s, h.uses(s, key, r, q, now)
}

// uses returns how s may be used for r, which may see it.
func (h *Handler) uses(s *responses.Stored, key responses.Key, r *http.Request, q rfc9111.Request, now time.Time) use {
	u := use{Standing: s.At(now, q)}
	if !q.NoCache && !s.Marked.Load() {
		u.fresh, u.swr = u.Fresh, u.SWR
		// Only a request that can lead a call can check with the fleet.
		capped := u.TTL > 0 && r.Method != http.MethodHead && !q.OnlyIfCached && q.Credentials&h.keyed == 0
		if u.fresh && h.due(s, key, now, capped) {
			u.fresh, u.due = false, true
		}
		// A response known to have a successor is not served while that is fetched in
		// the background.
		u.swr = u.swr && s.Checked.Load() >= 0
	}
	return u
}

// served is the part of a hit that is prepared once for all requests.
type served struct {
	fields []field
	length []string
	stamp  atomic.Pointer[stamp]
}

type field struct {
	name   string
	values []string
	adds   bool // see adds
}

// A stamp is the part of a hit's header fields that changes every second.
type stamp struct {
	age, ttl int64 // in seconds
	ageField []string
	status   []string // Cache-Status
	name     string   // the Handler's
}

// ready prepares s for serving, on its first use. By then Put has given s its own
// copies of the fields, which pin no more memory than they need.
func ready(s *responses.Stored) *served {
	if v := s.Served.Load(); v != nil {
		return (*v).(*served)
	}
	v := &served{length: []string{strconv.FormatInt(s.Size(), 10)}}
	typed := false
	for name, values := range s.Header {
		switch name {
		case "Content-Length", "Age", "Cache-Status":
			continue
		case "Content-Type":
			typed = true
		}
		v.fields = append(v.fields, field{name, values[:len(values):len(values)], adds(name)})
	}
	if !typed {
		v.fields = append(v.fields, field{name: "Content-Type"}) // or net/http guesses one
	}
	var a any = v
	s.Served.Store(&a) // if several are prepared concurrently, any of them will do
	return v
}

// readySize is roughly the memory that ready takes for a response with that many
// fields.
func readySize(fields int) int64 { return int64(256 + 48*fields) }

// fill writes the header fields of s into dst, not the status.
func (h *Handler) fill(dst http.Header, s *responses.Stored, st rfc9111.Standing) {
	v := ready(s)
	for i := range v.fields {
		if f := &v.fields[i]; f.adds {
			addField(dst, f.name, f.values)
		} else {
			dst[f.name] = f.values
		}
	}
	age := int64(st.Age / time.Second)
	ttl := int64(s.Lifetime/time.Second) - age // so that age and ttl add up to the lifetime
	now := v.stamp.Load()
	if now == nil || now.age != age || now.ttl != ttl || now.name != h.o.Name {
		now = &stamp{age: age, ttl: ttl, name: h.o.Name}
		now.ageField = []string{strconv.FormatInt(age, 10)}
		now.status = append(s.Header["Cache-Status"][:len(s.Header["Cache-Status"]):len(s.Header["Cache-Status"])], h.name+"; hit; ttl="+strconv.FormatInt(ttl, 10))
		v.stamp.Store(now)
	}
	dst["Age"] = now.ageField
	if !h.o.NoReceipt {
		dst["Cache-Status"] = now.status
	} else if above := s.Header["Cache-Status"]; above != nil {
		dst["Cache-Status"] = above
	}
	if s.Status != http.StatusNoContent && s.Status != http.StatusNotModified {
		dst["Content-Length"] = v.length
	}
}

// hit responds to r with s, which is fresh. It allocates nothing, except once per
// second for each response.
func (h *Handler) hit(w http.ResponseWriter, r *http.Request, q rfc9111.Request, key responses.Key, s *responses.Stored, u use) {
	h.count.hits.Add(1)
	h.avoided(s)
	h.fill(w.Header(), s, u.Standing)
	h.tellKey(w, key)
	h.report(w, Receipt{Outcome: OutcomeHit, TTL: u.TTL})
	if h.o.RefreshAhead > 0 && s.Large == nil {
		h.refreshAhead(key, r, q, s)
	}
	h.body(w, r, q, s)
}

// body writes the status and the body of s, or the part of it that r asks for.
func (h *Handler) body(w http.ResponseWriter, r *http.Request, q rfc9111.Request, s *responses.Stored) {
	if r.Method != http.MethodHead && !q.Conditional && !q.Range && h.paces(s) {
		h.replay(w, r, s)
		return
	}
	if s.Large != nil {
		h.sendLarge(w, r, q, s)
		return
	}
	if (q.Conditional || q.Range) && s.Status == http.StatusOK {
		content(w, r, s.Header, s.Received, s.Size(), bytes.NewReader(s.Body))
		return
	}
	w.WriteHeader(s.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(s.Body) // if the client has gone, the server notices
	}
}

// content responds to r, which has a condition or a range, from a complete response
// that was received at received with the fields h, and has a body of that size. Its
// fields are already in w.
func content(w http.ResponseWriter, r *http.Request, h http.Header, received time.Time, size int64, body io.ReadSeeker) {
	if rfc9111.UnchangedSince(r.Header, h, received) {
		notModified(w)
		return
	}
	http.ServeContent(w, asked(r, h, received, size), "", lastModified(h), body)
}

// notModified responds with 304, without the fields that describe the body.
func notModified(w http.ResponseWriter) {
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding"} {
		delete(w.Header(), name)
	}
	w.WriteHeader(http.StatusNotModified)
}

func lastModified(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return time.Time{} // ServeContent treats it as absent
	}
	return t
}

// fill writes the header fields of s, without those that mark it as a hit.
func (c *call) fill(s *responses.Stored, st rfc9111.Standing) {
	dst := c.w.Header()
	c.h.fill(dst, s, st)
	if above := s.Header["Cache-Status"]; above != nil {
		dst["Cache-Status"] = above
	} else {
		delete(dst, "Cache-Status")
	}
}

// serveStored responds to c with s, which the origin has just validated.
func (c *call) serveStored(s *responses.Stored, outcome Outcome) {
	st := s.At(time.Now(), c.q)
	c.receipt.Stored = s.Storable
	c.receipt.TTL = st.TTL
	c.fill(s, st)
	c.setStatus(outcome)
	c.report(outcome)
	c.body(s)
}

// body is Handler.body for c. A response that is paced says nothing about latency.
func (c *call) body(s *responses.Stored) {
	c.endless = c.h.paces(s)
	c.h.body(c.w, c.r, c.q, s)
}

// serveStale responds to c with its stored response, which is stale, because of err.
// It also remembers err.
func (c *call) serveStale(err error) {
	c.fails(err)
	c.stay(err)
}

// stay is serveStale for an err that is remembered already or need not be.
func (c *call) stay(err error) {
	st := c.standing()
	c.h.count.staleOnError.Add(1)
	c.h.event(Event{Kind: EventStale, Request: c.r, Err: err})
	c.receipt.Err, c.receipt.TTL = err, st.TTL
	c.fill(c.stale, st)
	c.setStatus(OutcomeStale)
	c.report(OutcomeStale)
	c.body(c.stale)
}

// serveContent responds to c with the part that it asks for of a complete body, which
// was received at received. The header fields are already in c.w.
func (c *call) serveContent(outcome Outcome, received time.Time, body []byte) {
	h := c.w.Header()
	delete(h, "Trailer")
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
	c.setStatus(outcome)
	c.report(outcome)
	content(c.w, c.r, h, received, int64(len(body)), bytes.NewReader(body))
}

// asked returns r with the fields that http.ServeContent handles as RFC 9110 requires,
// for a response with the fields h that was received at received, and a body of that
// size. ServeContent reads one line of If-None-Match, accepts any date in If-Range,
// rejects ranges that should be ignored, and serves every one of thousands of ranges.
// Methods other than GET have no ranges (section 14.2).
func asked(r *http.Request, h http.Header, received time.Time, size int64) *http.Request {
	lines, tags := r.Header["Range"], r.Header["If-None-Match"]
	if len(lines) == 0 && len(tags) <= 1 {
		return r
	}
	out := *r
	out.Header = r.Header.Clone()
	delete(out.Header, "Range")
	if len(tags) > 1 {
		out.Header["If-None-Match"] = []string{strings.Join(tags, ", ")}
	}
	if len(lines) == 0 || r.Method != http.MethodGet || !rfc9111.RangeHolds(r.Header, h, received) {
		return &out
	}
	switch value, ok := rfc9111.Ranges(lines, size); {
	case !ok:
		out.Header["Range"] = []string{"bytes=" + strconv.FormatInt(size, 10) + "-"} // beyond the end: 416
	case value != "":
		out.Header["Range"] = []string{value}
	}
	return &out
}

// staleHit responds to r with s, which is stale, and starts its revalidation in the
// background.
func (h *Handler) staleHit(w http.ResponseWriter, r *http.Request, q rfc9111.Request, key responses.Key, s *responses.Stored, u use) {
	h.count.stale.Add(1)
	h.avoided(s)
	h.fill(w.Header(), s, u.Standing)
	h.tellKey(w, key)
	h.report(w, Receipt{Outcome: OutcomeStale, TTL: u.TTL})
	h.refresh(key, r, q, s, time.Now())
	h.body(w, r, q, s)
}

// isStream reports whether a response with these fields has no end.
func isStream(h http.Header) bool {
	t := h.Get("Content-Type")
	if t == "" {
		return false
	}
	for _, s := range [...]string{"text/event-stream", "multipart/x-mixed-replace", "application/grpc"} {
		if len(t) >= len(s) && strings.EqualFold(t[:len(s)], s) {
			return true
		}
	}
	return false
}
