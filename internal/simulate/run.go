package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// A Scenario is what a gate is put through.
type Scenario struct {
	Name string
	// Seed decides all that is random.
	Seed uint64
	// Duration is for how long calls arrive. The run lasts until the last of
	// them is over.
	Duration time.Duration
	Source   Source
	Arrivals Arrivals
	// Deadline is how long after its arrival a caller gives up. 0 means ten
	// times the 99th percentile of the service time at the start.
	Deadline time.Duration
	// LoadTimeout is how long a call may take in the source. One that takes
	// longer is ended, and the gate hears Dropped. 0 means no bound, so that
	// only the caller's deadline ends a call, and the gate hears Ignored.
	LoadTimeout time.Duration
	// Asleep is 1 while the process of the gate is not scheduled, and 0
	// otherwise. The source works on; arrivals, answers and deadlines are
	// seen when it is scheduled again, answers first. A timer of the gate's
	// own still fires.
	Asleep Schedule
	// Background is the share of calls, from 0 to 1, that are Background.
	Background float64
	// Phases cut the run up for the report, in the order of time. Each ends
	// where the next starts.
	Phases []Mark
}

// A Mark is the start of a phase.
type Mark struct {
	Name string
	At   time.Duration
}

// deadline returns Deadline or its default.
func (s *Scenario) deadline() time.Duration {
	if s.Deadline > 0 {
		return s.Deadline
	}
	return time.Duration(10 * s.Source.Spread.p99() * float64(s.Source.ServiceAt(0)))
}

// awake returns the first instant from t on at which the gate is not asleep.
func (s *Scenario) awake(t time.Duration) time.Duration {
	for s.Asleep.At(t) > 0 {
		next, ok := s.Asleep.after(t)
		if !ok {
			return t // asleep forever: as if it were not
		}
		t = next
	}
	return t
}

// Compare runs s with each contender, each in a bubble of its own.
func Compare(t *testing.T, s Scenario, contenders ...Contender) []Report {
	t.Helper()
	reports := make([]Report, len(contenders))
	for i, c := range contenders {
		synctest.Test(t, func(*testing.T) { reports[i] = Run(s, c) })
	}
	return reports
}

// Run runs s with a gate that c makes. The caller must be in a bubble of
// testing/synctest, in which nothing else is going on.
func Run(s Scenario, c Contender) Report {
	if s.Duration <= 0 || len(s.Source.Capacity) == 0 || len(s.Source.Service) == 0 {
		panic("simulate: the scenario " + s.Name + " lacks Duration, Source.Capacity or Source.Service")
	}
	r := &run{
		s:        s,
		start:    time.Now(),
		gate:     c.New(s),
		source:   s.Source.server(),
		arrivals: stream{a: s.Arrivals, rng: rand.New(rand.NewPCG(s.Seed, 1)), last: -1},
		draws:    rand.New(rand.NewPCG(s.Seed, 2)),
		nudge:    make(chan struct{}, 1),
		steps:    instants(s.Source.Capacity, s.Source.Service, s.Source.Hung, s.Source.Paused),
		marks:    instants(s.Source.Capacity, s.Source.Service, s.Source.Hung, s.Source.Paused, s.marks()),
		inFlight: map[time.Duration]float64{},
	}
	r.drive()
	if g, ok := r.gate.(interface{ Close() }); ok {
		g.Close()
	}
	return r.report(c.Name)
}

// marks returns the phases' bounds.
func (s *Scenario) marks() Schedule {
	at := Schedule{{}, {At: s.Duration}}
	for _, m := range s.Phases {
		at = append(at, Step{At: m.At})
	}
	return at
}

