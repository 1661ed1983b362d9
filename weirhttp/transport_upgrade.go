package weirhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/weir/limit"
)

// upgrade sends a request that asks for another protocol. The response body is the
// connection, which only the transport below can hand out.
func (t *Transport) upgrade(r *http.Request) (*http.Response, error) {
	h := t.h
	h.count.requests.Add(1)
	c := &call{h: h, r: r}
	c.demand.Priority = limit.PriorityOf(r.Context())
	permit, err := c.acquire(r.Context(), h.o.Streams)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		c.unreturned(err)
		return nil, err
	}
	h.count.calls.Add(1)
	h.count.inFlight.Add(1)
	l := callTrace{h: h, apart: true, queued: c.receipt.Queued, info: CallInfo{Request: r}}
	resp, err := t.base.RoundTrip(l.begin(r))
	if err != nil {
		h.count.inFlight.Add(-1)
		permit.Release(limit.Ignored)
		c.noAnswer(err)
		c.unreturned(err)
		l.end(err)
		return nil, err
	}
	if err := switched(r, resp); err != nil {
		_ = resp.Body.Close()
		h.count.inFlight.Add(-1)
		permit.Release(limit.Ignored)
		c.noAnswer(err)
		c.unreturned(err)
		l.end(err)
		return nil, err
	}
	c.became(OutcomePass)
	l.head(resp.StatusCode)
	resp.Request = r
	h.count.streams.Add(1)
	done := sync.OnceFunc(func() {
		h.count.streams.Add(-1)
		h.count.inFlight.Add(-1)
		permit.Release(limit.Success)
		l.end(nil)
	})
	resp.Body = released(resp.Body, done)
	return resp, nil
}

// unreturned counts that the Transport returns err to c instead of a response.
func (c *call) unreturned(err error) {
	switch {
	case c.r.Context().Err() != nil:
		c.counts(&c.h.count.left)
	case errors.Is(err, limit.ErrLimited):
		c.counts(&c.h.count.refused[refusalOf(err, false)])
		c.h.event(Event{Kind: EventRefused, Request: c.r, Err: err})
	default:
		c.became(OutcomeFailed)
	}
}

// errUnasked is a status that cannot end the request: a 101 to a request without
// Upgrade, or another 1xx instead of the final response.
type errUnasked int

func (e errUnasked) Error() string {
	return fmt.Sprintf("weirhttp: status %d is not a final response to this request", int(e))
}

// switched returns an error if resp, the response to r, switches to a protocol that r
// did not offer (RFC 9110 section 7.8).
func switched(r *http.Request, resp *http.Response) error {
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 999:
		return nil
	case resp.StatusCode != http.StatusSwitchingProtocols:
		return errUnasked(resp.StatusCode)
	}
	offered := protocols(r.Header)
	for _, p := range protocols(resp.Header) {
		if !slices.Contains(offered, p) {
			return fmt.Errorf("weirhttp: the server switched to protocol %q, which the request did not offer", p)
		}
	}
	return nil
}

// protocols returns the protocols in Upgrade, in lower case.
func protocols(h http.Header) []string {
	var names []string
	for _, line := range h["Upgrade"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// A halfCloser can close one direction of a connection.
type halfCloser interface{ CloseWrite() error }

// released returns body with done called at Close. If body can be written to, or
// half-closed, so can the result.
func released(body io.ReadCloser, done func()) io.ReadCloser {
	rw, ok := body.(io.ReadWriteCloser)
	if !ok {
		return &refused{body, done}
	}
	u := upgraded{rw, done}
	if half, ok := body.(halfCloser); ok {
		return &upgradedHalf{u, half}
	}
	return &u
}

// upgraded is a connection that now uses another protocol, and upgradedHalf one that
// can be half-closed. refused is the body of a response that declines the upgrade.
type (
	upgraded struct {
		io.ReadWriteCloser
		done func()
	}
	upgradedHalf struct {
		upgraded
		half halfCloser
	}
	refused struct {
		io.ReadCloser
		done func()
	}
)

func (u *upgraded) Close() error { defer u.done(); return u.ReadWriteCloser.Close() }

// CloseWrite closes the sending direction. The other direction and the permit stay.
func (u *upgradedHalf) CloseWrite() error { return u.half.CloseWrite() }

func (u *refused) Close() error { defer u.done(); return u.ReadCloser.Close() }
