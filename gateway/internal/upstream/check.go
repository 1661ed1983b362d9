package upstream

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// watch checks s until ctx ends: at once, then every Interval, from start to
// start. It is started by watchLocked and stopped by its server's stop.
func (p *Pool) watch(ctx context.Context, s *server, h Health) {
	for {
		start := time.Now()
		ok := s.check(ctx, h)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		if ctx.Err() == nil { // else another watch may have begun since
			s.checkedLocked(ok, h)
		}
		p.mu.Unlock()
		if pause(ctx, p.env.Jitter(h.Interval)-time.Since(start)) != nil {
			return
		}
	}
}

// check asks s once.
func (s *server) check(ctx context.Context, h Health) bool {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	u, err := url.ParseRequestURI(h.Path)
	if err != nil {
		return false
	}
	u.Scheme, u.Host = s.scheme, s.url.Host
	r := (&http.Request{
		Method:     http.MethodGet,
		URL:        u,
		Host:       s.url.Host,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"User-Agent": {"weir"}},
	}).WithContext(ctx)
	resp, err := s.transport.RoundTrip(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	// The connection can be used again if the body is at its end.
	io.CopyN(io.Discard, resp.Body, 64<<10)
	return resp.StatusCode >= 200 && resp.StatusCode < 400
}
