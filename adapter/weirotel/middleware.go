package weirotel

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/weir-go/weir/weirhttp"
)

// Middleware returns middleware that records http.server.request.duration and
// http.server.active_requests. It puts the trace that a request names into its
// context, so that the spans of calls and waits belong to it. It starts no span
// itself, so a hit has none.
//
// The next handler is a weirhttp.Handler, a gateway.Gateway, or a handler that wraps
// one. http.route is the Route of its Receipt, or else route, or omitted if both are
// empty; weir.outcome is the Outcome. Receipts are passed on to the outer
// ResponseWriter.
func (t *Telemetry) Middleware(route string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return t.handler(next, route) }
}

func (t *Telemetry) handler(next http.Handler, route string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.tracer != nil && !t.o.Untrusted {
			ctx := t.o.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			if ctx != r.Context() {
				r = r.WithContext(ctx)
			}
		}
		if t.inst == nil {
			next.ServeHTTP(w, r)
			return
		}
		t.inst.serve(w, r, next, route)
	})
}

// serve passes r to next, and records it.
func (in *instruments) serve(w http.ResponseWriter, r *http.Request, next http.Handler, route string) {
	start := in.now()
	ctx := r.Context()
	came := arrived{methodNumber(r.Method), scheme(r) == "https"}
	in.active.add(came, 1)
	// Not from a pool: a handler that writes after its return would write into
	// another client's response.
	noted := &writer{ResponseWriter: w, route: route}
	returned := false
	defer func() { // deferred, because next may panic; the panic continues
		d := in.now() - start
		in.active.add(came, -1)
		in.requests.get(noted.answered(came, r, returned), answered.attrs).Record(ctx, d)
	}()
	next.ServeHTTP(noted, r)
	returned = true
}

// arrived determines the attributes of a request that are known when it arrives.
type arrived struct {
	method uint8 // of methods
	secure bool  // over TLS
}

func (a arrived) attrs() []attribute.KeyValue {
	scheme := "http"
	if a.secure {
		scheme = "https"
	}
	return []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(methods[a.method]), semconv.URLScheme(scheme)}
}

// answered determines the attributes of a completed request. It is small, because it
// is looked up for each request.
type answered struct {
	route string
	arrived
	major, minor uint8
	outcome      weirhttp.Outcome
	panicked     bool
	status       int32
}

func (a answered) attrs() []attribute.KeyValue {
	attrs := a.arrived.attrs()
	if v := version(a.major, a.minor); v != "" {
		attrs = append(attrs, semconv.NetworkProtocolVersion(v))
	}
	if a.route != "" {
		attrs = append(attrs, semconv.HTTPRoute(a.route))
	}
	if a.status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(int(a.status)))
	}
	if a.outcome != 0 { // next has set it
		attrs = append(attrs, outcomeKey.String(a.outcome.String()))
	}
	switch {
	case a.panicked:
		return withError("panic", attrs...)
	case a.status >= http.StatusInternalServerError:
		return withError(strconv.Itoa(int(a.status)), attrs...)
	}
	return attrs
}

// answered returns the attributes of r, which was answered through w.
func (w *writer) answered(came arrived, r *http.Request, returned bool) answered {
	a := answered{
		arrived: came, route: w.route, major: uint8(r.ProtoMajor), minor: uint8(r.ProtoMinor),
		outcome: w.outcome, panicked: !returned, status: int32(w.status),
	}
	if returned && a.status == 0 {
		a.status = http.StatusOK // the server's status if a handler writes nothing
	}
	return a
}

// version returns the version of the protocol.
func version(major, minor uint8) string {
	switch {
	case major == 1 && minor == 0:
		return "1.0"
	case major == 1:
		return "1.1"
	case major == 2:
		return "2"
	case major == 3:
		return "3"
	}
	return ""
}
