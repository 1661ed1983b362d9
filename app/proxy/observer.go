package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"golang.org/x/time/rate"

	"github.com/weir-go/weir/app/keysctl"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/plain"
	"github.com/weir-go/weir/weirhttp"
)

// eventsPerSecond is how many events of one kind are logged per second. The counters in
// /stats include all of them.
const eventsPerSecond = 5

var _ weirhttp.Observer = (*observer)(nil)

// An observer logs events that the access log cannot show: responses that would have
// differed in observe mode, clients that were cut off because they fell behind, calls
// whose outcome is unknown, and panics in the gateway.
type observer struct {
	weirhttp.NopObserver
	logger   *slog.Logger
	noQuery  bool
	differed *rate.Limiter
	lagged   *rate.Limiter
	unknown  *rate.Limiter
}

func newObserver(l *slog.Logger, noQuery bool) *observer {
	return &observer{
		logger: plain.Logger(l), noQuery: noQuery,
		differed: rate.NewLimiter(eventsPerSecond, eventsPerSecond), lagged: rate.NewLimiter(eventsPerSecond, eventsPerSecond),
		unknown: rate.NewLimiter(eventsPerSecond, eventsPerSecond),
	}
}

// Event implements [weirhttp.Observer].
func (o *observer) Event(_ context.Context, e weirhttp.Event) {
	switch e.Kind {
	case weirhttp.EventDiffered:
		if o.differed.Allow() {
			o.logger.Warn("observe: this response differs from the one that would have been shared",
				"method", e.Request.Method, "host", plain.Authority(e.Request.Host), "target", o.target(e.Request), "status", e.Status)
		}
	case weirhttp.EventLagged:
		if o.lagged.Allow() {
			o.logger.Warn("a slow client was cut off: it fell behind other clients that share the response",
				"route", e.Route, "host", plain.Authority(e.Request.Host), "target", o.target(e.Request), "error", e.Err)
		}
	case weirhttp.EventUnknown:
		if u, ok := errors.AsType[*weirhttp.UnknownOutcomeError](e.Err); ok && o.unknown.Allow() {
			args := []any{"route", e.Route, "id", u.ID.String()[:keysctl.MinID*2], "call", u.Call, "reason", u.Reason}
			if u.Err != nil {
				args = append(args, "error", u.Err)
			}
			o.logger.Warn("the outcome of a call with an idempotency key is unknown", args...)
		}
	case weirhttp.EventPanicked:
		args := []any{"error", e.Err}
		if p, ok := errors.AsType[*flight.PanicError](e.Err); ok {
			args = append(args, "stack", string(p.Stack))
		}
		o.logger.Error("the gateway panicked", args...)
	}
}

// target returns the path of r, and its query if that may be logged.
func (o *observer) target(r *http.Request) string {
	target := r.URL.EscapedPath()
	if !o.noQuery && r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	return target
}

// observed returns c with p's observer. It is the same observer at each reload, so that
// an unchanged configuration compares as equal.
func (p *proxy) observed(c gateway.Config, noQuery bool) gateway.Config {
	if p.observer == nil {
		log := newObserver(p.logger, noQuery)
		p.observer = log
		if t := p.telemetry; t != nil {
			p.observer = weirhttp.Observers(t.weirotel.HTTP(), log)
		}
	}
	c.Observer, c.ServerChanged, c.LimitChanged = p.observer, p.logServer, p.logLimit
	return c
}

// logLimit logs that a limit was lowered, or is what it was.
func (p *proxy) logLimit(s limit.Storm) {
	l := p.logger.With("limit", s.Limiter, "calls", s.Limit)
	if s.Began {
		l.Warn("a limit is lowered: most calls end after their clients have left")
		return
	}
	l.Info("a lowered limit is what it was: calls end in time again")
}

// logServer logs a change of a server.
func (p *proxy) logServer(c gateway.ServerChange) {
	l := p.logger.With("upstream", c.Upstream, "server", c.Server)
	switch c.State {
	case gateway.ServerEjected:
		l.Warn("a server is ejected: calls in a row have failed", "failures", c.Failures, "for", c.For, "error", c.Err)
	case gateway.ServerReadmitted:
		l.Info("an ejected server has responded and gets calls again")
	case gateway.ServerUnhealthy:
		l.Warn("a server fails its health checks and gets no calls", "failures", c.Failures, "error", c.Err)
	case gateway.ServerHealthy:
		l.Info("a server passes its health checks and gets calls again")
	case gateway.ServerPenalized:
		l.Warn("a server is penalized: it fails where others do not", "for", c.For, "error", c.Err)
	case gateway.ServerUnresolved:
		l.Warn("looking up a name failed; its addresses stay", "error", c.Err)
	case gateway.ServerResolved:
		l.Info("the addresses of a name are servers", "addresses", c.Addresses)
	case gateway.ServerReturned:
		l.Info("a penalized server has responded well and gets calls again")
	}
}
