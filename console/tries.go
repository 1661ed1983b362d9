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
	// maxTries is how many wrong tokens a client may send at once, and triesEach
	// the time after which it may send another one.
	maxTries  = 100
	triesEach = time.Second
	// maxClients is of how many clients that is known. Further ones count as one,
	// until others have been quiet for long enough.
	maxClients = 256
)

// tries count wrong tokens by client: some one address is all that most have. The
// right token counts for nothing, so who has it may come as often as wanted. Where
// there were too many wrong ones a short token is not looked at any more, be it
// right or wrong, as guessing would not be bounded otherwise.
type tries struct {
	mu      sync.Mutex
	clients map[netip.Prefix]*bucket // guarded by mu
	rest    bucket                   // guarded by mu; of those for whom there is no place
}

// A bucket is how many tries somebody has had, less those that have been long ago.
type bucket struct {
	used float64
	at   time.Time
}

// usedAt returns how many count at a time.
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

// giveBack takes back a try that was none.
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

// bucketLocked returns that of a client. t.mu must be held.
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

// client returns where r comes from: an address, or the network of one of IPv6, of
// which who has one has many. What has no address is one client.
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
	p, _ := addr.Prefix(bits) // these are bits of such an address
	return p
}

// retryAfter says when to come again, in whole seconds.
func retryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}
