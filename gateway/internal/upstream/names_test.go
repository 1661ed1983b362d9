package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/upstream"
)

// A registry is the DNS of a test, and its servers by address.
type registry struct {
	*world
	t *testing.T

	mu      sync.Mutex
	answer  []netip.Addr                                           // guarded by mu
	err     error                                                  // guarded by mu
	slow    time.Duration                                          // guarded by mu: of each lookup
	lookups int                                                    // guarded by mu
	at      map[string]func(*http.Request) (*http.Response, error) // guarded by mu
	seen    map[string]int                                         // guarded by mu: calls
	closes  map[string]int                                         // guarded by mu
	dead    map[string]bool                                        // guarded by mu: addresses without connections
}

func newRegistry(t *testing.T, w *world, answer ...string) *registry {
	r := &registry{world: w, t: t, at: map[string]func(*http.Request) (*http.Response, error){}, seen: map[string]int{}, closes: map[string]int{}, dead: map[string]bool{}}
	r.set(nil, answer...)
	return r
}

// set changes the answers of lookups.
func (r *registry) set(err error, answer ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.answer = err, nil
	for _, text := range answer {
		r.answer = append(r.answer, netip.MustParseAddr(text))
	}
}

func (r *registry) serve(address string, f func(*http.Request) (*http.Response, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[address] = f
}

func (r *registry) surroundings() upstream.Surroundings {
	s := r.world.surroundings()
	static := s.Open
	s.Open = func(base *url.URL, at netip.AddrPort, o upstream.Options) (upstream.Transport, error) {
		if !at.IsValid() {
			return static(base, at, o)
		}
		if at.Port() != 3000 || base.Host != "shop.internal:3000" {
			r.t.Errorf("Open(%v, %v); want shop.internal and the port 3000", base, at)
		}
		return &member{r, at.Addr().String()}, nil
	}
	s.Lookup = func(ctx context.Context, _ upstream.Options, host string) ([]netip.Addr, error) {
		r.mu.Lock()
		answer, err, slow := slices.Clone(r.answer), r.err, r.slow
		r.lookups++
		r.mu.Unlock()
		if host != "shop.internal" {
			r.t.Errorf("Lookup(%q); want shop.internal", host)
		}
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return answer, err
	}
	s.Connects = func(_ context.Context, at netip.AddrPort) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.dead[at.Addr().String()]
	}
	return s
}

func (r *registry) pool(o upstream.Options) *upstream.Pool {
	p, err := upstream.New(o, r.surroundings())
	if err != nil {
		r.t.Fatalf("New = %v", err)
	}
	r.t.Cleanup(func() {
		p.Retire()
		r.background.Wait()
	})
	synctest.Wait()
	return p
}

// named is the Options of the name, looked up each 5 s.
func named() upstream.Options {
	o := options("shop.internal:3000")
	o.Servers[0].Resolve = 5 * time.Second
	return o
}

// addresses returns those of the pool's servers.
func addresses(p *upstream.Pool) string {
	servers, _, _ := p.Stats()
	var list []string
	for _, s := range servers {
		list = append(list, strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), ":3000"))
		if s.Name != "shop.internal:3000" {
			return "resolved from " + s.Name
		}
	}
	return strings.Join(list, " ")
}

// A member is the Transport of one address.
type member struct {
	r  *registry
	at string
}

func (m *member) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "shop.internal:3000" {
		m.r.t.Errorf("URL = %v; want the name", r.URL)
	}
	m.r.mu.Lock()
	f := m.r.at[m.at]
	m.r.seen[m.at]++
	m.r.mu.Unlock()
	if f == nil {
		f = status(200)
	}
	return f(r)
}

func (m *member) Close() {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	m.r.closes[m.at]++
}

