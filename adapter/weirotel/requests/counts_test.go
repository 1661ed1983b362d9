package requests_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/adapter/weirotel/requests"
	"github.com/weir-go/weir/weirhttp"
)

// A reader gets what the SDK's instrument would report, except for the order of the
// points and the last digits of the sums.
func TestC8_CountsAreThoseOfTheInstrument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := requests.New()
		theirs, ours := sdkmetric.NewManualReader(), sdkmetric.NewManualReader(sdkmetric.WithProducer(counts))
		a, b := middleware(t, theirs, nil, act), middleware(t, ours, counts, act)
		for range 2 { // the second reading includes the first
			for i := range 400 {
				r := various(i)
				for _, h := range []http.Handler{a, b} {
					func() {
						defer func() { _ = recover() }() // act can panic
						h.ServeHTTP(httptest.NewRecorder(), r)
					}()
				}
			}
			want, got := collect(t, theirs), collect(t, ours)
			if n := len(want.Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints); n < 50 {
				t.Errorf("there are %d sets of attributes; want many to compare", n)
			}
			metricdatatest.AssertEqual(t, want, got, metricdatatest.IgnoreTimestamp())
			if w, g := times(want), times(got); w != g {
				t.Errorf("the times are %v; want %v", g, w)
			}
		}
	})
}

// took are the durations of act: bucket boundaries, and slightly more and less.
var took = []time.Duration{
	0, 1, 12345 * time.Nanosecond, 5*time.Millisecond - 1, 5 * time.Millisecond, 5*time.Millisecond + 1, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 75 * time.Millisecond, 75*time.Millisecond + 1, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	7500 * time.Millisecond, 10*time.Second - 1, 10 * time.Second, 10*time.Second + 1, 26 * time.Hour,
}

// various returns request number i.
func various(i int) *http.Request {
	methods := []string{"GET", "HEAD", "POST", "BREW"}
	r := httptest.NewRequest(methods[i%4], "http://shop.example/", nil)
	r.ProtoMajor, r.ProtoMinor = 1+i/7%2, (1+i/7)%2
	r.Header.Set("Number", fmt.Sprint(i))
	return r
}

// act takes some time, and responds in different ways.
func act(w http.ResponseWriter, r *http.Request) {
	var i int
	if _, err := fmt.Sscan(r.Header.Get("Number"), &i); err != nil {
		panic(err)
	}
	receipt := weirhttp.Receipt{Outcome: weirhttp.Outcome(i % 4)}
	if i%5 > 0 {
		receipt.Route = []string{"shop", "api"}[i%2]
	}
	weirhttp.SetReceipt(w, receipt)
	time.Sleep(took[i%len(took)])
	if i%11 == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader([]int{200, 404, 502}[i%3])
}

// collect returns weirotel's metric of requests, with the points in a fixed order and
// the sums rounded to the nanosecond. It omits the active requests.
func collect(t *testing.T, r *sdkmetric.ManualReader) metricdata.ScopeMetrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	var found []metricdata.ScopeMetrics
	for _, s := range all.ScopeMetrics {
		s.Metrics = slices.DeleteFunc(s.Metrics, func(m metricdata.Metrics) bool { return m.Name == "http.server.active_requests" })
		if len(s.Metrics) > 0 {
			found = append(found, s)
		}
	}
	if len(found) != 1 || len(found[0].Metrics) != 1 {
		t.Fatalf("%v was collected; want one metric", found)
	}
	points := found[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints
	slices.SortFunc(points, func(a, b metricdata.HistogramDataPoint[float64]) int {
		return cmp.Compare(a.Attributes.Encoded(attribute.DefaultEncoder()), b.Attributes.Encoded(attribute.DefaultEncoder()))
	})
	for i := range points {
		points[i].Sum = math.Round(points[i].Sum*1e9) / 1e9
	}
	return found[0]
}

// times returns the two times of the first point.
func times(s metricdata.ScopeMetrics) [2]time.Time {
	p := s.Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints[0]
	return [2]time.Time{p.StartTime, p.Time}
}

// points returns the points of c.
func points(t *testing.T, c *requests.Counts) []metricdata.HistogramDataPoint[float64] {
	t.Helper()
	all, err := c.Produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return nil
	}
	return all[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints
}

// There are at most as many sets of attributes as in the SDK; the last one counts all
// others. A set with which nothing was recorded is not reported.
func TestC8_CountsAreBounded(t *testing.T) {
	c := requests.New()
	set := func(i int) attribute.Set { return attribute.NewSet(attribute.Int("number", i)) }
	c.Recorder(set(0))
	if got := points(t, c); got != nil {
		t.Errorf("%d points before anything was recorded; want none", len(got))
	}
	const many = requests.Limit + 500
	for range 2 {
		for i := range many {
			c.Recorder(set(i)).Record(t.Context(), time.Second)
		}
	}
	got := points(t, c)
	if len(got) != requests.Limit {
		t.Fatalf("%d points; want %d", len(got), requests.Limit)
	}
	for i, p := range got {
		want, set := uint64(2), set(i)
		if i == requests.Limit-1 {
			want, set = 2*(many-requests.Limit+1), attribute.NewSet(attribute.Bool("otel.metric.overflow", true))
		}
		if p.Count != want || !p.Attributes.Equals(&set) {
			t.Errorf("point %d is %d of %v; want %d of %v", i, p.Count, p.Attributes, want, set)
		}
	}
}

// The sum continues beyond 64 bits of nanoseconds: event streams last for days,
// thousands at a time.
func TestTheSumDoesNotOverflow(t *testing.T) {
	c := requests.New()
	const long = 200 * 365 * 24 * time.Hour
	r := c.Recorder(attribute.NewSet())
	for i := range 5 {
		r.Record(t.Context(), long)
		if got, want := points(t, c)[0].Sum, float64(i+1)*long.Seconds(); got != want {
			t.Errorf("after %d the sum is %v; want %v", i+1, got, want)
		}
	}
}

// Durations counted during a read are in the sum and within the minimum and the
// maximum, too; and in the end all of them are reported.
func TestCountsWhileTheyAreRead(t *testing.T) {
	c := requests.New()
	const recorders, each = 4, 2000
	var all sync.WaitGroup
	for range recorders {
		all.Go(func() {
			for range each {
				c.Recorder(attribute.NewSet()).Record(t.Context(), time.Second)
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for going, last := true, uint64(0); going; {
		select {
		case <-ended:
			going = false
		default:
		}
		for _, p := range points(t, c) {
			least, _ := p.Min.Value()
			most, _ := p.Max.Value()
			if p.Count < last || p.Sum < float64(p.Count) || least != 1 || most != 1 {
				t.Fatalf("%d, %v s in all, from %v to %v, after %d; want at least as many seconds", p.Count, p.Sum, least, most, last)
			}
			last = p.Count
		}
	}
	if p := points(t, c)[0]; p.Count != recorders*each || p.Sum != recorders*each {
		t.Errorf("%d in %v s in the end; want %d of one second each", p.Count, p.Sum, recorders*each)
	}
}

// Recording a request's metrics allocates nothing.
func TestARecordAllocatesNothing(t *testing.T) {
	r := weirotel.Recorder(requests.New().Recorder(attribute.NewSet()))
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { r.Record(ctx, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations; want none", n)
	}
}
