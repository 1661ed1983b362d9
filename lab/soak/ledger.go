package soak

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/lab/fleetlab"
)

// A window is the time of a fault and its effects.
type window struct {
	kind     string
	from, to time.Time // a zero to means that it is still open
	explains func(where int, op string) bool
}

// A mishap is an event that must not happen.
type mishap struct {
	At   time.Time
	What string
}

const maxMishaps = 20 // reported mishaps of each kind

// Kinds of mishaps.
const (
	wrongBody   = "wrong bodies"
	tooOld      = "responses older than the bound"
	jobLost     = "jobs lost"
	jobTwice    = "jobs run twice"
	unexplained = "errors no fault explains"
	badFault    = "faults that did not go as they should" // a reload without effect, a process that does not start
)

var mishapKinds = []string{wrongBody, tooOld, jobLost, jobTwice, unexplained, badFault}

// A ledger records purges, faults with their times, and mishaps.
type ledger struct {
	check *fleetlab.Checker // of the bounds after purges

	mu      sync.Mutex
	windows []*window           // guarded by mu, as all below
	ops     map[string]*opCount // by kind of request
	counts  map[string]int      // of mishaps
	told    map[string][]mishap // the first mishaps of each kind
	own     map[ownKey]ownPurge // purges through each gateway itself
	lost    []*window           // times in which the engine may have lost history
	maybes  []maybe             // errors, to be judged at the end
}

// An opCount counts the requests of a kind, by outcome.
type opCount struct{ Sent, Good, Explained int }

type ownKey struct {
	gateway int
	key     string
}

// An ownPurge records that a gateway purged the versions below one.
type ownPurge struct {
	below int64
	at    time.Time
	life  int
}

// A maybe is an error that needs a fault to explain it.
type maybe struct {
	where    int
	op, what string
	from, to time.Time
}

func newLedger() *ledger {
	return &ledger{
		check: fleetlab.NewChecker(fleetlab.Bounds{
			Memory: memoryCap + slack,
			CutOff: freshness + slack + slowWait,
		}),
		ops: make(map[string]*opCount), counts: make(map[string]int), told: make(map[string][]mishap),
		own: make(map[ownKey]ownPurge),
	}
}

// slack is how much the machine may add to a bound: all processes share two
// processors, and a response may have been chosen well before it was sent.
const slack = 3 * time.Second

// begin opens a window. end closes it after settle.
func (l *ledger) begin(kind string, explains func(where int, op string) bool) *window {
	w := &window{kind: kind, from: time.Now(), explains: explains}
	l.mu.Lock()
	l.windows = append(l.windows, w)
	l.mu.Unlock()
	return w
}

func (l *ledger) end(w *window) {
	l.mu.Lock()
	w.to = time.Now()
	l.mu.Unlock()
}

// sent counts a request.
func (l *ledger) sent(op string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opLocked(op).Sent++
}

func (l *ledger) good(op string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opLocked(op).Good++
}

func (l *ledger) opLocked(op string) *opCount {
	c := l.ops[op]
	if c == nil {
		c = new(opCount)
		l.ops[op] = c
	}
	return c
}

// failed records an error that a fault may explain, even a fault that begins later: a
// response can break off long after its request.
func (l *ledger) failed(where int, op string, from time.Time, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.maybes = append(l.maybes, maybe{where, op, fmt.Sprintf(format, args...), from, time.Now()})
}

// bad records a mishap that no fault can explain.
func (l *ledger) bad(kind, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.badLocked(kind, time.Now(), fmt.Sprintf(format, args...))
}

func (l *ledger) badLocked(kind string, at time.Time, what string) {
	l.counts[kind]++
	if len(l.told[kind]) < maxMishaps {
		l.told[kind] = append(l.told[kind], mishap{at, what})
	}
}

// explainedLocked reports whether a fault explains an error between from and to.
func (l *ledger) explainedLocked(where int, op string, from, to time.Time) bool {
	return slices.ContainsFunc(l.windows, func(w *window) bool {
		return w.from.Before(to) && (w.to.IsZero() || w.to.After(from)) && w.explains(where, op)
	})
}

// explained reports whether a fault explains an error between from and to.
func (l *ledger) explained(where int, op string, from, to time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.explainedLocked(where, op, from, to)
}

// purged records that a gateway has accepted a purge of the versions below one, in
// this life of its process.
func (l *ledger) purged(where, life int, key string, below int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := ownKey{where, key}
	if p, ok := l.own[k]; !ok || p.below < below || p.life != life {
		l.own[k] = ownPurge{below, time.Now(), life}
	}
}

// losing records that the engine may lose writes until over is called.
func (l *ledger) losing() (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &window{from: time.Now()}
	l.lost = append(l.lost, w)
	return func() { l.end(w) }
}

// response judges the version in a gateway's response.
func (l *ledger) response(g *gateway, life int, key string, version int64, asked time.Time) {
	name := fmt.Sprint(g.index)
	l.check.Check(key, fleetlab.Answer{Key: key, Version: version, Instance: name}, asked)
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.own[ownKey{g.index, key}]
	if ok && version < p.below && asked.After(p.at) && p.life == life && !l.lostLocked(p.at, asked) {
		l.badLocked(tooOld, time.Now(), fmt.Sprintf("weir %d sends version %d of %s, %v after it has itself purged the versions below %d",
			g.index, version, key, asked.Sub(p.at).Round(time.Millisecond), p.below))
	}
}

// lostLocked reports whether the engine may have lost history between from and to.
func (l *ledger) lostLocked(from, to time.Time) bool {
	return slices.ContainsFunc(l.lost, func(w *window) bool {
		return w.from.Before(to) && (w.to.IsZero() || w.to.After(from))
	})
}

// judge looks for a fault to explain each error, at the end.
func (l *ledger) judge() {
	v := l.check.Verdict()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[tooOld] += int(v.Wrongs)
	for _, text := range v.Wrong {
		l.told[tooOld] = append(l.told[tooOld], mishap{What: text})
	}
	for _, m := range l.maybes {
		if l.explainedLocked(m.where, m.op, m.from, m.to) {
			l.opLocked(m.op).Explained++
		} else {
			l.badLocked(unexplained, m.to, fmt.Sprintf("weir %d, %s, %v after it began: %s", m.where, m.op, m.to.Sub(m.from).Round(time.Millisecond), m.what))
		}
	}
	l.maybes = nil
}

// faults returns the count of each kind of fault.
func (l *ledger) faults() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := make(map[string]int)
	for _, w := range l.windows {
		n[w.kind]++
	}
	return n
}

// kinds returns the kinds of requests, sorted by name.
func (l *ledger) kinds() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name := range l.ops {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return names
}
