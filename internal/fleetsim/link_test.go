package fleetsim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
)

// simDeadline is the link's deadline for a command.
const simDeadline = 75 * ms

var errSimLost = errors.New("no reply in time")

// A simLink is an instance's connection to the engine: the Tier that the instance
// uses. It loses, delays, doubles and reorders what is sent over it, and stops while
// the instance is paused. It also skews the clock: the instance sees the engine's
// times, which are the fences, with an error of up to a quarter of an hour.
type simLink struct {
	fleet.BaseTier

	w    *simWorld
	in   *simInst
	skew uint64 // in µs, added to each fence that the instance sees

	sent      map[string]int           // guarded by w.mu: number of commands so far, by operation and key
	failed    map[string]time.Duration // guarded by w.mu: when a command for a key last failed
	faulty    time.Duration            // guarded by w.mu: when a command was last lost or late
	dead      bool                     // guarded by w.mu: the instance has crashed
	paused    time.Duration            // guarded by w.mu: end of the pause
	cut       time.Duration            // guarded by w.mu: until when nothing goes through
	cutQuick  bool                     // guarded by w.mu: while cut, commands fail at once
	deaf      time.Duration            // guarded by w.mu: until when pushes are lost, and Reset reports it
	dropped   time.Duration            // guarded by w.mu: until when pushes are lost silently
	wasPaused time.Duration            // guarded by w.mu: total length of the pauses

	push    sync.Mutex // held while the Watcher is called
	stopped bool       // guarded by push
	watcher fleet.Watcher
}

// Abilities implements fleet.Tier: the link bounds how long a command takes, so that
// histories without a Breaker stay without one.
func (*simLink) Abilities() fleet.Abilities { return fleet.Abilities{InProcess: true} }

var _ fleet.Tier = (*simLink)(nil)

// A simFate is what happens to one command.
type simFate struct {
	lost, mute, twice, second bool
	there, again, back        time.Duration
	refused                   bool // fails at once
}

// fate draws what happens to the instance's next command. It depends only on the
// seed, the instance, the operation, the key and their count so far.
func (l *simLink) fate(op, key string) simFate {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	n := l.sent[op+key]
	l.sent[op+key] = n + 1
	w.commands++
	r := w.draw(l.in.name, op, key, n)
	f := simFate{there: simDelay(r, 2*ms), back: simDelay(r, 2*ms), again: simDelay(r, 5*ms)}
	o := &w.o
	switch x := r.Float64(); {
	case x < o.loss:
		f.lost = true
	case x < 2*o.loss:
		f.mute = true
	case x < 2*o.loss+o.slow:
		f.there += simDelay(r, 200*ms)
	case x < 2*o.loss+2*o.slow:
		f.back += simDelay(r, 200*ms)
	case x < 2*o.loss+2*o.slow+o.twice:
		f.twice, f.second = true, r.IntN(2) == 0
	}
	now := w.now()
	if now < l.cut {
		f.lost, f.refused = true, l.cutQuick
	}
	if l.dead {
		f.lost, f.refused = true, true
	}
	if f.lost || f.mute || f.there+f.back+f.again >= simDeadline/2 {
		l.faulty = now
	}
	if w.commands > simMostCommands {
		w.breakLocked("commands: more than %d in one history", simMostCommands)
		f.lost, f.refused, f.there = true, false, 0
	}
	return f
}

// simDelay draws a delay of up to most, to the nanosecond, so that hardly any two
// events share an instant.
func simDelay(r *rand.Rand, most time.Duration) time.Duration {
	return 20*time.Microsecond + time.Duration(r.Int64N(int64(most)))
}

// stand returns when the instance is not paused. Everything that has waited continues
// one after another, in the order of their salts.
func (l *simLink) stand(salt time.Duration) {
	for {
		l.w.mu.Lock()
		left := l.paused - l.w.now()
		l.w.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(left + salt%(3*ms))
	}
}

// simSend sends a command to the engine, and returns the result of exec there.
func simSend[T any](l *simLink, ctx context.Context, op, key string, exec func() T) (T, error) {
	var none T
	l.stand(0)
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	f := l.fate(op, key)
	if f.refused {
		time.Sleep(f.there)
		return none, l.unavailable(op, key)
	}
	answer := make(chan T, 1)
	if !f.lost {
		l.w.late.Add(1)
		go func() {
			defer l.w.late.Done()
			simCarry(l, f, exec, answer)
		}()
	}
	timer := time.NewTimer(simDeadline)
	defer timer.Stop()
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-timer.C:
	}
	l.stand(f.back) // after a pause, a process finds both the reply and the expired deadline
	select {
	case a := <-answer:
		return a, nil
	default:
		return none, l.unavailable(op, key)
	}
}

// simCarry carries one command. A doubled command is executed twice before its reply.
func simCarry[T any](l *simLink, f simFate, exec func() T, answer chan<- T) {
	time.Sleep(f.there)
	a := exec()
	if f.twice {
		time.Sleep(f.again)
		if b := exec(); f.second {
			a = b
		}
	}
	if f.mute {
		return
	}
	time.Sleep(f.back)
	if l.isCut() {
		return
	}
	l.stand(f.back)
	answer <- a
}

func (l *simLink) isCut() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.dead || l.w.now() < l.cut
}

// unavailable records that a command failed for the instance.
func (l *simLink) unavailable(op, key string) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	now := l.w.now()
	l.faulty, l.failed[key] = now, now
	l.w.logLocked(l.in.name, "%s %s: no answer", op, key)
	return &fleet.UnavailableError{Op: op, Err: errSimLost}
}

// shown converts a fence to what the instance sees; meant converts it back.
func (l *simLink) shown(fence uint64) uint64 {
	if fence == 0 || fence == fleet.AnyFence {
		return fence
	}
	return fence + l.skew
}

func (l *simLink) meant(fence uint64) uint64 {
	if fence == 0 || fence == fleet.AnyFence {
		return fence
	}
	return fence - l.skew
}
