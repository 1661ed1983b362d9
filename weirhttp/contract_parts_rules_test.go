package weirhttp_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A part of another version shows that the complete response is outdated; one of the
// same version adds nothing to it.
func TestH29_PartsAndTheCompleteResponse(t *testing.T) {
	for name, newer := range map[string]bool{"the same version": false, "a newer version": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, _ := weirhttp.NewCache(1 << 20)
				f := &film{size: 100, version: 1}
				s := open(t, h1, weirhttp.Options{Cache: cache}, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Range") != "" {
						time.Sleep(2 * time.Second)
					}
					f.ServeHTTP(w, r)
				})
				done := make(chan reply)
				go func() { done <- s.get("/a", "Range", "bytes=10-39") }()
				time.Sleep(time.Second)
				s.get("/a").want(t, 200, f.bytes(1))
				version, calls := 1, int64(2)
				if newer {
					version, calls = 2, 3
					f.set(func() { f.version = 2 })
				}
				(<-done).want(t, 206, f.bytes(version)[10:40])
				synctest.Wait()
				s.get("/a", "Range", "bytes=20-29").want(t, 206, f.bytes(version)[20:30])
				s.get("/a").want(t, 200, f.bytes(version))
				s.wantCalls(calls)
				if n := cache.Stats().Responses; n != 1 {
					t.Errorf("%d responses are stored; want 1", n)
				}
			})
		})
	}
}

// A slow part that is older than the response stored in the meantime does not replace that.
func TestH29_LatePartsDoNotReplaceNewerOnes(t *testing.T) {
	for _, request := range [][]string{nil, {"Range", "bytes=0-49"}} {
		synctest.Test(t, func(t *testing.T) {
			f := &film{size: 100, version: 1}
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Slow") == "" {
					f.ServeHTTP(w, r)
					return
				}
				old := &film{size: 100, version: 1}
				old.ServeHTTP(slowWriter{w}, r)
			})
			done := make(chan reply)
			go func() { done <- s.get("/a", "Range", "bytes=10-39", "X-Slow", "1") }()
			time.Sleep(time.Second)
			f.set(func() { f.version = 2 })
			s.get("/a", request...)
			(<-done).want(t, 206, f.bytes(1)[10:40])
			synctest.Wait()
			s.get("/a", "Range", "bytes=10-39").want(t, 206, f.bytes(2)[10:40])
			s.wantCalls(2)
		})
	}
}

// A slowWriter sends its body in two halves, a long time apart.
type slowWriter struct{ http.ResponseWriter }

func (w slowWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:len(p)/2])
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	time.Sleep(10 * time.Second)
	m, more := w.ResponseWriter.Write(p[len(p)/2:])
	return n + m, errors.Join(err, more)
}

// Fields about one part are not sent with another, and a cookie goes to one client.
func TestH29_FieldsOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &film{size: 100, version: 1, fields: []string{"Content-Digest", "sha-256=:part:", "Repr-Digest", "sha-256=:whole:", "X-Old", "1"}}
		s := open(t, h1, weirhttp.Options{}, f.ServeHTTP)
		has(t, s.get("/a", "Range", "bytes=0-39"), "Content-Digest", "part")
		synctest.Wait()
		r := s.get("/a", "Range", "bytes=0-9")
		if r.header.Get("Content-Digest") != "" || r.header.Get("Repr-Digest") == "" {
			t.Errorf("the fields are %v; want no Content-Digest of another part", r.header)
		}
		f.set(func() { f.fields = []string{"Content-Digest", "sha-256=:other:", "Set-Cookie", "a=b", "X-New", "1"} })
		for _, request := range [][]string{{"Range", "bytes=20-59"}, {"Range", "bytes=20-59"}, nil} { // it is not stored
			r = s.get("/a", request...)
			has(t, r, "Cache-Status", "fwd=partial")
			has(t, r, "Set-Cookie", "a=b")
			has(t, r, "X-Old", "1")
			has(t, r, "X-New", "1")
			if r.header.Get("Content-Digest") != "" {
				t.Errorf("the fields are %v; want no Content-Digest of one part", r.header)
			}
			synctest.Wait()
		}
		s.get("/a").want(t, 200, f.bytes(1))
		s.wantCalls(5)
	})
}

// Parts are kept apart like other responses.
func TestH29_PartsOfVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		films := map[string]*film{
			"de": {size: 100, version: 1, fields: []string{"Vary", "Accept-Language"}},
			"en": {size: 100, version: 2, fields: []string{"Vary", "Accept-Language"}},
		}
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			films[r.Header.Get("Accept-Language")].ServeHTTP(w, r)
		})
		for range 2 {
			for language, f := range films {
				s.get("/a", "Range", "bytes=10-39", "Accept-Language", language).want(t, 206, f.bytes(f.version)[10:40])
				synctest.Wait()
			}
		}
		s.wantCalls(2)
		s.get("/a", "Range", "bytes=20-59", "Accept-Language", "en").want(t, 206, filmed(2)[20:60])
		if got := films["en"].last(); got != `bytes=40-59 "2"` {
			t.Errorf("the origin got a request for %s; want bytes=40-59 of version 2", got)
		}
	})
}

