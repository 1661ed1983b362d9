package listen_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weir-go/weir/app/proxy/access"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/gateway"
)

// A stack is a place that allocates, with all its callers.
type stack [32]uintptr

// A site is what was allocated at one place.
type site struct {
	objects, bytes int64
	frames         []runtime.Frame // without the runtime, the innermost first
}

// leaf returns the innermost function.
func (s *site) leaf() string {
	if len(s.frames) == 0 {
		return "runtime"
	}
	return s.frames[0].Function
}

// in reports whether the innermost function is one of these.
func (s *site) in(functions ...string) bool { return slices.Contains(functions, s.leaf()) }

func (s *site) String() string {
	var b strings.Builder
	for i, f := range s.frames {
		if i == 4 {
			break
		}
		fmt.Fprintf(&b, " < %s:%d", f.Function[strings.LastIndexByte(f.Function, '/')+1:], f.Line)
	}
	return b.String()
}

// allocated returns what was allocated so far, by place.
func allocated() map[stack]runtime.MemProfileRecord {
	runtime.GC() // the profile shows the latest collections
	runtime.GC()
	runtime.GC()
	n, _ := runtime.MemProfile(nil, true)
	for {
		records := make([]runtime.MemProfileRecord, n+100)
		m, ok := runtime.MemProfile(records, true)
		if n = m; !ok {
			continue
		}
		all := make(map[stack]runtime.MemProfileRecord, n)
		for _, r := range records[:n] {
			old := all[r.Stack0]
			old.AllocObjects += r.AllocObjects
			old.AllocBytes += r.AllocBytes
			all[r.Stack0] = old
		}
		return all
	}
}

// countSites calls f n times, and returns what it allocates, by place. A place that allocates
// less than once in ten calls is left out: a pool that was emptied, or a table that grows.
func countSites(t *testing.T, n int, f func()) []site {
	t.Helper()
	was := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	defer func() { runtime.MemProfileRate = was }()
	for range n {
		f()
	}
	before := allocated()
	for range n {
		f()
	}
	after := allocated()
	var sites []site
	for at, r := range after {
		objects := r.AllocObjects - before[at].AllocObjects
		if objects < int64(n)/10 {
			continue
		}
		s := site{objects: objects, bytes: r.AllocBytes - before[at].AllocBytes}
		depth := slices.Index(at[:], 0)
		if depth < 0 {
			depth = len(at)
		}
		for frames := runtime.CallersFrames(at[:depth]); ; {
			f, more := frames.Next()
			if !strings.HasPrefix(f.Function, "runtime.") && f.Function != "" {
				s.frames = append(s.frames, f)
			}
			if !more {
				break
			}
		}
		sites = append(sites, s)
	}
	slices.SortFunc(sites, func(a, b site) int { return cmp.Compare(b.objects, a.objects) })
	return sites
}

