package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	cache "github.com/Code-Hex/go-generics-cache"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var sourceDown = scenario.Scenario{
	Name:    "source-down",
	Title:   "The source is away for a minute",
	Asks:    "For one minute every call to the source fails, after one second. What do callers get, how old is it, how many calls reach the source during the outage, and what happens when it is back?",
	Service: sourceDownService,
	Run:     runSourceDown,
}

// The variants, in addition to unprotected and shieldedStale. All except unprotected
// keep a value fresh for the same time.
const (
	xsyncCached  = "x/sync singleflight and a cache"
	shieldedAges = "weir, stale for a third of it"
)

// A sourceDownSetup has the parameters of the experiment.
type sourceDownSetup struct {
	Before, Away, After time.Duration
	Rate                float64 // requests per second of each variant
	Keys                int
	Call, Fails         time.Duration // duration of a call when the source is up, and when it is down
	TTL                 time.Duration
	Stale               time.Duration // StaleIfError
	StaleShort          time.Duration // StaleIfError of shieldedAges
	Soft                time.Duration // SoftTimeout
	Again               weir.Backoff  // FailureMemo
	Every               time.Duration // resolution of the series
}

var (
	minuteAway = sourceDownSetup{
		Before: 5 * time.Second, Away: time.Minute, After: 15 * time.Second,
		Rate: 50, Keys: 10,
		Call: 20 * time.Millisecond, Fails: time.Second,
		TTL: time.Second, Stale: 5 * time.Minute, StaleShort: 20 * time.Second, Soft: 100 * time.Millisecond,
		Again: weir.Backoff{Initial: 500 * time.Millisecond, Max: 5 * time.Second},
		Every: time.Second,
	}
	momentAway = sourceDownSetup{
		Before: 500 * time.Millisecond, Away: 2 * time.Second, After: 2 * time.Second,
		Rate: 100, Keys: 10,
		Call: 2 * time.Millisecond, Fails: 50 * time.Millisecond,
		TTL: 100 * time.Millisecond, Stale: time.Minute, StaleShort: 600 * time.Millisecond, Soft: 10 * time.Millisecond,
		Again: weir.Backoff{Initial: 50 * time.Millisecond, Max: 400 * time.Millisecond},
		Every: 100 * time.Millisecond,
	}
)

func (s sourceDownSetup) whole() time.Duration { return s.Before + s.Away + s.After }

// mostCalls bounds weir's calls to the source while it is down. Each key has one
// before weir notices, one after each wait while the waits double, and then one per
// Again.Max.
func (s sourceDownSetup) mostCalls() int {
	doublings := math.Ceil(math.Log2(float64(s.Again.Max) / float64(s.Again.Initial)))
	return s.Keys * int(2+doublings+math.Ceil(float64(s.Away)/float64(s.Again.Max)))
}

// Names of the counts of source-down.
const (
	callsAway    = "calls while it was away"
	oldestServed = "oldest answer, s"
	oldestLast   = "oldest of the last answers, s"
)

func runSourceDown(ctx context.Context, l *scenario.Lab) error {
	set := scenario.Size(l, minuteAway, momentAway)
	var servers []*scenario.Server
	for _, variant := range []string{unprotected, xsyncCached, shieldedAges, shieldedStale} {
		s, err := l.Serve(ctx, variant, set)
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	if err := l.MeasureTogether(ctx, servers, func(ctx context.Context) ([]result.Measurement, error) {
		return outage(ctx, set, servers)
	}); err != nil {
		return err
	}
	judgeSourceDown(l, set)
	return nil
}

func judgeSourceDown(l *scenario.Lab, set sourceDownSetup) {
	m := l.One(shieldedStale)
	l.Check("weir: no request fails", m.Failures == 0, "%d of %d: %s", m.Failures, m.Requests, m.FirstFailure)
	l.Check(fmt.Sprintf("weir: at most %d calls while the source is down", set.mostCalls()), m.Values[callsAway] <= float64(set.mostCalls()),
		"%.0f calls", m.Values[callsAway])
	l.CheckTime("weir: no caller waits until the source has failed", slowestMS(m) < ms(set.Fails),
		"%.0f ms at most; SoftTimeout is %v", slowestMS(m), set.Soft)
	// The value ages a little on its way to the client.
	const grace = time.Second
	l.Check("weir: when the source is back, answers are new again", m.Values[oldestLast] < set.After.Seconds(),
		"the last are at most %.2f s old; the source came back %v before the end", m.Values[oldestLast], set.After)
	for _, w := range []struct {
		variant string
		window  time.Duration
	}{{shieldedStale, set.Stale}, {shieldedAges, set.StaleShort}} {
		age := l.One(w.variant).Values[oldestServed]
		l.Check(fmt.Sprintf("%s: no answer is older than %v", w.variant, set.TTL+w.window), age <= (set.TTL+w.window+grace).Seconds(), "%.2f s at most", age)
	}
	short := l.One(shieldedAges)
	l.Check("weir, with a window shorter than the outage: then callers fail", short.Failures > 0, "%d of %d", short.Failures, short.Requests)
	none := l.One(unprotected)
	l.Row(result.NewRow("requests that fail", "requests", result.Lower).Here(float64(none.Failures), float64(m.Failures)))
	l.Row(result.NewRow("calls to the source while it is down", "calls", result.Lower).Here(none.Values[callsAway], m.Values[callsAway]))
	l.Note("All variants have their load and their outage at the same time: %g requests per second for %d keys, which stay fresh for %v. The source is down for %v, from %v on.",
		set.Rate, set.Keys, set.TTL, set.Away, set.Before)
	l.Note("The singleflight runs its call without the caller's context, so that here, too, the first caller can leave.")
}

// An outcome holds the results of a variant's callers.
type outcome struct {
	replies []reply
	age     []time.Duration // of the value of each good reply when it arrived
}

// outage sends the same open loop to all servers, and takes their source down while
// it runs.
func outage(ctx context.Context, set sourceDownSetup, servers []*scenario.Server) ([]result.Measurement, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	got := make([]result.Measurement, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { got[i] = arrivals(ctx, set, s.URL, start).measurement(set) })
	}
	err := errors.Join(
		tell(ctx, servers, "/away", start.Add(set.Before)),
		tell(ctx, servers, "/back", start.Add(set.Before+set.Away)),
	)
	if err != nil {
		cancel()
	}
	all.Wait()
	return got, errors.Join(err, context.Cause(ctx))
}

