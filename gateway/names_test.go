package gateway_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// A nameServer is an authoritative DNS server, over UDP on loopback.
type nameServer struct {
	conn net.PacketConn

	mu      sync.Mutex
	records []netip.Addr // guarded by mu; none is NXDOMAIN
	queries int          // guarded by mu: for IPv4 addresses
}

func newNameServer(t *testing.T, records ...string) *nameServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &nameServer{conn: conn}
	d.set(records...)
	var serving sync.WaitGroup
	serving.Go(d.serve)
	t.Cleanup(func() {
		conn.Close()
		serving.Wait()
	})
	return d
}

func (d *nameServer) set(records ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = nil
	for _, r := range records {
		d.records = append(d.records, netip.MustParseAddr(r))
	}
}

// resolver asks d alone.
func (d *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}
}

func (d *nameServer) serve() {
	b := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(b)
		if err != nil {
			return
		}
		if answer := d.answer(b[:n]); answer != nil {
			d.conn.WriteTo(answer, from)
		}
	}
}

// answer responds to a query of one question (RFC 1035, section 4).
func (d *nameServer) answer(q []byte) []byte {
	end := 12
	for end < len(q) && q[end] != 0 {
		end += int(q[end]) + 1
	}
	if end += 5; end > len(q) {
		return nil
	}
	kind := binary.BigEndian.Uint16(q[end-4:])
	d.mu.Lock()
	defer d.mu.Unlock()
	if kind == 1 {
		d.queries++
	}
	out := slices.Clone(q[:end])
	copy(out[2:], []byte{0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}) // an authoritative response
	if len(d.records) == 0 {
		out[3] = 3
	}
	for _, a := range d.records {
		if (kind == 1) != a.Is4() || kind != 1 && kind != 28 {
			continue
		}
		out[7]++
		out = append(out, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 1, 0, byte(len(a.AsSlice())))
		out = append(out, a.AsSlice()...)
	}
	return out
}

// machines serve the same port on addresses of the loopback network, and respond with their address.
func machines(t *testing.T, addresses ...string) (port string, servers []*httptest.Server) {
	port = "0"
	for _, a := range addresses {
		ln, err := net.Listen("tcp", net.JoinHostPort(a, port))
		if err != nil && runtime.GOOS != "linux" && a != addresses[0] {
			t.Skipf("this system has no other loopback addresses: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(ln.Addr().String())
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, a) }))
		srv.Listener.Close()
		srv.Listener = ln
		srv.Start()
		t.Cleanup(srv.Close)
		servers = append(servers, srv)
	}
	return port, servers
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// Without resolve, a name that has moved is followed once the connections are too old, with no failed request.
func TestH37_AMovedNameIsFollowedByConnections(t *testing.T) {
	port, _ := machines(t, "127.0.0.1", "127.0.0.2")
	d := newNameServer(t, "127.0.0.1")
	s := open(t, config(gateway.Upstream{Name: "main", Servers: []string{"http://shop.internal:" + port}, Resolver: d.resolver(), MaxConnAge: 20 * time.Millisecond, IdleConn: time.Hour}))
	ask := func() string {
		got := s.do(s.request("GET", "/", nil))
		if got.status != 200 {
			t.Fatalf("%d %q, %v; want 200", got.status, got.body, got.err)
		}
		return got.body
	}
	if got := ask(); got != "127.0.0.1" {
		t.Fatalf("response of %s; want the first address", got)
	}
	d.set("127.0.0.2")
	until(t, "the other address", func() bool { return ask() == "127.0.0.2" })
}

// With resolve, each address is a server, and a change is followed under load, with no failed request.
func TestH37_AMovedNameIsFollowedUnderLoad(t *testing.T) {
	port, servers := machines(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	d := newNameServer(t, "127.0.0.1", "127.0.0.2")
	u := gateway.Upstream{
		Name: "main", Servers: []string{"http://shop.internal:" + port}, ServerSettings: []gateway.ServerSettings{{Resolve: 20 * time.Millisecond}},
		Resolver: d.resolver(), Retry: gateway.Retry{Attempts: 2, Budget: 100}, // a connection that the old server just ends
	}
	s := open(t, config(u))
	var failed atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := s.do(s.request("GET", "/", nil)); got.status != 200 {
					failed.Add(1)
					t.Errorf("%d %q, %v; want 200", got.status, got.body, got.err)
				}
			}
		})
	}
	urls := func() (list []string) {
		for _, one := range s.g.Stats().Upstreams["main"].Servers {
			list = append(list, one.URL)
			if one.Name != "shop.internal:"+port {
				t.Errorf("Stats = %+v; want where it is resolved from", one)
			}
		}
		return list
	}
	at := func(addresses ...string) []string {
		for i := range addresses {
			addresses[i] = "http://" + addresses[i] + ":" + port
		}
		return addresses
	}
	until(t, "calls of both", func() bool {
		st := s.g.Stats().Upstreams["main"].Servers
		return len(st) == 2 && st[0].Calls > 10 && st[1].Calls > 10
	})
	d.set("127.0.0.2", "127.0.0.3")
	until(t, "the new address", func() bool { return slices.Contains(urls(), at("127.0.0.3")[0]) })
	servers[0].Config.SetKeepAlivesEnabled(false)
	servers[0].Close()
	until(t, "the old address to be left", func() bool { return slices.Equal(urls(), at("127.0.0.2", "127.0.0.3")) })
	close(stop)
	clients.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d requests failed; want none", n)
	}
}

// A name without an address means 503 with dns_error until it has one.
func TestH37_ANameWithoutAnAddress(t *testing.T) {
	port, _ := machines(t, "127.0.0.1")
	d := newNameServer(t)
	var mu sync.Mutex
	var changes []string // guarded by mu
	c := config(gateway.Upstream{Name: "main", Servers: []string{"http://shop.internal:" + port}, ServerSettings: []gateway.ServerSettings{{Resolve: 20 * time.Millisecond}}, Resolver: d.resolver()})
	c.ServerChanged = func(c gateway.ServerChange) {
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, fmt.Sprint(c.Server, " ", c.State, " ", c.Err != nil, " ", c.Addresses))
	}
	s := open(t, c)
	got := s.do(s.request("GET", "/", nil))
	if got.status != 503 || got.header.Get("Proxy-Status") != "weir; error=dns_error" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d, Proxy-Status %q, Retry-After %q; want 503, dns_error and a time", got.status, got.header.Get("Proxy-Status"), got.header.Get("Retry-After"))
	}
	if n := s.g.Stats().Upstreams["main"].Names; len(n) != 1 || n[0].Failures == 0 || n[0].Error == "" {
		t.Errorf("Stats = %+v; want the failed lookups", n)
	}
	d.set("127.0.0.1")
	until(t, "a response", func() bool { return s.do(s.request("GET", "/", nil)).status == 200 })
	mu.Lock()
	defer mu.Unlock()
	name := "http://shop.internal:" + port
	if want := []string{name + " unresolved true []", name + " resolved false [127.0.0.1]"}; !slices.Equal(changes, want) {
		t.Errorf("changes %q; want %q", changes, want)
	}
}
