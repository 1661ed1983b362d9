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

// A group is what requests for one key that wait for each other have in common.
// Whether they may share the response is decided when its headers arrive. The group
// only separates requests that are known not to share.
type group struct {
	handler  *Handler
	proof    string // of their body, if they have one
	selected string // their values of the fields that the key's responses vary by
	reload   bool   // they do not accept stored responses
	hops     int    // weir gateways that they have passed, see cdnloop.Hops
}

// A flight is one call for a key and the requests that wait for it. No request owns
// it.
type flight struct {
	key    responses.Key
	group  group
	req    *http.Request // the leader's, as forwarded
	q      rfc9111.Request
	held   *heldBody         // of a read with a body, else nil
	stale  *responses.Stored // what the call validates, or nil
	known  *responses.Stored // what was stored when it began, or nil
	write  *responses.Write
	lookup *fleetLookup // in the fleet, or nil
	cancel context.CancelCauseFunc
	born   time.Time
	ticket ticket    // of the goroutine of the call until done is closed
	nested lend.Call // calls that wait for it, and the permits that they can lend

	// guarded by Cache.mu
	older, younger *flight // in activeFlights of its Handler
	flightState
	root uint64 // the fleet's fence under which the call is made
	// call is the context of the call that the Observer returned. nil without an
	// Observer, and before CallStart.
	call context.Context

	// headed is closed once the result is final. It is written before, and read only after.
	headed chan struct{}
	result

	// done is closed once everything is final, including what is stored.
	done chan struct{}
}

// A result is what the callers of a flight get: an error, the head of a response and a body
// that arrives, a stored response that the origin has validated, or one from the fleet. If
// dispersed is set, no response is for the callers that wait.
type result struct {
	err       error // there is no response
	resp      rfc9111.Response
	header    http.Header
	body      *stream.Body
	length    int64             // of the body, -1 if unknown
	valid     *responses.Stored // the origin has validated this stored response
	upstream  int               // status of the origin
	stated    time.Duration     // with an error status: for how long the origin must not be called; 0: it says nothing
	queued    time.Duration
	partial   bool    // the origin sent a part, which completes stored ones
	events    *events // the response is an event stream that is shared, or nil
	fleet     fleetResult
	dispersed bool
}

// endless reports whether the response has no end.
func (r *result) endless() bool { return isStream(r.header) }

// A fleetResult is a response that the fleet had for a flight, or nothing.
type fleetResult struct {
	stored  *responses.Stored
	own     bool  // it is the one that was stored here
	because error // why it is served although it is stale
	waited  bool  // the flight has waited for it
}

// A joiner is a request on a flight whose headers have not arrived yet.
type joiner struct {
	q       rfc9111.Request
	leader  bool
	info    []early       // for the leader: 1xx responses that it has not passed on; guarded by Cache.mu
	told    chan struct{} // for the leader: info has grown; capacity 1
	at      int           // its index in flight.waiting, guarded by Cache.mu
	inCrowd admit.Joiner
	payer   string // its client's key, if it could lead a call

	// written before flight.headed is closed
	reader   *stream.Reader
	released bool // it may not use the response
}

// mostEarly bounds the 1xx responses that a client can be behind. A Forwarder ends a call
// that has as many.
const mostEarly = 1000

// An early is a 1xx response.
type early struct {
	status int
	header http.Header
}

// joinLocked adds w to the callers that wait for the headers. If w is nil, it only
// counts a joiner, which is judged later. It returns an error if the flight is queued
// for admission and w could not be served in time. Cache.mu must be held.
func (f *flight) joinLocked(w *joiner, d admit.Demand) error {
	if f.place != nil {
		if err := f.place.Join(d.Until, d.Priority); err != nil {
			return err
		}
	}
	f.joiners++
	if !f.final() {
		w.at = len(f.waiting)
		f.waiting = append(f.waiting, w)
		w.inCrowd.Demand = d
		f.crowd.Add(&w.inCrowd)
	}
	return nil
}

// demandLocked returns the combined demand of the waiting callers on the limiter.
// Without any, a refresh has Background priority, and a flight that runs on anyway
// has Low. Cache.mu must be held.
func (f *flight) demandLocked() admit.Demand {
	d, some := f.crowd.Demand()
	switch {
	case !some && f.refresh:
		return admit.Demand{Priority: limit.Background}
	case !some:
		return admit.Demand{Priority: limit.Low}
	case f.refresh:
		d.Until = time.Time{} // the cache has no deadline
	}
	return d
}

// quit removes w before the headers arrive. It reports false if it is too late: the
// headers are already being judged, for w as well.
func (f *flight) quit(w *joiner) bool {
	c := f.group.handler.cache
	c.mu.Lock()
	if f.final() {
		c.mu.Unlock()
		return false
	}
	last := len(f.waiting) - 1
	f.waiting[w.at] = f.waiting[last]
	f.waiting[w.at].at = w.at
	f.waiting = f.waiting[:last]
	if f.crowd.Remove(&w.inCrowd) && f.place != nil {
		f.place.Leave(f.demandLocked().Priority) // now it queues with the demand of the remaining callers
	}
	c.mu.Unlock()
	f.leave()
	return true
}

// leave removes a joiner.
func (f *flight) leave() {
	h := f.group.handler
	h.cache.mu.Lock()
	f.joiners--
	free := f.joiners == 0 && f.phase == phaseEnded
	waits := f.joiners == 0 && f.whole && f.keeps && f.fate == fateOpen
	lost := !waits && f.loseLocked()
	h.cache.mu.Unlock()
	if free && f.body != nil {
		f.body.Release()
	}
	if waits {
		time.AfterFunc(endGrace, f.overdue)
	}
	if lost {
		f.abandon()
	}
}

