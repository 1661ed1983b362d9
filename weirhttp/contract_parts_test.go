package weirhttp_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A film is an origin of one URL that serves ranges. Each version has its own bytes.
type film struct {
	mu      sync.Mutex
	version int
	size    int
	fields  []string                      // name, value, ... of its responses
	weak    bool                          // its ETag is weak
	dated   bool                          // it has Last-Modified instead of an ETag
	ignores bool                          // it ignores If-Range
	breaks  int                           // bytes after which a body breaks off, 0 for never
	longer  int                           // how many bytes more (or less) a part has than its range, without a Content-Length
	claims  func(string) string           // changes its Content-Range
	serves  func(from, to int) (int, int) // changes the range that it serves
	tag     string                        // its ETag, whatever its version
	asked   []string                      // Range and If-Range of its requests
}

// bytes returns the body of a version. No piece of it is in another version, or at
// another place.
func (f *film) bytes(version int) string { return filmed(version)[:f.size] }

var films sync.Map // of what filmed returned

func filmed(version int) string {
	if all, ok := films.Load(version); ok {
		return all.(string)
	}
	random := rand.New(rand.NewPCG(uint64(version), 29)) //nolint:gosec // not negative
	b := make([]byte, 50000)
	for i := range b {
		b[i] = byte('a' + random.IntN(26))
	}
	films.Store(version, string(b))
	return string(b)
}

func (f *film) etag(version int) string { return `"` + strconv.Itoa(version) + `"` }

func (f *film) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.TrimSpace(r.Header.Get("Range")+" "+r.Header.Get("If-Range")))
	body, tag, modified := f.bytes(f.version), cmp.Or(f.tag, f.etag(f.version)), time.Date(2000, 1, 1, 0, f.version, 0, 0, time.UTC).Add(-time.Hour).Format(http.TimeFormat)
	h := w.Header()
	h.Set("Cache-Control", "max-age=60")
	h.Set("Content-Type", "video/film")
	validator := tag
	switch {
	case f.dated:
		h.Set("Last-Modified", modified)
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
		validator = modified
	case f.weak:
		h.Set("Etag", "W/"+tag)
	default:
		h.Set("Etag", tag)
	}
	for i := 0; i+1 < len(f.fields); i += 2 {
		h.Set(f.fields[i], f.fields[i+1])
	}
	spec := strings.TrimPrefix(r.Header.Get("Range"), "bytes=")
	if with := r.Header.Get("If-Range"); spec == "" || strings.Contains(spec, ",") || with != "" && with != validator && !f.ignores {
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body)
		return
	}
	a, b, _ := strings.Cut(spec, "-")
	from, _ := strconv.Atoi(a)
	to, err := strconv.Atoi(b)
	if err != nil || to >= len(body) {
		to = len(body) - 1
	}
	if a == "" {
		n, _ := strconv.Atoi(b)
		from, to = len(body)-n, len(body)-1
	}
	if from >= len(body) {
		h.Set("Content-Range", "bytes */"+strconv.Itoa(len(body)))
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	if f.serves != nil {
		from, to = f.serves(from, to)
	}
	at := fmt.Sprintf("bytes %d-%d/%d", from, to, len(body))
	if f.claims != nil {
		at = f.claims(at)
	}
	h.Set("Content-Range", at)
	if f.longer != 0 {
		w.WriteHeader(http.StatusPartialContent)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, (body + body)[from:to+1+f.longer])
		return
	}
	h.Set("Content-Length", strconv.Itoa(to-from+1))
	w.WriteHeader(http.StatusPartialContent)
	if f.breaks > 0 && to-from+1 > f.breaks {
		_, _ = io.WriteString(w, body[from:from+f.breaks])
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, body[from:to+1])
}

func (f *film) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[len(f.asked)-1]
}

func (f *film) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func rangeOf(from, to int) string { return fmt.Sprintf("bytes=%d-%d", from, to) }

