package load_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/lab/load"
)

// measured is a result of 1,000 answers that take 1 ms, 2 ms, ... 1 s.
func measured(t *testing.T) (r load.Result) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		p := serve(t, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Duration(n.Add(1)) * ms) })
		r = run(t, p, load.Spec{Clients: 1, Requests: 1000})
	})
	return r
}

func TestPercentilesAndDistribution(t *testing.T) {
	r := measured(t)
	for q, want := range map[float64]time.Duration{50: 500 * ms, 90: 900 * ms, 99: 990 * ms, 99.9: 999 * ms, 100: time.Second} {
		if got := r.Percentile(q); got < want-ms/2 || got > want+ms/2 {
			t.Errorf("Percentile(%v) = %v; want %v to three digits", q, got, want)
		}
	}
	if got, want := r.Mean(), 500500*us; got < want-ms/2 || got > want+ms/2 {
		t.Errorf("Mean = %v; want %v to three digits", got, want)
	}
	d := r.Distribution()
	if n := len(d); n < 40 || n > 70 {
		t.Errorf("the distribution has %d points; want about 55", n)
	}
	for i, p := range d {
		// Of 1, 2, ... 1,000 ms a share s takes up to s seconds.
		if p.LatencyMS < 1000*p.Share-1 || p.LatencyMS > 1000*p.Share+2 {
			t.Errorf("%v of the answers within %v ms; want %v", p.Share, p.LatencyMS, 1000*p.Share)
		}
		if i > 0 && (p.Share <= d[i-1].Share || p.LatencyMS < d[i-1].LatencyMS) {
			t.Errorf("point %d, %v, follows %v; want both to go up", i, p, d[i-1])
		}
	}
	if last := d[len(d)-1]; d[0].Share != 0 || last != (load.Point{LatencyMS: 1000, Share: 1}) {
		t.Errorf("the distribution goes from %v to %v; want 0 to 1, 1000 ms", d[0], last)
	}
}

func TestDistributionEndsWithTheSlowestAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, func(http.ResponseWriter, *http.Request) { time.Sleep(ms + 500) })
		d := run(t, p, load.Spec{Clients: 1, Requests: 1}).Distribution()
		if n := len(d); n == 0 || d[n-1] != (load.Point{LatencyMS: 1.0005, Share: 1}) {
			t.Errorf("the distribution is %v; want it to end with 1.0005 ms", d)
		}
	})
}

func TestResultGoesThroughJSON(t *testing.T) {
	r := measured(t)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got load.Result
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Distribution(), r.Distribution()) || got.Mean() != r.Mean() || got.AllLatency.Count() != 1000 {
		t.Errorf("the distribution is %v after JSON; want %v", got.Distribution(), r.Distribution())
	}
	got.Latency, got.AllLatency = r.Latency, r.AllLatency
	if !reflect.DeepEqual(got, r) {
		t.Errorf("the result is %+v after JSON; want %+v", got, r)
	}
	for _, bad := range []string{`7`, `"nonsense"`} {
		if err := new(load.Histogram).UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("UnmarshalJSON(%s) = nil; want an error", bad)
		}
	}
}

func TestMerge(t *testing.T) {
	a, b := measured(t), measured(t)
	b.Slowest, b.Elapsed, b.FirstFailure, b.LateStarts, b.CPUTime = 2*time.Second, time.Hour, "it failed", 3, time.Second
	b.AnswersOverTime = append(b.AnswersOverTime, 5)
	b.WorstOverTime = append(b.WorstOverTime, 77)
	intervals := len(a.AnswersOverTime)
	first := a.AnswersOverTime[0] + b.AnswersOverTime[0]

	var sum load.Result
	sum.Merge(a)
	sum.Merge(b)
	if sum.Requests != 2000 || sum.Good != 2000 || sum.Statuses[200] != 2000 || sum.Latency.Count() != 2000 || sum.AllLatency.Count() != 2000 {
		t.Errorf("Merge: %d requests, %d good, %v, %d and %d latencies; want 2000 of each",
			sum.Requests, sum.Good, sum.Statuses, sum.Latency.Count(), sum.AllLatency.Count())
	}
	if sum.Slowest != 2*time.Second || sum.Elapsed != time.Hour || sum.FirstFailure != "it failed" || sum.LateStarts != 3 {
		t.Errorf("Merge: %v, %v, %q, %d; want b's", sum.Slowest, sum.Elapsed, sum.FirstFailure, sum.LateStarts)
	}
	if sum.CPUTime != a.CPUTime+time.Second {
		t.Errorf("Merge: CPU time %v; want %v", sum.CPUTime, a.CPUTime+time.Second)
	}
	if n := sum.AnswersOverTime; len(n) != intervals+1 || n[0] != first || n[intervals] != 5 || sum.WorstOverTime[intervals] != 77 {
		t.Errorf("Merge: %d intervals, the first %d, the last %d; want %d, %d, 5", len(n), n[0], n[len(n)-1], intervals+1, first)
	}
	if a.Latency.Count() != 1000 {
		t.Errorf("Merge changed what it merged: %d latencies; want 1000", a.Latency.Count())
	}
}