// overdue gives f up if its end has not arrived within endGrace.
func (f *flight) overdue() {
	c := f.group.handler.cache
	c.mu.Lock()
	lost := f.loseLocked()
	c.mu.Unlock()
	if lost {
		f.abandon()
	}
}

// loseLocked removes f from the table if no caller needs it, and reports whether it did.
// Under another lock, a later request could join a flight that is already lost. Cache.mu
// must be held.
func (f *flight) loseLocked() bool {
	if f.joiners > 0 || f.refresh || f.fate != fateOpen || f.goesOnLocked() {
		return false
	}
	f.group.handler.cache.unlistLocked(f)
	f.decideLocked(fateAbandoned)
	return true
}

// abandon ends the call of f, which is lost.
func (f *flight) abandon() {
	f.group.handler.count.abandoned.Add(1)
	f.cancel(ErrAbandoned)
}

// unread counts f as abandoned, unless leave has done so: the last reader has gone,
// but may not have called leave yet.
func (f *flight) unread() {
	h := f.group.handler
	h.cache.mu.Lock()
	lost := f.fate == fateAbandoned
	f.decideLocked(fateCertain)
	h.cache.mu.Unlock()
	if !lost {
		h.count.abandoned.Add(1)
	}
}

// goesOnLocked reports whether f runs to its end although no caller waits for it. It
// does so with FinishAbandoned, but after the headers only if the response will be
// stored. Cache.mu must be held.
func (f *flight) goesOnLocked() bool {
	return f.group.handler.o.FinishAbandoned && (!f.final() || f.keeps)
}

// fail ends f without a response, unless its result is final, and reports whether it did.
func (f *flight) fail(err error) bool { return f.end(func() { f.err = err }) }

// end makes what set writes the result of f, unless that is final, and reports whether it
// did.
func (f *flight) end(set func()) bool {
	c := f.group.handler.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return f.endLocked(set)
}

// endLocked is end. Cache.mu must be held.
func (f *flight) endLocked(set func()) bool {
	if !f.reachLocked(phaseJudged) {
		return false
	}
	f.decideLocked(fateCertain)
	f.group.handler.cache.unlistLocked(f)
	set()
	f.waiting = nil
	close(f.headed)
	return true
}

// head makes the headers of the response final. Each waiting caller is judged
// separately: it shares the response, with a cursor at the first byte, or it is
// released. If alone is set, all but the leader are released. The hints are updated
// first, so that the released requests do not wait again (H1, H7). It reports false
// if f has already failed.
func (f *flight) head(resp rfc9111.Response, header http.Header, body *stream.Body, length int64, alone bool) bool {
	h, c := f.group.handler, f.group.handler.cache
	c.mu.Lock()
	// With the group below, under one lock: a request that knows one of them only would not
	// find f.
	if !f.reachLocked(phaseJudged) {
		c.mu.Unlock()
		return false
	}
	if c.hints.learn(f.key, &resp, f.q.Credentials, resp.Received, h.o.Relearn) {
		c.regroupLocked(f.key)
	}
	f.keeps = resp.Storable
	waiting := f.waiting
	f.waiting = nil
	if alone || !resp.Storable || !resp.Explicit {
		c.unlistLocked(f) // no request joins after the headers
	}
	f.group.selected = rfc9111.Selecting(resp.Vary, &f.q) // the value that later requests look for
	c.mu.Unlock()

	f.resp, f.header, f.body, f.length = resp, header, body, length
	f.upstream = resp.Status
	if f.partial {
		f.upstream = http.StatusPartialContent
	}
	h.answered(resp.Status)
	for _, w := range waiting {
		w.released = !w.leader && (alone || f.wholeOnly(w.q) || !rfc9111.MayShare(&resp, &f.q, &w.q))
		if !w.released {
			w.reader = body.Join()
		}
	}
	close(f.headed)
	return true
}

// wholeOnly reports whether a request would have to wait for the end of f's response,
// which is a stream: it asks for a part, or on a condition.
func (f *flight) wholeOnly(q rfc9111.Request) bool {
	return f.events != nil && (q.Range || q.Conditional)
}

// validated ends f with s, the stored response that the origin has validated. It
// reports false if f has already failed.
func (f *flight) validated(s *responses.Stored) bool {
	return f.end(func() {
		for _, w := range f.waiting {
			w.released = !w.leader && !rfc9111.MayShare(&s.Response, &f.q, &w.q)
		}
		f.valid, f.upstream = s, http.StatusNotModified
	})
}

// detach hides f from later requests.
func (f *flight) detach() {
	c := f.group.handler.cache
	c.mu.Lock()
	c.unlistLocked(f)
	c.mu.Unlock()
}

// callEnded is called when the call has ended, before its readers learn of it.
// Otherwise the first reader to finish would make f look abandoned:
//
//	A: has the complete response and leaves; it is the last one
//	B: no longer finds f in the table, and finds nothing in the store yet
func (f *flight) callEnded() {
	c := f.group.handler.cache
	c.mu.Lock()
	f.decideLocked(fateCertain)
	c.mu.Unlock()
}

// close ends f for good: its response is either stored by now or will not be.
func (f *flight) close() {
	c := f.group.handler.cache
	c.mu.Lock()
	f.decideLocked(fateCertain)
	f.reachLocked(phaseEnded)
	free := f.joiners == 0
	c.unlistLocked(f)
	f.group.handler.active.removeLocked(f)
	c.mu.Unlock()
	if free && f.body != nil {
		f.body.Release()
	}
	f.held.release()
	close(f.done)
}
