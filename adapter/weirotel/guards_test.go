package weirotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirtest"
)

// A load has one span, for the time that it ran, a child of the first caller's span.
// A caller that joins has a span for its wait in its own trace, with a link to the
// load's.
func TestC9_OneSpanALoadAndItsJoinersLinked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		g := r.guard(func(context.Context, string) (string, error) {
			time.Sleep(300 * time.Millisecond)
			return "3", nil
		}, weir.Options{Name: "prices", TTL: time.Minute})

		first, a := r.caller("first")
		go g.Get(first, "tea")
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		var joiners []trace.Span
		for range 2 {
			ctx, span := r.caller("joiner")
			joiners = append(joiners, span)
			go g.Get(ctx, "tea")
		}
		time.Sleep(time.Second)

		load := r.single("weir load prices")
		if load.Parent().SpanID() != a.SpanContext().SpanID() || load.SpanKind() != trace.SpanKindInternal || len(load.Links()) != 0 {
			t.Errorf("the parent of the load's span is %v, its kind %v, its links %v; want the first caller's span, internal, none", load.Parent().SpanID(), load.SpanKind(), links(load))
		}
		if d := load.EndTime().Sub(load.StartTime()); d != 300*time.Millisecond {
			t.Errorf("the load's span took %v; want 300ms", d)
		}
		has(t, load, "weir.guard=prices", "weir.outcome=loaded", "weir.keys=1", "weir.background=false", "weir.late=false", "error.type=none")

		waits := r.ended("weir wait prices")
		if len(waits) != 2 {
			t.Fatalf("%d spans of waits; want one for each of the two that joined", len(waits))
		}
		for i, w := range waits {
			own := joiners[0].SpanContext()
			if w.SpanContext().TraceID() != own.TraceID() {
				own = joiners[1].SpanContext()
			}
			if w.Parent().SpanID() != own.SpanID() || !slices.Equal(links(w), []trace.SpanID{load.SpanContext().SpanID()}) {
				t.Errorf("the parent of wait %d is %v, its links %v; want its caller's span, and a link to the load's", i, w.Parent().SpanID(), links(w))
			}
			if d := w.EndTime().Sub(w.StartTime()); d != 200*time.Millisecond {
				t.Errorf("wait %d took %v; want 200ms", i, d)
			}
			has(t, w, "weir.guard=prices", "weir.joined=true")
		}
		if a, b := waits[0].SpanContext().TraceID(), waits[1].SpanContext().TraceID(); a == b {
			t.Error("both waits are in one trace; want each in its caller's")
		}
	})
}

// No kind of hit has a span.
func TestC9_NoSpanAHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		var l weirtest.Loader[string, string]
		l.On("tea").Return("3")
		l.On("none").Fail(weir.ErrNotFound)
		l.On("down").Fail(errors.New("down"))
		g := r.guard(l.Load, weir.Options{
			Name: "prices", TTL: time.Minute, StaleWhileRevalidate: time.Minute, NegativeTTL: time.Hour,
			FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: time.Hour}},
		})
		ctx, _ := r.caller("request")
		keys := []string{"tea", "none", "down"}
		for _, key := range keys {
			g.Get(ctx, key)
		}
		synctest.Wait()
		before := len(r.spans.Started())
		for range 10 {
			for _, key := range keys {
				g.Get(ctx, key)
			}
		}
		time.Sleep(90 * time.Second)
		l.Block("tea") // the refresh has a span, the stale hits have none
		for range 10 {
			g.Get(ctx, "tea")
		}
		synctest.Wait()
		if got := len(r.spans.Started()) - before; got != 1 || g.Stats().Hits != 10 || g.Stats().StaleHits != 10 {
			t.Errorf("%d spans for %d hits, %d stale hits, and one refresh; want 1 for 10 and 10", got, g.Stats().Hits, g.Stats().StaleHits)
		}
		l.Release()
	})
}

// A refresh belongs to no caller: it has a separate trace, with a link to the span of
// the caller that started it.
func TestC9_RefreshInTheBackgroundHasATraceOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		var l weirtest.Loader[string, string]
		l.On("tea").Return("3")
		g := r.guard(l.Load, weir.Options{Name: "prices", TTL: time.Minute, StaleWhileRevalidate: time.Minute})
		g.Get(t.Context(), "tea")
		time.Sleep(90 * time.Second)
		ctx, span := r.caller("request")
		g.Get(ctx, "tea")
		synctest.Wait()
		loads := r.ended("weir load prices")
		if len(loads) != 2 {
			t.Fatalf("%d spans of loads; want 2", len(loads))
		}
		refresh := loads[1]
		has(t, refresh, "weir.background=true")
		if refresh.Parent().IsValid() || refresh.SpanContext().TraceID() == span.SpanContext().TraceID() {
			t.Errorf("the parent of the refresh is %v, its trace %v; want a separate trace", refresh.Parent(), refresh.SpanContext().TraceID())
		}
		if !slices.Equal(links(refresh), []trace.SpanID{span.SpanContext().SpanID()}) {
			t.Errorf("the refresh links to %v; want the request's span", links(refresh))
		}
	})
}

