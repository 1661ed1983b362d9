package load

import "time"

// A Result is what a load has measured. A good answer has a status of 2xx and
// the body that was expected; each other request is a failure, so that
// Requests is Good and Failures. The latencies are in an open loop from when a
// request was due, else from when it was sent, to the last byte of the answer.
type Result struct {
	Requests     int64
	Good         int64
	Failures     int64
	FirstFailure string        // what the first failure was
	Statuses     map[int]int64 // the answers by status; 0: no answer
	Elapsed      time.Duration // from the first request to the last answer

	Latency    Histogram     // of good answers
	AllLatency Histogram     // of all answers, refusals too
	Slowest    time.Duration // of the good answers, exact

	EveryMS         int       // the width of an interval of the two below
	AnswersOverTime []int64   // the good answers in each interval from the start on
	WorstOverTime   []float64 // the longest latency among them, in milliseconds

	LateStarts  int64         // in an open loop: requests that came due while MaxInFlight were under way
	LatestStart time.Duration // in an open loop: the most that a request was sent after it was due
	CPUTime     time.Duration // what this process has used meanwhile
}

// Percentile returns the latency that q percent of the good answers do not
// exceed, to three significant digits. Without any it is 0.
func (r Result) Percentile(q float64) time.Duration {
	return min(r.Slowest, r.Latency.Percentile(q))
}

// Mean returns the mean latency of the good answers, 0 without any.
func (r Result) Mean() time.Duration { return r.Latency.Mean() }

// PerSecond returns the good answers in a second.
func (r Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Good) / r.Elapsed.Seconds()
}

// A Point is a step of a distribution: that share of the answers took no
// longer.
type Point struct {
	LatencyMS float64
	Share     float64 // 0 to 1
}

// ticks is how many points of a distribution lie between a share and the one
// halfway from there to all.
const ticks = 5

// Distribution returns the distribution of the good answers' latencies,
// ascending, close together where it matters: as many points from 99 to 99.5 %
// as from 0 to 50 %. It goes as far as there are answers that tell, and ends
// with the slowest: some 60 points for ten thousand answers, 100 for a million.
func (r Result) Distribution() []Point {
	if r.Latency.Count() == 0 {
		return nil
	}
	var points []Point
	for _, b := range r.Latency.h.CumulativeDistributionWithTicks(ticks) {
		ms := min(float64(b.ValueAt)/1000, inMS(r.Slowest))
		points = append(points, Point{LatencyMS: ms, Share: b.Quantile / 100})
	}
	points[len(points)-1].LatencyMS = inMS(r.Slowest)
	return points
}

// Merge adds what another load measured at the same time, beside this one: the
// counts, series and CPU times add up, Elapsed is the longer one. Series of
// other widths do not fit together and are left out.
func (r *Result) Merge(other Result) {
	r.Requests += other.Requests
	r.Good += other.Good
	r.Failures += other.Failures
	if r.FirstFailure == "" {
		r.FirstFailure = other.FirstFailure
	}
	for status, n := range other.Statuses {
		if r.Statuses == nil {
			r.Statuses = make(map[int]int64)
		}
		r.Statuses[status] += n
	}
	r.Elapsed = max(r.Elapsed, other.Elapsed)
	r.Latency.Merge(other.Latency)
	r.AllLatency.Merge(other.AllLatency)
	r.Slowest = max(r.Slowest, other.Slowest)
	r.LateStarts += other.LateStarts
	r.LatestStart = max(r.LatestStart, other.LatestStart)
	r.CPUTime += other.CPUTime
	r.mergeSeries(other)
}

func (r *Result) mergeSeries(other Result) {
	if r.EveryMS == 0 {
		r.EveryMS = other.EveryMS
	}
	if r.EveryMS != other.EveryMS {
		r.AnswersOverTime, r.WorstOverTime = nil, nil
		return
	}
	for i, n := range other.AnswersOverTime {
		if i == len(r.AnswersOverTime) {
			r.AnswersOverTime = append(r.AnswersOverTime, 0)
			r.WorstOverTime = append(r.WorstOverTime, 0)
		}
		r.AnswersOverTime[i] += n
		r.WorstOverTime[i] = max(r.WorstOverTime[i], other.WorstOverTime[i])
	}
}
