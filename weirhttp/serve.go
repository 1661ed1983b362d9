package weirhttp

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// A use is how a stored response may be used for a request.
type use struct {
	rfc9111.Standing
	fresh bool // as it is
	swr   bool // while it is revalidated
	due   bool // as it is, but only after asking the fleet
}

// find returns what is stored for r, of which q was read, and how it may be
// used; nil if there is nothing that r may see (H3). now is of
// Handler.now or of time.Now.
func (h *Handler) find(key responses.Key, r *http.Request, q rfc9111.Request, now time.Time) (*responses.Stored, use) {
	if h.o.NoStore || q.NoStore {
		return nil, use{}
	}
	s := h.cache.store.Get(key, r.Header)
	if s == nil || q.Credentials&^s.Admits != 0 {
		return nil, use{}
	}
	u := use{Standing: s.At(now, q)}
	if !q.NoCache && !s.Marked.Load() {
		u.fresh, u.swr = u.Fresh, u.SWR
		// Only who can lead a call can ask.
		capped := u.TTL > 0 && r.Method != http.MethodHead && !q.OnlyIfCached && q.Credentials&h.keyed == 0
		if u.fresh && h.due(s, key, now, capped) {
			u.fresh, u.due = false, true
		}
		// What is known to have a successor does not wait for it in the background.
		u.swr = u.swr && s.Checked.Load() >= 0
	}
	return s, u
}

// served is what is made ready once for all who are served a response.
type served struct {
	fields []field
	length []string
	stamp  atomic.Pointer[stamp]
}

type field struct {
	name   string
	values []string
}

// A stamp is what changes from second to second in the head of a hit.
type stamp struct {
	age, ttl int64 // in seconds
	ageField []string
	status   []string // Cache-Status
	name     string   // whose
}

// ready makes s ready to be served, the first time that it is: Put has given it
// fields of its own by then, which pin no more memory than they need.
func ready(s *responses.Stored) *served {
	if v := s.Served.Load(); v != nil {
		return (*v).(*served)
	}
	v := &served{length: []string{strconv.Itoa(len(s.Body))}}
	typed := false
	for name, values := range s.Header {
		switch name {
		case "Content-Length", "Age", "Cache-Status":
			continue
		case "Content-Type":
			typed = true
		}
		v.fields = append(v.fields, field{name, values[:len(values):len(values)]})
	}
	if !typed {
		v.fields = append(v.fields, field{"Content-Type", nil}) // or net/http guesses one
	}
	var a any = v
	s.Served.Store(&a) // of several that are made at once, any will do
	return v
}

// readySize is what ready takes, about, for a response with that many fields.
func readySize(fields int) int64 { return int64(256 + 40*fields) }

// fill writes the head of s into dst, but the status.
func (h *Handler) fill(dst http.Header, s *responses.Stored, st rfc9111.Standing) {
	v := ready(s)
	for i := range v.fields {
		dst[v.fields[i].name] = v.fields[i].values
	}
	age := int64(st.Age / time.Second)
	ttl := int64(s.Lifetime/time.Second) - age // so that the two add up
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

// hit answers r with s, which is fresh. It allocates nothing, but once a second
// for each response.
func (h *Handler) hit(w http.ResponseWriter, r *http.Request, q rfc9111.Request, key responses.Key, s *responses.Stored, u use) {
	h.count.hits.Add(1)
	h.fill(w.Header(), s, u.Standing)
	h.tellKey(w, key)
	h.report(w, Receipt{Outcome: OutcomeHit, TTL: u.TTL})
	if h.o.RefreshAhead > 0 {
		h.refreshAhead(key, r, q, s)
	}
	h.body(w, r, q, s)
}

// body writes the status and the body of s, or the part of it that r asks for.
func (h *Handler) body(w http.ResponseWriter, r *http.Request, q rfc9111.Request, s *responses.Stored) {
	if (q.Conditional || q.Range) && s.Status == http.StatusOK {
		http.ServeContent(partWriter{w}, ranged(r, len(s.Body)), "", lastModified(s.Header), bytes.NewReader(s.Body))
		return
	}
	w.WriteHeader(s.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(s.Body) // a client that has gone is the server's to notice
	}
}

func lastModified(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return time.Time{} // ServeContent takes it for none
	}
	return t
}

