package weirhttp

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/wait"
)

// A fleetLookup is a flight's part in the fleet: it asks before the call, and settles
// after it. It belongs to the flight's goroutine.
type fleetLookup struct {
	f     *flight
	fleet *fleetClient
	name  string // of the URL in the tier

	root   *fleetclient.Subscription
	branch *fleetclient.Subscription // for the variant, once there is a mark at the URL
	mark   uint64                    // the mark's fence
	names  []string                  // the field names in the mark
	at     string                    // the variant's name

	waited bool // for another instance's call
	cooled bool // the key is cooling, and it asks for a lease nevertheless
	newer  bool // it needs a newer response than the known one
	// What it asks at the URL, and at the variant.
	asks [2]fleet.Ask

	// plain is the entry at the URL itself, which is for requests in which nothing counts,
	// at plainAt; nil if it is not known.
	plain   *fleet.Entry
	plainAt time.Time
	lease   *fleetclient.Lease // nil: the call is for this instance alone
	began   time.Time
	tags    uint64            // see fleetclient.Client.TagSeq
	over    bool              // the lease was settled early
	failed  error             // how the call ended
	bring   *responses.Stored // the response of the call, to be settled
}

// newFleetLookup returns the fleetLookup of a flight for c, or nil if the flight does
// not ask the fleet. Responses to credentials that the policy compares are for no
// other client, so they are not in the fleet.
func (h *Handler) newFleetLookup(f *flight, c *call) *fleetLookup {
	if h.fleet == nil || h.o.NoStore || c.q.NoStore || c.q.Credentials&h.keyed != 0 {
		return nil
	}
	if c.key.Body != "" && len(h.o.Reads) == 0 {
		return nil // without rules, a purge of the URL would not reach it, see fleetClient.purge
	}
	name, ok := nameOf(c.key)
	if !ok {
		return nil
	}
	return &fleetLookup{f: f, fleet: h.fleet, name: name}
}

// maxQuestions is how often one fleetLookup asks before the flight continues alone. A
// wave of purges, or a few waits, take fewer questions.
const maxQuestions = 16

// consult asks the fleet for a response for f, and reports whether f has to make its
// call. If not, f has got its response, or has ended.
func (f *flight) consult(ctx context.Context) bool {
	l := f.lookup
	if l.lease != nil {
		return true // handed over
	}
	until := time.Now().Add(max(f.group.handler.o.HeadTimeout, DefaultTimeout))
	l.root = l.fleet.client.Subscribe(l.name)
	l.expect(f.known)
	for range maxQuestions {
		if ctx.Err() != nil {
			f.fail(wait.Cause(ctx))
			return false
		}
		f.write.Drop()
		f.write = f.group.handler.cache.store.Begin(f.key)
		r, err := l.ask()
		if err != nil {
			return l.unavailable()
		}
		switch next := l.take(ctx, r, time.Until(until)); next {
		case stepAlone:
			return l.alone()
		case stepCall:
			return true
		case stepDone:
			return false
		case stepAgain:
		}
	}
	return l.alone()
}

// A step is what follows from a reply of the Tier.
type step uint8

const (
	stepAgain step = iota // ask again
	stepAlone             // make the call, without a lease
	stepCall              // make the call, with a lease
	stepDone              // f has its response, or has ended
)

// expect decides what to ask for: a newer response than the known one, unless that
// only has to be checked.
func (l *fleetLookup) expect(known *responses.Stored) {
	f := l.f
	if known == nil || !f.refresh && !f.q.NoCache && !known.Marked.Load() && known.At(time.Now(), f.q).Fresh {
		return
	}
	l.newer = true
	if known.Place == 0 {
		l.asks[0].NewerThan = known.Fence.Load()
	}
}

// A reply is a reply of the Tier.
type reply struct {
	fleetclient.Answer
	sub   *fleetclient.Subscription
	level int             // 0 for the URL, 1 for a variant
	wire  *responses.Wire // the entry as a response; nil if it cannot be used
}

