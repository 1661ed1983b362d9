package upstream

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// watch checks s until ctx ends: at once, and then every Interval, measured from
// start to start. It is started by watchLocked and stopped by its server's stop.
func (p *Pool) watch(ctx context.Context, s *server, h Health) {
	for {
		start := time.Now()
		why := s.check(ctx, h)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		was, used := s.ill, s.usable()
		if ctx.Err() == nil { // otherwise a later watch may have started
			s.checkedLocked(why == nil, h)
			p.barLocked(s)
		}
		now, bad := s.ill, s.bad
		s.changedLocked(used, bad, "checks", why)
		p.mu.Unlock()
		switch {
		case now && !was:
			p.tell(ServerChange{Server: s.url.String(), State: Unhealthy, Failures: bad, Err: why})
		case was && !now:
			p.tell(ServerChange{Server: s.url.String(), State: Healthy})
		}
		if pause(ctx, p.env.Jitter(h.Interval)-time.Since(start)) != nil {
			return
		}
	}
}

// check sends one health check to s, and returns why it has failed.
func (s *server) check(ctx context.Context, h Health) error {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	resp, err := ask(ctx, s.transport, s.url, s.key.as, http.MethodGet, h.Path)
	if err == nil && !healthy(resp.StatusCode) {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}

// ask sends a health check to a server and returns the head of the response. host is the
// Host of the request; empty means the server's.
func ask(ctx context.Context, t Transport, server *url.URL, host, method, target string) (*http.Response, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host = schemeOf(server), hostOf(server)
	r := (&http.Request{
		Method:     method,
		URL:        u,
		Host:       cmp.Or(host, u.Host),
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"User-Agent": {"weir"}},
	}).WithContext(ctx)
	resp, err := t.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	// Reading the body to its end lets the connection be reused.
	io.CopyN(io.Discard, resp.Body, 64<<10)
	return resp, nil
}
