package fleettest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
)

// Faults is a Tier in front of another one, usually a [fleet.Memory], that fails like
// an engine: it stands for one instance's connection. It has no deadline; put
// [fleet.WithBreaker] in front. The methods that cause faults may be called at any
// time.
type Faults struct {
	fleet.BaseTier

	mu       sync.Mutex
	inner    fleet.Tier       // guarded by mu
	hung     chan struct{}    // guarded by mu: closed at Unhang; nil if not hung
	cut      bool             // guarded by mu
	deaf     bool             // guarded by mu
	commands uint64           // guarded by mu
	before   func(string)     // guarded by mu
	watches  []*faultyWatcher // guarded by mu
}

var (
	_ fleet.Tier   = (*Faults)(nil)
	_ fleet.Meter  = (*Faults)(nil)
	_ fleet.Ledger = (*Faults)(nil)
	_ fleet.Roster = (*Faults)(nil)
)

// NewFaults returns a Faults in front of t that has no faults yet.
func NewFaults(t fleet.Tier) *Faults { return &Faults{inner: t} }

// ErrFault is the cause of errors from a Faults that is unavailable.
var ErrFault = errors.New("fleettest: a fault was injected")

// Hang makes operations wait for Unhang or the end of their context.
func (f *Faults) Hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hung == nil {
		f.hung = make(chan struct{})
	}
}

// Unhang ends Hang: the waiting operations run now.
func (f *Faults) Unhang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hung != nil {
		close(f.hung)
		f.hung = nil
	}
}

// Cut makes operations fail at once. Watchers get Lost, and nothing more until Mend.
func (f *Faults) Cut() {
	f.mu.Lock()
	f.cut = true
	all := slices.Clone(f.watches)
	f.mu.Unlock()
	for _, w := range all {
		w.call(fleet.Watcher.Lost)
	}
}

// Mend ends Cut. Watchers get Reset.
func (f *Faults) Mend() {
	f.mu.Lock()
	f.cut = false
	all := slices.Clone(f.watches)
	f.mu.Unlock()
	for _, w := range all {
		w.call(fleet.Watcher.Reset)
	}
}

// Deafen starts or stops dropping the calls of Watchers silently.
func (f *Faults) Deafen(deaf bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = deaf
}

// Before makes f call fn before each operation, with the operation's name; nil ends
// that. A fault that fn causes affects that operation.
func (f *Faults) Before(fn func(op string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = fn
}

// Commands returns how many operations there were.
func (f *Faults) Commands() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commands
}

// Replace replaces the Tier behind f, like an engine that restarts empty. Watchers
// move to the new Tier; Mend sends them Reset.
func (f *Faults) Replace(t fleet.Tier) error {
	f.mu.Lock()
	f.inner = t
	all := slices.Clone(f.watches)
	f.mu.Unlock()
	for _, w := range all {
		w.stop()
		stop, err := t.Watch(w.namespace, w)
		if err != nil {
			return err
		}
		w.stop = stop
	}
	return nil
}

// pass returns the inner Tier for an operation, or the error of a fault.
func (f *Faults) pass(ctx context.Context, op string) (fleet.Tier, error) {
	f.mu.Lock()
	f.commands++
	before := f.before
	f.mu.Unlock()
	if before != nil {
		before(op)
	}
	f.mu.Lock()
	hung := f.hung
	f.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
			return nil, &fleet.UnavailableError{Op: op, Err: wait.Cause(ctx)}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return nil, &fleet.UnavailableError{Op: op, Err: ErrFault}
	}
	return f.inner, nil
}

func (f *Faults) silent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deaf || f.cut
}

// Ping is for a Breaker's probe. It does not count as a command.
func (f *Faults) Ping(ctx context.Context) error {
	_, err := f.pass(ctx, "ping")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commands--
	return err
}

// Acquire implements [fleet.Tier].
func (f *Faults) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	t, err := f.pass(ctx, "acquire")
	if err != nil {
		return fleet.Answer{}, err
	}
	return t.Acquire(ctx, k, a)
}

// Extend implements [fleet.Tier].
func (f *Faults) Extend(ctx context.Context, k fleet.Key, fence uint64, d time.Duration) (bool, error) {
	t, err := f.pass(ctx, "extend")
	if err != nil {
		return false, err
	}
	return t.Extend(ctx, k, fence, d)
}

// Settle implements [fleet.Tier].
func (f *Faults) Settle(ctx context.Context, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	t, err := f.pass(ctx, "settle")
	if err != nil {
		return false, err
	}
	return t.Settle(ctx, k, fence, o)
}

// Write implements [fleet.Tier].
func (f *Faults) Write(ctx context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	t, err := f.pass(ctx, "write")
	if err != nil {
		return 0, err
	}
	return t.Write(ctx, k, w)
}

// Tags implements [fleet.Tier].
func (f *Faults) Tags(ctx context.Context, namespace string, tags []string) (fleet.TagState, error) {
	t, err := f.pass(ctx, "tags")
	if err != nil {
		return fleet.TagState{}, err
	}
	return t.Tags(ctx, namespace, tags)
}

// InvalidateTags implements [fleet.Tier].
func (f *Faults) InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	t, err := f.pass(ctx, "invalidate tags")
	if err != nil {
		return 0, err
	}
	return t.InvalidateTags(ctx, namespace, tags, keep)
}

// ExpireTags implements [fleet.Tier].
func (f *Faults) ExpireTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	t, err := f.pass(ctx, "expire tags")
	if err != nil {
		return 0, err
	}
	return t.ExpireTags(ctx, namespace, tags, keep)
}

