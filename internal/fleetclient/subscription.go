package fleetclient

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
)

// A Subscription begins before the call to the Tier for a key, and lasts until
// the answer is in memory, where pushes find it. So a push that arrives in
// between is not lost: it marks the answer as overtaken. Without a Subscription:
//
//	A: the Tier answers with an entry
//	B: writes the key; the push finds nothing in A's memory
//	A: puts the old entry into memory, where it would stay
//
// Only one goroutine may use a Subscription, except for Overtaken.
type Subscription struct {
	c    *Client
	name string

	lease grant // of the last answer that was one; the zero grant before

	wake   chan struct{} // capacity 1: something was pushed since the last call to the Tier
	pushed uint64        // guarded by c.mu: the highest pushed fence
	missed bool          // guarded by c.mu: pushes may have been missed
	gone   bool          // guarded by c.mu
}

// A grant records the engine's clock: when the answer with the lease arrived here, that
// clock showed now (in µs) or later.
type grant struct {
	fence   uint64
	now     uint64
	arrived time.Time
}

// until returns the engine's time, in µs, in d from now, or a little less: by as long as the
// answer took to arrive. It is 0 if the engine's clock is not known.
func (g grant) until(d time.Duration) uint64 {
	if g.now == 0 {
		return 0
	}
	return max(1, g.now+uint64(max(0, (time.Since(g.arrived)+d).Microseconds()))) //nolint:gosec // not negative
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

// Overtaken reports whether an entry with this fence may be out of date. It takes
// the Client's lock, so it may be called with the owner's lock held.
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

// An Answer is the Tier's answer, with the decoded Value of its entry.
type Answer struct {
	fleet.Answer
	// Value is Entry's value; nil if there is no entry, or none that this
	// instance can decode and use.
	Value *fleet.Value
	// Age is how long ago the Tier may have given the answer: more than 0 if it was
	// pushed. Entry.Fresh takes it into account.
	Age time.Duration
}

// maxAsks bounds the calls to the Tier that skip an unusable entry.
const maxAsks = 3

// Ask makes one request to the Tier, unless a value was pushed. An entry that was
// invalidated by tag or cannot be decoded counts as absent; one expired by tag is
// stale. Pending invalidations of the key are sent first; if that fails, Ask fails. An error
// that matches fleet.ErrUnavailable means that the instance is on its own.
func (s *Subscription) Ask(ctx context.Context, ask fleet.Ask) (Answer, error) {
	c := s.c
	ask.Lease, ask.Push = c.o.Lease, c.o.PushValue > 0
	for try := range maxAsks {
		s.startOver()
		if err := c.yield(ctx, everything, subject{name: s.name}); err != nil {
			return Answer{}, c.counted(err)
		}
		if err := c.sync(ctx); err != nil {
			return Answer{}, c.counted(err)
		}
		known := c.view(s.name)
		if raw, age, ok := s.take(ask, known); ok {
			v, stale, err := s.read(ctx, raw)
			if err != nil {
				return Answer{}, c.counted(err)
			}
			if v != nil && !stale {
				return Answer{Answer: raw, Value: v, Age: age}, nil
			}
		}
		c.count.acquires.Add(1)
		asked := time.Now()
		raw, err := c.o.Tier.Acquire(ctx, c.key(s.name), ask)
		if err != nil {
			return Answer{}, c.counted(err)
		}
		if known.contradicts(raw) {
			c.lose(known.turns)
			s.giveBack(raw)
			continue
		}
		if raw.Grant == fleet.GrantLease {
			s.lease = grant{fence: raw.Fence, now: raw.Now, arrived: time.Now()}
		}
		s.want(raw, asked, known)
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
				ask.NewerThan = fleet.AnyFence // so that the call ends with a lease, here or on another instance
			}
			continue
		}
		c.tally(raw.Grant)
		return a, nil
	}
	return Answer{}, c.counted(&fleet.UnavailableError{Op: "acquire", Err: fleet.ErrWire})
}

// startOver discards earlier pushes. What is read from now on includes the
// changes they announced, and must not be treated as overtaken or end a wait
// because of them.
func (s *Subscription) startOver() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.missed = false
	select {
	case <-s.wake:
	default:
	}
}

// read returns the value of an answer's entry, or nil if this instance cannot use
// it. If a tag has ended the value's freshness, stale is true and the entry's
// freshness is adjusted.
func (s *Subscription) read(ctx context.Context, a fleet.Answer) (v *fleet.Value, stale bool, err error) {
	v = new(fleet.Value)
	if v.UnmarshalBinary(a.Entry.Data) != nil || v.Codec != s.c.o.Codec {
		s.c.count.foreign.Add(1)
		return nil, false, nil
	}
	is, err := s.c.standing(ctx, v)
	if is.gone || err != nil {
		return nil, false, err
	}
	if is.expired == 0 {
		return v, false, nil
	}
	var since time.Duration // 0 if the expiry came after the answer
	if a.Now > is.expired {
		since = time.Duration(min(a.Now-is.expired, math.MaxInt64/1000)) * time.Microsecond //nolint:gosec // clipped
	}
	a.Entry.Fresh = min(a.Entry.Fresh, -since)
	return v, true, nil
}

// giveBack ends a lease granted by an answer that cannot be used.
func (s *Subscription) giveBack(a fleet.Answer) {
	if a.Grant == fleet.GrantLease {
		s.c.inBackground(func() { _, _ = s.c.settle(s.name, a.Fence, fleet.Outcome{}) }) // if it fails, the lease expires
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
// of the key, when pushes may have been missed, or after the remaining time of
// the lease plus some jitter. If ctx ends first, it returns the cause of ctx.
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
		return wait.Cause(ctx)
	}
}