// ask asks for the URL and, if there is a mark, for the variant. The Tier has its own
// deadline, and a granted lease must not be missed, so the request to the Tier does
// not end with the flight.
func (l *fleetLookup) ask() (reply, error) {
	ctx := context.WithoutCancel(l.f.req.Context())
	if l.branch != nil && l.root.Overtaken(l.mark) {
		l.branch.Close()
		l.branch = nil
	}
	if l.branch == nil {
		a, err := l.root.Ask(ctx, l.asks[0])
		if err != nil {
			return reply{}, err
		}
		w := l.decode(a)
		if w == nil || len(w.Vary) == 0 {
			return reply{a, l.root, 0, w}, nil
		}
		if a.Grant != fleet.GrantFresh {
			return reply{a, l.root, 0, nil}, nil
		}
		l.mark, l.names = a.Entry.Fence, w.Vary
		l.at = variantOf(l.name, l.mark, l.names, &l.f.q)
		l.branch = l.fleet.client.Subscribe(l.at)
		l.asks[1].NewerThan, l.asks[1].Joined = 0, 0
		if l.newer && l.f.known.Place == placeOf(l.at) { // fences of different keys cannot be compared
			l.asks[1].NewerThan = l.f.known.Fence.Load()
		}
	}
	ask := l.asks[1]
	if l.f.q.NoCache {
		ask.NewerThan = fleet.AnyFence
	}
	a, err := l.branch.Ask(ctx, ask)
	if err != nil {
		return reply{}, err
	}
	w := l.decode(a)
	if w != nil && len(w.Vary) > 0 {
		w = nil
	}
	return reply{a, l.branch, 1, w}, nil
}

// decode returns the response in a reply, or nil if it cannot be used here.
func (l *fleetLookup) decode(a fleetclient.Answer) *responses.Wire {
	w := new(responses.Wire)
	if a.Value == nil || a.Value.Kind != fleet.KindValue || w.UnmarshalBinary(a.Value.Data) != nil || w.Key != l.f.key || w.Proof != l.f.group.proof {
		return nil
	}
	return w
}

// read converts a reply into a stored response, by the same rules as if the origin
// had just sent it; only its age comes from the Tier. It returns nil if the response
// may not be stored here, or not be used for the flight's own request (H1, H3).
func (l *fleetLookup) read(r reply) *responses.Stored {
	if r.wire == nil {
		return nil
	}
	f, h, now := l.f, l.f.group.handler, time.Now()
	resp, events := h.judge(f.key, f.req, f.q, r.wire.Status, r.wire.Header, false, now, now)
	selected := rfc9111.Selecting(resp.Vary, &f.q)
	fits := rfc9111.Plain(resp.Vary, selected) // as what is at the URL itself
	if r.level == 1 {
		fits = rfc9111.Matches(resp.Vary, selected, &f.q) && !slices.ContainsFunc(resp.Vary, func(name string) bool { return !slices.Contains(l.names, name) })
	}
	if !resp.Storable || resp.Validate || !fits {
		return nil
	}
	if r.level == 1 {
		resp.Vary = slices.Clone(l.names) // what kept it apart there keeps it apart here
	}
	resp.Age = r.wire.Age + max(r.Value.TTL-r.Entry.Fresh, 0)
	if events != nil && events.fromEnd {
		resp.Lifetime = resp.Age + min(r.Entry.Fresh, resp.Lifetime)
	}
	s := h.stored(resp, f.req, f.q, r.wire.Header, r.wire.Body)
	s.Root = r.Entry.Fence
	if r.level == 1 {
		s.Root, s.Place = l.mark, placeOf(l.at)
	}
	s.Fence.Store(r.Entry.Fence)
	s.Checked.Store(now.Add(-r.Age).UnixNano())
	return s
}

