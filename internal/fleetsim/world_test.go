package fleetsim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// A simWorld is one history: the engine, the source, and the instances that come and
// go. One lock guards everything except the instances' own parts, so that the log is
// a sequence.
type simWorld struct {
	seed   uint64
	o      simOptions
	start  time.Time
	micros uint64 // the engine's clock at the start, in µs

	late  sync.WaitGroup // commands and pushes in flight
	calls sync.WaitGroup // calls in progress

	mu       sync.Mutex
	engine   simEngine
	truth    map[string]int         // guarded by mu: the source's version of each key
	births   map[string]*simBirth   // guarded by mu: values, by ID
	running  map[string][]*simBirth // guarded by mu: loads whose function has not returned, by key
	slots    []*simInst             // guarded by mu
	all      []*simInst             // guarded by mu: including those that have crashed
	seen     []simSeen              // guarded by mu: results that show what an instance has
	commands int                    // guarded by mu
	loads    int                    // guarded by mu
	answers  int                    // guarded by mu
	open     int                    // guarded by mu: calls that have not returned
	broken   []string               // guarded by mu: rules that were broken
	events   []simEvent             // guarded by mu
}

// Bounds of what a history draws. No clock's time comes near any sum of these.
const (
	simMostCommands = 20_000
	simMostKeep     = 5 * time.Minute
	simMostLoad     = 10 * time.Second
	simMostPause    = 10 * time.Second
)

// A simInst is an instance of the service, from its start to its crash.
type simInst struct {
	w       *simWorld
	name    string // a, b, ... and the number of its incarnation
	link    *simLink
	guard   *weir.Guard[string, simValue]
	breaker *fleet.Breaker // nil for none

	begun   map[string]int // guarded by w.mu: loads and sets so far, by key
	heard   []simHeard     // guarded by w.mu
	acked   []*simAck      // guarded by w.mu: its own writes
	crashed bool           // guarded by w.mu
	closed  time.Duration  // guarded by w.mu
}

// A simAck is a write by an instance.
type simAck struct {
	kind  simKind
	began time.Duration
	at    time.Duration // when it returned; 0: not yet
	ok    bool
	key   string
	tags  []string // instead of key
	set   string   // ID of the value that was set
	done  bool     // the engine has executed it

	paid time.Duration // when the engine executed it, or a write that replaces it; 0: not yet
}

// simAckKey is the context key for a write; the context is passed on to the Tier.
type simAckKey struct{}

// A simEvent is a line of the trace.
type simEvent struct {
	at   time.Duration
	who  string
	text string
	args []any
}

func (e simEvent) String() string {
	text, _, _ := strings.Cut(fmt.Sprintf(e.text, e.args...), "\n") // a panic has its stack in the following lines
	return fmt.Sprintf("%12v %-5s %s", e.at, e.who, text)
}

func (w *simWorld) now() time.Duration { return time.Since(w.start) }

// logLocked logs an event. w.mu must be held.
func (w *simWorld) logLocked(who, text string, args ...any) {
	w.events = append(w.events, simEvent{w.now(), who, text, args})
}

// breakLocked records that a rule is broken; text begins with the rule. w.mu must be
// held.
func (w *simWorld) breakLocked(text string, args ...any) {
	w.logLocked("!!!!!", text, args...)
	w.broken = append(w.broken, fmt.Sprintf(text, args...))
}

func (w *simWorld) break_(text string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breakLocked(text, args...)
}

// trace returns the history, in order.
func (w *simWorld) trace() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := make([]string, len(w.events))
	for i, e := range w.events {
		lines[i] = e.String()
	}
	return lines
}

// ordinal converts a fence to a readable number: µs since the start of the history.
func (w *simWorld) ordinal(fence uint64) uint64 {
	if fence < w.micros || fence == fleet.AnyFence {
		return fence
	}
	return fence - w.micros
}

// draw returns a random source for one purpose. It depends on nothing that came
// before, so two runs of a seed draw the same, and a shortened history draws almost
// the same.
func (w *simWorld) draw(who, what, of string, n int) *rand.Rand {
	h := w.seed*0x9E3779B97F4A7C15 + uint64(n)
	for _, s := range []string{who, what, of} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 0x100000001B3
		}
		h = (h ^ 0xFF) * 0x100000001B3
	}
	return rand.New(rand.NewPCG(h, w.seed))
}

// startInst puts a new instance into a slot. w.mu must not be held.
func (w *simWorld) startInst(slot, incarnation int) error {
	in := &simInst{w: w, name: fmt.Sprintf("%c%d", 'a'+slot, incarnation), begun: make(map[string]int)}
	r := w.draw(in.name, "skew", "", 0)
	in.link = &simLink{
		w: w, in: in, skew: uint64(r.Int64N(2*900e6) - 900e6),
		sent: make(map[string]int), failed: make(map[string]time.Duration),
	}
	var tier fleet.Tier = in.link
	if w.o.breaker {
		in.breaker = fleet.WithBreaker(in.link, fleet.BreakerOptions{Deadline: 2 * simDeadline})
		tier = in.breaker
	}
	g, err := weir.NewFrom(in.source(), w.o.guard(tier))
	if err != nil {
		return err
	}
	in.guard = g
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[slot] = in
	w.all = append(w.all, in)
	w.logLocked(in.name, "starts")
	return nil
}

// crash ends an instance at once: its connection is dead before its Guard is closed,
// so nothing is settled. What it has already sent may still arrive.
func (w *simWorld) crash(slot int) {
	w.mu.Lock()
	in := w.slots[slot]
	in.crashed, in.link.dead, in.closed = true, true, w.now()
	w.logLocked(in.name, "crashes")
	w.mu.Unlock()
	w.late.Go(func() { in.close() })
}

// simPushed counts the requests that were answered by pushed values, in all histories.
var simPushed atomic.Uint64

// close closes the Guard, and checks that everything has ended.
func (in *simInst) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var lost *fleet.PendingError // pending invalidations are lost with the instance
	if err := in.guard.Close(ctx); err != nil && !(errors.As(err, &lost) && in.link.isCut()) {
		in.w.break_("end: %s: Close = %v", in.name, err)
	}
	simPushed.Add(in.guard.Stats().Fleet.Pushed)
	if in.breaker != nil {
		in.breaker.Close(context.Background())
	}
}
