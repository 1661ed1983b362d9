package simulate

import (
	"container/heap"
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

// A Scenario is what a gate is tested with.
type Scenario struct {
	Name string
	// Seed determines everything random.
	Seed uint64
	// Duration is how long calls arrive. The run lasts until the last call is over.
	Duration time.Duration
	Source   Source
	Arrivals Arrivals
	// Deadline is the time after its arrival at which a caller gives up. 0 means ten
	// times the 99th percentile of the service time at the start.
	Deadline time.Duration
	// Undated says that the gate does not know the deadlines of callers, as in HTTP.
	Undated bool
	// Hold says that the permit of a call whose caller has left is released when the
	// source has ended the call. The gate learns of the departure immediately. It has no
	// effect on gates whose permits end with the caller.
	Hold bool
	// Retry is what callers do whose call was not answered.
	Retry Retry
	// LoadTimeout is how long a call may take in the source. A call that takes longer
	// is ended, and the gate gets the outcome Dropped. 0 means no bound: only the
	// caller's deadline ends a call, and the gate gets Ignored.
	LoadTimeout time.Duration
	// Asleep is 1 while the process of the gate is not scheduled, and 0 otherwise.
	// The source continues to work. The gate sees arrivals, responses and deadlines
	// when it is scheduled again, responses first. The gate's own timers still fire.
	Asleep Schedule
	// Background is the share of calls, from 0 to 1, that have priority Background.
	Background float64
	// Phases divide the run for the report, in order of time. Each ends where the
	// next starts.
	Phases []Mark
}

// Retry is how callers retry. Each attempt is another call, with the same
// deadline after its arrival.
type Retry struct {
	// Most is the number of retries of a call.
	Most int
	// Backoff is the mean wait before the first retry. It doubles with each retry, and is
	// uniform between half of it and one and a half. 0 means 10 ms before each.
	Backoff time.Duration
	// Obey says that a rejected caller waits at least for the time that the rejection
	// states, in whole seconds, as in the field Retry-After of HTTP.
	Obey bool
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
			return t // asleep forever: treat the gate as awake
		}
		t = next
	}
	return t
}

// Compare runs s with each contender, each in a separate bubble.
func Compare(t *testing.T, s Scenario, contenders ...Contender) []Report {
	t.Helper()
	reports := make([]Report, len(contenders))
	for i, c := range contenders {
		synctest.Test(t, func(*testing.T) { reports[i] = Run(s, c) })
	}
	return reports
}

// Run runs s with a gate that c creates. The caller must be in a testing/synctest
// bubble in which nothing else runs.
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
		redraws:  rand.New(rand.NewPCG(s.Seed, 3)),
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

// marks returns the boundaries of the phases.
func (s *Scenario) marks() Schedule {
	at := Schedule{{}, {At: s.Duration}}
	for _, m := range s.Phases {
		at = append(at, Step{At: m.At})
	}
	return at
}

// A run is the driver and its state. Only the driver uses it, except for the inbox.
type run struct {
	s      Scenario
	start  time.Time
	gate   Gate
	source server
	now    time.Duration // since start

	arrivals stream
	draws    *rand.Rand
	redraws  *rand.Rand // for retries
	retries  retryHeap
	calls    []*call
	open     int             // calls that are not over
	held     int             // calls that are over, and whose permit is still held
	unseen   []*call         // calls that completed while the gate was asleep
	due      fifo            // calls in the order of their deadlines
	loads    fifo            // calls in the order in which their loads time out
	steps    []time.Duration // when the source's schedules change
	marks    []time.Duration // future steps and phase boundaries
	upcoming *call           // the next call to arrive

	work     float64                   // integral of the calls in the source, in call nanoseconds
	inFlight map[time.Duration]float64 // work at each mark
	ends     []time.Duration           // ends of the answered calls, in order of time, set once the run is over

	group sync.WaitGroup
	nudge chan struct{} // signaled when inbox is not empty
	mu    sync.Mutex
	inbox []notice // guarded by mu
}

// A notice is a message from the goroutine of a call to the driver. If verdict is
// pending, the call was admitted; otherwise verdict says how it ended in the gate.
type notice struct {
	c       *call
	verdict verdict
	reason  string        // reason for a rejection
	after   time.Duration // with reason
}

// A fifo is a list of calls ordered by some instant.
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

// A retry is a call whose caller tries again.
type retry struct {
	at time.Duration
	c  *call
}

type retryHeap []retry

