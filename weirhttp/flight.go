package weirhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/stream"
	"github.com/weir-go/weir/limit"
)

// A group is what requests for one key have in common that wait for each other.
// That they may share the answer is proved at its head; the group only keeps
// those apart of whom it is known that they may not.
type group struct {
	handler  *Handler
	selected string // what they say about the fields that the key's answers vary by
	alike    uint64 // a digest of all their fields, where only alike requests share
	reload   bool   // they do not want what is stored
	hops     int    // weirs that they have passed, see cdnloop.Hops
}

// A flight is one call for a key and the requests that wait for it. It belongs
// to none of them.
type flight struct {
	key    responses.Key
	group  group
	req    *http.Request // the leader's, as it is forwarded
	q      rfc9111.Request
	stale  *responses.Stored // what the call validates, or nil
	known  *responses.Stored // what was stored when it began, or nil
	write  *responses.Write
	lookup *fleetLookup // in the fleet, or nil
	cancel context.CancelCauseFunc
	born   time.Time

	// guarded by Cache.mu
	older, younger *flight // in its Handler's activeFlights

	listed  bool   // newcomers find it
	turned  bool   // its head is being judged, or final: who joins judges for itself
	over    bool   // its end is decided
	ended   bool   // so has the call
	lost    bool   // it was given up before its call has ended
	pinned  bool   // the cache itself waits for it: a refresh
	keeps   bool   // what it brings is to be stored
	asking  bool   // it asks the fleet, there is no call yet
	root    uint64 // the fleet's fence under which the call is made
	joiners int
	waiting []*joiner    // before the head
	crowd   admit.Crowd  // of waiting: what they ask of the limiter
	place   *limit.Place // while it is queued for admission
	nested  lend.Call    // calls that wait for it, and what they can lend
	// call is the context of the call, as the Observer has returned it. nil
	// without one, or before.
	call context.Context

	// headed is closed once the head, or the failure, is final. The fields
	// below are written before, and only read after.
	headed   chan struct{}
	err      error // there is no answer
	resp     rfc9111.Response
	header   http.Header
	body     *stream.Body
	length   int64             // of the body, -1 if it is not known
	valid    *responses.Stored // the origin said that this holds
	upstream int               // its status
	queued   time.Duration
	endless  bool // the answer goes on without an end
	// Instead of a head: what the fleet had, whether that is what was here, why it
	// is given though it is stale, whether f has waited for it; or that no response is
	// for the callers that wait.
	shared    *responses.Stored
	own       bool
	because   error
	waited    bool
	dispersed bool

	// done is closed once everything is final, also what is stored.
	done chan struct{}
}

// A joiner is a request on a flight that has no head yet.
type joiner struct {
	header  http.Header
	q       rfc9111.Request
	leader  bool
	info    chan early // for the leader: answers before the final one
	at      int        // its place in flight.waiting, guarded by Cache.mu
	inCrowd admit.Joiner

	// written before flight.headed is closed
	reader   *stream.Reader
	released bool // it may not have the answer
}

// An early is an answer with a status of 1xx.
type early struct {
	status int
	header http.Header
}

// joinLocked adds w to the callers that wait for the head, or counts a joiner for whom
// nothing has to be proved if w is nil. It is refused if the flight is queued for admission, and w could
// not be served in time. Cache.mu must be held.
func (f *flight) joinLocked(w *joiner, d admit.Demand) error {
	if f.place != nil {
		if err := f.place.Join(d.Until, d.Priority); err != nil {
			return err
		}
	}
	f.joiners++
	if !f.turned {
		w.at = len(f.waiting)
		f.waiting = append(f.waiting, w)
		w.inCrowd.Demand = d
		f.crowd.Add(&w.inCrowd)
	}
	return nil
}

// demandLocked returns what the callers that wait now bring to the limiter. None waits
// for a refresh, which is Background then, or for what goes on all the same.
// Cache.mu must be held.
func (f *flight) demandLocked() admit.Demand {
	d, some := f.crowd.Demand()
	switch {
	case !some && f.pinned:
		return admit.Demand{Priority: limit.Background}
	case !some:
		return admit.Demand{Priority: limit.Low}
	case f.pinned:
		d.Until = time.Time{} // the cache has no deadline
	}
	return d
}

// quit takes w off before there is a head. It reports false if it is too late
// for that: the head is being judged, for w as well.
func (f *flight) quit(w *joiner) bool {
	c := f.group.handler.cache
	c.mu.Lock()
	if f.turned {
		c.mu.Unlock()
		return false
	}
	last := len(f.waiting) - 1
	f.waiting[w.at] = f.waiting[last]
	f.waiting[w.at].at = w.at
	f.waiting = f.waiting[:last]
	if f.crowd.Remove(&w.inCrowd) && f.place != nil {
		f.place.Leave(f.demandLocked().Priority) // it queues as the callers that stay
	}
	c.mu.Unlock()
	f.leave()
	return true
}

