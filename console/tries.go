package console

import (
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

const (
	// maxTries is how many wrong tokens a client can send at once, and triesEach the
	// time after which it can send another.
	maxTries  = 100
	triesEach = time.Second
	// maxClients is the number of clients that are counted separately. Further ones
	// are counted together, until others have been quiet for long enough.
	maxClients = 256
)

// tries counts wrong tokens by client, that is by address: most attackers have only a
// few. The right token does not count, so clients that have it are not limited. After
// too many wrong ones a short token is no longer compared, whether right or wrong;
// otherwise the number of guesses would be unlimited.
type tries struct {
	mu      sync.Mutex
	clients map[netip.Prefix]*bucket // guarded by mu
	rest    bucket                   // guarded by mu; of all clients beyond maxClients
}

// A bucket counts a client's tries; old tries expire.
type bucket struct {
	used float64
	at   time.Time
}

// usedAt returns the number of tries that count at a time.
func (b *bucket) usedAt(now time.Time) float64 {
	return max(0, b.used-now.Sub(b.at).Seconds()/triesEach.Seconds())
}

// take counts a try, or returns how long to wait for it.
func (t *tries) take(from netip.Prefix, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.bucketLocked(from, now)
	used := b.usedAt(now)
	if used > maxTries-1 {
		return time.Duration((used - (maxTries - 1)) * float64(triesEach))
	}
	b.used, b.at = used+1, now
	return 0
}

// giveBack returns a try whose token was right.
func (t *tries) giveBack(from netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.clients[from]
	if b == nil {
		b = &t.rest
	}
	if b.used--; b.used <= 0 && b != &t.rest {
		delete(t.clients, from)
	}
}

// bucketLocked returns the bucket of a client. t.mu must be held.
func (t *tries) bucketLocked(from netip.Prefix, now time.Time) *bucket {
	if b := t.clients[from]; b != nil {
		return b
	}
	if len(t.clients) >= maxClients {
		for client, b := range t.clients {
			if b.usedAt(now) == 0 {
				delete(t.clients, client)
			}
		}
	}
	if len(t.clients) >= maxClients {
		return &t.rest
	}
	if t.clients == nil {
		t.clients = map[netip.Prefix]*bucket{}
	}
	b := &bucket{at: now}
	t.clients[from] = b
	return b
}

// client returns the source of r: an address, or for IPv6 its /64 network, because
// one client usually has the whole network. Requests without an address count as one
// client.
func client(r *http.Request) netip.Prefix {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // cannot fail with these bits
	return p
}

// retryAfter sets Retry-After, in whole seconds.
func retryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}
