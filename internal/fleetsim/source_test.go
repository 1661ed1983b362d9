package fleetsim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// A simValue describes its own origin.
type simValue struct {
	ID      string // [instance/key#n], names the load or the Set that made it
	Key     string
	Version int
	Fence   uint64 // fence of the lease it was loaded under, 0 for none
}

// simIdIn finds the ID in a text.
func simIdIn(s string) string {
	i, j := strings.IndexByte(s, '['), strings.IndexByte(s, ']')
	if i < 0 || j < i {
		return "?"
	}
	return s[i : j+1]
}

// A simBirth is the origin of a value or a failure. Its fields are guarded by the
// world's lock.
type simBirth struct {
	id, key string
	in      *simInst
	version int
	set     bool
	fence   uint64        // fence of the lease, 0 for none
	guessed bool          // for a bulk load: fence and at are guesses until it settles
	at      time.Duration // when the lease was granted, or the load began without a lease; for a Set: when it was written
	began   time.Duration // start of the function; for a Set: of the call
	ended   time.Duration // 0: not yet
	settled uint64        // the fence under which it was stored in the tier, 0: it was not
	failed  bool
	ctx     context.Context
}

var errSimBoom = errors.New("boom")

// source returns the instance's access to the one source. In every history, all
// values of a key have the same tags.
func (in *simInst) source() weir.Source[string, simValue] {
	src := weir.Source[string, simValue]{
		LoadEntry: func(ctx context.Context, key string, _ weir.Previous[simValue]) (weir.Entry[simValue], error) {
			v, err := in.load(ctx, key, nil)
			return weir.Entry[simValue]{Value: v, Tags: in.w.o.tagsOf(key)}, err
		},
	}
	if in.w.o.many {
		src.LoadEntries = in.loadMany
	}
	return src
}

func (in *simInst) loadMany(ctx context.Context, keys []string, _ []weir.Previous[simValue]) (map[string]weir.Entry[simValue], error) {
	type one struct {
		v   simValue
		err error
	}
	answers := make([]chan one, len(keys))
	var all sync.WaitGroup
	all.Add(len(keys))
	for i, key := range keys {
		answers[i] = make(chan one, 1)
		go func() {
			defer func() {
				if p := recover(); p != nil {
					answers[i] <- one{err: fmt.Errorf("%w, in a panic: %v", errSimBoom, p)}
				}
			}()
			v, err := in.load(ctx, key, &all)
			answers[i] <- one{v, err}
		}()
	}
	entries, errs := make(map[string]weir.Entry[simValue]), make(weir.KeyErrors[string])
	for i, key := range keys {
		a := <-answers[i]
		entries[key] = weir.Entry[simValue]{Value: a.v, Tags: in.w.o.tagsOf(key)}
		if a.err != nil {
			errs[key] = a.err
		}
	}
	return entries, errs
}

// A simPlan is what happens to one load.
type simPlan struct {
	takes                     time.Duration
	late, fails, panics, deaf bool
}

func (in *simInst) plan(key string, n int) simPlan {
	w := in.w
	r := w.draw(in.name, "load", key, n)
	p := simPlan{takes: simDelay(r, 60*ms), late: r.IntN(2) == 0, deaf: r.IntN(4) == 0}
	switch x := r.Float64(); {
	case x < w.o.longLoads/4:
		p.takes = w.o.loadTimeout + simDelay(r, w.o.loadTimeout)
	case x < w.o.longLoads:
		p.takes = simDelay(r, w.o.loadTimeout)
	case x < 0.4:
		p.takes = simDelay(r, 3*ms)
	}
	switch x := r.Float64(); {
	case x < w.o.failing:
		p.fails = true
	case x < w.o.failing*1.2:
		p.panics = true
	}
	return p
}

