//go:build unix

package listen_test

import (
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCPU measures the CPU time of a request to weir proxy over 64 connections, including
// the clients' and the origin's, which run in the same process and allocate nothing. Compare
// programs by running their test binaries in turns.
func BenchmarkCPU(b *testing.B) {
	for _, bb := range []struct{ name, cacheControl string }{{"hit", "max-age=3600"}, {"forwarded", "no-store"}} {
		b.Run(bb.name, func(b *testing.B) {
			const conns = 64
			origin := constantOrigin(b, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: "+bb.cacheControl+
				"\r\nContent-Length: 150\r\n\r\n"+strings.Repeat("x", 150))
			clients := []*proxyClient{newProxyClient(b, origin, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")}
			for range conns - 1 {
				conn, err := net.Dial("tcp", clients[0].conn.RemoteAddr().String())
				if err != nil {
					b.Fatal(err)
				}
				defer conn.Close()
				c := &proxyClient{t: b, conn: conn, request: clients[0].request}
				c.do()
				clients = append(clients, c)
			}
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime()
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					for range b.N/conns + 1 {
						c.do()
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the CPU time of the process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