// A run is the driver and what it knows. All but the inbox is the driver's
// alone.
type run struct {
	s      Scenario
	start  time.Time
	gate   Gate
	source server
	now    time.Duration // since start

	arrivals stream
	draws    *rand.Rand
	calls    []*call
	open     int             // calls that are not over
	unseen   []*call         // calls that were answered while the gate was asleep
	due      fifo            // calls in the order of their deadlines
	loads    fifo            // calls in the order in which their loads time out
	steps    []time.Duration // when the source's schedules change
	marks    []time.Duration // steps and the phases' bounds, those to come
	upcoming *call           // the next to arrive

	work     float64                   // integral of the calls in the source, in call nanoseconds
	inFlight map[time.Duration]float64 // work at each mark
	ends     []time.Duration           // of the answered calls, in the order of time, once the run is over

	group sync.WaitGroup
	nudge chan struct{} // there is something in inbox
	mu    sync.Mutex
	inbox []notice // guarded by mu
}

// A notice is what the goroutine of a call tells the driver: that the call was
// let in, if verdict is pending, or what else became of it in the gate.
type notice struct {
	c       *call
	verdict verdict
	reason  string // of a refusal
}

// A fifo is calls in the order of some instant.
type fifo []*call

// head returns the first call that is not over.
func (f *fifo) head() *call {
	for len(*f) > 0 {
		if c := (*f)[0]; c.verdict == pending {
			return c
		}
		f.pop()
	}
	return nil
}

func (f *fifo) pop() {
	(*f)[0] = nil
	*f = (*f)[1:]
}

// drive is the driver. Each turn:
//
//  1. Let every goroutine run until it blocks, and take in what they say. At
//     the start of a new instant these are the gate's own timers.
//  2. If an event is due, do that one.
//  3. Else sleep until the next, or until a timer of the gate has let somebody
//     in or refused.
func (r *run) drive() {
	r.prepare()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		r.quiesce()
		at, event := r.nextEvent()
		if event == nil && r.open == 0 {
			break
		}
		if event != nil && at <= r.now {
			event()
			continue
		}
		if event != nil {
			timer.Reset(at - r.now)
		} // else the gate keeps a caller whose deadline has passed
		select {
		case <-timer.C:
		case <-r.nudge:
		}
		r.advance(time.Since(r.start))
	}
	r.group.Wait()
}

// advance sets the clock.
func (r *run) advance(now time.Duration) {
	r.work += float64(r.source.inside()) * float64(now-r.now)
	r.now = now
}

// quiesce waits until nothing happens any more, and takes in the inbox. Calls
// that came at the same instant are taken in the order of their arrival.
func (r *run) quiesce() {
	for {
		synctest.Wait()
		select {
		case <-r.nudge:
		default:
		}
		r.mu.Lock()
		box := r.inbox
		r.inbox = nil
		r.mu.Unlock()
		if len(box) == 0 {
			return
		}
		slices.SortFunc(box, func(a, b notice) int { return a.c.index - b.c.index })
		for _, n := range box {
			r.take(n)
		}
	}
}

// take takes in what happened to a call in the gate.
func (r *run) take(n notice) {
	c := n.c
	switch {
	case n.verdict != pending:
		c.verdict, c.reason, c.end = n.verdict, n.reason, r.now
		r.open--
	case c.Err() != nil: // let in too late
		r.finish(c, waitTimedOut)
	default:
		c.entered, c.admit = true, r.now
		r.source.enter(r.now, &c.job)
		if r.s.LoadTimeout > 0 {
			r.loads = append(r.loads, c)
		}
	}
}

// finish ends c, and its goroutine goes on to release the gate.
func (r *run) finish(c *call, v verdict) {
	c.verdict, c.end = v, r.now
	r.open--
	close(c.wake)
}

