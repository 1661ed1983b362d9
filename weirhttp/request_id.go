package weirhttp

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net/http"
)

// maxRequestID is the largest length of a request ID that is kept.
const maxRequestID = 128

// RequestID returns the request ID in the field of h with this canonical name. If there is
// none, several, or one that is empty, longer than 128 bytes or not printable ASCII without
// spaces, it returns a new one, of 32 hexadecimal digits, and true. It does not change h.
//
// Any client may choose the ID of its request: an ID proves nothing, and the same one at both
// ends helps to match their logs. [Options.RequestID] is RequestID for a Handler.
func RequestID(h http.Header, field string) (id string, made bool) {
	if ids := h[field]; len(ids) == 1 && saneID(ids[0]) {
		return ids[0], false
	}
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]), true
}

func saneID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}

// identify returns r with a request ID, and the ID, empty without Options.RequestID. It is
// called for requests that are not hits, which must not allocate. If r has no ID, the result is
// a copy in own, or a new one if that is nil.
func (h *Handler) identify(r, own *http.Request) (*http.Request, string) {
	if h.o.RequestID == "" {
		return r, ""
	}
	id, made := RequestID(r.Header, h.o.RequestID)
	if !made {
		return r, id
	}
	if own == nil {
		own = new(http.Request)
	}
	*own = *r
	if own.Header = maps.Clone(r.Header); own.Header == nil {
		own.Header = http.Header{}
	}
	own.Header[h.o.RequestID] = []string{id}
	return own, id
}

// identify gives c a request ID, see Handler.identify.
func (c *call) identify() { c.r, c.id = c.h.identify(c.r, &c.own) }

// identified gives a response the ID of the request it is for. The ID in the fields of a response
// that was stored, or that another request's call has brought, is that of another request.
// own reports that the response came from the request's own call: then an ID that the origin
// sent is relayed.
func (h *Handler) identified(w http.ResponseWriter, id string, own bool) {
	if id == "" {
		return
	}
	if fields := w.Header(); !own || len(fields[h.o.RequestID]) == 0 {
		fields[h.o.RequestID] = []string{id}
	}
}
