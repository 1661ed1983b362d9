package weirhttp

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/slow"
)

// Explanation describes what would happen to a request, and why.
type Explanation struct {
	Method string        `json:"method"` // method of the request
	Key    string        `json:"key"`    // as in Cache-Status
	Answer string        `json:"answer"` // "hit", "stale", "join", "lead", "call", "pass" or "error"
	Steps  []string      `json:"steps"`  // one sentence each, in the order of the decisions
	Stored []StoredState `json:"stored"` // the newest first: the newest 32, and the selected one
	Cost   int           `json:"cost"`   // estimated units of the call; 0 without a call, or without Options.Cost
}

// StoredState is one stored response in an Explanation.
type StoredState struct {
	Status   int      `json:"status"`           // status of the stored response
	Bytes    int      `json:"bytes"`            // of the body
	Age      string   `json:"age"`              // as a Go duration
	TTL      string   `json:"ttl"`              // negative when stale
	Vary     []string `json:"vary,omitempty"`   // names only, never values
	Tags     []string `json:"tags,omitempty"`   // tags for a purge
	Purged   bool     `json:"purged,omitempty"` // expired by a purge, not removed
	Selected bool     `json:"selected"`         // selected for this request
}

// Explain describes what would happen to r if it arrived now (H21). It changes
// nothing and makes no calls, and does not consult the limits.
func (h *Handler) Explain(r *http.Request) (e Explanation) {
	e.Method = r.Method
	if r.Header == nil {
		r = r.Clone(r.Context())
		r.Header = make(http.Header)
	}
	if h.costs != nil {
		r = h.withBody(r)
		defer func() { h.explainCost(&e, r) }() // of what r has become
	}
	sent := r
	r = h.query.applyTo(r)
	q := h.readRequest(r)
	key := h.key(r)
	e.Key = keyText(key)
	if h.o.Observe {
		e.say("Observe mode is on: nothing is shared, stored or rejected. The rest describes what would happen without it.")
	}
	if r != sent {
		e.say("The query rules leave %q of its query, for the key and the forwarded request.", r.URL.RawQuery)
	}
	h.explainDeadline(&e, sent)
	rule := h.reads.of(r)
	why := h.bypasses(r, q, rule != nil)
	if why == usesCache {
		if h.ignores && h.policy.Forward(r.Header, true) {
			r, q = h.asked(r, q)
			e.say("The policy removes fields or cookies from it before it is compared and forwarded.")
		}
		why = h.bypassesAsked(r, q)
	}
	if h.once != nil && !h.safe(r) {
		h.explainOnce(&e, r)
	}
	if why != usesCache {
		e.Answer = "pass"
		e.say("It bypasses the cache and is forwarded under the limits: %v.", why)
		return e
	}
	if rule != nil {
		in, bodyKey, ok := h.explainRead(&e, rule, r)
		if !ok {
			return e
		}
		r, key, q.Read = in, bodyKey, true
	}
	now := time.Now()
	c := &call{h: h, r: r, q: q, key: key}
	if h.explainStored(&e, c, now) {
		return e
	}
	h.explainCall(&e, c, now)
	return e
}

// withBody returns r with its body in memory, if the cost is read from it.
func (h *Handler) withBody(r *http.Request) *http.Request {
	most := h.o.Clients.ReadAhead
	if rule := h.reads.of(r); rule != nil {
		most = max(most, rule.most)
	}
	if h.costs.field.IsZero() || r.Body == nil || r.ContentLength <= 0 || r.ContentLength > most {
		return r
	}
	body := aheadReader{client: new(slow.Client), mem: &memory{budget: new(budget), most: most + 1}, src: r.Body, n: int(r.ContentLength)}
	read, got, err := body.read()
	if err != nil || got != gotAll {
		return r // the steps describe it
	}
	own := *r
	own.Body = newReadBody(read)
	return &own
}

// explainCost describes what the request is expected to cost.
func (h *Handler) explainCost(e *Explanation, r *http.Request) {
	units := h.costs.estimate(r)
	switch e.Answer {
	case "error":
		return
	case "hit", "stale":
		e.say("The response costs nothing. The estimate for a call is %d.", units)
		return
	case "join":
		e.say("It costs nothing if it shares that call. The estimate for its own is %d.", units)
		return
	}
	e.Cost = units
	by := "it is counted, and no budget limits it"
	if h.o.Budget != nil || h.o.ClientBudget != nil {
		by = "it is taken from the budget before the call, and corrected after it"
	}
	e.say("The estimated cost of the call is %d: %s.", units, by)
}

func (e *Explanation) say(format string, args ...any) {
	e.Steps = append(e.Steps, fmt.Sprintf(format, args...))
}

// mostExplained is how many of the responses that are stored for its URL an Explanation
// lists; the selected one is always among them.
const mostExplained = 32