// fill writes the head of s, without what says that it is a hit.
func (c *call) fill(s *responses.Stored, st rfc9111.Standing) {
	dst := c.w.Header()
	c.h.fill(dst, s, st)
	if above := s.Header["Cache-Status"]; above != nil {
		dst["Cache-Status"] = above
	} else {
		delete(dst, "Cache-Status")
	}
}

// serveStored answers c with s, which the origin has just said to hold.
func (c *call) serveStored(s *responses.Stored, outcome Outcome) {
	st := s.At(time.Now(), c.q)
	c.receipt.Stored = s.Storable
	c.receipt.TTL = st.TTL
	c.fill(s, st)
	c.setStatus(outcome)
	c.report(outcome)
	c.h.body(c.w, c.r, c.q, s)
}

// serveStale answers c with what is stored, though it is stale, because of err.
func (c *call) serveStale(err error) {
	c.fails(err)
	c.stay(err)
}

// stay answers c with what is stored, though it is stale, because of err, which is
// remembered or need not be.
func (c *call) stay(err error) {
	st := c.standing()
	c.h.count.staleOnError.Add(1)
	c.h.event(Event{Kind: EventStale, Request: c.r, Err: err})
	c.receipt.Err, c.receipt.TTL = err, st.TTL
	c.fill(c.stale, st)
	c.setStatus(OutcomeStale)
	c.report(OutcomeStale)
	c.h.body(c.w, c.r, c.q, c.stale)
}

// serveContent answers c with the part that it asks for of a whole body whose
// head is in c.w already.
func (c *call) serveContent(outcome Outcome, body []byte) {
	h := c.w.Header()
	delete(h, "Trailer")
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
	c.setStatus(outcome)
	c.report(outcome)
	http.ServeContent(partWriter{c.w}, ranged(c.r, len(body)), "", lastModified(h), bytes.NewReader(body))
}

// ranged returns r with a Range that http.ServeContent takes as RFC 9110 has it,
// for a body of that size: it refuses what is to be ignored, and serves each of
// thousands of ranges. For other methods than GET there is none (section 14.2).
func ranged(r *http.Request, size int) *http.Request {
	lines := r.Header["Range"]
	if len(lines) == 0 {
		return r
	}
	out := *r
	out.Header = r.Header.Clone()
	delete(out.Header, "Range")
	if r.Method != http.MethodGet {
		return &out
	}
	switch value, ok := rfc9111.Ranges(lines, int64(size)); {
	case !ok:
		out.Header["Range"] = []string{"bytes=" + strconv.Itoa(size) + "-"} // behind the end: 416
	case value != "":
		out.Header["Range"] = []string{value}
	}
	return &out
}

// A partWriter is for http.ServeContent, which leaves the length of the whole in
// an answer that a condition has failed, and that has no body.
type partWriter struct{ http.ResponseWriter }

func (w partWriter) WriteHeader(status int) {
	if status == http.StatusPreconditionFailed {
		delete(w.Header(), "Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// staleHit answers r with s, which is stale, and has it revalidated in the
// background.
func (h *Handler) staleHit(w http.ResponseWriter, r *http.Request, q rfc9111.Request, key responses.Key, s *responses.Stored, u use) {
	h.count.stale.Add(1)
	h.fill(w.Header(), s, u.Standing)
	h.tellKey(w, key)
	h.report(w, Receipt{Outcome: OutcomeStale, TTL: u.TTL})
	h.refresh(key, r, q, s, time.Now())
	h.body(w, r, q, s)
}

// isStream reports whether an answer with those fields goes on without an end.
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
