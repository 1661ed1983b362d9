package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// A server belongs to a Pool. The atomics change with each call, which takes no lock for
// them.
type server struct {
	key       key
	url       *url.URL
	scheme    string // of a request's URL
	host      string // as scheme
	text      string // in statistics and logs: the URL, with the address if it is resolved
	transport Transport
	known     choose.Server

	inFlight        atomic.Int64
	calls, failures atomic.Uint64
	kept, moved     atomic.Uint64 // calls with a key that is its, and with one of another server
	gone            atomic.Bool   // no call may leave an idle connection behind; set with the Pool's mu held

	// Learned from calls. Written with the Pool's mu held; atomic because a call that was
	// answered looks whether there is anything to write.
	fails   atomic.Int64 // consecutive
	ejected atomic.Bool  // no calls before until; after that only a probe

	// Guarded by the Pool's mu.
	until     time.Time // end of the ejection
	probing   bool      // a probe of the only server is in flight
	barred    choose.Instant
	ill       bool               // learned from checks
	good, bad int                // checks in a row
	missing   int                // answers in a row without its address
	stop      context.CancelFunc // stops the checks, nil if there are none

	// The last time that it could not be used.
	left, returned time.Time // returned is zero until it is back
	why            string    // it left
}

// mostWhy is how many bytes of the reason of a server that left are kept.
const mostWhy = 300

// usable reports whether s gets calls.
func (s *server) usable() bool { return !s.ejected.Load() && !s.ill }

// changedLocked records that s has left, or is back: was is whether it was usable before, n how many
// of what failed in a row with err. The lock of its Pool must be held.
func (s *server) changedLocked(was bool, n int, what string, err error) {
	switch now := s.usable(); {
	case was && !now:
		why := fmt.Sprintf("%d %s in a row failed: %v", n, what, err)
		if n == 1 {
			why = fmt.Sprintf("a %s failed: %v", strings.TrimSuffix(what, "s"), err)
		}
		s.leavesLocked(why)
	case now && !was:
		s.returnsLocked()
	}
}

// leavesLocked records that s gets no calls from now on, and why. The lock of its Pool must be held.
func (s *server) leavesLocked(why string) {
	s.left, s.returned = time.Now(), time.Time{}
	s.why = strings.ToValidUTF8(why[:min(len(why), mostWhy)], "")
}

// returnsLocked records that s gets calls again. The lock of its Pool must be held.
func (s *server) returnsLocked() { s.returned = time.Now() }

// count counts a call of s.
func (s *server) count() {
	s.inFlight.Add(1)
	s.calls.Add(1)
}

// A key identifies a server: if it stays the same, the connections are kept.
type key struct {
	scheme, host       string // the path of a socket is a host
	as                 string // the Host of requests; empty keeps the client's
	connect, idle, age time.Duration
	maxIdle            int
	tls                *tls.Config
	resolver           *net.Resolver
	at                 netip.AddrPort // of a server that is resolved
}

func keyOf(u *url.URL, o Options) key {
	as := o.Host
	if o.OwnHost {
		as = hostOf(u)
	}
	return key{u.Scheme, u.Host + u.Path, as, o.ConnectTimeout, o.IdleConn, o.MaxConnAge, o.MaxIdleConns, o.TLS, o.Resolver, netip.AddrPort{}}
}

func newServer(u *url.URL, at netip.AddrPort, o Options, t Transport) *server {
	s := &server{key: keyOf(u, o), url: u, scheme: schemeOf(u), host: hostOf(u), text: u.String(), transport: t}
	if s.key.at = at; at.IsValid() {
		s.text = (&url.URL{Scheme: u.Scheme, Host: at.String()}).String()
	}
	s.known.Of, s.known.ID = s, uint64(hash(offset).text(s.identity()))
	return s
}

// identity is the same after a restart and in every gateway, and another for each server: two
// names can have one address.
func (s *server) identity() string {
	if s.key.at.IsValid() {
		return s.text + " " + s.url.String()
	}
	return s.text
}

// schemeOf returns the scheme of a request's URL. Only the Transport knows about h2c and sockets.
func schemeOf(u *url.URL) string {
	if u.Scheme == "h2c" || u.Scheme == "unix" {
		return "http"
	}
	return u.Scheme
}

// portOf returns the port of a server with a host.
func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// hostOf returns the host of a request's URL.
func hostOf(u *url.URL) string {
	if u.Scheme == "unix" {
		return "localhost" // a path is no host
	}
	return u.Host
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
		s.ill = false
		s.readmitLocked()
	case s.bad >= h.Unhealthy:
		s.ill = true
	}
}

// readmitLocked ends an ejection. The Pool's mu must be held.
func (s *server) readmitLocked() {
	s.ejected.Store(false)
	s.fails.Store(0)
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
	Weight   int
	State    string
	Head     time.Duration
	Failing  float64
	Kept     uint64
	Moved    uint64
	Name     string
}

// Stats returns a snapshot of the servers, in the order of Options, the number of retries,
// and the number that the budget refused.
func (p *Pool) Stats() (servers []ServerStats, retries, noBudget uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now.Load()
	for i, s := range now.servers {
		known := p.book.State(&s.known)
		one := ServerStats{
			URL: s.text, Healthy: !s.ill, Ejected: s.ejected.Load(), InFlight: int(s.inFlight.Load()),
			Calls: s.calls.Load(), Failures: s.failures.Load(), Weight: now.targets[i].Weight, Head: known.Head, Failing: known.Failing,
			Kept: s.kept.Load(), Moved: s.moved.Load(), Left: s.left, Returned: s.returned, Reason: s.why,
		}
		if s.key.at.IsValid() {
			one.Name = s.url.Host
		}
		switch {
		case one.Weight == 0:
			one.State = "draining"
		case s.ill:
			one.State = "unhealthy"
		case one.Ejected:
			one.State = "ejected"
		default:
			one.State = known.Condition.String()
		}
		servers = append(servers, one)
	}
	return servers, p.retries, p.noBudget
}