// explainStored describes what is stored for c, and reports whether that is the
// response.
func (h *Handler) explainStored(e *Explanation, c *call, now time.Time) bool {
	proof := proofOf(c.r)
	selected := h.cache.store.Find(c.key, proof, &c.q)
	more := 0
	for _, s := range h.cache.store.Variants(c.key) {
		if s.Proof != proof {
			continue
		}
		if len(e.Stored) >= mostExplained && s != selected {
			more++
			continue
		}
		st := s.At(now, c.q)
		e.Stored = append(e.Stored, StoredState{
			Status: s.Status, Bytes: int(s.Size()), Age: st.Age.Round(time.Millisecond).String(),
			TTL: st.TTL.Round(time.Millisecond).String(), Vary: s.Vary, Tags: publicTags(s.Tags),
			Purged: s.Marked.Load(), Selected: s == selected,
		})
	}
	if more > 0 {
		e.say("%d more responses are stored for its URL; they were stored before these.", more)
	}
	s, u := h.find(c.key, c.r, c.q, now)
	c.stale, c.due = s, u.due
	switch {
	case h.o.NoStore:
		e.say("Storing is disabled.")
	case c.q.NoStore:
		e.say("It has no-store, so the store is not consulted, and its response is not stored.")
	case len(e.Stored) == 0 && h.cache.mayBeInFolder(c.key):
		e.say("Memory has nothing for its URL, but the folder does: a request reads it there, and may use it.")
	case len(e.Stored) == 0 && c.q.Read:
		e.say("Nothing is stored for its URL with this body. For other bodies of its URL, %d responses are stored.",
			h.cache.store.Tagged(readTag(c.key)))
	case len(e.Stored) == 0:
		e.say("Nothing is stored for its URL.")
	case selected == nil && h.cache.store.Part(c.key, &c.q) != nil:
		if hit, ok := h.findPart(c.r, c.q, c.key, now); ok {
			e.Answer = "hit"
			e.say("The range that it requests is stored, and fresh for another %v.", hit.standing.TTL.Round(time.Millisecond))
			return true
		}
		e.say("Only parts of a response are stored for its URL. If they can be completed, only what is missing is requested.")
	case selected == nil:
		e.say("The responses stored for its URL are for other values of %s.", strings.Join(e.Stored[0].Vary, ", "))
	case s == nil:
		e.say("What is stored is not for requests with %s: it was not marked public or s-maxage.", credentials(c.q.Credentials))
	case u.fresh:
		e.Answer = "hit"
		e.say("The stored response is fresh for another %v.", u.TTL.Round(time.Millisecond))
		return true
	case u.swr:
		e.Answer = "stale"
		e.say("The stored response has been stale for %v, and may be used while it is revalidated in the background.", -u.TTL.Round(time.Millisecond))
		return true
	case u.due:
		e.say("The stored response is fresh for another %v, but the fleet is checked for a newer one first.", u.TTL.Round(time.Millisecond))
	case c.q.NoCache:
		e.say("It does not accept a stored response without revalidation (no-cache, max-age=0).")
	case s.Marked.Load():
		e.say("The stored response was expired by a purge: it may be used only if the call fails.")
	case s.Validate:
		e.say("The stored response has no-cache: it is validated before each use.")
	default:
		e.say("The stored response is stale, or not as fresh as the request requires.")
	}
	if s != nil && u.IfError && !u.due && h.o.Cooling >= 0 {
		if f := s.Failing.Load(); f != nil && now.Before(f.Until) {
			e.Answer = "stale"
			e.say("The last call failed: for another %v, the stale response is served without a call.", f.Until.Sub(now).Round(time.Millisecond))
			return true
		}
	}
	if s != nil && u.IfError {
		e.say("If the call fails or is rejected, the stale response may be used instead.")
	}
	return false
}

// explainCall describes the call that would be made.
func (h *Handler) explainCall(e *Explanation, c *call, now time.Time) {
	l := h.cache.hints.of(c.key)
	switch {
	case c.q.OnlyIfCached:
		e.Answer = "error"
		e.say("It has only-if-cached: 504.")
		return
	case h.o.NoCoalescing:
		e.say("Coalescing is disabled.")
	case now.Before(l.soloUntil):
		e.say("Recent responses for this URL could not be shared: for another %v, its requests do not wait for each other.", l.soloUntil.Sub(now).Round(time.Millisecond))
	case l.large(c.q.Credentials, now):
		e.say("A recent response for this URL was larger than %d bytes: for another %v, its requests do not wait for each other.", h.o.MaxObject, l.largeUntil.Sub(now).Round(time.Millisecond))
	case c.alone():
		e.say("It has %s, and the URL has not answered so that those may share.", credentials(c.q.Credentials))
	default:
		g := c.group()
		h.cache.mu.Lock()
		f := h.cache.findLocked(c.key, g)
		h.cache.mu.Unlock()
		if f != nil {
			e.Answer = "join"
			e.say("It joins a call in flight. The response headers decide whether it may share the response.")
			return
		}
		if c.leads() {
			e.Answer = "lead"
			if h.newFleetLookup(nil, c) != nil {
				e.say("The fleet is checked first: another instance may have the response, or be about to get it.")
			}
			e.say("It starts a call that others may join.")
			return
		}
		e.say("It cannot start a shared call: it is a HEAD, or has a condition, a range, or no-store.")
	}
	e.Answer = "call"
	e.say("It makes a call of its own, under the limits.")
}

func credentials(c rfc9111.Credentials) string {
	switch c {
	case rfc9111.Authorization:
		return "Authorization"
	case rfc9111.Cookie:
		return "Cookie"
	}
	return "Authorization and Cookie"
}
