package load

import "time"

// A Result is the result of a load. A successful response has a 2xx status and the expected
// body; every other request is a failure, so Requests is Good plus Failures.
// Latencies end with the last byte of the response. In an open loop they begin when
// the request was due, otherwise when it was sent.
type Result struct {
	Requests     int64
	Good         int64
	Failures     int64
	FirstFailure string        // description of the first failure
	Statuses     map[int]int64 // answers by status; 0: no response
	Elapsed      time.Duration // from the first request to the last answer

	Latency    Histogram     // of successful responses
	AllLatency Histogram     // of all answers, including rejections
	Slowest    time.Duration // of the successful responses, exact

	EveryMS         int       // interval width of the two series below
	AnswersOverTime []int64   // the successful responses in each interval from the start on
	WorstOverTime   []float64 // the longest latency among them, in milliseconds

	LateStarts  int64         // in an open loop: requests that came due while MaxInFlight were in flight
	LatestStart time.Duration // in an open loop: the longest delay of a request after it was due
	CPUTime     time.Duration // used by this process during the load
}

// Percentile returns the latency that q percent of the successful responses do not exceed, to
// three significant digits. It is 0 if there are no successful responses.
func (r Result) Percentile(q float64) time.Duration {
	return min(r.Slowest, r.Latency.Percentile(q))
}

// Mean returns the mean latency of the successful responses, 0 if there are none.
func (r Result) Mean() time.Duration { return r.Latency.Mean() }

// PerSecond returns the successful responses per second.
func (r Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Good) / r.Elapsed.Seconds()
}

// A Point is a step of a distribution: Share of the answers took at most LatencyMS.
type Point struct {
	LatencyMS float64
	Share     float64 // 0 to 1
}

// ticks is the number of points of a distribution between a share and the share
// halfway from there to 1.
const ticks = 5

// Distribution returns the distribution of the successful responses' latencies, in ascending
// order and denser in the tail: it has as many points from 99 to 99.5 % as from 0 to
// 50 %. It goes as far as there are enough answers, and ends with the slowest: some
// 60 points for ten thousand answers, 100 for a million.
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

// Merge adds the result of another load that ran at the same time: counts, series and
// CPU times add up, and Elapsed is the longer one. Series of different widths cannot
// be added and are left out.
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
