package listen_test

import (
	"io"
	"net"
	"testing"

	"github.com/weir-go/weir/app/proxy/listen"
)

// BenchmarkHit measures one hit over a kept-alive connection, with the fields that wrk
// and a browser send, with and without net/http.
func BenchmarkHit(b *testing.B) { bothWays(b, "/a") }

// BenchmarkPass measures a request that is forwarded, in the same way. The origin runs in
// the same process, so the difference is larger than it seems.
func BenchmarkPass(b *testing.B) { bothWays(b, "/x") }

func bothWays(b *testing.B, target string) {
	browser := get(target, "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language: en-US,en;q=0.5",
		"Accept-Encoding: gzip, deflate, br, zstd", "Connection: keep-alive", "Upgrade-Insecure-Requests: 1",
		"Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none", "Priority: u=0, i")
	for _, request := range []struct{ name, text string }{{"wrk", get(target)}, {"browser", browser}} {
		w := newTwoWays(b, listen.Config{})
		for _, way := range []struct {
			name string
			way
		}{{"fast", w.fast}, {"nethttp", w.slow}} {
			b.Run(request.name+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					c, err := net.Dial("tcp", way.Address())
					if err != nil {
						b.Error(err)
						return
					}
					defer c.Close()
					answer := make([]byte, 4096)
					for pb.Next() {
						if _, err := io.WriteString(c, request.text); err != nil {
							b.Error(err)
							return
						}
						if _, err := c.Read(answer); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}
