package weirhttp_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/weirhttp"
)

// Parts live as long as other responses, and go with them.
func TestH29_PartsAreInvalidated(t *testing.T) {
	invalidations := map[string]func(t *testing.T, s *site, c *weirhttp.Cache){
		"by URL": func(t *testing.T, _ *site, c *weirhttp.Cache) {
			_, _ = c.Invalidate(t.Context(), "http", "shop.example", "/a")
		},
		"by tag": func(t *testing.T, _ *site, c *weirhttp.Cache) { _ = c.InvalidateTags(t.Context(), "t") },
		"all":    func(t *testing.T, _ *site, c *weirhttp.Cache) { _ = c.InvalidateAll(t.Context()) },
		"expired": func(t *testing.T, _ *site, c *weirhttp.Cache) {
			_, _ = c.Expire(t.Context(), "http", "shop.example", "/a")
		},
		"by PUT":  func(t *testing.T, s *site, _ *weirhttp.Cache) { s.do(s.request(t.Context(), http.MethodPut, "/a")) },
		"by time": func(*testing.T, *site, *weirhttp.Cache) { time.Sleep(time.Minute) },
	}
	for name, invalidate := range invalidations {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, _ := weirhttp.NewCache(1 << 20)
				f := &film{size: 100, version: 1, fields: []string{"Cache-Tag", "t"}}
				s := open(t, h1, weirhttp.Options{Cache: cache}, f.ServeHTTP)
				s.get("/a", "Range", "bytes=10-39")
				synctest.Wait()
				invalidate(t, s, cache)
				f.set(func() { f.version = 2 })
				before := s.calls.Load()
				s.get("/a", "Range", "bytes=10-39").want(t, 206, f.bytes(2)[10:40])
				s.wantCalls(before + 1)
			})
		})
	}
	t.Run("while it is completed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cache, _ := weirhttp.NewCache(1 << 20)
			f := &film{size: 100, version: 1}
			s := open(t, h1, weirhttp.Options{Cache: cache}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				f.ServeHTTP(w, r)
			})
			s.get("/a", "Range", "bytes=10-39")
			synctest.Wait()
			done := make(chan reply)
			go func() { done <- s.get("/a", "Range", "bytes=20-59") }()
			time.Sleep(slow / 2)
			_ = cache.InvalidateAll(t.Context())
			(<-done).want(t, 206, f.bytes(1)[20:60]) // it came before
			synctest.Wait()
			if n := cache.Stats().Responses; n != 0 {
				t.Errorf("%d responses are stored; want none", n)
			}
		})
	})
}

// Random ranges, versions, faults and invalidations: each response has exactly the
// bytes that it says it has, of one version, which was current after the last
// invalidation.
func TestH29_HistoriesOfParts(t *testing.T) {
	for seed := range histories.Seeds(t, 12, 40) {
		synctest.Test(t, func(t *testing.T) { playHistory(t, seed) })
	}
}

func playHistory(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	f := &film{size: 100, version: 1, dated: seed%3 == 0}
	cache, _ := weirhttp.NewCache(1 << 20)
	o := weirhttp.Options{Cache: cache}
	if seed%4 == 0 {
		o.MaxObject = 70 // the parts never fit together
	}
	var calls atomic.Uint64
	s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
		own := rand.New(rand.NewPCG(seed, calls.Add(1)))
		time.Sleep(time.Duration(own.IntN(3)) * time.Millisecond)
		f.ServeHTTP(w, r)
	})
	sizes, oldest := map[int]int{1: 100}, 1
	for range 80 {
		if random.IntN(8) == 0 {
			f.set(func() {
				f.version, f.size, f.ignores = f.version+1, 60+random.IntN(50), random.IntN(2) == 0
				sizes[f.version] = f.size
			})
		}
		if random.IntN(12) == 0 {
			_ = cache.InvalidateAll(t.Context())
			oldest = f.version
		}
		if random.IntN(10) == 0 {
			time.Sleep(time.Minute)
			oldest = f.version
		}
		f.set(func() { f.breaks = max(0, random.IntN(60)-40) })
		heads := map[int]bool{}
		for i, r := range s.together(5, func(i int) *http.Request {
			r := randomRequest(s, random, f)
			heads[i] = r.Method == http.MethodHead
			return r
		}) {
			if !heads[i] {
				wantVersionFrom(t, r, oldest, f, sizes)
			}
		}
		synctest.Wait()
	}
	if st := cache.Stats(); st.Reserved != 0 || st.Responses > 1 {
		t.Errorf("%d bytes are still reserved, and %d responses stored; want 0, and at most 1", st.Reserved, st.Responses)
	}
}

// randomRequest returns a request for all of f, or for a part.
func randomRequest(s *site, random *rand.Rand, f *film) *http.Request {
	r := s.request(s.t.Context(), http.MethodGet, "/a")
	from := random.IntN(f.size)
	switch random.IntN(8) {
	case 0:
		return r
	case 1:
		r.Method = http.MethodHead
	case 2:
		r.Header.Set("Range", "bytes=-"+strconv.Itoa(1+random.IntN(f.size)))
		return r
	case 3:
		r.Header.Set("If-Range", f.etag(1+random.IntN(f.version)))
	case 4:
		r.Header.Set("Cache-Control", "no-cache")
	}
	r.Header.Set("Range", rangeOf(from, from+random.IntN(60)))
	return r
}

// wantVersionFrom fails the test if r does not have the bytes that it says it has, of a
// version that is not older than oldest.
func wantVersionFrom(t *testing.T, r reply, oldest int, f *film, sizes map[int]int) {
	t.Helper()
	if r.err != nil && f.breaks > 0 {
		return // it broke off, and the client knows
	}
	for v := oldest; v <= f.version; v++ {
		want, all := sizes[v], filmed(v)
		from, to, total := 0, want-1, want
		switch {
		case r.status == http.StatusPartialContent:
			_, _ = fmt.Sscanf(r.header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total)
		case r.status == http.StatusRequestedRangeNotSatisfiable:
			if r.header.Get("Content-Range") == "bytes */"+strconv.Itoa(want) {
				return
			}
			continue
		case r.status != http.StatusOK || len(r.body) != want:
			continue
		}
		if total == want && r.body == all[from:to+1] {
			return
		}
	}
	t.Errorf("got %d %q %q, %v, which is not of a version from %d to %d", r.status, r.header.Get("Content-Range"), r.body, r.err, oldest, f.version)
}
