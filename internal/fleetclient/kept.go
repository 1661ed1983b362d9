package fleetclient

import (
	"container/list"
	"math"
	"strings"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A Tier may push a key's new value (fleet.Watcher.Pushed). This instance keeps it if
// it has asked for the key before, and answers the next Ask with it. A kept value is
// memory: the same bounds hold for it, and the same pushes and invalidations end it.
//
// Pushes and replies come over different connections, so their order says nothing:
//
//	A: asks for k; the Tier answers with fence 7
//	A: gets the push of fence 5, which was delayed
//
// So a key has a floor: no value with a lower fence is kept. It is the fence of the
// last reply, or the highest one that was pushed or written since. A key without a floor
// keeps nothing, and floors are forgotten together with their keys.

// keptCost is what a key costs in addition to its name and value, in bytes.
const keptCost = 256

// kept holds the pushed values of a Client. Its fields are guarded by Client.mu.
type kept struct {
	most  int                      // bytes of one value; 0: pushed values are not used
	limit int                      // bytes of all keys
	cap   time.Duration            // no value is used that was stored longer ago
	keys  map[string]*list.Element // of *keptKey
	used  list.List                // the key of the latest request is in front
	bytes int
	deaf  bool // pushes may be missing: keys are not kept, and so no values
}

// A keptKey is a key that this instance has asked for.
type keptKey struct {
	name  string
	floor uint64
	base  uint64    // the engine's time in a reply about the key
	asked time.Time // before that reply

	data  []byte // of the value; nil: none
	fence uint64
	fresh time.Duration // at the engine's time now
	now   uint64
}

func newKept(o *Options) kept {
	if o.PushValue <= 0 {
		return kept{}
	}
	return kept{most: o.PushValue, limit: o.PushMemory, cap: o.MemoryCap, keys: make(map[string]*list.Element)}
}

// find returns what is known of a key, nil for nothing.
func (k *kept) find(name string) *keptKey {
	if e := k.keys[name]; e != nil {
		return e.Value.(*keptKey)
	}
	return nil
}

// want records a reply for a key: later values are kept.
func (k *kept) want(name string, floor, base uint64, asked time.Time) {
	key := k.find(name)
	if key == nil {
		key = &keptKey{name: strings.Clone(name)}
		k.keys[key.name] = k.used.PushFront(key)
		k.bytes += keptCost + len(name)
	} else {
		k.used.MoveToFront(k.keys[name])
	}
	key.base, key.asked = base, asked
	k.raise(name, floor)
	for k.bytes > k.limit && k.used.Len() > 0 {
		k.forget(k.used.Back().Value.(*keptKey).name)
	}
}

// raise discards values of a key that are older than a fence, now and later.
func (k *kept) raise(name string, fence uint64) {
	key := k.find(name)
	if key == nil {
		return
	}
	key.floor = max(key.floor, fence)
	if key.fence < key.floor {
		k.discard(key)
	}
}

// discard drops the value of a key.
func (k *kept) discard(key *keptKey) {
	k.bytes -= len(key.data)
	key.data = nil
}

// forget drops a key.
func (k *kept) forget(name string) {
	if e := k.keys[name]; e != nil {
		k.discard(e.Value.(*keptKey))
		k.bytes -= keptCost + len(name)
		k.used.Remove(e)
		delete(k.keys, name)
	}
}

// clear drops everything.
func (k *kept) clear() {
	clear(k.keys)
	k.used.Init()
	k.bytes = 0
}

// pushed keeps a value, and reports whether it did.
func (k *kept) pushed(name string, e fleet.Entry, now uint64) bool {
	key := k.find(name)
	if key == nil || len(e.Data) == 0 || len(e.Data) > k.most || e.Fence < key.floor {
		return false
	}
	k.discard(key)
	key.data, key.fence, key.fresh, key.now, key.floor = e.Data, e.Fence, e.Fresh, now, e.Fence
	k.bytes += len(e.Data)
	for k.bytes > k.limit {
		k.forget(k.used.Back().Value.(*keptKey).name)
	}
	return k.find(name) != nil
}

// take returns the kept value of a key as a reply, and its age. A value is returned
// once, because the caller has it then. It reports false if there is none that ask
// allows.
//
// The push was on its way for an unknown time, so the age is counted by the engine's
// clock: from the time in the push to the latest that it can be there now, which follows
// from a reply. A value from beyond that is discarded: the clock was changed, or another
// engine has taken over.
func (k *kept) take(name string, ask fleet.Ask, known floor) (a fleet.Answer, age time.Duration, ok bool) {
	key := k.find(name)
	if key == nil || key.data == nil {
		return a, 0, false
	}
	now := key.base + uint64(max(time.Since(key.asked), 0)/time.Microsecond) + 1 //nolint:gosec // not negative
	if key.now > now || now-key.now > math.MaxInt64/1000 {
		k.discard(key)
		return a, 0, false
	}
	age = time.Duration(now-key.now) * time.Microsecond //nolint:gosec // checked above
	joined := ask.Joined > 0 && key.fence >= ask.Joined
	usable := age < k.cap && key.fence >= known.seen && key.fence >= known.removed &&
		(joined || key.fresh > age && key.fence > ask.NewerThan)
	if usable {
		a = fleet.Answer{
			Grant: fleet.GrantFresh, Now: now,
			Entry: &fleet.Entry{Data: append([]byte(nil), key.data...), Fence: key.fence, Fresh: key.fresh - age},
		}
		key.floor = key.fence + 1
		k.used.MoveToFront(k.keys[name])
	}
	k.discard(key)
	return a, age, usable
}

// take is kept.take for the subscription's key.
func (s *Subscription) take(ask fleet.Ask, known view) (fleet.Answer, time.Duration, bool) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	a, age, ok := c.kept.take(s.name, ask, known.floor)
	if ok {
		c.count.pushedUsed.Add(1)
	}
	return a, age, ok
}

// want records a reply, to a request that was sent at the instant asked: the key's
// later values are kept.
func (s *Subscription) want(a fleet.Answer, asked time.Time, known view) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.kept
	if k.most == 0 {
		return
	}
	var floor uint64
	switch {
	case a.Grant == fleet.GrantFresh && a.Entry != nil:
		floor = a.Entry.Fence + 1 // the owner has this one now
	case a.Grant == fleet.GrantLease, a.Grant == fleet.GrantHeld:
		floor = a.Fence
	}
	if floor == 0 || a.Now == 0 || k.deaf || s.missed || known.turns != c.history.turns {
		k.forget(s.name) // while the key cools, the reply has no fence
		return
	}
	k.want(s.name, max(floor, s.pushed), a.Now, asked)
}
