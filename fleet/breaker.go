package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/wait"
)

// Defaults of BreakerOptions.
const (
	DefaultDeadline = 75 * time.Millisecond  // of BreakerOptions.Deadline
	DefaultFailures = 3                      // of BreakerOptions.Failures
	DefaultProbe    = 250 * time.Millisecond // of BreakerOptions.Probe
	DefaultMaxProbe = 2 * time.Second        // of BreakerOptions.MaxProbe
	DefaultMaxCalls = 4096                   // of BreakerOptions.MaxCalls
)

// BreakerOptions configure a [Breaker]. Zero and negative values mean the
// defaults.
type BreakerOptions struct {
	// Deadline is how long one operation may take. Default: DefaultDeadline.
	Deadline time.Duration

	// Failures is the number of failures in a row after which the breaker opens.
	// Errors that match ErrUnavailable and missed deadlines are failures. Overlapping
	// operations count as one, because a single stall of the engine fails all
	// operations in flight. Default: DefaultFailures.
	Failures int

	// Probe is the time from the opening until the first probe of the engine. It
	// doubles with each failed probe, up to MaxProbe. Each interval is shortened by
	// up to a quarter, at random, because all instances open at the same time.
	// Defaults: DefaultProbe, DefaultMaxProbe.
	Probe, MaxProbe time.Duration

	// MaxCalls bounds the calls that the engine has not answered, including those
	// whose callers have left at their deadline. A hung engine holds one goroutine
	// for each. Beyond MaxCalls operations fail at once, which does not count as a
	// failure of the engine. Default: DefaultMaxCalls.
	MaxCalls int
}

func (o BreakerOptions) withDefaults() BreakerOptions {
	o.Deadline = orDefault(o.Deadline, DefaultDeadline)
	o.Failures = orDefault(o.Failures, DefaultFailures)
	o.Probe = orDefault(o.Probe, DefaultProbe)
	o.MaxProbe = max(o.Probe, orDefault(o.MaxProbe, DefaultMaxProbe))
	o.MaxCalls = orDefault(o.MaxCalls, DefaultMaxCalls)
	return o
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// A Breaker is a Tier in front of another one. It bounds how long the inner Tier can
// block a caller. After several failures in a row it opens: operations then fail at
// once, without a call of the engine. While it is open, one probe at a time goes to
// the engine: a Ping if the Tier has that ability, otherwise Tags. The first
// successful probe closes the breaker. Watchers get Lost when it opens, and Reset or
// Recovered when it closes; see [Watcher].
//
// It can be open from the start: a Watch that cannot reach the engine opens it. The
// breaker sets up that watch before it closes. So a service can start without its
// engine.
//
// It is safe for concurrent use. While it is closed and no operation runs, it has no
// goroutine and no timer. An operation that its caller cancels is not a failure.
type Breaker struct {
	BaseTier

	inner Tier
	o     BreakerOptions

	mu       sync.Mutex
	open     bool            // guarded by mu
	over     bool            // guarded by mu: Close was called
	epoch    uint64          // guarded by mu: grows with each opening and closing
	failures int             // guarded by mu: in a row; overlapping ones count once
	failed   uint64          // guarded by mu: all failures that counted
	calls    int             // guarded by mu: calls of the Tier that have not returned
	pings    int             // guarded by mu: the probes among calls
	state    BreakerState    // guarded by mu: the counts
	every    time.Duration   // guarded by mu: until the next probe
	timer    *time.Timer     // guarded by mu: of the next probe
	watches  []*breakerWatch // guarded by mu
	probing  sync.WaitGroup  // the timer, or the probe that it started
}

var (
	_ Tier   = (*Breaker)(nil)
	_ Meter  = (*Breaker)(nil)
	_ Ledger = (*Breaker)(nil)
	_ Roster = (*Breaker)(nil)
)

// WithBreaker puts a Breaker in front of t. Its Take fails with an error that matches
// [errors.ErrUnsupported] if t is not a [Meter], and so do its Announce, Withdraw and
// Instances if t is not a [Roster].
func WithBreaker(t Tier, o BreakerOptions) *Breaker {
	return &Breaker{inner: t, o: o.withDefaults()}
}

// A BreakerState is a snapshot of a Breaker's state and counters.
type BreakerState struct {
	Open    bool   // calls fail without reaching the engine
	Opened  uint64 // how often it has opened
	Missed  uint64 // operations that missed their deadline
	Refused uint64 // operations rejected without a call: breaker open, or over MaxCalls
	Probes  uint64 // calls that tested whether the engine responds again
	Calls   int    // calls in flight
}

// State returns the current state of b.
func (b *Breaker) State() BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state
	s.Open, s.Calls = b.open, b.calls
	return s
}