// load is the source: it reads its data when the load begins, or just before it ends.
// In a bulk load, all keys end together.
func (in *simInst) load(ctx context.Context, key string, all *sync.WaitGroup) (simValue, error) {
	w := in.w
	w.mu.Lock()
	n := in.begun[key]
	in.begun[key] = n + 1
	b := &simBirth{id: fmt.Sprintf("[%s/%s#%d]", in.name, key, n), key: key, in: in, version: w.truth[key], ctx: ctx, began: w.now()}
	b.fence, b.at = in.leaseOfLocked(ctx, key, b.began, all != nil)
	b.guessed = all != nil
	w.loads++
	w.births[b.id] = b
	w.logLocked(in.name, "load %s begins, under #%d, at version %d", b.id, w.ordinal(b.fence), b.version)
	w.beginsLocked(b)
	w.running[key] = append(w.running[key], b)
	w.mu.Unlock()

	p := in.plan(key, n)
	err := simWork(ctx, p)
	if all != nil {
		all.Done()
		all.Wait()
	}
	in.link.stand(p.takes)

	w.mu.Lock()
	defer w.mu.Unlock()
	b.ended = w.now()
	for i, other := range w.running[key] {
		if other == b {
			w.running[key] = append(w.running[key][:i:i], w.running[key][i+1:]...)
		}
	}
	if p.late {
		b.version = w.truth[key]
	}
	switch {
	case err != nil:
	case p.fails:
		err = fmt.Errorf("%w %s", errSimBoom, b.id)
	case p.panics:
		b.failed = true
		w.logLocked(in.name, "load %s panics", b.id)
		panic("boom " + b.id)
	case b.version%5 == 4:
		w.logLocked(in.name, "load %s ends: version %d is not found", b.id, b.version)
		return simValue{}, fmt.Errorf("%w %s", weir.ErrNotFound, b.id)
	}
	b.failed = err != nil
	w.logLocked(in.name, "load %s ends: version %d, %v", b.id, b.version, err)
	return simValue{ID: b.id, Key: key, Version: b.version, Fence: b.fence}, err
}

func simWork(ctx context.Context, p simPlan) error {
	var gone <-chan struct{}
	if !p.deaf {
		gone = ctx.Done()
	}
	timer := time.NewTimer(p.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-gone:
		return context.Cause(ctx)
	}
}

// leaseOfLocked returns the fence of the lease under which a load runs, and the birth
// of the load. w.mu must be held.
func (in *simInst) leaseOfLocked(ctx context.Context, key string, now time.Duration, bulk bool) (uint64, time.Duration) {
	w, r := in.w, in.w.engine.register(key)
	shown, ok := fleet.FenceFrom(ctx)
	fence := in.link.meant(shown)
	if bulk {
		// Each key has its own lease, or none, and it is not yet known which. The
		// guess is the last one that was granted just now, unless the instance gave
		// it back; settledLocked corrects it.
		for f, g := range r.grants {
			if g.by == in && g.told && !g.used && f > fence && g.at >= now-2*w.slackLocked(in) && (!g.returned || ctx.Err() != nil) {
				fence, ok = f, true
			}
		}
	}
	if !ok {
		return 0, now
	}
	g := r.grants[fence]
	if g == nil || g.by != in {
		w.breakLocked("fence: %s loads %s under %d, but was not granted that lease", in.name, key, shown)
		return 0, now
	}
	g.used = true
	return fence, g.at
}

// settledLocked records that the instance settles a lease with a value. That happens
// before any caller gets the value, and shows under which lease a bulk load ran. A
// load without a lease never settles. w.mu must be held.
func (in *simInst) settledLocked(key, id string, fence uint64) {
	b, g := in.w.births[id], in.w.engine.register(key).grants[fence]
	if b != nil && b.key == key && b.guessed && g != nil {
		b.fence, b.at, b.guessed = fence, g.at, false
	}
}

// bornLocked returns the instant from which a write makes the value outdated. Until
// the lease of a bulk load is confirmed, that is the beginning of the load. w.mu must
// be held.
func (b *simBirth) bornLocked() time.Duration {
	if b.guessed {
		return b.began
	}
	return b.at
}
