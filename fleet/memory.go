package fleet

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet/internal/bucket"
	"github.com/weir-go/weir/internal/wait"
)

// Defaults and bounds of a [Memory].
const (
	// DefaultMaxKeys is how many keys a Memory holds by default.
	DefaultMaxKeys = 100_000

	// memoryIdle is how long an unused key without an entry is remembered: longer
	// than any lease, so that a late Settle still finds the fence that it must match.
	memoryIdle = 2 * MaxLease

	// setBack is how far a clock may be set back while instants stay above 0, which
	// means none.
	setBack = 10 * 365 * 24 * time.Hour

	maxFailureKind = 64 // bytes, see Failure.Kind
)

// MemoryOptions configure a [Memory]. The zero value is useful.
type MemoryOptions struct {
	// MaxKeys bounds how many keys the Memory holds state of (entries, leases,
	// fences). It is also, separately, the bound for limits, for instances, and for
	// the tags of a namespace. The least recently used key is dropped, with its
	// lease; with too many tags the whole namespace counts as invalidated. 0:
	// DefaultMaxKeys; negative counts as 0.
	MaxKeys int

	// Clock is the engine's clock. Nil: time.Now, which follows the fake clock in a
	// synctest bubble. Only tests need another one.
	Clock func() time.Time
}

// A Memory is a Tier, a Meter and a Roster inside the process: for tests, and for
// several Guards of one process that share their loads. Its contents are lost with
// the process. It has a goroutine only while it calls a Watcher.
type Memory struct {
	BaseTier

	maxKeys int
	clock   func() time.Time
	start   time.Time // the zero of instants, see setBack

	mu        sync.Mutex
	keys      map[Key]*list.Element  // guarded by mu; of *memoryKey
	used      list.List              // guarded by mu; least recently used first
	floor     uint64                 // guarded by mu: the highest fence of dropped keys
	meters    meters                 // guarded by mu
	buckets   map[Key]*bucket.Bucket // guarded by mu
	epochs    uint64                 // guarded by mu: of buckets
	tags      map[string]*tagNotes   // guarded by mu; by namespace
	instances map[string]announced   // guarded by mu; by ID
	watchers  map[string][]*watch    // guarded by mu; by namespace
	closed    bool                   // guarded by mu
}

var (
	_ Tier   = (*Memory)(nil)
	_ Meter  = (*Memory)(nil)
	_ Roster = (*Memory)(nil)
)

// A memoryKey is the state of a key. Instants are since the Memory's start.
type memoryKey struct {
	key  Key
	last uint64        // the fence register
	seen time.Duration // when it was last used

	data  []byte // the entry; nil for none
	fence uint64
	fresh time.Duration // until when
	lasts time.Duration // how long it was fresh initially
	ended bool          // a Write has ended its freshness
	keep  time.Duration // until when

	lease   time.Duration // until when; the lease's fence is last
	granted time.Duration // for how long

	failures int // in a row
	failure  Failure
	cooling  time.Duration // until when
	cools    time.Duration // for how long

	heat heat
}

// NewMemory returns an empty Memory.
func NewMemory(o MemoryOptions) *Memory {
	m := &Memory{
		maxKeys: o.MaxKeys, clock: o.Clock,
		keys: make(map[Key]*list.Element), tags: make(map[string]*tagNotes), watchers: make(map[string][]*watch),
		instances: make(map[string]announced),
	}
	if m.maxKeys <= 0 {
		m.maxKeys = DefaultMaxKeys
	}
	if m.clock == nil {
		m.clock = time.Now
	}
	m.start = m.clock().Add(-setBack)
	return m
}

var errMemoryClosed = errors.New("the Memory is closed")

// beginLocked returns the current time, or the error of op if it cannot run. m.mu
// must be held.
func (m *Memory) beginLocked(ctx context.Context, op string) (now time.Duration, err error) {
	if m.closed {
		return 0, &UnavailableError{Op: op, Err: errMemoryClosed}
	}
	if ctx.Err() != nil {
		return 0, wait.Cause(ctx)
	}
	return m.clock().Sub(m.start), nil
}

// micros returns now in the unit of fences and invalidation numbers.
func (m *Memory) micros(now time.Duration) uint64 {
	return uint64(m.start.Add(now).UnixMicro()) //nolint:gosec // long after 1970
}

// nextLocked returns the next fence of k and ends its lease, if there is one. m.mu
// must be held.
func (m *Memory) nextLocked(k *memoryKey, now time.Duration) uint64 {
	clock := m.micros(now)
	k.last = max(k.last+1, m.floor+1, clock)
	k.lease = 0
	return k.last
}

