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

// Values of fleet.Failure.Text for a response that is not shared with other
// instances.
const (
	toNobody = "nobody" // no client may use another's response, so that none waits
	toAlike  = "alike"  // it may be shared with alike requests only, which other instances cannot check
	tooLarge = "large"
)

// Kinds of failures.
const (
	failedStatus = "status" // the origin responded with an error status, which is in Text
	failedCall   = "call"   // there was no response
)

// head takes the head of the response; size is that of the body if it is known. If
// the response is not for other instances, the lease is settled at once, so that they
// stop waiting. gone reports that the origin has withdrawn the known response: then the
// other instances lose it as well. l may be nil, here and below.
func (l *fleetLookup) head(resp *rfc9111.Response, size int64, gone bool) {
	if l == nil || l.lease == nil || l.over {
		return
	}
	if isError(resp.Status) && !resp.Storable {
		o := l.fleet.o.Failed(fleet.Failure{Kind: failedStatus, Text: strconv.Itoa(resp.Status)})
		if o.Cool > 0 {
			o.Cool = max(o.Cool, min(l.f.stated, o.MaxCool))
		}
		l.settle(o)
		return
	}
	if why := l.fleet.unshared(resp, size); why != "" {
		l.unshare(why, gone)
	}
}

// unshared returns why a response is not for the fleet, or "" if it is.
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
	case resp.Reason == rfc9111.ReasonAuthorization, resp.Reason == rfc9111.ReasonCookie, resp.Shared:
		return toAlike // it depends on the client's credentials, or the waiting callers share it
	}
	return toNobody
}

// unshare tells the other instances that the response is not for them, and, if gone is
// set, nor is the one that they have.
func (l *fleetLookup) unshare(why string, gone bool) {
	cool := l.f.group.handler.o.Relearn
	l.settle(fleet.Outcome{Failure: fleet.Failure{Kind: fleet.Uncacheable, Text: why}, Cool: cool, MaxCool: cool, Remove: gone})
}

// settle settles the lease in the background, because the response is under way.
func (l *fleetLookup) settle(o fleet.Outcome) {
	l.over = true
	l.lease.GiveUp(o)
}

// grown takes the size of the body so far.
func (l *fleetLookup) grown(size int64) {
	if l != nil && l.lease != nil && !l.over && size > l.fleet.o.MaxObject {
		l.unshare(tooLarge, false)
	}
}

// brings takes the response of the call before it is stored, and sets its fences, so
// that pushes find it in the store.
func (l *fleetLookup) brings(s *responses.Stored) {
	if l == nil || l.lease == nil {
		return
	}
	s.Root = l.f.root
	if l.over || !s.Storable {
		return
	}
	switch {
	case l.branch == nil && rfc9111.Plain(s.Vary, s.Selected):
		s.Fence.Store(l.lease.Fence())
	case l.branch == nil:
		l.mark, l.names = l.lease.Fence(), s.Vary
		l.at = variantOf(l.name, l.mark, l.names, &l.f.q)
		s.Place = placeOf(l.at)
		s.Fence.Store(l.mark) // until the variant has its own
	case !l.widens(s):
		s.Place = placeOf(l.at)
		s.Fence.Store(l.lease.Fence())
	}
	l.bring = s
}

// widens reports whether s varies by a field that the mark does not list.
func (l *fleetLookup) widens(s *responses.Stored) bool {
	return slices.ContainsFunc(s.Vary, func(name string) bool { return !slices.Contains(l.names, name) })
}

// ends records how the call has ended.
func (l *fleetLookup) ends(err error) {
	if l != nil {
		l.failed = err
	}
}

// close ends the fleetLookup after its flight has ended and no caller here waits for
// it.
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
			_, _ = l.lease.Settle(l.without(l.failed)) // if this fails, the lease expires
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
// one, perhaps on another goroutine. The call may run on for any length of time, but
// the lease ends now.
func (l *fleetLookup) late(err error) {
	if l != nil && l.lease != nil {
		l.lease.GiveUp(l.without(err))
	}
}

