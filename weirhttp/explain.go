package weirhttp

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

// Explanation tells what would become of a request, and why.
type Explanation struct {
	Method string        `json:"method"`
	Key    string        `json:"key"`    // as in Cache-Status
	Answer string        `json:"answer"` // "hit", "stale", "join", "lead", "call", "pass" or "error"
	Steps  []string      `json:"steps"`  // one sentence each, in the order of the decisions
	Stored []StoredState `json:"stored"` // every variant, the newest first
}

// StoredState is one stored response in an Explanation.
type StoredState struct {
	Status   int      `json:"status"`
	Bytes    int      `json:"bytes"`          // of the body
	Age      string   `json:"age"`            // as a Go duration
	TTL      string   `json:"ttl"`            // negative when stale
	Vary     []string `json:"vary,omitempty"` // names only, values are never told
	Tags     []string `json:"tags,omitempty"`
	Purged   bool     `json:"purged,omitempty"` // softly
	Selected bool     `json:"selected"`         // it is the one for this request
}

// Explain tells what would become of r if it came now (H21). It changes nothing
// and asks nobody; the limits are not asked either.
func (h *Handler) Explain(r *http.Request) Explanation {
	e := Explanation{Method: r.Method}
	if r.Header == nil {
		r = r.Clone(r.Context())
		r.Header = make(http.Header)
	}
	q := h.policy.ReadRequest(r.Header)
	key := h.key(r)
	e.Key = keyText(key)
	if h.o.Observe {
		e.say("Observe mode is on: nothing is shared, stored or refused. This is what would become of it without.")
	}
	if why := passes(r, q); why != "" {
		e.Answer = "pass"
		e.say("It is passed on under the limits, and concerns no cache: %s.", why)
		return e
	}
	if h.ignores && h.policy.Forward(r.Header, true) {
		r = r.Clone(r.Context())
		h.policy.Forward(r.Header, false)
		q = h.policy.ReadRequest(r.Header)
		e.say("The policy takes fields or cookies out of it, before it is compared and forwarded.")
	}
	if q.Override {
		e.Answer = "pass"
		e.say("It is passed on under the limits, and concerns no cache: it has a field by which it may mean another URL.")
		return e
	}
	now := time.Now()
	c := &call{h: h, r: r, q: q, key: key}
	if h.explainStored(&e, c, now) {
		return e
	}
	h.explainCall(&e, c, now)
	return e
}

func (e *Explanation) say(format string, args ...any) {
	e.Steps = append(e.Steps, fmt.Sprintf(format, args...))
}

// passes tells why a request concerns no cache, "" if it does.
func passes(r *http.Request, q rfc9111.Request) string {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return "its method is " + r.Method
	case !concerns(r):
		return "it has a body"
	case q.Upgrade:
		return "it asks for an upgrade"
	case q.Streams:
		return "it asks for a stream of events, or is gRPC"
	case q.Expect:
		return "it has an Expect field"
	}
	return ""
}

// explainStored tells what the store has, and reports whether that is the
// answer.
func (h *Handler) explainStored(e *Explanation, c *call, now time.Time) bool {
	selected := h.cache.store.Get(c.key, c.r.Header)
	for _, s := range h.cache.store.Variants(c.key) {
		st := s.At(now, c.q)
		e.Stored = append(e.Stored, StoredState{
			Status: s.Status, Bytes: len(s.Body), Age: st.Age.Round(time.Millisecond).String(),
			TTL: st.TTL.Round(time.Millisecond).String(), Vary: s.Vary, Tags: s.Tags,
			Purged: s.Marked.Load(), Selected: s == selected,
		})
	}
	s, u := h.find(c.key, c.r, c.q, now)
	c.stale, c.due = s, u.due
	switch {
	case h.o.NoStore:
		e.say("Storing is off here.")
	case c.q.NoStore:
		e.say("It has no-store, so the store is not looked at, and its answer is not stored.")
	case len(e.Stored) == 0:
		e.say("Nothing is stored for its URL.")
	case selected == nil:
		e.say("What is stored for its URL was for other values of %s.", strings.Join(e.Stored[0].Vary, ", "))
	case s == nil:
		e.say("What is stored is not for requests with %s: it was not marked public or s-maxage.", credentials(c.q.Credentials))
	case u.fresh:
		e.Answer = "hit"
		e.say("What is stored is fresh for another %v.", u.TTL.Round(time.Millisecond))
		return true
	case u.swr:
		e.Answer = "stale"
		e.say("What is stored is stale since %v, and may be used while it is revalidated in the background.", -u.TTL.Round(time.Millisecond))
		return true
	case u.due:
		e.say("What is stored is fresh for another %v, but the fleet is first checked for a newer response.", u.TTL.Round(time.Millisecond))
	case c.q.NoCache:
		e.say("It wants no answer from the store (no-cache, max-age=0).")
	case s.Marked.Load():
		e.say("What is stored was purged softly: it may only be used if the call fails.")
	case s.Validate:
		e.say("What is stored has no-cache: it is validated before each use.")
	default:
		e.say("What is stored is stale, or not as fresh as the request wants it.")
	}
	if s != nil && u.IfError && !u.due && h.o.Cooling >= 0 {
		if f := s.Failing.Load(); f != nil && now.Before(f.Until) {
			e.Answer = "stale"
			e.say("The last call failed: what is stored is given, stale, without another one for %v.", f.Until.Sub(now).Round(time.Millisecond))
			return true
		}
	}
	if s != nil && u.IfError {
		e.say("If the call fails or is refused, the stale answer may be used instead.")
	}
	return false
}

// explainCall tells what call would be made.
func (h *Handler) explainCall(e *Explanation, c *call, now time.Time) {
	l := h.cache.hints.of(c.key)
	switch {
	case c.q.OnlyIfCached:
		e.Answer = "error"
		e.say("It has only-if-cached: 504.")
		return
	case h.o.NoCoalescing:
		e.say("Coalescing is off here.")
	case now.Before(l.soloUntil):
		e.say("The answers of this URL could not be shared lately: nobody waits for another's, for %v.", l.soloUntil.Sub(now).Round(time.Millisecond))
	case c.alone():
		e.say("It has %s, and the URL has not answered so that those may share.", credentials(c.q.Credentials))
	default:
		g := c.group()
		h.cache.mu.Lock()
		f := h.cache.findLocked(c.key, g)
		h.cache.mu.Unlock()
		if f != nil {
			e.Answer = "join"
			e.say("A call is in flight that it joins. At the head of the answer it is decided whether it may share it.")
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
		e.say("It does not lead: it is a HEAD, or has a condition, a range, or no-store.")
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
