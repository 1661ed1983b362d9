package choose_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// A choice takes as long among two hundred servers as among two.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{2, 20, 200} {
		b.Run(map[int]string{2: "2 servers", 20: "20 servers", 200: "200 servers"}[n], func(b *testing.B) {
			book := choose.New(nil, nil)
			var members []choose.Member
			for i := range n {
				members = append(members, choose.Member{Server: new(choose.Server), Weight: 1 + i%3})
			}
			book.Set(1, members, 0)
			start := time.Now()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					now := choose.Instant(time.Since(start) + 1)
					c, _ := book.Pick(now, choose.Request{Repeatable: true})
					c.Head(now+1000, true, false)
					c.Judge(now+1000, choose.Good, 0)
					c.End(now + 1000)
				}
			})
		})
	}
}