// The time that a load waited for admission is an attribute; the span begins after
// it.
func TestC9_QueueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		one, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		g := r.guard(func(context.Context, string) (string, error) {
			time.Sleep(500 * time.Millisecond)
			return "", nil
		}, weir.Options{Name: "prices", TTL: time.Minute, Limiter: one})
		go g.Get(t.Context(), "tea")
		synctest.Wait()
		start := time.Now()
		go g.Get(t.Context(), "milk")
		time.Sleep(2 * time.Second)
		loads := r.ended("weir load prices")
		if len(loads) != 2 {
			t.Fatalf("%d spans of loads; want 2", len(loads))
		}
		has(t, loads[0], "weir.queued=0")
		has(t, loads[1], "weir.queued=0.5")
		if after := loads[1].StartTime().Sub(start); after != 500*time.Millisecond {
			t.Errorf("the span began %v after the call; want 500ms", after)
		}
	})
}

// secret must not appear in any span.
const secret = "password=hunter2"

// A coded error has a text that must not be recorded.
type coded struct{ text string }

func (e coded) Error() string { return e.text }

// The type of an error is recorded, and its text only with Options.ErrorMessages.
func TestC9_ErrorsWithoutTheirMessage(t *testing.T) {
	for _, messages := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := open(t, weirotel.Options{ErrorMessages: messages})
			var l weirtest.Loader[string, string]
			l.On("tea").Fail(fmt.Errorf("load: %w", coded{secret}))
			l.On("none").Fail(weir.ErrNotFound)
			g := r.guard(l.Load, weir.Options{Name: "prices", Classify: func(error) weir.Class { return weir.ClassPermanent }})
			g.Get(t.Context(), "tea")
			synctest.Wait()
			load := r.single("weir load prices")
			has(t, load, "weir.outcome=failed", "weir.class=permanent", "error.type=weirotel_test.coded")
			if load.Status().Code != codes.Error {
				t.Errorf("status %v; want Error", load.Status())
			}
			if got := strings.Contains(text(load), secret); got != messages {
				t.Errorf("with ErrorMessages %v the span has the text: %v\n%s", messages, got, text(load))
			}
			g.Get(t.Context(), "none")
			synctest.Wait()
			missing := r.ended("weir load prices")[1]
			has(t, missing, "weir.outcome=not_found", "error.type=none")
			if missing.Status().Code != codes.Unset {
				t.Errorf("not-found has the status %v; want none", missing.Status())
			}
		})
	}
}

// text returns everything in s as text.
func text(s sdktrace.ReadOnlySpan) string {
	var b strings.Builder
	b.WriteString(s.Name() + " " + s.Status().Description)
	for _, a := range s.Attributes() {
		b.WriteString(" " + string(a.Key) + "=" + a.Value.String())
	}
	for _, e := range s.Events() {
		b.WriteString(" " + e.Name)
		for _, a := range e.Attributes {
			b.WriteString(" " + string(a.Key) + "=" + a.Value.String())
		}
	}
	return b.String()
}

// A panic is an event, with the type of its value.
func TestC9_PanicsAreEvents(t *testing.T) {
	for _, messages := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := open(t, weirotel.Options{ErrorMessages: messages})
			var l weirtest.Loader[string, string]
			l.On("tea").Panic(secret)
			g := r.guard(l.Load, weir.Options{Name: "prices"})
			g.Get(t.Context(), "tea")
			synctest.Wait()
			load := r.single("weir load prices")
			has(t, load, "error.type=panic")
			if len(load.Events()) != 1 || load.Events()[0].Name != "exception" || textOf(load.Events()[0].Attributes, "exception.type") != "string" {
				t.Errorf("events %v; want one exception of type string", load.Events())
			}
			if got := strings.Contains(text(load), secret); got != messages {
				t.Errorf("with ErrorMessages %v the span has the value: %v", messages, got)
			}
			stack := textOf(load.Events()[0].Attributes, "exception.stacktrace")
			if got := strings.Contains(stack, "weirtest"); got != messages {
				t.Errorf("with ErrorMessages %v the event has the stack: %v", messages, got)
			}
		})
	}
}