// keep stores s, which was read from a reply, so that pushes find it. It reports
// false if s was overtaken before that, and must not be used.
func (l *fleetLookup) keep(s *responses.Stored, r reply) bool {
	f := l.f
	store := f.group.handler.cache.store
	stored := f.write.Put(s)
	if l.root.Overtaken(s.Root) || r.sub.Overtaken(s.Fence.Load()) || f.write.Void() {
		if stored {
			store.Remove(f.key, s)
		}
		return false
	}
	f.group.handler.cache.learn(f.key, &s.Response, f.q.Credentials, time.Now(), f.group.handler.o.Relearn)
	return true
}

// take acts on a reply. left is how long f may still wait.
func (l *fleetLookup) take(ctx context.Context, r reply, left time.Duration) step {
	f := l.f
	if r.Grant == fleet.GrantLease {
		l.lease, l.began, l.tags = r.sub.Hold(r.Fence, nil), time.Now(), l.fleet.client.TagSeq()
	}
	s := l.use(r)
	switch next := fleetclient.Decide(r.Answer.Answer, l.view(r, s, left)); next {
	case fleetclient.Serve:
		return l.serve(s, r)
	case fleetclient.Load, fleetclient.ServeAndLoad:
		return l.granted(ctx, r, s, next == fleetclient.ServeAndLoad)
	case fleetclient.Wait:
		l.waited = true
		l.asks[r.level].Joined = r.Fence
		if err := r.sub.Await(ctx, min(r.Remaining, left)); err != nil {
			f.fail(err)
			return stepDone
		}
		return stepAgain
	case fleetclient.AskPast:
		if l.plain == nil && l.counts(r) {
			l.plain, l.plainAt = r.Entry, time.Now()
		}
		if ask := &l.asks[r.level]; f.q.NoCache { // by now it is known that there is no mark
			ask.NewerThan = fleet.AnyFence
		} else {
			ask.NewerThan, ask.Joined = r.Entry.Fence, 0
		}
		return stepAgain
	case fleetclient.AskCooled:
		l.cooled = true
		l.asks[0].Cooled, l.asks[1].Cooled = true, true
		return stepAgain
	case fleetclient.Fail:
		f.fail(&fleet.RemoteError{Failure: r.Failure})
		return stepDone
	}
	if r.Grant == fleet.GrantCooling && r.Failure.Text == toNobody {
		h := f.group.handler
		h.cache.learn(f.key, &rfc9111.Response{}, f.q.Credentials, time.Now(), min(r.Remaining, h.o.Relearn))
		f.disband()
		return stepDone
	}
	return stepAlone
}

// use returns the response that a reply is about. That is the known one if the Tier
// confirms it, or has only a failure instead; otherwise it is the one in the reply.
// It is nil if there is none.
func (l *fleetLookup) use(r reply) *responses.Stored {
	if k := l.f.known; k != nil {
		st := k.At(time.Now(), l.f.q)
		if r.Grant == fleet.GrantFresh && st.Fresh && l.isKnown(r) && !k.Marked.Load() ||
			r.Grant == fleet.GrantCooling && st.IfError {
			return k
		}
	}
	return l.read(r)
}

// counts reports whether the response at the URL itself is for others because something
// counts in l's request. A call for it makes the URL one with variants.
func (l *fleetLookup) counts(r reply) bool {
	return r.level == 0 && r.wire != nil && l.f.q.Counts()
}

// view describes how s, which may be nil, can be used.
func (l *fleetLookup) view(r reply, s *responses.Stored, left time.Duration) fleetclient.View {
	f := l.f
	v := fleetclient.View{
		Foreign: s == nil && !f.q.NoCache && !l.counts(r),
		Hurried: f.q.NoCache || l.cooled || left <= 0, // that call began before this request, or is known to fail
		Insists: !f.refresh,                           // without anything to serve, f tries a call
		Asked:   l.waited || l.cooled,
	}
	if s != nil {
		st := s.At(time.Now(), f.q)
		v.Fresh = !f.q.NoCache && (l.waited || st.Fresh)
		v.Stale = !f.q.NoCache && !f.refresh && st.SWR
		v.OnError = !f.refresh && st.IfError
	}
	return v
}

