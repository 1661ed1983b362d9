package weirhttp

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// A piece is a part that a call brings, before it is combined.
type piece struct {
	rfc9111.ContentRange
	header http.Header // of the 206 response
	at     time.Time   // when its head arrived
}

// readPart decides whether a response is stored as a part: if the complete response
// would be.
func (s *solo) readPart(status int, header http.Header, now time.Time) {
	c := s.c
	s.part = nil
	if status != http.StatusPartialContent || !c.q.Range || c.r.Method != http.MethodGet || isStream(header) {
		return
	}
	at, ok := rfc9111.ReadPart(header)
	if !ok {
		return
	}
	s.resp = c.h.rulesNow().Read(c.r, c.q, http.StatusOK, rfc9111.WithoutPart(header), s.sent, now)
	s.part = &piece{ContentRange: at, header: header.Clone(), at: now}
}

// keepPart stores the part that s has brought, with these bytes, combined with the
// parts that are stored. s.write began before these are looked up, so it is void if
// one of them was invalidated since.
func (s *solo) keepPart(body []byte) {
	c, p := s.c, s.part
	h, store := c.h, c.h.cache.store
	if whole := store.Get(c.key, &c.q); whole != nil {
		if !whole.Received.Before(p.at) || whole.Size() == p.Total && rfc9111.SamePart(whole.Header, p.header) {
			return // it has these bytes, or newer ones
		}
		store.Remove(c.key, whole) // the origin has another version by now
	}
	resp, header := s.resp, rfc9111.WithoutPart(p.header)
	fresh := rfc9111.Part{First: p.First, Bytes: body}
	parts := rfc9111.Parts{fresh}
	switch old := store.Part(c.key, &c.q); {
	case old == nil:
	case p.combines(old, fresh):
		both := rfc9111.Combine(old.Header, p.header)
		read := h.rulesNow().Read(c.r, c.q, http.StatusOK, both, s.sent, p.at)
		read.Tags = union(old.Tags, read.Tags) // an invalidation by a tag of either counts
		if !read.Storable || len(read.Tags) > rfc9111.MaxTags || old.Admits != read.Admits || !slices.Equal(old.Vary, read.Vary) {
			break
		}
		n := old.Partial.Parts.Size() + int64(len(body))
		if !store.Reserve(n) {
			break
		}
		resp, header, parts = read, both, old.Partial.Parts.Add(fresh, h.o.MaxObject)
		store.Reserve(-n)
	case old.Received.After(p.at):
		return // of a newer version
	}
	var stored *responses.Stored
	if whole, ok := parts.Covers(0, p.Total-1); ok {
		stored = h.stored(resp, c.r, c.q, header, whole)
	} else {
		resp.Status = http.StatusPartialContent
		stored = h.stored(resp, c.r, c.q, header, nil)
		stored.Partial = &responses.Partial{Parts: parts, Total: p.Total}
	}
	stored.Cost = s.ticket.charge.cost()
	s.write.Put(stored)
}

// combines reports whether p, which has these bytes, is of the representation that old
// has parts of.
func (p *piece) combines(old *responses.Stored, bytes rfc9111.Part) bool {
	return old.Partial.Total == p.Total && !old.Marked.Load() && rfc9111.SamePart(old.Header, p.header) && old.Partial.Parts.Agrees(bytes)
}

// union returns the tags of both, each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