// findLocked returns the state of a key, creating it if necessary, and drops an
// expired entry. m.mu must be held.
func (m *Memory) findLocked(key Key, now time.Duration) *memoryKey {
	if e, ok := m.keys[key]; ok {
		m.used.MoveToBack(e)
		k := e.Value.(*memoryKey)
		k.seen = now
		k.clamp(now)
		if k.keep <= now {
			k.data = nil
		}
		return k
	}
	m.pruneLocked(now)
	key = Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}
	k := &memoryKey{key: key, seen: now}
	m.keys[key] = m.used.PushBack(k)
	return k
}

// pruneLocked makes room for a key: it drops one or two expired ones, and the least
// recently used one if there is no room otherwise. The floor keeps fences growing.
// m.mu must be held.
func (m *Memory) pruneLocked(now time.Duration) {
	for range 2 {
		e := m.used.Front()
		if e == nil {
			return
		}
		k := e.Value.(*memoryKey)
		over := k.keep <= now && k.seen+memoryIdle <= now
		if !over && m.used.Len() < m.maxKeys {
			return
		}
		m.used.Remove(e)
		delete(m.keys, k.key)
		m.floor = max(m.floor, k.last)
	}
}

// Acquire implements [Tier].
func (m *Memory) Acquire(ctx context.Context, key Key, a Ask) (Answer, error) {
	if err := errors.Join(checkKey(key), checkLease(a.Lease)); err != nil {
		return Answer{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, "acquire")
	if err != nil {
		return Answer{}, err
	}
	k := m.findLocked(key, now)
	ans := Answer{Entry: k.entry(now), Now: m.micros(now)}
	joined := a.Joined > 0 && k.fence >= a.Joined && !k.ended
	switch {
	case k.data != nil && (joined || k.fresh > now && k.fence > a.NewerThan):
		ans.Grant = GrantFresh
	case k.lease > now:
		ans.Grant, ans.Fence, ans.Remaining = GrantHeld, k.last, k.lease-now
	case k.cooling > now && !a.Cooled:
		ans.Grant, ans.Remaining, ans.Failure = GrantCooling, k.cooling-now, k.failure
	default:
		ans.Grant, ans.Fence = GrantLease, m.nextLocked(k, now)
		k.lease, k.granted = now+a.Lease, a.Lease
	}
	if a.Push && (ans.Grant == GrantFresh || ans.Grant == GrantHeld) {
		k.heat.asked()
	}
	return ans, nil
}

// entry returns a copy of the stored entry, nil if there is none.
func (k *memoryKey) entry(now time.Duration) *Entry {
	if k.data == nil {
		return nil
	}
	return &Entry{Data: bytes.Clone(k.data), Fence: k.fence, Fresh: k.fresh - now}
}

// Extend implements [Tier].
func (m *Memory) Extend(ctx context.Context, key Key, fence uint64, d time.Duration) (bool, error) {
	if err := errors.Join(checkKey(key), checkLease(d)); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, "extend")
	if err != nil {
		return false, err
	}
	k := m.findLocked(key, now)
	if k.last != fence || k.lease <= now {
		return false, nil
	}
	k.lease, k.granted = now+d, d
	return true, nil
}

// Settle implements [Tier].
func (m *Memory) Settle(ctx context.Context, key Key, fence uint64, o Outcome) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, "settle")
	if err != nil {
		return false, err
	}
	k := m.findLocked(key, now)
	if k.last != fence {
		return false, nil
	}
	k.lease = 0
	if o.Entry != nil {
		e := *o.Entry
		if e.Until > 0 {
			left := int64(e.Until - m.micros(now)) //nolint:gosec // it may be over: then it is negative
			e.Fresh = min(e.Fresh, time.Duration(min(max(left, math.MinInt64/1000), math.MaxInt64/1000))*time.Microsecond)
		}
		k.store(&e, now)
		m.pushLocked(k, &e, now)
		m.tellLocked(key.Namespace, event{kind: changed, name: k.key.Name, number: fence})
		return true, nil
	}
	if o.Cool > 0 {
		k.cool(o, now)
	}
	if o.Remove {
		k.data = nil
		m.tellLocked(key.Namespace, event{kind: changed, name: k.key.Name, number: fence, removed: true})
	}
	m.tellLocked(key.Namespace, event{kind: released, name: k.key.Name})
	return true, nil
}