// Abilities implements [fleet.Tier]: a Ping, and the inner Tier's Meter, Ledger and
// Roster with the faults applied. KeepsPushes is false, because a fault can drop pushes.
func (f *Faults) Abilities() fleet.Abilities {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := fleet.Abilities{Ping: f.Ping}
	a := f.inner.Abilities()
	if a.Meter != nil {
		own.Meter = f
	}
	if a.Ledger != nil {
		own.Ledger = f
	}
	if a.Roster != nil {
		own.Roster = f
	}
	return own
}

// Spend implements [fleet.Ledger].
func (f *Faults) Spend(ctx context.Context, k fleet.Key, r fleet.Rate, n int) (fleet.Spent, error) {
	l, err := f.ledger(ctx, "spend")
	if err != nil {
		return fleet.Spent{}, err
	}
	return l.Spend(ctx, k, r, n)
}

// Correct implements [fleet.Ledger].
func (f *Faults) Correct(ctx context.Context, k fleet.Key, r fleet.Rate, debt int, c fleet.Correction) (fleet.Corrected, error) {
	l, err := f.ledger(ctx, "correct")
	if err != nil {
		return fleet.Corrected{}, err
	}
	return l.Correct(ctx, k, r, debt, c)
}

// ledger is pass for a Ledger.
func (f *Faults) ledger(ctx context.Context, op string) (fleet.Ledger, error) {
	t, err := f.pass(ctx, op)
	if err != nil {
		return nil, err
	}
	if l := t.Abilities().Ledger; l != nil {
		return l, nil
	}
	return nil, errors.ErrUnsupported
}

// Take implements [fleet.Meter].
func (f *Faults) Take(ctx context.Context, k fleet.Key, r fleet.Rate, n int) (fleet.Taken, error) {
	t, err := f.pass(ctx, "take")
	if err != nil {
		return fleet.Taken{}, err
	}
	m := t.Abilities().Meter
	if m == nil {
		return fleet.Taken{}, errors.ErrUnsupported
	}
	return m.Take(ctx, k, r, n)
}

// roster is pass for a Roster.
func (f *Faults) roster(ctx context.Context, op string) (fleet.Roster, error) {
	t, err := f.pass(ctx, op)
	if err != nil {
		return nil, err
	}
	if r := t.Abilities().Roster; r != nil {
		return r, nil
	}
	return nil, errors.ErrUnsupported
}

// Announce implements [fleet.Roster].
func (f *Faults) Announce(ctx context.Context, i fleet.Instance, ttl time.Duration) error {
	r, err := f.roster(ctx, "announce")
	if err != nil {
		return err
	}
	return r.Announce(ctx, i, ttl)
}

// Withdraw implements [fleet.Roster].
func (f *Faults) Withdraw(ctx context.Context, id string) error {
	r, err := f.roster(ctx, "withdraw")
	if err != nil {
		return err
	}
	return r.Withdraw(ctx, id)
}

// Instances implements [fleet.Roster].
func (f *Faults) Instances(ctx context.Context) ([]fleet.Instance, error) {
	r, err := f.roster(ctx, "instances")
	if err != nil {
		return nil, err
	}
	return r.Instances(ctx)
}

// Watch implements [fleet.Tier].
func (f *Faults) Watch(namespace string, w fleet.Watcher) (func(), error) {
	t, err := f.pass(context.Background(), "watch")
	if err != nil {
		return nil, err
	}
	fw := &faultyWatcher{f: f, namespace: namespace, w: w, turn: make(chan struct{}, 1)}
	if fw.stop, err = t.Watch(namespace, fw); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches = append(f.watches, fw)
	return func() { f.unwatch(fw) }, nil
}

func (f *Faults) unwatch(fw *faultyWatcher) {
	f.mu.Lock()
	f.watches = slices.DeleteFunc(f.watches, func(w *faultyWatcher) bool { return w == fw })
	f.mu.Unlock()
	fw.stop()
	fw.turn <- struct{}{}
	defer func() { <-fw.turn }()
	fw.gone = true
}

// A faultyWatcher stands between the inner Tier and a Watcher.
type faultyWatcher struct {
	f         *Faults
	namespace string
	w         fleet.Watcher
	stop      func()

	turn chan struct{} // holds the call in progress, so that calls come one after another
	gone bool          // under turn
}

func (w *faultyWatcher) call(fn func(fleet.Watcher)) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if !w.gone {
		fn(w.w)
	}
}

func (w *faultyWatcher) pass(fn func(fleet.Watcher)) {
	if !w.f.silent() {
		w.call(fn)
	}
}

func (w *faultyWatcher) Changed(name string, fence uint64, removed bool) {
	w.pass(func(to fleet.Watcher) { to.Changed(name, fence, removed) })
}
func (w *faultyWatcher) Pushed(name string, e fleet.Entry, now uint64) {
	w.pass(func(to fleet.Watcher) { to.Pushed(name, e, now) })
}
func (w *faultyWatcher) Released(name string) {
	w.pass(func(to fleet.Watcher) { to.Released(name) })
}
func (w *faultyWatcher) Tagged(tag string, seq uint64) {
	w.pass(func(to fleet.Watcher) { to.Tagged(tag, seq) })
}
func (w *faultyWatcher) Expired(tag string, seq uint64) {
	w.pass(func(to fleet.Watcher) { to.Expired(tag, seq) })
}
func (w *faultyWatcher) Lost()      { w.pass(fleet.Watcher.Lost) }
func (w *faultyWatcher) Recovered() { w.pass(fleet.Watcher.Recovered) }
func (w *faultyWatcher) Reset()     { w.pass(fleet.Watcher.Reset) }
