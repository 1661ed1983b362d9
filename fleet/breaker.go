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
	DefaultDeadline = 75 * time.Millisecond
	DefaultFailures = 3
	DefaultProbe    = 250 * time.Millisecond
	DefaultMaxProbe = 2 * time.Second
	DefaultMaxCalls = 4096
)

// BreakerOptions configure a [Breaker]. Zero and negative values mean the
// defaults.
type BreakerOptions struct {
	// Deadline is how long one operation may take. Default: DefaultDeadline.
	Deadline time.Duration

	// Failures is after how many in a row the breaker opens: errors that match
	// ErrUnavailable, and missed deadlines. Operations that overlap count as one: a
	// single stall of the engine fails all that are under way. Default:
	// DefaultFailures.
	Failures int

	// Probe is how long after it has opened the engine is tried again. It
	// doubles with each try that fails, up to MaxProbe; each time is cut by up
	// to a quarter, at random, as all instances have opened at once. Defaults:
	// DefaultProbe, DefaultMaxProbe.
	Probe, MaxProbe time.Duration

	// MaxCalls bounds the calls that the engine has not answered, also those
	// whose callers have gone since their deadline has passed: goroutines that
	// a hung engine holds. Beyond it operations fail at once, which is no
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

// A Breaker is a Tier in front of another that bounds how long it can hold its
// callers, and spares them an engine that does not answer: after some failures
// in a row it opens, and operations fail at once. While it is open one probe at
// a time goes to the engine, a Ping if the Tier has that ability, else Tags;
// the first that is answered closes it. Watchers get Lost when it opens and
// Reset when it closes, or Recovered, see [Watcher].
//
// It may be open from the start: a Watch that finds the engine away opens it, and
// is made up for before it closes, so that a service starts without its engine.
//
// It is safe for concurrent use. Neither a goroutine nor a timer is left while
// it is closed and no operation runs. What a caller gives up is no failure.
type Breaker struct {
	BaseTier

	inner Tier
	o     BreakerOptions

	mu       sync.Mutex
	open     bool            // guarded by mu
	over     bool            // guarded by mu: Close was called
	epoch    uint64          // guarded by mu: grows with each opening and closing
	failures int             // guarded by mu: in a row; those that overlap are one
	failed   uint64          // guarded by mu: failures that counted, ever
	calls    int             // guarded by mu: the Tier has not returned from
	pings    int             // guarded by mu: of those, probes
	state    BreakerState    // guarded by mu: the counts
	every    time.Duration   // guarded by mu: until the next probe
	timer    *time.Timer     // guarded by mu: of the next probe
	watches  []*breakerWatch // guarded by mu
	probing  sync.WaitGroup  // the timer, or what it runs
}

var (
	_ Tier   = (*Breaker)(nil)
	_ Meter  = (*Breaker)(nil)
	_ Roster = (*Breaker)(nil)
)

// WithBreaker puts a Breaker in front of t. Its Take fails with an error that
// matches [errors.ErrUnsupported] if t is no [Meter], and so do its Announce,
// Withdraw and Instances if t is no [Roster].
func WithBreaker(t Tier, o BreakerOptions) *Breaker {
	return &Breaker{inner: t, o: o.withDefaults()}
}

// A BreakerState is how a Breaker stands, and what it has counted.
type BreakerState struct {
	Open    bool
	Opened  uint64 // how often
	Missed  uint64 // operations that ended with their deadline
	Refused uint64 // operations that were not tried: open, or over MaxCalls
	Probes  uint64
	Calls   int // that the engine has not returned from now
}

// State returns how b stands.
func (b *Breaker) State() BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state
	s.Open, s.Calls = b.open, b.calls
	return s
}

var (
	errOpen     = errors.New("the breaker is open")
	errClosed   = errors.New("the breaker was closed for good")
	errTooMany  = errors.New("too many calls have no answer yet")
	errMissed   = errors.New("no answer within the deadline")
	errNoRoster = fmt.Errorf("fleet: the tier knows no instances: %w", errors.ErrUnsupported)
	errNotMeter = fmt.Errorf("fleet: the tier counts no permits: %w", errors.ErrUnsupported)
)

// entered is how it stood when an operation began.
type entered struct{ epoch, failed uint64 }

// enter lets an operation pass, or says why not.
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

// note counts how an operation has ended. One of an earlier epoch says nothing
// of this one:
//
//	A: asks, and hangs
//	B, C, D: miss their deadlines; the breaker opens
//	A: is answered after all; one answer of the past does not close it
//	a probe closes it
//	E, of before the opening: fails now, and does not count
//
// Of those that overlap the first to fail counts: one that began before that has
// seen the same stall.
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

// openLocked opens b, unless it is. b.mu must be held.
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

// probeLaterLocked sets the timer. b.mu must be held.
func (b *Breaker) probeLaterLocked() {
	cut := time.Duration(rand.Int64N(int64(b.every)/4 + 1))
	b.probing.Add(1)
	b.timer = time.AfterFunc(b.every-cut, b.probe)
}

// probe tries the engine, and closes b or sets the timer again.
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

// closeOrNext closes b. If there is a watch that the Tier does not know, it
// returns that instead.
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

// maxPings bounds the probes that a Tier may hold on to.
const maxPings = 4

// ping asks the engine for a sign of life.
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

// Close ends the probing and waits for a probe that runs, until ctx ends, and then
// returns its cause. Every operation from then on fails with an error that matches
// ErrUnavailable. It does not close the Tier behind, nor stop its watches. It may be
// called again.
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