func TestH29_PartsAreStoredAndCombined(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			f := &film{size: 100, version: 1}
			s := open(t, p, weirhttp.Options{}, f.ServeHTTP)
			all := f.bytes(1)
			first := s.get("/a", "Range", "bytes=10-39")
			first.want(t, 206, all[10:40])
			has(t, first, "Cache-Status", "stored")
			synctest.Wait()
			for _, r := range []string{"bytes=10-39", "bytes=20-29", "bytes=39-39", "Bytes= 12-13"} {
				got := s.get("/a", "Range", r)
				if got.status != 206 || !strings.Contains(all[10:40], got.body) {
					t.Errorf("Range %s = %d %q; want a piece of %q", r, got.status, got.body, all[10:40])
				}
				has(t, got, "Cache-Status", "hit")
				has(t, got, "Content-Type", "video/film")
			}
			r := s.get("/a", "Range", "bytes=20-29", "If-Range", `"1"`)
			r.want(t, 206, all[20:30])
			if at, n := r.header.Get("Content-Range"), r.header.Get("Content-Length"); at != "bytes 20-29/100" || n != "10" {
				t.Errorf("Content-Range, Content-Length = %q, %q; want bytes 20-29/100, 10", at, n)
			}
			s.wantCalls(1)
			// Only the rest is requested.
			r = s.get("/a", "Range", "bytes=30-59")
			r.want(t, 206, all[30:60])
			has(t, r, "Content-Range", "bytes 30-59/100")
			has(t, r, "Cache-Status", "fwd=partial; fwd-status=206; ttl=60; stored")
			if got := f.last(); got != `bytes=40-59 "1"` {
				t.Errorf("the origin got a request for %s; want bytes=40-59 of version 1", got)
			}
			synctest.Wait()
			s.get("/a", "Range", "bytes=10-59").want(t, 206, all[10:60])
			s.wantCalls(2)
			// The whole, too.
			s.get("/a", "Range", "bytes=0-9").want(t, 206, all[:10])
			synctest.Wait()
			r = s.get("/a")
			r.want(t, 200, all)
			if got := f.last(); got != `bytes=60- "1"` || r.header.Get("Content-Range") != "" || r.header.Get("Content-Length") != "100" {
				t.Errorf("the origin got a request for %s, and the fields are %v; want bytes=60- of version 1, and no Content-Range", got, r.header)
			}
			has(t, r, "Cache-Status", "fwd=partial; fwd-status=206")
			synctest.Wait()
			r = s.get("/a")
			r.want(t, 200, all)
			has(t, r, "Cache-Status", "hit")
			s.get("/a", "Range", "bytes=-7").want(t, 206, all[93:])
			s.wantCalls(4)
		})
	})
}

// Ranges that are complete together are the whole response.
func TestH29_PartsThatAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &film{size: 100, version: 1, dated: true}
		cache, _ := weirhttp.NewCache(1 << 20)
		s := open(t, h1, weirhttp.Options{Cache: cache}, f.ServeHTTP)
		for _, r := range []string{"bytes=50-", "bytes=-10", "bytes=0-9", "bytes=10-55"} {
			s.get("/a", "Range", r)
			synctest.Wait()
		}
		r := s.get("/a")
		r.want(t, 200, f.bytes(1))
		has(t, r, "Cache-Status", "hit")
		if n := cache.Stats().Responses; n != 1 {
			t.Errorf("%d responses are stored; want 1, the whole", n)
		}
	})
}

