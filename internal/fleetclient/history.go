package fleetclient

import (
	"errors"
	"hash/maphash"

	"github.com/weir-go/weir/fleet"
)

// An engine may lose history: it is restored from a snapshot, or fails over to a
// replica that lacks the last writes. Entries that were replaced or invalidated
// in the lost period are back. The numbers reveal this: the fences of a key, and
// the numbers of invalidations by tag, only grow. If one is lower than a number
// that this instance had seen before the call, the engine has lost history.
// Everything in it is then invalidated.

// rememberedKeys is the largest number of keys whose fences are remembered. If
// two keys share a slot, the one with the higher fence stays.
const rememberedKeys = 1 << 11

// A history holds the engine's numbers that a Client has seen. Its fields are
// guarded by Client.mu.
type history struct {
	seed  maphash.Seed
	keys  []floor // rememberedKeys of them, or nil
	turns uint64  // how often the engine has lost history
}

// A floor holds what is known of one key.
type floor struct {
	hash    uint64
	removed uint64 // every entry has a higher fence
	seen    uint64 // every fresh entry and every lease has at least this fence
}

// errHistory is the reason for invalidating everything after lost history.
var errHistory = errors.New("the engine has lost history")

func (h *history) place(name string) (*floor, uint64) {
	if h.keys == nil {
		h.seed, h.keys = maphash.MakeSeed(), make([]floor, rememberedKeys)
	}
	hash := maphash.String(h.seed, name)
	return &h.keys[hash%rememberedKeys], hash
}

// seenLocked records a fence of a key. If gone is set, entries with lower fences
// no longer exist. c.mu must be held.
func (c *Client) seenLocked(name string, fence uint64, gone bool) {
	f, hash := c.history.place(name)
	if f.hash != hash {
		if f.seen > fence {
			return
		}
		*f = floor{hash: hash}
	}
	f.seen = max(f.seen, fence)
	if gone {
		f.removed = max(f.removed, fence)
	}
}

// A view holds what was known before a call to the Tier.
type view struct {
	floor
	turns uint64
}

func (c *Client) view(name string) view {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := view{turns: c.history.turns}
	if f, hash := c.history.place(name); f.hash == hash {
		v.floor = *f
	}
	return v
}

// contradicts reports whether an answer shows that the engine lost history. An
// expired entry keeps its fence, so only a fresh entry proves this by the fence
// last seen.
func (v view) contradicts(a fleet.Answer) bool {
	switch {
	case a.Entry != nil && (a.Entry.Fence < v.removed || a.Grant == fleet.GrantFresh && a.Entry.Fence < v.seen):
		return true
	case a.Grant == fleet.GrantLease:
		return a.Fence <= v.seen
	case a.Grant == fleet.GrantHeld:
		return a.Fence < v.seen
	}
	return false
}

// lose handles lost history, discovered at the given turn: everything is
// invalidated, here and in the engine. Nothing in memory is written back, because
// it may have been invalidated in the lost period.
//
// The invalidation becomes pending in the critical section in which the lost numbers
// are forgotten. Between the two, another call would use the engine:
//
//	A: sees an old fence, and forgets the lost numbers
//	B: asks; no number contradicts the old entry, and nothing is pending
//	A: the invalidation of everything is pending
func (c *Client) lose(turn uint64) {
	c.mu.Lock()
	if c.history.turns != turn {
		c.mu.Unlock()
		return // another call found out first
	}
	c.history.turns++
	clear(c.history.keys)
	c.lastTag, c.tagSeq, c.cleared, c.expired = 0, 0, 0, 0 // numbers of the lost history are meaningless
	c.oweLocked(everything, false, errHistory)
	c.scheduleLocked(c.backlog.every)
	c.mu.Unlock()
	c.count.histories.Add(1)
	c.tellPending(errHistory)
	if c.o.Hooks.Tagged != nil {
		c.o.Hooks.Tagged("")
	}
	c.hurry()
}