// Each address is a server. One that is missing leaves after three answers without it, one that also fails
// immediately, and its calls in flight end.
func TestH37_EachAddressIsAServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.0.0.2", "10.0.0.1", "10.0.0.2", "0.0.0.0")
		p := r.pool(named())
		if got := addresses(p); got != "10.0.0.1 10.0.0.2" {
			t.Fatalf("servers %q; want both addresses", got)
		}
		for range 20 {
			get(t, p)
		}
		if r.seen["10.0.0.1"] == 0 || r.seen["10.0.0.2"] == 0 {
			t.Errorf("calls %v; want some at each", r.seen)
		}
		r.set(nil, "10.0.0.2", "10.0.0.3")
		for i, want := range []string{"10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.2 10.0.0.3"} {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := addresses(p); got != want {
				t.Errorf("servers %q after %d answers; want %q", got, i+1, want)
			}
		}
		if r.closes["10.0.0.1"] != 1 || r.closes["10.0.0.2"] != 0 {
			t.Errorf("closed %v; want the connections of the one that left", r.closes)
		}
		// One more fails, after the first answer without it, while it has a call in flight.
		var open *http.Response
		for open == nil || r.seen["10.0.0.3"] == 0 {
			if open != nil {
				open.Body.Close()
			}
			r.seen["10.0.0.3"] = 0
			open = begin(t, p)
		}
		r.set(nil, "10.0.0.2")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := addresses(p); got != "10.0.0.2 10.0.0.3" {
			t.Errorf("servers %q; want the missing one for one more time", got)
		}
		r.serve("10.0.0.3", unreachable)
		for range 2 { // the other one is also busy
			defer begin(t, p).Body.Close()
		}
		for i := range 200 {
			if get(t, p) != 200 {
				t.Fatalf("request %d failed; want that of an address that has gone to be sent to another", i)
			}
		}
		if got := addresses(p); got != "10.0.0.2" {
			t.Errorf("servers %q; want the one that fails to be gone", got)
		}
		before := r.closes["10.0.0.3"]
		open.Body.Close()
		if r.closes["10.0.0.3"] != before+1 {
			t.Errorf("closed %v; want it closed again after its last call", r.closes)
		}
		// It comes back as another machine.
		r.serve("10.0.0.3", nil)
		r.set(nil, "10.0.0.2", "10.0.0.3")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := stats(t, p, "10.0.0.3:3000"); s.Calls != 0 || s.Failures != 0 || s.Ejected {
			t.Errorf("Stats = %+v; want nothing known of it", s)
		}
	})
}

// A failed or empty answer keeps the addresses; it is reported once and counted.
func TestH37_AFailedLookupKeepsTheAddresses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.0.0.1")
		p := r.pool(named())
		w.wantTold("http://shop.internal:3000 8 0 0s <nil>")
		r.set(errors.New("no DNS"))
		time.Sleep(20 * time.Second)
		r.set(nil)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		w.wantTold("http://shop.internal:3000 7 0 0s no DNS")
		if got := addresses(p); got != "10.0.0.1" || get(t, p) != 200 {
			t.Errorf("servers %q; want the last address", got)
		}
		n := p.Names()
		if len(n) != 1 || n[0].Name != "http://shop.internal:3000" || n[0].Addresses != 1 || n[0].Failures != 8 || !strings.Contains(n[0].Error, "no addresses") {
			t.Errorf("Names = %+v; want 8 failures", n)
		}
		r.set(nil, "10.0.0.1")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.wantTold("http://shop.internal:3000 8 0 0s <nil>")
		if n := p.Names(); n[0].Error != "" {
			t.Errorf("Names = %+v; want no error any more", n)
		}
	})
}