// A rejected caller has a span of its wait, since there is no load.
func TestC9_RefusalsAreEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		one, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		if err != nil {
			t.Fatal(err)
		}
		permit, err := one.TryAcquire()
		if err != nil {
			t.Fatal(err)
		}
		g := r.guard(func(context.Context, string) (string, error) { return "", nil }, weir.Options{Name: "prices", Limiter: one})
		ctx, span := r.caller("request")
		if _, err := g.Get(ctx, "tea"); !errors.Is(err, limit.ErrLimited) {
			t.Fatalf("Get = %v; want a refusal", err)
		}
		synctest.Wait()
		wait := r.single("weir wait prices")
		if wait.Parent().SpanID() != span.SpanContext().SpanID() || wait.Status().Code != codes.Error {
			t.Errorf("the parent of the wait is %v, its status %v; want the request's span, and Error", wait.Parent().SpanID(), wait.Status())
		}
		has(t, wait, "error.type=limited", "weir.joined=false")
		if e := wait.Events(); len(e) != 1 || e[0].Name != "weir.refused" || textOf(e[0].Attributes, "weir.reason") != "queue_full" {
			t.Errorf("events %v; want weir.refused for queue_full", e)
		}
		if n := len(r.ended("weir load prices")); n != 0 {
			t.Errorf("%d spans of loads; want none", n)
		}
		permit.Release(limit.Success)
	})
}

// The span of a load that all callers have left ends when the load returns.
func TestC9_AbandonedLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		var l weirtest.Loader[string, string]
		l.Block("tea")
		l.IgnoreContext("tea")
		g := r.guard(l.Load, weir.Options{Name: "prices"})
		ctx, cancel := context.WithCancel(t.Context())
		go g.Get(ctx, "tea")
		synctest.Wait()
		cancel()
		time.Sleep(time.Second)
		if n := len(r.ended("weir load prices")); n != 0 {
			t.Errorf("%d spans before the load has returned; want none", n)
		}
		l.Release()
		synctest.Wait()
		load := r.single("weir load prices")
		has(t, load, "weir.late=true")
		if d := load.EndTime().Sub(load.StartTime()); d != time.Second {
			t.Errorf("the span took %v; want 1s", d)
		}
	})
}

// A result from another instance of the fleet is a wait without a load.
func TestC9_AnswersOfTheFleetAreWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		tier := fleet.NewMemory(fleet.MemoryOptions{})
		load := func(_ context.Context, key string) (string, error) { return key, nil }
		other := weir.Must(weir.New(load, weir.Options{Name: "prices", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}}))
		defer other.Close(context.Background())
		other.Get(t.Context(), "tea")
		g := r.guard(load, weir.Options{Name: "prices", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}})
		g.Get(t.Context(), "tea")
		synctest.Wait()
		wait := r.single("weir wait prices")
		has(t, wait, "weir.joined=false", "error.type=none")
		if len(wait.Links()) != 0 || len(r.ended("weir load prices")) != 0 || g.Stats().Fleet.TierHits != 1 {
			t.Errorf("links %v, %d loads, %d results from the fleet; want none, none, 1", links(wait), len(r.ended("weir load prices")), g.Stats().Fleet.TierHits)
		}
		g.Close(context.Background())
	})
}

// A load inside a load ends only its own span. Without a TracerProvider the caller's
// span is left alone.
func TestC9_SpansOfOthersAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		bare, err := weirotel.New(weirotel.Options{})
		if err != nil {
			t.Fatal(err)
		}
		inner := r.guard(func(ctx context.Context, key string) (string, error) { return key, nil }, weir.Options{Name: "inner", Observer: bare.Guards()})
		outer := r.guard(inner.Get, weir.Options{Name: "outer"})
		ctx, span := r.caller("request")
		outer.Get(ctx, "tea")
		synctest.Wait()
		r.single("weir load outer")
		if n := len(r.spans.Ended()); n != 1 {
			t.Errorf("%d spans have ended; want only that of the outer load", n)
		}
		span.End()
	})
}

// Two Telemetries on one Guard, nested in its context, each end the span that they
// started.
func TestC9_TwoTelemetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := open(t, weirotel.Options{}), open(t, weirotel.Options{})
		g := weir.Must(weir.New(func(context.Context, string) (string, error) { return "", nil }, weir.Options{Name: "prices", Observer: both{a.Guards(), b.Guards()}}))
		defer g.Close(context.Background())
		g.Get(t.Context(), "tea")
		synctest.Wait()
		for _, rec := range []*tracetest.SpanRecorder{a.spans, b.spans} {
			if n := len(rec.Ended()); n != 1 {
				t.Errorf("%d spans; want 1 in each", n)
			}
		}
		g.Close(context.Background())
	})
}

type both struct {
	weir.Observer
	other weir.Observer
}

func (o both) LoadStart(ctx context.Context, l weir.LoadInfo) context.Context {
	return o.other.LoadStart(o.Observer.LoadStart(ctx, l), l)
}

func (o both) LoadEnd(ctx context.Context, l weir.LoadInfo, end weir.LoadEnd) {
	o.Observer.LoadEnd(ctx, l, end)
	o.other.LoadEnd(ctx, l, end)
}
