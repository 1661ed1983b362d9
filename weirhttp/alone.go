package weirhttp

import (
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/weir/internal/rfc9111"
)

// Bounds of AloneStats.
const (
	// MaxAloneFields is the number of field names in AloneStats.Fields.
	MaxAloneFields = 16
	// OtherFields stands for further names there.
	OtherFields = "(others)"
)

// AloneStats say why requests in Stats.Missed were served by a separate call, although
// a response was stored for their URL, or cannot be. A request for a URL of which nothing
// is stored yet, or only a stale response, is in neither.
type AloneStats struct {
	// Reasons counts the requests by reason: a bypass ("upgrade", "event-stream",
	// "override", …), what the response says ("private", "set-cookie", "cookie",
	// "no-freshness", …, as the detail of Cache-Status), "request" for no-cache and
	// no-store of the client, "credentials", or "apart": a response is stored, for
	// requests with other fields.
	Reasons map[string]uint64 `json:"reasons,omitempty"`
	// Fields counts, of the requests that were apart, how many had each field that keeps
	// requests apart: one that does not change the response belongs into
	// Policy.UnkeyedHeaders, one that does into Policy.Vary. There are at most MaxAloneFields names; the rest is OtherFields.
	Fields map[string]uint64 `json:"fields,omitempty"`
	// Pairs compares, in observe mode, responses to requests that differ in one of Fields
	// alone: evidence for Policy.UnkeyedHeaders, or against it.
	Pairs map[string]PairStats `json:"pairs,omitempty"`
}

// All yields each reason with its count. "apart" is always among them, so that a rate of it
// can be watched from the start.
func (a AloneStats) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		if !yield(aloneApart, a.Reasons[aloneApart]) {
			return
		}
		for _, reason := range slices.Sorted(maps.Keys(a.Reasons)) {
			if reason != aloneApart && !yield(reason, a.Reasons[reason]) {
				return
			}
		}
	}
}

// PairStats count pairs of responses.
type PairStats struct {
	Same     uint64 `json:"same"`     // comparisons with the same status and body
	Differed uint64 `json:"differed"` // comparisons with a different status or body
}

// alone is the source of AloneStats.
type alone struct {
	mu      sync.Mutex
	reasons map[string]uint64    // guarded by mu; the keys are constants
	fields  map[string]uint64    // guarded by mu
	pairs   map[string]PairStats // guarded by mu
}

// add counts a request, which was parsed as q, for a reason; none if that is "".
func (a *alone) add(reason string, q *rfc9111.Request) {
	if reason == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reasons == nil {
		a.reasons, a.fields, a.pairs = map[string]uint64{}, map[string]uint64{}, map[string]PairStats{}
	}
	a.reasons[reason]++
	if reason != aloneApart {
		return
	}
	for name := range q.Apart() {
		a.fields[listed(a.fields, name)]++
	}
}

// pair counts two responses to requests that differ in one field.
func (a *alone) pair(name string, same bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name = listed(a.pairs, name)
	p := a.pairs[name]
	if same {
		p.Same++
	} else {
		p.Differed++
	}
	a.pairs[name] = p
}

// listed returns the name under which a field is counted in a table: clients make names
// up.
func listed[V any](in map[string]V, name string) string {
	if _, ok := in[name]; !ok && len(in) >= MaxAloneFields {
		return OtherFields
	}
	return strings.Clone(name)
}

// Reasons that are not in the receipt.
const (
	aloneApart       = "apart"
	aloneCredentials = "credentials"
	aloneRequest     = "request"
)

// aloneBecause returns why c made a separate call; "" if it was the first for its URL, or
// for a stale response, or if the call failed, which is counted elsewhere.
func (c *call) aloneBecause() string {
	switch detail := c.receipt.Detail; {
	case c.bypass != usesCache:
		return c.bypass.token()
	case c.denied:
		return aloneCredentials
	case detail == detailCooling, detail == detailFleet, detail == rfc9111.ReasonStatus && c.receipt.UpstreamStatus >= http.StatusBadRequest:
		return ""
	case detail != "":
		return detail
	case c.receipt.Forwarded == "request":
		return aloneRequest
	case c.varied:
		return aloneApart
	}
	return ""
}

// Alone returns a snapshot of how many requests shared nothing, and why.
func (h *Handler) Alone() AloneStats {
	a := &h.alone
	a.mu.Lock()
	defer a.mu.Unlock()
	return AloneStats{Reasons: maps.Clone(a.reasons), Fields: maps.Clone(a.fields), Pairs: maps.Clone(a.pairs)}
}
