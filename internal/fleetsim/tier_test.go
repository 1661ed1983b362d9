package fleetsim_test

import (
	"context"
	"time"

	"github.com/weir-go/weir/fleet"
)

// The Tier's operations, as an instance calls them. Everything sent to the engine is
// checked: only durations may be sent, and none that could be a clock's time.

// A simBack is a reply on its way back.
type simBack[T any] struct {
	value T
	err   error
}

func simAsk[T any](l *simLink, ctx context.Context, op, key string, exec func(e *simEngine) (T, error)) (T, error) {
	b, err := simSend(l, ctx, op, key, func() simBack[T] {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		v, err := exec(&l.w.engine)
		return simBack[T]{v, err}
	})
	if err != nil {
		return b.value, err
	}
	return b.value, b.err
}

// Acquire implements fleet.Tier.
func (l *simLink) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	l.within("the lease of Acquire", a.Lease, l.w.o.lease)
	a.NewerThan, a.Joined = l.meant(a.NewerThan), l.meant(a.Joined)
	ans, err := simAsk(l, ctx, "acquire", k.Name, func(e *simEngine) (fleet.Answer, error) {
		return e.acquireLocked(l, k, a)
	})
	if err != nil {
		return fleet.Answer{}, err
	}
	if ans.Grant == fleet.GrantLease {
		l.w.mu.Lock()
		l.w.engine.register(k.Name).grants[ans.Fence].told = true
		l.w.logLocked(l.in.name, "acquire %s: has the lease #%d", k.Name, l.w.ordinal(ans.Fence))
		l.w.mu.Unlock()
	}
	ans.Fence = l.shown(ans.Fence)
	if ans.Entry != nil {
		e := *ans.Entry
		e.Fence = l.shown(e.Fence)
		ans.Entry = &e
	}
	return ans, nil
}

// Extend implements fleet.Tier.
func (l *simLink) Extend(ctx context.Context, k fleet.Key, fence uint64, d time.Duration) (bool, error) {
	l.within("the lease of Extend", d, l.w.o.lease)
	return simAsk(l, ctx, "extend", k.Name, func(e *simEngine) (bool, error) {
		return e.extendLocked(l, k, l.meant(fence), d)
	})
}

// Settle implements fleet.Tier.
func (l *simLink) Settle(ctx context.Context, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	l.entry(o.Entry)
	l.within("the cooling of Settle", o.Cool, l.w.o.cooling[1])
	l.within("the longest cooling of Settle", o.MaxCool, l.w.o.cooling[1])
	l.settles(k.Name, l.meant(fence), o)
	return simAsk(l, ctx, "settle", k.Name, func(e *simEngine) (bool, error) {
		return e.settleLocked(l, k, l.meant(fence), o)
	})
}

// settles records that the instance gives a lease back, whether or not the command
// reaches the engine.
func (l *simLink) settles(key string, fence uint64, o fleet.Outcome) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if g := l.w.engine.register(key).grants[fence]; g != nil {
		g.returned = true
	}
	if o.Entry != nil {
		l.in.settledLocked(key, simIdOf(o.Entry.Data), fence)
	}
}

// Write implements fleet.Tier.
func (l *simLink) Write(ctx context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	l.entry(w.Entry)
	fence, err := simAsk(l, ctx, "write", k.Name, func(e *simEngine) (uint64, error) {
		return e.writeLocked(l, simAckOf(ctx), k, w)
	})
	return l.shown(fence), err
}

// Tags implements fleet.Tier.
func (l *simLink) Tags(ctx context.Context, namespace string, tags []string) (fleet.TagState, error) {
	return simAsk(l, ctx, "tags", "", func(e *simEngine) (fleet.TagState, error) {
		return e.memory.Tags(context.Background(), namespace, tags)
	})
}

// InvalidateTags implements fleet.Tier.
func (l *simLink) InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	l.within("how long tags are kept", keep, simMostKeep)
	return simAsk(l, ctx, "invalidate tags", "", func(e *simEngine) (uint64, error) {
		return e.invalidateTagsLocked(l, simAckOf(ctx), namespace, tags, keep)
	})
}

// ExpireTags implements fleet.Tier. No history calls it: TestExpireTags in the
// Guard's package and the conformance suite for Tiers test it.
func (l *simLink) ExpireTags(context.Context, string, []string, time.Duration) (uint64, error) {
	panic("no history expires tags")
}

// simAckOf returns the call to which a write belongs, nil for a repeated write.
func simAckOf(ctx context.Context) *simAck {
	ack, _ := ctx.Value(simAckKey{}).(*simAck)
	return ack
}

// within checks that a value sent as a duration is one: a clock's time would be
// beyond everything in the Options.
func (l *simLink) within(what string, d, most time.Duration) {
	if d < 0 || d > most {
		l.w.break_("clock: %s: %s is %v; want 0 to %v", l.in.name, what, d, most)
	}
}

// entry checks the durations of an entry that is sent.
func (l *simLink) entry(e *fleet.Entry) {
	if e == nil {
		return
	}
	o := &l.w.o
	l.within("an entry's freshness", max(e.Fresh, 0), max(o.ttl, o.negative))
	l.within("how long an entry is kept", e.Keep, simMostKeep)
	var v fleet.Value
	if err := v.UnmarshalBinary(e.Data); err != nil {
		l.w.break_("wire: %s sends %q: %v", l.in.name, e.Data, err)
		return
	}
	l.within("an entry's TTL", v.TTL, max(o.ttl, o.negative))
	l.within("an entry's window", max(v.SWR, v.SIE), max(o.swr, o.sie))
	l.within("an entry's cost", v.Cost, simMostLoad+simMostPause)
	if v.TagSeq > 0 && v.TagSeq > l.w.lastTagSeq() {
		l.w.break_("clock: %s sends the invalidation number %d, which the engine has not assigned", l.in.name, v.TagSeq)
	}
}
