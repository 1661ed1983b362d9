package chart

import (
	"math"
	"regexp"
	"strconv"
)

// A Kind determines how an axis maps numbers to positions.
type Kind int

const (
	Linear     Kind = iota
	Log             // zero and below are at the axis's lower end
	Percentile      // shares 0 to 1, spaced as the log of 1/(1-share): each further nine is as wide as the previous one
)

// An Axis describes an axis and the format of its labels.
type Axis struct {
	Title  string
	Kind   Kind
	Format func(float64) string // formats a tick's value; nil: as few digits as needed
	Top    float64              // for a Percentile axis: the largest number of answers; for others: the smallest upper end; 0: from the data
	Bare   bool                 // for a Linear axis: it need not begin at 0
}

// mostNines is the length of a Percentile axis: up to 99.99 %.
const mostNines = 4

// LastShare is the largest upper end of a Percentile axis.
const LastShare = 0.9999

// A scale is an axis with its ends.
type scale struct {
	kind     Kind
	low, top float64 // transformed
	from, to float64 // their positions in the drawing
}

// A tick is a position on an axis with its label.
type tick struct {
	value float64
	label string
}

// newScale fits the ends of an axis to values.
func newScale(a Axis, values []float64, most int) (scale, []tick) {
	s := scale{kind: a.Kind}
	var ticks []tick
	switch a.Kind {
	case Log:
		s.low, s.top, ticks = logTicks(values, most)
	case Percentile:
		s.top, ticks = percentileTicks(a.Top)
	default:
		s.low, s.top, ticks = linearTicks(values, a, most)
	}
	for i, t := range ticks {
		switch {
		case t.label != "":
		case a.Format != nil:
			ticks[i].label = pointZero.ReplaceAllString(a.Format(t.value), "$1")
		default:
			ticks[i].label = strconv.FormatFloat(t.value, 'f', -1, 64)
		}
	}
	return s, ticks
}

// pointZero matches redundant decimals: ticks are round numbers.
var pointZero = regexp.MustCompile(`\.0+($|[^0-9])`)

// at returns the position of v. Values outside the axis are drawn at its end.
func (s scale) at(v float64) float64 {
	switch s.kind {
	case Log:
		v = math.Log10(max(v, math.SmallestNonzeroFloat64))
	case Percentile:
		v = Nines(v)
	}
	v = min(max(v, s.low), s.top)
	return s.from + (v-s.low)/(s.top-s.low)*(s.to-s.from)
}

// Nines returns the number of nines of a share: 1 for 0.9, 2 for 0.99.
func Nines(share float64) float64 { return -math.Log10(max(1-share, 1e-12)) }

// linearTicks returns at most most ticks, in steps of 1, 2 or 5 times a power of ten.
func linearTicks(values []float64, a Axis, most int) (low, top float64, ticks []tick) {
	low, top = ends(values)
	if !a.Bare {
		low = min(low, 0)
	}
	top = max(top, a.Top)
	if top <= low {
		top = low + 1
	}
	step := niceStep((top - low) / float64(most))
	first, last := math.Floor(low/step+1e-9), math.Ceil(top/step-1e-9)
	for i := first; i <= last; i++ {
		// i*step can have rounding errors in its last digits, as in 3*0.1.
		v, _ := strconv.ParseFloat(strconv.FormatFloat(i*step, 'g', 12, 64), 64)
		ticks = append(ticks, tick{value: v})
	}
	return first * step, last * step, ticks
}

func ends(values []float64) (low, top float64) {
	for i, v := range values {
		if i == 0 {
			low, top = v, v
		}
		low, top = min(low, v), max(top, v)
	}
	return low, top
}

// niceStep returns the smallest number of the form 1, 2 or 5 times a power of ten
// that is at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logTicks returns powers of ten: every second one if there are many, or also their
// doubles and quintuples if there are few.
func logTicks(values []float64, most int) (low, top float64, ticks []tick) {
	low = math.Inf(1)
	for _, v := range values {
		if v > 0 {
			low, top = min(low, v), max(top, v)
		}
	}
	if top == 0 {
		low, top = 1, 10
	}
	low, top = logEnd(math.Log10(low), math.Floor), logEnd(math.Log10(top), math.Ceil)
	if top-low < 0.3 {
		top = logEnd(low+0.3, math.Ceil)
	}
	multiples, every := []float64{1, 2, 5}, 1
	if 3*(top-low) > 1.4*float64(most) {
		low, top = math.Floor(low+1e-9), math.Ceil(top-1e-9)
		multiples, every = []float64{1}, max(1, int(math.Ceil((top-low)/float64(most))))
	}
	for e := math.Floor(low); e <= top+1e-9; e++ {
		for _, m := range multiples {
			at := e + math.Log10(m)
			if at > low-1e-9 && at < top+1e-9 && (int(e)-int(math.Ceil(low-1e-9)))%every == 0 {
				ticks = append(ticks, tick{value: m * math.Pow(10, e)})
			}
		}
	}
	return low, top, ticks
}

// logEnd rounds to the next 1, 2 or 5 times a power of ten.
func logEnd(v float64, round func(float64) float64) float64 {
	whole := math.Floor(v)
	marks := []float64{0, math.Log10(2), math.Log10(5), 1}
	if round(0.5) == 0 { // downwards
		for i := len(marks) - 1; i >= 0; i-- {
			if whole+marks[i] <= v+1e-9 {
				return whole + marks[i]
			}
		}
	}
	for _, m := range marks {
		if whole+m >= v-1e-9 {
			return whole + m
		}
	}
	return whole + 1
}

// percentileTicks returns ticks up to the last percentile that this many answers can
// resolve.
func percentileTicks(answers float64) (top float64, ticks []tick) {
	last := mostNines
	if answers > 0 {
		last = min(max(int(math.Ceil(math.Log10(answers)-1e-9)), 1), mostNines)
	}
	for _, t := range []tick{{0, "0"}, {0.5, "50"}, {0.9, "90"}, {0.99, "99"}, {0.999, "99.9"}, {0.9999, "99.99 %"}} {
		if Nines(t.value) < float64(last)+1e-6 {
			ticks = append(ticks, t)
		}
	}
	if last < mostNines {
		ticks[len(ticks)-1].label += " %"
	}
	return float64(last), ticks
}
