package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/weirhttp"
)

// openCache returns a cache with a folder.
func openCache(t *testing.T, folder string) *weirhttp.Cache {
	t.Helper()
	c, err := weirhttp.NewCache(16 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.OpenFolder(weirhttp.FolderOptions{Folder: folder, Bytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	return c
}

// stop ends the process of s: in order, or by kill -9, which leaves the files as they
// are at this moment. It returns the folder for the next process.
func (s *site) stop(t *testing.T, c *weirhttp.Cache, folder string, kill bool) string {
	t.Helper()
	synctest.Wait() // the queue is written
	next := folder
	if kill {
		next = t.TempDir()
		if err := os.CopyFS(next, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.WithoutCancel(t.Context())
	if err := errors.Join(s.handler.Close(ctx), c.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	return next
}

// restarted runs before with a site, and after with one that has its folder. It does
// so for a stop and for kill -9.
func restarted(t *testing.T, o weirhttp.Options, origin http.HandlerFunc, before, after func(t *testing.T, s *site, c *weirhttp.Cache)) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprint("kill ", kill), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				folder := filepath.Join(t.TempDir(), "cache")
				o.Cache = openCache(t, folder)
				s := open(t, h1, o, origin)
				before(t, s, o.Cache)
				folder = s.stop(t, o.Cache, folder, kill)
				o.Cache = openCache(t, folder)
				s = open(t, h1, o, origin)
				after(t, s, o.Cache)
				s.stop(t, o.Cache, folder, false)
			})
		})
	}
}

func shopOrigin(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	switch r.URL.Path {
	case "/fresh", "/purged", "/expired", "/posted", "/all":
		h.Set("Cache-Control", "max-age=3600, stale-if-error=3600")
		h.Set("Surrogate-Key", "all"+strings.ReplaceAll(r.URL.Path, "/", " of-"))
	case "/short":
		h.Set("Cache-Control", "max-age=10")
	case "/validated":
		h.Set("Cache-Control", "max-age=10")
		h.Set("Etag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	case "/stale":
		h.Set("Cache-Control", "max-age=10, stale-while-revalidate=3600")
	case "/vary":
		h.Set("Cache-Control", "max-age=3600")
		h.Set("Vary", "X-Color")
		_, _ = io.WriteString(w, r.Header.Get("X-Color"))
	case "/large":
		h.Set("Cache-Control", "max-age=3600")
		_, _ = w.Write(largeBody())
	}
	_, _ = io.WriteString(w, r.URL.Path)
}

func largeBody() []byte {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte('a' + i/1000%26)
	}
	return b
}

func TestH28_WarmAfterARestart(t *testing.T) {
	all := []string{"/fresh", "/purged", "/expired", "/short", "/validated", "/stale", "/large"}
	restarted(t, weirhttp.Options{}, shopOrigin, func(t *testing.T, s *site, c *weirhttp.Cache) {
		for _, path := range all {
			s.get(path)
		}
		for _, color := range []string{"red", "blue"} {
			s.get("/vary", "X-Color", color)
		}
		if n, err := c.Invalidate(t.Context(), "http", "shop.example", "/purged"); n != 1 || err != nil {
			t.Errorf("Invalidate = %d, %v; want 1", n, err)
		}
		if n, err := c.Expire(t.Context(), "http", "shop.example", "/expired"); n != 1 || err != nil {
			t.Errorf("Expire = %d, %v; want 1", n, err)
		}
	}, func(t *testing.T, s *site, c *weirhttp.Cache) {
		time.Sleep(2 * time.Second)
		if e := s.handler.Explain(s.request(t.Context(), "GET", "/fresh")); !strings.Contains(strings.Join(e.Steps, " "), "the folder does") {
			t.Errorf("Explain = %q; want it to name the folder", e.Steps)
		}
		r := s.get("/fresh")
		r.want(t, 200, "/fresh")
		has(t, r, "Age", "2")
		has(t, r, "Cache-Status", "weir; hit")
		s.get("/vary", "X-Color", "red").want(t, 200, "red/vary")
		s.get("/vary", "X-Color", "blue").want(t, 200, "blue/vary")
		s.get("/large").want(t, 200, string(largeBody())+"/large")
		s.do(s.request(t.Context(), "HEAD", "/fresh")).want(t, 200, "")
		s.wantCalls(0)
		if st := c.Stats().Folder; st == nil || st.Hits < 4 || st.Responses < 7 || st.Errors+st.Damaged > 0 {
			t.Errorf("Folder = %+v; want hits, and responses without damage", st)
		}
		s.get("/fresh", "Authorization", "Basic x") // it may not see it
		s.wantCalls(1)
		s.get("/vary", "X-Color", "green").want(t, 200, "green/vary")
		s.get("/purged").want(t, 200, "/purged")
		s.get("/expired").want(t, 200, "/expired")
		s.wantCalls(4)

		time.Sleep(10 * time.Second)
		s.get("/short").want(t, 200, "/short")
		s.wantCalls(5)
		r = s.get("/validated")
		r.want(t, 200, "/validated")
		has(t, r, "Cache-Status", "fwd-status=304")
		s.wantCalls(6)
		s.get("/stale").want(t, 200, "/stale")
		synctest.Wait()
		s.wantCalls(7) // in the background
	})
}