// store keeps e under the key's last fence, and ends the cooling.
func (k *memoryKey) store(e *Entry, now time.Duration) {
	k.data = append([]byte{}, e.Data...) // not nil, if empty
	k.fence, k.fresh, k.keep = k.last, after(now, e.Fresh), after(now, e.Keep)
	k.ended, k.lasts = false, e.Fresh
	k.warm()
}

// pushLocked pushes e, which was just stored, if that pays. m.mu must be held.
func (m *Memory) pushLocked(k *memoryKey, e *Entry, now time.Duration) {
	watchers := m.watchers[k.key.Namespace]
	if k.heat.stored(e.Push && e.Keep > 0, PushPays(len(watchers), len(e.Data))) && len(watchers) > 0 {
		pushed := Entry{Data: bytes.Clone(e.Data), Fence: k.fence, Fresh: e.Fresh}
		m.tellLocked(k.key.Namespace, event{kind: valued, name: k.key.Name, entry: pushed, number: m.micros(now)})
	}
}

// clamp limits the remaining times of k after the clock was set back: none may exceed
// its full duration.
func (k *memoryKey) clamp(now time.Duration) {
	k.lease = min(k.lease, after(now, k.granted))
	k.cooling = min(k.cooling, after(now, k.cools))
	k.fresh = min(k.fresh, after(now, max(k.lasts, 0)))
}

func (k *memoryKey) warm() { k.failures, k.failure, k.cooling = 0, Failure{}, 0 }

// cool records a failure: the cooling time doubles with each further failure in a
// row.
func (k *memoryKey) cool(o Outcome, now time.Duration) {
	d, most := o.Cool, max(o.MaxCool, o.Cool)
	for range k.failures {
		if d > most/2 {
			d = most
			break
		}
		d *= 2
	}
	k.failures++
	k.cooling, k.cools = after(now, d), d
	k.failure = Failure{Kind: cut(o.Failure.Kind, maxFailureKind), Text: cut(o.Failure.Text, MaxFailureText)}
}

// cut returns a copy of at most the first n bytes of s.
func cut(s string, n int) string { return strings.Clone(s[:min(len(s), n)]) }

// after returns now + d without overflow.
func after(now, d time.Duration) time.Duration {
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}

// Write implements [Tier].
func (m *Memory) Write(ctx context.Context, key Key, w Write) (uint64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, "write")
	if err != nil {
		return 0, err
	}
	k := m.findLocked(key, now)
	fence := m.nextLocked(k, now)
	k.warm()
	switch {
	case w.Entry != nil:
		k.store(w.Entry, now)
		m.pushLocked(k, w.Entry, now)
	case w.Expire:
		k.fresh, k.ended = min(k.fresh, now), true
	default:
		k.data = nil
	}
	removed := w.Entry == nil && !w.Expire
	m.tellLocked(key.Namespace, event{kind: changed, name: k.key.Name, number: fence, removed: removed})
	return fence, nil
}

// Len returns how many keys the Memory holds state of.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used.Len()
}

// Abilities implements [Tier].
func (m *Memory) Abilities() Abilities {
	return Abilities{Meter: m, Ledger: m, Roster: m, InProcess: true}
}

// Close ends the Memory: later operations fail with an error that matches
// ErrUnavailable, Watchers get no more calls, and the state is dropped. Close waits
// for running calls to Watchers until ctx ends, and then returns the cause of ctx. If
// a Watcher calls Close, that wait has no other end, so ctx needs a deadline. It may
// be called again.
func (m *Memory) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	all := m.watchers
	m.watchers, m.keys, m.tags, m.meters, m.buckets, m.instances = nil, nil, nil, meters{}, nil, nil
	m.used.Init()
	m.mu.Unlock()
	return wait.For(ctx, func() {
		for _, namespace := range all {
			for _, w := range namespace {
				w.stop()
			}
		}
	})
}

func checkNamespace(namespace string) error {
	if len(namespace) > MaxName {
		return fmt.Errorf("fleet: a namespace of %d bytes; at most %d", len(namespace), MaxName)
	}
	return nil
}

func checkKey(k Key) error {
	if len(k.Name) > MaxName {
		return fmt.Errorf("fleet: a key of %d bytes; at most %d", len(k.Name), MaxName)
	}
	return checkNamespace(k.Namespace)
}

func checkLease(d time.Duration) error {
	if d <= 0 || d > MaxLease {
		return fmt.Errorf("fleet: a lease of %v; more than 0, at most %v", d, MaxLease)
	}
	return nil
}