func (h retryHeap) Len() int { return len(h) }
func (h retryHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].c.index < h[j].c.index
}
func (h retryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *retryHeap) Push(x any)   { *h = append(*h, x.(retry)) }
func (h *retryHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

func (f *fifo) pop() {
	(*f)[0] = nil
	*f = (*f)[1:]
}

// drive is the driver. Each turn:
//
//  1. Let every goroutine run until it blocks, and process their notices. At the
//     start of a new instant these result from the gate's own timers.
//  2. If an event is due, perform it.
//  3. Otherwise sleep until the next event, or until a timer of the gate has admitted
//     or rejected a call.
func (r *run) drive() {
	r.prepare()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		r.quiesce()
		at, event := r.nextEvent()
		if event == nil && r.open == 0 && r.held == 0 {
			break
		}
		if event != nil && at <= r.now {
			event()
			continue
		}
		if event != nil {
			timer.Reset(at - r.now)
		} // otherwise the gate holds a caller whose deadline has passed
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

// quiesce waits until all goroutines have blocked, and processes the inbox. Notices
// from the same instant are processed in the order of the calls' arrival.
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

// take processes what happened to a call in the gate.
func (r *run) take(n notice) {
	c := n.c
	switch {
	case n.verdict != pending:
		c.verdict, c.reason, c.after, c.end = n.verdict, n.reason, n.after, r.now
		r.open--
		r.again(c)
	case c.Err() != nil: // admitted too late
		r.finish(c, waitTimedOut)
	default:
		c.entered, c.admit = true, r.now
		r.source.enter(r.now, &c.job)
		if r.s.LoadTimeout > 0 {
			r.loads = append(r.loads, c)
		}
	}
}

// finish ends c, whose goroutine then releases the gate.
func (r *run) finish(c *call, v verdict) {
	c.verdict, c.end = v, r.now
	r.open--
	r.again(c)
	if c.gone != nil && c.orphan {
		r.held++
		close(c.gone)
		return
	}
	close(c.wake)
}

// again schedules the next attempt of the caller of c.
func (r *run) again(c *call) {
	if c.verdict == answered || c.attempt >= r.s.Retry.Most {
		return
	}
	wait := 10 * time.Millisecond
	if b := r.s.Retry.Backoff; b > 0 {
		wait = time.Duration((0.5 + r.redraws.Float64()) * float64(b<<c.attempt))
	}
	if r.s.Retry.Obey {
		wait = max(wait, (c.after + time.Second - 1).Truncate(time.Second))
	}
	if at := r.now + wait; at < r.s.Duration {
		heap.Push(&r.retries, retry{at, c})
	}
}

// nextEvent returns the next event and its time, or nil if the run is over. Of
// several events at the same instant, it returns the one that comes first in this
// function.
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
	if r.open > 0 || r.held > 0 || r.upcoming != nil || len(r.retries) > 0 { // work that callers have left behind must end, too
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
	if len(r.retries) > 0 {
		candidate(r.s.awake(r.retries[0].at), r.retry)
	}
	return at, event
}

// mark is the event of a step in a schedule, or of a phase boundary.
func (r *run) mark() {
	r.marks = r.marks[1:]
	r.inFlight[r.now] = r.work
	r.source.step(r.now)
	if g, ok := r.gate.(interface{ step() }); ok {
		g.step()
	}
}

// complete is the event of a call ending in the source.
func (r *run) complete() {
	j := r.source.finish(r.now)
	switch {
	case j == nil:
	case j.orphan:
		if c := r.calls[j.index]; c.gone != nil {
			r.held--
			close(c.wake)
		}
	case r.s.Asleep.At(r.now) > 0:
		r.unseen = append(r.unseen, r.calls[j.index])
	default:
		r.finish(r.calls[j.index], answered)
	}
}

// see is the event of a response that came while the gate was asleep.
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
	if c.entered { // otherwise the gate releases the caller
		r.source.leave(r.now, &c.job)
		r.finish(c, callTimedOut)
	}
}

// arrive is the event of an arrival.
func (r *run) arrive() {
	r.begin(r.upcoming)
	r.prepare()
}

// retry is the event of another attempt.
func (r *run) retry() {
	before := heap.Pop(&r.retries).(retry).c
	c := r.call(r.redraws, r.now)
	c.attempt, c.background, c.parent = before.attempt+1, before.background, before.parent
	r.begin(c)
}

func (r *run) begin(c *call) {
	c.index = len(r.calls)
	if g, ok := r.gate.(sampled); ok {
		c.limit = g.Limit()
	}
	r.calls = append(r.calls, c)
	r.due = append(r.due, c)
	r.open++
	r.group.Go(func() { r.attempt(c) })
}

// prepare draws the next call.
func (r *run) prepare() {
	r.upcoming = nil
	at, ok := r.arrivals.next(r.s.Duration)
	if !ok {
		return
	}
	c := r.call(r.draws, at)
	c.background = r.draws.Float64() < r.s.Background
	if c.background {
		c.parent = limit.ContextWithPriority(c.parent, limit.Background)
	}
	r.upcoming = c
}

// call returns a call that arrives at at.
func (r *run) call(draws *rand.Rand, at time.Duration) *call {
	c := &call{
		job:      job{factor: r.s.Source.Spread.draw(draws)},
		arrival:  at,
		start:    r.start,
		deadline: at + r.s.deadline(),
		undated:  r.s.Undated,
		parent:   context.Background(),
		wake:     make(chan struct{}),
	}
	if _, ok := r.gate.(permits); ok && r.s.Hold {
		c.gone = make(chan struct{})
	}
	return c
}

// acquire returns how to release what the gate has given to c, and how to report that its
// caller has left.
func (r *run) acquire(c *call) (release func(limit.Outcome), abandon func(), err error) {
	if g, ok := r.gate.(permits); ok {
		p, err := g.Permit(c)
		return p.Release, p.Abandon, err
	}
	release, err = r.gate.Acquire(c)
	return release, func() {}, err
}

// attempt is the goroutine of a call.
func (r *run) attempt(c *call) {
	release, abandon, err := r.acquire(c)
	if err != nil {
		n := notice{c: c, verdict: refused, reason: reason(err)}
		if e := (*limit.Error)(nil); errors.As(err, &e) {
			n.after = e.RetryAfter
		}
		if c.Err() != nil {
			n.verdict, n.reason = waitTimedOut, ""
		}
		r.tell(n)
		return
	}
	r.tell(notice{c: c})
	select {
	case <-c.wake:
	case <-c.gone: // nil unless the permit may be held for longer
		abandon()
		<-c.wake
	}
	switch c.verdict {
	case answered:
		release(limit.Success)
	case loadTimedOut:
		release(limit.Dropped)
	case waitTimedOut:
		release(limit.Unused)
	default:
		abandon()
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

// reason returns the name for a rejection.
func reason(err error) string {
	var e *limit.Error
	if errors.As(err, &e) {
		return e.Reason.String()
	}
	return fmt.Sprint(err)
}
