package jobslab

import (
	"slices"
	"time"

	"github.com/weir-go/weir/lab/result"
)

// measurement returns the results of submission.
func (d *drive) measurement(load string, took time.Duration) result.Measurement {
	d.mu.Lock()
	defer d.mu.Unlock()
	good := int64(len(d.accepted))
	m := result.Measurement{
		Load: load, Requests: good + d.failures, Good: good, Failures: d.failures, FirstFailure: d.first,
		Seconds: took.Seconds(), PerSecond: float64(good) / took.Seconds(), Values: map[string]float64{},
	}
	m.Latency = latencyOf(d.latency)
	return m
}

// worked adds the results of execution. Good then counts jobs that have started.
func (d *drive) worked(m *result.Measurement) {
	lost := int64(d.lost())
	d.mu.Lock()
	defer d.mu.Unlock()
	m.Values[Submitted], m.Values[Lost], m.Values[Again] = float64(m.Good), float64(lost), float64(d.again)
	m.Good -= lost
	m.Failures += lost
	m.PerSecond = float64(m.Good) / m.Seconds
}

// latencyOf returns the distribution of durations, which it sorts.
func latencyOf(all []time.Duration) *result.Latency {
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	var sum time.Duration
	for _, t := range all {
		sum += t
	}
	at := func(share float64) float64 { return ms(all[min(len(all)-1, int(share*float64(len(all))))]) }
	l := &result.Latency{
		P50: at(.5), P90: at(.9), P99: at(.99), P999: at(.999), Slowest: ms(all[len(all)-1]),
		Mean: ms(sum) / float64(len(all)),
	}
	for _, share := range []float64{.01, .1, .25, .5, .75, .9, .95, .99, .995, .999, 1} {
		l.Distribution = append(l.Distribution, result.Point{MS: at(share), Share: share})
	}
	return l
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