// nextEvent returns what comes next, and when; nil if the run is over. Of
// events at the same instant it is the one that stands first here.
func (r *run) nextEvent() (at time.Duration, event func()) {
	candidate := func(t time.Duration, do func()) {
		if event == nil || t < at {
			at, event = t, do
		}
	}
	if len(r.marks) > 0 {
		candidate(r.marks[0], r.mark)
	}
	if len(r.unseen) > 0 {
		candidate(r.s.awake(r.now), r.see)
	}
	if r.open > 0 || r.upcoming != nil { // what callers have left behind ends, too
		if t, ok := r.source.next(r.now); ok {
			candidate(t, r.complete)
		}
	}
	if c := r.loads.head(); c != nil {
		candidate(r.s.awake(c.admit+r.s.LoadTimeout), r.loadTimeout)
	}
	if c := r.due.head(); c != nil {
		candidate(r.s.awake(c.deadline), r.expire)
	}
	if r.upcoming != nil {
		candidate(r.s.awake(r.upcoming.arrival), r.arrive)
	}
	return at, event
}

// mark is the event of a step in a schedule, or of a phase's bound.
func (r *run) mark() {
	r.marks = r.marks[1:]
	r.inFlight[r.now] = r.work
	r.source.step(r.now)
	if g, ok := r.gate.(interface{ step() }); ok {
		g.step()
	}
}

// complete is the event of a call's end in the source.
func (r *run) complete() {
	j := r.source.finish(r.now)
	switch {
	case j == nil:
	case r.s.Asleep.At(r.now) > 0:
		r.unseen = append(r.unseen, r.calls[j.index])
	default:
		r.finish(r.calls[j.index], answered)
	}
}

// see is the event of an answer that came while the gate was asleep.
func (r *run) see() {
	c := r.unseen[0]
	r.unseen = r.unseen[1:]
	r.finish(c, answered)
}

func (r *run) loadTimeout() {
	c := r.loads.head()
	r.loads.pop()
	r.source.leave(r.now, &c.job)
	r.finish(c, loadTimedOut)
}

// expire is the event of a caller's deadline.
func (r *run) expire() {
	c := r.due.head()
	r.due.pop()
	c.expire()
	if c.entered { // else the gate lets it go
		r.source.leave(r.now, &c.job)
		r.finish(c, callTimedOut)
	}
}

// arrive is the event of an arrival.
func (r *run) arrive() {
	c := r.upcoming
	if g, ok := r.gate.(sampled); ok {
		c.limit = g.Limit()
	}
	r.calls = append(r.calls, c)
	r.due = append(r.due, c)
	r.open++
	r.group.Go(func() { r.attempt(c) })
	r.prepare()
}

// prepare draws the next call.
func (r *run) prepare() {
	r.upcoming = nil
	at, ok := r.arrivals.next(r.s.Duration)
	if !ok {
		return
	}
	c := &call{
		job:      job{index: len(r.calls), factor: r.s.Source.Spread.draw(r.draws)},
		arrival:  at,
		start:    r.start,
		deadline: at + r.s.deadline(),
		parent:   context.Background(),
		wake:     make(chan struct{}),
	}
	c.background = r.draws.Float64() < r.s.Background
	if c.background {
		c.parent = limit.ContextWithPriority(c.parent, limit.Background)
	}
	r.upcoming = c
}

// attempt is the goroutine of a call.
func (r *run) attempt(c *call) {
	release, err := r.gate.Acquire(c)
	if err != nil {
		n := notice{c, refused, reason(err)}
		if c.Err() != nil {
			n.verdict, n.reason = waitTimedOut, ""
		}
		r.tell(n)
		return
	}
	r.tell(notice{c: c})
	<-c.wake
	switch c.verdict {
	case answered:
		release(limit.Success)
	case loadTimedOut:
		release(limit.Dropped)
	case waitTimedOut:
		release(limit.Unused)
	default:
		release(limit.Ignored)
	}
}

func (r *run) tell(n notice) {
	r.mu.Lock()
	r.inbox = append(r.inbox, n)
	r.mu.Unlock()
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// reason names a refusal.
func reason(err error) string {
	var e *limit.Error
	if errors.As(err, &e) {
		return e.Reason.String()
	}
	return fmt.Sprint(err)
}
