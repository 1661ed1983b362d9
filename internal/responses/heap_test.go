package responses_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/weir-go/weir/internal/responses"
)

// heap returns the number of reachable bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The counted size is at least what the store really keeps alive, and for small
// responses not much more.
func TestUsedCoversLiveHeap(t *testing.T) {
	for row, tt := range []struct {
		name   string
		make   func(i int) *responses.Stored
		atMost float64 // relative to the live bytes
	}{
		{"body of 200 bytes", func(int) *responses.Stored { return response(200) }, 1.6},
		{"no body", func(int) *responses.Stored { return response(0) }, 1.6},
		{"body of 5,000 bytes", func(int) *responses.Stored { return response(5000) }, 1.2},
		{"8 fields", func(i int) *responses.Stored { return withFields(200, 8, i) }, 1.6},
		{"9 fields", func(i int) *responses.Stored { return withFields(200, 9, i) }, 1.6},
		{"20 fields", func(i int) *responses.Stored { return withFields(200, 20, i) }, 1.6},
		{"vary", func(i int) *responses.Stored { return variant("x", path(i)) }, 1.6},
		{"apart, one a URL", func(i int) *responses.Stored { r, _ := forClient(path(i)); return r }, 1.6},
		{"own tags", func(i int) *responses.Stored { return response(200, path(i), path(-i)) }, 2.5},
		{"shared tags", func(i int) *responses.Stored { return response(200, path(i%10), path(-i%10)) }, 3.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := 20_000
			if row > 0 {
				n = 5000 // enough if only the responses differ
			}
			s := responses.New(responses.Options{Bytes: 1 << 30})
			before := heap()
			for i := range n {
				if !s.Begin(key(fmt.Sprintf("/some/path/%d", i))).Put(tt.make(i)) {
					t.Fatal("Put = false; want true")
				}
			}
			live, used := heap()-before, s.Stats().Used
			t.Logf("alive %d, counted %d bytes an entry: %.2f", live/int64(n), used/int64(n), float64(used)/float64(live))
			if used < live || float64(used) > tt.atMost*float64(live) {
				t.Errorf("Used = %d for %d bytes alive; want at least that, and at most %.1f times", used, live, tt.atMost)
			}
			runtime.KeepAlive(s)
		})
	}
	t.Run("apart, all of one URL", func(t *testing.T) {
		s, n := responses.New(responses.Options{Bytes: 1 << 30}), 5000
		before := heap()
		for i := range n {
			r, _ := forClient(path(i))
			put(t, s, key("/some/path"), r)
		}
		if live, used := heap()-before, s.Stats().Used; used < live || used > 2*live {
			t.Errorf("Used = %d for %d bytes alive; want at least that, and at most twice", used, live)
		}
		runtime.KeepAlive(s)
	})
}

// withFields returns a response with a body of n bytes and the given number of
// fields.
func withFields(n, fields, i int) *responses.Stored {
	r := response(n)
	r.Header = http.Header{}
	for f := range fields {
		r.Header.Set(fmt.Sprintf("X-Field-%d", f), fmt.Sprintf("the value %d of field %d", i, f))
	}
	return r
}
