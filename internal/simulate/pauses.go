package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A Rhythm is the pattern in which pauses follow each other.
type Rhythm string

const (
	// Regular pauses all have the same length and the same distance.
	Regular Rhythm = "regular"
	// Jittered pauses last between half of the length and the full length. The time
	// from one to the next is between 0.5 and 1.5 times the mean.
	Jittered Rhythm = "jittered"
	// Poisson pauses all have the same length and begin independently of each other.
	// Overlapping pauses form one longer pause.
	Poisson Rhythm = "poisson"
)

// Pauses returns a Schedule, until end, that is 1 during pauses and 0 between them.
// Pauses last at most length, and take up the share duty of the time on average.
func Pauses(r Rhythm, length time.Duration, duty float64, end time.Duration, seed uint64) Schedule {
	rng := rand.New(rand.NewPCG(seed, 3))
	s := Schedule{{}}
	work := float64(length) * (1 - duty) / duty // mean time between two pauses
	for t := time.Duration(0); ; {
		long, free := length, work
		switch r {
		case Jittered:
			x := 0.5 + rng.Float64()/2
			long, free = time.Duration(x*float64(length)), work*0.75*(0.5+rng.Float64())
		case Poisson:
			free = rng.ExpFloat64()*float64(length)/duty - float64(length)
		}
		from := max(1, t+max(0, time.Duration(free)))
		if r == Poisson && free < 0 {
			// The pause begins during the previous one, which lasts longer as a
			// result.
			long += time.Duration(free)
		}
		if t = from + long; t >= end {
			return s
		}
		if last := &s[len(s)-1]; last.At == from && from > 0 {
			last.At = t
			continue
		}
		s = append(s, Step{from, 1}, Step{t, 0})
	}
}

// A Pause says for how long, how often and in which rhythm something pauses.
type Pause struct {
	Rhythm Rhythm
	Length time.Duration
	Duty   float64
}

// String returns the part of a scenario's name that describes p.
func (p Pause) String() string {
	return fmt.Sprintf("%s pauses of %v, duty %g%%", p.Rhythm, p.Length, 100*p.Duty)
}

// Pausing returns a steady load on a source that pauses. A load of 1 is what the
// source serves while it does not pause. The first third is one phase, and the rest
// is the other.
func Pausing(src Source, load float64, p Pause, seed uint64, d time.Duration) Scenario {
	a := at(load, src)
	src.Paused = Pauses(p.Rhythm, p.Length, p.Duty, d, seed)
	name := fmt.Sprintf("%v, capacity %d, %v, load %g", p, src.CapacityAt(0), src.Spread, load)
	return scenario(name, seed, d, src, a).startThenSteady(d / 3)
}

// Asleep returns a steady load on a gate whose process is descheduled as described by
// p, while the source continues to work.
func Asleep(src Source, load float64, p Pause, seed uint64, d time.Duration) Scenario {
	name := fmt.Sprintf("gate asleep, %v, capacity %d, %v, load %g", p, src.CapacityAt(0), src.Spread, load)
	s := scenario(name, seed, d, src, at(load, src))
	s.Asleep = Pauses(p.Rhythm, p.Length, p.Duty, d, seed)
	return s.startThenSteady(d / 3)
}

// AllPauses returns sources of 3, 10, 20 and 200 servers that pause for 20, 100 and
// 500 ms, with duty cycles of 5 and 25%, in every rhythm and under loads of 0.9, 1.2,
// 1.5 and 3. Service times alternate between exponential, constant and log-normal.
// There are 288 scenarios, which take minutes of CPU time for each gate.
func AllPauses() []Scenario { return eachPause(Pausing) }

// AllAsleep returns the same scenarios, with the gate's process descheduled instead
// of pauses of the source.
func AllAsleep() []Scenario { return eachPause(Asleep) }

func eachPause(f func(Source, float64, Pause, uint64, time.Duration) Scenario) []Scenario {
	spreads := []Dist{Exponential, Constant, LogNormal(0.5)}
	var all []Scenario
	for _, c := range []struct {
		capacity   float64
		service, d time.Duration
	}{
		{3, 20 * time.Millisecond, time.Minute}, {10, 20 * time.Millisecond, 45 * time.Second},
		{20, 20 * time.Millisecond, 30 * time.Second}, {200, 100 * time.Millisecond, 18 * time.Second},
	} {
		for _, load := range []float64{0.9, 1.2, 1.5, 3} {
			for _, length := range []time.Duration{20, 100, 500} {
				for _, duty := range []float64{0.05, 0.25} {
					for _, r := range []Rhythm{Regular, Jittered, Poisson} {
						n := len(all)
						src := pool(c.capacity, c.service)
						src.Spread = spreads[(n+n/3)%len(spreads)]
						p := Pause{r, length * time.Millisecond, duty}
						all = append(all, f(src, load, p, uint64(600+n), c.d))
					}
				}
			}
		}
	}
	return all
}

// EveryNth returns one scenario in n. They cover all values of the grid if n and the
// number of scenarios have no common divisor.
func EveryNth(all []Scenario, n int) []Scenario {
	var some []Scenario
	for i := n / 2; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// A progress records how much progress a pausing source makes over time.
type progress struct {
	steps Schedule        // the steps of Paused
	done  []time.Duration // progress made by each step
}

func newProgress(paused Schedule) progress {
	p := progress{steps: paused, done: make([]time.Duration, len(paused))}
	for i := 1; i < len(paused); i++ {
		p.done[i] = p.done[i-1]
		if paused[i-1].Value == 0 {
			p.done[i] += paused[i].At - paused[i-1].At
		}
	}
	return p
}

// made returns how much of the time until t the source did not pause.
func (p *progress) made(t time.Duration) time.Duration {
	if len(p.steps) == 0 {
		return t
	}
	i, found := slices.BinarySearchFunc(p.steps, t, func(s Step, t time.Duration) int { return cmp.Compare(s.At, t) })
	if !found {
		i = max(0, i-1)
	}
	if p.steps[i].Value > 0 {
		return p.done[i]
	}
	return p.done[i] + t - p.steps[i].At
}

// reached returns the first instant at which made returns the given value.
func (p *progress) reached(made time.Duration) time.Duration {
	if len(p.steps) == 0 {
		return made
	}
	// Find the last step before which less was made: the value is reached in it or at
	// its start.
	i, _ := slices.BinarySearch(p.done, made)
	for i = max(0, i-1); i+1 < len(p.steps) && p.steps[i].Value > 0; {
		i++
	}
	return p.steps[i].At + made - p.done[i]
}
