package fleetsim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// A simWorld is one history: the engine, the source, and the instances that come
// and go. One lock guards it all but the instances' own parts, so that what is
// written down is one line.
type simWorld struct {
	seed   uint64
	o      simOptions
	start  time.Time
	micros uint64 // of the engine's clock at the start

	late  sync.WaitGroup // commands and pushes under way
	calls sync.WaitGroup // of callers

	mu       sync.Mutex
	engine   simEngine
	truth    map[string]int         // guarded by mu: the source's version of each key
	births   map[string]*simBirth   // guarded by mu: values, by id
	running  map[string][]*simBirth // guarded by mu: loads whose function has not returned, by key
	slots    []*simInst             // guarded by mu
	all      []*simInst             // guarded by mu: those that have crashed too
	seen     []simSeen              // guarded by mu: answers that show what an instance has
	commands int                    // guarded by mu
	loads    int                    // guarded by mu
	answers  int                    // guarded by mu
	open     int                    // guarded by mu: calls that wait
	broken   []string               // guarded by mu: rules that were broken
	events   []simEvent             // guarded by mu
}

// Bounds of what a history draws. They are sums that no clock's time comes near.
const (
	simMostCommands = 20_000
	simMostKeep     = 5 * time.Minute
	simMostLoad     = 10 * time.Second
	simMostPause    = 10 * time.Second
)

// A simInst is an instance of the service, from its start to its crash.
type simInst struct {
	w       *simWorld
	name    string // a, b, ... and which of its incarnations
	link    *simLink
	guard   *weir.Guard[string, simValue]
	breaker *fleet.Breaker // nil for none

	begun   map[string]int // guarded by w.mu: loads and sets so far, by key
	heard   []simHeard     // guarded by w.mu
	acked   []*simAck      // guarded by w.mu: its writes
	crashed bool           // guarded by w.mu
	closed  time.Duration  // guarded by w.mu
}

// A simAck is a write of an instance's own.
type simAck struct {
	kind  simKind
	began time.Duration
	at    time.Duration // of its return; 0: not yet
	ok    bool
	key   string
	tags  []string // in place of key
	set   string   // id of the value that was set
	done  bool     // the engine has executed it

	paid time.Duration // when the engine executed it, or what was sent in its place; 0: not yet
}

// simAckKey is for the context that a write is called with: it comes as far as
// the Tier.
type simAckKey struct{}

// A simEvent is a line of the trace.
type simEvent struct {
	at   time.Duration
	who  string
	text string
	args []any
}

func (e simEvent) String() string {
	text, _, _ := strings.Cut(fmt.Sprintf(e.text, e.args...), "\n") // a panic has its stack below
	return fmt.Sprintf("%12v %-5s %s", e.at, e.who, text)
}

func (w *simWorld) now() time.Duration { return time.Since(w.start) }

// logLocked writes down what happens. w.mu must be held.
func (w *simWorld) logLocked(who, text string, args ...any) {
	w.events = append(w.events, simEvent{w.now(), who, text, args})
}

// breakLocked notes that a rule, named first, is broken. w.mu must be held.
func (w *simWorld) breakLocked(text string, args ...any) {
	w.logLocked("!!!!!", text, args...)
	w.broken = append(w.broken, fmt.Sprintf(text, args...))
}

func (w *simWorld) break_(text string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breakLocked(text, args...)
}

// trace is the history, in order.
func (w *simWorld) trace() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := make([]string, len(w.events))
	for i, e := range w.events {
		lines[i] = e.String()
	}
	return lines
}

// ordinal is a fence to read: in µs since the history's start.
func (w *simWorld) ordinal(fence uint64) uint64 {
	if fence < w.micros || fence == fleet.AnyFence {
		return fence
	}
	return fence - w.micros
}

// draw is the chance for one thing: it depends on nothing that came before, so
// that two runs of a seed draw the same, and a shorter history almost the same.
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

// startLocked puts a new instance into a slot. w.mu must not be held.
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

// crash ends an instance at once: its connection is dead before its Guard is
// closed, so nothing is settled. The wire may still bring what was sent.
func (w *simWorld) crash(slot int) {
	w.mu.Lock()
	in := w.slots[slot]
	in.crashed, in.link.dead, in.closed = true, true, w.now()
	w.logLocked(in.name, "crashes")
	w.mu.Unlock()
	w.late.Go(func() { in.close() })
}

// close closes the Guard, which must come to its end.
func (in *simInst) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var lost *fleet.PendingError // what dies with the instance is lost with it
	if err := in.guard.Close(ctx); err != nil && !(errors.As(err, &lost) && in.link.isCut()) {
		in.w.break_("end: %s: Close = %v", in.name, err)
	}
	if in.breaker != nil {
		in.breaker.Close(context.Background())
	}
}
