package metrics_test

import (
	"fmt"

	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/limit"
)

// A Walk reports Stats as metrics, for any system of metrics.
func ExampleWalk() {
	w := metrics.NewWalk(func(m *metrics.Metric, v float64, labels ...string) {
		if m.Name == "limit.in_use" {
			fmt.Println(m.Name, labels, v)
		}
	})
	db := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "db", Limit: 4}))
	if p, ok := db.TryAcquire(); ok == nil {
		defer p.Release(limit.Success)
	}
	w.Limiters("prices", db)
	// Output: limit.in_use [db] 1
}
