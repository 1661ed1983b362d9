package fleetclient

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A Subscription begins before the Tier is called for a key, and kept until the
// answer is where pushes find it (memory). So a push that comes between is not
// lost: it makes the answer count as overtaken.
//
//	A: the Tier answers with an entry
//	B: writes the key; the push finds nothing in A's memory
//	A: puts the old entry into memory, where it would stay
//
// A Subscription is for one goroutine, but for Overtaken.
type Subscription struct {
	c    *Client
	name string

	wake   chan struct{} // has room for one: something was pushed since the last question
	pushed uint64        // guarded by c.mu: the highest fence
	missed bool          // guarded by c.mu: there may have been others
	gone   bool          // guarded by c.mu
}

// Subscribe returns a Subscription, which must be closed.
func (c *Client) Subscribe(name string) *Subscription {
	s := &Subscription{c: c, name: name, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[name] = append(c.subs[name], s)
	return s
}

// Close ends the Subscription. It may be called twice.
func (s *Subscription) Close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	subs := s.c.subs[s.name]
	if len(subs) == 1 {
		delete(s.c.subs, s.name)
		return
	}
	i := slices.Index(subs, s)
	s.c.subs[s.name] = slices.Delete(subs, i, i+1)
}

// Overtaken reports whether what has this fence may be out of date. It takes
// the Client's lock, so it may be called under the owner's.
func (s *Subscription) Overtaken(fence uint64) bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.missed || s.pushed > fence
}

func (s *Subscription) wakeLocked() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// An Answer is the Tier's, with the entry's Value.
type Answer struct {
	fleet.Answer
	// Value is Entry's; nil if there is none, or none that this instance can
	// read or may use.
	Value *fleet.Value
}

// maxAsks bounds how often an unusable entry is skipped by asking again.
const maxAsks = 3

// Ask asks the Tier once. Entries that were invalidated by tag, and those that
// cannot be read here, count as absent; what has expired by tag is stale. What is
// pending of the key is sent first, and if that fails there is no answer. An error
// that matches fleet.ErrUnavailable means that the instance is on its own.
func (s *Subscription) Ask(ctx context.Context, ask fleet.Ask) (Answer, error) {
	c := s.c
	ask.Lease = c.o.Lease
	for try := range maxAsks {
		s.startOver()
		if err := c.yield(ctx, everything, subject{name: s.name}); err != nil {
			return Answer{}, c.counted(err)
		}
		if err := c.sync(ctx); err != nil {
			return Answer{}, c.counted(err)
		}
		c.count.acquires.Add(1)
		known := c.view(s.name)
		raw, err := c.o.Tier.Acquire(ctx, c.key(s.name), ask)
		if err != nil {
			return Answer{}, c.counted(err)
		}
		if known.contradicts(raw) {
			c.lose(known.turns)
			s.giveBack(raw)
			continue
		}
		a := Answer{Answer: raw}
		stale := false
		if raw.Entry != nil {
			if a.Value, stale, err = s.read(ctx, raw); err != nil {
				s.giveBack(raw)
				return Answer{}, c.counted(err)
			}
		}
		if raw.Grant == fleet.GrantFresh && (a.Value == nil || stale) {
			ask.NewerThan, ask.Joined = raw.Entry.Fence, 0
			if try == maxAsks-2 {
				ask.NewerThan = fleet.AnyFence // so that it ends with a lease, here or elsewhere
			}
			continue
		}
		c.tally(raw.Grant)
		return a, nil
	}
	return Answer{}, c.counted(&fleet.UnavailableError{Op: "acquire", Err: fleet.ErrWire})
}

// startOver forgets what was pushed before: what is read from now on is not what
// was missed, and an answer that knows of a change is not to be woken from.
func (s *Subscription) startOver() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.missed = false
	select {
	case <-s.wake:
	default:
	}
}

// read returns the Value of an answer's entry if it is of use here. stale says
// that its freshness was ended by tag: the entry's is, then.
func (s *Subscription) read(ctx context.Context, a fleet.Answer) (v *fleet.Value, stale bool, err error) {
	v = new(fleet.Value)
	if v.UnmarshalBinary(a.Entry.Data) != nil || v.Codec != s.c.o.Codec && v.Kind == fleet.KindValue {
		return nil, false, nil
	}
	is, err := s.c.standing(ctx, v)
	if is.gone || err != nil {
		return nil, false, err
	}
	if is.expired == 0 {
		return v, false, nil
	}
	var since time.Duration // an order that came after the answer has ended it just now
	if a.Now > is.expired {
		since = time.Duration(min(a.Now-is.expired, math.MaxInt64/1000)) * time.Microsecond //nolint:gosec // cut
	}
	a.Entry.Fresh = min(a.Entry.Fresh, -since)
	return v, true, nil
}

// giveBack ends a lease that came with an answer of which nothing can be made.
func (s *Subscription) giveBack(a fleet.Answer) {
	if a.Grant == fleet.GrantLease {
		s.c.inBackground(func() { _, _ = s.c.settle(s.name, a.Fence, fleet.Outcome{}) }) // else it runs out
	}
}

func (c *Client) tally(g fleet.Grant) {
	switch g {
	case fleet.GrantFresh:
		c.count.fresh.Add(1)
	case fleet.GrantLease:
		c.count.granted.Add(1)
	case fleet.GrantHeld:
		c.count.held.Add(1)
	case fleet.GrantCooling:
		c.count.cooling.Add(1)
	}
}

// Await waits, after Ask returned Held, until it is time to ask again: at a push
// of the key, when pushes may have been missed, or when what remains of the
// lease is over, and a bit. It returns the cause of ctx if that ends first.
func (s *Subscription) Await(ctx context.Context, remaining time.Duration) error {
	s.c.count.waits.Add(1)
	timer := time.NewTimer(max(remaining, 0) + Jitter(remaining))
	defer timer.Stop()
	select {
	case <-s.wake:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
