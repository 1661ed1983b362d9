package weirotel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
	traceparent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

// A call has one span, of kind client, a child of the request that started it. A
// request that joins the call has a span for its wait, with a link. The call carries
// the span's context.
func TestC9_OneSpanACallAndItsJoinersLinked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		var sent http.Header
		h := r.handler(func(w http.ResponseWriter, req *http.Request) {
			sent = req.Header.Clone()
			time.Sleep(300 * time.Millisecond)
			cached(w, req)
		}, weirhttp.Options{Route: "shop"})
		first, a := r.caller("first")
		go ask(first, h, "http://shop.example:8080/secret?x=1")
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		second, b := r.caller("second")
		go ask(second, h, "http://shop.example:8080/secret?x=1", "Traceparent: "+traceparent)
		time.Sleep(time.Second)

		call := r.single("GET shop")
		if call.Parent().SpanID() != a.SpanContext().SpanID() || call.SpanKind() != trace.SpanKindClient {
			t.Errorf("the parent of the call is %v, its kind %v; want a child of the first request's, client", call.Parent().SpanID(), call.SpanKind())
		}
		if d := call.EndTime().Sub(call.StartTime()); d != 300*time.Millisecond {
			t.Errorf("the call took %v; want 300ms", d)
		}
		has(t, call, "http.request.method=GET", "url.scheme=http", "server.address=shop.example", "server.port=8080",
			"http.response.status_code=200", "weir.route=shop", "weir.background=false", "error.type=none", "url.full=none", "weir.headed=0.3", "weir.queued=0")
		want := "00-" + call.SpanContext().TraceID().String() + "-" + call.SpanContext().SpanID().String() + "-01"
		if got := sent.Get("Traceparent"); got != want {
			t.Errorf("the call carries %q; want %q", got, want)
		}
		wait := r.single("weir wait shop")
		if wait.Parent().SpanID() != b.SpanContext().SpanID() || !slices.Equal(links(wait), []trace.SpanID{call.SpanContext().SpanID()}) {
			t.Errorf("the parent of the wait is %v, its links %v; want the second request's span, and a link to the call", wait.Parent().SpanID(), links(wait))
		}
		if d := wait.EndTime().Sub(wait.StartTime()); d != 200*time.Millisecond {
			t.Errorf("the wait took %v; want 200ms", d)
		}

		for range 10 {
			ask(first, h, "http://shop.example:8080/secret?x=1")
		}
		if n := len(r.spans.Started()); n != 4 || h.Stats().Hits != 10 {
			t.Errorf("%d spans after %d hits; want 4, and none for a hit", n, h.Stats().Hits)
		}
	})
}

// Without a Middleware the call continues the trace that a client names, and the
// client's fields do not remain next to those of the call.
func TestC9_TheClientsTrace(t *testing.T) {
	tests := []struct {
		name      string
		o         weirotel.Options
		wrap      bool
		same      bool // the call is in the client's trace
		linked    bool // with a link to the client's span
		state     string
		wantTenth string // of the baggage
	}{
		{"no middleware", weirotel.Options{}, false, true, false, "a=1", ""},
		{"middleware", weirotel.Options{}, true, true, false, "a=1", ""},
		{"untrusted", weirotel.Options{Untrusted: true}, true, false, true, "", ""},
		{"untrusted, no middleware", weirotel.Options{Untrusted: true}, false, false, true, "", ""},
		{"baggage", weirotel.Options{Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})}, true, true, false, "a=1", "10"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := open(t, test.o)
			var sent http.Header
			var inside context.Context
			var h http.Handler = r.handler(func(w http.ResponseWriter, req *http.Request) {
				sent, inside = req.Header.Clone(), req.Context()
				cached(w, req)
			}, weirhttp.Options{Route: "shop"})
			if test.wrap {
				h = r.Middleware("shop")(h)
			}
			ask(t.Context(), h, "http://shop.example/", "Traceparent: "+traceparent, "Tracestate: a=1", "Baggage: tenth=10")
			call := r.single("GET shop")
			if got := call.SpanContext().TraceID().String() == clientTrace; got != test.same {
				t.Errorf("the call's trace is %v; want the client's: %v", call.SpanContext().TraceID(), test.same)
			}
			if got := len(links(call)) == 1 && links(call)[0].String() == clientSpan; got != test.linked {
				t.Errorf("the call links to %v; want the client's span: %v", links(call), test.linked)
			}
			if got := sent.Get("Traceparent"); got == traceparent || !strings.Contains(got, call.SpanContext().SpanID().String()) {
				t.Errorf("the call carries %q; want its own span's", got)
			}
			if got := sent.Get("Tracestate"); got != test.state {
				t.Errorf("the call carries the state %q; want %q", got, test.state)
			}
			if got := baggage.FromContext(inside).Member("tenth").Value(); got != test.wantTenth {
				t.Errorf("the baggage has %q; want %q", got, test.wantTenth)
			}
		})
	}
}

