package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// A server belongs to a Pool. All fields except the first group are guarded by
// the Pool's mutex.
type server struct {
	key       key
	url       *url.URL
	scheme    string // of a request's URL
	transport Transport

	inFlight        int
	calls, failures uint64
	gone            bool // no call may leave an idle connection behind

	// Learned from calls.
	fails   int       // consecutive
	ejected bool      // no calls before until; after that only a probe
	until   time.Time // end of the ejection
	probing bool      // a probe is in flight

	// Learned from checks.
	ill       bool
	good, bad int                // in a row
	stop      context.CancelFunc // stops the checks, nil if there are none

	// The last time that it could not be used.
	left, returned time.Time // returned is zero until it is back
	why            string    // it left
}

// mostWhy is how many bytes of the reason of a server that left are kept.
const mostWhy = 300

// usable reports whether s gets calls.
func (s *server) usable() bool { return !s.ejected && !s.ill }

// changedLocked records that s has left, or is back: was is whether it was usable before, n how many
// of what failed in a row with err. The lock of its Pool must be held.
func (s *server) changedLocked(was bool, n int, what string, err error) {
	switch now := s.usable(); {
	case was && !now:
		s.left, s.returned = time.Now(), time.Time{}
		s.why = fmt.Sprintf("%d %s in a row failed: %v", n, what, err)
		if n == 1 {
			s.why = fmt.Sprintf("a %s failed: %v", strings.TrimSuffix(what, "s"), err)
		}
		s.why = strings.ToValidUTF8(s.why[:min(len(s.why), mostWhy)], "")
	case now && !was:
		s.returned = time.Now()
	}
}

// A key identifies a server: if it stays the same, the connections are kept.
type key struct {
	scheme, host  string
	as            string // the Host of requests; empty keeps the client's
	connect, idle time.Duration
	maxIdle       int
	tls           *tls.Config
}

func keyOf(u *url.URL, o Options) key {
	as := o.Host
	if o.OwnHost {
		as = u.Host
	}
	return key{u.Scheme, u.Host, as, o.ConnectTimeout, o.IdleConn, o.MaxIdleConns, o.TLS}
}

func newServer(u *url.URL, o Options, t Transport) *server {
	return &server{key: keyOf(u, o), url: u, scheme: schemeOf(u), transport: t}
}

// schemeOf returns the scheme of a request's URL. Only the Transport knows about h2c.
func schemeOf(u *url.URL) string {
	if u.Scheme == "h2c" {
		return "http"
	}
	return u.Scheme
}

// wellLocked reports whether s may be called if there are other servers. The
// Pool's mu must be held.
func (s *server) wellLocked(now time.Time) bool {
	return !s.ill && (!s.ejected || s.probeLocked(now))
}

// probeLocked reports whether the next call of s probes whether it has recovered. The
// Pool's mu must be held.
func (s *server) probeLocked(now time.Time) bool {
	return s.ejected && !s.probing && !now.Before(s.until)
}

// checkedLocked records the result of a check. The Pool's mu must be held.
func (s *server) checkedLocked(ok bool, h Health) {
	if ok {
		s.good, s.bad = s.good+1, 0
	} else {
		s.good, s.bad = 0, s.bad+1
	}
	switch {
	case s.ill && s.good >= h.Healthy:
		s.ill, s.ejected, s.fails = false, false, 0
	case s.bad >= h.Unhealthy:
		s.ill = true
	}
}

// ServerStats has the same fields as gateway.ServerStats.
type ServerStats struct {
	URL      string
	Healthy  bool
	Ejected  bool
	InFlight int
	Calls    uint64
	Failures uint64
	Left     time.Time
	Returned time.Time
	Reason   string
}

// Stats returns a snapshot of the servers, in the order of Options, the number of retries,
// and the number that the budget refused.
func (p *Pool) Stats() (servers []ServerStats, retries, noBudget uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		servers = append(servers, ServerStats{s.url.String(), !s.ill, s.ejected, s.inFlight, s.calls, s.failures, s.left, s.returned, s.why})
	}
	return servers, p.retries, p.noBudget
}
