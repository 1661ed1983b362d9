package load

import (
	"sync"
	"time"
)

// maxIntervals bounds the series of a result: an hour at the default width. Later
// answers count in the last interval.
const maxIntervals = 36_000

// A tally counts for some of the clients.
type tally struct {
	every time.Duration

	mu sync.Mutex
	r  Result // guarded by mu; without the fields that are known only at the end
}

func newTally(every time.Duration) *tally {
	return &tally{every: every, r: Result{
		EveryMS:    int(every / time.Millisecond),
		Statuses:   make(map[int]int64),
		Latency:    newHistogram(),
		AllLatency: newHistogram(),
	}}
}

// count counts a request that ended at the time at, measured from the start.
func (t *tally) count(status int, good bool, latency, at, late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.r
	r.Requests++
	r.Statuses[status]++
	r.LatestStart = max(r.LatestStart, late)
	if status != 0 {
		r.AllLatency.record(latency)
	}
	if !good {
		r.Failures++
		return
	}
	r.Good++
	r.Latency.record(latency)
	r.Slowest = max(r.Slowest, latency)
	i := min(int(at/t.every), maxIntervals-1)
	for len(r.AnswersOverTime) <= i {
		r.AnswersOverTime = append(r.AnswersOverTime, 0)
		r.WorstOverTime = append(r.WorstOverTime, 0)
	}
	r.AnswersOverTime[i]++
	r.WorstOverTime[i] = max(r.WorstOverTime[i], inMS(latency))
}

// late counts requests that started late.
func (t *tally) late(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.LateStarts += n
}

func (t *tally) result() Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.r
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
