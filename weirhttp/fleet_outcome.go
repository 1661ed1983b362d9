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

// head takes the head of the response; size is that of the body if it is
// known. What is not for others is settled at once, so that they wait no longer.
// e may be nil, here and below.
func (l *fleetLookup) head(resp *rfc9111.Response, size int64) {
	if l == nil || l.lease == nil || l.over {
		return
	}
	if isError(resp.Status) && !resp.Storable {
		l.settle(l.fleet.o.Failed(fleet.Failure{Kind: failedStatus, Text: strconv.Itoa(resp.Status)}))
		return
	}
	if why := l.fleet.unshared(resp, size); why != "" {
		l.unshare(why)
	}
}

// unshared tells why a response is not for the fleet, "" if it is.
func (c *fleetClient) unshared(resp *rfc9111.Response, size int64) string {
	switch {
	case size > c.o.MaxObject:
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
		return toAlike // it is so because of who asked, or the callers that wait share it
	}
	return toNobody
}

// unshare tells the others that the answer is not for them.
func (l *fleetLookup) unshare(why string) {
	cool := l.f.group.handler.o.Relearn
	l.settle(fleet.Outcome{Failure: fleet.Failure{Kind: fleet.Uncacheable, Text: why}, Cool: cool, MaxCool: cool})
}

// settle settles in the background: the answer is on its way.
func (l *fleetLookup) settle(o fleet.Outcome) {
	l.over = true
	l.lease.GiveUp(o)
}

// grown takes the size of the body so far.
func (l *fleetLookup) grown(size int64) {
	if l != nil && l.lease != nil && !l.over && size > l.fleet.o.MaxObject {
		l.unshare(tooLarge)
	}
}

// brings takes what the call has brought, before it is stored, so that pushes
// find it there by its fences.
func (l *fleetLookup) brings(s *responses.Stored) {
	if l == nil || l.lease == nil {
		return
	}
	s.Root = l.f.root
	if l.over || !s.Storable {
		return
	}
	switch {
	case l.branch == nil && len(s.Vary) == 0:
		s.Fence.Store(l.lease.Fence())
	case l.branch == nil:
		l.mark, l.names = l.lease.Fence(), s.Vary
		l.at = variantOf(l.name, l.mark, l.names, l.f.req.Header)
		s.Place = placeOf(l.at)
		s.Fence.Store(l.mark) // until it has one of its own
	case !l.widens(s):
		s.Place = placeOf(l.at)
		s.Fence.Store(l.lease.Fence())
	}
	l.bring = s
}

// widens reports whether s is kept apart by something that the mark does not
// have.
func (l *fleetLookup) widens(s *responses.Stored) bool {
	return slices.ContainsFunc(s.Vary, func(name string) bool { return !slices.Contains(l.names, name) })
}

// ends takes how the call has ended.
func (l *fleetLookup) ends(err error) {
	if l != nil {
		l.failed = err
	}
}

// close ends the fleetLookup, after its flight has ended: nobody waits for it here.
func (l *fleetLookup) close() {
	if l == nil {
		return
	}
	if l.lease != nil && !l.over {
		l.over = true
		switch {
		case l.bring != nil && !l.f.write.Void():
			l.share()
		default:
			_, _ = l.lease.Settle(l.without(l.failed)) // else it runs out
		}
	}
	if l.branch != nil {
		l.branch.Close()
	}
	if l.root != nil {
		l.root.Close()
	}
}

// late is called when the flight has ended without a response, or in the middle of
// it, perhaps on another goroutine: the call may go on for as long as it likes,
// but not the lease.
func (l *fleetLookup) late(err error) {
	if l != nil && l.lease != nil {
		l.lease.GiveUp(l.without(err))
	}
}

// without is the Outcome of a call that brought nothing.
func (l *fleetLookup) without(err error) fleet.Outcome {
	if err == nil || !counts(err) {
		return fleet.Outcome{}
	}
	return l.fleet.o.Failed(fleet.Failure{Kind: failedCall, Text: "no answer"})
}

// counts reports whether an error is the origin's: not that nobody waits any
// more, nor a limit of ours.
func counts(err error) bool {
	return !errors.Is(err, ErrAbandoned) && !errors.Is(err, ErrClosed) && !errors.Is(err, limit.ErrLimited)
}

// share settles with what the call has brought.
func (l *fleetLookup) share() {
	s := l.bring
	entry, err := l.entry(s)
	if err != nil {
		_, _ = l.lease.Settle(fleet.Outcome{}) // it runs out
		return
	}
	ctx := context.Background() // the tier has a deadline of its own
	switch {
	case l.branch != nil && l.widens(s):
		// The new mark has a fence of its own, under which nothing is found yet: what
		// was fetched under the old one may be older than a purge.
		names := slices.Concat(l.names, s.Vary)
		slices.Sort(names)
		if entry, err = l.markEntry(slices.Compact(names)); err == nil {
			_, _ = l.fleet.client.Put(ctx, l.name, fleet.Write{Entry: entry}) // the next one tries again
		}
		_, _ = l.lease.Settle(fleet.Outcome{})
		return
	case l.branch == nil && len(s.Vary) > 0:
		// First the variant, at a place that only this lease can name. An instance that finds the
		// mark then finds it as well.
		fence, err := l.fleet.client.Put(ctx, l.at, fleet.Write{Entry: entry})
		if err == nil {
			s.Fence.Store(fence)
			entry, err = l.markEntry(l.names)
		}
		if err != nil {
			_, _ = l.lease.Settle(fleet.Outcome{})
			return
		}
	}
	ok, err := l.lease.Settle(fleet.Outcome{Entry: entry})
	switch {
	case ok:
		s.Checked.Store(time.Now().UnixNano())
	case err == nil: // it was purged since, or another has called
		l.f.group.handler.cache.store.Remove(l.f.key, s)
	}
}

// entry is s as it is passed to the others.
func (l *fleetLookup) entry(s *responses.Stored) (*fleet.Entry, error) {
	st := s.At(time.Now(), l.f.q)
	w := responses.Wire{Key: l.f.key, Status: s.Status, Age: st.Age, Header: s.Header, Body: s.Body}
	keep := max(s.StaleWhileRevalidate, s.StaleIfError, s.StaleOffline)
	if validatable(s) {
		keep = max(keep, s.Lifetime) // it may be validated
	}
	return l.wrap(w, fleet.Value{
		TTL: max(st.TTL, 0), SWR: s.StaleWhileRevalidate, SIE: s.StaleIfError, Cost: time.Since(l.began),
		TagSeq: l.tags, Tags: s.Tags, Version: s.Header.Get("Etag"),
	}, st.TTL, st.TTL+keep)
}

// markEntry is a mark with the names.
func (l *fleetLookup) markEntry(names []string) (*fleet.Entry, error) {
	keep := l.fleet.o.MaxKeep
	return l.wrap(responses.Wire{Key: l.f.key, Vary: names}, fleet.Value{TTL: keep, TagSeq: l.tags}, keep, keep)
}

func (l *fleetLookup) wrap(w responses.Wire, v fleet.Value, fresh, keep time.Duration) (*fleet.Entry, error) {
	var err error
	if v.Data, err = w.AppendBinary(nil); err != nil {
		return nil, err
	}
	v.Codec, v.Weight = codec, uint32(len(v.Data)) //nolint:gosec // bounded by MaxObject
	data, err := v.AppendBinary(nil)
	return &fleet.Entry{Data: data, Fence: l.lease.Fence(), Fresh: fresh, Keep: keep}, err
}
