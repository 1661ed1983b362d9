package weirotel

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/weirhttp"
)

var _ weirhttp.Observer = calls{}

// calls observes Handlers, Transports and Gateways.
type calls struct{ t *Telemetry }

// HTTP returns an Observer for Options.Observer of any number of Handlers and
// Transports, and for Config.Observer of a Gateway.
func (t *Telemetry) HTTP() weirhttp.Observer { return calls{t} }

// CallStart implements [weirhttp.Observer].
func (o calls) CallStart(ctx context.Context, c weirhttp.CallInfo, header http.Header) context.Context {
	t := o.t
	if t.tracer == nil {
		return ctx
	}
	b := beginning{
		name: method(c.Request.Method) + " " + c.Route, kind: trace.SpanKindClient, attrs: t.callAttrs(c), background: c.Background,
	}
	carrier := propagation.HeaderCarrier(header)
	if !trace.SpanContextFromContext(ctx).IsValid() { // there is no Middleware, or Untrusted is set
		remote := t.o.Propagator.Extract(ctx, carrier)
		if t.o.Untrusted {
			b.remote = trace.SpanContextFromContext(remote)
		} else {
			ctx = remote
		}
	}
	ctx = t.start(ctx, b)
	if trace.SpanContextFromContext(ctx).IsValid() {
		for _, field := range t.o.Propagator.Fields() {
			header.Del(field) // the client's, of which Inject might leave a part
		}
		t.o.Propagator.Inject(ctx, carrier)
	}
	return ctx
}

// callAttrs returns the attributes that the span of a call starts with.
func (t *Telemetry) callAttrs(c weirhttp.CallInfo) []attribute.KeyValue {
	r := c.Request
	scheme := scheme(r)
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = r.Host, ""
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		number = map[string]int{"http": 80, "https": 443}[scheme]
	}
	attrs := []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(method(r.Method)), semconv.URLScheme(scheme),
		semconv.ServerAddress(host), semconv.ServerPort(number),
		routeKey.String(c.Route), backgroundKey.Bool(c.Background),
	}
	if c.Fallback != "" {
		attrs = append(attrs, fallbackKey.String(c.Fallback), reasonKey.String(c.FallbackReason))
	}
	if t.o.URLs {
		attrs = append(attrs, semconv.URLFull(scheme+"://"+r.Host+r.URL.RequestURI()))
	}
	return attrs
}

// CallEnd implements [weirhttp.Observer].
func (o calls) CallEnd(ctx context.Context, c weirhttp.CallInfo, end weirhttp.CallEnd) {
	how := called{route: c.Route, method: method(c.Request.Method), status: end.Status}
	switch {
	case end.Err != nil:
		how.errorType = errorType(end.Err)
	case end.Status >= http.StatusBadRequest:
		how.errorType = strconv.Itoa(end.Status)
	}
	if in := o.t.inst; in != nil {
		in.calls.get(how, called.attrs).Record(ctx, end.Duration)
	}
	span := o.t.started(ctx)
	if span == nil {
		return
	}
	span.SetAttributes(queuedKey.Float64(end.Queued.Seconds()))
	if end.Status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(end.Status), headedKey.Float64(end.Headed.Seconds()))
	}
	switch {
	case end.Err != nil:
		o.t.fail(span, end.Err)
	case how.errorType != "":
		span.SetAttributes(semconv.ErrorTypeKey.String(how.errorType))
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(end.Start.Add(end.Duration)))
}

// Waited implements [weirhttp.Observer].
func (o calls) Waited(ctx context.Context, w weirhttp.Wait) {
	how := waited{unit: routeKey.String(w.Route), joined: true}
	if w.Err != nil {
		how.errorType = errorType(w.Err)
	}
	if in := o.t.inst; in != nil {
		in.waits.get(how, waited.attrs).Record(ctx, w.Duration)
	}
	if o.t.tracer != nil {
		o.t.wait(ctx, "weir wait "+w.Route, w.Start, w.Duration, w.Call, w.Err, routeKey.String(w.Route), joinedKey.Bool(true))
	}
}

// Event implements [weirhttp.Observer]. It adds an event to the span around the
// Handler, if the program has started one.
func (o calls) Event(ctx context.Context, e weirhttp.Event) {
	if o.t.tracer == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	switch e.Kind {
	case weirhttp.EventRefused:
		o.t.refusal(span, e.Err)
	case weirhttp.EventPanicked:
		o.t.panicked(span, e.Err)
	case weirhttp.EventStale:
		span.AddEvent("weir.stale", trace.WithAttributes(semconv.ErrorTypeKey.String(errorType(e.Err))))
	case weirhttp.EventLagged:
		span.AddEvent("weir.lagged", trace.WithAttributes(semconv.ErrorTypeKey.String(errorType(e.Err))))
	}
}

// called determines the attributes of a call's duration. It does not include the
// host, because clients choose it.
type called struct {
	route, method, errorType string
	status                   int
}

func (c called) attrs() []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(c.method), routeKey.String(c.route)}
	if c.status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(c.status))
	}
	return withError(c.errorType, attrs...)
}

// methods are the known methods; clients may send any.
var methods = [...]string{
	semconv.HTTPRequestMethodOther.Value.AsString(), http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
	http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace, "QUERY",
}

// methodNumber returns the index of m in methods, 0 if it is not known.
func methodNumber(m string) uint8 {
	for i := 1; i < len(methods); i++ {
		if methods[i] == m {
			return uint8(i)
		}
	}
	return 0
}

// method returns m, or _OTHER if it is not known.
func method(m string) string { return methods[methodNumber(m)] }

func scheme(r *http.Request) string {
	switch {
	case r.URL.Scheme == "http" || r.URL.Scheme == "https":
		return r.URL.Scheme
	case r.TLS != nil:
		return "https"
	}
	return "http"
}