// constantOrigin answers each request with the same bytes, and allocates nothing.
func constantOrigin(t testing.TB, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for b, bytes := make([]byte, 4096), []byte(answer); ; {
					if _, err := c.Read(b); err != nil {
						return
					}
					if _, err := c.Write(bytes); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// A proxyClient sends the same request again and again on one connection, and allocates nothing.
type proxyClient struct {
	t       testing.TB
	conn    net.Conn
	request []byte
	b       [4096]byte
}

// newProxyClient opens a listener with the handlers of weir proxy in front of origin, and sends
// two requests: the first is always net/http's.
func newProxyClient(t testing.TB, origin, request string) *proxyClient {
	t.Helper()
	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "origin", Servers: []string{origin}}}, Routes: []gateway.Route{{Name: "all"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(context.Background()) })
	var counts tally.Tally
	counts.Routes([]string{"all"})
	log := access.New(access.Options{Out: io.Discard, Tally: &counts})
	s, err := listen.Open(listen.Config{Address: "127.0.0.1:0", FastPath: true}, listen.Options{Handler: log.Handler(g)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.Serve(func(err error) { t.Error(err) })
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &proxyClient{t: t, conn: conn, request: []byte(request)}
	r := bufio.NewReader(conn)
	for range 2 {
		if _, err := conn.Write(c.request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s with %v; want 200", resp.Status, err)
		}
	}
	return c
}

// do sends the request and receives the response.
func (c *proxyClient) do() {
	if _, err := c.conn.Write(c.request); err != nil {
		c.t.Fatal(err)
	}
	if n, err := c.conn.Read(c.b[:]); err != nil || string(c.b[:12]) != "HTTP/1.1 200" {
		c.t.Fatalf("%q with %v; want 200", c.b[:n], err)
	}
}

// counts are what one request allocates.
type counts struct {
	objects  int64
	contexts int64 // that can be canceled
	hooks    int64 // of context.AfterFunc
	timers   int64
	requests int64 // http.Requests, not those within another object
	maps     int64 // but not in contexts
}

// countRequest returns what each of c's requests allocates, and where.
func countRequest(t *testing.T, c *proxyClient) (counts, []site) {
	t.Helper()
	const n = 1000
	sites := countSites(t, n, c.do)
	var got counts
	size := int64(cap(append([]byte(nil), make([]byte, unsafe.Sizeof(http.Request{}))...))) // what is allocated for that size
	for i := range sites {
		s := &sites[i]
		per, each := (s.objects+n/2)/n, s.bytes/s.objects
		switch {
		case s.in("context.withCancel", "context.WithDeadlineCause") && each >= 64: // else its CancelFunc
			got.contexts += per
		case s.in("context.AfterFunc") && each >= 64:
			got.hooks += per
		case s.in("time.newTimer", "time.NewTimer"):
			got.timers += per
		case each == size && !strings.Contains(s.leaf(), "/maps."):
			got.requests += per
		case s.in("internal/runtime/maps.NewMap", "internal/runtime/maps.NewEmptyMap", "internal/runtime/maps.(*Map).Clone") &&
			each == 48 && !strings.HasPrefix(s.frames[1].Function, "context."):
			got.maps += per
		}
	}
	got.objects = math.MaxInt64
	for range 3 { // the profile counts tiny objects together, and a collection empties pools
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			c.do()
		}
		runtime.ReadMemStats(&after)
		got.objects = min(got.objects, int64(after.Mallocs-before.Mallocs)/n) //nolint:gosec // small
	}
	return got, sites
}

// What a hit and a forwarded request allocate in weir proxy, from the listener on, counted.
// The bounds may only fall: a change that lowers a count lowers its bound. The bounds of all objects
// leave room for one, because a sample of the URLs is kept.
func TestAllocationsOfARequest(t *testing.T) {
	if raced || listen.OverwritesHeaders {
		t.Skip("the race detector allocates")
	}
	browser := "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nAccept: */*\r\n" +
		"Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nReferer: http://h/\r\nConnection: keep-alive\r\n" +
		"Sec-Fetch-Dest: empty\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Site: same-origin\r\nPriority: u=4\r\n"
	for _, tt := range []struct {
		name, cacheControl, fields string
		most                       counts
	}{
		{"hit", "max-age=3600", "", counts{objects: 6, maps: 1}},
		{"hit of a browser", "max-age=3600", browser, counts{objects: 9, maps: 1}},
		{"forwarded", "no-store", "", counts{objects: 73, timers: 1, maps: 6}},
		{"forwarded for a browser", "no-store", browser, counts{objects: 80, timers: 1, maps: 6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			origin := constantOrigin(t, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: "+tt.cacheControl+
				"\r\nContent-Length: 150\r\n\r\n"+strings.Repeat("x", 150))
			c := newProxyClient(t, origin, "GET /a HTTP/1.1\r\nHost: h\r\n"+tt.fields+"\r\n")
			got, sites := countRequest(t, c)
			g, m := &got, &tt.most
			if g.objects > m.objects || g.contexts > m.contexts || g.hooks > m.hooks || g.timers > m.timers || g.requests > m.requests || g.maps > m.maps {
				t.Errorf("a request allocates %+v; want at most %+v", got, tt.most)
				for i := range sites {
					t.Logf("%.2f objects of %d bytes:%v", float64(sites[i].objects)/1000, sites[i].bytes/sites[i].objects, &sites[i])
				}
				return
			}
			t.Logf("a request allocates %+v", got)
		})
	}
}
