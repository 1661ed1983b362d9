package weirhttp

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/plain"
)

// writeHead writes the headers of a response that a call brought. The fields are
// already in c.w.
func (c *call) writeHead(o Outcome, status int) {
	c.setStatus(o)
	if status >= 500 && !c.counted && (o == OutcomeMiss || o == OutcomePass) {
		c.h.count.missedErrors.Add(1)
	}
	c.report(o)
	h := c.w.Header()
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http guesses one (H17)
	}
	if status == http.StatusNotModified && c.r.ProtoMajor == 1 {
		spare(h)
	}
	c.w.WriteHeader(status)
}

// spare saves two fields of a 304 that net/http's server would remove. It knows them
// by their usual spelling only (H17).
func spare(h http.Header) {
	for _, name := range []string{"Content-Type", "Content-Length"} {
		if v := h[name]; len(v) > 0 {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
}

// counts counts c in one of the request counters, unless c is counted already: it may
// have been tried several times, but is one request.
func (c *call) counts(in *atomic.Uint64) {
	if !c.counted {
		c.counted = true
		in.Add(1)
	}
}

// became counts c by its outcome. Rejections, and clients that have left, were
// counted before.
func (c *call) became(o Outcome) {
	_ = c.time.begins()
	n := &c.h.count
	switch o {
	case OutcomePass, OutcomeMiss:
		if !c.counted {
			c.h.alone.add(c.aloneBecause(), &c.q)
		}
		c.counts(&n.missed)
	case OutcomeJoined:
		c.counts(&n.joined)
	case OutcomeHit:
		if c.fleet {
			c.counts(&n.fleetHits)
		} else {
			c.counts(&n.hits)
		}
	case OutcomeStale:
		if c.fleet && !c.counted {
			defer n.fleetStale.Add(1) // after stale, which includes it
		}
		c.counts(&n.stale)
	case OutcomeValidated:
		c.counts(&n.validated)
	default:
		c.counts(&n.unanswered)
	}
}

// report passes on the receipt.
func (c *call) report(o Outcome) {
	c.receipt.Outcome = o
	c.became(o)
	c.receipt.RequestID = c.id
	if f := fallbackOf(c.r.Context()); f != nil {
		c.receipt.Fallback, c.receipt.FallbackReason = f.Name, f.Reason
	}
	c.h.identified(c.w, c.id, o == OutcomeMiss || o == OutcomePass)
	c.h.report(c.w, c.receipt)
}

// setStatus adds Cache-Status (RFC 9211) to a response that was not simply a hit.
func (c *call) setStatus(o Outcome) {
	c.receipt.Outcome = o
	c.receipt.Forwarded = c.forwarded()
	if c.h.o.NoReceipt {
		return
	}
	var room [256]byte // usually enough
	b := append(room[:0], c.h.name...)
	if c.receipt.Forwarded == "" {
		b = append(b, "; hit"...)
	} else {
		b = append(b, "; fwd="...)
		b = append(b, c.receipt.Forwarded...)
	}
	if c.receipt.UpstreamStatus != 0 {
		b = append(b, "; fwd-status="...)
		b = strconv.AppendInt(b, int64(c.receipt.UpstreamStatus), 10)
	}
	if c.receipt.Stored || o == OutcomeStale {
		b = append(b, "; ttl="...)
		b = strconv.AppendInt(b, int64(math.Ceil(c.receipt.TTL.Seconds())), 10)
	}
	if c.receipt.Stored {
		b = append(b, "; stored"...)
	}
	switch {
	case c.receipt.Collapsed:
		b = append(b, "; collapsed"...)
	case c.rounds > 0:
		b = append(b, "; collapsed=?0"...) // it has waited for a response that it could not use
	}
	if c.h.o.ReceiptKey {
		b = appendQuoted(append(b, "; key="...), keyText(c.key))
	}
	h, detail := c.w.Header(), c.receipt.Detail
	if f := fallbackOf(c.r.Context()); f != nil && (o == OutcomePass || o == OutcomeMiss || o == OutcomeJoined) {
		if detail != "" {
			detail += ", "
		}
		detail += "fallback " + f.Name + " (" + f.Reason + ")"
		next := append(appendQuoted([]byte(c.h.name+"; next-hop="), f.Name), "; details="...) // RFC 9209, section 2.1.2
		old := h["Proxy-Status"]
		h["Proxy-Status"] = append(old[:len(old):len(old)], string(appendQuoted(next, "fallback: "+f.Reason)))
	}
	if detail != "" {
		b = appendQuoted(append(b, "; detail="...), detail)
	}
	old := h["Cache-Status"]
	h["Cache-Status"] = append(old[:len(old):len(old)], string(b))
}

// forwarded returns the fwd parameter of RFC 9211 for c: why a call was made.
func (c *call) forwarded() string {
	switch {
	case c.receipt.Detail == detailReplayed:
		return "" // no call was made for it (H45)
	case c.partial:
		return "partial"
	case c.r.Method != http.MethodGet && c.r.Method != http.MethodHead && (!c.q.Read || c.receipt.Outcome == OutcomePass):
		return "method"
	case c.h.o.NoStore, c.denied, c.receipt.Outcome == OutcomePass:
		return "bypass"
	case c.q.NoStore, c.q.NoCache && c.stale != nil && c.standing().TTL > 0:
		return "request"
	case c.stale != nil:
		return "stale"
	case c.varied:
		return "vary-miss"
	}
	return "uri-miss"
}

// tellKey adds the key to the Cache-Status of a hit, if that is enabled.
func (h *Handler) tellKey(w http.ResponseWriter, key responses.Key) {
	if !h.o.ReceiptKey || h.o.NoReceipt {
		return
	}
	d := w.Header()
	list := d["Cache-Status"]
	told := make([]string, len(list))
	copy(told, list)
	told[len(told)-1] += "; key=" + quote(keyText(key))
	d["Cache-Status"] = told
}

// keyText formats key for people; it is not compared.
func keyText(k responses.Key) string {
	text := k.Scheme + "://" + plain.Authority(k.Host) + k.Target
	if k.Body != "" {
		text += " body=" + bodyText(k.Body)
	}
	return plain.Line(text)
}

// quote formats s as a string of RFC 8941.
func quote(s string) string { return string(appendQuoted(nil, s)) }

// appendQuoted appends s as a string of RFC 8941. It omits everything but printable ASCII,
// which such a string cannot express.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		case ch >= ' ' && ch <= '~':
			b = append(b, ch)
		}
	}
	return append(b, '"')
}

// sfName formats a name as a token of RFC 8941 if it is one, else as a string.
func sfName(s string) string {
	for i := range len(s) {
		ch := s[i]
		letter := ch|0x20 >= 'a' && ch|0x20 <= 'z'
		if !letter && (i == 0 && ch != '*' || !(ch >= '0' && ch <= '9') && !strings.ContainsRune(":/!#$%&'*+-.^_`|~", rune(ch))) {
			return quote(s)
		}
	}
	return s
}