// HEAD has no ranges, and parts are not the whole.
func TestH29_PartsAnswerOnlyRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &film{size: 100, version: 1}
		s := open(t, h1, weirhttp.Options{}, f.ServeHTTP)
		s.get("/a", "Range", "bytes=10-39")
		synctest.Wait()
		s.do(s.request(t.Context(), http.MethodHead, "/a", "Range", "bytes=10-39"))
		s.do(s.request(t.Context(), http.MethodHead, "/a"))
		s.wantCalls(3)
		if r := s.get("/a", "Cache-Control", "only-if-cached"); r.status != http.StatusGatewayTimeout {
			t.Errorf("a request for the whole with only-if-cached got %d; want 504", r.status)
		}
		s.get("/a", "Range", "bytes=10-19", "Cache-Control", "only-if-cached").want(t, 206, f.bytes(1)[10:20])
		e := s.handler.Explain(s.request(t.Context(), http.MethodGet, "/a", "Range", "bytes=10-19"))
		if e.Answer != "hit" || len(e.Stored) != 1 || e.Stored[0].Bytes != 30 || e.Stored[0].Status != 206 {
			t.Errorf("Explain = %+v; want a hit in 30 bytes", e)
		}
		e = s.handler.Explain(s.request(t.Context(), http.MethodGet, "/a"))
		if e.Answer != "lead" || !strings.Contains(strings.Join(e.Steps, " "), "Only parts") {
			t.Errorf("Explain = %+v; want a call that completes the parts", e)
		}
		s.wantCalls(3)
	})
}

// Parts count against the store like other responses, and against MaxObject together.
func TestH29_PartsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := weirhttp.NewCache(1 << 20)
		f := &film{size: 50000, version: 1}
		s := open(t, h1, weirhttp.Options{Cache: cache, MaxObject: 20000}, f.ServeHTTP)
		for i := range 100 {
			from := i * 7919 % 49000
			to := min(from+i*97, 49999)
			s.get("/a", "Range", rangeOf(from, to)).want(t, 206, f.bytes(1)[from:to+1])
			synctest.Wait()
			st := cache.Stats()
			if st.Used > 24<<10 || st.Reserved != 0 || st.Responses != 1 {
				t.Fatalf("after %d ranges, %d responses with %d bytes are stored, and %d reserved; want one with 20000 bytes at most, and none", i+1, st.Responses, st.Used, st.Reserved)
			}
		}
		for i := range 100 {
			s.get("/"+strings.Repeat("b", i), "Range", "bytes=0-19999")
			synctest.Wait()
		}
		if st := cache.Stats(); st.Used > st.Bytes || st.Evicted == 0 {
			t.Errorf("%d bytes of %d are stored, and no response was evicted; want a full cache", st.Used, st.Bytes)
		}
	})
}

// The folder has complete responses only, also those that were completed from parts.
func TestH29_PartsAndTheFolder(t *testing.T) {
	f := &film{size: 2000, version: 1}
	restarted(t, weirhttp.Options{}, f.ServeHTTP, func(t *testing.T, s *site, c *weirhttp.Cache) {
		f.set(func() { f.version = 1 })
		s.get("/parts", "Range", "bytes=10-1039")
		s.get("/completed", "Range", "bytes=0-999")
		s.get("/whole")
		synctest.Wait()
		s.get("/completed")
		synctest.Wait()
		if n := c.Stats().Folder.Responses; n != 2 {
			t.Errorf("the folder has %d responses; want 2", n)
		}
		// A part in memory leaves alone what the folder has.
		f.set(func() { f.version = 2 })
		s.get("/whole", "Range", "bytes=10-1039", "If-None-Match", `"0"`)
	}, func(t *testing.T, s *site, _ *weirhttp.Cache) {
		before := s.calls.Load()
		s.get("/completed").want(t, 200, f.bytes(1))
		s.get("/whole", "Range", "bytes=5-9").want(t, 206, f.bytes(1)[5:10])
		s.wantCalls(before)
		s.get("/parts", "Range", "bytes=10-1039").want(t, 206, f.bytes(2)[10:1040])
		s.wantCalls(before + 1)
	})
}