// without returns the Outcome of a call that brought nothing.
func (l *fleetLookup) without(err error) fleet.Outcome {
	if err == nil || !counts(err) {
		return fleet.Outcome{}
	}
	return l.fleet.o.Failed(fleet.Failure{Kind: failedCall, Text: "no answer"})
}

// counts reports whether an error is the origin's fault, and not caused by missing
// callers or by one of our limits.
func counts(err error) bool {
	return !errors.Is(err, ErrAbandoned) && !errors.Is(err, ErrClosed) && !errors.Is(err, limit.ErrLimited) && !errors.Is(err, ErrOutOfTime)
}

// share settles the lease with the response of the call.
func (l *fleetLookup) share() {
	s := l.bring
	entry, err := l.entry(s)
	if err != nil {
		_, _ = l.lease.Settle(fleet.Outcome{}) // it expires
		return
	}
	ctx := context.Background() // the Tier has its own deadline
	switch {
	case l.branch != nil && l.widens(s):
		// The new mark has a new fence, under which nothing is found yet: responses
		// fetched under the old one may be older than a purge.
		names := slices.Concat(l.names, s.Vary)
		slices.Sort(names)
		if entry, err = l.markEntry(slices.Compact(names)); err == nil {
			_, _ = l.fleet.client.Put(ctx, l.name, fleet.Write{Entry: entry}) // on an error, the next call tries again
		}
		_, _ = l.lease.Settle(fleet.Outcome{})
		return
	case l.branch == nil && !rfc9111.Plain(s.Vary, s.Selected):
		// The variant comes first, at a place that only this lease can name. An
		// instance that finds the mark afterwards then also finds the variant.
		fence, err := l.fleet.client.Put(ctx, l.at, fleet.Write{Entry: entry})
		if err == nil {
			s.Fence.Store(fence)
			l.keepPlain(ctx)
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
	case err == nil: // it was purged in the meantime, or another instance has made a call
		l.f.group.handler.cache.store.Remove(l.f.key, s)
	}
}

// keepPlain puts the response that was at the URL itself where requests in which nothing
// counts find it under the new mark. If the URL was purged meanwhile, that mark is never
// set.
func (l *fleetLookup) keepPlain(ctx context.Context) {
	nothing := new(rfc9111.Request)
	if l.plain == nil || !rfc9111.Plain(l.names, rfc9111.Selecting(l.names, nothing)) {
		return
	}
	entry := *l.plain
	entry.Fresh -= time.Since(l.plainAt)
	if entry.Keep = entry.Fresh; entry.Keep > 0 {
		_, _ = l.fleet.client.Put(ctx, variantOf(l.name, l.mark, l.names, nothing), fleet.Write{Entry: &entry})
	}
}

// entry encodes s for the other instances.
func (l *fleetLookup) entry(s *responses.Stored) (*fleet.Entry, error) {
	st := s.At(time.Now(), l.f.q)
	w := responses.Wire{Key: l.f.key, Proof: l.f.group.proof, Status: s.Status, Age: st.Age, Header: s.Header, Body: s.Body}
	keep := max(s.StaleWhileRevalidate, s.StaleIfError, s.StaleOffline)
	if validatable(s) {
		keep = max(keep, s.Lifetime) // it can be validated
	}
	return l.wrap(w, fleet.Value{
		TTL: max(st.TTL, 0), SWR: s.StaleWhileRevalidate, SIE: s.StaleIfError, Cost: time.Since(l.began),
		TagSeq: l.tags, Tags: s.Tags, Version: s.Header.Get("Etag"),
	}, st.TTL, st.TTL+keep)
}

// markEntry encodes a mark with these names.
func (l *fleetLookup) markEntry(names []string) (*fleet.Entry, error) {
	keep := l.fleet.o.MaxKeep
	return l.wrap(responses.Wire{Key: l.f.key, Proof: l.f.group.proof, Vary: names}, fleet.Value{TTL: keep, TagSeq: l.tags}, keep, keep)
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