// Every way to invalidate reaches the folder, also for what memory has evicted, and
// what was purged does not come back.
func TestH28_PurgesReachTheFolder(t *testing.T) {
	for _, row := range []struct {
		name    string
		purge   func(t *testing.T, s *site, c *weirhttp.Cache)
		gone    []string
		expired bool
	}{
		{"by tag", func(t *testing.T, _ *site, c *weirhttp.Cache) {
			mustPurge(t, c.InvalidateTags(t.Context(), "of-purged"))
		}, []string{"/purged"}, false},
		{"by tag, expired", func(t *testing.T, _ *site, c *weirhttp.Cache) { mustPurge(t, c.ExpireTags(t.Context(), "of-purged")) }, []string{"/purged"}, true},
		{"everything", func(t *testing.T, _ *site, c *weirhttp.Cache) { mustPurge(t, c.InvalidateAll(t.Context())) }, []string{"/purged", "/fresh"}, false},
		{"everything, expired", func(t *testing.T, _ *site, c *weirhttp.Cache) { mustPurge(t, c.ExpireAll(t.Context())) }, []string{"/purged", "/fresh"}, true},
		{"by a POST", func(t *testing.T, s *site, _ *weirhttp.Cache) { s.do(s.request(t.Context(), "POST", "/purged")) }, []string{"/purged"}, false},
		{"by URL", func(t *testing.T, _ *site, c *weirhttp.Cache) {
			_, err := c.Invalidate(t.Context(), "http", "shop.example", "/purged")
			mustPurge(t, err)
		}, []string{"/purged"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			broken := false
			origin := func(w http.ResponseWriter, r *http.Request) {
				if broken {
					w.WriteHeader(500)
					return
				}
				shopOrigin(w, r)
			}
			restarted(t, weirhttp.Options{}, origin, func(t *testing.T, s *site, c *weirhttp.Cache) {
				broken = false
				s.get("/purged")
				s.get("/fresh")
				row.purge(t, s, c)
			}, func(t *testing.T, s *site, _ *weirhttp.Cache) {
				broken = true
				for _, path := range []string{"/purged", "/fresh"} {
					gone := path == "/purged" || len(row.gone) > 1
					r := s.get(path)
					switch {
					case gone && !row.expired && r.status != 500:
						t.Errorf("%s: %d %q after its purge; want the origin's 500", path, r.status, r.body)
					case gone && row.expired && (r.status != 200 || s.calls.Load() == 0):
						t.Errorf("%s: %d after it was expired; want the stale response, after a call", path, r.status)
					case !gone && (r.status != 200 || !strings.Contains(r.header.Get("Cache-Status"), "hit")):
						t.Errorf("%s: %d, %s; want a hit", path, r.status, r.header.Get("Cache-Status"))
					}
				}
			})
		})
	}
}