// A purge on one instance removes the parts of the others as well.
func TestH29_PartsInAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &film{size: 100, version: 1}
		caches := make([]*weirhttp.Cache, 2)
		e := openEnsemble(t, 2, func(i int, o *weirhttp.Options) {
			caches[i], _ = weirhttp.NewCache(1 << 20)
			o.Cache = caches[i]
		}, f.ServeHTTP)
		for range 2 {
			for _, s := range e.sites {
				s.get("/a", "Range", "bytes=10-39").want(t, 206, f.bytes(1)[10:40])
				synctest.Wait()
			}
		}
		e.wantCalls(2)
		f.set(func() { f.version = 2 })
		if _, err := caches[0].Invalidate(t.Context(), "http", "shop.example", "/a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, s := range e.sites {
			s.get("/a", "Range", "bytes=10-39").want(t, 206, f.bytes(2)[10:40])
			synctest.Wait()
		}
		// The whole that one instance completes is the fleet's.
		for _, s := range e.sites {
			s.get("/a").want(t, 200, f.bytes(2))
			synctest.Wait()
		}
		e.wantCalls(5)
	})
}

// The Go file server behind it, and a download that is resumed.
func TestH29_WithAFileServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		want := filmed(1)
		if err := os.WriteFile(filepath.Join(dir, "film"), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "film"), old, old); err != nil {
			t.Fatal(err)
		}
		files := http.FileServer(http.Dir(dir))
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
			files.ServeHTTP(w, r)
		})
		s.get("/film", "Range", "bytes=0-19999").want(t, 206, want[:20000])
		synctest.Wait()
		s.get("/film", "Range", "bytes=15000-").want(t, 206, want[15000:])
		synctest.Wait()
		s.get("/film").want(t, 200, want)
		s.wantCalls(2)
		r := s.get("/film", "Range", "bytes=15000-15009,20-29")
		if r.status != 206 || !strings.Contains(r.body, want[15000:15010]) || !strings.Contains(r.body, want[20:30]) {
			t.Errorf("two ranges got %d %q; want both", r.status, r.body)
		}
		s.wantCalls(2)
	})
}

var _ io.Writer = slowWriter{}

// An origin may serve another range than the one that was requested for a gap. It is of
// the same version, but its bytes belong elsewhere.
func TestH29_ARangeThatWasNotAskedFor(t *testing.T) {
	for name, serves := range map[string]func(from, to int) (int, int){
		"earlier": func(from, to int) (int, int) { return max(0, from-10), to },
		"later":   func(from, to int) (int, int) { return from + 5, to },
		"shorter": func(from, to int) (int, int) { return from, to - 5 },
		"moved":   func(from, to int) (int, int) { return max(0, from-10), to - 10 },
	} {
		for _, request := range [][]string{nil, {"Range", "bytes=0-79"}} {
			synctest.Test(t, func(t *testing.T) {
				f := &film{size: 100, version: 1}
				s := open(t, h1, weirhttp.Options{}, f.ServeHTTP)
				s.get("/a", "Range", "bytes=0-39")
				synctest.Wait()
				f.set(func() { f.serves = serves })
				r := s.get("/a", request...)
				wantOneVersion(t, f, r)
				if r.err != nil {
					t.Errorf("%s, %v: %v; want a response", name, request, r.err)
				}
			})
		}
	}
}

// The bytes of an origin that gives two versions the same strong ETag are not combined
// where they differ.
func TestH29_PartsThatContradictEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &film{size: 100, version: 1, tag: `"same"`}
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(slow)
			f.ServeHTTP(w, r)
		})
		first := make(chan reply)
		go func() { first <- s.get("/a", "Range", "bytes=0-39") }()
		time.Sleep(slow / 2)
		second := make(chan reply)
		go func() { second <- s.get("/a", "Range", "bytes=20-59") }() // nothing is stored yet
		(<-first).want(t, 206, f.bytes(1)[:40])
		f.set(func() { f.version = 2 })
		(<-second).want(t, 206, f.bytes(2)[20:60])
		synctest.Wait()
		s.get("/a", "Range", "bytes=0-59").want(t, 206, f.bytes(2)[:60])
	})
}

// A part that was expired is not fresh again because of another part.
func TestH29_ExpiredPartsStayExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := weirhttp.NewCache(1 << 20)
		f := &film{size: 100, version: 1}
		s := open(t, h1, weirhttp.Options{Cache: cache}, f.ServeHTTP)
		s.get("/a", "Range", "bytes=0-39")
		synctest.Wait()
		if _, err := cache.Expire(t.Context(), "http", "shop.example", "/a"); err != nil {
			t.Fatal(err)
		}
		s.get("/a", "Range", "bytes=40-79")
		synctest.Wait()
		before := s.calls.Load()
		s.get("/a", "Range", "bytes=0-39").want(t, 206, f.bytes(1)[:40])
		s.wantCalls(before + 1)
	})
}
