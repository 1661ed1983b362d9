package weirhttp

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/limit"
)

// What fleet.Failure.Text says of an answer that is not for others.
const (
	toNobody = "nobody" // no client may have another's: nobody waits
	toAlike  = "alike"  // it proves nothing to other instances
	tooLarge = "large"
)

// Kinds of failures.
const (
	failedStatus = "status" // of the origin's answer; Text has it
	failedCall   = "call"   // there was no answer
)

// head is told of the head of the answer, size is that of the body if it is
// known. What is not for others is settled at once, so that they wait no longer.
// e may be nil, here and below.
func (e *errand) head(resp *rfc9111.Response, size int64) {
	if e == nil || e.lease == nil || e.over {
		return
	}
	if isError(resp.Status) && !resp.Storable {
		e.settle(e.m.failure(fleet.Failure{Kind: failedStatus, Text: strconv.Itoa(resp.Status)}))
		return
	}
	if why := e.m.unshared(resp, size); why != "" {
		e.unshare(why)
	}
}

// unshared tells why a response is not for the fleet, "" if it is.
func (m *membership) unshared(resp *rfc9111.Response, size int64) string {
	switch {
	case size > m.o.MaxObject:
		return tooLarge
	case resp.Storable && !resp.Validate:
		if resp.Lifetime <= resp.Age {
			return toAlike
		}
		if len(resp.Tags) > fleet.MaxTags {
			return tooLarge
		}
		return ""
	case resp.Reason == rfc9111.ReasonAuthorization, resp.Reason == rfc9111.ReasonCookie, resp.Sharing != rfc9111.Nobody:
		return toAlike // it is so because of who asked, or those who wait share it
	}
	return toNobody
}

// failure is the Outcome of a call that failed.
func (m *membership) failure(f fleet.Failure) fleet.Outcome {
	return fleet.Outcome{Failure: f, Cool: m.o.Cooling, MaxCool: m.o.MaxCooling}
}

// unshare tells the others that the answer is not for them.
func (e *errand) unshare(why string) {
	cool := e.f.group.handler.o.Relearn
	e.settle(fleet.Outcome{Failure: fleet.Failure{Kind: fleet.Unshared, Text: why}, Cool: cool, MaxCool: cool})
}

// settle settles in the background: the answer is on its way.
func (e *errand) settle(o fleet.Outcome) {
	e.over = true
	e.lease.GiveUp(o)
}

// grown is told how much of the body has come.
func (e *errand) grown(size int64) {
	if e != nil && e.lease != nil && !e.over && size > e.m.o.MaxObject {
		e.unshare(tooLarge)
	}
}

// brings is told what the call has brought, before it is stored, so that pushes
// find it there by its fences.
func (e *errand) brings(s *responses.Stored) {
	if e == nil || e.lease == nil {
		return
	}
	s.Root = e.f.root
	if e.over || !s.Storable {
		return
	}
	switch {
	case e.branch == nil && len(s.Vary) == 0:
		s.Fence.Store(e.lease.Fence())
	case e.branch == nil:
		e.mark, e.names = e.lease.Fence(), s.Vary
		e.at = variantOf(e.name, e.mark, e.names, e.f.req.Header)
		s.Place = placeOf(e.at)
		s.Fence.Store(e.mark) // until it has one of its own
	case !e.widens(s):
		s.Place = placeOf(e.at)
		s.Fence.Store(e.lease.Fence())
	}
	e.bring = s
}

// widens reports whether s is kept apart by something that the mark does not
// have.
func (e *errand) widens(s *responses.Stored) bool {
	return slices.ContainsFunc(s.Vary, func(name string) bool { return !slices.Contains(e.names, name) })
}

// ends is told how the call has ended.
func (e *errand) ends(err error) {
	if e != nil {
		e.failed = err
	}
}

// close ends the errand, after its flight has ended: nobody waits for it here.
func (e *errand) close() {
	if e == nil {
		return
	}
	if e.lease != nil && !e.over {
		e.over = true
		switch {
		case e.bring != nil && !e.f.write.Void():
			e.share()
		default:
			_, _ = e.lease.Settle(e.without(e.failed)) // else it runs out
		}
	}
	if e.branch != nil {
		e.branch.Leave()
	}
	if e.root != nil {
		e.root.Leave()
	}
}