// Whatever the origin does, no client gets bytes of two versions.
func TestH29_VersionsAreNeverMixed(t *testing.T) {
	rows := []struct {
		name   string
		before func(f *film)
		change func(f *film)
	}{
		{"a new version", nil, func(f *film) { f.version = 2 }},
		{"a new version, and If-Range ignored", nil, func(f *film) { f.version, f.ignores = 2, true }},
		{"another length", nil, func(f *film) { f.version, f.size, f.ignores = 2, 80, true }},
		{"another length, with the old tag", nil, func(f *film) { f.size, f.ignores, f.fields = 80, true, []string{"Etag", `"1"`} }},
		{"a shorter body", nil, func(f *film) { f.version, f.size, f.ignores = 2, 30, true }},
		{"the validator is gone", nil, func(f *film) { f.version, f.ignores, f.fields = 2, true, []string{"Etag", ""} }},
		{"the validator is weak now", nil, func(f *film) { f.version, f.ignores, f.weak = 2, true, true }},
		{"weak validators", func(f *film) { f.weak = true }, func(f *film) { f.version, f.ignores = 2, true }},
		{"no validators", func(f *film) { f.fields = []string{"Etag", ""} }, func(f *film) { f.version, f.ignores = 2, true }},
		{"another encoding", nil, func(f *film) {
			f.version, f.ignores, f.fields = 2, true, []string{"Etag", `"1"`, "Content-Encoding", "br"}
		}},
		{"dates", func(f *film) { f.dated = true }, func(f *film) { f.version, f.ignores = 2, true }},
		{"a range that was not asked for", nil, func(f *film) {
			f.version, f.ignores, f.claims = 2, true, func(string) string { return "bytes 0-9/100" }
		}},
		{"a range without sense", nil, func(f *film) {
			f.version, f.ignores, f.claims = 2, true, func(string) string { return "bytes 40-20/100" }
		}},
	}
	for _, row := range rows {
		for _, target := range []string{"a range", "the whole"} {
			t.Run(row.name+", "+target, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &film{size: 100, version: 1}
					if row.before != nil {
						row.before(f)
					}
					s := open(t, h1, weirhttp.Options{}, f.ServeHTTP)
					s.get("/a", "Range", "bytes=10-39").want(t, 206, f.bytes(1)[10:40])
					synctest.Wait()
					f.set(func() { row.change(f) })
					for range 3 {
						var r reply
						if target == "a range" {
							r = s.get("/a", "Range", "bytes=20-59")
						} else {
							r = s.get("/a")
						}
						wantOneVersion(t, f, r)
						synctest.Wait()
						wantOneVersion(t, f, s.get("/a", "Range", "bytes=0-99"))
						synctest.Wait()
					}
				})
			})
		}
	}
}

// wantOneVersion fails the test if r does not have the bytes that it says it has, of
// one version of f.
func wantOneVersion(t *testing.T, f *film, r reply) {
	t.Helper()
	if r.err != nil {
		t.Errorf("got an error: %v", r.err)
	}
	var from, to, total int
	if n, _ := fmt.Sscanf(r.header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total); n != 3 || f.claims != nil {
		from, to = 0, len(r.body)-1 // of a range that is wrong at the origin, nothing but the version is known
	}
	for v := 1; v < 4; v++ {
		if all := filmed(v); all[from:to+1] == r.body || f.claims != nil && strings.Contains(all, r.body) {
			return
		}
	}
	t.Errorf("got %d %q, which is not %d to %d of one version", r.status, r.body, from, to)
}

func TestH29_PartsThatAreNotStored(t *testing.T) {
	rows := []struct {
		name    string
		request []string
		f       *film
		o       weirhttp.Options
	}{
		{"a weak validator", nil, &film{weak: true}, weirhttp.Options{}},
		{"no validator", nil, &film{fields: []string{"Etag", ""}}, weirhttp.Options{}},
		{"private", nil, &film{fields: []string{"Cache-Control", "private, max-age=60"}}, weirhttp.Options{}},
		{"no freshness", nil, &film{fields: []string{"Cache-Control", ""}}, weirhttp.Options{}},
		{"Set-Cookie", nil, &film{fields: []string{"Set-Cookie", "a=b"}}, weirhttp.Options{}},
		{"Authorization", []string{"Authorization", "x"}, &film{}, weirhttp.Options{}},
		{"no-store of the client", []string{"Cache-Control", "no-store"}, &film{}, weirhttp.Options{}},
		{"storing is off", nil, &film{}, weirhttp.Options{NoStore: true}},
		{"too big", nil, &film{}, weirhttp.Options{MaxObject: 10}},
		{"multipart", nil, &film{fields: []string{"Content-Type", "multipart/byteranges; boundary=x"}}, weirhttp.Options{}},
		{"an unknown total", nil, &film{claims: func(string) string { return "bytes 10-39/*" }}, weirhttp.Options{}},
		{"another length", nil, &film{claims: func(string) string { return "bytes 10-38/100" }}, weirhttp.Options{}},
		{"truncated", nil, &film{breaks: 5}, weirhttp.Options{}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				row.f.size, row.f.version = 100, 1
				cache, _ := weirhttp.NewCache(1 << 20)
				row.o.Cache = cache
				s := open(t, h1, row.o, row.f.ServeHTTP)
				request := append([]string{"Range", "bytes=10-39"}, row.request...)
				s.get("/a", request...)
				synctest.Wait()
				s.get("/a", request...)
				s.wantCalls(2)
				if st := cache.Stats(); st.Responses != 0 || st.Reserved != 0 {
					t.Errorf("%d responses are stored, and %d bytes reserved; want none", st.Responses, st.Reserved)
				}
			})
		})
	}
}

