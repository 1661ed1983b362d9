package weirhttp

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/buckets"
)

func TestH13_AFloodTakesBoundedMemory(t *testing.T) {
	for _, keys := range []int{10, 1000, 5000} {
		d, err := NewClientLimiter(ClientLimiterOptions{Rate: 1, Per: time.Hour, Keys: keys, Key: ByHeader("X-User", nil)})
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Header: http.Header{}}
		for i := range 30_000 {
			r.RemoteAddr = fmt.Sprintf("10.%d.%d.1:1", i>>8&0xff, i&0xff)
			r.Header.Set("X-User", fmt.Sprint(i))
			_ = d.Admit(r, nil)
		}
		for name, table := range map[string]*buckets.Table{"clients": d.table, "addresses": d.shares} {
			most := max(keys, 1024)
			if err := table.Check(); err != nil {
				t.Error(err)
			}
			if name == "clients" {
				most = keys
			}
			if n := table.Places(); n > most {
				t.Errorf("%d places for %s are used; want at most %d", n, name, most)
			}
		}
	}
}
