package fleetclient

import (
	"errors"
	"hash/maphash"

	"github.com/weir-go/weir/fleet"
)

// An engine may lose history: it is restored from a snapshot, or fails over to a
// replica that had not received the last writes. What was replaced or invalidated
// in the lost stretch is there again. Numbers tell: fences of a key, and those of
// invalidations by tag, only grow. Where one is lower than one that this instance
// has seen before it asked, the engine has lost history, and everything in it is
// invalidated.

// rememberedKeys is of how many keys the fences are remembered, at most. Of two
// that share a place the newer one stays.
const rememberedKeys = 1 << 11

// A history is what a Client has seen of the engine's numbers. Its fields are
// guarded by Client.mu.
type history struct {
	seed  maphash.Seed
	keys  []floor // rememberedKeys of them, or nil
	turns uint64  // how often the engine has lost its history
}

// A floor is what is known of one key.
type floor struct {
	hash    uint64
	removed uint64 // every entry has a higher fence
	seen    uint64 // every fresh entry, and every lease, has this one or a higher one
}

// errHistory is why everything is invalidated then.
var errHistory = errors.New("the engine has lost history")

func (h *history) place(name string) (*floor, uint64) {
	if h.keys == nil {
		h.seed, h.keys = maphash.MakeSeed(), make([]floor, rememberedKeys)
	}
	hash := maphash.String(h.seed, name)
	return &h.keys[hash%rememberedKeys], hash
}

// seenLocked notes a fence of a key. gone: entries with lower ones are gone. c.mu
// must be held.
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

// A view is what was known before a question.
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

// contradicts reports whether an answer is of a history that has gone back. An
// entry that was expired keeps its fence, so only a fresh one tells.
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

// lose handles that the engine has lost history, as seen at a turn: everything is
// invalidated, here and in the engine. Nothing of memory is written back: it may
// have been invalidated in the lost stretch.
func (c *Client) lose(turn uint64) {
	c.mu.Lock()
	if c.history.turns != turn {
		c.mu.Unlock()
		return // another question has found out
	}
	c.history.turns++
	clear(c.history.keys)
	c.lastTag, c.tagSeq, c.cleared, c.expired = 0, 0, 0, 0 // numbers of the lost history say nothing
	c.mu.Unlock()
	c.count.histories.Add(1)
	_ = c.owe(errHistory, false, everything)
	if c.o.Hooks.Tagged != nil {
		c.o.Hooks.Tagged("")
	}
	c.hurry()
}