// A refresh has a separate trace, with a link to the hit that started it.
func TestC9_RefreshesOfResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		h := r.handler(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60, stale-while-revalidate=60")
			io.WriteString(w, "hello")
		}, weirhttp.Options{Route: "shop"})
		ask(t.Context(), h, "http://shop.example/")
		time.Sleep(90 * time.Second)
		ctx, span := r.caller("request")
		ask(ctx, h, "http://shop.example/")
		synctest.Wait()
		calls := r.ended("GET shop")
		if len(calls) != 2 {
			t.Fatalf("%d spans of calls; want 2", len(calls))
		}
		has(t, calls[1], "weir.background=true")
		if calls[1].Parent().IsValid() || !slices.Equal(links(calls[1]), []trace.SpanID{span.SpanContext().SpanID()}) {
			t.Errorf("the parent of the refresh is %v, its links %v; want a root, and a link to the request's span", calls[1].Parent(), links(calls[1]))
		}
	})
}

// The status of a call is recorded, and its failure, without the error's text.
func TestC9_FailuresOfCalls(t *testing.T) {
	tests := []struct {
		name   string
		next   http.HandlerFunc
		status codes.Code
		attrs  []string
	}{
		{"not modified", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, codes.Unset, []string{"http.response.status_code=204", "error.type=none"}},
		{"not found", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, codes.Error, []string{"http.response.status_code=404", "error.type=404"}},
		{"unavailable", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, codes.Error, []string{"http.response.status_code=503", "error.type=503"}},
		{"panic", func(http.ResponseWriter, *http.Request) { panic(secret) }, codes.Error, []string{"http.response.status_code=none", "error.type=panic"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := open(t, weirotel.Options{})
				h := r.handler(test.next, weirhttp.Options{Route: "shop"})
				ask(t.Context(), h, "http://shop.example/")
				synctest.Wait()
				call := r.single("GET shop")
				has(t, call, test.attrs...)
				if call.Status().Code != test.status || strings.Contains(text(call), secret) {
					t.Errorf("status %v, %s; want %v, without the error's text", call.Status(), text(call), test.status)
				}
			})
		})
	}
}

// With Options.URLs the URL is recorded, and an unknown method becomes _OTHER.
func TestC9_URLsAndMethods(t *testing.T) {
	r := open(t, weirotel.Options{URLs: true})
	h := r.handler(cached, weirhttp.Options{Route: "shop"})
	req := httptest.NewRequest("BREW", "https://shop.example/pot?milk=1", nil)
	h.ServeHTTP(httptest.NewRecorder(), req)
	call := r.single("_OTHER shop")
	has(t, call, "url.full=https://shop.example/pot?milk=1", "http.request.method=_OTHER", "url.scheme=https", "server.port=443")
}

// A refusal and a stale response are events of the span around the Handler.
func TestC9_EventsOfRequests(t *testing.T) {
	one, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	permit, err := one.TryAcquire()
	if err != nil {
		t.Fatal(err)
	}
	defer permit.Release(limit.Success)
	r := open(t, weirotel.Options{})
	h := r.handler(cached, weirhttp.Options{Route: "shop", Limiter: one})
	ctx, span := r.caller("request")
	if w := ask(ctx, h, "http://shop.example/"); w.Code != http.StatusServiceUnavailable {
		t.Fatalf("status %d; want 503", w.Code)
	}
	span.End()
	request := r.single("request")
	if e := request.Events(); len(e) != 1 || e[0].Name != "weir.refused" || textOf(e[0].Attributes, "weir.reason") != "queue_full" {
		t.Errorf("events %v; want weir.refused for queue_full", e)
	}

	o := r.HTTP()
	ctx, span = r.caller("stale")
	req := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
	o.Event(req.Context(), weirhttp.Event{Kind: weirhttp.EventStale, Request: req, Err: errors.New(secret)})
	o.Event(t.Context(), weirhttp.Event{Kind: weirhttp.EventStale, Err: errors.New(secret)}) // without a request's span
	o.Event(t.Context(), weirhttp.Event{Kind: weirhttp.EventStale, Request: httptest.NewRequest(http.MethodGet, "/", nil), Err: errors.New(secret)})
	span.End()
	stale := r.single("stale")
	if e := stale.Events(); len(e) != 1 || e[0].Name != "weir.stale" || strings.Contains(text(stale), secret) {
		t.Errorf("events %s; want one, weir.stale, without the error's text", text(stale))
	}
}

// A Transport is observed like a Handler.
func TestC9_CallsOfATransport(t *testing.T) {
	r := open(t, weirotel.Options{})
	var sent string
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sent = req.Header.Get("Traceparent")
		cached(w, req)
	}))
	defer origin.Close()
	tr, err := weirhttp.NewTransport(nil, weirhttp.Options{Route: "prices", Observer: r.HTTP()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := r.caller("program")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, origin.URL+"/tea", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := r.single("GET prices")
	if call.Parent().SpanID() != span.SpanContext().SpanID() || !strings.Contains(sent, call.SpanContext().SpanID().String()) {
		t.Errorf("the parent of the call is %v, and it sent %q; want the program's span, and the call's own", call.Parent().SpanID(), sent)
	}
	has(t, call, "server.address=127.0.0.1", "http.response.status_code=200")
}
