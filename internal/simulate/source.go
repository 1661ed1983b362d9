package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A Model is how a source divides its capacity among the calls in it.
type Model uint8

const (
	// Queueing is M/G/c if arrivals are Poisson: each of c servers works on one call
	// at a time, and the others wait in an unbounded queue, first come, first served.
	Queueing Model = iota
	// Convoy is processor sharing with a penalty. With n calls in progress and a
	// capacity of c, all advance at rate 1 up to n = c, and beyond that at (c/n) / (1
	// + Penalty×(n-c)/c). So beyond c, throughput falls.
	Convoy
)

// A Dist is the distribution of service times around their mean.
type Dist struct {
	kind byte
	cv   float64
}

// Constant and Exponential are distributions with a coefficient of variation of 0 and
// 1. The zero Dist is Constant.
var (
	Constant    = Dist{}
	Exponential = Dist{kind: 'e'}
)

// LogNormal returns the log-normal distribution with this coefficient of variation.
func LogNormal(cv float64) Dist { return Dist{kind: 'l', cv: cv} }

// String returns the name of d.
func (d Dist) String() string {
	switch d.kind {
	case 'e':
		return "exponential"
	case 'l':
		return fmt.Sprintf("log-normal cv %g", d.cv)
	}
	return "constant"
}

// draw returns a value whose mean is 1.
func (d Dist) draw(rng *rand.Rand) float64 {
	switch d.kind {
	case 'e':
		return rng.ExpFloat64()
	case 'l':
		sigma := d.sigma()
		return math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2)
	}
	return 1
}

// p99 returns the 99th percentile for a mean of 1.
func (d Dist) p99() float64 {
	switch d.kind {
	case 'e':
		return math.Log(100)
	case 'l':
		sigma := d.sigma()
		return math.Exp(2.3263*sigma - sigma*sigma/2)
	}
	return 1
}

func (d Dist) sigma() float64 { return math.Sqrt(math.Log1p(d.cv * d.cv)) }

// A Source is what receives the calls.
type Source struct {
	Model Model
	// Penalty is the penalty of Convoy. 0 means 1; a negative value means none, which
	// is plain processor sharing.
	Penalty float64
	// Capacity is how many calls at once the source serves at full speed. A step
	// takes effect at once; if it removes servers, those that are busy finish their
	// call first.
	Capacity Schedule
	// Service is the mean service time in seconds. A step affects calls whose service
	// starts later.
	Service Schedule
	// Spread is the distribution of service times around their mean.
	Spread Dist
	// Hung is 1 while the source hangs, and 0 otherwise. A call whose service would
	// start or end during that time never completes.
	Hung Schedule
	// Paused is 1 while nothing advances in the source, as in a garbage
	// collection or a checkpoint, and 0 otherwise. Calls still enter, and work
	// continues where it stopped.
	Paused Schedule
	// KeepServer says that a call whose caller has left keeps its place until it
	// would have ended, as in a database that does not notice. Otherwise its place is
	// free at once.
	KeepServer bool
	// Unaware says that the source notices no departure, as a server that reads its
	// connections in order: a call whose caller has left keeps its place also while it
	// waits in the source, and its service begins when its turn comes.
	Unaware bool
}

// CapacityAt returns how many calls the source serves at full speed at t, at
// least 1.
func (s *Source) CapacityAt(t time.Duration) int { return max(1, int(s.Capacity.At(t))) }

// ServiceAt returns the mean service time at t.
func (s *Source) ServiceAt(t time.Duration) time.Duration {
	return time.Duration(s.Service.At(t) * float64(time.Second))
}

// RateAt returns how many calls per second the source can serve at t.
func (s *Source) RateAt(t time.Duration) float64 {
	if s.Hung.At(t) > 0 || s.Paused.At(t) > 0 {
		return 0
	}
	return float64(s.CapacityAt(t)) / s.Service.At(t)
}

func (s *Source) penalty() float64 {
	if s.Penalty == 0 {
		return 1
	}
	return max(0, s.Penalty)
}

func (s *Source) hung(t time.Duration) bool { return s.Hung.At(t) > 0 }

// demand returns how long j takes if its service starts now and nothing delays it.
func (s *Source) demand(j *job, now time.Duration) time.Duration {
	return max(1, time.Duration(j.factor*s.Service.At(now)*float64(time.Second)))
}

// A server is the state of a Source in a run. The driver calls its methods with the
// current time, which never goes backwards.
type server interface {
	// enter adds a job.
	enter(now time.Duration, j *job)
	// leave removes a job whose caller has left.
	leave(now time.Duration, j *job)
	// step reports that a schedule has changed.
	step(now time.Duration)
	// next returns when the next job ends. ok is false if none does.
	next(now time.Duration) (at time.Duration, ok bool)
	// finish ends the job that next reported. It returns nil if that job hangs. If the
	// caller has already left, the job is an orphan.
	finish(now time.Duration) *job
	// inside returns the number of jobs, including waiting ones.
	inside() int
}

func (s *Source) server() server {
	p := newProgress(s.Paused)
	if s.Model == Convoy {
		return &convoy{src: s, progress: p}
	}
	return &queueing{src: s, progress: p}
}

// A job is a call inside a source.
type job struct {
	index  int     // index of the call
	factor float64 // its service time, relative to a mean of 1

	key    float64 // order in the heap: when it ends, in the server's own measure
	pos    int     // position in the heap, if state is working
	state  jobState
	orphan bool // its caller has left, but its server does not know
}

type jobState uint8

const (
	outside jobState = iota
	waiting
	working
	hanging
)

// A jobHeap has the job with the smallest key on top. Of jobs with equal keys, it is
// the call that arrived first.
type jobHeap []*job

func (h jobHeap) Len() int { return len(h) }
func (h jobHeap) Less(i, j int) bool {
	return h[i].key < h[j].key || h[i].key == h[j].key && h[i].index < h[j].index
}
func (h jobHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *jobHeap) Push(x any) {
	j := x.(*job)
	j.pos = len(*h)
	*h = append(*h, j)
}
func (h *jobHeap) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return j
}