func mustPurge(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// A large body is sent from the disk, and is not loaded into memory. If it is damaged,
// the client gets a broken transfer.
func TestH28_LargeBodiesAreSentFromTheFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "cache")
		c := openCache(t, folder)
		s := open(t, h1, weirhttp.Options{Cache: c}, shopOrigin)
		s.get("/large")
		folder = s.stop(t, c, folder, false)
		c = openCache(t, folder)
		s = open(t, h1, weirhttp.Options{Cache: c}, shopOrigin)
		whole := string(largeBody()) + "/large"
		s.get("/large").want(t, 200, whole)
		s.get("/large", "Range", "bytes=70000-140000").want(t, 206, whole[70000:140001])
		r := s.do(s.request(t.Context(), "HEAD", "/large"))
		if r.want(t, 200, ""); r.header.Get("Content-Length") != fmt.Sprint(len(whole)) {
			t.Errorf("HEAD has Content-Length %s; want %d", r.header.Get("Content-Length"), len(whole))
		}
		if st := c.Stats(); st.Responses != 0 || st.Used != 0 {
			t.Errorf("%d responses in memory; want none", st.Responses)
		}
		s.wantCalls(0)
		files, _ := filepath.Glob(filepath.Join(folder, "*.segment"))
		f, err := os.OpenFile(files[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("!"), 500_000); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if r := s.get("/large"); r.err == nil || !strings.HasPrefix(whole, r.body) {
			t.Errorf("a damaged body: %d bytes, %v; want a part of it and an error", len(r.body), r.err)
		}
		s.get("/large").want(t, 200, whole)
		s.wantCalls(1)
		s.stop(t, c, folder, false)
	})
}

// Responses to credentials are not written. A response that a policy stored is not used under
// another one.
func TestH28_WhoseResponsesAreInTheFolder(t *testing.T) {
	const secret = "Bearer geheim"
	personal := weirhttp.Options{Policy: weirhttp.Policy{Vary: []string{"Authorization"}}}
	origin := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = io.WriteString(w, "for "+r.Header.Get("Authorization"))
	}
	restarted(t, personal, origin, func(t *testing.T, s *site, c *weirhttp.Cache) {
		s.get("/", "Authorization", secret).want(t, 200, "for "+secret)
		s.get("/", "Authorization", secret).want(t, 200, "for "+secret)
		s.wantCalls(1)
		s.get("/").want(t, 200, "for ")
		synctest.Wait()
		if st := c.Stats().Folder; st.Written != 1 {
			t.Errorf("%d responses written; want the anonymous one", st.Written)
		}
	}, func(t *testing.T, s *site, _ *weirhttp.Cache) {
		s.get("/").want(t, 200, "for ")
		s.wantCalls(0)
		s.get("/", "Authorization", secret).want(t, 200, "for "+secret)
		s.wantCalls(1)
	})
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		for i, o := range []weirhttp.Options{{}, {}, {Policy: weirhttp.Policy{IgnoreHeaders: []string{"X-Tenant"}}}} {
			o.Cache = openCache(t, folder)
			s := open(t, h1, o, shopOrigin)
			s.get("/fresh", "X-Tenant", "a").want(t, 200, "/fresh")
			s.wantCalls([]int64{1, 0, 1}[i])
			s.stop(t, o.Cache, folder, false)
		}
	})
}