var (
	errOpen     = errors.New("the breaker is open")
	errClosed   = errors.New("the breaker was closed")
	errTooMany  = errors.New("too many calls are still unanswered")
	errMissed   = errors.New("no response within the deadline")
	errNoRoster = fmt.Errorf("fleet: the tier keeps no roster of instances: %w", errors.ErrUnsupported)
	errNoLedger = fmt.Errorf("fleet: the tier does not count units: %w", errors.ErrUnsupported)
	errNotMeter = fmt.Errorf("fleet: the tier does not count permits: %w", errors.ErrUnsupported)
)

// entered is the state of the breaker when an operation began.
type entered struct{ epoch, failed uint64 }

// enter admits an operation, or returns the reason for rejecting it.
func (b *Breaker) enter() (e entered, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		err = errClosed
	case b.open:
		err = errOpen
	case b.calls >= b.o.MaxCalls:
		err = errTooMany
	default:
		b.calls++
		return entered{b.epoch, b.failed}, nil
	}
	b.state.Refused++
	return entered{}, &UnavailableError{Op: "breaker", Err: err}
}

// left notes that the Tier has returned from a call.
func (b *Breaker) left() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls--
}

// note counts the result of an operation. A result from an earlier epoch says nothing
// about the current one:
//
//	A: calls the engine, and hangs
//	B, C, D: miss their deadlines; the breaker opens
//	A: gets a response after all; a response to an old call does not close it
//	a probe closes it
//	E, begun before the opening: fails now, and does not count
//
// Of overlapping operations only the first failure counts: an operation that began
// before it has seen the same stall.
func (b *Breaker) note(e entered, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(err, errMissed) {
		b.state.Missed++
	}
	switch {
	case e.epoch != b.epoch || b.over:
	case err == nil:
		b.failures = 0
	case errors.Is(err, ErrUnavailable) && e.failed == b.failed:
		b.failed++
		if b.failures++; b.failures >= b.o.Failures {
			b.openLocked()
		}
	}
}

// openLocked opens b unless it is open already. b.mu must be held.
func (b *Breaker) openLocked() {
	if b.open || b.over {
		return
	}
	b.open, b.failures, b.every = true, 0, b.o.Probe
	b.epoch++
	b.state.Opened++
	for _, w := range b.watches {
		w.out.add(event{kind: lost})
	}
	b.probeLaterLocked()
}

// probeLaterLocked sets the timer for the next probe. b.mu must be held.
func (b *Breaker) probeLaterLocked() {
	cut := time.Duration(rand.Int64N(int64(b.every)/4 + 1))
	b.probing.Add(1)
	b.timer = time.AfterFunc(b.every-cut, b.probe)
}

// probe calls the engine, and either closes b or sets the timer again.
func (b *Breaker) probe() {
	defer b.probing.Done()
	err := b.ping()
	for err == nil {
		w := b.closeOrNext()
		if w == nil {
			return
		}
		err = b.subscribe(w)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	b.every = min(2*b.every, b.o.MaxProbe)
	b.probeLaterLocked()
}

// closeOrNext closes b. If a watch has not yet begun at the Tier, it returns that
// watch instead.
func (b *Breaker) closeOrNext() *breakerWatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	for _, w := range b.watches {
		if w.stop == nil && !w.busy {
			w.busy, w.late = true, true
			return w
		}
	}
	b.open, b.failures = false, 0
	b.epoch++
	keeps := b.inner.Abilities().KeepsPushes
	for _, w := range b.watches {
		if keeps && !w.late {
			w.out.add(event{kind: recovered})
		} else {
			w.out.add(event{kind: reset})
		}
		w.late = false
	}
	return nil
}

// maxPings bounds the probes that can hang in a Tier.
const maxPings = 4

// ping checks that the engine responds.
func (b *Breaker) ping() error {
	b.mu.Lock()
	if b.pings >= maxPings {
		b.mu.Unlock()
		return errTooMany
	}
	b.pings++
	b.calls++
	b.state.Probes++
	b.mu.Unlock()
	_, err := within(context.Background(), b.o.Deadline, func(ctx context.Context) (struct{}, error) {
		if ping := b.inner.Abilities().Ping; ping != nil {
			return struct{}{}, ping(ctx)
		}
		_, err := b.inner.Tags(ctx, "", []string{""})
		return struct{}{}, err
	}, nil, b.pinged)
	return err
}

func (b *Breaker) pinged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pings--
	b.calls--
}

// Close stops probing and waits for a running probe until ctx ends; then it returns
// the cause of ctx. Every later operation fails with an error that matches
// ErrUnavailable. Close neither closes the inner Tier nor stops its watches. It may
// be called again.
func (b *Breaker) Close(ctx context.Context) error {
	b.mu.Lock()
	b.over = true
	if b.timer != nil && b.timer.Stop() {
		b.probing.Done()
		b.timer = nil
	}
	b.mu.Unlock()
	return wait.For(ctx, b.probing.Wait)
}