// leave takes a joiner off. The last one out also takes f out of the table,
// under the same lock, or a newcomer could join a flight that is already lost.
func (f *flight) leave() {
	h := f.group.handler
	h.cache.mu.Lock()
	f.joiners--
	free := f.joiners == 0 && f.ended
	lost := f.joiners == 0 && !f.pinned && !f.over && !f.goesOnLocked()
	if lost {
		h.cache.unlistLocked(f)
		f.over, f.lost = true, true
	}
	h.cache.mu.Unlock()
	if free && f.body != nil {
		f.body.Release()
	}
	if lost {
		h.count.abandoned.Add(1)
		f.cancel(ErrAbandoned)
	}
}

// unread counts f as abandoned, unless leave has: the last reader has gone, and
// perhaps not left yet.
func (f *flight) unread() {
	h := f.group.handler
	h.cache.mu.Lock()
	lost := f.lost
	f.over = true
	h.cache.mu.Unlock()
	if !lost {
		h.count.abandoned.Add(1)
	}
}

// goesOnLocked reports whether f runs to its end though nobody waits for it: if
// the Options say so, and once there is a head only for what will be stored.
// Cache.mu must be held.
func (f *flight) goesOnLocked() bool {
	return f.group.handler.o.FinishAbandoned && (!f.turned || f.keeps)
}

// fail ends f without an answer, unless it has one already, and reports whether
// it did.
func (f *flight) fail(err error) bool {
	c := f.group.handler.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return f.failLocked(err)
}

func (f *flight) failLocked(err error) bool {
	if f.turned {
		return false
	}
	f.turned, f.over = true, true
	f.group.handler.cache.unlistLocked(f)
	f.waiting = nil
	f.err = err
	close(f.headed)
	return true
}

// head makes the head of the answer final. Each caller that waits is judged for
// itself: it shares, with a cursor from the first byte, or is released, and so
// are all but the leader when alone is set. What was learned is known before,
// so that who is released does not wait again (H1, H7). It reports false if f
// has failed meanwhile.
func (f *flight) head(resp rfc9111.Response, header http.Header, body *stream.Body, length int64, alone bool) bool {
	h, c := f.group.handler, f.group.handler.cache
	c.hints.learn(f.key, &resp, resp.Received, h.o.Relearn)
	c.mu.Lock()
	if f.turned {
		c.mu.Unlock()
		return false
	}
	f.turned = true
	f.keeps = resp.Storable
	waiting := f.waiting
	f.waiting = nil
	if alone || !resp.Storable || !resp.Explicit {
		c.unlistLocked(f) // nobody joins after the head
	}
	f.group.selected = rfc9111.Selecting(resp.Vary, f.req.Header) // as newcomers look for it now
	if resp.Sharing == rfc9111.Anyone {
		f.group.alike = 0
	}
	c.mu.Unlock()

	f.resp, f.header, f.body, f.length = resp, header, body, length
	f.upstream = resp.Status
	h.answered(resp.Status)
	for _, w := range waiting {
		w.released = !w.leader && (alone || !h.policy.MayShare(&resp, f.req.Header, w.header, w.q))
		if !w.released {
			w.reader = body.Join()
		}
	}
	close(f.headed)
	return true
}

// validated makes it final that what is stored holds: the origin said so. It
// reports false if f has failed meanwhile.
func (f *flight) validated(s *responses.Stored) bool {
	h := f.group.handler
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	if f.turned {
		return false
	}
	f.turned, f.over = true, true
	h.cache.unlistLocked(f)
	for _, w := range f.waiting {
		w.released = !w.leader && !h.policy.MayShare(&s.Response, f.req.Header, w.header, w.q)
	}
	f.waiting = nil
	f.valid, f.upstream = s, http.StatusNotModified
	close(f.headed)
	return true
}

// detach makes f unknown to who comes after.
func (f *flight) detach() {
	c := f.group.handler.cache
	c.mu.Lock()
	c.unlistLocked(f)
	c.mu.Unlock()
}

// callEnded is called when the call has ended, and before its readers know. Else
// the first of them that is done would find f abandoned:
//
//	A: has the whole answer and leaves; it is the last one
//	B: finds f no more in the table, and nothing in the store yet
func (f *flight) callEnded() {
	c := f.group.handler.cache
	c.mu.Lock()
	f.over = true
	c.mu.Unlock()
}

// close ends f for good: what it brought is stored, or is not.
func (f *flight) close() {
	c := f.group.handler.cache
	c.mu.Lock()
	f.over, f.ended = true, true
	free := f.joiners == 0
	c.unlistLocked(f)
	f.group.handler.active.removeLocked(f)
	c.mu.Unlock()
	if free && f.body != nil {
		f.body.Release()
	}
	close(f.done)
}