// tell sends a command to all servers at the same moment.
func tell(ctx context.Context, servers []*scenario.Server, what string, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var errs []error
	for _, s := range servers {
		_, err := s.Control(ctx, what)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// arrivals sends requests at a constant rate, whatever their outcome.
func arrivals(ctx context.Context, set sourceDownSetup, url string, start time.Time) outcome {
	client := newClient(patience)
	defer client.CloseIdleConnections()
	n := int(set.Rate * set.whole().Seconds())
	o := outcome{make([]reply, n), make([]time.Duration, n)}
	var all sync.WaitGroup
	for i := range n {
		due := start.Add(time.Duration(float64(i) / set.Rate * float64(time.Second)))
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
		}
		all.Go(func() {
			o.replies[i] = ask(ctx, client, url+"/?key="+strconv.Itoa(i%set.Keys), start, due)
			if made, err := strconv.ParseInt(o.replies[i].body, 10, 64); o.replies[i].err == nil && err == nil {
				o.age[i] = time.Since(time.Unix(0, made))
			}
		})
	}
	all.Wait()
	return o
}

// measurement summarizes the callers' results.
func (o outcome) measurement(set sourceDownSetup) result.Measurement {
	m := tally(fmt.Sprintf("%g requests/s, open loop, %v", set.Rate, set.whole()), o.replies, set.whole())
	every, buckets := set.Every, int(set.whole()/set.Every)
	good, failed, age := make([]float64, buckets), make([]float64, buckets), make([]float64, buckets)
	m.Values = map[string]float64{}
	for i, r := range o.replies {
		b := min(int(r.at/every), buckets-1)
		if r.err != nil {
			failed[b] += 1 / every.Seconds()
			continue
		}
		good[b] += 1 / every.Seconds()
		seconds := o.age[i].Seconds()
		age[b] = max(age[b], seconds)
		m.Values[oldestServed] = max(m.Values[oldestServed], seconds)
		if r.at > set.whole()-set.After/5 {
			m.Values[oldestLast] = max(m.Values[oldestLast], seconds)
		}
	}
	for _, s := range []result.Series{
		{Name: result.GoodAnswers, Unit: "answers/s", Values: good},
		{Name: "failed requests", Unit: "requests/s", Values: failed},
		{Name: "age of the oldest answer", Unit: "s", Values: age},
	} {
		s.EveryMS = ms(every)
		m.Series = append(m.Series, s)
	}
	return m
}

// errAway is the error of a call while the source is down.
var errAway = errors.New("the source does not answer")

// A distant is a source that can be down.
type distant struct {
	set       sourceDownSetup
	meter     scenario.Meter
	away      atomic.Bool
	callsAway atomic.Int64
}

// call returns the time at which the response was made.
func (d *distant) call(ctx context.Context, _ string) (string, error) {
	defer d.meter.Begin()()
	takes, err := d.set.Call, error(nil)
	if d.away.Load() {
		d.callsAway.Add(1)
		takes, err = d.set.Fails, errAway
	}
	select {
	case <-time.After(takes):
		return strconv.FormatInt(time.Now().UnixNano(), 10), err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func sourceDownService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	d := new(distant)
	if err := json.Unmarshal(o.Params, &d.set); err != nil {
		return nil, err
	}
	get, err := d.protect(o.Variant)
	if err != nil {
		return nil, err
	}
	control := http.NewServeMux()
	control.HandleFunc("POST /away", func(http.ResponseWriter, *http.Request) { d.away.Store(true) })
	control.HandleFunc("POST /back", func(http.ResponseWriter, *http.Request) { d.away.Store(false) })
	return &scenario.Service{
		Meter:   &d.meter,
		Control: control,
		Values:  func() map[string]float64 { return map[string]float64{callsAway: float64(d.callsAway.Load())} },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, err := get(r.Context(), r.FormValue("key"))
			if err != nil {
				answerError(w, err)
				return
			}
			fmt.Fprintln(w, answer)
		}),
	}, nil
}

// protect wraps the source with a variant.
func (d *distant) protect(variant string) (getter, error) {
	options := weir.Options{
		TTL:          d.set.TTL,
		StaleIfError: d.set.Stale,
		SoftTimeout:  d.set.Soft,
		FailureMemo:  weir.FailureMemo{Transient: d.set.Again},
	}
	switch variant {
	case xsyncCached:
		answers := cache.New[string, string]()
		shared, err := protect(xsyncChan, func(ctx context.Context, key string) (string, error) {
			v, err := d.call(ctx, key)
			if err == nil {
				answers.Set(key, v, cache.WithExpiration(d.set.TTL))
			}
			return v, err
		}, weir.Options{})
		return func(ctx context.Context, key string) (string, error) {
			if v, ok := answers.Get(key); ok {
				return v, nil
			}
			return shared(ctx, key)
		}, err
	case shieldedAges:
		options.StaleIfError = d.set.StaleShort
	}
	return protect(variant, d.call, options)
}