// Requests that a part does not answer are forwarded as they are.
func TestH29_RequestsThatPartsDoNotAnswer(t *testing.T) {
	rows := []struct {
		name    string
		request []string
		want    string // Range and If-Range at the origin
	}{
		{"two ranges", []string{"Range", "bytes=10-11,20-21"}, "bytes=10-11,20-21"},
		{"another version", []string{"Range", "bytes=10-11", "If-Range", `"0"`}, `bytes=10-11 "0"`},
		{"a condition", []string{"Range", "bytes=10-11", "If-None-Match", `"0"`}, "bytes=10-11"},
		{"no-cache", []string{"Range", "bytes=10-11", "Cache-Control", "no-cache"}, "bytes=10-11"},
		{"no-store", []string{"Range", "bytes=10-11", "Cache-Control", "no-store"}, "bytes=10-11"},
		{"credentials", []string{"Range", "bytes=10-11", "Authorization", "x"}, "bytes=10-11"},
		{"nothing of it", []string{"Range", "bytes=50-59"}, "bytes=50-59"},
		{"around it", []string{"Range", "bytes=0-59"}, "bytes=0-59"},
		{"beyond the end", []string{"Range", "bytes=100-"}, "bytes=100-"},
		{"another unit", []string{"Range", "lines=1-2"}, "lines=1-2"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &film{size: 100, version: 1}
				s := open(t, h1, weirhttp.Options{}, f.ServeHTTP)
				s.get("/a", "Range", "bytes=10-39")
				synctest.Wait()
				r := s.get("/a", row.request...)
				if got := f.last(); got != row.want || r.err != nil {
					t.Errorf("the origin got a request for %q, and the client got %d, %v; want %q", got, r.status, r.err, row.want)
				}
				s.wantCalls(2)
			})
		})
	}
}

// A stale part is as good as a fresh one to complete: the 206 proves that it is of the
// current version.
func TestH29_StalePartsAreCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &film{size: 100, version: 1}
		s := open(t, h1, weirhttp.Options{}, f.ServeHTTP)
		s.get("/a", "Range", "bytes=10-39")
		synctest.Wait()
		time.Sleep(time.Hour)
		s.get("/a", "Range", "bytes=20-59").want(t, 206, f.bytes(1)[20:60])
		if got := f.last(); got != `bytes=40-59 "1"` {
			t.Errorf("the origin got a request for %s; want bytes=40-59 of version 1", got)
		}
		synctest.Wait()
		r := s.get("/a", "Range", "bytes=10-19") // fresh again
		r.want(t, 206, f.bytes(1)[10:20])
		has(t, r, "Cache-Status", "hit; ttl=60")
	})
}