// serve ends f with s as the response. If s was overtaken in the meantime, it asks
// again.
func (l *fleetLookup) serve(s *responses.Stored, r reply) step {
	var because error
	switch {
	case s != l.f.known && !l.keep(s, r):
		return stepAgain
	case r.Grant == fleet.GrantCooling:
		because = &fleet.RemoteError{Failure: r.Failure}
	case s == l.f.known:
		s.Checked.Store(time.Now().Add(-r.Age).UnixNano())
	}
	l.f.found(s, because, l.waited && r.Grant != fleet.GrantHeld)
	return stepDone
}

// isKnown reports whether the Tier has the response that f knows.
func (l *fleetLookup) isKnown(r reply) bool {
	k := l.f.known
	if k.Fence.Load() != r.Entry.Fence {
		return false
	}
	if r.level == 0 {
		return k.Place == 0
	}
	return k.Place == placeOf(l.at)
}

// granted takes the lease: f makes the call. If s is stale but within its window, it
// is served to the callers that wait now, and the call becomes a refresh behind it.
func (l *fleetLookup) granted(ctx context.Context, r reply, s *responses.Stored, stale bool) step {
	f := l.f
	h := f.group.handler
	if ctx.Err() != nil {
		f.fail(wait.Cause(ctx))
		return stepDone
	}
	root := r.Fence
	if r.level == 1 {
		root = l.mark
	}
	if s != nil && !f.q.NoCache && l.keep(s, r) {
		if stale {
			f.found(s, nil, false)
			h.refreshUnder(f, s, root)
			return stepDone
		}
		if f.known != nil {
			s.Failing.Store(f.known.Failing.Load()) // the origin is the same
		}
		f.known, f.stale = s, nil
		if validatable(s) {
			f.stale = s
		}
	}
	f.write.Drop()
	f.write = h.cache.store.BeginUnder(f.key, root)
	h.cache.mu.Lock()
	f.reachLocked(phasePaying)
	f.root = root
	h.cache.mu.Unlock()
	return stepCall
}

// unavailable continues without the Tier. A known response that is fresh, or stale
// within stale-while-revalidate, is served, as it would be without a fleet; one from the
// folder is not, because it is not confirmed. If it had been checked since the last
// reset, it is not checked again for one second.
func (l *fleetLookup) unavailable() bool {
	f := l.f
	k := f.known
	if k == nil || f.refresh || f.q.NoCache || k.Marked.Load() || k.Checked.Load() == responses.Unproved {
		return l.alone()
	}
	switch st := k.At(time.Now(), f.q); {
	case st.Fresh:
	case st.SWR:
		f.found(k, nil, false)
		h := f.group.handler
		h.refresh(f.key, f.req, f.q, k, time.Now())
		return false
	default:
		return l.alone()
	}
	if at := k.Checked.Load(); at >= l.fleet.epoch.Load() {
		k.Checked.CompareAndSwap(at, time.Now().Add(time.Second-l.fleet.o.MemoryCap).UnixNano())
	}
	f.found(k, nil, false)
	return false
}

// alone continues without a lease. It returns true.
func (l *fleetLookup) alone() bool {
	c := l.f.group.handler.cache
	c.mu.Lock()
	l.f.reachLocked(phasePaying)
	c.mu.Unlock()
	return true
}

// refreshUnder starts a refresh of s, which was stale in the Tier, under the lease of
// f's fleetLookup, or releases the lease.
func (h *Handler) refreshUnder(f *flight, s *responses.Stored, root uint64) {
	l := f.lookup
	c := &call{h: h, r: f.req, q: f.q, key: f.key, stale: s}
	s.Refresh.Store(time.Now().Add(refreshRetry).UnixNano())
	h.startRefresh(c, func(next *flight) {
		next.lookup, f.lookup = l, nil
		l.f = next
		next.write.Drop()
		next.write = h.cache.store.BeginUnder(f.key, root)
		next.root = root
		next.reachLocked(phasePaying)
	})
}
