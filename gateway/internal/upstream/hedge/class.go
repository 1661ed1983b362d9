package hedge

import (
	"math"
	"math/bits"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

const (
	// A time is counted in one of cells, which are a ninth wide: parts to an octave, from finest
	// on. The last one has all from an hour on.
	cells  = 26 * parts
	parts  = 8
	finest = 1 << 16 // nanoseconds
	// A class has the keys whose calls take about as long: those within two octaves. Class 0 has
	// the keys of which nothing is known.
	classes  = 1 + cells/perClass
	perClass = 2 * parts
	// recent is how many calls of a class count: then those before count half.
	recent = 2048
	// A class is judged by its latest hedges, up to mostJudged, from leastJudged on. One in
	// winners must win. Of a class that has stopped one in tryAgain hedges is sent, and leastTried
	// of them show whether it goes on.
	mostJudged  = 64
	leastJudged = 32
	winners     = 4
	tryAgain    = 50
	leastTried  = 4
)

// A class is what is known of the calls that take about as long.
type class struct {
	counts [cells]float32 // of first calls, by their time
	total  float64
	purse
	cost   float64 // nanoseconds of a hedge
	after  time.Duration
	known  bool // after is
	budget int  // for which after is
	due    int  // calls until after is computed again

	won     uint64 // of the latest hedges, a bit each
	judged  int    // how many they are
	stopped bool
	turns   int // hedges since it has stopped
}

// cell returns where a time is counted.
func cell(d time.Duration) int {
	n := uint64(max(d, 0)) / (finest / parts) //nolint:gosec // not negative
	if n < parts {
		return 0
	}
	octave := bits.Len64(n) - bits.Len64(parts)
	return min(octave*parts+int(n>>octave)-parts, cells-1) //nolint:gosec // below 2*parts
}

// end returns the time with which a cell ends.
func end(i int) time.Duration {
	return time.Duration((i%parts+parts+1)<<(i/parts)) * (finest / parts)
}

// add counts a call.
func (k *class) add(took time.Duration, budget int) {
	if k.total >= recent {
		k.total = 0
		for i := range k.counts {
			if k.counts[i] /= 2; k.counts[i] < .25 {
				k.counts[i] = 0
			}
			k.total += float64(k.counts[i])
		}
	}
	k.counts[cell(took)]++
	k.total++
	if k.due--; k.due <= 0 || k.budget != budget {
		k.look(budget)
	}
}

// look computes after which time the part of the calls that the budget pays for is left.
func (k *class) look(budget int) {
	k.budget, k.known = budget, false
	k.due = int(k.total / 16)
	pays := k.total * float64(budget) / 100
	if pays < 1 {
		return
	}
	sum := 0.
	for i := cells - 1; i >= 0; i-- {
		if sum += float64(k.counts[i]); sum > pays {
			k.after, k.known = max(end(i), Least), true
			return
		}
	}
}

// delay returns when a call gets a hedge.
func (k *class) delay(budget int) (time.Duration, bool) {
	if k.budget != budget {
		k.look(budget)
	}
	return k.after, k.known
}

// skips reports whether the next hedge of a class that has stopped is left out: one in tryAgain
// is not.
func (k *class) skips() bool {
	k.turns++
	return k.turns%tryAgain != 0
}

// judge records whether a hedge has won.
func (k *class) judge(won bool) {
	k.won <<= 1
	if won {
		k.won++
	}
	k.judged = min(k.judged+1, mostJudged)
	enough := bits.OnesCount64(k.won)*winners >= k.judged
	switch {
	case k.stopped && k.judged >= leastTried && enough:
		k.stopped = false
	case !k.stopped && k.judged >= leastJudged && !enough:
		k.stopped, k.judged, k.won = true, 0, 0
	}
}

// known is the number of keys that are distinguished, if they have different places.
const known = 4096

// keys are the latest two times of keys: the shorter one counts, since one may be long by
// chance. Keys with the same place replace each other.
type keys [known]struct {
	tag          uint32
	last, before uint8 // cells, one too high; 0 for none
}

func init() {
	if cells >= math.MaxUint8 {
		panic("hedge: a cell does not fit")
	}
}

// class returns the class of a key.
func (k *keys) class(key uint64) uint8 {
	m := &k[key%known]
	if m.tag != uint32(key>>32) || m.last == 0 { //nolint:gosec // a part of it
		return 0
	}
	at := m.last
	if m.before != 0 {
		at = min(at, m.before)
	}
	return 1 + (at-1)/perClass
}

// add records how long a call of a key took.
func (k *keys) add(key uint64, took time.Duration) {
	m := &k[key%known]
	if tag := uint32(key >> 32); m.tag != tag { //nolint:gosec // a part of it
		m.tag, m.last = tag, 0
	}
	m.before, m.last = m.last, uint8(cell(took))+1 //nolint:gosec // see init
}

// A purse has the time of hedges that the time of first calls has paid for. Each class has its
// own: the hedges of a few long calls would use up what many short ones have paid.
type purse struct {
	mean    float64 // nanoseconds of a call
	time    float64 // nanoseconds of hedges
	running int     // hedges
	began   float64 // the sum of when they began
	held    float64 // what they are expected to take
}

// earn adds what a time of first calls pays for.
func (p *purse) earn(d time.Duration, rule Rule) {
	p.time = min(p.time+float64(d)*float64(rule.Budget)/100, mostSavedTime*p.mean)
}

// left returns the time that is left if each running hedge takes as long as expected, and all of
// them at least as long as they have run.
func (p *purse) left(now choose.Instant) float64 {
	return p.time - max(p.held, float64(p.running)*float64(now)-p.began)
}

func (p *purse) hold(now choose.Instant, expects float64) {
	p.running++
	p.began += float64(now)
	p.held += expects
}

func (p *purse) release(c *Call) {
	p.running--
	p.began -= float64(c.hedged)
	p.held -= c.held
	if p.running == 0 {
		p.began, p.held = 0, 0 // without what rounding has left
	}
}