// The fill breaks off, or the origin fails: the client learns of it, and nothing of it
// is stored.
func TestH29_AGapThatIsNotFilled(t *testing.T) {
	for _, target := range []string{"a range", "the whole"} {
		t.Run(target, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &film{size: 10000, version: 1}
				fail := false
				s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
					if fail {
						w.WriteHeader(http.StatusInternalServerError)
						return
					}
					f.ServeHTTP(w, r)
				})
				request := []string{"Range", "bytes=20-9989"}
				if target == "the whole" {
					request = nil
				}
				s.get("/a", "Range", "bytes=0-39")
				synctest.Wait()
				f.set(func() { f.breaks = 5000 })
				if r := s.get("/a", request...); r.err == nil && r.status < 500 {
					t.Errorf("got %d and %d bytes without an error; want a broken response", r.status, len(r.body))
				}
				synctest.Wait()
				fail = true
				s.get("/a", request...).want(t, 500, "")
				fail = false
				f.set(func() { f.breaks = 0 })
				r := s.get("/a", request...)
				if want := f.bytes(1); request != nil && r.body != want[20:9990] || request == nil && r.body != want {
					t.Errorf("got %d bytes; want all", len(r.body))
				}
			})
		})
	}
}

// A range that the client has signed reaches the origin as it is, although a part of it is
// stored, and so do conditions.
func TestH29_SignedFieldsAreNotChanged(t *testing.T) {
	for name, signature := range map[string][]string{
		"a signature of its author": {"X-Acme-Signature", "x"},
		"RFC 9421":                  {"Signature-Input", `s=("range" "if-none-match")`, "Signature", "s=:eA==:"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &film{size: 10000, version: 1}
			var got []string
			s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.Header.Get("Range")+r.Header.Get("If-None-Match"))
				f.ServeHTTP(w, r)
			})
			s.get("/a", "Range", "bytes=0-99")
			synctest.Wait()
			s.get("/a", append(signature, "Range", "bytes=50-199")...).want(t, 206, f.bytes(1)[50:200])
			s.get("/a", append(signature, "If-None-Match", `"x"`)...)
			if want := []string{"bytes=0-99", "bytes=50-199", `"x"`}; !slices.Equal(got, want) {
				t.Errorf("%s: the origin got %q; want %q", name, got, want)
			}
		})
	}
}

// A part that is longer or shorter than its range would shift the bytes after it.
func TestH29_PartsOfAnotherLength(t *testing.T) {
	for _, longer := range []int{1, -1, 30, -15} {
		for _, request := range [][]string{nil, {"Range", "bytes=30-89"}} {
			synctest.Test(t, func(t *testing.T) {
				f := &film{size: 100, version: 1}
				s := open(t, h1, weirhttp.Options{}, f.ServeHTTP)
				s.get("/a", "Range", "bytes=0-39")
				synctest.Wait()
				s.get("/a", "Range", "bytes=60-99")
				synctest.Wait()
				f.set(func() { f.longer = longer })
				want := f.bytes(1)
				if request != nil {
					want = want[30:90]
				}
				if r := s.get("/a", request...); r.err == nil || !strings.HasPrefix(want, r.body) {
					t.Errorf("a part with %d bytes more than its range: %v got %d %q, %v; want a broken response without a wrong byte", longer, request, r.status, r.body, r.err)
				}
				synctest.Wait()
				f.set(func() { f.longer = 0 })
				if r := s.get("/a", request...); r.body != want {
					t.Errorf("then %v got %d %q; want all", request, r.status, r.body)
				}
			})
		}
	}
}

// Clients that wait for the whole share the call that completes it.
func TestH29_CompletionsAreShared(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			f := &film{size: 50000, version: 1}
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				f.ServeHTTP(w, r)
			})
			s.get("/a", "Range", "bytes=0-999")
			s.get("/a", "Range", "bytes=-100")
			synctest.Wait()
			before := s.calls.Load()
			for _, r := range s.together(20, s.same("/a")) {
				r.want(t, 200, f.bytes(1))
			}
			s.wantCalls(before + 1)
			if got := f.last(); got != `bytes=1000-49899 "1"` {
				t.Errorf("the origin got a request for %s; want bytes=1000-49899 of version 1", got)
			}
		})
	})
}