// late is told that the flight has ended without an answer, or in the middle of
// it, perhaps on another goroutine: the call may go on for as long as it likes,
// but not the lease.
func (e *errand) late(err error) {
	if e != nil && e.lease != nil {
		e.lease.GiveUp(e.without(err))
	}
}

// without is the Outcome of a call that brought nothing.
func (e *errand) without(err error) fleet.Outcome {
	if err == nil || !counts(err) {
		return fleet.Outcome{}
	}
	return e.m.failure(fleet.Failure{Kind: failedCall, Text: "no answer"})
}

// counts reports whether an error is the origin's: not that nobody waits any
// more, nor a limit of ours.
func counts(err error) bool {
	return !errors.Is(err, ErrAbandoned) && !errors.Is(err, ErrClosed) && !errors.Is(err, limit.ErrLimited)
}

// share settles with what the call has brought.
func (e *errand) share() {
	s := e.bring
	entry, err := e.entry(s)
	if err != nil {
		_, _ = e.lease.Settle(fleet.Outcome{}) // it runs out
		return
	}
	ctx := context.Background() // the tier has a deadline of its own
	switch {
	case e.branch != nil && e.widens(s):
		// The new mark has a fence of its own, under which nothing is found yet: what
		// was fetched under the old one may be older than a purge.
		names := slices.Concat(e.names, s.Vary)
		slices.Sort(names)
		if entry, err = e.markEntry(slices.Compact(names)); err == nil {
			_, _ = e.m.member.Put(ctx, e.name, fleet.Write{Entry: entry}) // the next one tries again
		}
		_, _ = e.lease.Settle(fleet.Outcome{})
		return
	case e.branch == nil && len(s.Vary) > 0:
		// First the variant, at a place that only this lease can name. Who finds the
		// mark then finds it as well.
		fence, err := e.m.member.Put(ctx, e.at, fleet.Write{Entry: entry})
		if err == nil {
			s.Fence.Store(fence)
			entry, err = e.markEntry(e.names)
		}
		if err != nil {
			_, _ = e.lease.Settle(fleet.Outcome{})
			return
		}
	}
	ok, err := e.lease.Settle(fleet.Outcome{Entry: entry})
	switch {
	case ok:
		s.Checked.Store(time.Now().UnixNano())
	case err == nil: // it was purged since, or another has called
		e.f.group.handler.cache.store.Remove(e.f.key, s)
	}
}

// entry is s as it is passed to the others.
func (e *errand) entry(s *responses.Stored) (*fleet.Entry, error) {
	st := s.At(time.Now(), e.f.q)
	w := responses.Wire{Key: e.f.key, Status: s.Status, Age: st.Age, Header: s.Header, Body: s.Body}
	keep := max(s.StaleWhileRevalidate, s.StaleIfError, s.StaleOffline)
	if validatable(s) {
		keep = max(keep, s.Lifetime) // it may be validated
	}
	return e.wrap(w, fleet.Value{
		TTL: max(st.TTL, 0), SWR: s.StaleWhileRevalidate, SIE: s.StaleIfError, Cost: time.Since(e.began),
		TagSeq: e.tags, Tags: s.Tags, Version: s.Header.Get("Etag"),
	}, st.TTL, st.TTL+keep)
}

// markEntry is a mark with the names.
func (e *errand) markEntry(names []string) (*fleet.Entry, error) {
	keep := e.m.o.Keep
	return e.wrap(responses.Wire{Key: e.f.key, Vary: names}, fleet.Value{TTL: keep, TagSeq: e.tags}, keep, keep)
}

func (e *errand) wrap(w responses.Wire, v fleet.Value, fresh, keep time.Duration) (*fleet.Entry, error) {
	var err error
	if v.Data, err = w.AppendBinary(nil); err != nil {
		return nil, err
	}
	v.Codec, v.Weight = codec, uint32(len(v.Data)) //nolint:gosec // bounded by MaxObject
	data, err := v.AppendBinary(nil)
	return &fleet.Entry{Data: data, Fence: e.lease.Fence(), Fresh: fresh, Keep: keep}, err
}
