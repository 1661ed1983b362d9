package weirredis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

// BenchmarkOperations measures round trips of one caller, with the percentiles of
// each operation, and the time that a push takes to another instance.
func BenchmarkOperations(b *testing.B) {
	s := redistest.Start(b, redistest.Redis(b))
	tier, other := open(b, s), open(b, s)
	told := watch(b, other, "ns")
	rate := fleet.Rate{Permits: 1, Per: time.Hour, Burst: 1 << 20}
	value := fleet.Outcome{Entry: entry(string(make([]byte, 1024)))}
	var k fleet.Key
	var fence uint64
	var granted, settled, fresh, pushed, taken, noted []time.Duration
	note := func(all *[]time.Duration, fn func()) {
		begun := time.Now()
		fn()
		*all = append(*all, time.Since(begun))
	}
	for i := 0; b.Loop(); i++ {
		k = key(fmt.Sprint(i % 10_000))
		note(&granted, func() { fence = acquire(b, tier, k, fleet.Ask{NewerThan: fleet.AnyFence}).Fence })
		begun := time.Now()
		note(&settled, func() { settle(b, tier, k, fence, value, true) })
		<-told.told
		pushed = append(pushed, time.Since(begun))
		note(&fresh, func() { acquire(b, tier, k, fleet.Ask{}) })
		note(&taken, func() { take(b, tier, k, rate, 1) })
		note(&noted, func() { _, _ = tier.Tags(b.Context(), "ns", []string{"a"}) })
	}
	for name, all := range map[string][]time.Duration{
		"granted": granted, "settle": settled, "fresh": fresh, "settle-to-push": pushed, "take": taken, "tags": noted,
	} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), name+"-p99-µs")
	}
	for _, k := range []string{"weir:s:{ns/0}", "weir:e:{ns/0}", "weir:m:{ns/0}"} {
		b.ReportMetric(float64(s.Int("MEMORY", "USAGE", k)), k+"-bytes")
	}
}

// BenchmarkParallel measures concurrent callers: the throughput of one connection.
func BenchmarkParallel(b *testing.B) {
	s := redistest.Start(b, redistest.Redis(b))
	tier := open(b, s)
	write(b, tier, key("k"), fleet.Write{Entry: entry("v")})
	b.SetParallelism(64)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if a := acquire(b, tier, key("k"), fleet.Ask{}); a.Grant != fleet.GrantFresh {
				b.Errorf("Acquire = %v; want fresh", a.Grant)
			}
		}
	})
}