// Without an address, requests fail with the error of the lookup, for which the first ones wait. Then they work.
func TestH37_NothingIsKnownAtTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w)
		r.slow = 2 * time.Second
		r.set(&net.DNSError{Err: "server misbehaving", Name: "shop.internal"})
		p := r.pool(named())
		began := time.Now()
		_, err := p.RoundTrip(request(t.Context(), "GET", ""))
		var unresolved *fault.UnresolvedError
		var dns *net.DNSError
		if !errors.As(err, &unresolved) || !errors.As(err, &dns) || time.Since(began) != 2*time.Second {
			t.Errorf("RoundTrip = %v after %v; want the DNS error after the lookup's 2 s", err, time.Since(began))
		}
		began = time.Now()
		if _, err := p.RoundTrip(request(t.Context(), "GET", "")); !errors.As(err, &unresolved) || time.Since(began) != 0 {
			t.Errorf("RoundTrip = %v after %v; want no more waiting", err, time.Since(began))
		}
		r.set(nil, "10.0.0.1")
		time.Sleep(6 * time.Second)
		if got := get(t, p); got != 200 {
			t.Errorf("status %d; want 200 once a lookup has succeeded", got)
		}
		before := r.lookups
		for range 100 {
			get(t, p)
		}
		if r.lookups != before {
			t.Errorf("%d lookups for 100 requests; want none", r.lookups-before)
		}
	})
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.0.0.1")
		r.slow = time.Hour
		p := r.pool(named())
		began := time.Now()
		if _, err := p.RoundTrip(request(t.Context(), "GET", "")); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("RoundTrip = %v after %v; want the lookup's time-out of 5 s", err, time.Since(began))
		}
	})
}

// A reload keeps the servers of a name, and one that begins to resolve it fails no request.
func TestH37_ReloadKeepsTheAddresses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.0.0.1", "10.0.0.2")
		p := r.pool(named())
		for range 10 {
			get(t, p)
		}
		change := func(o upstream.Options) {
			c, err := p.Prepare(o)
			if err != nil {
				t.Fatal(err)
			}
			c.Commit()
		}
		o := named()
		o.Servers[0].Weight, o.Servers[0].Resolve = 7, 10*time.Second
		change(o)
		servers, _, _ := p.Stats()
		if len(servers) != 2 || servers[0].Calls+servers[1].Calls != 10 || servers[0].Weight != 7 {
			t.Errorf("Stats = %+v; want both servers, with their 10 calls and the new weight", servers)
		}
		r.slow = time.Second
		o.ConnectTimeout = time.Minute // another connection setting makes new servers
		change(o)
		if got := get(t, p); got != 200 {
			t.Errorf("status %d after the reload; want 200, after the lookup", got)
		}
	})
}

// One machine with an IPv4 and an IPv6 address is one server: the family that connects.
func TestH37_OneFamilyIsUsed(t *testing.T) {
	for _, tt := range []struct {
		dead []string
		want string
	}{
		{nil, "[fd00::1] [fd00::2]"},
		{[]string{"fd00::1", "fd00::2"}, "10.0.0.1 10.0.0.2"},
		{[]string{"fd00::1"}, "[fd00::1] [fd00::2]"},
		{[]string{"fd00::1", "fd00::2", "10.0.0.1", "10.0.0.2"}, "[fd00::1] [fd00::2]"},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			r := newRegistry(t, w, "10.0.0.1", "fd00::1", "10.0.0.2", "fd00::2")
			for _, a := range tt.dead {
				r.dead[a] = true
			}
			p := r.pool(named())
			if got := addresses(p); got != tt.want {
				t.Errorf("servers %q without connections to %v; want %q", got, tt.dead, tt.want)
			}
		})
	}
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.0.0.1", "fd00::1")
		p := r.pool(named())
		r.set(nil, "10.0.0.1") // a part of the answer failed
		time.Sleep(11 * time.Second)
		r.set(nil, "10.0.0.1", "fd00::1")
		time.Sleep(5 * time.Second)
		if got := addresses(p); got != "[fd00::1]" {
			t.Errorf("servers %q; want the family to stay while it works", got)
		}
		r.dead["fd00::1"] = true
		r.serve("fd00::1", unreachable)
		get(t, p)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := addresses(p); got != "10.0.0.1" || get(t, p) != 200 {
			t.Errorf("servers %q; want the other family once this one fails", got)
		}
	})
}

// A name has a bounded number of servers; those in use stay. Its changes are reported at most each minute.
func TestH37_NamesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.1.0.1")
		p := r.pool(named())
		var many []string
		for i := range 200 {
			many = append(many, fmt.Sprintf("10.0.0.%d", i+1))
		}
		r.set(nil, append(many, "10.1.0.1")...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := strings.Fields(addresses(p)); len(got) != 64 || !slices.Contains(got, "10.1.0.1") {
			t.Errorf("%d servers; want 64, with the one that was there", len(got))
		}
		for i := range 24 { // two minutes
			r.set(nil, fmt.Sprintf("10.2.0.%d", i))
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		w.mu.Lock()
		n := len(w.told)
		w.mu.Unlock()
		if n < 2 || n > 4 {
			t.Errorf("%d changes reported in two minutes; want 2 to 4", n)
		}
	})
}

