package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var doOnce = scenario.Scenario{
	Name:  "do-once",
	Title: "Do once, return it to everyone",
	Asks:  "Twenty clients want the same result, and the source gets slower with every concurrent call. What if one call serves them all?",
	Published: &result.Published{
		Title: "go-singleflight-example",
		Setup: "An external call takes 1,000 ms and another 100 ms for each call that is in progress, itself included. ab sends 100 requests, 20 at a time. Statistics of the calls are recorded.",
		Flaws: []string{
			"singleflight gives every caller the same pointer: what one caller writes into the value, the others send. Weir's Clone gives each caller a copy; a table counts the responses with another caller's number.",
		},
	},
	Needs:   []string{"ab"},
	Service: doOnceService,
	Run:     runDoOnce,
}

// An externalCall has the durations of the external call; the small size uses shorter
// ones.
type externalCall struct{ Base, Each time.Duration }

var (
	publishedCall = externalCall{time.Second, 100 * time.Millisecond}
	smallCall     = externalCall{50 * time.Millisecond, time.Millisecond}
)

func runDoOnce(ctx context.Context, l *scenario.Lab) error {
	call := scenario.Size(l, publishedCall, smallCall)
	requests, clients := scenario.Size(l, 100, 40), scenario.Size(l, 20, 8)
	for _, variant := range []string{unprotected, xsync, coalescing, cached} {
		s, err := l.Serve(ctx, variant, call)
		if err != nil {
			return err
		}
		m, err := l.Ab(ctx, s, requests, clients, scenario.Job{Load: load.Spec{URLs: []string{"/get"}}})
		if err != nil {
			return err
		}
		if variant != unprotected && variant != xsync {
			l.Check(variant+": no request fails", m.Failures == 0, "%d of %d failed", m.Failures, m.Requests)
			l.Check(variant+": no caller gets what another caller wrote", m.Values[mixedUp] == 0, "%.0f answers", m.Values[mixedUp])
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	t := result.Table{Title: "Responses with what another caller wrote into the shared value", Head: []string{"variant", "answers", "of"}}
	for _, variant := range []string{unprotected, xsync, coalescing, cached} {
		m := l.One(variant)
		t.Cells = append(t.Cells, []string{variant, fmt.Sprint(m.Values[mixedUp]), fmt.Sprint(m.Requests)})
	}
	l.Table(t)
	before, after, kept := l.One(unprotected), l.One(coalescing), l.One(cached)
	l.Check("unprotected: each request is a call", before.Source.Calls == before.Requests, "%d calls", before.Source.Calls)
	l.Check("coalescing: one call at a time", after.Source.Most == 1, "%d at once", after.Source.Most)
	l.Check("coalescing: fewer calls than requests", after.Source.Calls < after.Requests, "%d calls", after.Source.Calls)
	l.Check("cached: one call", kept.Source.Calls == 1, "%d calls", kept.Source.Calls)
	l.CheckTime("coalescing: at most 6 calls", after.Source.Calls <= 6, "%d calls", after.Source.Calls)
	l.CheckTime("coalescing: at most 6.7 s", after.Seconds <= 6.7, "%.2f s", after.Seconds)

	l.Row(result.NewRow("time for all requests", "s", result.Lower).Published(16.031, 6.628).Here(before.Seconds, after.Seconds))
	l.Row(result.NewRow("calls", "calls", result.Lower).Published(100, 6).Here(float64(before.Source.Calls), float64(after.Source.Calls)))
	l.Row(result.NewRow("calls at once", "calls", result.Lower).Published(20, 1).Here(float64(before.Source.Most), float64(after.Source.Most)))
	l.Row(result.NewRow("average call", "ms", result.Lower).Published(2962, 1101).Here(before.Source.MeanMS, after.Source.MeanMS))
	l.Row(result.NewRow("longest call", "ms", result.Lower).Published(3002, 1102).Here(before.Source.LongestMS, after.Source.LongestMS))
	return nil
}

// mixedUp names the count of responses that carried the number of another caller.
const mixedUp = "answers with another caller's number"

// A book is what the external call returns: by pointer, as published.
type book struct {
	ID     string
	Asked  atomic.Int64 // written by each caller; a plain field in the published code
	Detail string
}

func (b *book) clone() *book {
	c := &book{ID: b.ID, Detail: b.Detail}
	c.Asked.Store(b.Asked.Load())
	return c
}

func doOnceService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var call externalCall
	if err := o.Decode(&call); err != nil {
		return nil, err
	}
	meter := new(scenario.Meter)
	external := func(ctx context.Context, id string) (*book, error) {
		defer meter.Begin()()
		time.Sleep(call.Base + time.Duration(meter.Running())*call.Each)
		return &book{ID: id, Detail: "as the external service has it"}, nil
	}
	get := external
	switch o.Variant {
	case xsync:
		var g singleflight.Group
		get = func(ctx context.Context, id string) (*book, error) {
			v, err, _ := g.Do(id, func() (any, error) { return external(ctx, id) })
			if err != nil {
				return nil, err
			}
			return v.(*book), nil
		}
	case coalescing, cached:
		source := weir.Source[string, *book]{Load: external, Clone: (*book).clone}
		options := weir.Options{} // without a TTL nothing is stored
		if o.Variant == cached {
			options.TTL = time.Minute
		}
		g, err := weir.NewFrom(source, options)
		if err != nil {
			return nil, err
		}
		get = g.Get
	}
	var numbers, mixed atomic.Int64
	return &scenario.Service{
		Meter:  meter,
		Values: func() map[string]float64 { return map[string]float64{mixedUp: float64(mixed.Load())} },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := get(r.Context(), "the one that all want")
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			number := numbers.Add(1)
			b.Asked.Store(number)
			time.Sleep(time.Millisecond) // the rest of a handler's work
			sent := b.Asked.Load()
			if sent != number {
				mixed.Add(1)
			}
			// ab counts a response whose length differs from the first one's as a
			// failure.
			fmt.Fprintf(w, `{"id":%q,"asked":"%08d","detail":%q}`+"\n", b.ID, sent, b.Detail)
		}),
	}, nil
}