// In a fleet, a response from the folder is used once the engine has the same one.
func TestH28_AFleetIsAskedBeforeTheFolderIsTrusted(t *testing.T) {
	for _, row := range []struct {
		name  string
		while func(t *testing.T, other *weirhttp.Cache) // nil: the engine is away afterwards
		calls int64
	}{
		{"unchanged", func(*testing.T, *weirhttp.Cache) {}, 0},
		{"purged meanwhile", func(t *testing.T, other *weirhttp.Cache) {
			_, err := other.Invalidate(t.Context(), "http", "shop.example", "/fresh")
			mustPurge(t, err)
		}, 1},
		{"purged by tag meanwhile", func(t *testing.T, other *weirhttp.Cache) {
			mustPurge(t, other.InvalidateTags(t.Context(), "of-fresh"))
		}, 1},
		{"no engine", nil, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tier := fleet.NewMemory(fleet.MemoryOptions{})
				defer tier.Close(context.WithoutCancel(t.Context()))
				line := fleettest.NewFaults(tier)
				folder := t.TempDir()
				shared := weirhttp.FleetOptions{Config: fleet.Config{Tier: line}}
				o := weirhttp.Options{Fleet: shared, Cache: openCache(t, folder)}
				s := open(t, h1, o, shopOrigin)
				s.get("/fresh").want(t, 200, "/fresh")
				folder = s.stop(t, o.Cache, folder, false)

				other, err := weirhttp.NewCache(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				if err := other.JoinFleet(weirhttp.FleetOptions{Config: fleet.Config{Tier: tier}}); err != nil {
					t.Fatal(err)
				}
				if row.while != nil {
					row.while(t, other)
				}
				o.Cache = openCache(t, folder)
				s = open(t, h1, o, shopOrigin)
				if row.while == nil {
					line.Cut()
				}
				s.get("/fresh").want(t, 200, "/fresh")
				s.wantCalls(row.calls)
				line.Mend()
				s.stop(t, o.Cache, folder, false)
				mustPurge(t, other.Close(context.WithoutCancel(t.Context())))
			})
		})
	}
}

// A hit in memory allocates no more with a folder than without.
func TestH28_AHitInMemoryAllocatesNoMore(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	hit := func(c *weirhttp.Cache) float64 {
		h, err := weirhttp.New(http.HandlerFunc(shopOrigin), weirhttp.Options{Cache: c})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		r := httptest.NewRequest("GET", "http://shop.example/fresh", nil)
		h.ServeHTTP(httptest.NewRecorder(), r)
		w := &discard{header: http.Header{}}
		return testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) })
	}
	plain, err := weirhttp.NewCache(16 << 20)
	if err != nil {
		t.Fatal(err)
	}
	with := openCache(t, t.TempDir())
	defer with.Close(t.Context())
	if a, b := hit(plain), hit(with); b > a {
		t.Errorf("a hit allocates %v times with a folder, %v without; want no more", b, a)
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func TestH28_OpenFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	c := openCache(t, folder)
	if err := c.OpenFolder(weirhttp.FolderOptions{Folder: folder}); !errors.Is(err, weirhttp.ErrFolder) {
		t.Errorf("OpenFolder with a folder open = %v; want ErrFolder", err)
	}
	other, err := weirhttp.NewCache(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.OpenFolder(weirhttp.FolderOptions{Folder: folder}); !errors.Is(err, weirhttp.ErrFolderInUse) || !strings.Contains(err.Error(), folder) {
		t.Errorf("OpenFolder of a folder in use = %v; want ErrFolderInUse, with its name", err)
	}
	var fault *weirhttp.OptionError
	if err := other.OpenFolder(weirhttp.FolderOptions{Folder: folder, Bytes: 1, Objects: -1}); !errors.As(err, &fault) || !strings.Contains(err.Error(), "FolderOptions.Objects") {
		t.Errorf("OpenFolder = %v; want an OptionError for each fault", err)
	}
	if err := other.OpenFolder(weirhttp.FolderOptions{}); err != nil || other.Stats().Folder != nil {
		t.Errorf("OpenFolder without a folder = %v, stats %+v; want nothing", err, other.Stats().Folder)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := other.OpenFolder(weirhttp.FolderOptions{Folder: folder}); err != nil {
		t.Errorf("OpenFolder after Close = %v; want nil", err)
	}
	_ = other.Close(t.Context())
}