// A name moves under load, and the old address serves for one more period: no request fails, and the old address is left
// within three periods.
func TestH37_AMoveUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.0.0.1")
		quick := after(20*time.Millisecond, status(200))
		r.serve("10.0.0.1", quick)
		r.serve("10.0.0.2", quick)
		o := named()
		o.SlowStart = 10 * time.Second
		p := r.pool(o)
		stop, failed := make(chan struct{}), 0
		var clients sync.WaitGroup
		var mu sync.Mutex
		for range 20 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if get(t, p) != 200 {
						mu.Lock()
						failed++
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(12 * time.Second)
		r.set(nil, "10.0.0.2") // seen after 3 s
		time.Sleep(8 * time.Second)
		r.serve("10.0.0.1", unreachable)
		time.Sleep(7 * time.Second)
		if got := addresses(p); got != "10.0.0.2" {
			t.Errorf("servers %q three periods later; want the new address", got)
		}
		close(stop)
		clients.Wait()
		if failed > 0 {
			t.Errorf("%d requests failed; want none", failed)
		}
	})
}

// An address that asks for a pause while it is ejected stays out: another address takes its calls.
func TestH35_RetryAfterOfAnAddress(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.0.0.1", "10.0.0.2")
		o := named()
		o.Health = upstream.Health{Failures: 1, Eject: 10 * time.Second}
		p := r.pool(o)
		ejected := func() bool {
			servers, _, _ := p.Stats()
			return servers[0].Ejected
		}
		r.serve("10.0.0.2", after(20*time.Millisecond, status(200)))
		r.serve("10.0.0.1", broken)
		for !ejected() {
			get(t, p)
		}
		r.serve("10.0.0.1", pausing(503))
		servers, _, _ := p.Stats()
		for was := servers[0].Calls; servers[0].Calls == was; servers, _, _ = p.Stats() {
			get(t, p)
		}
		if !ejected() {
			t.Error("an address that asks for a pause is readmitted, although another one responds")
		}
	})
}

// A reload to a name that is not resolved yet fails no request: they wait for its first lookup. Servers
// without a weight get none meanwhile.
func TestH37_ReloadFromServersToAName(t *testing.T) {
	for _, hosts := range [][]string{{"a"}, {"a", "b"}} {
		inBubble(t, func(t *testing.T, w *world) {
			r := newRegistry(t, w, "10.0.0.1")
			r.slow = time.Second
			p := r.pool(options(hosts...))
			w.on("a", status(500))
			w.on("b", status(500))
			o := options(append(hosts, "shop.internal:3000")...)
			for i := range hosts {
				o.Servers[i].Weight = 0
			}
			o.Servers[len(hosts)].Resolve = 5 * time.Second
			c, err := p.Prepare(o)
			if err != nil {
				t.Fatal(err)
			}
			c.Commit()
			for range 5 {
				if got := get(t, p); got != 200 {
					t.Errorf("status %d; want 200 from the address", got)
				}
			}
		})
	}
}

// Requests that wait for the first lookup of a name go on when a reload drops it.
func TestH37_ReloadFromANameThatIsNotResolved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRegistry(t, w, "10.0.0.1")
		r.slow = time.Hour
		p := r.pool(named())
		w.on("a", status(200))
		began, got := time.Now(), make(chan int)
		go func() { got <- get(t, p) }()
		time.Sleep(time.Second)
		c, err := p.Prepare(options("a"))
		if err != nil {
			t.Fatal(err)
		}
		c.Commit()
		if status := <-got; status != 200 || time.Since(began) != time.Second {
			t.Errorf("status %d after %v; want 200 from the new server, after 1 s", status, time.Since(began))
		}
	})
}
