package weirhttp

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// maxPromoted is the size up to which a body from the folder is kept in memory. Larger
// ones are read while they are sent.
const maxPromoted = 256 << 10

// rulesOf returns a number that stands for a policy: a response that was stored under
// another one is not taken from the folder. Fields that are not set do not count, so
// that a version with more of them does not start cold. Nor does Gateway: all Handlers of
// a folder have it, or none.
func rulesOf(p rfc9111.Policy) uint64 {
	p.Gateway, p.Identify = false, nil
	var text []byte
	for v, i := reflect.ValueOf(p), 0; i < v.NumField(); i++ {
		if f := v.Field(i); !f.IsZero() {
			text = fmt.Appendf(text, "%s=%#v;", v.Type().Field(i).Name, f.Interface())
		}
	}
	sum := sha256.Sum256(text)
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
}

// rulesFor returns the rules of a response to a request with these fields; 0 if it is
// not for the folder, because it is only for requests with the same credentials.
func (h *Handler) rulesFor(resp *rfc9111.Response, req http.Header) uint64 {
	for _, name := range resp.Vary {
		switch {
		case (name == "Cookie" || strings.HasPrefix(name, "cookie:")) && len(req["Cookie"]) > 0,
			name == "Authorization" && len(req["Authorization"]) > 0:
			return 0
		}
	}
	return h.rules
}

// findInFolder returns the response for r in the folder, and how it may be used. It
// is for requests that find nothing in memory. It returns nil if there is none that r
// may see. If Large is set, the caller closes it after the response is served.
func (h *Handler) findInFolder(key responses.Key, r *http.Request, q rfc9111.Request, now time.Time) (*responses.Stored, use) {
	d := h.cache.folder.Load()
	if d == nil || h.o.NoStore || q.NoStore || q.Streams || !key.MayBeOnDisk(d) {
		return nil, use{}
	}
	if q.Credentials != 0 && h.cache.store.Get(key, &q) != nil {
		return nil, use{} // memory has it, but r may not see it
	}
	// A purge from here on voids the write: then what was read is not used.
	w := h.cache.store.Begin(key)
	defer w.Drop()
	e, head := h.cache.store.OnDisk(d, key, func(x *responses.DiskHead) bool {
		return x.Rules == h.rules && !x.Received.After(now) && rfc9111.Matches(x.Vary, x.Selected, &q)
	})
	if e == nil {
		return nil, use{}
	}
	s := h.fromFolder(head, e, r, q)
	if s == nil || q.Credentials&^s.Admits != 0 {
		e.Close()
		return nil, use{}
	}
	u := h.uses(s, key, r, q, now)
	if e.Size > maxPromoted && u.fresh {
		if w.Void() {
			e.Close()
			return nil, use{}
		}
		s.Large = e
		return s, u
	}
	defer e.Close()
	if !h.promote(s, e, w) {
		return nil, use{}
	}
	h.cache.learn(key, &s.Response, q.Credentials, now, h.o.Relearn)
	return s, u
}

// mayBeInFolder reports whether the folder has a response for the URL.
func (c *Cache) mayBeInFolder(key responses.Key) bool {
	d := c.folder.Load()
	return d != nil && key.MayBeOnDisk(d)
}

// fromFolder builds a stored response from an entry of the folder, without its body.
// The policy decides again, as if the origin had just sent it. fromFolder returns nil
// if the policy would not store it, or would for other requests.
func (h *Handler) fromFolder(head *responses.DiskHead, e *disk.Entry, r *http.Request, q rfc9111.Request) *responses.Stored {
	get := *r
	get.Method = http.MethodGet // a HEAD uses the response to a GET
	resp := h.rulesNow().Read(&get, q, head.Status, head.Header, head.Received, head.Received)
	if !resp.Storable || !slices.Equal(resp.Vary, head.Vary) {
		return nil
	}
	resp.Age = head.Age
	s := h.stored(resp, r, q, head.Header, nil)
	s.Marked.Store(e.Soft)
	if h.cache.fleet.Load() == nil {
		return s
	}
	// What was purged in the fleet while this instance was down must not come back:
	// without the fleet's word, s is of no use.
	s.Root, s.Place = head.Root, head.Place
	s.Fence.Store(head.Fence)
	s.StaleWhileRevalidate, s.StaleIfError, s.StaleOffline = 0, 0, 0
	s.Checked.Store(responses.Unproved)
	return s
}

// promote reads the body of e into s, and stores s in memory. It reports false if s
// may not be used: it was purged meanwhile, or it cannot be read.
func (h *Handler) promote(s *responses.Stored, e *disk.Entry, w *responses.Write) bool {
	if e.Size > h.o.MaxObject || !h.cache.store.Reserve(e.Size) {
		return false
	}
	body, err := e.Body()
	h.cache.store.Reserve(-e.Size)
	if err != nil {
		return false
	}
	s.Body = body
	return w.Promote(s)
}

// sendLarge writes the status and the body of s, a response from the folder, or the
// part of it that r asks for. If the body turns out to be damaged, the response is cut
// off: the client must not take the part that it has for the whole.
func (h *Handler) sendLarge(w http.ResponseWriter, r *http.Request, q rfc9111.Request, s *responses.Stored) {
	body := s.Large.NewReader()
	defer body.Close()
	switch {
	case (q.Conditional || q.Range) && s.Status == http.StatusOK:
		content(w, r, s.Header, s.Received, s.Size(), body)
	case r.Method == http.MethodHead:
		w.WriteHeader(s.Status)
	default:
		w.WriteHeader(s.Status)
		_, _ = body.WriteTo(w) // if the client has gone, the server notices
	}
	if body.Err() != nil {
		Break(w, r)
	}
}
