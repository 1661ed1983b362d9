package console

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/inspect"
)

// timings has the durations measured in an interval.
type timings struct{ request, wait, call inspect.Durations }

func (t timings) and(other timings) timings {
	return timings{t.request.Add(other.request), t.wait.Add(other.wait), t.call.Add(other.call)}
}

// counts returns the counts of u, in the order of unitColumns up to firstQuantile.
func counts(u *Unit) [firstQuantile]uint64 {
	a, to, cost := &u.Avoided, Responses{}, Cost{}
	if u.Responses != nil {
		to = *u.Responses
	}
	if u.Cost != nil {
		cost = *u.Cost
	}
	return [...]uint64{
		u.Requests, a.Hits, a.Stale, a.Negative, a.Failures, a.Joined, a.Validated, a.Fleet,
		u.Calls, u.Refreshes, u.Failed, u.Refused.ours(), u.Refused.clients(), u.StaleOnError,
		u.Refused.Budget, u.Refused.Paused, u.Refused.Unreachable, u.Refused.ClientBudget, u.Refused.TooLarge, u.Observed.saved(),
		u.Missed, u.MissedErrors, u.Unanswered, u.Left, u.Fallback.sent(),
		cost.Spent, cost.Avoided(), cost.Refused,
		to.Switched, to.Success, to.Redirect, to.ClientError, to.ServerError, to.Broken, to.Left,
	}
}

// unitRow returns the row of a unit from two of its samples and the time between
// them, and the durations measured in between. old is nil if the unit was not there.
// known reports whether the two samples can be compared.
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
		r[i] = eachSecond(is[i]-was[i], between)
	}
	took = timings{
		request: now.RequestTime.Since(old.RequestTime),
		wait:    now.WaitTime.Since(old.WaitTime),
		call:    now.CallTime.Since(old.CallTime),
	}
	if now.Kind == "guard" {
		setMissed(r)
	}
	quantiles(r, took)
	return r, took, true
}

// setMissed sets what became of a Guard's calls that were not avoided, which a Guard does
// not count: the rest of them made a load of their own, and a load that failed and had no
// stale value was an error.
func setMissed(r row) {
	at := func(name string) *float64 { return &r[slices.Index(unitColumns[:], name)] }
	own := *at("requests") - *at("refused")
	for _, avoided := range []string{"hits", "stale", "negative", "failures", "joined", "validated", "fleet"} {
		own -= *at(avoided)
	}
	own = max(own, 0)
	*at("missed"), *at("missed_errors") = own, min(max(*at("failed")-*at("stale_on_error"), 0), own)
}

// isAnother reports whether now counts from a later start than old: a count has
// decreased. Its counts since then are unknown, so that second has no values.
func isAnother(old, now *Unit) bool {
	was, is := counts(old), counts(now)
	for i := range is {
		if is[i] < was[i] {
			return true
		}
	}
	return now.RequestTime.Count < old.RequestTime.Count || now.WaitTime.Count < old.WaitTime.Count || now.CallTime.Count < old.CallTime.Count
}

// quantiles sets the quantiles of r.
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

// gauges sets the gauges of r.
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

// A sum accumulates the row of all units together, from their known values.
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

// total returns the accumulated row.
func (s *sum) total() row {
	quantiles(s.row, s.took)
	return s.row
}

// eachSecond returns n divided by a time, per second, rounded to a thousandth: more
// digits would be clock noise.
func eachSecond(n uint64, in time.Duration) float64 {
	return math.Round(float64(n)/in.Seconds()*1000) / 1000
}

// seconds returns d in seconds, rounded to the microsecond.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }
