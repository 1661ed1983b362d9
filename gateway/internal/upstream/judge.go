package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// This file decides what a failure of a server is: for its ejection, for the choice, for
// retries, for fallbacks and for health checks.

// A verdict is the outcome of a call as far as it concerns the server.
type verdict uint8

const (
	unknown  verdict = iota // no conclusion
	answered                // it sent a response header
	failed                  // it did not
)

// blame returns the verdict on a call without a response. It counts against the
// server only if the fault is certainly the server's: the error says so, or the
// server took too long although it had the complete request. A client could cause
// anything else, and must not be able to eject a server for others.
func blame(ctx context.Context, err error, body io.Reader) verdict {
	if ctx.Err() == nil {
		if fault.Upstreams(err) {
			return failed
		}
		return unknown
	}
	if b, ok := body.(*held); ok && !b.ended() {
		return unknown // the client may have been slow
	}
	var timeout interface{ Timeout() bool }
	if errors.As(context.Cause(ctx), &timeout) && timeout.Timeout() {
		return failed
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return failed
	}
	return unknown
}

// class returns the class of a call that ended with this verdict, and the response if it is
// answered. A 429 is meant for its client.
func (t *Route) class(o *Options, v verdict, resp *http.Response) choose.Class {
	switch {
	case v == failed:
		return choose.Failure
	case v == unknown:
		return choose.Unknown
	}
	failures := t.failures
	if failures == nil {
		failures = o.Failures
	}
	status := resp.StatusCode
	switch {
	case slices.Contains(failures, status):
		return choose.Failure
	case status == http.StatusTooManyRequests:
		return choose.Unknown
	case status >= 500:
		return choose.Error
	case status >= 400:
		return choose.Rejection
	case status >= 300 && status != http.StatusNotModified:
		return choose.Redirect
	}
	return choose.Good
}

// healthy reports whether a health check with this status has passed.
func healthy(status int) bool { return status >= 200 && status < 400 }

// repeats reports whether a call that ended with resp or err may be repeated according to the
// options of retries. A faulty request stays faulty.
func (retry *Retry) repeats(resp *http.Response, err error) bool {
	if err != nil {
		return fault.Upstreams(err)
	}
	return slices.Contains(retry.On, resp.StatusCode)
}

// down reports whether err means that no server can be used: none is in use, or the request
// could not be sent to any of those that are.
func (a *attempts) down(err error) bool {
	if errors.As(err, new(*fault.DownError)) {
		return true // a server is chosen after a send only if the request may run twice
	}
	if a.sends > 0 || a.body.touched() {
		return false
	}
	if errors.As(err, new(*fault.UnresolvedError)) {
		return true
	}
	return unreachable(err) && fault.Upstreams(err) && a.triedAll()
}

// triedAll reports whether each server that is in use has been tried.
func (a *attempts) triedAll() bool {
	p := a.t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now.Load()
	for i, s := range now.servers {
		if now.targets[i].Weight > 0 && s.usable() && !slices.Contains(a.tried, &s.known) {
			return false
		}
	}
	return true
}

// elsewhere returns why a request that ended with resp or err is to be sent to another upstream,
// empty if it is not. It is only for a request that may run twice, or has not run.
func (a *attempts) elsewhere(resp *http.Response, err error) string {
	f, status := a.t.fallback, 0
	switch {
	case err != nil && f.Down && a.down(err):
		return Down
	case !a.repeatable:
		return "" // it may have run
	case err == nil:
		status = resp.StatusCode
	case a.now.o.Retry.repeats(nil, err):
		status = f.Status(err)
	}
	if !slices.Contains(f.Statuses, status) {
		return ""
	}
	return strconv.Itoa(status)
}

// isStream reports whether resp is an event stream or an upgrade, which may last for hours.
func isStream(resp *http.Response) bool {
	return resp.StatusCode == http.StatusSwitchingProtocols || hasType(resp.Header, "text/event-stream")
}

// wantsStream reports whether r asks for one.
func wantsStream(r *http.Request) bool {
	accept := r.Header["Accept"]
	return r.Header["Upgrade"] != nil || len(accept) > 0 && strings.HasPrefix(accept[0], "text/event-stream")
}

func hasType(h http.Header, prefix string) bool {
	v := h["Content-Type"]
	return len(v) > 0 && strings.HasPrefix(v[0], prefix)
}

// isGRPC reports whether what resp says stands in its trailers.
func isGRPC(resp *http.Response) bool { return hasType(resp.Header, "application/grpc") }

// grpcClass returns the class of a complete response of gRPC: INTERNAL and UNAVAILABLE are
// failures of the server.
func grpcClass(resp *http.Response) choose.Class {
	status := resp.Trailer.Get("Grpc-Status")
	if status == "" {
		status = resp.Header.Get("Grpc-Status")
	}
	switch status {
	case "13", "14":
		return choose.Failure
	case "0":
		return choose.Good
	case "":
		return choose.Unknown
	}
	return choose.Rejection
}

// retryAfter returns the Retry-After of a 503.
func retryAfter(resp *http.Response) time.Duration {
	if resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	v := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 16); err == nil {
		return time.Duration(n) * time.Second //nolint:gosec // 16 bits
	}
	if at, err := http.ParseTime(v); err == nil {
		return time.Until(at)
	}
	return 0
}

// judge records the outcome of a call of s. A server that fails too often in a row is
// ejected for a while. After that one call probes it, and no other call is sent until it
// has responded. Any response readmits a server, except a 503 with Retry-After, which is
// pause: the server is back, and asks for no calls yet. It is obeyed for up to
// choose.RetryAfterMost, and only while another server can take the calls.
//
// why is the error of a call that has failed.
func (p *Pool) judge(s *server, probe bool, v verdict, pause time.Duration, why error) {
	if v == answered && s.fails.Load() == 0 && !s.ejected.Load() {
		return // nothing changes, so no lock is needed
	}
	p.mu.Lock()
	if probe {
		s.probing = false
	}
	h, was, used := p.now.Load().o.Health, s.ejected.Load(), s.usable()
	switch v {
	case answered:
		s.fails.Store(0)
		if was && pause > 0 && p.othersLocked(s) {
			s.until = time.Now().Add(min(pause, choose.RetryAfterMost))
			break
		}
		s.ejected.Store(false)
	case failed:
		s.failures.Add(1)
		fails := s.fails.Add(1)
		if h.Failures > 0 && (probe && was || !was && int(fails) >= h.Failures) {
			s.ejected.Store(true)
			s.until = time.Now().Add(h.Eject)
		}
	}
	now, fails := s.ejected.Load(), int(s.fails.Load())
	if now || was {
		p.barLocked(s)
	}
	s.changedLocked(used, fails, "calls", why)
	departed := v == failed && p.departLocked(s)
	p.mu.Unlock()
	if departed {
		s.transport.Close()
		return
	}
	switch {
	case now && !was:
		p.tell(ServerChange{Server: s.text, State: Ejected, Failures: fails, For: h.Eject, Err: why})
	case was && !now:
		p.tell(ServerChange{Server: s.text, State: Readmitted})
	}
}

// othersLocked reports whether another server than s can take its calls. p.mu must be held.
func (p *Pool) othersLocked(s *server) bool {
	now := p.now.Load()
	for i, o := range now.servers {
		if o != s && o.usable() && now.targets[i].Weight > 0 {
			return true
		}
	}
	return false
}

// barLocked tells the book whether s gets calls. p.mu must be held.
func (p *Pool) barLocked(s *server) {
	until := choose.Instant(0)
	switch {
	case s.ill:
		until = choose.Forever
	case s.ejected.Load():
		until = p.instant(s.until)
	}
	if until != s.barred {
		s.barred = until
		p.book.Bar(p.instant(time.Now()), &s.known, until)
	}
}

// tell reports a change. p.mu must not be held.
func (p *Pool) tell(c ServerChange) {
	if p.env.Changed != nil {
		p.env.Changed(c)
	}
}
