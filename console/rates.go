package console

import (
	"math"
	"time"

	"github.com/weir-go/weir/inspect"
)

// timings are how long things took in an interval.
type timings struct{ request, wait, call inspect.Durations }

func (t timings) and(other timings) timings {
	return timings{t.request.Add(other.request), t.wait.Add(other.wait), t.call.Add(other.call)}
}

// counts are those of u, in the order of unitColumns up to firstQuantile.
func counts(u *Unit) [firstQuantile]uint64 {
	a := &u.Avoided
	return [...]uint64{
		u.Requests, a.Hits, a.Stale, a.Negative, a.Failures, a.Joined, a.Validated, a.Fleet,
		u.Calls, u.Refreshes, u.Failed, u.Refused.Limit + u.Refused.Client + u.Refused.Stuck, u.StaleOnError,
	}
}

// unitRow returns the row of a unit that was old, nil if it was not there, and is
// now, a time later; and what took how long between. known says that the two can
// be compared.
func unitRow(old, now *Unit, between time.Duration) (r row, took timings, known bool) {
	r = make(row, len(unitColumns))
	for i := range firstGauge {
		r[i] = math.NaN()
	}
	gauges(r, now)
	if old == nil || between <= 0 || isAnother(old, now) {
		return r, timings{}, false
	}
	was, is := counts(old), counts(now)
	for i := range is {
		r[i] = perSecond(is[i]-was[i], between)
	}
	took = timings{
		request: now.RequestTime.Since(old.RequestTime),
		wait:    now.WaitTime.Since(old.WaitTime),
		call:    now.CallTime.Since(old.CallTime),
	}
	quantiles(r, took)
	return r, took, true
}

// isAnother reports whether now counts from another beginning than old: one of the
// counts has gone down. What it has counted since then cannot be separated from
// what was taken away, so that second has no value.
func isAnother(old, now *Unit) bool {
	was, is := counts(old), counts(now)
	for i := range is {
		if is[i] < was[i] {
			return true
		}
	}
	return now.RequestTime.Count < old.RequestTime.Count || now.WaitTime.Count < old.WaitTime.Count || now.CallTime.Count < old.CallTime.Count
}

// quantiles sets those of r.
func quantiles(r row, took timings) {
	i := firstQuantile
	for _, d := range []inspect.Durations{took.request, took.wait, took.call} {
		r[i], r[i+1] = math.NaN(), math.NaN()
		if d.Count > 0 {
			r[i], r[i+1] = seconds(d.Quantile(0.5)), seconds(d.Quantile(0.99))
		}
		i += 2
	}
}

// gauges sets those of r.
func gauges(r row, u *Unit) {
	for i, n := range []int{u.Flights, u.Running, u.Waiting, u.Stuck, u.Entries} {
		r[firstGauge+i] = float64(n)
	}
}

// limitRow returns the row of a limit.
func limitRow(l *Limit) row {
	latency, baseline := math.NaN(), math.NaN()
	if l.Latency > 0 {
		latency = seconds(l.Latency)
	}
	if l.Baseline > 0 {
		baseline = seconds(l.Baseline)
	}
	return row{l.Limit, float64(l.InUse), float64(l.Queued), latency, baseline, seconds(l.Held)}
}

// A sum is the row of all units together: what is known of them is added up.
type sum struct {
	row  row
	took timings
}

func newSum() *sum {
	s := &sum{row: make(row, len(unitColumns))}
	for i := range firstGauge {
		s.row[i] = math.NaN()
	}
	return s
}

func (s *sum) add(r row, took timings, known bool) {
	for i := firstGauge; i < len(r); i++ {
		s.row[i] += r[i]
	}
	if !known {
		return
	}
	for i := range firstQuantile {
		if math.IsNaN(s.row[i]) {
			s.row[i] = 0
		}
		s.row[i] += r[i]
	}
	s.took = s.took.and(took)
}

// total returns the row.
func (s *sum) total() row {
	quantiles(s.row, s.took)
	return s.row
}

// perSecond is n in a time, a second, to a thousandth: more is noise of the clock.
func perSecond(n uint64, in time.Duration) float64 {
	return math.Round(float64(n)/in.Seconds()*1000) / 1000
}

// seconds is d to the microsecond.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }
